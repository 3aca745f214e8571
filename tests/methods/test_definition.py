"""A function as a method: its resources, settings, arguments and descriptions."""

import pandas as pd
import pytest
from methods.defined import DEEP, LLM, PLAIN, REPLACED, of_queries

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import Method, find, methods_of
from pyterrier_ikat.methods.definition import StandIn, in_words

TURNS = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"], "query": ["a", "b", "c"]})


def test_a_functions_methods_have_their_resources_and_settings():
    assert [entry.name for entry in (PLAIN, DEEP)] == ["plain", "deep"]
    assert (PLAIN.needs, PLAIN.takes) == (["llm", "retriever"], ["reranker"])
    assert (DEEP.needs, DEEP.takes) == (["second_llm", "retriever"], ["reranker"])
    assert (PLAIN.depth, DEEP.depth) == (1000, 5)
    assert (PLAIN.manual, DEEP.manual) == (False, False)
    assert PLAIN.summary == "Answer, then search."
    assert PLAIN.description == "Answer, then search.\n\nA second paragraph."
    assert list(PLAIN.values) == [
        *("n", "share", "question", "careful", "anything", "maximum", "depth"),
    ]
    assert DEEP.values["depth"] == 5
    assert DEEP.expression == "ikat.Answer(second_llm) >> retriever % 5 >> reranker"


def test_a_decorated_function_keeps_its_methods_in_order():
    @ikat.method("first", paper="ours")
    @ikat.method("second")
    @ikat.method
    def third(retriever):
        return retriever

    assert [entry.name for entry in methods_of(third)] == ["first", "second", "third"]
    assert [entry.paper for entry in methods_of(third)] == ["ours", "", ""]

    def plain(retriever):
        return retriever

    assert [entry.name for entry in methods_of(plain)] == ["plain"]


def test_only_resources_may_lack_a_default():
    def odd(llm, colour, size=3):
        return llm

    with pytest.raises(UsageError, match="'colour' is not a resource: name it one of llm, second"):
        Method("odd", odd)
    assert Method("odd", odd, settings={"colour": "red"}).values == {"colour": "red", "size": 3}


def test_a_method_is_described_by_its_docstrings_first_part():
    assert (REPLACED.summary, REPLACED.description) == ("Search for queries.",) * 2
    undocumented = Method("x", lambda: LLM)
    assert (undocumented.summary, undocumented.description) == ("", "")


def test_an_example_is_no_part_of_a_description():
    def shown(retriever):
        """Search.

        For all. Twice.

        Example:
            >>> shown()
        """

    entry = Method("m", shown)
    assert (entry.summary, entry.description) == ("Search.", "Search.\n\nFor all. Twice.")
    model = ikat.llm("recorded:sample on_error=fallback")
    assert in_words(model) == "recorded:sample on_error=fallback"


def test_expressions_lack_outer_brackets_and_cut_by_percent():
    assert REPLACED.expression == "ikat.Answer(llm) >> retriever % 9"
    assert Method("one", lambda retriever: retriever % 5).expression == "retriever % 5"
    fused = Method("two", lambda retriever: ikat.RRF(retriever % 5, retriever % 7))
    assert fused.expression == "ikat.RRF(retriever % 5, retriever % 7)"


@pytest.mark.parametrize(
    ("settings", "uses_gold", "manual"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"question": "qresolved"}, False, True),
        ({"question": "query"}, False, False),
    ],
)
def test_a_method_on_manual_rewrites_is_manual(settings, uses_gold, manual):
    assert Method("m", of_queries, settings=settings, uses_gold=uses_gold).manual is manual
    assert find("rtg_manual").manual
    assert not find("rtg").manual


def test_a_stand_in_counts_rows_and_cannot_be_run():
    stand_in = StandIn("retriever")
    assert stand_in.plan(TURNS, None) is TURNS
    stand_in.plan(TURNS.head(1), None)
    assert stand_in.rows == {"1_1": 3, "1_2": 1}
    assert repr(stand_in) == "retriever"
    with pytest.raises(UsageError, match="retriever only stands for a resource"):
        stand_in.ask(TURNS)


# Arguments


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n", "5", 5),
        ("n", 7, 7),
        ("share", "0.25", 0.25),
        ("share", "1", 1),
        ("question", "5", "5"),
        ("careful", "true", True),
        ("careful", "False", False),
        ("careful", "FALSE", False),
        ("careful", "tRUE", True),
        ("maximum", "NONE", None),
        ("anything", "none", None),
        ("anything", "[1, 2]", [1, 2]),
        ("anything", "a word", "a word"),
        ("maximum", "4", 4),
        ("maximum", "none", None),
        ("llm", "5", "5"),
    ],
)
def test_a_text_becomes_a_value_of_the_arguments_type(name, text, value):
    entry = PLAIN.with_arguments({name: text})
    converted = entry.own[name] if name == "llm" else entry.values[name]
    assert (converted, type(converted)) == (value, type(value))
    assert (entry.name, entry.of, PLAIN.of) == ("plain", PLAIN, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n", "five"),
        ("n", "0.5"),
        ("n", "none"),
        ("n", "true"),
        ("share", "half"),
        ("careful", "1"),
        ("maximum", "0.5"),
    ],
)
def test_a_text_of_another_type_is_refused(name, text):
    with pytest.raises(UsageError, match=f"method plain: {name}={text} is no value"):
        PLAIN.with_arguments({name: text})


def test_a_text_may_be_of_any_annotated_type():
    assert find("cfda_auto:threshold=none").values["threshold"] is None
    assert find("cfda_auto:threshold=1").values["threshold"] == 1
    assert find("rtg:respond=false").values["respond"] is False
    assert find("apcir:rerank_depth=10").values["rerank_depth"] == 10
    for text in ("cfda_auto:threshold=high", "cfda_auto:threshold=true", "rtg:depth=true"):
        with pytest.raises(UsageError, match="is no value for this argument, whose default is"):
            find(text)
    with pytest.raises(UsageError, match="has no argument 'dense': choose one of|did you mean"):
        find("rewrite_answer_hybrid").with_arguments({"dense": "x"})


def test_a_text_has_the_type_of_the_value_that_a_method_fixes():
    def system(retriever, *, many=None):
        return retriever

    entry = Method("m", system, settings={"many": 5})
    assert entry.with_arguments({"many": "7"}).values == {"many": 7}
    with pytest.raises(UsageError, match="many=word is no value .* whose default is 5"):
        entry.with_arguments({"many": "word"})
    assert entry.depth == 1000


def test_an_unknown_argument_names_the_known_ones():
    with pytest.raises(UsageError, match="no argument 'dept': did you mean depth"):
        PLAIN.with_arguments({"dept": 3})
    with pytest.raises(UsageError, match="choose one of llm, retriever, reranker, second_llm, n"):
        PLAIN.with_arguments({"zzzzz": 3})


def test_later_arguments_keep_earlier_ones_and_the_method():
    entry = PLAIN.with_arguments({"n": 5}, "x").with_arguments({"depth": 10})
    assert (entry.name, entry.values["n"], entry.depth, entry.of) == ("x", 5, 10, PLAIN)
    assert PLAIN.values["n"] == 3
