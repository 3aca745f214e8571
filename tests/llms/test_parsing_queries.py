"""Queries among what a model writes about them, and texts which say that there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.texts import parse_queries
from pyterrier_ikat.completions.usable import is_refusal
from pyterrier_ikat.llms import StageError

QUERIES = (
    "vegan breakfast ideas",
    "nut free snacks",
    "quick oat recipes",
    "no sugar cake recipes",
    "queries for none of the above",
)
queries = st.lists(st.sampled_from(QUERIES), min_size=2, max_size=4, unique=True)
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
NUMBERS = ("{}. {}", "{}) {}", "{}. **{}**", '{}. "{}"', "Query {}: {}")


@given(queries, st.sampled_from(NUMBERS), st.sampled_from(EXPLANATIONS))
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
