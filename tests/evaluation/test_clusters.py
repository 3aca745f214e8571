"""Clusters of turns: how many are enough, and what a table says of them."""

import pytest

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.scores import natural_key
from pyterrier_ikat.evaluation.units import (
    Clusters,
    check_unit,
    describe_test,
    find_clusters,
    independent,
    notes_on_unit,
)


@pytest.mark.parametrize(
    ("unit", "names", "enough"),
    [
        ("topic", "abcd", False),
        ("topic", "abcde", True),
        ("topic", "aabbccdd", False),
        ("turn", "ab", True),
    ],
)
def test_five_clusters_are_enough_to_mark_a_difference(unit, names, enough):
    clusters = Clusters(unit, list(names))
    assert clusters.enough is enough
    assert clusters.number == len(set(names))
    told = [note for note in notes_on_unit(unit, clusters.number) if "Nothing is marked" in note]
    assert bool(told) is not enough


@pytest.mark.parametrize(
    ("qids", "unit", "expected", "names", "source"),
    [
        (["9-1_1", "9-2_1"], None, "conversation", ["9-1", "9-2"], "qid"),
        (["9-1_1", "9-2_1"], "conversation", "conversation", ["9-1", "9-2"], "qid"),
        (["9-1_1", "9-2_1"], "topic", "topic", ["9", "9"], "qid"),
        (["9-1_1", "9-2_1"], "user", "user", ["9", "9"], "qid"),
        (["9-1_1", "9-2_1"], "turn", "turn", ["9-1_1", "9-2_1"], ""),
        (["a", "b_1"], None, "turn", ["a", "b_1"], "none"),
    ],
)
def test_a_unit_is_read_from_ids(qids, unit, expected, names, source):
    found = find_clusters(qids, unit)
    assert (found.unit, list(found.names), found.source) == (expected, names, source)
    assert found.columns() == {
        "unit": expected,
        "clusters": len(set(names)),
        "unit_from": source,
    }


def test_units_that_cannot_be_known_or_used_are_refused():
    with pytest.raises(DataError, match="turn 'a' is not <conversation>_<turn>"):
        find_clusters(["a", "b_1"], "topic")
    with pytest.raises(UsageError, match="unit"):
        find_clusters(["9-1_1"], "day")
    with pytest.raises(UsageError, match="unit='topic'"):
        check_unit("topic", None)
    check_unit("topic", "base")
    check_unit(None, None)


def test_the_test_is_described_by_its_turns_and_clusters():
    assert describe_test("turn", 2, 2) == (
        "two-sided paired t-test, over 2 turns, Bonferroni, p < .05"
    )
    assert "robust to clusters, over 3 turns of 2 topics" in describe_test("topic", 2, 3)
    assert independent(3).names == ["0", "1", "2"]
    assert independent(3).over() == "3 turns"


def test_ids_are_ordered_as_people_do():
    ids = ["10-1_1", "9-1_12", "9-1_3", "a2", "a10", "9-1_3b"]
    assert sorted(ids, key=natural_key) == ["9-1_3", "9-1_3b", "9-1_12", "10-1_1", "a2", "a10"]
