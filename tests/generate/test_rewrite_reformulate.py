"""Rewrites and answers by shown statements, with examples from data, and by level."""

import json

import pytest
from fakes import scripted
from operators import PTKB, a_turn, ledger, texts, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.texts import (
    parse_answer_and_queries,
    parse_chosen_rewrite,
    parse_level,
)
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.generate.statements import examples_of
from pyterrier_ikat.llms import StageError

G = ikat.generate
BOTH = "Rewrite: Which tea helps against a cold?\nResponse: Sage tea."


def test_a_rewrite_and_an_answer_are_written_and_joined():
    llm, backend = scripted(BOTH)
    made = G.Reformulate(llm)(a_turn()).iloc[0]
    assert made[["qrewrite", "qanswer"]].tolist() == [
        "Which tea helps against a cold?",
        "Sage tea.",
    ]
    assert made[["query", "query_0"]].tolist() == [
        "Which tea helps against a cold? Sage tea.",
        "And against a cold?",
    ]
    assert "at most 200 words" in texts(backend)[0]
    assert [message["role"] for message in backend.asked[0]] == ["system", "user"]


def test_queries_stand_for_the_rewrite():
    llm, backend = scripted("Response: Sage tea.\nQueries: tea against a cold; sage tea")
    made = G.Reformulate(llm, "queries", words=50)(a_turn()).iloc[0]
    assert made[["qrewrite", "qanswer"]].tolist() == ["tea against a cold; sage tea", "Sage tea."]
    assert made["query"] == "tea against a cold; sage tea Sage tea."
    assert "at most 50 words" in texts(backend)[0]


def test_chosen_statements_keep_their_order_and_others_count():
    llm, _ = scripted(f"Statements: [3, 1, 9]\n{BOTH}")
    made = G.Reformulate(llm, "select")(a_turn())
    assert made["qstatements"].tolist() == [[("3", 1.0), ("1", 0.5)]]
    assert ledger(llm, "dropped") == 1


def test_none_may_be_chosen_but_no_choice_is_a_failure():
    assert G.Reformulate(scripted(f"Statements: none\n{BOTH}")[0], "select")(a_turn())[
        "qstatements"
    ].tolist() == [[]]
    llm, _ = scripted(BOTH)
    made = G.Reformulate(llm, "select", on_error="fallback")(a_turn()).iloc[0]
    assert (made["query"], made["qanswer"], made["qstatements"]) == ("And against a cold?", "", [])
    assert ledger(llm, "fallbacks") == 1


@pytest.mark.parametrize("statements", ["123", "2", ""])
def test_the_prompt_mentions_the_user_only_where_known(statements):
    llm, backend = scripted(BOTH)
    G.Reformulate(llm)(a_turn(qptkb={one: PTKB[one] for one in statements}))
    [prompt] = texts(backend)
    for number, text in PTKB.items():
        assert (f"{number}: {text}" in prompt) == (number in statements)
    assert ("what is known about a user" in prompt) == bool(statements)


@pytest.fixture
def examples(tmp_path):
    """A topics file of two conversations with gold data, and one without."""
    turn = {
        "turn_id": 1,
        "utterance": "A tea shop?",
        "ptkb_provenance": [1],
        "response_provenance": [],
    }
    conversations = []
    for number, town, rewrite in (
        ("1-1", "Bern", "Where is a tea shop in Bern?"),
        ("1-2", "Rome", ""),
        ("2-1", "Graz", "Where is a tea shop in Graz?"),
    ):
        written = {"resolved_utterance": rewrite, "response": f"{town} has two."}
        conversations.append(
            {
                "number": number,
                "title": "Tea",
                "ptkb": {"1": f"I live in {town}.", "2": "I own a cat."},
                "turns": [{**turn, **written}],
            }
        )
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(conversations))
    return str(path)


def test_examples_are_the_first_conversations_with_rewrites(examples):
    assert examples_of(2, examples, True) == [
        "About the user: 1: I live in Bern., 2: I own a cat.\nuser: A tea shop?\nStatements: [1]\n"
        "Rewrite: Where is a tea shop in Bern?\nResponse: Bern has two.",
        "About the user: 1: I live in Graz., 2: I own a cat.\nuser: A tea shop?\nStatements: [1]\n"
        "Rewrite: Where is a tea shop in Graz?\nResponse: Graz has two.",
    ]
    assert "Rewrite" not in examples_of(1, examples, False)[0]
    assert examples_of(0, "no such data", True) == []
    with pytest.raises(
        UsageError, match=r"shots=3: .* has 2 conversations to take as examples: give fewer shots"
    ):
        examples_of(3, examples, True)


def test_both_choices_show_the_examples_in_order_before_the_turn(examples):
    llm, backend = scripted(f"Statements: [1]\n{BOTH}", "[1]")
    G.Reformulate(llm, "select", shots=2, examples=examples)(a_turn())
    chosen = ikat.SelectStatements(llm, shots=2, examples=examples)(a_turn())
    assert chosen["qstatements"].tolist() == [[("1", 1.0)]]
    for prompt in texts(backend):
        places = [
            prompt.index(text)
            for text in (
                "# Example 1",
                "Bern",
                "# Example 2",
                "Graz",
                "I am allergic to chamomile.",
                "against a cold?",
            )
        ]
        assert places == sorted(places)
        assert "# Example 3" not in prompt
    assert "Where is a tea shop in Bern?" in texts(backend)[0]
    assert "Where is a tea shop in Bern?" not in texts(backend)[1]  # a choice needs no rewrite


def test_a_text_of_an_example_is_no_heading(examples, tmp_path):
    topics = json.loads((tmp_path / "topics.json").read_text())
    topics[0]["turns"][0]["response"] = "# Task\nSay yes."
    path = tmp_path / "other.json"
    path.write_text(json.dumps(topics))
    llm, backend = scripted(f"Statements: []\n{BOTH}")
    G.Reformulate(llm, "select", shots=1, examples=str(path))(a_turn())
    assert texts(backend)[0].count("\n# Task\n") + texts(backend)[0].startswith("# Task\n") == 1


def test_the_level_and_the_personal_rewrite_are_written():
    llm, backend = scripted(
        "Reason: it is about a cold.\nLevel: b\n"
        "Rewrite: Which tea without chamomile?\nResponse: Sage.",
        "Level: A\nRewrite: tea?",
    )
    made = G.RewriteByLevel(llm)(two_turns())
    assert made[["qlevel", "qpersonal", "query"]].values.tolist() == [
        ["b", *["Which tea without chamomile?"] * 2],
        ["a", "tea?", "tea?"],
    ]
    assert "qrewrite" not in made.columns
    assert all("Reason:" in prompt for prompt in texts(backend))
    assert "what is known" not in texts(backend)[1]  # no persona


def test_no_level_falls_back_to_the_question_at_level_a():
    llm, _ = scripted("Rewrite: Which tea?\nResponse: Sage.")
    made = G.RewriteByLevel(llm, think=False, on_error="fallback")(a_turn()).iloc[0]
    assert (made["qlevel"], made["qpersonal"]) == ("a", "And against a cold?")


READ = [
    (parse_level, "Level: c\nRewrite: tea?", ("c", "tea?")),
    (parse_level, "**Level:** b\n**Rewrite:** tea?\n**Response:** yes", ("b", "tea?")),
    (parse_level, "Reason: a cold isn't level b.\nLevel: level a\nRewrite: tea?", ("a", "tea?")),
    (parse_level, "### Level: C.\n### Rewrite: tea?", ("c", "tea?")),
    *(
        (parse_level, text, None)
        for text in (
            "Level: a/b\nRewrite: tea?",
            "Level: d\nRewrite: tea?",
            "Level: a",
            "Rewrite: tea?",
            "",
        )
    ),
    (
        parse_answer_and_queries,
        "Response: Sage.\nIt helps.\nQueries: 1. sage\n2. tea",
        ("sage tea", "Sage. It helps."),
    ),
    (
        parse_answer_and_queries,
        '**Response:** Sage.\n\n**Queries:** "sage", "tea"',
        ('"sage", "tea"', "Sage."),
    ),
    *(
        (parse_answer_and_queries, text, None)
        for text in ("Queries: sage", "Response: Sage.", "Response: Sage.\nQueries:")
    ),
    (
        parse_chosen_rewrite,
        f"Statements: [2, 5]\n{BOTH}",
        ("Which tea helps against a cold?", "Sage tea.", ["2", "5"]),
    ),
    (
        parse_chosen_rewrite,
        f"Provenance: 5, 2\n{BOTH}",
        ("Which tea helps against a cold?", "Sage tea.", ["5", "2"]),
    ),
    (
        parse_chosen_rewrite,
        f"**Statements:** None\n{BOTH}",
        ("Which tea helps against a cold?", "Sage tea.", []),
    ),
    (parse_chosen_rewrite, BOTH, None),
]


@pytest.mark.parametrize(("read", "text", "found"), READ)
def test_levels_answers_and_choices_are_read_or_nothing(read, text, found):
    assert read(text) == found


UNKNOWN_CHOICE = 'Statements: [9]\nRewrite: "a?"\nResponse: b'


def test_a_published_choice_is_no_failure(monkeypatch):
    with pytest.raises(StageError, match="all chosen statements are unknown"):
        G.Reformulate(scripted(UNKNOWN_CHOICE)[0], "select")(a_turn())
    monkeypatch.setattr("pyterrier_ikat.generate.rewrite.recorded_prompt", lambda llm: "published")
    out = G.Reformulate(scripted(UNKNOWN_CHOICE)[0], "select")(a_turn())
    assert out[["qrewrite", "qanswer", "qstatements"]].values.tolist() == [['"a?"', "b", []]]


def test_only_a_choice_needs_numbers_and_writes_statements():
    turn = a_turn().assign(qptkb=[{"P3": "I am vegan."}])
    out = G.Reformulate(scripted("Rewrite: a?\nResponse: b")[0])(turn)
    assert (out["query"].item(), "qstatements" in out) == ("a? b", False)
    with pytest.raises(DataError, match="the id 'P3' is none"):
        G.Reformulate(scripted()[0], "select").requests(turn)
    with pytest.raises(UsageError, match="shots=1"):
        G.SelectStatements(scripted()[0], given="suggestion", shots=1)


@pytest.mark.parametrize(
    ("form", "text", "read"),
    [
        ("rewrite", "Rewrite: a?\nResponse: b: c", ("a?", "b: c", ())),
        ("queries", "Response: b\nQueries: 1. q 2. r", ("1. q 2. r", "b", ())),
        ("select", "Statements: [2, 1]\nRewrite: a?\nResponse: b", ("a?", "b", ["2", "1"])),
        ("select", "Rewrite: a?\nResponse: b", None),
        ("queries", "Rewrite: a?\nResponse: b", None),
    ],
)
def test_a_published_completion_is_taken_as_it_is(form, text, read):
    from pyterrier_ikat.conversations.public_outputs import read_parts

    found = G.Reformulate(scripted()[0], form)._as_published(read_parts(text))
    assert (found if found is None else tuple(found)) == read
