"""The faults of experiments/quality/faults.py fit the code, so none of them counts as detected because it breaks the syntax."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_fault_changes_one_place_and_leaves_code_that_parses(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "quality"))
    import faults

    listed = [*faults.FAULTS, *faults.deletions()]
    assert [f"{fault.where}: {why}" for fault in listed if (why := faults.stale(fault))] == []
    for fault in listed:
        module = ROOT / faults.PACKAGE / fault.where
        if module.suffix == ".py":
            source = module.read_text(encoding="utf-8")
            changed = source.replace(fault.old, fault.new)
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), fault
    del sys.modules["faults"]
