"""The topics files of the track, read into conversations; those of lines of messages are read by :mod:`.message_lines`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..errors import DataError
from .message_lines import once_each, ptkb_of, read_message_lines, shown
from .topics import Conversation, Turn

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
    """Read a topics file of TREC iKAT 2023, 2024 or 2025, or one of your own.

    Args:
        path: a JSON file: an array of conversations in any of the three schemas; or a ``.jsonl`` file of one turn per line,
            ``{"qid", "messages": [{"role", "content"}, ...]}``, see :func:`~pyterrier_ikat.conversations.message_lines.read_message_lines`.

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
    if path.suffix == ".jsonl":
        return read_message_lines(path)
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
        loaded = json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=lambda pairs: once_each(pairs, place.fail))
    except FileNotFoundError:
        place.fail("no such file", "give the path of a topics file such as 2023_test_topics.json")
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        place.fail(f"not a readable JSON file ({error})", "it may be cut short: fetch it again")
    if not isinstance(loaded, list) or not loaded:
        place.fail(f"expected a JSON array of conversations, found {shown(loaded)}", "give a topics file of TREC iKAT 2023, 2024 or 2025")
    return loaded


def _turn_objects(item: Any) -> Iterator[dict[str, Any]]:
    turns = next((item[name] for name in TURNS if name in item), None) if isinstance(item, dict) else None
    yield from (turn for turn in turns if isinstance(turn, dict)) if isinstance(turns, list) else ()


def _conversation(place: Place, item: Any, known: set[str]) -> Conversation:
    if not isinstance(item, dict):
        place.fail(f"expected an object, found {shown(item)}", "a topics file is an array of conversations")
    number = str(_value(place, item, NUMBER, str, int)).strip()
    if not number or len(number.split()) > 1:
        place.fail(f"the number {number!r} can't be part of a qid", "use a name without spaces, such as 9-1")
    place = Place(place.path, number)
    ptkb = ptkb_of(_value(place, item, ("ptkb",), dict, list), place.fail)
    turns: list[Turn] = []
    for position, entry in enumerate(_value(place, item, TURNS, list), 1):
        turn = _turn(Place(place.path, number, f"at position {position}"), entry, ptkb, known)
        if turns and turn.turn_id <= turns[-1].turn_id:
            place.fail(f"turn {turn.turn_id} follows turn {turns[-1].turn_id}", "turn ids rise and none is repeated")
        turns.append(turn)
    if not turns:
        place.fail("it has no turns", "remove it or fetch the file again")
    return Conversation(number, str(item.get("title", "")), ptkb, tuple(turns))


def _turn(place: Place, item: Any, ptkb: dict[str, str], known: set[str]) -> Turn:
    if not isinstance(item, dict):
        place.fail(f"expected an object, found {shown(item)}", "turns is an array of turns")
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
        place.fail(f"the field {name} is {shown(item[name])}", f"it has to be {' or '.join(KINDS[kind] for kind in kinds)}")
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
        place.fail(f"the gold passage {shown(entry)} is no passage id", "an id looks like clueweb22-en0035-25-01897:1")
    return entry


def _once(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()
