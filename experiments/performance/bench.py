"""The benchmarks: ours, what a user would write today, and the limit, on the same inputs.

    python experiments/performance/bench.py                        # all of them, as `make bench`
    python experiments/performance/bench.py search --out mine.csv

A benchmark is a module in this folder with ``rows() -> Iterator[Row]``. Nothing here is a test:
times depend on the machine. ``--out`` writes the rows into a CSV file like ``results.csv``, from
which docs/performance.md is made; a row that is measured again is replaced.
"""

import csv
import gc
import importlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

import click

from pyterrier_ikat.store import cache as result_cache
from pyterrier_ikat.store.files import atomic_write

BENCHMARKS = (
    "search",
    "reranking",
    "llm_stage",
    "llm_client",
    "fusion",
    "evaluation",
    "report",
    "serve",
    "load",
)
UNITS = {"s": 1.0, "s of CPU, 1 thread": 1.0, "ms of CPU": 1e3, "ms of CPU, 1 thread": 1e3}
COLUMNS = ("benchmark", "stage", "unit", "ours", "best other", "limit", "measured")
Line = dict[str, str]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        stage: the work and its size.
        ours: the seconds that our operator takes.
        others: the seconds of other ways to do the same, by name.
        limit: the seconds that the machine, the server or the library below us needs; None if that
            isn't known.
        unit: of ``UNITS``, to show the seconds in.
        more: further figures, which are printed.
    """

    stage: str
    ours: float
    others: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None
    unit: str = "s"
    more: Mapping[str, Any] = field(default_factory=dict)

    def line(self, benchmark: str, measured: str) -> Line:
        """The row as the file has it."""
        other = ""
        if self.others:
            best = min(self.others, key=self.others.__getitem__)
            other = f"{self._shown(self.others[best])} ({best})"
        limit = "" if self.limit is None else self._shown(self.limit)
        ours = self._shown(self.ours)
        cells = (benchmark, self.stage, self.unit, ours, other, limit, measured)
        return dict(zip(COLUMNS, cells, strict=True))

    def _shown(self, seconds: float) -> str:
        value = seconds * UNITS[self.unit]
        return f"{value:.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")

    def __str__(self) -> str:
        figures = [f"ours {self._shown(self.ours)}"]
        for name, seconds in self.others.items():
            figures.append(f"{name} {self._shown(seconds)}")
        if self.limit is not None:
            figures.append(f"limit {self._shown(self.limit)}")
        for name, value in self.more.items():
            shown = f"{value:.4g}" if isinstance(value, float) else str(value)
            figures.append(f"{name} {shown}")
        return f"{self.stage} ({self.unit}): {'; '.join(figures)}"


def median_seconds(work: Callable[[], Any], repeats: int = 3, warm: int = 1) -> float:
    """The median time of ``work``, after ``warm`` runs that don't count."""
    for _ in range(warm):
        work()
    taken = []
    for _ in range(repeats):
        gc.collect()
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def cpu_seconds(work: Callable[[], Any], repeats: int = 7, warm: int = 1) -> float:
    """The smallest CPU time of several runs, after ``warm`` ones that don't count.

    Other programs only increase it.
    """
    for _ in range(warm):
        work()
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def anew(work: Callable[..., Result], *given: Any) -> Result:
    """``work(*given)`` with an empty cache, so that searches and scores are computed again."""
    result_cache._opened.clear()
    return work(*given)


def measured() -> str:
    """The day and the commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    ).stdout
    return f"{datetime.now(timezone.utc):%Y-%m-%d} {commit}".strip()


def write(path: Path, lines: Iterable[Line]) -> None:
    """Add lines to the file; one of the same stage is replaced."""
    by_stage: dict[tuple[str, str], Line] = {}
    before: list[Line] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            before = list(csv.DictReader(file))
    for line in [*before, *lines]:
        by_stage[line["benchmark"], line["stage"]] = line
    ordered = sorted(by_stage.values(), key=lambda line: BENCHMARKS.index(line["benchmark"]))
    with atomic_write(path) as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(ordered)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(BENCHMARKS))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="a CSV file to write, or whose rows are renewed",
)
def main(names: tuple[str, ...], out: Path | None) -> None:
    """Run the benchmarks NAMES, all of them by default, one after the other."""
    for name in names or BENCHMARKS:
        click.echo(f"\n{name}")
        lines = []
        for row in importlib.import_module(name).rows():
            click.echo(f"  {row}")
            lines.append(row.line(name, measured()))
        if out:
            write(out, lines)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
