"""The faults of experiments/quality fit the code and name a test, so none counts as detected because it breaks the syntax."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_fault_changes_one_place_and_leaves_code_that_parses(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "quality"))
    import faults

    assert [f"{fault.where}: {why}" for fault in faults.FAULTS if (why := faults.stale(fault))] == []
    assert len(faults.FAULTS) >= 60
    sources = {fault.where: (ROOT / faults.PACKAGE / fault.where).read_text(encoding="utf-8") for fault in faults.FAULTS}
    trees = {where: ast.dump(ast.parse(source)) for where, source in sources.items()}
    for fault in faults.FAULTS:
        assert ast.dump(ast.parse(sources[fault.where].replace(fault.old, fault.new))) != trees[fault.where], fault
    del sys.modules["faults"]
