"""Lines of messages: a topics file that anybody can write, one turn a line."""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

from ..errors import DataError
from .topics import Conversation, Message, Turn

Fail = Callable[[str, str], NoReturn]
"""Raises the error of a place, of what is wrong there and how to repair it."""

FIELDS = ("qid", "messages", "ptkb", "resolved", "answer")
ROLES = ("user", "assistant")
OF_A_CONVERSATION = re.compile(r"(.+)_([0-9]{1,9})")
FORM = '{"qid": "tea_2", "messages": [{"role": "user", "content": "Which tea?"}, ...]}'


class CollectionWarning(UserWarning):
    """Something in a collection's folder is doubtful; the message names file and line."""


@dataclass
class Doubts:
    """What is doubtful in a file, each kind with the lines where it is."""

    path: Path
    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, what: str, line: int) -> None:
        """Note a doubt about a line."""
        self.lines.setdefault(what, []).append(line)

    def warn(self) -> None:
        """One ``CollectionWarning`` for each kind, with the first lines."""
        for what, lines in self.lines.items():
            shown = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines[:5]))}" + f" and {len(lines) - 5} more" * (len(lines) > 5)
            warnings.warn(f"{self.path}, {shown}: {what}", CollectionWarning, stacklevel=4)


def read_message_lines(path: str | Path) -> list[Conversation]:
    """Read turns, one per line, as JSON: the last message of each is the user's question, the others are its history.

    Args:
        path: a file of lines ``{"qid": "tea_2", "messages": [{"role": "user" | "assistant", "content": text}, ...]}``. A line may also
            have ``ptkb``, what is known of the user (an object id -> statement or a list of statements), and for evaluation only
            ``resolved``, the question as it would be asked without its history, and ``answer``, a good answer.

    Returns:
        The conversations, in the file's order: turns whose qids are ``<conversation>_<number>`` and which follow each other with the
        same PTKB are in one conversation, any other turn is alone.

    Warns:
        CollectionWarning: two messages of the same role in a row, an empty message in a history, or a field that nothing reads.

    Raises:
        DataError: naming file and line: not UTF-8, not JSON, a field missing or of another kind, a qid twice, a message without role or
            content, or a last one that isn't the user's.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "topics.jsonl"
        >>> _ = path.write_text('{"qid": "tea_1", "messages": [{"role": "user", "content": "Which tea?"}], "ptkb": ["I avoid caffeine."]}')
        >>> chat = read_message_lines(path)[0]
        >>> chat.number, chat.ptkb, chat.turns[0].utterance
        ('tea', {'1': 'I avoid caffeine.'}, 'Which tea?')
    """
    path, doubts = Path(path), Doubts(Path(path))
    found: list[tuple[str, dict[str, str], Turn]] = []
    first: dict[str, int] = {}
    for number, line in _lines(path):
        fail = _failing(path, number)
        item = _object(line, fail)
        number_of, ptkb, turn = _turn(item, fail, lambda what, number=number: doubts.add(what, number))  # type: ignore[misc]
        if first.setdefault(turn.qid, number) != number:
            fail(f"the qid {turn.qid!r} was there before, in line {first[turn.qid]}", "give each turn its own")
        found.append((number_of, ptkb, turn))
    if not found:
        raise DataError(f"{path}: no turn in it; a line is {FORM}")
    doubts.warn()
    groups = groupby(found, key=lambda entry: entry[:2])
    return [Conversation(name, ptkb=ptkb, turns=tuple(turn for *_, turn in group)) for (name, ptkb), group in groups]


def once_each(pairs: list[tuple[str, Any]], fail: Fail) -> dict[str, Any]:
    """A JSON object of its pairs; a key that occurs twice fails."""
    built = dict(pairs)
    if len(built) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        fail(f"the key {twice!r} occurs twice in one object (with {', '.join(map(repr, built))})", "keep one of the two")
    return built


def ptkb_of(ptkb: dict[str, Any] | list[Any], fail: Fail) -> dict[str, str]:
    """The statements by id; those of a list are ``"1"``, ``"2"``, ..."""
    statements = ptkb if isinstance(ptkb, dict) else {str(position): statement for position, statement in enumerate(ptkb, 1)}
    for name, statement in statements.items():
        if not isinstance(statement, str):
            fail(f"statement {name} of ptkb is {shown(statement)}", "every statement is a string")
    return statements


def shown(value: Any) -> str:
    """A JSON value in at most 60 characters."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise DataError(f"{path}: can't be read ({error.strerror}); give a file of lines {FORM}") from error
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}, line {number}: not UTF-8 ({error}); save the file as UTF-8") from error
        if text.strip():
            yield number, text


def _failing(path: Path, number: int) -> Fail:
    def fail(wrong: str, repair: str) -> NoReturn:
        raise DataError(f"{path}, line {number}: {wrong}; {repair}")

    return fail


def _object(line: str, fail: Fail) -> dict[str, Any]:
    try:
        item = json.loads(line, object_pairs_hook=lambda pairs: once_each(pairs, fail))
    except (ValueError, RecursionError) as error:
        fail(f"not JSON ({error})", f"a line is {FORM}")
    if not isinstance(item, dict):
        fail(f"expected an object, found {shown(item)}", f"a line is {FORM}")
    return item


def _turn(item: dict[str, Any], fail: Fail, doubt: Callable[[str], None]) -> tuple[str, dict[str, str], Turn]:
    qid = item.get("qid")
    if not isinstance(qid, str) or qid.split() != [qid]:
        fail(f"the qid is {shown(qid)}", "give a text without white space, such as tea_2")
    messages = _messages(item.get("messages"), fail, doubt)
    for name in set(item) - set(FIELDS):
        doubt(f"nothing reads the field {name!r}; there are {', '.join(FIELDS)}")
    of = OF_A_CONVERSATION.fullmatch(qid)
    turn_id = int(of[2]) if of else sum(message["role"] == "user" for message in messages)
    resolved, answer = (_text(item, name, fail) for name in ("resolved", "answer"))
    turn = Turn(turn_id, messages[-1]["content"], answer, resolved, qid=qid, history=tuple(messages[:-1]))
    return of[1] if of else qid, _ptkb(item.get("ptkb"), fail), turn


def _messages(found: Any, fail: Fail, doubt: Callable[[str], None]) -> list[Message]:
    if not isinstance(found, list) or not found:
        fail(f"messages is {shown(found)}", f"a line is {FORM}")
    messages = [_message(position, message, fail) for position, message in enumerate(found, 1)]
    if messages[-1]["role"] != "user" or not messages[-1]["content"].strip():
        fail(f"the last message is {shown(messages[-1])}", "it is the turn: words of the user, to be answered")
    if any(one["role"] == other["role"] for one, other in zip(messages, messages[1:], strict=False)):
        doubt("two messages of the same role in a row")
    if not all(message["content"].strip() for message in messages):
        doubt("an empty message in the history")
    return messages


def _message(position: int, message: Any, fail: Fail) -> Message:
    fields = message if isinstance(message, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    if role not in ROLES or not isinstance(content, str):
        fail(f"message {position} is {shown(message)}", 'give {"role": "user" or "assistant", "content": text}')
    return {"role": role, "content": content}


def _text(item: dict[str, Any], name: str, fail: Fail) -> str:
    text = item.get(name)
    if text is not None and not isinstance(text, str):
        fail(f"{name} is {shown(text)}", "give a text, or leave it out")
    return text or ""


def _ptkb(ptkb: Any, fail: Fail) -> dict[str, str]:
    if ptkb is None:
        return {}
    if not isinstance(ptkb, dict | list):
        fail(f"ptkb is {shown(ptkb)}", "give an object id -> statement, or a list of statements")
    return ptkb_of(ptkb, fail)
