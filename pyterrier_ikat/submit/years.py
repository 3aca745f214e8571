"""The formats by year, and telling a file's year by its shape."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import ikat_2023, ikat_2024, ikat_2025
from .model import Run, Topics
from .problem import Place


@dataclass(frozen=True)
class Format:
    """What a year's file is: its run types, how it is read, checked and written."""

    year: int
    run_types: tuple[str, ...]
    parse: Callable[[Sequence[tuple[int, Any]], Place], Run]
    check: Callable[[Run, Topics, Place], None]
    lines: Callable[[Run], Iterator[str]]


FORMATS = {
    year: Format(year, module.RUN_TYPES, module.parse, module.check, module.lines)
    for year, module in ((2023, ikat_2023), (2024, ikat_2024), (2025, ikat_2025))
}


def year_of(values: Sequence[tuple[int, Any]]) -> int | None:
    """The year whose shape a file has; None where it could be any.

    2025 has a line per turn with ``references`` and ``metadata``; 2023 and 2024 are one object with ``turns``, and name PTKB
    statements by objects and by numbers, also in strings. Most entries decide, so that a single wrong one is a problem, not another year.
    """
    objects = [value for _, value in values if isinstance(value, dict)]
    if any("turns" in item for item in objects):
        top = next(item for item in objects if "turns" in item)
        kinds = Counter(type(entry) for entry in _statements(top["turns"]))
        if kinds[dict] != (numbers := kinds[int] + kinds[str]):
            return 2023 if kinds[dict] > numbers else 2024
        return 2024 if "eval_response" in top else None
    lines = sum("references" in item or "metadata" in item for item in objects)
    return 2025 if lines and lines * 2 >= len(objects) else None


def _statements(turns: Any) -> Iterator[Any]:
    for turn in _list(turns):
        for response in _list(turn.get("responses") if isinstance(turn, dict) else None):
            yield from _list(response.get("ptkb_provenance") if isinstance(response, dict) else None)


def _list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
