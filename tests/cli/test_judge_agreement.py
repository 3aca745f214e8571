"""`ikat judge --fill` and `--agree`: holes are filled, and labels compared."""

import json
from importlib import import_module
from types import SimpleNamespace

import pytest
from command_results import with_run

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import dataset
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.evaluation import agreement, pool_runs
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.tables import Cell, Column, Table

module = import_module("pyterrier_ikat.cli.judge")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--fill", "RUN"], "give --llm and --out to judge"),
        (["--fill", "RUN", "--llm", "recorded:sample"], "give --llm and --out to judge"),
        (["--fill", "--llm", "recorded:sample", "--out", "o"], "give RUNs to judge"),
        (
            ["--fill", "RUN", "--style", "umbrela", "--llm", "recorded:sample", "--out", "o"],
            "--fill takes RUNs and has a prompt of its own",
        ),
        (
            ["--fill", "--pairs", "default", "--llm", "recorded:sample", "--out", "o"],
            "--fill takes RUNs and has a prompt of its own",
        ),
        (
            ["RUN", "--pairs", "default", "--llm", "recorded:sample", "--out", "o"],
            "give RUNs to judge",
        ),
        (["--pairs", "default", "--fill", "--agree", "default"], "give --llm and --out to judge"),
    ],
)
def test_options_of_a_judge_that_do_not_fit_are_refused(call, refused, made, words, told):
    given = with_run(words, made.runs / "raw")
    assert told in refused(call("judge", *given, "--dataset", "ikat:sample"))


# Holes


def test_holes_are_filled_to_a_depth_and_counted(call, made, recorded, tmp_path):
    judged = dataset("ikat:sample").get_qrels()
    pool = pool_runs({"raw": RunFolder(made.runs / "raw").results()}, 2)
    pool = pool[pool["qid"].isin(judged["qid"])]
    both = pool.merge(judged, on=["qid", "docno"])
    pairs = set(map(tuple, pool.values)) | set(map(tuple, judged[["qid", "docno"]].values))
    spec = recorded(
        tmp_path / "labels.jsonl",
        *((qid, "judge", "2", docno) for qid, docno in sorted(pairs)),
    )
    out = tmp_path / "filled"
    done = call(
        *("judge", "--fill", made.runs / "raw", "--dataset", "ikat:sample", "--llm", spec),
        *("--depth", "2", "--out", out),
    )
    holes = len(pool) - len(both)
    assert 0 < holes < len(pool)
    assert done.exit_code == 0, done.output
    assert f"filled the labels of {holes} of the {len(pool)} passages" in done.stdout
    assert len(read_qrels(out)) == len(judged) + holes


def test_only_holes_of_the_given_turns_are_filled(call, made, recorded, tmp_path):
    judged = dataset("ikat:sample").get_qrels()
    judged = judged[judged["qid"] == "1-1_2"]
    pool = pool_runs({"raw": RunFolder(made.runs / "raw").results()}, 4)
    pool = pool[pool["qid"] == "1-1_2"]
    docnos = sorted({*judged["docno"], *pool["docno"]})
    labels = [("1-1_2", "judge", "2", docno) for docno in docnos]
    out = tmp_path / "filled"
    done = call(
        *("judge", "--fill", made.runs / "raw", "--dataset", "ikat:sample", "--turns", "1-1_2"),
        *("--llm", recorded(tmp_path / "labels.jsonl", *labels), "--depth", "4", "--out", out),
    )
    assert done.exit_code == 0, done.output
    filled = read_qrels(out)
    assert filled["qid"].unique().tolist() == ["1-1_2"]
    assert sorted(filled["docno"]) == docnos
    assert len(docnos) > len(judged)


def test_holes_are_filled_with_texts_and_the_new_labels_compared(call, made, monkeypatch, tmp_path):
    asked = []
    compared = []
    judged = read_qrels(made.path / "two.txt")

    class Filled(SimpleNamespace):
        def __str__(self):
            return "filled 2 holes"

    def fill_holes(runs, data, model, judged, depth, texts, say):
        model.ledger.count("judge", "m", calls=1)
        asked.append((list(runs), data.name, set(judged["qid"]), depth, texts))
        return Filled(qrels=judged, model="m", labels=judged.iloc[:1])

    def agreement(labels, others, runs):
        compared.append(len(labels))
        return SimpleNamespace(tables=list)

    monkeypatch.setattr(ikat.evaluation, "fill_holes", fill_holes)
    monkeypatch.setattr(ikat.evaluation, "agreement", agreement)
    monkeypatch.setattr(module, "text_loader_of", lambda path: f"texts of {path}")
    out = tmp_path / "filled"
    done = call(
        *("judge", "--fill", made.runs / "raw", "--dataset", "ikat:sample", "--turns", "1-1_2"),
        *("--llm", "recorded:sample", "--depth", "3", "--index", "i", "--out", out),
        *("--agree", "default"),
    )
    assert done.exit_code == 0, done.output
    assert asked == [(["raw"], "ikat:sample", {"1-1_2"}, 3, "texts of i")]
    assert compared == [1]
    assert set(read_qrels(out)["qid"]) == {"1-1_2"} < set(judged["qid"])
    assert f"{out}: filled 2 holes" in done.stdout
    note = json.loads((tmp_path / "filled.json").read_text())
    assert note == {"judged_by": "m", "style": "fill", "filled": "filled 2 holes"}
    assert "LLM ledger" in done.stderr


def test_filled_labels_have_a_note_of_the_agreement(call, made, recorded, tmp_path):
    judged = ikat.dataset("ikat:sample").get_qrels().query("qid == '1-1_2'")
    pool = pool_runs({"raw": RunFolder(made.runs / "raw").results()}, 1).query("qid == '1-1_2'")
    docnos = sorted({*judged["docno"], *pool["docno"]})
    labels = [("1-1_2", "judge", "2", docno) for docno in docnos]
    out = tmp_path / "filled"
    done = call(
        *("judge", "--fill", made.runs / "raw", "--dataset", "ikat:sample", "--turns", "1-1_2"),
        *("--llm", recorded(tmp_path / "labels.jsonl", *labels), "--depth", "1", "--out", out),
    )
    assert done.exit_code == 0, done.output
    note = json.loads((tmp_path / "filled.json").read_text())
    assert (note["judged_by"], note["style"]) == ("recorded", "fill")
    assert f"{out}: {note['filled']}" in " ".join(done.stdout.split()) or note["filled"]
    assert "filled the labels of" in note["filled"]


# Labels compared

TWO = ["1-1_1", "1-1_2"]


def test_labels_are_compared_with_those_that_are_named(call, made, monkeypatch):
    compared = []

    def agreement(labels, others, runs):
        compared.append((set(labels["qid"]), set(others["qid"]), list(runs)))
        return SimpleNamespace(tables=lambda: [Table([], [Column("a", [Cell("b")])], [])] * 2)

    monkeypatch.setattr(ikat.evaluation, "agreement", agreement)
    two = str(made.path / "two.txt")
    every = set(ikat.dataset("ikat:sample").get_qrels()["qid"])
    words = ("judge", "--dataset", "ikat:sample")
    done = call(*words, "--pairs", "default", "--agree", two)
    assert done.stdout == "a\nb\n\na\nb\n"
    call(*words, made.runs / "raw", "--pairs", two, "--agree", "default", "--turns", "1-1_2")
    assert compared == [(every, set(TWO), []), ({"1-1_2"}, every, ["raw"])]


def test_labels_are_compared_with_others_over_the_runs(call, made, monkeypatch):
    asked = []

    def agreement(labels, others, runs):
        asked.append((labels, others, runs))
        first = Table([], [Column("first", [Cell("x")])], [])
        second = Table([], [Column("second", [Cell("x")])], [])
        return SimpleNamespace(tables=lambda: [first, second])

    monkeypatch.setattr(ikat.evaluation, "agreement", agreement)
    done = call(
        *("judge", made.runs / "raw", "--dataset", "ikat:sample", "--turns", "1-1_2"),
        *("--pairs", made.path / "two.txt", "--agree", "ptkb"),
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.split() == ["first", "x", "second", "x"]
    assert "\n\nsecond" in done.stdout
    [(labels, others, runs)] = asked
    two = read_qrels(made.path / "two.txt")
    assert labels["docno"].tolist() == two.loc[two["qid"] == "1-1_2", "docno"].tolist()
    assert len(others) == len(ikat.dataset("ikat:sample").get_qrels("ptkb"))
    assert list(runs) == ["raw"]


@pytest.mark.parametrize(
    "words",
    [
        "--pairs default --agree default --llm recorded:sample",
        "--pairs default --agree default --out o",
        "--pairs default --agree default --fill",
        "--pairs default",
        "--agree default",
        "RUN --llm recorded:sample",
        "RUN --out o",
    ],
)
def test_labels_are_compared_or_judged_and_nothing_is_ignored(call, refused, made, words):
    given = with_run(words.split(), made.runs / "raw")
    line = refused(call("judge", *given, "--dataset", "ikat:sample"))
    assert line.startswith("give --llm and --out to judge, or --pairs QRELS and --agree QRELS")


def test_judge_agree_prints_the_agreement_of_the_package(call, refused, runs, tmp_path):
    first = []
    second = []
    same = 0
    for place in range(20):
        label = place % 5
        other = max(0, label - place % 2)
        first.append(f"1-1_1 0 d{place} {label}\n")
        second.append(f"1-1_1 0 d{place} {other}\n")
        same += (label >= 2) == (other >= 2)
    (tmp_path / "first").write_text("".join(first))
    (tmp_path / "second").write_text("".join(second))
    compare = ("judge", "--dataset", "ikat:sample", "--pairs", tmp_path / "first", "--agree")
    shown = call(*compare, tmp_path / "second")
    assert shown.exit_code == 0, shown.output
    expected = agreement(read_qrels(tmp_path / "first"), read_qrels(tmp_path / "second"))
    assert shown.stdout == f"{expected}\n"
    assert "20 pairs judged by both" in shown.stdout
    assert f"agreement {same / 20:.2%}" in shown.stdout
    (tmp_path / "other").write_text("9_9 0 d1 1\n")
    assert "no pair in common" in refused(call(*compare, tmp_path / "other"))
    labels = ("--pairs", "default", "--agree", "provenance")
    named = call("judge", runs / "raw", runs / "rtg", "--dataset", "ikat:sample", *labels)
    assert named.exit_code == 0, named.output
    assert "Kendall's tau of the systems by nDCG@5" in named.stdout


def test_labels_of_chosen_turns_alone_are_compared(call, refused):
    compare = ("judge", "--dataset", "ikat:sample", "--pairs", "default", "--agree", "default")
    judged = ikat.dataset("ikat:sample").get_qrels()
    of_turn = judged[judged["qid"] == "1-1_2"]
    shown = call(*compare, "--turns", "1-1_2")
    assert f"{len(of_turn)} pairs judged by both" in shown.stdout
    assert "give --llm and --out to judge" in refused(call(*compare, "--fill"))
