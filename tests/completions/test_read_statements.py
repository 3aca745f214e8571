"""Statements that a completion chooses, and how they are matched with the persona."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from persona import PTKB

from pyterrier_ikat.completions.statement_numbers import (
    ENDLESS_LIST,
    is_about_statement,
    label_of,
    read_ids,
)
from pyterrier_ikat.completions.statements import (
    choose,
    match_copy,
    match_label,
    normalised,
    only_unknown,
    read_copies,
    read_scores,
    score_in,
)

ENDLESS = ENDLESS_LIST
COPIES = {
    "Relevant:\n- I am vegan.\n2: I own a dog.": ["- I am vegan.", "2: I own a dog."],
    "None": ["None"],
    '["a", "b"]': ["a", "b"],
    'Here: ["a"]': ["a"],
    'Here\nthere ["a"]': ["Here", 'there ["a"]'],
    "[1]": ["[1]"],
    '["a", ': None,
    "[]": [],
    "{}": [],
    '{"1": "a"}': ["a"],
    '```\n["a"]\n```': ["a"],
    "- a\n\n...\n- b": ["- a", "- b"],
    "Not relevant:\n- a\nRelevant:\n- b": ["- b"],
    "": None,
    "...": None,
    "a\n2. Question: x": ["a"],
    '["a"] x\ny': ["a"],
    "```text\nI am vegan.\n```": ["I am vegan."],
    "I own [1": ["I own [1"],
    '{"a": "b"}': None,
    '{"a": "b"} ["c"]': ["c"],
}


@pytest.mark.parametrize("text", COPIES)
def test_copied_statements_are_read_line_by_line(text):
    assert read_copies(text) == COPIES[text]


SCORES = {
    '[{"id": 3, "score": 0.5}, {"id"': ([("3", 0.5)], [ENDLESS]),
    '[1, {"id": 3, "score": 1}]': ([("3", 1)], []),
    '{"3": 0.9, "7": 0.4}': ([("3", 0.9), ("7", 0.4)], []),
    'Sure: {"3": 0.9}': ([("3", 0.9)], []),
    "{}": ([], []),
    "Statement 3": None,
    "None": ([], []),
    '[{"id": 3, "score": 0.5}, {"id": 4, "relevance": 1}]': ([("3", 0.5), ("4", 1)], []),
    '{"id": 3, "score": 0.5}\n{"id": 4}\n{"5": 1}': ([("3", 0.5), ("4", None)], []),
    '{"3": 1} {"4": 1}': ([("3", 1)], []),
    '[1, 2] {"3": 1}': ([("3", 1)], []),
    "[]": ([], []),
    '[]\n{"3": 1}': ([], []),
    '[[{"id": 3, "score": 1}]]': None,
    '[{"id": 3, "score": 1}, [{"id": 4, "score": 0.5}]]': ([("3", 1), ("4", 0.5)], []),
    '{"3": 0.9, "4"': None,
    '{"id": 3, "score": 0.5} {"id"': ([("3", 0.5)], []),
    '{"id": [3]}': ([("id", [3])], []),
    "[1, 2]": None,
    '{"a": {"score": 1}}': ([("a", {"score": 1})], []),
    '{"id": 3, "score": 1}\n2. Question: x\n{"id": 4, "score": 1}': ([("3", 1)], []),
    '{"id": 3, "score": 1} {"5": 1} {"id": 4, "score": 1}': ([("3", 1)], []),
    '{"3": 1} {"id": 4, "score": 1}': ([("3", 1)], []),
    '[x] {"3": 1}': ([("3", 1)], []),
}


@pytest.mark.parametrize("text", SCORES)
def test_scores_are_read_from_the_first_objects(text):
    choice = read_scores(text)
    assert (None if choice is None else (choice, choice.notes)) == SCORES[text]


PERSONA = {"1": "I am vegan.", "2": "I own a dog.", "03": "I run."}
ALL = "nothing, but the answer copies the whole persona: all 3 statements are chosen"


def choice_of(items, notes=(), copied=False):
    choice = read_ids("[]")
    choice += items
    choice.notes += notes
    choice.copied = copied
    return choice


CHOSEN = [
    # form, pieces, statements with their scores, what is dropped
    ("ids", ["2", "9"], [("2", 1.0)], ["no statement 9"]),
    ("ids", ["2", "1", "2"], [("2", 1.0), ("1", 0.5)], []),
    ("ids", ["3", "03"], [("03", 1.0)], []),
    ("ids", ["1", "2", "3"], [("1", 1.0), ("2", 0.5), ("03", 1 / 3)], []),
    ("ids", choice_of(["1", "2", "3"], copied=True),
     [("1", 1.0), ("2", 0.5), ("03", 1 / 3)], [ALL]),
    ("ids", choice_of(["1", "2"], copied=True), [("1", 1.0), ("2", 0.5)], []),
    ("ids", choice_of(["1"], ["noted"]), [("1", 1.0)], ["noted"]),
    ("ids", ["none", "1"], [("1", 1.0)], ["no statement none"]),
    ("copies", ["I am vegan.", "i own a DOG"], [("1", 1.0), ("2", 0.5)], []),
    ("copies", ["I am vegan.", "none", "I own a dog.", "I am vegan.", "x"], [("1", 1.0)],
     ["behind 'none': I own a dog."]),
    ("copies", ["I am vegan.", "I own a dog.", "I run."],
     [("1", 1.0), ("2", 0.5), ("03", 1 / 3)], [ALL]),
    ("scores", [("1", 0.2), ("2", 1.5), ("03", -1), ("9", 1), ("1", 0.9)],
     [("2", 1.0), ("1", 0.2)],
     ["score 1.5 of statement 2", "score -1.0 of statement 03", "no statement 9"]),
    ("scores", [("1", "x"), ("2", "0.5"), ("3", True), ("1", None)], [("2", 0.5)],
     ["score 'x' of statement 1", "score True of statement 3", "score None of statement 1"]),
    ("scores", [("1", 0), ("2", 0.5), ("3", 0.5)], [("2", 0.5), ("03", 0.5)], []),
    ("scores", [("1", 1), ("2", 0.0)], [("1", 1.0)], []),
    ("scores", [("1", {"score": 0.3}), ("2", float("nan")), ("3", 10**400)], [("1", 0.3)],
     ["score nan of statement 2", f"score {10**400} of statement 3"]),
    ("scores", [("1", 0.1), ("2", 0.2), ("3", 0.3)],
     [("03", 0.3), ("2", 0.2), ("1", 0.1)], []),
    ("copies", choice_of(["I am vegan.", "I own a dog.", "I run."]),
     [("1", 1.0), ("2", 0.5), ("03", 1 / 3)], [ALL]),
    ("copies", ["[2]"], [], ["no statement [2]"]),
    ("scores", [("2", float("nan")), ("2", 0.5)], [("2", 0.5)], ["score nan of statement 2"]),
]  # fmt: skip


@pytest.mark.parametrize(("form", "pieces", "statements", "dropped"), CHOSEN)
def test_pieces_are_matched_with_the_persona(form, pieces, statements, dropped):
    assert choose(form, pieces, PERSONA) == (statements, dropped)


def test_the_only_statement_may_be_copied():
    assert choose("copies", ["I run."], {"1": "I run."}) == ([("1", 1.0)], [])


UNKNOWN = [
    ("ids", ["12"], "no statement 12: the user's statements are 1, 2, 03"),
    ("ids", ["12", "1"], ""),
    ("ids", [], ""),
    ("copies", ["x"], ""),
    ("scores", [("12", 1), ("13", 1)],
     "no statement 12, no statement 13: the user's statements are 1, 2, 03"),
    ("scores", [("1", 1)], ""),
    ("ids", list("abcdef"), "no statement a, no statement b, no statement c, no statement d, "
     "no statement e: the user's statements are 1, 2, 03"),
    ("ids", ["x" * 100], f"no statement {'x' * 67}: the user's statements are 1, 2, 03"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "pieces", "said"), UNKNOWN)
def test_a_choice_may_name_only_unknown_statements(form, pieces, said):
    assert only_unknown(form, pieces, PERSONA) == said


def test_a_number_that_may_be_two_ids_is_unknown():
    two = {"01": "a", "001": "b"}
    assert only_unknown("ids", ["1"], two).startswith("statement 1, which may be 01 or 001: ")
    assert only_unknown("ids", ["1"], {}) == ""
    assert choose("ids", ["1"], two) == ([], ["statement 1, which may be 01 or 001"])


LABELS = {
    "1": "1",
    "[1]": "1",
    "#1": "1",
    "“1”": "1",
    "3": "03",
    "03": "03",
    "003": "03",
    "١": "1",
    "1. I am vegan.": "1",
    "7. I own a dog.": "2",
    "I own a dog": "2",
    "x": None,
    "1: x": "1",
    "": None,
    " 2 ": "2",
    "[ 1 ]": "1",
    "3. x": "03",
}


@pytest.mark.parametrize("label", LABELS)
def test_a_label_names_a_statement_by_number_or_words(label):
    assert match_label(label, PERSONA) == LABELS[label]


def test_an_exact_id_is_named_before_a_number_of_its_value():
    assert match_label(" ( x1 ) ", {"x1": "I run.", "1": "I swim."}) == "x1"
    assert match_label("#x1", {"x1": "I run.", "1": "I swim."}) == "x1"
    assert match_label("1", {"١": "I run."}) == "١"
    assert match_label("1. I run", {"01": "I run.", "1": "I swim."}) == "1"


@pytest.mark.parametrize(
    ("label", "names", "found"),
    [
        ("1", ["01", "02"], "01"),
        ("01", ["1", "2"], "1"),
        ("1", ["1", "01"], "1"),
        ("01", ["1", "01"], "01"),
        ("1", ["01", "001"], None),
        ("1", ["١", "٢"], "١"),
        ("٢", ["1", "2"], "2"),
        ("0", ["00", "1"], "00"),
        ("2", ["1", "12"], None),
    ],
)
def test_a_number_means_the_only_id_of_its_value(label, names, found):
    assert match_label(label, {name: f"Statement called {name}." for name in names}) == found


def test_an_id_that_may_be_several_is_told():
    chosen = choose("ids", ["1"], {"01": "I run.", "001": "I swim."})
    assert chosen == ([], ["statement 1, which may be 01 or 001"])


COPIED = {
    "I am vegan.": "1",
    "i am vegan": "1",
    "2) I own a DOG": "2",
    "I own a dogs": "2",
    "I own a doooog": None,
    "": None,
    "1": None,
    "I’m vegan": None,
    "3) I run.": "03",
}


@pytest.mark.parametrize("copy", COPIED)
def test_a_copy_names_the_statement_that_it_resembles(copy):
    assert match_copy(copy, PERSONA) == COPIED[copy]


def test_exact_copies_come_first_and_of_equal_ones_the_first():
    assert match_copy(" I am A. ", {"1": "I am a", "2": "I am A."}) == "2"
    assert match_copy("2. bundesliga FAN", {"1": "2. Bundesliga fan", "2": "Bundesliga fan"}) == "1"
    assert match_copy("i am a", {"1": "I am A!", "2": "I am a?"}) == "1"
    assert match_copy("I am a.", {"1": "I am a!", "2": " I am a. "}) == "2"


@pytest.mark.parametrize(
    "form",
    [
        "Statement {}: {}",
        "PTKB {}: {}",
        "**{}: {}**",
        "**{}.** {}",
        "#{}: {}",
        "`{}: {}`",
        "{} - {}",
    ],
)
def test_a_number_before_a_short_statement_does_not_hide_it(form):
    ptkb = {"11": "I like bacon.", "12": "I hike."}
    assert match_copy(form.format("11", "I like bacon."), ptkb) == "11"
    assert match_copy(form.format("12", "I hike."), ptkb) == "12"


@pytest.mark.parametrize(
    ("copy", "ptkb", "number"),
    [
        ("abcdefghix", {"1": "abcdefghij"}, "1"),  # ratio = 2 * 9 / 20 = .9 for one letter in ten
        ("abcdefghxy", {"1": "abcdefghij"}, None),
        (
            "I own a dog named Max.",
            {"1": "I own a dog named Rex.", "2": "I own a dog named Max."},
            "2",
        ),
        (
            "i own a dog, named max",
            {"1": "I own a dog named Rex.", "2": "I own a dog named Max."},
            "2",
        ),
    ],
)
def test_nine_tenths_similarity_suffices_and_exact_comes_first(copy, ptkb, number):
    assert match_copy(copy, ptkb) == number


@pytest.mark.parametrize(
    "copy", ["I own a dog.", "i own a DOG", "2) I own a dog", "I owned a dog."]
)
def test_of_equal_statements_the_first_is_named(copy):
    assert match_copy(copy, {"1": "I am vegan.", "2": "I own a dog.", "3": "I own a dog."}) == "2"


def test_copies_are_compared_without_signs_and_by_values():
    assert match_copy("...", {"1": "!!!"}) is None
    assert normalised("٣٠ years") == "30 years"
    assert normalised("I’m  a—B's ①_x!") == "im a bs 1_x"


def test_the_score_and_the_label_of_an_object():
    assert score_in({"relevance": 2, "score": 3}) == 3
    assert (score_in({"relevance": 2}), score_in({"x": 1})) == (2, None)
    labels = [{"id": 3.0}, {"number": 4, "id": 5}, {"x": 1}, {}, 3.5, "a", {"statement": "s"}]
    assert [label_of(item) for item in labels] == ["3", "5", "x", "", "3.5", "a", "s"]
    about = [{"id": 1}, {"id": [1], "index": 2}, {"id": [1]}, {"x": 1}, [1]]
    assert [is_about_statement(item) for item in about] == [True, True, False, False, False]


ALL_FOUR = "nothing, but the answer copies the whole persona: all 4 statements are chosen"
NO_SEA = ["My balcony faces north.", "I love the sea.", "None of the others."]


@pytest.mark.parametrize(
    ("form", "found", "statements", "dropped"),
    [
        ("ids", ["3", "12", "1", "3"], [("3", 1.0), ("1", 0.5)], ["no statement 12"]),
        ("ids", read_ids("{'3': 'nuts', '2': 'My balc"), [("3", 1.0)], ["a list that never ends"]),
        (
            "ids",
            read_ids("[8]\n2. Provenance: [3]"),
            [],
            ["no statement 8", "another list, because the model answers more than once"],
        ),
        (
            "scores",
            read_scores('[{"id": 3, "score": 0.9}, {"id": 2, "sco'),
            [("3", 0.9)],
            ["a list that never ends"],
        ),
        (
            "scores",
            [("1", 0.2), ("3", 1.3), ("2", -0.5), ("7", 0), ("12", 0.9), ("statement 1", 0.9)],
            [("3", 1.0), ("1", 0.2)],
            ["score 1.3 of statement 3", "score -0.5 of statement 2", "no statement 12"],
        ),
        (
            "scores",
            [("3", 0.5), ("1", 0.5), ("2", 0.9)],
            [("2", 0.9), ("3", 0.5), ("1", 0.5)],
            [],
        ),  # equal scores keep their order
        ("copies", NO_SEA, [("2", 1.0)], ["no statement I love the sea."]),
        (
            "copies",
            read_copies("None.\n\n1. " + PTKB["1"] + "\nThat is all."),
            [],
            [f"behind 'none': 1. {PTKB['1']}"],
        ),
        ("copies", read_copies("None, except:\n- My balcony faces north."), [("2", 1.0)], []),
    ],
)
def test_what_names_a_statement_is_chosen_and_the_rest_is_told(form, found, statements, dropped):
    assert choose(form, found, PTKB) == (statements, dropped)


@pytest.mark.parametrize(
    ("form", "found", "ptkb", "statements"),
    [
        ("copies", ["No nuts for me."], {"1": "No nuts for me."}, [("1", 1.0)]),
        (
            "ids",
            read_ids('["pet", "car"]'),
            {"diet": "I am vegan.", "pet": "I own a dog."},
            [("pet", 1.0)],
        ),
    ],
)
def test_statements_may_begin_with_no_and_ids_may_be_no_numbers(form, found, ptkb, statements):
    assert choose(form, found, ptkb).statements == statements


@pytest.mark.parametrize("value", ["high", None, True, float("nan"), [0.5], {"why": "diet"}])
def test_what_is_no_score_is_dropped(value):
    statements, dropped = choose(
        "scores", [("1", value), ("3", "0.5"), ("2", {"score": 0.7, "why": "light"})], PTKB
    )
    assert (statements, dropped) == ([("2", 0.7), ("3", 0.5)], [f"score {value!r} of statement 1"])


@pytest.mark.parametrize(
    ("form", "text", "told"),
    [
        ("ids", str(PTKB), [ALL_FOUR]),
        ("ids", f"```json\n{json.dumps(PTKB, indent=1)}\n```", [ALL_FOUR]),
        (
            "ids",
            json.dumps([{"id": number, "statement": text} for number, text in PTKB.items()]),
            [ALL_FOUR],
        ),
        ("ids", "\n".join(f"{number}: {text}" for number, text in PTKB.items()), [ALL_FOUR]),
        ("ids", "\n".join(f"- {number}. {text}" for number, text in PTKB.items()), [ALL_FOUR]),
        ("ids", ", ".join(f"{number}: {text}" for number, text in PTKB.items()), [ALL_FOUR]),
        ("ids", "[1, 2, 3, 7]", []),
        ("copies", str(PTKB), [ALL_FOUR]),
        ("copies", json.dumps(list(PTKB.values())), [ALL_FOUR]),
        ("copies", "\n".join(PTKB.values()), [ALL_FOUR]),
    ],
)
def test_a_copy_of_the_whole_persona_chooses_all_and_is_told(form, text, told):
    chosen = choose(form, {"ids": read_ids, "copies": read_copies}[form](text), PTKB)
    assert (sorted(number for number, _ in chosen.statements), chosen.dropped) == (
        sorted(PTKB),
        told,
    )
    assert choose("ids", read_ids("{'1': 'the flat', '3': 'nuts'}"), PTKB).dropped == []


@given(st.dictionaries(st.sampled_from("1234567"), st.text(min_size=1), max_size=7), st.text())
def test_statements_match_themselves_and_only_known_ids_come_out(ptkb, text):
    for form, read in (("ids", read_ids), ("copies", read_copies), ("scores", read_scores)):
        chosen = choose(form, read(text) or [], ptkb)
        numbers = [number for number, _ in chosen.statements]
        assert set(numbers) <= set(ptkb)
        assert len(set(numbers)) == len(numbers)
    for statement in ptkb.values():
        assert ptkb[match_copy(statement, ptkb)].strip() == statement.strip()
