"""`ikat judge` and `submit`: which pairs are judged, in whose style, and which file is written."""

import json
from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import pool_runs
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.tables import Cell, Column, Table

module = import_module("pyterrier_ikat.cli.judge")
TWO = ["1-1_1", "1-1_2"]


def data_of(topics, judged):
    """A dataset with these turns and judged turns; an error is raised."""

    def get_qrels(variant=None):
        if isinstance(judged, Exception):
            raise judged
        return pd.DataFrame({"qid": judged, "docno": ["d"] * len(judged)})

    frame = pd.DataFrame({"qid": topics})
    return SimpleNamespace(name="d", get_qrels=get_qrels, get_topics=lambda: frame)


@pytest.mark.parametrize(
    ("judged", "unjudged"),
    [
        (["a", "b"], {"c"}),
        (["a", "b", "c"], set()),
        ([], set()),
        (DataError("not published"), set()),
    ],
)
def test_turns_that_the_dataset_judges_are_judged_again(judged, unjudged):
    data = data_of(["a", "b", "c"], judged)
    assert module._unjudged(data) == unjudged


def test_pairs_are_of_runs_or_qrels_and_of_chosen_turns(made, monkeypatch):
    sample = ikat.dataset("ikat:sample")
    runs = {"raw": RunFolder(made.runs / "raw").results()}
    judged = set(sample.get_qrels()["qid"])
    pooled = pool_runs(runs, 3)

    def pairs(of_runs=None, qrels=None, turns=None, depth=3):
        found = module._pairs_to_judge(of_runs or {}, qrels, sample, turns, depth)
        assert found.index.tolist() == list(range(len(found)))
        return list(zip(found["qid"], found["docno"], strict=True))

    def expected(frame):
        return list(zip(frame["qid"], frame["docno"], strict=True))

    assert pairs(runs) == expected(pooled[pooled["qid"].isin(judged)])
    assert len(pairs(runs, depth=1)) == len(judged)
    assert pairs(runs, turns="1-1_2") == expected(pooled[pooled["qid"] == "1-1_2"])
    assert pairs(qrels="default") == expected(sample.get_qrels())
    two = str(made.path / "two.txt")
    assert pairs(qrels=two) == expected(read_qrels(two))
    assert {qid for qid, _ in pairs(qrels=two, turns="1-1_2")} == {"1-1_2"}
    with pytest.raises(UsageError, match="none of the turns to judge"):
        pairs(qrels=two, turns="1-1_3")
    monkeypatch.setattr(module, "_unjudged", lambda data: {"1-1_2"})
    assert pairs(runs) == expected(pooled[pooled["qid"] != "1-1_2"])
    assert "1-1_2" in {qid for qid, _ in pairs(qrels=two)}  # qrels say themselves what is judged


@pytest.mark.parametrize("style", ["one-shot", "umbrela", None])
def test_labels_have_a_note_of_their_judge(call, made, monkeypatch, tmp_path, style):
    asked = []

    def judge_named(name):
        class Judges:
            def __init__(self, model):
                self.model = model

            def transform(self, pairs):
                self.model.ledger.count("judge", "m", calls=1)
                asked.append((name, self.model.model, "text" in pairs.columns))
                return pairs.iloc[1:].assign(label=2)

        return Judges

    monkeypatch.setattr(ikat.evaluation, "Judge", judge_named("one-shot"))
    monkeypatch.setattr(ikat.evaluation, "UmbrelaJudge", judge_named("umbrela"))
    judged = read_qrels(made.path / "two.txt")
    out = tmp_path / "out"
    done = call(
        *("judge", "--pairs", made.path / "two.txt", "--dataset", "ikat:sample"),
        *("--llm", "recorded:sample", "--out", out),
        *(() if style is None else ("--style", style)),
    )
    assert done.exit_code == 0, done.output
    [(name, model, _)] = asked
    assert (name, model) == (style or "one-shot", "recorded")
    note = json.loads((tmp_path / "out.json").read_text())
    assert note == {"judged_by": "recorded", "style": style or "one-shot"}
    assert len(read_qrels(out)) == len(judged) - 1
    told = f"{len(judged) - 1} of {len(judged)} passages judged, 1 without a usable label"
    assert done.stdout.splitlines()[-1] == f"{out}: {told}"
    assert "LLM ledger" in done.stderr


def test_holes_are_filled_with_texts_and_the_new_labels_compared(call, made, monkeypatch, tmp_path):
    asked, compared = [], []
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


def test_texts_of_an_index_are_judged(call, made, monkeypatch, tmp_path, sample_index):
    seen = []

    class Judges:
        def __init__(self, model):
            pass

        def transform(self, pairs):
            seen.append(pairs)
            return pairs.assign(label=1)

    monkeypatch.setattr(ikat.evaluation, "Judge", Judges)
    monkeypatch.setattr(
        ikat.evaluation, "with_gold", lambda pairs, data, texts: texts.transform(pairs)
    )
    done = call(
        *("judge", "--pairs", made.path / "two.txt", "--dataset", "ikat:sample"),
        *("--llm", "recorded:sample", "--out", tmp_path / "out", "--index", sample_index),
    )
    assert done.exit_code == 0, done.output
    [pairs] = seen
    assert pairs["text"].str.len().min() > 0


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


# ikat submit


class Called:
    """Keeps the arguments of its calls, and returns problems."""

    def __init__(self):
        self.calls = []

    def __call__(self, *args, **named):
        self.calls.append((args, named))
        return []


@pytest.fixture
def writers(monkeypatch):
    """The writers of submissions, which write nothing; a dataset is its name."""
    called = {}
    for name in ("write_predictions", "write_reports", "write_submission"):
        called[name] = Called()
        monkeypatch.setattr(f"pyterrier_ikat.submit.{name}", called[name])
    monkeypatch.setattr(module, "dataset_named", lambda name: f"dataset {name}")
    return called


@pytest.mark.parametrize(
    ("words", "writer", "args", "named"),
    [
        (
            "--dataset ikat:2025 --run-type automatic --run-id x --team t",
            "write_submission",
            ("dataset ikat:2025", "o"),
            {"run_type": "automatic", "run_id": "x", "team": "t"},
        ),
        (
            "--dataset mtrag:mini --run-type retrieval --run-id x",
            "write_predictions",
            ("dataset mtrag:mini", "o"),
            {"run_type": "retrieval"},
        ),
        (
            "--dataset mtrag:mini --run-type autojudge --run-id x --team t",
            "write_reports",
            ("o",),
            {"run_id": "x", "team": "t"},
        ),
        (
            "--dataset ikat:2025 --run-type autojudge",
            "write_reports",
            ("o",),
            {"run_id": None, "team": None},
        ),
    ],
)
def test_each_run_type_has_its_file(call, writers, words, writer, args, named):
    done = call("submit", "a/run", "--out", "o", *words.split())
    assert (done.exit_code, done.stdout) == (0, "o\n"), done.output
    [((run, *others), given)] = writers.pop(writer).calls
    assert (run.path.name, tuple(others), given) == ("run", args, named)
    assert [other.calls for other in writers.values()] == [[], []]


@pytest.mark.parametrize(
    "words",
    [
        "a/run --run-type automatic --run-id x",
        "a/run --out o --run-id x",
        "--out o --run-type automatic --run-id x",
    ],
)
def test_a_submission_needs_run_type_and_file(call, refused, writers, words):
    line = refused(call("submit", "--dataset", "ikat:2025", *words.split()))
    assert line == "give RUN, --run-type and --out, or --check FILE"


@pytest.mark.parametrize(
    ("severities", "code"),
    [
        ([], 0),
        (["warning", "warning"], 0),
        (["error"], 1),
        (["error", "warning", "error"], 1),
    ],
)
@pytest.mark.parametrize("dataset", ["mtrag:mini", "ikat:2025"])
def test_a_check_counts_errors_and_warnings(call, monkeypatch, dataset, severities, code):
    asked = []
    problems = [SimpleNamespace(severity=severity) for severity in severities]

    def check(*args):
        asked.append(args)
        return problems

    name = "check_predictions" if dataset.startswith("mtrag") else "validate"
    monkeypatch.setattr(f"pyterrier_ikat.submit.{name}", check)
    monkeypatch.setattr(
        "pyterrier_ikat.submit.problem.format_problems", lambda all: [one.severity for one in all]
    )
    monkeypatch.setattr(module, "dataset_named", lambda name: "data")
    done = call("submit", "--check", "f", "--dataset", dataset, "--run-type", "rag")
    assert done.exit_code == code
    errors, warnings = severities.count("error"), severities.count("warning")
    counts = f"{errors} error{'s'[: errors != 1]}, {warnings} warning{'s'[: warnings != 1]}"
    assert done.stdout.splitlines() == [*severities, f"f: {counts}"]
    assert asked == [("f", "data", "rag") if name == "check_predictions" else ("f", "data")]


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
    given = [str(made.runs / "raw") if word == "RUN" else word for word in words.split()]
    line = refused(call("judge", *given, "--dataset", "ikat:sample"))
    assert line.startswith("give --llm and --out to judge, or --pairs QRELS and --agree QRELS")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--llm recorded:sample --out o", "give RUNs to judge their top passages"),
        ("RUN --pairs default --llm recorded:sample --out o", "give RUNs to judge"),
        ("--fill --pairs default --llm recorded:sample --out o", "--fill takes RUNs"),
        ("--fill RUN --style umbrela --llm recorded:sample --out o", "--fill takes RUNs"),
    ],
)
def test_runs_or_pairs_are_judged(call, refused, made, words, told):
    given = [str(made.runs / "raw") if word == "RUN" else word for word in words.split()]
    assert refused(call("judge", *given, "--dataset", "ikat:sample")).startswith(told)


def test_labels_are_compared_with_others_over_the_runs(call, made, monkeypatch):
    asked = []

    def agreement(labels, others, runs):
        asked.append((labels, others, runs))
        first, second = (Table([], [Column(name, [Cell("x")])], []) for name in ("first", "second"))
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


def test_a_judge_that_the_runs_asked_is_told_before_it_is_paid(call, monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(module, "tell_circular", lambda *args: told.append(args))

    def judges(runs, pairs, data, spec, out, ledger, **options):
        assert told
        ledger.count("judge", "m", calls=1)
        told.append((pairs, spec, out.name, options))

    monkeypatch.setattr(module, "_judge", judges)
    given = ("--pairs", "default", "--llm", "recorded:x", "--out", tmp_path / "o")
    done = call("judge", *given, "--dataset", "ikat:sample", "--depth", "3", "--index", "i")
    assert done.exit_code == 0, done.output
    options = {"fill": False, "style": "one-shot", "index_path": "i", "turns": None, "depth": 3}
    assert told == [(["recorded:x"], ()), ("default", "recorded:x", "o", options)]
    assert "LLM ledger" in done.stderr
