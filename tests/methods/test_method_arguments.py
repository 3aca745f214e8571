"""Arguments and resources of a method, and how those of a run differ from a paper's."""

import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import METHODS, find, find_all, methods_of
from pyterrier_ikat.methods.catalogue import origin
from pyterrier_ikat.methods.definition import (
    in_words,
    is_given,
    model_differences,
    model_key,
    passages_at_most,
)


class Finds(pt.Transformer):
    """Finds nothing, with a cutoff that it tells."""

    def __init__(self, depth=None):
        super().__init__()
        self.depth = depth

    def transform(self, inp):
        return inp


@ikat.method("plain", paper="ours", models={"llm": "openai:gpt-4", "retriever": "BM25"})
@ikat.method("deep", settings={"depth": 5, "llm": "second_llm"})
def system(
    llm,
    retriever,
    reranker=None,
    second_llm=None,
    *,
    n=3,
    share=0.5,
    question="qutterance",
    careful=False,
    anything=None,
    maximum: int | None = None,
    depth=1000,
):
    """Answer, then search.

    A second paragraph.

    Args:
        llm: the model.
    """
    stages = ikat.Answer(llm) >> retriever % depth
    return stages if reranker is None else stages >> reranker


PLAIN, DEEP = methods_of(system)


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


def test_an_unknown_argument_names_the_known_ones():
    with pytest.raises(UsageError, match="no argument 'dept': did you mean depth"):
        PLAIN.with_arguments({"dept": 3})
    with pytest.raises(UsageError, match="choose one of llm, retriever, reranker, second_llm, n"):
        PLAIN.with_arguments({"zzzzz": 3})


def test_later_arguments_keep_earlier_ones_and_the_method():
    entry = PLAIN.with_arguments({"n": 5}, "x").with_arguments({"depth": 10})
    assert (entry.name, entry.values["n"], entry.depth, entry.of) == ("x", 5, 10, PLAIN)
    assert PLAIN.values["n"] == 3


@pytest.mark.parametrize(
    ("given", "is_there"),
    [(None, False), ("none", False), (" None ", False), ("nonesuch", True), ("", True), (0, True)],
)
def test_none_in_words_is_no_resource(given, is_there):
    assert is_given(given) is is_there


def test_a_fixed_resource_is_neither_needed_nor_taken():
    fixed = PLAIN.with_arguments({"llm": "recorded:sample", "reranker": "tiny"})
    assert fixed.own == {"llm": "recorded:sample", "reranker": "tiny"}
    assert (fixed.needs, fixed.takes) == (["retriever"], [])
    retrieving = PLAIN.with_arguments({"retriever": "splade"})
    assert retrieving.needs == ["llm", "retriever"]  # it still needs an index
    with_second = PLAIN.with_arguments({"second_llm": "recorded:sample"})
    assert "second_llm" in with_second.resources
    assert "second_llm" not in PLAIN.resources


def test_a_missing_resource_is_named_and_an_optional_one_not():
    with pytest.raises(UsageError, match="method plain needs llm and retriever: give"):
        PLAIN.build()
    with pytest.raises(UsageError, match="method plain needs retriever: give index=..."):
        PLAIN.build(llm=ikat.llm("recorded:sample"))
    built = PLAIN.build(llm=ikat.llm("recorded:sample"), retriever=Finds(), second_llm="unused")
    assert repr(built).startswith("(ikat.Answer(ikat.llm('recorded:sample')) >> ")


def test_only_a_method_of_several_rerankers_takes_a_list():
    resources = {"llm": ikat.llm("recorded:sample"), "retriever": Finds()}
    with pytest.raises(UsageError, match="method plain takes one re-ranker, not 2"):
        PLAIN.build(**resources, reranker=[Finds(), Finds()])


@pytest.mark.parametrize(("depth", "is_enough"), [(5, True), (6, True), (4, False)])
def test_a_retriever_returns_what_the_method_takes(depth, is_enough):
    resources = {
        "second_llm": ikat.llm("recorded:sample"),
        "retriever": ikat.Remote("http://a", num_results=depth),
    }
    if is_enough:
        DEEP.build(**resources)
        return
    with pytest.raises(UsageError, match="method deep takes 5 passages per query, .* returns 4"):
        DEEP.build(**resources)


def test_a_function_that_returns_no_pipeline_is_named():
    def forgets(retriever):
        """Forget the word return."""

    with pytest.raises(UsageError, match="method forgets .* returns NoneType: end it with return"):
        methods_of(forgets)[0].build(retriever=Finds())


def test_statements_are_chosen_or_hidden_before_the_method():
    resources = {"llm": ikat.llm("recorded:sample"), "retriever": Finds()}
    plain = repr(PLAIN.build(**resources))
    hidden = repr(PLAIN.build(**resources, statements="none"))
    chosen = repr(PLAIN.build(**resources, statements="chosen"))
    assert "ShowStatements(shown='none')" in hidden
    assert "SelectStatements" not in hidden
    assert (
        chosen.index("SelectStatements") < chosen.index("ShowStatements") < chosen.index("Answer")
    )
    assert "Statements" not in plain
    with pytest.raises(UsageError, match="statements='some'"):
        PLAIN.build(**resources, statements="some")


def test_a_name_with_arguments_can_be_a_folders():
    entry = find("mq4cs:n=3,depth=10")
    assert (entry.name, entry.values["n"], entry.depth) == ("mq4cs-depth=10,n=3", 3, 10)
    assert find("raw:retriever=bm25:k1=1.2").name == "raw-retriever=bm25-k1=1.2"
    assert [found.name for found in find_all("raw")] == ["raw"]
    for name, told in [
        ("raww", "did you mean raw"),
        ("zzzzzz", "`ikat methods` lists them"),
        ("temperature=0", "what belongs to a model stands with it in quotes"),
        ("raw:depth", "an argument of a method is written raw:NAME=VALUE"),
        ("mq4cs:n=3,depth=10,n=4", "mq4cs: the argument n is given twice: omit one"),
        ("mq4cs:n=3,n=3", "mq4cs: the argument n is given twice: omit one"),
    ]:
        with pytest.raises(UsageError, match=told):
            find(name)


@pytest.mark.parametrize(
    ("paper", "whose"),
    [
        ("organisers' baseline", "organisers"),
        ("ours: a gate", "ours"),
        ("baseline without an LLM", "ours"),
        ("IRLab@iKAT24", "papers"),
    ],
)
def test_whose_method_it_is_stands_in_its_paper(paper, whose):
    assert origin(ikat.methods.Method("x", system, paper, settings={"depth": 5})) == whose


# Models and depths that differ from a paper's


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("openai:gpt-4", "gpt-4"),
        ("openai:gpt-4o-2024-08-06", "gpt-4o"),
        ("hf:meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("the paper's own, trained", "the-paper's-own"),
        ("BM25 k1=0.9 b=0.4", "bm25"),
        ("an ensemble", "ensemble"),
    ],
)
def test_what_tells_models_apart(text, key):
    assert model_key(text) == key


@pytest.mark.parametrize(
    ("paper", "given", "lines"),
    [
        ("openai:gpt-4", "openai:gpt-4", []),
        ("openai:gpt-4", None, ["llm: the paper has openai:gpt-4, this run none"]),
        (
            "openai:gpt-4",
            "openai:gpt-4o",
            ["llm: the paper has openai:gpt-4, this run openai:gpt-4o"],
        ),
        ("gpt-4 temperature=0", "openai:gpt-4 temperature=0 cache=none", []),
        (
            "gpt-4 temperature=0 top_p=1",
            "gpt-4 temperature=1",
            [
                "llm: the paper has temperature=0, this run temperature=1",
                "llm: the paper has top_p=1, this run the default",
            ],
        ),
        ("a,b", "a,b", []),
        ("a,b", "b,a", ["llm: the paper has a,b, this run b,a"]),
        ("a,b", "a", ["llm: the paper has a,b, this run a"]),
    ],
)
def test_differences_of_models_are_their_names_and_named_options(paper, given, lines):
    assert model_differences("llm", paper, given) == lines


def test_a_method_without_a_papers_models_deviates_from_nothing():
    given = {"second_llm": "openai:gpt-4o", "retriever": Finds() % 2}
    assert DEEP.deviations(given) == []
    named = {"llm": "openai:gpt-4", "retriever": "BM25 k1=0.9 b=0.4"}
    assert PLAIN.deviations(named) == []
    other = {"llm": "openai:gpt-4", "retriever": "BM25 k1=1.2 b=0.4"}
    assert PLAIN.deviations(other) == ["retriever: the paper has k1=0.9, this run k1=1.2"]
    shallow = PLAIN.deviations({"llm": "openai:gpt-4", "retriever": Finds() % 10})
    assert shallow[-1] == "retriever: the paper takes 1000 passages per query, this run 10"
    deeper = PLAIN.with_arguments({"depth": 2000, "n": 5}).deviations(named)
    assert deeper == ["depth: the paper has 1000, this run 2000"]


def test_resources_in_words():
    assert in_words(None) is None
    assert in_words("BM25") == "BM25"
    assert in_words([ikat.CrossEncoder("tiny"), None]) == "tiny,None"
    assert in_words(ikat.CrossEncoder("tiny") % 10) == "tiny"
    assert in_words(ikat.BiEncoder("tiny")) == "bi:tiny"
    assert in_words(ikat.rank.Ensemble()) == "ensemble"
    assert passages_at_most("BM25") is None
    assert passages_at_most(Finds()) is None
    assert passages_at_most(Finds() % 20 >> Finds() % 30) == 20


def test_every_method_can_be_built_on_what_it_needs():
    for entry in METHODS.values():
        assert set(entry.needs).isdisjoint(entry.takes)
        assert entry.expression
