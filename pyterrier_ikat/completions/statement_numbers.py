r"""The numbers of chosen statements in a completion; :func:`read_ids` is their only reader.

A choice is a list in brackets, lines of numbers, or numbered lines. The readers of each form are
tried in order, and the first that finds one has the choice. The text behind it is not read, and a
note says if it chooses other statements. Pure functions: no model, no frame.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from .json_answers import MOST_UNREADABLE, OPENING, complete_part, json_values, value_at
from .signs import plain_signs
from .usable import own_turn, usable_text, without_fences

_NOUNS = "provenance|statement|ptkb|number|id|fact|information|answer|relevant"
_LABEL = rf"(?:[^\W\d_]+ ){{0,3}}(?:{_NOUNS})s?"
SAYS_NONE = re.compile(
    rf"\W*(?:{_LABEL}\W{{0,9}}?:\W{{0,99}})?(?:there(?:['’]s| is| are) )?"
    r"(?:none\b|nothing\b|n/a\b|not any\b|no\s*(?:[-–—(]|\W*$)|no (?:\w+ ){0,2}statements?\b)",
    re.IGNORECASE,
)
"""The beginning of a text which says that no statement is relevant."""
MAKES_EXCEPTION = re.compile(
    r"\b(?:except|excluding|apart from|other than|besides|but for|none but)\b", re.IGNORECASE
)
"""Words that make an exception to "none"."""
NUMBERED_LINE = re.compile(
    r"^\s*(?:[-*•–>]\s+)?(?:\d{1,3}[.)]\s+(?=\W*(?:statement|ptkb|\d{1,3}\W*$)))?[*_#`]*"
    r"(?:(?:statement|ptkb|number|id)\s+)?"
    r"[(\[#]*(\d{1,3})[*_]*(?:[.):\]]+(?!\d)[*_]*|\s+[-–—]\s(?!\s*\d+\s*$)|$)\s*",
    re.IGNORECASE,
)
"""The number of a statement before a line."""

SAYS_IRRELEVANT = re.compile(
    r"(?:\b(?:not|never)\b(?! only)|n['’]t\b)"
    r"(?:[^\w.;!?]+\w+){0,2}?[^\w.;!?]+(?:relevan|relat|applicab|matter)\w*"
    r"|\b(?:is|are|do|does)(?:\s+not|n['’]t)\W*\Z"
    r"|\b(?:irrelevant|unrelated|unimportant)\b",
    re.IGNORECASE,
)
"""Words that call a statement irrelevant."""
_DENIED_NEXT = re.compile(
    r"\b(?:(?:not|excluding|except|without|instead of|rather than)\b(?! only)|all but)\W+"
    r"(?:(?:statement|number|id|for)s?\W+)*\Z",
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

_BETWEEN = (
    r"(?:[\s,;&*#\"']+(?:and[\s*#\"']+)?(?:(?:statement|ptkb|number|id|fact)s?[\s*#]+)?"
    r"|\)[\s,;&]+(?:and\s+)?\()"
)
_NUMBERS = re.compile(
    rf"[\s*#_(\"'•–-]*(?:{_LABEL}[\s*:=#_(\"']+)?"
    rf"(\d{{1,3}}\b(?:{_BETWEEN}\d{{1,9}}\b)*)[\s.,;*\"')_]*",
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
    rf"\W{{0,20}}(?:(?:only|the) ){{0,2}}"
    rf"(?P<label>(?:{_NOUNS})s?\W|[^:\n\d]{{0,60}}:)?\W{{0,20}}\d",
    re.IGNORECASE,
)
_BECAUSE = re.compile(r"[\s*_\"'),]*(?:because|since|as|due to)\b.*", re.IGNORECASE)
"""The reason behind the numbers of a line: ``2, 5 because the user is 30 years old``."""
_ARE_RELEVANT = re.compile(
    r"[\s*_\"')]*\b(?:is|are)(?: (?:all|both|the|most|\w+ly))* relevant\b[^\d\[]*", re.IGNORECASE
)
"""What only says that the numbers before it are the choice: ``Statements 2 and 5 are relevant.``"""
_SENTENCE = re.compile(r"[\s*_\"')]*(?:[:;.]|\s[–—-])\s+(?=[^\W\d_]|\[).*")
"""A remark behind the numbers of a line: ``2, 5. The user is 30 years old.``"""
_NOT_WANTED = re.compile(
    r"(?:\bnot|n['’]t) (?:\w+ )?(?:need|useful|necess|import|help|requir|chosen|select)",
    re.IGNORECASE,
)
_CONCLUSIONS = (
    "answer|final|result|output|choice|selection|selected|conclusion|so|thus|hence|therefore"
)
"""Words of our own choosing that introduce a conclusion; others are read as running text."""
_CONCLUDES = rf"\b(?:[^\W\d_]+ ){{0,3}}(?:{_CONCLUSIONS})s?(?: (?:{_NOUNS}|list|choice)s?)?"
_NEXT_CHOICE = re.compile(
    rf"[\s*#_•–-]*(?:\d{{1,3}}[.)]\s+)?[*_]*"
    rf"(?:(?P<concludes>{_CONCLUDES})|{_LABEL})\W{{0,9}}?:\W*(?P<number>\d)",
    re.IGNORECASE,
)
"""The beginning of a line that makes a further choice, such as ``2. Provenance: 7``.

A line that concludes, such as ``Final answer: 7``, makes a whole one.
"""
_SHOWN = re.compile(r"(?:\A|,\s)(\d{1,3}):\s")
"""Numbers of copied statements on one line, as in prompts: ``1: I am vegan., 2: I own a dog.``"""
_IDS = r"(?:[\s\d,;&|#*\"'$]|\b(?:and|statements?|ptkb|ids?|numbers?)\b)*"
_BRACKETS = rf"\[(?P<ids>{_IDS}(?:\][ \t]*(?:(?:[,;&]|and\b)[ \t]*(?:and[ \t]+)?)?\[{_IDS})*)"
_WITHIN = re.compile(rf"{_BRACKETS}(?P<closing>\]|\Z)", re.IGNORECASE)
"""Ids in brackets, or each in brackets of its own: ``[1, 5]``, ``[1] [5]``, ``[1] and [5]``."""
_SEPARATED = re.compile(r"[^\w\s,;&.:()\[\]{}\"'*#•–—-]")
"""Characters around ids that are neither digits nor known separators, as in money or tables."""
_ID_KEYS = ("id", "index", "number", "statement_id", "statement")
SCORE_KEYS = ("score", "relevance")
_NO = (False, "false", "no", "not relevant", "irrelevant")

_OTHER = re.compile(
    rf"(?:{_CONCLUDES}|{_LABEL}|^[ \t]*(?:(?:[-*•–]|\d{{1,3}}[.)])[ \t]+)?(?=\[))"
    rf"(?P<label>[*_\s]*:[*_\s]*)?{_BRACKETS}\]",
    re.IGNORECASE | re.MULTILINE,
)
"""A list in brackets behind a label, or at the beginning of a line."""
_COPY = re.compile(r"\[(\d{1,3})\]\s*,?\s+(?P<copy>[^\W\d_])[^\[]*")
"""A number in brackets and the statement behind it."""
_BRACKETED = re.compile(
    r"[ \t]*(?P<listed>(?:[-*•–]|\d{1,3}[.)])[ \t]+)?"
    r"[*_]*\[(?P<number>\d{1,3})\][*_.,;:]*[ \t]*(?P<copy>[^\s\d\[].*)?[ \t]*"
)
"""A line that is a number in brackets, perhaps with its statement: ``- [5] I run.``"""
SECOND_CHOICE = "another list, because the model answers more than once"
ENDLESS_LIST = "a list that never ends"


class ReadChoice(list[Any]):
    """The pieces of a choice, as a completion has them.

    Attributes:
        notes: what a reader of the choice should know, in words.
        copied: whether the choice copies the texts of its statements.
        on_lines: the numbers in brackets on the lines of the choice, also denied ones; empty for
            other choices.
    """

    def __init__(
        self,
        items: Iterable[Any] = (),
        notes: Sequence[str] = (),
        copied: bool = False,
        on_lines: Iterable[str] = (),
    ) -> None:
        super().__init__(items)
        self.notes = list(notes)
        self.copied = copied
        self.on_lines = set(on_lines)


def read_ids(text: str) -> ReadChoice | None:
    r"""Read the statement numbers in a completion, in digits of any script.

    The first list counts: in brackets (JSON or nearly so, fenced or in prose), on lines that hold
    numbers or begin with one, or numbers with a remark or a reason on the first line. A stray
    number in running text does not count. A truncated list is read up to its last complete item.
    ``notes`` says so, and that the completion makes further, different choices.

    Returns:
        The numbers as text, in the completion's order. Empty if it says that no statement is
        relevant; ``None`` if it has no usable choice.

    Example:
        >>> read_ids("[4, 1]. Note that [2] is not relevant."), read_ids("1, 4")
        (['4', '1'], ['1', '4'])
        >>> read_ids("None of them."), read_ids("Sure!")
        ([], None)
        >>> read_ids("8 (I have a bike.)\nProvenance: 3 (We like soup.)")
        ['8']
        >>> read_ids("[3, 5, 7").notes
        ['a list that never ends']
    """
    answer = plain_signs(without_fences(usable_text(text)))
    if not any(character.isalpha() for character in answer):
        answer = _SEPARATED.sub(" ", answer)
    choice = _choice(own_turn(answer).strip())
    if choice is not None and not choice.notes and _chooses_again(answer, choice):
        choice.notes.append(SECOND_CHOICE)
    return choice


def _chooses_again(answer: str, choice: ReadChoice) -> bool:
    """Whether an answer makes a choice that differs from the one that was read."""
    chosen = {*choice, *choice.on_lines}
    for other in _OTHER.finditer(answer):
        numbers = set(re.findall(r"\d+", other["ids"]))
        is_whole = other["label"] is not None and not choice.on_lines
        if is_whole and numbers != chosen:
            return True
        if not is_whole and not numbers <= chosen:
            return True
    for line in answer.split("\n"):
        label = _NEXT_CHOICE.match(line)
        if label is None or SAYS_IRRELEVANT.search(label[0]):
            continue
        numbers = _numbers_behind(label)
        is_whole = label["concludes"] is not None and bool(numbers)
        if not numbers <= chosen or (is_whole and numbers != chosen):
            return True
    return False


def _numbers_behind(label: re.Match[str]) -> set[str]:
    """Return the numbers of a line such as ``2. Provenance: 7``, of which the label is given.

    The set is empty if the line says more than numbers and remarks on them.
    """
    numbers = label.string[label.start("number") :].rstrip(" .]")
    return {*_numbers(numbers), *_remarked(numbers)}


def _choice(text: str) -> ReadChoice | None:
    """Return the first choice in a text, by the first reader that finds one."""
    if says_none(text):
        first_line = text.split("\n")[0]
        return None if MAKES_EXCEPTION.search(first_line) else ReadChoice()
    for read in (_on_first_line, _with_reason, _in_brackets, _on_lines):
        choice = read(text)
        if choice is not None:
            return choice
    return None


def says_none(text: str) -> bool:
    """Whether the first sentence says that no statement is relevant, and names none in brackets."""
    line = text.split("\n")[0]
    return bool(SAYS_NONE.match(line)) and not OPENING.search(line.split(". ")[0])


def means_none(text: str) -> bool:
    """Whether a text says "none" without an exception."""
    return bool(SAYS_NONE.match(text)) and not MAKES_EXCEPTION.search(text)


def _on_first_line(text: str) -> ReadChoice | None:
    """Read numbers with remarks in brackets on the first line: ``8 (I have a bike.)``.

    Lines below must make no choice, or say so by a label.
    """
    first, *others = text.split("\n")
    numbers = _remarked(first)
    if not numbers:
        return None
    if any(_NEXT_CHOICE.match(line) for line in others):
        return ReadChoice(numbers, [SECOND_CHOICE])
    has_digit = any(character.isdecimal() for line in others for character in line)
    return None if has_digit else ReadChoice(numbers)


def _remarked(line: str) -> list[str]:
    """Return the numbers of a line of numbers with remarks in brackets: ``2 (diet), 5 (place)``.

    Empty for another line.
    """
    begins = _REMARKED_BEGINS.match(line)
    position = begins.end() if begins else 0
    numbers = []
    has_remark = False
    item = _REMARKED_ITEM.match(line, position)
    while item:
        remark = item[2] or ""
        has_remark = has_remark or remark != ""
        if not _denies(remark):
            numbers.append(item[1])
        elif not _DENIES_FIRST.match(remark):
            return []  # it is not clear what the remark denies
        position = item.end()
        item = _REMARKED_ITEM.match(line, position)
    goes_on = line[position:].strip(" .,;*_") != ""
    return numbers if has_remark and not goes_on else []


def _in_brackets(text: str) -> ReadChoice | None:
    """Return the first list in brackets that can be read and is not denied.

    If numbers stand on lines before the list, these are the choice.
    """
    position = 0
    for opening in islice(OPENING.finditer(text), MOST_UNREADABLE):
        start = opening.start()
        if start < position or _is_denied_before(text, start):
            continue
        read = _bracket_at(text, start)
        if read is None:
            continue
        choice, end = read
        if choice and _DENIED_BEFORE.match(text, end):
            position = end
            continue
        before = _lines_before(text, start)
        return choice if before is None else before
    return None


def _lines_before(text: str, start: int) -> ReadChoice | None:
    """Return the choice of the lines before a bracket, with the numbers before it on its line."""
    *lines, own = text[:start].split("\n")
    if _in_lines(lines) is None:
        return None
    if own.strip():
        lines.append(own + text[start:].split("\n")[0])
    return _in_lines(lines)


def _is_denied_before(text: str, start: int) -> bool:
    """Whether the words before a position in its clause deny what stands there."""
    clause = re.split(r"[.!?,;\n]", text[max(0, start - 60) : start])[-1]
    return bool(SAYS_IRRELEVANT.search(clause) or _DENIED_NEXT.search(clause))


def _bracket_at(text: str, start: int) -> tuple[ReadChoice, int] | None:
    """Return the choice in the brackets at ``start`` and its end, by the first reader that fits."""
    for read in (_as_copies, _as_lines, _as_ids, _as_json):
        choice = read(text, start)
        if choice is not None:
            return choice
    return None


def _as_copies(text: str, start: int) -> tuple[ReadChoice, int] | None:
    """Read copied statements on one line, each behind its number: ``[1] I am vegan. [5] I run.``.

    There must be two or more. What begins with a small letter is a remark, as in ``[2] is enough.
    [7] is about cars.``; whether these are items is not clear.
    """
    line_end = text.find("\n", start)
    if line_end < 0:
        line_end = len(text)
    copies = list(_COPY.finditer(text, start, line_end))
    if len(copies) < 2 or copies[0].start() != start or not _ends_as_items(copies[:-1]):
        return None
    if any(copy["copy"].islower() for copy in copies):
        first = copies[0]
        return ReadChoice([first[1]], [SECOND_CHOICE]), first.end(1) + 1
    numbers = [copy[1] for copy in copies if not SAYS_IRRELEVANT.search(copy[0])]
    return ReadChoice(numbers, copied=True), copies[-1].end()


def _as_lines(text: str, start: int) -> tuple[ReadChoice, int] | None:
    """Read numbers in brackets on lines of their own: ``- [1]`` and below it ``- [5]``.

    There must be two or more, all with their statements or all without. What begins with a small
    letter is a remark, and whether it chooses or denies its statement is not clear.
    """
    line_start = text.rfind("\n", 0, start) + 1
    items, end = _bracketed_lines(text, line_start)
    if len(items) < 2 or start > line_start + items[0].start("number"):
        return None
    copies = [_copy_in(item) for item in items]
    if any(copies) != all(copies) or any(copy[:1].islower() for copy in copies):
        return None
    copied = all(copies)
    if not copied and not items[0]["listed"]:  # "[1]" and "[5]" below it may be two answers
        return None
    numbers = [item["number"] for item in items]
    chosen = [item["number"] for item in items if not _denies(item[0])]
    return ReadChoice(chosen, copied=copied, on_lines=numbers), end


def _bracketed_lines(text: str, start: int) -> tuple[list[re.Match[str]], int]:
    """Return the lines from ``start`` on that are numbers in brackets, and their end.

    Empty lines may stand between them.
    """
    items = []
    end = start
    for line in text[start:].split("\n"):
        item = _BRACKETED.fullmatch(line)
        if line.strip() and item is None:
            break
        end += len(line) + 1
        if item:
            items.append(item)
    return items, min(end, len(text))


def _copy_in(item: re.Match[str]) -> str:
    """Return the statement behind a number in brackets.

    Empty if there is none, or a remark on the other statements.
    """
    copy = item["copy"] or ""
    return "" if _ON_OTHERS.match(copy) else copy


def _ends_as_items(copies: Sequence[re.Match[str]]) -> bool:
    """Whether each ends with a stop, a comma or a semicolon, not in the middle of a sentence."""
    return all(copy[0].rstrip().endswith((".", "!", ",", ";")) for copy in copies)


def _as_ids(text: str, start: int) -> tuple[ReadChoice, int] | None:
    """Read numbers in brackets, or each in brackets of its own."""
    within = _WITHIN.match(text, start)
    if within is None:
        return None
    inner = within["ids"]
    numbers = re.findall(r"\d+", inner)
    closed = within["closing"] == "]"
    if not numbers:
        has_letter = any(character.isalpha() for character in inner)
        if not closed or has_letter:
            return None
    return ReadChoice(numbers, [] if closed else [ENDLESS_LIST]), within.end()


def _as_json(text: str, start: int) -> tuple[ReadChoice, int] | None:
    """Read a list or object of ids, of objects about statements, or of copies, in JSON.

    Near JSON is read too, and of a truncated value the complete part.
    """
    value, end = value_at(text, start)
    notes = []
    if value is None:
        value = complete_part(text, start)
        notes = [ENDLESS_LIST]
    if value is None or (notes and not value):
        return None
    if is_about_statement(value):
        value = list(takewhile(is_about_statement, json_values(text[start:])))
    items = _labels(value if isinstance(value, list) else _listed(value))
    if len(items) == 1 and SAYS_NONE.match(items[0]):
        items = []
    return ReadChoice(items, notes, _is_copy(value)), len(text) if end is None else end


def _is_copy(value: Any) -> bool:
    """Whether all items of a list or object have words of their own."""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict):
            has_words = len(item) >= 2
        else:
            has_words = re.search(r"[^\W\d_]", str(item)) is not None
        if not has_words:
            return False
    return True


def _labels(items: Iterable[Any]) -> list[str]:
    """Return the label of each item, also in inner lists, without those called irrelevant."""
    labels: list[str] = []
    for item in items:
        if isinstance(item, list):
            labels += _labels(item)
        elif not _is_irrelevant(item):
            labels.append(label_of(item))
    return labels


def _is_irrelevant(item: Any) -> bool:
    """Whether an object says that its statement is not relevant."""
    if not isinstance(item, dict):
        return False
    return any(_is_no(item.get(key)) for key in ("relevant", *SCORE_KEYS))


def _on_lines(text: str) -> ReadChoice | None:
    """Read the first lines that hold only numbers or begin with one.

    The text must not begin with brackets.
    """
    return None if OPENING.match(text) else _in_lines(text.split("\n"))


def _in_lines(lines: Iterable[str]) -> ReadChoice | None:
    """Read the first lines that hold only numbers, or that begin with a number.

    Later lines of numbers may have remarks.
    """
    lines = [line for line in not_denied(lines) if line.strip()]
    for index, line in enumerate(lines):
        if _numbers(line):
            return _number_lines(lines[index:])
        if NUMBERED_LINE.match(line):
            return _items(lines[index:])
    return None


def _number_lines(lines: Iterable[str]) -> ReadChoice:
    choice = ReadChoice()
    for line in lines:
        numbers = _numbers(line) or _remarked(line) or _reasoned(line)
        if not numbers:
            break
        choice += numbers
    return choice


def _numbers(line: str) -> list[str]:
    """Return the numbers on a line that holds only numbers and perhaps a label."""
    numbers = _NUMBERS.fullmatch(line)
    if numbers is None or SAYS_IRRELEVANT.search(line):
        return []
    return re.findall(r"\d+", numbers[1])


def _with_reason(text: str) -> ReadChoice | None:
    """Read numbers with a reason on the first line. Further choices below it are noted."""
    first, *others = text.split("\n")
    numbers = _reasoned(first)
    if not numbers:
        return None
    chooses_again = any(_NEXT_CHOICE.match(line) for line in others)
    return ReadChoice(numbers, [SECOND_CHOICE] if chooses_again else [])


def _reasoned(line: str) -> list[str]:
    """Return the numbers at the beginning of a line that says why they were chosen.

    Empty for another line, and if the reason denies the choice. ``2, 5 because the user is 30``
    gives 2 and 5; the numbers of the reason are no choice.
    """
    beginning = _NUMBERS.match(line)
    labelled = _BARE_OR_LABELLED.match(line)
    if beginning is None or labelled is None:
        return []
    numbers = re.findall(r"\d+", beginning[1])
    label = labelled["label"] or ""
    reason = _reason(line, beginning.end(1), label, len(numbers))
    if reason is None:
        return []
    denies_the_choice = _denies(reason) or _NOT_WANTED.search(reason) is not None
    return [] if denies_the_choice else numbers


def _reason(line: str, start: int, label: str, count: int) -> str | None:
    """Return the reason behind the numbers of a line, or None.

    Args:
        line: the line.
        start: where its numbers end.
        label: the words before the numbers.
        count: how many numbers there are.
    """
    because = _BECAUSE.fullmatch(line, start)
    if because is not None:
        return because[0]
    are_relevant = _ARE_RELEVANT.fullmatch(line, start)
    if label and are_relevant is not None:
        return are_relevant[0]
    sentence = _SENTENCE.fullmatch(line, start)
    if sentence is None:
        return None
    # "1. The user ..." may be an item of any list; "1. The others are ..." is about the choice.
    may_be_item = count == 1 and not label.endswith(":")
    if may_be_item and not _OTHERS.search(sentence[0]):
        return None
    return sentence[0]


def _denies(remark: str) -> bool:
    """Whether a remark calls its own statement irrelevant, and not the others."""
    return bool(SAYS_IRRELEVANT.search(remark)) and not _OTHERS.search(remark)


def _items(lines: Sequence[str]) -> ReadChoice:
    """Return the numbers at the beginning of the lines, up to a further choice.

    Lines that call their statement irrelevant are left out.
    """
    choice = ReadChoice(copied=True)
    for index, line in enumerate(lines):
        label = _NEXT_CHOICE.match(line)
        if index > 0 and label:
            if _numbers_behind(label) != set(choice):
                choice.notes.append(SECOND_CHOICE)
            break
        item = NUMBERED_LINE.match(line)
        if item is None or _denies(line) or SAYS_NONE.match(line, item.end()):
            continue
        choice += _SHOWN.findall(line) or [item[1]]
        if not line[item.end() :].strip():
            choice.copied = False
    return choice


def not_denied(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines without headings that deny, and without the lines below such headings."""
    denied = False
    for line in lines:
        if line.rstrip().endswith(":"):
            denied = bool(SAYS_IRRELEVANT.search(line))
        if not denied:
            yield line


def _listed(item: Mapping[str, Any]) -> list[Any]:
    """Return the first list in an object whose key does not deny.

    In an object without lists, these are the keys whose values are not "no".
    """
    has_list = False
    for key, value in item.items():
        if isinstance(value, list):
            has_list = True
            if not SAYS_IRRELEVANT.search(str(key).replace("_", " ")):
                return value
    if has_list:
        return []
    return [key for key in item if not _is_no(item[key])]


def _is_no(value: Any) -> bool:
    if isinstance(value, str):
        value = value.strip().casefold()
    return value in _NO


def is_about_statement(item: Any) -> bool:
    """Whether this is an object about one statement."""
    if not isinstance(item, dict):
        return False
    return any(key in item and not isinstance(item[key], list) for key in _ID_KEYS)


def label_of(item: Any) -> str:
    """Return the id, or the words, by which an item names its statement."""
    label = item
    if isinstance(item, dict):
        keys = [key for key in _ID_KEYS if key in item]
        label = item[keys[0]] if keys else next(iter(item), "")
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)
