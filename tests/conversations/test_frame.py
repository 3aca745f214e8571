import numpy as np
import pandas as pd
import pytest

from pyterrier_ikat.conversations import conversation
from pyterrier_ikat.conversations.frame import column, personas, values, with_query
from pyterrier_ikat.errors import UsageError

CHAT = [
    {"role": "user", "content": "Which tea?"},
    {"role": "assistant", "content": "Rooibos."},
    {"role": "user", "content": "And for sleep?"},
]


def test_a_chat_becomes_one_turn():
    row = conversation(CHAT, ["I avoid caffeine.", "I like mint."], number="mine").to_dict("records")
    assert row == [
        {
            "qid": "mine_2",
            "query": "And for sleep?",
            "qutterance": "And for sleep?",
            "qhistory": CHAT[:2],
            "qptkb": {"1": "I avoid caffeine.", "2": "I like mint."},
            "qconversation": "mine",
            "qturn": 2,
        }
    ]


def test_every_turn_of_a_chat_is_a_row():
    frame = conversation([*CHAT, {"role": "assistant", "content": "Chamomile."}], ["I avoid caffeine."], every_turn=True)
    assert frame["qid"].tolist() == ["chat_1", "chat_2"]
    assert frame["query"].tolist() == frame["qutterance"].tolist() == ["Which tea?", "And for sleep?"]
    assert frame["qhistory"].tolist() == [[], CHAT[:2]]
    assert frame["qptkb"].tolist() == [{"1": "I avoid caffeine."}] * 2
    assert frame["qturn"].tolist() == [1, 2]
    assert frame.tail(1).to_dict("list") == conversation(CHAT, ["I avoid caffeine."]).to_dict("list")
    with pytest.raises(UsageError, match="ends with a message of the user"):
        conversation(CHAT[1:2], every_turn=True)


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
    with pytest.raises(UsageError, match=part):
        conversation(messages)


def test_a_new_query_pushes_the_old_one_and_drops_what_came_from_it():
    frame = pd.DataFrame({"qid": ["1"], "query": ["old"], "query_0": ["older"], "query_toks": [{"old": 1}], "query_vec": [0]}, index=[3])
    new = with_query(frame, ["new"])
    assert new.to_dict("records") == [{"qid": "1", "query": "new", "query_0": "old", "query_1": "older"}]
    assert new.index.tolist() == [3]
    assert frame["query"].tolist() == ["old"]


def test_turns_that_were_in_a_parquet_file_are_the_turns_that_were_written():
    turns = pd.concat([conversation(CHAT, {"1": "I'm vegan."}, number="a"), conversation(CHAT[:1], {"2": "I like tea."}, number="b")])
    # A parquet file has one struct for all dicts of a column, and gives lists back as arrays.
    read = turns.assign(
        qptkb=column([{"1": "I'm vegan.", "2": None}, {"1": None, "2": "I like tea."}], turns.index),
        qhistory=column((np.array(history, dtype=object) for history in turns["qhistory"]), turns.index),
    )
    assert values(read, "qhistory") == values(turns, "qhistory")
    assert personas(read) == personas(turns) == [{"1": "I'm vegan."}, {"2": "I like tea."}]
