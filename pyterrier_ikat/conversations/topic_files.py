"""Files of turns, read into conversations: a JSON file of iKAT or CAsT in any of their schemas, or your own lines of messages."""

import re
import warnings
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from ..errors import list_first
from .cast import EACH_ONCE, cast_conversation
from .cast import TURNS as TURNS_OF_CAST
from .json_files import Place, conversations_in, excerpt, load_array, load_json, value_of
from .topics import ANSWERABILITY, Conversation, Message, TopicTurn

TURNS = ("turns", "responses")
UTTERANCE = ("utterance", "user_utterance")
RESOLVED = ("resolved_utterance",)
STATEMENTS = ("ptkb_provenance", "relevant_ptkbs")
PASSAGES = ("response_provenance", "citations")
GOLD = ((RESOLVED, str), (STATEMENTS, list), (PASSAGES, list))
"""Gold fields that a file may lack altogether. A field that only some of its turns have is an error."""

FIELDS = ("qid", "messages", "ptkb", "resolved", "answer", "answerability")
LINE = '{"qid": "tea_2", "messages": [{"role": "user", "content": "Which tea?"}, ...]}'


class CollectionWarning(UserWarning):
    """Something in a collection's folder is doubtful. The message names file and line."""


def read_topics(path: str | Path) -> list[Conversation]:
    """Read a topics file of TREC iKAT 2023, 2024 or 2025, of TREC CAsT, or one of your own.

    Args:
        path: a JSON file: an array of conversations in any of iKAT's three schemas, or topics of CAsT (without PTKB; in the trees of 2022,
            the history of a turn is the messages above it). Or a ``.jsonl`` file with one turn per line, ``{"qid": "tea_2", "messages":
            [{"role": "user" | "assistant", "content": text}, ...]}``. The last message is the user's question, and the others are its
            history. A line may also have ``ptkb``, the known facts about the user (an object id -> statement or a list of statements). For
            evaluation only, it may have ``resolved``, the question as it would be asked without its history, ``answer``, a good answer, and
            ``answerability``, whether the collection has an answer, one of :data:`~pyterrier_ikat.conversations.topics.ANSWERABILITY`.

    Returns:
        The conversations in the file's order. From lines, consecutive turns with qids ``<conversation>_<number>`` and the same PTKB become
        one conversation. Any other turn is its own conversation.

    Warns:
        CollectionWarning: for a line with two messages of the same role in a row, an empty message in its history, or an unknown field.

    Raises:
        DataError: when the file is missing, truncated, in another format, or contradicts itself (repeated conversations or turns, gold
            statements that the PTKB lacks). The message names file, conversation and turn, or line, and field.

    Example:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "topics.json"
        >>> turn = {"turn_id": 1, "user_utterance": "Which tea?", "response": "Rooibos.", "relevant_ptkbs": ["I avoid  caffeine."]}
        >>> _ = path.write_text(json.dumps([{"number": 7, "ptkb": ["I like tea.", "I avoid caffeine."], "responses": [turn]}]))
        >>> chat = read_topics(path)[0]
        >>> chat.number, chat.turns[0].statements
        ('7', ('2',))
    """
    place = Place(Path(path))
    return _read_lines(place) if place.path.suffix == ".jsonl" else _read_array(place)


def _statements(ptkb: dict[str, Any] | list[Any], place: Place) -> dict[str, str]:
    """The statements by id. The ids for a list are ``"1"``, ``"2"``, ..."""
    statements = ptkb if isinstance(ptkb, dict) else {str(position): statement for position, statement in enumerate(ptkb, 1)}
    for name, statement in statements.items():
        if not isinstance(statement, str):
            place.fail(f"statement {name} of ptkb is {excerpt(statement)}", "every statement is a string")
    return statements


def _read_array(place: Place) -> list[Conversation]:
    items = load_array(place)
    known = {name for item in items if isinstance(item, dict) for turn in _turns_in(item) if isinstance(turn, dict) for name in turn}

    def read(place: Place, number: str, item: dict[str, Any]) -> Conversation:
        return cast_conversation(place, number, item) if TURNS_OF_CAST in item else _conversation(place, number, item, known)

    of_cast = any(isinstance(item, dict) and TURNS_OF_CAST in item for item in items)
    return conversations_in(place, items, read, EACH_ONCE if of_cast else "give every conversation its own")


def _turns_in(item: Mapping[str, Any]) -> Iterable[Any]:
    return next((item[name] for name in TURNS if isinstance(item.get(name), list)), ())


def _conversation(place: Place, number: str, item: dict[str, Any], known: set[str]) -> Conversation:
    ptkb = _statements(value_of(place, item, ("ptkb",), dict, list), place)
    turns: list[TopicTurn] = []
    for position, entry in enumerate(value_of(place, item, TURNS, list), 1):
        turn = _turn(place, position, entry, ptkb, known)
        if turns and turn.turn_id <= turns[-1].turn_id:
            place.fail(f"turn {turn.turn_id} follows turn {turns[-1].turn_id}", "turn ids rise and none is repeated")
        turns.append(turn)
    if not turns:
        place.fail("it has no turns", "remove it or fetch the file again")
    return Conversation(number, str(item.get("title", "")), ptkb, tuple(turns))


def _turn(chat: Place, position: int, item: Any, ptkb: dict[str, str], known: set[str]) -> TopicTurn:
    place = chat.at(*chat.within, f"turn at position {position}")
    if not isinstance(item, dict):
        place.fail(f"expected an object, found {excerpt(item)}", "turns is an array of turns")
    turn_id = value_of(place, item, ("turn_id",), int)
    place = chat.at(*chat.within, f"turn {turn_id}")
    gold = {names: value_of(place, item, names, kind) for names, kind in GOLD if known.intersection(names)}
    utterance = value_of(place, item, UTTERANCE, str)
    if not utterance.strip():
        place.fail("the utterance is empty", "every turn has words of the user")
    return TopicTurn(
        turn_id,
        utterance,
        value_of(place, item, ("response",), str),
        gold.get(RESOLVED, ""),
        tuple(dict.fromkeys(_statement_id(place, entry, ptkb) for entry in gold.get(STATEMENTS, []))),
        tuple(dict.fromkeys(_passage_id(place, entry) for entry in gold.get(PASSAGES, []))),
    )


def _statement_id(place: Place, entry: Any, ptkb: dict[str, str]) -> str:
    """The id of a gold statement, which is given as an id (2023, 2024) or in the statement's words (2025)."""
    if str(entry) in ptkb:
        return str(entry)
    matches = [name for same in (str, _normal) for name, statement in ptkb.items() if same(statement) == same(str(entry))]
    if not matches:
        place.fail(f"the gold statement {entry!r} is not in the conversation's ptkb", "give the id or the exact words of a statement of it")
    return matches[0]


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()


def _passage_id(place: Place, entry: Any) -> str:
    if not isinstance(entry, str) or len(entry.split()) != 1:
        place.fail(f"the gold passage {excerpt(entry)} is not a passage id", "an id looks like clueweb22-en0035-25-01897:1")
    return entry


def _read_lines(place: Place) -> list[Conversation]:
    try:
        content = place.path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        place.fail(f"can't be read ({error.strerror})", f"give a file of lines {LINE}")
    except UnicodeDecodeError as error:
        place.at(f"line {content[: error.start].count(10) + 1}").fail(f"not UTF-8 ({error})", "save the file as UTF-8")
    found: list[tuple[str, dict[str, str], TopicTurn]] = []
    first: dict[str, int] = {}
    doubts: dict[str, list[int]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        here = place.at(f"line {number}")
        item = load_json(line, here, "not JSON", f"a line is {LINE}")
        conversation, ptkb, turn = _turn_on_line(here, item)
        if first.setdefault(turn.qid, number) != number:
            here.fail(f"the qid {turn.qid!r} was there before, in line {first[turn.qid]}", "give each turn its own")
        for doubt in _doubts(item):
            doubts.setdefault(doubt, []).append(number)
        found.append((conversation, ptkb, turn))
    if not found:
        place.fail("no turn in it", f"a line is {LINE}")
    for doubt, lines in doubts.items():
        where = f"line{'s' * (len(lines) > 1)} {list_first(lines)}"
        warnings.warn(f"{place.path}, {where}: {doubt}", CollectionWarning, stacklevel=4)
    groups = groupby(found, key=lambda entry: entry[:2])
    return [Conversation(name, ptkb=ptkb, turns=tuple(turn for *_, turn in group)) for (name, ptkb), group in groups]


def _turn_on_line(place: Place, item: Any) -> tuple[str, dict[str, str], TopicTurn]:
    """A turn, with the name and the persona of its conversation."""
    if not isinstance(item, dict):
        place.fail(f"expected an object, found {excerpt(item)}", f"a line is {LINE}")
    qid, ptkb, messages = item.get("qid"), item.get("ptkb"), item.get("messages")
    if not isinstance(qid, str) or qid.split() != [qid]:
        place.fail(f"the qid is {excerpt(qid)}", "give a text without white space, such as tea_2")
    if not isinstance(messages, list) or not messages:
        place.fail(f"messages is {excerpt(messages)}", f"a line is {LINE}")
    *history, last = [_message(place, position, message) for position, message in enumerate(messages, 1)]
    if last["role"] != "user" or not last["content"].strip():
        place.fail(f"the last message is {excerpt(last)}", "it is the turn: words of the user, to be answered")
    for name in ("resolved", "answer"):
        if not isinstance(item.get(name), str | None):
            place.fail(f"{name} is {excerpt(item[name])}", "give a text, or omit it")
    if (label := item.get("answerability")) not in (None, *ANSWERABILITY):
        place.fail(f"answerability is {excerpt(label)}", f"give one of {', '.join(ANSWERABILITY)}, or omit it")
    if not isinstance(ptkb, dict | list | None):
        place.fail(f"ptkb is {excerpt(ptkb)}", "give an object id -> statement, or a list of statements")
    of = re.fullmatch(r"(.+)_([0-9]{1,9})", qid)
    turn_id = int(of[2]) if of else sum(message["role"] == "user" for message in messages)
    gold: dict[str, Any] = {"response": item.get("answer") or "", "resolved": item.get("resolved") or "", "answerability": label or ""}
    turn = TopicTurn(turn_id, last["content"], **gold, qid=qid, history=tuple(history))
    return of[1] if of else qid, _statements(ptkb or {}, place), turn


def _message(place: Place, position: int, message: Any) -> Message:
    fields = message if isinstance(message, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    if role not in ("user", "assistant") or not isinstance(content, str):
        place.fail(f"message {position} is {excerpt(message)}", 'give {"role": "user" or "assistant", "content": text}')
    return {"role": role, "content": content}


def _doubts(item: dict[str, Any]) -> list[str]:
    messages = item["messages"]
    pairs = zip(messages, messages[1:], strict=False)
    return [
        *(f"nothing reads the field {name!r}; there are {', '.join(FIELDS)}" for name in item if name not in FIELDS),
        *["two messages of the same role in a row"] * any(one["role"] == other["role"] for one, other in pairs),
        *["an empty message in the history"] * (not all(message["content"].strip() for message in messages)),
    ]
