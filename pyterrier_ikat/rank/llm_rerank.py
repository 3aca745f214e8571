"""Pointwise re-ranking by an LLM's relevance labels (LLaMA10)."""

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..completions.kinds import LABEL
from ..conversations.frame import texts_in, turns_of, values
from ..llm_operator import LLMOperator
from ..llms import Request
from ..operator import with_fields
from ..order import set_ranks

if TYPE_CHECKING:
    from ..planning import Plan

UNJUDGED = -1


@with_fields
class LLMRerank(LLMOperator):
    """Keep each turn's ``depth`` best passages, ordered by the relevance label (0 to 4) that the model gives each passage.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text``; sets ``score`` and ``rank``. One call per passage.
    Passages with equal labels keep their order; the rest of the ranking is cut off, as in the run "llama2_only_10_docs". Source:
    Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4, LLaMA10. With ``on_error="fallback"`` a passage without a usable label
    comes after the judged ones.

    Args:
        llm: the model to ask.
        depth: the number of passages of each turn to judge and keep.
        style: as for the other LLM operators; the prompt is the same unless your own folder has a
            ``rerank_llama.jinja``.
        prompts: a folder of your own prompt templates.
        on_error: ``"raise"`` or ``"fallback"``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.LLMRerank(ikat.llm("recorded:sample"), depth=5)
        ikat.LLMRerank(ikat.llm('recorded:sample'), depth=5)
    """

    one_row_per_turn = False
    stage = "rerank"
    kind = LABEL
    activity = "re-ranking {passages}"
    schematic = {"label": "LLM rerank"}

    depth: int = 10
    question: str = field(default="query", init=False)

    def __post_init__(self) -> None:
        at_least(1, depth=self.depth)
        super().__post_init__()

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per row, identified by its passage."""
        rows = zip(frame["qid"], self.questions(frame), values(frame, "docno"), texts_in(frame, "text"), strict=True)
        return [self.request(qid, {"question": query, "passage": text}, "rerank", docno) for qid, query, docno, text in rows]

    def fallback(self, frame: pd.DataFrame) -> list[int]:
        """A value below every label."""
        return [UNJUDGED] * len(frame)

    def typical(self, frame: pd.DataFrame) -> list[int]:
        """Label 2 for every passage."""
        return [2] * len(frame)

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """One request for each of the ``depth`` best passages of a turn, and fewer if an earlier cutoff keeps fewer passages."""
        plan.ask(self, plan.passages(frame, min(self.depth, plan.cut)))
        return frame

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Order each turn by label, then by the old rank. The score is the label plus a fraction that keeps this order strict."""
        turn, label = turns_of(frame), np.array(list(found), dtype=np.float64)
        order = np.lexsort((frame["rank"].to_numpy(dtype=np.float64), -label, turn))
        judged = set_ranks(frame.take(order).reset_index(drop=True), turn[order])
        return set_ranks(judged, turn[order], label[order] + 1 / (judged["rank"].to_numpy() + 2))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Judge and re-order a result frame."""
        pt.validate.result_frame(inp, extra_columns=["query", "rank", "text"], context=self)
        places = places_by_rank(inp)
        top = inp[places < self.depth].reset_index(drop=True)
        return self.ask_and_write(top)


def places_by_rank(frame: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The position of each row in its turn by rank, from 0. Rows of equal rank keep the frame's order.

    Example:
        >>> places_by_rank(pd.DataFrame({"qid": ["t", "t", "u"], "rank": [7, 3, 5]})).tolist()
        [1, 0, 0]
    """
    turns_of(frame)
    places = frame["rank"].astype(float).groupby(frame["qid"], sort=False).rank(method="first")
    return np.asarray(places, dtype=np.int64) - 1
