"""A run folder has the track's scores and those that were asked for.

What it lacks is computed from its ranking.
"""

import ir_measures
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import P, nDCG

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import TRACK_2023, label
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.runs.folder import checksum_of
from pyterrier_ikat.show import report
from pyterrier_ikat.study import in_folders

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": "tea", "qutterance": "Tea?"})
QRELS = pd.DataFrame({"qid": ["1_1", "1_2"], "docno": ["d7", "d1"], "label": [2, 1]})
TRACK = list(map(label, TRACK_2023))


@pytest.fixture
def run(tmp_path):
    """Runs a system that finds d0 to d9, in this order, in both turns."""
    found = pd.DataFrame(
        {"docno": [f"d{rank}" for rank in range(10)], "score": range(10, 0, -1), "rank": range(10)}
    )
    system = pt.apply.generic(lambda turns: turns.merge(found, how="cross"))

    def run(*measures, qrels=QRELS):
        given = {"measures": measures} if measures else {}
        with (
            pytest.warns(ikat.study.AlikeWarning)
            if (tmp_path / "ten").exists()
            else pytest.MonkeyPatch.context()
        ):
            return ikat.run(
                {"ten": system}, out=tmp_path, topics=TOPICS, qrels=qrels, **given
            ).table

    run.folder = RunFolder(tmp_path / "ten")
    return run


def kept(run):
    return {name: list(column) for name, column in run.folder.measures().items()}


def test_folder_keeps_requested_measures_and_gets_missing_ones(run):
    """By hand: the relevant passage is at rank 8 and at rank 2."""
    assert run("nDCG@10", "nDCG@5")["nDCG@10"].tolist() == [
        pytest.approx((0.3154648768 + 0.6309297536) / 2)
    ]
    others = [name for name in TRACK if name != "nDCG@5"]
    assert list(kept(run)) == ["nDCG@10", "nDCG@5", *others]  # a report opens at the first
    assert kept(run)["nDCG@10"] == pytest.approx([0.3154648768, 0.6309297536])
    assert run("RR")["RR(rel=1)"].tolist() == [0.3125]
    assert list(kept(run)) == ["RR(rel=1)", "nDCG@10", "nDCG@5", *others]
    run(
        "nDCG@5", qrels=QRELS.assign(docno=["d1", "d7"])
    )  # other judgements: of what was asked for before, too
    assert kept(run)["RR(rel=1)"] == [0.5, 0.125]
    page = report(run.folder, qrels=QRELS).html
    assert all(f'<th scope="col">{name}</th>' in page for name in kept(run))
    assert ">RR(rel=1)<" in report(run.folder).html


def test_a_new_default_measure_is_computed_for_a_finished_run(run, monkeypatch):
    run()
    monkeypatch.setattr(in_folders, "TRACK_2023", (*TRACK_2023, P(rel=1) @ 2))
    run()
    assert kept(run)["P(rel=1)@2"] == [0.0, 0.5]


def test_a_missing_file_of_scores_is_made_again(run):
    run()
    before = (run.folder.path / "measures.csv").read_text()
    (run.folder.path / "measures.csv").unlink()
    run()
    assert (run.folder.path / "measures.csv").read_text() == before


def test_a_measure_of_ones_own_is_computed_each_time(run):
    for value in (0.25, 0.75):
        own = ir_measures.define_byquery(lambda qrels, run, value=value: value, name="Own")
        assert run(own, nDCG @ 5)["Own"].tolist() == [value]
        assert "Own" not in kept(run)


def test_a_run_evaluated_again_names_its_newest_judgements(run):
    run()
    other = QRELS.assign(docno=["d1", "d7"])
    run(qrels=other)
    assert run.folder.parameters()["qrels_sha256"] == checksum_of(other)
    run()
    assert run.folder.parameters()["qrels_sha256"] == checksum_of(QRELS)
