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
from ..llms import FatalLLMError, Ledger, LLMFailure
from ..llms.ledger import AMOUNTS, COUNTS, Budget
from ..operator import label_of
from ..progress import doing
from ..runs import RunFolder
from ..runs.folder import COSTS, ENDING, LEDGER
from ..runs.turn_lines import as_json
from ..store.files import drop_cut_line, read_lines

OF_ROWS = (
    "qid",
    "qid_0",
    "qquery",
    "qpushed",
    "qsub",
    "qweight",
)  # columns of a sub-query whose names begin like those of a turn

DECIMALS = 6
LEVEL = 4
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
        ...     _ = RawUtterance()(pd.DataFrame({"qid": ["9-1_3"], "query": ["it"], "qutterance": ["Tea?"]}))
        >>> len(recorder.take(["9-1_3"])) > 0
        True
    """

    def __init__(self, qids: Sequence[str], name_of: Callable[[str], str]) -> None:
        self._turns: dict[str, list[dict[str, Any]]] = {qid: [] for qid in qids}
        self._name_of, self._turn_of = name_of, dict[str, str]()

    def take(self, qids: Sequence[str]) -> bytes:
        """The lines of these turns, those of each one packed by themselves. The recorder then forgets them."""
        self._turn_of = {qid: turn for qid, turn in self._turn_of.items() if turn not in qids}
        texts = [
            "".join(json.dumps(line, default=str) + "\n" for line in self._turns.pop(qid))
            for qid in qids
        ]
        return b"".join(gzip.compress(text.encode(), LEVEL, mtime=0) for text in texts if text)

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
            said = {
                name: value
                for name, value in (("prompt", request.prompt), ("item", request.item))
                if value
            }
            said |= {"messages": list(map(dict, request.messages))}
            said |= (
                {"failure": outcome.reason}
                if isinstance(outcome, LLMFailure)
                else {"completion": outcome.text}
            )
            lines[self._turn_of.get(request.qid, request.qid)].setdefault("asked", []).append(said)
        for qid, name, value in _written(inp, out):
            lines[qid].setdefault("wrote", {})[name] = value
        for kind, query in _queries(inp, out):
            line, own = lines[self._turn_of.get(query["qid"], query["qid"])], query.pop("own", None)
            line.setdefault(kind, []).append(query)
            if own is not None:
                line.setdefault("query", own)
        name = self._name_of(repr(stage))
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


def _written(inp: pd.DataFrame, out: pd.DataFrame) -> Iterator[tuple[str, str, Any]]:
    """The turn columns that the stage added or changed: turn, column, value."""
    whole = "qid_0" not in inp.columns and "qid_0" not in out.columns
    names = [
        name
        for name in map(str, out.columns)
        if (name[:1] == "q" and name[:5] != "query" and name not in OF_ROWS)
    ]
    names += ["query"] if whole and "query" in out.columns else []
    before = _cells(inp, names)
    for name, cells in _cells(out, names).items():
        old = before.get(name, {})
        for qid, value in cells.items():
            was = old.get(qid)
            if not (
                value is was
                or (is_missing(value) and is_missing(was))
                or (qid in old and as_json(value) == as_json(was))
            ):
                yield qid, name, as_json(value)


def _cells(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, dict[Any, Any]]:
    """Of each of these columns that the frame has, the value in each turn's first row, by turn."""
    turns = frame["qid_0" if "qid_0" in frame.columns else "qid"].to_numpy(dtype=object)
    first = np.flatnonzero(~pd.Series(turns, dtype=object).duplicated().to_numpy())
    qids, there = turns[first].tolist(), [name for name in names if name in frame.columns]
    return {name: dict(zip(qids, frame[name].take(first).tolist(), strict=True)) for name in there}


def _queries(inp: pd.DataFrame, out: pd.DataFrame) -> Iterator[tuple[str, dict[str, Any]]]:
    """The passages that a retriever ``found`` for each query, or that a re-ranker ``scored`` anew, in their old order."""
    if "query" not in inp.columns or not {"docno", "score"} <= set(out.columns):
        return
    gave = _lists(out)
    if "docno" not in inp.columns:
        names = {
            name: "own" if name == "qquery" else name
            for name in ("qid", "query", "qsub", "qweight", "qquery")
            if name in inp.columns
        }
        for cells in zip(*(inp[name].tolist() for name in names), strict=True):
            row = dict(zip(names.values(), cells, strict=True))
            yield "found", {"own": row["query"]} | _query(row, gave.get(row["qid"], {}))
        return
    if ("qid_0" in inp.columns) != (
        "qid_0" in out.columns
    ) or "query" not in out.columns:  # it joined sub-queries
        return
    given = _lists(inp)
    if gave == given or any(gave[qid].keys() - given.get(qid, {}).keys() for qid in gave):
        return
    for row in inp[["qid", "query"]].drop_duplicates("qid").to_dict("records"):
        kept = gave.get(row["qid"], {})
        yield (
            "scored",
            _query(row, {docno: kept[docno] for docno in given[row["qid"]] if docno in kept}),
        )


def _query(row: dict[Any, Any], found: dict[str, float]) -> dict[str, Any]:
    return {str(name): as_json(value) for name, value in row.items()} | {
        "docnos": list(found),
        "scores": list(found.values()),
    }


def _lists(frame: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The passages and scores of each query, in the order of the rows. Without a score column, scores are missing."""
    found: dict[str, dict[str, float]] = {}
    scores = (
        frame["score"].astype(float).round(DECIMALS)
        if "score" in frame.columns
        else pd.Series(np.nan, frame.index)
    )
    for qid, docno, score in zip(
        frame["qid"].tolist(), frame["docno"].tolist(), scores.tolist(), strict=True
    ):
        found.setdefault(qid, {})[docno] = score
    return found


# The columns for events that happen once; a restart counts the ledger's other columns again,
# because they describe the run itself.
SPENT = ("calls", "known", "retries", "unanswered", *AMOUNTS)
REST = "ledger.json"  # how the name of a file ends that has a finished batch's other counts


class Account(Ledger):
    """The ledger of one run, over all its starts: a count with a request's key is appended to its file at once.

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
        self.path, self.rest = Path(path), Ledger()
        self._earlier: Counter[str] = Counter()
        drop_cut_line(self.path)
        for _, event in read_lines(self.path):
            self._earlier[event["key"]] += event.pop("answered")
            super().count(**event)

    def count(
        self,
        stage: str,
        model: str,
        *,
        served: Any = None,
        key: str | None = None,
        answered: bool = True,
        **increments: float | None,
    ) -> None:
        """Add to the row of ``stage`` and ``model``. Counts with a key are also written to the file.

        Raises:
            OSError: when the file can't be written.
        """
        spent: dict[str, Any] = {
            name: value for name, value in increments.items() if key is not None and name in SPENT
        }
        rest: dict[str, Any] = {
            name: value for name, value in increments.items() if name not in spent
        }
        if rest:
            self.rest.count(stage, model, served=None if spent else served, **rest)
        if not spent or key is None:
            return
        answered = answered and (
            "known" in spent or ("cost" in spent and not increments.get("failures"))
        )
        with self._lock:
            if answered and self._earlier[key]:
                self._earlier[key] -= 1
                if "known" in spent:
                    return
            event = {
                "stage": stage,
                "model": model,
                "key": key,
                "served": served,
                **spent,
                "answered": answered,
            }
            with self.path.open("ab", buffering=0) as file:
                file.write(json.dumps(event).encode() + b"\n")
        super().count(stage, model, served=served, key=key, **spent)


def ledger_of(folder: RunFolder) -> Ledger:
    """The costs of a run over all its starts, also of one that was stopped or is under way.

    Raises:
        DataError: when they can't be read.
    """
    found = Ledger()
    if not folder.complete:
        for _, event in read_lines(folder.partial / COSTS):
            found.count(**{name: value for name, value in event.items() if name != "answered"})
        for path in sorted(folder.partial.glob(f"[0-9]*.{REST}")):
            for row in json.loads(path.read_text(encoding="utf-8")):
                found.count(**row)
        return found
    path = folder.path / LEDGER
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if missing := {"stage", "model", "served", *COUNTS, *AMOUNTS} - {
                *(rows.fieldnames or ())
            }:
                raise LookupError(
                    f"no column {min(missing)}"
                )  # else a file without rows would be a run that cost nothing
            for row in rows:
                amounts = {name: json.loads(row[name] or "null") for name in (*COUNTS, *AMOUNTS)}
                found.count(row["stage"], row["model"], served=row["served"], **amounts)
        written = folder.parameters().get("ledger_rows", 0)
        if len(found.rows()) < written:
            raise LookupError(f"{len(found.rows())} of {written} rows")  # it was cut
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"{path} can't be read ({error!r}): what the run has cost is unknown: repeat the run"
        ) from None
    return found


class Spending:
    """The cost of all runs in a folder: what it was at the start, and what this process has spent since.

    Args:
        out: the folder with a subfolder for each run.
        now: counts what this process spends.
    """

    def __init__(self, out: Path, now: Ledger) -> None:
        self.where, self._now = str(out), now
        runs = {
            path.with_name(path.name.removesuffix(ENDING))
            for path in out.glob("[!.]*")
            if path.is_dir()
        }
        self._before = [row for path in runs for row in ledger_of(RunFolder(path)).rows()]

    def total(self, model: str, price_in: float | None, price_out: float | None) -> float:
        """US dollars so far. Calls of ``model`` with unknown cost are counted at these prices; those of other models are not counted.

        Raises:
            FatalLLMError: when their tokens are not known.
        """
        rows, priced = (
            [*self._before, *self._now.rows()],
            Budget(price_in=price_in or 0.0, price_out=price_out or 0.0),
        )
        costs = [
            _price(row, priced) for row in rows if row["cost"] is None and row["model"] == model
        ]
        if None in costs:
            told = f"{self.where} has calls of {model} whose cost is not known, so a budget can't be kept"
            raise FatalLLMError(f"{told}: run without budget=, or choose another {option('out')}")
        return sum(cost or 0.0 for cost in (*(row["cost"] for row in rows), *costs))


def _price(row: Mapping[str, Any], prices: Budget) -> float | None:
    """US dollars of the calls in a row, with an estimate for those that got no answer; None if a call doesn't tell its tokens."""
    if row["prompt_tokens"] is None:
        return None
    return prices.price(row["prompt_tokens"] + row["lost_tokens"], row["completion_tokens"])
