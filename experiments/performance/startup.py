"""How long a process takes to start: importing the package, and ``ikat --help``. The aim is less than a second.

Every figure is the median of 7 fresh processes, after one that doesn't count, because it reads the files from the disk. The kinds of
processes alternate, so that a busy machine affects all of them. Nothing that imports the package can be faster than PyTerrier's own import.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from bench import Row

PROCESSES = 7
PYTERRIER, PACKAGE = "import pyterrier", "import pyterrier_ikat"
HELP = "from pyterrier_ikat.cli import main; main(['--help'])"


def rows() -> Iterator[Row]:
    """The import and the help text, against the import of PyTerrier."""
    least, package, shown = _medians([PYTERRIER, PACKAGE, HELP])
    for task, seconds in ((f"python -c '{PACKAGE}'", package), ("ikat --help", shown)):
        yield Row(f"{task}, a fresh process", seconds, None, "", least, f"python -c '{PYTERRIER}'")


def _medians(codes: Sequence[str]) -> list[float]:
    rounds = [[_seconds(code) for code in codes] for _ in range(1 + PROCESSES)]
    return [statistics.median(taken) for taken in zip(*rounds[1:], strict=True)]


def _seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started
