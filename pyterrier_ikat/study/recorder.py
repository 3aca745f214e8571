"""Record the work of a run's stages and its costs, from outside.

The stages are told apart by their input and output columns, never by their class. Costs are stored
call by call, so that a restarted run continues its ledger.

Stages of other packages are not recorded, nor is the work of a stage on other threads or machines.
"""

import csv
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import is_missing
from ..errors import DataError, option
from ..events import Observer, Step
from ..llms import Completion, FatalLLMError, Ledger, LLMFailure, Request
from ..llms.ledger import AMOUNTS, COUNTS, Budget, Entry
from ..operator import label_of
from ..progress import doing
from ..runs import RunFolder
from ..runs.folder import COSTS_FILE, LEDGER_FILE
from ..runs.turn_lines import as_json
from ..store.files import PARTIAL_ENDING, drop_cut_line, read_lines

OF_SUB_QUERIES = ("qid", "qid_0", "qquery", "qpushed", "qsub", "qweight")
"""The columns of a sub-query whose names begin like those of a turn."""

SCORE_DECIMALS = 6
COMPRESSION_LEVEL = 4
"""The level of compression. Level 6 takes twice the time and saves two per cent."""


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
        ...     turn = {"qid": ["9-1_3"], "query": ["it"], "qutterance": ["Tea?"]}
        ...     _ = RawUtterance()(pd.DataFrame(turn))
        >>> len(recorder.take(["9-1_3"])) > 0
        True
    """

    def __init__(self, qids: Sequence[str], name_of: Callable[[str], str]) -> None:
        self._turns: dict[str, list[dict[str, Any]]] = {qid: [] for qid in qids}
        self._name_of = name_of
        self._turn_of: dict[str, str] = {}

    def take(self, qids: Sequence[str]) -> bytes:
        """Return the lines of these turns, packed turn by turn, and forget them."""
        self._turn_of = {qid: turn for qid, turn in self._turn_of.items() if turn not in qids}
        packed = []
        for qid in qids:
            lines = [json.dumps(line, default=str) + "\n" for line in self._turns.pop(qid)]
            if lines:
                packed.append(gzip.compress("".join(lines).encode(), COMPRESSION_LEVEL, mtime=0))
        return b"".join(packed)

    def end(self, step: Step) -> None:
        """Keep the work of a stage, unless it failed."""
        inp = step.inp
        out = step.out
        if not (_is_of_turns(inp) and _is_of_turns(out)):
            return
        for frame in (inp, out):  # a stage inside another one sees only the qids of sub-queries
            if "qid_0" in frame.columns:
                self._turn_of.update(zip(frame["qid"], frame["qid_0"], strict=True))
        lines = defaultdict[str, dict[str, Any]](dict)
        for request, outcome in step.asked:
            line = lines[self._turn_of.get(request.qid, request.qid)]
            line.setdefault("asked", []).append(_exchange(request, outcome))
        for qid, name, value in _written(inp, out):
            lines[qid].setdefault("wrote", {})[name] = value
        for kind, query in _queries(inp, out):
            line = lines[self._turn_of.get(query["qid"], query["qid"])]
            text = query.pop("own", None)
            line.setdefault(kind, []).append(query)
            if text is not None:
                line.setdefault("query", text)
        name = self._name_of(repr(step.stage))
        for qid in lines.keys() & self._turns.keys():
            self._turns[qid].append({"qid": qid, "stage": name, **lines[qid]})


@dataclass(eq=False)
class Shown(Observer):
    """Shows the current stage on the progress line."""

    _open: list[ExitStack] = field(default_factory=list)

    def begin(self, step: Step) -> None:
        """Show what the stage does, in its own words if it has any."""
        self._open.append(ExitStack())
        self._open[-1].enter_context(doing(step.stage.doing(step.inp) or label_of(step.stage)))

    def end(self, step: Step) -> None:
        """The stage is done."""
        self._open.pop().close()


def _is_of_turns(frame: Any) -> bool:
    return isinstance(frame, pd.DataFrame) and "qid" in frame.columns


def _exchange(request: Request, outcome: Completion | LLMFailure) -> dict[str, Any]:
    """A request and its outcome, as they are recorded."""
    exchange: dict[str, Any] = {}
    if request.prompt:
        exchange["prompt"] = request.prompt
    if request.item:
        exchange["item"] = request.item
    exchange["messages"] = [dict(message) for message in request.messages]
    if isinstance(outcome, LLMFailure):
        exchange["failure"] = outcome.reason
    else:
        exchange["completion"] = outcome.text
    return exchange


def _written(inp: pd.DataFrame, out: pd.DataFrame) -> Iterator[tuple[str, str, Any]]:
    """The turn columns that the stage added or changed: turn, column, value."""
    names = []
    for name in map(str, out.columns):
        if name.startswith("q") and not name.startswith("query") and name not in OF_SUB_QUERIES:
            names.append(name)
    of_whole_turns = "qid_0" not in inp.columns and "qid_0" not in out.columns
    if of_whole_turns and "query" in out.columns:
        names.append("query")
    before = _cells(inp, names)
    for name, cells in _cells(out, names).items():
        old_cells = before.get(name, {})
        for qid, value in cells.items():
            old = old_cells.get(qid)
            if value is old or (is_missing(value) and is_missing(old)):
                continue
            if qid in old_cells and as_json(value) == as_json(old):
                continue
            yield qid, name, as_json(value)


def _cells(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, dict[Any, Any]]:
    """Of each of these columns that the frame has, the value in each turn's first row, by turn."""
    turns = frame["qid_0" if "qid_0" in frame.columns else "qid"].to_numpy(dtype=object)
    first_rows = np.flatnonzero(~pd.Series(turns, dtype=object).duplicated().to_numpy())
    qids = turns[first_rows].tolist()
    cells = {}
    for name in names:
        if name in frame.columns:
            values = frame[name].take(first_rows).tolist()
            cells[name] = dict(zip(qids, values, strict=True))
    return cells


def _queries(inp: pd.DataFrame, out: pd.DataFrame) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a retriever ``found`` for each query, or a re-ranker ``scored``.

    Passages that were scored stand in their old order.
    """
    if "query" not in inp.columns or not {"docno", "score"} <= set(out.columns):
        return
    if "docno" not in inp.columns:
        for query in _found(inp, _passages(out)):
            yield "found", query
        return
    joined_sub_queries = ("qid_0" in inp.columns) != ("qid_0" in out.columns)
    if joined_sub_queries or "query" not in out.columns:
        return
    before = _passages(inp)
    after = _passages(out)
    found_others = any(after[qid].keys() - before.get(qid, {}).keys() for qid in after)
    if after == before or found_others:
        return
    for row in inp[["qid", "query"]].drop_duplicates("qid").to_dict("records"):
        scores = after.get(row["qid"], {})
        in_old_order = {docno: scores[docno] for docno in before[row["qid"]] if docno in scores}
        yield "scored", _query(row, in_old_order)


def _found(inp: pd.DataFrame, passages: Mapping[str, dict[str, float]]) -> Iterator[dict[str, Any]]:
    """Each query with its passages. ``own`` is the turn's query, before it got sub-queries."""
    names = ("qid", "query", "qsub", "qweight", "qquery")
    columns = inp[[name for name in names if name in inp.columns]]
    for row in columns.to_dict("records"):
        own = row.pop("qquery", row["query"])
        query = _query(row, passages.get(row["qid"], {}))
        query["own"] = as_json(own)
        yield query


def _query(row: Mapping[Any, Any], passages: Mapping[str, float]) -> dict[str, Any]:
    query = {str(name): as_json(value) for name, value in row.items()}
    query["docnos"] = list(passages)
    query["scores"] = list(passages.values())
    return query


def _passages(frame: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The passages and scores of each query, in the order of the rows.

    Without a score column, scores are missing.
    """
    if "score" in frame.columns:
        scores = frame["score"].astype(float).round(SCORE_DECIMALS)
    else:
        scores = pd.Series(np.nan, frame.index)
    passages: dict[str, dict[str, float]] = {}
    rows = zip(frame["qid"].tolist(), frame["docno"].tolist(), scores.tolist(), strict=True)
    for qid, docno, score in rows:
        passages.setdefault(qid, {})[docno] = score
    return passages


SPENT = ("calls", "known", "retries", "unanswered", *AMOUNTS)
"""The columns for events that happen once.

A restart counts the ledger's other columns again, because they describe the run itself.
"""
REST = "ledger.json"
"""The ending of the file with a finished batch's other counts."""


class Account(Ledger):
    """The ledger of one run, over all its starts, which appends counts with a key to its file.

    If an earlier start of the run got the answer to a request, reading it again doesn't count as a
    cache hit.

    Args:
        path: the file, in a folder that exists; created when the first event is counted.

    Attributes:
        rest: the counts that aren't kept in the file, of the batch under way.

    Example:
        >>> from pyterrier_ikat.study.recorder import Account
        >>> Account("runs/aqd.partial/costs.jsonl").frame().empty
        True
    """

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self.path = Path(path)
        self.rest = Ledger()
        self._earlier: Counter[str] = Counter()
        drop_cut_line(self.path)
        for _, event in read_lines(self.path):
            self._earlier[event["key"]] += event["answered"]
            spent = {name: amount for name, amount in event.items() if name in SPENT}
            super().enter(Entry(event["stage"], event["model"], spent, event["served"]))

    def enter(self, entry: Entry) -> None:
        """Add to the row of a stage and model, and write an entry with a key to the file.

        Raises:
            OSError: when the file can't be written.
        """
        spent: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, value in entry.increments.items():
            if entry.key is not None and name in SPENT:
                spent[name] = value
            else:
                rest[name] = value
        if rest:
            served = None if spent else entry.served
            self.rest.enter(Entry(entry.stage, entry.model, rest, served))
        if not spent or entry.key is None:
            return
        has_failed = bool(entry.increments.get("failures"))
        has_answer = "known" in spent or ("cost" in spent and not has_failed)
        answered = entry.answered and has_answer
        with self._lock:
            if answered and self._earlier[entry.key]:
                self._earlier[entry.key] -= 1
                if "known" in spent:
                    return
            event = {
                "stage": entry.stage,
                "model": entry.model,
                "key": entry.key,
                "served": entry.served,
                **spent,
                "answered": answered,
            }
            with self.path.open("ab", buffering=0) as file:
                file.write(json.dumps(event).encode() + b"\n")
        super().enter(entry._replace(increments=spent))


def ledger_of(folder: RunFolder) -> Ledger:
    """Return the costs of a run over all its starts, also of one that was stopped or is under way.

    Raises:
        DataError: when they can't be read.
    """
    if not folder.complete:
        return _ledger_of_begun(folder)
    path = folder.path / LEDGER_FILE
    try:
        ledger = _read_ledger(path)
        rows = len(ledger.rows())
        written = folder.parameters().get("ledger_rows", 0)
        if rows < written:
            raise LookupError(f"{rows} of {written} rows")  # it was cut
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"{path} can't be read ({error!r}): what the run has cost is unknown: repeat the run"
        ) from None
    return ledger


def _ledger_of_begun(folder: RunFolder) -> Ledger:
    """The costs of a run that isn't finished."""
    ledger = Ledger()
    for _, event in read_lines(folder.partial / COSTS_FILE):
        event.pop("answered", None)
        ledger.count(**event)
    for path in sorted(folder.partial.glob(f"[0-9]*.{REST}")):
        for row in json.loads(path.read_text(encoding="utf-8")):
            ledger.count(**row)
    return ledger


def _read_ledger(path: Path) -> Ledger:
    """The ledger in the file of a finished run."""
    ledger = Ledger()
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = {"stage", "model", "served", *COUNTS, *AMOUNTS} - set(rows.fieldnames or ())
        if missing:  # else a file without rows would be a run that cost nothing
            raise LookupError(f"no column {min(missing)}")
        for row in rows:
            amounts = {name: json.loads(row[name] or "null") for name in (*COUNTS, *AMOUNTS)}
            ledger.count(row["stage"], row["model"], served=row["served"], **amounts)
    return ledger


class Spending:
    """The cost of all runs in a folder: at the start, and what this process has spent since.

    Args:
        out: the folder with a subfolder for each run.
        now: counts what this process spends.
    """

    def __init__(self, out: Path, now: Ledger) -> None:
        self.where = str(out)
        self._now = now
        runs = set()
        for path in out.glob("[!.]*"):
            if path.is_dir():
                runs.add(path.with_name(path.name.removesuffix(PARTIAL_ENDING)))
        self._before: list[dict[str, Any]] = []
        for path in runs:
            self._before += ledger_of(RunFolder(path)).rows()

    def total(self, model: str, price_in: float | None, price_out: float | None) -> float:
        """Return the US dollars so far.

        Calls of ``model`` with unknown cost are counted at these prices; those of other models are
        not counted.

        Raises:
            FatalLLMError: when their tokens are not known.
        """
        prices = Budget(price_in=price_in or 0.0, price_out=price_out or 0.0)
        costs = []
        for row in [*self._before, *self._now.rows()]:
            cost = row["cost"]
            if cost is None and row["model"] == model:
                cost = _price(row, prices)
                if cost is None:
                    raise FatalLLMError(
                        f"{self.where} has calls of {model} whose cost is not known, so a budget "
                        f"can't be kept: run without budget=, or choose another {option('out')}"
                    )
            costs.append(cost or 0.0)
        return sum(costs)


def _price(row: Mapping[str, Any], prices: Budget) -> float | None:
    """US dollars of the calls in a row, with an estimate for those that got no answer.

    None if a call doesn't tell its tokens.
    """
    if row["prompt_tokens"] is None:
        return None
    return prices.price(row["prompt_tokens"] + row["lost_tokens"], row["completion_tokens"])
