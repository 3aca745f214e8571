"""What a method needs and takes, and the pipeline that is built of it."""

import pytest
from methods.defined import DEEP, LLM, PLAIN, REPLACED, RETRIEVER, Finds, of_queries

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.methods import Method, find, methods_of
from pyterrier_ikat.methods.definition import StandIn, is_given


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


def test_a_fixed_resource_is_no_other_resource():
    fixed = find("aqd").with_arguments({"llm": "recorded:sample", "second_llm": "none"})
    assert fixed.resources == {"llm": "llm", "retriever": "retriever", "reranker": "reranker"}
    assert REPLACED.with_arguments({"queries": ""}).needs == ["llm", "retriever"]
    assert (find("raw").takes, find("raw:reranker=none").takes) == (["reranker"], [])
    named = find("raw").with_arguments({"reranker": "tiny"})
    built = named.build(retriever=RETRIEVER, reranker=StandIn("scorer"))
    assert repr(built).endswith(" >> scorer)")


def test_a_resource_is_not_needed_where_an_argument_replaces_it():
    assert REPLACED.needs == ["llm", "retriever"]
    given = REPLACED.with_arguments({"queries": "file.tsv"})
    assert (given.needs, given.resources) == (["retriever"], {"retriever": "retriever"})
    assert given.build(llm=LLM, retriever=RETRIEVER) is RETRIEVER
    assert repr(REPLACED.build(llm=LLM, retriever=RETRIEVER)).startswith("(ikat.Answer(llm)")
    assert (given.of, given.name) == (REPLACED, "mine")
    of_paper = Method("mine", of_queries, models={"llm": "gpt-4"}, instead={"queries": "llm"})
    assert of_paper.deviations({}) == ["llm: the paper has gpt-4, this run none"]
    assert of_paper.with_arguments({"queries": "file.tsv"}).deviations({}) == []


def test_a_missing_resource_is_named_and_an_optional_one_not():
    with pytest.raises(UsageError, match="method plain needs llm and retriever: give"):
        PLAIN.build()
    with pytest.raises(UsageError, match="method plain needs retriever: give index=..."):
        PLAIN.build(llm=ikat.llm("recorded:sample"))
    built = PLAIN.build(llm=ikat.llm("recorded:sample"), retriever=Finds(), second_llm="unused")
    assert repr(built).startswith("(ikat.Answer(ikat.llm('recorded:sample')) >> ")


def test_a_missing_resource_has_the_name_that_a_user_gives():
    def system(llm, retriever, reranker):
        return retriever

    entry = Method("m", system, settings={"llm": "second_llm"})
    with pytest.raises(
        UsageError, match="m needs second_llm and reranker: give second_llm=... and"
    ):
        entry.build(retriever=RETRIEVER)


def test_resources_not_given_leave_the_functions_defaults():
    default = StandIn("default")

    def system(retriever, expander=default, reranker=None):
        return retriever >> expander

    built = Method("m", system).build(retriever=RETRIEVER, expander=None)
    assert list(built) == [RETRIEVER, default]


def test_only_a_method_of_several_rerankers_takes_a_list():
    resources = {"llm": ikat.llm("recorded:sample"), "retriever": Finds()}
    with pytest.raises(UsageError, match="method plain takes one re-ranker, not 2"):
        PLAIN.build(**resources, reranker=[Finds(), Finds()])


def test_several_rerankers_are_for_methods_that_take_them():
    def system(retriever, reranker):
        return retriever if isinstance(reranker, list) else retriever >> reranker

    several = {"retriever": RETRIEVER, "reranker": [StandIn("a"), StandIn("b")]}
    assert Method("m", system, several=True).build(**several) is RETRIEVER
    with pytest.raises(UsageError, match="m takes one re-ranker, not 2"):
        Method("m", system).build(**several)


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


def test_a_dense_retriever_is_deep_enough_too():
    def both(retriever, dense, *, depth=5):
        return retriever % depth

    class Finds(StandIn):
        def passages_at_most(self):
            return 4

    entry = Method("both", both)
    assert entry.arguments == ["retriever", "depth"]
    with pytest.raises(UsageError, match="the dense retriever returns 4: give it num_results=5"):
        entry.build(retriever=RETRIEVER, dense=Finds("dense"))
    with pytest.raises(UsageError, match="the retriever returns 4"):
        entry.build(retriever=Finds("retriever"), dense=StandIn("dense"))
    with pytest.raises(UsageError, match="needs dense: give index="):
        entry.build(retriever=RETRIEVER)


def test_a_dense_retriever_alone_is_deep_enough_too():
    class Finds(StandIn):
        def passages_at_most(self):
            return 4

    entry = Method("dense", lambda dense, *, depth=5: dense % depth)
    with pytest.raises(UsageError, match="the dense retriever returns 4"):
        entry.build(dense=Finds("dense"))


# What is built


def test_a_function_that_returns_no_pipeline_is_named():
    def forgets(retriever):
        """Forget the word return."""

    with pytest.raises(UsageError, match="method forgets .* returns NoneType: end it with return"):
        methods_of(forgets)[0].build(retriever=Finds())


def test_a_function_without_a_pipeline_is_named_by_its_line():
    def forgets(retriever):
        pass

    line = forgets.__code__.co_firstlineno
    with pytest.raises(
        UsageError, match=rf"test_definition_resources.py, line {line}\) returns None"
    ):
        Method("m", forgets).build(retriever=RETRIEVER)


def test_a_callable_without_a_pipeline_is_named_without_line():
    class Makes:
        __name__ = "makes"

        def __call__(self, retriever):
            return 7

    with pytest.raises(UsageError, match="the function of method m returns int: end it"):
        Method("m", Makes()).build(retriever=RETRIEVER)


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


def test_statements_are_for_methods_that_ask_a_model():
    raw = find("raw")
    assert raw.build(retriever=RETRIEVER, statements="none") == raw.build(retriever=RETRIEVER)
    assert raw.depth == 1000


def test_chosen_statements_have_the_methods_model_and_prompts(tmp_path):
    (tmp_path / "statements_ids.jinja").write_text("{{ question }}")
    entry = Method("m", of_queries, settings={"llm": "second_llm"})
    built = entry.build(
        second_llm=StandIn("second"), retriever=RETRIEVER, prompts=tmp_path, statements="chosen"
    )
    assert repr(built[0]) == f"ikat.SelectStatements(second, prompts={str(tmp_path)!r})"


def test_own_prompts_are_those_of_all_operators_of_a_method(tmp_path):
    (tmp_path / "answer.jinja").write_text("{{ question }}")
    built = REPLACED.build(llm=LLM, retriever=RETRIEVER, prompts=tmp_path)
    assert f"prompts={str(tmp_path)!r}" in repr(built)
    assert "prompts" not in repr(REPLACED.build(llm=LLM, retriever=RETRIEVER))
