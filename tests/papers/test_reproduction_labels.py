"""The papers' tables of two judges' labels: pairs judged again, and what may stand beside."""

import csv
import importlib.util
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner
from papers.written_runs import PAPER, TURNS

import pyterrier_ikat as ikat
from pyterrier_ikat.cli import main
from pyterrier_ikat.conversations import write_qrels
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms.recorded import SAMPLE
from pyterrier_ikat.papers import Reproduction, find_table
from pyterrier_ikat.papers.reproduction import Relabelled
from pyterrier_ikat.prompts import FOLDER

SCRIPT = Path(__file__).parents[2] / "experiments" / "quality" / "sample_labels.py"


MATRIX = find_table(PAPER, "4")


def test_pairs_are_judged_again_by_the_users_model(tmp_path, sample_index):
    plain = Reproduction(PAPER, {}, dataset="ikat:sample", out=tmp_path)
    told = "the resources lack 'gpt-3.5-turbo', the judge of this table: add"
    with pytest.raises(UsageError, match=told):
        Relabelled.of(MATRIX, plain)
    given = {"gpt-3.5-turbo": "recorded:sample x=1", "bm25": sample_index, "prompts": "own"}
    mine = Relabelled.of(MATRIX, Reproduction(PAPER, given, dataset="ikat:sample", out=tmp_path))
    assert (mine.spec, mine.prompts, mine.dataset.name) == (
        "recorded:sample x=1",
        "own",
        "ikat:sample",
    )
    assert mine.texts is not None
    assert mine.out == tmp_path / "ikat-sample"
    assert mine.labels == tmp_path / "ikat-sample" / "labels-sample.txt"
    assert replace(mine, spec="openai:gpt-4o t=0").labels.name == "labels-gpt-4o.txt"
    of_sample = Reproduction(PAPER, "sample", out=tmp_path, index=sample_index)
    assert Relabelled.of(MATRIX, of_sample).spec == "recorded:sample"
    no_texts = {"gpt-3.5-turbo": "m"}
    made = Reproduction(PAPER, no_texts, dataset="ikat:sample", out=tmp_path)
    assert Relabelled.of(MATRIX, made).texts is None


def test_new_labels_stand_beside_published_ones_of_their_year(tmp_path):
    official = pd.DataFrame({"qid": "1_1", "docno": list("abcd"), "label": [0, 1, 2, 3]})

    def labels_of(name, matrix, spec="openai:gpt-4o temperature=0"):
        data = SimpleNamespace(name=name, get_qrels=lambda: official)
        made = Relabelled(matrix, data, spec, tmp_path)
        made.labels.write_text("1_1 0 a 0\n1_1 0 b 2\n1_1 0 c 2\n")
        return made.shown()

    graded = replace(MATRIX, year=2023)
    shown = labels_of("ikat:2023", graded)
    assert shown.frame["counts"].unique().tolist() == [
        "ours, by openai:gpt-4o",
        f"published, by {MATRIX.judge}",
    ]
    ours = shown.frame[shown.frame["counts"].str.startswith("ours")].set_index("label")
    assert ours.loc["2", ["0", "1", "2"]].tolist() == [0, 1, 1]
    assert "Ours: 3 of 4 pairs, binary agreement 66.67%, kappa .4000." in shown.notes
    assert graded.said in shown.notes
    assert f"The paper's judge is {MATRIX.judge}." in shown.notes
    other = labels_of("ikat:2024", graded)
    assert other.frame["counts"].unique().tolist() == ["ours, by openai:gpt-4o"]
    assert other.notes[-1].startswith("No published count stands beside ours")
    binary = labels_of("ikat:2024", find_table(PAPER, "2"))
    assert binary.frame["label"].tolist() == ["< 2", ">= 2"]
    part = "The published counts are about 2 pairs, a part of the official ones"
    assert any(part in note for note in labels_of("ikat:2023", replace(graded, counts=[[2]])).notes)
    small = replace(graded, counts=[[3]])
    assert not any("a part of the official" in note for note in labels_of("ikat:2023", small).notes)
    assert labels_of("ikat:sample", graded).notes[0].endswith("is no evidence.")


def test_pairs_are_judged_with_the_users_prompts_and_texts(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    text = (FOLDER / "judge.jinja").read_text(encoding="utf-8")
    (own / "judge.jinja").write_text(f"MINE {text}", encoding="utf-8")
    given = {"gpt-3.5-turbo": "recorded:sample", "prompts": str(own)}
    mine = Relabelled.of(MATRIX, Reproduction(PAPER, given, dataset="ikat:sample", out=tmp_path))
    [request, *_] = mine.judge().requests(mine.pairs[:1])
    assert "MINE" in request.messages[-1]["content"]
    official = ikat.dataset("ikat:sample").get_qrels()
    assert (
        mine.pairs[["qid", "docno"]].values.tolist() == official[["qid", "docno"]].values.tolist()
    )
    assert mine.plan()["calls"].sum() == len(official)
    texts = SimpleNamespace(transform=lambda rows: rows.assign(text="mine"))
    assert set(replace(mine, texts=texts).pairs["text"]) == {"mine"}


def test_labels_are_written_into_a_new_folder(tmp_path, monkeypatch):
    judged = pd.DataFrame({"qid": TURNS, "docno": "a", "label": 2})
    made = Relabelled(MATRIX, ikat.dataset("ikat:sample"), "openai:m", tmp_path / "a" / "b")
    judge = SimpleNamespace(transform=lambda pairs: judged)
    monkeypatch.setattr(Relabelled, "judge", lambda self: judge)
    made.run()
    assert made.labels.read_text().splitlines() == [f"{qid} 0 a 2" for qid in TURNS]


def test_another_snapshot_of_the_judge_makes_labels_of_its_own(tmp_path):
    data = ikat.dataset("ikat:sample")
    pairs = data.get_qrels()[["qid", "docno"]].rename(columns={"docno": "item"})
    completions = pairs.assign(stage="judge", prompt="judge", model="m")
    shares = []
    for snapshot, label in (("m-20240101", "3"), ("m-20240202", "0")):
        recorded = tmp_path / snapshot
        lines = completions.assign(completion=label).to_json(orient="records", lines=True)
        recorded.write_text(lines)
        made = Relabelled(
            find_table("generate_then_retrieve", "4"),
            data,
            f"recorded:{recorded}",
            tmp_path / "out",
        )
        made.run()
        shares.append(made.agreement().binary)
    relevant = float((data.get_qrels()["label"] >= 2).mean())
    assert shares == [pytest.approx(relevant), pytest.approx(1 - relevant)]


# By the command, on the sample


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


@pytest.mark.parametrize(
    ("option", "value"), [("--qrels", "provenance"), ("--systems", "ad"), ("--judged-by", "NIST")]
)
def test_a_table_of_labels_takes_no_option_of_scores(tmp_path, option, value):
    arguments = [
        "paper",
        "generate_then_retrieve",
        "4",
        "--resources",
        "sample",
        "--out",
        str(tmp_path),
        option,
        value,
    ]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 2
    assert f"omit {option}" in found.output
