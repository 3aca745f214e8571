"""Parsers of chosen statements: ids, copies or scores, as the model wrote them. Pure functions: no model, no frame."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from .json_values import TRIED, json_values, value_at
from .numbers import ranges_spelled
from .usable import FENCE, own_turn, usable_text

_LABEL = r"(?:[^\W\d_]+ ){0,3}(?:provenance|statement|ptkb|number|id|fact|information|answer|relevant)s?"
NONE = re.compile(
    rf"\W*(?:{_LABEL}\W{{0,9}}?:\W{{0,99}})?(?:none\b|nothing\b|n/a\b|not any\b|no\W*$|no (?:\w+ ){{0,2}}statements?\b)", re.IGNORECASE
)
"""How a text begins that says that no statement matters."""
EXCEPT = re.compile(r"\b(?:except|apart from|other than|besides)\b", re.IGNORECASE)
"""What makes an exception to none."""
NUMBER = re.compile(r"^\s*(?:[-*•–]\s+)?[(\[]?(\d{1,3})[.):\]]+(?!\d)\s*")
"""The number before a line."""
NAMED = re.compile(r"\b(?:statement|number|ptkb|index|id|no)s?\W{0,3}(\d{1,3})\b", re.IGNORECASE)
"""A number that is called a statement's."""

_NOT = r"(?:\b(?:not|never)\b(?! only)|n['’]t\b)"
_NEGATED = re.compile(_NOT, re.IGNORECASE)
_DENIED = re.compile(
    rf"{_NOT}(?:[^\w.;!?]+\w+){{0,2}}?[^\w.;!?]+(?:relevan|relat|applicab|matter)\w*|\b(?:is|are|do|does)(?:\s+not|n['’]t)\W*\Z"
    r"|\b(?:irrelevant|unrelated|unimportant)\b",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(r"\s*(?:is|are|does|do)\s*(?:not\b(?! only)|n['’]t\b|irrelevant\b|unrelated\b)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z\[{])|;|\n")

_ONE = r"\d{1,3}\b(?:[*\"']*[ \t]*\([^()]*\))?"
_BETWEEN = r"(?:[*\"']*[\s,;&]+(?:and\s+)?[*#\"']*|\)\s*(?:[,;&]|and\b)\s*(?:and\s+)?\()"
_NUMBERS = re.compile(
    rf"[\s*#_(\"'•–-]*(?:{_LABEL}[\s*:=#_(]+)?({_ONE}(?:{_BETWEEN}{_ONE})*)[\s.,;*\"')_]*(?:\((?!.*\){_BETWEEN}\d).*)?",
    re.IGNORECASE,
)
"""Numbers alone, each perhaps with a remark in parentheses."""
_ASIDE = re.compile(r"\([^()]*[^()\d\s][^()]*\)|(?<=\d )\(\d+\)")
_SAYS_NO = re.compile(r"[\W_]*(?:relevant\W+)?(?:no|false)\b[*_.]*\s*(?:[-–—:(].*)?", re.IGNORECASE)
"""The text behind the number of a statement that is said not to matter."""
_ITEM = re.compile(
    r"\s*(?:[-*•–]\s+)?(?:\d{1,3}[.)]\s+(?=\W*(?:statement|ptkb|\d{1,3}\W*$)))?[*_]*(?:(?:statement|ptkb)\s+)?"
    r"[(\[#]*(\d{1,3})[*_]*(?:[.):\]]+(?!\d)|\s+[-–—]\s|$)",
    re.IGNORECASE,
)
_CALLED = re.compile(
    r"\b(?:statement|number|ptkb|id|no|one)s?\b\.?(?: (?:is|are))?\W{0,3}(\d{1,3}\b(?:(?:,|,? and| &) \d{1,3}\b)*)", re.IGNORECASE
)
_ENDED = re.compile(r"(?s:.*)(?:\n|\S[ \t]{1,9}\S{0,99}[.!?]\s)")
"""Whole lines and sentences; a number before a line is no sentence."""
_BRACKET = re.compile(r"[\[{]")
_WITHIN = re.compile(r"\[([\s\d,#*\"']*)(\]|\Z)")
_NEXT = re.compile(r"[ \t]*(?:,|;|&|and\b)[ \t]*\[\s*#?(\d{1,3})\s*\]")
_LISTED = re.compile(r"\[([\s\d,]*)\]")
_BEFORE_LISTED = re.compile(r"(?:^|\n)[ \t]*(?:[-*•–][ \t]+)?\Z|(?P<label>\w{1,60}[*_]{0,9}:[*_]{0,9}[ \t]{0,9}\n?[ \t]{0,9})\Z")
_BEFORE = 90
"""Characters before a list that its label can have."""
_SEPARATED = re.compile(r"[^\w\s,;&.:()\[\]{}\"'*#•–—-]")
"""Marks around ids, which are neither digits nor known to separate: of money, of code, of a table."""
_LABELLED = re.compile(rf"\b(?:{_LABEL}|and)\b", re.IGNORECASE)
_ID_KEYS = ("id", "index", "number", "statement_id", "statement")
_SCORE_KEYS = ("score", "relevance")
_NO = (False, "false", "no", "not relevant", "irrelevant")


class Found(list[Any]):
    """The parsed choice; ``rest`` has possible choices outside the first list."""

    def __init__(self, items: Iterable[Any] = (), rest: Iterable[str] = ()) -> None:
        super().__init__(items)
        self.rest = list(rest)


def read_ids(text: str) -> Found | None:
    r"""The statement numbers in a completion; a stray number in running text is none.

    The first list counts: in brackets (JSON or nearly so, fenced or in prose), on lines that hold numbers or begin with one, or in a
    sentence that names statements. Without a list, a sentence that names one statement counts.

    Returns:
        The numbers as text, in the completion's order; empty where it says that no statement matters; ``None`` where it
        says nothing usable. What may be meant too is in the result's ``rest``: statements of later sentences, later lists that
        choose otherwise.

    Example:
        >>> read_ids("[4, 1]. Note that [2] is not relevant."), read_ids("1, 4"), read_ids("None of them."), read_ids("Sure!")
        (['4', '1'], ['1', '4'], [], None)
    """
    said = ranges_spelled(_without_marks(FENCE.sub("", usable_text(text))))
    found = _first_list(own_turn(said).strip())
    if found is not None and not found.rest:
        found.rest += _other_choices(said, found)
    return found


def _other_choices(text: str, chosen: Sequence[str]) -> list[str]:
    """A later list with a label, or on its own line, that differs: few-shot models answer for every turn of the conversation."""
    for listed in _LISTED.finditer(text):
        before = _BEFORE_LISTED.search(text[max(0, listed.start() - _BEFORE) : listed.start()])
        numbers = set(re.findall(r"\d+", listed[1]))
        if before and (numbers != set(chosen) if before["label"] else not numbers <= set(chosen)):
            return [f"other lists, such as {(before[0] + listed[0]).strip()!r}"]
    later = [line for line in own_turn(text).split("\n") if _numbers(line)]
    return [f"later lines, such as {line.strip()!r}" for line in later if not set(_numbers(line)) <= set(chosen)][:1]


def _without_marks(text: str) -> str:
    """A text without letters but labels, with nothing else in it than digits and what separates them; any other text as it is."""
    return text if re.search(r"[^\W\d_]", _LABELLED.sub("", text)) else _SEPARATED.sub(" ", text)


def _first_list(text: str) -> Found | None:
    lines = text.split("\n")
    first = _SENTENCE.split(lines[0], maxsplit=1)[0]
    if NONE.match(first) and not _BRACKET.search(first):
        return None if EXCEPT.search(first) else Found()
    place, bracketed = _in_brackets(text)
    if bracketed is None:
        return None if _BRACKET.match(text) else _in_lines(lines)
    before = _ENDED.match(text, 0, place)
    found = _in_lines(before[0].split("\n"), least=2) if before else None
    if found is None:
        return bracketed
    found.rest += [f"[{number}]" for number in bracketed if number not in found]
    return found


def _in_brackets(text: str) -> tuple[int, Found | None]:
    """Where the first brackets are that hold a list or an object and are not denied, and what they choose."""
    for opening in islice(_BRACKET.finditer(text), TRIED):
        start = opening.start()
        clause = re.split(r"[.!?,;\n]", text[max(0, start - 60) : start])[-1]
        found, end = (None, start) if _DENIED.search(clause) else _bracket_at(text, start)
        if found is not None and not _DENIED_AFTER.match(text, end):
            return start, found
    return 0, None


def _bracket_at(text: str, start: int) -> tuple[Found | None, int]:
    """What the brackets at ``start`` choose, None where they cannot be read, and where they end."""
    within = _WITHIN.match(text, start)
    if within and (within[2] or re.search(r"\d", within[1])):
        numbers, end = re.findall(r"\d+", within[1]), within.end()
        while numbers and (following := _NEXT.match(text, end)):
            numbers, end = [*numbers, following[1]], following.end()
        return Found(numbers, [] if within[2] else ["a list that never ends"]), end
    value, end = value_at(text, start)
    if value is None:
        return None, end
    if _is_one(value):
        value, end = list(takewhile(_is_one, json_values(text[start:]))), len(text)
    items, *others = (_labels(part) for part in ([value] if isinstance(value, list) else _lists(value)))
    items = [] if len(items) == 1 and NONE.match(items[0]) else items
    return Found(items, [f"{other} in the same object" for other in others]), end


def _labels(items: Iterable[Any]) -> list[str]:
    return [label for item in items if not _refused(item) for label in (_labels(item) if isinstance(item, list) else [_label(item)])]


def _in_lines(lines: Iterable[str], least: int = 1) -> Found | None:
    """The first lines that hold numbers alone or begin with one, or what the first sentence says that names ``least`` statements."""
    lines = list(_not_denied(lines))
    for index, line in enumerate(lines):
        if _numbers(line):
            return Found(number for numbers in takewhile(bool, map(_numbers, lines[index:])) for number in numbers)
        if _ITEM.match(line):
            return _items(lines[index:])
        if any(len(_named_in(sentence)) >= least and not _DENIED.search(sentence) for sentence in _SENTENCE.split(line)):
            return _first_sentence("\n".join(lines[index:]))
    return None


def _numbers(line: str) -> list[str]:
    """The numbers on a line that holds nothing else but perhaps a label."""
    found = _NUMBERS.fullmatch(line)
    return re.findall(r"\d+", _ASIDE.sub("", found[1])) if found and not _DENIED.search(line) else []


def _items(lines: Iterable[str]) -> Found:
    """The numbers before the lines; a line that says that its statement is irrelevant is rest."""
    found = Found()
    for line in lines:
        if item := _ITEM.match(line):
            denied = bool(_DENIED.search(line) or _SAYS_NO.fullmatch(line, item.end()))
            (found.rest if denied else found).append(line.strip() if denied else item[1])
    return found


def _first_sentence(text: str) -> Found | None:
    """The statements that the first sentence names without a negation; those of the others are rest, but for what is irrelevant."""
    found = Found()
    for sentence in _SENTENCE.split(text):
        numbers = [] if _DENIED.search(sentence) else _named_in(sentence)
        if found or _NEGATED.search(sentence):
            found.rest += [f"statement {number}" for number in numbers if number not in found]
        else:
            found += numbers
    return found or None


def _named_in(sentence: str) -> list[str]:
    return [number for called in _CALLED.findall(sentence) for number in re.findall(r"\d+", called)]


def _not_denied(lines: Iterable[str]) -> Iterator[str]:
    """The lines without headings that deny, and without what stands under them."""
    denied = False
    for line in lines:
        denied = bool(_DENIED.search(line)) if line.rstrip().endswith(":") else denied
        if not denied:
            yield line


def read_copies(text: str) -> Found | None:
    r"""The copied statements in a completion: one per line, numbered, bulleted, quoted, or a JSON list of texts that comes first.

    Returns:
        The copies, numbers and all, also a line such as "None" (a statement may begin like that); empty for an empty
        JSON list; ``None`` where the completion holds no word.

    Example:
        >>> read_copies("Relevant:\n- I am vegan.\n2: I own a dog."), read_copies("None")
        (['- I am vegan.', '2: I own a dog.'], ['None'])
    """
    text = FENCE.sub("", own_turn(usable_text(text))).strip()
    first = next((value for value in json_values(text) if isinstance(value, list) or not value), None)
    if first is not None and all(isinstance(item, str) for item in first) and "\n" not in re.split(r"[\[{]", text)[0].strip():
        return Found(first)
    if first is None and _BRACKET.match(text):  # a list that was cut off
        return None
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    if len(lines) == 1 and NUMBER.match(lines[0]):
        lines = re.split(r",?\s+(?=\d{1,3}[.):]\s)", lines[0])
    return Found(line for line in _not_denied(lines) if not line.endswith(":")) if lines else None


def read_scores(text: str) -> Found | None:
    """The scores in a completion: the first JSON object id -> score, or JSON objects with an id and a score, fenced or in prose.

    Returns:
        Pairs of id and whatever stands as its score, in the completion's order; empty where no statement matters;
        ``None`` for prose.

    Example:
        >>> read_scores('Sure: {"3": 0.9, "7": 0.4}'), read_scores("{}"), read_scores("Statement 3 matters.")
        ([('3', 0.9), ('7', 0.4)], [], None)
    """
    text = own_turn(usable_text(text))
    if NONE.match(text) and not _BRACKET.search(_SENTENCE.split(text, maxsplit=1)[0]):
        return Found()
    values = [value for value in json_values(text) if isinstance(value, dict) or not value or any(isinstance(item, dict) for item in value)]
    if not values:
        return None
    first = list(takewhile(_is_one, values)) or values[:1]
    others = [value for value in values[len(first) :] if value and isinstance(value, dict)]
    return Found(_pairs(first), [f"another object: {value}" for value in others])


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Ids and scores: of an object about one statement, of an object id -> score, or of the only list or object within."""
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
    """The lists in an object that their keys do not deny; without lists, the keys whose values do not say no."""
    lists = {re.sub(r"[\s_-]+", " ", str(key)): value for key, value in item.items() if isinstance(value, list)}
    found = [value for key, value in lists.items() if not _DENIED.search(key)]
    return found or [[] if lists else [key for key in item if not _is_no(item[key])]]


def _is_no(value: Any) -> bool:
    return (value.strip().casefold() if isinstance(value, str) else value) in _NO


def _refused(item: Any) -> bool:
    """Whether an object about one statement says that it does not matter."""
    return isinstance(item, dict) and any(_is_no(item[key]) for key in ("relevant", *_SCORE_KEYS) if key in item)


def _is_one(item: Any) -> bool:
    """Whether this is an object about one statement."""
    return isinstance(item, dict) and any(key in item and not isinstance(item[key], list) for key in _ID_KEYS)


def _label(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _ID_KEYS if key in item), next(iter(item), ""))
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)
