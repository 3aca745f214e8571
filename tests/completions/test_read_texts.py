"""Rewrites, passages and queries in a completion."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
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
from pyterrier_ikat.completions.usable import is_refusal
from pyterrier_ikat.llms import StageError

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


def test_lead_ins_and_repeats_are_left_out():
    assert parse_queries("Sure!\n1. oats\n2. rye\n3. Oats\n4. spelt", n=3) == [
        "oats",
        "rye",
        "spelt",
    ]


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


def test_an_objects_text_is_under_the_first_ones_longest_key():
    name = re.compile("(rewritten )?query")
    assert in_object('{"query": "a", "rewritten_query": "b"} {"rewritten-query": "c"}', name) == "b"
    assert in_object('{"answer": "a", "query": 3} and {"queries": "b"}', name) is None


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


@pytest.mark.parametrize(
    ("text", "rewrite"),
    [
        ("Reason: r\nRewrite: a?", "a?"),
        ("Rewrite: a?\nResponse: b", "a?"),
        ("a?", "a?"),
        ("Reason: r", ""),
        ("Rewrite:\nReason: x", ""),
        ("Let me think.\nReason: r", ""),
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


@given(st.text())
def test_any_text_gives_clean_lines_or_nothing(text):
    items = parse_queries(text, 3)
    assert len(items) == len({item.casefold() for item in items}) <= 3
    for item in items:
        assert item == " ".join(item.split())
        assert any(map(str.isalnum, item))
    assert parse_rewrite(text) == " ".join(parse_rewrite(text).split())
    assert not is_refusal(f"I cannot help with that request. Rooibos has no caffeine. {text}")


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


PLAIN_QUERIES = (
    "vegan breakfast ideas",
    "nut free snacks",
    "quick oat recipes",
    "no sugar cake recipes",
    "queries for none of the above",
)
queries = st.lists(st.sampled_from(PLAIN_QUERIES), min_size=2, max_size=4, unique=True)
EXPLANATIONS = (
    "   - This covers the diet.",
    "   * This covers the diet.",
    "   • This covers the diet.",
    "\t- This covers the diet.",
    "   - **Rationale:** the diet",
    "   Explanation: the diet",
    "Rationale: the diet",
    "- Reason: the diet",
    "   - The diet.\n   - The allergy.\n      - And its cause.",
)
NUMBERINGS = ("{}. {}", "{}) {}", "{}. **{}**", '{}. "{}"', "Query {}: {}")


@given(queries, st.sampled_from(NUMBERINGS), st.sampled_from(EXPLANATIONS))
def test_what_explains_a_query_is_none(texts, number, explanation):
    lines = []
    for place, text in enumerate(texts, 1):
        lines += [number.format(place, text), explanation]
    assert parse_queries("\n".join(lines)) == texts


@given(queries, st.sampled_from([one for one in EXPLANATIONS if one != "- Reason: the diet"]))
def test_what_explains_a_bulleted_query_is_none(texts, explanation):
    assert parse_queries("\n".join(f"- {text}\n{explanation}" for text in texts)) == texts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "1. Diet:\n   - vegan breakfast\n   - tofu\n2. Cost:\n   - cheap tofu",
            ["vegan breakfast", "tofu", "cheap tofu"],
        ),
        ("1. oats\n   2. rye\n   3. spelt", ["oats", "rye", "spelt"]),
        ("- oats\n  - rye\n  - spelt", ["oats", "rye", "spelt"]),
        ("1. oats\n- rye", ["oats", "rye"]),
        ('[{"q": "oat milk", "why": "diet"}, {"q": "rye", "why": "gluten"}]', ["oat milk", "rye"]),
        ("1. oat milk\n2. No further queries are needed.", ["oat milk"]),
        ("No queries are needed, but these may help:\n1. oat milk\n2. rye", ["oat milk", "rye"]),
        ("There are no further queries needed.\n1. oat milk", ["oat milk"]),
    ],
)
def test_indented_queries_and_lists_behind_a_denial_stay(text, found):
    assert parse_queries(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "I can't think of any query.",
        "I cannot come up with any further search queries for this question.",
        "I am unable to think of any relevant queries.",
        "I don’t have any queries.",
        "There are no further queries needed.",
        "There's no query that would help.",
        "No queries are needed because the answer is in the conversation.",
        "No queries.",
        "**No search needed.**",
        "No suitable queries could be generated.",
        "The question does not require any search queries.",
        "There is no need to search.",
        "No queries are needed. The answer is above.\n\nThe user only says thanks.",
    ],
)
def test_a_text_that_says_there_is_no_query_is_a_refusal(text):
    assert is_refusal(text)
    assert parse_queries(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "no sugar cake recipes",
        "queries for none of the above",
        "no query results in mysql",
        "no queries shown in slow query log",
        "no searches found for police records",
        "I can't find any query letter examples",
        "why the library doesn't need a query builder",
        "no search engine optimisation needed for blogs",
        "there are no bad dogs book",
        "no need for speed game",
        "not applicable tax form",
        "nothing compares to you lyrics",
    ],
)
def test_a_query_that_looks_like_a_denial_stays(text):
    assert not is_refusal(text)
    assert parse_queries(text) == [text]


def test_a_turn_whose_model_has_no_query_fails():
    class Model:
        def generate(self, chats):
            return ["I can't think of any query."] * len(chats)

    turn = ikat.conversation([{"role": "user", "content": "Thanks!"}])
    with pytest.raises(StageError, match="refused"):
        ikat.Queries(ikat.llm(Model()))(turn)


def test_none_is_needed_is_no_refusal_for_other_stages():
    assert not is_refusal("None needed.")
    assert parse_queries("None needed.") == []
