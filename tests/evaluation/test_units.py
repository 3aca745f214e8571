"""Clusters of turns: where they come from, how many are enough, what a table says of them."""

import pandas as pd
import pytest

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.evaluation.scores import natural_key
from pyterrier_ikat.evaluation.units import (
    Clusters,
    check_unit,
    describe_test,
    find_clusters,
    independent,
    note_on_intervals,
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
    users = "two-sided paired t-test robust to clusters, over 3 sessions of 2 users, Bonferroni"
    assert describe_test("user", 2, 3, "session") == f"{users}, p < .05"
    alone = "two-sided paired t-test, over 3 sessions, Bonferroni, p < .05"
    assert describe_test("session", 3, 3, "session") == alone
    assert independent(3).names == ["0", "1", "2"]
    assert independent(3).over() == "3 turns"


def test_ids_are_ordered_as_people_do():
    ids = ["10-1_1", "9-1_12", "9-1_3", "a2", "a10", "9-1_3b"]
    assert sorted(ids, key=natural_key) == ["9-1_3", "9-1_3b", "9-1_12", "10-1_1", "a2", "a10"]


@pytest.mark.parametrize(
    ("conversations", "names", "source"),
    [
        ({"1_1": "x", "1_2": "x"}, ["x", "x"], "qconversation"),
        ({"1_1": "x"}, ["1", "1"], "qid"),
        ({"1_1": "1_1", "1_2": "1_2"}, ["1", "1"], "qid"),
        ({"1_1": "1_1", "1_2": "x"}, ["1_1", "x"], "qconversation"),
        ({"1_1": None, "1_2": "x"}, ["1", "1"], "qid"),
        ({"1_1": 7, "1_2": 7}, ["7", "7"], "qconversation"),
    ],
    ids=["all", "some", "themselves", "one itself", "missing", "numbers"],
)
def test_conversations_are_those_of_frames_that_know_all(conversations, names, source):
    frame = pd.DataFrame(
        {"qid": list(conversations), "qconversation": list(conversations.values())}
    )
    others = [frame[["qid"]], frame[["qconversation"]]]
    found = find_clusters(["1_1", "1_2"], frames=[*others, frame.astype(object)])
    assert (found.unit, found.names, found.source) == ("conversation", names, source)


def test_frames_without_a_turn_have_no_source_but_the_ids():
    found = find_clusters([], frames=[pd.DataFrame({"qid": ["1_1"], "qconversation": ["x"]})])
    assert (found.names, found.source) == ([], "qid")


def test_topics_of_compound_ids_stand_before_the_first_hyphen():
    for unit in ("topic", "user"):
        found = find_clusters(["9-1-b_1", "10_2"], unit)
        assert (found.unit, found.names, found.source) == (unit, ["9", "10"], "qid")


class Declaring:
    """A dataset that declares users, and lacks a turn."""

    name = "mine"
    unit = "user"
    declares_unit = True

    def clusters(self, unit):
        assert unit in ("user", "conversation")
        return {"1-1_1": "1-1", "1-2_1": "1-2"} if unit == "conversation" else {"1-1_1": "ann"}


DECLARING = Declaring()


@pytest.mark.filterwarnings("default::UserWarning")
def test_turns_that_a_dataset_lacks_are_clusters_of_their_own():
    with pytest.warns(
        UserWarning, match=r"mine lacks 1 turn \(9_1\): each counts as a user of its"
    ):
        found = find_clusters(["1-1_1", "9_1"], None, DECLARING)
    assert (found.unit, found.names, found.source) == ("user", ["ann", "9_1"], "")
    assert find_clusters(["1-1_1"], "conversation", DECLARING).names == ["1-1"]
    assert find_clusters(["1-1_1"], "turn", DECLARING).names == ["1-1_1"]


def test_each_frame_may_know_a_part_of_the_conversations():
    first = pd.DataFrame({"qid": ["a", "b"], "qconversation": ["9-1", "8-1"]})
    second = pd.DataFrame({"qid": ["c", "b"], "qconversation": ["9-2", "8-2"]})
    found = find_clusters(["a", "b", "c"], frames=iter([first, second]))
    expected = Clusters("conversation", ["9-1", "8-2", "9-2"], "qconversation")
    assert found == expected
    for unit in ("topic", "user"):
        found = find_clusters(["c", "a", "b"], unit, frames=[first, second])
        assert found == Clusters(unit, ["9", "9", "8"], "qconversation")
    found = find_clusters(["a", "d"], frames=[first, second])
    assert found == Clusters("turn", ["a", "d"], "none")


def test_all_turns_that_a_dataset_lacks_are_told_with_the_unit():
    for unit, names in (("user", ["9_1", "ann", "9_2"]), ("conversation", ["9_1", "1-1", "9_2"])):
        message = rf"mine lacks 2 turns \(9_1, 9_2\): each counts as a {unit} of its own in tests"
        with pytest.warns(UserWarning, match=message):
            found = find_clusters(["9_1", "1-1_1", "9_2"], unit, DECLARING)
        assert found == Clusters(unit, names)


def test_a_frame_comes_before_ids_but_after_what_is_declared():
    class Silent(Declaring):
        declares_unit = False

    frame = pd.DataFrame({"qid": ["1-1_1"], "qconversation": ["x"]})
    found = find_clusters(["1-1_1"], None, Silent(), [frame])
    assert found == Clusters("conversation", ["x"], "qconversation")
    assert find_clusters(["1-1_1"], None, DECLARING, [frame]) == Clusters("user", ["ann"])


def test_notes_on_intervals_name_the_range_of_clusters():
    shown = pd.DataFrame({"unit": ["topic"] * 2, "clusters": [13, 9], "unit_from": ["", ""]})
    for rows in (shown, shown[::-1]):
        assert note_on_intervals(rows).endswith("robust to clusters, over 9 to 13 topics.")
    assert note_on_intervals(shown.head(1)).endswith("over 13 topics.")
    turns = shown.assign(unit="turn", unit_from="qid")
    assert "of independent turns, over 9 to 13 turns. No dataset is known" in note_on_intervals(
        turns
    )


def test_a_unit_needs_a_baseline_and_a_known_name():
    check_unit(None, None)
    check_unit("turn", "raw")
    for unit in ("topic", "turn"):
        with pytest.raises(UsageError, match=f"unit='{unit}'.* give baseline"):
            check_unit(unit, None)
    for call in (lambda: check_unit("week", "raw"), lambda: find_clusters(["1_1"], "week")):
        with pytest.raises(UsageError, match="unit='week'"):
            call()


@pytest.mark.parametrize(
    ("qids", "conversations", "names", "source"),
    [
        (["a_1", "a_2"], ["x", "y"], ["x", "y"], "qconversation"),
        (["a_1", "a_2"], [7, 7], ["7", "7"], "qconversation"),
        (["a", "b"], ["a", "x"], ["a", "x"], "qconversation"),
        (["a_1", "a_2"], ["x", None], ["a", "a"], "qid"),  # not of all turns
        (["a_1", "a_2"], ["a_1", "a_2"], ["a", "a"], "qid"),  # the turns themselves
        (["a_b_1", "a_b_2"], [None, None], ["a_b", "a_b"], "qid"),
    ],
)
def test_where_the_conversations_of_turns_come_from(qids, conversations, names, source):
    frame = pd.DataFrame({"qid": qids, "qconversation": pd.Series(conversations, dtype=object)})
    others = [frame[["qid"]], frame[["qconversation"]], pd.DataFrame()]
    found = find_clusters(qids, frames=[*others, frame])
    assert found == Clusters("conversation", names, source)
    again = find_clusters(qids, frames=[pd.concat([frame, frame]), frame])
    assert again == found


def test_a_topic_stands_before_the_first_hyphen():
    assert find_clusters(["9-1-2_1", "9-1-3_1"], "topic").names == ["9", "9"]


def test_ids_without_a_conversation_are_their_own_clusters():
    assert find_clusters(["a", "9_1"]) == Clusters("turn", ["a", "9_1"], "none")
    assert find_clusters(["8_1", "9_1"], "turn") == Clusters("turn", ["8_1", "9_1"])
    with pytest.raises(DataError, match="turn 'a' is not <conversation>_<turn>"):
        find_clusters(["9_1", "a"], "conversation")
