"""What judges really write, read as a score, yes or no, a choice, or numbers. Pure functions: no model, no frame.

A judge is asked for a JSON object with a reason and a verdict. Read are also: such an object in prose or a fence, a broken
one, ``Score: 2`` lines, and a first or last line that is the verdict alone. A number somewhere in prose is no verdict.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from ..llm.parsing import strip_thinking

NO_REASON = "the model gave no reason"
_DASH = "−–-"
_FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
_INTEGER = re.compile(rf"[^\w{_DASH}]*?(?:[{_DASH}]\s+)?([{_DASH}]?\d+)(?:\.0+)?(?!\d|\.\d)", re.ASCII)
_RANGE = re.compile(rf"\s*(?:[/,{_DASH}]|to\b|or\b|and\b|out of\b|of\b|%)\s*[{_DASH}]?\d|\s*%")
_YES = re.compile(r"\W*(yes|no|true|false)\b(?!\s*(?:/|or\b)\s*(?:yes|no|true|false))", re.IGNORECASE)
_YES_SO = re.compile(r"\W*(?:yes|no)\b\s*[,.;:!—–]", re.IGNORECASE)
_TIE = re.compile(r"\W*(?:an?\s+)?(?:tie|draw|equal|both|neither)\b", re.IGNORECASE)
_SIDE = re.compile(r"\W*(?:(?i:response|answer|assistant)\s+)?([AB])\b(?!\s*(?:and|or|/|&)\s*[AB]\b)")
_NOTHING = re.compile(r"\W*(?:none|nothing|no nuggets?)\b\W*$|\W*\[\s*\]\W*$", re.IGNORECASE)
_NUMBERS = re.compile(r"\W*\d+(?:(?:\W|\band\b)+\d+)*\W*$")

Value = TypeVar("Value")


class Verdict(NamedTuple):
    """What a judge decided, and why."""

    value: Any
    reason: str


def read_score(text: str, lowest: int, highest: int) -> Verdict | None:
    r"""A whole number from ``lowest`` to ``highest`` under ``score``; None when there is none, another one, or several.

    Example:
        >>> read_score('Sure:\n```json\n{"reason": "It skips the price.", "score": 2}\n```', -1, 3)
        Verdict(value=2, reason='It skips the price.')
        >>> read_score("It names 2 of 3 sizes.", -1, 3)
    """
    return _read(text, "score", lambda value: _whole(value, lowest, highest))


def read_yes_no(text: str) -> Verdict | None:
    """Yes (True) or no (False) under ``verdict``; None when there is neither, or both.

    Example:
        >>> read_yes_no("Verdict: No. The price is in none of the documents.").value
        False
    """
    return _read(text, "verdict", _yes_no)


def read_choice(text: str) -> Verdict | None:
    """``"A"``, ``"B"`` or ``"tie"`` under ``better``; None when there is none of them, or several.

    Example:
        >>> read_choice('{"reason": "A is longer, no more.", "better": "tie"}').value
        'tie'
    """
    return _read(text, "better", _choice)


def read_numbers(text: str) -> Verdict | None:
    """A list of whole numbers under ``nuggets``, each once, in order; empty for none of them; None when nothing says so.

    Example:
        >>> read_numbers('{"reason": "The second is missing.", "nuggets": [1, 3]}').value
        [1, 3]
    """
    return _read(text, "nuggets", _numbers)


def _read(text: str, key: str, interpret: Callable[[Any], Value | None]) -> Verdict | None:
    text = strip_thinking(text)
    for candidates in (_in_json(text, key), _labelled(text, key), _alone(text)):
        read = [(value, reason) for raw, reason in candidates if (value := interpret(raw)) is not None]
        if read:
            return Verdict(read[0][0], read[0][1] or NO_REASON) if all(value == read[0][0] for value, _ in read) else None
        if candidates:
            return None
    return None


def _in_json(text: str, key: str) -> list[tuple[Any, str]]:
    objects = [{str(name).casefold(): value for name, value in item.items()} for item in _objects(text)]
    return [(item[key], _flat(item.get("reason", ""))) for item in objects if key in item]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(strict=False)  # models write line breaks inside strings
    for start in re.finditer(r"\{", text):
        try:
            yield decoder.raw_decode(text, start.start())[0]
        except (ValueError, RecursionError):
            continue


def _labelled(text: str, key: str) -> list[tuple[Any, str]]:
    marks = r"[\"'*_ ]*"
    inline = rf"(?<!\w){key}\b{marks}(?:\([^)\n]*\))?{marks}(?:\bis\b|[:=])"
    label = re.compile(rf"(?:{inline}|^[^\w\[]*{key}[^\w\[]*\n)[\s\"'*_]*([^\n]*)", re.IGNORECASE | re.MULTILINE)
    return [(found[1], _flat(text[: found.start()] + text[found.end() :]) or _beside(found[1])) for found in label.finditer(text)]


def _beside(line: str) -> str:
    return _flat(line) if len(line.split()) > 2 else ""


def _alone(text: str) -> list[tuple[Any, str]]:
    lines = [line for line in _FENCE.sub("", text).splitlines() if line.strip()]
    ends = dict.fromkeys([lines[0], lines[-1]]) if lines else {}
    return [(line, _flat(" ".join(other for other in lines if other != line)) or _beside(line)) for line in ends if _is_verdict(line)]


def _is_verdict(line: str) -> bool:
    number = _INTEGER.match(line)
    if number:
        return bool(_NUMBERS.match(line)) or re.fullmatch(r"\s*(?:/|out of)\s*\d+\W*", line[number.end() :]) is not None
    return any(re.fullmatch(rf"{one.pattern}\W*", line, one.flags) for one in (_YES, _TIE, _SIDE, _NOTHING)) or bool(_YES_SO.match(line))


def _flat(reason: Any) -> str:
    text = reason if isinstance(reason, str) else json.dumps(reason)
    text = re.sub(r"^\W*(?:reason(?:ing)?)\W*:\W*", "", text.strip(), flags=re.IGNORECASE)
    return " ".join(text.split()).strip(' "{},') if any(map(str.isalnum, text)) else ""


def _whole(value: Any, lowest: int, highest: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        value = re.sub(rf"(\d)\s*(?:/|out of)\s*{highest}\b", r"\1", value)
        found = _INTEGER.match(value)
        if found is None or _RANGE.match(value[found.end() :]):
            return None
        value = int(re.sub(rf"[{_DASH}]", "-", found[1]))
    return int(value) if lowest <= value <= highest and value == int(value) else None


def _yes_no(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    found = _YES.match(value) if isinstance(value, str) else None
    return found[1].casefold() in ("yes", "true") if found else None


def _choice(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    if _TIE.match(value):
        return "tie"
    found = _SIDE.match(value.upper() if len(value.strip()) == 1 else value)
    return found[1] if found else None


def _numbers(value: Any) -> list[int] | None:
    if isinstance(value, list):
        items = [_whole(item, 0, 10**6) for item in value]
        return None if None in items else list(dict.fromkeys(item for item in items if item is not None))
    if not isinstance(value, str):
        return None
    if _NOTHING.match(value):
        return []
    return list(dict.fromkeys(map(int, re.findall(r"\d+", value)))) if _NUMBERS.match(value) else None
