"""Turns and judgements as frames: of conversations, of lines, of the released files."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import CHAT, said

from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.conversations.frame import (
    column,
    conversation,
    personas,
    values,
)
from pyterrier_ikat.conversations.qrels import (
    read_qrels,
)
from pyterrier_ikat.conversations.topics import (
    Conversation,
    TopicTurn,
    answers_frame,
    provenance_qrels,
    ptkb_qrels,
    topics_frame,
    with_automatic,
)
from pyterrier_ikat.errors import DataError

PTKB = {"1": "I avoid caffeine.", "2": "I like mint."}
TEA = Conversation(
    "9-1",
    "Tea",
    PTKB,
    (
        TopicTurn(
            1, "Which tea?", "Rooibos.", "Which tea has no caffeine?", ("2", "1"), ("d1:0", "d2:3")
        ),
        TopicTurn(2, "And for sleep?", "Chamomile.", "", (), ()),
        TopicTurn(3, "Thanks", "Welcome.", "Thank you", (), ("d1:0",)),
    ),
)
BUS = Conversation("9-2", "Bus", {}, (TopicTurn(1, "When?", "At nine."),))
AUTOMATIC = ["qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn"]


def test_one_row_a_turn_with_the_history_before_it():
    frame = topics_frame([TEA, BUS])
    assert list(frame) == AUTOMATIC
    assert frame["qid"].tolist() == ["9-1_1", "9-1_2", "9-1_3", "9-2_1"]
    assert (
        frame["query"].tolist()
        == frame["qutterance"].tolist()
        == ["Which tea?", "And for sleep?", "Thanks", "When?"]
    )
    assert frame[["qconversation", "qturn"]].values.tolist() == [
        ["9-1", 1],
        ["9-1", 2],
        ["9-1", 3],
        ["9-2", 1],
    ]
    assert frame["qhistory"].tolist() == [[], CHAT[:2], [*CHAT, *said("", "Chamomile.")[1:]], []]
    assert frame["qptkb"].tolist() == [PTKB, PTKB, PTKB, {}]
    assert list(topics_frame([])) == AUTOMATIC


def test_gold_has_its_own_frames_and_empty_rewrites_fall_back():
    frame = topics_frame([TEA], manual=True)
    assert list(frame) == [*AUTOMATIC, "qresolved", "qgoldptkb"]
    assert frame["qresolved"].tolist() == [
        "Which tea has no caffeine?",
        "And for sleep?",
        "Thank you",
    ]
    assert frame["qgoldptkb"].tolist() == [["2", "1"], [], []]
    assert frame["query"].tolist() == ["Which tea?", "And for sleep?", "Thanks"]
    assert answers_frame([TEA]).values.tolist() == [
        ["9-1_1", "Rooibos."],
        ["9-1_2", "Chamomile."],
        ["9-1_3", "Welcome."],
    ]
    assert provenance_qrels([TEA]).values.tolist() == [
        ["9-1_1", "d1:0", 1],
        ["9-1_1", "d2:3", 1],
        ["9-1_3", "d1:0", 1],
    ]
    labels = ptkb_qrels([TEA, BUS])
    assert labels[["docno", "label"]].values.tolist() == [
        ["1", 1],
        ["2", 1],
        *[["1", 0], ["2", 0]] * 2,
    ]
    assert labels["label"].dtype == provenance_qrels([TEA])["label"].dtype == "int64"
    assert list(provenance_qrels([])) == list(ptkb_qrels([])) == ["qid", "docno", "label"]
    assert list(answers_frame([])) == ["qid", "gold_answer"]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_row_knows_nothing_of_its_own_answer_or_later(sizes):
    def turn(c, t):
        return TopicTurn(t, f"u {c} {t}.", f"a {c} {t}.", f"r {c} {t}.", ("1",), (f"p{c}-{t}:0",))

    chats = []
    for c, size in enumerate(sizes):
        turns = tuple(turn(c, t) for t in range(1, size + 1))
        chats.append(Conversation(str(c), f"title {c}", {"1": "s"}, turns))
    for row in topics_frame(chats).to_dict("records"):
        c = row["qconversation"]
        t = row["qturn"]
        said_before = []
        for earlier in range(1, t):
            said_before += [f"u {c} {earlier}.", f"a {c} {earlier}."]
        assert [message["content"] for message in row["qhistory"]] == said_before
        shown = json.dumps(row)
        for secret in (f"a {c} {t}.", f"r {c} ", "title", f"p{c}-"):
            assert secret not in shown


def test_turns_read_from_a_parquet_file_are_those_written():
    turns = pd.concat(
        [
            conversation(CHAT, {"1": "I'm vegan."}, number="a"),
            conversation(CHAT[:1], {"2": "I like tea."}, number="b"),
        ]
    )
    # A parquet file has one struct for all dicts of a column, and gives lists back as arrays.
    read = turns.assign(
        qptkb=column(
            [{"1": "I'm vegan.", "2": None}, {"1": None, "2": "I like tea."}], turns.index
        ),
        qhistory=column(
            (np.array(history, dtype=object) for history in turns["qhistory"]), turns.index
        ),
    )
    assert values(read, "qhistory") == values(turns, "qhistory")
    assert personas(read) == personas(turns) == [{"1": "I'm vegan."}, {"2": "I like tea."}]


# Judgements


def test_lines_become_rows_in_order(write):
    frame = read_qrels(write("9-1_3 0 d2:0 4\n\n9-1_3\t0\td1:7 -1\r\n10-1_1 0 d2:0 0"))
    assert frame.values.tolist() == [
        ["9-1_3", "d2:0", 4],
        ["9-1_3", "d1:7", -1],
        ["10-1_1", "d2:0", 0],
    ]
    assert frame.dtypes.astype(str).to_dict() == {
        "qid": "object",
        "docno": "object",
        "label": "int64",
    }


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("1_1 0 d1 1\n1_1 0 d2", "line 2: '1_1 0 d2' is not a judgement"),
        ("1_1 0 d1 high", "line 1"),
        ("1_1 0 d1 1.5", "whole number"),
        (
            "1_1 0 d1 12345678901234567890",
            "line 1: .* is not a judgement: .*, with a whole number of at most 4 digits as label",
        ),
        ("1_1 0 d1 99999", "at most 4 digits"),
        ("1_1 0 d1 1_0", "at most 4 digits"),
        ("1_1 0 d1 １", "at most 4 digits"),
        ("1_1 0 d1 1 x", "line 1"),
        ("1_1 0 d1 1\n1_1 0 d2 0\n1_1 0 d1 0", "line 3: 1_1 and d1 were judged before: keep one"),
        ("\n", "no judgement in it"),
    ],
)
def test_a_bad_line_is_named(write, text, part):
    path = write(text)
    with pytest.raises(DataError, match=part) as caught:
        read_qrels(path)
    assert str(caught.value).startswith(str(path))


# The released files

RELEASED = {
    2023: (25, 332, 10.5, 52, ["12-1_10", "15-2_3", "21-1_4"]),
    2024: (17, 218, 16.9, 27, ["2_11", "5_1"]),
    2025: (17, 188, 19.8, 31, ["2-1_12", "3-1_8"]),
}
"""Year -> conversations, turns, statements of a persona on average, turns without provenance,
turns that list a passage twice."""


@pytest.mark.parametrize("year", RELEASED)
def test_released_files_have_published_sizes_and_unique_sources(ikat_data, year):
    conversations, turns, ptkb, unproved, repeated = RELEASED[year]
    path = ikat_data / f"{year}_test_topics.json"
    chats = read_topics(path)
    raw = json.loads(path.read_text(encoding="utf-8"))
    frame = topics_frame(chats, manual=True)
    assert (len(chats), len(frame), frame["qid"].is_unique) == (conversations, turns, True)
    assert round(sum(len(chat.ptkb) for chat in chats) / len(chats), 1) == ptkb
    turns_without_source = 0
    for chat in chats:
        turns_without_source += sum(not turn.passages for turn in chat.turns)
    assert turns_without_source == unproved
    assert frame["qresolved"].str.strip().ne("").all()
    fields = ("turns", "response_provenance") if year < 2025 else ("responses", "citations")
    listed = {}
    for chat in raw:
        for turn in chat[fields[0]]:
            listed[f"{chat['number']}_{turn['turn_id']}"] = turn[fields[1]]
    docnos = provenance_qrels(chats).groupby("qid")["docno"].agg(list).to_dict()
    twice = []
    for qid, ids in listed.items():
        once = list(dict.fromkeys(ids))
        assert docnos.get(qid, []) == once
        if len(once) < len(ids):
            twice.append(qid)
    assert twice == repeated
    assert docnos.keys() <= listed.keys()
    if year == 2023:  # its one empty rewrite
        assert (
            frame.loc[frame["qid"] == "12-1_12", "qresolved"].tolist()
            == frame.loc[frame["qid"] == "12-1_12", "qutterance"].tolist()
        )
    if year == 2025:  # which has statements as texts
        for chat, item in zip(chats, raw, strict=True):
            for turn, entry in zip(chat.turns, item["responses"], strict=True):
                named = [item["ptkb"][int(name) - 1] for name in turn.statements]
                assert named == entry["relevant_ptkbs"]


def test_ptkb_qrels_judge_the_whole_ptkb_of_every_listed_turn(ikat_data):
    chats = read_topics(ikat_data / "2023_test_topics.json")
    sizes = {chat.number: len(chat.ptkb) for chat in chats}
    nist = read_qrels(ikat_data / "ptkb_rel_nist")
    organisers = read_qrels(ikat_data / "ptkb_rel_org")
    for frame, turns, relevant in ((nist, 98, 224), (organisers, 112, 182)):
        assert (frame["qid"].nunique(), frame["label"].sum()) == (turns, relevant)
        for qid, statements in frame.groupby("qid"):
            assert len(statements) == sizes[qid.split("_")[0]]
    own = ptkb_qrels(chats)
    own = own[own.groupby("qid")["label"].transform("max") == 1]
    keys = ["qid", "docno"]
    pd.testing.assert_frame_equal(
        own.sort_values(keys, ignore_index=True), organisers.sort_values(keys, ignore_index=True)
    )


TWO_TURNS = Conversation(
    "9-1",
    ptkb={"1": "I am vegan.", "2": "I smoke."},
    turns=(
        TopicTurn(1, "Tea?", "Mint.", "Which tea?", ("2",), ("d1", "d2"), automatic="What tea?"),
        TopicTurn(2, "Why?", "", answerability="partial"),
        TopicTurn(3, "Sure?", "Yes.", history=(), qid="other"),
    ),
)


def test_a_history_has_rewrites_only_where_they_are_asked_for():
    tea = {"role": "user", "content": "Tea?"}
    why = {"role": "user", "content": "Why?"}
    mint = {"role": "assistant", "content": "Mint."}
    assert TWO_TURNS.histories() == [[], [tea, mint], []]
    clear = {"role": "user", "content": "Which tea?"}
    assert TWO_TURNS.histories(resolved=True) == [[], [clear, mint], []]
    longer = replace(TWO_TURNS, turns=(*TWO_TURNS.turns[:2], TopicTurn(3, "So?", "")))
    assert longer.histories(resolved=True)[2] == [clear, mint, why]


def test_automatic_queries_without_a_rewrite_are_the_utterances():
    frame = topics_frame([TWO_TURNS])
    automatic = with_automatic(frame[::-1].reset_index(drop=True), [TWO_TURNS])
    assert automatic[["qid", "query", "qrewrite", "query_0"]].values.tolist() == [
        ["other", "Sure?", "Sure?", "Sure?"],
        ["9-1_2", "Why?", "Why?", "Why?"],
        ["9-1_1", "What tea?", "What tea?", "Tea?"],
    ]


def test_a_gold_label_of_any_turn_makes_a_column():
    answers = answers_frame([TWO_TURNS])
    assert answers.values.tolist() == [
        ["9-1_1", "Mint.", ""],
        ["9-1_2", "", "partial"],
        ["other", "Yes.", ""],
    ]
    unlabelled = replace(TWO_TURNS, turns=TWO_TURNS.turns[:1])
    assert list(answers_frame([unlabelled])) == ["qid", "gold_answer"]


def test_gold_fields_are_judgements_of_their_own_turns():
    assert provenance_qrels([TWO_TURNS]).values.tolist() == [["9-1_1", "d1", 1], ["9-1_1", "d2", 1]]
    assert ptkb_qrels([TWO_TURNS]).values.tolist() == [
        ["9-1_1", "1", 0],
        ["9-1_1", "2", 1],
        ["9-1_2", "1", 0],
        ["9-1_2", "2", 0],
        ["other", "1", 0],
        ["other", "2", 0],
    ]


def test_a_manual_frame_without_a_rewrite_has_the_utterance():
    manual = topics_frame([TWO_TURNS], manual=True)
    assert manual["qresolved"].tolist() == ["Which tea?", "Why?", "Sure?"]
    assert manual["qgoldptkb"].tolist() == [["2"], [], []]
    assert manual["qturn"].tolist() == [1, 2, 3]
    assert not {"qresolved", "qgoldptkb"} & set(topics_frame([TWO_TURNS]))


def test_a_blank_rewrite_is_none_in_a_history():
    turns = (TopicTurn(1, "Tea?", "", resolved=" \n"), TopicTurn(2, "Rye?", "", resolved="Which?"))
    histories = Conversation("1", turns=(*turns, TopicTurn(3, "So?", ""))).histories(resolved=True)
    assert [message["content"] for message in histories[2]] == ["Tea?", "Which?"]


FIRST_TURN = TopicTurn(1, "Tea?", "Mint.", "Which tea?", ("2",), ("d2", "d1"), automatic="Tea now?")
SECOND_TURN = TopicTurn(2, "And now?", "", " ", qid="own", answerability="partial")
LAST_TURN = TopicTurn(3, "Bye?", "Bye.", history=({"role": "user", "content": "Hi"},))
CHATS = [
    Conversation("9", "T", {"1": "a", "2": "b"}, (FIRST_TURN, SECOND_TURN, LAST_TURN)),
    Conversation("8"),
]


def test_the_frames_of_conversations_have_their_fields():
    frame = topics_frame(CHATS, manual=True)
    past = [{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Mint."}]
    assert frame.to_dict("list") == {
        "qid": ["9_1", "own", "9_3"],
        "query": ["Tea?", "And now?", "Bye?"],
        "qutterance": ["Tea?", "And now?", "Bye?"],
        "qhistory": [[], past, [{"role": "user", "content": "Hi"}]],
        "qptkb": [{"1": "a", "2": "b"}] * 3,
        "qconversation": ["9"] * 3,
        "qturn": [1, 2, 3],
        "qresolved": ["Which tea?", "And now?", "Bye?"],
        "qgoldptkb": [["2"], [], []],
    }
    assert topics_frame(CHATS).columns.tolist() == frame.columns.tolist()[:7]
    resolved = CHATS[0].histories(resolved=True)
    assert [message["content"] for message in resolved[1]] == ["Which tea?", "Mint."]
    automatic = with_automatic(topics_frame(CHATS), CHATS)
    assert automatic["query"].tolist() == ["Tea now?", "And now?", "Bye?"]
    assert automatic["qrewrite"].tolist() == automatic["query"].tolist()
    assert automatic["query_0"].tolist() == ["Tea?", "And now?", "Bye?"]
    assert answers_frame(CHATS).to_dict("list") == {
        "qid": ["9_1", "own", "9_3"],
        "gold_answer": ["Mint.", "", "Bye."],
        "gold_answerability": ["", "partial", ""],
    }
    assert answers_frame([Conversation("9", turns=(FIRST_TURN,))]).columns.tolist() == [
        "qid",
        "gold_answer",
    ]
    assert provenance_qrels(CHATS).values.tolist() == [["9_1", "d2", 1], ["9_1", "d1", 1]]
    assert ptkb_qrels(CHATS).values.tolist()[:3] == [
        ["9_1", "1", 0],
        ["9_1", "2", 1],
        ["own", "1", 0],
    ]
    assert len(ptkb_qrels(CHATS)) == 6
