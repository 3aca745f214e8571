"""`ikat evaluate`: means of passages, repeats, tests, means by depth; statements and actions."""

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from command_results import WHY, Called, Stop, csv_of, run_file, words_of

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import evaluate_ptkb
from pyterrier_ikat.evaluation.score_frame import about_turns
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import write_submission

module = import_module("pyterrier_ikat.cli.evaluate")


def test_rankings_of_files_and_folders_are_alike(made, tmp_path):
    raw = RunFolder(made.runs / "raw")
    of_folder = module._ranking("raw", made.runs / "raw")
    of_file = module._ranking("raw", raw.path / "run.trec")
    assert {qid: list(scores) for qid, scores in of_folder.items()} == {
        qid: list(scores) for qid, scores in of_file.items()
    }
    assert len(of_folder) == 24


# Repeats


def test_repeats_are_one_row_with_deviation(call, tmp_path, judged):
    """By hand: P@1 of 1 and .5 are .75, n - 1: .3536."""
    best = run_file(tmp_path / "raw.trec", **{"1_1": "a", "1_2": "b"})
    half = run_file(tmp_path / "raw.repeat-2.trec", **{"1_1": "a", "1_2": "x"})
    other = run_file(tmp_path / "other.trec", **{"1_1": "x b", "1_2": "b"})
    measure = ("--measures", "P@1")
    told = words_of(call("evaluate", best, half, other, "--qrels", judged, *measure))
    assert ".7500±.3536" in told
    assert "over 2 repeats" in told
    assert "raw.repeat-2" not in told
    tested = words_of(
        call("evaluate", best, half, other, "--qrels", judged, *measure, "--baseline", "other")
    )
    assert "averaged over the repeats" in tested
    alone = words_of(call("evaluate", best, other, "--qrels", judged, *measure))
    assert "±" not in alone


def test_repeats_of_other_systems_are_refused(call, refused, tmp_path, judged):
    topics = pd.DataFrame({"qid": ["1_1"]})
    found = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    for name, stages in (("raw", "one"), ("raw.repeat-2", "other")):
        about = {"method": "raw", "stages": stages}
        RunFolder(tmp_path / name).write(topics, found, pd.DataFrame(), pd.DataFrame(), about)
    line = refused(call("evaluate", tmp_path / "raw", tmp_path / "raw.repeat-2", "--qrels", judged))
    assert "are not repeats of one system: the second has different stages" in line


def test_repeats_count_as_silent_where_all_of_them_are(monkeypatch):
    seen = []

    def rows(scores, measures, baseline, clusters, *, silent):
        seen.append((scores, silent))
        return "rows"

    monkeypatch.setattr("pyterrier_ikat.evaluation.experiment_table.repeated_rows", rows)
    names = ["a", "a.repeat-2", "b", "b.repeat-2"]
    runs = {name: Path(f"{name}.trec") for name in names}
    groups = {"a": ["a", "a.repeat-2"], "b": ["b", "b.repeat-2"]}
    scores = {name: name.upper() for name in names}
    silent = ["a", "b", "b.repeat-2"]
    assert module._rows(runs, groups, scores, [], None, None, silent) == "rows"
    assert seen == [({"a": ["A", "A.REPEAT-2"], "b": ["B", "B.REPEAT-2"]}, ["b"])]


TABLES = import_module("pyterrier_ikat.evaluation.experiment_table")


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


# A test against a baseline


def test_a_baseline_is_tested_by_the_unit_of_the_dataset(call, lacking, monkeypatch):
    (lacking / "more.trec").write_text("1_1 Q0 b 1 2.0 x\n1_2 Q0 b 1 2.0 x\n")
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
    runs = [lacking / "few.trec", lacking / "more.trec"]
    words = (
        "evaluate",
        *runs,
        "--qrels",
        lacking / "qrels",
        "--measures",
        "P@1",
        "--baseline",
        "few",
    )
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


def test_a_test_is_of_the_chosen_turns_of_the_dataset(call, lacking, monkeypatch):
    asked = []

    def find_silent(rankings, turns):
        asked.append(list(turns))
        raise Stop("no further")

    finished = import_module("pyterrier_ikat.evaluation.finished_runs")
    monkeypatch.setattr(finished, "known_dataset", lambda runs, name: asked.append(name))
    monkeypatch.setattr("pyterrier_ikat.evaluation.scores.find_silent", find_silent)
    (lacking / "few.trec").write_text("1-1_2 Q0 sample-walk-019:0 1 2.0 x\n")
    chosen = ("--dataset", "ikat:sample", "--turns", "1-1_2", "--baseline", "few")
    done = call("evaluate", lacking / "few.trec", *chosen, "--unit", "turn")
    assert "no further" in done.stderr
    assert asked == ["ikat:sample", ["1-1_2"]]


def test_the_unit_of_the_test_is_the_one_that_is_named(call, tiny):
    turns = ["1-1_1", "1-1_2", "1-2_1", "2-1_1"]
    for name, docnos in (("one", "aaaa"), ("two", "babb")):
        lines = []
        for turn, docno in zip(turns, docnos, strict=True):
            lines.append(f"{turn} Q0 {docno} 1 2.0 {name}\n")
        (tiny / name).write_text("".join(lines))
    labels = "".join(f"{turn} 0 a 1\n{turn} 0 b 0\n" for turn in turns)
    (tiny / "judged").write_text(labels)
    given = ("evaluate", tiny / "one", tiny / "two", "--qrels", tiny / "judged")
    for unit, clusters in (
        ("turn", "over 4 turns,"),
        ("conversation", "over 4 turns of 3 conversations,"),
        ("topic", "over 4 turns of 2 topics,"),
    ):
        done = call(*given, "--baseline", "two", "--unit", unit)
        assert clusters in " ".join(done.stdout.split()), done.output


# Means by depth and category


def test_the_means_by_depth_count_their_turns(call, tmp_path, judged):
    runs = run_file(tmp_path / "one.trec", **{"1_1": "a", "1_2": "x"})
    done = call(
        *("evaluate", runs, "--qrels", judged, "--by", "depth"),
        *("--measures", "P@1", "--format", "csv"),
    )
    assert done.stdout.splitlines() == ["depth,one,turns", "1,1.0,1", "2,0.0,1"]
    assert "P@1: means over the turns of each depth." in " ".join(done.stderr.split())


def test_means_by_depth_say_which_turns_they_lack(call, lacking):
    words = ("evaluate", lacking / "few.trec", "--qrels", lacking / "qrels", "--by", "depth")
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert "few lacks 1 judged turn, counted 0: 1_2" in " ".join(done.stdout.split())
    chosen = call(*words, "--turns", "1_1", "--format", "csv")
    assert chosen.stdout.splitlines() == ["depth,few,turns", "1,1.0,1"]


@pytest.mark.parametrize(("by", "variant"), [("category", "manual"), ("depth", None)])
def test_categories_are_of_the_manual_topics(monkeypatch, call, by, variant):
    given = []
    get_topics = Called("topics")
    data = SimpleNamespace(get_topics=get_topics)
    monkeypatch.setattr(module, "dataset_named", lambda name: data)
    monkeypatch.setattr(module, "judged_by", lambda *args, **named: "judged")

    def breakdown(*args, **named):
        given.append((args, named))
        return pd.DataFrame({"by": ["x"], "turns": [1]})

    monkeypatch.setattr(ikat.evaluation, "breakdown", breakdown)
    done = call("evaluate", "a", "--dataset", "d", "--by", by, "--turns", "1_1")
    assert done.exit_code == 0, done.output
    assert get_topics.calls == [((variant,), {})]
    [(args, named)] = given
    assert (args[:2], str(args[2]), args[3]) == ((["a"], "judged"), "nDCG@5", by)
    assert named == {"topics": "topics", "turns": "1_1"}
    assert f"nDCG@5: means over the turns of each {by}." in done.stdout


# Statements and actions


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
