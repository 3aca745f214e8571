"""Topic files of all years, read into one conversation model."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from ..errors import DataError
from .frame import object_frame

NUMBER = ("number", "conv_id")
TURNS = ("turns", "responses")
TURN_ID = ("turn_id",)
UTTERANCE = ("utterance", "user_utterance")
RESPONSE = ("response",)
RESOLVED = ("resolved_utterance",)
STATEMENTS = ("ptkb_provenance", "relevant_ptkbs")
PASSAGES = ("response_provenance", "citations")
OPTIONAL = (RESOLVED, STATEMENTS, PASSAGES)
"""Gold fields that a file may lack altogether; one that only some of its turns have is an error."""

KINDS = {str: "a string", int: "a whole number", dict: "an object", list: "an array"}


@dataclass(frozen=True)
class Turn:
    """One exchange: the user's utterance and what the organisers wrote for it.

    Attributes:
        turn_id: the turn's number in its conversation, from 1.
        utterance: the user's words as they are.
        response: the gold answer.
        resolved: the manual rewrite; empty where the file has none.
        statements: ids of the gold PTKB statements, in the file's order, each once.
        passages: ids of the gold passages, in the file's order, each once.
    """

    turn_id: int
    utterance: str
    response: str
    resolved: str = ""
    statements: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conversation:
    """One conversation of one user.

    Attributes:
        number: its name, ``"9-1"``; a number in the file becomes a string.
        title: its subject; not to be used by systems.
        ptkb: statement id -> statement; the ids of a list are ``"1"``, ``"2"``, ...
        turns: the turns in order.
    """

    number: str
    title: str = ""
    ptkb: dict[str, str] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()

    def qid(self, turn: Turn) -> str:
        """The id of ``turn`` in runs and qrels: ``<number>_<turn_id>``."""
        return f"{self.number}_{turn.turn_id}"


@dataclass(frozen=True)
class Place:
    """Where in a topics file we are; every error names it."""

    path: Path
    conversation: str = ""
    turn: str = ""

    def fail(self, wrong: str, repair: str) -> NoReturn:
        """Raise the DataError for this place."""
        where = "".join([f", conversation {self.conversation}" * bool(self.conversation), f", turn {self.turn}" * bool(self.turn)])
        raise DataError(f"{self.path}{where}: {wrong}; {repair}")


def read_topics(path: str | Path) -> list[Conversation]:
    """Read a topics file of TREC iKAT 2023, 2024 or 2025.

    Args:
        path: a JSON file: an array of conversations in any of the three schemas.

    Returns:
        The conversations in the file's order.

    Raises:
        DataError: when the file is missing, cut short, of another shape, or contradicts itself (repeated conversations or turns,
            gold statements that the PTKB lacks); the message names file, conversation, turn and field.

    Example:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "topics.json"
        >>> turn = {"turn_id": 1, "user_utterance": "Which tea?", "response": "Rooibos.", "relevant_ptkbs": ["I avoid  caffeine."]}
        >>> _ = path.write_text(json.dumps([{"number": 7, "ptkb": ["I like tea.", "I avoid caffeine."], "responses": [turn]}]))
        >>> chat = read_topics(path)[0]
        >>> chat.number, chat.turns[0].statements
        ('7', ('2',))
    """
    path = Path(path)
    items = _load(path)
    known = {name for item in items for turn in _turn_objects(item) for name in turn}
    conversations: list[Conversation] = []
    for position, item in enumerate(items, 1):
        conversation = _conversation(Place(path, f"at position {position}"), item, known)
        if any(conversation.number == other.number for other in conversations):
            Place(path, conversation.number).fail("the number occurs twice", "give every conversation its own")
        conversations.append(conversation)
    return conversations


def _load(path: Path) -> list[Any]:
    place = Place(path)
    try:
        loaded = json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=lambda pairs: _unique(place, pairs))
    except FileNotFoundError:
        place.fail("no such file", "give the path of a topics file such as 2023_test_topics.json")
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        place.fail(f"not a readable JSON file ({error})", "it may be cut short: fetch it again")
    if not isinstance(loaded, list) or not loaded:
        place.fail(f"expected a JSON array of conversations, found {_shown(loaded)}", "give a topics file of TREC iKAT 2023, 2024 or 2025")
    return loaded


def _unique(place: Place, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        place.fail(f"the key {twice!r} occurs twice in one object (with {', '.join(map(repr, built))})", "keep one of the two")
    return built


def _turn_objects(item: Any) -> Iterator[dict[str, Any]]:
    turns = next((item[name] for name in TURNS if name in item), None) if isinstance(item, dict) else None
    yield from (turn for turn in turns if isinstance(turn, dict)) if isinstance(turns, list) else ()


def _conversation(place: Place, item: Any, known: set[str]) -> Conversation:
    if not isinstance(item, dict):
        place.fail(f"expected an object, found {_shown(item)}", "a topics file is an array of conversations")
    number = str(_value(place, item, NUMBER, str, int)).strip()
    if not number or len(number.split()) > 1:
        place.fail(f"the number {number!r} can't be part of a qid", "use a name without spaces, such as 9-1")
    place = Place(place.path, number)
    ptkb = _ptkb(place, _value(place, item, ("ptkb",), dict, list))
    turns: list[Turn] = []
    for position, entry in enumerate(_value(place, item, TURNS, list), 1):
        turn = _turn(Place(place.path, number, f"at position {position}"), entry, ptkb, known)
        if turns and turn.turn_id <= turns[-1].turn_id:
            place.fail(f"turn {turn.turn_id} follows turn {turns[-1].turn_id}", "turn ids rise and none is repeated")
        turns.append(turn)
    if not turns:
        place.fail("it has no turns", "remove it or fetch the file again")
    return Conversation(number, str(item.get("title", "")), ptkb, tuple(turns))


def _ptkb(place: Place, ptkb: dict[str, Any] | list[Any]) -> dict[str, str]:
    statements = ptkb if isinstance(ptkb, dict) else {str(position): statement for position, statement in enumerate(ptkb, 1)}
    for name, statement in statements.items():
        if not isinstance(statement, str):
            place.fail(f"statement {name} of ptkb is {_shown(statement)}", "every statement is a string")
    return statements


def _turn(place: Place, item: Any, ptkb: dict[str, str], known: set[str]) -> Turn:
    if not isinstance(item, dict):
        place.fail(f"expected an object, found {_shown(item)}", "turns is an array of turns")
    turn_id = _value(place, item, TURN_ID, int)
    place = Place(place.path, place.conversation, str(turn_id))
    gold = {names: _value(place, item, names, str if names is RESOLVED else list) for names in OPTIONAL if known.intersection(names)}
    utterance = _value(place, item, UTTERANCE, str)
    if not utterance.strip():
        place.fail("the utterance is empty", "every turn has words of the user")
    return Turn(
        turn_id=turn_id,
        utterance=utterance,
        response=_value(place, item, RESPONSE, str),
        resolved=gold.get(RESOLVED, ""),
        statements=_once(_statement_id(place, entry, ptkb) for entry in gold.get(STATEMENTS, [])),
        passages=_once(_passage_id(place, entry) for entry in gold.get(PASSAGES, [])),
    )


def _value(place: Place, item: dict[str, Any], names: tuple[str, ...], *kinds: type) -> Any:
    name = next((name for name in names if name in item), None)
    if name is None:
        wanted = " or ".join(names)
        place.fail(f"the field {wanted} is missing (there are {', '.join(item) or 'no fields'})", f"add {wanted}, or fetch the file again")
    if not isinstance(item[name], kinds) or isinstance(item[name], bool):
        place.fail(f"the field {name} is {_shown(item[name])}", f"it has to be {' or '.join(KINDS[kind] for kind in kinds)}")
    return item[name]


def _statement_id(place: Place, entry: Any, ptkb: dict[str, str]) -> str:
    """Gold statements are ids (2023, 2024) or the statements' own words (2025)."""
    if str(entry) in ptkb:
        return str(entry)
    matches = [name for same in (str, _normal) for name, statement in ptkb.items() if same(statement) == same(str(entry))]
    if not matches:
        place.fail(f"the gold statement {entry!r} is not in the conversation's ptkb", "give the id or the exact words of a statement of it")
    return matches[0]


def _passage_id(place: Place, entry: Any) -> str:
    if not isinstance(entry, str) or len(entry.split()) != 1:
        place.fail(f"the gold passage {_shown(entry)} is no passage id", "an id looks like clueweb22-en0035-25-01897:1")
    return entry


def _once(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


__all__ = ["Conversation", "Turn", "answers_frame", "provenance_qrels", "ptkb_qrels", "read_topics", "topics_frame"]

TOPIC_COLUMNS = ("qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn")
MANUAL_COLUMNS = ("qresolved", "qgoldptkb")


def topics_frame(conversations: Iterable[Conversation], manual: bool = False) -> pd.DataFrame:
    """The turn frame of ``conversations``: one row per turn, see :mod:`pyterrier_ikat.conversations.frame`.

    The history of turn t is turns 1..t-1 of the same conversation: raw utterances and gold responses, as the track
    allows (an automatic run knows the canonical past, nothing of turn t's own answer or of any manual rewrite).

    Args:
        conversations: what :func:`read_topics` gave.
        manual: also give what only a manual run may use: ``qresolved``, the manual rewrite (the utterance where there is none),
            and ``qgoldptkb``, the list of the ids of the gold statements.

    Returns:
        ``qid``, ``query`` and ``qutterance`` (the raw utterance), ``qhistory``, ``qptkb``, ``qconversation``, ``qturn``, and with
        ``manual`` ``qresolved`` and ``qgoldptkb``. Histories share their messages, the turns of a conversation their PTKB: don't
        change them in place.

    Example:
        >>> tea = Turn(1, "Which tea is best?", "Rooibos.", "Which tea has no caffeine?", ("1",))
        >>> chat = Conversation("1-1", ptkb={"1": "I avoid caffeine."}, turns=(tea, Turn(2, "Does it help sleep?", "A little.")))
        >>> topics_frame([chat])["qhistory"].tolist()[1]
        [{'role': 'user', 'content': 'Which tea is best?'}, {'role': 'assistant', 'content': 'Rooibos.'}]
        >>> topics_frame([chat], manual=True)["qresolved"].tolist()
        ['Which tea has no caffeine?', 'Does it help sleep?']
    """
    names = TOPIC_COLUMNS + MANUAL_COLUMNS * manual
    rows = [row for conversation in conversations for row in _rows(conversation)]
    return object_frame({name: [row[name] for row in rows] for name in names})


def answers_frame(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """The gold answers: ``qid``, ``gold_answer``; for evaluation, never for a system."""
    pairs = [(conversation.qid(turn), turn.response) for conversation in conversations for turn in conversation.turns]
    return object_frame({"qid": [qid for qid, _ in pairs], "gold_answer": [answer for _, answer in pairs]})


def provenance_qrels(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """Binary passage qrels from the gold provenance: ``qid``, ``docno``, ``label`` (1); a turn without provenance has no row."""
    turns = ((conversation.qid(turn), turn) for conversation in conversations for turn in conversation.turns)
    return qrels_frame((qid, docno, 1) for qid, turn in turns for docno in turn.passages)


def ptkb_qrels(conversations: Iterable[Conversation]) -> pd.DataFrame:
    """PTKB qrels from the topics' own gold statements.

    Returns:
        ``qid``, ``docno`` (the statement id), ``label`` (0 or 1): every statement of the conversation for each of its turns.
    """
    turns = ((conversation, turn) for conversation in conversations for turn in conversation.turns)
    return qrels_frame((chat.qid(turn), name, int(name in turn.statements)) for chat, turn in turns for name in chat.ptkb)


def qrels_frame(rows: Iterable[tuple[str, str, int]]) -> pd.DataFrame:
    """A qrels frame ``qid``, ``docno``, ``label`` (int64) from such triples."""
    triples = list(rows)
    frame = object_frame({name: [triple[i] for triple in triples] for i, name in enumerate(("qid", "docno", "label"))})
    return frame.astype({"label": "int64"})


def _rows(conversation: Conversation) -> Iterator[dict[str, object]]:
    messages: list[dict[str, str]] = []
    for turn in conversation.turns:
        yield {
            "qid": conversation.qid(turn),
            "query": turn.utterance,
            "qutterance": turn.utterance,
            "qhistory": list(messages),
            "qptkb": conversation.ptkb,
            "qconversation": conversation.number,
            "qturn": turn.turn_id,
            "qresolved": turn.resolved if turn.resolved.strip() else turn.utterance,
            "qgoldptkb": list(turn.statements),
        }
        messages += [{"role": "user", "content": turn.utterance}, {"role": "assistant", "content": turn.response}]
