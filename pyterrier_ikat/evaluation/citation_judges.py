"""Judges of citations: how many sentences of a response cite a passage, and how many of its citations exist. They need no model.

They read ``qcitations``, which :class:`~pyterrier_ikat.Respond` writes with ``cite``. Whether the cited passages support the response is
another question; :class:`~pyterrier_ikat.evaluation.Groundedness` asks it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from ..conversations.frame import values
from ..errors import counted
from .responses import Assessment


@dataclass(frozen=True)
class _ReadsCitations:
    """Judges a response by its ``qcitations``. A response whose system was not asked for citations is not judged."""

    needs: ClassVar[tuple[str, ...]] = ("qcitations",)
    basis: ClassVar[str] = ""

    def judge(self, responses: pd.DataFrame) -> list[Assessment]:
        """Score the responses of a frame with ``qcitations``."""
        not_asked = Assessment(None, "the system was not asked for citations", "no basis")
        return [self._assess(entries) if entries else not_asked for entries in values(responses, "qcitations")]

    def _assess(self, entries: Sequence[Mapping[str, Any]]) -> Assessment:
        raise NotImplementedError


class CitedSentences(_ReadsCitations):
    """The share of sentences that cite one of the shown passages, 0 to 1.

    Sentences are split by :func:`~pyterrier_ikat.completions.citations.sentences_in`. A line of a list and a heading are one sentence each.
    A list of sources at the end doesn't count.

    Example:
        >>> said = [{"sentence": "Rooibos.", "docnos": ["d1"], "unknown": []}, {"sentence": "Or mint.", "docnos": [], "unknown": [7]}]
        >>> CitedSentences().judge(pd.DataFrame({"qcitations": [said]}))[0].value
        0.5
    """

    name: ClassVar[str] = "cited sentences"

    def _assess(self, entries: Sequence[Mapping[str, Any]]) -> Assessment:
        sentences = [one for one in entries if one["sentence"]]
        cited = sum(bool(one["docnos"]) for one in sentences)
        return Assessment(cited / len(sentences), f"{cited} of {counted(len(sentences), 'sentence')} with a citation")


class ExistingCitations(_ReadsCitations):
    """The share of citations with the number of a shown passage, 0 to 1.

    A number counts once per sentence. A response without citations is not judged.

    Example:
        >>> said = [{"sentence": "Tea.", "docnos": ["d1"], "unknown": []}, {"sentence": "Mint.", "docnos": ["d2"], "unknown": [7, 8]}]
        >>> ExistingCitations().judge(pd.DataFrame({"qcitations": [said]}))[0].value
        0.5
    """

    name: ClassVar[str] = "existing citations"

    def _assess(self, entries: Sequence[Mapping[str, Any]]) -> Assessment:
        known, unknown = (sum(len(one[kind]) for one in entries) for kind in ("docnos", "unknown"))
        if not known + unknown:
            return Assessment(None, "the response cites nothing", "no basis")
        return Assessment(known / (known + unknown), f"{known} of {counted(known + unknown, 'citation')} of a passage that was shown")
