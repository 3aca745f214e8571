"""Fusions that read the ranks or scores of lists.

They are round robin, the union of all candidates, reciprocal rank fusion, and weighted sums.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import one_of
from ..errors import DataError, UsageError
from ..order import Floats, Integers, finite_scores, min_max, tied
from .fusion import FusedRows, Fusion, rank_by_sums
from .subqueries import Lists, TurnLists, read_weights, sum_shares

SUM_DECIMALS = 12
"""The number of decimals to which sums of reciprocal ranks are compared."""


class Interleave(Fusion):
    """Merge ranked lists round robin.

    In each round, every list adds its best passage that is not in the ranking yet.

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
        >>> lists = pd.DataFrame({
        ...     "qid": ["t::0", "t::0", "t::1", "t::1"], "qid_0": ["t"] * 4, "qsub": [0, 0, 1, 1],
        ...     "query": ["a", "a", "b", "b"], "query_0": ["it?"] * 4,
        ...     "docno": ["x", "y", "x", "z"], "rank": [0, 1, 0, 1]})
        >>> ikat.Interleave()(lists)[["qid", "query", "docno", "score", "rank"]].values.tolist()
        [['t', 'it?', 'x', 3.0, 0], ['t', 'it?', 'z', 2.0, 1], ['t', 'it?', 'y', 1.0, 2]]
    """

    schematic = {"label": "Interleave", "inner_pipelines_mode": "linked"}
    reads_texts = False

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> FusedRows:
        """Take the passages of each turn round robin."""
        rows, turn = interleave(lists, self.num_results)
        return rows, turn, None


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
        ...     passages = pd.DataFrame({"docno": docnos, "rank": range(len(docnos))})
        ...     return pt.apply.generic(lambda turns: turns.merge(passages, how="cross"))
        >>> turns = pd.DataFrame({"qid": ["t"], "query": ["tea?"]})
        >>> pool = ikat.Union(finds("x", "y"), finds("z", "x"))(turns)
        >>> pool[["qid", "docno", "score", "rank"]].values.tolist()
        [['t', 'x', 3.0, 0], ['t', 'z', 2.0, 1], ['t', 'y', 1.0, 2]]
    """

    schematic = {"label": "Union", "inner_pipelines_mode": "linked"}
    reads_texts = False

    def __init__(self, *branches: pt.Transformer, num_results: int | None = None) -> None:
        super().__init__(*branches, num_results=num_results)


class RRF(Fusion):
    """Reciprocal rank fusion.

    A passage's score is the sum of 1 / (k + position) over the lists that contain it. Positions
    begin at 1.

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
        >>> lists = pd.DataFrame({
        ...     "qid": ["t::0", "t::0", "t::1"], "qid_0": ["t"] * 3, "qsub": [0, 0, 1],
        ...     "query": ["a", "a", "b"], "query_0": ["it?"] * 3,
        ...     "docno": ["x", "y", "y"], "rank": [0, 1, 0]})
        >>> fused = ikat.RRF()(lists)
        >>> fused["docno"].tolist(), fused["score"].round(5).tolist()  # 1/61 + 1/62 and 1/61
        (['y', 'x'], [0.03252, 0.01639])
        >>> def finds(*docnos):
        ...     passages = pd.DataFrame({"docno": docnos, "rank": range(len(docnos))})
        ...     return pt.apply.generic(lambda turns: turns.merge(passages, how="cross"))
        >>> hybrid = ikat.RRF(finds("x", "y"), finds("y", "z"))
        >>> hybrid(pd.DataFrame({"qid": ["t"], "query": ["it?"]}))["docno"].tolist()
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
        """Return this fusion with at most ``k`` passages per turn; branches retrieve as before."""
        num_results = k if self.num_results is None else min(k, self.num_results)
        return RRF(*self.branches, k=self.k, num_results=num_results)

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> FusedRows:
        """Sum the reciprocal ranks of each turn's passages."""
        sums = []
        for turn in lists.turns():
            positions, totals = sum_reciprocal_ranks(turn, self.k)
            sums.append((turn.row[positions], totals))
        return rank_by_sums(sums, self.num_results)


def interleave(lists: Lists, num_results: int | None = None) -> tuple[Integers, Integers]:
    """Take the passages of each turn's lists round robin, each once. Exhausted lists are skipped.

    Args:
        lists: the ranked lists.
        num_results: the maximum number of passages per turn; ``None`` for all.

    Returns:
        The rows of the frame in the new order, turn after turn, and the number of each row's turn.
    """
    return lists.choose(lambda turn: _take_round_robin(turn, num_results))


def _take_round_robin(turn: TurnLists, num_results: int | None) -> Integers:
    """Return the positions of the passages that the lists add in turn."""
    docnos = turn.docno.tolist()
    size = len(docnos) if num_results is None else num_results
    positions_of_taken: dict[Any, int] = {}
    offers = [_new_passages(docnos, part, positions_of_taken) for part in turn.lists]
    while offers and len(positions_of_taken) < size:
        for offer in list(offers):
            position = next(offer, None)
            if position is None:
                offers.remove(offer)
            else:
                positions_of_taken[docnos[position]] = position
    positions = list(positions_of_taken.values())
    return np.array(positions[:size], dtype=np.int64)


def _new_passages(docnos: list[Any], part: slice, taken: dict[Any, int]) -> Iterator[int]:
    """Yield the positions of a list's passages, without those taken by then."""
    for position in range(part.start, part.stop):
        if docnos[position] not in taken:
            yield position


def sum_reciprocal_ranks(turn: TurnLists, k: float) -> tuple[Integers, Floats]:
    """Sum 1 / (k + position) over the lists that contain a passage, with positions from 1.

    Returns:
        For each passage its best position in ``turn`` (smallest rank, then earliest list), in that
        order, and its sum, rounded to 12 decimals.
    """
    share = np.asarray(1.0 / (k + 1 + turn.rank()), dtype=np.float64)
    best, total = sum_shares(turn, share)
    return best, total.round(SUM_DECIMALS)


class WeightedSum(Fusion):
    """Weighted sum of scores.

    A passage's score is the sum of weight * normalised score over the lists.

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
        ...     passages = pd.DataFrame({"docno": scores.keys(), "score": scores.values()})
        ...     passages["rank"] = range(len(scores))
        ...     return pt.apply.generic(lambda turns: turns.merge(passages, how="cross"))
        >>> bm25, dense = finds(x=12.0, y=9.0, z=8.0), finds(y=0.75, w=0.5, x=0.25)
        >>> hybrid = ikat.WeightedSum(bm25, dense, weights=(1, 2))
        >>> fused = hybrid(pd.DataFrame({"qid": ["t"], "query": ["it?"]}))
        >>> fused[["docno", "score"]].values.tolist()  # y: 1 * .25 + 2 * 1
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
        by_value = isinstance(weights, Mapping)
        if by_value != (by is not None):
            raise UsageError(
                f"weights={weights!r}, by={by!r}: give both weights={{value: numbers}} and "
                "by=COLUMN, or numbers alone"
            )
        self.weights: Any = weights
        if isinstance(weights, Mapping):
            self.weights = {}
            for value, numbers in weights.items():
                self.weights[value] = _checked_weights(numbers, len(branches))
        elif weights is not None:
            self.weights = _checked_weights(weights, len(branches))
        self.normalise = normalise
        self.by = by

    def fuse_rank_cutoff(self, k: int) -> "WeightedSum":
        """Return this fusion with at most ``k`` passages per turn; branches retrieve as before."""
        size = k if self.num_results is None else min(k, self.num_results)
        return WeightedSum(
            *self.branches,
            weights=self.weights,
            normalise=self.normalise,
            num_results=size,
            by=self.by,
        )

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> FusedRows:
        """Sum the weighted scores of each turn's passages."""
        who = f"what {self} joins"
        score = np.concatenate([finite_scores(frame, who) for frame in frames])
        if self.branches:
            weight = self._weights_of_branches(lists, frames)
        else:
            weight = read_weights(frames[0], lists)
        sums = []
        first = 0
        for turn in lists.turns():
            last = first + len(turn.lists)
            positions, totals = self._sum(turn, score[turn.row], weight[first:last])
            sums.append((turn.row[positions], totals))
            first = last
        return rank_by_sums(sums, self.num_results)

    def _weights_of_branches(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> Floats:
        """Return the weight of each list, in the order of the lists."""
        starts = lists.starts()
        branch = lists.sub[starts]
        if self.weights is None:
            return np.ones(len(branch))
        if self.by is None:
            return np.array(self.weights, dtype=np.float64)[branch]
        columns = [np.empty(0, dtype=object)]
        for frame in frames:
            if len(frame) and self.by not in frame.columns:
                raise DataError(
                    f"the turns have no column {self.by}, which decides the weights, or a branch "
                    "drops it: add it before, or keep it there"
                )
            if len(frame):
                columns.append(frame[self.by].to_numpy(dtype=object))
        values = np.concatenate(columns)[lists.row[starts]]
        weights = []
        for value, number in zip(values, branch, strict=True):
            if value not in self.weights:
                raise DataError(
                    f"a turn has {self.by} {value!r}, for which there are no weights: "
                    f"there are {', '.join(map(str, self.weights))}"
                )
            weights.append(self.weights[value][number])
        return np.array(weights, dtype=np.float64)

    def _sum(self, turn: TurnLists, score: Floats, weight: Floats) -> tuple[Integers, Floats]:
        """Return each passage's best position and weighted sum.

        ``score`` has a value for each row of the turn, ``weight`` one for each list.
        """
        number = turn.number()
        starts = [part.start for part in turn.lists]
        # Of each list: the value of a missing passage, and the highest share above it.
        if self.normalise == "min-max":
            share = min_max(score, number)
            missing = np.zeros(len(starts))
            highest = np.ones(len(starts))
        else:
            lowest = np.minimum.reduceat(score, starts)
            share = score - lowest[number]
            missing = lowest
            highest = np.maximum(np.maximum.reduceat(score, starts), -lowest)
        best, total = sum_shares(turn, weight[number] * share)
        return best, tied(total + (weight * missing).sum(), float((weight * highest).sum()))


def _checked_weights(weights: Sequence[float], branches: int) -> tuple[float, ...]:
    usable = len(weights) == branches and any(weights)
    if not usable or not all(0 <= weight < np.inf for weight in weights):
        raise UsageError(
            f"weights={weights!r}: give one number for each of the {branches} branches, 0 or more, "
            "and one above 0; sub-queries have theirs in the column qweight"
        )
    return tuple(weights)
