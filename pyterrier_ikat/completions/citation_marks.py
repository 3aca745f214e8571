r"""The marks by which models cite passages: ``[1]``, ``(Doc 1, p. 3)``, ``【1†source】``.

A mark is a bracket with numbers. Marks beside each other, with what wraps them (tags, emphasis,
round brackets), are a run. The tokeniser goes through a text once and looks a bounded way ahead, so
that its time grows with the length of the text. Whether a run cites is decided in
:mod:`.citations`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

HIGHEST_BARE = 99
"""The highest bare number of a mark, unless more passages were shown; no range is longer."""
FIRST_YEAR = 1000
"""From here on, a bare number alone in its bracket is a year. Nobody shows so many passages."""
NO_PASSAGE = 0
"""The number of a mark that cites something else than a passage. No passage has it."""
MOST_NUMBERS = 20
"""The maximum number of numbers in a mark, less one."""
NAME = r"(?:reference[ _])?(?:passage|document|doc|source|reference|ref|citation|cite|snippet)s?"
"""What models call a passage. Gemini writes ``[cite 5]`` (HanaokaYuzu/Gemini-API#148)."""

RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_I = re.IGNORECASE
_BLANKS = r"[^\S\n]{0,2}"
_SEE = r"(?:see|cf\.|e\.g\.,?|from|according to|as in|via|sources?:|references?:)[^\S\n]"
_TAG = r"(?:sup|sub|small|cite|ref|span|a|b|i|u|em|strong|font)\b"
_PART = (
    r"(?:§§?|¶|\b(?:pp?|pages?|par|paras?|paragraphs?|sect?|sections?|lines?|sentences?|chapters?"
    r"|ch|figs?|figures?|tables?)\b\.?)"
)

_IN_ROUND = rf"{_BLANKS}(?:see |cf\. |sources?:? )?(?=[\[【])"
_BEGINNINGS = (
    r"[\[［【〔]",
    rf"[(（](?={_BLANKS}(?:{_SEE})?{NAME})",
    rf"\({_IN_ROUND}",
    rf"<(?={_TAG})",
    r"\^(?=\[)",
    r"\*(?=[*\[(<^])",
)
# Several times as fast with its first characters ahead.
_STARTS = re.compile(rf"(?=[\[(（［【〔<^*])(?:{'|'.join(_BEGINNINGS)})", _I)
"""Where a run may begin."""
_OPENING = re.compile(rf"(?P<bracket>\[\[?|[(（［【〔])\^?{_BLANKS}(?P<see>{_SEE})?", _I)
_CLOSING = {"[[": "]]", "[": "]", "［": "］", "【": "】", "〔": "〕", "(": ")", "（": "）"}
_ITEM = re.compile(
    rf"(?P<name>{NAME}{_BLANKS}(?:no\.?|number)?[ :#=\"_.-]{{0,3}})?"
    rf"[\"#]?(?P<number>\d{{1,4}}|[{RAISED}]{{1,2}})\"?",
    _I,
)
"""A number, perhaps with a name: ``1``, ``Doc 1``, ``"3"``."""
_WHERE = rf"{_PART}{_BLANKS}\d{{1,4}}(?:[.~‐‑‒–—−-]\d{{1,4}}){{0,3}}"
_PLACES = re.compile(
    rf"(?:{_BLANKS}[,;:]?{_BLANKS}{_WHERE}|{_BLANKS}\({_BLANKS}{_WHERE}\)){{1,3}}", _I
)
"""Places in a passage: ``, p. 3``."""
_TO = re.compile(rf"{_BLANKS}(?:[~‐‑‒–—−-]|\b(?:to|through)\b){_BLANKS}", _I)
_AND = re.compile(rf"{_BLANKS}(?P<sign>[,;、，&/]|and\b){_BLANKS}(?:and\b{_BLANKS})?", _I)
_END = re.compile(rf"{_BLANKS}[,;.]?{_BLANKS}(?P<file>†[^\]】\n]{{0,40}})?")
"""What may stand before a closing bracket; ``†source`` for a file that was uploaded."""
_FILE = re.compile(r"【\d{1,3}:\d{1,3}†[^】\n]{0,60}】")
"""What OpenAI's search in files writes: ``【4:0†source】`` (glific/glific#4004).

Only the provider knows what its numbers mean: a call, and a result of that search.
"""
_ANCHOR = re.compile(r"\(#[^()\s]{0,40}\)")
"""The address of a mark that is a link within the page: ``[1](#doc1)``."""
_OPEN_TAGS = re.compile(rf"(?:<{_TAG}[^<>\n]{{0,99}}>){{1,3}}", _I)
_CLOSE_TAGS = re.compile(rf"(?:</{_TAG}>){{1,3}}", _I)
_IN_RUN = re.compile(r"[ ,;&/]{0,3}(?:and )?", _I)
_ROUND = re.compile(rf"\({_IN_ROUND}", _I)
_ROUND_END = re.compile(rf"{_BLANKS}\)")
_EMPHASIS = re.compile(r"\*\*?")


class MarkRun(NamedTuple):
    """Marks beside each other.

    Attributes:
        start: where they begin, with what wraps them.
        end: where they end.
        numbers: the cited numbers, also those within ranges.
        named: whether a number has a name, as in ``[Doc 1]``.
        may_be_interval: whether they are two bare numbers with a comma, or a range.
    """

    start: int
    end: int
    numbers: tuple[int, ...]
    named: bool = False
    may_be_interval: bool = False


Reader = Callable[[str, int], MarkRun | None]
"""Reads what begins at a place of a text. None if it is something else."""


def runs(text: str, start: int = 0, end: int | None = None) -> Iterator[MarkRun]:
    """Yield the runs of marks that begin between two positions of a text, in order.

    Example:
        >>> text = "Oats [1-3], rye (Doc 2), [4](https://oats.org) spelt <sup>[5]</sup>."
        >>> [run.numbers for run in runs(text)]
        [(1, 2, 3), (2,), (5,)]
    """
    last = len(text) if end is None else end
    begins = _STARTS.search(text, start, last)
    while begins:
        run = run_at(text, begins.start())
        if run is None:
            position = begins.end()
        else:
            yield run
            position = run.end
        begins = _STARTS.search(text, position, last)


def run_at(text: str, start: int) -> MarkRun | None:
    """Return the run of marks that begins at ``start``. None if there is none."""
    return _beside(text, start, (_emphasised, _in_round, _tagged, _raised, mark_at))


def _beside(text: str, start: int, readers: Sequence[Reader]) -> MarkRun | None:
    """Read marks beside each other: ``[1][2]``, ``[1] and [2]``, and the range ``[1]–[3]``."""
    first = _first_of(readers, text, start)
    if first is None:
        return None
    units = [first]
    numbers = list(first.numbers)
    is_range = False
    further = _further(text, first.end, readers)
    while further:
        unit, is_range = further
        if is_range:
            numbers += _range(numbers.pop(), unit.numbers[0])
            numbers += unit.numbers[1:]
        else:
            numbers += unit.numbers
        units.append(unit)
        further = _further(text, unit.end, readers)
    if len(units) == 1:
        return first
    named = any(unit.named for unit in units)
    single = all(len(unit.numbers) == 1 for unit in units)
    may_be_interval = len(units) == 2 and is_range and single and not named
    return MarkRun(start, units[-1].end, tuple(numbers), named, may_be_interval)


def _first_of(readers: Sequence[Reader], text: str, start: int) -> MarkRun | None:
    for read in readers:
        run = read(text, start)
        if run is not None:
            return run
    return None


def _further(text: str, end: int, readers: Sequence[Reader]) -> tuple[MarkRun, bool] | None:
    """Return the next mark of a run, and whether it is the end of a range."""
    for between, is_range in ((_TO, True), (_IN_RUN, False)):
        gap = between.match(text, end)
        unit = _first_of(readers, text, gap.end()) if gap else None
        if unit is not None and (is_range or not _is_year(unit)):
            return unit, is_range
    return None


def _is_year(mark: MarkRun) -> bool:
    """Whether a mark is a year, which belongs to the text: ``[2] [2023]`` cites 2."""
    return not mark.named and len(mark.numbers) == 1 and mark.numbers[0] >= FIRST_YEAR


def _number(item: re.Match[str]) -> int:
    return int(unicodedata.normalize("NFKC", item["number"]))


def _range(first: int, last: int) -> list[int]:
    """Return all numbers from the first to the last, or these two if they are no range."""
    if 0 <= last - first <= HIGHEST_BARE:
        return list(range(first, last + 1))
    return [first, last]


def _emphasised(text: str, start: int) -> MarkRun | None:
    """Read marks in emphasis: ``**[1]**``, ``*[1], [2]*``."""
    stars = _EMPHASIS.match(text, start)
    if stars is None:
        return None
    inner = _beside(text, stars.end(), (_in_round, _tagged, _raised, mark_at))
    if inner is None or not text.startswith(stars[0], inner.end):
        return None
    return inner._replace(start=start, end=inner.end + len(stars[0]))


def _in_round(text: str, start: int) -> MarkRun | None:
    """Read marks in round brackets: ``([1])``, ``(see [1], [2])``."""
    return _wrapped(text, start, _ROUND, _ROUND_END)


def _tagged(text: str, start: int) -> MarkRun | None:
    """Read marks in tags: ``<sup>[1][2]</sup>``, ``<sup><a href="#1">[1]</a></sup>``."""
    return _wrapped(text, start, _OPEN_TAGS, _CLOSE_TAGS)


def _wrapped(
    text: str, start: int, opening: re.Pattern[str], closing: re.Pattern[str]
) -> MarkRun | None:
    """Read marks between an opening and a closing."""
    opens = opening.match(text, start)
    if opens is None:
        return None
    inner = _beside(text, opens.end(), (mark_at,))
    if inner is None:
        return None
    closes = closing.match(text, inner.end)
    if closes is None:
        return None
    return inner._replace(start=start, end=closes.end())


def _raised(text: str, start: int) -> MarkRun | None:
    """Read a raised mark: ``^[1]^``, ``^[1]``."""
    if not text.startswith("^", start):
        return None
    mark = mark_at(text, start + 1)
    if mark is None:
        return None
    end = mark.end + 1 if text.startswith("^", mark.end) else mark.end
    return mark._replace(start=start, end=end)


def mark_at(text: str, start: int) -> MarkRun | None:
    """Return the mark whose bracket opens at ``start``. None if there is none.

    In round brackets, or behind "see", the first number needs a name: ``(Doc 1)``, ``[see Doc 1]``.
    Square brackets before the address of another page are a link.

    Example:
        >>> mark_at("[Doc 1, p. 3; 4]", 0), mark_at("[1](https://oats.org)", 0)
        (MarkRun(start=0, end=16, numbers=(1, 4), named=True, may_be_interval=False), None)
    """
    file = _FILE.match(text, start)
    if file is not None:
        return MarkRun(start, file.end(), (NO_PASSAGE,), named=True)
    opening = _OPENING.match(text, start)
    if opening is None:
        return None
    bracket = opening["bracket"]
    is_round = bracket in ("(", "（")
    inner = None
    if opening["see"] is not None:
        inner = _items(text, opening.end(), needs_name=True)
    if inner is None:  # "Source: " may also be the name of a number
        first = opening.end() if opening["see"] is None else opening.start("see")
        inner = _items(text, first, needs_name=is_round)
    if inner is None:
        return None
    ends = _END.match(text, inner.end)
    if ends is None or (is_round and ends["file"]):
        return None
    closing = _CLOSING[bracket]
    if not text.startswith(closing, ends.end()):
        return None
    end = ends.end() + len(closing)
    if not is_round and text.startswith("(", end):
        anchor = _ANCHOR.match(text, end)
        if anchor is None:
            return None
        end = anchor.end()
    return inner._replace(start=start, end=end)


def _items(text: str, start: int, needs_name: bool) -> MarkRun | None:
    """Read the numbers inside a bracket: ``Doc 1, p. 3; 4``, ``1-3``, ``1 and 2``.

    Each may have a name and places in its passage.
    """
    item = _ITEM.match(text, start)
    if item is None or (needs_name and not item["name"]):
        return None
    numbers = [_number(item)]
    named = bool(item["name"])
    signs: list[str] = []
    end = item.end()
    while len(signs) < MOST_NUMBERS:
        places = _PLACES.match(text, end)
        if places:
            end = places.end()
        to = _TO.match(text, end)
        between = to or _AND.match(text, end)
        item = _ITEM.match(text, between.end()) if between else None
        if item is None or between is None:
            break
        if to:
            numbers += _range(numbers.pop(), _number(item))
            signs.append("to")
        else:
            numbers.append(_number(item))
            signs.append(between["sign"])
        named = named or bool(item["name"])
        end = item.end()
    may_be_interval = not named and signs in (["to"], [","])
    return MarkRun(start, end, tuple(numbers), named, may_be_interval)
