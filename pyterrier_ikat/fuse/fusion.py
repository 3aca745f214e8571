"""The base of every fusion.

A fusion joins the lists of a turn's sub-queries or, given pipelines, runs them and joins their
results.
"""

import re
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..conversations.frame import (
    STALE_WITH_QUERY,
    NoResultWarning,
    column,
    earlier_queries,
    numbered,
    report_turns_without_result,
    starts_of_runs,
    without_passages,
)
from ..errors import DataError, UsageError, counted, list_first
from ..llms.failures import BatchUnderWay, Waiting
from ..operator import Operator, frame_for, without_unread_texts
from ..order import Floats, Integers, set_ranks
from ..planning import Plan
from .subqueries import (
    SUB_QUERY_COLUMNS,
    Lists,
    Objects,
    check_results,
    concatenate_turns,
    drop_sub_queries,
    most_sub_queries,
    read_lists,
    restore_turns,
    sort_lists,
)

Fused = TypeVar("Fused", bound="Fusion")
EARLIER_QUERY = re.compile(r"query_\d+")
FusedRows = tuple[Integers, Integers, Floats | None]
"""A fused ranking of all turns, as parallel arrays.

They are the rows in their new order, turn after turn, the number of each row's turn, and the
scores, or ``None`` for scores that count down to 1.
"""
MERGED_COLUMN = "qstatements"
"""The column that merges the values of all branches; other columns of the turn keep one value."""


class Fusion(Operator):
    """Joins ranked lists into one per turn. Subclasses define how in :meth:`rank`.

    Args:
        branches: pipelines that read ``qid`` and ``query`` and give ``qid``, ``query``, ``docno``,
            ``rank``; behind a retriever, re-rankers. Without any, the lists of a turn's sub-queries
            are joined.
        num_results: passages per turn at most; ``None`` for all.

    Raises:
        UsageError: when a branch isn't a transformer, or ``num_results`` is below 1.
    """

    def __init__(self, *branches: pt.Transformer, num_results: int | None = 1000) -> None:
        super().__init__()
        for number, branch in enumerate(branches, 1):
            if not isinstance(branch, pt.Transformer):
                name = type(self).__name__
                raise UsageError(
                    f"branch {number} of {name} is {branch!r}: give PyTerrier pipelines, "
                    f"as ikat.{name}(first, second), and numbers by name"
                )
        at_least(1, num_results=num_results)
        self.branches = branches
        self.num_results = num_results

    reads: ClassVar[tuple[str, ...]] = ()
    """The columns of passages that :meth:`rank` reads besides ``rank``."""

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> FusedRows:
        """Join the lists of each turn.

        Args:
            lists: the ranked lists.
            frames: the frames that hold the rows of the lists, in order: the frame of the
                sub-queries, or the result of each branch.
        """
        raise NotImplementedError

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Join the lists of a result frame; with branches, run them on a query frame first."""
        if self.branches:
            return self._join_branches(inp)
        check_results(inp, self, list(self.reads))
        rows, turn, score = self.rank(read_lists(inp), [inp])
        return set_ranks(restore_turns(inp, rows), turn, score)

    def without_texts(self: Fused) -> Fused:
        """Return this fusion for a position after which no stage reads texts.

        Its branches load the texts that they read themselves.
        """
        fusion = super().without_texts()
        fusion.branches = tuple(without_unread_texts(branch) for branch in self.branches)
        return fusion

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """Return the turns; with branches, the frame after the last one."""
        if self.branches:
            planned, passages = self._plan_branches(frame, plan)
        else:
            planned = drop_sub_queries(frame)
            passages = plan.cut * most_sub_queries(frame)
        plan.cut = passages if self.num_results is None else min(passages, self.num_results)
        return planned

    def _plan_branches(self, frame: pd.DataFrame, plan: Plan) -> tuple[pd.DataFrame, int]:
        """Plan each branch. Return the last one's frame, and the passages of all branches."""
        planned = frame
        cut_before = plan.cut
        passages = 0
        for number, branch in enumerate(self.branches, 1):
            plan.cut = cut_before
            planned = plan.follow(branch, frame)
            self._refuse_other_turns(number, planned, frame)
            passages += plan.cut
        return planned, passages

    def transform_inputs(self) -> list[list[str]]:
        """Return the columns that the fusion and its branches need, for ``pt.inspect``."""
        if not self.branches:
            return [["qid", "docno", "query", "rank", *self.reads]]
        return list_inputs(["qid", "query"], self.branches)

    def arguments(self) -> dict[str, Any]:
        """Return the branches, if any, and the keyword arguments."""
        arguments = super().arguments()
        if self.branches:
            arguments = {"branches": self.branches, **arguments}
        return arguments

    def _join_branches(self, inp: pd.DataFrame) -> pd.DataFrame:
        pt.validate.columns(inp, includes=["qid", "query"], context=self)
        frames = self._run_branches(inp)
        queries = without_passages(inp)
        self._report_lost_turns(queries, frames)
        qids = np.concatenate([frame["qid"].to_numpy(dtype=object) for frame in frames])
        docnos = np.concatenate([frame["docno"].to_numpy(dtype=object) for frame in frames])
        ranks = np.concatenate([frame["rank"].to_numpy(dtype=np.float64) for frame in frames])
        sizes = [len(frame) for frame in frames]
        branch = np.repeat(np.arange(len(frames)), sizes)
        turn = numbered(qids)
        rows, fused_turn, score = self.rank(sort_lists(turn, branch, ranks, docnos), frames)
        joined = _unite_columns(frames, _find_first_rows(turn, sizes), rows, fused_turn)
        restored = _restore_incoming(joined, fused_turn, queries, frames)
        return set_ranks(restored, fused_turn, score)

    def _run_branches(self, inp: pd.DataFrame) -> list[pd.DataFrame]:
        frames: list[pd.DataFrame] = []
        waiting: list[Waiting] = []
        with warnings.catch_warnings():
            # Another branch may have found passages.
            warnings.filterwarnings("ignore", ".*; counted 0", NoResultWarning)
            for number, branch in enumerate(self.branches, 1):
                try:
                    frame = branch.transform(frame_for(branch, inp))
                    self._refuse_other_turns(number, frame, inp)
                    frames.append(frame)
                except BatchUnderWay as error:  # the other branches send their batches, too
                    waiting += error.waiting
        if waiting:
            raise BatchUnderWay(waiting)
        if not self.gives_texts:
            frames = [frame.drop(columns="text", errors="ignore") for frame in frames]
        needed = list(self.reads)
        if any("text" in frame.columns for frame in frames):
            needed.append("text")
        for branch, frame in zip(self.branches, frames, strict=True):
            check_results(frame, branch, needed)
        return frames

    def _refuse_other_turns(self, number: int, frame: pd.DataFrame, inp: pd.DataFrame) -> None:
        foreign_qids = set(_list_qids(frame)) - set(inp["qid"])
        if foreign_qids:
            first = min(foreign_qids, key=str)
            raise DataError(
                f"branch {number} of {type(self).__name__} returns {first}, which is not a qid of "
                "its input: keep qid in the branch, join its own sub-queries at its end, such as "
                "by ikat.Interleave(), and those of the input behind the fusion"
            )

    def _report_lost_turns(self, inp: pd.DataFrame, frames: Sequence[pd.DataFrame]) -> None:
        turns = inp["qid_0" if "qid_0" in inp.columns else "qid"]
        answered = []
        for frame in frames:
            of_branch = turns[inp["qid"].isin(_list_qids(frame))]
            answered.append(turns.isin(of_branch).to_numpy())
        by_any = np.logical_or.reduce(answered)
        report_turns_without_result(inp, by_any.astype(np.int64))
        for number, by_branch in enumerate(answered, 1):
            lost = turns[by_any & ~by_branch].unique().tolist()
            if lost:
                warnings.warn(
                    f"branch {number} of {type(self).__name__} found no passage for "
                    f"{counted(len(lost), 'turn')} ({list_first(lost)}): what it wrote for them is "
                    "lost, including statements and answers",
                    NoResultWarning,
                    stacklevel=5,
                )


def rank_by_sums(sums: Sequence[tuple[Integers, Floats]], num_results: int | None) -> FusedRows:
    """Rank each turn's passages by sums, the highest first.

    Args:
        sums: for each turn the rows of its passages, in the order that equal sums keep, and their
            sums.
        num_results: the maximum number of passages per turn; ``None`` for all.
    """
    ranked_rows = []
    ranked_sums = [np.empty(0)]
    for rows, totals in sums:
        order = np.argsort(-totals, kind="stable")[:num_results]
        ranked_rows.append(rows[order])
        ranked_sums.append(totals[order])
    rows, turn = concatenate_turns(ranked_rows)
    return rows, turn, np.concatenate(ranked_sums)


def list_inputs(needed: Sequence[str], stages: Sequence[pt.Transformer]) -> list[list[str]]:
    """Return the columns that are needed here and by inner stages, for ``pt.inspect``.

    Scores are set before an inner stage needs them.
    """
    names = dict.fromkeys(needed)
    for stage in stages:
        configurations = pt.inspect.transformer_inputs(stage, strict=False)
        if configurations:
            names.update(dict.fromkeys(configurations[0]))
    names.pop("score", None)
    return [list(names)]


def _list_qids(frame: pd.DataFrame) -> Objects:
    """Return the qid of each group of consecutive rows: fewer look-ups than one per row."""
    qids: Objects = frame["qid"].to_numpy(dtype=object)
    return qids.take(starts_of_runs(qids))


def _find_first_rows(turn: Integers, sizes: Sequence[int]) -> list[Integers]:
    """For each frame and each turn of all frames, return the turn's first row, or -1."""
    first_rows = []
    turn_count = turn.max(initial=-1) + 1
    for of_frame in np.split(turn, np.cumsum(sizes)[:-1]):
        first = np.full(turn_count, -1)
        rows = np.arange(len(of_frame))
        # numpy keeps the last value assigned to an index, which is that of the first row here.
        first[of_frame[::-1]] = rows[::-1]
        first_rows.append(first)
    return first_rows


def _unite_columns(
    frames: Sequence[pd.DataFrame], firsts: Sequence[Integers], rows: Integers, turns: Integers
) -> pd.DataFrame:
    """Return the passage columns of these rows of all frames, and the turn columns.

    A turn column has one value per turn.
    """
    names: dict[str, None] = {}
    for frame in frames:
        names.update(dict.fromkeys(frame.columns))
    united = {}
    for name in names:
        if name in STALE_WITH_QUERY or name in ("score", "rank"):
            continue
        if name == MERGED_COLUMN:
            values = _unite_statements(frames, firsts).take(turns)
        elif name.startswith("q"):
            values = _unite_turns(frames, firsts, name).take(turns)
        else:
            values = _unite_passages(frames, name).take(rows)
        united[name] = values.reset_index(drop=True)
    return pd.DataFrame(united, copy=False)


def _unite_passages(frames: Sequence[pd.DataFrame], name: str) -> "pd.Series[Any]":
    """Return a column of all frames; ``None`` for the rows of frames without the column."""
    dtype = _find_dtype(frames, name)
    parts = []
    for frame in frames:
        if name in frame.columns:
            parts.append(frame[name].astype(dtype))
        else:
            parts.append(pd.Series([None], dtype=object).repeat(len(frame)))
    return pd.concat(parts, ignore_index=True)


def _restore_incoming(
    joined: pd.DataFrame, turns: Integers, inp: pd.DataFrame, frames: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """Put the input's earlier queries and sub-query columns in the place of the branches' ones.

    If a branch pushed a query, the input's query is pushed once, to ``query_0``: behind the fusion
    it looks as if one stage had changed the query.

    Args:
        joined: the fused rows.
        turns: the number of the turn of each row, in their order.
        inp: the input of the fusion.
        frames: what the branches returned.
    """
    pushed = f"query_{len(earlier_queries(inp))}"
    if any(pushed in frame.columns for frame in frames):
        inp = pt.model.push_queries(inp)
    incoming = [name for name in inp.columns if EARLIER_QUERY.fullmatch(name)]
    incoming += [name for name in SUB_QUERY_COLUMNS if name in inp.columns]
    if not incoming:
        return joined
    replaced = []
    for name in joined.columns:
        if name in incoming or EARLIER_QUERY.fullmatch(name):
            replaced.append(name)
    first_rows = np.flatnonzero(np.diff(turns, prepend=-1))
    input_rows = pd.Index(inp["qid"]).get_indexer(joined["qid"].take(first_rows))
    restored = inp[incoming].take(input_rows[turns]).reset_index(drop=True)
    return pd.concat([joined.drop(columns=replaced), restored], axis=1)


def _unite_turns(
    frames: Sequence[pd.DataFrame], firsts: Sequence[Integers], name: str
) -> "pd.Series[Any]":
    """For each turn, return the value of the last frame that has the turn and the column.

    It is ``None`` if there is no such frame.
    """
    values = np.full(len(firsts[0]), None)
    for frame, first in zip(frames, firsts, strict=True):
        if name in frame.columns:
            present = first >= 0
            values[present] = frame[name].take(first[present]).to_numpy(dtype=object)
    return pd.Series(values, dtype=object).astype(_find_dtype(frames, name))


def _find_dtype(frames: Sequence[pd.DataFrame], name: str) -> str:
    """Return the common numeric dtype of a column, or ``"object"``."""
    dtypes = set()
    for frame in frames:
        dtypes.add(str(frame[name].dtype) if name in frame.columns else "object")
    if len(dtypes) > 1:
        return "object"
    [dtype] = dtypes
    return dtype if pd.api.types.is_numeric_dtype(dtype) else "object"


def _unite_statements(
    frames: Sequence[pd.DataFrame], firsts: Sequence[Integers]
) -> "pd.Series[Any]":
    """For each turn, return its statements from all frames."""
    of_frames = []
    for frame, first in zip(frames, firsts, strict=True):
        of_frames.append(_unite_turns([frame], [first], MERGED_COLUMN))
    merged = []
    for of_turn in zip(*of_frames, strict=True):
        merged.append(_merge_statements([chosen for chosen in of_turn if chosen]))
    return column(merged)


def _merge_statements(lists: Sequence[Sequence[tuple[str, float]]]) -> Sequence[tuple[str, float]]:
    """Return the first list, followed by the new statements of the others."""
    if not lists:
        return []
    ids = list(dict.fromkeys(statement_id for chosen in lists for statement_id, _ in chosen))
    if len(ids) == len(lists[0]):
        return lists[0]
    return [(statement_id, 1 / position) for position, statement_id in enumerate(ids, 1)]
