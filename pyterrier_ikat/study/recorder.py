"""Record the work of a run's stages from outside: by their input and output columns, never by their class.

Stages of other packages are not recorded, nor is the work of a stage on other threads or machines.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import is_missing
from ..events import Observer, Step
from ..llms import LLMFailure
from ..operator import label_of
from ..progress import doing
from ..runs.run_files import as_json, packed_stages

OF_ROWS = ("qid", "qid_0", "qquery", "qsub", "qweight")  # columns of a sub-query whose names begin like those of a turn

DECIMALS = 6


class Recorder(Observer):
    """Keeps the stages' outputs for some turns until they are fetched.

    Args:
        qids: the turns. Requests with other qids are omitted.
        name_of: returns the name of a stage in the run folder, from its repr.

    Example:
        >>> from pyterrier_ikat import RawUtterance
        >>> from pyterrier_ikat.events import observed_by
        >>> recorder = Recorder(["9-1_3"], str)
        >>> with observed_by(recorder):
        ...     _ = RawUtterance()(pd.DataFrame({"qid": ["9-1_3"], "query": ["it"], "qutterance": ["Tea?"]}))
        >>> len(recorder.take(["9-1_3"])) > 0
        True
    """

    def __init__(self, qids: Sequence[str], name_of: Callable[[str], str]) -> None:
        self._turns: dict[str, list[dict[str, Any]]] = {qid: [] for qid in qids}
        self._name_of, self._turn_of = name_of, dict[str, str]()

    def take(self, qids: Sequence[str]) -> bytes:
        """The lines of these turns, packed. The recorder then forgets them."""
        self._turn_of = {qid: turn for qid, turn in self._turn_of.items() if turn not in qids}
        return b"".join(packed_stages(self._turns.pop(qid)) for qid in qids)

    def end(self, step: Step) -> None:
        """Keep the work of a stage, unless it failed."""
        stage, inp, out = step.stage, step.inp, step.out
        if not all("qid" in getattr(frame, "columns", ()) for frame in (inp, out)):
            return
        for frame in (inp, out):  # a stage inside another one sees only the qids of sub-queries
            if "qid_0" in frame.columns:
                self._turn_of.update(zip(frame["qid"], frame["qid_0"], strict=True))
        lines = defaultdict[str, dict[str, Any]](dict)
        for request, outcome in step.asked:
            lines[self._turn_of.get(request.qid, request.qid)].setdefault("asked", []).append(_exchange(request, outcome))
        for qid, name, value in _written(inp, out):
            lines[qid].setdefault("wrote", {})[name] = value
        for kind, queries in (("found", _found(inp, out)), ("scored", _scored(inp, out))):
            for query in queries:
                line, own = lines[self._turn_of.get(query["qid"], query["qid"])], query.pop("own", None)
                line.setdefault(kind, []).append(query)
                if own is not None:
                    line.setdefault("query", own)
        for qid in lines.keys() & self._turns.keys():
            self._turns[qid].append({"qid": qid, "stage": self._name_of(repr(stage)), **lines[qid]})


class Shown(Observer):
    """Shows the current stage on the progress line."""

    def __init__(self) -> None:
        self._open: list[ExitStack] = []

    def begin(self, step: Step) -> None:
        """Show what the stage does, in its own words if it has any."""
        self._open.append(ExitStack())
        self._open[-1].enter_context(doing(step.stage.doing(step.inp) or label_of(step.stage)))

    def end(self, step: Step) -> None:
        """The stage is done."""
        self._open.pop().close()


def _exchange(request: Any, outcome: Any) -> dict[str, Any]:
    named = {name: value for name, value in (("prompt", request.prompt), ("item", request.item)) if value}
    gave = {"failure": outcome.reason} if isinstance(outcome, LLMFailure) else {"completion": outcome.text}
    return named | {"messages": list(map(dict, request.messages))} | gave


def _written(inp: pd.DataFrame, out: pd.DataFrame) -> Iterator[tuple[str, str, Any]]:
    """The turn columns that the stage added or changed: turn, column, value."""
    whole = "qid_0" not in inp.columns and "qid_0" not in out.columns
    names = [name for name in map(str, out.columns) if (name[:1] == "q" and name[:5] != "query" and name not in OF_ROWS)]
    names += ["query"] if whole and "query" in out.columns else []
    before, after = _firsts(inp), _firsts(out)
    for name in names:
        old = dict(zip(before.index, before[name].tolist(), strict=True)) if name in before.columns else {}
        for qid, value in zip(after.index, after[name].tolist(), strict=True):
            was = old.get(qid)
            if not (value is was or (is_missing(value) and is_missing(was)) or (qid in old and as_json(value) == as_json(was))):
                yield qid, name, as_json(value)


def _firsts(frame: pd.DataFrame) -> pd.DataFrame:
    """The first row of each turn, by turn."""
    turns = frame["qid_0" if "qid_0" in frame.columns else "qid"].to_numpy(dtype=object)
    first = ~pd.Series(turns).duplicated().to_numpy()
    return frame[first].set_axis(turns[first])


def _found(inp: pd.DataFrame, out: pd.DataFrame) -> list[dict[str, Any]]:
    """The passages of each query, for a stage that reads queries and returns passages."""
    if "docno" in inp.columns or "query" not in inp.columns or not {"docno", "score"} <= set(out.columns):
        return []
    lists = _lists(out)
    names = {name: "own" if name == "qquery" else name for name in ("qid", "query", "qsub", "qweight", "qquery") if name in inp.columns}
    rows = inp[list(names)].rename(columns=names).to_dict("records")
    return [{"own": row["query"]} | _query(row, lists.get(row["qid"], {})) for row in rows]


def _scored(inp: pd.DataFrame, out: pd.DataFrame) -> list[dict[str, Any]]:
    """The new scores of each query's passages, in their old order; empty if the stage joined sub-queries, or changed no score."""
    joined = ("qid_0" in inp.columns) != ("qid_0" in out.columns)
    if joined or not {"docno", "query"} <= set(inp.columns) or not {"docno", "score", "query"} <= set(out.columns):
        return []
    given, gave = _lists(inp), _lists(out)
    if gave == given or any(gave[qid].keys() - given.get(qid, {}).keys() for qid in gave):
        return []
    rows = inp[["qid", "query"]].drop_duplicates("qid").to_dict("records")
    kept = {qid: gave.get(qid, {}) for qid in given}
    return [_query(row, {docno: kept[row["qid"]][docno] for docno in given[row["qid"]] if docno in kept[row["qid"]]}) for row in rows]


def _query(row: dict[Any, Any], found: dict[str, float]) -> dict[str, Any]:
    return {str(name): as_json(value) for name, value in row.items()} | {"docnos": list(found), "scores": list(found.values())}


def _lists(frame: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The passages and scores of each query, in the order of the rows. Without a score column, scores are missing."""
    found: dict[str, dict[str, float]] = {}
    scores = frame["score"].astype(float).round(DECIMALS) if "score" in frame.columns else pd.Series(np.nan, frame.index)
    for qid, docno, score in zip(frame["qid"].tolist(), frame["docno"].tolist(), scores.tolist(), strict=True):
        found.setdefault(qid, {})[docno] = score
    return found
