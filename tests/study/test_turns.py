"""The turns that systems are run on: given, of a dataset, chosen, left, and in batches."""

import warnings
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.study.turns import AskedTurns, NoRewritesWarning, batches

TOPICS = pd.DataFrame({"qid": ["1_1", "1_2", "2_1"], "query": ["tea", "milk", "ale"]})


def test_given_turns_have_positions_and_ids_as_texts():
    turns = AskedTurns.given(TOPICS.set_index(pd.Index([7, 7, 3])))
    assert turns.ids == ("1_1", "1_2", "2_1")
    assert turns.frame.index.tolist() == [0, 1, 2]
    assert turns.left({"1_2"}) == [0, 2]
    assert turns.left(()) == [0, 1, 2]
    numbered = AskedTurns.given(pd.DataFrame({"qid": ["7", "8"], "query": "x"}))
    assert numbered.ids == ("7", "8")


@pytest.mark.parametrize(
    ("topics", "error", "told"),
    [
        (["1_1"], UsageError, r"topics=\['1_1'\]: give a frame with qid and query"),
        (TOPICS.set_index("qid"), DataError, "qid as its index.*reset_index"),
        (TOPICS.drop(columns="qid"), pt.validate.InputValidationError, "qid"),
        (TOPICS.head(0), DataError, "the topics frame has no turn"),
        (TOPICS.assign(qid=[1, 2, 3]), DataError, "qid"),
    ],
)
def test_what_holds_no_turns_is_refused(topics, error, told):
    with pytest.raises(error, match=told):
        AskedTurns.given(topics)


def test_an_index_named_qid_beside_the_column_is_no_fault():
    both = TOPICS.set_index("qid", drop=False)
    assert AskedTurns.given(both).ids == ("1_1", "1_2", "2_1")


def test_chosen_turns_keep_the_order_of_the_topics():
    turns = AskedTurns.given(TOPICS)
    chosen = turns.chosen(["2_1", "1_1"], "the topics frame")
    assert (chosen.ids, chosen.frame.index.tolist()) == (("1_1", "2_1"), [0, 1])
    with pytest.raises(UsageError, match="the topics frame"):
        turns.chosen(["9_9"], "the topics frame")
    among = turns.among({"1_2", "9_9"})
    assert (among.ids, among.frame.index.tolist()) == (("1_2",), [0])


def test_each_turn_is_there_once():
    AskedTurns.given(TOPICS).check_once()
    with pytest.raises(DataError, match="turn 1_1 has several rows"):
        AskedTurns.given(TOPICS.assign(qid=["1_1", "1_2", "1_1"])).check_once()


HISTORY = [{"role": "user", "content": "tea"}]


class Data:
    name = "mine"

    def __init__(self, **columns):
        self.columns = columns
        self.asked = []

    def get_topics(self, of=None):
        self.asked.append(of)
        return TOPICS.assign(**self.columns).set_index(pd.Index([4, 4, 4]))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({}, False),  # no turn has a history, so none needs a rewrite
        (
            {
                "qhistory": [[], HISTORY, HISTORY],
                "qutterance": ["a", "b", "c"],
                "qresolved": ["x", "b", "c"],
            },
            True,
        ),
        (
            {
                "qhistory": [[], HISTORY, HISTORY],
                "qutterance": ["a", "b", "c"],
                "qresolved": ["a", "b", "z"],
            },
            False,
        ),
    ],
)
def test_a_manual_run_without_rewrites_is_told(columns, told):
    for manual in (True, False):
        data = Data(**columns)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            turns = AskedTurns.of_dataset(data, manual)
        assert data.asked == ["manual" if manual else None]
        assert turns.frame.index.tolist() == [0, 1, 2]
        expected = [NoRewritesWarning] if told and manual else []
        assert [warning.category for warning in caught] == expected


@pytest.mark.parametrize(
    ("positions", "size", "expected"),
    [
        ([], 2, []),
        ([0], 2, [[0]]),
        ([0, 1, 2], 2, [[0, 1], [2]]),
        ([0, 1, 2, 3], 2, [[0, 1], [2, 3]]),
        ([0, 1, 2, 7], 2, [[0, 1], [2], [7]]),
        ([3, 5, 6, 7], 9, [[3], [5, 6, 7]]),
        ([4, 5], 1, [[4], [5]]),
    ],
)
def test_a_batch_has_consecutive_turns(positions, size, expected):
    assert [positions[batch] for batch in batches(positions, size)] == expected


@given(st.sets(st.integers(0, 30)), st.integers(1, 5))
def test_batches_hold_each_turn_once_in_order(turns, size):
    positions = sorted(turns)
    groups = [positions[batch] for batch in batches(positions, size)]
    assert sum(groups, []) == positions
    for group in groups:
        assert 1 <= len(group) <= size
        assert group == list(range(group[0], group[-1] + 1))
    for first, second in zip(groups, groups[1:], strict=False):
        assert len(first) == size or second[0] > first[-1] + 1


def test_a_namespace_with_topics_is_a_dataset_too():
    data = SimpleNamespace(name="mine", get_topics=lambda of: TOPICS)
    assert AskedTurns.of_dataset(data, False).ids == ("1_1", "1_2", "2_1")


TWO_TURNS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
FINDS = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0))


@pytest.mark.parametrize(
    "topics", [TWO_TURNS.to_dict("records"), TWO_TURNS["query"], "1_1", {"1_1": "tea"}]
)
def test_topics_that_are_no_frame_are_refused(topics, tmp_path):
    for call in (ikat.run, ikat.plan):
        with pytest.raises(ikat.UsageError, match="give a frame with qid and query"):
            call({"mine": FINDS}, topics=topics, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_frame_without_a_turn_is_refused(tmp_path):
    nobody = TWO_TURNS[TWO_TURNS["qid"] == "9_9"]
    for call in (ikat.run, ikat.plan):
        with pytest.raises(ikat.DataError, match="the topics frame has no turn"):
            call({"mine": FINDS}, topics=nobody, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("turns", [TWO_TURNS.set_index("qid"), pd.DataFrame({"turn": ["1_1"]})])
def test_a_frame_of_turns_without_their_ids_is_refused(turns, tmp_path):
    with pytest.raises(ikat.UsageError, match="turns= is a frame without the column qid"):
        ikat.run({"mine": FINDS}, topics=TWO_TURNS, turns=turns, out=tmp_path / "runs")
