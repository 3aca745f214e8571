"""Scores in a run folder: the track's and those that were asked for.

What it lacks is computed from its ranking.
"""

import ir_measures
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import P, nDCG
from three_turns import QRELS, TOPICS, Finds, FindsByTurn, run

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import TRACK_2023, label
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.runs.folder import checksum_of
from pyterrier_ikat.show import report
from pyterrier_ikat.study import Study, in_folders
from pyterrier_ikat.study.in_folders import run_in_folders

TEA_TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": "tea", "qutterance": "Tea?"})
TEA_QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["d7", "d1"], "label": [2, 1]})
TRACK = list(map(label, TRACK_2023))


@pytest.fixture
def run_ten(tmp_path):
    """Runs a system that finds d0 to d9, in this order, in both turns."""
    docnos = [f"d{rank}" for rank in range(10)]
    found = pd.DataFrame({"docno": docnos, "score": range(10, 0, -1), "rank": range(10)})
    system = pt.apply.generic(lambda turns: turns.merge(found, how="cross"))

    def run_ten(*measures, qrels=TEA_QRELS):
        given = {"measures": measures} if measures else {}
        with (
            pytest.warns(ikat.study.AlikeWarning)
            if (tmp_path / "ten").exists()
            else pytest.MonkeyPatch.context()
        ):
            return ikat.run(
                {"ten": system}, out=tmp_path, topics=TEA_TOPICS, qrels=qrels, **given
            ).table

    run_ten.folder = RunFolder(tmp_path / "ten")
    return run_ten


def kept(run_ten):
    return {name: list(column) for name, column in run_ten.folder.measures().items()}


def test_folder_keeps_requested_measures_and_gets_missing_ones(run_ten):
    """By hand: the relevant passage is at rank 8 and at rank 2."""
    assert run_ten("nDCG@10", "nDCG@5")["nDCG@10"].tolist() == [
        pytest.approx((0.3154648768 + 0.6309297536) / 2)
    ]
    others = [name for name in TRACK if name != "nDCG@5"]
    assert list(kept(run_ten)) == ["nDCG@10", "nDCG@5", *others]  # a report opens at the first
    assert kept(run_ten)["nDCG@10"] == pytest.approx([0.3154648768, 0.6309297536])
    assert run_ten("RR")["RR(rel=1)"].tolist() == [0.3125]
    assert list(kept(run_ten)) == ["RR(rel=1)", "nDCG@10", "nDCG@5", *others]
    run_ten(
        "nDCG@5", qrels=TEA_QRELS.assign(docno=["d1", "d7"])
    )  # other judgements: of what was asked for before, too
    assert kept(run_ten)["RR(rel=1)"] == [0.5, 0.125]
    page = report(run_ten.folder, qrels=TEA_QRELS).html
    for name in kept(run_ten):
        assert f'<th scope="col">{name}</th>' in page
    assert ">RR(rel=1)<" in report(run_ten.folder).html


def test_a_new_default_measure_is_computed_for_a_finished_run(run_ten, monkeypatch):
    run_ten()
    monkeypatch.setattr(in_folders, "TRACK_2023", (*TRACK_2023, P(rel=1) @ 2))
    run_ten()
    assert kept(run_ten)["P(rel=1)@2"] == [0.0, 0.5]


def test_a_missing_file_of_scores_is_made_again(run_ten):
    run_ten()
    before = (run_ten.folder.path / "measures.csv").read_text()
    (run_ten.folder.path / "measures.csv").unlink()
    run_ten()
    assert (run_ten.folder.path / "measures.csv").read_text() == before


def test_a_measure_of_ones_own_is_computed_each_time(run_ten):
    for value in (0.25, 0.75):
        own = ir_measures.define_byquery(lambda qrels, run_ten, value=value: value, name="Own")
        assert run_ten(own, nDCG @ 5)["Own"].tolist() == [value]
        assert "Own" not in kept(run_ten)


def test_a_run_evaluated_again_names_its_newest_judgements(run_ten):
    run_ten()
    other = TEA_QRELS.assign(docno=["d1", "d7"])
    run_ten(qrels=other)
    assert run_ten.folder.parameters()["qrels_sha256"] == checksum_of(other)
    run_ten()
    assert run_ten.folder.parameters()["qrels_sha256"] == checksum_of(TEA_QRELS)


def test_judgements_of_no_asked_turn_give_no_scores(tmp_path):
    study = Study(
        {"x": Finds()},
        topics=TOPICS,
        qrels=QRELS.assign(qid=["8_1", "8_2"]),
    )
    with pytest.warns(UserWarning, match="none of the turns is judged: there will be no scores"):
        runs = run_in_folders(study, tmp_path)
    assert all(scores == [] for scores in runs["x"].scores.values())
    assert len(runs["x"].folder.measures()) == 0


def test_a_run_is_scored_again_by_other_judgements(tmp_path):
    first = run({"x": Finds()}, tmp_path, measures=["P@1"])
    before = first.folders["x"].parameters()
    other = run({"x": Finds()}, tmp_path, measures=["P@1"], qrels=QRELS.assign(docno="a"))
    assert first.table["P(rel=1)@1"].tolist() == [0.5]
    assert other.table["P(rel=1)@1"].tolist() == [1.0]
    after = other.folders["x"].parameters()
    assert after["qrels_sha256"] != before["qrels_sha256"]
    assert after["sha256"] == before["sha256"]
    assert {name: after[name] for name in ("method", "turns", "stages")} == {
        name: before[name] for name in ("method", "turns", "stages")
    }


def test_a_measure_of_ones_own_is_shown_and_never_stored(tmp_path):
    own = ir_measures.define_byquery(lambda qrels, run: 0.5, name="Half")
    done = run({"x": Finds()}, tmp_path, measures=[own, "P@1"])
    assert done.table.iloc[0, 1] == 0.5
    stored = done.folders["x"].measures().columns.tolist()
    assert stored[0] == "P(rel=1)@1"
    assert "Half" not in stored


@pytest.mark.parametrize("stored", [None, "", "qid,P(rel=1)@1\n", b"\xff\xfe"])
def test_lost_scores_of_a_finished_run_are_computed_again(tmp_path, stored):
    run({"x": FindsByTurn()}, tmp_path, measures=["P@1"])
    path = tmp_path / "x" / "measures.csv"
    whole = path.read_text()
    if stored is None:
        path.unlink()
    else:
        path.write_bytes(stored if isinstance(stored, bytes) else stored.encode())
    again = FindsByTurn()
    done = run({"x": again}, tmp_path, measures=["P@1"])
    assert (again.seen, path.read_text()) == ([], whole)
    assert done.table.values.tolist() == [["x", 0.5, 2]]


def test_scores_of_earlier_measures_stay_in_the_folder(tmp_path):
    run({"x": FindsByTurn()}, tmp_path, measures=["P@1", "RR"])
    done = run({"x": FindsByTurn()}, tmp_path, measures=["R@1"])
    stored = list(done.folders["x"].measures().columns)
    assert stored[:3] == ["R(rel=1)@1", "P(rel=1)@1", "RR(rel=1)"]
    assert len(stored) == len(set(stored)) > 5
    assert done.table.columns.tolist()[1:2] == ["R(rel=1)@1"]
