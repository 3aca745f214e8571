"""Fusing a whole test set: 332 turns, 5 sub-queries each, 1000 passages for each, 1.66 million rows with text and conversation.

    python experiments/performance/bench.py fusion

Ours against what a user writes today: ``groupby("qid_0").apply`` of the plain definition, or pyterrier_alpha's `rr_fusion`. A turn's lists
draw on 2500 of 400,000 passages. Docnos and texts are one object per passage, as from BM25, in no order in memory. Conversation columns are
one object per turn. The limit is the minimum work of a fusion: numbering the docnos that it reads, turn by turn (with a wait for memory for
nearly each one), and taking the remaining rows of all columns. Both are measured with pandas' own functions.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pyterrier as pt
import pyterrier_alpha.fusion as alpha
from bench import Row, median_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column

TURNS, SUBS, DEPTH, PASSAGES, OF_A_TURN = 332, 5, 1000, 400_000, 2500
Plain = Callable[[pd.DataFrame, int], pd.DataFrame]
OF_THE_TURN = ("query_0", "qutterance", "qanswer", "qrewrite", "qconversation")


def expanded(of_a_turn: int = OF_A_TURN) -> pd.DataFrame:
    """A result frame as after ExplodeQueries and BM25. The lists of a turn are drawn from ``of_a_turn`` passages."""
    random = np.random.default_rng(1)
    docnos = np.array([f"clueweb22-en{n % 40:04d}-{n % 97:02d}-{n:08d}:{n % 15}" for n in range(PASSAGES)], dtype=object)
    texts = np.array([f"passage {n} " + "of some length " * 10 for n in range(PASSAGES)], dtype=object)
    pools = [random.choice(PASSAGES, of_a_turn, replace=False) for _ in range(TURNS)]
    found = np.concatenate([random.permutation(pool)[:DEPTH] for pool in pools for _ in range(SUBS)])
    turn, sub = np.repeat(np.arange(TURNS), SUBS * DEPTH), np.tile(np.repeat(np.arange(SUBS), DEPTH), TURNS)
    columns = {name: column(f"{name} of turn {t}" for t in range(TURNS)).to_numpy()[turn] for name in OF_THE_TURN}
    columns["qquery"] = columns["query_0"]
    columns |= {"qhistory": column([{"role": "user", "content": f"turn {t}"}] * 6 for t in range(TURNS)).to_numpy()[turn]}
    columns |= {"qptkb": column({"1": f"turn {t}"} for t in range(TURNS)).to_numpy()[turn]}
    columns |= {"qid_0": column(f"9-{t}_1" for t in range(TURNS)).to_numpy()[turn]}
    for name, form in (("qid", "9-{}_1::{}"), ("query", "query {} {}")):
        columns[name] = column(form.format(t, s) for t in range(TURNS) for s in range(SUBS)).to_numpy()[turn * SUBS + sub]
    objects = {name: pd.Series(values, dtype=object) for name, values in {**columns, "docno": docnos[found], "text": texts[found]}.items()}
    rank = np.tile(np.arange(DEPTH), TURNS * SUBS)
    return pd.DataFrame(objects).assign(qsub=sub, rank=rank, score=30.0 - rank / 100 - sub)


class Given(pt.Transformer):
    """A system that returns this ranking."""

    def __init__(self, found: pd.DataFrame) -> None:
        super().__init__()
        self.found = found

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The ranking, whatever the query."""
        return self.found


class RankScores(pt.Transformer):
    """A re-ranker that costs next to nothing."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Score each passage by its rank in the first list that has it."""
        return inp.assign(score=-inp["rank"].to_numpy(dtype=np.float64))


def by_system(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """The lists of each sub-query, as if one system had found them."""
    of_turn = frame.drop(columns=["qid", "query", "qsub", "qquery"]).rename(columns={"qid_0": "qid", "query_0": "query"})
    return [of_turn[frame["qsub"] == sub].reset_index(drop=True) for sub in range(SUBS)]


def plain_interleave(of_turn: pd.DataFrame, size: int) -> pd.DataFrame:
    """Round robin without repeats, written in the simplest way."""
    lists = [list(zip(part["docno"], part.index, strict=True)) for _, part in of_turn.groupby("qsub")]
    taken: dict[str, int] = {}
    while any(lists) and len(taken) < size:
        for offered in lists:
            while offered and offered[0][0] in taken:
                offered.pop(0)
            if offered:
                taken.setdefault(*offered.pop(0))
    return of_turn.loc[list(taken.values())[:size]].assign(rank=range(min(len(taken), size)))


def plain_rrf(of_turn: pd.DataFrame, size: int) -> pd.DataFrame:
    """Sums of 1 / (60 + position), best first. A passage's columns come from its best rank."""
    total = (1 / (61 + of_turn["rank"])).groupby(of_turn["docno"]).sum()
    best = of_turn.sort_values(["rank", "qsub"]).drop_duplicates("docno")
    scored = best.assign(score=best["docno"].map(total).round(12))
    return scored.sort_values("score", ascending=False, kind="stable").head(size).assign(rank=lambda rows: range(len(rows)))


def plain_weighted_sum(of_turn: pd.DataFrame, size: int) -> pd.DataFrame:
    """Sums of each list's scores, scaled by its minimum and maximum, best first. A passage's columns come from its best rank."""
    lists = of_turn.groupby("qsub")["score"]
    least, greatest = lists.transform("min"), lists.transform("max")
    total = ((of_turn["score"] - least) / (greatest - least)).groupby(of_turn["docno"]).sum()
    best = of_turn.sort_values(["rank", "qsub"]).drop_duplicates("docno")
    scored = best.assign(score=best["docno"].map(total).round(9))
    return scored.sort_values("score", ascending=False, kind="stable").head(size).assign(rank=lambda rows: range(len(rows)))


def plain_mean(of_turn: pd.DataFrame, size: int) -> pd.DataFrame:
    """Every candidate against every sub-query, then the mean."""
    candidates = of_turn.sort_values(["qsub", "rank"]).drop_duplicates("docno")
    asked = of_turn[["qid", "query"]].drop_duplicates()
    pairs = RankScores().transform(candidates.drop(columns=["qid", "query"]).merge(asked, how="cross"))
    mean = pairs.groupby("docno")["score"].mean()
    scored = candidates.assign(score=candidates["docno"].map(mean))
    return scored.sort_values("score", ascending=False, kind="stable").head(size).assign(rank=lambda rows: range(len(rows)))


class Noise(pt.Transformer):
    """A re-ranker that costs next to nothing and gives every passage a different score."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """A random score for each row, best first in each turn."""
        scored = inp.assign(score=np.random.default_rng(self.seed).normal(size=len(inp)))
        return scored.take(np.lexsort((-scored["score"], pd.factorize(scored["qid"])[0])))


def plain_min_max(of_turn: pd.DataFrame, scored: list[pd.DataFrame]) -> pd.DataFrame:
    """The mean of the scorers' scores, each scaled by its minimum and maximum for the turn."""
    qid = of_turn["qid"].iloc[0]
    lists = [frame[frame["qid"] == qid].set_index("docno")["score"] for frame in scored]
    mean = sum((scores - scores.min()) / (scores.max() - scores.min()) for scores in lists) / len(lists)
    assigned = of_turn.assign(score=of_turn["docno"].map(mean))
    return assigned.sort_values(["score", "docno"], ascending=[False, True]).assign(rank=range(len(of_turn)))


def _ensemble(candidates: pd.DataFrame) -> Row:
    """1000 passages for each of 332 turns, scored by 5 re-rankers: 1.66 million scores."""
    scored = [Noise(seed).transform(candidates) for seed in range(SUBS)]
    ensemble = ikat.Ensemble([Given(frame) for frame in scored])
    found = ensemble(candidates)
    started = time.perf_counter()
    grouped = candidates.groupby("qid", sort=False, group_keys=False)[list(candidates.columns)]
    expected = grouped.apply(plain_min_max, scored)
    today = time.perf_counter() - started
    agree = found["docno"].tolist() == expected["docno"].tolist()
    read = pd.concat([candidates, *scored]).sort_values("qid", kind="stable")
    limit = least(read, DEPTH * (SUBS + 1), DEPTH)
    why = f"numbering the docnos of the candidates and of the {SUBS} rankings, and taking the candidates"
    ours = median_seconds(lambda: ensemble(candidates))
    return Row("Ensemble, 1000 candidates x 5 scorers", ours, today, "groupby.apply", limit, why, {"same order": agree})


def by_turn(frame: pd.DataFrame, plain: Plain, size: int) -> pd.DataFrame:
    """What a user writes: one turn after the other with pandas."""
    return frame.groupby("qid_0", sort=False, group_keys=False)[list(frame.columns)].apply(plain, size)


def least(frame: pd.DataFrame, read: int, left: int) -> float:
    """The seconds to number the ``read`` docnos of each turn and to take ``left`` rows of all columns."""
    docnos, step = frame["docno"].to_numpy(), len(frame) // TURNS
    kept = np.concatenate([np.arange(start, start + left) for start in range(0, len(frame), step)])

    def work() -> None:
        for start in range(0, len(frame), step):
            pd.factorize(docnos[start : start + read])
        frame.take(kept)

    return median_seconds(work)


def rows() -> Iterator[Row]:
    """Interleave, RRF, WeightedSum, Union, MeanScore and Ensemble."""
    frame = expanded()
    yield _row("Interleave, best 1000", lambda: ikat.Interleave()(frame), plain_interleave, frame, 1000, 1000)
    rrf = _row("RRF, best 1000", lambda: ikat.RRF()(frame), plain_rrf, frame, SUBS * DEPTH, 1000)
    yield rrf
    yield _row("WeightedSum, best 1000", lambda: ikat.WeightedSum()(frame), plain_weighted_sum, frame, SUBS * DEPTH, 1000)
    lists = by_system(frame)
    yield replace(rrf, task="RRF again", today=_alpha(lists), instead="pyterrier_alpha.rr_fusion (qid, query, docno only)", more={})
    yield _row("Union of 5 systems' best 1000", partial(_united, lists), plain_interleave, frame, SUBS * DEPTH, OF_A_TURN)
    same, mean = expanded(DEPTH), ikat.MeanScore([RankScores()])
    yield _row("MeanScore, 1000 candidates x 5 queries", lambda: mean(same), plain_mean, same, SUBS * DEPTH, DEPTH)
    yield _ensemble(ikat.Interleave()(frame))


def _united(lists: list[pd.DataFrame]) -> pd.DataFrame:
    turns = lists[0][["qid", "query"]].drop_duplicates("qid")
    return ikat.Union(*map(Given, lists))(turns)


def _alpha(lists: list[pd.DataFrame]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas', of how pyterrier_alpha writes into parts of frames
        return median_seconds(lambda: alpha.rr_fusion(*lists), repeats=1, warm=0)


def _row(task: str, ours: Callable[[], pd.DataFrame], plain: Plain, frame: pd.DataFrame, read: int, left: int) -> Row:
    found = ours()
    started = time.perf_counter()
    expected = by_turn(frame, plain, left)
    today = time.perf_counter() - started
    agree = found["docno"].tolist() == expected["docno"].tolist()
    why = f"numbering {read} docnos a turn and taking {left} rows of {frame.shape[1]} columns"
    return Row(task, median_seconds(ours), today, "groupby.apply", least(frame, read, min(left, DEPTH * SUBS)), why, {"same order": agree})
