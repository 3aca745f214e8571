"""The benchmarks: ours, what a user would write today and the worked-out limit, on the same inputs in one run.

    python experiments/performance/bench.py                     # all of them, as `make bench`
    python experiments/performance/bench.py fusion --out fusion.json

A benchmark is a module in this folder with ``rows() -> Iterator[Row]``. Nothing here is a test: times depend on the machine, which is
why the JSON file says which machine and which versions they were measured with.
"""

import gc
import importlib
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import click

BENCHMARKS = ("counts", "llm_stage", "bm25", "reranking", "fusion", "evaluation", "memory", "load", "readers", "ray_scale", "report_size")
PACKAGES = (
    "pyterrier",
    "pyterrier-pisa",
    "pandas",
    "numpy",
    "torch",
    "transformers",
    "sentence-transformers",
    "openvino",
    "ir-measures",
    "openai",
)


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        task: what is done, on how much.
        ours: seconds that our operator takes, the median of several runs.
        today: seconds of what a user would write today; None where there is nothing that does it.
        instead: what that is.
        limit: seconds that the work takes at the least; None where it can't be worked out.
        why: how the limit is worked out: bytes, operations or calls over what the machine (or server) does.
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


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    versions = {name: metadata.version(name) for name in PACKAGES if _installed(name)}
    return {"cpu": cpu, "cores": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version(), "versions": versions}


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []


def _installed(name: str) -> bool:
    return any(metadata.distributions(name=name))


def _run(name: str) -> Iterator[Row]:
    yield from importlib.import_module(name).rows()


@click.command()
@click.argument("names", nargs=-1)
@click.option("--out", type=click.Path(dir_okay=False), default="bench.json", show_default=True, help="the JSON file to write")
def main(names: tuple[str, ...], out: str) -> None:
    """Run the benchmarks NAMES, all of them by default, one after the other."""
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        raise click.UsageError(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    found: dict[str, Any] = {"machine": machine(), "rows": []}
    for name in names or BENCHMARKS:
        click.echo(f"\n{name}")
        for row in _run(name):
            click.echo(f"  {row.line()}")
            found["rows"].append({"benchmark": name, **asdict(row)})
            Path(out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
