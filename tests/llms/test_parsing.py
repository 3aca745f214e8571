"""Completions as models send them.

Each with the outcome decided by hand in ``completions.jsonl``, and rules that hold for any text.
"""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.learned import read_learned
from pyterrier_ikat.completions.reasoning import without_reasoning
from pyterrier_ikat.completions.statements import (
    match_copy,
    match_label,
    read_copies,
    read_ids,
    read_scores,
)
from pyterrier_ikat.completions.texts import (
    in_object,
    parse_passage,
    parse_queries,
    parse_rewrite,
    parse_rewrite_and_answer,
)
from pyterrier_ikat.completions.usable import LONGEST_REFUSAL, is_refusal, usable_text
from pyterrier_ikat.completions.verdicts import grade, parse_label, without_scale

PTKB = {
    "1": "I rent a flat on the fourth floor.",
    "2": "My balcony faces north.",
    "3": "I can't eat nuts, and I carry an adrenaline pen.",
    "7": "10 years ago I moved to Oslo.",
}
FILE = Path(__file__).with_name("completions.jsonl")
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def refuses(text):
    """Whether a text is a refusal.

    Then no parser finds anything in it; else it is kept as it is.
    """
    assert usable_text(f"<think>no</think>\n{text}") == ("" if is_refusal(text) else text)
    if is_refusal(text):
        assert [
            parse_rewrite(text),
            parse_passage(text),
            parse_queries(text),
            read_copies(text),
        ] == ["", "", [], None]
    return is_refusal(text)


READERS = {
    "ids": lambda text: None if (found := read_ids(text)) is None else [found, len(found.notes)],
    "copies": read_copies,
    "scores": lambda text: (
        None if (found := read_scores(text)) is None else [list(pair) for pair in found]
    ),
    "copy": lambda text: match_copy(text, PTKB),
    "label of a statement": lambda text: match_label(text, PTKB),
    "queries": parse_queries,
    "rewrites": parse_rewrite,
    "passages": parse_passage,
    "labels": parse_label,
    "grades": lambda text: (re.match(grade(4), text) or [None, None])[1],
    "refusals": refuses,
    "learned": read_learned,
}


@pytest.mark.parametrize(
    "rule", sorted({(case["parser"], case["rule"]) for case in CASES}), ids=": ".join
)
def test_every_completion_is_read_as_decided(rule):
    read = READERS[rule[0]]
    for case in CASES:
        if (case["parser"], case["rule"]) == rule:
            assert read(case["text"]) == case["outcome"], case


def test_lead_ins_and_repeats_are_left_out():
    assert parse_queries("Sure!\n1. oats\n2. rye\n3. Oats\n4. spelt", n=3) == [
        "oats",
        "rye",
        "spelt",
    ]


@given(st.text())
def test_any_text_gives_clean_lines_or_nothing(text):
    items = parse_queries(text, 3)
    assert len(items) == len({item.casefold() for item in items}) <= 3
    for item in items:
        assert item == " ".join(item.split())
        assert any(map(str.isalnum, item))
    assert parse_rewrite(text) == " ".join(parse_rewrite(text).split())
    assert not is_refusal(f"I cannot help with that request. Rooibos has no caffeine. {text}")


@given(
    st.lists(
        st.from_regex(r"[a-z]{3,8}( [a-z]{2,8}){1,5}", fullmatch=True),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
def test_a_numbered_list_of_plain_queries_is_read_back(queries):
    queries = [query for query in queries if not query.startswith(("query", "queries"))]
    lines = [f"{number}. {query}" for number, query in enumerate(queries, 1)]
    assert parse_queries("\n".join(lines)) == queries


@pytest.mark.parametrize(("text", "label"), [("Score (0-3): 2", 2), ("3/3", 3), ("4", None)])
def test_labels_on_another_scale(text, label):
    assert parse_label(text, highest=3) == label


def test_an_objects_text_is_under_the_first_ones_longest_key():
    name = re.compile("(rewritten )?query")
    assert in_object('{"query": "a", "rewritten_query": "b"} {"rewritten-query": "c"}', name) == "b"
    assert in_object('{"answer": "a", "query": 3} and {"queries": "b"}', name) is None


def test_thinking_that_was_never_closed_is_no_answer():
    assert without_reasoning("<think>so the user wants") == ""
    assert without_reasoning("so the user wants</think>\nOats.") == "Oats."


def test_a_long_text_is_no_refusal():
    refusal = "I cannot help with that request"
    assert is_refusal(refusal + " and so on" * 20)
    assert len(refusal + " and so on" * 30) > LONGEST_REFUSAL
    assert not is_refusal(refusal + " and so on" * 30)


def test_a_sign_belongs_to_the_number_unless_it_joins_two_words():
    assert re.match(grade(3), "-1")[1] == "-1"
    assert re.search(grade(3), "score-1")[1] == "1"


@pytest.mark.parametrize("scale", ["0-4", "0 - 4", "0–4", "0 to 4", "0 TO 4"])
def test_a_scale_that_is_repeated_is_taken_out(scale):
    assert without_scale(f"Score ({scale}): 2", 4) == "Score (): 2"
    assert without_scale(f"Score ({scale}): 2", 3) == f"Score ({scale}): 2"
    assert without_scale("10-4 and 0-4.5", 4) == "10-4 and 0-4.5"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Rewrite: Is tea safe?\nResponse: Yes.", ("Is tea safe?", "Yes.")),
        ("```\nRewrite: Is tea safe?\nResponse: Yes.\n```", ("Is tea safe?", "Yes.")),
        ("```\nRewrite: Is tea safe?\n```\nResponse: Yes.", ("Is tea safe?", "Yes.")),
        ("```\nRewrite: Is tea safe?\nResponse: I can't help with that.\n```", None),
        ("```\nRewrite: Is tea safe?\nResponse: None\n```", None),
        ("```text\nRewrite: N/A\n```\nResponse: Yes.", None),
        ("```text\nRewrite: None\n```\n```text\nResponse: Yes.\n```", None),
        ('```json\n{"rewrite": "Is tea safe?", "answer": "Yes."}\n```', ("Is tea safe?", "Yes.")),
        ('```json\n{"rewrite": "Is tea safe?"}\n```', None),
    ],
)
def test_a_fence_changes_nothing_in_a_rewrite_and_an_answer(text, read):
    assert parse_rewrite_and_answer(text) == read


@pytest.mark.parametrize("nothing", ["None", "N/A", "null.", "I'm sorry, but I can't help."])
def test_nothing_behind_a_label_or_lead_in_is_no_text(nothing):
    for lead_in in (
        "Rewrite: {}",
        "Here it is:\n{}",
        "```\nRewrite: {}\n```",
        '{{"rewrite": "{}"}}',
    ):
        assert parse_rewrite(lead_in.format(nothing)) == ""
    for lead_in in ("Answer: {}", "Here it is:\n{}", "```\nAnswer: {}\n```", '{{"answer": "{}"}}'):
        assert parse_passage(lead_in.format(nothing)) == ""
    assert parse_rewrite(f"Rewrite: Is {nothing} a tea") == f"Is {nothing} a tea"
