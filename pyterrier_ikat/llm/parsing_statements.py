"""Which statements about the user a completion chooses: by number, as copies, or with scores. Pure functions: no model, no frame.

This says whether a completion can be used at all; ``matching_statements`` says which of its pieces name a statement.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .parsing import spoken
from .parsing_numbers import ranges_spelled
from .parsing_values import cut_off_strings, json_values

NONE = re.compile(r"\W*(?:none\b|nothing\b|n/a\b|not any\b|no\W*$|no (?:\w+ ){0,2}statements?\b)", re.IGNORECASE)
"""How a text begins that says that no statement matters."""
NUMBER = re.compile(r"^\s*(?:[-*•–]\s+)?[(\[]?(\d{1,3})[.):\]]+(?!\d)\s*")
"""The number before a line."""
NAMED = re.compile(r"\b(?:statement|number|ptkb|index|id|no)s?\W{0,3}(\d{1,3})\b", re.IGNORECASE)
"""A number that is called a statement's."""
_FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
_DASHED = re.compile(r"^\s*(?:[-*•–]\s+)?#?(\d{1,3})\s+[-–—]\s(?!\s*\d+\W*$)")
_EXCEPT = re.compile(r"\b(?:except|excepting|apart from|aside from|other than|besides)\b", re.IGNORECASE)
_CALLED = re.compile(
    r"(?<!\bnot )\b(?:(?:statement|number|ptkb|index|indices|id)s?|nos?\.)\W{0,3}"
    r"(\d{1,3}\b(?:(?:\s*,\s*(?:and\s+)?|\s*(?:and|or|&)\s*)#?\d{1,3}\b)*)"
    r"(?P<not>\s+(?:is|are|do|does|was|were)(?:\s+not\b|n['’]t\b))?",
    re.IGNORECASE,
)
_AROUND = re.compile(
    r"\b(?:the|and|or|only|also|then|are|is|it|answer|most|more|less|important|relevant|useful|matter|matters|apply|applies|helpful"
    r"|statements?|numbers?|ids?|ptkb|json|list|here|first|of|these|following|i|would|choose|chose|select|selected)\b",
    re.IGNORECASE,
)
_ONLY_NUMBERS = re.compile(r"[^\w.-]*\d{1,3}(?:(?:\s*,\s*(?:and\s+)?|\s*(?:\band\b|&)\s*|\s+)\d{1,3})*[^\w]*$")
_ID_KEYS = ("id", "index", "number", "statement_id", "statement")
_SCORE_KEYS = ("score", "relevance")
_DENIED = (False, "false", "no", "not relevant", "irrelevant")


def read_ids(text: str) -> list[str] | None:
    r"""The statement numbers in a completion; a stray number in running text is none.

    Read are a list in JSON or nearly so (fenced or in prose), numbered lines, numbers that are called a statement's
    ("statements 1 and 4", "statements 2-4"), and a text that is little but numbers.

    Returns:
        The numbers as text, in the completion's order; empty where it says that no statement matters; ``None`` where it
        says nothing usable.

    Example:
        >>> read_ids("The diet decides.\n```json\n[4, 1]\n```"), read_ids("1, 4"), read_ids("None of them."), read_ids("Sure!")
        (['4', '1'], ['1', '4'], [], None)
    """
    text = spoken(text)
    values = json_values(text)
    if values:
        return [_label(item) for item in _listed(values)]
    if NONE.match(text):
        return _named_or_bare(_EXCEPT.split(text, maxsplit=1)[1]) if _EXCEPT.search(text) else []
    lines = [line for line in text.splitlines() if NUMBER.match(line) or _DASHED.match(line)]
    if lines:
        return [_number(line) for line in lines]
    return _named_or_bare(text) or None


def read_copies(text: str) -> list[str] | None:
    r"""The copied statements in a completion: one per line, numbered, bulleted, quoted, or a JSON list of texts.

    Returns:
        The copies, numbers and all, also a line such as "None" (a statement may begin like that); empty for an empty
        JSON list; ``None`` where the completion holds no word.

    Example:
        >>> read_copies("Relevant:\n- I am vegan.\n2: I own a dog."), read_copies("None")
        (['- I am vegan.', '2: I own a dog.'], ['None'])
    """
    text = spoken(text)
    lists = [value for value in json_values(text) if isinstance(value, list)]
    if lists and all(isinstance(item, str) for item in lists[-1]):
        return list(lists[-1])
    if (strings := cut_off_strings(_FENCE.sub("", text))) is not None:
        return strings
    lines = [line.strip() for line in _FENCE.sub("", text).splitlines() if any(map(str.isalnum, line))]
    if not lines:
        return [] if text.strip(" `\n") in ("{}", "[]") else None
    if len(lines) == 1 and NUMBER.match(lines[0]):
        lines = re.split(r",?\s+(?=\d{1,3}[.):]\s)", lines[0])
    return [line for line in lines if not line.endswith(":")]


def read_scores(text: str) -> list[tuple[str, Any]] | None:
    """The scores in a completion: a JSON object id -> score, or a JSON list of objects with an id and a score, fenced or in prose.

    Returns:
        Pairs of id and whatever stands as its score, in the completion's order; empty where no statement matters;
        ``None`` for prose.

    Example:
        >>> read_scores('Sure: {"3": 0.9, "7": 0.4}'), read_scores("{}"), read_scores("Statement 3 matters.")
        ([('3', 0.9), ('7', 0.4)], [], None)
    """
    text = spoken(text)
    values = json_values(text)
    objects = [value for value in values if isinstance(value, dict)]
    lists = [*values, *(value for item in objects for value in item.values())]
    listed = [item for value in lists if isinstance(value, list) for item in value if isinstance(item, dict)]
    pairs = [pair for item in [*listed, *values] if (pair := _pair(item))]
    if pairs:
        return pairs
    if objects:
        scores = _holder(next((value for value in reversed(objects) if value), {}))
        return [(str(key), value) for key, value in scores.items()]
    return [] if [] in values or NONE.match(text) else None


def _holder(item: dict[Any, Any]) -> dict[Any, Any]:
    """The object in which the scores stand: the only one within ``item`` when nothing else there can be a score, or ``item``."""
    inner = [value for value in item.values() if isinstance(value, dict)]
    others = [value for value in item.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    return inner[0] if len(inner) == 1 and not others and score_in(inner[0]) is None else item


def score_in(item: Mapping[str, Any]) -> Any:
    """The score in a JSON object about one statement, or ``None``."""
    return next((item[key] for key in _SCORE_KEYS if key in item), None)


def _listed(values: Sequence[Any]) -> list[Any]:
    """The last list that is not empty; all of them where each is one number, as in "statements [3] and [7]"."""
    lists = [list(value) if isinstance(value, list) else _inner(value) for value in values]
    full = [items for items in lists if items]
    if all(len(items) == 1 for items in full):
        return [item for items in full for item in items]
    return full[-1]


def _inner(item: Mapping[str, Any]) -> list[Any]:
    chosen = [key for key, value in item.items() if (value.strip().casefold() if isinstance(value, str) else value) not in _DENIED]
    return next((value for value in item.values() if isinstance(value, list)), chosen)


def _pair(item: Any) -> tuple[str, Any] | None:
    if not isinstance(item, dict) or score_in(item) is None or not any(key in item for key in _ID_KEYS):
        return None
    return _label(item), score_in(item)


def _label(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _ID_KEYS if key in item), next(iter(item), ""))
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)


def _named_or_bare(text: str) -> list[str]:
    text = ranges_spelled(text)
    called = list(_CALLED.finditer(text))
    if called:
        return [number for match in called if not match["not"] for number in re.findall(r"\d+", match[1])]
    lines = [line for line in text.splitlines() if _ONLY_NUMBERS.match(line)]
    if lines:
        return re.findall(r"\d+", "\n".join(lines))
    if re.search(r"[^\W\d_]", _AROUND.sub("", text)):
        return []
    return re.findall(r"(?<![\d.])\d{1,3}\b(?!\.\d)", text)


def _number(line: str) -> str:
    if (dashed := _DASHED.match(line)) is not None:
        return dashed[1]
    marked = NUMBER.match(line)
    rest = line[marked.end() :] if marked else line
    named = NAMED.match(rest.strip("*_ "))
    return named[1] if named else marked[1] if marked else rest
