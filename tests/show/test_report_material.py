"""What a report reads: runs of every form, and the topics, judgements and texts beside them."""

import json

import numpy as np
import pandas as pd
import pytest
from small_runs import DOCNOS, ranking

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.runs import write_run
from pyterrier_ikat.show.report.material import RunData, find_material, read_runs
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
    assert (run.name, run.results["docno"].tolist(), dict(run.turns), run.run_on) == (
        "bm25",
        ["a", "b"],
        {},
        None,
    )


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


def test_a_folder_cut_short_is_refused(folders):
    (folders[0].path / "ledger.csv").unlink()
    with pytest.raises(DataError, match=r"ledger.csv can't be read .*: repeat the run"):
        read_runs(folders[0])
    (folders[1].path / "run.json").unlink()
    with pytest.raises(DataError, match="full is not a finished run"):
        read_runs(folders[1])


RESULTS = ranking([("1-1_1", "a", 1.0)])
PLAIN = RunData("plain", RESULTS)


def made_on(dataset, name="one"):
    return RunData(name, RESULTS, parameters={"dataset": dataset})


def test_run_folders_dataset_is_taken_unless_another_is_given(sample):
    found = find_material([made_on("ikat:sample"), PLAIN], None, None, None)
    assert (found.name, len(found.turns), found.notes) == ("ikat:sample", 24, ())
    pd.testing.assert_frame_equal(found.qrels, sample.get_qrels())
    assert found.texts is not None
    assert set(found.turns["1-1_1"]) >= {
        "qutterance",
        "qptkb",
        "qresolved",
        "qgoldptkb",
        "gold_answer",
    }
    assert find_material([made_on("ikat:2024")], sample, None, None).name == "ikat:sample"
    assert set(find_material([PLAIN], sample, "provenance", None).qrels["label"]) == {1}
    mine = sample.get_qrels().head(2)
    assert all(
        find_material([PLAIN], dataset, mine, None).qrels is mine for dataset in (sample, None)
    )


def test_report_tells_what_is_out_of_reach_unless_asked_for(sample, monkeypatch, tmp_path):
    def unreachable(*_):
        raise DataError("no topics here")

    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    monkeypatch.setattr("pyterrier_ikat.conversations.released.data_file", unreachable)
    found = find_material([made_on("ikat:2024")], None, None, None)
    assert (found.name, found.turns, found.qrels, found.texts) == ("", {}, None, None)
    assert (
        found.notes[0]
        == "ikat:2024 can't be read, so only what the run folders keep is shown: no topics here"
    )
    monkeypatch.setattr(sample, "get_qrels", unreachable)
    found = find_material([PLAIN], sample, None, None)
    assert (found.qrels, found.notes) == (None, ("No relevance labels: no topics here",))
    for dataset, qrels in ((ikat.dataset("ikat:2024"), None), (sample, "provenance")):
        with pytest.raises(DataError, match="no topics here"):
            find_material([PLAIN], dataset, qrels, None)


def test_texts_come_from_frames_or_a_loader_and_a_lack_is_told(sample, ikat_data):
    found = find_material([RunData("mine", RESULTS.assign(text="tea"))], sample, None, None)
    assert (found.texts, found.notes) == (None, ())
    found = find_material([PLAIN], None, None, None)
    assert [note[:24] for note in found.notes] == [
        "No dataset was given: th",
        "No passage texts: give t",
    ]
    found = find_material([PLAIN], ikat.dataset("ikat:2023"), None, None)
    assert found.texts is None
    assert found.notes[0].startswith(
        "No passage texts: ikat:2023 has 116,838,987 passages, too many to hold"
    )


@pytest.mark.parametrize(
    ("runs", "given", "message"),
    [
        (
            [made_on("ikat:sample"), made_on("ikat:2024", "two")],
            (None, None),
            r"datasets \(one on ikat:sample, two on ikat:2024\)",
        ),
        ([PLAIN], (None, "provenance"), "the qrels 'provenance' don't belong to a dataset"),
        ([PLAIN], ("ikat:sample", "ptkb"), "the qrels ptkb of ikat:sample judge statements"),
    ],
)
def test_what_does_not_fit_together_is_refused(runs, given, message):
    dataset, qrels = given
    with pytest.raises(UsageError, match=message):
        find_material(runs, dataset and ikat.dataset(dataset), qrels, None)
