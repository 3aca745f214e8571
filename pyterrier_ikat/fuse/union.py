"""The union of what whole systems found: one row per turn and passage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, column
from ..errors import UsageError
from ..operator import Operator
from .interleave import interleave
from .pool import pool
from .subqueries import Integers, lists_of, numbered, ranked, ranks_of, validate


class Union(Operator):
    """Run several branches on the same turns and unite what they found, as candidates for a re-ranker.

    A branch is a pipeline from a query frame to a result frame. Gives one row per (turn, passage), also for turns that only some branches
    return. The branches' lists are interleaved in the order of the branches; ``score`` only counts down from the number of passages, so
    a re-ranker comes next. A branch that returns sub-queries is pooled first, as by ``Pool``. ``docno``, ``text`` and the passage's other
    columns come from the branch that brought it.

    Columns of the turn (all that start with ``q``) have one value per turn: that of the last branch that returns the turn and has the
    column. Only ``qstatements`` is united: the first branch's statements in their order, then the new ones of the others; where another
    branch adds some, the scores are 1/position. ``query_toks`` and ``query_vec`` are dropped.

    Source: the GtR run of Fu, Bedi, Acharya and Kando, NII at TREC iKAT 2024, as
    ``Union(gpt_branch, claude_branch) >> RerankBy(minilm, "qanswer")``, where ``qanswer`` is Claude's.

    Args:
        branches: pipelines that read ``qid`` and ``query`` and give ``qid``, ``query``, ``docno``, ``rank``; if one gives ``text``, all
            have to.

    Raises:
        UsageError: when there is no branch, or one isn't a transformer.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> def finds(*docnos):
        ...     found = pd.DataFrame({"qid": ["t"] * len(docnos), "docno": docnos, "rank": range(len(docnos))})
        ...     return pt.apply.generic(lambda turns: turns.merge(found))
        >>> turns = pd.DataFrame({"qid": ["t"], "query": ["tea?"]})
        >>> ikat.Union(finds("x", "y"), finds("z", "x"))(turns)[["qid", "docno", "score", "rank"]].values.tolist()
        [['t', 'x', 3.0, 0], ['t', 'z', 2.0, 1], ['t', 'y', 1.0, 2]]
    """

    schematic = {"label": "Union", "inner_pipelines_mode": "linked"}

    def __init__(self, *branches: pt.Transformer) -> None:
        super().__init__()
        if not branches:
            raise UsageError("Union needs branches: give at least one pipeline from turns to passages")
        for number, branch in enumerate(branches, 1):
            if not isinstance(branch, pt.Transformer):
                raise UsageError(f"branch {number} of Union is {branch!r}: give PyTerrier pipelines, as Union(first, second)")
        self.branches = branches

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Run the branches on a query frame and unite their result frames."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        found = [branch.transform(inp) for branch in self.branches]
        with_text = any("text" in frame.columns for frame in found)
        for branch, frame in zip(self.branches, found, strict=True):
            validate(frame, branch, ["text"] if with_text else None)
        return union([pool(frame) if "qid_0" in frame.columns else frame for frame in found])

    def transform_inputs(self) -> list[list[str]]:
        """The columns that the branches need, for ``pt.inspect``."""
        of_branches = [pt.inspect.transformer_inputs(branch, strict=False) or [[]] for branch in self.branches]
        return [list(dict.fromkeys(["qid", "query", *(name for configurations in of_branches for name in configurations[0])]))]

    def arguments(self) -> dict[str, Any]:
        """The branches."""
        return {"branches": self.branches}

    def __repr__(self) -> str:
        return f"ikat.Union({', '.join(map(repr, self.branches))})"


def union(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Unite result frames that aren't expanded, as ``Union`` describes.

    Args:
        frames: result frames with ``qid``, ``query``, ``docno`` and ``rank``, in the order of the branches.
    """
    sizes = [len(frame) for frame in frames]
    qids, docnos = (np.concatenate([frame[name].to_numpy(dtype=object) for frame in frames]) for name in ("qid", "docno"))
    turn, branch = numbered(qids), np.repeat(np.arange(len(frames)), sizes)
    rows, turns = interleave(lists_of(turn, branch, np.concatenate([ranks_of(frame) for frame in frames]), docnos))
    stacked = _Stacked(frames, np.cumsum([0, *sizes]))
    firsts = stacked.first_rows(turn)
    made_anew = (*STALE_WITH_QUERY, "score", "rank")
    names = dict.fromkeys(name for frame in frames for name in frame.columns if name not in made_anew)
    united = {}
    for name in names:
        if name == "qid" or not name.startswith("q"):
            united[name] = stacked.take(name, rows)
        else:
            of_turn = stacked.merged(firsts) if name == "qstatements" else stacked.take(name, stacked.last(name, firsts))
            united[name] = of_turn.take(turns)
    return ranked(pd.DataFrame({name: values.reset_index(drop=True) for name, values in united.items()}, copy=False), turns)


@dataclass(frozen=True)
class _Stacked:
    """Frames one below the other, of which only the rows that are asked for are touched.

    Attributes:
        frames: the frames.
        bounds: the number of the first row of each, and of all rows.
    """

    frames: Sequence[pd.DataFrame]
    bounds: Integers

    def take(self, name: str, rows: Integers) -> "pd.Series[Any]":
        """The column at these rows; ``None`` at -1 and where the frame lacks it."""
        found = np.full(len(rows), None)
        for frame, start, end in zip(self.frames, self.bounds[:-1], self.bounds[1:], strict=True):
            if name in frame.columns:
                here = np.flatnonzero((rows >= start) & (rows < end))
                found[here] = frame[name].take(rows[here] - start).to_numpy(dtype=object)
        return pd.Series(found, dtype=object).astype(self._dtype(name))

    def _dtype(self, name: str) -> str:
        kinds = {str(frame[name].dtype) if name in frame.columns else "object" for frame in self.frames}
        return kinds.pop() if len(kinds) == 1 and pd.api.types.is_numeric_dtype(next(iter(kinds))) else "object"

    def first_rows(self, turn: Integers) -> list[Integers]:
        """For each frame and turn, the turn's first row, or -1."""
        firsts = np.full((len(self.frames), turn.max(initial=-1) + 1), -1, dtype=np.int64)
        for number, (start, end) in enumerate(zip(self.bounds[:-1], self.bounds[1:], strict=True)):
            firsts[number, turn[start:end][::-1]] = np.arange(start, end)[::-1]
        return list(firsts)

    def last(self, name: str, firsts: Sequence[Integers]) -> Integers:
        """For each turn, a row of the last frame that has the turn and the column, or -1."""
        rows = np.full(len(firsts[0]), -1, dtype=np.int64)
        for frame, first in zip(self.frames, firsts, strict=True):
            if name in frame.columns:
                rows = np.where(first >= 0, first, rows)
        return rows

    def merged(self, firsts: Sequence[Integers]) -> "pd.Series[Any]":
        """For each turn, its statements of all frames."""
        of_frames = [self.take("qstatements", first) for first in firsts]
        return column(_one_list([chosen for chosen in lists if chosen]) for lists in zip(*of_frames, strict=True))


def _one_list(lists: Sequence[Sequence[tuple[str, float]]]) -> Sequence[tuple[str, float]]:
    ids = list(dict.fromkeys(statement for chosen in lists for statement, _ in chosen))
    if not lists or len(ids) == len(lists[0]):
        return lists[0] if lists else []
    return [(statement, 1 / position) for position, statement in enumerate(ids, 1)]
