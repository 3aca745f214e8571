"""Fusions that read the ranks or scores of lists: round robin, union of all candidates, reciprocal rank fusion, weighted sums."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import one_of
from ..errors import DataError, UsageError
from ..order import Floats, Integers, min_max, tied
from .fusion import Fusion, Ranking, rank_by_sums
from .subqueries import Lists, Turn, read_weights, sum_shares

PLACES = 12
"""The number of decimal places to which sums are compared."""


class Interleave(Fusion):
    """Merge ranked lists round robin: in each round, every list adds its best passage that is not in the ranking yet.

    Without branches, it joins the lists of a turn's sub-queries in the order of the sub-queries. A
    frame without sub-queries has one list per turn and keeps its order. It reads ``qid``,
    ``query``, ``docno``, ``rank`` and, from ``ExplodeQueries``, ``qid_0``, ``qsub``, ``query_0``.
    It gives one row per (turn, passage): ``qid`` and ``query`` are the turn's again, ``rank``
    counts from 0, ``score`` counts down to 1. All other columns are kept, from the sub-query that
    supplied the passage. Equal ranks within a list are ordered by docno. Source: Abbasiantaeb and
    Aliannejadi, Generate then Retrieve, section 3.

    With branches, it runs each of them once on the turns and joins their results for each ``qid``,
    in the order of the branches. So a fusion can replace any retriever, also between sub-queries
    and their own fusion. ``docno``, ``text`` and the passage's other columns come from the branch
    that supplied it. Columns of the turn (all that start with ``q``) have one value per turn: that
    of the last branch that returns the turn and has the column. Only ``qstatements`` is merged: the
    first branch's statements in their order, then the new ones of the others; if another branch
    adds any, the scores are 1/position. The earlier queries (``query_0``, ...) are those of the
    input. If a branch finds nothing for a turn, the turn keeps the results of the other branches,
    and a ``NoResultWarning`` names the turn.

    Args:
        branches: pipelines that read ``qid`` and ``query`` and give ``qid``, ``query``, ``docno``,
            ``rank``; if one gives ``text``, all must. A branch that makes sub-queries must join
            them itself. Behind a retriever each branch gets its passages: ``bm25 >>
            RRF(first_reranker, second_reranker)``.
        num_results: passages per turn at most; ``None`` for all.

    Raises:
        UsageError: when a branch isn't a transformer or returns sub-queries, or ``num_results`` is
            below 1.
        DataError: when a branch returns a turn that it wasn't given.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> found = pd.DataFrame({"qid": ["t::0", "t::0", "t::1", "t::1"], "qid_0": ["t"] * 4, "qsub": [0, 0, 1, 1],
        ...                       "query": ["a", "a", "b", "b"], "query_0": ["it?"] * 4,
        ...                       "docno": ["x", "y", "x", "z"], "rank": [0, 1, 0, 1]})
        >>> ikat.Interleave()(found)[["qid", "query", "docno", "score", "rank"]].values.tolist()
        [['t', 'it?', 'x', 3.0, 0], ['t', 'it?', 'z', 2.0, 1], ['t', 'it?', 'y', 1.0, 2]]
    """

    schematic = {"label": "Interleave", "inner_pipelines_mode": "linked"}
    reads_texts = False

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> Ranking:
        """Take the passages of each turn round robin."""
        return *interleave(lists, self.num_results), None


class Union(Interleave):
    """Pool all passages of a turn, each once, as candidates for a re-ranker.

    Without branches, it pools the results of a turn's sub-queries; with branches, the results of
    these systems. The columns and the order are those of :class:`Interleave`, so a cutoff keeps the
    best of every list. The scores only count down. Sources: the MQ4CS-QR runs of IRLab at iKAT 2024
    for sub-queries; for systems the GtR run of Fu, Bedi, Acharya and Kando, NII at TREC iKAT 2024,
    as ``Union(gpt_branch, claude_branch) >> RerankAgainst(minilm, "qanswer")``, where ``qanswer``
    is Claude's.

    Args:
        branches: see :class:`Interleave`.
        num_results: passages per turn at most; ``None`` for all.

    Raises:
        UsageError: see :class:`Interleave`.
        DataError: see :class:`Interleave`.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> def finds(*docnos):
        ...     found = pd.DataFrame({"qid": ["t"] * len(docnos), "docno": docnos, "rank": range(len(docnos))})
        ...     return pt.apply.generic(lambda turns: turns.merge(found))
        >>> turns = pd.DataFrame({"qid": ["t"], "query": ["tea?"]})
        >>> ikat.Union(finds("x", "y"), finds("z", "x"))(turns)[["qid", "docno", "score", "rank"]].values.tolist()
        [['t', 'x', 3.0, 0], ['t', 'z', 2.0, 1], ['t', 'y', 1.0, 2]]
    """

    schematic = {"label": "Union", "inner_pipelines_mode": "linked"}
    reads_texts = False

    def __init__(self, *branches: pt.Transformer, num_results: int | None = None) -> None:
        super().__init__(*branches, num_results=num_results)


class RRF(Fusion):
    """Reciprocal rank fusion: a passage's score is the sum of 1 / (k + position) over the lists that contain it, with positions from 1.

    Without branches, it joins the lists of a turn's sub-queries; with branches, it runs them and
    joins their results for each ``qid``. It reads and writes the columns of :class:`Interleave`.
    The columns of a passage come from the list in which it ranks best. Equal sums are ordered by
    best rank, then by the number of the list with that rank, then by docno. Their scores differ by
    the smallest step of 32-bit floats, so that every evaluator sees strictly decreasing scores.
    Source: Cormack, Clarke and Büttcher, Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods, SIGIR 2009.

    Args:
        branches: see :class:`Interleave`.
        k: reduces the weight of the top positions; 60 in the paper.
        num_results: passages per turn at most; ``None`` for all.

    Raises:
        UsageError: when ``k`` is negative, or as for :class:`Interleave`.
        DataError: see :class:`Interleave`.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> found = pd.DataFrame({"qid": ["t::0", "t::0", "t::1"], "qid_0": ["t"] * 3, "qsub": [0, 0, 1], "query": ["a", "a", "b"],
        ...                       "query_0": ["it?"] * 3, "docno": ["x", "y", "y"], "rank": [0, 1, 0]})
        >>> fused = ikat.RRF()(found)
        >>> fused["docno"].tolist(), fused["score"].round(5).tolist()  # 1/61 + 1/62 and 1/61
        (['y', 'x'], [0.03252, 0.01639])
        >>> bm25, dense = (pt.apply.generic(lambda turns, docnos=docnos: turns.merge(pd.DataFrame(docnos), how="cross"))
        ...                for docnos in ({"docno": ["x", "y"], "rank": [0, 1]}, {"docno": ["y", "z"], "rank": [0, 1]}))
        >>> ikat.RRF(bm25, dense)(pd.DataFrame({"qid": ["t"], "query": ["it?"]}))["docno"].tolist()
        ['y', 'x', 'z']
    """

    schematic = {"label": "RRF", "inner_pipelines_mode": "linked"}
    reads_texts = False

    def __init__(
        self, *branches: pt.Transformer, k: float = 60, num_results: int | None = 1000
    ) -> None:
        super().__init__(*branches, num_results=num_results)
        if not k >= 0:  # also a NaN
            raise UsageError(
                f"k={k!r}: the constant of reciprocal rank fusion is 0 or more, usually 60"
            )
        self.k = k

    def fuse_rank_cutoff(self, k: int) -> "RRF":
        """This fusion with ``k`` passages per turn at most; each branch retrieves as before."""
        return RRF(
            *self.branches,
            k=self.k,
            num_results=k if self.num_results is None else min(k, self.num_results),
        )

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> Ranking:
        """Sum the reciprocal ranks of each turn's passages."""
        return rank_by_sums(
            lists, lambda turn: sum_reciprocal_ranks(turn, self.k), self.num_results
        )


def interleave(lists: Lists, num_results: int | None = None) -> tuple[Integers, Integers]:
    """Round robin over each turn's lists, without repeated passages. An exhausted list is skipped.

    Args:
        lists: the ranked lists.
        num_results: how many passages of a turn are taken at most; ``None`` for all.

    Returns:
        The rows of the frame in the new order, turn after turn, and the number of each row's turn.
    """
    return lists.choose(lambda turn: _take_turns(turn, num_results))


def _take_turns(turn: Turn, num_results: int | None) -> Integers:
    docnos, size = turn.docno.tolist(), len(turn.docno) if num_results is None else num_results
    taken: dict[Any, int] = {}
    for _ in zip_longest(*(_offer_passages(docnos, part, taken) for part in turn.lists)):
        if len(taken) >= size:
            break
    return np.fromiter(taken.values(), dtype=np.int64, count=len(taken))[:size]


def _offer_passages(docnos: list[Any], part: slice, taken: dict[Any, int]) -> Iterator[None]:
    """Each time it is a list's turn, take its best passage that is not taken yet."""
    for place, docno in enumerate(docnos[part], part.start):
        if docno not in taken:
            taken[docno] = place
            yield


def sum_reciprocal_ranks(turn: Turn, k: float) -> tuple[Integers, Floats]:
    """The sum of 1 / (k + position) over the lists that contain a passage, with positions from 1.

    Returns:
        For each passage its best place in ``turn`` (smallest rank, then earliest list), in that
        order, and its sum, rounded to 12 decimal places.
    """
    best, total = sum_shares(turn, np.asarray(1.0 / (k + 1 + turn.rank()), dtype=np.float64))
    return best, total.round(PLACES)


class WeightedSum(Fusion):
    """Weighted sum of scores: a passage's score is the sum of weight * normalised score over the lists.

    Without branches, it joins the lists of a turn's sub-queries, weighted by ``qweight`` (1 without
    this column). With branches, it runs them and joins their results for each ``qid``, each with
    its weight from ``weights``. It reads the columns of :class:`Interleave` and ``score``, and
    writes those of :class:`Interleave`; the columns of a passage come from the list of its best
    rank.

    ``normalise="min-max"`` scales the scores of each list of a turn to the range from 0 (its
    lowest) to 1 (its highest). If all scores of a list are equal, as in a list of one passage, each
    counts 0.5. A passage missing from a list counts 0 for that list. ``"none"`` uses the scores
    unchanged, for lists of the same retriever. A passage missing from a list counts the list's
    lowest score. Both depend on the depth of the list, because a deeper list has another lowest
    score. So cut all branches to the same depth. Weights are not divided by their sum.

    Sums that differ by no more than 1e-12 of the highest possible sum are equal. Equal sums are
    ordered by best rank, then by the number of the list with that rank, then by docno. Their scores
    differ by the smallest step of 32-bit floats.

    Source: Hui, Mo, Mao and Nie, RALI@TREC iKAT 2024 (arXiv 2412.07998), where the BM25 scores of
    three rewrites are summed. Their public code gives a missing passage the list's lowest score,
    and uses min-max normalisation or none. Weights that differ by turn are those of Mo et al.,
    Adaptive Personalized Conversational Information Retrieval (arXiv 2508.08634).

    Args:
        branches: see :class:`Interleave`. Each must also give ``score``.
        weights: one number per branch, 0 or more. ``None``: 1 for each branch. With ``by``: such
            numbers for each value of that column.
        by: a column of the turn, such as ``"qlevel"``, whose value decides the weights. Every
            branch must keep it.
        normalise: ``"min-max"`` or ``"none"``.
        num_results: passages per turn at most; ``None`` for all.

    Raises:
        UsageError: when ``weights`` are not one number of 0 or more per branch, or all are 0; when
            ``by`` is given without such weights for each of its values; or as for
            :class:`Interleave`.
        DataError: when a score is not finite; when a turn's weights in ``qweight`` are negative or
            all 0; when a turn's value of the column ``by`` has no weights; or as for
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
        weights: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
        normalise: str = "min-max",
        num_results: int | None = 1000,
        by: str | None = None,
    ) -> None:
        super().__init__(*branches, num_results=num_results)
        one_of(("min-max", "none"), normalise=normalise)
        if isinstance(weights, Mapping) is not (by is not None):
            raise UsageError(
                f"weights={weights!r}, by={by!r}: give both weights={{value: numbers}} and by=COLUMN, or numbers alone"
            )
        self.weights: Any = weights
        if isinstance(weights, Mapping):
            self.weights = {
                value: _checked_weights(numbers, len(branches))
                for value, numbers in weights.items()
            }
        elif weights is not None:
            self.weights = _checked_weights(weights, len(branches))
        self.normalise, self.by = normalise, by

    def fuse_rank_cutoff(self, k: int) -> "WeightedSum":
        """This fusion with ``k`` passages per turn at most; each branch retrieves as before."""
        size = k if self.num_results is None else min(k, self.num_results)
        return WeightedSum(
            *self.branches,
            weights=self.weights,
            normalise=self.normalise,
            num_results=size,
            by=self.by,
        )

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> Ranking:
        """Sum the weighted scores of each turn's passages."""
        score = np.concatenate([frame["score"].to_numpy(dtype=np.float64) for frame in frames])
        if not np.isfinite(score).all():
            row = pd.concat([frame[["qid", "docno", "score"]] for frame in frames]).iloc[
                int(np.flatnonzero(~np.isfinite(score))[0])
            ]
            raise DataError(
                f"{self} got the score {row['score']} for passage {row['docno']} of {row['qid']}: give finite scores"
            )
        starts = lists.starts()
        weight = (
            self._of_branches(lists, frames) if self.branches else read_weights(frames[0], lists)
        )
        weights = iter(np.split(weight, np.flatnonzero(np.diff(lists.turn[starts])) + 1))
        return rank_by_sums(
            lists, lambda turn: self._sum(turn, score[turn.row], next(weights)), self.num_results
        )

    def _of_branches(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> Floats:
        """The weight of each list, in the order of the lists."""
        starts = lists.starts()
        branch = lists.sub[starts]
        if self.by is None:
            of_branches = (
                np.ones(len(self.branches))
                if self.weights is None
                else np.array(self.weights, dtype=np.float64)
            )
            return np.asarray(of_branches[branch], dtype=np.float64)
        found = [frame for frame in frames if len(frame)]
        values = np.concatenate(
            [np.empty(0, dtype=object), *(frame[self.by].to_numpy(dtype=object) for frame in found)]
        )[lists.row[starts]]
        if unknown := [value for value in values if value not in self.weights]:
            raise DataError(
                f"a turn has {self.by} {unknown[0]!r}, for which there are no weights: there are {', '.join(self.weights)}"
            )
        return np.array(
            [self.weights[value][number] for value, number in zip(values, branch, strict=True)],
            dtype=np.float64,
        )

    def _sum(self, turn: Turn, score: Floats, weight: Floats) -> tuple[Integers, Floats]:
        number, starts = turn.number(), [part.start for part in turn.lists]
        if self.normalise == "min-max":
            most, missing, share = (
                np.ones(len(starts)),
                np.zeros(len(starts)),
                min_max(score, number),
            )
        else:
            missing = np.minimum.reduceat(score, starts)
            most, share = (
                np.maximum(np.maximum.reduceat(score, starts), -missing),
                score - missing[number],
            )
        best, total = sum_shares(turn, weight[number] * share)
        return best, tied(total + (weight * missing).sum(), float((weight * most).sum()))


def _checked_weights(weights: Sequence[float], branches: int) -> tuple[float, ...]:
    if (
        len(weights) != branches
        or not all(0 <= one < np.inf for one in weights)
        or not any(weights)
    ):
        raise UsageError(
            f"weights={weights!r}: give one number for each of the {branches} branches, 0 or more, and one above 0; "
            "sub-queries have theirs in the column qweight"
        )
    return tuple(weights)
