"""What is kept of the statements about the user that a completion names, worked out by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.learned import LONGEST_STATEMENT, merge

KNOWN = {"1": "I live in Lyon.", "2": "I am vegan.", "7": "My sister is vegan."}
SAID = {1: "I moved from Lyon to Oslo in May.", 2: "Do vegans eat honey? My sister doesn’t."}


def piece(statement, message=1, words="I moved from Lyon to Oslo", replaces=()):
    return {"message": message, "words": words, "statement": statement, "replaces": list(replaces)}


def test_a_contradicted_statement_goes_and_the_new_has_a_new_id():
    merged = merge([piece("I live in Oslo.", replaces=[1])], KNOWN, SAID)
    assert merged.ptkb == {"2": "I am vegan.", "7": "My sister is vegan.", "8": "I live in Oslo."}
    assert list(merged.ptkb) == ["2", "7", "8"]
    source = {"message": 1, "words": "I moved from Lyon to Oslo"}
    assert merged.statements == [
        {"id": "8", "statement": "I live in Oslo.", **source, "replaces": ["1"]}
    ]
    assert merged.dropped == []
    assert KNOWN["1"] == "I live in Lyon."


def test_a_repeat_changes_nothing():
    assert merge(
        [piece("i am VEGAN"), piece("I live in Oslo."), piece("I live in Oslo")], KNOWN, SAID
    ).ptkb == {
        **KNOWN,
        "8": "I live in Oslo.",
    }
    assert merge([piece("I live in Lyon!", replaces=[1])], KNOWN, SAID) == (KNOWN, [], [])


def test_a_number_makes_a_statement_another_one():
    assert merge(
        [piece("I am 47 years old.", replaces=[1])], {"1": "I am 46 years old."}, SAID
    ).ptkb == {"2": "I am 47 years old."}


def test_a_statement_that_is_known_still_replaces_another_one():
    merged = merge(
        [piece("I live in Oslo.", replaces=["1"])],
        {"1": "I live in Lyon.", "4": "I live in Oslo."},
        SAID,
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
    merged = merge([wrong], KNOWN, SAID)
    assert (merged.ptkb, merged.statements, len(merged.dropped)) == (KNOWN, [], 1)
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
    assert len(merge([piece(statement, message, words)], {}, SAID).statements) == 1


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
    merged = merge([{**piece("I live in Oslo."), "replaces": label}], KNOWN, SAID)
    assert (set(KNOWN) - set(merged.ptkb), merged.dropped) == (set(gone), [])


def test_an_unknown_replaced_id_is_counted_and_the_new_one_kept():
    merged = merge([piece("I live in Oslo.", replaces=[1, 9])], KNOWN, SAID)
    assert merged.statements[0]["replaces"] == ["1"]
    assert merged.dropped == ["no known statement '9'"]


def test_ids_that_are_no_numbers_stay_and_new_ones_begin_at_one():
    assert merge([piece("I live in Oslo.")], {"a": "I own a cat."}, SAID).ptkb == {
        "a": "I own a cat.",
        "1": "I live in Oslo.",
    }
    assert list(
        merge([piece("I live in Oslo.")], {"2": "I own a cat."}, SAID, taken={"5", "x"}).ptkb
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
    merged = merge([piece("I move a lot.", words="I move")], {}, SAID)
    assert (merged.statements, len(merged.dropped)) == ([], 1)
