"""What is made of folders, servers, names and own prompts for the methods of the package."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.methods import find
from pyterrier_ikat.retrieve import BM25, DenseRetriever
from pyterrier_ikat.retrieve.server_forms import Facts
from pyterrier_ikat.store.models import BUNDLED
from pyterrier_ikat.study import open_systems, resources
from pyterrier_ikat.study.resources import Resources, is_address, taken_by

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
    if resources.get("index") == "BOTH":
        resources = resources | {"index": both}
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
    for given in ({"index": words}, {"index": both, "retriever": "bm25"}):
        assert opened(**given).deviations == []


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


def test_texts_of_a_given_index_are_those_of_its_other_kinds(both):
    texts = ikat.Index(both).text_loader()
    for index in (ikat.PassageIndex(both, text=texts), ikat.Index(both, text=texts)):
        for retriever in ("bm25", "dense", "hybrid"):
            assert opened(index=index, retriever=retriever).resources.index.text is texts


def test_the_retriever_of_a_system_is_told_from_its_stages(words):
    system = opened("raw", index=words)
    assert type(system.retriever) is BM25


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://host", True),
        ("https://host", True),
        ("httpx://host", False),
        ("ftp://http://host", False),
        ("bm25", False),
    ],
)
def test_an_address_begins_with_its_protocol(text, expected):
    assert is_address(text) is expected


class Server:
    """Stands for ``Remote``: keeps its arguments, and says what it searches with."""

    facts_of_server = Facts("", True, "BM25")

    def __init__(self, url, **settings):
        self.url, self.settings = url, settings

    def facts(self):
        return self.facts_of_server


@pytest.mark.parametrize(
    ("method", "stage", "bm25", "settings", "told"),
    [
        ("raw:depth=7", "BM25", True, {"num_results": 7, "k1": 0.9, "b": 0.4}, "BM25 k1=0.9 b=0.4"),
        (
            "ptkb_str",
            "BM25",
            True,
            {"num_results": 1000, "k1": 0.82, "b": 0.68},
            "BM25 k1=0.82 b=0.68",
        ),
        ("raw:depth=7", "SPLADE", False, {"num_results": 7}, "SPLADE of http://host"),
        ("raw:depth=7", "BM25", False, {"num_results": 7}, "BM25 of http://host"),
    ],
)
def test_a_server_gets_the_depth_and_papers_parameters(
    monkeypatch, method, stage, bm25, settings, told
):
    monkeypatch.setattr(resources, "Remote", Server)
    monkeypatch.setattr(Server, "facts_of_server", Facts("", bm25, stage))
    entry = find(method)
    remote = resources._remote("http://host", entry)
    assert remote.url == "http://host"
    assert remote.settings == settings
    assert resources._remote_in_words("http://host", entry) == told


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("raw", "index reranker? retriever"),
        ("ad", "index llm reranker retriever statements"),
    ],
)
def test_the_resources_that_methods_take(method, expected):
    of_splade = {"splade_model", "splade_query_model", "texts"}
    taken = taken_by([find(method)])
    assert of_splade <= taken
    needed = {name for name in expected.split() if not name.endswith("?")}
    assert needed <= taken
    assert "dense" not in taken
    assert ("statements" in taken) == ("llm" in taken)


def test_none_as_a_text_is_no_resource_but_of_statements(words):
    common = Resources.of({"index": words, "reranker": "none", "llm": "none"}, [find("ad")])
    assert (common.index, common.reranker, common.llm) == (words, None, None)
    assert Resources.of({"statements": "none"}, [find("ad")]).statements == "none"


def test_spare_resources_are_left_out_and_others_refused(words):
    common = Resources.of({"index": words, "llm": "x"}, [find("raw")], spare=["llm"])
    assert (common.index, common.llm) == (words, None)
    with pytest.raises(UsageError, match="no system uses llm=..."):
        Resources.of({"index": words, "llm": "x"}, [find("raw")], spare=["rewriter"])


def test_what_is_opened_already_is_not_opened_again(words):
    known = {}
    first = Resources(index=words, llm="recorded:sample").opened(Ledger(), known)
    second = Resources(index=words, second_llm="recorded:sample", llm="recorded:sample")
    second = second.opened(Ledger(), known)
    assert second.index is first.index
    assert second.llm is first.llm
    assert second.second_llm is not first.llm
    assert first.reranker is None
    several = Resources(responders="recorded:sample, recorded:sample").opened(Ledger(), {})
    assert len(several.responders) == 2
    own = ikat.llm("recorded:sample")
    assert Resources(responders=[own]).opened(Ledger(), {}).responders == [own]


def test_trained_rewriters_are_made_of_names():
    rewrite = pt.apply.generic(lambda rows: rows)
    opened = Resources(rewriter="some/t5", expander=rewrite).opened(Ledger(), {})
    assert type(opened.rewriter).__name__ == "Seq2SeqRewrite"
    assert opened.expander is rewrite


def test_texts_of_another_folder_are_those_of_the_index(words, tmp_path):
    path = tmp_path / "other"
    ikat.PassageIndex(path).index([{"docno": "d1", "text": "other words"}])
    loaded = Resources(index=words, texts=str(path)).opened(Ledger(), {}).index.text
    rows = loaded(pd.DataFrame({"docno": ["d1"]}))
    assert rows["text"].tolist() == ["other words"]
