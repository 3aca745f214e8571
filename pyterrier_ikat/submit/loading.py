"""Strict reading of a submission's file: repeated keys, broken characters and truncated lines are reported as problems."""

import json
import re
from pathlib import Path
from typing import Any

from ..errors import DataError, advice
from .formats import Run, Values, is_dump, parse_run, year_of
from .problem import Place

_GZIP = b"\x1f\x8b"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Repeated(dict[str, Any]):
    """A JSON object in which keys occur twice; ``keys_twice`` names them."""

    keys_twice: tuple[str, ...] = ()


def load_run(path: str | Path, year: int | None, place: Place) -> tuple[int, Run | None]:
    """The year of a submission (recognised by its shape if ``year`` is None), and the submission.

    The submission is None, noted, where it can't be read or has the shape of another year.

    Raises:
        DataError: when there is no such file.
    """
    values = _load_json(path, place)
    if is_dump(values):
        place.error("this is an interactive run: the track's server checked each response when it took it, and no other check is known")
        return year or 2025, None
    shape = year_of(values)
    year = year or shape or 2023
    if not values:
        return year, None
    if shape not in (None, year):
        repair = advice(f'ikat.dataset("ikat:{shape}")', f"--dataset ikat:{shape}")
        place.error(f"this is a submission of {shape}, not of {year}: give {repair}, or write it in the format of {year}")
        return year, None
    for number, value in values:
        _check_text(place.at(f"line {number}") if len(values) > 1 else place, value)
    return year, parse_run(values, year, place)


def _load_json(path: str | Path, place: Place) -> Values:
    """The JSON values of a file: one for a JSON file, one per line for JSON lines, each with its line."""
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
        place.error(f"byte {error.start} is no UTF-8: save the file as UTF-8")
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


def _check_text(place: Place, value: Any) -> None:
    """Note keys that occur twice and strings that no UTF-8 file can hold, anywhere inside ``value``."""
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
