"""Arguments of the operators: their defaults, their descriptions, and wrong ones."""

import inspect
import re

import pytest
from fakes import scripted
from trust.frames import EXPORTED

import pyterrier_ikat as ikat
from pyterrier_ikat import generate
from pyterrier_ikat.llm_operator import LLMOperator
from pyterrier_ikat.operator import with_fields

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


CLASSES = [value for value in EXPORTED.values() if isinstance(value, type)]
ASKING = [one for one in CLASSES if issubclass(one, LLMOperator)]


def described(operator):
    _, there, rest = inspect.getdoc(operator).partition("Args:\n")
    name = operator.__name__
    assert there, (
        f"decorate {name} with @with_fields, and describe its arguments in a section Args: "
        "of its docstring, from llm on"
    )
    section = rest.split("\n\n")[0]
    return re.findall(r"^    (\w+): ", section, re.MULTILINE)


@pytest.mark.parametrize("operator", ASKING, ids=lambda operator: operator.__name__)
def test_every_argument_of_an_operator_is_described_once(operator):
    assert sorted(described(operator)) == sorted(inspect.signature(operator).parameters)


def test_an_own_operator_describes_only_its_own_arguments():
    @with_fields
    class Keywords(LLMOperator):
        """Ask for keywords.

        Args:
            words: how many.
            style: only one.

        Raises:
            UsageError: never.
        """

        words: int = 3

    said = inspect.getdoc(Keywords)
    assert sorted(described(Keywords)) == [
        "llm",
        "on_error",
        "prompts",
        "question",
        "style",
        "words",
    ]
    assert "style: only one.\n" in said
    assert "the model to ask, from" in said
    assert said.endswith("\n\nRaises:\n    UsageError: never.")


WRONG = [
    (ikat.Answer, {"words": 0}, "words=0: give 1 or more"),
    (
        ikat.Answer,
        {"statements": "some"},
        "statements='some' is unknown: choose one of all, chosen",
    ),
    (ikat.Answer, {"style": "bard"}, "style='bard' is unknown: choose one of gpt, llama"),
    (
        ikat.Answer,
        {"on_error": "ignore"},
        "on_error='ignore' is unknown: choose one of raise, fallback, None",
    ),
    (ikat.Rewrite, {"form": "brief"}, "form='brief' is unknown: choose one of full, short"),
    (
        ikat.generate.OutlineAnswer,
        {"form": "long"},
        "form='long' is unknown: choose one of elements, context",
    ),
    (ikat.generate.Summarise, {"min_characters": -1}, "min_characters=-1"),
    (ikat.generate.StatementQueries, {"n": 0}, "n=0: give 1 or more"),
    (ikat.generate.UpdatePtkb, {"messages": 0}, "messages=0: give 1 or more"),
    (ikat.generate.Condense, {"chunk": 0}, "chunk=0"),
    (ikat.generate.Condense, {"direct": -1}, "direct=-1: give 0 or more"),
    (ikat.generate.Condense, {"words": 0}, "words=0"),
    (ikat.generate.Condense, {"passages": 0}, "passages=0"),
    (ikat.generate.Decide, {"passages": 0}, "passages=0"),
    (ikat.generate.PassageQueries, {"forms": ()}, "forms="),
    (ikat.generate.PassageQueries, {"forms": ["poem"]}, "forms="),
    (ikat.generate.PassageQueries, {"forms": "article"}, "forms="),
    (ikat.generate.PassageQueries, {"per_statement": -1}, "per_statement=-1"),
    (ikat.Queries, {"n": 0}, "n=0: give 1 or more"),
    (ikat.Queries, {"n": None}, "n=None: give the maximum number of queries"),
    (ikat.Queries, {"given": "gold"}, "given='gold' is unknown"),
    (ikat.Queries, {"words": 0}, "words=0"),
    (
        ikat.generate.Reformulate,
        {"form": "sar"},
        "form='sar' is unknown: choose one of rewrite, queries, select",
    ),
    (
        ikat.generate.Reformulate,
        {"shots": 1},
        "shots=1: form='rewrite' shows no examples; form='select' does",
    ),
    (ikat.generate.Reformulate, {"words": 0}, "words=0"),
    (ikat.Respond, {"passages": 0}, "passages=0"),
    (ikat.Respond, {"words": 0}, "words=0"),
    (ikat.Respond, {"passage_words": 0}, "passage_words=0"),
    (ikat.Respond, {"form": "poem"}, "form='poem' is unknown"),
    (
        ikat.Respond,
        {"statements": "some"},
        "statements='some' is unknown: choose one of all, chosen",
    ),
    (ikat.Respond, {"form": "condensed", "cite": True}, "another form, or omit cite"),
    (
        ikat.SelectStatements,
        {"form": "names"},
        "form='names' is unknown: choose one of ids, copies, scores",
    ),
    (ikat.SelectStatements, {"given": "answer"}, "given='answer' is unknown"),
    (
        ikat.SelectStatements,
        {"form": "copies", "shots": 2},
        "shots=2: only form='ids' without given shows examples",
    ),
    (ikat.generate.Seq2SeqRewrite, {"responses": -1}, "responses=-1: give 0 or more"),
    (ikat.generate.Seq2SeqRewrite, {"max_length": 1}, "max_length=1: give 2 or more"),
    (ikat.generate.Seq2SeqRewrite, {"num_beams": 0}, "num_beams=0"),
    (ikat.generate.Seq2SeqRewrite, {"batch_size": 0}, "batch_size=0"),
    (ikat.generate.BestQuery, {"passages": 0}, "passages=0: give 1 or more"),
    (
        ikat.generate.BestQuery,
        {"rule": "oracle"},
        "rule='oracle' is unknown: choose one of score, agreement, spread",
    ),
    (ikat.RankStatements, {"n": 0}, "n=0: give 1 or more"),
]
LLM, _ = scripted()


@pytest.mark.parametrize(("operator", "arguments", "said"), WRONG)
def test_a_wrong_argument_is_named(operator, arguments, said):
    first = (
        ikat.RawUtterance() if operator in (ikat.generate.BestQuery, ikat.RankStatements) else LLM
    )
    with pytest.raises(ikat.UsageError, match=said):
        operator(first, **arguments)
