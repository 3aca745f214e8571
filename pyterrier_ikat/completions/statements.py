"""Parsers of chosen statements: ids, copies or scores, as the model wrote them. Pure functions: no model, no frame."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from .json_answers import OPENING, TRIED, json_values, value_at
from .usable import FENCE, own_turn, usable_text

_LABEL = r"(?:[^\W\d_]+ ){0,3}(?:provenance|statement|ptkb|number|id|fact|information|answer|relevant)s?"
NONE = re.compile(
    rf"\W*(?:{_LABEL}\W{{0,9}}?:\W{{0,99}})?(?:none\b|nothing\b|n/a\b|not any\b|no\s*(?:[-–—(]|\W*$)|no (?:\w+ ){{0,2}}statements?\b)",
    re.IGNORECASE,
)
"""The beginning of a text which says that no statement is relevant."""
EXCEPT = re.compile(r"\b(?:except|apart from|other than|besides)\b", re.IGNORECASE)
"""Words that make an exception to "none"."""
NUMBERED = re.compile(
    r"^\s*(?:[-*•–>]\s+)?(?:\d{1,3}[.)]\s+(?=\W*(?:statement|ptkb|\d{1,3}\W*$)))?[*_#`]*(?:(?:statement|ptkb|number|id)\s+)?"
    r"[(\[#]*(\d{1,3})[*_]*(?:[.):\]]+(?!\d)[*_]*|\s+[-–—]\s(?!\s*\d+\s*$)|$)\s*",
    re.IGNORECASE,
)
"""The number of a statement before a line."""

_DENIED = re.compile(
    r"(?:\b(?:not|never)\b(?! only)|n['’]t\b)(?:[^\w.;!?]+\w+){0,2}?[^\w.;!?]+(?:relevan|relat|applicab|matter)\w*"
    r"|\b(?:is|are|do|does)(?:\s+not|n['’]t)\W*\Z"
    r"|\b(?:irrelevant|unrelated|unimportant)\b",
    re.IGNORECASE,
)

_BETWEEN = r"(?:[\s,;&*#\"']+(?:and[\s*#\"']+)?|\)[\s,;&]+(?:and\s+)?\()"
_NUMBERS = re.compile(rf"[\s*#_(\"'•–-]*(?:{_LABEL}[\s*:=#_(]+)?(\d{{1,3}}\b(?:{_BETWEEN}\d{{1,3}}\b)*)[\s.,;*\"')_]*", re.IGNORECASE)
"""Numbers alone, perhaps behind a label."""
_IDS = r"[\s\d,#*\"']*"
_WITHIN = re.compile(rf"\[({_IDS}(?:\][ \t]*(?:[,;&]|and\b)[ \t]*\[{_IDS})*)(\]|\Z)")
"""Ids in brackets, or each in brackets of its own."""
_BEFORE_LISTED = re.compile(r"(?:^|\n)[ \t]*(?:[-*•–][ \t]+)?\Z|(?P<label>\w{1,60}[*_]{0,9}:[*_]{0,9}[ \t]{0,9}\n?[ \t]{0,9})\Z")
_BEFORE = 90
"""The maximum length of a label before a list, in characters."""
_SEPARATED = re.compile(r"[^\w\s,;&.:()\[\]{}\"'*#•–—-]")
"""Characters around ids that are neither digits nor known separators, such as those of money, code or tables."""
_ID_KEYS = ("id", "index", "number", "statement_id", "statement")
_SCORE_KEYS = ("score", "relevance")
_NO = (False, "false", "no", "not relevant", "irrelevant")


class Found(list[Any]):
    """The parsed choice; ``rest`` has possible choices outside the first list."""

    def __init__(self, items: Iterable[Any] = (), rest: Iterable[str] = ()) -> None:
        super().__init__(items)
        self.rest = list(rest)


def read_ids(text: str) -> Found | None:
    r"""The statement numbers in a completion. A stray number in running text does not count.

    The first list counts: in brackets (JSON or nearly so, fenced or in prose), on lines that hold numbers or begin with one, or in a
    sentence that names statements. Without a list, a sentence that names one statement counts.

    Returns:
        The numbers as text, in the completion's order. Empty if it says that no statement is relevant; ``None`` if it has no usable choice.
        The result's ``rest`` has other possible choices: statements of later sentences, and later lists that differ.

    Example:
        >>> read_ids("[4, 1]. Note that [2] is not relevant."), read_ids("1, 4"), read_ids("None of them."), read_ids("Sure!")
        (['4', '1'], ['1', '4'], [], None)
    """
    said = _without_marks(FENCE.sub("", usable_text(text)))
    found = _first_list(own_turn(said).strip())
    if found is not None and not found.rest:
        found.rest += _other_choices(said, found)
    return found


def _other_choices(text: str, chosen: Sequence[str]) -> list[str]:
    """A later list that differs, with a label or on its own line. Few-shot models answer for every turn of the conversation."""
    for listed in _WITHIN.finditer(text):
        before = _BEFORE_LISTED.search(text[max(0, listed.start() - _BEFORE) : listed.start()])
        numbers = set(_digits(listed[1]))
        if before and (numbers != set(chosen) if before["label"] else not numbers <= set(chosen)):
            return [f"other lists, such as {(before[0] + listed[0]).strip()!r}"]
    later = [line for line in own_turn(text).split("\n") if _numbers(line)]
    return [f"later lines, such as {line.strip()!r}" for line in later if not set(_numbers(line)) <= set(chosen)][:1]


def _digits(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def _without_marks(text: str) -> str:
    """A text without letters is reduced to digits and separators. Any other text is returned unchanged."""
    return text if any(map(str.isalpha, text)) else _SEPARATED.sub(" ", text)


def _says_none(text: str) -> bool:
    """Whether the first sentence says that no statement is relevant, and names none in brackets."""
    line = text.split("\n")[0]
    return bool(NONE.match(line)) and not OPENING.search(line.split(". ")[0])


def _first_list(text: str) -> Found | None:
    if _says_none(text):
        return None if EXCEPT.search(text.split("\n")[0]) else Found()
    place, bracketed = _in_brackets(text)
    if bracketed is None:
        return None if OPENING.match(text) else _in_lines(text.split("\n"))
    found = _in_lines(text[:place].split("\n")[:-1])
    if found is None:
        bracketed.rest += _numbers_before(text[:place])
        return bracketed
    found.rest += [f"[{number}]" for number in bracketed if number not in found]
    return found


def _numbers_before(text: str) -> list[str]:
    """Words and numbers before the choice, on lines without a denial. They may also name statements."""
    lines = [line.strip() for line in text.split("\n") if not _DENIED.search(line)]
    named = [line for line in lines if any(map(str.isdecimal, line)) and any(map(str.isalpha, line))]
    return [f"lines before it, such as {named[0]!r}"] if named else []


def _in_brackets(text: str) -> tuple[int, Found | None]:
    """The position of the first brackets that hold a list or an object and are not denied, and their choice."""
    for opening in islice(OPENING.finditer(text), TRIED):
        start = opening.start()
        before = text[max(0, start - 60) : start]
        clause = before[1 + max(before.rfind(sign) for sign in ".!?,;\n") :]
        found = None if _DENIED.search(clause) else _bracket_at(text, start)
        if found is not None:
            return start, found
    return 0, None


def _bracket_at(text: str, start: int) -> Found | None:
    """The choice in the brackets at ``start``. None if they cannot be read."""
    within = _WITHIN.match(text, start)
    numbers = _digits(within[1]) if within else []
    if within and (within[2] or numbers):
        return Found(numbers, [] if within[2] else ["a list that never ends"])
    value, _ = value_at(text, start)
    if value is None:
        return None
    if _is_one(value):
        value = list(takewhile(_is_one, json_values(text[start:])))
    items, *others = (_labels(part) for part in ([value] if isinstance(value, list) else _lists(value)))
    items = [] if len(items) == 1 and NONE.match(items[0]) else items
    return Found(items, [f"{other} in the same object" for other in others])


def _labels(items: Iterable[Any]) -> list[str]:
    return [label for item in items if not _refused(item) for label in (_labels(item) if isinstance(item, list) else [_label(item)])]


def _in_lines(lines: Iterable[str]) -> Found | None:
    """The first lines that hold only numbers, or that begin with a number."""
    lines = list(_not_denied(lines))
    for index, line in enumerate(lines):
        found = None
        if _numbers(line):
            found = Found(number for numbers in takewhile(bool, map(_numbers, lines[index:])) for number in numbers)
        elif NUMBERED.match(line):
            found = _items(lines[index:])
        if found is not None:
            found.rest += _numbers_before("\n".join(lines[:index]))
            return found
    return None


def _numbers(line: str) -> list[str]:
    """The numbers on a line that holds only numbers and perhaps a label."""
    found = _NUMBERS.fullmatch(line)
    return _digits(found[1]) if found and not _DENIED.search(line) else []


def _items(lines: Iterable[str]) -> Found:
    """The numbers at the beginning of the lines. A line that calls its statement irrelevant goes into ``rest``."""
    found = Found()
    for line in lines:
        if item := NUMBERED.match(line):
            denied = bool(_DENIED.search(line) or NONE.match(line, item.end()))
            (found.rest if denied else found).append(line.strip() if denied else item[1])
    return found


def _not_denied(lines: Iterable[str]) -> Iterator[str]:
    """The lines without headings that deny, and without the lines below such headings."""
    denied = False
    for line in lines:
        denied = bool(_DENIED.search(line)) if line.rstrip().endswith(":") else denied
        if not denied:
            yield line


def read_copies(text: str) -> Found | None:
    r"""The copied statements in a completion: one per line, numbered, bulleted, quoted, or a JSON list of texts that comes first.

    Returns:
        The copies with their numbers. A line such as "None" counts as a copy, because a statement may begin like that. Empty for an empty
        JSON list; ``None`` if the completion has no word.

    Example:
        >>> read_copies("Relevant:\n- I am vegan.\n2: I own a dog."), read_copies("None")
        (['- I am vegan.', '2: I own a dog.'], ['None'])
    """
    text = FENCE.sub("", own_turn(usable_text(text))).strip()
    first = next((value for value in json_values(text) if isinstance(value, list) or not value), None)
    if first is not None and all(isinstance(item, str) for item in first) and "\n" not in OPENING.split(text)[0].strip():
        return Found(first)
    if first is None and OPENING.match(text):  # a list that was cut off
        return None
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    return Found(line for line in _not_denied(lines) if not line.endswith(":")) if lines else None


def read_scores(text: str) -> Found | None:
    """The scores in a completion: the first JSON object id -> score, or JSON objects with an id and a score, fenced or in prose.

    Returns:
        Pairs of an id and the value given as its score, in the completion's order. Empty if no statement is relevant; ``None`` for prose.

    Example:
        >>> read_scores('Sure: {"3": 0.9, "7": 0.4}'), read_scores("{}"), read_scores("Statement 3 matters.")
        ([('3', 0.9), ('7', 0.4)], [], None)
    """
    text = own_turn(usable_text(text))
    if _says_none(text):
        return Found()
    values = [value for value in json_values(text) if isinstance(value, dict) or not value or any(isinstance(item, dict) for item in value)]
    if not values:
        return None
    first = list(takewhile(_is_one, values)) or values[:1]
    others = [value for value in values[len(first) :] if value and isinstance(value, dict)]
    return Found(_pairs(first), [f"another object: {value}" for value in others])


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Ids and scores of an object about one statement, of an object id -> score, or of the only list or object inside."""
    if isinstance(value, list):
        return [pair for item in value if isinstance(item, list | dict) for pair in _pairs(item)]
    if _is_one(value):
        return [(_label(value), score_in(value))]
    inner = [part for part in value.values() if isinstance(part, list) or (isinstance(part, dict) and score_in(part) is None)]
    if len(inner) == 1 and not any(isinstance(part, int | float) for part in value.values()):
        return _pairs(inner[0])
    return [(str(key), score) for key, score in value.items()]


def score_in(item: Mapping[str, Any]) -> Any:
    """The score in a JSON object about one statement, or ``None``."""
    return next((item[key] for key in _SCORE_KEYS if key in item), None)


def _lists(item: Mapping[str, Any]) -> list[list[Any]]:
    """The lists in an object whose keys do not deny. In an object without lists, the keys whose values are not "no"."""
    lists = {str(key).replace("_", " "): value for key, value in item.items() if isinstance(value, list)}
    found = [value for key, value in lists.items() if not _DENIED.search(key)]
    return found or [[] if lists else [key for key in item if not _is_no(item[key])]]


def _is_no(value: Any) -> bool:
    return (value.strip().casefold() if isinstance(value, str) else value) in _NO


def _refused(item: Any) -> bool:
    """Whether an object about one statement says that it is irrelevant."""
    return isinstance(item, dict) and any(_is_no(item[key]) for key in ("relevant", *_SCORE_KEYS) if key in item)


def _is_one(item: Any) -> bool:
    """Whether this is an object about one statement."""
    return isinstance(item, dict) and any(key in item and not isinstance(item[key], list) for key in _ID_KEYS)


def _label(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _ID_KEYS if key in item), next(iter(item), ""))
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)
