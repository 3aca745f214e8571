"""Realistic faults in all rooms, each with the test that detects it.

They are off-by-ones, wrong ties, costs that are counted twice, stale cache keys and the like.

Usage: ``python experiments/quality/faults.py [WORD ...]`` (only faults with one of these words in
their function, description or test). It works in a temporary copy, and takes some minutes. A rate
for whole modules is ``make mutants``.

``faults.txt`` has a block for each fault. It names the function, method or constant and the text
that is changed there, no line and no module, so that code can be moved::

    Class.method: what is wrong then, in one line
    - the text to remove, which occurs once in the function
    + the text to put there
    = tests/ROOM/test_file.py::the_test_that_kills_it
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = "pyterrier_ikat"
LONGEST = 300.0
"""Seconds for a test. One that takes longer has not detected the fault."""


class Fault(NamedTuple):
    """A change of a function: ``old``, which it has once, becomes ``new``, and ``test`` fails."""

    function: str
    what: str
    old: str
    new: str
    test: str


class Place(NamedTuple):
    """Where a fault's text is: the module, and the characters that it takes there."""

    module: Path
    start: int
    end: int


def read_faults() -> list[Fault]:
    """The faults of ``faults.txt``."""
    text = (Path(__file__).parent / "faults.txt").read_text(encoding="utf-8")
    faults = []
    for block in text.rstrip().split("\n\n"):
        head, *lines = block.split("\n")
        function, _, what = head.partition(": ")
        old = _marked("- ", lines)
        new = _marked("+ ", lines)
        faults.append(Fault(function, what, old, new, _marked("= ", lines)))
    return faults


def _marked(mark: str, lines: list[str]) -> str:
    """The lines that begin with a mark, without it."""
    return "\n".join(line.removeprefix(mark) for line in lines if line.startswith(mark))


FAULTS = read_faults()


def definitions(body: list[ast.stmt], of: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """The functions, methods and constants among statements, by name, also those of classes."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from definitions(node.body, f"{of}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{of}{node.name}", node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield f"{of}{ast.unparse(target)}", node


@cache
def sections() -> dict[str, list[Place]]:
    """Where each function, method and constant of the package is, by name."""
    found: dict[str, list[Place]] = {}
    for module in sorted((ROOT / PACKAGE).rglob("*.py")):
        source = module.read_text(encoding="utf-8")
        starts = [0]
        for line in source.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        for name, node in definitions(ast.parse(source).body):
            found.setdefault(name, []).append(
                Place(module, starts[node.lineno - 1], starts[node.end_lineno or 0])
            )
    return found


def places(fault: Fault) -> list[Place]:
    """Where the text of a fault is, in all functions of its name."""
    found = []
    for section in sections().get(fault.function, []):
        source = section.module.read_text(encoding="utf-8")
        start = source.find(fault.old, section.start, section.end)
        while start >= 0:
            found.append(Place(section.module, start, start + len(fault.old)))
            start = source.find(fault.old, start + 1, section.end)
    return found


def with_fault(fault: Fault) -> tuple[Path, str]:
    """The module of a fault, and its text with the fault."""
    (place,) = places(fault)
    source = place.module.read_text(encoding="utf-8")
    return place.module, source[: place.start] + fault.new + source[place.end :]


def outcome(copy: Path, fault: Fault) -> str:
    """``killed`` if the test fails, ``survived`` if it passes, ``unknown`` if it can't be run."""
    original, faulty = with_fault(fault)
    module = copy / original.relative_to(ROOT)
    module.write_text(faulty, encoding="utf-8")
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-n0", "-pno:cacheprovider"]
    command += ["--doctest-modules", fault.test]
    try:
        env = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=LONGEST)
        status = done.returncode
    except subprocess.TimeoutExpired:
        status = -1
    finally:
        shutil.copyfile(original, module)
    return {0: "survived", 1: "killed"}.get(status, "unknown")


def stale(fault: Fault) -> str:
    """Why a fault can't be put into the current code, or its test isn't there; empty if it can."""
    file, _, test = fault.test.partition("::")
    if not (ROOT / file).exists():
        return f"there is no {file}"
    name = test.rpartition(".")[2].partition("[")[0]
    if name not in (ROOT / file).read_text(encoding="utf-8"):
        return f"{file} has no {name}"
    if fault.function not in sections():
        return f"the package has no {fault.function}"
    count = len(places(fault))
    return "" if count == 1 else f"{fault.function} has {count} times {fault.old!r}"


def main() -> None:
    """Print the outcome of each fault, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "words",
        nargs="*",
        help="of the faults' functions, descriptions and tests; without any all faults",
    )
    words = parser.parse_args().words
    faults = []
    for fault in FAULTS:
        text = f"{fault.function} {fault.what} {fault.test}"
        if not words or any(word in text for word in words):
            faults.append(fault)
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "main"
        shutil.copytree(
            ROOT,
            copy,
            ignore=shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", ".venv", "mutants"),
        )
        (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
        for fault in faults:
            began = time.monotonic()
            why = stale(fault)
            became = f"stale ({why})" if why else outcome(copy, fault)
            counts[became] = counts.get(became, 0) + 1
            seconds = time.monotonic() - began
            print(
                f"{became}: {fault.function}: {fault.what} ({seconds:.0f} s) {fault.test}",
                flush=True,
            )
    shown = [f"{count} {became}" for became, count in sorted(counts.items())]
    print(f"{len(faults)} faults: {', '.join(shown)}")


if __name__ == "__main__":
    main()
