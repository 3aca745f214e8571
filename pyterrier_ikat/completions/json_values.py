"""Lists and objects in a completion, in JSON or nearly so. Pure functions: no model, no frame."""

import ast
import json
import re
import warnings
from typing import Any

TRIED = 50
"""Brackets that open nothing readable, after which a text is taken to hold nothing more: each costs a look at all the rest."""
OPENING = re.compile(r"[\[{]")
_OPENED = re.compile(r"\s*(?:\{|\[\s*\{?)\s*[\"']")
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_DOUBLE, _SINGLE = r'"(?:[^"\\\n]|\\.)*"', rf"'(?:[^'\\\n]|\\.|{_APOSTROPHE.pattern})*'"
_NEXT_STRING = re.compile(rf"[^\"']*({_DOUBLE}|{_SINGLE})(\s*:)?")
_COMMENT = re.compile(rf"({_DOUBLE}|'(?:[^'\\\n]|\\.)*')|//[^\n]*")
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")
_WORDS = {"null": "None", "true": "True", "false": "False"}
_BARE_WORD = re.compile(r"(?<![\w\"'])(?:null|true|false)(?![\w\"'])")


def json_values(text: str) -> list[Any]:
    """All lists and objects in ``text``, outermost ones, in order; what cannot be read as one is passed over.

    Beside JSON: single quotes, numbers and bare words as keys, commas before a closing bracket, ``{1, 4}`` as a list,
    comments behind ``//``.

    Example:
        >>> json_values("I chose {'3': 0.9, 7: .4,} and [4, 1,], not {those}.")
        [{'3': 0.9, 7: 0.4}, [4, 1]]
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


def cut_off_strings(text: str) -> list[str] | None:
    """The whole strings of a JSON list or object that ``text`` begins with and that never ends, keys aside; else None.

    Example:
        >>> cut_off_strings('["oat milk", "rye br'), cut_off_strings('["oat milk"]')
        (['oat milk'], None)
    """
    if not _OPENED.match(text) or _closing(text, text.index(text.strip()[0])) is not None:
        return None
    strings: list[Any] = []
    position = 0
    while (found := _NEXT_STRING.match(text, position)) is not None:
        position = found.end()
        if not found[2]:
            strings.append(_literal(found[1] if found[1][0] == '"' else "'" + _APOSTROPHE.sub(r"\'", found[1][1:-1]) + "'"))
    return [string for string in strings if isinstance(string, str)]


def value_at(text: str, start: int) -> tuple[Any, int]:
    """The list or object that opens at ``start``, and where it ends; ``(None, start + 1)`` where it cannot be read.

    Example:
        >>> value_at("I chose {'3': 0.9}.", 8)
        ({'3': 0.9}, 18)
    """
    try:
        return json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        end = _closing(text, start)
    value = None if end is None else nearly_json(text[start:end])
    return (None, start + 1) if end is None or value is None else (value, end)


def nearly_json(piece: str) -> list[Any] | dict[Any, Any] | None:
    """The list or object that ``piece`` is when read as Python writes it, perhaps with bare keys and comments; else None."""
    python = _BARE_WORD.sub(lambda word: _WORDS[word[0]], _COMMENT.sub(lambda found: found[1] or "", piece))
    for text in (python, _BARE_KEY.sub(r'\1"\2":', python)):
        value = _literal(text)
        if isinstance(value, set):
            value = _literal(f"[{text.strip()[1:-1]}]")  # a set forgets the order
        if isinstance(value, list | dict) and _plain(value):
            return value
    return None


def _literal(text: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's remarks on odd escapes in a model's text
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str | int | float) for key in value) and all(map(_plain, value.values()))
    return all(map(_plain, value)) if isinstance(value, list) else value is None or isinstance(value, str | int | float)


def _closing(text: str, start: int) -> int | None:
    depth, quote = 0, ""
    commented = start
    for place in range(start, len(text)):
        sign = text[place]
        if place < commented:
            continue
        if quote:
            quote = "" if sign == quote and text[place - 1] != "\\" else quote
        elif sign in "\"'":
            quote = "" if text[place - 1].isalnum() else sign
        elif sign == "/" and (comment := _COMMENT.match(text, place)):
            commented = comment.end()
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
            if depth == 0:
                return place + 1
    return None
