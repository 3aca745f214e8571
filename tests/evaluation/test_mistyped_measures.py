"""A mistyped measure is named with the one that is meant, parameters and cutoff included."""

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.evaluation.evaluator import as_measures


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("nDGC@5", "nDCG@5"),
        ("nDGC(dcg='exp-log2')@3", "nDCG(dcg='exp-log2')@3"),
        ("Sucess@1", "Success@1"),
        ("Rprecc(rel=2)", "Rprec(rel=2)"),
        ("APP", "AP"),
        ("ndcg_cut_5", "nDCG@5"),
    ],
)
def test_a_mistyped_measure_means_a_usable_one(mistyped, meant):
    with pytest.raises(UsageError) as caught:
        as_measures([mistyped])
    assert f"is unknown: did you mean {meant}? write it" in str(caught.value)
    assert len(as_measures([meant])) == 1


@pytest.mark.parametrize("unknown", ["nDCG@@3", "zzz@3"])
def test_nothing_is_meant_by_a_known_name_or_one_like_no_other(unknown):
    with pytest.raises(UsageError, match="is unknown: write it"):
        as_measures([unknown])
