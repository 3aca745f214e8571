"""Which retriever, re-rankers and models a study makes of its resources."""

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.retrieve import BM25, DenseRetriever
from pyterrier_ikat.store.models import BUNDLED
from pyterrier_ikat.study import open_systems
from pyterrier_ikat.study.systems import check_ranking, with_limit

CORPUS = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "a long walk"}]
TURN = pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "qutterance": ["tea"]})


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "words"
    return str(ikat.PassageIndex(path).index(CORPUS).path)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Words and vectors of two passages."""
    path = tmp_path_factory.mktemp("index") / "both"
    ikat.PassageIndex(path).index(CORPUS)
    ikat.DenseIndex(path).index(CORPUS, BUNDLED)
    return str(path)


def opened(system="raw", **resources):
    [one] = open_systems(system, **resources)
    return one


@pytest.mark.parametrize(
    ("retriever", "kind"), [(None, BM25), ("bm25", BM25), ("dense", DenseRetriever)]
)
def test_a_folders_retriever_is_that_of_words_unless_named(both, retriever, kind):
    resources = {} if retriever is None else {"retriever": retriever}
    for index in (both, ikat.Index(both), ikat.PassageIndex(both)):
        assert type(opened(index=index, **resources).retriever) is kind


def test_the_hybrid_retriever_fuses_words_and_vectors(both, words):
    hybrid = opened(index=both, retriever="hybrid").pipeline
    results = hybrid(TURN)
    assert results["docno"].tolist() == ["d1", "d2"]  # the vectors find both
    assert results["score"].tolist() == pytest.approx([2 / 61, 1 / 62])
    with pytest.raises(UsageError, match="holds bm25, not dense"):
        opened(index=words, retriever="hybrid")


def test_the_depth_is_the_methods_and_bm25_is_its_papers(both):
    method = ikat.methods.find("raw:depth=7")
    assert opened(method, index=both).retriever.num_results == 7
    assert opened(method, index=both, retriever="dense").retriever.num_results == 7
    paper = ikat.methods.find("ptkb_str")
    found = opened(paper, index=both, llm="recorded:sample").retriever
    assert (found.k1, found.b) == (0.82, 0.68)


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({"retriever": "dense"}, "names what the folder of index=... holds"),
        ({"retriever": "splat"}, "retriever='splat'"),
        ({"index": 7}, r"index=int\(...\): give the folder of an index"),
        ({"index": "BOTH", "splade_query_model": "m"}, "is for SPLADE vectors"),
        ({"index": "BOTH", "splade_model": "m"}, "is a passage index for BM25"),
        ({"index": "BOTH", "reranker": "bi:"}, "lacks a model's name"),
        ({"index": "BOTH", "reranker": "tiny,,tiny"}, "lacks a model's name"),
        ({"index": "BOTH", "reranker": "tiny,none"}, "lacks a model's name"),
        ({"index": "BOTH", "llm": "recorded:sample"}, "no system uses llm=..."),
        ({"index": "BOTH", "indx": "x"}, "there is no option 'indx': did you mean index"),
        ({"index": "BOTH", "statements": "none"}, "no system uses statements=..."),
        ({"index": "BOTH", "expander": "x"}, "no system uses expander=..."),
    ],
)
def test_resources_that_cannot_be_used_are_named(both, resources, told):
    resources = {name: both if value == "BOTH" else value for name, value in resources.items()}
    with pytest.raises(UsageError, match=told):
        opened(**resources)


def test_an_index_in_the_place_of_a_retriever_is_refused(words):
    with pytest.raises(UsageError, match=r"retriever=PassageIndex\(...\) is an index"):
        opened(retriever=ikat.PassageIndex(words))


def test_none_in_words_is_no_resource(words):
    system = opened(index=words, reranker="none", llm="none")
    assert (system.resources.reranker, system.resources.llm) == (None, None)


def test_rerankers_are_loaded_by_name_one_or_several(words):
    llm = {"index": words, "llm": "recorded:sample"}
    one = opened("ad", **llm, reranker="bi:tiny").resources.reranker
    assert one == ikat.BiEncoder("tiny")
    with pytest.raises(UsageError, match="method ad takes one re-ranker, not 2"):
        opened("ad", **llm, reranker="bi:tiny, other")


def test_a_model_as_text_counts_in_the_ledger_of_the_call(words):
    first, second = open_systems(["ad", "aqd"], index=words, llm="recorded:sample")
    assert first.resources.llm is second.resources.llm
    assert first.resources.llm.ledger is not opened("ad", index=words, llm="recorded:sample")
    own = ikat.llm("recorded:sample")
    assert opened("ad", index=words, llm=own).resources.llm is own


def test_hidden_statements_are_a_deviation(words):
    lines = opened("ad", index=words, llm="recorded:sample", statements="none").deviations
    [told] = [line for line in lines if line.startswith("statements about the user: none")]
    assert "recorded completions stay" in told
    plain = opened("ad", index=words, llm="recorded:sample").deviations
    assert not any("statements" in line for line in plain)


def test_a_folder_of_several_kinds_says_that_words_are_searched(both, words):
    for index in (both, ikat.Index(both)):
        [note] = opened(index=index).deviations
        assert note.startswith(f"{both} holds bm25, dense: words are searched (bm25)")
        assert "retriever='dense'" in note
    for resources in ({"index": words}, {"index": both, "retriever": "bm25"}):
        assert opened(**resources).deviations == []


def test_an_argument_goes_to_the_methods_that_have_it(words):
    given = {"index": words, "llm": "recorded:sample"}
    for names in (["raw", "mq4cs"], ["mq4cs", "raw"]):
        systems = {system.method.expression: system for system in open_systems(names, **given, n=2)}
        values = [system.method.values.get("n") for system in systems.values()]
        assert sorted(values, key=str) == [2, None]
    with pytest.raises(UsageError, match="there is no option 'n'"):
        opened(index=words, n=2)


def test_own_prompts_are_read_by_a_system_or_refused(words, tmp_path):
    (tmp_path / "answer.jinja").write_text("In one word: {{ question }}")
    with pytest.raises(UsageError, match="no system uses prompts"):
        opened(index=words, prompts=tmp_path)
    system = opened("ad", index=words, llm="recorded:sample", prompts=tmp_path)
    assert "prompts" in repr(system.pipeline)


def test_a_limit_of_words_needs_a_response(words):
    llm = ikat.llm("recorded:sample")
    responds = ikat.PassageIndex(words).bm25() >> ikat.Respond(llm)
    limited, plain = with_limit(open_systems({"a": responds, "b": "raw"}, index=words), 40)
    assert "=40" in repr(limited.pipeline)
    assert "=40" not in repr(plain.pipeline)
    with pytest.raises(UsageError, match="no system here has this stage"):
        with_limit(open_systems("raw", index=words), 40)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["qid", "docno", "score", "rank"], ""),
        (["qid", "docno", "score"], "has no rank;"),
        (["qid", "docno"], "has no score, rank;"),
        (["qid", "docno", "score", "rank", "qid_0"], "ends in sub-queries"),
    ],
)
def test_a_run_ends_with_a_ranking(columns, told):
    if not told:
        check_ranking("mine", columns)
        return
    with pytest.raises(UsageError, match=f"system mine .*{told}"):
        check_ranking("mine", columns)


def test_texts_of_a_given_index_are_those_of_its_other_kinds(both):
    texts = ikat.Index(both).text_loader()
    for index in (ikat.PassageIndex(both, text=texts), ikat.Index(both, text=texts)):
        for retriever in ("bm25", "dense", "hybrid"):
            assert opened(index=index, retriever=retriever).resources.index.text is texts


def test_systems_of_one_kind_share_its_index_and_others_do_not(both):
    systems = ["raw:depth=5", "raw:depth=7", "raw:retriever=dense"]
    first, second, dense = open_systems(systems, index=both, retriever="bm25")
    assert first.resources.index is second.resources.index
    assert (first.retriever.num_results, second.retriever.num_results) == (5, 7)
    assert type(dense.retriever) is DenseRetriever


def test_the_retriever_of_a_system_is_told_from_its_stages(words):
    system = opened("raw", index=words)
    assert type(system.retriever) is BM25
