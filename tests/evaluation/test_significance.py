"""The table is PyTerrier's own, column for column.

Its p-values are those of scipy and statsmodels.
"""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import NumRet, P, nDCG
from scipy import stats
from statsmodels.stats.multitest import multipletests
from test_evaluate import random_runs

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation import evaluate, label, per_turn
from pyterrier_ikat.evaluation.experiment_table import pairs_that_differ
from pyterrier_ikat.evaluation.units import independent

MEASURES = [nDCG @ 5, P(rel=2) @ 20, NumRet]


def pyterriers(runs, qrels, baseline, correction):
    topics = pd.DataFrame({"qid": qrels["qid"].unique(), "query": "q"})
    return pt.Experiment(
        runs, topics, qrels, MEASURES, baseline=baseline, correction=correction, verbose=False
    )


@pytest.mark.parametrize(("baseline", "correction"), [("two", "bonferroni"), (None, None)])
def test_the_table_is_pyterriers(baseline, correction):
    runs, qrels = random_runs(turns=12, names=("one", "two", "three", "four"))
    theirs = pyterriers(runs, qrels, baseline, correction).assign(turns=12)
    unit = None if baseline is None else "turn"
    ours = evaluate(runs, qrels, MEASURES, baseline, unit=unit)
    added = {"unit", "clusters", "unit_from"}
    for measure in MEASURES:
        added |= {f"{label(measure)} low", f"{label(measure)} high"}
    shared = [name for name in ours.columns if name not in added]
    assert set(shared) == set(theirs.columns)
    pd.testing.assert_frame_equal(
        ours[shared], theirs[shared], check_dtype=False, atol=1e-12, rtol=1e-9
    )
    topics = pd.DataFrame({"qid": qrels["qid"].unique(), "query": "q"})
    pd.testing.assert_frame_equal(
        ikat.experiment(
            runs, measures=MEASURES, baseline=baseline, topics=topics, qrels=qrels, unit=unit
        ),
        ours,
    )


def test_bonferroni_is_statsmodels():
    runs, qrels = random_runs(turns=25, names=("one", "two", "three", "four"))
    table = evaluate(runs, qrels, [nDCG @ 5], "three", unit="turn").set_index("name").drop("three")
    base = per_turn(runs["three"], qrels, [nDCG @ 5])["nDCG@5"]
    p = []
    for name in table.index:
        scores = per_turn(runs[name], qrels, [nDCG @ 5])["nDCG@5"]
        p.append(stats.ttest_rel(scores, base).pvalue)
    reject, corrected, _, _ = multipletests(p, alpha=0.05, method="bonferroni")
    assert table["nDCG@5 p-value"].tolist() == pytest.approx(p)
    assert table["nDCG@5 p-value corrected"].tolist() == pytest.approx(corrected)
    assert table["nDCG@5 reject"].tolist() == reject.tolist()


def test_a_system_like_the_baseline_has_no_p_value_and_no_mark():
    runs, qrels = random_runs(turns=5)
    table = evaluate(
        {"one": runs["one"], "same": runs["one"], "two": runs["two"]}, qrels, [nDCG @ 5], "one"
    ).set_index("name")
    assert np.isnan(table.loc["same", "nDCG@5 p-value"])
    assert table.loc["same", ["nDCG@5 +", "nDCG@5 -", "nDCG@5 reject"]].tolist() == [0, 0, False]


def test_one_turn_and_one_system():
    runs, qrels = random_runs(turns=1, names=("one", "two"))
    both = {
        "one": runs["one"],
        "two": runs["one"].assign(docno=runs["one"]["docno"].to_numpy()[::-1]),
    }
    assert np.isnan(evaluate(both, qrels, [nDCG @ 5], "one")["nDCG@5 p-value"][1])
    assert "nDCG@5 reject" not in evaluate({"one": runs["one"]}, qrels, [nDCG @ 5], "one")


def test_many_pairs_ask_for_smaller_p_values():
    """The differences .1, .2, .3, .4 have t = 3.87 and p = .03.

    They are significant alone, not as one of three pairs.
    """
    scores = {"low": [0.1, 0.2, 0.3, 0.4], "high": [0.2, 0.4, 0.6, 0.8]}
    assert pairs_that_differ(scores, independent(4)) == [("low", "high")]
    assert pairs_that_differ(scores | {"other": [0.9, 0.0, 0.5, 0.2]}, independent(4)) == []
