"""Fusing a whole test set: 332 turns of 5 sub-queries with 1000 passages, 1.66 million rows.

    python experiments/performance/bench.py fusion

Ours against what a user writes today: ``groupby("qid_0").apply`` of the plain definition, which has
to find the same order. A turn's lists draw on 2500 of 400,000 passages. Docnos and texts are one
object per passage, as from BM25, in no order in memory. Conversation columns are one object per
turn. The limit is the minimum work of a fusion: numbering the docnos that it reads, turn by turn
(with a wait for memory for nearly each one), and taking the remaining rows of all columns. Both are
measured with pandas' own functions.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from bench import Row, median_seconds

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column

TURNS = 332
SUBS = 5
DEPTH = 1000
PASSAGES = 400_000
OF_A_TURN = 2500
KEPT = 1000
"""The passages of a turn that a fusion returns at most."""
Plain = Callable[[pd.DataFrame, int], pd.DataFrame]
OF_THE_TURN = ("query_0", "qutterance", "qanswer", "qrewrite", "qconversation")


def rows() -> Iterator[Row]:
    """Interleave and RRF."""
    frame = expanded()
    for name, ours, plain, read in (
        ("Interleave", ikat.Interleave(), plain_interleave, KEPT),
        ("RRF", ikat.RRF(), plain_rrf, SUBS * DEPTH),
    ):
        started = time.perf_counter()
        expected = by_turn(frame, plain, KEPT)
        today = time.perf_counter() - started
        assert ours(frame)["docno"].tolist() == expected["docno"].tolist(), f"{name}: another order"
        seconds = median_seconds(lambda ours=ours: ours(frame))
        yield Row(
            f"fusion ({name}) of {SUBS} rankings, {TURNS} turns",
            seconds,
            {"groupby.apply": today},
            least(frame, read, min(KEPT, DEPTH)),
        )


def expanded() -> pd.DataFrame:
    """A result frame as after ExplodeQueries and BM25."""
    random = np.random.default_rng(1)
    docnos = column(
        f"clueweb22-en{n % 40:04d}-{n % 97:02d}-{n:08d}:{n % 15}" for n in range(PASSAGES)
    )
    texts = column(f"passage {n} " + "of some length " * 10 for n in range(PASSAGES))
    pools = [random.choice(PASSAGES, OF_A_TURN, replace=False) for _ in range(TURNS)]
    lists = [random.permutation(pool)[:DEPTH] for pool in pools for _ in range(SUBS)]
    found = np.concatenate(lists)
    # Of each row of the frame: its turn, its sub-query in the turn, and its rank.
    turn = np.repeat(np.arange(TURNS), SUBS * DEPTH)
    sub = np.tile(np.repeat(np.arange(SUBS), DEPTH), TURNS)
    rank = np.tile(np.arange(DEPTH), TURNS * SUBS)
    of_turns = {name: [f"{name} of turn {t}" for t in range(TURNS)] for name in OF_THE_TURN}
    of_turns["qquery"] = of_turns["query_0"]
    of_turns["qhistory"] = [[{"role": "user", "content": f"turn {t}"}] * 6 for t in range(TURNS)]
    of_turns["qptkb"] = [{"1": f"turn {t}"} for t in range(TURNS)]
    of_turns["qid_0"] = [f"9-{t}_1" for t in range(TURNS)]
    columns = {name: column(values).to_numpy()[turn] for name, values in of_turns.items()}
    qids = column(f"9-{t}_1::{s}" for t in range(TURNS) for s in range(SUBS))
    queries = column(f"query {t} {s}" for t in range(TURNS) for s in range(SUBS))
    columns["qid"] = qids.to_numpy()[turn * SUBS + sub]
    columns["query"] = queries.to_numpy()[turn * SUBS + sub]
    columns["docno"] = docnos.to_numpy()[found]
    columns["text"] = texts.to_numpy()[found]
    frame = pd.DataFrame(columns, dtype=object)
    return frame.assign(qsub=sub, rank=rank, score=30.0 - rank / 100 - sub)


def plain_interleave(of_turn: pd.DataFrame, size: int) -> pd.DataFrame:
    """Round robin without repeats, written in the simplest way."""
    lists = []
    for _, part in of_turn.groupby("qsub"):
        lists.append(list(zip(part["docno"], part.index, strict=True)))
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
    fused = scored.sort_values("score", ascending=False, kind="stable").head(size)
    return fused.assign(rank=range(len(fused)))


def by_turn(frame: pd.DataFrame, plain: Plain, size: int) -> pd.DataFrame:
    """What a user writes: one turn after the other with pandas."""
    turns = frame.groupby("qid_0", sort=False, group_keys=False)
    return turns[list(frame.columns)].apply(plain, size)


def least(frame: pd.DataFrame, read: int, left: int) -> float:
    """The seconds to number ``read`` docnos of each turn and take ``left`` rows of all columns."""
    docnos = frame["docno"].to_numpy()
    step = len(frame) // TURNS
    kept = np.concatenate([np.arange(start, start + left) for start in range(0, len(frame), step)])

    def work() -> None:
        for start in range(0, len(frame), step):
            pd.factorize(docnos[start : start + read])
        frame.take(kept)

    return median_seconds(work)
