"""The benchmarks: ours, what a user would write today and the computed limit, on the same inputs in one run.

    python experiments/performance/bench.py                     # all of them, as `make bench`
    python experiments/performance/bench.py fusion --out fusion.json

A benchmark is a module in this folder with ``rows() -> Iterator[Row]``. Nothing here is a test: times depend on the machine, so the JSON
file names the machine and the versions. In an existing file, results of other benchmarks, and of the same ones with other settings, are
kept. New results replace those of the same command.
"""

import gc
import importlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import click

from pyterrier_ikat.store import cache as result_cache
from pyterrier_ikat.store.files import atomic_write

BENCHMARKS: dict[str, tuple[str, ...]] = {
    "startup": (),
    "counts": (),
    "llm_stage": (),
    "llm_client": (),
    "listwise": (),
    "search": ("IKAT_BENCH_PASSAGES", "IKAT_BENCH_VECTORS"),
    "reranking": (),
    "fusion": (),
    "evaluation": (),
    "memory": (),
    "user_memory": (),
    "statements": (),
    "load": (),
    "readers": ("IKAT_BENCH_PASSAGES", "IKAT_BENCH_SECONDS"),
    "report_size": (),
    "serve": (),
    "first_word": (),
}
"""Name of a benchmark -> the environment variables that configure it."""
PACKAGES = (
    "pyterrier",
    "pyterrier-pisa",
    "pyterrier-dr",
    "pandas",
    "numpy",
    "torch",
    "transformers",
    "sentence-transformers",
    "openvino",
    "optimum-intel",
    "ir-measures",
    "openai",
    "bm25s",
    "numba",
    "faiss-cpu",
    "litellm",
)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        task: the work and its size.
        ours: seconds that our operator takes, the median of several runs.
        today: seconds of what a user would write today; None if there is no alternative.
        instead: a description of that.
        limit: the minimum number of seconds for the work; None if it can't be computed.
        why: how the limit is computed: bytes, operations or calls divided by the rate of the machine (or server).
        more: further figures, such as how well the results agree.
    """

    task: str
    ours: float
    today: float | None
    instead: str
    limit: float | None
    why: str
    more: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """The row as it is printed."""
        shown = f"{self.task}: ours {self.ours:.3g} s"
        if self.today is not None:
            shown += f"; {self.instead} {self.today:.3g} s = {self.today / self.ours:.2f} x ours"
        if self.limit is not None:
            shown += f"; limit {self.limit:.3g} s ({self.why}), ours is {self.ours / self.limit:.2f} x that"
        for name, value in self.more.items():
            shown += f"; {name} {value:.4g}" if isinstance(value, float) else f"; {name} {value}"
        return shown


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
    """The smallest CPU time of several runs, after ``warm`` ones that don't count. Other programs only increase it."""
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


def command(name: str) -> str:
    """The command for the rows of a benchmark, with its settings. A path becomes ``PATH``."""
    given = {setting: os.environ[setting] for setting in BENCHMARKS[name] if setting in os.environ}
    settings = [f"{setting}={value if re.fullmatch('[0-9.,]+', value) else 'PATH'} " for setting, value in given.items()]
    return f"{''.join(settings)}python experiments/performance/bench.py {name}"


def machine() -> dict[str, Any]:
    """The machine on which the figures were measured."""
    cpu = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    versions = {name: metadata.version(name) for name in PACKAGES if _installed(name)}
    date, commit = datetime.now(timezone.utc).strftime("%Y-%m-%d"), _output("git", "rev-parse", "--short", "HEAD")
    return {
        "date": date,
        "commit": commit,
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": versions,
    }


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip()


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def _installed(name: str) -> bool:
    return any(metadata.distributions(name=name))


def _run(name: str) -> dict[str, Any]:
    """The rows of one benchmark, printed as they come, with the command that makes them and the machine."""
    click.echo(f"\n{name}")
    found: dict[str, Any] = {"benchmark": name, "command": command(name), "machine": machine(), "rows": []}
    for row in importlib.import_module(name).rows():
        click.echo(f"  {row.line()}")
        found["rows"].append(asdict(row))
    return found


def _kept(path: Path) -> dict[str, Any]:
    """The content of the file, by command."""
    if not path.exists():
        return {}
    try:
        return {run["command"]: run for run in json.loads(path.read_text(encoding="utf-8"))["runs"]}
    except (ValueError, KeyError, TypeError) as error:
        raise click.UsageError(
            f"{path} is not a file of these benchmarks ({error!r}): name another one with --out, or move it away"
        ) from error


def _write(path: Path, runs: Mapping[str, Any]) -> None:
    """Write them in the order of ``BENCHMARKS``."""
    ordered = [run for name in BENCHMARKS for run in runs.values() if run["benchmark"] == name]
    with atomic_write(path) as file:
        file.write(json.dumps({"runs": ordered}, indent=1) + "\n")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--out", type=click.Path(dir_okay=False), default="bench.json", show_default=True, help="the JSON file to write or renew")
def main(names: tuple[str, ...], out: str) -> None:
    """Run the benchmarks NAMES, all of them by default, one after the other."""
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        raise click.UsageError(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    runs = _kept(Path(out))
    for name in names or BENCHMARKS:
        found = _run(name)
        if not found["rows"]:
            click.echo("  this machine has nothing to measure it on")
            continue
        runs[found["command"]] = found
        _write(Path(out), runs)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
