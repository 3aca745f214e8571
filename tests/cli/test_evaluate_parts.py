"""`ikat evaluate`: repeats, strange turns, responses and their judges, and where notes go."""

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.runs import RunFolder


def run_file(path, **turns):
    lines = []
    for qid, docnos in turns.items():
        for rank, docno in enumerate(docnos.split()):
            lines.append(f"{qid} Q0 {docno} {rank + 1} {10 - rank} x\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture
def judged(tmp_path):
    """Judgements of two turns."""
    (tmp_path / "qrels").write_text("1_1 0 a 1\n1_2 0 b 1\n")
    return tmp_path / "qrels"


def words(result):
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_turns_that_nobody_judged_are_told_by_run(call, tmp_path, judged):
    one = run_file(tmp_path / "one.trec", **{"1_1": "a", "1_2": "x", "9_9": "z"})
    two = run_file(tmp_path / "two.trec", **{"1_1": "a", "1_2": "b", "9_9": "z"})
    three = run_file(tmp_path / "three.trec", **{"1_1": "a", "8_8": "z", "9_9": "z"})
    both = words(call("evaluate", one, two, "--qrels", judged))
    assert "each run has 1 turn that is not judged: 9_9" in both
    alone = words(call("evaluate", one, "--qrels", judged))
    assert "one has 1 turn that is not judged: 9_9" in alone
    mixed = words(call("evaluate", one, three, "--qrels", judged))
    assert "one has 1 turn that is not judged: 9_9" in mixed
    assert "three has 2 turns that are not judged: 8_8, 9_9" in mixed
    chosen = words(call("evaluate", one, "--qrels", judged, "--turns", "1_1"))
    assert "not judged" not in chosen


def test_turns_that_not_all_folders_were_asked_are_judged(call, run, made, tmp_path):
    done = run(tmp_path / "runs", "raw", "--turns", "1-1_1")
    assert done.exit_code == 0, done.output
    told = words(call("evaluate", tmp_path / "runs" / "raw", made.runs / "rtg"))
    assert "Mean over 1 judged turn, those that all runs were asked, of 24." in told
    assert told.endswith("The runs were asked different judged turns: raw 1, rtg 24.")


def test_turns_that_a_dataset_lacks_are_told(call, tmp_path, made):
    qrels = tmp_path / "qrels"
    qrels.write_text((made.path / "two.txt").read_text() + "9-9_9 0 z 1\n")
    runs = run_file(tmp_path / "one.trec", **{"1-1_1": "z", "8-8_8": "z"})
    told = words(call("evaluate", runs, "--qrels", qrels, "--dataset", "ikat:sample"))
    assert "judges 1 turn that ikat:sample lacks: 9-9_9" in told
    assert "one has 1 turn that ikat:sample lacks: 8-8_8" in told


def test_repeats_are_one_row_with_deviation(call, tmp_path, judged):
    """By hand: P@1 of 1 and .5 are .75, n - 1: .3536."""
    best = run_file(tmp_path / "raw.trec", **{"1_1": "a", "1_2": "b"})
    half = run_file(tmp_path / "raw.repeat-2.trec", **{"1_1": "a", "1_2": "x"})
    other = run_file(tmp_path / "other.trec", **{"1_1": "x b", "1_2": "b"})
    measure = ("--measures", "P@1")
    told = words(call("evaluate", best, half, other, "--qrels", judged, *measure))
    assert ".7500±.3536" in told
    assert "over 2 repeats" in told
    assert "raw.repeat-2" not in told
    tested = words(
        call("evaluate", best, half, other, "--qrels", judged, *measure, "--baseline", "other")
    )
    assert "averaged over the repeats" in tested
    alone = words(call("evaluate", best, other, "--qrels", judged, *measure))
    assert "±" not in alone


def test_repeats_of_other_systems_are_refused(call, refused, tmp_path, judged):
    topics = pd.DataFrame({"qid": ["1_1"]})
    found = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.0], "rank": [0]})
    for name, stages in (("raw", "one"), ("raw.repeat-2", "other")):
        about = {"method": "raw", "stages": stages}
        RunFolder(tmp_path / name).write(topics, found, pd.DataFrame(), pd.DataFrame(), about)
    line = refused(call("evaluate", tmp_path / "raw", tmp_path / "raw.repeat-2", "--qrels", judged))
    assert "are not repeats of one system: the second has different stages" in line


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


def test_the_means_by_depth_count_their_turns(call, tmp_path, judged):
    runs = run_file(tmp_path / "one.trec", **{"1_1": "a", "1_2": "x"})
    done = call(
        *("evaluate", runs, "--qrels", judged, "--by", "depth"),
        *("--measures", "P@1", "--format", "csv"),
    )
    assert done.stdout.splitlines() == ["depth,one,turns", "1,1.0,1", "2,0.0,1"]
    assert "P@1: means over the turns of each depth." in " ".join(done.stderr.split())


def test_responses_are_judged_by_words_unless_a_judge_is_named(call, made):
    rtg = made.runs / "rtg"
    by_default = call("evaluate", rtg, "--of", "responses", "--format", "csv")
    assert by_default.exit_code == 0, by_default.output
    assert by_default.stdout.splitlines()[1].startswith("rtg,ROUGE-L,")
    named = call(
        *("evaluate", rtg, "--of", "responses", "--format", "csv"),
        *("--judge", "token-f1", "--judge", "rouge-l", "--turns", "1-1_1,1-1_2"),
    )
    judges = [line.split(",")[1] for line in named.stdout.splitlines()[1:]]
    assert judges == ["token F1", "ROUGE-L"]
    turns = ikat.dataset("ikat:sample").get_topics()["qid"].tolist()
    frame = pd.DataFrame(RunFolder(rtg).turns()).set_index("qid").loc[turns[:1]]
    assert frame["response"].str.len().item() > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--judge", "groundedness"), "--judge groundedness needs a language model: give --llm"),
        (("--judge", "rouge"), "--judge rouge is unknown: did you mean rouge-l"),
        (("--judge", "completness"), "is unknown: did you mean completeness"),
        (("--judge", "token-f"), "is unknown: did you mean token-f1"),
        (("--judge", "zzzz"), "choose among rouge-l, token-f1,"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_named(call, refused, made, options, told):
    line = refused(call("evaluate", made.runs / "rtg", "--of", "responses", *options))
    assert told in line


def test_a_run_without_responses_is_named(call, refused, made):
    line = refused(call("evaluate", made.runs / "raw", "--of", "responses"))
    assert line == "raw has no responses: its system writes none"


def test_published_runs_are_those_of_some_datasets(call, refused):
    line = refused(call("evaluate", "published", "--of", "responses", "--dataset", "ikat:sample"))
    assert "ikat:sample has no published runs" in line
    nuggets = refused(call("evaluate", "x", "--of", "nuggets", "--dataset", "ikat:sample"))
    assert "published" in nuggets
