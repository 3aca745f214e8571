"""Realistic faults in all rooms, each with the test that detects it: an off-by-one, a wrong tie, a cost counted twice, a stale cache key.

Usage: ``python experiments/quality/faults.py [WORD ...]`` (only faults with one of these words in their file or text). It works in a
temporary copy, and takes some minutes. A rate for whole modules is ``make mutants``.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = "pyterrier_ikat"
LONGEST = 300.0
"""Seconds for a test. One that takes longer has not detected the fault."""


class Fault(NamedTuple):
    """A change of one module: ``old``, which occurs there once, becomes ``new``, and ``test`` fails."""

    where: str
    what: str
    old: str
    new: str
    test: str


def read_faults() -> list[Fault]:
    """The faults of ``faults.txt``: module and text, what to remove (``- ``), what to put there (``+ ``), the test (``= ``)."""
    found = []
    for block in (Path(__file__).parent / "faults.txt").read_text(encoding="utf-8").rstrip().split("\n\n"):
        where, _, what = block.partition("\n")[0].partition(": ")
        old, new, test = ("\n".join(line[2:] for line in block.split("\n") if line.startswith(mark)) for mark in ("- ", "+ ", "= "))
        found.append(Fault(where, what, old, new, test))
    return found


FAULTS = read_faults()


def outcome(copy: Path, fault: Fault) -> str:
    """``killed`` if the test fails; ``survived`` if it passes; ``unknown`` if it takes too long or isn't found."""
    module = copy / PACKAGE / fault.where
    original = module.read_text(encoding="utf-8")
    module.write_text(original.replace(fault.old, fault.new), encoding="utf-8")
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--doctest-modules", fault.test]
    try:
        env = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
        status = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=LONGEST).returncode
    except subprocess.TimeoutExpired:
        status = -1
    finally:
        module.write_text(original, encoding="utf-8")
    return {0: "survived", 1: "killed"}.get(status, "unknown")


def stale(fault: Fault) -> str:
    """Why a fault can't be put into the current code, or its test isn't there; empty if it can."""
    path, (file, _, test) = ROOT / PACKAGE / fault.where, fault.test.partition("::")
    if not path.exists() or not (ROOT / file).exists():
        return "its module or its test file is gone"
    if (name := test.rpartition(".")[2]) not in (ROOT / file).read_text(encoding="utf-8"):
        return f"{file} has no {name}"
    count = path.read_text(encoding="utf-8").count(fault.old)
    return "" if count == 1 else f"it has {count} times {fault.old!r}"


def main() -> None:
    """Print the outcome of each fault, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="of the faults' files and descriptions; without any all faults")
    words = parser.parse_args().words
    faults = [fault for fault in FAULTS if not words or any(word in f"{fault.where} {fault.what}" for word in words)]
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "main"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", ".venv", "mutants"))
        (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
        for fault in faults:
            began = time.monotonic()
            became = f"stale ({why})" if (why := stale(fault)) else outcome(copy, fault)
            counts[became] = counts.get(became, 0) + 1
            print(f"{became}: {fault.where}: {fault.what} ({time.monotonic() - began:.0f} s) {fault.test}", flush=True)
    print(f"{len(faults)} faults: " + ", ".join(f"{count} {became}" for became, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
