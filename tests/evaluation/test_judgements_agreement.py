"""Agreement of two files of judgements: of labels, of what is relevant, of the order of systems."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score
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
    a = np.repeat(rows.ravel(), matrix.ravel())
    b = np.repeat(columns.ravel(), matrix.ravel())
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
    first = qrels(("1_1", "a", 3), ("1_1", "b", 1))
    second = qrels(("1_1", "a", 1), ("1_1", "b", 3), ("1_1", "c", 0))
    found = agreement(
        first, second, runs={"one": one, "two": two, "three": three}, measures=["nDCG@1", "nDCG"]
    )
    assert found.tau.index.tolist() == ["nDCG@1", "nDCG"]
    assert found.tau["nDCG@1"] == pytest.approx(1 / 3)  # 3 1 0 and 1 3 0: one of three pairs apart
    assert found.tau["nDCG"] == pytest.approx(1 / 3)
    assert "Kendall's tau of the systems by nDCG@1: .3333" in str(found)
    assert "Kendall's tau of the systems by nDCG: .3333" in str(found)
    with pytest.raises(UsageError, match="two or more systems"):
        agreement(first, second, runs={"one": one})


def test_the_order_of_systems():
    table = pd.DataFrame({"name": list("abcd"), "nDCG@5": [0.1, 0.2, 0.3, 0.4]})
    other = pd.DataFrame(
        {"name": list("dcba"), "nDCG@5": [0.4, 0.1, 0.3, 0.2]}
    )  # a .2, b .3, c .1, d .4: 4 pairs alike, 2 not
    assert order_agreement(table, table, "nDCG@5") == pytest.approx(1)
    by_name = table.set_index("name", drop=False)
    assert order_agreement(by_name, other, "nDCG@5") == pytest.approx((4 - 2) / 6)
    assert order_agreement(table, other, "nDCG@5") == pytest.approx((4 - 2) / 6)
    with pytest.raises(UsageError, match="two or more systems, each once, .*: a, b, c, d"):
        order_agreement(table, other[1:], "nDCG@5")


@pytest.mark.parametrize(
    ("qid", "word"),
    [("1_1", "no pair in common"), ("1-2", "its turns are like 1-2, the wanted ones like 1_2")],
)
def test_qrels_that_would_leave_pairs_out(qid, word):
    with pytest.raises(DataError, match=word):
        agreement(qrels(("1_3", "a", 1), (qid, "b", 1)), qrels(("1_3", "c", 1), ("1_2", "b", 1)))


def test_labels_that_are_all_alike_are_said_to_tell_nothing():
    alike = qrels(("1_1", "a", 1), ("1_1", "b", 1))
    graded = qrels(("1_1", "a", 4), ("1_1", "b", 0))
    assert "the second file gives all these pairs label 1" in str(agreement(graded, alike))
    assert "says nothing" not in str(agreement(graded, graded))


LABELS = [(0, 0), (1, 2), (2, 1), (2, 3), (4, 4), (3, 2), (1, 1), (0, 1)]


@pytest.mark.parametrize(
    ("threshold", "binary"),
    [
        # relevant by the first, by the second: neither, second alone, first alone, both
        (1, [[1, 1], [0, 6]]),
        (2, [[3, 1], [1, 3]]),
        (3, [[5, 1], [1, 1]]),
        (4, [[7, 0], [0, 1]]),
    ],
)
def test_what_is_relevant_from_each_label_on(threshold, binary):
    docnos = ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"]
    ours, theirs = zip(*LABELS, strict=True)
    first = pd.DataFrame({"qid": "1_1", "docno": docnos, "label": ours})
    second = pd.DataFrame({"qid": "1_1", "docno": docnos, "label": theirs})
    found = agreement(first, second, threshold)
    assert found.threshold == threshold
    assert found.pairs == 8
    assert found.binary_confusion.to_numpy().tolist() == binary
    assert found.binary == (binary[0][0] + binary[1][1]) / 8
    assert found.binary_kappa == pytest.approx(cohen_kappa_score(*by_threshold(threshold)))
    assert found.kappa == pytest.approx(cohen_kappa_score(*zip(*LABELS, strict=True)))
    assert len(found.tau) == 0
    assert f"Relevant, from label {threshold} on" in str(found)
    if threshold == 2:
        assert agreement(first, second).binary == found.binary  # the default


def by_threshold(threshold):
    ours, theirs = zip(*LABELS, strict=True)
    return np.array(ours) >= threshold, np.array(theirs) >= threshold


def test_a_matrix_has_all_labels_from_least_to_greatest():
    found = agreement(
        qrels(("1_1", "a", 1), ("1_1", "b", 3)), qrels(("1_1", "a", 4), ("1_1", "b", 1))
    )
    assert found.confusion.index.tolist() == found.confusion.columns.tolist() == [1, 2, 3, 4]
    assert found.confusion.loc[1, 4] == found.confusion.loc[3, 1] == 1
    assert found.confusion.to_numpy().sum() == 2


def test_a_file_with_one_label_is_named_as_first_or_second():
    alike = qrels(("1_1", "a", 2), ("1_1", "b", 2))
    graded = qrels(("1_1", "a", 4), ("1_1", "b", 0))
    assert "the first file gives all these pairs label 2" in str(agreement(alike, graded))
    assert "the second file" not in str(agreement(alike, graded))


def test_orders_with_ties_have_tau_b_and_none_where_all_tie():
    table = pd.DataFrame({"name": list("abc"), "nDCG@5": [0.1, 0.2, 0.2]})
    other = table.assign(**{"nDCG@5": [0.3, 0.4, 0.1]})
    # tau-b: of 3 pairs one agrees, one doesn't, one ties in the first
    assert order_agreement(table, other, "nDCG@5") == pytest.approx(0)
    rising = table.assign(**{"nDCG@5": [0.1, 0.2, 0.3]})
    assert order_agreement(table, rising, "nDCG@5") == pytest.approx(2 / np.sqrt(2 * 3))
    assert np.isnan(order_agreement(table.assign(**{"nDCG@5": 0.5}), rising, "nDCG@5"))


def texts(table):
    """The texts of a table, column by column."""
    columns = []
    for column in table.columns:
        columns.append([cell.text for cell in column.cells])
    return columns


def test_tables_have_their_titles_counts_and_notes():
    first = qrels(("1_1", "a", 0), ("1_1", "b", 3), ("1_1", "c", 2), ("1_1", "d", 2))
    second = qrels(("1_1", "a", 0), ("1_1", "b", 2), ("1_1", "c", 0), ("1_2", "d", 2))
    found = agreement(first, second, 2)
    graded, binary = found.tables()
    assert graded.title == "Labels of the first file (rows) and of the second (columns)"
    assert binary.title == "Relevant, from label 2 on"
    assert graded.notes == []
    assert binary.notes == [
        "3 pairs judged by both: binary agreement 66.67%, kappa .4000; kappa of the graded labels "
        ".0000"
    ]
    assert [column.title for column in graded.columns] == ["label", "0", "1", "2", "3"]
    cells = texts(graded)
    assert cells[0] == ["0", "1", "2", "3"]
    assert cells[1] == ["1", "0", "1", "0"]
    assert cells[3] == ["0", "0", "0", "1"]
    assert [column.numeric for column in graded.columns] == [False, *[True] * 4]
    assert texts(binary) == [["False", "True"], ["1", "1"], ["0", "1"]]
    same = found.binary_confusion.to_numpy().tolist()
    assert same == [[1, 0], [1, 1]]
    with pytest.raises(DataError, match=r"no pair in common \(such as 1_1 a and 1_2 d\)"):
        agreement(first, second[3:])
    with pytest.raises(DataError, match="the first qrels judge"):
        agreement(pd.concat([first, first]), second)
    with pytest.raises(DataError, match="the second qrels judge"):
        agreement(first, pd.concat([second, second]))


def test_systems_are_ordered_by_both_files_and_all_measures():
    """By the second file both systems are alike, so there is no order to compare."""
    first = qrels(("1_1", "a", 2))
    second = qrels(("1_1", "a", 2), ("1_1", "b", 2))
    runs = {"x": run(**{"1_1": "a"}), "y": run(**{"1_1": "b a"})}
    found = agreement(first, second, runs=runs, measures=["P@1", "AP"])
    assert found.tau.index.tolist() == ["P(rel=1)@1", "AP(rel=1)"]
    assert np.isnan(found.tau["P(rel=1)@1"])
    assert found.tau["AP(rel=1)"] == -1.0
    turned = agreement(second, first, runs=runs, measures="AP")
    assert turned.tau["AP(rel=1)"] == -1.0
    for odd in ({"name": ["x", "x"]}, {"name": ["x", "z"]}):
        table = pd.DataFrame({**odd, "AP(rel=1)": [0.1, 0.2]})
        good = pd.DataFrame({"name": ["x", "y"], "AP(rel=1)": [0.1, 0.2]})
        with pytest.raises((UsageError, pd.errors.MergeError)):
            order_agreement(table, good, "AP")
