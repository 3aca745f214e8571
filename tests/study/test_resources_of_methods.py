"""Which resources methods take, how servers and files are searched, and what is said of them."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Ledger
from pyterrier_ikat.methods import find
from pyterrier_ikat.retrieve.server_forms import Facts
from pyterrier_ikat.study import open_systems, resources
from pyterrier_ikat.study.resources import Resources, is_address, own_stage, taken_by


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


def test_what_is_no_file_is_no_stage_of_ones_own():
    for value in ("bm25", "model.py.bin", 7, None, ["x.py:y"]):
        assert own_stage(value) is value


FILE = """
import pyterrier as pt
from os.path import join

stage = pt.apply.generic(lambda rows: rows)
number = 7

def make():
    return stage

def of_index(index):
    return index.retriever(3)

def of_two(index, other):
    return stage

def with_default(index=None, *args, **more):
    return stage

def nothing():
    return 7
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("name", ["make", "of_index", "with_default"])
def test_a_function_of_a_file_is_a_stage(file, name):
    assert own_stage(f"{file}:{name}").__name__ == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (":number", "names no transformer or function"),
        (":join", "names no transformer or function"),  # imported, not its own
        (":mak", "did you mean make"),
        ("", "it has stage, make, of_index, of_two, with_default, nothing"),
    ],
)
def test_what_a_file_lacks_is_named(file, name, told):
    with pytest.raises(UsageError, match=told):
        own_stage(f"{file}{name}")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "words"
    corpus = [{"docno": f"d{number}", "text": "tea " * number} for number in range(1, 6)]
    return str(ikat.PassageIndex(path).index(corpus).path)


def opened(system="raw", **given):
    [one] = open_systems(system, **given)
    return one


def test_functions_of_a_file_make_retrievers(file, words):
    turn = pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "qutterance": ["tea"]})
    found = opened("raw:depth=3", retriever=f"{file}:of_index", index=words).pipeline(turn)
    assert len(found) == 3
    for name in ("make", "with_default", "stage"):
        system = opened(retriever=f"{file}:{name}")
        assert system.resources.index is None
    for name, given, told in (
        ("of_index", {}, r"of_index of retriever=... takes an index: give index=..., too"),
        ("of_two", {"index": words}, "takes index, other: .* a function of the index alone"),
        ("nothing", {}, "returns int: end it with return"),
        ("make", {"index": words}, "no system uses index=..."),
    ):
        with pytest.raises(UsageError, match=told):
            opened(retriever=f"{file}:{name}", **given)


def test_a_function_may_make_one_of_several_rerankers(file, words):
    rerank = pt.apply.generic(lambda rows: rows)
    with pytest.raises(UsageError, match="method ad takes one re-ranker, not 2"):
        opened("ad", index=words, llm="recorded:sample", reranker=[rerank, lambda index: rerank])
    asked = []

    def of_index(index):
        asked.append(index.path)
        return rerank

    opened("ad", index=words, llm="recorded:sample", reranker=of_index)
    assert asked == [words]


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
