"""Files of turns: iKAT's three schemas, CAsT's lines and trees, own lines; faults by place."""

import copy
import json
from itertools import cycle

import pytest

from pyterrier_ikat.conversations import read_topics
from pyterrier_ikat.conversations.topics import CollectionWarning, Conversation, TopicTurn
from pyterrier_ikat.errors import DataError


def turn_2023(number, utterance, resolved, response, statements, passages):
    texts = {"utterance": utterance, "resolved_utterance": resolved, "response": response}
    return {
        "turn_id": number,
        **texts,
        "ptkb_provenance": statements,
        "response_provenance": passages,
    }


PTKB = {"1": "I avoid caffeine.", "2": "I like mint."}
TEA_2023 = {
    "number": "9-1",
    "title": "Tea",
    "ptkb": PTKB,
    "turns": [
        turn_2023(
            1, "Which tea?", "Which tea has no caffeine?", "Rooibos.", [1], ["d1:0", "d2:3", "d1:0"]
        ),
        turn_2023(2, "And for sleep?", "", "Chamomile.", [2, 1, 2], []),
    ],
}
EXPECTED = Conversation(
    "9-1",
    "Tea",
    PTKB,
    (
        TopicTurn(
            1, "Which tea?", "Rooibos.", "Which tea has no caffeine?", ("1",), ("d1:0", "d2:3")
        ),
        TopicTurn(2, "And for sleep?", "Chamomile.", "", ("2", "1"), ()),
    ),
)


def in_2025(item, number="number", statements="relevant_ptkbs"):
    names = {"utterance": "user_utterance", "response_provenance": "citations"}
    turns = []
    for turn in item["turns"]:
        renamed = {names.get(name, name): value for name, value in turn.items()}
        relevant = renamed.pop("ptkb_provenance")
        renamed[statements] = [item["ptkb"][str(number)] for number in relevant]
        turns.append(renamed)
    return {
        number: item["number"],
        "title": item["title"],
        "ptkb": list(item["ptkb"].values()),
        "responses": turns,
    }


@pytest.mark.parametrize(
    "item",
    [TEA_2023, in_2025(TEA_2023), in_2025(TEA_2023, "conv_id", "ptkb_provenance")],
    ids=["2023", "2025", "guide"],
)
def test_every_schema_gives_the_same_conversation(write, item):
    assert read_topics(write([item])) == [EXPECTED]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("I  avoid\ncaffeine.", "1"), ("i LIKE mint. ", "2"), ("2", "2"), ("I like mint.", "2")],
)
def test_gold_statements_as_text_match_despite_space_and_case(write, text, expected):
    item = in_2025(TEA_2023)
    item["ptkb"].append("I LIKE MINT.")  # an exact statement wins over one that is only similar
    item["responses"][0]["relevant_ptkbs"] = [text]
    assert read_topics(write([item]))[0].turns[0].statements == (expected,)


def test_words_of_a_gold_statement_match_in_any_letter_case(write):
    item = in_2025(TEA_2023)
    item["ptkb"] += ["I live in a quiet Straße.", "I like  mint."]
    item["responses"][0]["relevant_ptkbs"] = ["i live in a QUIET STRASSE.", "I LIKE MINT."]
    assert read_topics(write([item]))[0].turns[0].statements == ("3", "2")


def broken(change):
    item = copy.deepcopy(TEA_2023)
    change(item)
    return [item]


def turn_with(name, value):
    return broken(lambda item: item["turns"][1].update({name: value}))


TURN_3 = {**TEA_2023["turns"][0], "turn_id": 3}
CASES = {
    "cut": ("[1, 2", "can't be read as JSON .* if it is cut short"),
    "object": ({"turns": []}, "no array of conversations"),
    "empty": ([], "nothing in it"),
    "text inside": (["x"], 'conversation 1: .*an object is expected, found "x"'),
    "no number": (
        broken(lambda item: item.pop("number")),
        "conversation 1: .*the name null can't be part of a qid",
    ),
    "no turns": (broken(lambda item: item.update(turns=[])), "conversation 9-1 has no turns"),
    "no ptkb": (broken(lambda item: item.pop("ptkb")), "ptkb is null, not an object"),
    "statement": (broken(lambda item: item.update(ptkb={"1": "a", "2": 3})), "2 is 3, not a text"),
    "turn id as text": (turn_with("turn_id", "2"), 'turn 2: turn_id is "2", not a whole number'),
    "no utterance": (
        broken(lambda item: item["turns"][1].pop("utterance")),
        "turn 2: utterance or user_utterance is missing",
    ),
    "no response text": (turn_with("response", None), "turn 2: response is missing"),
    "statements not a list": (
        turn_with("ptkb_provenance", "1"),
        'turn 2: ptkb_provenance or .* is "1", not a list',
    ),
    "unknown statement": (
        turn_with("ptkb_provenance", [7]),
        "turn 2: the ptkb has no gold statement 7: give the id or the exact words",
    ),
    "part of a statement": (
        turn_with("ptkb_provenance", ["I like"]),
        'turn 2: the ptkb has no gold statement "I like"',
    ),
    "passage": (turn_with("response_provenance", ["d 1"]), 'turn 2: the name "d 1"'),
    "response of no text": (turn_with("response", 0), "turn 2: response is 0, not a text"),
    "true": (broken(lambda item: item.update(number=True)), "the name true can't be part"),
    "falling turns": (
        broken(lambda item: item["turns"].reverse()),
        "conversation 9-1 has turns whose ids do not rise",
    ),
    "repeated turn": (turn_with("turn_id", 1), "conversation 9-1 has turns whose ids do not rise"),
    "a second part": (
        [TEA_2023, {**TEA_2023, "turns": [TURN_3]}],
        "conversation 9-1 was there before",
    ),
    "repeated conversation": (
        [TEA_2023, {**TEA_2023, "title": "x"}],
        "conversation 2: .*9-1_1 was there before",
    ),
}


@pytest.mark.parametrize(("content", "part"), CASES.values(), ids=CASES)
def test_a_bad_file_is_named_with_place_and_repair(write, content, part):
    path = write(content)
    with pytest.raises(DataError, match=part) as caught:
        read_topics(path)
    assert str(caught.value).startswith(f"{path}")
    assert ";" in str(caught.value)


def test_an_unknown_field_of_a_line_is_named_with_its_lines(write):
    line = {"messages": [{"role": "user", "content": "Tea?"}], "awnser": "x"}
    first = json.dumps({**line, "qid": "t_1"})
    second = json.dumps({**line, "qid": "t_2"})
    path = write(f"{first}\n{second}\n", "topics.jsonl")
    with pytest.warns(
        CollectionWarning,
        match="line 1, line 2: nothing reads the field 'awnser'; there are qid, messages, ptkb, "
        "resolved",
    ):
        assert [chat.number for chat in read_topics(path)] == ["t"]


def line_turn(number, text, passage, result, **more):
    return {
        "number": number,
        "raw_utterance": text,
        "passage": passage,
        "canonical_result_id": result,
    } | more


FIRST = {"automatic_rewritten_utterance": "Which tea is free of caffeine?"}
SECOND = {"manual_rewritten_utterance": "Where does rooibos grow?"}
LINE_TURNS = [
    line_turn(1, "Which tea has no caffeine?", "Rooibos has none.", "MARCO_D59865", **FIRST),
    line_turn(2, "Where does it grow?", "In South Africa.", "KILT_1845197", **SECOND),
]
LINE = [{"number": 106, "turn": LINE_TURNS}]


def user(number, text, parent=None):
    return {
        "number": number,
        "participant": "User",
        "utterance": text,
        "manual_rewritten_utterance": f"{text}!",
        "parent": parent,
    }


def system(number, text, parent, provenance=()):
    return {
        "number": number,
        "participant": "System",
        "response": text,
        "parent": parent,
        "provenance": list(provenance),
    }


# The system answers turn 1-3 (1-4), or asks back (2-1), which the user answers (2-2); a third way
# leaves after 1-2 (3-1).
TREE_TURNS = [
    user("1-1", "Make soap?"),
    system("1-2", "Use lye.", "1-1", ["MARCO_26_222804180-1"]),
    user("1-3", "And lotion?", "1-2"),
    system("1-4", "Use oil.", "1-3", ["MARCO_50_2268879788 -3", "KILT_78449-18", "KILT_78449-18"]),
    system("2-1", "Which lotion?", "1-3"),
    user("2-2", "A scented one.", "2-1"),
    user("3-1", "Is lye safe?", "1-2"),
]
TREE = [{"number": 133, "turn": TREE_TURNS}]


def messages(*texts):
    chat = []
    for text, role in zip(texts, cycle(["user", "assistant"]), strict=False):
        chat.append({"role": role, "content": text})
    return chat


def test_turns_in_a_line_have_the_earlier_ones_as_history(write):
    (chat,) = read_topics(write(LINE))
    assert chat.histories() == [[], messages("Which tea has no caffeine?", "Rooibos has none.")]
    assert [
        (chat.qid(turn), turn.turn_id, turn.resolved, turn.automatic, turn.passages)
        for turn in chat.turns
    ] == [
        ("106_1", 1, "", "Which tea is free of caffeine?", ("MARCO_D59865",)),
        ("106_2", 2, "Where does rooibos grow?", "", ("KILT_1845197",)),
    ]


def test_a_turn_of_a_tree_has_the_path_above_it_as_its_history(write):
    (chat,) = read_topics(write(TREE))
    assert chat.histories() == [
        [],
        messages("Make soap?", "Use lye."),
        messages("Make soap?", "Use lye.", "And lotion?", "Which lotion?"),
        messages("Make soap?", "Use lye."),
    ]
    assert [
        (chat.qid(turn), turn.turn_id, turn.resolved, turn.response, turn.passages)
        for turn in chat.turns
    ] == [
        ("133_1-1", 1, "Make soap?!", "Use lye.", ("MARCO_26_222804180-1",)),
        ("133_1-3", 2, "And lotion?!", "Use oil.", ("MARCO_50_2268879788-3", "KILT_78449-18")),
        ("133_2-2", 3, "A scented one.!", "", ()),
        ("133_3-1", 2, "Is lye safe?!", "", ()),
    ]


def test_the_flattened_file_of_2022_is_refused_for_the_trees(write):
    flattened = [LINE[0], {**LINE[0], "turn": LINE_TURNS[:1]}]
    with pytest.raises(
        DataError,
        match="conversation 2: .*106_1 was there before.*the file of trees, which has each turn "
        "once",
    ):
        read_topics(write(flattened))


@pytest.mark.parametrize("first", ["I LIKE MINT.", "I like mint. And tea.", "I like mint.  "])
def test_the_exact_statement_is_meant_behind_similar_ones(write, first):
    turn = {"turn_id": 1, "utterance": "Tea?", "response": "Mint."}
    turn["ptkb_provenance"] = ["I like mint."]
    item = {"number": " 7\n", "ptkb": [first, "I like mint."], "turns": [turn]}
    (chat,) = read_topics(write([item]))
    assert (chat.number, chat.turns[0].statements) == ("7", ("2",))


def test_a_field_that_is_null_gives_way_to_the_next_name(write):
    turn = {"turn_id": 1, "utterance": None, "user_utterance": "Tea?", "response": ""}
    (chat,) = read_topics(write([{"number": 7, "ptkb": {}, "turns": [turn]}]))
    assert chat.turns == (TopicTurn(1, "Tea?", ""),)


def test_a_listed_turn_has_its_raw_words_before_edited_ones(write):
    turn = {"number": 1, "raw_utterance": "tea", "utterance": "Tea?"}
    (chat,) = read_topics(write([{"number": 1, "turn": [turn]}]))
    assert chat.turns[0].utterance == "tea"


def test_a_tree_may_have_numbers_and_messages_of_the_user_alone(write):
    turns = [
        user(1, "Soap?"),
        user(2, "Or lotion?", "1"),
        {"number": 3, "participant": "System", "response": "Use oil.", "parent": "1"},
        user(4, "Which?", 3),
        {"number": 5, "participant": "System", "response": "Mint.", "parent": 4}
        | {"provenance": None},
    ]
    (chat,) = read_topics(write([{"number": 133, "turn": turns}]))
    assert chat.histories() == [[], messages("Soap?"), messages("Soap?", "Use oil.")]
    assert [(chat.qid(turn), turn.response, turn.passages) for turn in chat.turns] == [
        ("133_1", "Use oil.", ()),
        ("133_2", "", ()),
        ("133_4", "Mint.", ()),
    ]


def test_a_tree_that_is_a_circle_comes_to_an_end(write):
    turns = [user("1", "Soap?", "2"), system("2", "Use lye.", "1")]
    (chat,) = read_topics(write([{"number": 133, "turn": turns}]))
    assert [turn.utterance for turn in chat.turns] == ["Soap?"]
