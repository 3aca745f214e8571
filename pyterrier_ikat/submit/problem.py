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

ERROR, WARNING = "error", "warning"


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
        where = ", ".join(
            [*([f"turn {self.turn}"] if self.turn else []), *([self.field] if self.field else [])]
        )
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

    def at(self, *steps: str | int) -> "Place":
        """The field or entry to which names and numbers lead from here."""
        path = self.path
        for step in steps:
            path += (
                f"[{step}]"
                if isinstance(step, int)
                else f".{printable(step)}"
                if path
                else printable(step)
            )
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
        alike.setdefault(
            (not problem.turn, _anywhere(problem.field), problem.severity + problem.message), []
        ).append(problem)
    lines = [_line(same) for same in alike.values()]
    return (
        lines
        if most is None or len(lines) <= most
        else [*lines[:most], f"and {len(lines) - most} more"]
    )


def list_errors(what: str, problems: Iterable[Problem]) -> str:
    """The errors as the text of an exception that begins with ``what``."""
    found = select_errors(problems)
    return "\n".join([f"{what}, {counted(len(found), 'error')}:", *format_problems(found, most=20)])


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
    """Write a file that appears at ``path`` only if ``check`` finds no error in it. Returns the warnings."""
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


def _line(same: Sequence[Problem]) -> str:
    turns, fields = (
        list(dict.fromkeys(getattr(problem, name) for problem in same))
        for name in ("turn", "field")
    )
    where = (
        ""
        if not turns[0]
        else f"turn {turns[0]}"
        if len(turns) == 1
        else f"{len(turns)} turns ({list_first(turns)})"
    )
    place = _anywhere(fields[0]) if turns[0] and len(fields) > 1 else list_first(fields)
    times = f" ({len(same)} times)" * (len(same) > len(turns))
    return f"{same[0].severity}: {', '.join(filter(None, [where, place]))}: {same[0].message}{times}".replace(
        ": : ", ": "
    )


def _anywhere(field: str) -> str:
    """A field without the numbers of its places."""
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
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    return printable(json.dumps(value, ensure_ascii=False))


Model = TypeVar("Model", bound=BaseModel)
REPAIRS = {
    "missing": "the field is missing: add it",
    "extra_forbidden": "the format has no such field: remove it",
    "is_instance_of": "it has to be an array",
}
"""Kind of pydantic's error -> what to do; the others say it themselves."""


def read_model(model: type[Model], item: Any, place: Place) -> Model | None:
    """``item`` as ``model``. If it has another form, each wrong field is noted, and the result is None."""
    try:
        return model.model_validate(item)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            repair = REPAIRS.get(one["type"]) or f"it is {short_json(one['input'])}: {one['msg']}"
            place.at(*one["loc"]).error(repair)
    return None


Values = Sequence[tuple[int, Any]]
"""The JSON values of a file, each with its line."""


def read_json_values(path: str | Path, place: Place) -> Values:
    """The JSON values of a file, each with its line number: one for a JSON file, one per line for JSON lines."""
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
            "the file starts with a byte order mark, at which the organisers' checkers stop: save it as UTF-8 without one"
        )
    text = text.removeprefix("\ufeff")
    whole, problem = _parse_json(text)
    if not problem:
        return [(1, whole)]
    lines = [
        (number, *_parse_json(line))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]
    if sum(isinstance(value, dict) for _, value, _ in lines) * 2 < len(lines) or not lines:
        place.error(
            f"not JSON ({problem}): it may be cut short; `ikat submit` writes the submission of a run folder"
        )
        return []
    for number, _, wrong in lines:
        if wrong:
            place.at(f"line {number}").error(
                f"not JSON ({wrong}): it may be cut short, write the run again"
            )
    return [(number, value) for number, value, wrong in lines if not wrong]


def _parse_json(text: str) -> tuple[Any, str]:
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as error:
        return None, str(error)
