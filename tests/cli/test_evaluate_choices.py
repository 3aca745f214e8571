"""`ikat evaluate`: which options fit, whose measures, turns and texts count, what is told."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.ikat_dataset import SampleDataset
from pyterrier_ikat.conversations.qrels import write_judge
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.evaluation import TRACK_2023, as_measures
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.submit import write_submission
from pyterrier_ikat.tables import Cell, Column, Table

module = import_module("pyterrier_ikat.cli.evaluate")

FITS = {
    "passages": "qrels turns measures baseline by unit",
    "statements": "qrels turns",
    "responses": "qrels turns judges llm index unit",
    "actions": "turns unit",
    "nuggets": "turns unit",
}
OPTIONS = ("qrels", "turns", "measures", "baseline", "by", "unit", "judges", "llm", "index")


@pytest.mark.parametrize("cost", [True, False])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("of", FITS)
def test_an_option_is_for_some_evaluations(of, option, cost):
    nothing = dict.fromkeys(OPTIONS) | {"judges": ()}
    module._check_options(of, cost, nothing)
    given = nothing | {option: "x"}
    if option in FITS[of].split() and not cost:
        module._check_options(of, cost, given)
        return
    with pytest.raises(UsageError) as refused:
        module._check_options(of, cost, given)
    others = " and ".join(other for other in FITS if option in FITS[other].split())
    name = {"judges": "judge"}.get(option, option)
    instead = "--cost" if cost else f"--of {of}"
    assert str(refused.value) == f"--{name} is for {others}: omit it with {instead}"


@pytest.mark.parametrize(
    ("named", "dataset", "expected"),
    [
        (None, None, TRACK_2023),
        ("", None, TRACK_2023),
        ("P@1,R@2", None, ["P@1", "R@2"]),
        (None, "with", ["RR@10"]),
        ("P@1", "with", ["P@1"]),
        (None, "without", TRACK_2023),
    ],
)
def test_measures_are_named_or_of_the_dataset_or_the_track(monkeypatch, named, dataset, expected):
    known = {"with": SimpleNamespace(measures=["RR@10"]), "without": SimpleNamespace(measures=None)}
    monkeypatch.setattr(module, "dataset_named", known.get)
    assert module._measures(named, dataset) == as_measures(",".join(map(str, expected)))


def told(*arguments):
    return list(module._strange_turns(*arguments, "is odd", "are odd"))


def test_runs_with_the_same_strange_turns_share_a_line():
    both = {"a": {"1_1": {}, "9_9": {}, "8_8": {}}, "b": {"9_9": {}, "8_8": {}}}
    assert told(both, {"1_1"}) == ["each run has 2 turns that are odd: 8_8, 9_9"]
    three = {**both, "c": {"7_7": {}}}
    assert told(three, {"1_1"}) == [
        "a has 2 turns that are odd: 8_8, 9_9",
        "b has 2 turns that are odd: 8_8, 9_9",
        "c has 1 turn that is odd: 7_7",
    ]
    assert told({"a": {"9_9": {}}}, {"1_1"}) == ["a has 1 turn that is odd: 9_9"]
    assert told(both, {"1_1", "8_8", "9_9"}) == []


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


@pytest.mark.parametrize(
    ("judged", "dataset", "qrels", "refused"),
    [
        ({}, "d", None, "d has no judgements"),
        ({"1_1": {"7": 1}}, "d", "ptkb", "the qrels ptkb of d judge PTKB statements"),
        ({"1_1": {"7": 1}}, "d", "ptkb_all", "the qrels ptkb_all of d judge PTKB statements"),
        ({"1_1": {"p1": 1}}, "d", "ptkb", None),
        ({"1_2": {"7": 1}, "1_1": {"7": 1, "p2": 0}}, "d", "ptkb", None),
        ({"1_1": {"7": 1}}, "d", None, None),
        ({"1_1": {"7": 1}}, "d", "file", None),
        ({"1_1": {"7": 1}}, None, "ptkb", None),
    ],
)
def test_judgements_of_statements_score_no_passages(judged, dataset, qrels, refused):
    rankings = {"a": {"3_3": {}}, "b": {"1_1": {"p1": 2.0, "p2": 1.0}}}
    if refused is None:
        module._check_judgements(judged, rankings, dataset, qrels)
        return
    with pytest.raises(UsageError, match=refused):
        module._check_judgements(judged, rankings, dataset, qrels)


def test_judges_are_those_named_in_their_order(tmp_path):
    ledger = Ledger()
    [default] = module._judges((), None, ledger)
    assert type(default) is ikat.evaluation.RougeL
    names = ("existing-citations", "nuggets", "token-f1", "cited-sentences", "preference")
    judges = module._judges(names, "recorded:sample", ledger)
    assert [type(judge).__name__ for judge in judges] == [
        "ExistingCitations",
        "NuggetRecall",
        "TokenF1",
        "CitedSentences",
        "Preference",
    ]
    asking = ("groundedness", "completeness", "relevance", "naturalness", "correctness")
    judges = module._judges(asking, "recorded:sample", ledger)
    assert [type(judge).__name__.lower() for judge in judges] == list(asking)
    assert all(judge.llm.ledger is ledger for judge in judges)
    with pytest.raises(UsageError, match="--judge relevance needs a language model"):
        module._judges(("rouge-l", "relevance"), None, ledger)
    with pytest.raises(UsageError, match="or give bem=FOLDER"):
        module._judges(("zzzz",), None, ledger)


def test_a_classifier_of_equivalence_is_read_from_its_folder(monkeypatch):
    made = []
    monkeypatch.setattr(ikat.evaluation, "AnswerEquivalence", lambda path: made.append(path) or 7)
    assert module._judges(("bem=some/bem=x",), None, Ledger()) == [7]
    assert made == ["some/bem=x"]


# The runs that a dataset has


@pytest.fixture
def published(monkeypatch):
    """The sample, with published responses, nuggets and people's labels of them."""
    responses = pd.DataFrame(
        {
            "run": ["b", "a", "a"],
            "qid": ["1-1_1", "1-1_1", "1-1_2"],
            "qanswer": ["Walk the heath.", "Rooibos.", "In May."],
        }
    )
    nuggets = pd.DataFrame({"qid": ["1-1_1", "1-1_1", "1-1_2"], "nugget": ["one", "two", "three"]})
    labels = pd.DataFrame(
        {
            "run": ["a", "a", "b", "b", "a"],
            "qid": ["1-1_1", "1-1_1", "1-1_1", "1-1_1", "1-1_2"],
            "nugget": ["one", "one", "one", "one", "three"],
            "importance": ["vital", "okay", "vital", "okay", "vital"],
            "label": ["support", "not_support", "support", "support", "not_support"],
            "number": [1, 2, 1, 2, 1],
        }
    )
    for name, frame in [
        ("get_responses", responses),
        ("get_nuggets", nuggets),
        ("get_nugget_labels", labels),
    ]:
        monkeypatch.setattr(SampleDataset, name, lambda self, f=frame: f.copy(), raising=False)


def csv_of(done):
    assert done.exit_code == 0, done.output
    return [line.split(",") for line in done.stdout.splitlines()]


def test_published_responses_are_judged_by_run(call, published):
    done = call(
        *("evaluate", "published", "--of", "responses", "--dataset", "ikat:sample"),
        *("--turns", "1-1_1", "--judge", "token-f1", "--format", "csv"),
    )
    header, *rows = csv_of(done)
    assert [row[header.index("run")] for row in rows] == ["a", "b"]
    assert {row[header.index("judge")] for row in rows} == {"token F1"}
    assert "model" not in header
    assert "nugget recall" not in done.stderr


def test_a_run_named_published_is_a_run(call, published, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "published").symlink_to(made.runs / "rtg")
    done = call("evaluate", "published", "--of", "responses", "--format", "csv")
    header, *rows = csv_of(done)
    assert [row[header.index("run")] for row in rows] == ["rtg"]


def test_people_s_labels_of_nuggets_are_means_by_run(call, published):
    """By hand: a has 1 of 2 and 0 of 1, b has 2 of 2."""
    words = ("evaluate", "published", "--of", "nuggets", "--dataset", "ikat:sample")
    header, *rows = csv_of(call(*words, "--format", "csv"))
    assert header[:2] == ["run", "recall"]
    about = ["turns", "nuggets", "unit"]
    shown = [[row[header.index(name)] for name in ["run", "recall", *about]] for row in rows]
    assert shown == [["a", "0.25", "2", "3", "topic"], ["b", "1.0", "1", "2", "topic"]]
    one = csv_of(call(*words, "--turns", "1-1_1", "--format", "csv", "--unit", "turn"))
    shown = [[row[header.index(name)] for name in ["run", "recall", *about]] for row in one[1:]]
    assert shown == [["a", "0.5", "1", "2", "turn"], ["b", "1.0", "1", "2", "turn"]]


def test_nuggets_of_the_dataset_are_given_to_their_judge(published, capsys):
    turns = pd.DataFrame({"qid": ["1-1_2", "1-1_3", "1-1_1"]})
    module._add_nuggets(turns, ikat.dataset("ikat:sample"))
    assert turns["gold_nuggets"].tolist() == [["three"], [], ["one", "two"]]
    told = capsys.readouterr()
    assert (told.out, "all 3 nuggets of ikat:sample" in told.err) == ("", True)


def test_responses_have_texts_where_an_index_is_given(made, sample_index):
    rtg = str(made.runs / "rtg")
    plain = module._responses([rtg], None)["rtg"]
    assert plain["qpassages"].map(len).sum() == 0
    assert module._responses([rtg], sample_index)["rtg"]["qpassages"].map(len).sum() > 0


def test_asked_turns_are_those_of_all_runs(made, tmp_path):
    turns = pd.DataFrame({"qid": ["1-1_1", "1-1_2", "1-1_3"]})
    folder = RunFolder(tmp_path / "fewer")
    found = pd.DataFrame({"qid": ["1-1_2"], "docno": ["a"], "score": [1.0], "rank": [0]})
    asked = pd.DataFrame({"qid": ["1-1_2", "1-1_3"]})
    folder.write(asked, found, pd.DataFrame(), pd.DataFrame(), {})
    paths = [str(made.runs / "raw"), str(tmp_path / "fewer")]
    left, about = module._asked_turns(turns, paths, False)
    assert left["qid"].tolist() == ["1-1_2", "1-1_3"]
    assert left.index.tolist() == [0, 1]
    assert any("1-1_1" in line or "2 " in line for line in about)
    whole, about = module._asked_turns(turns, paths[:1], False)
    assert (whole["qid"].tolist(), about) == (turns["qid"].tolist(), [])
    chosen, _ = module._asked_turns(turns, paths, True)
    assert chosen["qid"].tolist() == turns["qid"].tolist()


# Statements, costs and the judge of qrels


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


def test_costs_are_of_finished_runs_alone(call, made, tmp_path):
    (tmp_path / "x.partial").mkdir()
    (tmp_path / "x.partial" / "000000.turns.jsonl").touch()
    done = call("evaluate", made.runs / "raw", tmp_path / "x.partial", "--cost")
    assert done.exit_code == 0, done.output
    assert "x.partial is omitted: it is an unfinished run" in done.stderr


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


@pytest.mark.parametrize(("by", "variant"), [("category", "manual"), ("depth", None)])
def test_categories_are_of_the_manual_topics(monkeypatch, call, by, variant):
    asked, given = [], []
    data = SimpleNamespace(get_topics=lambda name: asked.append(name) or "topics")
    monkeypatch.setattr(module, "dataset_named", lambda name: data)
    monkeypatch.setattr(module, "judged_by", lambda *args, **named: "judged")

    def breakdown(*args, **named):
        given.append((args, named))
        return pd.DataFrame({"by": ["x"], "turns": [1]})

    monkeypatch.setattr(ikat.evaluation, "breakdown", breakdown)
    done = call("evaluate", "a", "--dataset", "d", "--by", by, "--turns", "1_1")
    assert done.exit_code == 0, done.output
    assert asked == [variant]
    [(args, named)] = given
    assert (args[:2], str(args[2]), args[3]) == ((["a"], "judged"), "nDCG@5", by)
    assert named == {"topics": "topics", "turns": "1_1"}
    assert f"nDCG@5: means over the turns of each {by}." in done.stdout


def test_repeats_count_as_silent_where_all_of_them_are(monkeypatch):
    seen = []

    def rows(scores, measures, baseline, clusters, *, silent):
        seen.append((scores, silent))
        return "rows"

    monkeypatch.setattr("pyterrier_ikat.evaluation.experiment_table.repeated_rows", rows)
    runs = {name: Path(f"{name}.trec") for name in ("a", "a.repeat-2", "b", "b.repeat-2")}
    groups = {"a": ["a", "a.repeat-2"], "b": ["b", "b.repeat-2"]}
    scores = {name: name.upper() for name in runs}
    silent = ["a", "b", "b.repeat-2"]
    assert module._rows(runs, groups, scores, [], None, None, silent) == "rows"
    assert seen == [({"a": ["A", "A.REPEAT-2"], "b": ["B", "B.REPEAT-2"]}, ["b"])]


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


def test_rankings_of_files_and_folders_are_alike(made, tmp_path):
    raw = RunFolder(made.runs / "raw")
    of_folder = module._ranking("raw", made.runs / "raw")
    of_file = module._ranking("raw", raw.path / "run.trec")
    assert {qid: list(scores) for qid, scores in of_folder.items()} == {
        qid: list(scores) for qid, scores in of_file.items()
    }
    assert len(of_folder) == 24


@pytest.mark.parametrize(
    ("dataset", "qrels"), [(None, "two"), ("ikat:sample", "two"), ("ikat:sample", None)]
)
def test_judgements_are_read_by_turn(made, dataset, qrels):
    path = str(made.path / "two.txt") if qrels else None
    judged = module._judged(dataset, path, [])
    expected = ikat.dataset("ikat:sample").get_qrels()
    if qrels:
        expected = expected[expected["qid"].isin(["1-1_1", "1-1_2"])]
    assert {(qid, docno) for qid in judged for docno in judged[qid]} == set(
        zip(expected["qid"], expected["docno"], strict=True)
    )


def test_a_dataset_is_named_or_that_of_the_folders(made, tmp_path):
    assert module._dataset("actions", "ikat:sample", []).name == "ikat:sample"
    assert module._dataset("actions", None, [str(made.runs / "rtg")]).name == "ikat:sample"
    (tmp_path / "x.trec").write_text("1_1 Q0 a 1 2.0 x\n")
    with pytest.raises(UsageError, match="--of actions needs the dataset: give --dataset"):
        module._dataset("actions", None, [str(tmp_path / "x.trec")])


def test_passages_are_not_scored_by_judgements_of_statements(call, refused, made):
    words = ("evaluate", made.runs / "raw", "--dataset", "ikat:sample", "--qrels", "ptkb")
    assert "judge PTKB statements" in refused(call(*words))


def test_a_baseline_is_a_system_and_not_one_of_its_repeats(call, refused, tmp_path):
    (tmp_path / "qrels").write_text("1_1 0 a 1\n")
    for name in ("raw", "raw.repeat-2", "other"):
        (tmp_path / f"{name}.trec").write_text("1_1 Q0 a 1 2.0 x\n")
    runs = [tmp_path / f"{name}.trec" for name in ("raw", "raw.repeat-2", "other")]
    words = ("evaluate", *runs, "--qrels", tmp_path / "qrels", "--measures", "P@1", "--baseline")
    assert "the baseline 'raw.repeat-2' is not one of" in refused(call(*words, "raw.repeat-2"))
    assert call(*words, "raw").exit_code == 0
