import numpy as np
import pandas as pd
import pytest
from small_frames import qrels, run

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation import agreement, cohens_kappa, order_agreement

TABLE_4 = np.array(
    [
        [8743, 227, 112, 39, 9],
        [3515, 400, 209, 70, 11],
        [3189, 668, 450, 189, 47],
        [1625, 630, 476, 284, 52],
        [620, 414, 369, 284, 52],
    ]
)
"""Generate then Retrieve, Table 4 (rows: GPT-3.5, columns: NIST), as the text prints it.

The last two cells of the rows 3 and 4 are the same there, 284 and 52, and the matrix gives 66.51 %
binary agreement where the paper says 66.84 %: one of the two rows looks damaged, so this is an
example of a matrix, not a reference for the paper's figure.
"""


def matrix_as_qrels(matrix):
    rows, columns = np.indices(matrix.shape)
    a, b = np.repeat(rows.ravel(), matrix.ravel()), np.repeat(columns.ravel(), matrix.ravel())
    docnos = [f"d{number}" for number in range(len(a))]
    first = pd.DataFrame({"qid": "1_1", "docno": docnos, "label": a})
    return first, first.assign(label=b).sample(frac=1, random_state=1)


def test_the_papers_confusion_matrix_and_what_is_printed():
    gpt, nist = matrix_as_qrels(TABLE_4)
    found = agreement(gpt, pd.concat([nist, qrels(("1_1", "only NIST", 4))]))
    assert found.confusion.to_numpy().tolist() == TABLE_4.tolist()
    assert found.confusion.index.tolist() == found.confusion.columns.tolist() == [0, 1, 2, 3, 4]
    assert found.pairs == 22684
    assert found.binary == pytest.approx(
        (8743 + 227 + 3515 + 400 + 450 + 189 + 47 + 476 + 284 + 52 + 369 + 284 + 52) / 22684
    )
    assert found.binary_confusion.to_numpy().tolist() == [
        [8743 + 227 + 3515 + 400, 112 + 39 + 9 + 209 + 70 + 11],
        [7146, 2203],
    ]
    assert "22,684 pairs judged by both: binary agreement 66.51%" in str(found)
    assert "tau" not in str(found)


def test_kappa_by_hand():
    assert cohens_kappa([[20, 5], [10, 15]]) == pytest.approx(0.4)  # (.7 - .5) / (1 - .5)
    assert cohens_kappa([[3, 0], [0, 4]]) == 1.0
    assert cohens_kappa([[1, 1], [1, 1]]) == 0.0
    assert np.isnan(cohens_kappa([[7, 0], [0, 0]]))


def test_the_systems_are_put_in_order_by_both():
    one, two, three = (run(**{"1_1": docnos}) for docnos in ("a b c", "b a c", "c b a"))
    first, second = (
        qrels(("1_1", "a", 3), ("1_1", "b", 1)),
        qrels(("1_1", "a", 1), ("1_1", "b", 3), ("1_1", "c", 0)),
    )
    found = agreement(
        first, second, runs={"one": one, "two": two, "three": three}, measures=["nDCG@1", "nDCG"]
    )
    assert found.tau.index.tolist() == ["nDCG@1", "nDCG"]
    assert found.tau["nDCG@1"] == pytest.approx(1 / 3)  # 3 1 0 and 1 3 0: one of three pairs apart
    assert found.tau["nDCG"] == pytest.approx(1 / 3)
    assert "Kendall's tau of the systems by nDCG@1: .3333" in str(found)
    with pytest.raises(UsageError, match="two or more systems"):
        agreement(first, second, runs={"one": one})


def test_the_order_of_systems():
    table = pd.DataFrame({"name": list("abcd"), "nDCG@5": [0.1, 0.2, 0.3, 0.4]})
    other = pd.DataFrame(
        {"name": list("dcba"), "nDCG@5": [0.4, 0.1, 0.3, 0.2]}
    )  # a .2, b .3, c .1, d .4: 4 pairs alike, 2 not
    assert order_agreement(table, table, "nDCG@5") == pytest.approx(1)
    assert order_agreement(table, other, "nDCG@5") == pytest.approx((4 - 2) / 6)
    with pytest.raises(UsageError, match="two or more systems, each once: a, b, c, d"):
        order_agreement(table, other[1:], "nDCG@5")


@pytest.mark.parametrize(
    ("qid", "word"),
    [("1_1", "no pair in common"), ("1-2", "its turns are like 1-2, the wanted ones like 1_2")],
)
def test_qrels_that_would_leave_pairs_out(qid, word):
    with pytest.raises(DataError, match=word):
        agreement(qrels(("1_3", "a", 1), (qid, "b", 1)), qrels(("1_3", "c", 1), ("1_2", "b", 1)))


def test_labels_that_are_all_alike_are_said_to_tell_nothing():
    alike, graded = qrels(("1_1", "a", 1), ("1_1", "b", 1)), qrels(("1_1", "a", 4), ("1_1", "b", 0))
    assert "the second file gives all these pairs label 1" in str(agreement(graded, alike))
    assert "says nothing" not in str(agreement(graded, graded))
