"""`ikat evaluate`: what is told of turns, judges and costs, below a table or beside it."""

from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest
from command_results import run_file, words_of

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import write_qrels
from pyterrier_ikat.conversations.qrels import write_judge
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.tables import Cell, Column, Table, of_frame

module = import_module("pyterrier_ikat.cli.evaluate")


# Strange turns


def strange_turns(*arguments):
    return list(module._strange_turns(*arguments, "is odd", "are odd"))


def test_runs_with_the_same_strange_turns_share_a_line():
    both = {"a": {"1_1": {}, "9_9": {}, "8_8": {}}, "b": {"9_9": {}, "8_8": {}}}
    assert strange_turns(both, {"1_1"}) == ["each run has 2 turns that are odd: 8_8, 9_9"]
    three = {**both, "c": {"7_7": {}}}
    assert strange_turns(three, {"1_1"}) == [
        "a has 2 turns that are odd: 8_8, 9_9",
        "b has 2 turns that are odd: 8_8, 9_9",
        "c has 1 turn that is odd: 7_7",
    ]
    assert strange_turns({"a": {"9_9": {}}}, {"1_1"}) == ["a has 1 turn that is odd: 9_9"]
    assert strange_turns(both, {"1_1", "8_8", "9_9"}) == []


def unmatched(monkeypatch, topics, dataset="d", qrels="q", chosen=False):
    frame = pd.DataFrame({"qid": topics})
    data = SimpleNamespace(get_topics=lambda: frame)
    monkeypatch.setattr(module, "dataset_named", lambda name: data)
    rankings = {"a": {"1_1": {}, "1_2": {}, "1_3": {}, "1_4": {}}}
    judged = {"1_1": {}, "1_4": {}, "1_5": {}}
    return list(module._unmatched(rankings, judged, dataset, qrels, chosen))


def test_turns_without_a_match_are_told(monkeypatch):
    topics = ["1_1", "1_2", "1_5"]
    assert unmatched(monkeypatch, topics) == [
        "q judges 1 turn that d lacks: 1_4",
        "a has 1 turn that d lacks: 1_3",
    ]
    assert unmatched(monkeypatch, topics, qrels=None) == ["a has 1 turn that d lacks: 1_3"]
    assert unmatched(monkeypatch, topics, chosen=True) == unmatched(monkeypatch, topics)
    assert unmatched(monkeypatch, []) == ["a has 2 turns that are not judged: 1_2, 1_3"]
    assert unmatched(monkeypatch, topics, dataset=None) == unmatched(monkeypatch, [])
    assert unmatched(monkeypatch, [], chosen=True) == []
    assert unmatched(monkeypatch, ["1_1", "1_2", "1_3", "1_4", "1_5"]) == []


def test_turns_that_nobody_judged_are_told_by_run(call, tmp_path, judged):
    one = run_file(tmp_path / "one.trec", **{"1_1": "a", "1_2": "x", "9_9": "z"})
    two = run_file(tmp_path / "two.trec", **{"1_1": "a", "1_2": "b", "9_9": "z"})
    three = run_file(tmp_path / "three.trec", **{"1_1": "a", "8_8": "z", "9_9": "z"})
    both = words_of(call("evaluate", one, two, "--qrels", judged))
    assert "each run has 1 turn that is not judged: 9_9" in both
    alone = words_of(call("evaluate", one, "--qrels", judged))
    assert "one has 1 turn that is not judged: 9_9" in alone
    mixed = words_of(call("evaluate", one, three, "--qrels", judged))
    assert "one has 1 turn that is not judged: 9_9" in mixed
    assert "three has 2 turns that are not judged: 8_8, 9_9" in mixed
    chosen = words_of(call("evaluate", one, "--qrels", judged, "--turns", "1_1"))
    assert "not judged" not in chosen


def test_turns_that_a_dataset_lacks_are_told(call, tmp_path, made):
    qrels = tmp_path / "qrels"
    qrels.write_text((made.path / "two.txt").read_text() + "9-9_9 0 z 1\n")
    runs = run_file(tmp_path / "one.trec", **{"1-1_1": "z", "8-8_8": "z"})
    told = words_of(call("evaluate", runs, "--qrels", qrels, "--dataset", "ikat:sample"))
    assert "judges 1 turn that ikat:sample lacks: 9-9_9" in told
    assert "one has 1 turn that ikat:sample lacks: 8-8_8" in told


def test_all_judged_turns_are_compared_with_the_dataset_s(call, made, tmp_path):
    sample = ikat.dataset("ikat:sample").get_qrels()
    strange = pd.DataFrame({"qid": ["9-9_9"], "docno": ["x"], "label": [1]})
    write_qrels(pd.concat([sample, strange], ignore_index=True), tmp_path / "qrels")
    words = ("evaluate", made.runs / "raw", "--dataset", "ikat:sample", "--measures", "P@1")
    told = f"{tmp_path / 'qrels'} judges 1 turn that ikat:sample lacks: 9-9_9"
    for turns in ((), ("--turns", "1-1_1")):
        done = call(*words, "--qrels", tmp_path / "qrels", *turns)
        assert done.exit_code == 0, done.output
        assert " ".join(told.split()) in " ".join(done.stdout.split())
    assert "lacks: 9-9_9" not in call(*words).output


# Notes


def test_notes_of_csv_go_to_the_other_stream(call, tmp_path, judged):
    few = run_file(tmp_path / "few.trec", **{"1_1": "a", "9_9": "z"})
    done = call("evaluate", few, "--qrels", judged, "--format", "csv", "--measures", "P@1")
    assert done.stdout.splitlines()[0].startswith("name,P(rel=1)@1,turns")
    assert len(done.stdout.splitlines()) == 2
    told = " ".join(done.stderr.split())
    assert "few lacks 1 judged turn, counted 0: 1_2" in told
    assert "not judged: 9_9" in told
    shown = call("evaluate", few, "--qrels", judged, "--measures", "P@1")
    assert "few lacks 1 judged turn" in " ".join(shown.stdout.split())
    whole = run_file(tmp_path / "whole.trec", **{"1_1": "a", "1_2": "b"})
    quiet = call("evaluate", whole, "--qrels", judged, "--format", "csv", "--measures", "P@1")
    assert quiet.stderr == ""


def test_a_formatted_table_comes_alone_and_losses_go_to_stderr(call, tiny):
    words = ("evaluate", tiny / "one.trec", "--qrels", tiny / "qrels")
    done = call(*words, "--measures", "P@1,R@2", "--format", "csv")
    assert done.stdout.splitlines() == ["name,P(rel=1)@1,R(rel=1)@2,turns", "one,0.0,0.5,2"]
    assert done.stderr.splitlines() == ["one lacks 1 judged turn, counted 0: 1_2."]


def test_what_is_told_stands_below_a_formatted_table_once(call, lacking):
    words = ("evaluate", lacking / "few.trec", "--qrels", lacking / "qrels", "--measures", "P@1")
    for form in ("markdown", "latex"):
        done = call(*words, "--format", form)
        assert done.exit_code == 0, done.output
        assert "few lacks 1 judged turn" in " ".join(done.stdout.split())
        assert "few lacks" not in done.stderr
        assert "few has 1 turn that is not judged: 9_9" in " ".join(done.stderr.split())
        assert "not judged" not in done.stdout


@pytest.mark.parametrize("form", ["text", "csv", "latex"])
def test_notes_of_a_table_go_where_the_form_has_room(capsys, form):
    column = Column("run", [Cell("raw")])
    table = Table([{"run": "raw"}], [column], ["A note."])
    module._show_with_notes(table, form, "mine", "Of runs")
    text = capsys.readouterr()
    assert text.out == table.written(form)
    assert text.err == ("A note.\n" if form == "csv" else "")
    assert (table.label, table.caption) == ("mine", "Of runs")


@pytest.mark.parametrize("form", ["text", "csv"])
def test_the_unit_of_intervals_is_a_note_or_columns(form):
    frame = pd.DataFrame({"run": ["a"], "mean": [0.5], "low": [0.4], "high": [0.6], "turns": [9]})
    frame = frame.assign(unit="topic", clusters=3, unit_from="")
    shown = module._with_unit(frame, form, ["About turns."])
    titles = [column.title for column in shown.columns]
    assert ("unit" in titles) == (form == "csv")
    assert shown.notes[0] == "About turns."
    assert len(shown.notes) == (1 if form == "csv" else 2)


# The judge of qrels


@pytest.mark.parametrize("form", ["text", "csv"])
def test_the_judge_of_qrels_and_its_agreement_are_beside_scores(call, made, tmp_path, form):
    qrels = tmp_path / "judged.qrels"
    qrels.write_text((made.path / "two.txt").read_text())
    words = ("evaluate", made.runs / "raw", "--qrels", qrels, "--format", form)
    without = call(*words)
    assert "agrees" not in without.output
    write_judge(qrels, "gpt-4o", "fill", filled="filled 3 holes; agrees with people")
    told = call(*words)
    text = told.stdout if form == "text" else told.stderr
    assert "filled 3 holes; agrees with people" in text
    assert ("filled" in told.stdout) == (form == "text")
    write_judge(qrels, "gpt-4o", "one-shot")
    plain = call(*words)
    assert (plain.exit_code, "filled" in plain.output) == (0, False)


@pytest.mark.parametrize("form", ["text", "csv", "latex"])
def test_a_system_that_asked_the_judge_of_its_qrels_is_told(call, tmp_path, form):
    topics = pd.DataFrame({"qid": ["1_1"]})
    found = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    parameters = {"served": {"gpt-4o": ["gpt-4o-2024-08-06"]}}
    RunFolder(tmp_path / "mine").write(topics, found, pd.DataFrame(), pd.DataFrame(), parameters)
    (tmp_path / "judged").write_text("1_1 0 a 1\n")
    write_judge(tmp_path / "judged", "gpt-4o", "one-shot")
    done = call("evaluate", tmp_path / "mine", "--qrels", tmp_path / "judged", "--format", form)
    assert done.exit_code == 0, done.output
    assert "circular: gpt-4o" in (done.stdout if form == "text" else done.stderr)
    assert ("circular" in done.stdout) == (form == "text")


# Costs


def test_costs_are_of_finished_runs_alone(call, made, tmp_path):
    (tmp_path / "x.partial").mkdir()
    (tmp_path / "x.partial" / "000000.turns.jsonl").touch()
    done = call("evaluate", made.runs / "raw", tmp_path / "x.partial", "--cost")
    assert done.exit_code == 0, done.output
    assert "x.partial is omitted: it is an unfinished run" in done.stderr


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
    a = str(tmp_path / "a")
    unfinished = tmp_path / "b.partial"
    done = call("evaluate", a, unfinished, "--cost", "--of", of, "--format", form)
    assert done.exit_code == 0, done.output
    assert (done.stdout, asked) == (table.written(form), [[a]])
