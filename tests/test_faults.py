"""The faults of experiments/quality fit the code and name a test.

So none counts as detected because it breaks the syntax.
"""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "quality"))
    yield importlib.import_module("faults")
    del sys.modules["faults"]


def test_each_fault_is_of_one_place_and_names_a_test(faults):
    stale = {}
    for fault in faults.FAULTS:
        why = faults.stale(fault)
        if why:
            stale[f"{fault.function}: {fault.what}"] = why
    assert stale == {}
    assert len(faults.FAULTS) >= 100


def test_each_fault_changes_the_code_and_leaves_its_syntax(faults):
    for fault in faults.FAULTS:
        module, faulty = faults.with_fault(fault)
        assert ast.dump(ast.parse(faulty)) != ast.dump(
            ast.parse(module.read_text(encoding="utf-8"))
        ), fault


def test_a_line_that_is_moved_leaves_its_fault_in_place(faults, tmp_path, monkeypatch):
    package = tmp_path / "pyterrier_ikat"
    package.mkdir()
    monkeypatch.setattr(faults, "ROOT", tmp_path)
    fault = faults.Fault("Cup.fill", "", "+ 1", "+ 2", "")
    for lines_above in (0, 7):
        source = (
            "x = 0 + 1\n" * lines_above
            + "class Cup:\n    def fill(self, tea):\n        return tea + 1\n"
        )
        (package / "cups.py").write_text(source)
        faults.sections.cache_clear()
        module, faulty = faults.with_fault(fault)
        assert (module, faulty) == (package / "cups.py", source.replace("tea + 1", "tea + 2"))
