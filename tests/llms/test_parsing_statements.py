"""What models really answer when they are asked which statements matter, and what is made of it."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.statements import choose, match_copy, match_label, read_copies, read_ids, read_scores

PTKB = {
    "1": "I rent a flat on the fourth floor.",
    "2": "My balcony faces north.",
    "3": "I can't eat nuts, and I carry an adrenaline pen.",
    "7": "10 years ago I moved to Oslo.",
}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("[3, 1]", ["3", "1"]),
        ('["3", "1"]', ["3", "1"]),
        ("[3.0, 1]", ["3", "1"]),
        ("```json\n[3, 1]\n```", ["3", "1"]),
        ("The best is number 2; age matters as well.\n[3, 1]", ["3", "1"]),
        ("[3, 1]\n\nThe 2 others do not matter: []", ["3", "1"]),
        ('{"ids": [3, 1]}', ["3", "1"]),
        ('[{"id": 3, "why": "diet"}, {"id": 1}]', ["3", "1"]),
        ('{"3": "diet", "1": "home"}', ["3", "1"]),
        ("<think>[2] or not</think>[3, 1]", ["3", "1"]),
        ("3, 1", ["3", "1"]),
        ("Statements 3 and 1 matter.", None),
        ("Statements [3] and [1] matter.", ["3", "1"]),
        ("3. I can't eat nuts.\n1. I rent a flat.", ["3", "1"]),
        ("- 3: nuts\n- 1: flat on floor 4", ["3", "1"]),
        ("1. Statement 3: nuts\n2. **Statement 1**: the flat", ["3", "1"]),
        ("[3, 1", ["3", "1"]),
        ("[]", []),
        ("```\n[]\n```", []),
        ("{}", []),
        ("None", []),
        ("None of the 4 statements matters.", []),
        ("No relevant statements.", []),
        ("No.", []),
        ("[3, 1,]", ["3", "1"]),
        ("['3', '1']", ["3", "1"]),
        ("{ids: [3, 1]}", ["3", "1"]),
        ("3 and 1 are the most relevant statements.", None),
        ("Statements 3, 7, and 1", ["3", "7", "1"]),
        ("3 - nuts\n1 - the flat", ["3", "1"]),
        ("- 3\n- 1", ["3", "1"]),
        ("statements 1-3", None),
        ("1-3", None),
        ("[1-3]", None),
        ('{"3": true, "1": false}', ["3"]),
        ("No statement is relevant except statement 3", None),
        ("None except the diet", None),
        ("Not statement 1 but statement 3", None),
        ("[\n  3, // diet\n  1\n]", None),
        ("[None, because the question gives no reason]", None),
        ("The user has 2 children and 1 dog, so nothing in particular applies.", None),
        ("Statement 3 is not relevant.", None),
        ("I cannot help with that.", None),
        ("", None),
    ],
)
def test_ids(text, ids):
    assert read_ids(text) == ids


FIRST = [
    ("[3, 5]. Note that [1] is not relevant.", ["3", "5"]),
    ("[3, 5, 7]\n[3] is about the diet.\n[5] is about the home.\n[7] is about work.", ["3", "5", "7"]),
    ("[3, 5, 7]\n\n7. It is about work.\n5. It is about the home.", ["3", "5", "7"]),
    ("[]\n\nStatement 1 does not matter.", []),
    ("[None]\n\n2. Response: Sure.", []),
    ("None.\nStatement 3 is about cars.", []),
    ("4\n2. Provenance: 9\n3. Provenance: 4", ["4"]),
    ("5\nProvenance: 6\nProvenance: 7", ["5", "6", "7"]),
    ("Provenance: 5\nProvenance: 6, 7", ["5", "6", "7"]),
    ("5\nStatement 6\nFacts: 7", ["5", "6", "7"]),
    ("5, 6\n5\n7.", ["5", "6", "5", "7"]),
    ("3\n5\n\n1 is about cars.", ["3", "5"]),
    ("1) 3\n2) 5", ["3", "5"]),
    ("[3] and [5]. [1] is about cars.", ["3", "5"]),
    ("1. [3, 5]", ["3", "5"]),
    ("Statement 1 is not relevant.\nAnswer: 3, 5", ["3", "5"]),
    ("Statements 1 and 2 are not relevant, so the answer is [3]", ["3"]),
    ("Not relevant:\n1. The flat.\nRelevant:\n3. The nuts.\n5. The home.", ["3", "5"]),
    ("3. The nuts.\n5. The home.\n\nNot relevant:\n1. The flat.", ["3", "5"]),
    ("3. The nuts.\n5. The home.\n\nThe others are not relevant.", ["3", "5"]),
    ('{"not_relevant": [1], "relevant": [3]}', ["3"]),
    ('[{"id": 3, "relevant": true}, {"id": 1, "relevant": false}]', ["3"]),
    ('{"id": 3, "why": "diet"}\n{"id": 5, "why": "home"}', ["3", "5"]),
    ('[{"id": 3, "rank": 0}, {"id": 5, "rank": 1, "negated": false}]', ["3", "5"]),
    ('[{"id": 3, "score": 1}, {"id": 5, "score": 0}]', ["3"]),
    ("3. I don't need glasses.\n5. The home.", ["3", "5"]),
    ("[[3, 5]]", ["3", "5"]),
    ("Nothing else matters: [3]", ["3"]),
]
"""First lists, and what stands behind them: decided by reading them."""


@pytest.mark.parametrize(("text", "ids"), FIRST)
def test_the_first_list_is_the_choice(text, ids):
    found = read_ids(text)
    assert (found, found.told) == (ids, [])


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("(2), (5) and (7)", ["2", "5", "7"]),
        ("1. No\n2. Yes\n3. No", ["2"]),
        ("1. No - he is vegan\n2: **Yes**", ["2"]),
        ("1. No dairy for me\n3. I am vegan", ["1", "3"]),
    ],
)
def test_numbers_in_parentheses_count_and_no_is_no(text, ids):
    assert read_ids(text) == ids


@pytest.mark.parametrize(
    "text",
    ["$2, $6", "[$2, $6]", "`2, 6`", "`[2, 6]`", "2 | 6", "| 2 | 6 |", "{'2', '6'}", "{2, 6}", "I choose {'2', '6'}.", "\\[2, 6\\]"]
    + ["2 > 6", "<2>, <6>", "$2$, $6$", "“2”, “6”", "2 / 6", "@2 @6", "```\n$2\n$6\n```", "2; 6!", "~2~ ~6~"],
)
def test_marks_around_bare_ids_hide_none(text):
    found = read_ids(text)
    assert (found, found.told) == (["2", "6"], [])


@pytest.mark.parametrize("text", ["It costs $2, or $6.", "€2 pro Stück", "$2.50", "2% 6x"])
def test_marks_among_words_make_no_id(text):
    assert read_ids(text) is None


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("8 (I have a bike.)\nProvenance: 3 (We like soup.)\nProvenance: 5 (I eat 2 meals.)", "8"),
        ("8 (Has a degree, which matters (a bit))\n- Provenance: 9 (Watches films)", "8"),
        ("8 (Histamine intolerance)\n2. Provenance: 9 (Diabetes)\n3. Provenance: 4 (Wine)", "8"),
        ("5 (weight: 100 kg)\nProvenance: 4 (height)\n\nTo answer, I selected:\n\nProvenance: 5 (weight)", "5"),
        ("**8** (I have a bike.) \n\nProvenance: **3** (We like soup.)", "8"),
        ("Provenance: 8 (I have a bike.)\nProvenance: 3 (We like soup.)", "8"),
        ("Statement 8 [I have a bike.]\nStatement: 3 [We like soup.]", "8"),
        ("6 (This is because the user has experience.)\n\nThis will help me.", "6"),
        ('6. "I\'m lactose intolerant."\n2. Provenance: 7. "I\'m allergic."\n3. Provenance: 5. "I\'m vegetarian."', "6"),
        ("6: I can't drink milk.\nProvenance: 7: I can't eat soy.", "6"),
    ],
)
def test_the_first_line_is_the_choice_and_further_ones_are_told(text, ids):
    found = read_ids(text)
    assert found == [ids]
    assert bool(found.told) == ("rovenance" in text or "Statement:" in text)


def test_quotes_around_numbers_on_lines_lose_none():
    assert read_ids("'1'\nProvenance: '2'\nProvenance: '8'") == ["1", "2", "8"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("[" + ", ".join(map(str, range(1, 1500))), [str(number) for number in range(1, 1500)]),
        (", ".join(map(str, range(1, 1500))), [str(number) for number in range(1, 1500)]),
        ("{'3': \"I can't eat nuts\", '2': 'My balc", ["3"]),
        ('{"3": 0.9, "2": 0.', ["3"]),
        ('["3", "2: My balcony", "7: 10 ye', ["3", "2: My balcony"]),
        ('[{"id": 3, "why": "diet"}, {"id": 2, "why": "a, b', ["3"]),
        ("Statements [3, 2, 7, and", ["3", "2", "7"]),
        ("[3, 2, ...", ["3", "2"]),
        ("[3.0, 2.0, 7.", ["3", "2"]),
        ("1: I rent a flat., 2: My balcony faces north., 7: 10 years ago I moved to Oslo.", ["1", "2", "7"]),
    ],
)
def test_a_list_without_end_loses_nothing_that_it_named(text, ids):
    assert read_ids(text) == ids


def test_a_list_without_end_is_told():
    for form, read, text in (
        ("ids", read_ids, "{'3': 'nuts', '2': 'My balc"),
        ("scores", read_scores, '[{"id": 3, "score": 0.9}, {"id": 2, "sco'),
    ):
        chosen = choose(form, read(text), PTKB)
        assert len(chosen.statements) == 1
        assert chosen.dropped == ["a list that never ends"]
    assert read_ids('{"why": "diet", "also": "home", "ids": [') is None


@pytest.mark.parametrize(
    "text",
    [
        str(PTKB),
        json.dumps(PTKB),
        f"```json\n{json.dumps(PTKB, indent=1)}\n```",
        json.dumps([{"id": number, "statement": text} for number, text in PTKB.items()]),
        "\n".join(f"{number}: {text}" for number, text in PTKB.items()),
        "\n".join(f"- {number}. {text}" for number, text in PTKB.items()),
        ", ".join(f"{number}: {text}" for number, text in PTKB.items()),
    ],
)
def test_a_copy_of_the_whole_persona_chooses_all_and_is_told(text):
    chosen = choose("ids", read_ids(text), PTKB)
    assert sorted(number for number, _ in chosen.statements) == sorted(PTKB)
    assert chosen.dropped == ["nothing, but the answer copies the whole persona: all 4 statements are chosen"]
    assert choose("ids", read_ids("[1, 2, 3, 7]"), PTKB).dropped == []
    assert choose("ids", read_ids("{'1': 'the flat', '3': 'nuts'}"), PTKB).dropped == []
    for copies in (str(PTKB), json.dumps(list(PTKB.values())), "\n".join(PTKB.values())):
        chosen = choose("copies", read_copies(copies), PTKB)
        assert (len(chosen.statements), len(chosen.dropped)) == (4, 1)


PROSE = [
    "The relevant statements are 3, 5, and 7. Statement 1 is about cars and does not matter.",
    "Statement 3 matters for the 2 children; number 1 too.",
    "Statement 3 is relevant. Statement 5 is relevant too. Statement 1 is not.",
    "Statement 3 matters.\n\n2. Question: What else?\n   Provenance: [4]",
    "The relevant ones are 3 and 5.",
    "3 (the diet)\n\n1 is about cars.",
    "2 (I have 3 kids), 5 (Rome) and 7 (x)",
    "5 (2 kids)",
    "5, 6 (both about 3 diets)",
    "5 (he has (2) dogs), 7 (x)",
    "Statements: $2, $6",
    "$2\nand\n$6",
    "2 - 4",
]


@pytest.mark.parametrize("text", PROSE)
def test_sentences_remarks_and_ranges_are_no_list_and_no_shorter_one(text):
    assert read_ids(text) is None


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("[3, 5, 7", ["3", "5", "7"]),
        ("[3]\n[5]", ["3"]),
        ("5\n[6]\n7", ["5"]),
        ("5. The home.\n[5, 7]", ["5"]),
        ("4\n2. Provenance: 9\n3. Provenance: []", ["4"]),
        ("None.\n[3] is about cars.", []),
        ("[None]\n\n2. Response: Sure.\n   Provenance: [3]", []),
        ("Not relevant: [1]\nRelevant: [3]", ["3"]),
        ("[3]: nuts\n[1]: the flat", ["3"]),
        ("[8]\n2. Provenance: [4]\n3. Provenance: []", ["8"]),
        ("[8] \nProvenance: [8]\nProvenance: []", ["8"]),
        ("[8]\n\n[8] is about chips.\n\n- [9]", ["8"]),
        ("[] (no statement is needed)\n\n2. Response: Sure.\nProvenance: [1]", []),
    ],
)
def test_other_lists_behind_the_choice_are_told(text, ids):
    found = read_ids(text)
    assert found == ids
    assert len(found.told) == 1
    assert set(choose("ids", found, PTKB).dropped) >= set(found.told)


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


@given(NUMBERS, st.sampled_from(LISTS), st.lists(st.tuples(st.sampled_from(BEHIND), st.integers(1, 12)), max_size=4))
def test_nothing_behind_a_list_changes_it(ids, write, behind):
    assert read_ids(write(ids) + "".join(text.format(number) for text, number in behind)) == ids


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        ("A one.\nB two.", ["A one.", "B two."]),
        ("Here they are:\n\n1. A one.\n- B two.", ["1. A one.", "- B two."]),
        ("```\nA one.\n```", ["A one."]),
        ('["A one.", "B two."]', ["A one.", "B two."]),
        ("[]", []),
        ('["A one."]\n\nNot relevant: ["B two."]', ["A one."]),
        ("A one.\n\nNot relevant:\nB two.", ["A one."]),
        ("A one.\n\nQuestion: What else?\nB two.", ["A one."]),
        ("A one.\n\nProvenance: []", ["A one.", "Provenance: []"]),
        ('A one.\n\nThis is not relevant: ["B two."]', ["A one.", 'This is not relevant: ["B two."]']),
        ("{}", []),
        ("...", None),
        ("<think>A one.</think>", None),
    ],
)
def test_copies(text, copies):
    assert read_copies(text) == copies


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ('{"3": 0.9, "1": 0.4}', [("3", 0.9), ("1", 0.4)]),
        ('```json\n{"3": 0.9}\n```', [("3", 0.9)]),
        ('The nuts {matter}.\n\n{"3": 0.9}\nThe rest {} does not.', [("3", 0.9)]),
        ('{"scores": {"3": 0.9, "1": 0.4}}', [("3", 0.9), ("1", 0.4)]),
        ('[{"id": 3, "score": 0.9}, {"id": 1, "score": 0.4}]', [("3", 0.9), ("1", 0.4)]),
        ('{"id": 3, "relevance": 0.9}\n{"id": 1, "relevance": 0.4}', [("3", 0.9), ("1", 0.4)]),
        ('{"3": {"score": 0.9}}', [("3", {"score": 0.9})]),
        ('{"results": [{"id": 3, "score": 0.9}]}', [("3", 0.9)]),
        ('{"reason": "diet", "scores": {"3": 0.9}}', [("3", 0.9)]),
        ('{"3": 0.9, "1": {"why": "home"}}', [("3", 0.9), ("1", {"why": "home"})]),
        ("{'3': 0.9, '1': 0.4}", [("3", 0.9), ("1", 0.4)]),
        ("{3: 0.9, 1: .4,}", [("3", 0.9), ("1", 0.4)]),
        ("scores = [{'id': '3', 'score': 0.9, 'why': None}]", [("3", 0.9)]),
        ("{'3': {'score': 0.9, 'why': \"can't eat nuts\", 'sure': True}}", [("3", {"score": 0.9, "why": "can't eat nuts", "sure": True})]),
        ('{"3": 0.9}\n\nAnother user: {"1": 0.4}', [("3", 0.9)]),
        ('{}\n\nFor example {"1": 0.4} would be wrong.', []),
        ('None.\n\nQuestion: What else?\n{"1": 0.4}', []),
        ('[{"id": 3, "score": 0.9}]\n[{"id": 1, "score": 0.4}]', [("3", 0.9)]),
        ('[{"3": 0.9}, {"1": 0.4}]', [("3", 0.9), ("1", 0.4)]),
        ("{...}", None),
        ("{}", []),
        ("[]", []),
        ("None.", []),
        ("No statement is relevant here.", []),
        ("Statement 3 is relevant with 0.9.", None),
        ('{"3": 0.9, "1"', None),
        ("[3, 1]", None),
    ],
)
def test_scores(text, pairs):
    assert read_scores(text) == pairs


def test_ids_that_do_not_exist_are_dropped_and_repeats_count_once():
    statements, dropped = choose("ids", ["3", "12", "1", "3"], PTKB)
    assert statements == [("3", 1.0), ("1", 0.5)]
    assert dropped == ["no statement 12"]


def test_scores_are_cut_to_their_range_ordered_and_zero_is_left_out():
    found = [("1", 0.2), ("3", 1.3), ("2", -0.5), ("7", 0), ("12", 0.9), ("statement 1", 0.9)]
    statements, dropped = choose("scores", found, PTKB)
    assert statements == [("3", 1.0), ("1", 0.2)]
    assert dropped == ["score 1.3 of statement 3", "score -0.5 of statement 2", "no statement 12"]


@pytest.mark.parametrize("value", ["high", None, True, float("nan"), [0.5], {"why": "diet"}])
def test_what_is_no_score_is_dropped(value):
    statements, dropped = choose("scores", [("1", value), ("3", "0.5"), ("2", {"score": 0.7, "why": "light"})], PTKB)
    assert statements == [("2", 0.7), ("3", 0.5)]
    assert dropped == [f"score {value!r} of statement 1"]


def test_equal_scores_keep_the_models_order():
    assert choose("scores", [("3", 0.5), ("1", 0.5), ("2", 0.9)], PTKB).statements == [("2", 0.9), ("3", 0.5), ("1", 0.5)]


@pytest.mark.parametrize(
    ("copy", "number"),
    [
        ("My balcony faces north.", "2"),
        (" my Balcony\tfaces  north", "2"),
        ("2. My balcony faces north.", "2"),
        ("- (2) My balcony faces north!", "2"),
        ('"My balcony faces north."', "2"),
        ("**My balcony faces north.**", "2"),
        ("My balcony faces norths.", "2"),
        ("I can’t eat nuts and I carry an adrenaline pen", "3"),
        ("10 years ago I moved to Oslo.", "7"),
        ("7. 10 years ago, I moved to Oslo", "7"),
        ("Statement 2: my balcony faces north", "2"),
        ("- **PTKB 2:** My balcony faces north.", "2"),
        ("**2.** My balcony faces north.", "2"),
        ("`2 - My balcony faces north.`", "2"),
        ("> #2: My balcony faces north.", "2"),
        ("Statement 7: 10 years ago, I moved to Oslo", "7"),
        ("My balcony faces south and gets sun all day.", None),
        ("I rent a flat.", None),
        ("None", None),
        ("", None),
    ],
)
def test_a_copy_is_matched_exactly_then_normalised_then_fuzzily(copy, number):
    assert match_copy(copy, PTKB) == number


@pytest.mark.parametrize("form", ["Statement {}: {}", "PTKB {}: {}", "**{}: {}**", "**{}.** {}", "#{}: {}", "`{}: {}`", "{} - {}"])
def test_a_number_before_a_short_statement_does_not_hide_it(form):
    ptkb = {"11": "I like bacon.", "12": "I hike."}
    assert [match_copy(form.format(number, text), ptkb) for number, text in ptkb.items()] == ["11", "12"]


def test_similarity_of_nine_tenths_is_enough_and_less_is_not():
    # ratio = 2 * 9 / 20 = .9 for one letter in ten, 2 * 8 / 20 = .8 for two
    assert match_copy("abcdefghix", {"1": "abcdefghij"}) == "1"
    assert match_copy("abcdefghxy", {"1": "abcdefghij"}) is None


def test_of_two_similar_statements_the_exact_one_is_meant():
    ptkb = {"1": "I own a dog named Rex.", "2": "I own a dog named Max."}
    assert match_copy("I own a dog named Max.", ptkb) == "2"
    assert match_copy("i own a dog, named max", ptkb) == "2"


def test_copies_of_nothing_are_dropped_but_none_is_no_copy():
    copies = ["My balcony faces north.", "I love the sea.", "None of the others."]
    assert choose("copies", copies, PTKB) == ([("2", 1.0)], ["no statement I love the sea."])
    assert choose("copies", ["No nuts for me."], {"1": "No nuts for me."}).statements == [("1", 1.0)]


def test_copies_behind_none_are_not_chosen():
    assert choose("copies", read_copies("None.\n\n1. I rent a flat on the fourth floor.\nThat is all."), PTKB) == (
        [],
        ["behind 'none': 1. I rent a flat on the fourth floor."],
    )
    assert choose("copies", read_copies("None, except:\n- My balcony faces north."), PTKB) == ([("2", 1.0)], [])


@pytest.mark.parametrize(
    ("label", "number"),
    [
        ("3", "3"),
        (" #3 ", "3"),
        ("[3]", "3"),
        ("3. I can't eat nuts", "3"),
        ("statement 3", "3"),
        ("My balcony faces north", "2"),
        ("9", None),
    ],
)
def test_labels(label, number):
    assert match_label(label, PTKB) == number


def test_ids_need_not_be_numbers():
    ptkb = {"diet": "I am vegan.", "pet": "I own a dog."}
    assert choose("ids", read_ids('["pet", "car"]'), ptkb) == ([("pet", 1.0)], ["no statement car"])


@given(st.dictionaries(st.sampled_from("1234567"), st.text(min_size=1), max_size=7), st.data())
def test_every_statement_matches_itself_and_only_known_ids_come_out(ptkb, data):
    text = data.draw(st.text())
    for form, read in (("ids", read_ids), ("copies", read_copies), ("scores", read_scores)):
        numbers = [number for number, _ in choose(form, read(text) or [], ptkb).statements]
        assert set(numbers) <= set(ptkb)
        assert len(set(numbers)) == len(numbers)
    for statement in ptkb.values():
        found = match_copy(statement, ptkb)
        assert found is not None
        assert ptkb[found].strip() == statement.strip()


QUALITY = Path(__file__).parents[2] / "experiments" / "quality"


def measuring():
    """The script that holds readings against labels."""
    spec = importlib.util.spec_from_file_location("reading_statements", QUALITY / "reading_statements.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_readings_are_held_against_labels():
    script = measuring()
    completions = [
        {"qid": f"1-1_{turn}", "shots": 3, "completion": text} for turn, text in enumerate(["[3, 9]", "[3, 1", "[1]", "Sure!", "2"])
    ]
    labels = [{"qid": f"1-1_{turn}", "shots": 3, "ids": ids} for turn, ids in enumerate([["3", "9"], ["3"], ["3"], [], None])]
    found = script.read_all(completions, labels, {"1-1": PTKB})
    assert found == {
        "as labelled": ["1-1_0 (3 examples)"],
        "failure or counted rest": ["1-1_1 (3 examples)", "1-1_3 (3 examples)"],
        "silently wrong": ["1-1_2 (3 examples)", "1-1_4 (3 examples)"],
    }
    assert "silently wrong: 40.0%, at most 85.3%" in script.report(found)


@pytest.mark.parametrize(("errors", "bound"), [(0, 0.0183), (1, 0.0275), (4, 0.0504)])
def test_the_bound_is_the_one_at_which_so_few_errors_have_a_chance_of_a_fortieth(errors, bound):
    limit = measuring().upper_bound(errors, 200)
    chance = sum(math.comb(200, count) * limit**count * (1 - limit) ** (200 - count) for count in range(errors + 1))
    assert limit == pytest.approx(bound, abs=5e-5)
    assert chance == pytest.approx(0.025)


@pytest.mark.parametrize("path", sorted(QUALITY.glob("statements_*.jsonl")), ids=lambda path: path.stem)
def test_labels_hold_no_more_than_turn_shots_and_ids(path):
    labels = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len({(label["qid"], label["shots"]) for label in labels}) == len(labels) >= 60
    assert all(list(label) == ["qid", "shots", "ids"] for label in labels)


def test_statements_that_are_copied_on_one_line_all_count_with_or_without_full_stops():
    assert read_ids("1: I am vegan., 2: I own a dog.") == read_ids("1: I am vegan, 2: I own a dog") == ["1", "2"]
    assert read_ids("1: Peas, beans and rye, 3: I run at 7, 12: I read") == ["1", "3", "12"]
