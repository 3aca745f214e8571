"""`ikat evaluate` as a whole: what reaches each evaluation, and where all that is told goes."""

from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.evaluation.score_frame import about_turns
from pyterrier_ikat.tables import of_frame

module = import_module("pyterrier_ikat.cli.evaluate")
RESPONSES = import_module("pyterrier_ikat.evaluation.responses")
TABLES = import_module("pyterrier_ikat.evaluation.experiment_table")
WHY = "Means over the 2 turns that both were asked."


class Stop(UsageError):
    """Ends a command at the step of interest."""


@pytest.fixture
def two(tmp_path):
    """A run file that lacks a judged turn and has one that nobody judged."""
    (tmp_path / "qrels").write_text("1_1 0 a 1\n1_2 0 b 1\n")
    (tmp_path / "few.trec").write_text("1_1 Q0 a 1 2.0 x\n9_9 Q0 a 1 2.0 x\n")
    return tmp_path


# Responses


@pytest.fixture
def judged(monkeypatch):
    """Responses of two runs judged by two judges, one of which asks a model; what was called."""
    seen = SimpleNamespace(turns=[], told=[], means=[], texts=[], nuggets=[])
    topics = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"]})
    data = SimpleNamespace(name="d", conversations="talks", get_nuggets=None)

    def judges(names, spec, ledger):
        ledger.count("relevance", "gpt-4o", calls=1)
        seen.judges = (names, spec)
        return [
            SimpleNamespace(name="token F1", model_name=""),
            SimpleNamespace(name="relevance", model_name="gpt-4o"),
        ]

    def turns_of(*args):
        seen.turns.append(args)
        return ["1_1", "1_2"]

    def response_means(scores, *, unit, dataset):
        seen.means.append((scores, unit, dataset.name))
        about = {"unit": unit or "turn", "clusters": 2, "unit_from": ""}
        means = {"mean": [0.5, 0.25], "low": 0.1, "high": 0.9, "turns": 2}
        return pd.DataFrame({"judge": ["token F1", "relevance"], **means, **about})

    def asked(turns, paths, chosen):
        seen.chosen = chosen
        return turns.iloc[:2], [WHY]

    def responses(paths, index):
        seen.texts.append(index)
        return {"a": "of a", "b": "of b"}

    patches = {
        "dataset_named": lambda name: data,
        "_judges": judges,
        "turns_of": turns_of,
        "_asked_turns": asked,
        "_responses": responses,
        "_add_nuggets": lambda turns, data: seen.nuggets.append(len(turns)),
        "tell_circular": lambda *args, err: seen.told.append((*args, err)),
    }
    for name, patch in patches.items():
        monkeypatch.setattr(module, name, patch)
    monkeypatch.setattr(RESPONSES, "response_turns", lambda talks, chosen: topics.assign(t=talks))
    monkeypatch.setattr(
        RESPONSES, "evaluate_responses", lambda turns, answers, judges: (len(turns), answers)
    )
    monkeypatch.setattr(RESPONSES, "response_means", response_means)
    return seen


WORDS = ("evaluate", "a", "b", "--of", "responses", "--dataset", "d", "--judge", "token-f1")


@pytest.mark.parametrize("form", ["text", "csv"])
def test_responses_are_judged_as_asked_for(call, judged, form):
    options = ("--judge", "nuggets", "--llm", "m", "--qrels", "q", "--turns", "t", "--unit", "user")
    done = call(*WORDS, *options, "--index", "i", "--format", form)
    assert done.exit_code == 0, done.output
    assert judged.judges == (("token-f1", "nuggets"), "m")
    assert judged.turns == [("d", "t", "q")]
    assert (judged.chosen, judged.texts, judged.nuggets) == (True, ["i"], [3])
    assert judged.means == [((2, "of a"), "user", "d"), ((2, "of b"), "user", "d")]
    assert judged.told == [(["", "gpt-4o"], ("a", "b"), form == "csv")]
    assert "LLM ledger" in done.stderr
    assert "LLM ledger" not in done.stdout
    assert WHY in (done.stdout if form == "text" else done.stderr)
    assert (WHY in done.stdout) == (form == "text")
    if form == "csv":
        header, *rows = [line.split(",") for line in done.stdout.splitlines()]
        assert header[:4] == ["run", "judge", "model", "mean"]
        assert [row[:4] for row in rows] == [
            ["a", "token F1", "", "0.5"],
            ["a", "relevance", "gpt-4o", "0.25"],
            ["b", "token F1", "", "0.5"],
            ["b", "relevance", "gpt-4o", "0.25"],
        ]


def test_responses_without_options_are_those_of_all_turns(call, judged):
    done = call(*WORDS)
    assert done.exit_code == 0, done.output
    assert judged.turns == [("d", None, None)]
    assert (judged.chosen, judged.texts, judged.nuggets) == (False, [None], [])
    assert [unit for _, unit, _ in judged.means] == [None, None]


def test_why_turns_are_omitted_and_all_notes_are_told(monkeypatch, tmp_path):
    scored = SimpleNamespace(ids=["1_2"], why=WHY, notes=["a lacks one.", "b lacks two."])
    options = []

    def choose_turns(qids, asked, *, chosen):
        options.append((list(qids), asked, chosen))
        return scored

    turns_of_runs = import_module("pyterrier_ikat.evaluation.scored_turns")
    monkeypatch.setattr(turns_of_runs, "choose_turns", choose_turns)
    monkeypatch.setattr(turns_of_runs, "asked_of", list)
    turns = pd.DataFrame({"qid": ["1_1", "1_2"]})
    (tmp_path / "a").mkdir()
    left, about = module._asked_turns(turns, [str(tmp_path / "a")], True)
    assert (left["qid"].tolist(), left.index.tolist()) == (["1_2"], [0])
    assert about == [WHY, *scored.notes]
    assert options == [(["1_1", "1_2"], ["a"], True)]


# Passages


def test_what_is_told_stands_below_a_formatted_table_once(call, two):
    words = ("evaluate", two / "few.trec", "--qrels", two / "qrels", "--measures", "P@1")
    for form in ("markdown", "latex"):
        done = call(*words, "--format", form)
        assert done.exit_code == 0, done.output
        assert "few lacks 1 judged turn" in " ".join(done.stdout.split())
        assert "few lacks" not in done.stderr
        assert "few has 1 turn that is not judged: 9_9" in " ".join(done.stderr.split())
        assert "not judged" not in done.stdout


def test_means_by_depth_say_which_turns_they_lack(call, two):
    words = ("evaluate", two / "few.trec", "--qrels", two / "qrels", "--by", "depth")
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert "few lacks 1 judged turn, counted 0: 1_2" in " ".join(done.stdout.split())
    chosen = call(*words, "--turns", "1_1", "--format", "csv")
    assert chosen.stdout.splitlines() == ["depth,few,turns", "1,1.0,1"]


def test_measures_and_baseline_are_known_before_runs_are_read(call, two, monkeypatch):
    asked = []

    def measures(*args):
        asked.append(args)
        raise Stop("no further")

    monkeypatch.setattr(module, "_measures", measures)
    words = ("evaluate", two / "few.trec", "--dataset", "ikat:sample", "--measures", "P@1")
    assert call(*words).exit_code == 2
    assert asked == [("P@1", "ikat:sample")]


def test_a_baseline_is_tested_by_the_unit_of_the_dataset(call, two, monkeypatch):
    (two / "more.trec").write_text("1_1 Q0 b 1 2.0 x\n1_2 Q0 b 1 2.0 x\n")
    asked = []

    def known_dataset(runs, name):
        asked.append((list(runs), name))

    def rows(scores, measures, baseline, clusters, *, silent):
        asked.append((list(scores), baseline, clusters.unit, clusters.number, silent))
        raise Stop("no further")

    def find_silent(rankings, turns):
        asked.append((list(rankings), list(turns)))
        return ["few"]

    finished = import_module("pyterrier_ikat.evaluation.finished_runs")
    evaluator = import_module("pyterrier_ikat.evaluation.evaluator")
    monkeypatch.setattr(finished, "known_dataset", known_dataset)
    monkeypatch.setattr(evaluator, "experiment_rows", rows)
    monkeypatch.setattr("pyterrier_ikat.evaluation.scores.find_silent", find_silent)
    runs = [two / f"{name}.trec" for name in ("few", "more")]
    words = ("evaluate", *runs, "--qrels", two / "qrels", "--measures", "P@1", "--baseline", "few")
    names = ["few", "more"]
    for unit, number in [("turn", 2), ("conversation", 1)]:
        done = call(*words, "--unit", unit)
        assert done.exit_code == 2, done.output
        assert "no further" in done.stderr
        assert asked == [
            (names, None),
            (names, ["1_1", "1_2"]),
            (names, "few", unit, number, ["few"]),
        ]
        asked.clear()


def test_a_test_is_of_the_chosen_turns_of_the_dataset(call, two, monkeypatch):
    asked = []

    def find_silent(rankings, turns):
        asked.append(list(turns))
        raise Stop("no further")

    finished = import_module("pyterrier_ikat.evaluation.finished_runs")
    monkeypatch.setattr(finished, "known_dataset", lambda runs, name: asked.append(name))
    monkeypatch.setattr("pyterrier_ikat.evaluation.scores.find_silent", find_silent)
    (two / "few.trec").write_text("1-1_2 Q0 sample-walk-019:0 1 2.0 x\n")
    chosen = ("--dataset", "ikat:sample", "--turns", "1-1_2", "--baseline", "few")
    done = call("evaluate", two / "few.trec", *chosen, "--unit", "turn")
    assert "no further" in done.stderr
    assert asked == ["ikat:sample", ["1-1_2"]]


def test_repeats_are_tested_by_the_same_clusters(monkeypatch):
    seen = []

    def repeated_rows(*args, silent):
        seen.append((args, silent))
        return "rows"

    monkeypatch.setattr(TABLES, "repeated_rows", repeated_rows)
    runs = {name: ikat.runs.RunFolder(name).path for name in ("a", "a.repeat-2", "b")}
    groups = {"a": ["a", "a.repeat-2"], "b": ["b"]}
    scores = {"a": 1, "a.repeat-2": 2, "b": 3}
    assert module._rows(runs, groups, scores, ["P@1"], "a", "clusters", ["b"]) == "rows"
    assert seen == [(({"a": [1, 2], "b": [3]}, ["P@1"], "a", "clusters"), ["b"])]


# Statements and actions


@pytest.mark.parametrize("form", ["text", "csv"])
def test_turns_of_statements_and_actions_are_told(call, monkeypatch, tmp_path, form):
    asked = []
    data = SimpleNamespace(name="d", get_answers=lambda: "answers")
    (tmp_path / "run").mkdir()
    frame = pd.DataFrame({"run": ["run"], "mean": [0.5], "low": [0.1], "high": [0.9]})
    frame = frame.assign(turns=2, unit="turn", clusters=2, unit_from="")

    def judged_by(*args):
        asked.append(args)
        return "judged"

    monkeypatch.setattr(module, "dataset_named", lambda name: data)
    monkeypatch.setattr(module, "judged_by", judged_by)
    decisions = import_module("pyterrier_ikat.evaluation.decisions")

    def evaluated(*args, **named):
        asked.append((list(args[0]), *args[1:], named))
        return about_turns(frame, [WHY])

    for name in ("evaluate_ptkb", "evaluate_actions"):
        monkeypatch.setattr(decisions, name, evaluated)
    words = ("evaluate", tmp_path / "run", "--dataset", "d", "--turns", "t", "--format", form)
    given = {"turns": "t", "unit": "topic", "dataset": data}
    for options, calls in [
        (("statements",), [("d", "ptkb"), (["run"], "judged", "t", {})]),
        (("statements", "--qrels", "q"), [("d", "q"), (["run"], "judged", "t", {})]),
        (("actions", "--unit", "topic"), [(["run"], "answers", given)]),
    ]:
        done = call(*words, "--of", *options)
        assert done.exit_code == 0, done.output
        assert asked == calls
        asked.clear()
        assert WHY in (done.stdout if form == "text" else done.stderr)
        assert (WHY in done.stdout) == (form == "text")


# Costs


@pytest.mark.parametrize(("of", "form"), [("passages", "text"), ("responses", "csv")])
def test_costs_are_a_table_in_its_form(call, monkeypatch, tmp_path, of, form):
    asked = []
    table = of_frame(pd.DataFrame({"run": ["a"], "calls": [3]}))

    def ledger(paths):
        asked.append(paths)
        return table

    monkeypatch.setattr("pyterrier_ikat.show.ledger", ledger)
    (tmp_path / "b.partial").mkdir()
    (tmp_path / "b.partial" / "000000.turns.jsonl").touch()
    a, unfinished = str(tmp_path / "a"), tmp_path / "b.partial"
    done = call("evaluate", a, unfinished, "--cost", "--of", of, "--format", form)
    assert done.exit_code == 0, done.output
    assert (done.stdout, asked) == (table.written(form), [[a]])


# What is published, and who is told


def test_published_runs_are_of_datasets_that_have_them():
    for has, lacks in [("get_responses", "get_labels"), ("get_labels", "get_responses")]:
        data = SimpleNamespace(name="d", **{has: None})
        assert module._is_published(["published"], data, has) is True
        with pytest.raises(UsageError, match="d has no published runs"):
            module._is_published(["published"], data, lacks)
        for runs in (["published", "a"], ["a"], []):
            assert module._is_published(runs, data, lacks) is False


def test_each_run_that_asked_its_judge_is_told(monkeypatch, capsys):
    frame = import_module("pyterrier_ikat.cli.main")
    asked = []

    def asked_by(paths):
        asked.append(list(paths))
        return {}

    monkeypatch.setattr("pyterrier_ikat.show.ledgers.asked_by", asked_by)
    monkeypatch.setattr("pyterrier_ikat.show.ledgers.circular", lambda *args: ["one", "two"])
    frame.tell_circular(["m"], ["a", "b"], err=False)
    assert (asked, capsys.readouterr().out) == ([["a", "b"]], "one\ntwo\n")
