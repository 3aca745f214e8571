"""Score fusion: the normalised and weighted scores of the lists are summed."""

from collections.abc import Sequence
from numbers import Real

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import one_of
from ..errors import DataError, UsageError
from ..order import Floats, Integers, min_max, tied
from .fusion import Fusion, Ranking, rank_by_sums
from .subqueries import Lists, Turn, read_weights, sum_shares

LARGEST = float(np.finfo(np.float32).max)
"""The largest score that an evaluator can read; sums of larger scores could overflow."""


class WeightedSum(Fusion):
    """Weighted sum of scores: a passage's score is the sum of weight * normalised score over the lists.

    Without branches it joins the lists of a turn's sub-queries, each with the weight in ``qweight``, 1 where there is no such
    column. With branches, it runs them and joins their results for each ``qid``, each with its weight from ``weights``. It reads the
    columns of :class:`Interleave` and ``score``, and writes those of :class:`Interleave`; the columns of a passage come from the
    list of its best rank.

    ``normalise="min-max"`` scales the scores of each list of a turn to 0 (its least) to 1 (its greatest). If all scores of a list are
    equal, as in a list of one passage, each counts 0.5. A passage missing from a list counts 0 for that list. ``"none"`` uses the scores
    unchanged, for lists of the same retriever; a passage missing from a list counts the list's least score. Both depend on the depth of the
    list: a deeper list has another least score, so cut all branches to the same depth. Weights aren't divided by their sum.

    Sums that differ by no more than 1e-12 of the highest possible sum are equal. Equal sums are ordered by best rank, then by the number of
    the list with that rank, then by docno; their scores differ by the least step of 32-bit floats.

    Source: Hui, Mo, Mao and Nie, RALI@TREC iKAT 2024 (arXiv 2412.07998), where three rewrites' BM25 scores are summed; their public code
    gives a missing passage the list's least score, and normalises by min-max or not at all.

    Args:
        branches: see :class:`Interleave`; each gives ``score``, too.
        weights: one number per branch, 0 or more; ``None`` for 1 each.
        normalise: ``"min-max"`` or ``"none"``.
        num_results: passages per turn at most; ``None`` for all.

    Raises:
        UsageError: when ``weights`` aren't one number of 0 or more per branch, or all are 0, or as for :class:`Interleave`.
        DataError: when a score isn't a finite 32-bit float, a turn's weights in ``qweight`` are negative or all 0, or as for
            :class:`Interleave`.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> def finds(**scores):
        ...     found = pd.DataFrame({"docno": scores.keys(), "score": scores.values(), "rank": range(len(scores))})
        ...     return pt.apply.generic(lambda turns: turns.merge(found, how="cross"))
        >>> bm25, dense = finds(x=12.0, y=9.0, z=8.0), finds(y=0.75, w=0.5, x=0.25)
        >>> hybrid = ikat.WeightedSum(bm25, dense, weights=(1, 2))
        >>> hybrid(pd.DataFrame({"qid": ["t"], "query": ["it?"]}))[["docno", "score"]].values.tolist()  # y: 1 * .25 + 2 * 1
        [['y', 2.25], ['x', 1.0], ['w', 0.9999999403953552], ['z', 0.0]]
    """

    schematic = {"label": "Weighted sum", "inner_pipelines_mode": "linked"}
    reads_texts = False
    reads = ("score",)

    def __init__(
        self,
        *branches: pt.Transformer,
        weights: Sequence[float] | None = None,
        normalise: str = "min-max",
        num_results: int | None = 1000,
    ) -> None:
        super().__init__(*branches, num_results=num_results)
        one_of(("min-max", "none"), normalise=normalise)
        self.weights = None if weights is None else _checked_weights(weights, len(branches))
        self.normalise = normalise

    def fuse_rank_cutoff(self, k: int) -> "WeightedSum":
        """This fusion with ``k`` passages per turn at most; each branch retrieves as before."""
        size = k if self.num_results is None else min(k, self.num_results)
        return WeightedSum(*self.branches, weights=self.weights, normalise=self.normalise, num_results=size)

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> Ranking:
        """Sum the weighted scores of each turn's passages."""
        score = np.concatenate([frame["score"].to_numpy(dtype=np.float64) for frame in frames])
        self._refuse_scores(score, frames)
        starts = lists.starts()
        of_branches = np.ones(len(self.branches)) if self.weights is None else np.array(self.weights, dtype=np.float64)
        weight = of_branches[lists.sub[starts]] if self.branches else read_weights(frames[0], lists)
        weights = iter(np.split(weight, np.flatnonzero(np.diff(lists.turn[starts])) + 1))
        return rank_by_sums(lists, lambda turn: self._sum(turn, score[turn.row], next(weights)), self.num_results)

    def _sum(self, turn: Turn, score: Floats, weight: Floats) -> tuple[Integers, Floats]:
        number, starts = turn.number(), [part.start for part in turn.lists]
        if self.normalise == "min-max":
            most, missing, share = np.ones(len(starts)), np.zeros(len(starts)), min_max(score, number)
        else:
            missing = np.minimum.reduceat(score, starts)
            most, share = np.maximum(np.maximum.reduceat(score, starts), -missing), score - missing[number]
        best, total = sum_shares(turn, weight[number] * share)
        return best, tied(total + (weight * missing).sum(), float((weight * most).sum()))

    def _refuse_scores(self, score: Floats, frames: Sequence[pd.DataFrame]) -> None:
        wrong = ~(np.abs(score) <= LARGEST)
        if not wrong.any():
            return
        place = int(np.flatnonzero(wrong)[0])
        number = int(np.searchsorted(np.cumsum([len(frame) for frame in frames]), place, side="right"))
        row = frames[number].iloc[place - sum(len(frame) for frame in frames[:number])]
        source = f"branch {number + 1} of WeightedSum" if self.branches else "the retriever in front of WeightedSum"
        raise DataError(f"{source} gave the score {row['score']} to passage {row['docno']} of {row['qid']}: give finite 32-bit scores")


def _checked_weights(weights: Sequence[float], branches: int) -> tuple[float, ...]:
    if not branches:
        raise UsageError(
            f"weights={weights!r} are those of branches, and there are none: sub-queries bring theirs in the column qweight "
            "(qweights before ikat.ExplodeQueries)"
        )
    numbers = isinstance(weights, list | tuple) and all(isinstance(one, Real) and not isinstance(one, bool) for one in weights)
    if not numbers or len(weights) != branches or not all(0 <= one <= LARGEST for one in weights) or not any(weights):
        raise UsageError(f"weights={weights!r}: give one number for each of the {branches} branches, 0 or more, and one above 0")
    return tuple(weights)
