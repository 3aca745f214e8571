"""`ikat evaluate`: which options fit, and whose measures, turns and judgements count."""

import gzip
from importlib import import_module
from types import SimpleNamespace

import pandas as pd
import pytest
from command_results import WHY, Stop, run_file, words_of

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.datasets import find_qrels, read_turns
from pyterrier_ikat.conversations.qrels import read_qrels
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import TRACK_2023, as_measures
from pyterrier_ikat.runs import RunFolder

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


def test_measures_and_baseline_are_known_before_runs_are_read(call, lacking, monkeypatch):
    asked = []

    def measures(*args):
        asked.append(args)
        raise Stop("no further")

    monkeypatch.setattr(module, "_measures", measures)
    words = ("evaluate", lacking / "few.trec", "--dataset", "ikat:sample", "--measures", "P@1")
    assert call(*words).exit_code == 2
    assert asked == [("P@1", "ikat:sample")]


def test_a_dataset_is_named_or_that_of_the_folders(made, tmp_path):
    assert module._dataset("actions", "ikat:sample", []).name == "ikat:sample"
    assert module._dataset("actions", None, [str(made.runs / "rtg")]).name == "ikat:sample"
    (tmp_path / "x.trec").write_text("1_1 Q0 a 1 2.0 x\n")
    with pytest.raises(UsageError, match="--of actions needs the dataset: give --dataset"):
        module._dataset("actions", None, [str(tmp_path / "x.trec")])


@pytest.mark.filterwarnings("ignore:.*has no qrels.txt")
def test_a_dataset_without_judgements_evaluates_nothing(call, refused, tiny):
    (tiny / "topics.jsonl").write_text(
        '{"qid": "1_1", "messages": [{"role": "user", "content": "Tea?"}]}\n'
    )
    line = refused(call("evaluate", tiny / "one.trec", "--dataset", tiny))
    assert f"{tiny} has no judgements: give --qrels FILE instead of --dataset" in line


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--by", "depth", "--baseline", "one"), "--by depth shows means without a baseline"),
        (("--by", "depth", "--measures", "P@1,P@2"), "--by depth shows one measure"),
        (("--unit", "turn"), "give --baseline"),
        (("--baseline", "none"), "the baseline 'none' is not one of the runs"),
        (("--judge", "rouge-l"), "--judge is for responses: omit it with --of passages"),
        (("--of", "responses", "--measures", "P@1"), "--measures is for passages: omit it with"),
        (("--of", "responses"), "--of responses needs the dataset"),
    ],
)
def test_options_that_do_not_fit_are_refused(call, refused, tmp_path, judged, options, told):
    runs = run_file(tmp_path / "one.trec", **{"1_1": "a"})
    qrels = () if "--of" in options else ("--qrels", judged)
    assert told in refused(call("evaluate", runs, *qrels, *options))


def test_a_baseline_is_a_system_and_not_one_of_its_repeats(call, refused, tmp_path):
    (tmp_path / "qrels").write_text("1_1 0 a 1\n")
    runs = [tmp_path / "raw.trec", tmp_path / "raw.repeat-2.trec", tmp_path / "other.trec"]
    for path in runs:
        path.write_text("1_1 Q0 a 1 2.0 x\n")
    words = ("evaluate", *runs, "--qrels", tmp_path / "qrels", "--measures", "P@1", "--baseline")
    assert "the baseline 'raw.repeat-2' is not one of" in refused(call(*words, "raw.repeat-2"))
    assert call(*words, "raw").exit_code == 0


def test_ones_own_measure_is_evaluated_and_a_missing_one_refused(call, refused, tiny):
    own = tiny / "mine.py"
    own.write_text(
        "def first_label(qrels, run):\n"
        "    return float(dict(zip(qrels.doc_id, qrels.relevance)).get(run.doc_id.iloc[1], 0))\n"
    )
    words = ("evaluate", tiny / "one.trec", "--qrels", tiny / "qrels")
    given = (*words, "--format", "csv", "--measures")
    assert call(*given, f"P@1,{own}:first_label").stdout.splitlines() == [
        "name,P(rel=1)@1,first_label,turns",
        "one,0.0,0.5,2",
    ]
    for name, message in (
        ("mine.py:other", "mine.py has no measure other: write a function"),
        ("none.py:x", "there is no file"),
    ):
        assert message in refused(call(*given, tiny / name))


# Turns and judgements

KNOWN = ["1-1_1", "1-1_2", "1-1_3"]


def test_turns_are_ids_or_lines_of_a_file_in_the_datasets_order(tmp_path):
    path = tmp_path / "turns"
    path.write_text("\ufeff1-1_3\n\n 1-1_1 \r\n", encoding="utf-8")
    for given in ("1-1_3,1-1_1", " 1-1_1 , 1-1_3,1-1_1", ["1-1_3", "1-1_1"], path, str(path)):
        assert read_turns(given, KNOWN, "it") == ["1-1_1", "1-1_3"]
    path.write_text("1-1_3\n\n1-1_1 1-1_2\n8-8_8\n")
    with pytest.raises(
        UsageError, match=r"it has no turn 1-1_1 1-1_2 \(line 3\), 8-8_8 \(line 4\)"
    ):
        read_turns(path, KNOWN, "it")
    path.write_text("\n")
    with pytest.raises(UsageError, match="names no turn"):
        read_turns(path, KNOWN, "it")
    with pytest.raises(DataError, match=r"none.txt can't be read"):
        read_turns(tmp_path / "none.txt", KNOWN, "it")


def test_qrels_are_a_frame_a_variant_or_a_file(made, monkeypatch):
    sample = ikat.dataset("ikat:sample")
    monkeypatch.chdir(made.path)
    assert set(find_qrels("two.txt", sample)["qid"]) == set(KNOWN[:2])
    assert find_qrels("two.txt", sample).equals(find_qrels(find_qrels("two.txt", sample), sample))
    (made.path / "ptkb").write_text("1-1_1 0 d 1\n")
    assert find_qrels("ptkb", sample).equals(sample.get_qrels("ptkb"))
    assert len(find_qrels("./ptkb", sample)) == 1


def test_packed_qrels_are_read_like_plain_ones(call, tmp_path):
    text = "1_1 0 d1 2\n1_1 0 d2 0\n"
    (tmp_path / "q.txt").write_text(text)
    (tmp_path / "q.gz").write_bytes(gzip.compress(text.encode()))
    pd.testing.assert_frame_equal(read_qrels(tmp_path / "q.gz"), read_qrels(tmp_path / "q.txt"))
    (tmp_path / "run.trec").write_text("1_1 Q0 d1 1 2.5 one\n")
    words = ("evaluate", tmp_path / "run.trec", "--measures", "nDCG@3", "--format", "csv")
    plain = call(*words, "--qrels", tmp_path / "q.txt")
    packed = call(*words, "--qrels", tmp_path / "q.gz")
    assert plain.exit_code == 0, plain.output
    assert packed.output == plain.output
    (tmp_path / "q.gz").write_bytes(gzip.compress(text.encode() * 99)[:-9])
    with pytest.raises(ikat.DataError, match="not a readable text file"):
        read_qrels(tmp_path / "q.gz")


def test_turns_and_qrels_decide_what_scores_are_means_of(call, made, sample_index, tmp_path):
    runs = (made.runs / "raw", made.runs / "rtg")

    def scores(*options, data=("--dataset", "ikat:sample")):
        form = ("--measures", "nDCG@5", "--format", "csv")
        return call("evaluate", *runs, *data, *form, *options).output

    qrels = ("--qrels", made.path / "two.txt")
    turns = ("--turns", made.path / "one-turn")
    one = scores(*turns)
    assert scores("--turns", "1-1_2") == one
    assert scores(*qrels, "--turns", "1-1_2") == one
    assert scores(*qrels, *turns, data=()) == one
    two = scores(*qrels)
    assert two == scores("--turns", "1-1_1,1-1_2")
    assert len({one, two, scores()}) == 3
    given = {"index": sample_index, "qrels": made.path / "two.txt", "turns": made.path / "one-turn"}
    table = ikat.run("raw", "ikat:sample", out=tmp_path / "runs", **given).table
    measured = RunFolder(tmp_path / "runs" / "raw").measures()
    assert measured.index.tolist() == ["1-1_2"]
    assert table["nDCG@5"].tolist() == pytest.approx(measured["nDCG@5"].tolist())


def test_the_other_ways_to_evaluate_take_the_same_turns(call, made, tmp_path):
    on = ("--dataset", "ikat:sample", "--format", "csv")
    turns = ("--turns", made.path / "one-turn")
    depths = call("evaluate", made.runs / "raw", "--by", "depth", *on, *turns).stdout
    assert [line.split(",")[0] for line in depths.splitlines()[1:]] == ["2"]
    depths = call("evaluate", made.runs / "raw", "--by", "depth", "--dataset", "ikat:sample")
    assert depths.output.endswith("\n\nnDCG@5: means over the turns of each depth.\n")
    for way, qrels in (("statements", "statements.txt"), ("responses", "two.txt")):
        rtg = ("evaluate", "--of", way, made.runs / "rtg", *on)
        of_file = call(*rtg, "--qrels", made.path / qrels, *turns)
        assert of_file.output == call(*rtg, "--turns", "1-1_2").output
    done = call("report", made.runs / "raw", *on[:2], *turns, "--out", tmp_path / "r.html")
    assert done.exit_code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "1-1_2" in page
    assert "1-1_3" not in page


@pytest.mark.parametrize(
    ("dataset", "qrels"), [(None, "two"), ("ikat:sample", "two"), ("ikat:sample", None)]
)
def test_judgements_are_read_by_turn(made, dataset, qrels):
    path = str(made.path / "two.txt") if qrels else None
    judged = module._judged(dataset, path, [])
    expected = ikat.dataset("ikat:sample").get_qrels()
    if qrels:
        expected = expected[expected["qid"].isin(["1-1_1", "1-1_2"])]
    docnos = expected.groupby("qid")["docno"].apply(set)
    assert {qid: set(labels) for qid, labels in judged.items()} == docnos.to_dict()


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


def test_passages_are_not_scored_by_judgements_of_statements(call, refused, made):
    words = ("evaluate", made.runs / "raw", "--dataset", "ikat:sample", "--qrels", "ptkb")
    assert "judge PTKB statements" in refused(call(*words))


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


def test_turns_that_not_all_folders_were_asked_are_judged(call, run, made, tmp_path):
    done = run(tmp_path / "runs", "raw", "--turns", "1-1_1")
    assert done.exit_code == 0, done.output
    told = words_of(call("evaluate", tmp_path / "runs" / "raw", made.runs / "rtg"))
    assert "Mean over 1 judged turn, those that all runs were asked, of 24." in told
    assert told.endswith("The runs were asked different judged turns: raw 1, rtg 24.")
