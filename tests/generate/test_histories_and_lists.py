"""Histories that operators enhance and lists of queries that they expand: whole results."""

import numpy as np
import pandas as pd
import pytest
from fakes import scripted
from operators import CHAT, a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError

G = ikat.generate
GREETED = [{"role": "assistant", "content": "Ask me."}]
LATER = [
    {"role": "user", "content": "And mint?", "id": 3},
    {"role": "assistant", "content": "Mint has none. " * 20, "id": 4},
    {"role": "user", "content": "Hello?", "id": 5},
]


def with_history(history):
    """A turn after these messages."""
    return a_turn().assign(qhistory=[history])


def test_a_summary_replaces_only_the_text_of_a_message():
    turn = with_history([*LATER[:2], *CHAT[:2]])
    out = G.Summarise(scripted("It has none.")[0])(turn)
    assert out["qhistory"].item() == [LATER[0], {**LATER[1], "content": "It has none."}, *CHAT[:2]]


def test_the_last_response_may_be_the_first_message():
    out = G.Enhance(scripted("Ask about tea.")[0], "response")(with_history(GREETED))
    assert out["qhistory"].item() == [{"role": "assistant", "content": "Ask about tea."}]
    llm, backend = scripted("It has none.")
    out = G.Enhance(llm, "response")(with_history(LATER))
    assert out["qhistory"].item() == [LATER[0], {**LATER[1], "content": "It has none."}, LATER[2]]
    assert "Mint has none." in texts(backend)[0]


def test_a_new_topic_keeps_what_follows_the_last_question():
    llm, _ = scripted("new topic")
    out = G.Enhance(llm, "topic")(with_history([*CHAT[:2], *LATER]))
    assert out["qhistory"].item() == [LATER[2]]


def test_each_turn_without_a_query_is_counted_and_named(caplog):
    llm, _ = scripted('["tea"]', "[]", "[]")
    turns = pd.concat([two_turns(), ikat.conversation(CHAT[2:], number="third")], ignore_index=True)
    out = ikat.Queries(llm)(turns)
    assert out["qsubqueries"].tolist() == [["tea"], [CHAT[0]["content"]], [CHAT[2]["content"]]]
    assert (ledger(llm, "failures"), ledger(llm, "fallbacks")) == (2, 2)
    assert "no query in the completions of 2 turns: other_1, third_1;" in caplog.text


def test_sub_queries_may_be_any_list_but_a_text():
    frame = pd.DataFrame({"qid": ["1", "2"], "query": ["x", "y"]})
    frame["qsubqueries"] = [("a", "b"), np.array(["c", "d"])]
    out = ikat.ExplodeQueries()(frame)
    assert out["query"].tolist() == ["a", "b", "c", "d"]
    assert (out["qsub"].tolist(), out["qsub"].dtype) == ([0, 1, 0, 1], np.int64)
    with pytest.raises(DataError, match="turn 2 has the sub-queries 'cd'"):
        ikat.ExplodeQueries()(frame.assign(qsubqueries=[["a"], "cd"]))
    with pytest.raises(UsageError, match="one row per sub-query already"):
        ikat.ExplodeQueries()(frame.assign(qid_0=frame["qid"]))


@pytest.mark.parametrize(("n", "shown"), [(7, True), (None, False)])
def test_statement_queries_state_their_number(n, shown):
    llm, backend = scripted('["tea"]')
    G.StatementQueries(llm, n)(a_turn(qstatements=[("1", 1.0)]))
    assert ("at most 7 strings" in texts(backend)[0]) is shown


def test_a_response_before_any_question_is_shown_and_kept():
    turns = pd.concat([with_history(GREETED), with_history(LATER)]).assign(qid=["a_1", "b_2"])
    llm, backend = scripted("", "It has none.")
    operator = G.Enhance(llm, "response", on_error="fallback")
    assert operator.fallback(turns) == ["Ask me.", LATER[1]["content"]]
    out = operator(turns)
    assert out["qhistory"].tolist() == [
        GREETED,
        [LATER[0], {**LATER[1], "content": "It has none."}, LATER[2]],
    ]
    first, second = texts(backend)
    assert "Ask me." in first
    assert "Ask me." not in second
