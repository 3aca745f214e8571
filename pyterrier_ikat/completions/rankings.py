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
_NEXT = re.compile(rf"(?:(?!\n\s*\n)[^\w\[\]]){{0,12}}|[^\[\]\n]{{0,200}}[{_ABOVE}][^\[\]\n]{{0,200}}")
"""What stands between two numbers of a list."""
_NAMES = re.compile(rf"^[ \t]*\d+[.):][ \t]+(?=\W*{_NAME}?\W*\d)|{_NAME}|\bRanking\b", re.IGNORECASE | re.MULTILINE)
"""Line numbers, and names of passages and lists."""
_LISTS = re.compile(r"\[[\d\s,;\"']+(?:\]|\Z)|\A[\W\d]+\Z")
"""Numbers in common brackets, or nothing but numbers."""
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

    They are in brackets, each or together, or the completion holds nothing but numbers and names such as "passage". Of several lists the
    longest counts; of equally long lists, the last. So reasoning before the answer is not mistaken for the ranking.

    Returns:
        The numbers, including repeated ones and ones that no passage has. None if the completion has no such list.

    Example:
        >>> read_ranking("[2] > [3] > [1]"), read_ranking("1. [2]\n2. [1]"), read_ranking("2 > 1 > 3")
        ([2, 3, 1], [2, 1], [2, 1, 3])
        >>> read_ranking("I have ranked the 3 passages.") is None
        True
    """
    said = unicodedata.normalize("NFKC", html.unescape(usable_text(text))).translate(_OTHER_BRACKETS)
    said = own_turn(FENCE.sub("", said))
    found = list(_IN_BRACKETS.finditer(said))
    lists = [] if found else _LISTS.findall(_NAMES.sub(" ", said))
    runs = [[int(number[:DIGITS]) for number in re.findall(r"\d+", one)] for one in lists]
    for before, one in zip([None, *found], found, strict=False):
        if before is None or not _NEXT.fullmatch(said, before.end(), one.start()):
            runs.append([])
        runs[-1].append(int(one[1][:DIGITS]))
    every = [number for run in runs for number in run]
    best = max(reversed(runs), key=lambda run: len(set(run)), default=[])
    return (best if 2 * len(set(best)) > len(set(every)) else every) or None
