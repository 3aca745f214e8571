"""Choices of statements as models write them, made with the numbers that they choose.

Read rightly, or told.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.statements import choose, match_label, read_ids
from pyterrier_ikat.completions.texts import parse_chosen_rewrite
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.llms import StageError

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


class Says:
    """A model that always writes the same."""

    def __init__(self, text):
        self.text = text

    def generate(self, chats):
        return [self.text for _ in chats]


TURN = ikat.conversation(
    [{"role": "user", "content": "What may I eat?"}], ["I am vegan.", "I run."]
)
SAR = "Statements: [{}]\nRewrite: Which food is vegan?\nResponse: Beans."


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (lambda llm: ikat.SelectStatements(llm), "[12]"),
        (lambda llm: ikat.SelectStatements(llm, "scores"), '{"12": 0.9}'),
        (lambda llm: ikat.generate.Reformulate(llm, "select"), SAR.format(12)),
    ],
)
def test_a_choice_of_unknown_statements_alone_is_a_failure(stage, text):
    with pytest.raises(StageError, match="unknown"):
        stage(ikat.llm(Says(text)))(TURN)
    llm = ikat.llm(Says(text.replace("12", "2")))
    [(name, _)] = stage(llm)(TURN)["qstatements"][0]
    assert name == "2"


def test_scores_within_another_object_name_no_statement():
    """The prompt asks for an object id -> score alone."""
    llm = ikat.llm(Says('{"scores": {"2": 0.9}}'))
    with pytest.raises(StageError, match="no statement scores"):
        ikat.SelectStatements(llm, "scores")(TURN)


def test_a_known_statement_among_unknown_ones_is_chosen():
    llm = ikat.llm(Says(SAR.format("12, 2")))
    made = ikat.generate.Reformulate(llm, "select")(TURN)
    assert (made["qstatements"][0], made["qrewrite"][0]) == ([("2", 1.0)], "Which food is vegan?")
    assert llm.ledger.frame()["dropped"].tolist() == [1]


def test_ids_given_as_numbers_become_texts():
    turn = ikat.conversation(
        [{"role": "user", "content": "What may I eat?"}], {1: "I am vegan.", 2: "I run."}
    )
    assert turn["qptkb"][0] == {"1": "I am vegan.", "2": "I run."}
    own = turn.assign(qptkb=[{1: "I am vegan.", 2: "I run."}], qgoldptkb=[[2]])
    assert ikat.SelectStatements(ikat.llm(Says("[2]")))(own)["qstatements"][0] == [("2", 1.0)]
    assert ikat.generate.ShowStatements("gold")(own)["qptkb"][0] == {"2": "I run."}
    assert ikat.generate.AppendStatements("qgoldptkb")(own)["query"][0] == "What may I eat? I run."


@pytest.mark.parametrize(
    "ptkb", [{1.5: "I run."}, {None: "I run."}, {True: "I run."}, {1: "I run.", "1": "I swim."}]
)
def test_ids_that_are_none_or_equal_are_refused(ptkb):
    with pytest.raises(UsageError, match="id"):
        ikat.conversation([{"role": "user", "content": "What may I eat?"}], ptkb)


@pytest.mark.parametrize("ids", [["P1", "P2"], ["1a", "2"], ["2.1", "2.2"], ["u:1", "3"]])
@pytest.mark.parametrize(
    "stage", [ikat.SelectStatements, lambda llm: ikat.generate.Reformulate(llm, "select")]
)
def test_ids_that_are_no_numbers_cost_no_call(ids, stage):
    class Counted:
        calls = 0

        def generate(self, chats):
            self.calls += len(chats)
            return ["[2]"] * len(chats)

    model = Counted()
    turn = ikat.conversation([{"role": "user", "content": "Tea?"}], dict.fromkeys(ids, "I run."))
    with pytest.raises(DataError, match="by number, and the id"):
        stage(ikat.llm(model))(turn)
    assert model.calls == 0
