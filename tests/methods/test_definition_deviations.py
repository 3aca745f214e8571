"""How the resources and settings of a run differ from those of the method's paper."""

from types import SimpleNamespace

import pyterrier as pt
import pytest
from methods.defined import DEEP, PLAIN, Finds, of_queries

import pyterrier_ikat as ikat
from pyterrier_ikat import methods
from pyterrier_ikat.evaluation.experiment_table import table as experiment_table
from pyterrier_ikat.methods import METHODS, Method
from pyterrier_ikat.methods.definition import (
    StandIn,
    _deciding_settings,
    in_words,
    model_differences,
    model_key,
    passages_at_most,
)
from pyterrier_ikat.study import open_systems


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
    ("text", "key"),
    [
        ("openai:azure:gpt-4-0613 temperature=0", "gpt-4"),
        ("gpt-4@2024-08-06", "gpt-4"),
        ("gpt-4-20240806", "gpt-4"),
        ("gpt-4-1306", "gpt-4-1306"),
        ("a T5 rewriter", "t5-rewriter"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b-instruct"),
        ("Llama-2-7b-hf", "llama-2-7b"),
        ("A/B/C-D", "c-d"),
        ("k=1", ""),
    ],
)
def test_a_models_key_is_its_bare_name(text, key):
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


def test_several_models_are_compared_in_their_order():
    assert model_differences("reranker", "x/a,bi:b", "A,b") == []
    assert model_differences("llm", "an LLM, of theirs", "LLM") == []
    assert model_differences("llm", "a temperature=0", "a temperature=0.5")[0].endswith(
        "has temperature=0, this run temperature=0.5"
    )


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


def test_a_recorded_paper_deviates_in_nothing_of_its_model():
    entry = Method("m", of_queries, models={"llm": "openai:gpt-4o-mini"}, recorded="recorded:own")
    assert entry.deviations({"llm": "recorded:own cache=none"}) == []
    told = "llm: the paper has openai:gpt-4o-mini, this run recorded:owner"
    assert entry.deviations({"llm": "recorded:owner"}) == [told]
    assert entry.deviations({}) == ["llm: the paper has openai:gpt-4o-mini, this run none"]


def test_bm25_is_compared_by_the_papers_parameters():
    def entry(**bm25):
        return Method("m", of_queries, models={"retriever": "BM25"}, bm25=bm25)

    assert entry().deviations({"retriever": "BM25 k1=0.9 b=0.4"}) == []
    assert entry(k1=1.2, b=0.75).deviations({"retriever": "BM25 k1=1.2 b=0.75"}) == []
    assert entry(k1=1.2, b=0.75).deviations({"retriever": "BM25 k1=0.9 b=0.4"}) == [
        "retriever: the paper has k1=1.2, this run k1=0.9",
        "retriever: the paper has b=0.75, this run b=0.4",
    ]
    assert entry().deviations({"retriever": "BM25"}) == []
    assert entry().deviations({"retriever": "SPLADE"}) == [
        "retriever: the paper has BM25, this run SPLADE"
    ]


def test_depths_are_compared_with_the_papers_below_theirs():
    entry = Method("m", of_queries, models={"retriever": "BM25"})
    for depth, lines in [(9, 0), (10, 0), (8, 1)]:
        given = StandIn("x") >> pt.RankCutoff(depth)
        told = [line for line in entry.deviations({"retriever": given}) if "passages" in line]
        assert len(told) == lines, depth
    assert Method("m", of_queries).deviations({"retriever": StandIn("x") % 2}) == []


def test_a_variants_depths_are_compared_with_those_of_its_method():
    entry = Method("m", of_queries, models={"retriever": "SPLADE"}, settings={"depth": 50})
    assert entry.deviations({"retriever": "SPLADE"}) == []
    variant = entry.with_arguments({"depth": 7})
    assert variant.deviations({"retriever": "SPLADE"}) == ["depth: the paper has 50, this run 7"]
    assert entry.deviations({"retriever": "BM25 k1=0.9 b=0.4"}) == [
        "retriever: the paper has SPLADE, this run BM25 k1=0.9 b=0.4"
    ]


def test_every_difference_from_the_paper_is_a_line():
    models = {"llm": "gpt-4", "retriever": "BM25", "reranker": "MonoT5"}
    entry = Method("m", methods.rali, models=models, recorded="recorded:own")
    given = {"llm": "recorded:own", "retriever": "SPLADE", "reranker": None}
    differences = [
        "retriever: the paper has BM25, this run SPLADE",
        "reranker: the paper has MonoT5, this run none",
    ]
    assert entry.deviations(given) == differences
    fewer = entry.with_arguments({"depth": 9, "rerank_depth": 5, "respond": False})
    retriever = StandIn("SPLADE") % 8
    assert fewer.deviations({**given, "retriever": retriever})[2:] == [
        "retriever: the paper takes 9 passages per query, this run 8",
        "depth: the paper has 1000, this run 9",
        "rerank_depth: the paper has 50, this run 5",
    ]


# Resources in words


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


def test_resources_are_spelt_as_on_the_command_line(tmp_path):
    index = ikat.PassageIndex(tmp_path / "i").index([{"docno": "d1", "text": "tea"}])
    assert in_words(index.bm25(k1=1.2, b=0.75)) == "BM25 k1=1.2 b=0.75"
    assert in_words(index.bm25() % 10) == "BM25 k1=0.9 b=0.4"
    assert in_words(("a", ikat.llm("recorded:sample"))) == "a,recorded:sample"
    assert in_words(ikat.MonoT5("m")) == "monot5:m"
    assert in_words(ikat.rank.Ensemble(("a", "b"))) != "ensemble"
    two = ikat.CrossEncoder("a") >> ikat.CrossEncoder("b")
    assert in_words(two) == repr(two)
    long = ikat.generate.AppendQuery(StandIn("x" * 100))
    assert in_words(long) == repr(long)[:77] + "..."
    assert len(in_words(long)) == 80
    identity = pt.Transformer.identity()
    assert in_words(identity) == " ".join(repr(identity).split())
    assert passages_at_most(None) is None


def test_only_our_own_rerankers_are_named_by_their_kind():
    class Mine(ikat.BiEncoder):
        pass

    assert in_words(Mine("tiny")) == "tiny"
    assert in_words(ikat.BiEncoder("tiny")) == "bi:tiny"
    at_limit = StandIn("x" * 80)
    assert in_words(at_limit) == "x" * 80
    assert in_words(StandIn("x" * 81)) == "x" * 77 + "..."


class Settings:
    """Stands for a retriever with these arguments, over an index of a query model."""

    def __init__(self, query_model=None, **arguments):
        self.index = SimpleNamespace(query_model=query_model)
        self.given = arguments

    def arguments(self):
        return self.given


@pytest.mark.parametrize(
    ("retriever", "settings"),
    [
        (Settings(k1=1.2, b=0.75, num_results=5), ["k1=1.2", "b=0.75"]),
        (Settings(num_results=5), []),
        (Settings("mine", num_results=5), ["query_model=mine"]),
    ],
    ids=["BM25", "vectors", "query model"],
)
def test_settings_of_papers_are_those_of_bm25_and_models(retriever, settings):
    assert _deciding_settings(retriever) == settings


# Methods of the papers


def test_given_answers_are_gpt_4s_and_unnamed_stages_not_bm25():
    run = {
        "llm": METHODS["aqd_given_llama"].models["llm"],
        "second_llm": "openai:gpt-3.5",
        "retriever": "BM25",
    }
    run["reranker"] = METHODS["aqd_given_llama"].models["reranker"]
    assert METHODS["aqd_given_llama"].deviations(run) == [
        "second_llm: the paper has openai:gpt-4, this run openai:gpt-3.5"
    ]
    assert METHODS["aqd_given_llama"].deviations(run | {"second_llm": "openai:gpt-4"}) == []
    for name in ("convgqr", "monot5"):
        [told] = [line for line in METHODS[name].deviations(run) if line.startswith("retriever")]
        assert told.startswith("retriever: the paper has an unnamed one")
        assert told.endswith("this run BM25")


@pytest.mark.parametrize("name", ["rtg", "rtg_manual", "gtr", "gtr_gpt", "gtr_claude"])
def test_nii_retrieves_with_bm25(name):
    models = METHODS[name].models
    assert METHODS[name].deviations(models | {"retriever": "BM25 k1=0.9 b=0.4"}) == []
    assert METHODS[name].deviations(models | {"retriever": "SPLADE"}) == [
        "retriever: the paper has BM25, this run SPLADE"
    ]


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    index = ikat.PassageIndex(tmp_path_factory.mktemp("differences") / "index")
    return index.index(ikat.dataset("ikat:sample").get_corpus_iter(verbose=False)).bm25()


LIKE_THE_PAPERS = "cross-encoder/ms-marco-MiniLM-L-6-v2"


NO_RERANKER = f"reranker: the paper has {LIKE_THE_PAPERS}, this run none"


def deviations(name, llm, **resources):
    [system] = open_systems(name, llm=llm, **resources)
    return system.deviations


def test_a_method_with_given_resources_has_its_deviations(bm25):
    gpt = ikat.llm("openai:gpt-4")
    minilm = ikat.CrossEncoder(LIKE_THE_PAPERS)
    assert deviations("aqd", gpt, retriever=bm25, reranker=minilm) == []
    assert deviations("aqd", gpt, retriever=bm25) == [NO_RERANKER]
    assert deviations("aqd:depth=50", gpt, retriever=bm25, reranker=minilm) == [
        "depth: the paper has 1000, this run 50"
    ]
    deep = bm25.index.bm25(num_results=2000)
    assert deviations("aqd:depth=2000", gpt, retriever=deep, reranker=minilm) == [
        "depth: the paper has 1000, this run 2000"
    ]
    assert deviations("aqd", ikat.llm("openai:gpt-4o"), retriever=bm25, reranker=minilm) == [
        "llm: the paper has openai:gpt-4, this run openai:gpt-4o"
    ]
    assert deviations("ptkb_sar", ikat.llm("openai:gpt-4o-mini"), retriever=bm25) == [
        "retriever: the paper has k1=0.82, this run k1=0.9",
        "retriever: the paper has b=0.68, this run b=0.4",
    ]


def test_the_deviations_stand_under_the_tables_of_python(bm25, tmp_path):
    given = {"llm": "recorded:sample", "retriever": bm25}
    lines = ["llm: the paper has openai:gpt-4, this run recorded:sample", NO_RERANKER]
    turns = ["1-1_1", "1-1_2"]
    ran = ikat.run("ad", "ikat:sample", out=tmp_path, turns=turns, **given)
    compared = ikat.experiment({"ad": "ad"}, "ikat:sample", turns=turns, **given)
    for shown, name in (
        (ran, "ad"),
        (ran.table, "ad"),
        (compared, "ad"),
        (compared[["name", "nDCG@5"]].round(2), "ad"),
    ):
        text = " ".join(repr(shown).split())
        page = shown._repr_html_()
        for line in lines:
            assert f"{name}: {line}" in text
            assert f"{name}: {line}" in page
    for line in lines:
        assert f"note: ad: {line}" in experiment_table(compared).notes
        assert line not in compared.columns
        assert not compared.astype(str).isin([line]).any(axis=None)
    alone = ikat.experiment({"mine": bm25}, "ikat:sample", turns=turns)
    assert "note:" not in repr(alone)
