"""Statements about the user that a completion names, and what is kept of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.learned import (
    LONGEST_STATEMENT,
    highest_number,
    merge,
    read_learned,
)

READ = {
    '[{"message": 1, "statement": "a"}]': [{"message": 1, "statement": "a"}],
    '{"message": 1}\n{"x": 1}\n{"statement": "b"}': [{"message": 1}, {"statement": "b"}],
    '{"statements": [{"message": 1}]}': [{"message": 1}],
    "```json\n[]\n```": [],
    '{"statements": []}': [],
    "None": [],
    '[]\n2. Question: [{"message": 1}]': [],
    '[{"message": 1}, {"mess': None,
    '{"message": 1} {"a': [{"message": 1}],
    '[{"x": 1}]': None,
    '{"a": 1}': None,
    "{}": None,
    "[[]]": None,
    "x [1]": None,
    "prose": None,
    "I can't help with that.": None,
    "```json\nnone\n```": [],
    '[{"message": 1}, {mess}]': None,
    '[] {"a": 1}': [],
}


@pytest.mark.parametrize("text", READ)
def test_statements_are_read_from_whole_lists(text):
    assert read_learned(text) == READ[text]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("[]", 0),
        ('{"statements": []}', 0),
        ('[{"message": 1}, {"statement": "x"}, {"other": 1}]', 2),
        ('[{"message": 1}, {"statement": "x', None),
        ('[{"other": 1}]', None),
        ("I learned much.", None),
    ],
)
def test_a_list_of_learned_statements_is_whole_or_none(text, number):
    found = read_learned(text)
    assert (None if found is None else len(found)) == number


KNOWN = {"1": "I live in Lyon.", "2": "I am vegan.", "x": "I own a dog."}
MESSAGES = {1: "I am vegan. I don't eat eggs.", 2: "I moved to Oslo"}
OSLO = {"message": 2, "words": "moved to Oslo", "statement": "I live in Oslo."}
VEGAN = {"message": 1, "words": "I am vegan", "statement": "I am vegan!"}


@pytest.mark.parametrize(
    ("replaces", "replaced", "dropped"),
    [
        ([1], ["1"], []),
        ("1", ["1"], []),
        ([1, "1", 2], ["1", "2"], []),
        (["[1]", "#2"], ["1", "2"], []),
        (["1, 2"], ["1", "2"], []),
        (["x"], ["x"], []),
        (["[x]"], ["x"], []),
        (["none", None, "", 0], [], []),
        ([9, "9"], [], ["no known statement '9'"]),
        (["y" * 30], [], [f"no known statement '{'y' * 20}'"]),
        (None, [], []),
    ],
)
def test_a_new_statement_replaces_those_that_it_names(replaces, replaced, dropped):
    learned = merge([{**OSLO, "replaces": replaces}], KNOWN, MESSAGES)
    left = {name: text for name, text in KNOWN.items() if name not in replaced}
    assert learned.ptkb == {**left, "3": "I live in Oslo."}
    assert learned.statements == [{"id": "3", **OSLO, "replaces": replaced}]
    assert learned.dropped == dropped


def test_the_known_statements_stay_as_they_were():
    known = dict(KNOWN)
    merge([{**OSLO, "replaces": [1]}], known, MESSAGES)
    assert known == KNOWN


@pytest.mark.parametrize(
    ("item", "text", "number", "words"),
    [
        ({"message": "message 2", "words": "MOVED to, oslo", "statement": "I live\n in Oslo."},
         "I live in Oslo.", 2, "MOVED to, oslo"),
        ({"message": 2, "statement": "I moved to Oslo"}, "I moved to Oslo", 2, "I moved to Oslo"),
        ({"message": 2, "words": 5, "statement": "Oslo"}, "Oslo", 2, "Oslo"),
        ({"message": 1, "words": "dont eat", "statement": "No eggs."}, "No eggs.", 1, "dont eat"),
        ({"message": 2, "words": "I", "statement": "x" * 300}, "x" * 300, 2, "I"),
        ({"message": 2, "words": "Oslo\u200b", "statement": "A\ud800."}, "A\ufffd.", 2, "Oslo"),
    ],
)  # fmt: skip
def test_a_statement_counts_with_words_of_its_message(item, text, number, words):
    learned = merge([item], KNOWN, MESSAGES)
    assert learned == (
        {**KNOWN, "3": text},
        [{"id": "3", "statement": text, "message": number, "words": words, "replaces": []}],
        [],
    )


@pytest.mark.parametrize(
    ("changed", "dropped"),
    [
        ({"message": 3}, "no message 3"),
        ({"message": 1}, "no message 1"),
        ({"message": None}, "no message None"),
        ({"words": "Os"}, "no message 2"),
        ({"words": "..."}, "no message 2"),
        ({"statement": ""}, "without a statement"),
        ({"statement": "!?"}, "without a statement"),
        ({"statement": 5}, "without a statement"),
        ({"statement": "Is it Oslo?"}, "a question"),
        ({"statement": "x" * 301}, "301 characters"),
    ],
)
def test_a_statement_without_a_source_is_dropped(changed, dropped):
    learned = merge([{**OSLO, **changed}, OSLO], KNOWN, MESSAGES)
    assert [statement["id"] for statement in learned.statements] == ["3"]
    [told] = learned.dropped
    assert dropped in told


@pytest.mark.parametrize(
    ("replaces", "statements", "ptkb"),
    [
        ([], [], KNOWN),
        ([2], [], KNOWN),
        (
            [1, 2],
            [{"id": "2", **VEGAN, "statement": "I am vegan.", "replaces": ["1"]}],
            {"2": "I am vegan.", "x": "I own a dog."},
        ),
    ],
)
def test_a_repeated_statement_keeps_its_id_and_words(replaces, statements, ptkb):
    assert merge([{**VEGAN, "replaces": replaces}], KNOWN, MESSAGES) == (ptkb, statements, [])


def test_new_ids_follow_the_highest_that_was_ever_given():
    items = [{**OSLO, "statement": text} for text in ("A.", "a", "B.")]
    learned = merge(items, KNOWN, MESSAGES, ["3", "7", "y"])
    assert list(learned.ptkb) == ["1", "2", "x", "8", "9"]
    assert [statement["statement"] for statement in learned.statements] == ["A.", "B."]
    again = {**OSLO, "statement": "C.", "replaces": ["8", 1]}
    learned = merge([*items, again], KNOWN, MESSAGES, ["7"])  # only known ones are replaced
    assert learned.statements[-1]["replaces"] == ["1"]
    assert highest_number(["3", "12", "x", "²"]) == 12
    assert highest_number([]) == 0


def test_a_statement_is_replaced_once_and_found_by_its_number():
    known = {"01": "I live in Lyon.", "2": "I am vegan."}
    items = [{**OSLO, "statement": text, "replaces": [1]} for text in ("A.", "B.")]
    learned = merge(items, known, MESSAGES)
    assert learned.ptkb == {"2": "I am vegan.", "3": "A.", "4": "B."}
    assert [statement["replaces"] for statement in learned.statements] == [["01"], []]


def test_a_message_without_words_is_no_source():
    learned = merge([{"message": 1, "words": "?!", "statement": "A."}], {}, {1: "!"})
    assert (learned.ptkb, len(learned.dropped)) == ({}, 1)


MOVED_IN_MAY = {1: "I moved to Oslo last May.", 2: "My sister lives in Lyon."}


def learned(statement, words="I moved to Oslo", message=1, **more):
    return {"statement": statement, "words": words, "message": message, **more}


@pytest.mark.parametrize(
    ("item", "counts"),
    [
        (learned("I live in Oslo."), True),
        (learned("I live in Oslo.", message="message 1"), True),
        (learned("x" * 300), True),
        (learned("x" * 301), False),
        (learned("Do I live in Oslo?"), False),
        (learned(""), False),
        (learned("I live in Oslo.", message=2), False),
        (learned("I live in Oslo.", message=3), False),
        (learned("I live in Oslo.", message=None), False),
        (learned("I live in Oslo.", words="moved to Os"), False),
        (learned("I moved to Oslo.", words=""), True),  # the statement's own words
        (learned("I live in Oslo.", words=""), False),
    ],
)
def test_a_statement_copies_whole_words_of_its_message(item, counts):
    merged = merge([item], {}, MOVED_IN_MAY)
    assert len(merged.statements) == int(counts)
    assert len(merged.dropped) == int(not counts)


def test_new_ids_follow_the_highest_and_the_taken_ones():
    known = {"2": "I own a dog.", "x": "I like tea."}
    items = [learned("I live in Oslo."), learned("I moved in May.", "last May")]
    assert list(merge(items, known, MOVED_IN_MAY).ptkb) == ["2", "x", "3", "4"]
    assert list(merge(items, known, MOVED_IN_MAY, taken=["9"]).ptkb) == ["2", "x", "10", "11"]
    assert highest_number(["a", "07", "3"]) == 7
    assert highest_number([]) == 0


def test_a_repeat_is_omitted_unless_it_replaces_another_one():
    known = {"1": "I live in Lyon.", "2": "I live in Oslo."}
    assert merge([learned("i live in oslo")], known, MOVED_IN_MAY).statements == []
    merged = merge([learned("I live in Oslo.", replaces=[1, 1, 2, 7])], known, MOVED_IN_MAY)
    assert merged.ptkb == {"2": "I live in Oslo."}
    (one,) = merged.statements
    assert (one["id"], one["replaces"], one["statement"]) == ("2", ["1"], "I live in Oslo.")
    assert merged.dropped == ["no known statement '7'"]


THREE_KNOWN = {"1": "I live in Lyon.", "2": "I am vegan.", "7": "My sister is vegan."}
MOVED_FROM_LYON = {
    1: "I moved from Lyon to Oslo in May.",
    2: "Do vegans eat honey? My sister doesn’t.",
}


def piece(statement, message=1, words="I moved from Lyon to Oslo", replaces=()):
    return {"message": message, "words": words, "statement": statement, "replaces": list(replaces)}


def test_a_contradicted_statement_goes_and_the_new_has_a_new_id():
    merged = merge([piece("I live in Oslo.", replaces=[1])], THREE_KNOWN, MOVED_FROM_LYON)
    assert merged.ptkb == {"2": "I am vegan.", "7": "My sister is vegan.", "8": "I live in Oslo."}
    assert list(merged.ptkb) == ["2", "7", "8"]
    source = {"message": 1, "words": "I moved from Lyon to Oslo"}
    assert merged.statements == [
        {"id": "8", "statement": "I live in Oslo.", **source, "replaces": ["1"]}
    ]
    assert merged.dropped == []
    assert THREE_KNOWN["1"] == "I live in Lyon."


def test_a_repeat_changes_nothing():
    assert merge(
        [piece("i am VEGAN"), piece("I live in Oslo."), piece("I live in Oslo")],
        THREE_KNOWN,
        MOVED_FROM_LYON,
    ).ptkb == {
        **THREE_KNOWN,
        "8": "I live in Oslo.",
    }
    assert merge([piece("I live in Lyon!", replaces=[1])], THREE_KNOWN, MOVED_FROM_LYON) == (
        THREE_KNOWN,
        [],
        [],
    )


def test_a_number_makes_a_statement_another_one():
    assert merge(
        [piece("I am 47 years old.", replaces=[1])], {"1": "I am 46 years old."}, MOVED_FROM_LYON
    ).ptkb == {"2": "I am 47 years old."}


def test_a_statement_that_is_known_still_replaces_another_one():
    merged = merge(
        [piece("I live in Oslo.", replaces=["1"])],
        {"1": "I live in Lyon.", "4": "I live in Oslo."},
        MOVED_FROM_LYON,
    )
    assert merged.ptkb == {"4": "I live in Oslo."}
    assert merged.statements[0]["id"] == "4"


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (piece("I live in Oslo.", message=3), "words are in no message 3"),
        (piece("I live in Oslo.", message=None), "words are in no message None"),
        (piece("I am rich.", words="I won the lottery"), "words are in no message 1"),
        (
            piece("I am rich.", words="I moved from Lyon to"[:-5] + "xx"),
            "words are in no message 1",
        ),
        (piece("I live in Oslo.", message=2), "words are in no message 2"),
        (piece("I live in Oslo.", words="..."), "words are in no message 1"),
        (piece("Do I live in Oslo?"), "a question"),
        (piece("x" * (LONGEST_STATEMENT + 1)), f"{LONGEST_STATEMENT + 1} characters"),
        (piece(" .!"), "without a statement"),
        (piece(["I live in Oslo."]), "without a statement"),
        ({}, "without a statement"),
    ],
)
def test_a_dropped_sourceless_statement_is_named_without_words(wrong, fault):
    merged = merge([wrong], THREE_KNOWN, MOVED_FROM_LYON)
    assert (merged.ptkb, merged.statements, len(merged.dropped)) == (THREE_KNOWN, [], 1)
    assert fault in merged.dropped[0]
    assert "Oslo" not in merged.dropped[0]
    assert "rich" not in merged.dropped[0]
    assert "lottery" not in merged.dropped[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("i MOVED, from Lyon", "user 1"),
        ("“I moved”", "[1]"),
        ("my sister doesn't", 2),
        ("", 1),
        (None, 1),
    ],
)
def test_words_are_found_whatever_their_case_and_quotes(words, message):
    statement = "I moved from Lyon to Oslo in May." if not words else "Something new."
    assert len(merge([piece(statement, message, words)], {}, MOVED_FROM_LYON).statements) == 1


@pytest.mark.parametrize(
    ("label", "gone"),
    [
        (1, "1"),
        ("1", "1"),
        (["[7]"], "7"),
        (["statement 2"], "2"),
        ("none", ""),
        ([], ""),
        (None, ""),
    ],
)
def test_replaced_statements_are_named_in_any_way(label, gone):
    merged = merge([{**piece("I live in Oslo."), "replaces": label}], THREE_KNOWN, MOVED_FROM_LYON)
    assert (set(THREE_KNOWN) - set(merged.ptkb), merged.dropped) == (set(gone), [])


def test_an_unknown_replaced_id_is_counted_and_the_new_one_kept():
    merged = merge([piece("I live in Oslo.", replaces=[1, 9])], THREE_KNOWN, MOVED_FROM_LYON)
    assert merged.statements[0]["replaces"] == ["1"]
    assert merged.dropped == ["no known statement '9'"]


def test_ids_that_are_no_numbers_stay_and_new_ones_begin_at_one():
    assert merge([piece("I live in Oslo.")], {"a": "I own a cat."}, MOVED_FROM_LYON).ptkb == {
        "a": "I own a cat.",
        "1": "I live in Oslo.",
    }
    assert list(
        merge(
            [piece("I live in Oslo.")], {"2": "I own a cat."}, MOVED_FROM_LYON, taken={"5", "x"}
        ).ptkb
    ) == ["2", "6"]


VALUES = st.sampled_from(
    [
        None,
        True,
        1,
        "1",
        "tea",
        "I like tea",
        "Tea?",
        ["1", 2],
        [[1]],
        {"a": 1},
        "\ud800 tea",
        "\x00tea",
    ]
)
PIECES = st.lists(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(["message", "words", "statement", "replaces"], VALUES)
    ),
    max_size=4,
)
KNOWNS = st.dictionaries(
    st.sampled_from(["1", "2", "b"]), st.sampled_from(["tea", "I like tea.", ""])
)
SAYINGS = st.dictionaries(st.integers(1, 2), st.sampled_from(["I like tea", "1 True"]))


@given(PIECES, KNOWNS, SAYINGS)
def test_whatever_a_model_writes_known_ids_keep_their_text(pieces, known, said):
    merged = merge(pieces, known, said)
    for number, text in merged.ptkb.items():
        assert known.get(number, text) == text
    replaced = set()
    for statement in merged.statements:
        replaced.update(statement["replaces"])
        assert statement["message"] in said
        assert statement["words"]
    assert set(known) - set(merged.ptkb) == replaced - set(merged.ptkb)
    json.dumps(merged).encode()


def test_words_inside_of_longer_words_are_no_source():
    merged = merge([piece("I move a lot.", words="I move")], {}, MOVED_FROM_LYON)
    assert (merged.statements, len(merged.dropped)) == ([], 1)
