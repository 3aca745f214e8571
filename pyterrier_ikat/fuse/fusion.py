"""The base of every fusion: it joins the lists of a turn's sub-queries or, given pipelines, runs them and joins their results."""

import re
import warnings
from collections.abc import Callable, Sequence
from itertools import count, takewhile
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..conversations.frame import (
    STALE_WITH_QUERY,
    NoResultWarning,
    column,
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
    Turn,
    check_results,
    concatenate_turns,
    drop_sub_queries,
    read_lists,
    restore_turns,
    sort_lists,
)

Fused = TypeVar("Fused", bound="Fusion")
Ranking = tuple[Integers, Integers, Floats | None]
"""Rows in their new order, turn after turn; the number of each row's turn; their scores, or ``None`` to count down to 1."""
SEVERAL_VALUES = "qstatements"
"""The column that merges the values of all branches; other columns of the turn keep the value of one branch."""


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
                    f"branch {number} of {name} is {branch!r}: give PyTerrier pipelines, as ikat.{name}(first, second), and numbers by name"
                )
        at_least(1, num_results=num_results)
        self.branches, self.num_results = branches, num_results

    reads: ClassVar[tuple[str, ...]] = ()
    """The columns of passages that :meth:`rank` reads besides ``rank``."""

    def rank(self, lists: Lists, frames: Sequence[pd.DataFrame]) -> Ranking:
        """Join the lists of each turn.

        Args:
            lists: the ranked lists.
            frames: the frames that hold the rows of the lists, in order: the frame of the
                sub-queries, or the result of each branch.
        """
        raise NotImplementedError

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Join the lists of a result frame or, with branches, of their results for a query frame."""
        if self.branches:
            return self._join_branches(inp)
        check_results(inp, self, [*self.reads])
        rows, turn, score = self.rank(read_lists(inp), [inp])
        return set_ranks(restore_turns(inp, rows), turn, score)

    def without_texts(self: Fused) -> Fused:
        """This fusion for a position after which no stage reads texts. Its branches load the texts that they read themselves."""
        found = super().without_texts()
        found.branches = tuple(map(without_unread_texts, self.branches))
        return found

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The turns again; with branches, the frame after the last one."""
        left, before, cuts = frame if self.branches else drop_sub_queries(frame), plan.cut, []
        for number, branch in enumerate(self.branches, 1):
            plan.cut = before
            left = plan.follow(branch, frame)
            self._refuse_other_turns(number, left, frame)
            cuts.append(plan.cut)
        plan.cut = min(sum(cuts) or before, self.num_results or sum(cuts) or before)
        return left

    def transform_inputs(self) -> list[list[str]]:
        """The columns needed here and by the branches, for ``pt.inspect``."""
        if not self.branches:
            return [["qid", "docno", "query", "rank", *self.reads]]
        return list_inputs(["qid", "query"], self.branches)

    def arguments(self) -> dict[str, Any]:
        """The branches, if any, and the keyword arguments."""
        return ({"branches": self.branches} if self.branches else {}) | super().arguments()

    def _join_branches(self, inp: pd.DataFrame) -> pd.DataFrame:
        pt.validate.columns(inp, includes=["qid", "query"], context=self)
        given, inp = inp, without_passages(inp)
        frames = self._run_branches(given)
        self._report_lost_turns(inp, frames)
        qids, docnos = (
            np.concatenate([frame[name].to_numpy(dtype=object) for frame in frames])
            for name in ("qid", "docno")
        )
        sizes, turn = [len(frame) for frame in frames], numbered(qids)
        branch = np.repeat(np.arange(len(frames)), sizes)
        ranks = np.concatenate([frame["rank"].to_numpy(dtype=np.float64) for frame in frames])
        rows, turns, score = self.rank(sort_lists(turn, branch, ranks, docnos), frames)
        joined = _unite_columns(frames, _find_first_rows(turn, sizes), rows, turns)
        return set_ranks(_restore_incoming(joined, turns, inp, frames), turns, score)

    def _run_branches(self, inp: pd.DataFrame) -> list[pd.DataFrame]:
        frames, waiting = list[pd.DataFrame](), list[Waiting]()
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", ".*; counted 0", NoResultWarning
            )  # another branch may have found passages
            for number, branch in enumerate(self.branches, 1):
                try:
                    frames.append(branch.transform(frame_for(branch, inp)))
                    self._refuse_other_turns(number, frames[-1], inp)
                except BatchUnderWay as error:  # the other branches send their batches, too
                    waiting += error.waiting
        if waiting:
            raise BatchUnderWay(waiting)
        if not self.gives_texts:
            frames = [frame.drop(columns="text", errors="ignore") for frame in frames]
        with_text = any("text" in frame.columns for frame in frames)
        for branch, frame in zip(self.branches, frames, strict=True):
            check_results(frame, branch, [*self.reads, *["text"] * with_text])
        return frames

    def _refuse_other_turns(self, number: int, frame: pd.DataFrame, inp: pd.DataFrame) -> None:
        if other := sorted(set(_list_qids(frame)) - set(inp["qid"]), key=str):
            raise DataError(
                f"branch {number} of {type(self).__name__} returns {other[0]}, which is not a qid of its input: keep qid in the branch, "
                "join its own sub-queries at its end, such as by ikat.Interleave(), and those of the input behind the fusion"
            )

    def _report_lost_turns(self, inp: pd.DataFrame, frames: Sequence[pd.DataFrame]) -> None:
        turns = inp["qid_0" if "qid_0" in inp.columns else "qid"]
        found = [
            turns.isin(turns[inp["qid"].isin(_list_qids(frame))]).to_numpy() for frame in frames
        ]
        anywhere = np.logical_or.reduce(found)
        report_turns_without_result(inp, anywhere.astype(np.int64))
        for number, by_branch in enumerate(found, 1):
            lost = turns[anywhere & ~by_branch].unique().tolist()
            if lost:
                what = f"branch {number} of {type(self).__name__} found no passage for {counted(len(lost), 'turn')} ({list_first(lost)})"
                warnings.warn(
                    f"{what}: what it wrote for them is lost, including statements and answers",
                    NoResultWarning,
                    stacklevel=5,
                )


def rank_by_sums(
    lists: Lists, sums: Callable[[Turn], tuple[Integers, Floats]], num_results: int | None
) -> Ranking:
    """Rank each turn's passages by sums, the highest first.

    Args:
        lists: the ranked lists.
        sums: gives for a turn the places of its passages, in the order that equal sums keep, and
            their sums.
        num_results: how many passages of a turn are kept at most; ``None`` for all.
    """
    rows, totals = [], [np.empty(0)]
    for turn in lists.turns():
        place, total = sums(turn)
        order = np.argsort(-total, kind="stable")[:num_results]
        rows.append(turn.row[place[order]])
        totals.append(total[order])
    return *concatenate_turns(rows), np.concatenate(totals)


def list_inputs(needed: Sequence[str], stages: Sequence[pt.Transformer]) -> list[list[str]]:
    """The columns needed here and by inner stages, for ``pt.inspect``. Scores are set before an inner stage needs them."""
    of_stages = [pt.inspect.transformer_inputs(stage, strict=False) or [[]] for stage in stages]
    names = dict.fromkeys(
        [*needed, *(name for configurations in of_stages for name in configurations[0])]
    )
    return [[name for name in names if name != "score"]]


def _list_qids(frame: pd.DataFrame) -> Objects:
    """The qid of each group of consecutive rows. These are fewer look-ups than one per row."""
    qids: Objects = frame["qid"].to_numpy(dtype=object)
    return qids.take(starts_of_runs(qids))


def _find_first_rows(turn: Integers, sizes: Sequence[int]) -> list[Integers]:
    """For each frame and each turn of all frames, the turn's first row in the frame, or -1."""
    firsts = []
    for of_frame in np.split(turn, np.cumsum(sizes)[:-1]):
        first = np.full(turn.max(initial=-1) + 1, -1)
        first[of_frame[::-1]] = np.arange(len(of_frame))[::-1]
        firsts.append(first)
    return firsts


def _unite_columns(
    frames: Sequence[pd.DataFrame], firsts: Sequence[Integers], rows: Integers, turns: Integers
) -> pd.DataFrame:
    """The passage columns of these rows of all frames, and the turn columns, which have one value per turn."""
    left_out = {*STALE_WITH_QUERY, "score", "rank"}
    united = {}
    for name in dict.fromkeys(
        name for frame in frames for name in frame.columns if name not in left_out
    ):
        if not name.startswith("q"):
            dtype = _find_dtype(frames, name)
            parts = [
                frame[name].astype(dtype)
                if name in frame.columns
                else pd.Series([None], dtype=object).repeat(len(frame))
                for frame in frames
            ]
            united[name] = pd.concat(parts, ignore_index=True).take(rows)
        else:
            of_turns = (
                _unite_statements(frames, firsts)
                if name == SEVERAL_VALUES
                else _unite_turns(frames, firsts, name)
            )
            united[name] = of_turns.take(turns)
    return pd.DataFrame(
        {name: values.reset_index(drop=True) for name, values in united.items()}, copy=False
    )


def _restore_incoming(
    joined: pd.DataFrame, turns: Integers, inp: pd.DataFrame, frames: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """The earlier queries and the sub-query columns of the input. Those that the branches wrote are ignored.

    If a branch pushed a query, the query of the input is ``query_0``: the fusion counts as one
    stage.
    """
    depth = len(
        list(takewhile(inp.columns.__contains__, (f"query_{number}" for number in count())))
    )
    pushed = any(f"query_{depth}" in frame.columns for frame in frames)
    source = pt.model.push_queries(inp) if pushed else inp
    queries = [name for name in source.columns if re.fullmatch(r"query_\d+", name)]
    names = [*queries, *(name for name in SUB_QUERY_COLUMNS if name in inp.columns)]
    if not names:
        return joined
    of_branches = [
        name for name in joined.columns if re.fullmatch(r"query_\d+", name) or name in names
    ]
    places = pd.Index(inp["qid"]).get_indexer(
        joined["qid"].take(np.flatnonzero(np.diff(turns, prepend=-1)))
    )
    return pd.concat(
        [
            joined.drop(columns=of_branches),
            source[names].take(places[turns]).reset_index(drop=True),
        ],
        axis=1,
    )


def _unite_turns(
    frames: Sequence[pd.DataFrame], firsts: Sequence[Integers], name: str
) -> "pd.Series[Any]":
    """For each turn, the value of the last frame that has the turn and the column; ``None`` if there is none."""
    values = np.full(len(firsts[0]), None)
    for frame, first in zip(frames, firsts, strict=True):
        if name in frame.columns:
            values[first >= 0] = frame[name].take(first[first >= 0]).to_numpy(dtype=object)
    return pd.Series(values, dtype=object).astype(_find_dtype(frames, name))


def _find_dtype(frames: Sequence[pd.DataFrame], name: str) -> str:
    kinds = {str(frame[name].dtype) if name in frame.columns else "object" for frame in frames}
    return (
        kinds.pop()
        if len(kinds) == 1 and pd.api.types.is_numeric_dtype(next(iter(kinds)))
        else "object"
    )


def _unite_statements(
    frames: Sequence[pd.DataFrame], firsts: Sequence[Integers]
) -> "pd.Series[Any]":
    """For each turn, its statements from all frames."""
    of_frames = [
        _unite_turns([frame], [first], SEVERAL_VALUES)
        for frame, first in zip(frames, firsts, strict=True)
    ]
    return column(
        _merge_statements([chosen for chosen in lists if chosen])
        for lists in zip(*of_frames, strict=True)
    )


def _merge_statements(lists: Sequence[Sequence[tuple[str, float]]]) -> Sequence[tuple[str, float]]:
    ids = list(dict.fromkeys(statement for chosen in lists for statement, _ in chosen))
    if not lists or len(ids) == len(lists[0]):
        return lists[0] if lists else []
    return [(statement, 1 / position) for position, statement in enumerate(ids, 1)]
