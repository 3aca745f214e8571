"""Completions as models send them.

Each with the outcome decided by hand in ``completions.jsonl``.
"""

import json
import re
from pathlib import Path

import pytest
from persona import PTKB

from pyterrier_ikat.completions.learned import read_learned
from pyterrier_ikat.completions.statements import (
    match_copy,
    match_label,
    read_copies,
    read_ids,
    read_scores,
)
from pyterrier_ikat.completions.texts import parse_passage, parse_queries, parse_rewrite
from pyterrier_ikat.completions.usable import is_refusal, usable_text
from pyterrier_ikat.completions.verdicts import grade, parse_label

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


def ids_and_notes(text):
    """The ids, and how many notes there are on them."""
    choice = read_ids(text)
    if choice is None:
        return None
    return [choice, len(choice.notes)]


def scores(text):
    choice = read_scores(text)
    if choice is None:
        return None
    return [list(pair) for pair in choice]


def level(text):
    """The level with which a text begins."""
    found = re.match(grade(4), text)
    if found is None:
        return None
    return found[1]


READERS = {
    "ids": ids_and_notes,
    "copies": read_copies,
    "scores": scores,
    "copy": lambda text: match_copy(text, PTKB),
    "label of a statement": lambda text: match_label(text, PTKB),
    "queries": parse_queries,
    "rewrites": parse_rewrite,
    "passages": parse_passage,
    "labels": parse_label,
    "grades": level,
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
