"""`ikat evaluate --of statements` and `--of actions`: the scores of the package, and turns."""

import json
from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest
from command_results import WHY, csv_of

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import evaluate_ptkb
from pyterrier_ikat.evaluation.score_frame import about_turns
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import write_submission

module = import_module("pyterrier_ikat.cli.evaluate")


def test_statements_have_the_scores_of_the_package(call, made):
    shown = call("evaluate", "--of", "statements", made.runs / "rtg")
    table = evaluate_ptkb({"rtg": made.runs / "rtg"}, ikat.dataset("ikat:sample").get_qrels("ptkb"))
    header, row = (line.split() for line in shown.stdout.splitlines())
    assert header == list(table.columns)
    assert row == [
        "rtg",
        *(f"{value:.4f}".removeprefix("0") for value in table.iloc[0, 1:-2]),
        *map(str, table.iloc[0, -2:]),
    ]


def test_statements_of_a_submission_are_read_with_its_dataset(call, made, tmp_path):
    sample = ikat.dataset("ikat:sample")
    path = tmp_path / "rtg.json"
    rtg = RunFolder(made.runs / "rtg")
    write_submission(rtg, sample, path, run_id="rtg", run_type="automatic")
    words = ("--of", "statements", "--dataset", "ikat:sample", "--format", "csv")
    submitted = csv_of(call("evaluate", path, *words))
    folder = csv_of(call("evaluate", made.runs / "rtg", *words))
    assert submitted == folder
    two = csv_of(call("evaluate", path, *words, "--qrels", made.path / "statements.txt"))
    assert two != submitted
    assert two == csv_of(call("evaluate", path, *words, "--turns", "1-1_1,1-1_2"))


@pytest.fixture
def decided(tmp_path):
    """A data set of three turns with labels, and a run folder that decided for each."""
    folder = tmp_path / "mine"
    folder.mkdir()
    turns = [("a_1", "unanswerable"), ("b_1", "answerable"), ("c_1", "underspecified")]
    messages = [{"role": "user", "content": "Tea?"}]
    lines = []
    for qid, label in turns:
        lines.append({"qid": qid, "messages": messages, "answerability": label})
    (folder / "topics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "passages.jsonl").write_text('{"docno": "d1", "text": "Tea."}\n')
    run = tmp_path / "ours"
    run.mkdir()
    actions = {"a_1": "abstain", "b_1": "abstain", "c_1": "ask"}
    rows = [{"qid": qid, "qaction": action} for qid, action in actions.items()]
    (run / "turns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "run.json").write_text("{}")
    return run, folder


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.conversations.topics.CollectionWarning")
def test_actions_are_evaluated_with_turns_and_unit(call, decided):
    run, data = decided
    common = ("evaluate", "--of", "actions", run, "--dataset", data)
    done = call(*common)
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("ours")]
    assert rows[0][1:9] == ["abstain", "3", "1", "2", "1", ".5000", ".0945", ".9055"]
    assert rows[1][1:7] == ["ask", "3", "1", "1", "1", "1.0000"]
    csv = call(*common, "--format", "csv", "--unit", "turn")
    header, first, *_ = csv.stdout.splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert (row["unit"], row["clusters"], row["precision"]) == ("turn", "3", "0.5")
    chosen = call(*common, "--turns", "a_1", "--format", "csv").stdout.splitlines()
    assert chosen[1].split(",")[1:6] == ["abstain", "1", "1", "1", "1"]
    assert len(chosen) == 2


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
