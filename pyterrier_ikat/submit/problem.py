"""The problems of a submission: their places and repairs, and the reading of the file as JSON."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..errors import DataError, UsageError, counted, list_first
from ..store.files import atomic_write

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True)
class Problem:
    """One problem in a submission.

    Attributes:
        severity: ``"error"``: the file must not be submitted; ``"warning"``: it may be submitted,
            but check this first.
        turn: the turn's id; empty if the problem concerns the whole file.
        field: the path of the field, such as ``responses[0].passage_provenance[3].score``, counted
            from 0.
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
        turn = f"turn {self.turn}" if self.turn else ""
        return _as_line(self.severity, turn, self.field, self.message)


@dataclass(frozen=True)
class Place:
    """A place in a submission. All places of a submission share one list of problems."""

    problems: list[Problem] = field(default_factory=list)
    turn: str = ""
    path: str = ""

    def note(self, severity: str, message: str) -> None:
        """Note a problem here."""
        self.problems.append(Problem(severity, self.turn, self.path, message))

    def error(self, message: str) -> None:
        """Note an error here."""
        self.note(ERROR, message)

    def warning(self, message: str) -> None:
        """Note a warning here."""
        self.note(WARNING, message)

    def at(self, *steps: str | int) -> "Place":
        """The field or entry to which names and numbers lead from here."""
        path = self.path
        for step in steps:
            if isinstance(step, int):
                path += f"[{step}]"
            elif path:
                path += f".{printable(step)}"
            else:
                path = printable(step)
        return replace(self, path=path)

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
    """The problems as text. Equal ones share one line, which names their first turns or fields.

    Args:
        problems: the problems.
        most: the maximum number of lines; another line says how many follow.

    Example:
        >>> qids = [f"1_{number}" for number in range(1, 8)]
        >>> format_problems([Problem("error", qid, "responses[0].text", "empty") for qid in qids])
        ['error: 7 turns (1_1, 1_2, 1_3, 1_4, 1_5 and 2 more), responses[0].text: empty']
    """
    groups: dict[tuple[bool, str, str], list[Problem]] = {}
    for problem in problems:
        of_turn = bool(problem.turn)
        key = (of_turn, _anywhere(problem.field), problem.severity + problem.message)
        groups.setdefault(key, []).append(problem)
    lines = [_line_of(same) for same in groups.values()]
    if most is not None and len(lines) > most:
        return [*lines[:most], f"and {len(lines) - most} more"]
    return lines


def list_errors(what: str, problems: Iterable[Problem]) -> str:
    """The errors as the text of an exception that begins with ``what``."""
    errors = select_errors(problems)
    head = f"{what}, {counted(len(errors), 'error')}:"
    return "\n".join([head, *format_problems(errors, most=20)])


class RefusedError(DataError):
    """A submission has errors, so nothing was written.

    Attributes:
        problems: the errors and warnings that the check found.
    """

    one_line = False

    def __init__(self, path: str | Path, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__(list_errors(f"{path} was not written", problems))


def write_checked(
    path: str | Path, lines: Iterable[str], check: Callable[[str], list[Problem]]
) -> list[Problem]:
    """Write a file that appears at ``path`` only if ``check`` finds no error in it.

    Returns:
        The warnings.
    """
    if Path(path).is_dir():
        raise UsageError(f"{path} is a folder: give the path of the file to write")
    try:
        with atomic_write(path) as file:
            file.writelines(lines)
            file.flush()
            problems = check(file.name)
            if select_errors(problems):
                raise RefusedError(path, problems)
    except OSError as error:
        raise UsageError(f"{path} can't be written ({error.strerror}): give another path") from None
    return problems


def _as_line(severity: str, turn: str, field: str, message: str) -> str:
    where = ", ".join(part for part in (turn, field) if part)
    return ": ".join(part for part in (severity, where, message) if part)


def _line_of(same: Sequence[Problem]) -> str:
    """The line of problems that differ only in their turns and in the numbers in their fields."""
    turns = list(dict.fromkeys(problem.turn for problem in same))
    fields = list(dict.fromkeys(problem.field for problem in same))
    if not turns[0]:
        turn = ""
    elif len(turns) == 1:
        turn = f"turn {turns[0]}"
    else:
        turn = f"{len(turns)} turns ({list_first(turns)})"
    field = _anywhere(fields[0]) if turn and len(fields) > 1 else list_first(fields)
    message = same[0].message
    if len(same) > len(turns):
        message += f" ({len(same)} times)"
    return _as_line(same[0].severity, turn, field, message)


def _anywhere(field: str) -> str:
    """A field without its numbers."""
    return re.sub(r"\[\d+\]|line \d+", "[]", field)


def printable(text: str) -> str:
    """``text`` without unprintable characters, truncated to a limit."""
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def short_json(value: Any) -> str:
    """A JSON value, shortened for a message.

    Example:
        >>> short_json({"rank": 1}), short_json(None)
        ('an object of 1', 'null')
    """
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "an array"
        return f"{kind} of {len(value)}"
    return printable(json.dumps(value, ensure_ascii=False))


ModelT = TypeVar("ModelT", bound=BaseModel)
REPAIR_OF_TYPE = {
    "missing": "the field is missing: add it",
    "extra_forbidden": "the format has no such field: remove it",
    "is_instance_of": "it has to be an array",
}
"""Type of pydantic's error -> the repair. The messages of other types say it themselves."""


def read_model(model: type[ModelT], item: Any, place: Place) -> ModelT | None:
    """``item`` as ``model``; None if it has another form, with an error for each wrong field."""
    try:
        return model.model_validate(item)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            repair = REPAIR_OF_TYPE.get(fault["type"])
            if repair is None:
                repair = f"it is {short_json(fault['input'])}: {fault['msg']}"
            place.at(*fault["loc"]).error(repair)
    return None


JsonValues = Sequence[tuple[int, Any]]
"""The JSON values of a file, each with its line."""


def read_json_values(path: str | Path, place: Place) -> JsonValues:
    """The JSON values of a file with their line numbers: one of JSON, one a line of JSON lines."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{path}: can't be read ({error.strerror}); give the path of a submission"
        ) from None
    except UnicodeDecodeError as error:
        place.error(f"byte {error.start} is not UTF-8: save the file as plain text in UTF-8")
        return []
    if text.startswith("\ufeff"):
        place.error(
            "the file starts with a byte order mark, at which the organisers' checkers stop: save "
            "it as UTF-8 without one"
        )
        text = text.removeprefix("\ufeff")
    whole, fault = _parse_json(text)
    if not fault:
        return [(1, whole)]
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            lines.append((number, *_parse_json(line)))
    objects = sum(isinstance(value, dict) for _, value, _ in lines)
    if not lines or objects * 2 < len(lines):
        place.error(
            f"not JSON ({fault}): it may be cut short; `ikat submit` writes the submission of a "
            "run folder"
        )
        return []
    values = []
    for number, value, fault in lines:
        if fault:
            place.at(f"line {number}").error(
                f"not JSON ({fault}): it may be cut short, write the run again"
            )
        else:
            values.append((number, value))
    return values


def _parse_json(text: str) -> tuple[Any, str]:
    """The value of a JSON text, and what is wrong with the text; empty if nothing is."""
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as error:
        return None, str(error)
