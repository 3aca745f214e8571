"""How much of a turn's score each passage gives: for nDCG, P and R the score is a sum over relevant passages."""

from collections.abc import Mapping, Sequence
from math import log2

import ir_measures

SUMS = ("nDCG", "P", "R")
"""The measures that are sums over the relevant passages above their cutoff."""


def cutoff_of(measure: ir_measures.Measure) -> int | None:
    """How many passages a measure sees; None for all."""
    found: int | None = measure.params.get("cutoff")
    return found


def level_of(measure: ir_measures.Measure) -> int:
    """The least label that is relevant for a measure."""
    return int(measure.params.get("rel", 1))


def is_sum(measure: ir_measures.Measure) -> bool:
    """Whether :func:`shares` knows the measure: it is one of trec_eval's, without gains of its own or unjudged passages taken out."""
    plain = measure.params.keys() <= {"cutoff", "rel", "dcg"} and measure.params.get("dcg", "log2") == "log2"
    return measure.NAME in SUMS and plain


def shares(measure: ir_measures.Measure, labels: Mapping[str, int], ranks: Mapping[str, int]) -> dict[str, float]:
    """The share of each relevant passage in the score of a turn; they sum to it.

    Source: the definitions of trec_eval's ``ndcg``, ``P`` and ``recall``: a passage of label l at rank r adds l / log2(r + 1), divided by
    the best possible sum; 1 / cutoff; 1 / the number of relevant passages.

    Args:
        measure: one for which :func:`is_sum` holds.
        labels: the turn's judgements.
        ranks: the rank of each relevant passage that was found, from 1; other passages don't count.

    Returns:
        docno -> share, without passages below the cutoff.

    Example:
        >>> from ir_measures import P, nDCG
        >>> shares(P @ 2, {"a": 1, "b": 0, "c": 1}, {"a": 2, "c": 3})
        {'a': 0.5}
        >>> round(shares(nDCG @ 3, {"a": 2, "c": 1}, {"a": 1})["a"], 4)  # 2 / (2 + 1 / log2(3))
        0.7602
    """
    cutoff, level = cutoff_of(measure), level_of(measure)
    relevant = {docno: label for docno, label in labels.items() if label >= level}
    if measure.NAME == "nDCG":
        ideal = _dcg(sorted(relevant.values(), reverse=True)[:cutoff])
        weights = {docno: label / log2(ranks[docno] + 1) / ideal for docno, label in relevant.items() if docno in ranks}
    else:
        whole = int(measure["cutoff"]) if measure.NAME == "P" else len(relevant)
        weights = {docno: 1 / whole for docno in relevant if docno in ranks}
    return {docno: weight for docno, weight in weights.items() if cutoff is None or ranks[docno] <= cutoff}


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 2) for place, gain in enumerate(gains))
