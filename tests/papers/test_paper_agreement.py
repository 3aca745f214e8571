"""The papers' tables of two judges' labels: on the sample, and what may stand beside."""

import csv
import importlib.util
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import write_qrels
from pyterrier_ikat.llms.recorded import SAMPLE
from pyterrier_ikat.papers.published import find_table
from pyterrier_ikat.papers.reproduction import Relabelled

SCRIPT = Path(__file__).parents[2] / "experiments" / "quality" / "sample_labels.py"


def test_the_samples_recorded_labels_are_those_the_script_makes():
    spec = importlib.util.spec_from_file_location("sample_labels", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    lines = map(json.loads, SAMPLE["sample"].read_text(encoding="utf-8").splitlines())
    assert [line for line in lines if line["stage"] == "judge"] == list(script.records())
    assert script.label_of("1-1_1", "sample-walk-001:0", 3) == 2
    assert {script.label_of("q", str(n), 4) for n in range(50)} == {3, 4}
    assert {script.label_of("q", str(n), 0) for n in range(50)} == {0, 1}


def matrix_of(number, tmp_path):
    arguments = [
        "paper",
        "generate_then_retrieve",
        number,
        "--resources",
        "sample",
        "--out",
        str(tmp_path),
    ]
    found = CliRunner().invoke(main, [*arguments, "--format", "csv"])
    assert found.exit_code == 0, found.output
    return list(csv.DictReader(io.StringIO(found.output))), CliRunner().invoke(
        main, arguments
    ).output


def test_matrices_run_on_the_sample_without_published_figures(tmp_path):
    rows, text = matrix_of("4", tmp_path)
    gold = ikat.dataset("ikat:sample").get_qrels().rename(columns={"label": "gold"})
    labels = []
    for written in SAMPLE["sample"].read_text(encoding="utf-8").splitlines():
        line = json.loads(written)
        if line["stage"] == "judge":
            labels.append((line["qid"], line["item"], int(line["completion"][0])))
    both = gold.merge(pd.DataFrame(labels, columns=["qid", "docno", "label"]))
    assert len(both) == 387
    for row in rows:
        for other in "01234":
            assert (
                int(row[other])
                == ((both["label"] == int(row["label"])) & (both["gold"] == int(other))).sum()
            )
        assert "is no evidence" in row["notes"]
        assert "the pairs of ikat:2023" in row["notes"]
    assert "8743" not in text
    same = ((both["label"] >= 2) == (both["gold"] >= 2)).mean()
    assert f"387 of 387 pairs, binary agreement {same:.2%}" in text
    rows, text = matrix_of("2", tmp_path)
    assert [row["label"] for row in rows] == ["< 2", ">= 2"]
    assert "66.84" not in text


@pytest.mark.parametrize("name", ["ikat:2023", "ikat:2023-mini", "ikat:2024"])
def test_published_counts_stand_only_by_those_of_the_same_pairs(tmp_path, name):
    qrels = pd.DataFrame({"qid": "9-1_3", "docno": ["a", "b", "c"], "label": [1, 1, 3]})
    data = SimpleNamespace(name=name, year=int(name[5:9]), get_qrels=lambda: qrels)
    table = Relabelled(find_table("generate_then_retrieve", "4"), data, "openai:gpt-4o", tmp_path)
    write_qrels(qrels, table.labels)
    for form in ("text", "csv", "latex", "markdown"):
        said = table.shown().written(form)
        assert ("8743" in said) == (name == "ikat:2023")
        assert ("The paper's judge is gpt-3.5-turbo" in said) == (name == "ikat:2023")
        assert ("No published count stands beside ours" in said) == (name != "ikat:2023")
    rows = list(csv.DictReader(io.StringIO(table.shown().written("csv"))))
    assert [(row["label"], row["1"]) for row in rows][:5] == list(
        zip("01234", "02000", strict=True)
    )  # nobody gave 0, 2 or 4
    assert (
        "The published counts are about 22,684 pairs" in " ".join(table.shown().written().split())
    ) == (name == "ikat:2023")


@pytest.mark.parametrize(
    ("spec", "same"),
    [
        ("openai:gpt-3.5-turbo", True),
        ("openai:gpt-3.5-turbo-0125 temperature=0", True),
        ("openai:gpt-4o", False),
        ("recorded:sample", False),
    ],
)
def test_the_papers_judge_is_told_only_beside_another_model(tmp_path, spec, same):
    qrels = pd.DataFrame({"qid": "9-1_3", "docno": ["a", "b", "c"], "label": [1, 1, 3]})
    data = SimpleNamespace(name="ikat:2023", year=2023, get_qrels=lambda: qrels)
    table = Relabelled(find_table("generate_then_retrieve", "4"), data, spec, tmp_path)
    write_qrels(qrels, table.labels)
    assert ("The paper's judge is" not in table.shown().written()) == same
