"""The topics, judgements and texts that a report reads beside its runs."""

import numpy as np
import pandas as pd
import pytest
from small_runs import ranking

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.show.report.material import Material, RunData, find_material, only_turns

RESULTS = ranking([("1-1_1", "a", 1.0)])
PLAIN = RunData("plain", RESULTS)


def made_on(dataset, name="one"):
    return RunData(name, RESULTS, parameters={"dataset": dataset})


LOADER = object()


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


def _lacks():
    raise DataError("no rewrites")


class Chat:
    def __init__(self, number, title):
        self.number = number
        self.title = title


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


def test_a_run_on_short_and_full_names_is_of_one_dataset():
    runs = [made_on("sample"), made_on("ikat:sample", "two"), PLAIN]
    assert find_material(runs, None, None, LOADER).name == "ikat:sample"


def test_a_dataset_that_nobody_knows_is_told_by_a_note():
    results = ranking([("1_1", "a", 1.0)])
    run = RunData("one", results, parameters={"dataset": "ikat:1999"})
    found = find_material([run], None, None, object())
    assert (found.name, found.turns, len(found.notes)) == ("", {}, 1)
    assert found.notes[0].startswith("ikat:1999 can't be read, so only what the run folders keep")


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


@pytest.mark.parametrize("error", [DataError, UsageError])
def test_what_a_collection_lacks_is_left_out(sample, monkeypatch, error):
    plain = sample.get_topics().head(2)
    answers = sample.get_answers()

    def topics(self, variant=None):
        if variant == "manual":
            raise error("no rewrites")
        return plain

    def lacks(self):
        raise error("no conversations")

    monkeypatch.setattr(type(sample), "get_topics", topics)
    monkeypatch.setattr(type(sample), "get_answers", lambda self: answers)
    monkeypatch.setattr(type(sample), "conversations", property(lacks))
    found = find_material([RunData("one", ranking([]))], sample, None, object())
    assert list(found.turns) == plain["qid"].tolist()
    assert found.turns[plain["qid"][1]]["qutterance"] == plain["qutterance"][1]
    assert (found.titles, found.notes) == ({}, ())


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


def test_a_file_may_be_named_like_judgements_of_statements(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ptkb.txt").write_text("1-1_1 0 a 2\n")
    found = find_material([PLAIN], ikat.dataset("ikat:sample"), "ptkb.txt", None)
    assert found.qrels["docno"].tolist() == ["a"]


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
