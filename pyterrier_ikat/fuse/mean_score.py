"""The weighted mean of the scores that every sub-query and every model gives a passage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import numbered
from ..errors import DataError, UsageError
from ..operator import frame_for
from ..order import Floats, Integers, set_ranks
from .fusion import Fusion
from .subqueries import Turn, check_results, mark_first, read_lists, restore_turns

PAIRS_AT_ONCE = 500_000
"""Rows of (sub-query, passage) that a scorer gets at a time; a turn is never divided, whatever its size."""


class MeanScore(Fusion):
    """Score every passage of a turn against every sub-query of the turn by every scorer, and rank by the weighted mean.

    The candidates are the union of what the sub-queries found, at the first occurrence: all of the first sub-query's, then what the
    second one adds, and so on. With the sub-queries' weights w, ``score`` is the sum over scorers and sub-queries of
    (w / sum of w) * score / number of scorers. A scorer sees the pairs of many turns in one frame, so a bi-encoder encodes each passage
    once, however many sub-queries there are. To join systems, use ``Union(first, second) >> Ensemble([...])``.

    It reads ``qid``, ``query``, ``docno``, ``rank``, what the scorers need (mostly ``text``) and, from ``ExplodeQueries``, ``qid_0``,
    ``qsub``, ``query_0``; ``qweight`` is the sub-query's weight, 1 where there is no such column. It gives one row per (turn, passage)
    with ``qid`` and ``query`` of the turn, as :class:`Interleave` does; ``qweight`` is dropped. Equal scores keep the order of the
    candidates, parted by the least step of 32-bit floats. A sub-query that found no passage isn't in the frame and doesn't count. A
    frame without sub-queries has one list per turn.

    Source: De Lima and Yang, Passage Query Methods (InfoSense at TREC iKAT 2024), section 3.3.1, where the scores are cosines.

    Args:
        scorers: re-rankers, mostly bi-encoders; each has to score every row that it gets.
        num_results: passages per turn at most, cut after scoring; ``None`` for all.

    Raises:
        UsageError: when there is no scorer, one isn't a transformer, or ``num_results`` is below 1.
        DataError: when a turn's weights are negative, not finite or all 0, or a scorer doesn't give each pair one finite score.

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

    schematic = {"label": "MeanScore"}

    def __init__(self, scorers: Sequence[pt.Transformer], num_results: int | None = 1000) -> None:
        super().__init__(num_results=num_results)
        if not isinstance(scorers, list | tuple) or not scorers or not all(isinstance(scorer, pt.Transformer) for scorer in scorers):
            raise UsageError(f"scorers={scorers!r}: give a list of at least one re-ranker, as [ikat.BiEncoder(name)]")
        self.scorers = list(scorers)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Score and rank a result frame."""
        check_results(inp, self)
        pairs = _read_pairs(inp)
        score = np.zeros(len(pairs.candidate))
        for part in pairs.chunks():
            rows = pairs.frame(inp, part)
            for scorer in self.scorers:
                gained = pairs.weight[part.sub] * _score_pairs(scorer, rows) / len(self.scorers)
                score += np.bincount(part.candidate, weights=gained, minlength=len(score))
        order = np.lexsort((-score, pairs.turn))
        order = order[mark_first(pairs.turn[order], self.num_results)]
        restored = restore_turns(inp, pairs.candidate[order]).drop(columns="qweight", errors="ignore")
        return set_ranks(restored, pairs.turn[order], score[order])

    def transform_inputs(self) -> list[list[str]]:
        """The columns needed here and by the scorers, for ``pt.inspect``."""
        of_scorers = [pt.inspect.transformer_inputs(scorer, strict=False) or [[]] for scorer in self.scorers]
        needed = ["qid", "query", "docno", "rank", *(name for configurations in of_scorers for name in configurations[0])]
        return [[name for name in dict.fromkeys(needed) if name != "score"]]


@dataclass(frozen=True)
class Chunk:
    """The pairs of some turns, as numbers of candidates and of sub-queries; the arrays are parallel."""

    candidate: Integers
    sub: Integers


@dataclass(frozen=True)
class Pairs:
    """The candidates and the sub-queries of a result frame.

    Attributes:
        candidate: for each candidate, the row of the frame where it first occurs; in the order of the turns.
        turn: the number of each candidate's turn.
        sub: for each sub-query, one of its rows; in the order of the turns.
        sub_turn: the number of each sub-query's turn.
        weight: each sub-query's share of its turn's weights.
    """

    candidate: Integers
    turn: Integers
    sub: Integers
    sub_turn: Integers
    weight: Floats

    def chunks(self) -> Iterator[Chunk]:
        """All pairs of a candidate with a sub-query of its turn, whole turns together; one empty chunk where there is none."""
        turns = self.turn.max(initial=-1) + 1
        candidates = np.split(np.arange(len(self.turn)), np.searchsorted(self.turn, np.arange(1, turns)))
        subs = np.split(np.arange(len(self.sub_turn)), np.searchsorted(self.sub_turn, np.arange(1, turns)))
        waiting: list[Chunk] = []
        size = 0
        for of_turn, asked in zip(candidates, subs, strict=True):
            if waiting and size + len(of_turn) * len(asked) > PAIRS_AT_ONCE:
                yield _concatenate_chunks(waiting)
                waiting, size = [], 0
            waiting.append(Chunk(np.tile(of_turn, len(asked)), np.repeat(asked, len(of_turn))))
            size += len(of_turn) * len(asked)
        yield _concatenate_chunks(waiting)

    def frame(self, frame: pd.DataFrame, chunk: Chunk) -> pd.DataFrame:
        """The rows that a scorer is to score: the candidate's columns, with ``qid`` and ``query`` of the sub-query."""
        of_passage = [name for name in frame.columns if not name.startswith("q")]
        asked = self.sub[chunk.sub]
        rows = frame[of_passage].take(self.candidate[chunk.candidate]).reset_index(drop=True)
        return rows.assign(**{name: pd.Series(frame[name].to_numpy(dtype=object)[asked], dtype=object) for name in ("qid", "query")})


def _concatenate_chunks(chunks: Sequence[Chunk]) -> Chunk:
    return Chunk(np.concatenate([chunk.candidate for chunk in chunks]), np.concatenate([chunk.sub for chunk in chunks]))


def _read_pairs(frame: pd.DataFrame) -> Pairs:
    lists = read_lists(frame)
    candidates, turn = lists.choose(Turn.first_occurrences)
    subs, sub_turn = lists.choose(lambda turn: np.array([part.start for part in turn.lists]))
    return Pairs(candidates, turn, subs, sub_turn, _read_weights(frame, subs, sub_turn))


def _read_weights(frame: pd.DataFrame, subs: Integers, turn: Integers) -> Floats:
    weight = frame["qweight"].to_numpy(dtype=np.float64)[subs] if "qweight" in frame.columns else np.ones(len(subs))
    total = np.bincount(turn, weights=weight)[turn]
    wrong = ~(np.isfinite(weight) & (weight >= 0) & (total > 0))
    if wrong.any():
        qid = frame["qid"].iloc[subs[int(np.flatnonzero(wrong)[0])]]
        raise DataError(f"the weights of {qid}'s turn can't be used: give every sub-query a qweight of 0 or more, and one above 0")
    return np.asarray(weight / total, dtype=np.float64)


def _score_pairs(scorer: pt.Transformer, rows: pd.DataFrame) -> Floats:
    scored = scorer.transform(frame_for(scorer, rows))
    pt.validate.result_frame(scored, extra_columns=["score"], context=scorer)
    score = scored["score"].to_numpy(dtype=np.float64)
    places = _find_places(scorer, rows, scored)
    wrong = (places < 0) | ~np.isfinite(score[places])
    if wrong.any():
        row = rows.iloc[int(np.flatnonzero(wrong)[0])]
        raise DataError(f"{scorer} gave no finite score to passage {row['docno']} for {row['qid']}: check the model and the text")
    return np.asarray(score[places], dtype=np.float64)


def _find_places(scorer: pt.Transformer, rows: pd.DataFrame, scored: pd.DataFrame) -> Integers:
    """For each of ``rows`` its row in ``scored``, or -1."""
    if len(scored) == len(rows) and all(
        (scored[name].to_numpy(dtype=object) == rows[name].to_numpy(dtype=object)).all() for name in ("qid", "docno")
    ):
        return np.arange(len(rows))
    qids, docnos = (np.concatenate([frame[name].to_numpy(dtype=object) for frame in (rows, scored)]) for name in ("qid", "docno"))
    passage = pd.factorize(docnos)[0]
    pair = numbered(qids) * (passage.max(initial=0) + 1) + passage
    given = pd.Index(pair[len(rows) :])
    if not given.is_unique or len(given) != len(rows):
        raise DataError(f"{scorer} returned {len(given)} scores for {len(rows)} pairs: use a re-ranker that scores each row once")
    return np.asarray(given.get_indexer(pair[: len(rows)]), dtype=np.int64)
