"""Fusions that re-score a turn's candidates.

They score them against every sub-query with several models, or against one text of the turn.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, numbered, with_columns
from ..errors import DataError, UsageError, counted, list_first
from ..operator import frame_for
from ..order import (
    Floats,
    Integers,
    finite_scores,
    highest_of,
    set_ranks,
    sum_in_any_order,
    tied,
)
from ..planning import Plan
from .by_list import interleave
from .fusion import Fusion, list_inputs
from .subqueries import (
    Lists,
    TurnLists,
    check_results,
    mark_first,
    read_lists,
    read_weights,
    restore_turns,
)

PAIRS_AT_ONCE = 500_000
"""The number of (sub-query, passage) rows per call of a scorer. A turn is never split."""


class MeanScore(Fusion):
    """Rank a turn's passages by their weighted mean score for all its sub-queries and scorers.

    The candidates are the union of the sub-queries' results: all passages of the first sub-query,
    then the new ones of the second, and so on. With the sub-queries' weights w, ``score`` is the
    sum over scorers and sub-queries of (w / sum of w) * score / number of scorers. A scorer gets
    the pairs of many turns in one frame, so a bi-encoder encodes each passage only once for all
    sub-queries. To join systems, use ``Union(first, second) >> Ensemble([...])``.

    It reads ``qid``, ``query``, ``docno``, ``rank``, the columns that the scorers need (mostly
    ``text``) and, from ``ExplodeQueries``, ``qid_0``, ``qsub``, ``query_0``; ``qweight`` is the
    sub-query's weight (1 without this column). It gives one row per (turn, passage) with ``qid``
    and ``query`` of the turn, as :class:`Interleave` does; ``qweight`` is dropped. Equal scores
    keep the order of the candidates and then differ by the smallest step of 32-bit floats. A
    sub-query that found no passage is not in the frame and does not count. A frame without
    sub-queries has one list per turn.

    Source: De Lima and Yang, Passage Query Methods (InfoSense at TREC iKAT 2024), section 3.3.1,
    where the scores are cosines.

    Args:
        scorers: re-rankers, mostly bi-encoders. Each must score every row that it gets.
        num_results: passages per turn at most, cut after scoring; ``None`` for all.

    Raises:
        UsageError: when there is no scorer, one isn't a transformer, or ``num_results`` is below 1.
        DataError: when a turn's weights are negative, not finite or all 0, or a scorer doesn't give
            each pair one finite score.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> def shared_words(row):
        ...     return float(len(set(row["query"].split()) & set(row["text"].split())))
        >>> scorer = pt.apply.doc_score(shared_words)
        >>> lists = pd.DataFrame({
        ...     "qid": ["t::0", "t::1"], "qid_0": ["t"] * 2, "qsub": [0, 1], "qweight": [1.0, 0.5],
        ...     "query": ["tea", "mint tea"], "query_0": ["it?"] * 2,
        ...     "docno": ["x", "z"], "rank": [0, 0], "text": ["a tea", "mint tea"]})
        >>> scored = ikat.MeanScore([scorer])(lists)  # z: (1 * 1 + .5 * 2) / 1.5
        >>> scored[["qid", "query", "docno", "score"]].round(3).values.tolist()
        [['t', 'it?', 'z', 1.333], ['t', 'it?', 'x', 1.0]]
    """

    schematic = {"label": "Mean score"}

    def __init__(self, scorers: Sequence[pt.Transformer], num_results: int | None = 1000) -> None:
        super().__init__(num_results=num_results)
        if isinstance(scorers, pt.Transformer) or not scorers:
            raise UsageError(
                f"scorers={scorers!r}: give a list of at least one re-ranker, as "
                "[ikat.BiEncoder(name)]"
            )
        self.scorers = list(scorers)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Score and rank a result frame."""
        check_results(inp, self)
        lists = read_lists(inp)
        candidates, turn = lists.choose(TurnLists.first_occurrences)
        score = self._mean_scores(inp, lists, candidates, turn)
        order = np.lexsort((-score, turn))
        order = order[mark_first(turn[order], self.num_results)]
        restored = restore_turns(inp, candidates[order]).drop(columns="qweight", errors="ignore")
        return set_ranks(restored, turn[order], score[order])

    def _mean_scores(
        self, inp: pd.DataFrame, lists: Lists, candidates: Integers, turn: Integers
    ) -> Floats:
        """Return the weighted mean score of each candidate, a row of the frame, of these turns."""
        starts = lists.starts()
        sub_rows = lists.row[starts]
        sub_turn = lists.turn[starts]
        weight = read_weights(inp, lists)
        weight = weight / np.bincount(sub_turn, weights=weight)[sub_turn]
        count = len(candidates)
        sums = np.zeros((len(self.scorers), count))
        highest = np.zeros(count)  # the sum of absolute shares, which bounds rounding errors
        for candidate, sub in _pair_up(turn, sub_turn):
            pairs = _take_pairs(inp, candidates[candidate], sub_rows[sub])
            for number, scorer in enumerate(self.scorers):
                share = weight[sub] * _score_every_row(scorer, pairs) / len(self.scorers)
                sums[number] += np.bincount(candidate, weights=share, minlength=count)
                highest += np.bincount(candidate, weights=np.abs(share), minlength=count)
        return tied(sum_in_any_order(sums), highest_of(turn, highest), turn)

    def transform_inputs(self) -> list[list[str]]:
        """Return the columns that the fusion and its scorers need, for ``pt.inspect``."""
        return list_inputs(["qid", "query", "docno", "rank"], self.scorers)


class RerankAgainst(Fusion):
    """Pool the passages of a turn's sub-queries, and re-rank them by one text of the turn.

    The text is mostly the LLM's answer.

    The candidates are all passages of the turn, and the cut comes after the scoring, so recall can
    rise. The scorer sees one row per (turn, passage) with the turn's ``qid`` and with ``column`` as
    its ``query``; afterwards ``query`` is the turn's again. A frame without sub-queries has one
    list per turn. For systems, use ``Union(first, second) >> RerankAgainst(...)``.

    It reads ``qid``, ``query``, ``docno``, ``rank``, ``column``, the columns that the scorer needs
    (mostly ``text``) and, from ``ExplodeQueries``, ``qid_0``, ``qsub``, ``query_0``. It gives the
    columns of :class:`Interleave` with the scorer's ``score``. Equal scores keep the order of
    :class:`Union` and then differ by the smallest step of 32-bit floats. Source: AQD_A in
    Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 3.

    Args:
        scorer: any PyTerrier re-ranker.
        column: the query column to rank by, for example ``"qanswer"`` or ``"qrewrite"``;
            ``"query"`` is the turn's own query.
        num_results: passages per turn at most, cut after scoring; ``None`` for all.

    Raises:
        UsageError: when ``num_results`` is below 1.
        DataError: when a turn has no text in ``column``, a score isn't finite, or the scorer
            returns a passage that it wasn't given.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> def shared_words(row):
        ...     return float(len(set(row["query"].split()) & set(row["text"].split())))
        >>> scorer = pt.apply.doc_score(shared_words)
        >>> lists = pd.DataFrame({
        ...     "qid": ["t::0", "t::1", "t::1"], "qid_0": ["t"] * 3, "qsub": [0, 1, 1],
        ...     "query": ["a", "b", "b"], "query_0": ["it?"] * 3,
        ...     "docno": ["x", "x", "z"], "rank": [0, 0, 1],
        ...     "text": ["tea", "tea", "rooibos tea"], "qanswer": ["try rooibos tea"] * 3})
        >>> scored = ikat.RerankAgainst(scorer, "qanswer")(lists)
        >>> scored[["qid", "query", "docno", "score"]].values.tolist()
        [['t', 'it?', 'z', 2.0], ['t', 'it?', 'x', 1.0]]
    """

    schematic = {"label": "Rerank against"}

    def __init__(self, scorer: pt.Transformer, column: str, num_results: int | None = 1000) -> None:
        super().__init__(num_results=num_results)
        self.scorer = scorer
        self.column = column

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Return the turns. The scorer may ask a model about them."""
        turns = super().plan(frame, plan)
        plan.follow(self.scorer, turns)
        return turns

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Pool and re-rank the lists of a result frame."""
        check_results(inp, self, [self.column])
        rows, turn = interleave(read_lists(inp))
        candidates = set_ranks(restore_turns(inp, rows), turn)
        pt.validate.columns(candidates, includes=[self.column], context=self)
        scored, positions, score = _score_rows(self.scorer, self._set_query(candidates))
        order = np.lexsort((positions, -score, turn[positions]))
        order = order[mark_first(turn[positions[order]], self.num_results)]
        positions = positions[order]
        ordered = scored.take(order).reset_index(drop=True)
        restored = with_columns(ordered, query=candidates["query"].take(positions))
        return set_ranks(restored, turn[positions], score[order])

    def transform_inputs(self) -> list[list[str]]:
        """Return the columns that the fusion and its scorer need, for ``pt.inspect``."""
        return list_inputs(["qid", "query", "docno", "rank", self.column], [self.scorer])

    def _set_query(self, candidates: pd.DataFrame) -> pd.DataFrame:
        """Return the candidates with the text to rank by as their ``query``."""
        without = candidates[self.column].isna()
        if without.any():
            turns = candidates.loc[without, "qid"].unique()
            raise DataError(
                f"{counted(len(turns), 'turn has', 'turns have')} no {self.column} to re-rank by "
                f"({list_first(turns)}): fill the column or drop the turns"
            )
        without_stale = candidates.drop(columns=list(STALE_WITH_QUERY), errors="ignore")
        return with_columns(without_stale, query=candidates[self.column])


def _pair_up(turn: Integers, sub_turn: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield all pairs of a candidate and a sub-query of its turn, in groups of whole turns.

    The pairs are two parallel arrays of numbers, which are empty without candidates.

    Args:
        turn: the number of each candidate's turn, in increasing order.
        sub_turn: the same for each sub-query.
    """
    later_turns = np.arange(1, turn.max(initial=0) + 1)
    candidates_by_turn = np.split(np.arange(len(turn)), np.searchsorted(turn, later_turns))
    subs_by_turn = np.split(np.arange(len(sub_turn)), np.searchsorted(sub_turn, later_turns))
    candidate_parts: list[Integers] = []
    sub_parts: list[Integers] = []
    size = 0
    for candidates, subs in zip(candidates_by_turn, subs_by_turn, strict=True):
        pair_count = len(candidates) * len(subs)
        if candidate_parts and size + pair_count > PAIRS_AT_ONCE:
            yield np.concatenate(candidate_parts), np.concatenate(sub_parts)
            candidate_parts = []
            sub_parts = []
            size = 0
        candidate_parts.append(np.tile(candidates, len(subs)))
        sub_parts.append(np.repeat(subs, len(candidates)))
        size += pair_count
    yield np.concatenate(candidate_parts), np.concatenate(sub_parts)


def _take_pairs(frame: pd.DataFrame, passages: Integers, subs: Integers) -> pd.DataFrame:
    """Return the columns of passages with the ``qid`` and ``query`` of sub-queries.

    Both are rows of ``frame``.
    """
    passage_columns = [name for name in frame.columns if not name.startswith("q")]
    pairs = frame[passage_columns].take(passages).reset_index(drop=True)
    return with_columns(
        pairs,
        qid=frame["qid"].to_numpy(dtype=object)[subs],
        query=frame["query"].to_numpy(dtype=object)[subs],
    )


def _score_every_row(scorer: pt.Transformer, rows: pd.DataFrame) -> Floats:
    """Return the score of each of ``rows``, in their order."""
    scored, positions, score = _score_rows(scorer, rows)
    if len(scored) < len(rows):
        raise DataError(
            f"{scorer} returned {counted(len(scored), 'score')} for {counted(len(rows), 'pair')}: "
            "use a re-ranker that scores each row once"
        )
    of_rows = np.empty(len(rows))
    of_rows[positions] = score
    return of_rows


def _score_rows(
    scorer: pt.Transformer, rows: pd.DataFrame
) -> tuple[pd.DataFrame, Integers, Floats]:
    """Return the frame of a scorer, the position in ``rows`` of each of its rows, and its scores.

    Raises:
        DataError: when the scorer returns a row that it was not given or a row twice, or gives a
            score that is not finite.
    """
    scored = scorer.transform(frame_for(scorer, rows))
    pt.validate.result_frame(scored, extra_columns=["score"], context=scorer)
    score = finite_scores(scored, repr(scorer))
    positions = _find_positions(rows, scored)
    if (positions < 0).any():
        row = scored.iloc[int(np.argmax(positions < 0))]
        raise DataError(
            f"{scorer} returned passage {row['docno']} for turn {row['qid']}, which it wasn't "
            "given: use a re-ranker here"
        )
    if np.bincount(positions, minlength=1).max() > 1:
        raise DataError(
            f"{scorer} returned a passage twice for one turn: use a re-ranker that scores each row "
            "once"
        )
    return scored, positions, score


def _find_positions(rows: pd.DataFrame, scored: pd.DataFrame) -> Integers:
    """For each row of ``scored``, return the row in ``rows`` with the same qid and docno, or -1."""
    qids = rows["qid"].to_numpy(dtype=object)
    docnos = rows["docno"].to_numpy(dtype=object)
    scored_qids = scored["qid"].to_numpy(dtype=object)
    scored_docnos = scored["docno"].to_numpy(dtype=object)
    if np.array_equal(qids, scored_qids) and np.array_equal(docnos, scored_docnos):
        return np.arange(len(rows))
    turn = numbered(np.concatenate([qids, scored_qids]))
    passage = pd.factorize(np.concatenate([docnos, scored_docnos]))[0] + 1  # 0: no docno
    # A number for each pair of turn and passage.
    pair = turn * (passage.max(initial=0) + 1) + passage
    positions = pd.Index(pair[: len(rows)]).get_indexer(pair[len(rows) :])
    return np.asarray(positions, dtype=np.int64)
