"""Statements in a completion: ids, copies or scores, and which statement of the persona each means."""

import difflib
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, NamedTuple

from .json_values import TRIED, cut_off_strings, json_values, value_at
from .numbers import ranges_spelled
from .texts import QUOTES
from .usable import FENCE, own_turn, usable_text

NONE = re.compile(r"\W*(?:none\b|nothing\b|n/a\b|not any\b|no\W*$|no (?:\w+ ){0,2}statements?\b)", re.IGNORECASE)
"""How a text begins that says that no statement matters."""
NUMBER = re.compile(r"^\s*(?:[-*•–]\s+)?[(\[]?(\d{1,3})[.):\]]+(?!\d)\s*")
"""The number before a line."""
NAMED = re.compile(r"\b(?:statement|number|ptkb|index|id|no)s?\W{0,3}(\d{1,3})\b", re.IGNORECASE)
"""A number that is called a statement's."""
EXCEPT = re.compile(r"\b(?:except|excepting|apart from|aside from|other than|besides)\b", re.IGNORECASE)
"""What makes an exception to none."""
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z\[{])|(?<=。)|\n")

_USE = r"\b(?:relevan|relat|matter|appl|help|useful|need|important|consider|chos|choo|select|pick|affect)\w*"
_NOT = r"(?:\b(?:not|never)\b(?! only)|n['’]t\b)"
_DENIED = re.compile(
    rf"{_NOT}(?:[^\w.;!?]+\w+){{0,2}}?[^\w.;!?]+{_USE}|\b(?:is|are|do|does)(?:\s+not|n['’]t)\W*\Z|\b(?:irrelevant|unrelated|unimportant)\b",
    re.IGNORECASE,
)
_DENIED_BEFORE = re.compile(
    rf"(?:{_NOT}(?:\s+{_USE})?|\b(?:except|ignoring|irrelevant|unrelated))(?:\s+statements?)?(?:\s+(?:are|is))?\W*\Z", re.IGNORECASE
)
_DENIED_AFTER = re.compile(r"\s*(?:is|are|does|do)\s*(?:not\b(?! only)|n['’]t\b|irrelevant\b|unrelated\b)", re.IGNORECASE)
_CHOOSING = re.compile(rf"{_USE}|\b(?:answer|decide)", re.IGNORECASE)
_IRRELEVANT = re.compile(
    rf"{_NOT}(?:[^\w.;!?]+\w+){{0,2}}?[^\w.;!?]+(?:relevan|relat|applicab)\w*|\b(?:irrelevant|unrelated)\b", re.IGNORECASE
)
"""What says of a line that holds a statement that it does not matter; the statement itself may say that the user does not need a thing."""
_OTHERS = re.compile(r";|,(?: but)?(?: not)? \[?\d|\b(?:others?|rest|remaining|because|since)\b", re.IGNORECASE)

_MORE = r"(?:(?:\s*,\s*(?:and\s+)?|\s*(?:\band\b|\bor\b|&)\s*)[#*]*\d{1,3}\b)"
_CALLED = re.compile(
    rf"\b(?:(?:statement|number|ptkb|index|indices|id)s?|nos?\.)(?: (?:is|are))?\W{{0,3}}(\d{{1,3}}\b{_MORE}*)|\A\W*(\d{{1,3}}\b{_MORE}+)"
    rf"|\b(?:is|are|be|choose|chose|select|selected|pick|picked|relevant)\W{{1,3}}(?:only\s+)?(\d{{1,3}}\b{_MORE}*)(?=\W*\Z|\s*[.;:!(])",
    re.IGNORECASE,
)
_NAME = (
    r"(?:provenance|statement|number|ptkb|id|index|indice|information|fact|item|source|evidence|answer|choice|relevant|chosen|selected)s?"
)
_LABEL = rf"(?:[^\W\d_]+ ){{0,3}}{_NAME}"
_LABELLED_NONE = re.compile(rf"\W*{_LABEL}\W*:\W*(?=no\b|none\b|nothing\b|n/a\b)", re.IGNORECASE)
_BARE = r"(?:\(\d{1,3}\)|[#*\"']*\d{1,3}\b[*\"']*)"
_NUMBERS = re.compile(
    rf"(?:[-*•–]\s+)?[*_]*(?:(?:{_LABEL}\s*[:=]|{_NAME}\s)[*_]*)?\s*({_BARE}(?:(?:\s*[,;&]\s*(?:and\s)?|\s+and\s|\s)\s*{_BARE})*)[\s.,;]*(?:\(.*|(?:because|since)\b.*)?",
    re.IGNORECASE,
)
_OTHER_LABEL = re.compile(r"\s*[^\W\d][^:\n]{0,40}:\s*\d{1,3}\b(?![^\n]*\w)")
_MARK = re.compile(r"\s*(?:[-*•–]\s+)?[(\[]?\d{1,3}[.):\]]+\s*")
_DASHED = re.compile(r"^\s*(?:[-*•–]\s+)?#?(\d{1,3})\s+[-–—]\s(?!\s*\d+\W*$)")
_LABELLED = re.compile(r"\[\d{1,3}\]\s*:\s*\S")
_CALLED_LINE = re.compile(r"^\s*(?:[-*•–]\s+)?[*_]*(?:statement|ptkb)\W{0,3}\d{1,3}\b[*_\])]*\s*[:.)–-]", re.IGNORECASE)

_BRACKET = re.compile(r"[\[{]")
_WITHIN = re.compile(r"\[((?:[\s,;#*\"']|\d{1,3}\b(?!\.\d)|\b(?:and|statements?|ptkb|none|nothing|n/a)\b)*)(\]|\Z)", re.IGNORECASE)
_NEXT = re.compile(r"[ \t]*(?:(?:,|;|&|and\b|or\b)[ \t]*){0,2}\[\s*#?(\d{1,3})\s*\]", re.IGNORECASE)
_BELOW = re.compile(r"[^\n]*\n[ \t]*(?:[-*•–][ \t]+)?(\{|\[\d{1,3}\])")
_LISTED = re.compile(
    r"(?:^[ \t]*(?:[-*•–][ \t]+)?|(?P<label>\w+[*_]*:[*_]*[ \t]*\n?[ \t]*))\[(?P<numbers>(?:\s*\d{1,3}\s*,?)*)\]", re.MULTILINE
)
_ID_KEYS = ("id", "index", "number", "statement_id", "statement")
_SCORE_KEYS = ("score", "relevance")
_NO = (False, "false", "no", "not relevant", "irrelevant")


class Found(list[Any]):
    """What was read; in ``rest`` what may be meant too, but is no part of the first list."""

    def __init__(self, items: Iterable[Any] = (), rest: Iterable[str] = ()) -> None:
        super().__init__(items)
        self.rest = list(rest)


def read_ids(text: str) -> Found | None:
    r"""The statement numbers in a completion; a stray number in running text is none.

    The first list counts: in brackets (JSON or nearly so, fenced or in prose), on lines of numbers, on numbered lines, or in a
    sentence that says which statements matter. Without a list: single numbers that are called a statement's and not denied.

    Returns:
        The numbers as text, in the completion's order; empty where it says that no statement matters; ``None`` where it
        says nothing usable. What may be meant too is in the result's ``rest``: what stands beside a list in words, later lists that
        choose otherwise.

    Example:
        >>> read_ids("[4, 1]. Note that [2] is not relevant."), read_ids("1, 4"), read_ids("None of them."), read_ids("Sure!")
        (['4', '1'], ['1', '4'], [], None)
    """
    said = usable_text(text)
    found = _first_list(ranges_spelled(FENCE.sub("", own_turn(said))).strip())
    if found is not None and not found.rest:
        found.rest += _other_choices(ranges_spelled(said), found)
    return found


def _other_choices(text: str, chosen: Sequence[str]) -> list[str]:
    """A later list that has a label, or a line of its own, and chooses otherwise: few-shot models go through the whole conversation."""
    for place, listed in enumerate(_LISTED.finditer(text)):
        numbers = set(re.findall(r"\d+", listed["numbers"]))
        other = numbers != set(chosen) if listed["label"] else not numbers <= set(chosen)
        if place and other:
            return [f"other lists, such as {listed[0].strip()!r}"]
    return []


def _first_list(text: str) -> Found | None:
    labelled = _LABELLED_NONE.match(text)
    text = text[labelled.end() :] if labelled else text
    if not NONE.match(text):
        return _chosen(text)
    sentence = _SENTENCE.split(text, maxsplit=1)[0]
    _, *excepted = EXCEPT.split(sentence, maxsplit=1)
    found = _chosen(excepted[0].strip()) if excepted else None
    if (bracketed := _first_bracket(sentence)) is not None:
        found = bracketed[1]
    return found or Found(rest=excepted)


def _chosen(text: str) -> Found | None:
    """The first list, in brackets or in words; without one, what single numbers say."""
    start, bracketed = _first_bracket(text) or (None, None)
    found = _first_in_words(text if start is None else text[: _sentence_start(text, start)])
    if found is None:
        return _singles(text) if bracketed is None else bracketed
    if bracketed is not None:
        found.rest += [f"[{number}]" for number in bracketed if number not in found]
    return found


def _sentence_start(text: str, place: int) -> int:
    """Where the sentence begins that goes on at ``place``; the number before a line belongs to its first sentence."""
    line = text.rfind("\n", 0, place) + 1
    starts = [line, *(end.end() for end in _SENTENCE.finditer(text, line, min(place + 1, len(text))))]
    return line if _MARK.fullmatch(text, line, starts[-1]) else starts[-1]


def _first_bracket(text: str) -> tuple[int, Found] | None:
    """Where the first brackets begin that hold a list or an object and are not denied, and what they choose."""
    for opening in islice(_BRACKET.finditer(text), TRIED):
        start = opening.start()
        if not _LABELLED.match(text, start) and not _DENIED_BEFORE.search(text[max(0, start - 60) : start]):
            found, end = _bracket_at(text, start)
            if found is not None and not _DENIED_AFTER.match(text, end):
                return start, found
    return None


def _bracket_at(text: str, start: int) -> tuple[Found | None, int]:
    """What the brackets at ``start`` choose, None where they cannot be read, and where they end."""
    within, joined = _WITHIN.match(text, start), 0
    if within and (within[2] or re.search(r"\d", within[1])):
        numbers, end = re.findall(r"\d+", within[1]), within.end()
        while len(numbers) == 1 + joined and (following := _NEXT.match(text, end)):
            numbers, end, joined = [*numbers, following[1]], following.end(), joined + 1
        return Found(numbers, _below(text, end, numbers) if within[2] else ["a list that never ends"]), end
    value, end = value_at(text, start)
    if value is None:
        return None, end
    if _is_one(value):
        value, end = list(takewhile(_is_one, json_values(text[start:]))), len(text)
    items, *others = (_labels(part) for part in ([value] if isinstance(value, list) else _lists(value)))
    items = [] if len(items) == 1 and NONE.match(items[0]) else items
    return Found(items, [*_below(text, end, items), *(f"{other} in the same object" for other in others)]), end


def _labels(items: Iterable[Any]) -> list[str]:
    return [label for item in items if not _refused(item) for label in (_labels(item) if isinstance(item, list) else [_label(item)])]


def _below(text: str, end: int, numbers: Sequence[str]) -> list[str]:
    """The brackets of one number, or the object, with which the next line begins: perhaps the list goes on there."""
    below = _BELOW.match(text, end)
    return [f"{below[1]} on the next line"] if below and below[1].strip("[]") not in numbers else []


def _first_in_words(text: str) -> Found | None:
    """The first list without brackets: lines of numbers, numbered lines, or a sentence."""
    lines = text.split("\n")
    denied = False
    for index, line in enumerate(lines):
        denied = bool(_DENIED.search(line)) if _is_heading(line) else denied
        if denied:
            continue
        if _numbers(line):
            run = list(takewhile(bool, map(_numbers, lines[index:])))
            below = [line for line in lines[index + len(run) :][:1] if _OTHER_LABEL.match(line)]
            return Found((number for numbers in run for number in numbers), below)
        if _is_item(line):
            return _items(lines[index:])
        sentences = _SENTENCE.split(line)
        for place, sentence in enumerate(sentences):
            if (_CHOOSING.search(sentence) or sentence[:1].isdigit()) and len(named := _named(sentence)) > 1:
                return Found(named, _others("\n".join([*sentences[place + 1 :], *lines[index + 1 :]]), named))
    return None


def _numbers(line: str) -> list[str]:
    """The numbers on a line that holds nothing else but perhaps a label."""
    line = line.strip()
    found = _NUMBERS.fullmatch(line[1:-1] if line[:1] + line[-1:] == "()" else line)
    return re.findall(r"\d+", found[1]) if found and not _DENIED.search(line) else []


def _is_heading(line: str) -> bool:
    return line.rstrip().endswith(":") and not _is_item(line)


def _is_item(line: str) -> bool:
    return any(form.match(line) for form in (NUMBER, _DASHED, _CALLED_LINE))


def _items(lines: Sequence[str]) -> Found:
    """The numbers before the lines up to a heading; what is denied, or stands under a heading that does not deny it, is rest."""
    found = Found()
    heading = ""
    for line in lines:
        heading = line if _is_heading(line) else heading
        if not _is_item(line) or _DENIED.search(heading):
            continue
        if heading or _IRRELEVANT.search(line):
            found.rest.append(line)
        else:
            found += _numbers(NUMBER.sub("", line)) or [_number(line)]
    return found


def _singles(text: str) -> Found | None:
    """The statements that are named and not denied: those of all sentences that choose, else of the first that names any."""
    sentences = [sentence for sentence in _SENTENCE.split(text) if _named(sentence)]
    choosing = [sentence for sentence in sentences if _CHOOSING.search(sentence)] or sentences[:1]
    named = [number for sentence in choosing for number in _named(sentence)]
    return Found(named, _others(text, named)) if named else None


def _others(text: str, named: Sequence[str]) -> list[str]:
    return [f"statement {number}" for sentence in _SENTENCE.split(text) for number in _named(sentence) if number not in named]


def _named(sentence: str) -> list[str]:
    """The numbers that a sentence calls a statement's and does not deny."""
    numbers: list[str] = []
    called = list(_CALLED.finditer(sentence))
    ends = [*(found.start() for found in called[1:]), len(sentence)]
    for found, end in zip(called, ends, strict=False):
        said = _OTHERS.split(sentence[found.end() : end], maxsplit=1)[0]
        if not _DENIED.search(said) and not _DENIED_BEFORE.search(sentence[max(0, found.start() - 60) : found.start()]):
            numbers += re.findall(r"\d+", found[1] or found[2] or found[3])
    return numbers


def read_copies(text: str) -> Found | None:
    r"""The copied statements in a completion: one per line, numbered, bulleted, quoted, or the first JSON list of texts.

    Returns:
        The copies, numbers and all, also a line such as "None" (a statement may begin like that); empty for an empty
        JSON list; ``None`` where the completion holds no word.

    Example:
        >>> read_copies("Relevant:\n- I am vegan.\n2: I own a dog."), read_copies("None")
        (['- I am vegan.', '2: I own a dog.'], ['None'])
    """
    text = FENCE.sub("", own_turn(usable_text(text)))
    first = next((value for value in json_values(text) if isinstance(value, list)), None)
    before = text.partition("[")[0].strip()
    announced = not _DENIED_BEFORE.search(before[-60:]) and (first or "\n" not in before)
    if first is not None and all(isinstance(item, str) for item in first) and announced:
        return Found(first)
    if (strings := cut_off_strings(text)) is not None:
        return Found(strings, ["a list that never ends"])
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    if not lines:
        return Found() if text.strip(" `\n") == "{}" else None
    if len(lines) == 1 and NUMBER.match(lines[0]):
        lines = re.split(r",?\s+(?=\d{1,3}[.):]\s)", lines[0])
    return Found(_not_denied(lines))


def _not_denied(lines: Iterable[str]) -> Iterator[str]:
    """The lines without headings, and without what stands under a heading that denies it."""
    denied = False
    for line in lines:
        if line.endswith(":"):
            denied = bool(_DENIED.search(line))
        elif not denied:
            yield line


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
    first, *others = list(takewhile(_pair, values)) or values[0], *values[1:]
    more = [f"another object: {value}" for value in others if value and isinstance(value, dict) and not _pair(value)]
    listed = first if isinstance(first, list) else [item for value in first.values() if isinstance(value, list) for item in value]
    pairs = [pair for item in listed if (pair := _pair(item))]
    if pairs:
        return Found(pairs, more + [f"no score in {item}" for item in listed if not _pair(item)])
    objects = [item for item in first if isinstance(item, dict)] if isinstance(first, list) else [_holder(first)]
    return Found([(str(key), value) for item in objects for key, value in item.items()], more)


def _holder(item: dict[Any, Any]) -> dict[Any, Any]:
    """The object in which the scores stand: the only one within ``item`` when nothing else there can be a score, or ``item``."""
    inner = [value for value in item.values() if isinstance(value, dict)]
    others = [value for value in item.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    return inner[0] if len(inner) == 1 and not others and score_in(inner[0]) is None else item


def score_in(item: Mapping[str, Any]) -> Any:
    """The score in a JSON object about one statement, or ``None``."""
    return next((item[key] for key in _SCORE_KEYS if key in item), None)


def _lists(item: Mapping[str, Any]) -> list[list[Any]]:
    """The lists in an object that their keys do not deny; without lists, the keys whose values do not say no."""
    lists = {re.sub(r"[\s_-]+", " ", str(key)): value for key, value in item.items() if isinstance(value, list)}
    return [value for key, value in lists.items() if not _DENIED.search(key)] or [
        [] if lists else [key for key in item if not _is_no(item[key])]
    ]


def _is_no(value: Any) -> bool:
    return (value.strip().casefold() if isinstance(value, str) else value) in _NO


def _refused(item: Any) -> bool:
    """Whether an object about one statement says that it does not matter."""
    return isinstance(item, dict) and any(_is_no(value) for key, value in item.items() if key in _SCORE_KEYS or _CHOOSING.search(str(key)))


def _is_one(item: Any) -> bool:
    """Whether this is an object about one statement."""
    return isinstance(item, dict) and any(key in item and not isinstance(item[key], list) for key in _ID_KEYS)


def _pair(item: Any) -> tuple[str, Any] | None:
    if not isinstance(item, dict) or score_in(item) is None or not any(key in item for key in _ID_KEYS):
        return None
    return _label(item), score_in(item)


def _label(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _ID_KEYS if key in item), next(iter(item), ""))
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)


def _number(line: str) -> str:
    if (dashed := _DASHED.match(line)) is not None:
        return dashed[1]
    marked = NUMBER.match(line)
    rest = line[marked.end() :] if marked else line
    named = NAMED.match(rest.strip("*_ "))
    return named[1] if named else marked[1] if marked else rest


ALIKE = 0.9
"""The least similarity (difflib's ratio of the normalised texts) at which a copy counts as the statement."""

_BULLET = re.compile(r"^\s*(?:[-*•–>]\s+)?[*_#`]*(?:(?:statement|ptkb)\s+)?(?:[(\[]?\d{1,3}(?:[.):\]]+|\s+[-–])[*_]*\s*)?", re.IGNORECASE)


class Chosen(NamedTuple):
    """The statements that a completion chooses, and the pieces of it that were left out or repaired.

    Attributes:
        statements: pairs of id and score, best first.
        dropped: what was left out or repaired, in words.
    """

    statements: list[tuple[str, float]]
    dropped: list[str]


def choose(form: str, found: Sequence[Any], ptkb: Mapping[str, str]) -> Chosen:
    """Hold what was read against the persona.

    Args:
        form: ``"ids"``, ``"copies"`` or ``"scores"``.
        found: what ``read_ids``, ``read_copies`` or ``read_scores`` gave.
        ptkb: the persona, id -> statement.

    Returns:
        Each statement once. ``ids`` and ``copies``: score 1 / position, in the model's order. ``scores``: the model's
        score within 0 and 1, best first; a score of 0 leaves the statement out. Pieces that name no statement, what may
        be meant beside the first list, and scores that had to be cut to the range or are no number, are in ``dropped``.

    Example:
        >>> choose("ids", ["2", "9"], {"1": "I am vegan.", "2": "I own a dog."})
        Chosen(statements=[('2', 1.0)], dropped=['no statement 9'])
        >>> choose("scores", [("1", 0.2), ("2", 1.5)], {"1": "I am vegan.", "2": "I own a dog."}).statements
        [('2', 1.0), ('1', 0.2)]
    """
    chosen = _scored(found, ptkb) if form == "scores" else _ranked(form, found, ptkb)
    return Chosen(chosen.statements, chosen.dropped + [f"beside the choice: {piece}" for piece in getattr(found, "rest", [])])


def _ranked(form: str, found: Sequence[str], ptkb: Mapping[str, str]) -> Chosen:
    find = match_label if form == "ids" else match_copy
    numbers: list[str] = []
    dropped: list[str] = []
    ended = False
    for piece in found:
        number = find(piece, ptkb)
        ended = ended or (form == "copies" and number is None and bool(NONE.match(piece)) and not EXCEPT.search(piece))
        if number is None or (ended and number not in numbers):
            dropped += [] if ended and number is None else [f"no statement {piece}" if number is None else f"behind 'none': {piece}"]
        elif number not in numbers:
            numbers.append(number)
    return Chosen([(number, 1 / position) for position, number in enumerate(numbers, 1)], dropped)


def match_label(label: str, ptkb: Mapping[str, str]) -> str | None:
    """The id that ``label`` means: the id itself, a text that starts with it or names it, or a copy of its statement."""
    label = label.strip().strip(QUOTES + "[]()#").strip()
    if label in ptkb:
        return label
    for pattern in (NUMBER, NAMED):
        found = pattern.search(label)
        if found and found[1] in ptkb:
            return found[1]
    return match_copy(label, ptkb)


def match_copy(copy: str, ptkb: Mapping[str, str]) -> str | None:
    """The id of the statement that ``copy`` repeats: exactly, then normalised, then with a similarity of at least 0.9.

    Normalised texts differ neither in letter case, punctuation and white space nor in numbering.

    Example:
        >>> match_copy("2) i own a DOG", {"1": "I am vegan.", "2": "I own a dog."})
        '2'
    """
    for number, statement in ptkb.items():
        if copy.strip() == statement.strip():
            return number
    forms = {_normalised(copy), _normalised(_BULLET.sub("", copy))} - {""}
    normalised = {number: _normalised(statement) for number, statement in ptkb.items()}
    for number, statement in normalised.items():
        if statement in forms:
            return number
    alike = [(_similarity(form, statement), number) for form in sorted(forms) for number, statement in normalised.items()]
    best = max(alike, key=lambda pair: pair[0], default=(0.0, ""))
    return best[1] if best[0] >= ALIKE else None


def _similarity(one: str, other: str) -> float:
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    # The quick ratios are upper bounds; the real one takes seconds on long texts.
    return matcher.ratio() if matcher.real_quick_ratio() >= ALIKE and matcher.quick_ratio() >= ALIKE else 0.0


def _normalised(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("’", "")
    return " ".join(re.findall(r"\w+", text))


def _scored(found: Sequence[tuple[str, Any]], ptkb: Mapping[str, str]) -> Chosen:
    scores: dict[str, float] = {}
    dropped: list[str] = []
    for label, value in found:
        number, score = match_label(label, ptkb), _score(value)
        if number is None or score is None:
            dropped.append(f"no statement {label}" if number is None else f"score {value!r} of statement {label}")
            continue
        if not 0 <= score <= 1:
            dropped.append(f"score {score} of statement {label}")
        scores.setdefault(number, min(max(score, 0.0), 1.0))
    return Chosen(sorted(((number, score) for number, score in scores.items() if score), key=lambda pair: -pair[1]), dropped)


def _score(value: Any) -> float | None:
    if isinstance(value, dict):
        value = score_in(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        score = float(value)
    except ValueError:
        return None
    return None if math.isnan(score) else score
