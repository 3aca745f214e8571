"""ROUGE-L: how much of the gold answer a response has in the same order."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from .responses import Assessment

_WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """The lower-cased runs of a-z and 0-9, without stemming; everything else separates, accented letters too.

    This is the tokenisation of the package ``rouge-score`` with its default ``use_stemmer=False``, so that figures can
    be compared with those that it gives.

    Example:
        >>> words("Don't boil it at 100 °C!")
        ['don', 't', 'boil', 'it', 'at', '100', 'c']
    """
    return _WORD.findall(text.lower())


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence of words that both have in this order, gaps allowed.

    Example:
        >>> longest_common_subsequence(["a", "b", "c", "d"], ["b", "x", "d"])
        2
    """
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, 1):
            above = row[place]
            row[place] = diagonal + 1 if word == other else max(above, row[place - 1])
            diagonal = above
    return row[-1]


def rouge_l(response: str, reference: str) -> float:
    """ROUGE-L's F measure, 0 to 1, over :func:`words`; 0 when either text has none.

    With L the longest common subsequence: precision L / words of the response, recall L / words of the reference, F
    their harmonic mean (beta = 1). Both texts count as one sequence, line breaks included (not the sentence-wise
    ROUGE-Lsum). Source: Lin, ROUGE, 2004, section 3.

    Example:
        >>> round(rouge_l("Rooibos has no caffeine.", "Rooibos tea has no caffeine"), 4)
        0.8889
    """
    found, wanted = words(response), words(reference)
    return 2 * longest_common_subsequence(found, wanted) / (len(found) + len(wanted)) if found and wanted else 0.0


@dataclass(frozen=True)
class RougeL:
    """ROUGE-L's F measure against ``gold_answer``, see :func:`rouge_l`.

    Example:
        >>> frame = pd.DataFrame({"qid": ["1_1"], "qanswer": ["Rooibos."], "gold_answer": ["Rooibos tea"]})
        >>> [round(judgement.value, 4) for judgement in RougeL().judge(frame)]
        [0.6667]
    """

    name: ClassVar[str] = "ROUGE-L"
    needs: ClassVar[tuple[str, ...]] = ("gold_answer",)
    basis: ClassVar[str] = "gold_answer"

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Score the responses (``qanswer``) of a frame with ``gold_answer``."""
        pairs = zip(responses["qanswer"], responses["gold_answer"], strict=True)
        return [self._one(response, reference) for response, reference in pairs]

    def _one(self, response: str, reference: str) -> Assessment:
        found, wanted = words(response), words(reference)
        common = longest_common_subsequence(found, wanted)
        reason = f"{common} words in common, of {len(found)} in the response and {len(wanted)} in the gold answer"
        return Assessment(rouge_l(response, reference), reason)
