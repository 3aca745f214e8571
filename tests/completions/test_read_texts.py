"""Rewrites, passages, queries and labels in a completion: worked out by hand."""

import re

import pytest

from pyterrier_ikat.completions.texts import (
    distinct_queries,
    in_object,
    parse_answer_and_queries,
    parse_chosen_rewrite,
    parse_level,
    parse_new_topic,
    parse_passage,
    parse_queries,
    parse_reasoned_rewrite,
    parse_rewrite,
    parse_rewrite_and_answer,
)

LOOP = "ab " * 60

QUERIES = {
    "1. a\n2) b\n(3) c\n- d\n* e\nf": ["a", "b", "c", "d", "e"],
    'a\n"b"\n"c"': ["b", "c"],
    '"a"\nb': ["a", "b"],
    '"a",\n"b"': ["a", "b"],
    "a\nb:\nc：\nd": ["a", "d"],
    'Sure:\n["a", "b"]\nx': ["a", "b"],
    '{"queries": ["a", {"query": "b"}], "why": "c"}': ["a", "b"],
    '{"query": "a", "other": "b"}': ["a"],
    '{"a": "x", "reason": "w", "b": ["y"]} {"c": "z"}': ["x", "y"],
    '[{"query": "a"}, {"query": "b", "reason": "c"}] ["d"]': ["a", "b"],
    '{"query": "a"}\n{"query": "b"}\n["c"]': ["a", "b"],
    '{"query": ["a"]}\n{"query": "b"}': ["a"],
    '{"x": 1}\n["a"]': ["a"],
    '[["a"], ["b"]]': ["a", "b"],
    "1. a [1]\n2. b": ["a [1]", "b"],
    '["a", "b': [],
    'Sure:\n["a", "b': [],
    'Sure ["a"; "b': ['Sure ["a"; "b'],
    "x [1] y": ["x [1] y"],
    "[1, 2]": [],
    "[]": [],
    '{"note": "x", "intent": "y"}': [],
    "a\nA\nb": ["a", "b"],
    "1. a\n   - because\n2. b": ["a", "b"],
    "1. a\n   1. b": ["a", "b"],
    "- a\n  - b": ["a", "b"],
    "- a\n- b\n  - c\n- d": ["a", "b", "d"],
    "- a\n- b\n  - c\n    - e\n  - d": ["a", "b"],
    "1. Head:\n   - a\n   - b": ["a", "b"],
    "- Head:\n\t- a\n- Head two:\n\t- b": ["a", "b"],
    "1. a\nRationale: x\n**Reason:** y\n2. b": ["a", "b"],
    "a\nWhy: x": ["a"],
    "tea one\ntea one\ntea o": ["tea one"],
    "tea one\ntea one\ntea x": ["tea one", "tea x"],
    "tea\ntea\nte\nx": ["tea", "te", "x"],
    "1. 1. a": ["a"],
    "Query 1: a\nquery: b\nSearch query 2) c": ["a", "b", "c"],
    "**a**\n_b_  c": ["a", "b_ c"],
    '1. "a"  b': ['"a" b'],
    "- No queries needed": [],
    "<think>x</think>```\n1. a\n```": ["a"],
    "1. a\n\n2. Question: x\n3. c": ["a"],
    "1.5 tea\n100. a": ["1.5 tea", "100. a"],
    "Tea one\ntea one\nTEA o": ["Tea one"],
    "rye\ntea one\ntea one\ntea o": ["rye", "tea one"],
    "tea a\ntea one\ntea o": ["tea a", "tea one", "tea o"],
    "1. a\n   - because": ["a"],
    'Try ["a", "b"]': ["a", "b"],
    '-  \n["a"]': ["a"],
    'Sure:\n["a", ["b"], "c': [],
    "1. 1. 1. a": ["1. a"],
    "None": [],
    '1. tea ["a"]\n2. b': ['tea ["a"]', "b"],
    '{"Queries": ["a"], "other": "b"}': ["a"],
    '["**a**", "b  c"]': ["a", "b c"],
    "a\na": ["a"],
    "1. tea one\n2. tea one\n3. tea o": ["tea one"],
    "1. Head:\n   - a\n      - why\n   - b": ["a", "b"],
    "- Head:\n   - a\n\t- why\n   - b": ["a", "b"],
    "```text\na\nb\n```": ["a", "b"],
    '1. ** "a" **': ["a"],
    "a\n**b:**\nc": ["a", "c"],
    'a\n  "b"\n  "c"': ["b", "c"],
}


@pytest.mark.parametrize("text", QUERIES)
def test_the_queries_of_a_list_are_read(text):
    assert parse_queries(text, None) == QUERIES[text]


def test_the_first_queries_are_kept():
    assert parse_queries("a\nb\nc\nd\ne\nf") == ["a", "b", "c", "d", "e"]
    assert parse_queries("a\nb\nc", 2) == ["a", "b"]
    assert parse_queries("a\nA\nb", 2) == ["a", "b"]
    assert distinct_queries(["Tea", "-", "tea", "b", "No queries needed."]) == ["Tea", "b"]


REWRITES = {
    "Is it?": "Is it?",
    "Rewrite: Is it?": "Is it?",
    "**Rewritten question:** Is it?": "Is it?",
    "Here is the rewritten query:\n\nIs it?": "Is it?",
    "Sure! Here it comes:\nIs it?": "Is it?",
    'Rewritten query: "Is it?"\n\nI resolved "it".': "Is it?",
    "The final query is: x": "x",
    "Query would be: x": "x",
    "Question: Rewrite: x": "Rewrite: x",
    "Rewrite\nIs it?": "Is it?",
    "Is it:": "Is it:",
    "Is it:\nReally": "Really",
    "...\nIs it?": "Is it?",
    "```\nIs it?\n```": "Is it?",
    '{"question": "a", "rewritten_question": "b"}': "b",
    "None": "",
    "query": "",
    "...": "",
    LOOP: "",
    f"{LOOP}\nIs it?": "",
    "<think>a</think>": "",
    "Sure：\nIs it?": "Is it?",
    "Rewrite: None": "",
    '** "Is it?" **': "Is it?",
    "```text\nIs it?\n```": "Is it?",
}


@pytest.mark.parametrize("text", REWRITES)
def test_a_rewrite_is_the_first_line_that_is_a_query(text):
    assert parse_rewrite(text) == REWRITES[text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"message": "a", "rewritten_message": "b"}', "b"),
        ('{"rewritten_message": "a", "message": "b"}', "a"),
        ('{"message": "a"}\n{"message": "b"}', "a"),
        ('{"message": "a"}\n[1]\n{"rewritten message": "b"}', "b"),
        ('{"message": "I can\'t help with that."}', ""),
        ('{"message": ""}', ""),
        ('{"Message": 1, "message": "a"}', "a"),
        ('{"message": 1}', None),
        ('{"old message id": "a"}', None),
        ('{"other": "a"}', None),
        ('x {"message": "a"}', None),
        ("none", None),
    ],
)
def test_a_value_in_an_object_has_the_longest_key(text, value):
    assert in_object(text, re.compile("(rewritten )?message", re.IGNORECASE)) == value


BOTH = {
    "Rewrite: a?\nResponse: b\nc": ("a?", "b c"),
    "Reason: x\n**Rewrite**: a?\n> Answer: b": ("a?", "b"),
    "Rewrite: a?\nReason: x\nResponse: b": ("a?", "b"),
    "Rewrite: a?\nRewrite: c?\nResponse: b": ("a?", "b"),
    "Rewrite: a?\nResponse: b\nResponse: c": ("a?", "b Response: c"),
    "```\nRewrite: a?\nReply: b\n```": ("a?", "b"),
    '{"rewrite": "a?", "answer": "b"}': ("a?", "b"),
    '{"rewrite": "a?"}': None,
    '{"answer": "a?"}': None,
    "Rewrite: a?": None,
    "Response: b": None,
    "Response: b\nRewrite: a?": None,
    "Rewrite:\nResponse: b": None,
    "Rewrite: a?\nResponse: ": None,
    '**Rewrite**: "a?"\n\nI resolved it.\nResponse: b': ("a?", "b"),
    "Rewrite:\nReason: x\nResponse: b": None,
}


@pytest.mark.parametrize("text", BOTH)
def test_a_rewrite_and_an_answer_stand_behind_their_labels(text):
    assert parse_rewrite_and_answer(text) == BOTH[text]


@pytest.mark.parametrize(
    ("text", "rewrite"),
    [
        ("Reason: r\nRewrite: a?", "a?"),
        ("Rewrite: a?\nResponse: b", "a?"),
        ("a?", "a?"),
        ("Reason: r", ""),
        ("Rewrite:\nReason: x", ""),
        ('Reason: r\nRewrite: "a?"', "a?"),
        ("Reason: r\nRewrite:", ""),
    ],
)
def test_a_rewrite_may_have_a_reason_before_it(text, rewrite):
    assert parse_reasoned_rewrite(text) == rewrite


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Response: b\nQueries: 1. q\n2. r", ("q r", "b")),
        ("Response: b\nQuery: q", ("q", "b")),
        ("Response: b\nQUERIES: q", ("q", "b")),
        ("Response: b\nQueries: q\nReason: x", ("q", "b")),
        ("Response: b\nQueries: q\nQueries: r", ("r", "b Queries: q")),
        ("Answer: b\nResponse: c\nQueries: q", ("q", "b Response: c")),
        ("Queries: q\nResponse: b", None),
        ("Response: b", None),
        ("Queries: q", None),
        ("Response: \nQueries: q", None),
        ("Response: b\nQueries: No queries needed.", None),
    ],
)
def test_queries_stand_behind_an_answer(text, read):
    assert parse_answer_and_queries(text) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Statements: [2, 5]\nRewrite: a?\nResponse: b.", ("a?", "b.", ["2", "5"])),
        ("Statements: None.\nRewrite: a?\nResponse: b.", ("a?", "b.", [])),
        ("Provenance: 2\nRewrite: a?\nResponse: b", ("a?", "b", ["2"])),
        ("Statements: 2\nStatement: 3\nRewrite: a?\nResponse: b", ("a?", "b", ["2", "3"])),
        ("Rewrite: a?\nResponse: b\nStatements: 3", ("a?", "b Statements: 3", ["3"])),
        ("Rewrite: a?\nResponse: 3", None),
        ("Statements: x\nRewrite: a?\nResponse: b", None),
        ("Statements: 2\nRewrite: a?", None),
    ],
)
def test_a_rewrite_names_the_statements_that_it_uses(text, read):
    assert parse_chosen_rewrite(text) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Level: A\nRewrite: a?", ("a", "a?")),
        ("LEVEL: a\nRewrite: a?", ("a", "a?")),
        ("Reason: r\n**Level:** C (best)\nRewrite: a?", ("c", "a?")),
        ("Level: a\nLevel: a\nRewrite: a?", ("a", "a?")),
        ("Level: a\nLevel: c\nRewrite: a?", None),
        ("Level: a or b\nRewrite: a?", None),
        ("Level: d\nRewrite: a?", None),
        ("Level: x\na\nRewrite: a?", None),
        ("Rewrite: a?", None),
        ("Level: b", None),
    ],
)
def test_a_level_stands_before_its_rewrite(text, read):
    assert parse_level(text) == read


@pytest.mark.parametrize(
    ("text", "is_new"),
    [
        ("New topic.", True),
        ("no, new topic", True),
        ("same", False),
        ("The old topic", False),
        ("existing_topic", False),
        ("not new", None),
        ("<think>Not a new topic? It is.</think>New topic.", True),
        ("It isn't the same topic", None),
        ("new or old", None),
        ("tea", None),
    ],
)
def test_a_topic_is_new_or_the_same(text, is_new):
    assert parse_new_topic(text) is is_new


PASSAGES = {
    "Style: blog\n\nPassage: Oats.\nKeep.": "Oats. Keep.",
    "Style: blog": "",
    "[Style: blog] Oats": "Oats",
    "Here you are:\n Oats.": "Oats.",
    "Oats are good for:\n1. a\n2. b": "Oats are good for: 1. a 2. b",
    "Oats are good for:": "Oats are good for:",
    "1. Oats:\nRye": "1. Oats: Rye",
    "**Passage**\n\nOats": "Oats",
    "Answer: Passage: x": "Passage: x",
    "Here:\n## Title:\nOats.": "Oats.",
    "Here:\n*Title:*\n- a": "Here: *Title:* - a",
    "Here:\na:\nb:\nc:\n- d": "a: b: c: - d",
    "A:\nB:\nOats.": "Oats.",
    f"{'x' * 119}:\nOats": "Oats",
    f"{'x' * 120}:\nOats": f"{'x' * 120}: Oats",
    f"{'é' * 60}:\nOats": f"{'é' * 60}: Oats",
    '"Oats."': "Oats.",
    '"Oats" and "rye"': '"Oats" and "rye"',
    "'Oats'": "'Oats'",
    "「Oats」": "Oats",
    '{"passage": "Oats."}': "Oats.",
    '{"passage": "", "note": "Oats."}': "",
    "None": "",
    "...": "",
    LOOP: "",
    "Text: I can't help with that.": "",
    "```\nOats.\n```": "Oats.",
}


@pytest.mark.parametrize("text", PASSAGES)
def test_a_passage_is_one_line_without_what_leads_to_it(text):
    assert parse_passage(text) == PASSAGES[text]


def test_a_lead_in_may_have_a_lone_surrogate():
    assert parse_passage("Here\ud800:\nOats.") == "Oats."


@pytest.mark.parametrize(
    "text",
    [
        "```\nRewrite: a tea?\nResponse: Mint.\n```",
        "Rewrite: a tea?\n```\nResponse: Mint.\n```",
        "Rewrite:\n```\na tea?\n```\nResponse:\n```\nMint.\n```",
    ],
)
def test_fences_are_no_part_of_a_rewrite_or_an_answer(text):
    assert parse_rewrite_and_answer(text) == ("a tea?", "Mint.")
