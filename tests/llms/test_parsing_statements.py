"""What is made of the statements that a completion chooses."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_parsing import PTKB

from pyterrier_ikat.completions.statements import (
    choose,
    match_copy,
    read_copies,
    read_ids,
    read_scores,
)

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


ALL = "nothing, but the answer copies the whole persona: all 4 statements are chosen"
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
        ("ids", str(PTKB), [ALL]),
        ("ids", f"```json\n{json.dumps(PTKB, indent=1)}\n```", [ALL]),
        (
            "ids",
            json.dumps([{"id": number, "statement": text} for number, text in PTKB.items()]),
            [ALL],
        ),
        ("ids", "\n".join(f"{number}: {text}" for number, text in PTKB.items()), [ALL]),
        ("ids", "\n".join(f"- {number}. {text}" for number, text in PTKB.items()), [ALL]),
        ("ids", ", ".join(f"{number}: {text}" for number, text in PTKB.items()), [ALL]),
        ("ids", "[1, 2, 3, 7]", []),
        ("copies", str(PTKB), [ALL]),
        ("copies", json.dumps(list(PTKB.values())), [ALL]),
        ("copies", "\n".join(PTKB.values()), [ALL]),
    ],
)
def test_a_copy_of_the_whole_persona_chooses_all_and_is_told(form, text, told):
    chosen = choose(form, {"ids": read_ids, "copies": read_copies}[form](text), PTKB)
    assert (sorted(number for number, _ in chosen.statements), chosen.dropped) == (
        sorted(PTKB),
        told,
    )
    assert choose("ids", read_ids("{'1': 'the flat', '3': 'nuts'}"), PTKB).dropped == []


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


@given(st.dictionaries(st.sampled_from("1234567"), st.text(min_size=1), max_size=7), st.text())
def test_statements_match_themselves_and_only_known_ids_come_out(ptkb, text):
    for form, read in (("ids", read_ids), ("copies", read_copies), ("scores", read_scores)):
        chosen = choose(form, read(text) or [], ptkb)
        numbers = [number for number, _ in chosen.statements]
        assert set(numbers) <= set(ptkb)
        assert len(set(numbers)) == len(numbers)
    for statement in ptkb.values():
        assert ptkb[match_copy(statement, ptkb)].strip() == statement.strip()


QUALITY = Path(__file__).parents[2] / "experiments" / "quality"


def measuring():
    """The script that holds readings against labels."""
    spec = importlib.util.spec_from_file_location(
        "reading_statements", QUALITY / "reading_statements.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_readings_are_held_against_labels():
    script = measuring()
    completions = [
        {"qid": "1-1_0", "shots": 3, "completion": "[3, 9]"},
        {"qid": "1-1_1", "shots": 3, "completion": "[3, 1"},
        {"qid": "1-1_2", "shots": 3, "completion": "[1]"},
        {"qid": "1-1_3", "shots": 3, "completion": "Sure!"},
        {"qid": "1-1_4", "shots": 3, "completion": "2"},
    ]
    labels = [
        {"qid": "1-1_0", "shots": 3, "ids": ["3", "9"]},
        {"qid": "1-1_1", "shots": 3, "ids": ["3"]},
        {"qid": "1-1_2", "shots": 3, "ids": ["3"]},
        {"qid": "1-1_3", "shots": 3, "ids": []},
        {"qid": "1-1_4", "shots": 3, "ids": None},
    ]
    found = script.read_all(completions, labels, {"1-1": PTKB})
    assert found == {
        "as labelled": ["1-1_0 (3 examples)"],
        "failure or counted rest": ["1-1_1 (3 examples)", "1-1_3 (3 examples)"],
        "silently wrong": ["1-1_2 (3 examples)", "1-1_4 (3 examples)"],
    }
    assert "silently wrong: 40.0%, at most 85.3%" in script.report(found)


@pytest.mark.parametrize(("errors", "bound"), [(0, 0.0183), (1, 0.0275), (4, 0.0504)])
def test_the_bound_gives_so_few_errors_a_chance_of_a_fortieth(errors, bound):
    limit = measuring().upper_bound(errors, 200)
    chance = 0.0
    for count in range(errors + 1):
        chance += math.comb(200, count) * limit**count * (1 - limit) ** (200 - count)
    assert (limit, chance) == (pytest.approx(bound, abs=5e-5), pytest.approx(0.025))


@pytest.mark.parametrize(
    "path", sorted(QUALITY.glob("statements_*.jsonl")), ids=lambda path: path.stem
)
def test_labels_hold_no_more_than_turn_shots_and_ids(path):
    labels = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len({(label["qid"], label["shots"]) for label in labels}) == len(labels) >= 60
    assert all(list(label) == ["qid", "shots", "ids"] for label in labels)


@pytest.mark.parametrize(
    "copy", ["I own a dog.", "i own a DOG", "2) I own a dog", "I owned a dog."]
)
def test_of_equal_statements_the_first_is_named(copy):
    assert match_copy(copy, {"1": "I am vegan.", "2": "I own a dog.", "3": "I own a dog."}) == "2"
