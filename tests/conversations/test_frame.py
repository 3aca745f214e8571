"""The turn frame: what becomes of a chat, a persona, a history, and of missing values."""

import warnings

import numpy as np
import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import (
    NoResultWarning,
    as_said,
    each_turn_once,
    earlier_queries,
    histories,
    known_statements,
    numbered,
    personas,
    question_column,
    report_turns_without_result,
    statement_id,
    statements_of,
    texts_in,
    values,
    with_query,
    with_text_ids,
    without_passages,
    without_result_warnings,
)
from pyterrier_ikat.errors import DataError, UsageError

HI = {"role": "user", "content": "Hi"}
HELLO = {"role": "assistant", "content": "Hello"}
TEA = {"role": "user", "content": "Tea?"}


def memory(id, statement, until=None, session="trip"):
    when = "2024-05-02T08:30:00.000Z"
    return {
        "id": id,
        "statement": statement,
        "until": until,
        "when": when,
        "session": session,
        "turn": 3,
    }


MEMORIES = [memory("1", "I am vegan."), memory("2", "I smoke.", "2024-06-01"), memory("3", "Hm.")]


def test_the_turns_of_a_chat_are_numbered_by_its_user():
    one = ikat.conversation([HI, HELLO, TEA], ["I am vegan."])
    assert one.to_dict("records") == [
        {
            "qid": "chat_2",
            "query": "Tea?",
            "qutterance": "Tea?",
            "qhistory": [HI, HELLO],
            "qptkb": {"1": "I am vegan."},
            "qconversation": "chat",
            "qturn": 2,
        }
    ]
    each = ikat.conversation([HI, HELLO, TEA, HELLO], number="9-1", every_turn=True)
    assert each["qid"].tolist() == ["9-1_1", "9-1_2"]
    assert each["qhistory"].tolist() == [[], [HI, HELLO]]


def test_a_later_change_of_a_message_changes_no_frame():
    messages = [dict(HI), dict(HELLO), dict(TEA)]
    frame = ikat.conversation(messages)
    messages[0]["content"] = "Bye"
    assert frame["qhistory"][0][0] == HI


@pytest.mark.parametrize(
    "messages", [[], [HELLO], [HI, HELLO], [{"role": "system", "content": "x"}, HI], ["Hi"]]
)
def test_a_chat_that_asks_nothing_is_refused(messages):
    with pytest.raises(UsageError, match="message"):
        ikat.conversation(messages)


def test_memories_are_shown_as_they_hold_and_dated_on_demand():
    plain = ikat.conversation([HI], memories=MEMORIES)
    dated = ikat.conversation([HI], memories=MEMORIES, dated=True)
    assert plain["qptkb"][0] == {"1": "I am vegan.", "3": "Hm."}
    assert dated["qptkb"][0]["1"] == "I am vegan. (said 2024-05-02, trip, turn 3)"
    assert plain["qmemories"][0] == dated["qmemories"][0] == MEMORIES
    assert known_statements([memory("1", "Told.", session="")], dated=True) == {"1": "Told."}
    assert as_said("Told.", "2024-05-02", "", 0) == "Told."


def test_a_persona_of_its_own_stands_before_the_memories():
    frame = pd.DataFrame({"qid": ["1", "2"], "qmemories": [MEMORIES[:1]] * 2})
    frame["qptkb"] = [{"7": "I eat fish."}, None]
    assert personas(frame) == [{"7": "I eat fish."}, {"1": "I am vegan."}]
    assert personas(frame.assign(other=[["a"], None]), "other") == [{"1": "a"}, {}]


def test_statements_are_named_by_texts_and_missing_ones_omitted():
    assert statements_of({1: "a", "x": "b", "y": None, "z": float("nan")}) == {"1": "a", "x": "b"}
    assert statements_of({np.int64(2): "a"}) == {"2": "a"}
    assert statements_of(["a", "b"]) == {"1": "a", "2": "b"}
    assert statements_of(None) == {}
    for wrong in (True, 1.0, None):
        with pytest.raises(UsageError, match="id"):
            statement_id(wrong)
    for wrong in ("a", "", 0, False, {"1": 5}, ["a", None], 5):
        with pytest.raises(UsageError, match="ptkb="):
            statements_of(wrong)


def test_missing_cells_have_the_default_and_arrays_become_lists():
    frame = pd.DataFrame({"q": [None, np.array(["a"]), float("nan"), pd.NA, "b"]}, dtype=object)
    assert values(frame, "q", 0) == [0, ["a"], 0, 0, "b"]
    assert values(frame, "other", 1) == [1] * 5
    assert type(values(frame, "q")[1]) is list


def test_a_history_is_a_list_of_messages_or_empty():
    frame = pd.DataFrame({"qid": ["1", "2", "3"], "qhistory": [[HI], None, []]})
    assert histories(frame) == [[HI], [], []]
    for wrong in ("Hi", [HI, "Hello"], [{"role": "user"}], [{"role": 1, "content": "a"}]):
        with pytest.raises(DataError, match="turn 1 has the qhistory"):
            histories(frame.assign(qhistory=[wrong, None, None]))


@pytest.mark.parametrize(("blank", "refused"), [(True, ["3"]), (False, ["2", "3"])])
def test_a_column_has_a_text_in_every_row(blank, refused):
    frame = pd.DataFrame({"qid": ["1", "2", "3"], "query": ["tea", " \n", None]}, dtype=object)
    with pytest.raises(DataError) as raised:
        texts_in(frame, "query", blank=blank)
    assert f"(turns {', '.join(refused)})" in str(raised.value)
    assert texts_in(frame[: 2 if blank else 1], "query", blank=blank)[0] == "tea"


def test_a_new_query_pushes_the_old_ones_and_drops_their_vectors():
    frame = pd.DataFrame({"qid": ["1"], "query": ["a"], "query_toks": [{}], "query_vec": [[1]]})
    frame = with_query(with_query(frame, ["b"]), ["c"], qrewrite=["c"])
    assert frame.to_dict("records") == [
        {"qid": "1", "query": "c", "query_0": "b", "query_1": "a", "qrewrite": "c"}
    ]
    assert earlier_queries(frame) == ["query_0", "query_1"]
    assert earlier_queries(frame.drop(columns="query_0")) == []
    assert question_column(frame) == "query_1"
    assert question_column(frame.assign(query_10="x")) == "query_10"
    assert question_column(frame.assign(qutterance="x")) == "qutterance"


def test_turns_are_numbered_as_they_first_occur():
    qids = np.array(["b", "b", "a", "b"], dtype=object)
    assert numbered(qids).tolist() == [0, 0, 1, 0]
    with pytest.raises(DataError, match="row 1 of the frame has no qid"):
        numbered(np.array(["b", None, "a"], dtype=object))


def test_a_turn_has_one_row():
    each_turn_once(pd.DataFrame({"qid": ["a", "b"]}))
    with pytest.raises(DataError, match="turn a has several rows"):
        each_turn_once(pd.DataFrame({"qid": ["b", "a", "a"]}))
    with pytest.raises(DataError, match="row 1 of the frame has no qid"):
        each_turn_once(pd.DataFrame({"qid": ["b", None]}))


def test_a_result_frame_is_reduced_to_its_turns():
    found = pd.DataFrame({"qid": ["a", "a", "b"], "query": ["x", "x", "y"], "docno": list("123")})
    assert without_passages(found).values.tolist() == [["a", "x"], ["b", "y"]]
    with pytest.raises(DataError, match="turn a has several rows"):
        without_passages(found.drop(columns="docno"))


def test_ids_are_texts_also_where_they_are_categories():
    frame = pd.DataFrame({"qid": pd.Categorical(["a", "b"]), "docno": ["1", "2"]})
    assert with_text_ids("it", frame)["qid"].tolist() == ["a", "b"]
    for column in ("qid", "docno"):
        for wrong in ([1, 2], ["a", None]):
            with pytest.raises(DataError, match=f"the {column} "):
                with_text_ids("it", frame.assign(**{column: wrong}))


def told(inp, counts):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report_turns_without_result(inp, counts)
    return [str(one.message) for one in caught if one.category is NoResultWarning]


def test_turns_without_a_passage_are_told_once_each():
    turns = pd.DataFrame({"qid": ["a", "b", "c"]})
    assert told(turns, [1, 0, 0]) == [
        "2 of 3 turns found no passage: b, c; counted 0 in evaluation"
    ]
    assert told(turns, [1, 1, 2]) == []
    with without_result_warnings():
        with without_result_warnings():
            assert told(turns, [0, 0, 0]) == []
        assert told(turns, [0, 0, 0]) == []
    sub_queries = pd.DataFrame({"qid": ["a::0", "a::1", "b::0"], "qid_0": ["a", "a", "b"]})
    assert told(sub_queries, [0, 5, 0]) == [
        "1 of 2 turns found no passage: b; counted 0 in evaluation"
    ]


def test_no_memories_are_a_column_too_and_never_beside_a_persona():
    frame = ikat.conversation([HI], memories=[])
    assert frame[["qmemories", "qptkb"]].values.tolist() == [[[], {}]]
    with pytest.raises(UsageError, match="ptkb and memories both"):
        ikat.conversation([HI], [], memories=[])


def test_three_queries_are_pushed_one_behind_the_other():
    frame = pd.DataFrame({"qid": ["1"], "query": ["a"]})
    for text in "bcd":
        frame = with_query(frame, [text])
    assert frame.to_dict("records") == [
        {"qid": "1", "query": "d", "query_0": "c", "query_1": "b", "query_2": "a"}
    ]
    assert question_column(frame.assign(query_10="x")) == "query_10"
    assert question_column(frame.assign(query_x="x")) == "query_2"


def test_numbers_of_an_array_become_numbers_of_python():
    frame = pd.DataFrame({"q": [np.array([1, 2])]}, dtype=object)
    assert [type(number) for number in values(frame, "q")[0]] == [int, int]


def test_what_is_no_persona_or_history_names_its_turn_and_column():
    frame = pd.DataFrame({"qid": ["a", "b"], "mine": [["x"], 5]}, index=[7, 3])
    with pytest.raises(DataError, match="^turn b has the mine ptkb=5: give a dict"):
        personas(frame, "mine")
    with pytest.raises(DataError, match="^row 1 has the mine ptkb=5"):
        personas(frame[["mine"]], "mine")
    assert statements_of(("a", "b")) == {"1": "a", "2": "b"}
    empty = {"role": "assistant", "content": ""}
    assert histories(pd.DataFrame({"qhistory": [(HI, empty)]})) == [(HI, empty)]
    for wrong in ("", {}, 0, [{"role": "user", "content": 5}]):
        with pytest.raises(DataError, match="^row 0 has the qhistory"):
            histories(pd.DataFrame({"qhistory": [wrong, None]}))


def test_the_first_of_several_rows_without_a_turn_is_named():
    with pytest.raises(DataError, match="row 1 of the frame has no qid"):
        numbered(np.array(["b", None, "a", None], dtype=object))


def test_a_column_that_is_there_twice_is_refused():
    twice = pd.DataFrame([["a", "1", "2"]], columns=["qid", "docno", "docno"])
    with pytest.raises(DataError, match="^it has several columns 'docno': keep one"):
        with_text_ids("it", twice)


def test_turns_of_results_keep_all_that_is_of_the_turn():
    found = pd.DataFrame(
        {"qid": ["a", "a", "b"], "query": ["x"] * 3, "qrewrite": list("yyz"), "docno": list("123")}
    ).assign(score=1.0)
    assert without_passages(found).to_dict("list") == {
        "qid": ["a", "b"],
        "query": ["x", "x"],
        "qrewrite": ["y", "z"],
    }


def test_a_warning_of_turns_is_back_after_an_error():
    with pytest.raises(KeyError), without_result_warnings():
        raise KeyError
    turns = pd.DataFrame({"qid": ["a", "a", "b"]})
    assert told(turns, [0, 0, 1]) == ["1 of 2 turns found no passage: a; counted 0 in evaluation"]
