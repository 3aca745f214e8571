"""Chosen statements in a completion: worked out by hand."""

import pytest

from pyterrier_ikat.completions.statement_numbers import (
    ENDLESS_LIST,
    SECOND_CHOICE,
    ReadChoice,
    is_about_statement,
    label_of,
    means_none,
    read_ids,
    says_none,
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

AGAIN, ENDLESS = SECOND_CHOICE, ENDLESS_LIST

IDS = {
    # the completion: (numbers, notes, whether it copies statements, numbers on lines)
    "1. I am vegan.\n2.": (["1", "2"], [], False, set()),
    "Not relevant: 2\nRelevant: 3": (["3"], [], False, set()),
    "Statements: 2 (diet)": (["2"], [], False, set()),
    "Provenance: [2]\nProvenance: [2]": (["2"], [], False, set()),
    "[] is not relevant": ([], [], False, set()),
    "Irrelevant are [5]. Relevant are [6].": (["6"], [], False, set()),
    "[1, 5]": (["1", "5"], [], False, set()),
    "1, 4": (["1", "4"], [], False, set()),
    "[4, 1]. Note that [2] is not relevant.": (["4", "1"], [], False, set()),
    "None of them.": ([], [], False, set()),
    "None": ([], [], False, set()),
    "None, except 2": None,
    "no statements are relevant": ([], [], False, set()),
    "Sure!": None,
    "8 (I have a bike.)\nProvenance: 3 (We like soup.)": (["8"], [AGAIN], False, set()),
    "8 (bike), 9 (not relevant)": (["8"], [], False, set()),
    "8 (bike), 9 (age is not given)": (["8", "9"], [], False, set()),
    "8 (it is not relevant)": None,
    "8 (bike) and more": None,
    "[3, 5, 7": (["3", "5", "7"], [ENDLESS], False, set()),
    "[3": (["3"], [ENDLESS], False, set()),
    "[]": ([], [], False, set()),
    "[ ]": ([], [], False, set()),
    "[x]": None,
    "[1] [5]": (["1", "5"], [], False, set()),
    "[1] and [5]": (["1", "5"], [], False, set()),
    "[1]\n[5]": (["1"], [AGAIN], False, set()),
    "- [1]\n- [5]": (["1", "5"], [], False, {"5", "1"}),
    "- [1] I am.\n- [5] I run.": (["1", "5"], [], True, {"5", "1"}),
    "- [1] I am.\n- [5]": (["1"], [AGAIN], False, set()),
    "- [1]\n- [5]\n\n- [7]": (["1", "5", "7"], [], False, {"5", "7", "1"}),
    "- [1] The others are irrelevant\n- [5]": (["1", "5"], [], False, {"5", "1"}),
    "[1] I am vegan. [5] I run.": (["1", "5"], [], True, set()),
    "[1] I am vegan. [5] is not relevant.": (["1"], [AGAIN], False, set()),
    "[1] I am, [5] I Run; [6] Not relevant": (["1", "5"], [], True, set()),
    "[2] is enough. [7] is cars.": (["2"], [AGAIN], False, set()),
    "not [5], but [6]": (["6"], [], False, set()),
    "[5] is not relevant, [6]": (["6"], [AGAIN], False, set()),
    "all but [5]": None,
    "1. I am vegan.\n2. I run.": (["1", "2"], [], True, set()),
    "1. I am vegan.\n2. I run is not relevant.": (["1"], [], True, set()),
    "1. I am vegan.\nProvenance: 3": (["1"], [AGAIN], True, set()),
    "1.\n2.": (["1", "2"], [], False, set()),
    "Statement 3\nStatement 4": (["3", "4"], [], False, set()),
    "3\n4\nfoo\n5": (["3", "4"], [], False, set()),
    "3, 4\n5 (diet)\n6 because x": (["3", "4", "5", "6"], [], False, set()),
    "2, 5 because the user is 30": (["2", "5"], [], False, set()),
    "2 because x is not needed": None,
    "Statements 2 and 5 are relevant.": (["2", "5"], [], False, set()),
    "2 and 5 are relevant.": None,
    "2, 5. The user is 30.": (["2", "5"], [], False, set()),
    "2. The user is 30.": (["2"], [], True, set()),
    "Statements: 2. The user is 30.": (["2"], [], False, set()),
    "2. The others are bad.": (["2"], [], False, set()),
    "2, 5 because x\nProvenance: 7": (["2", "5"], [AGAIN], False, set()),
    '{"ids": [3, 5]}': (["3", "5"], [], False, set()),
    '{"irrelevant": [1], "relevant": [2]}': (["2"], [], False, set()),
    '{"irrelevant": [1]}': ([], [], False, set()),
    '{"3": "yes", "4": "no", "5": 0}': (["3"], [], False, set()),
    '[{"id": 3}, {"id": 4, "relevant": false}]': (["3"], [], False, set()),
    '{"id": 3, "text": "a"} {"id": 4, "score": "no"} [9]': (["3"], [], True, set()),
    '[{"id": 3}, {"id":': (["3"], [ENDLESS], False, set()),
    '["none"]': ([], [], True, set()),
    '["none", "2"]': (["none", "2"], [], False, set()),
    "[[1, 2], [3]]": (["1", "2", "3"], [], False, set()),
    '[[{"id": 3}, {"id": 4, "relevant": false}], [5]]': (["3", "5"], [], False, set()),
    '["I am vegan."]': (["I am vegan."], [], True, set()),
    '["I am vegan.", "2"]': (["I am vegan.", "2"], [], False, set()),
    "[3.0, 4]": (["3", "4"], [], False, set()),
    "Relevant: [2]\nIrrelevant: [3]": (["2"], [AGAIN], False, set()),
    "Irrelevant:\n1. x\nRelevant:\n2. y": (["2"], [], True, set()),
    "1. a\n2. b\n\n[5]": (["1", "2"], [AGAIN], True, set()),
    "Provenance: [2]\nProvenance: [2, 3]": (["2"], [AGAIN], False, set()),
    "Provenance: [2, 3]\nProvenance: [2]": (["2", "3"], [AGAIN], False, set()),
    "[2] and also: [3]": (["2"], [], False, set()),
    "[2]\n- [3]": (["2"], [AGAIN], False, set()),
    "The id is 3": None,
    "id: 3": (["3"], [], False, set()),
    "(3)": (["3"], [], False, set()),
    "#3": (["3"], [], False, set()),
    "**3**": (["3"], [], False, set()),
    "٣, ٥": (["3", "5"], [], False, set()),
    "①": (["1"], [], False, set()),
    "3 | 4": (["3", "4"], [], False, set()),
    "$3": (["3"], [], False, set()),
    "1: I am vegan., 2: I own a dog.": (["1", "2"], [], True, set()),
    "- 3\n- 4": (["3", "4"], [], False, set()),
    "None.\nProvenance: 4": ([], [AGAIN], False, set()),
    "There are no relevant statements": ([], [], False, set()),
    "nothing [2]": (["2"], [], False, set()),
    "No. [2] is": (["2"], [], False, set()),
    "3 - diet": (["3"], [], True, set()),
    "3-5": None,
    "N/A": ([], [], False, set()),
    "": None,
    "[1, 2] is not": None,
    "The relevant statement is [2] because not [3].": (["2"], [], False, set()),
    "```\nNone\n```": ([], [], False, set()),
    "3|4": (["3", "4"], [], False, set()),
    "I don't know.\n\n2. Question: And limes?\nProvenance: [3]": None,
    "[8]\n\n2. Question: And?\nProvenance: [3]": (["8"], [AGAIN], False, set()),
    "- [1] I am.\n- [5] I run: not relevant.": (["1"], [], True, {"1", "5"}),
    "- [1]\n- [5]\nProvenance: [1]": (["1", "5"], [], False, {"1", "5"}),
    "[2]\n2. Provenance: 7": (["2"], [AGAIN], False, set()),
    "[2]\nProvenance: 7 (diet)": (["2"], [AGAIN], False, set()),
    "None.\nNo fact except age helps": ([], [], False, set()),
    "2, 5 because of [7]": (["2", "5"], [], False, set()),
    "8 (bike)\n9 things": None,
    "8 (bike), 9": (["8", "9"], [], False, set()),
    "8 (bike), 9 (age is not relevant)": None,
    "[[5], [6]] are not relevant; [7]": (["7"], [], False, set()),
    "[x] and [2]": (["2"], [], False, set()),
    "1. a\n2. b [5]": (["1", "2"], [], True, set()),
    "[1, 2] [3] I am. [5] I run.": (["1", "2", "3"], [], False, set()),
    "[1] I own [2] I run.": (["1"], [], False, set()),
    "- [1] I am.\n- [5] is too": (["1"], [AGAIN], False, set()),
    "[1] I am vegan! [5] I run.": (["1", "5"], [], True, set()),
    "[statement]": None,
    "[": None,
    'not {"id": 2}, but {"id": 3}': (["3"], [], False, set()),
    '{"id": 3} {"id": 4}': (["3", "4"], [], False, set()),
    '["a"] is not relevant, ["b"]': (["b"], [], True, set()),
    "[x]\n3\n4": None,
    "3\n\n4": (["3", "4"], [], False, set()),
    "My two statements 2, 5 because of age": None,
    "2, 5 because they are not relevant": None,
    "1. a\nProvenance: 3\n4. b": (["1"], [AGAIN], True, set()),
    "1. I am.\n2. None": (["1"], [], True, set()),
    "Not relevant: \n2\nRelevant:\n3": (["3"], [], False, set()),
    '{"not_relevant": [1], "relevant": [2]}': (["2"], [], False, set()),
    '{"3": "Yes", "4": " No", "5": 0}': (["3"], [], False, set()),
    "{'a': {'ids': [5]}, 'b': 1} is not relevant; [7]": (["7"], [], False, set()),
}


@pytest.mark.parametrize("text", IDS)
def test_the_first_choice_of_numbers_is_read(text):
    choice = read_ids(text)
    read = None if choice is None else (choice, choice.notes, choice.copied, choice.on_lines)
    assert read == IDS[text]


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


def test_copies_are_compared_without_signs_and_by_values():
    assert match_copy("...", {"1": "!!!"}) is None
    assert normalised("٣٠ years") == "30 years"
    assert normalised("I’m  a—B's ①_x!") == "im a bs 1_x"


def test_the_notes_of_a_choice_are_its_own():
    notes = ["noted"]
    ReadChoice(["1"], notes).notes.append("more")
    assert notes == ["noted"]


def test_the_score_and_the_label_of_an_object():
    assert score_in({"relevance": 2, "score": 3}) == 3
    assert (score_in({"relevance": 2}), score_in({"x": 1})) == (2, None)
    labels = [{"id": 3.0}, {"number": 4, "id": 5}, {"x": 1}, {}, 3.5, "a", {"statement": "s"}]
    assert [label_of(item) for item in labels] == ["3", "5", "x", "", "3.5", "a", "s"]
    about = [{"id": 1}, {"id": [1], "index": 2}, {"id": [1]}, {"x": 1}, [1]]
    assert [is_about_statement(item) for item in about] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("text", "says", "means"),
    [
        ("none", True, True),
        ("None, except 2", True, False),
        ("Relevant statements: none", True, True),
        ("No relevant statements", True, True),
        ("no dogs", False, False),
        ("None [2]", False, True),
        ("None. But [2]", True, True),
        ("2\nnone", False, False),
        ("none\n[2]", True, True),
        ("none\nexcept 2", True, False),
    ],
)
def test_a_text_may_say_that_no_statement_is_relevant(text, says, means):
    assert (says_none(text), means_none(text)) == (says, means)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1, 2 because the user is vegan\nProvenance: 3", ["1", "2"]),
        ("2. I am vegan.\n5. I run.\nAnswer: 7", ["2", "5"]),
        ("4 because the user is 30\nFinal answer: 5", ["4"]),
        ("[1, 5]\nFinal: [7]", ["1", "5"]),
        ("- [1]\n- [5]\n**Final**: [7]", ["1", "5"]),
        ("- [1]\n- [5]\nSelected statements: [5]", ["1", "5"]),
        ("- 1\n- 5\nSo: 5", ["1", "5"]),
    ],
)
def test_a_further_choice_below_a_reason_or_items_is_noted(text, numbers):
    choice = read_ids(text)
    assert list(choice) == numbers
    assert choice.notes == ["another list, because the model answers more than once"]
    once = read_ids(text.rpartition("\n")[0])
    assert (list(once), once.notes) == (numbers, [])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("- 1\n- 5\nFinal: 1, 5", ["1", "5"]),
        ("- [1]\n- [5]\nOutput: [1, 5]", ["1", "5"]),
        ("1. I am vegan.\n5. I run.\nSelected statements: 5, 1", ["1", "5"]),
        ("1: no\n5: yes\nFinal answer: [5]", ["5"]),
        ("Statement: 1\nStatement: 5", ["1", "5"]),
    ],
)
def test_a_conclusion_that_repeats_the_choice_is_no_other(text, numbers):
    choice = read_ids(text)
    assert (list(choice), choice.notes) == (numbers, [])


def test_a_conclusion_that_was_read_as_well_is_noted():
    choice = read_ids("1, 5\n\nFinal answer: 7")
    assert list(choice) == ["1", "5", "7"]
    assert choice.notes == ["another list, because the model answers more than once"]
