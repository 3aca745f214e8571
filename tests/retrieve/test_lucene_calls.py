"""What an index of Lucene asks its process, without any process."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import lucene as lucene_module
from pyterrier_ikat.retrieve.lucene_process import (
    JAR,
    ProcessEnded,
)

PASSAGES = {"d1": "Rooibos.", "d2": "Green tea.", "d3": "A tram."}


class Process:
    """A process for PASSAGES; ``asked`` has what it was asked, ``ends`` how often it ends first."""

    def __init__(self, texts="contents"):
        self.asked = []
        self.ends = 0
        self.pid = 7
        self.described = {"passages": 3, "texts": texts}

    def describe(self):
        return self.described

    def close(self):
        self.pid = None

    def ask(self, name, **arguments):
        self.asked.append((name, arguments))
        if self.ends:
            self.ends -= 1
            raise ProcessEnded("ended")
        if name == "texts":
            return [PASSAGES.get(docno) for docno in arguments["docnos"]]
        if name == "present":
            return [docno for docno in arguments["docnos"] if docno in PASSAGES]
        return [[["d2", "d1"], [2.5, 1.5]] for _ in arguments["queries"]]


@pytest.fixture
def index(lucene_folder):
    index = ikat.LuceneIndex(lucene_folder)
    index._process = Process()
    return index


def test_a_search_sends_depth_parameters_and_expansion(index, tmp_path):
    frame = pd.DataFrame({"qid": ["1", "2"], "query": ["tea", "a tram"]})
    cache = tmp_path / "cache"
    found = index.bm25(1.2, 0.75, 5, cache)(frame)
    assert found[["qid", "docno", "score", "text"]].values.tolist() == [
        ["1", "d2", 2.5, PASSAGES["d2"]],
        ["1", "d1", 1.5, PASSAGES["d1"]],
        ["2", "d2", 2.5, PASSAGES["d2"]],
        ["2", "d1", 1.5, PASSAGES["d1"]],
    ]
    index.rm3(3, 20, 0.25, k1=2.0, b=0.5, num_results=7, cache=cache)(frame[:1])
    index.rm3(cache=cache)(frame[:1])
    searches = [arguments for name, arguments in index._process.asked if name == "search"]
    assert searches == [
        {"queries": ["tea", "a tram"], "depth": 5, "k1": 1.2, "b": 0.75, "rm3": []},
        {"queries": ["tea"], "depth": 7, "k1": 2.0, "b": 0.5, "rm3": [3, 20, 0.25]},
        {"queries": ["tea"], "depth": 1000, "k1": 0.9, "b": 0.4, "rm3": [10, 10, 0.5]},
    ]
    index.bm25(1.2, 0.75, 5, cache)(frame)
    assert len([name for name, _ in index._process.asked if name == "search"]) == 3  # cached


def test_parameters_are_checked_also_when_set_later(index):
    with pytest.raises(ikat.UsageError, match="k1=-1"):
        index.bm25(k1=-1)
    retriever = index.bm25()
    retriever.b = 2.0  # as pt.GridSearch does
    with pytest.raises(ikat.UsageError, match=r"b=2\.0"):
        retriever.search("tea")


def test_retrievers_have_the_arguments_that_are_given(index):
    full = index.retriever(5, "c", k1=1.2, b=0.75)
    assert (full.num_results, str(full.cache), full.k1, full.b) == (5, "c", 1.2, 0.75)
    assert full == index.bm25(1.2, 0.75, 5, "c")
    plain = index.bm25()
    assert (plain.num_results, plain.cache, plain.k1, plain.b) == (1000, None, 0.9, 0.4)
    assert index.retriever() == plain
    assert repr(index.rm3(fb_docs=3)) == f"ikat.LuceneIndex({index.path!r}).rm3(fb_docs=3)"


def test_the_first_search_is_made_by_warming_up(index):
    index.warm_up()
    expected = {"queries": ["tea"], "depth": 1, "k1": 0.9, "b": 0.4, "rm3": []}
    assert index._process.asked == [("search", expected)]


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_docnos_and_texts_are_asked_in_parts(index, monkeypatch, at_once):
    monkeypatch.setattr(lucene_module, "DOCNOS_AT_ONCE", at_once)
    assert list(index.docnos(["d3", "x", "d1"])) == ["d3", "d1"]
    assert index.texts(["d2", "d1", "d2", "d3"]) == [
        "Green tea.",
        "Rooibos.",
        "Green tea.",
        "A tram.",
    ]
    asked = []
    for name, arguments in index._process.asked:
        if name == "texts":
            assert arguments["field"] == "contents"
            assert len(arguments["docnos"]) <= at_once
            asked.extend(arguments["docnos"])
    assert asked == ["d2", "d1", "d3"]
    with pytest.raises(ikat.DataError, match=r"aren't in .*i: x, y"):
        index.texts(["x", "d1", "y", "x"])


def test_an_index_without_texts_takes_those_of_a_loader(lucene_folder):
    index = ikat.LuceneIndex(lucene_folder)
    index._process = Process(texts=None)
    assert not index.has_text
    assert "text" not in index.bm25().search("tea").columns
    with pytest.raises(ikat.DataError, match="stores no texts"):
        index.texts(["d1"])
    loader = pt.apply.generic(lambda rows: rows.assign(text="own " + rows["docno"]))
    for stored in (None, "contents"):
        index = ikat.LuceneIndex(lucene_folder, text=loader)
        index._process = Process(texts=stored)
        assert index.has_text
        assert index.bm25().search("tea")["text"].tolist() == ["own d2", "own d1"]


def test_a_process_that_ended_is_asked_once_more(index):
    index._process.ends = 1
    assert list(index.docnos(["d1"])) == ["d1"]
    assert len(index._process.asked) == 2
    index._process.ends = 2
    with pytest.raises(ProcessEnded):
        list(index.docnos(["d1"]))
    assert len(index._process.asked) == 4


@pytest.mark.parametrize("how", ["ended before", "ends now"])
def test_a_process_started_again_has_the_same_index(index, lucene_folder, how):
    index.opened()
    (lucene_folder / "segments_1").write_bytes(b"other")
    assert list(index.docnos(["d1"])) == ["d1"]  # the open one
    index._process.asked.clear()
    if how == "ended before":
        index._process.pid = None
    else:
        index._process.ends = 1
    with pytest.raises(ikat.DataError, match="was replaced since it was opened"):
        list(index.docnos(["d1"]))
    assert len(index._process.asked) == (0 if how == "ended before" else 1)
    index.close()
    assert index._process.pid is None
    assert list(index.docnos(["d1"])) == ["d1"]


def test_a_fingerprint_is_of_the_commit_and_the_jar(index, lucene_folder, monkeypatch):
    fingerprints = {index.fingerprint()}
    (lucene_folder / "segments_1").write_bytes(b"other")
    fingerprints.add(index.fingerprint())
    (lucene_folder / "segments_1").rename(lucene_folder / "segments_2")
    fingerprints.add(index.fingerprint())
    (lucene_folder.parent / "b.jar").touch()
    monkeypatch.setenv(JAR, str(lucene_folder.parent / "b.jar"))
    fingerprints.add(index.fingerprint())
    assert len(fingerprints) == 4
    assert index.opened() is index.opened()


def test_an_index_is_equal_by_path_texts_and_memory(tmp_path):
    loader = ikat.TextLoader(tmp_path / "passages.jsonl")
    plain = ikat.LuceneIndex(tmp_path)
    with_texts = ikat.LuceneIndex(tmp_path, text=loader)
    assert plain == ikat.LuceneIndex(str(tmp_path))
    assert plain != with_texts
    assert plain != str(tmp_path)
    assert plain != ikat.PassageIndex(tmp_path)
    assert len({plain, with_texts, ikat.LuceneIndex(tmp_path)}) == 2
    assert len({hash(plain), hash(with_texts), hash(ikat.LuceneIndex(tmp_path / "x"))}) == 3
    assert repr(with_texts) == f"ikat.LuceneIndex({str(tmp_path)!r}, text={loader!r})"


def test_half_an_index_and_other_folders_are_told_apart(tmp_path):
    (tmp_path / "_0.cfs").touch()
    with pytest.raises(ikat.DataError, match="isn't whole .*no file segments_N"):
        ikat.LuceneIndex(tmp_path).fingerprint()
    (tmp_path / "_0.cfs").rename(tmp_path / "essay.txt")
    with pytest.raises(ikat.UsageError, match=r"no index that is known here, but essay\.txt"):
        ikat.LuceneIndex(tmp_path).fingerprint()


def test_an_index_is_known_from_its_first_question(index, lucene_folder):
    assert list(index.docnos(["d1"])) == ["d1"]
    (lucene_folder / "segments_1").write_bytes(b"other")
    index._process.ends = 1
    with pytest.raises(ikat.DataError, match="was replaced since it was opened"):
        list(index.docnos(["d1"]))


def test_an_empty_text_is_a_text(index, monkeypatch):
    monkeypatch.setitem(PASSAGES, "d4", "")
    assert index.texts(["d4", "d1"]) == ["", "Rooibos."]
