"""What judges really write, read as a score, yes or no, a choice, or numbers. Pure functions: no model, no frame.

A judge is asked for a JSON object with a reason and a verdict. Read are also: such an object in prose or a fence, a broken
one, ``Score: 2`` lines, and a first or last line that is the verdict alone. A number somewhere in prose is no verdict.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from .json_values import json_values
from .numbers import grade, ranges_spelled
from .usable import FENCE, without_reasoning

NO_REASON = "the model gave no reason"
_DASH = "−–-"
_BEFORE = rf"[^\w{_DASH}]*?(?:[{_DASH}]\s+)?"
_INTEGER = re.compile(rf"{_BEFORE}([{_DASH}]?\d+)(?:\.0+)?(?!\d|\.\d)", re.ASCII)
_YES = re.compile(r"\W*(yes|no|true|false)\b", re.IGNORECASE)
_ALSO = re.compile(
    r"\W*(?:/|\bor\b)\s*(?:maybe\s+|perhaps\s+)?(yes|no|true|false)\b"
    r"|(?:\W|\b(?:and|but|also|maybe|perhaps|partly)\b)*\b(?P<last>yes|no|true|false)\b\W*\Z",
    re.IGNORECASE,
)
_YES_SO = re.compile(r"\W*(?:yes|no)\b\s*[,.;:!—–]", re.IGNORECASE)
_TIE = re.compile(r"\W*(?:an?\s+)?(?:tie|draw|equal|both|neither)\b", re.IGNORECASE)
_SIDE = re.compile(r"\W*(?:(?i:response|answer|assistant)\s+)?([AB])\b")
_OTHER_SIDE = re.compile(
    r"\s*(?:and|or|/|&|=|<|vs\.?|versus)\s*(?:(?i:response|answer|assistant)\s+)?([AB])\b|[^\w>]*(?P<last>[AB])\b\W*\Z"
)
_WORSE = re.compile(r"\s+(?:is|was)\s+(?:\w+\s+)?(?:worse|weaker|no\s+better|not\s+(?:the\s+)?(?:better|as|so))\b")
_LETTER = re.compile(r"[\W_]*[ab][\W_]*")
_NOTHING = re.compile(r"\W*(?:none|nothing|no nuggets?)\b\W*$|\W*\[\s*\]\W*$", re.IGNORECASE)
_BETWEEN = rf"(?:[^\w/%.{_DASH}]|\.(?!\d)|\s[{_DASH}]\s|\band\b)+"
_FIGURES = re.compile(r"\W*\d+(?:(?:\W|\band\b)+\d+)*\W*$")
_NUMBERS = re.compile(rf"[^\w{_DASH}]*(?:[{_DASH}]\s+)?\d{{1,9}}(?:{_BETWEEN}\d{{1,9}})*[^\w%]*$")
_LIST = re.compile(r"\s*(\[[^\[\]]*\])\s*,\s*[\"']?\w+[\"']?\s*:")
_LIST_IN_LINES = re.compile(r"\[[\s\d,\"']*\]")

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
    text = _LIST_IN_LINES.sub(lambda found: " ".join(found[0].split()), without_reasoning(text))
    for candidates in (_in_json(text, key), _labelled(text, key), _alone(text)):
        read = [(value, reason) for raw, reason in candidates if (value := interpret(raw)) is not None]
        if read:
            return Verdict(read[0][0], read[0][1] or NO_REASON) if all(value == read[0][0] for value, _ in read) else None
        if candidates:
            return None
    return None


def _in_json(text: str, key: str) -> list[tuple[Any, str]]:
    return _under(key, _objects(text)) or _under(key, [value for value in json_values(text) if isinstance(value, dict)])


def _under(key: str, objects: Iterable[dict[Any, Any]]) -> list[tuple[Any, str]]:
    named = [{str(name).casefold(): value for name, value in item.items()} for item in objects]
    return [(item[key], _flat(item.get("reason", ""))) for item in named if key in item]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(strict=False)  # models write line breaks inside strings
    for start in re.finditer(r"\{", text):
        try:
            yield decoder.raw_decode(text, start.start())[0]
        except (ValueError, RecursionError):
            continue


def _labelled(text: str, key: str) -> list[tuple[Any, str]]:
    marks = r"[\"'*_ ]*"
    inline = rf"(?<![^\W_])(?<![^\W_]_){key}(?![^\W_]){marks}(?:\([^)\n]*\))?{marks}(?:\bis\b|[:=\uff1a])"
    label = re.compile(rf"(?:{inline}|^(?:[^\w\[]|_)*{key}(?:[^\w\[]|_)*\n)[\s\"'*_]*([^\n]*)", re.IGNORECASE | re.MULTILINE)
    return [(found[1], _flat(text[: found.start()] + text[found.end() :]) or _beside(found[1])) for found in label.finditer(text)]


def _beside(line: str) -> str:
    return _flat(line) if len(line.split()) > 2 else ""


def _alone(text: str) -> list[tuple[Any, str]]:
    lines = [line for line in FENCE.sub("", text).splitlines() if line.strip()]
    ends = dict.fromkeys([lines[0], lines[-1]]) if lines else {}
    return [(line, _flat(" ".join(other for other in lines if other != line)) or _beside(line)) for line in ends if _is_verdict(line)]


def _is_verdict(line: str) -> bool:
    number = _INTEGER.match(line)
    if number:
        return bool(_FIGURES.match(line)) or re.fullmatch(r"\s*(?:/|out of)\s*\d+\W*", line[number.end() :]) is not None
    words = (_YES, _TIE, _SIDE, _LETTER, _NOTHING)
    return bool(_YES_SO.match(line)) or any(re.fullmatch(rf"{word.pattern}\W*", line, word.flags) for word in words)


def _flat(reason: Any) -> str:
    text = reason if isinstance(reason, str) else json.dumps(reason)
    text = re.sub(r"^\W*(?:reason(?:ing)?)\W*:\W*", "", text.strip(), flags=re.IGNORECASE)
    return " ".join(text.split()).strip(' "{},') if any(map(str.isalnum, text)) else ""


def _whole(value: Any, lowest: int, highest: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        found = re.match(_BEFORE + grade(highest), value, re.ASCII | re.IGNORECASE)
        if found is None:
            return None
        value = int(re.sub(rf"[{_DASH}]", "-", found[1]))
    return int(value) if lowest <= value <= highest and value == int(value) else None


def _yes_no(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    found = _YES.match(value) if isinstance(value, str) else None
    if found is None:
        return None
    also = _ALSO.match(value, found.end())
    return None if also and _means_yes(also[1] or also["last"]) != _means_yes(found[1]) else _means_yes(found[1])


def _means_yes(word: str) -> bool:
    return word.casefold() in ("yes", "true")


def _choice(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    if _TIE.match(value):
        return "tie"
    value = value.upper() if _LETTER.fullmatch(value) else value
    found = _SIDE.match(value)
    if found is None or _WORSE.match(value, found.end()):
        return None
    other = _OTHER_SIDE.match(value, found.end())
    return None if other and (other[1] or other["last"]) != found[1] else found[1]


def _numbers(value: Any) -> list[int] | None:
    if isinstance(value, list):
        items = [_whole(item, 0, 10**6) for item in value]
        return None if None in items else list(dict.fromkeys(item for item in items if item is not None))
    if not isinstance(value, str):
        return None
    value = found[1] if (found := _LIST.match(value)) else value
    if _NOTHING.match(value):
        return []
    if set(value) & set("[{(") and not set(value) & set(")}]"):  # a list that was cut off may have gone on
        return None
    value = ranges_spelled(re.sub(r"(?<=\d)\.0+(?!\d)", "", value))
    return list(dict.fromkeys(map(int, re.findall(r"\d+", value)))) if _NUMBERS.match(value) else None
