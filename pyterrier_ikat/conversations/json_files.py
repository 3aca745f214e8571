"""JSON files, of conversations and others, read so that every error names its place: the file, and where in it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..errors import DataError
from .topics import Conversation

NUMBER = ("number", "conv_id")
KINDS = {str: "a string", int: "a whole number", dict: "an object", list: "an array"}


@dataclass(frozen=True)
class Place:
    """A place in a file. Every error names it."""

    path: Path
    within: tuple[str, ...] = ()

    def at(self, *within: str) -> "Place":
        """A place in the same file."""
        return Place(self.path, within)

    def fail(self, wrong: str, repair: str) -> NoReturn:
        """Raise the DataError for this place."""
        raise DataError(f"{', '.join([str(self.path), *self.within])}: {wrong}; {repair}")


def load_json(text: str, place: Place, wrong: str, repair: str) -> Any:
    """The JSON value of ``text``. Objects with a repeated key are refused."""

    def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            place.fail(f"the key {twice!r} occurs twice in one object (with {', '.join(map(repr, built))})", "keep one of the two")
        return built

    try:
        found = json.loads(text, object_pairs_hook=once_each)
    except (ValueError, RecursionError) as error:
        place.fail(f"{wrong} ({error})", repair)
    if half := half_character(text, found):
        place.fail(f"a text has half of a character ({half})", "remove it, or save the file as UTF-8 again")
    return found


def half_character(text: str, found: Any) -> str:
    """The escape of a lone surrogate in JSON, which files can't contain; empty if there is none."""
    if "\\ud" not in text and "\\uD" not in text:
        return ""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(error.object[error.start]):x}"
    return ""


def excerpt(value: Any) -> str:
    """A JSON value in at most 60 characters."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def value_of(place: Place, item: dict[str, Any], names: tuple[str, ...], *kinds: type) -> Any:
    """The field of an object that has one of these names and a value of one of these kinds.

    Raises:
        DataError: when there is none, or its value is of another kind.
    """
    name = next((name for name in names if name in item), None)
    if name is None:
        wanted = " or ".join(names)
        place.fail(f"the field {wanted} is missing (there are {', '.join(item) or 'no fields'})", f"add {wanted}, or fetch the file again")
    if not isinstance(item[name], kinds) or isinstance(item[name], bool):
        place.fail(f"the field {name} is {excerpt(item[name])}", f"it has to be {' or '.join(KINDS[kind] for kind in kinds)}")
    return item[name]


def load_array(place: Place) -> list[Any]:
    """The conversations of a topics file of any kind.

    Raises:
        DataError: when it can't be read, or is not a JSON array.
    """
    repair = "it may be cut short: fetch it again"
    try:
        text = place.path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        place.fail("no such file", "give the path of a topics file such as 2023_test_topics.json")
    except (OSError, UnicodeDecodeError) as error:
        place.fail(f"not a readable JSON file ({error})", repair)
    items = load_json(text, place, "not a readable JSON file", repair)
    if not isinstance(items, list) or not items:
        place.fail(f"expected a JSON array of conversations, found {excerpt(items)}", "give a topics file of TREC iKAT or CAsT")
    return items


def conversations_in(
    place: Place, items: list[Any], read: Callable[[Place, str, dict[str, Any]], Conversation], repeated: str
) -> list[Conversation]:
    """The conversations of an array, each with its own number.

    Args:
        place: the file.
        items: what :func:`load_array` gave.
        read: makes a conversation from its place, its number and its object.
        repeated: what to do where a number occurs twice.

    Raises:
        DataError: naming the conversation that is not an object, or whose number is missing or occurs twice.
    """
    found: dict[str, Conversation] = {}
    for position, item in enumerate(items, 1):
        here = place.at(f"conversation at position {position}")
        if not isinstance(item, dict):
            here.fail(f"expected an object, found {excerpt(item)}", "a topics file is an array of conversations")
        number = str(value_of(here, item, NUMBER, str, int)).strip()
        if not number or len(number.split()) > 1:
            here.fail(f"the number {number!r} can't be part of a qid", "use a name without spaces, such as 9-1")
        here = place.at(f"conversation {number}")
        conversation = read(here, number, item)
        if number in found:
            here.fail("the number occurs twice", repeated)
        found[number] = conversation
    return list(found.values())
