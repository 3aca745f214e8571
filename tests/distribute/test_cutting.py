import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.distribute.pipeline import concat_parts, cut


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30), st.integers(1, 40))
def test_parts_are_whole_turns_in_order_and_together_the_frame(rows_per_turn, partitions):
    turns = [f"t{number}" for number, rows in enumerate(rows_per_turn) for _ in range(rows)]
    frame = pd.DataFrame({"qid": [f"{turn}::{row}" for row, turn in enumerate(turns)], "qid_0": turns, "qsub": range(len(turns))})
    parts = cut(frame, partitions)
    pd.testing.assert_frame_equal(concat_parts(parts), frame)
    of_parts = [set(part["qid_0"]) for part in parts]
    assert sum(map(len, of_parts)) == len(rows_per_turn)  # no turn is in two parts
    assert len(parts) == min(partitions, len(rows_per_turn))
    assert max(map(len, of_parts)) - min(map(len, of_parts)) <= 1


def test_without_sub_queries_a_turn_is_its_qid():
    frame = pd.DataFrame({"qid": ["a", "a", "b"], "docno": ["x", "y", "x"]})
    assert [part["docno"].tolist() for part in cut(frame, 5)] == [["x", "y"], ["x"]]


def test_an_empty_part_does_not_change_the_types_of_the_others():
    empty = pd.DataFrame({"qid": [], "score": []}, dtype=object)
    found = pd.DataFrame({"qid": ["a"], "score": [0.5], "rank": [0]})
    pd.testing.assert_frame_equal(concat_parts([empty, found, empty]), found)


def test_parts_that_are_all_empty_give_an_empty_frame_with_their_columns():
    empty = pd.DataFrame({"qid": [], "score": []}, dtype=object)
    assert concat_parts([empty, empty]).columns.tolist() == ["qid", "score"]
