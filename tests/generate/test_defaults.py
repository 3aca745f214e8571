"""What an operator does where nothing is said: the papers' values, by which runs are compared."""

import inspect

import pytest

from pyterrier_ikat import generate

EVERY_PROMPT = {"prompts": None, "style": "gpt", "question": "qutterance", "on_error": None}
DEFAULTS = {
    "Aggregate": {"how": "mean", "encoder": None, "also": None},
    "AllUtterances": {"responses": False, "newest_first": False, "separator": " "},
    "Answer": {**EVERY_PROMPT, "words": None, "statements": "all"},
    "AppendStatements": {"column": "qstatements"},
    "BestQuery": {"passages": None, "rule": "score"},
    "BestResponse": {"passages": 5, "prompts": None, "on_error": None},
    "Clarify": EVERY_PROMPT,
    "Condense": {
        **EVERY_PROMPT,
        "passages": 20,
        "direct": 3,
        "chunk": 5,
        "threshold": None,
        "words": 250,
    },
    "Decide": {**EVERY_PROMPT, "passages": 5, "may_ask": True},
    "Enhance": {**EVERY_PROMPT, "words": 20},
    "HistoricalQueryExpansion": {"words": 10},
    "MultiQuery": {**EVERY_PROMPT, "n": 5, "given": None, "words": None},
    "OutlineAnswer": {**EVERY_PROMPT, "form": "elements"},
    "PassageQueries": {**EVERY_PROMPT, "forms": ("article",), "per_statement": 0},
    "Queries": {**EVERY_PROMPT, "n": 5, "given": None, "words": None},
    "Reformulate": {
        **EVERY_PROMPT,
        "form": "rewrite",
        "words": 200,
        "shots": 0,
        "examples": "ikat:2023-train",
    },
    "Respond": {
        **EVERY_PROMPT,
        "passages": 5,
        "words": 200,
        "form": "rag",
        "statements": "all",
        "abstention": "The collection has no answer to this.",
        "passage_words": None,
        "cite": False,
    },
    "Rewrite": {**EVERY_PROMPT, "form": "full"},
    "RewriteAndAnswer": {**EVERY_PROMPT, "answer": True, "think": True, "persona": True},
    "RewriteByLevel": {**EVERY_PROMPT, "think": True},
    "Samples": {"n": 5, "columns": ("query",)},
    "SelectStatements": {
        **EVERY_PROMPT,
        "form": "ids",
        "given": None,
        "history": True,
        "shots": 0,
        "examples": "ikat:2023-train",
    },
    "Seq2SeqRewrite": {"responses": 0, "max_length": 64, "num_beams": 10, "batch_size": 8},
    "ShowStatements": {"shown": "chosen"},
    "StatementQueries": {**EVERY_PROMPT, "n": None, "question": "query"},
    "Summarise": {"min_characters": 150, "prompts": None, "on_error": None},
    "UpdatePtkb": {
        "prompts": None,
        "style": "gpt",
        "on_error": None,
        "messages": None,
        "day": "",
    },
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_operators_defaults_are_those_of_its_source(name):
    parameters = inspect.signature(getattr(generate, name)).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    assert defaults == DEFAULTS[name]
