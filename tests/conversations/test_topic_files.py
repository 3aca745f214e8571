"""Files of turns: iKAT's three schemas, CAsT's lines and trees, own lines; faults by place."""

import copy
import json

import pytest
from small_files import lines, numbers_of, said

from pyterrier_ikat.conversations.topic_files import read_topics
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


def test_turns_in_a_line_have_the_earlier_ones_as_history(write):
    (chat,) = read_topics(write(LINE))
    assert chat.histories() == [[], said("Which tea has no caffeine?", "Rooibos has none.")]
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
        said("Make soap?", "Use lye."),
        said("Make soap?", "Use lye.", "And lotion?", "Which lotion?"),
        said("Make soap?", "Use lye."),
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
    assert chat.histories() == [[], said("Soap?"), said("Soap?", "Use oil.")]
    assert [(chat.qid(turn), turn.response, turn.passages) for turn in chat.turns] == [
        ("133_1", "Use oil.", ()),
        ("133_2", "", ()),
        ("133_4", "Mint.", ()),
    ]


def test_a_tree_that_is_a_circle_comes_to_an_end(write):
    turns = [user("1", "Soap?", "2"), system("2", "Use lye.", "1")]
    (chat,) = read_topics(write([{"number": 133, "turn": turns}]))
    assert [turn.utterance for turn in chat.turns] == ["Soap?"]


# Own lines and turns of CAsT

ASK = {"role": "user", "content": "Which tea?"}
SAY = {"role": "assistant", "content": "Mint."}
MORE = {"role": "user", "content": "And now?"}


def line(qid, messages=(ASK,), **more):
    return {"qid": qid, "messages": list(messages), **more}


def turn(number, text, qid, history=(), **more):
    return TopicTurn(number, text, more.pop("response", ""), qid=qid, history=history, **more)


def test_own_lines_are_turns_of_conversations(write):
    path = write(
        "\n"
        + lines(
            line("a_1", resolved="Which is best?", answer="Mint.", answerability="partial"),
            line("a_7", [ASK, SAY, MORE]),
            line("a_8", ptkb={"2": "I run."}),
            line("a_9", ptkb=["I run."]),
            line(5, [ASK, SAY, MORE]),
            line("a_x", ptkb=[]),
            line("b_c_3"),
        ),
        "turns.jsonl",
    )
    first = turn(
        1, "Which tea?", "a_1", response="Mint.", resolved="Which is best?", answerability="partial"
    )
    assert read_topics(path) == [
        Conversation("a", turns=(first, turn(7, "And now?", "a_7", (ASK, SAY)))),
        Conversation("a", ptkb={"2": "I run."}, turns=(turn(8, "Which tea?", "a_8"),)),
        Conversation("a", ptkb={"1": "I run."}, turns=(turn(9, "Which tea?", "a_9"),)),
        Conversation("5", turns=(turn(2, "And now?", "5", (ASK, SAY)),)),
        Conversation("a_x", turns=(turn(1, "Which tea?", "a_x"),)),
        Conversation("b_c", turns=(turn(3, "Which tea?", "b_c_3"),)),
    ]


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ([], r"an object is expected, found \[\]"),
        (line("a 1"), 'the name "a 1" can\'t be part of a qid'),
        (line(""), 'the name "" can\'t'),
        (line(True), "qid is true, not a text or a whole number"),
        ({"messages": [ASK]}, "qid is missing"),
        ({"qid": "a"}, "messages is missing"),
        (line("a", []), "the last of the messages is not a question"),
        (line("a", [ASK, SAY]), "the last of the messages is not a question"),
        (line("a", [{**ASK, "content": " "}]), "the last of the messages is not a question"),
        (
            line("a", [{**ASK, "role": "bot"}]),
            'message 1: the role is "bot", not user or assistant',
        ),
        (line("a", [ASK, {"role": "user"}]), "message 2: content is missing"),
        ({"qid": "a", "messages": "Tea?"}, 'messages is "Tea\\?", not a list'),
        (line("a", answer=5), "answer is 5, not a text"),
        (line("a", answerability="yes"), 'answerability is "yes": give one of answerable, partial'),
        (line("a", ptkb="I run."), 'ptkb is "I run.", not an object'),
        (line("a", ptkb=[5]), "1 is 5, not a text"),
    ],
)
def test_a_line_that_is_no_turn_is_named_by_its_number(write, item, part):
    path = write(lines(line("first")) + "\n" + lines(item), "turns.jsonl")
    with pytest.raises(DataError, match=f"turns.jsonl, line 3: not of the form.*{part}"):
        read_topics(path)


def test_a_turn_that_occurs_again_is_named(write):
    with pytest.raises(DataError, match=r"line 2: .*a_1 was there before"):
        read_topics(write(lines(line("a_1"), line("a_1")), "turns.jsonl"))


def test_a_turn_that_occurs_again_later_is_named(write):
    with pytest.raises(DataError, match=r"line 3: .*a_1 was there before"):
        read_topics(write(lines(line("a_1"), line("b_1"), line("a_1")), "turns.jsonl"))


def test_fields_that_nothing_reads_are_told_once_each(write):
    items = [line("a_1", note=1), line("a_2", note=1, more=2), line("a_3")]
    with pytest.warns(CollectionWarning) as told:
        read_topics(write(lines(*items), "turns.jsonl"))
    said = [str(warning.message) for warning in told]
    assert len(said) == 2
    assert "line 1, line 2: nothing reads the field 'note'" in said[0]
    assert "line 2: nothing reads the field 'more'" in said[1]


@pytest.mark.parametrize(
    ("content", "name", "part"),
    [
        ("[", "a.json", "a.json: can't be read as JSON"),
        ('{"a": 1}\n[', "a.jsonl", "a.jsonl, line 2: can't be read as JSON"),
        ("{}", "a.json", "no array of conversations"),
        ("5", "a.json", "no array of conversations"),
        ("[]", "a.json", "nothing in it; mend it"),
        ("\n \n", "a.jsonl", "nothing in it; a line is"),
        ('["\\ud800"]', "a.json", "can't be read as JSON"),
    ],
)
def test_a_file_that_is_no_json_is_named(write, content, name, part):
    with pytest.raises(DataError, match=part):
        read_topics(
            write(
                content if name == "a.json" else content.replace('{"a": 1}', lines(line("x"))[:-1]),
                name,
            )
        )


def test_a_file_with_a_byte_order_mark_is_read(write):
    assert read_topics(write("\ufeff" + lines(line("a")), "turns.jsonl"))[0].number == "a"
    with pytest.raises(DataError, match="can't be read as JSON"):
        read_topics(write([], "a.json").with_name("other.json"))


def test_numbers_of_turns_are_at_the_end_of_their_ids(write):
    ids = ("a_12", "a_1x", "a_b_3", "a_", "1_1234567890")
    chats = read_topics(write(lines(*map(line, ids)), "turns.jsonl"))
    assert numbers_of(chats) == [
        ("a", 12, "a_12"),
        ("a_1x", 1, "a_1x"),
        ("a_b", 3, "a_b_3"),
        ("a_", 1, "a_"),
        ("1_1234567890", 1, "1_1234567890"),
    ]


def test_a_line_may_have_signs_that_end_a_line_elsewhere(write):
    question = {"role": "user", "content": "a\u2028b\x85c"}
    text = json.dumps({"qid": "a_1", "messages": [question]}, ensure_ascii=False)
    (chat,) = read_topics(write(f"{text}\n", "turns.jsonl"))
    assert chat.turns[0].utterance == "a\u2028b\x85c"


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000], ids=["no UTF-8", "too deep"])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_file_that_no_reader_can_read_is_named(tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"^{tmp_path / name}.*can't be read as JSON .*cut short"):
        read_topics(tmp_path / name)


def cast_turn(number, **more):
    return {"number": number, "raw_utterance": f"u{number}", **more}


def test_cast_turns_have_their_fields_of_all_years(write):
    topic = {
        "number": 81,
        "title": "Tea",
        "turn": [
            cast_turn(1, manual_canonical_result_id="m", automatic_canonical_result_id="a"),
            cast_turn("2", canonical_result_id="c", manual_canonical_result_id="m", passage="P"),
            {
                "number": 7,
                "utterance": "u7",
                "manual_rewritten_utterance": "r7",
                "automatic_rewritten_utterance": "s7",
            },
        ],
    }
    assert read_topics(write([topic])) == [
        Conversation(
            "81",
            "Tea",
            turns=(
                TopicTurn(1, "u1", "", qid="81_1", passages=("m",)),
                TopicTurn(2, "u2", "P", qid="81_2", passages=("c",)),
                TopicTurn(7, "u7", "", "r7", qid="81_7", automatic="s7"),
            ),
        )
    ]


@pytest.mark.parametrize("turns", [[], [cast_turn(1), cast_turn(1)]])
def test_a_cast_topic_has_each_turn_once(write, turns):
    with pytest.raises(DataError, match="topic 81 has no turns, or one of them twice"):
        read_topics(write([{"number": 81, "turn": turns}]))
