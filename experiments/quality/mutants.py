"""Mutation testing: change one thing in a module, check whether a test fails, and print the changes that no test detected.

Usage: ``python experiments/quality/mutants.py fuse submit/checks.py`` (rooms or modules of the package, from the repository's root).
The work is done in a temporary copy. Each mutant is run against the tests of its room that run the changed line, the quickest first, and
against the module's examples. It is killed by the first failure, or if it takes too long. Every mutant runs in a fork of this process, so
the libraries are imported only once.
"""

import argparse
import ast
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mutations import Mutant, mutants

ROOT = Path(__file__).parents[2]
PACKAGE = "pyterrier_ikat"
LIBRARIES = (
    "pandas",
    "pyterrier",
    "hypothesis",
    "pytest",
    "doctest",
    "sqlite3",
    "pytrec_eval",
    "ir_measures",
    "openai",
    "jinja2",
    "tenacity",
    "torch",
    "transformers",
    "tokenizers",
)
AT_IMPORT = ""
"""The context in which coverage records lines that run at import, before any test."""


class Quickest:
    """A pytest plugin that keeps only the tests that run some lines, the quickest first."""

    def __init__(self, seconds: dict[str, float], chosen: set[str]) -> None:
        self.seconds, self.chosen = seconds, chosen

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Choose and order the tests. Examples are always chosen."""
        left = [item for item in items if item.nodeid in self.chosen or item.nodeid not in self.seconds]
        items[:] = sorted(left, key=lambda item: self.seconds.get(item.nodeid, 0.0))


class Profile:
    """A pytest plugin that notes how long each test takes and which lines it runs."""

    def __init__(self, folder: Path) -> None:
        import coverage

        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(data_file=None, source=[str(folder)], config_file=False)
        self.coverage.start()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add the time of one phase of a test."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """From here on, lines are this test's."""
        self.coverage.switch_context(nodeid)

    def lines(self) -> dict[str, dict[int, list[str]]]:
        """File, line -> the tests that run it."""
        self.coverage.stop()
        data = self.coverage.get_data()
        return {Path(name).name: data.contexts_by_lineno(name) for name in data.measured_files()}


def forked(work: Callable[[], int], seconds: float) -> int:
    """The exit status of ``work`` in a child process; -1 if it takes longer than ``seconds``."""
    child = os.fork()
    if child == 0:
        os.setsid()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def run_tests(copy: Path, plugin: Any, *paths: str) -> int:
    """The exit status of pytest on the copy."""
    import hypothesis
    import pytest

    os.chdir(copy)
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)
    search = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # no shrinking, because a failing test is enough
    hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=search)
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={copy}/temporary", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, "--doctest-modules", "--hypothesis-profile=mutants", *paths], plugins=[plugin]))


class Room:
    """One room's tests on a copy of the repository: what they run and how long they take."""

    def __init__(self, copy: Path, name: str, longest: float) -> None:
        self.copy, self.tests, self.longest = copy, f"tests/{name}", longest
        found = copy / "profile"

        def profile() -> int:
            plugin = Profile(copy / PACKAGE / name)
            status = run_tests(copy, plugin, self.tests)
            found.write_bytes(pickle.dumps((plugin.seconds, plugin.lines())))
            return status

        if forked(profile, 1200) != 0:
            raise SystemExit(f"the tests of {name} fail without any mutant: repair them first")
        self.seconds, self.lines = pickle.loads(found.read_bytes())

    def kills(self, module: Path, mutant: Mutant) -> bool:
        """Whether a test fails on the mutant."""
        here = self.lines.get(module.name, {})
        named = {test for line in range(mutant.line, mutant.end + 1) for test in here.get(line, ())}
        candidates = set(self.seconds) if AT_IMPORT in named else named
        chosen = {test for test in candidates if self.seconds.get(test, 0.0) <= self.longest}
        expected = sum(self.seconds.get(test, 0.0) for test in chosen)
        original = module.read_text()
        module.write_text(mutant.source)
        for compiled in module.parent.glob(f"__pycache__/{module.stem}.*"):
            compiled.unlink()  # it could be mistaken for that of a mutant of the same size and second
        try:
            files = {test.partition("::")[0] for test in chosen}
            paths = (*sorted(files), str(module.relative_to(self.copy)))
            return forked(lambda: run_tests(self.copy, Quickest(self.seconds, chosen), *paths), 15 + 3 * expected) not in (0, 5)
        finally:
            module.write_text(original)


def modules(copy: Path, names: list[str]) -> Iterator[Path]:
    """The modules with these names, or in the rooms with these names."""
    for name in names:
        path = copy / PACKAGE / name
        yield from [path] if path.is_file() else sorted(path.glob("*.py"))


def main() -> None:
    """Print the survivors, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", help="rooms (fuse) or modules (submit/checks.py)")
    parser.add_argument("--longest", type=float, default=60.0, metavar="SECONDS", help="leave out tests that take longer")
    given = parser.parse_args()
    names = given.names
    warnings.simplefilter("ignore")
    for library in LIBRARIES:
        __import__(library)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "main"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", "experiments", "docs"))
        (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
        rooms = {name: Room(copy, name, given.longest) for name in {name.split("/")[0] for name in names}}
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        for module in modules(copy, names):
            name = str(module.relative_to(copy / PACKAGE))
            for mutant in mutants(ast.parse(module.read_text())):
                killed = rooms[module.parent.name].kills(module, mutant)
                counts[name]["killed" if killed else "survived"] += 1
                if not killed:
                    print(f"{name}:{mutant.line}: {mutant.change}", flush=True)
            print(f"{name}: {counts[name].total()} mutants, {counts[name]['survived']} survived", flush=True)
    total = sum(counts.values(), Counter())
    print(f"{total.total()} mutants, {total['killed']} killed, {total['survived']} survived")


if __name__ == "__main__":
    main()
