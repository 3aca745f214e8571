import copy
import json

import pytest

from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.conversations.topics import Conversation, TopicTurn
from pyterrier_ikat.errors import DataError

TEA_2023 = {
    "number": "9-1",
    "title": "Tea",
    "ptkb": {"1": "I avoid caffeine.", "2": "I like mint."},
    "turns": [
        {
            "turn_id": 1,
            "utterance": "Which tea?",
            "resolved_utterance": "Which tea has no caffeine?",
            "response": "Rooibos.",
            "ptkb_provenance": [1],
            "response_provenance": ["d1:0", "d2:3", "d1:0"],
        },
        {
            "turn_id": 2,
            "utterance": "And for sleep?",
            "resolved_utterance": "",
            "response": "Chamomile.",
            "ptkb_provenance": [2, 1, 2],
            "response_provenance": [],
        },
    ],
}
EXPECTED = Conversation(
    "9-1",
    "Tea",
    {"1": "I avoid caffeine.", "2": "I like mint."},
    (
        TopicTurn(1, "Which tea?", "Rooibos.", "Which tea has no caffeine?", ("1",), ("d1:0", "d2:3")),
        TopicTurn(2, "And for sleep?", "Chamomile.", "", ("2", "1"), ()),
    ),
)


def in_2024(item):
    return {**item, "number": 9}


def in_2025(item, number="number", statements="relevant_ptkbs"):
    turns = [
        {
            "turn_id": turn["turn_id"],
            "user_utterance": turn["utterance"],
            "resolved_utterance": turn["resolved_utterance"],
            "response": turn["response"],
            statements: [item["ptkb"][str(i)] for i in turn["ptkb_provenance"]],
            "citations": turn["response_provenance"],
        }
        for turn in item["turns"]
    ]
    return {number: item["number"], "title": item["title"], "ptkb": list(item["ptkb"].values()), "responses": turns}


@pytest.mark.parametrize(
    "item", [TEA_2023, in_2025(TEA_2023), in_2025(TEA_2023, "conv_id", "ptkb_provenance")], ids=["2023", "2025", "guide"]
)
def test_every_schema_gives_the_same_conversation(write, item):
    assert read_topics(write([item])) == [EXPECTED]


def test_a_number_becomes_a_string(write):
    chat = read_topics(write([in_2024(TEA_2023)]))[0]
    assert chat.number == "9"
    assert chat.qid(chat.turns[1]) == "9_2"


@pytest.mark.parametrize(("text", "expected"), [("I  avoid\ncaffeine.", "1"), ("i LIKE mint. ", "2"), ("2", "2")])
def test_gold_statements_as_text_are_found_despite_white_space_and_case(write, text, expected):
    item = in_2025(TEA_2023)
    item["responses"][0]["relevant_ptkbs"] = [text]
    assert read_topics(write([item]))[0].turns[0].statements == (expected,)


def test_an_exact_statement_wins_over_one_that_is_only_similar(write):
    item = in_2025(TEA_2023)
    item["ptkb"] = ["I LIKE TEA", "I like tea", "I avoid caffeine.", "I like mint."]
    item["responses"][0]["relevant_ptkbs"] = ["I like tea"]
    assert read_topics(write([item]))[0].turns[0].statements == ("2",)


def test_a_byte_order_mark_and_other_alphabets_are_read(write):
    item = {**TEA_2023, "title": "Thé ☕"}
    assert read_topics(write("\ufeff" + json.dumps([item], ensure_ascii=False)))[0].title == "Thé ☕"


def test_a_file_without_any_manual_field_is_read(write):
    item = {"number": "1", "ptkb": [], "turns": [{"turn_id": 1, "utterance": "Hi", "response": "Hello"}]}
    assert read_topics(write([item])) == [Conversation("1", "", {}, (TopicTurn(1, "Hi", "Hello"),))]


def broken(change):
    item = copy.deepcopy(TEA_2023)
    change(item)
    return [item]


def turn_without(name):
    return broken(lambda item: item["turns"][1].pop(name))


def turn_with(name, value):
    return broken(lambda item: item["turns"][1].update({name: value}))


CASES = {
    "not json": ("[1, 2", ["not a readable JSON file", "cut short"]),
    "object": ({"turns": []}, ["array of conversations", '{"turns": []}']),
    "empty": ([], ["array of conversations"]),
    "text inside": (["x"], ["conversation at position 1", "expected an object"]),
    "no number": (broken(lambda item: item.pop("number")), ["position 1", "number or conv_id is missing", "title"]),
    "spaces in number": (broken(lambda item: item.update(number="9 1")), ["'9 1'", "qid"]),
    "boolean number": (broken(lambda item: item.update(number=True)), ["number is true", "a string or a whole number"]),
    "no turns field": (broken(lambda item: item.pop("turns")), ["conversation 9-1", "turns or responses is missing"]),
    "no turns": (broken(lambda item: item.update(turns=[])), ["conversation 9-1", "no turns"]),
    "no ptkb": (broken(lambda item: item.pop("ptkb")), ["conversation 9-1", "ptkb is missing"]),
    "statement": (broken(lambda item: item.update(ptkb={"1": "a", "2": 3})), ["statement 2", "3"]),
    "turn": (broken(lambda item: item.update(turns=[5])), ["turn at position 1", "expected an object"]),
    "no turn id": (turn_without("turn_id"), ["turn at position 2", "turn_id"]),
    "turn id as text": (turn_with("turn_id", "2"), ["turn_id", "a whole number"]),
    "no utterance": (turn_without("utterance"), ["conversation 9-1, turn 2", "utterance or user_utterance is missing"]),
    "empty utterance": (turn_with("utterance", " "), ["turn 2", "utterance is empty"]),
    "no response": (turn_without("response"), ["turn 2", "response is missing"]),
    "no response text": (turn_with("response", None), ["turn 2", "response is null"]),
    "only some rewrites": (turn_without("resolved_utterance"), ["turn 2", "resolved_utterance is missing"]),
    "only some passages": (turn_without("response_provenance"), ["turn 2", "response_provenance or citations"]),
    "statements not a list": (turn_with("ptkb_provenance", "1"), ["turn 2", "ptkb_provenance", "an array"]),
    "unknown statement": (turn_with("ptkb_provenance", [7]), ["conversation 9-1, turn 2", "gold statement 7", "ptkb"]),
    "unknown words": (turn_with("ptkb_provenance", ["I fly."]), ["turn 2", "'I fly.'"]),
    "passage": (turn_with("response_provenance", [3]), ["turn 2", "gold passage 3"]),
    "repeated turn": (turn_with("turn_id", 1), ["conversation 9-1", "turn 1 follows turn 1"]),
    "repeated conversation": ([TEA_2023, TEA_2023], ["conversation 9-1", "occurs twice"]),
    "repeated conversation, other type": ([in_2024(TEA_2023), {**TEA_2023, "number": "9"}], ["conversation 9", "twice"]),
    "repeated key": ('[{"number": "1", "number": "2"}]', ["'number' occurs twice"]),
}


@pytest.mark.parametrize(("content", "parts"), CASES.values(), ids=CASES)
def test_a_bad_file_is_named_with_place_and_repair(write, content, parts):
    path = write(content)
    with pytest.raises(DataError) as caught:
        read_topics(path)
    message = str(caught.value)
    assert message.startswith(f"{path}")
    assert ";" in message
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


def test_a_missing_file_a_folder_and_other_encodings_are_named(tmp_path):
    (tmp_path / "latin.json").write_bytes('["é"]'.encode("latin-1"))
    for path, part in [(tmp_path / "none.json", "no such file"), (tmp_path, "not a readable"), (tmp_path / "latin.json", "not a readable")]:
        with pytest.raises(DataError, match=part):
            read_topics(path)


def test_half_a_real_file_is_refused(ikat_data, write):
    text = (ikat_data / "2024_test_topics.json").read_text(encoding="utf-8")
    with pytest.raises(DataError, match="cut short"):
        read_topics(write(text[: len(text) // 2]))
