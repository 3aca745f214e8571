"""The numbers of the statements that a completion chooses.

Many completions are made here with the numbers that they choose.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyterrier_ikat.completions.statement_numbers import (
    ENDLESS_LIST,
    SECOND_CHOICE,
    ReadChoice,
    means_none,
    read_ids,
    says_none,
)
from pyterrier_ikat.completions.texts import parse_chosen_rewrite

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


def test_the_notes_of_a_choice_are_its_own():
    notes = ["noted"]
    ReadChoice(["1"], notes).notes.append("more")
    assert notes == ["noted"]


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


NUMBERS = st.lists(st.integers(1, 12).map(str), min_size=1, max_size=6, unique=True)
LISTS = [
    lambda ids: f"[{', '.join(ids)}]",
    lambda ids: "\n".join(ids) + "\n",
    lambda ids: "Provenance: " + "\nProvenance: ".join(ids) + "\n",
    lambda ids: f"I choose: [{', '.join(ids)}].",
]
BEHIND = [
    "\n\nNote that [{}] is not relevant.",
    "\n\nStatement {} is about cars.",
    "\n\n2. Question: What else?\n   Provenance: [{}]",
    "\n2. Provenance: [{}]",
    "\n\n{}. It is about cars.",
    '\n\n{{"{}": true}}',
]


@given(
    NUMBERS,
    st.sampled_from(LISTS),
    st.lists(st.tuples(st.sampled_from(BEHIND), st.integers(1, 12)), max_size=4),
)
def test_nothing_behind_a_list_changes_it(ids, write, behind):
    assert read_ids(write(ids) + "".join(text.format(number) for text, number in behind)) == ids


@pytest.mark.parametrize("opening", ["[", ""])
def test_a_long_list_without_end_loses_nothing(opening):
    ids = [str(number) for number in range(1, 1500)]
    assert read_ids(opening + ", ".join(ids)) == ids


ids = st.lists(st.integers(1, 12).map(str), min_size=1, max_size=5, unique=True)
BRACKETS = {
    "one list": lambda numbers: f"[{', '.join(numbers)}]",
    "tight": lambda numbers: f"[{','.join(numbers)}]",
    "semicolons": lambda numbers: f"[{'; '.join(numbers)}]",
    "and": lambda numbers: f"[{' and '.join(numbers)}]",
    "quoted": lambda numbers: "[" + ", ".join(f'"{number}"' for number in numbers) + "]",
    "named": lambda numbers: "[" + ", ".join(f"Statement {number}" for number in numbers) + "]",
    "each": lambda numbers: " ".join(f"[{number}]" for number in numbers),
    "each tight": lambda numbers: "".join(f"[{number}]" for number in numbers),
    "each with commas": lambda numbers: ", ".join(f"[{number}]" for number in numbers),
    "each with and": lambda numbers: " and ".join(f"[{number}]" for number in numbers),
    "full width": lambda numbers: f"［{'，'.join(numbers)}］",
    "lenses": lambda numbers: f"【{', '.join(numbers)}】",
}
BARE = {
    "commas": ", ".join,
    "blanks": " ".join,
    "and": " and ".join,
    "named": lambda numbers: "Statements " + ", ".join(numbers),
    "labelled": lambda numbers: "Provenance: " + ", ".join(numbers),
}
LINES = {
    "lines": "\n".join,
    "bullets": lambda numbers: "- " + "\n- ".join(numbers),
    "labelled lines": lambda numbers: "Provenance: " + "\nProvenance: ".join(numbers),
    "lines apart": lambda numbers: (
        numbers[0] + "".join(f" \n\nProvenance: {number}" for number in numbers[1:])
    ),
    "bullets in brackets": lambda numbers: "\n".join(f"- [{number}]" for number in numbers),
    "numbered": lambda numbers: "\n".join(
        f"{place}. [{number}]" for place, number in enumerate(numbers, 1)
    ),
    "copies": lambda numbers: "\n".join(f"[{number}] I have {number} dogs." for number in numbers),
    "each named": lambda numbers: ", ".join(f"statement {number}" for number in numbers),
    "PTKB": lambda numbers: "PTKB " + ", PTKB ".join(numbers),
}
FORMS = BRACKETS | BARE | LINES
REMARKS = (
    "",
    ".",
    " (2 of the 5)",
    " because the user is 30 years old",
    " because [11] and [12] of the others are about cars",
    ", because 3 of the 12 are about food",
    " (the other 4 are not relevant)",
    ". The other 7 are not relevant.",
    ".\n\nStatement 8 is about cars.",
    ".\nNote that [9] is not relevant.",
)
DIGITS = {
    "arabic": "٠١٢٣٤٥٦٧٨٩",
    "devanagari": "०१२३४५६७८९",
    "full width": "０１２３４５６７８９",
    "bengali": "০১২৩৪৫৬৭৮৯",
}


def in_digits(text, digits):
    return text.translate(str.maketrans("0123456789", digits))


@given(ids, st.sampled_from(sorted(FORMS)))
def test_a_list_is_read_in_every_form(numbers, form):
    found = read_ids(FORMS[form](numbers))
    assert (found, found.notes) == (numbers, [])


@given(ids, st.sampled_from(sorted(FORMS)), st.sampled_from(sorted(DIGITS)))
def test_a_list_is_read_in_digits_of_every_script(numbers, form, script):
    assert read_ids(in_digits(FORMS[form](numbers), DIGITS[script])) == numbers


@given(ids, st.sampled_from(sorted(BRACKETS | BARE)), st.sampled_from(REMARKS))
def test_the_numbers_of_a_reason_are_no_choice(numbers, form, remark):
    found = read_ids(FORMS[form](numbers) + remark)
    assert found is None or found.notes or found == numbers
    if form in BRACKETS:
        assert found == numbers


@given(ids, st.sampled_from(sorted(BRACKETS)), st.integers(20, 30).map(str))
def test_a_denied_list_is_not_chosen(numbers, form, other):
    choice = BRACKETS[form](numbers)
    for denial in (
        "Not [{}], but {}",
        "All but [{}]: {}",
        "[{}] is not relevant. {}",
        "[{}] isn't needed, {} is.",
        "Not relevant: [{}]. Relevant: {}",
    ):
        found = read_ids(denial.format(other, choice))
        assert found is None or found.notes or found == numbers
        assert found is None or other not in found


@pytest.mark.parametrize(
    "text",
    [
        "Here are the statements:\n[3] I run.\n[5] I swim.",
        "[3] I run (relevant)\n[8] I bake (not relevant)\n[5] I swim",
        "1. [3]\n2. [5]\n\nThe other 7 don't matter.",
    ],
)
def test_lines_that_were_all_read_are_no_other_list(text):
    found = read_ids(text)
    assert (found, found.notes) == (["3", "5"], [])


@pytest.mark.parametrize(
    "text",
    ["Statements 3 and 5 are relevant.", "Only statements 3, 5 are really relevant to the user."],
)
def test_a_sentence_that_only_names_its_choice_is_read(text):
    assert read_ids(text) == ["3", "5"]


@pytest.mark.parametrize(
    "text",
    [
        "[2]\n[7] is about cars.",
        "1. [2]\n2. [7] because of it",
        "[2]\n[7] I run.",
        "Statements 2 are relevant, and 7 is.",
        "Only statement 2 is not relevant.",
    ],
)
def test_lines_that_may_deny_are_told_or_unread(text):
    found = read_ids(text)
    assert found is None or found.notes


NONES = (
    "None of the {} statements",
    "None of the {} statements is relevant, not even {}.",
    "No statement (1-{}) is relevant.",
    "No statements are relevant: {} are about cars",
    "none ({} were checked)",
    "N/A, all {} are about cars",
    "There are none among the {}.",
    "There are no statements that matter among the {}.",
    "Nothing; {} is about cars",
)


@given(st.sampled_from(NONES), st.integers(1, 12))
def test_numbers_behind_none_are_no_choice(text, number):
    assert read_ids(text.format(number, number)) == []


@given(
    st.one_of(ids, st.just([])),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(REMARKS),
    st.sampled_from(NONES),
    st.booleans(),
)
@settings(max_examples=300)
def test_reformulate_reads_its_statements_as_everybody_does(numbers, form, remark, none, below):
    choice = FORMS[form](numbers) + remark if numbers else none.format(5, 5)
    head = "Statements:\n" if below else "**Statements:** "
    found = parse_chosen_rewrite(
        f"{head}{choice}\nRewrite: Is 1 cup of tea safe?\nResponse: Yes, 2 cups are."
    )
    alone = read_ids(choice)
    assert (None if found is None else found[2]) == alone
    assert found is None or found[2].notes or found[2] == numbers


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("8\n2. Provenance: 14\n3. Provenance: 5", ["8"]),
        ("7 \n\nThe user likes films.\n\nProvenance: 6", ["7"]),
        ("None\n\nIf I had to choose:\n\nProvenance: 10", []),
        ("3. \n(I love races.)\n\nProvenance: 9. \n(I own a bike.)", ["3"]),
        ("[2] is enough. [7] is about cars.", ["2"]),
    ],
)
def test_further_choices_of_small_models_are_told(text, chosen):
    found = read_ids(text)
    assert (found, len(found.notes)) == (chosen, 1)


@pytest.mark.parametrize("form", sorted(LINES))
def test_a_remark_on_the_others_hides_no_number(form):
    assert read_ids(LINES[form](["3", "5"]) + ". The other 7 are not relevant.") == ["3", "5"]


def test_copied_statements_on_one_line_are_all_chosen():
    assert read_ids("[1] I am vegan. [5] I am allergic to nuts.") == ["1", "5"]


@pytest.mark.parametrize("text", ['[, "I am ve', "{, '3': 'I am", '["I am ve', '[{"id": 3, "why'])
def test_a_cut_list_without_a_whole_item_is_no_choice(text):
    assert read_ids(text) is None


@pytest.mark.parametrize(
    ("text", "numbers", "copied"),
    [
        ("Relevant: 1. The user likes tea.", ["1"], False),
        ("Provenance: 4. The question is about food.", ["4"], False),
        ("1, 4. The user likes tea.", ["1", "4"], False),
        ("1. The others are about cars.", ["1"], False),
        ("1. The user likes tea.", ["1"], True),
        ("1. The user likes tea.\n4. The user runs.", ["1", "4"], True),
        ("Relevant: 1. The user likes tea.\n4. The user runs.", ["1"], False),
    ],
)
def test_a_sentence_is_a_reason_behind_a_label_else_an_item(text, numbers, copied):
    found = read_ids(text)
    assert (found, found.copied) == (numbers, copied)
