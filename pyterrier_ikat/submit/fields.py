"""Fields of JSON objects: there, known and of the right type, or noted."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from .problem import Place, printable

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


def fields(place: Place, item: Any, required: Kinds, optional: Kinds | None = None, strict: bool = True) -> dict[str, Any]:
    """The fields of ``item`` that have the right type; the others are noted.

    Args:
        place: where ``item`` is.
        item: any JSON value.
        required: name -> type of the fields that have to be there.
        optional: name -> type of those that may be missing.
        strict: whether a field of another name is an error (the organisers' reader stops at it) or a warning.
    """
    if not isinstance(item, dict):
        place.error(f"it is {shown(item)}: it has to be an object with {', '.join(required)}")
        return {}
    kinds = {**(optional or {}), **required}
    for name in item:
        if name not in kinds:
            note = place.at(name).error if strict else place.at(name).warning
            note(f"the format has no such field: remove it (it has {', '.join(kinds)})")
    for name in required:
        if name not in item:
            place.at(name).error(f"the field is missing: add it, {KINDS[required[name]]}")
    return {name: item[name] for name, kind in kinds.items() if name in item and of_kind(place.at(name), item[name], kind)}


def of_kind(place: Place, value: Any, kind: type) -> bool:
    """Whether ``value`` has the type ``kind`` (a number has to be finite); noted where not."""
    allowed: Any = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        place.error(f"it is {shown(value)}: it has to be {KINDS[kind]}")
        return False
    return kind not in (int, float) or _finite(place, value)


def _finite(place: Place, value: float) -> bool:
    fits = abs(value) <= MAX_32_BIT  # false for NaN and infinity, too
    if not fits:
        place.error(f"it is {shown(value)}: it has to be a finite number that fits 32 bits")
    return fits


def one_of(place: Place, value: str, allowed: Collection[str]) -> None:
    """Note a value that is none of the allowed ones."""
    if value not in allowed:
        place.error(f"it is {shown(value)}: it has to be {' or '.join(allowed)}")


def shown(value: Any) -> str:
    """A JSON value, short enough for a message."""
    if isinstance(value, dict | list):
        return f"{KINDS[dict if isinstance(value, dict) else list]} of {len(value)}"
    if isinstance(value, int) and abs(value) > MAX_32_BIT:
        return "a number of more than 38 digits"
    return printable(json.dumps(value, ensure_ascii=False))
