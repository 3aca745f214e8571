"""The costs of a run, stored call by call, so that a restarted run continues its ledger."""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pandas as pd

from ..errors import DataError, option
from ..llms import FatalLLMError, Ledger
from ..llms.ledger import Budget, Spend
from ..portable import digest

COSTS = "costs.jsonl"
SPENT = ("calls", "known", "retries", "prompt_tokens", "cached_tokens", "completion_tokens", "seconds", "cost", "worth")
"""The columns for events that happen once. A restart counts the ledger's other columns again, because they describe the run itself."""


class Account(Ledger):
    """The ledger of one run, over all its starts: a count with a request's key is written to its file at once.

    If an earlier start of the run got the answer to a request, reading it again doesn't count as a cache hit.

    Args:
        path: the file; created when the first event is counted.

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
        self._file: IO[bytes] | None = None
        self._writing = threading.Lock()
        self._earlier: Counter[str] = Counter()
        for event in _events(self.path):
            event.pop(CHECK, None)
            if foreign := event.keys() - {*SPENT, "stage", "model", "served", "key", "answered"}:
                told = f"{self.path} is of an earlier version of this package ({min(foreign)})"
                raise DataError(f"{told}: remove {self.path.parent} and run again; completions in the cache are not paid again")
            self._earlier[event["key"]] += event.pop("answered", False)
            super().count(event.pop("stage"), event.pop("model"), served=event.pop("served", None), key=event.pop("key"), **event)

    def count(self, stage: str, model: str, *, served: Any = None, key: str | None = None, **increments: float | None) -> None:
        """Add to the row of ``stage`` and ``model``. Counts with a key are also written to the file.

        Raises:
            DataError: when the file can't be written.
        """
        spent = {name: value for name, value in increments.items() if key is not None and name in SPENT}
        if rest := {name: value for name, value in increments.items() if name not in spent}:
            self.rest.count(stage, model, served=None if spent else served, key=None, **rest)
        if key is None or not spent:
            return
        answered = "known" in spent or ("cost" in spent and not increments.get("failures"))
        with self._writing:
            if answered and self._earlier[key]:
                self._earlier[key] -= 1
                if "known" in spent:
                    return
            self._write({"stage": stage, "model": model, "key": key, "served": served, **spent, **({"answered": True} if answered else {})})
        super().count(stage, model, served=served, key=key, **spent)

    def close(self) -> None:
        """Close the file. The next event opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _write(self, event: dict[str, Any]) -> None:
        try:
            if self._file is None:
                self._file = _opened(self.path)
            line = json.dumps({**event, CHECK: _checksum(event)}).encode() + b"\n"
            if self._file.write(line) < len(line):
                raise OSError("No space left on device")
        except OSError as error:
            raise DataError(f"{self.path} can't be written ({error.strerror or error}): free space, and run again") from error


class Spending:
    """The cost of all runs in a folder, read from their files: finished and unfinished runs of this and other processes.

    Args:
        out: the folder with a subfolder for each run.
    """

    def __init__(self, out: Path) -> None:
        self.out, self.where = out, str(out)
        self._tallies: dict[Path, _Tally] = {}
        self._lock = threading.Lock()

    def total(self, model: str, price_in: float | None, price_out: float | None) -> float:
        """US dollars so far. Calls of ``model`` with unknown cost are counted at these prices; those of other models are not counted.

        Raises:
            FatalLLMError: when their tokens are not known.
            DataError: when a file can't be read.
        """
        with self._lock:
            tallies = [self._tally(path) for path in self._files()]
        unpriced = sum((tally.unpriced.get(model, Spend()) for tally in tallies), Spend())
        more = Budget(price_in=price_in or 0.0, price_out=price_out or 0.0).price(unpriced.prompt_tokens, unpriced.completion_tokens)
        if more is None:
            raise FatalLLMError(
                f"{self.where} has calls of {model} whose cost is not known, so a budget can't be kept: run without budget=, or "
                f"choose another {option('out')}"
            )
        return sum(tally.priced for tally in tallies) + more

    def _files(self) -> list[Path]:
        try:
            names = {entry.name for entry in os.scandir(self.out)}
        except FileNotFoundError:
            return []
        done = {name for name in names if (self.out / name / "run.json").exists() and not name.endswith(".partial")}
        going = {name for name in names if name.endswith(".partial") and name.removesuffix(".partial") not in done}
        return [self.out / name / "ledger.csv" for name in done] + [self.out / name / COSTS for name in going]

    def _tally(self, path: Path) -> "_Tally":
        try:
            there = path.stat()
        except FileNotFoundError:
            return _Tally()
        tally = self._tallies.get(path)
        if tally is None or tally.inode != there.st_ino or there.st_size < tally.size:
            tally = self._tallies[path] = _Tally(there.st_ino)
        if there.st_size != tally.size:
            tally.add(path)
        return tally


class _Tally:
    """The costs in the part of a file that was read."""

    def __init__(self, inode: int = 0) -> None:
        self.inode, self.size, self.priced = inode, 0, 0.0
        self.unpriced: dict[str, Spend] = {}

    def add(self, path: Path) -> None:
        if path.name != COSTS:
            self.size, rows = path.stat().st_size, _rows(path)
        else:
            with path.open("rb") as file:
                file.seek(self.size)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self.size += len(whole)
            rows = [event for event in _parsed(path, whole) if "cost" in event]
        for row in rows:
            if row["cost"] is None:
                spent = Spend(prompt_tokens=row.get("prompt_tokens"), completion_tokens=row.get("completion_tokens"))
                self.unpriced[row["model"]] = self.unpriced.get(row["model"], Spend()) + spent
            else:
                self.priced += row["cost"]


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        found = pd.read_csv(path, dtype={"model": str}, keep_default_na=False, na_values={"cost": [""], **dict.fromkeys(TOKENS, [""])})
        rows = found[["model", *TOKENS, "cost"]].astype(object)
        return [{str(name): None if pd.isna(value) else value for name, value in row.items()} for row in rows.to_dict("records")]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} can't be read ({error}): what the runs have cost is unknown: remove {path.parent}") from error


TOKENS = ("prompt_tokens", "completion_tokens")


def _events(path: Path) -> Iterator[dict[str, Any]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{path} can't be read ({error.strerror})") from error
    yield from _parsed(path, content)


CHECK = "check"
"""The key of an event's checksum. Events of earlier versions have none."""


def _checksum(event: Mapping[str, Any]) -> str:
    return digest(json.dumps(event, sort_keys=True)).hex()[:8]


def _parsed(path: Path, lines: bytes) -> Iterator[dict[str, Any]]:
    """The events. A line that was cut by a kill or a full disk is skipped.

    Raises:
        DataError: for an event that was changed.
    """
    for line in lines.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "key" in event:
            if CHECK in event and event[CHECK] != _checksum({name: value for name, value in event.items() if name != CHECK}):
                raise DataError(
                    f"{path} was changed, at {line[:60]!r}: what the run has cost is unknown: restore it, or remove {path.parent}"
                )
            yield event


def _opened(path: Path) -> IO[bytes]:
    """The file to append to. After a line that was cut, a new line begins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+b", buffering=0)
    if file.tell():
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
    return file
