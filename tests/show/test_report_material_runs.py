"""The runs that a report reads: folders, files, submissions and frames, and what stages kept."""

import json

import numpy as np
import pandas as pd
import pytest
from small_runs import DOCNOS, ranking, write_stages

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.runs import RunFolder, write_run
from pyterrier_ikat.show.report.content import Call
from pyterrier_ikat.show.report.material import baseline_first, read_runs, read_stages
from pyterrier_ikat.submit import read_submission

FRAME = ranking([("1_1", "a", 2.0), ("1_1", "b", 1.0)])


def test_a_folder_tells_everything(folders):
    for given in (folders[1], folders[1].path, str(folders[1].path)):
        (run,) = read_runs(given)
        assert run.name == "full"
        assert run.turns["1-1_1"]["qsubqueries"] == ["easy first walk", "soft paths"]
        assert run.turns["1-1_1"]["used"] == [DOCNOS[1], DOCNOS[0]]
        assert run.run_on == {"1-1_1", "1-1_2"}
        assert run.scores["qid"].tolist() == ["1-1_1", "1-1_2"]
        assert run.ledger["calls"].tolist() == [2]
        assert len(run.results) == 4


def test_a_folder_without_scores_or_stages_has_what_it_has(folders):
    [run] = read_runs({"x": folders[0]})
    assert run.name == "x"
    assert "searched" not in run.turns["1-1_1"]
    assert run.calls == {}
    assert run.parameters["dataset"] == "ikat:sample"
    assert list(run.turns) == ["1-1_1", "1-1_2", "1-1_3"]


def test_a_turn_of_a_folder_has_its_words_queries_and_calls(folders):
    call = {"prompt": "answer", "messages": [], "completion": "x"}
    lines = [
        {"qid": "1-1_1", "stage": "a", "asked": [call], "found": [{"query": "soft paths"}]},
        {"qid": "1-1_9", "stage": "a", "found": [{"query": "of no turn"}]},
    ]
    write_stages(folders[1].path, *lines)
    (run,) = read_runs(folders[1])
    assert run.turns["1-1_1"]["searched"] == ["soft paths"]
    assert run.turns["1-1_1"]["qsubqueries"] == ["easy first walk", "soft paths"]
    assert "searched" not in run.turns["1-1_2"]
    assert list(run.turns) == ["1-1_1", "1-1_2"]
    assert run.calls["1-1_1"] == [Call("answer", "a", [], "x")]


def test_a_folder_cut_short_is_refused(folders):
    (folders[0].path / "ledger.csv").unlink()
    with pytest.raises(DataError, match=r"ledger.csv can't be read .*: repeat the run"):
        read_runs(folders[0])
    (folders[1].path / "run.json").unlink()
    with pytest.raises(DataError, match="full is not a finished run"):
        read_runs(folders[1])


def test_a_trec_run_tells_the_ranking(tmp_path):
    write_run(FRAME, tmp_path / "bm25.trec")
    (run,) = read_runs(tmp_path / "bm25.trec")
    assert (run.name, run.results["docno"].tolist(), dict(run.turns), run.run_on) == (
        "bm25",
        ["a", "b"],
        {},
        None,
    )


SUBMISSION = {
    "run_name": "theirs",
    "run_type": "automatic",
    "turns": [
        {
            "turn_id": "1-1_1",
            "responses": [
                {
                    "rank": 1,
                    "text": "Take the heath.",
                    "ptkb_provenance": [
                        {
                            "id": "2",
                            "text": (
                                "My left knee is worn and hurts whenever I go downhill for long."
                            ),
                            "score": 1.0,
                        }
                    ],
                    "passage_provenance": [
                        {"id": DOCNOS[0], "text": "Newcomers", "score": 2.0, "used": True},
                        {"id": DOCNOS[1], "text": "Level", "score": 1.0, "used": False},
                    ],
                }
            ],
        }
    ],
}


def test_a_submission_tells_response_statements_and_what_is_used(tmp_path):
    path = tmp_path / "handed_in.json"
    path.write_text(json.dumps(SUBMISSION), encoding="utf-8")
    for given in (path, {"theirs": read_submission(path)}, [read_submission(path)]):
        (run,) = read_runs(given)
        assert run.name == ("handed_in" if given is path else "theirs")
        assert run.results["docno"].tolist() == DOCNOS[:2]
        assert run.turns == {
            "1-1_1": {
                "response": "Take the heath.",
                "qstatements": [("2", 1.0)],
                "used": [DOCNOS[0]],
            }
        }


def turn_of(qid, text, statement, docnos):
    provenance = []
    for rank, docno in enumerate(docnos):
        provenance.append({"id": docno, "text": "x", "score": 2.0 - rank, "used": rank == 0})
    persona = [{"id": statement, "text": "x", "score": 1.0}]
    response = {"rank": 1, "text": text, "ptkb_provenance": persona}
    return {"turn_id": qid, "responses": [{**response, "passage_provenance": provenance}]}


def test_a_submission_is_read_with_the_dataset_it_is_of(tmp_path, sample):
    turns = [
        turn_of("1-1_1", "Take the heath.", "2", DOCNOS[:2]),
        turn_of("1-1_2", "In August.", "6", DOCNOS[2:3]),
    ]
    path = tmp_path / "mine.json"
    submission = {"run_name": "theirs", "run_type": "automatic", "turns": turns}
    path.write_text(json.dumps(submission), encoding="utf-8")
    (run,) = read_runs(path)
    assert run.turns == {
        "1-1_1": {"response": "Take the heath.", "qstatements": [("2", 1.0)], "used": [DOCNOS[0]]},
        "1-1_2": {"response": "In August.", "qstatements": [("6", 1.0)], "used": [DOCNOS[2]]},
    }
    turns[1]["turn_id"] = "77-1_1"
    path.write_text(json.dumps(submission), encoding="utf-8")
    assert list(read_runs(path)[0].turns) == ["1-1_1", "77-1_1"]
    with pytest.raises(DataError, match="77-1_1"):
        read_runs(path, sample)
    with pytest.raises(DataError, match="77-1_1"):
        ikat.show.report(path, sample)


def both(value):
    """A column of objects for both passages."""
    return column([value] * 2)


@pytest.mark.parametrize(
    ("columns", "wrote"),
    [
        (
            {
                "qrewrite": both("r"),
                "qanswer": both("said"),
                "qturn": 1,
                "used": [True, False],
                "query": "q",
            },
            {
                "qrewrite": "r",
                "qanswer": "said",
                "response": "said",
                "used": ["a"],
                "searched": ["q"],
            },
        ),
        (
            {
                "qsubqueries": both(("tea", "mint")),
                "qfound": both(np.array([7, 3])),
                "qstatements": both((("2", 1),)),
            },
            {"qsubqueries": ["tea", "mint"], "qfound": [7, 3], "qstatements": [("2", 1.0)]},
        ),
        (
            {"qanswer": both("said"), "used": column([None, 1.0])},
            {"qanswer": "said", "response": "said", "used": ["b"]},
        ),
        ({"qstatements": both(None), "qrewrite": both(float("nan"))}, {}),
        (
            {"qanswer": both("said"), "used": [False, False]},
            {"qanswer": "said", "response": "said", "used": []},
        ),
        ({"qrewrite": column(["r", "of the second row"])}, {"qrewrite": "r"}),
        ({"qanswer": "said"}, {"qanswer": "said"}),  # used or not is not known: a draft
    ],
)
def test_a_frame_tells_what_its_columns_have(columns, wrote):
    given = FRAME.assign(**columns).astype({"qid": "category", "docno": "category"})
    before = given.copy()
    (run,) = read_runs(given)
    assert run.turns == {"1_1": wrote}
    assert (run.name, run.results["docno"].tolist(), str(run.results["qid"].dtype)) == (
        "run",
        ["a", "b"],
        "object",
    )
    assert given.columns.equals(before.columns)


def test_each_turn_of_a_frame_has_its_own_values():
    results = ranking([("1_2", "c", 2.0), ("1_1", "a", 2.0), ("1_1", "b", 1.0)])
    frame = results.assign(
        query=["walk", "tea", "tea"],
        qrewrite=["Which walk?", "Which tea?", "Which tea?"],
        qstatements=column([[("3", 0.5)], [("1", 1.0)], [("1", 1.0)]]),
        qanswer=["Far.", None, None],
        used=[False, False, True],
    )
    (run,) = read_runs({"mine": frame})
    assert run.turns == {
        "1_2": {
            "qrewrite": "Which walk?",
            "qstatements": [("3", 0.5)],
            "qanswer": "Far.",
            "response": "Far.",
            "searched": ["walk"],
            "used": [],
        },
        "1_1": {
            "qrewrite": "Which tea?",
            "qstatements": [("1", 1.0)],
            "response": "",
            "searched": ["tea"],
            "used": ["b"],
        },
    }


def test_frames_have_the_one_query_that_was_searched():
    frame = FRAME.assign(query="tea", qsubqueries=column([["tea", "mint"]] * 2))
    assert "searched" not in read_runs({"x": frame})[0].turns["1_1"]
    odd = FRAME.assign(query=[None, None], qnumber=3, qmore=column([{"a": 1}] * 2), note="x")
    assert read_runs({"x": odd})[0].turns == {"1_1": {"qmore": {"a": 1}}}
    tied = FRAME.assign(score=1.0)
    scores = read_runs({"x": tied})[0].results["score"].tolist()
    assert scores[0] > scores[1]


def test_a_query_that_is_not_known_was_not_searched():
    (run,) = read_runs(FRAME.assign(query=[float("nan"), "tea"]))
    assert run.turns == {"1_1": {}}


def test_a_column_of_a_frame_may_have_a_number_for_a_name():
    (run,) = read_runs(FRAME.assign(qrewrite="r", more="x").rename(columns={"more": 7}))
    assert run.turns == {"1_1": {"qrewrite": "r"}}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([FRAME, FRAME], UsageError, "two runs are named run: give each its name"),
        ([], UsageError, "there is no run: give at least one"),
        ({"x": 7}, UsageError, "x is a int, which is not a run"),
        ({"x": FRAME[["qid", "docno"]]}, UsageError, "no column score, rank in run x"),
        ("nowhere.trec", DataError, "there is no run file nowhere.trec: give a folder"),
        ({"x": pd.concat([FRAME, FRAME])}, DataError, "turn 1_1 has passage a twice"),
        ({"x": FRAME.assign(docno=[1, 2])}, DataError, "x: the docno 1 is not a text"),
        (
            {"x": FRAME.assign(used="False")},
            DataError,
            "turn 1_1, passage a: used is 'False', neither true nor false",
        ),
        (
            {"x": FRAME.assign(qstatements="2")},
            DataError,
            "turn 1_1: qstatements is '2'; give a list",
        ),
    ],
)
def test_what_is_no_run_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        read_runs(given)


def test_a_runs_stages_tell_queries_and_calls(tmp_path):
    folder = RunFolder(tmp_path / "mine")
    folder.path.mkdir()
    calls = [
        {"prompt": "rewrite", "item": "2", "messages": [{"role": "user"}], "completion": "tea"},
        {"prompt": "rewrite", "messages": [], "failure": "no answer", "completion": "x"},
        {"messages": [], "completion": ""},
    ]
    lines = [
        {"qid": "1_1", "stage": "a", "asked": calls[:2], "wrote": {"query": "first"}},
        {
            "qid": "1_1",
            "stage": "b",
            "asked": calls[2:],
            "found": [{"query": "which tea"}, {"query": "q2"}],
        },
        {"qid": "1_1", "stage": "c", "found": [{"query": "q1"}]},
        {"qid": "1_2", "stage": "a", "wrote": {"query": "first"}},
        {"qid": "1_2", "stage": "b", "wrote": {"query": "second"}},
        {"qid": "1_2", "stage": "c", "wrote": {"query": None, "qrewrite": "z"}},
        {"qid": "1_3", "stage": "a"},
    ]
    write_stages(folder.path, *lines)
    searched, found = read_stages(folder)
    assert searched == {"1_1": ["which tea", "q2", "q1"], "1_2": ["second"], "1_3": []}
    assert found["1_1"] == [
        Call("rewrite 2", "a", [{"role": "user"}], "tea"),
        Call("rewrite", "a", [], "no answer", failed=True),
        Call("call", "b", [], ""),
    ]
    assert (found["1_2"], found["1_3"]) == ([], [])


def test_run_folder_tells_prompts_completions_and_queries(tmp_path, sample, sample_index):
    class Model:
        def generate(self, chats):
            return ["tea with mint"] * len(chats)

    rewrite = ikat.Rewrite(ikat.llm(Model()))
    mine = rewrite >> ikat.PassageIndex(sample_index).bm25(num_results=3)
    runs = tmp_path / "runs"
    ikat.run({"mine": mine}, sample, out=runs, turns=["1-1_1"])
    ikat.run(["human_qr", "raw"], sample, out=runs, turns=["1-1_1"], index=sample_index)
    searched = {}
    calls = {}
    for name in ("mine", "human_qr", "raw"):
        queries_by_turn, calls_by_turn = read_stages(ikat.runs.RunFolder(runs / name))
        searched[name] = queries_by_turn["1-1_1"]
        calls[name] = calls_by_turn.get("1-1_1", [])
    topics = sample.get_topics("manual").head(1)
    assert searched == {
        "mine": ["tea with mint"],
        "human_qr": [topics["qresolved"].item()],
        "raw": [topics["qutterance"].item()],
    }
    assert (calls["human_qr"], calls["raw"]) == ([], [])
    [call] = calls["mine"]
    [request] = rewrite.requests(sample.get_topics().head(1))
    assert (call.name, call.messages, call.completion, call.failed) == (
        "rewrite",
        request.messages,
        "tea with mint",
        False,
    )
    assert call.stage.startswith("ikat.Rewrite(")


@pytest.mark.usefixtures("sample")
def test_a_folder_without_stages_tells_nothing(folders):
    assert read_stages(folders[0]) == ({}, {})


def test_the_baseline_is_given_or_raw_or_the_first():
    names = ["qr", "raw", "aqd"]
    assert baseline_first(names, None) == ["raw", "qr", "aqd"]
    assert baseline_first(names, "aqd") == ["aqd", "qr", "raw"]
    assert baseline_first(["qr", "aqd"], None) == ["qr", "aqd"]
