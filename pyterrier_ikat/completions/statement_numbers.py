r"""The numbers of chosen statements in a completion: :func:`read_ids` is their only reader.

A choice is a list in brackets, lines of numbers, or numbered lines. The readers of each form are
tried in order, and the first that finds one has the choice. What stands behind it is not read, but
told where it chooses other statements. Pure functions: no model, no frame.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from .json_answers import OPENING, TRIED, begun, json_values, value_at
from .signs import plain_signs
from .usable import FENCE, own_turn, usable_text

_KINDS = "provenance|statement|ptkb|number|id|fact|information|answer|relevant"
_LABEL = rf"(?:[^\W\d_]+ ){{0,3}}(?:{_KINDS})s?"
NONE = re.compile(
    rf"\W*(?:{_LABEL}\W{{0,9}}?:\W{{0,99}})?(?:there(?:['’]s| is| are) )?"
    r"(?:none\b|nothing\b|n/a\b|not any\b|no\s*(?:[-–—(]|\W*$)|no (?:\w+ ){0,2}statements?\b)",
    re.IGNORECASE,
)
"""The beginning of a text which says that no statement is relevant."""
EXCEPT = re.compile(
    r"\b(?:except|excluding|apart from|other than|besides|but for|none but)\b", re.IGNORECASE
)
"""Words that make an exception to "none"."""
NUMBERED = re.compile(
    r"^\s*(?:[-*•–>]\s+)?(?:\d{1,3}[.)]\s+(?=\W*(?:statement|ptkb|\d{1,3}\W*$)))?[*_#`]*(?:(?:statement|ptkb|number|id)\s+)?"
    r"[(\[#]*(\d{1,3})[*_]*(?:[.):\]]+(?!\d)[*_]*|\s+[-–—]\s(?!\s*\d+\s*$)|$)\s*",
    re.IGNORECASE,
)
"""The number of a statement before a line."""

DENIED = re.compile(
    r"(?:\b(?:not|never)\b(?! only)|n['’]t\b)(?:[^\w.;!?]+\w+){0,2}?[^\w.;!?]+(?:relevan|relat|applicab|matter)\w*"
    r"|\b(?:is|are|do|does)(?:\s+not|n['’]t)\W*\Z"
    r"|\b(?:irrelevant|unrelated|unimportant)\b",
    re.IGNORECASE,
)
"""Words that call a statement irrelevant."""
_DENIED_NEXT = re.compile(
    r"\b(?:(?:not|excluding|except|without|instead of|rather than)\b(?! only)|all but)\W+(?:(?:statement|number|id|for)s?\W+)*\Z",
    re.IGNORECASE,
)
"""Words that deny what stands behind them: ``not [5]``."""
_DENIED_BEFORE = re.compile(
    r"\s*(?:\W{0,3}(?:is|are|was|were|do|does|did|should|can|would)(?:\s+not|n['’]t)\b(?! only)"
    r"|(?:is|are|was|were|seems?|looks?)\s+(?:\w+ly\s+)?(?:irrelevant|unrelated|unimportant)\b"
    r"|[:(–—-]+\s*(?:not relevant|irrelevant|unrelated|no\b))",
    re.IGNORECASE,
)
"""Words that deny what stands before them: ``[5] is not relevant``."""
_OTHERS = re.compile(r"\b(?:others?|rest|remaining|else)\b", re.IGNORECASE)
_ON_OTHERS = re.compile(r"(?:all |the )*(?:others?|rest|remaining)\b", re.IGNORECASE)
_DENIES_FIRST = re.compile(
    r"\W*(?:(?:it|this|that)(?:['’]s| is) |is )?(?:not|no|irrelevant|unrelated|unimportant)\b",
    re.IGNORECASE,
)

_BETWEEN = r"(?:[\s,;&*#\"']+(?:and[\s*#\"']+)?(?:(?:statement|ptkb|number|id|fact)s?[\s*#]+)?|\)[\s,;&]+(?:and\s+)?\()"
_NUMBERS = re.compile(
    rf"[\s*#_(\"'•–-]*(?:{_LABEL}[\s*:=#_(\"']+)?(\d{{1,3}}\b(?:{_BETWEEN}\d{{1,9}}\b)*)[\s.,;*\"')_]*",
    re.IGNORECASE,
)
"""Numbers alone, perhaps behind a label."""
_REMARK = r"\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*[^\W\d][^\[\]]*\]"
_REMARKED_BEGINS = re.compile(rf"[\s*#_•–-]*(?:{_LABEL}[\s*:=#_]+)?", re.IGNORECASE)
_REMARKED_ITEM = re.compile(
    rf"(\d{{1,3}})(?!\w)[\s*_.:,]*({_REMARK})?[\s,;&*_]*(?:and\s+)?", re.IGNORECASE
)
"""A number, and perhaps a remark on it in brackets."""
_BARE_OR_LABELLED = re.compile(
    rf"\W{{0,20}}(?:(?:only|the) ){{0,2}}(?P<label>(?:{_KINDS})s?\W|[^:\n\d]{{0,60}}:)?\W{{0,20}}\d",
    re.IGNORECASE,
)
_BECAUSE = re.compile(r"[\s*_\"'),]*(?:because|since|as|due to)\b.*", re.IGNORECASE)
"""The reason behind the numbers of a line: ``2, 5 because the user is 30 years old``."""
_ARE_RELEVANT = re.compile(
    r"[\s*_\"')]*\b(?:is|are)(?: (?:all|both|the|most|\w+ly))* relevant\b[^\d\[]*", re.IGNORECASE
)
"""What says no more than that the numbers before it are the choice: ``Statements 2 and 5 are relevant.``"""
_SENTENCE = re.compile(r"[\s*_\"')]*(?:[:;.]|\s[–—-])\s+(?=[^\W\d_]|\[).*")
"""A remark behind the numbers of a line: ``2, 5. The user is 30 years old.``"""
_NOT_WANTED = re.compile(
    r"(?:\bnot|n['’]t) (?:\w+ )?(?:need|useful|necess|import|help|requir|chosen|select)",
    re.IGNORECASE,
)
_NEXT_CHOICE = re.compile(
    rf"[\s*#_•–-]*(?:\d{{1,3}}[.)]\s+)?[*_]*(?:{_LABEL})\W{{0,9}}?:\W*\d", re.IGNORECASE
)
"""The beginning of a line that makes a further choice, such as ``2. Provenance: 7``."""
_LIST_NUMBER = re.compile(r"\A[\s*#_•–-]*\d{1,3}[.)]\s+")
_SHOWN = re.compile(r"(?:\A|,\s)(\d{1,3}):\s")
"""Numbers of statements that are copied on one line, as prompts show them: ``1: I am vegan., 2: I own a dog.``"""
_IDS = r"(?:[\s\d,;&|#*\"'$]|\b(?:and|statements?|ptkb|ids?|numbers?)\b)*"
_BRACKETS = rf"\[(?P<ids>{_IDS}(?:\][ \t]*(?:(?:[,;&]|and\b)[ \t]*(?:and[ \t]+)?)?\[{_IDS})*)"
_WITHIN = re.compile(rf"{_BRACKETS}(\]|\Z)", re.IGNORECASE)
"""Ids in brackets, or each in brackets of its own: ``[1, 5]``, ``[1] [5]``, ``[1] and [5]``."""
_SEPARATED = re.compile(r"[^\w\s,;&.:()\[\]{}\"'*#•–—-]")
"""Characters around ids that are neither digits nor known separators, such as those of money, code or tables."""
_ID_KEYS = ("id", "index", "number", "statement_id", "statement")
SCORE_KEYS = ("score", "relevance")
_NO = (False, "false", "no", "not relevant", "irrelevant")

_OTHER = re.compile(
    rf"(?:{_LABEL}|^[ \t]*(?:(?:[-*•–]|\d{{1,3}}[.)])[ \t]+)?(?=\[))(?P<label>[*_\s]*:[*_\s]*)?{_BRACKETS}\]",
    re.IGNORECASE | re.MULTILINE,
)
"""A list in brackets behind a label, or at the beginning of a line."""
_COPY = re.compile(r"\[(\d{1,3})\]\s*,?\s+(?P<copy>[^\W\d_])[^\[]*")
"""A number in brackets and the statement behind it."""
_BRACKETED = re.compile(
    r"[ \t]*(?P<listed>(?:[-*•–]|\d{1,3}[.)])[ \t]+)?[*_]*\[(?P<number>\d{1,3})\][*_.,;:]*[ \t]*(?P<copy>[^\s\d\[].*)?[ \t]*"
)
"""A line that is a number in brackets, perhaps with its statement: ``- [5] I run.``"""
AGAIN = "another list, because the model answers more than once"
ENDLESS = "a list that never ends"


class Found(list[Any]):
    """The parsed choice.

    Attributes:
        told: what a reader of it should know.
        copied: whether it copies the texts of its statements.
        on_lines: the numbers in brackets on the lines of which it consists, also denied ones; empty
            for other choices.
    """

    def __init__(
        self,
        items: Iterable[Any] = (),
        told: Sequence[str] = (),
        copied: bool = False,
        on_lines: Iterable[str] = (),
    ) -> None:
        super().__init__(items)
        self.told, self.copied, self.on_lines = list(told), copied, set(on_lines)


def read_ids(text: str) -> Found | None:
    r"""The statement numbers in a completion, in digits of any script. A stray number in running text does not count.

    The first list counts: in brackets (JSON or nearly so, fenced or in prose), on lines that hold
    numbers or begin with one, or numbers with a remark or a reason on the first line. A list
    without end counts as far as it is complete. ``told`` says so, and that the completion makes
    further, different choices.

    Returns:
        The numbers as text, in the completion's order. Empty if it says that no statement is
        relevant; ``None`` if it has no usable choice.

    Example:
        >>> read_ids("[4, 1]. Note that [2] is not relevant."), read_ids("1, 4"), read_ids("None of them."), read_ids("Sure!")
        (['4', '1'], ['1', '4'], [], None)
        >>> read_ids("8 (I have a bike.)\nProvenance: 3 (We like soup.)"), read_ids("[3, 5, 7").told
        (['8'], ['a list that never ends'])
    """
    said = plain_signs(FENCE.sub("", usable_text(text)))
    if not any(map(str.isalpha, said)):
        said = _SEPARATED.sub(" ", said)
    found = _choice(own_turn(said).strip())
    if found is not None and not found.told and _chooses_again(said, found):
        found.told.append(AGAIN)
    return found


def _chooses_again(said: str, found: Found) -> bool:
    """Whether a text makes a choice that differs from the one that was read."""
    chosen = {*found, *found.on_lines}
    for other in _OTHER.finditer(said):
        numbers = set(re.findall(r"\d+", other["ids"]))
        says_all = other["label"] is not None and not found.on_lines
        if numbers != chosen if says_all else not numbers <= chosen:
            return True
    further = [line for line in said.split("\n") if _NEXT_CHOICE.match(line)]
    return any(not chosen.issuperset(_numbers_behind_label(line)) for line in further)


def _numbers_behind_label(line: str) -> list[str]:
    """The numbers of a line such as ``2. Provenance: 7``. None if it says more than numbers and remarks on them."""
    line = _LIST_NUMBER.sub("", line, count=1)
    return _numbers(line) or _remarked(line)


def _choice(text: str) -> Found | None:
    """The first choice in a text, by the first reader that finds one."""
    if says_none(text):
        return None if EXCEPT.search(text.split("\n")[0]) else Found()
    for read in (_on_first_line, _with_reason, _in_brackets, _on_lines):
        found = read(text)
        if found is not None:
            return found
    return None


def says_none(text: str) -> bool:
    """Whether the first sentence says that no statement is relevant, and names none in brackets."""
    line = text.split("\n")[0]
    return bool(NONE.match(line)) and not OPENING.search(line.split(". ")[0])


def _on_first_line(text: str) -> Found | None:
    """Numbers with remarks in brackets on the first line: ``8 (I have a bike.)``. Lines below must make no choice, or say so by a label."""
    first, *others = text.split("\n")
    numbers = _remarked(first)
    if not numbers:
        return None
    if any(map(_NEXT_CHOICE.match, others)):
        return Found(numbers, [AGAIN])
    return None if any(map(str.isdecimal, "".join(others))) else Found(numbers)


def _remarked(line: str) -> list[str]:
    """The numbers of a line that has numbers and, in brackets, remarks on them: ``2 (diet), 5 (place)``. Empty for another line."""
    begins = _REMARKED_BEGINS.match(line)
    place = begins.end() if begins else 0
    numbers, remarks = list[str](), list[str]()
    while item := _REMARKED_ITEM.match(line, place):
        place, remark = item.end(), item[2] or ""
        remarks.append(remark)
        if not _denies(remark):
            numbers.append(item[1])
        elif not _DENIES_FIRST.match(remark):
            return []  # what the remark denies is not clear
    ends = not line[place:].strip(" .,;*_")
    return numbers if ends and any(remarks) else []


def _in_brackets(text: str) -> Found | None:
    """The first list in brackets that is readable and not denied; numbers on lines before it are the choice instead."""
    place = 0
    for opening in islice(OPENING.finditer(text), TRIED):
        if opening.start() < place or _is_denied_before(text, opening.start()):
            continue
        found, end = _bracket_at(text, opening.start())
        if found is None:
            continue
        if found and _DENIED_BEFORE.match(text, end):
            place = end
            continue
        lines = _lines_before(text, opening.start())
        return found if lines is None else lines
    return None


def _lines_before(text: str, start: int) -> Found | None:
    """The choice of the lines before a bracket, with the numbers before it on its own line."""
    *lines, own = text[:start].split("\n")
    if _in_lines(lines) is None:
        return None
    return _in_lines([*lines, own + text[start:].split("\n")[0]] if own.strip() else lines)


def _is_denied_before(text: str, start: int) -> bool:
    """Whether the words before a place in its clause deny what stands there."""
    clause = re.split(r"[.!?,;\n]", text[max(0, start - 60) : start])[-1]
    return bool(DENIED.search(clause) or _DENIED_NEXT.search(clause))


def _bracket_at(text: str, start: int) -> tuple[Found | None, int]:
    """The choice in the brackets at ``start``, by the first reader that finds one, and its end. None if they cannot be read."""
    for read in (_as_copies, _as_lines, _as_ids, _as_json):
        found, end = read(text, start)
        if found is not None:
            return found, end
    return None, start


def _as_copies(text: str, start: int) -> tuple[Found | None, int]:
    """Two or more copied statements on one line, each behind its number: ``[1] I am vegan. [5] I run.``.

    What begins with a small letter is a remark, as in ``[2] is enough. [7] is about cars.``;
    whether these are items is not clear.
    """
    end = text.find("\n", start)
    copies = list(_COPY.finditer(text, start, len(text) if end < 0 else end))
    if len(copies) < 2 or copies[0].start() != start or not _ends_as_items(copies[:-1]):
        return None, start
    if any(copy["copy"].islower() for copy in copies):
        return Found([copies[0][1]], [AGAIN]), copies[0].end(1) + 1
    return Found([copy[1] for copy in copies if not DENIED.search(copy[0])], copied=True), copies[
        -1
    ].end()


def _as_lines(text: str, start: int) -> tuple[Found | None, int]:
    """Two or more numbers on lines of their own, all with their statements or all without: ``- [1]`` and below it ``- [5]``.

    What begins with a small letter is a remark, and whether it chooses or denies its statement is
    not clear.
    """
    begins = text.rfind("\n", 0, start) + 1
    items = list[re.Match[str]]()
    end = begins
    for line in text[begins:].split("\n"):
        item = _BRACKETED.fullmatch(line)
        if line.strip() and item is None:
            break
        end += len(line) + 1
        if item:
            items.append(item)
    copies = [_copy_in(item) for item in items]
    if (
        not any(copies) and items and not items[0]["listed"]
    ):  # "[1]" and "[5]" below it may be two answers
        return None, start
    if (
        len(items) < 2
        or start > begins + items[0].start("number")
        or any(map(bool, copies)) != all(map(bool, copies))
    ):
        return None, start
    if any(copy[:1].islower() for copy in copies):
        return None, start
    chosen = [item["number"] for item in items if not _denies(item[0])]
    found = Found(
        chosen, copied=all(map(bool, copies)), on_lines=[item["number"] for item in items]
    )
    return found, min(end, len(text))


def _copy_in(item: re.Match[str]) -> str:
    """The statement behind a number in brackets. Empty if there is none, or a remark on the other statements."""
    copy = item["copy"] or ""
    return "" if _ON_OTHERS.match(copy) else copy


def _ends_as_items(copies: Sequence[re.Match[str]]) -> bool:
    """Whether each ends with a stop, a comma or a semicolon, and not in the middle of a sentence."""
    return all(copy[0].rstrip().endswith((".", "!", ",", ";")) for copy in copies)


def _as_ids(text: str, start: int) -> tuple[Found | None, int]:
    """Numbers in brackets, or each in brackets of its own."""
    within = _WITHIN.match(text, start)
    if within is None:
        return None, start
    numbers = re.findall(r"\d+", within[1])
    closed = bool(within[2])
    if not numbers and (not closed or any(map(str.isalpha, within[1]))):
        return None, start
    told = [] if closed else [ENDLESS]
    return Found(numbers, told), within.end()


def _as_json(text: str, start: int) -> tuple[Found | None, int]:
    """A list or object of ids, of objects about statements, or of copies, in JSON or nearly so; the complete part of one that is cut."""
    whole, end = value_at(text, start)
    value = whole
    if whole is None:
        value = begun(text, start) or None
    if value is None:
        return None, start
    if is_one(value):
        value = list(takewhile(is_one, json_values(text[start:])))
    items = _labels(value if isinstance(value, list) else _listed(value))
    if len(items) == 1 and NONE.match(items[0]):
        items = []
    told = [ENDLESS] if whole is None else []
    return Found(items, told, _is_copy(value)), len(text) if end is None else end


def _is_copy(value: Any) -> bool:
    """Whether all items of a list or object have words of their own."""
    for item in value.values() if isinstance(value, dict) else value:
        if len(item) < 2 if isinstance(item, dict) else not re.search(r"[^\W\d_]", str(item)):
            return False
    return True


def _labels(items: Iterable[Any]) -> list[str]:
    """The label of each item, also in lists within, without items that are called irrelevant."""
    labels = list[str]()
    for item in items:
        if isinstance(item, dict) and any(
            _is_no(item.get(key)) for key in ("relevant", *SCORE_KEYS)
        ):
            continue
        if isinstance(item, list):
            labels += _labels(item)
        else:
            labels.append(label_of(item))
    return labels


def _on_lines(text: str) -> Found | None:
    """The first lines that hold only numbers, or that begin with a number, in a text that doesn't begin with brackets."""
    return None if OPENING.match(text) else _in_lines(text.split("\n"))


def _in_lines(lines: Iterable[str]) -> Found | None:
    """The first lines that hold only numbers, perhaps with remarks on the later ones, or that begin with a number."""
    lines = [line for line in not_denied(lines) if line.strip()]
    for index, line in enumerate(lines):
        if _numbers(line):
            found = Found()
            for numbers in takewhile(bool, map(_numbers_said, lines[index:])):
                found += numbers
            return found
        if NUMBERED.match(line):
            return _items(lines[index:])
    return None


def _numbers_said(line: str) -> list[str]:
    return _numbers(line) or _remarked(line) or _reasoned(line)


def _numbers(line: str) -> list[str]:
    """The numbers on a line that holds only numbers and perhaps a label."""
    found = _NUMBERS.fullmatch(line)
    return re.findall(r"\d+", found[1]) if found and not DENIED.search(line) else []


def _with_reason(text: str) -> Found | None:
    """Numbers with a reason on the first line. Further choices on the lines below are told."""
    first, *others = text.split("\n")
    numbers = _reasoned(first)
    if not numbers:
        return None
    return Found(numbers, [AGAIN] if any(map(_NEXT_CHOICE.match, others)) else [])


def _reasoned(line: str) -> list[str]:
    """The numbers at the beginning of a line that says why. The numbers of the reason are no choice."""
    found, begins = _NUMBERS.match(line), _BARE_OR_LABELLED.match(line)
    if found is None or begins is None:
        return []
    numbers = re.findall(r"\d+", found[1])
    reason = _BECAUSE.fullmatch(line, found.end(1))
    labelled = (begins["label"] or "").endswith(":")
    if reason is None and begins["label"]:
        reason = _ARE_RELEVANT.fullmatch(line, found.end(1))
    if reason is None:
        reason = _SENTENCE.fullmatch(line, found.end(1))
        if reason and len(numbers) == 1 and not labelled and not _OTHERS.search(reason[0]):
            return []  # "1. The user ..." may be a list of anything
    if reason is None or _denies(reason[0]) or _NOT_WANTED.search(reason[0]):
        return []
    return numbers


def _denies(remark: str) -> bool:
    """Whether a remark calls its own statement irrelevant, and not the others."""
    return bool(DENIED.search(remark)) and not _OTHERS.search(remark)


def _items(lines: Sequence[str]) -> Found:
    """The numbers at the beginning of the lines up to a further choice, without those whose lines call their statement irrelevant."""
    found = Found(copied=True)
    for place, line in enumerate(lines):
        if place and _NEXT_CHOICE.match(line):
            found.told.append(AGAIN)
            break
        item = NUMBERED.match(line)
        if item and not _denies(line) and not NONE.match(line, item.end()):
            found += _SHOWN.findall(line) or [item[1]]
            found.copied &= line[item.end() :].strip() != ""
    return found


def not_denied(lines: Iterable[str]) -> Iterator[str]:
    """The lines without headings that deny, and without the lines below such headings."""
    denied = False
    for line in lines:
        if line.rstrip().endswith(":"):
            denied = bool(DENIED.search(line))
        if not denied:
            yield line


def _listed(item: Mapping[str, Any]) -> list[Any]:
    """The first list in an object whose key does not deny. In an object without lists, the keys whose values are not "no"."""
    lists = {
        str(key).replace("_", " "): value for key, value in item.items() if isinstance(value, list)
    }
    if not lists:
        return [key for key in item if not _is_no(item[key])]
    for key, value in lists.items():
        if not DENIED.search(key):
            return value
    return []


def _is_no(value: Any) -> bool:
    return (value.strip().casefold() if isinstance(value, str) else value) in _NO


def is_one(item: Any) -> bool:
    """Whether this is an object about one statement."""
    return isinstance(item, dict) and any(
        key in item and not isinstance(item[key], list) for key in _ID_KEYS
    )


def label_of(item: Any) -> str:
    """The id, or the words, by which an item names its statement."""
    if isinstance(item, dict):
        named = [item[key] for key in _ID_KEYS if key in item]
        item = named[0] if named else next(iter(item), "")
    return str(int(item)) if isinstance(item, float) and item.is_integer() else str(item)
