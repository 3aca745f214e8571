import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.completions.texts import in_object, parse_queries, parse_rewrite
from pyterrier_ikat.completions.usable import without_reasoning
from pyterrier_ikat.completions.verdicts import parse_label

LISTS = [
    ("1. vegan breakfast\n2. tofu scramble", ["vegan breakfast", "tofu scramble"]),
    ("1) vegan breakfast\n2) tofu scramble", ["vegan breakfast", "tofu scramble"]),
    ("- vegan breakfast\n- tofu scramble", ["vegan breakfast", "tofu scramble"]),
    ("* vegan breakfast\n• tofu scramble", ["vegan breakfast", "tofu scramble"]),
    ("vegan breakfast\n\n\ntofu scramble\n", ["vegan breakfast", "tofu scramble"]),
    ('1. "vegan breakfast"\n2. “tofu scramble”', ["vegan breakfast", "tofu scramble"]),
    ("Sure! Here are five queries:\n\n1. vegan breakfast\n2. tofu scramble\n\nI hope this helps!", ["vegan breakfast", "tofu scramble"]),
    ("Here are some queries:\nvegan breakfast\ntofu scramble", ["vegan breakfast", "tofu scramble"]),
    ("Query 1: vegan breakfast\nQuery 2: tofu scramble", ["vegan breakfast", "tofu scramble"]),
    ("Query: vegan breakfast", ["vegan breakfast"]),
    ("1. **vegan breakfast**\n2. *tofu scramble*", ["vegan breakfast", "tofu scramble"]),
    ('["vegan breakfast", "tofu scramble"]', ["vegan breakfast", "tofu scramble"]),
    ('```json\n["vegan breakfast", "tofu scramble"]\n```', ["vegan breakfast", "tofu scramble"]),
    ('{"queries": ["vegan breakfast", "tofu scramble"]}', ["vegan breakfast", "tofu scramble"]),
    ('[{"query": "vegan breakfast"}, {"query": "tofu scramble"}]', ["vegan breakfast", "tofu scramble"]),
    ("<think>1. not this</think>1. vegan breakfast", ["vegan breakfast"]),
    ("1. Vegan breakfast\n2. vegan BREAKFAST\n3. oats", ["Vegan breakfast", "oats"]),
    ("1. a1\n2. b2\n3. c3\n4. d4\n5. e5\n6. f6\n7. g7", ["a1", "b2", "c3", "d4", "e5"]),
    ("1. \n2. ...\n3. oats", ["oats"]),
    ("1. 2024 train strike dates\n2. 10 km run plan", ["2024 train strike dates", "10 km run plan"]),
    ("- 5 kg pack for hiking", ["5 kg pack for hiking"]),
    ("1. What is ISO 9001?", ["What is ISO 9001?"]),
    ("", []),
    ("   \n\n", []),
    ("[]", []),
    ("[1, 2]", []),
    ('1. tents ["light"]\n2. tarps [2024]', ['tents ["light"]', "tarps [2024]"]),
    ("best tents [2024]", ["best tents [2024]"]),
    ("['vegan breakfast', 'tofu scramble',]", ["vegan breakfast", "tofu scramble"]),
    ("[{'query': \"baker's rye\"}, {'query': 'oats'}]", ["baker's rye", "oats"]),
    ("I'm sorry, I cannot help with that.", []),
    ("1.) oats\n2.) rye", ["oats", "rye"]),
    ("10:30 train to Oslo\n1.5 km walk", ["10:30 train to Oslo", "1.5 km walk"]),
    ("{'queries': ['baker's rye', 'oa", []),
    ("「お茶」\n「麦茶」", ["お茶", "麦茶"]),
    ('vegan diets\n"Dune" book order\nketo plan', ["vegan diets", '"Dune" book order', "keto plan"]),
    ('vegan diets\n"eco atkins"', ["vegan diets", "eco atkins"]),
    ('vegan diets\n"eco atkins"\nketo plan', ["vegan diets", "eco atkins", "keto plan"]),
    ('"vegan diets"\n"eco atkins"\nThese two cover what you asked for.', ["vegan diets", "eco atkins"]),
]


@pytest.mark.parametrize(("text", "expected"), LISTS)
def test_query_lists_as_models_send_them(text, expected):
    assert parse_queries(text) == expected


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ('["oat milk", "rye"]\n\nUser: And tea?\n["mint tea"]', ["oat milk", "rye"]),
        ('["oat milk", "rye"]\n\nExplanation: [1] names the milk.', ["oat milk", "rye"]),
        ('["oat milk", "rye"]\n1. oat milk is for the diet\n2. rye is for the bread', ["oat milk", "rye"]),
        ('{"queries": ["oat milk", "rye"]}\n{"queries": ["mint tea"]}', ["oat milk", "rye"]),
        ('{"query": "oat milk"}\n{"query": "rye", "why": "bread"}', ["oat milk", "rye"]),
        ('{"queries": ["oat milk"]}\n{"queries": ["mint tea"]}', ["oat milk"]),
        ('{"reasons": ["the diet"], "queries": ["oat milk"]}', ["oat milk"]),
        ('{"queries": [{"text": "oat milk"}, {"text": "rye"}]}', ["oat milk", "rye"]),
        ('{"queries": []}\n\nNo queries are needed.', []),
        ('Based on [1] and [2]: ["oat milk", "rye"]', ["oat milk", "rye"]),
        ("oat [milk] drink\nrye", ["oat [milk] drink", "rye"]),
        ("[oat milk, rye]", []),
        ('{"query": "oat milk", "why": "because of the diet"}', ["oat milk"]),
        ("1. oat milk\n2. rye\n\nQuestion: And tea?\n1. mint tea", ["oat milk", "rye"]),
        ("[]\n\nNo queries are needed.", []),
        ('["oat milk", ["rye"]]', ["oat milk", "rye"]),
        ("Queries:\nQuestion: is rye safe?", ["Question: is rye safe?"]),
    ],
)
def test_the_first_list_of_queries_counts(text, queries):
    assert parse_queries(text) == queries


def test_lead_ins_and_repeats_are_left_out():
    assert parse_queries("Sure!\n1. oats\n2. rye\n3. Oats\n4. spelt", n=3) == ["oats", "rye", "spelt"]


@given(st.text())
def test_any_text_gives_at_most_n_distinct_clean_queries(text):
    items = parse_queries(text, 3)
    assert len(items) <= 3
    assert len({item.casefold() for item in items}) == len(items)
    assert all(item == " ".join(item.split()) and any(character.isalnum() for character in item) for item in items)


@given(st.lists(st.from_regex(r"[a-z]{3,8}( [a-z]{2,8}){1,5}", fullmatch=True), min_size=1, max_size=5, unique=True))
def test_a_numbered_list_of_plain_queries_is_read_back(queries):
    queries = [query for query in queries if not query.startswith(("query", "queries"))]
    text = "\n".join(f"{number}. {query}" for number, query in enumerate(queries, 1))
    assert parse_queries(text) == queries


REWRITES = [
    ("Is rooibos free of caffeine?", "Is rooibos free of caffeine?"),
    ('"Is rooibos free of caffeine?"', "Is rooibos free of caffeine?"),
    ("Rewritten query: Is rooibos free of caffeine?", "Is rooibos free of caffeine?"),
    ("**Rewritten question:** Is rooibos free of caffeine?", "Is rooibos free of caffeine?"),
    ("Sure! Here is the rewritten query:\n\n\"Is rooibos free of caffeine?\"\n\nI resolved 'it'.", "Is rooibos free of caffeine?"),
    ("Self-contained query: Is rooibos free of caffeine?\nExplanation: ...", "Is rooibos free of caffeine?"),
    ("<think>it = rooibos</think>\nIs rooibos free of caffeine?", "Is rooibos free of caffeine?"),
    ("```\nIs rooibos free of caffeine?\n```", "Is rooibos free of caffeine?"),
    ("Query optimisation: what is it?", "Query optimisation: what is it?"),
    ("Sure, here's the rewritten query: What tea?", "What tea?"),
    ("Certainly! Here’s a self-contained version of the question: What tea?", "What tea?"),
    ("**Here is the query:** What tea?", "What tea?"),
    ("The rewritten query is: What tea?", "What tea?"),
    ("Here is the query:", ""),
    ("The question of tea: what is it?", "The question of tea: what is it?"),
    ("I'm sorry, but I can't help with that.", ""),
    ("", ""),
    ("...", ""),
    ("**Rewritten query**\n\nIs rooibos free of caffeine?", "Is rooibos free of caffeine?"),
    ('{"query": "Is rooibos free of caffeine?"}', "Is rooibos free of caffeine?"),
    ("„Ist Rooibos koffeinfrei?“", "Ist Rooibos koffeinfrei?"),
    ('"rooibos" or "tea"', '"rooibos" or "tea"'),
    ("# Rewritten query", ""),
    ('{"query": ""}', ""),
]


@pytest.mark.parametrize(("text", "expected"), REWRITES)
def test_rewrites_as_models_send_them(text, expected):
    assert parse_rewrite(text) == expected


@given(st.text())
def test_any_text_is_read_as_one_line_or_nothing(text):
    query = parse_rewrite(text)
    assert query == " ".join(query.split())


LABELS = [
    ("3", 3),
    (" 0 ", 0),
    ("Score: 4", 4),
    ("Score: 3/4", 3),
    ("**Score:** 2", 2),
    ("3 out of 4", 3),
    ("I would give this passage a score of 2, because it names 3 shops.", 2),
    ("4.0", 4),
    ("<think>maybe 1</think>2", 2),
    ("The passage is relevant. 3", 3),
    ("3 or 4", None),
    ("5", None),
    ("12", None),
    ("2.5", None),
    ("not relevant", None),
    ("", None),
    ("-1", None),
    ("Score (0-4): 2", 2),
    ("Score: -1", None),
    ("Score: 2 out of 10", None),
    ("Score: 3/5", None),
    ("Score: 2 to 3", None),
    ("Score: 2,5", None),
    ("4%", None),
    ("2-3", None),
]


@pytest.mark.parametrize(("text", "expected"), LABELS)
def test_labels_as_models_send_them(text, expected):
    assert parse_label(text) == expected


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("3\n\nQuery: tea\nPassage: Mint.\nScore: 1", None),
        ("3\n\nPassage 2: Mint.\nRelevance: 3", 3),
        ("**3**\n\nIt names 2 sizes.", 3),
        ("1\n2\n3", None),
        ("Of 5 passages, this one is fine.\n3", None),
    ],
)
def test_a_label_alone_on_the_first_line_is_not_overruled_by_those_of_invented_passages(text, label):
    assert parse_label(text) == label


def test_labels_on_another_scale():
    assert parse_label("Score (0-3): 2", highest=3) == 2
    assert parse_label("3/3", highest=3) == 3
    assert parse_label("4", highest=3) is None


def test_the_text_in_an_object_is_under_the_longest_key_of_the_first_object():
    name = re.compile("(rewritten )?query")
    assert in_object('{"query": "a", "rewritten_query": "b"} {"rewritten-query": "c"}', name) == "b"
    assert in_object('{"answer": "a", "query": 3} and {"queries": "b"}', name) is None


def test_thinking_that_was_never_closed_is_no_answer():
    assert without_reasoning("<think>so the user wants") == ""
    assert without_reasoning("so the user wants</think>\nOats.") == "Oats."


@pytest.mark.parametrize("lead_in", ["Queries:", "Search queries:\n", "Here are the queries:"])
def test_a_label_before_a_json_list_is_no_query(lead_in):
    assert parse_queries(f'{lead_in}\n["oats", "rye"]') == ["oats", "rye"]
