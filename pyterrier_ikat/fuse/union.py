"""The union of what whole systems found: one row per turn and passage."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, column, numbered, starts_of_runs
from ..conversations.no_result import NoResultWarning, report_turns_without_result
from ..errors import UsageError
from ..operator import Operator, Plan, apart
from ..order import ranked
from .interleave import interleave, pool
from .subqueries import Integers, Objects, lists_of, ranks_of, turns_again, validate


class Union(Operator):
    """Run several branches on the same turns and unite what they found, as candidates for a re-ranker.

    A branch is a pipeline from a query frame to a result frame. Gives one row per (turn, passage), also for turns that only some branches
    return. The branches' lists are interleaved in the order of the branches; ``score`` only counts down from the number of passages, so
    a re-ranker comes next. A branch that returns sub-queries is pooled first, as by ``Pool``. ``docno``, ``text`` and the passage's other
    columns come from the branch that brought it.

    Columns of the turn (all that start with ``q``) have one value per turn: that of the last branch that returns the turn and has the
    column. Only ``qstatements`` is united: the first branch's statements in their order, then the new ones of the others; where another
    branch adds some, the scores are 1/position. ``query_toks`` and ``query_vec`` are dropped. A turn for which a branch finds nothing has
    what the other branches wrote; such turns are named in a ``NoResultWarning``.

    Source: the GtR run of Fu, Bedi, Acharya and Kando, NII at TREC iKAT 2024, as
    ``Union(gpt_branch, claude_branch) >> RerankAgainst(minilm, "qanswer")``, where ``qanswer`` is Claude's.

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

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """What the last branch leaves."""
        return turns_again([plan.follow(branch, frame) for branch in self.branches][-1])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Run the branches on a query frame and unite their result frames."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* they count 0", NoResultWarning)  # what one branch lacks another may have
            found = [branch.transform(apart(branch, inp)) for branch in self.branches]
        with_text = any("text" in frame.columns for frame in found)
        for branch, frame in zip(self.branches, found, strict=True):
            validate(frame, branch, ["text"] if with_text else None)
        found = [pool(frame) if "qid_0" in frame.columns else frame for frame in found]
        self._report_turns_without_result(inp, found)
        return union(found)

    def _report_turns_without_result(self, inp: pd.DataFrame, found: Sequence[pd.DataFrame]) -> None:
        turns = inp["qid_0" if "qid_0" in inp.columns else "qid"]
        brought = [turns.isin(_qids(frame)).to_numpy() for frame in found]
        anywhere = np.logical_or.reduce(brought)
        report_turns_without_result(inp, anywhere.astype(np.int64))
        for number, by_branch in enumerate(brought, 1):
            lacking = turns[anywhere & ~by_branch].unique().tolist()
            if lacking:
                shown = ", ".join(map(str, lacking[:5])) + ", ..." * (len(lacking) > 5)
                message = f"branch {number} of Union found no passage for {len(lacking)} turns ({shown}): what it wrote there is lost"
                warnings.warn(f"{message}, statements and answers too", NoResultWarning, stacklevel=4)

    def transform_inputs(self) -> list[list[str]]:
        """The columns that the branches need, for ``pt.inspect``."""
        of_branches = [pt.inspect.transformer_inputs(branch, strict=False) or [[]] for branch in self.branches]
        return [list(dict.fromkeys(["qid", "query", *(name for configurations in of_branches for name in configurations[0])]))]

    def arguments(self) -> dict[str, Any]:
        """The branches."""
        return {"branches": self.branches}

    def __repr__(self) -> str:
        return f"{self._called()}({', '.join(map(repr, self.branches))})"


def union(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Unite result frames that aren't expanded, as ``Union`` describes.

    Args:
        frames: result frames with ``qid``, ``query``, ``docno`` and ``rank``, in the order of the branches.
    """
    sizes = [len(frame) for frame in frames]
    qids, docnos = (np.concatenate([frame[name].to_numpy(dtype=object) for frame in frames]) for name in ("qid", "docno"))
    turn, branch = numbered(qids), np.repeat(np.arange(len(frames)), sizes)
    rows, turns = interleave(lists_of(turn, branch, np.concatenate([ranks_of(frame) for frame in frames]), docnos))
    firsts = _first_rows(turn, sizes)
    made_anew = (*STALE_WITH_QUERY, "score", "rank")
    united = {}
    for name in dict.fromkeys(name for frame in frames for name in frame.columns if name not in made_anew):
        if not name.startswith("q"):
            united[name] = _of_passages(frames, name).take(rows)
        else:
            of_turns = _statements(frames, firsts) if name == "qstatements" else _of_turns(frames, firsts, name)
            united[name] = of_turns.take(turns)
    return ranked(pd.DataFrame({name: values.reset_index(drop=True) for name, values in united.items()}, copy=False), turns)


def _qids(frame: pd.DataFrame) -> Objects:
    """The qid of each run of rows: fewer to look up than those of all rows."""
    qids: Objects = frame["qid"].to_numpy(dtype=object)
    return qids.take(starts_of_runs(qids))


def _first_rows(turn: Integers, sizes: Sequence[int]) -> list[Integers]:
    """For each frame and each turn of them all, the turn's first row in the frame, or -1."""
    firsts = []
    for of_frame in np.split(turn, np.cumsum(sizes)[:-1]):
        first = np.full(turn.max(initial=-1) + 1, -1)
        first[of_frame[::-1]] = np.arange(len(of_frame))[::-1]
        firsts.append(first)
    return firsts


def _of_passages(frames: Sequence[pd.DataFrame], name: str) -> "pd.Series[Any]":
    """The column of all frames, one below the other; ``None`` where a frame lacks it."""
    dtype = _dtype(frames, name)
    lacking = pd.Series([None], dtype=object)
    parts = [frame[name].astype(dtype) if name in frame.columns else lacking.repeat(len(frame)) for frame in frames]
    return pd.concat(parts, ignore_index=True)


def _of_turns(frames: Sequence[pd.DataFrame], firsts: Sequence[Integers], name: str) -> "pd.Series[Any]":
    """For each turn, the value of the last frame that has the turn and the column; ``None`` where there is none."""
    values = np.full(len(firsts[0]), None)
    for frame, first in zip(frames, firsts, strict=True):
        if name in frame.columns:
            values[first >= 0] = frame[name].take(first[first >= 0]).to_numpy(dtype=object)
    return pd.Series(values, dtype=object).astype(_dtype(frames, name))


def _dtype(frames: Sequence[pd.DataFrame], name: str) -> str:
    kinds = {str(frame[name].dtype) if name in frame.columns else "object" for frame in frames}
    return kinds.pop() if len(kinds) == 1 and pd.api.types.is_numeric_dtype(next(iter(kinds))) else "object"


def _statements(frames: Sequence[pd.DataFrame], firsts: Sequence[Integers]) -> "pd.Series[Any]":
    """For each turn, its statements of all frames."""
    of_frames = [_of_turns([frame], [first], "qstatements") for frame, first in zip(frames, firsts, strict=True)]
    return column(_one_list([chosen for chosen in lists if chosen]) for lists in zip(*of_frames, strict=True))


def _one_list(lists: Sequence[Sequence[tuple[str, float]]]) -> Sequence[tuple[str, float]]:
    ids = list(dict.fromkeys(statement for chosen in lists for statement, _ in chosen))
    if not lists or len(ids) == len(lists[0]):
        return lists[0] if lists else []
    return [(statement, 1 / position) for position, statement in enumerate(ids, 1)]
