import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.conversations.topics import Conversation, TopicTurn, answers_frame, provenance_qrels, ptkb_qrels, topics_frame

PTKB = {"1": "I avoid caffeine.", "2": "I like mint."}
TEA = Conversation(
    "9-1",
    "Tea",
    PTKB,
    (
        TopicTurn(1, "Which tea?", "Rooibos.", "Which tea has no caffeine?", ("2", "1"), ("d1:0", "d2:3")),
        TopicTurn(2, "And for sleep?", "Chamomile.", "", (), ()),
        TopicTurn(3, "Thanks", "Welcome.", "Thank you", (), ("d1:0",)),
    ),
)
BUS = Conversation("9-2", "Bus", {}, (TopicTurn(1, "When?", "At nine."),))

AUTOMATIC = ["qid", "query", "qutterance", "qhistory", "qptkb", "qconversation", "qturn"]


def user(text):
    return {"role": "user", "content": text}


def system(text):
    return {"role": "assistant", "content": text}


def test_one_row_a_turn_with_the_history_before_it():
    frame = topics_frame([TEA, BUS])
    assert list(frame) == AUTOMATIC
    assert frame["qid"].tolist() == ["9-1_1", "9-1_2", "9-1_3", "9-2_1"]
    assert frame["query"].tolist() == frame["qutterance"].tolist() == ["Which tea?", "And for sleep?", "Thanks", "When?"]
    assert frame["qconversation"].tolist() == ["9-1", "9-1", "9-1", "9-2"]
    assert frame["qturn"].tolist() == [1, 2, 3, 1]
    first, second = [user("Which tea?"), system("Rooibos.")], [user("And for sleep?"), system("Chamomile.")]
    assert frame["qhistory"].tolist() == [[], first, first + second, []]
    assert frame["qptkb"].tolist() == [PTKB, PTKB, PTKB, {}]


def test_the_manual_frame_falls_back_to_the_utterance():
    frame = topics_frame([TEA], manual=True)
    assert list(frame) == [*AUTOMATIC, "qresolved", "qgoldptkb"]
    assert frame["qresolved"].tolist() == ["Which tea has no caffeine?", "And for sleep?", "Thank you"]
    assert frame["qgoldptkb"].tolist() == [["2", "1"], [], []]
    assert frame["query"].tolist() == ["Which tea?", "And for sleep?", "Thanks"]


lengths = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(lengths)
def test_a_row_knows_nothing_of_its_own_answer_or_later(sizes):
    def turn(c, t):
        return TopicTurn(t, f"u {c} {t}.", f"a {c} {t}.", f"r {c} {t}.", ("1",), (f"p{c}-{t}:0",))

    chats = [Conversation(str(c), f"title {c}", {"1": "s"}, tuple(turn(c, t) for t in range(1, size + 1))) for c, size in enumerate(sizes)]
    frame = topics_frame(chats)
    for row in frame.to_dict("records"):
        c, t = row["qconversation"], row["qturn"]
        seen = json.dumps(row)
        assert [m["content"] for m in row["qhistory"]] == [f"{who} {c} {i}." for i in range(1, t) for who in "ua"]
        assert f"a {c} {t}." not in seen
        assert f"r {c} " not in seen
        assert "title" not in seen
        assert f"p{c}-" not in seen


@pytest.mark.parametrize(
    ("year", "conversations", "turns", "ptkb", "unproved"),
    [(2023, 25, 332, 10.5, 52), (2024, 17, 218, 16.9, 27), (2025, 17, 188, 19.8, 31)],
)
def test_the_released_files_have_the_published_sizes(ikat_data, year, conversations, turns, ptkb, unproved):
    chats = read_topics(ikat_data / f"{year}_test_topics.json")
    assert (len(chats), len(topics_frame(chats))) == (conversations, turns)
    assert round(sum(len(chat.ptkb) for chat in chats) / len(chats), 1) == ptkb
    assert sum(not turn.passages for chat in chats for turn in chat.turns) == unproved
    assert topics_frame(chats)["qid"].is_unique


def test_gold_statements_of_2025_are_mapped_to_their_position(ikat_data):
    chats = read_topics(ikat_data / "2025_test_topics.json")
    raw = json.loads((ikat_data / "2025_test_topics.json").read_text(encoding="utf-8"))
    for chat, item in zip(chats, raw, strict=True):
        for turn, entry in zip(chat.turns, item["responses"], strict=True):
            assert [item["ptkb"][int(name) - 1] for name in turn.statements] == entry["relevant_ptkbs"]


def test_answers_provenance_and_statements():
    assert answers_frame([TEA]).values.tolist() == [["9-1_1", "Rooibos."], ["9-1_2", "Chamomile."], ["9-1_3", "Welcome."]]
    assert provenance_qrels([TEA]).values.tolist() == [["9-1_1", "d1:0", 1], ["9-1_1", "d2:3", 1], ["9-1_3", "d1:0", 1]]
    labels = ptkb_qrels([TEA, BUS])
    assert labels["label"].tolist() == [1, 1, 0, 0, 0, 0]
    assert labels["docno"].tolist() == ["1", "2"] * 3
    assert labels["label"].dtype == provenance_qrels([TEA])["label"].dtype == "int64"


def test_no_conversation_gives_the_same_columns():
    assert list(topics_frame([])) == AUTOMATIC
    assert list(provenance_qrels([])) == list(ptkb_qrels([])) == ["qid", "docno", "label"]
    assert list(answers_frame([])) == ["qid", "gold_answer"]


def test_the_one_empty_rewrite_of_2023_falls_back_to_the_utterance(ikat_data):
    frame = topics_frame(read_topics(ikat_data / "2023_test_topics.json"), manual=True).set_index("qid")
    assert frame["qresolved"]["12-1_12"] == frame["qutterance"]["12-1_12"]
    assert frame["qresolved"].str.strip().ne("").all()


@pytest.mark.parametrize(
    ("year", "repeated"), [(2023, ["12-1_10", "15-2_3", "21-1_4"]), (2024, ["2_11", "5_1"]), (2025, ["2-1_12", "3-1_8"])]
)
def test_repeated_provenance_counts_once_in_its_first_place(ikat_data, year, repeated):
    chats = read_topics(ikat_data / f"{year}_test_topics.json")
    raw = json.loads((ikat_data / f"{year}_test_topics.json").read_text(encoding="utf-8"))
    fields = ("turns", "response_provenance") if year < 2025 else ("responses", "citations")
    listed = {f"{chat['number']}_{turn['turn_id']}": turn[fields[1]] for chat in raw for turn in chat[fields[0]]}
    got = {qid: group["docno"].tolist() for qid, group in provenance_qrels(chats).groupby("qid")}
    assert [qid for qid, ids in listed.items() if len(set(ids)) < len(ids)] == repeated
    assert got == {qid: sorted(set(ids), key=ids.index) for qid, ids in listed.items() if ids}
