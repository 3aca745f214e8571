"""Submissions of 2024: as 2023, plus ``eval_response``; PTKB statements as a list of whole numbers, also as strings, best first.

The run type may also be ``only_response``, for responses to passages that others ranked.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from .model import Run, Statement, Topics
from .one_object import check_object, object_lines, parse_object
from .problem import Place, of_kind

RUN_TYPES = ("automatic", "manual", "only_response")


def parse(values: Sequence[tuple[int, Any]], place: Place) -> Run:
    """Read a submission, noting fields that are missing, unknown or of a wrong type."""
    return parse_object(values, place, _statement, {"eval_response": bool})


def _statement(place: Place, item: Any, position: int) -> Statement | None:
    number = _number(item) if isinstance(item, str) else item
    return Statement(str(number), position=position) if of_kind(place, number, int) else None


def check(run: Run, topics: Topics, place: Place) -> None:
    """Check a submission against the topics."""
    check_object(run, topics, place, RUN_TYPES)


def lines(run: Run) -> Iterator[str]:
    """The file's text; ``eval_response`` is true: what this package hands in has responses."""
    return object_lines(run, {"eval_response": True}, lambda one: _number(one.id))


def _number(name: str | None) -> int | str | None:
    """An id that is no number stays as it is, and the check refuses it."""
    return int(name) if name is not None and name.isascii() and name.isdecimal() else name
