"""What a report reads: runs of every form, and the topics, judgements and texts beside them."""

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
from pyterrier_ikat.show.report.material import (
    Material,
    RunData,
    baseline_first,
    find_material,
    only_turns,
    read_runs,
    read_stages,
)
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
    assert find_material([PLAIN], sample, mine, None).qrels is mine
    assert find_material([PLAIN], None, mine, None).qrels is mine


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
        (
            [made_on("sample"), made_on("ikat:sample", "two"), made_on("ikat:2024", "three")],
            (None, None),
            r"datasets \(one on ikat:sample, two on ikat:sample, three on ikat:2024\)",
        ),
        ([PLAIN], (None, "provenance"), "the qrels 'provenance' don't belong to a dataset"),
        ([PLAIN], ("ikat:sample", "ptkb"), "the qrels ptkb of ikat:sample judge statements"),
    ],
)
def test_what_does_not_fit_together_is_refused(runs, given, message):
    dataset, qrels = given
    with pytest.raises(UsageError, match=message):
        find_material(runs, dataset and ikat.dataset(dataset), qrels, None)


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


def test_a_folder_without_scores_or_stages_has_what_it_has(folders):
    [run] = read_runs({"x": folders[0]})
    assert run.name == "x"
    assert "searched" not in run.turns["1-1_1"]
    assert run.calls == {}
    assert run.parameters["dataset"] == "ikat:sample"
    assert list(run.turns) == ["1-1_1", "1-1_2", "1-1_3"]


def test_the_baseline_is_given_or_raw_or_the_first():
    names = ["qr", "raw", "aqd"]
    assert baseline_first(names, None) == ["raw", "qr", "aqd"]
    assert baseline_first(names, "aqd") == ["aqd", "qr", "raw"]
    assert baseline_first(["qr", "aqd"], None) == ["qr", "aqd"]


def test_chosen_turns_alone_are_left_of_runs_and_data():
    scores = pd.DataFrame({"qid": ["1_1", "1_2"], "AP": [0.5, 1.0]})
    results = ranking([("1_1", "a", 1.0), ("1_2", "b", 1.0)])
    run = RunData("x", results, {"1_1": {"a": 1}, "1_2": {"b": 2}}, scores)
    material = Material("mine", {"1_1": {}, "1_2": {"c": 3}, "1_3": {}}, None, None, ("note",))
    [only, plain], rest = only_turns([run, RunData("y", results)], material, ["1_2", "1_3"])
    assert only.results[["qid", "docno"]].values.tolist() == [["1_2", "b"]]
    assert only.results.index.tolist() == only.scores.index.tolist() == [0]
    assert only.scores.values.tolist() == [["1_2", 1.0]]
    assert only.turns == {"1_2": {"b": 2}}
    assert plain.scores is None
    assert rest.turns == {"1_2": {"c": 3}, "1_3": {}}
    assert (rest.name, rest.notes) == ("mine", ("note",))
    assert material.turns.keys() == {"1_1", "1_2", "1_3"}


class OwnData:
    """A collection whose manual rewrites and answers are missing for some turns."""

    name = "own"

    def get_topics(self, variant=None):
        if variant == "manual":
            raise DataError("no rewrites")
        frame = pd.DataFrame({"qid": ["a_1", "a_2"], "query": "tea"})
        return frame.assign(qutterance=["Tea?", "Hot?"], qhistory=column([[], []]))

    def get_answers(self):
        return pd.DataFrame({"qid": ["a_1"], "gold_answer": ["Rooibos."]})

    def get_qrels(self, variant=None):
        return pd.DataFrame({"qid": ["a_1"], "docno": ["a"], "label": [1]})

    def text_loader(self, fields="text", verbose=False):
        return LOADER

    qrels_variants = staticmethod(dict)
    conversations = ()


LOADER = object()


def test_a_collection_without_rewrites_has_its_utterances(monkeypatch, tmp_path):
    own = OwnData()
    found = find_material([PLAIN], own, None, None)
    assert found.turns == {
        "a_1": {"qid": "a_1", "qutterance": "Tea?", "gold_answer": "Rooibos."},
        "a_2": {
            "qid": "a_2",
            "qutterance": "Hot?",
            "gold_answer": pytest.approx(np.nan, nan_ok=True),
        },
    }
    assert (found.name, found.dataset, found.texts, found.titles) == ("own", own, LOADER, {})
    mine = object()
    assert find_material([PLAIN], own, None, mine).texts is mine
    assert find_material([PLAIN], None, None, mine).texts is mine
    some = [RunData("a", RESULTS.assign(text="x")), PLAIN]
    assert find_material(some, own, None, None).texts is LOADER
    monkeypatch.setattr(OwnData, "conversations", property(lambda self: _lacks()))
    assert find_material([PLAIN], own, None, None).titles == {}
    chats = [Chat("a", "Tea"), Chat("b", "")]
    monkeypatch.setattr(OwnData, "conversations", chats)
    assert find_material([PLAIN], own, None, None).titles == {"a": "Tea"}


def _lacks():
    raise DataError("no rewrites")


class Chat:
    def __init__(self, number, title):
        self.number = number
        self.title = title


def test_judgements_are_read_and_who_filled_them_is_told(tmp_path, monkeypatch):
    path = tmp_path / "mine.txt"
    path.write_text("1-1_1 0 a 2\n")
    (tmp_path / "mine.txt.json").write_text(
        '{"judged_by": "x", "style": "y", "filled": "x filled 1 label"}'
    )
    assert find_material([PLAIN], None, str(path), LOADER).notes[0] == "x filled 1 label."
    with pytest.raises(UsageError, match="don't belong to a dataset"):
        find_material([PLAIN], None, tmp_path, LOADER)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert len(find_material([PLAIN], None, "~/mine.txt", LOADER).qrels) == 1
    found = find_material([PLAIN], None, path, LOADER)
    assert found.qrels.values.tolist() == [["1-1_1", "a", 2]]
    assert found.notes[0] == "x filled 1 label."
    assert found.dataset is None
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_material([PLAIN], None, "~/mine.txt", LOADER).qrels["label"].tolist() == [2]
    of_sample = find_material([PLAIN], ikat.dataset("ikat:sample"), path, LOADER)
    assert of_sample.qrels["docno"].tolist() == ["a"]
    assert find_material([PLAIN], None, None, LOADER).qrels is None


def test_frames_have_the_one_query_that_was_searched():
    frame = FRAME.assign(query="tea", qsubqueries=column([["tea", "mint"]] * 2))
    assert "searched" not in read_runs({"x": frame})[0].turns["1_1"]
    odd = FRAME.assign(query=[None, None], qnumber=3, qmore=column([{"a": 1}] * 2), note="x")
    assert read_runs({"x": odd})[0].turns == {"1_1": {"qmore": {"a": 1}}}
    tied = FRAME.assign(score=1.0)
    scores = read_runs({"x": tied})[0].results["score"].tolist()
    assert scores[0] > scores[1]


def test_a_run_on_short_and_full_names_is_of_one_dataset():
    runs = [made_on("sample"), made_on("ikat:sample", "two"), PLAIN]
    assert find_material(runs, None, None, LOADER).name == "ikat:sample"


def test_texts_that_a_dataset_refuses_are_told(monkeypatch):
    def refuse(self, fields="text", verbose=False):
        raise UsageError("too many passages")

    monkeypatch.setattr(OwnData, "text_loader", refuse)
    found = find_material([PLAIN], OwnData(), None, None)
    assert (found.texts, found.notes) == (None, ("No passage texts: too many passages",))
    with_texts = RunData("a", RESULTS.assign(text="x"))
    assert find_material([with_texts], OwnData(), None, None).notes == ()
    without = find_material([PLAIN], None, None, None)
    assert "give texts=, the text_loader() of the index" in without.notes[1]


def test_a_file_may_be_named_like_judgements_of_statements(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ptkb.txt").write_text("1-1_1 0 a 2\n")
    found = find_material([PLAIN], ikat.dataset("ikat:sample"), "ptkb.txt", None)
    assert found.qrels["docno"].tolist() == ["a"]


def test_a_column_of_a_frame_may_have_a_number_for_a_name():
    (run,) = read_runs(FRAME.assign(qrewrite="r", more="x").rename(columns={"more": 7}))
    assert run.turns == {"1_1": {"qrewrite": "r"}}


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


def test_a_query_that_is_not_known_was_not_searched():
    (run,) = read_runs(FRAME.assign(query=[float("nan"), "tea"]))
    assert run.turns == {"1_1": {}}
