"""Statements learned from a completion: worked out by hand."""

import pytest

from pyterrier_ikat.completions.learned import highest_number, merge, read_learned

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
