"""Chosen statements: parsers of ids, copies or scores, and what they choose of the persona. Pure functions: no model, no frame."""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice, takewhile
from typing import Any, NamedTuple

from .json_answers import OPENING, TRIED, begun, json_values, value_at
from .texts import QUOTES
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
_NUMBERS = re.compile(rf"[\s*#_(\"'•–-]*(?:{_LABEL}[\s*:=#_(\"']+)?(\d{{1,3}}\b(?:{_BETWEEN}\d{{1,9}}\b)*)[\s.,;*\"')_]*", re.IGNORECASE)
"""Numbers alone, perhaps behind a label."""
_REMARKED = re.compile(
    rf"[\s*#_•–-]*(?:{_LABEL}[\s*:=#_]+)?(\d{{1,3}})[\s*_.:,]*(?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*[^\W\d][^\[\]]*\])[\s.,;*_]*",
    re.IGNORECASE,
)
"""A number with a remark in brackets, on a line of their own."""
_NEXT_CHOICE = re.compile(rf"[\s*#_•–-]*(?:\d{{1,3}}[.)]\s+)?[*_]*(?:{_LABEL})\W{{0,9}}?:\W*\d", re.IGNORECASE)
"""The beginning of a line that makes a further choice, such as ``2. Provenance: 7``."""
_SHOWN = re.compile(r"(?:\A|,\s)(\d{1,3}):\s")
"""Numbers of statements that are copied on one line, as prompts show them: ``1: I am vegan., 2: I own a dog.``"""
_IDS = r"[\s\d,#*\"']*"
_WITHIN = re.compile(rf"\[({_IDS}(?:\][ \t]*(?:[,;&]|and\b)[ \t]*\[{_IDS})*)(\]|\Z)")
"""Ids in brackets, or each in brackets of its own."""
_SEPARATED = re.compile(r"[^\w\s,;&.:()\[\]{}\"'*#•–—-]")
"""Characters around ids that are neither digits nor known separators, such as those of money, code or tables."""
_ID_KEYS = ("id", "index", "number", "statement_id", "statement")
_SCORE_KEYS = ("score", "relevance")
_NO = (False, "false", "no", "not relevant", "irrelevant")


_OTHER = re.compile(rf"(?:{_LABEL}|^[ \t]*(?:[-*•–][ \t]+)?(?=\[))(?P<label>[*_\s]*:[*_\s]*)?\[({_IDS})\]", re.IGNORECASE | re.MULTILINE)
"""A list in brackets behind a label, or at the beginning of a line."""
AGAIN = "another list, because the model answers more than once"
ENDLESS = "a list that never ends"


class Found(list[Any]):
    """The parsed choice; ``told`` has what a reader of it should know, ``copied`` says that it copies the texts of its statements."""

    def __init__(self, items: Iterable[Any] = (), told: Sequence[str] = (), copied: bool = False) -> None:
        super().__init__(items)
        self.told, self.copied = list(told), copied


def read_ids(text: str) -> Found | None:
    r"""The statement numbers in a completion. A stray number in running text does not count.

    The first list counts: in brackets (JSON or nearly so, fenced or in prose), on lines that hold numbers or begin with one, or a number
    with a remark on the first line. A list without end counts as far as it is complete, and ``told`` says so.

    Returns:
        The numbers as text, in the completion's order. Empty if it says that no statement is relevant; ``None`` if it has no usable choice.

    Example:
        >>> read_ids("[4, 1]. Note that [2] is not relevant."), read_ids("1, 4"), read_ids("None of them."), read_ids("Sure!")
        (['4', '1'], ['1', '4'], [], None)
        >>> read_ids("8 (I have a bike.)\nProvenance: 3 (We like soup.)"), read_ids("[3, 5, 7").told
        (['8'], ['a list that never ends'])
    """
    said = FENCE.sub("", usable_text(text))
    if not any(map(str.isalpha, said)):
        said = _SEPARATED.sub(" ", said)
    found = _first_list(own_turn(said).strip())
    if found is not None and not found.told and any(_differs(other, set(found)) for other in _OTHER.finditer(said)):
        found.told.append(AGAIN)
    return found


def _differs(other: re.Match[str], chosen: set[str]) -> bool:
    """Whether a later list makes another choice. One behind a label says all that it chooses."""
    numbers = set(re.findall(r"\d+", other[2]))
    return numbers != chosen if other["label"] else not numbers <= chosen


def _first_list(text: str) -> Found | None:
    first, *others = text.split("\n")
    if _says_none(text):
        return None if EXCEPT.search(first) else Found()
    remarked, again = _REMARKED.fullmatch(first), any(map(_NEXT_CHOICE.match, others))
    if remarked and not _DENIED.search(first) and (again or not any(map(str.isdecimal, text[remarked.end(1) :]))):
        return Found([remarked[1]], [AGAIN] * again)
    for opening in islice(OPENING.finditer(text), TRIED):
        before = text[: opening.start()]
        bracketed = None if _DENIED.search(re.split(r"[.!?,;\n]", before[-60:])[-1]) else _bracket_at(text, opening.start())
        if bracketed is not None:
            lines = _in_lines(before.split("\n")[:-1])
            return bracketed if lines is None else lines
    return None if OPENING.match(text) else _in_lines([first, *others])


def _says_none(text: str) -> bool:
    """Whether the first sentence says that no statement is relevant, and names none in brackets."""
    line = text.split("\n")[0]
    return bool(NONE.match(line)) and not OPENING.search(line.split(". ")[0])


def _bracket_at(text: str, start: int) -> Found | None:
    """The choice in the brackets at ``start``. None if they cannot be read."""
    within = _WITHIN.match(text, start)
    numbers = re.findall(r"\d+", within[1]) if within else []
    if within and (within[2] or numbers):
        return Found(numbers, [] if within[2] else [ENDLESS])
    whole = value_at(text, start)[0]
    value = begun(text, start) or None if whole is None else whole
    if value is None:
        return None
    if _is_one(value):
        value = list(takewhile(_is_one, json_values(text[start:])))
    items = _labels(value if isinstance(value, list) else _listed(value))
    texts = list(value.values()) if isinstance(value, dict) else value
    copied = all(len(item) > 1 if isinstance(item, dict) else re.search(r"[^\W\d_]", str(item)) for item in texts)
    return Found([] if len(items) == 1 and NONE.match(items[0]) else items, [ENDLESS] * (whole is None), bool(copied))


def _labels(items: Iterable[Any]) -> list[str]:
    kept = [item for item in items if not isinstance(item, dict) or not any(_is_no(item.get(key)) for key in ("relevant", *_SCORE_KEYS))]
    return [label for item in kept for label in (_labels(item) if isinstance(item, list) else [_label(item)])]


def _in_lines(lines: Iterable[str]) -> Found | None:
    """The first lines that hold only numbers, or that begin with a number."""
    lines = list(_not_denied(lines))
    for index, line in enumerate(lines):
        if _numbers(line):
            return Found(number for numbers in takewhile(bool, map(_numbers, lines[index:])) for number in numbers)
        if NUMBERED.match(line):
            return _items(lines[index:])
    return None


def _numbers(line: str) -> list[str]:
    """The numbers on a line that holds only numbers and perhaps a label."""
    found = _NUMBERS.fullmatch(line)
    return re.findall(r"\d+", found[1]) if found and not _DENIED.search(line) else []


def _items(lines: Sequence[str]) -> Found:
    """The numbers at the beginning of the lines up to a further choice, without those whose lines call their statement irrelevant."""
    ends = next((place for place, line in enumerate(lines) if place and _NEXT_CHOICE.match(line)), len(lines))
    found = Found(told=[AGAIN] * (ends < len(lines)), copied=True)
    for line in lines[:ends]:
        if (item := NUMBERED.match(line)) and not (_DENIED.search(line) or NONE.match(line, item.end())):
            found += _SHOWN.findall(line) or [item[1]]
            found.copied &= line[item.end() :].strip() != ""
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
    values = (list(value.values()) if isinstance(value, dict) and all(map(str.isdecimal, value)) else value for value in json_values(text))
    first = next((value for value in values if isinstance(value, list) or not value), None)
    if first is not None and all(isinstance(item, str) for item in first) and "\n" not in OPENING.split(text)[0].strip():
        return Found(first)
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    cut_off = first is None and OPENING.match(text)
    return Found(line for line in _not_denied(lines) if not line.endswith(":")) if lines and not cut_off else None


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
    opening = OPENING.search(text)
    cut = opening is not None and value_at(text, opening.start())[1] is None
    return Found(_pairs(list(takewhile(_is_one, values)) or values[:1]), [ENDLESS] * cut)


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Ids and scores of an object about one statement, of an object id -> score, or of the only list or object inside."""
    if isinstance(value, list):
        return [pair for item in value if isinstance(item, list | dict) for pair in _pairs(item)]
    if _is_one(value):
        return [(_label(value), score_in(value))]
    inner = [part for part in value.values() if isinstance(part, list) or (isinstance(part, dict) and score_in(part) is None)]
    single = len(inner) == 1 and not any(isinstance(part, int | float) for part in value.values())
    return _pairs(inner[0]) if single else [(str(key), score) for key, score in value.items()]


def score_in(item: Mapping[str, Any]) -> Any:
    """The score in a JSON object about one statement, or ``None``."""
    return next((item[key] for key in _SCORE_KEYS if key in item), None)


def _listed(item: Mapping[str, Any]) -> list[Any]:
    """The first list in an object whose key does not deny. In an object without lists, the keys whose values are not "no"."""
    lists = {str(key).replace("_", " "): value for key, value in item.items() if isinstance(value, list)}
    found = [value for key, value in lists.items() if not _DENIED.search(key)]
    return found[0] if found else [] if lists else [key for key in item if not _is_no(item[key])]


def _is_no(value: Any) -> bool:
    return (value.strip().casefold() if isinstance(value, str) else value) in _NO


def _is_one(item: Any) -> bool:
    """Whether this is an object about one statement."""
    return isinstance(item, dict) and any(key in item and not isinstance(item[key], list) for key in _ID_KEYS)


def _label(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _ID_KEYS if key in item), next(iter(item), ""))
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)


ALIKE = 0.9
"""The least similarity (difflib's ratio of the normalised texts) at which a copy counts as the statement."""


class Chosen(NamedTuple):
    """The statements that a completion chooses, and the pieces that were omitted or repaired.

    Attributes:
        statements: pairs of id and score, best first.
        dropped: the omitted or repaired pieces, in words.
    """

    statements: list[tuple[str, float]]
    dropped: list[str]


def choose(form: str, found: Sequence[Any], ptkb: Mapping[str, str]) -> Chosen:
    """Match parsed pieces with the persona.

    Args:
        form: ``"ids"``, ``"copies"`` or ``"scores"``.
        found: the result of ``read_ids``, ``read_copies`` or ``read_scores``.
        ptkb: the persona, id -> statement.

    Returns:
        Each statement once. ``ids`` and ``copies``: score 1 / position, in the model's order. ``scores``: the model's score from 0 to 1,
        best first; statements of score 0 are omitted. ``dropped`` lists pieces that name no statement, scores that were clipped or are not
        numbers, and says that a list never ends or that all statements are chosen because the answer copies the whole persona.

    Example:
        >>> choose("ids", ["2", "9"], {"1": "I am vegan.", "2": "I own a dog."})
        Chosen(statements=[('2', 1.0)], dropped=['no statement 9'])
        >>> choose("scores", [("1", 0.2), ("2", 1.5)], {"1": "I am vegan.", "2": "I own a dog."}).statements
        [('2', 1.0), ('1', 0.2)]
    """
    chosen, dropped = dict[str, float](), list[str]()
    for position, piece in enumerate(found, 1):
        label, value = piece if form == "scores" else (piece, 1 / (len(chosen) + 1))
        number, score = (match_copy if form == "copies" else match_label)(label, ptkb), _score(value)
        if number is None and form == "copies" and NONE.match(label) and not EXCEPT.search(label):
            dropped += [f"behind 'none': {later}" for later in found[position:] if match_copy(later, ptkb) not in (None, *chosen)]
            break
        if number is None or score is None:
            dropped.append(f"no statement {label}" if number is None else f"score {value!r} of statement {label}")
            continue
        if not 0 <= score <= 1:
            dropped.append(f"score {score} of statement {label}")
        chosen.setdefault(number, min(max(score, 0.0), 1.0))
    statements = sorted(((number, score) for number, score in chosen.items() if score), key=lambda pair: -pair[1])
    dropped += getattr(found, "told", [])
    if 1 < len(ptkb) == len(statements) and (form == "copies" or getattr(found, "copied", False)):
        dropped.append(f"nothing, but the answer copies the whole persona: all {len(ptkb)} statements are chosen")
    return Chosen(statements, dropped)


def match_label(label: str, ptkb: Mapping[str, str]) -> str | None:
    """The id that ``label`` means: the id itself, a text that starts with it or names it, or a copy of its statement."""
    label = label.strip().strip(QUOTES + "[]()#").strip()
    if label in ptkb:
        return label
    found = NUMBERED.match(label)
    return found[1] if found and found[1] in ptkb else match_copy(label, ptkb)


def match_copy(copy: str, ptkb: Mapping[str, str]) -> str | None:
    """The id of the statement that ``copy`` repeats: exactly, then normalised, then with a similarity of at least 0.9.

    Normalisation removes differences in letter case, punctuation, white space and numbering.

    Example:
        >>> match_copy("2) i own a DOG", {"1": "I am vegan.", "2": "I own a dog."})
        '2'
    """
    for number, statement in ptkb.items():
        if copy.strip() == statement.strip():
            return number
    known = {normalised(statement): number for number, statement in reversed(list(ptkb.items()))}
    forms = [form for form in (normalised(copy), normalised(NUMBERED.sub("", copy))) if form]
    alike = [form for form in forms if form in known] + [one for form in forms for one in get_close_matches(form, known, 1, ALIKE)]
    return known[alike[0]] if alike else None


def normalised(text: str) -> str:
    """The words of a text in lower case, without punctuation, with a blank between them."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("’", "")
    return " ".join(re.findall(r"\w+", text))


def _score(value: Any) -> float | None:
    value = score_in(value) if isinstance(value, dict) else value
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(score) else score
