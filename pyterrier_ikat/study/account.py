"""The costs of a run, stored call by call, so that a restarted run continues its ledger."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

from ..errors import DataError, option
from ..llms import FatalLLMError, Ledger
from ..llms.ledger import AMOUNTS, COUNTS, Budget
from ..runs import RunFolder
from ..runs.folder import COSTS, ENDING
from ..store.files import drop_cut_line, read_lines

# The columns for events that happen once; a restart counts the ledger's other columns again, because they describe the run itself.
SPENT = ("calls", "known", "retries", "prompt_tokens", "cached_tokens", "completion_tokens", "seconds", "cost", "worth")
REST = "ledger.json"  # how the name of a file ends that has a finished batch's other counts


class Account(Ledger):
    """The ledger of one run, over all its starts: a count with a request's key is appended to its file at once.

    If an earlier start of the run got the answer to a request, reading it again doesn't count as a cache hit.

    Args:
        path: the file, in a folder that exists; created when the first event is counted.

    Attributes:
        rest: the counts that aren't kept in the file.

    Example:
        >>> from pyterrier_ikat.study.account import Account
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

    def count(self, stage: str, model: str, *, served: Any = None, key: str | None = None, **increments: float | None) -> None:
        """Add to the row of ``stage`` and ``model``. Counts with a key are also written to the file.

        Raises:
            OSError: when the file can't be written.
        """
        spent: dict[str, Any] = {name: value for name, value in increments.items() if key is not None and name in SPENT}
        rest: dict[str, Any] = {name: value for name, value in increments.items() if name not in spent}
        if rest:
            self.rest.count(stage, model, served=None if spent else served, **rest)
        if not spent or key is None:
            return
        answered = "known" in spent or ("cost" in spent and not increments.get("failures"))
        with self._lock:
            if answered and self._earlier[key]:
                self._earlier[key] -= 1
                if "known" in spent:
                    return
            event = {"stage": stage, "model": model, "key": key, "served": served, **spent, "answered": answered}
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
    path = folder.path / "ledger.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if missing := {"stage", "model", "served", *COUNTS, *AMOUNTS} - {*(rows.fieldnames or ())}:
                raise LookupError(f"no column {min(missing)}")  # else a file without rows would be a run that cost nothing
            for row in rows:
                amounts = {name: json.loads(row[name] or "null") for name in (*COUNTS, *AMOUNTS)}
                found.count(row["stage"], row["model"], served=row["served"], **amounts)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path} can't be read ({error!r}): what the run has cost is unknown: repeat the run") from None
    return found


class Spending:
    """The cost of all runs in a folder: what it was at the start, and what this process has spent since.

    Args:
        out: the folder with a subfolder for each run.
        now: counts what this process spends.
    """

    def __init__(self, out: Path, now: Ledger) -> None:
        self.where, self._now = str(out), now
        runs = {path.with_name(path.name.removesuffix(ENDING)) for path in out.glob("[!.]*") if path.is_dir()}
        self._before = [row for path in runs for row in ledger_of(RunFolder(path)).rows()]

    def total(self, model: str, price_in: float | None, price_out: float | None) -> float:
        """US dollars so far. Calls of ``model`` with unknown cost are counted at these prices; those of other models are not counted.

        Raises:
            FatalLLMError: when their tokens are not known.
        """
        rows, priced = [*self._before, *self._now.rows()], Budget(price_in=price_in or 0.0, price_out=price_out or 0.0).price
        costs = [priced(row["prompt_tokens"], row["completion_tokens"]) for row in rows if row["cost"] is None and row["model"] == model]
        if None in costs:
            told = f"{self.where} has calls of {model} whose cost is not known, so a budget can't be kept"
            raise FatalLLMError(f"{told}: run without budget=, or choose another {option('out')}")
        return sum(cost or 0.0 for cost in (*(row["cost"] for row in rows), *costs))
