import json

import numpy as np
import pandas as pd
import pytest
from small_runs import DOCNOS, ranking

from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.runs import write_run
from pyterrier_ikat.show.report.material import read_runs
from pyterrier_ikat.submit import read_submission

FRAME = ranking([("1_1", "a", 2.0), ("1_1", "b", 1.0)])
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
                        {"id": "2", "text": "My left knee is worn and hurts whenever I go downhill for long.", "score": 1.0}
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


@pytest.fixture
def submission(tmp_path):
    path = tmp_path / "handed_in.json"
    path.write_text(json.dumps(SUBMISSION), encoding="utf-8")
    return path


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


def test_a_trec_run_tells_the_ranking(tmp_path):
    write_run(FRAME, tmp_path / "bm25.trec")
    (run,) = read_runs(tmp_path / "bm25.trec")
    assert (run.name, run.results["docno"].tolist(), dict(run.turns), run.run_on) == ("bm25", ["a", "b"], {}, None)


def test_a_submission_tells_response_statements_and_what_is_used(submission):
    for given in (submission, {"theirs": read_submission(submission)}, [read_submission(submission)]):
        (run,) = read_runs(given)
        assert run.name == ("handed_in" if given is submission else "theirs")
        assert run.results["docno"].tolist() == DOCNOS[:2]
        expected = {"response": "Take the heath.", "qstatements": [("2", 1.0)], "used": [DOCNOS[0]]}
        assert run.turns == {"1-1_1": expected}


def test_a_frame_tells_what_its_columns_have():
    frame = FRAME.assign(qrewrite=column(["r", "r"]), qanswer=column(["said", "said"]), qturn=[1, 1], used=[True, False], query="q")
    (run,) = read_runs({"mine": frame})
    assert run.turns == {"1_1": {"qrewrite": "r", "qanswer": "said", "response": "said", "used": ["a"], "searched": ["q"]}}
    assert frame.columns.tolist() == ["qid", "docno", "score", "rank", "qrewrite", "qanswer", "qturn", "used", "query"]


def test_a_frame_may_have_categories_tuples_arrays_and_missing_marks():
    given = FRAME.assign(
        qsubqueries=column([("tea", "mint")] * 2), qfound=column([np.array([7, 3])] * 2), qstatements=column([(("2", 1),)] * 2)
    )
    given = given.assign(qanswer=column(["said"] * 2), used=column([None, 1.0])).astype({"qid": "category", "docno": "category"})
    (run,) = read_runs(given)
    wrote = {"qsubqueries": ["tea", "mint"], "qfound": [7, 3], "qstatements": [("2", 1.0)], "qanswer": "said"}
    assert run.turns == {"1_1": wrote | {"response": "said", "used": ["b"]}}
    assert run.results["docno"].tolist() == ["a", "b"]
    assert str(run.results["qid"].dtype) == "object"


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_a_frame_with_an_empty_cell_tells_nothing_by_it(nothing):
    (run,) = read_runs(FRAME.assign(qstatements=column([nothing] * 2), qrewrite=column([nothing] * 2)))
    assert run.turns == {"1_1": {}}


def test_a_frame_without_a_response_has_a_draft_answer_only():
    (run,) = read_runs(FRAME.assign(qanswer="said"))
    assert (run.name, run.turns) == ("run", {"1_1": {"qanswer": "said"}})


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
        ({"x": FRAME.assign(used="False")}, DataError, "turn 1_1, passage a: used is 'False', neither true nor false"),
        ({"x": FRAME.assign(qstatements="2")}, DataError, "turn 1_1: qstatements is '2'; give a list"),
    ],
)
def test_what_is_no_run_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        read_runs(given)


def test_a_folder_cut_short_is_refused(folders):
    (folders[0].path / "ledger.csv").unlink()
    with pytest.raises(DataError, match=r"ledger.csv can't be read .*: repeat the run"):
        read_runs(folders[0])
    (folders[1].path / "run.json").unlink()
    with pytest.raises(DataError, match="full is not a finished run"):
        read_runs(folders[1])
