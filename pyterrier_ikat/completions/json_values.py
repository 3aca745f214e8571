"""Lists and objects in a completion, in JSON or as Python writes them. Pure functions: no model, no frame."""

import ast
import json
import re
import warnings
from typing import Any

TRIED = 50
"""Brackets that open nothing readable, after which a text is taken to hold nothing more: each costs a look at all the rest."""
OPENING = re.compile(r"[\[{]")


def json_values(text: str) -> list[Any]:
    """All lists and objects in ``text``, outermost ones, in order; what cannot be read as one is passed over.

    Beside JSON: single quotes, numbers as keys, commas before a closing bracket, sets as lists.

    Example:
        >>> json_values("I chose {'3': 0.9, 7: .4,} and [4, 1,], not {those}.")
        [{'3': 0.9, '7': 0.4}, [4, 1]]
    """
    found: list[Any] = []
    position = unreadable = 0
    while unreadable < TRIED and (start := OPENING.search(text, position)) is not None:
        value, position = value_at(text, start.start())
        if value is None:
            unreadable += 1
        else:
            found.append(value)
    return found


def value_at(text: str, start: int) -> tuple[Any, int]:
    """The list or object that opens at ``start``, and where it ends; ``(None, start + 1)`` where it cannot be read.

    Example:
        >>> value_at("I chose {'3': 0.9}.", 8)
        ({'3': 0.9}, 18)
    """
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        end = _closing(text, start)
    value = None if end is None else _literal(text[start:end])
    return (None, start + 1) if end is None or value is None else (value, end)


def is_cut(text: str, start: int) -> bool:
    """Whether the list or object that opens at ``start`` has no end.

    Example:
        >>> is_cut('{"queries": ["rooibos"], "more', 0), is_cut('{"queries": ["rooibos"]}', 0)
        (True, False)
    """
    return value_at(text, start)[0] is None and _closing(text, start) is None


def _literal(piece: str) -> Any:
    """A value as Python writes it, with the types that JSON has; None for any other."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's remarks on odd escapes in a model's text
            value = ast.literal_eval(piece)
            # A set has no order of its own, but the model wrote it in one.
            return json.loads(json.dumps(ast.literal_eval(f"[{piece[1:-1]}]") if isinstance(value, set) else value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _closing(text: str, start: int) -> int | None:
    depth, quote = 0, ""
    for place in range(start, len(text)):
        sign = text[place]
        if quote:
            quote = "" if sign == quote and text[place - 1] != "\\" else quote
        elif sign in "\"'":
            quote = "" if text[place - 1].isalnum() else sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
            if depth == 0:
                return place + 1
    return None
