"""What each argument of a report changes: the content of the page, before it is drawn."""

from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from small_dialogues import write_logs
from small_runs import DOCNOS, best_first, ranking

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.evaluator import name_runs
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.show.report import (
    Report,
    _describe_run,
    _report_rankings,
    describe_calls,
    report,
    turns,
)
from pyterrier_ikat.show.report.content import Call
from pyterrier_ikat.show.report.material import Material, RunData
from pyterrier_ikat.study.compare import Results

TURNS = ["1-1_1", "1-2_1", "2-1_1"]
QRELS = pd.DataFrame({"qid": TURNS, "docno": ["a", "a", "b"], "label": [2, 1, 0]})
ONE = ranking(list(product(TURNS, "xyza", [1.0])))
TWO = ranking(list(product(TURNS[:2], "ab", [1.0])))


@pytest.fixture(autouse=True)
def content_alone(monkeypatch):
    """A report is its content."""
    monkeypatch.setattr(Report, "of", classmethod(lambda cls, content: content))


def units(content):
    found = {}
    for group in content.groups:
        for unit in group.units:
            found[unit.name] = unit
    return found


def listed(content, qid, run=0):
    [step] = units(content)[qid].sides[run].steps
    return [passage.docno for passage in step.passages]


def test_frames_are_shown_with_judgements_and_texts():
    texts = pt.apply.generic(lambda rows: rows.assign(text="Text of " + rows["docno"]))
    found = report(
        {"one": ONE, "raw": TWO}, qrels=QRELS, texts=texts, measures=["P@1", "RR"], passages=2
    )
    assert found.names == ["raw", "one"]
    assert (found.unit, found.group, found.dataset) == ("turn", "Conversation", "")
    assert found.labelled
    assert found.made == {}
    assert [measure.name for measure in found.measures] == ["P(rel=1)@1", "RR(rel=1)"]
    assert found.facts == (
        "3 turns of 3 conversations, 3 of them judged, the best 2 passages of every run, the first "
        "120 words of each."
    )
    assert listed(found, "1-1_1", 1) == ["x", "y"]
    assert listed(found, "2-1_1", 0) == []
    turn = units(found)["1-1_1"]
    assert turn.scores == [[1.0, 1.0], [0.0, 0.25]]
    assert turn.reasons[1][0] == (
        "raw leads by 1.0000 in P(rel=1)@1. raw finds “Text of a” (label 2) at rank 1, one at 4 "
        "(+1.0000). In one “Text of x”, not judged, came in at rank 1."
    )
    assert turn.missed == ()
    assert [mean.text for mean in found.means[0]] == [".6667", ".6667"]
    assert [mean.text for mean in found.means[1]] == [".0000", ".1667"]
    assert found.caption.startswith(
        "Mean over 3 judged turns. raw lacks 1 judged turn, counted 0: 2-1_1. Differences are "
        "from raw."
    )
    assert "over 3 turns of 3 conversations" in found.caption
    missed = report({"one": ONE}, qrels=QRELS, passages=2)
    assert units(missed)["1-1_1"].missed == ["a (label 2): one at rank 4"]
    assert "Differences" not in missed.caption
    assert missed.facts.endswith("the best 2 passages of every run.")


def test_the_baseline_comes_first_and_must_be_a_run():
    runs = {"one": ONE, "raw": TWO}
    assert report(runs, qrels=QRELS, baseline="one").names == ["one", "raw"]
    with pytest.raises(UsageError, match="the baseline 'two' is not one of the runs: one, raw"):
        report(runs, qrels=QRELS, baseline="two")


def test_a_unit_and_chosen_turns_change_the_means():
    runs = {"one": ONE, "raw": TWO}
    by_topic = report(runs, qrels=QRELS, unit="topic", measures=["P@1"])
    assert "over 3 turns of 2 topics" in by_topic.caption
    few = report(runs, qrels=QRELS, turns=["2-1_1", "1-1_1"], measures=["P@1"])
    assert list(units(few)) == ["1-1_1", "2-1_1"]
    assert few.means[0][0].text == ".5000"
    assert few.caption.startswith("Mean over 2 judged turns.")
    with pytest.raises(UsageError, match="none of the runs"):
        report(runs, qrels=QRELS, turns=["9_9"])
    with pytest.raises(UsageError, match="unit='week'"):
        report(runs, qrels=QRELS, unit="week")
    for passages in (0, -1):
        with pytest.raises(UsageError, match=f"passages={passages}: show at least one"):
            report(runs, qrels=QRELS, passages=passages)
    assert "the best 1 passage of" in report(runs, qrels=QRELS, passages=1).facts


def test_folders_bring_dataset_scores_and_how_they_were_made(folders):
    found = report(folders)
    assert found.names == ["plain", "full"]
    assert found.dataset == "ikat:sample"
    assert found.labelled
    assert found.made["full"][0] == "full()"
    assert found.made["full"][1].startswith("2 LLM calls, 1 known")
    assert found.made["full"][2:] == ["llm: the paper has gpt-4, this run gpt-4o"]
    assert "topics" in found.caption
    assert list(units(found)) == ["1-1_1", "1-1_2", "1-1_3"]
    mine = pd.DataFrame({"qid": ["1-1_1"] * 2, "docno": [DOCNOS[4], DOCNOS[2]], "label": [1, 1]})
    own = report(folders, qrels=mine, measures=["P@2"])
    assert units(own)["1-1_1"].scores == [[0.0], [0.5]]
    assert units(own)["1-1_2"].scores is None
    chosen = report(folders, turns=["1-1_3", "1-1_1"])
    assert chosen.caption.startswith("Mean over 2 judged turns.")
    with pytest.raises(UsageError, match="ikat:sample"):
        report(folders, turns=["9_9"])
    by_variant = report(folders, qrels="provenance", measures=["P@2"])
    assert by_variant.labelled


def test_results_of_a_study_bring_folders_baseline_and_unit(folders):
    runs = {folder.path.name: SimpleNamespace(folder=folder) for folder in folders}
    done = Results(SimpleNamespace(), Path("runs"), runs, pd.DataFrame(), "full", "conversation")
    found = report(done)
    assert found.names == ["full", "plain"]
    assert "of 1 conversation" in found.caption
    other = report(done, baseline="plain", unit="turn")
    assert other.names == ["plain", "full"]
    assert "treats all turns as independent" in other.caption


def test_without_judgements_there_are_no_means():
    found = report({"one": ONE})
    assert (found.means, found.labelled, found.measures) == ([], False, [])
    assert found.facts == "3 turns of 3 conversations, the best 20 passages of every run."
    assert any(note.startswith("No dataset was given") for note in found.notes)
    assert found.caption == "Mean over 0 judged turns."


def test_logs_take_no_arguments_of_runs_of_topics(tmp_path):
    logs = write_logs(tmp_path)
    for argument, value in {
        "dataset": "ikat:sample",
        "qrels": QRELS,
        "turns": ["1_1"],
        "measures": ["RR"],
        "unit": "user",
    }.items():
        with pytest.raises(UsageError, match=f"{argument}=... is for runs of topics, and one hold"):
            report(logs, **{argument: value})
    found = report(logs, baseline="two", passages=1)
    assert found.names == ["two", "one"]
    asked = []

    def load(rows):
        asked.extend(rows["docno"])
        return rows.assign(text="loaded")

    bare = write_logs(tmp_path / "bare", sources=(), citations={"p": 2.0, "q": 1.0})
    report(bare, texts=pt.apply.generic(load), passages=1)
    assert asked == ["p"]
    assert name_runs(bare, "run").keys() == {"one", "two"}


def test_a_run_of_turns_that_the_data_lacks_is_named(folders):
    odd = ranking([("77_1", "a", 1.0)])
    with pytest.raises(DataError, match="run odd has the turn 77_1, which ikat:sample lacks"):
        report({"odd": odd, "plain": RunFolder(folders[0].path)})


def test_the_costs_of_calls_are_summed_or_unknown():
    columns = ["calls", "known", "prompt_tokens", "completion_tokens", "cost", "failures"]
    rows = [(1, 2, 10, 5, 0.5, 0), (2, 0, 1, 1, 0.25, 3)]
    ledger = pd.DataFrame(rows, columns=columns).assign(fallbacks=[1, 0])
    assert describe_calls(ledger) == (
        "3 LLM calls, 2 known, 17 tokens, 0.75 USD, 3 failures, 1 fallback."
    )
    assert describe_calls(ledger.assign(unanswered=[1, 0])) == (
        "3 LLM calls, 2 known, 17 tokens, 0.75 USD, 1 request without an answer, 3 failures, "
        "1 fallback."
    )
    odd = ledger.assign(completion_tokens=[5, None], cost=[None, 1.0])
    assert describe_calls(odd) == (
        "3 LLM calls, 2 known, unknown tokens, unknown cost, 3 failures, 1 fallback."
    )
    assert describe_calls(ledger[:0]) == describe_calls(None) == "No LLM calls."


@pytest.mark.parametrize(
    ("ledger", "told"),
    [
        (None, "No LLM calls."),
        ({"prompt_tokens": [1, None], "cost": [0.5, 0.5]}, "unknown tokens, 1.00 USD"),
        ({"prompt_tokens": [1, 2], "cost": [0.5, None]}, "7 tokens, unknown cost"),
    ],
)
def test_unknown_amounts_are_called_unknown(ledger, told):
    counts = {name: [1, 1] for name in ("calls", "known", "failures", "fallbacks")}
    frame = (
        None if ledger is None else pd.DataFrame({**counts, "completion_tokens": [2, 2], **ledger})
    )
    assert told in describe_calls(frame)


def test_requests_without_an_answer_are_said():
    spent = Ledger()
    spent.count("answer", "m", calls=2, prompt_tokens=9, completion_tokens=1, cost=0.5)
    assert "without an answer" not in describe_calls(spent.frame())
    spent.count("answer", "m", unanswered=3, cost=None)
    assert (
        "2 LLM calls, 0 known, 10 tokens, unknown cost, 3 requests without an answer"
        in describe_calls(spent.frame())
    )


def test_a_run_is_described_by_all_that_is_said_of_it():
    parameters = {"expression": "a >> b", "notes": ["n1", "n2"], "deviations": ["d1", "d2"]}
    run = RunData("a", None, parameters=parameters)
    assert _describe_run(run) == ["a >> b", "No LLM calls.", "d1", "d2", "n1", "n2"]
    plain = RunData("a", None, parameters={"expression": "a"})
    assert _describe_run(plain) == ["a", "No LLM calls."]


def test_intervals_are_of_the_unit_that_is_asked_for():
    qids = []
    for topic in range(1, 7):
        qids += [f"{topic}-1_1", f"{topic}-2_1"]
    found = ["a", "xa", "a", "xa", "a", "a", "a", "xya", "a", "a", "xa", "a"]
    one = best_first(dict.fromkeys(qids, "xyab"))
    two = best_first(dict(zip(qids, found, strict=True)))
    runs = {"one": one, "two": two}
    qrels = pd.DataFrame({"qid": qids, "docno": "a", "label": 1})
    intervals = []
    for unit in ("turn", "topic"):
        content = report(runs, qrels=qrels, measures=["RR"], unit=unit)
        intervals.append(content.means[1][0].interval)
    assert intervals[0] != intervals[1]
    assert all(interval.startswith("[+") for interval in intervals)


def test_what_another_run_shows_is_not_missed():
    runs = {"base": ranking([("1-1_1", "x", 2.0), ("1-1_1", "a", 1.0)]), "other": ONE}
    other = ranking([("1-1_1", "a", 2.0)])
    qrels = pd.DataFrame({"qid": ["1-1_1"], "docno": ["a"], "label": [1]})
    found = report({**runs, "other": other}, qrels=qrels, passages=1)
    assert units(found)["1-1_1"].missed == ()
    alone = report({"base": runs["base"]}, qrels=qrels, passages=1)
    assert units(alone)["1-1_1"].missed == ["a (label 1): base at rank 2"]


def test_calls_of_a_large_page_are_cut_with_a_note(monkeypatch):
    monkeypatch.setattr(turns, "CALL_CHARACTERS", 300)
    call = Call("answer", "Answer()", [{"role": "user", "content": "x" * 500}], "yes")
    run = RunData("one", ONE, calls={"1-1_1": [call]})
    material = Material("", {}, None, None, ("a note",))
    found = _report_rankings([run], material, None, 20, None, False)
    [shown] = units(found)["1-1_1"].sides[0].steps[0].calls
    assert shown.messages == [{"role": "user", "content": "x" * 250 + " […]"}]
    assert [note[:29] for note in found.notes] == ["a note", "Prompts and completions are c"]


def test_passages_of_a_turn_that_is_not_scored_are_missed_too():
    rows = [("1_1", "a", 1.0), ("1_2", "x", 2.0), ("1_2", "a", 1.0)]
    one = RunData("one", ranking(rows), {"1_1": {}, "1_2": {}}, parameters={"expression": "a"})
    two = RunData("two", ranking(rows[:1]), {"1_1": {}}, parameters={"expression": "b"})
    qrels = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": "a", "label": 1})
    material = Material("", {}, qrels, None, ())
    found = units(_report_rankings([one, two], material, ["P@1"], 1, None, False))
    assert found["1_2"].scores is None
    assert found["1_2"].missed == ["a (label 1): one at rank 2"]


def test_scores_of_folders_alone_bring_no_labels():
    run = RunData("one", ONE, scores=pd.DataFrame({"qid": TURNS, "AP": [0.5, 0.5, 0.5]}))
    found = _report_rankings([run], Material("", {}, None, None, ()), None, 20, None, False)
    assert [measure.name for measure in found.measures] == ["AP"]
    assert not found.labelled
