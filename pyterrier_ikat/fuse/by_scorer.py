"""Fusions that re-score a turn's candidates: against every sub-query with several models, or against one text of the turn."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, numbered, with_columns
from ..errors import DataError, UsageError, counted, list_first
from ..operator import frame_for
from ..order import Floats, Integers, highest_of, set_ranks, sum_in_any_order, tied
from ..planning import Plan
from .by_list import interleave
from .fusion import Fusion, list_inputs
from .subqueries import Turn, check_results, mark_first, read_lists, read_weights, restore_turns

PAIRS_AT_ONCE = 500_000
"""The number of (sub-query, passage) rows per call of a scorer. A turn is never split."""


class MeanScore(Fusion):
    """Score every passage of a turn against every sub-query of the turn with every scorer, and rank by the weighted mean.

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
        >>> def shared_words(rows):
        ...     return [float(len(set(query.split()) & set(text.split()))) for query, text in zip(rows["query"], rows["text"])]
        >>> scorer = pt.apply.generic(lambda rows: rows.assign(score=shared_words(rows)))
        >>> found = pd.DataFrame({"qid": ["t::0", "t::1"], "qid_0": ["t"] * 2, "qsub": [0, 1], "query": ["tea", "mint tea"],
        ...     "query_0": ["it?"] * 2, "qweight": [1.0, 0.5], "docno": ["x", "z"], "rank": [0, 0], "text": ["a tea", "mint tea"]})
        >>> ikat.MeanScore([scorer])(found)[["qid", "query", "docno", "score"]].round(3).values.tolist()  # z: (1 * 1 + .5 * 2) / 1.5
        [['t', 'it?', 'z', 1.333], ['t', 'it?', 'x', 1.0]]
    """

    schematic = {"label": "Mean score"}

    def __init__(self, scorers: Sequence[pt.Transformer], num_results: int | None = 1000) -> None:
        super().__init__(num_results=num_results)
        if isinstance(scorers, pt.Transformer) or not scorers:
            raise UsageError(
                f"scorers={scorers!r}: give a list of at least one re-ranker, as [ikat.BiEncoder(name)]"
            )
        self.scorers = list(scorers)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Score and rank a result frame."""
        check_results(inp, self)
        lists = read_lists(inp)
        candidates, turn = lists.choose(Turn.first_occurrences)
        starts, weight = lists.starts(), read_weights(inp, lists)
        parts, most = np.zeros((len(self.scorers), len(candidates))), np.zeros(len(candidates))
        subs, sub_turn = lists.row[starts], lists.turn[starts]
        weight /= np.bincount(sub_turn, weights=weight)[sub_turn]
        for candidate, sub in _pair_up(turn, sub_turn):
            rows = _take_pairs(inp, candidates[candidate], subs[sub])
            for of_scorer, scorer in zip(parts, self.scorers, strict=True):
                gained = weight[sub] * _score_every_row(scorer, rows) / len(self.scorers)
                of_scorer += np.bincount(candidate, weights=gained, minlength=len(candidates))
                most += np.bincount(candidate, weights=np.abs(gained), minlength=len(candidates))
        score = tied(sum_in_any_order(parts), highest_of(turn, most), turn)
        order = np.lexsort((-score, turn))
        order = order[mark_first(turn[order], self.num_results)]
        restored = restore_turns(inp, candidates[order]).drop(columns="qweight", errors="ignore")
        return set_ranks(restored, turn[order], score[order])

    def transform_inputs(self) -> list[list[str]]:
        """The columns needed here and by the scorers, for ``pt.inspect``."""
        return list_inputs(["qid", "query", "docno", "rank"], self.scorers)


class RerankAgainst(Fusion):
    """Pool the passages of a turn's sub-queries, and re-rank them by one text of the turn, such as the LLM's answer.

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
        >>> def shared_words(rows):
        ...     return [float(len(set(query.split()) & set(text.split()))) for query, text in zip(rows["query"], rows["text"])]
        >>> scorer = pt.apply.generic(lambda rows: rows.assign(score=shared_words(rows)))
        >>> found = pd.DataFrame({"qid": ["t::0", "t::1", "t::1"], "qid_0": ["t"] * 3, "qsub": [0, 1, 1], "query": ["a", "b", "b"],
        ...     "query_0": ["it?"] * 3, "docno": ["x", "x", "z"], "rank": [0, 0, 1],
        ...     "text": ["tea", "tea", "rooibos tea"], "qanswer": ["try rooibos tea"] * 3})
        >>> ikat.RerankAgainst(scorer, "qanswer")(found)[["qid", "query", "docno", "score"]].values.tolist()
        [['t', 'it?', 'z', 2.0], ['t', 'it?', 'x', 1.0]]
    """

    schematic = {"label": "Rerank against"}

    def __init__(self, scorer: pt.Transformer, column: str, num_results: int | None = 1000) -> None:
        super().__init__(num_results=num_results)
        self.scorer = scorer
        self.column = column

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The turns again. The scorer may ask a model about them."""
        turns = super().plan(frame, plan)
        plan.follow(self.scorer, turns)
        return turns

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Pool and re-rank the lists of a result frame."""
        check_results(inp, self, [self.column])
        rows, turn = interleave(read_lists(inp))
        candidates = set_ranks(restore_turns(inp, rows), turn)
        pt.validate.columns(candidates, includes=[self.column], context=self)
        scored, places, score = _score_rows(self.scorer, self._set_query(candidates))
        order = np.lexsort((places, -score, turn[places]))
        order = order[mark_first(turn[places[order]], self.num_results)]
        restored = with_columns(
            scored.take(order).reset_index(drop=True), query=candidates["query"].take(places[order])
        )
        return set_ranks(restored, turn[places[order]], score[order])

    def transform_inputs(self) -> list[list[str]]:
        """The columns needed here and by the scorer, for ``pt.inspect``."""
        return list_inputs(["qid", "query", "docno", "rank", self.column], [self.scorer])

    def _set_query(self, candidates: pd.DataFrame) -> pd.DataFrame:
        without = candidates[self.column].isna()
        if without.any():
            turns = candidates.loc[without, "qid"].unique()
            shown = list_first(turns)
            raise DataError(
                f"{counted(len(turns), 'turn has', 'turns have')} no {self.column} to re-rank by ({shown}): "
                f"fill the column or drop the turns"
            )
        return with_columns(
            candidates.drop(columns=list(STALE_WITH_QUERY), errors="ignore"),
            query=candidates[self.column],
        )


def _pair_up(turn: Integers, sub_turn: Integers) -> Iterator[tuple[Integers, Integers]]:
    """All pairs of a candidate and a sub-query of its turn, as numbers, in groups of whole turns; empty arrays without candidates.

    Args:
        turn: the number of each candidate's turn, in increasing order.
        sub_turn: the same for each sub-query.
    """
    turns = np.arange(1, turn.max(initial=-1) + 1)
    candidates, subs = (
        np.split(np.arange(len(of_turn)), np.searchsorted(of_turn, turns))
        for of_turn in (turn, sub_turn)
    )
    waiting: list[tuple[Integers, Integers]] = []
    size = 0
    for of_turn, asked in zip(candidates, subs, strict=True):
        if waiting and size + len(of_turn) * len(asked) > PAIRS_AT_ONCE:
            yield (
                np.concatenate([pairs[0] for pairs in waiting]),
                np.concatenate([pairs[1] for pairs in waiting]),
            )
            waiting, size = [], 0
        waiting.append((np.tile(of_turn, len(asked)), np.repeat(asked, len(of_turn))))
        size += len(of_turn) * len(asked)
    yield (
        np.concatenate([pairs[0] for pairs in waiting]),
        np.concatenate([pairs[1] for pairs in waiting]),
    )


def _take_pairs(frame: pd.DataFrame, passages: Integers, subs: Integers) -> pd.DataFrame:
    """The input of a scorer: the columns of passages with the ``qid`` and ``query`` of sub-queries. Both are rows of ``frame``."""
    of_passage = [name for name in frame.columns if not name.startswith("q")]
    rows = frame[of_passage].take(passages).reset_index(drop=True)
    return rows.assign(
        **{
            name: pd.Series(frame[name].to_numpy(dtype=object)[subs], dtype=object)
            for name in ("qid", "query")
        }
    )


def _score_every_row(scorer: pt.Transformer, rows: pd.DataFrame) -> Floats:
    """The score of each of ``rows``, in their order."""
    scored, places, score = _score_rows(scorer, rows)
    if len(scored) < len(rows):
        raise DataError(
            f"{scorer} returned {counted(len(scored), 'score')} for {counted(len(rows), 'pair')}: use a re-ranker that scores each row once"
        )
    of_rows = np.empty(len(rows))
    of_rows[places] = score
    return of_rows


def _score_rows(
    scorer: pt.Transformer, rows: pd.DataFrame
) -> tuple[pd.DataFrame, Integers, Floats]:
    """The frame that a scorer returns, the position in ``rows`` of each of its rows, and its score.

    Raises:
        DataError: when the scorer returns a row that it was not given or a row twice, or gives a
            score that is not finite.
    """
    scored = scorer.transform(frame_for(scorer, rows))
    pt.validate.result_frame(scored, extra_columns=["score"], context=scorer)
    score, places = scored["score"].to_numpy(dtype=np.float64), _find_places(rows, scored)
    for wrong, what in (
        (
            places < 0,
            "returned passage {docno} for turn {qid}, which it wasn't given: use a re-ranker here",
        ),
        (
            ~np.isfinite(score),
            "gave the score {score} to passage {docno} of turn {qid}: check the model and the text",
        ),
    ):
        if wrong.any():
            raise DataError(f"{scorer} {what.format(**scored.iloc[int(np.flatnonzero(wrong)[0])])}")
    if np.bincount(places, minlength=1).max() > 1:
        raise DataError(
            f"{scorer} returned a passage twice for one turn: use a re-ranker that scores each row once"
        )
    return scored, places, score


def _find_places(rows: pd.DataFrame, scored: pd.DataFrame) -> Integers:
    """For each row of ``scored``, the row in ``rows`` with the same qid and docno, or -1."""
    ids = [
        (rows[name].to_numpy(dtype=object), scored[name].to_numpy(dtype=object))
        for name in ("qid", "docno")
    ]
    if len(scored) == len(rows) and all((given == back).all() for given, back in ids):
        return np.arange(len(rows))
    qids, docnos = (np.concatenate(pair) for pair in ids)
    passage = pd.factorize(docnos)[0] + 1  # 0 for a docno that is missing
    pair = numbered(qids) * (passage.max(initial=0) + 1) + passage
    return np.asarray(pd.Index(pair[: len(rows)]).get_indexer(pair[len(rows) :]), dtype=np.int64)
