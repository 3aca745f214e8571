"""The order of numbered passages that a completion gives. Pure functions: no model, no frame."""

import html
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from .usable import FENCE, own_turn, usable_text

_NAME = r"(?:(?:passage|document|doc|text|item|id|number|no|rank)s?\b\.?)"
_IN_BRACKETS = re.compile(rf"\[\s{{0,9}}{_NAME}?[\s#:]{{0,9}}(\d+)[\s.]{{0,9}}\]", re.IGNORECASE)
_ABOVE = ">≻≽≥→»"
_NEXT_IN_BRACKETS = re.compile(rf"(?:(?!\n\s*\n)[^\w\[\]]){{0,12}}|[^\[\]\n]{{0,200}}[{_ABOVE}][^\[\]\n]{{0,200}}")
_NAMED = re.compile(rf"{_NAME}[\s#:]{{0,9}}(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.-])(\d+)(?![\w%]|\.\d)")
_NEXT = re.compile(r"(?:(?!\n\s*\n)\W){1,9}(?:and\s+)?", re.IGNORECASE)
_NUMBERED_LINE = re.compile(r"^[ \t]*\d+[.):][ \t]+\W{0,9}(\d+)\b", re.MULTILINE)
_OTHER_BRACKETS = str.maketrans("【】〔〕「」⟦⟧", "[][][][]")
DIGITS = 9
"""The maximum number of digits that are read. No window has so many passages."""


class Permutation(NamedTuple):
    """The complete order of the passages of a window, with repairs of the completion.

    Attributes:
        order: the places of all passages, from 0, each once.
        repairs: in words, one for each missing, repeated or invented number.
    """

    order: list[int]
    repairs: list[str]


def permutation(numbers: Sequence[int], size: int) -> Permutation:
    """The order of ``size`` passages whose numbers, from 1, are in ``numbers``.

    A repeated number counts at its first place. Invented numbers are ignored. Passages without a number follow in their original order.

    Example:
        >>> permutation([3, 1, 3, 7], 4)
        Permutation(order=[2, 0, 1, 3], repairs=['3 again', 'no passage 7', '2 missing', '4 missing'])
    """
    named, repairs = list[int](), list[str]()
    for number in numbers:
        if not 1 <= number <= size:
            repairs.append(f"no passage {number}")
        elif number in named:
            repairs.append(f"{number} again")
        else:
            named.append(number)
    missing = [number for number in range(1, size + 1) if number not in named]
    return Permutation([number - 1 for number in [*named, *missing]], repairs + [f"{number} missing" for number in missing])


def read_ranking(text: str) -> list[int] | None:
    r"""The numbers of passages in a completion, best first, as the model wrote them.

    Numbers in brackets take precedence. Of several lists the longest counts; of equally long lists, the last. So reasoning before the
    answer is not mistaken for the ranking. A list may also have one number per line, and its lines may be numbered.

    Returns:
        The numbers, including repeated ones and ones that no passage has. None if the completion has neither a list nor a single number.

    Example:
        >>> read_ranking("[2] > [3] > [1]"), read_ranking("1. Passage 2\n2. Passage 1"), read_ranking("Of the 3 passages: 2, 1, 3")
        ([2, 3, 1], [2, 1], [2, 1, 3])
        >>> read_ranking("I have ranked them.") is None
        True
    """
    said = unicodedata.normalize("NFKC", html.unescape(usable_text(text))).translate(_OTHER_BRACKETS)
    said = own_turn(FENCE.sub("", said))
    return _of_brackets(said) or _without_brackets(said) or None


def _of_brackets(text: str) -> list[int]:
    found = list(_IN_BRACKETS.finditer(text))
    every = [_number(one) for one in found]
    best = _longest(_runs(text, found, _NEXT_IN_BRACKETS))
    return best if 2 * len(set(best)) > len(set(every)) else every


def _without_brackets(text: str) -> list[int]:
    """Numbers after line numbers, after a word such as "passage", or next to each other. A lone number counts if there is nothing else."""
    lines, named = ([_number(one) for one in pattern.finditer(text)] for pattern in (_NUMBERED_LINE, _NAMED))
    if len(lines) > 1:
        return lines
    best = _longest(_runs(text, list(_NUMBER.finditer(text)), _NEXT))
    return _longest([best, named]) if len(best) > 1 or not re.search(r"[^\W\d_]", text) else named


def _runs(text: str, found: Sequence[re.Match[str]], between: re.Pattern[str]) -> list[list[int]]:
    """The groups of consecutive numbers: only ``between`` separates them."""
    runs: list[list[int]] = []
    for before, one in zip([None, *found], found, strict=False):
        joined = before is not None and between.fullmatch(text, before.end(), one.start())
        runs += [] if joined else [[]]
        runs[-1].append(_number(one))
    return runs


def _longest(runs: Sequence[list[int]]) -> list[int]:
    return max(reversed(runs), key=lambda run: len(set(run)), default=[])


def _number(found: re.Match[str]) -> int:
    return int(found[1][:DIGITS])
