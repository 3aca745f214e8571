"""The turn frame: what becomes of a chat, a persona, a history, and of missing values."""

import warnings

import numpy as np
import pandas as pd
import pytest
from small_files import CHAT, said

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import (
    NoResultWarning,
    as_said,
    column,
    conversation,
    each_turn_once,
    earlier_queries,
    frame_of_rows,
    histories,
    known_statements,
    numbered,
    personas,
    question_column,
    report_turns_without_result,
    starts_of_runs,
    statement_id,
    statements_of,
    texts_in,
    turns_of,
    values,
    well_formed,
    with_columns,
    with_query,
    with_text_ids,
    without_passages,
    without_result_warnings,
)
from pyterrier_ikat.errors import DataError, UsageError


def test_a_chat_becomes_one_turn():
    row = conversation(CHAT, ["I avoid caffeine.", "I like mint."], number="mine").to_dict(
        "records"
    )
    wanted = {
        "qid": "mine_2",
        "query": "And for sleep?",
        "qutterance": "And for sleep?",
        "qhistory": CHAT[:2],
        "qptkb": {"1": "I avoid caffeine.", "2": "I like mint."},
    }
    assert row == [wanted | {"qconversation": "mine", "qturn": 2}]
    every = conversation(
        [*CHAT, *said("", "Chamomile.")[1:]], ["I avoid caffeine."], every_turn=True
    )
    assert every[["qid", "query", "qturn"]].values.tolist() == [
        ["chat_1", "Which tea?", 1],
        ["chat_2", "And for sleep?", 2],
    ]
    assert every["qhistory"].tolist() == [[], CHAT[:2]]
    assert every.tail(1).to_dict("list") == conversation(CHAT, ["I avoid caffeine."]).to_dict(
        "list"
    )


@pytest.mark.parametrize(
    ("messages", "part"),
    [
        ([], "ends with a message of the user"),
        (CHAT[:2], "ends with a message of the user"),
        ([{"role": "system", "content": "x"}], "message 1 of the conversation"),
        ([*CHAT, {"role": "user"}], "message 4 of the conversation"),
        ([{"role": "user", "content": None}], "message 1"),
    ],
)
def test_a_bad_chat_is_named(messages, part):
    for every_turn in (False, messages == CHAT[:2]):
        with pytest.raises(UsageError, match=part):
            conversation(messages[every_turn:], every_turn=every_turn)


def test_every_turn_of_a_chat_is_a_row():
    chat = [
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Tea?"},
        {"role": "user", "content": "Now?"},
        {"role": "assistant", "content": "Bye"},
    ]
    memories = [
        {
            "id": "1",
            "statement": "a",
            "until": None,
            "when": "2024-05-02",
            "session": "s",
            "turn": 1,
        }
    ]
    frame = conversation(chat, number="n", every_turn=True, memories=memories)
    assert frame["qid"].tolist() == ["n_1", "n_2"]
    assert frame["qhistory"].map(len).tolist() == [1, 2]
    assert frame["qmemories"].tolist() == [memories] * 2
    assert frame["qptkb"].tolist() == [{"1": "a"}] * 2
    dated = conversation(chat[:3], memories=memories, dated=True)
    assert dated["qptkb"].item() == {"1": "a (said 2024-05-02, s, turn 1)"}
    assert known_statements([{**memories[0], "until": "x"}]) == {}
    with pytest.raises(UsageError, match="message 2 of the conversation is 'x': give"):
        conversation([chat[1], "x"])
    with pytest.raises(UsageError, match="ends with a message of the user"):
        conversation(chat)
    with pytest.raises(UsageError, match="ends with a message of the user"):
        conversation(chat[:1], every_turn=True)


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


def test_no_memories_are_a_column_too_and_never_beside_a_persona():
    frame = ikat.conversation([HI], memories=[])
    assert frame[["qmemories", "qptkb"]].values.tolist() == [[[], {}]]
    with pytest.raises(UsageError, match="ptkb and memories both"):
        ikat.conversation([HI], [], memories=[])


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


def test_two_statements_of_one_id_are_refused():
    with pytest.raises(UsageError, match="two statements have the id 1"):
        conversation(CHAT, {"1": "I like mint.", 1: "I avoid caffeine."})


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


def test_a_new_query_pushes_the_old_and_drops_what_came_of_it():
    frame = pd.DataFrame(
        {
            "qid": ["1"],
            "query": ["old"],
            "query_0": ["older"],
            "query_toks": [{"old": 1}],
            "query_vec": [0],
        },
        index=[3],
    )
    new = with_query(frame, ["new"])
    assert new.to_dict("records") == [
        {"qid": "1", "query": "new", "query_0": "old", "query_1": "older"}
    ]
    assert new.index.tolist() == [3]
    assert frame["query"].tolist() == ["old"]


def test_three_queries_are_pushed_one_behind_the_other():
    frame = pd.DataFrame({"qid": ["1"], "query": ["a"]})
    for text in "bcd":
        frame = with_query(frame, [text])
    assert frame.to_dict("records") == [
        {"qid": "1", "query": "d", "query_0": "c", "query_1": "b", "query_2": "a"}
    ]
    assert question_column(frame.assign(query_10="x")) == "query_10"
    assert question_column(frame.assign(query_x="x")) == "query_2"


def test_the_question_is_the_oldest_of_pushed_queries():
    rewritten = with_query(with_query(conversation(CHAT).drop(columns="qutterance"), ["b"]), ["c"])
    assert question_column(rewritten) == "query_1"
    assert rewritten["query_1"].tolist() == ["And for sleep?"]


def test_turns_are_numbered_as_they_first_occur():
    qids = np.array(["b", "b", "a", "b"], dtype=object)
    assert numbered(qids).tolist() == [0, 0, 1, 0]
    with pytest.raises(DataError, match="row 1 of the frame has no qid"):
        numbered(np.array(["b", None, "a"], dtype=object))


def test_rows_are_numbered_by_their_turns():
    qids = column(["b", "b", "a", "b", "c", "c"]).to_numpy()
    assert starts_of_runs(qids).tolist() == [0, 2, 3, 4]
    assert numbered(qids).tolist() == [0, 0, 1, 0, 2, 2]
    assert starts_of_runs(qids[:0]).tolist() == numbered(qids[:0]).tolist() == []
    assert turns_of(pd.DataFrame({"qid": ["x", "y", "x"]})).tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="row 2 of the frame has no qid"):
        numbered(column(["a", "a", None, "b"]).to_numpy())
    with pytest.raises(DataError, match="turn b has several rows"):
        each_turn_once(pd.DataFrame({"qid": ["a", "b", "b", "a"]}))
    with pytest.raises(DataError, match="row 1 of the frame has no qid"):
        each_turn_once(pd.DataFrame({"qid": ["a", None]}))
    each_turn_once(pd.DataFrame({"qid": []}))


def test_the_first_of_several_rows_without_a_turn_is_named():
    with pytest.raises(DataError, match="row 1 of the frame has no qid"):
        numbered(np.array(["b", None, "a", None], dtype=object))


def test_a_turn_has_one_row():
    each_turn_once(pd.DataFrame({"qid": ["a", "b"]}))
    with pytest.raises(DataError, match="turn a has several rows"):
        each_turn_once(pd.DataFrame({"qid": ["b", "a", "a"]}))
    with pytest.raises(DataError, match="row 1 of the frame has no qid"):
        each_turn_once(pd.DataFrame({"qid": ["b", None]}))


def test_a_result_frame_is_reduced_to_its_turns():
    results = pd.DataFrame(
        {
            "qid": list("aab"),
            "query": list("xxy"),
            "docno": list("123"),
            "score": [1, 2, 3],
            "qturn": [1, 1, 2],
        }
    )
    assert without_passages(results).values.tolist() == [["a", "x", 1], ["b", "y", 2]]
    turns = results[["qid", "score"]][1:]
    assert without_passages(turns) is turns
    with pytest.raises(DataError, match="turn a has several rows"):
        without_passages(results[["qid", "score"]])


def test_turns_of_results_keep_all_that_is_of_the_turn():
    found = pd.DataFrame(
        {"qid": ["a", "a", "b"], "query": ["x"] * 3, "qrewrite": list("yyz"), "docno": list("123")}
    ).assign(score=1.0)
    assert without_passages(found).to_dict("list") == {
        "qid": ["a", "b"],
        "query": ["x", "x"],
        "qrewrite": ["y", "z"],
    }


def test_ids_are_texts():
    frame = pd.DataFrame({"qid": pd.Categorical(["a", "b"]), "docno": ["x", "y"]})
    checked = with_text_ids("run", frame)
    assert str(checked["qid"].dtype) == "object"
    assert checked.values.tolist() == [["a", "x"], ["b", "y"]]
    assert with_text_ids("run", frame.assign(docno=[1, 2]), ["qid"])["docno"].tolist() == [1, 2]
    for wrong in (5, None, 1.5):
        with pytest.raises(DataError, match=r'run: the docno .* with frame\["docno"\].astype\(str'):
            with_text_ids("run", frame.assign(docno=["x", wrong]))
    with pytest.raises(DataError, match="run: the qid b'a' is not a text"):
        with_text_ids("run", frame.assign(qid=[b"a", "b"]))
    assert well_formed("a\ud800b") == "a\ufffdb"
    assert well_formed("é") == "é"


def test_ids_are_texts_also_where_they_are_categories():
    frame = pd.DataFrame({"qid": pd.Categorical(["a", "b"]), "docno": ["1", "2"]})
    assert with_text_ids("it", frame)["qid"].tolist() == ["a", "b"]
    for name in ("qid", "docno"):
        for wrong in ([1, 2], ["a", None]):
            with pytest.raises(DataError, match=f"the {name} "):
                with_text_ids("it", frame.assign(**{name: wrong}))


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


def test_turns_without_a_passage_are_told_in_their_order():
    frame = pd.DataFrame({"qid": ["b", "a", "c"]})
    with pytest.warns(NoResultWarning, match=r"^2 of 3 turns found no passage: b, c; counted 0"):
        report_turns_without_result(frame, [0, 3, 0])
    exploded = pd.DataFrame({"qid": ["a::0", "a::1", "b::0"], "qid_0": ["a", "a", "b"]})
    with pytest.warns(NoResultWarning, match=r"^1 of 2 turns found no passage: b;"):
        report_turns_without_result(exploded, [0, 1, 0])
    report_turns_without_result(frame, [1, 1, 1])
    with without_result_warnings():
        report_turns_without_result(frame, [0, 0, 0])
    with pytest.warns(NoResultWarning):
        report_turns_without_result(frame, [0, 0, 0])


def test_a_warning_of_turns_is_back_after_an_error():
    with pytest.raises(KeyError), without_result_warnings():
        raise KeyError
    turns = pd.DataFrame({"qid": ["a", "a", "b"]})
    assert told(turns, [0, 0, 1]) == ["1 of 2 turns found no passage: a; counted 0 in evaluation"]


def test_numbers_of_an_array_become_numbers_of_python():
    frame = pd.DataFrame({"q": [np.array([1, 2])]}, dtype=object)
    assert [type(number) for number in values(frame, "q")[0]] == [int, int]


def test_a_column_that_is_there_twice_is_refused():
    twice = pd.DataFrame([["a", "1", "2"]], columns=["qid", "docno", "docno"])
    with pytest.raises(DataError, match="^it has several columns 'docno': keep one"):
        with_text_ids("it", twice)


def test_frames_keep_lists_and_their_index():
    frame = frame_of_rows(["a", "b"], iter([([1], 2), ([3, 4], 5)]))
    assert frame.to_dict("list") == {"a": [[1], [3, 4]], "b": [2, 5]}
    assert set(frame.dtypes) == {np.dtype(object)}
    assert frame_of_rows(["a"], []).columns.tolist() == ["a"]
    moved = frame.set_axis([7, 3])
    added = with_columns(moved, c=[[1, 2], {}], a="xy")
    assert added.loc[3].tolist() == ["y", 5, {}]
    assert moved["a"].tolist() == [[1], [3, 4]]
    assert column([[1], [2]], moved.index)[3] == [2]
    asked = pd.DataFrame({"qid": ["a"], "query": ["x"], "query_0": ["y"], "query_2": ["z"]})
    assert with_query(asked, ["w"], qrewrite=["v"]).to_dict("list") == {
        "qid": ["a"],
        "query_0": ["x"],
        "query_1": ["y"],
        "query_2": ["z"],
        "qrewrite": ["v"],
        "query": ["w"],
    }
