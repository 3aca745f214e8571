"""The problems of a submission: their places and repairs, strict reading of the file as JSON, and type checks of its fields."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import DataError, list_first

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Problem:
    """One problem in a submission.

    Attributes:
        severity: ``"error"``: the file must not be submitted; ``"warning"``: it may be submitted, but check this first.
        turn: the turn's id; empty if the problem concerns the whole file.
        field: the path of the field, such as ``responses[0].passage_provenance[3].score``, counted from 0.
        message: the problem and its repair.

    Example:
        >>> print(Problem("error", "9-1_3", "responses[0].text", "it is empty: write a response"))
        error: turn 9-1_3, responses[0].text: it is empty: write a response
    """

    severity: str
    turn: str
    field: str
    message: str

    def __str__(self) -> str:
        where = ", ".join([*([f"turn {self.turn}"] if self.turn else []), *([self.field] if self.field else [])])
        return ": ".join(part for part in (self.severity, where, self.message) if part)


@dataclass(frozen=True)
class Place:
    """A place in a submission. Its problems are added to the shared list ``found``."""

    found: list[Problem] = field(default_factory=list)
    turn: str = ""
    path: str = ""

    def note(self, severity: str, message: str) -> None:
        """Note a problem here."""
        self.found.append(Problem(severity, self.turn, self.path, message))

    def error(self, message: str) -> None:
        """Note an error here."""
        self.note(ERROR, message)

    def warning(self, message: str) -> None:
        """Note a warning here."""
        self.note(WARNING, message)

    def at(self, name: str | int) -> "Place":
        """The field ``name``, or the entry with this number, inside this place."""
        step = f"[{name}]" if isinstance(name, int) else f".{printable(name)}" if self.path else printable(name)
        return Place(self.found, self.turn, self.path + step)

    def of_turn(self, turn: str) -> "Place":
        """The beginning of a turn."""
        return replace(self, turn=printable(turn), path="")


def select_errors(problems: Iterable[Problem]) -> list[Problem]:
    """Only the errors.

    Example:
        >>> select_errors([Problem("warning", "", "", "look at this")])
        []
    """
    return [problem for problem in problems if problem.severity == ERROR]


def format_problems(problems: Iterable[Problem], most: int | None = None) -> list[str]:
    """The problems as text. Equal ones of several turns or fields share one line, which names the first places.

    Args:
        problems: the problems.
        most: the maximum number of lines; another line says how many follow.

    Example:
        >>> format_problems([Problem("error", f"1_{number}", "responses[0].text", "it is empty") for number in range(1, 8)])
        ['error: 7 turns (1_1, 1_2, 1_3, 1_4, 1_5 and 2 more), responses[0].text: it is empty']
    """
    alike: dict[tuple[bool, str, str], list[Problem]] = {}
    for problem in problems:
        alike.setdefault((not problem.turn, _anywhere(problem.field), problem.severity + problem.message), []).append(problem)
    lines = [_line(same) for same in alike.values()]
    return lines if most is None or len(lines) <= most else [*lines[:most], f"and {len(lines) - most} more"]


def _line(same: Sequence[Problem]) -> str:
    turns, fields = (list(dict.fromkeys(getattr(problem, name) for problem in same)) for name in ("turn", "field"))
    where = "" if not turns[0] else f"turn {turns[0]}" if len(turns) == 1 else f"{len(turns)} turns ({list_first(turns)})"
    place = _anywhere(fields[0]) if turns[0] and len(fields) > 1 else list_first(fields)
    times = f" ({len(same)} times)" * (len(same) > len(turns))
    return f"{same[0].severity}: {', '.join(filter(None, [where, place]))}: {same[0].message}{times}".replace(": : ", ": ")


def _anywhere(field: str) -> str:
    """A field without the numbers of its places."""
    return re.sub(r"\[\d+\]|line \d+", "[]", field)


def printable(text: str) -> str:
    """``text`` without unprintable characters, truncated to a limit."""
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= 60 else f"{text[:57]}..."


KINDS: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "an array",
}
MAX_32_BIT = 3.4028234663852886e38

Kinds = Mapping[str, type]


def read_fields(place: Place, item: Any, required: Kinds, optional: Kinds | None = None, strict: bool = True) -> dict[str, Any]:
    """The fields of ``item`` that have the right type. The others are noted.

    Args:
        place: where ``item`` is.
        item: any JSON value.
        required: name -> type of the required fields.
        optional: name -> type of the optional fields.
        strict: whether a field with another name is an error (the organisers' reader stops at it) or a warning.
    """
    if not isinstance(item, dict):
        place.error(f"it is {short_json(item)}: it has to be an object with {', '.join(required)}")
        return {}
    kinds = {**(optional or {}), **required}
    for name in item:
        if name not in kinds:
            place.at(name).note(ERROR if strict else WARNING, f"the format has no such field: remove it (it has {', '.join(kinds)})")
    for name in required:
        if name not in item:
            place.at(name).error(f"the field is missing: add it, {KINDS[required[name]]}")
    return {name: item[name] for name, kind in kinds.items() if name in item and check_kind(place.at(name), item[name], kind)}


def check_kind(place: Place, value: Any, kind: type) -> bool:
    """Whether ``value`` has the type ``kind``, and is finite if it is a number. If not, a problem is noted."""
    allowed: Any = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        place.error(f"it is {short_json(value)}: it has to be {KINDS[kind]}")
        return False
    if kind not in (int, float) or abs(value) <= MAX_32_BIT:  # also false for NaN and infinity
        return True
    place.error(f"it is {short_json(value)}: it has to be a finite number that fits 32 bits")
    return False


def short_json(value: Any) -> str:
    """A JSON value, shortened for a message."""
    if isinstance(value, dict | list):
        return f"{KINDS[dict if isinstance(value, dict) else list]} of {len(value)}"
    if isinstance(value, int) and abs(value) > MAX_32_BIT:
        return "a number of more than 38 digits"
    return printable(json.dumps(value, ensure_ascii=False))


_GZIP = b"\x1f\x8b"
_SURROGATE = re.compile("[\ud800-\udfff]")


Values = Sequence[tuple[int, Any]]
"""The JSON values of a file, each with its line."""


class Repeated(dict[str, Any]):
    """A JSON object in which keys occur twice; ``keys_twice`` names them."""

    keys_twice: tuple[str, ...] = ()


def read_json_values(path: str | Path, place: Place) -> Values:
    """The JSON values of a file, each with its line number: one for a JSON file, one per line for JSON lines."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: can't be read ({error.strerror}); give the path of a submission") from None
    if content.startswith(_GZIP):
        place.error("the file is packed by gzip: submit plain text, unpack it with gunzip")
        return []
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        place.error(f"byte {error.start} is not UTF-8: save the file as UTF-8")
        return []
    if text.startswith("\ufeff"):
        place.error("the file starts with a byte order mark, at which the organisers' checkers stop: save it as UTF-8 without one")
        text = text[1:]
    if not text.strip():
        place.error("the file is empty: write the run again")
        return []
    return _json_values(text, place)


def _json_values(text: str, place: Place) -> Values:
    whole, problem = _parse_json(text)
    if not problem:
        return [(1, whole)]
    lines = [(number, *_parse_json(line)) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    read = [(number, value) for number, value, wrong in lines if not wrong]
    if sum(isinstance(value, dict) for _, value in read) * 2 < len(lines):
        place.error(f"not JSON ({problem}): {_repair(text, problem)}")
        return []
    for number, _, wrong in lines:
        if wrong:
            place.at(f"line {number}").error(f"not JSON ({wrong}): it may be cut short, write the run again")
    return read


def _repair(text: str, problem: str) -> str:
    if text.lstrip()[0] not in "{[":
        return "`ikat submit` writes the submission of a run folder"
    if problem.startswith("Extra data"):
        return "write each object on its own line"
    return "it may be cut short, write the run again"


def _parse_json(text: str) -> tuple[Any, str]:
    try:
        return json.loads(text, object_pairs_hook=_mark_repeated), ""
    except RecursionError:
        return None, "nested too deeply"
    except ValueError as error:
        return None, str(error)


def _mark_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) == len(pairs):
        return built
    names = [name for name, _ in pairs]
    repeated = Repeated(built)
    repeated.keys_twice = tuple(name for name in built if names.count(name) > 1)
    return repeated


def check_text(place: Place, value: Any) -> None:
    """Note keys that occur twice, and strings that UTF-8 can't encode, anywhere inside ``value``."""
    waiting = [(place, value)]
    while waiting:
        here, item = waiting.pop()
        if isinstance(item, str) and _SURROGATE.search(item):
            here.error("the text has half of a character (a lone surrogate): remove it")
        elif isinstance(item, list):
            waiting += [(here.at(number), inner) for number, inner in enumerate(item) if _may_have_problems(inner)]
        elif isinstance(item, dict):
            here = here.of_turn(item["turn_id"]) if isinstance(item.get("turn_id"), str) else here
            for name in item.keys_twice if isinstance(item, Repeated) else ():
                here.at(name).error("the key occurs twice in one object, readers keep only one of the two: remove the other")
            waiting += [(here, name) for name in item if _SURROGATE.search(name)]
            waiting += [(here.at(name), inner) for name, inner in item.items() if _may_have_problems(inner)]


def _may_have_problems(value: Any) -> bool:
    return isinstance(value, dict | list) or (isinstance(value, str) and _SURROGATE.search(value) is not None)
