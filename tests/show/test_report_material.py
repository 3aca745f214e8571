import pandas as pd
import pytest
from small_runs import ranking

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.show.report.material import RunData, find_material

RESULTS = ranking([("1-1_1", "a", 1.0)])
PLAIN = RunData("plain", RESULTS)


def made_on(dataset, name="one"):
    return RunData(name, RESULTS, parameters={"dataset": dataset})


def test_the_run_folders_dataset_is_taken(sample):
    found = find_material([made_on("ikat:sample"), PLAIN], None, None, None)
    assert (found.name, len(found.turns), found.notes) == ("ikat:sample", 24, ())
    pd.testing.assert_frame_equal(found.qrels, sample.get_qrels())
    assert found.texts is not None
    assert set(found.turns["1-1_1"]) >= {"qutterance", "qptkb", "qresolved", "qgoldptkb", "gold_answer"}


def test_the_dataset_that_was_asked_for_goes_first(sample):
    assert find_material([made_on("ikat:2024")], sample, None, None).name == "ikat:sample"


def test_another_variant_of_the_qrels(sample):
    found = find_material([PLAIN], sample, "provenance", None)
    assert set(found.qrels["label"]) == {1}


def test_qrels_at_hand_are_taken_as_they_are(sample):
    mine = sample.get_qrels().head(2)
    assert find_material([PLAIN], sample, mine, None).qrels is mine
    assert find_material([PLAIN], None, mine, None).qrels is mine


def test_a_dataset_out_of_reach_is_told_in_the_report(monkeypatch, tmp_path):
    monkeypatch.setenv("IKAT_DATA", str(tmp_path))
    monkeypatch.setattr("pyterrier_ikat.conversations.released.data_file", _unreachable)
    found = find_material([made_on("ikat:2024")], None, None, None)
    assert (found.name, found.turns, found.qrels, found.texts) == ("", {}, None, None)
    assert found.notes[0] == "ikat:2024 can't be read, so only what the run folders keep is shown: no topics here"
    with pytest.raises(DataError, match="no topics here"):
        find_material([made_on("ikat:2024")], ikat.dataset("ikat:2024"), None, None)


def _unreachable(name):
    raise DataError("no topics here")


def test_a_year_without_qrels_is_told_in_the_report_unless_they_were_asked_for(sample, monkeypatch):
    def unpublished(variant=None):
        raise DataError("none published")

    monkeypatch.setattr(sample, "get_qrels", unpublished)
    found = find_material([PLAIN], sample, None, None)
    assert (found.qrels, found.notes) == (None, ("No relevance labels: none published",))
    with pytest.raises(DataError, match="none published"):
        find_material([PLAIN], sample, "provenance", None)


def test_a_collection_too_large_for_a_loader_is_told(ikat_data):
    found = find_material([PLAIN], ikat.dataset("ikat:2023"), None, None)
    assert found.texts is None
    assert found.notes[0].startswith("No passage texts: ikat:2023 has 116,838,987 passages, too many to hold")


def test_frames_that_bring_their_texts_need_no_loader(sample):
    run = RunData("mine", RESULTS.assign(text="tea"))
    assert find_material([run], sample, None, None).texts is None
    assert find_material([run], sample, None, None).notes == ()


def test_without_a_dataset_it_is_told_what_is_missing():
    found = find_material([PLAIN], None, None, None)
    assert [note[:24] for note in found.notes] == ["No dataset was given: th", "No passage texts: give t"]


def test_runs_of_different_datasets_are_refused():
    runs = [made_on("ikat:sample"), made_on("ikat:2024", "two")]
    with pytest.raises(UsageError, match=r"different datasets \(one on ikat:sample, two on ikat:2024\)"):
        find_material(runs, None, None, None)


def test_named_qrels_need_a_dataset():
    with pytest.raises(UsageError, match="the qrels 'provenance' don't belong to a dataset"):
        find_material([PLAIN], None, "provenance", None)


def test_qrels_of_statements_are_refused(sample):
    with pytest.raises(UsageError, match="the qrels ptkb of ikat:sample judge statements"):
        find_material([PLAIN], sample, "ptkb", None)
