"""No name leaves its folder, no archive is unpacked, no pickle is read.

Nothing that was read is run.
"""

import json
from pathlib import Path

import pandas as pd
import pyterrier as pt
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations.datasets import IkatProvider
from pyterrier_ikat.conversations.download import data_file
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import find
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import write_submission

PACKAGE = Path(ikat.__file__).parent
OUTSIDE = [
    "../secret",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "a/../../b",
    "ikat:../sample",
    "sample/../sample",
    "C:\\x",
    "sample\0",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_path_is_no_data_file_method_or_uncollected_dataset(name, home, monkeypatch):
    monkeypatch.setitem(
        pt.datasets._core._loaded_providers, "ikat", IkatProvider()
    )  # whether or not the package is installed
    for look_up in (ikat.dataset, data_file, find):
        with pytest.raises(UsageError):
            look_up(name)
    with pytest.raises(UsageError):
        pt.get_dataset(f"ikat:{name}")
    assert not home.exists()


def test_command_line_run_name_is_a_method_and_leaves_nothing(tmp_path):
    for name in OUTSIDE[:6]:
        done = CliRunner().invoke(
            main,
            [
                "run",
                name,
                "--dataset",
                "ikat:sample",
                "--index",
                str(tmp_path),
                "--out",
                str(tmp_path / "runs"),
            ],
        )
        assert (done.exit_code, "Traceback" in done.output) == (2, False)
    assert list(tmp_path.iterdir()) == []


def test_run_id_of_a_submission_is_text_in_the_file_and_no_path(tmp_path):
    dataset = ikat.dataset("ikat:sample")
    turns, run, folder = (
        dataset.get_topics()[["qid"]],
        RunFolder(tmp_path / "run"),
        tmp_path / "mine",
    )
    found = turns.assign(
        docno="sample-walk-001:0", score=1.5, rank=0, used=True, qanswer="Rooibos has no caffeine."
    )
    run.write(turns, found, pd.DataFrame(), pd.DataFrame(), {})
    before = set(tmp_path.rglob("*"))
    write_submission(
        run, dataset, folder / "run.json", run_id="../../escaped", run_type="automatic"
    )
    assert set(tmp_path.rglob("*")) - before == {folder, folder / "run.json"}
    assert json.loads((folder / "run.json").read_text())["run_name"] == "../../escaped"


def test_docnos_are_no_paths(tmp_path):
    passages = [
        {"docno": "../../d1", "text": "Rooibos has no caffeine."},
        {"docno": "/etc/passwd", "text": "Coffee has."},
    ]
    index = ikat.PassageIndex(tmp_path / "in" / "i").index(passages)
    assert index.texts(["/etc/passwd", "../../d1"]) == ["Coffee has.", "Rooibos has no caffeine."]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["i"]
