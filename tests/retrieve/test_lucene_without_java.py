"""The way to Anserini and back, with a small double of pyjnius in the place of Java.

The double has the classes and methods that Anserini 0.22.1 has: SimpleSearcher (batch_search,
set_bm25, set_rm3, doc, get_total_num_docs, close). Scores say by which settings they were made. The
tests with Java are those of test_lucene.py.
"""

import json
import os
import pickle
import sys
import time

import pandas as pd
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.retrieve.lucene import last_commit
from pyterrier_ikat.retrieve.lucene_process import JAR, ProcessEnded

JNIUS = """
import json, os, sys, time
from pathlib import Path

if os.environ.get("DOUBLE_FAILS") == "java":
    raise SystemError("\\n  Unable to find Java\\nsecond line")


class Hit:
    def __init__(self, docid, score):
        self.docid, self.score = docid, score


class SimpleSearcher:
    opened = 0

    def __init__(self, folder):
        if os.environ.get("DOUBLE_FAILS") == "index":
            raise OSError("\\ntruncated file\\nat line 2")
        self.path = Path(folder, "passages.json")
        self.passages = json.loads(self.path.read_text())
        self.k1 = self.b = None
        self.rm3 = 0
        SimpleSearcher.opened += 1
        self.number = SimpleSearcher.opened

    def get_total_num_docs(self):
        return len(self.passages)

    def doc(self, key):
        if isinstance(key, int):
            key = list(self.passages)[key]
        if key not in self.passages:
            return None
        return {"id": key, **self.passages[key]}

    def set_bm25(self, k1, b):
        self.k1, self.b = k1, b

    def set_rm3(self, terms, docs, weight):
        self.rm3 = terms * 100 + docs + weight

    def close(self):
        print("closed", self.number, file=sys.stderr, flush=True)

    def batch_search(self, queries, numbers, depth, threads):
        print("a line of Java on its standard output")
        found = {}
        for query, number in zip(queries, numbers):
            if query == "die":
                print("java.lang.OutOfMemoryError: heap", file=sys.stderr, flush=True)
                os._exit(3)
            if query == "unanswered":
                print("java.io.IOException: no such term", file=sys.stderr, flush=True)
                time.sleep(0.2)
                continue
            if query == "slow":
                time.sleep(60)
            score = self.k1 * 10 + self.b + self.rm3
            hits = [Hit(docno, score) for docno in sorted(self.passages)]
            if query.startswith("count"):
                hits = [Hit("d1", float(len(queries)))]
            if query.startswith("opened"):
                hits = [Hit("d1", float(SimpleSearcher.opened))]
            if query == "echo \\ufffd ":
                hits = hits[:1]
            found[number] = hits[:depth]
        return found


class ArrayList(list):
    def add(self, value):
        self.append(value)


class Properties:
    @staticmethod
    def getProperty(name):
        return os.environ.get("DOUBLE_JAVA", "17")


class IndexSearcher:
    @staticmethod
    def setMaxClauseCount(most):
        if os.environ.get("DOUBLE_FAILS") == "jar":
            raise LookupError("NoClassDefFoundError: Lucene")


CLASSES = {
    "java.lang.System": Properties,
    "java.util.ArrayList": ArrayList,
    "org.apache.lucene.search.IndexSearcher": IndexSearcher,
    "io.anserini.search.SimpleSearcher": SimpleSearcher,
}
autoclass = CLASSES.__getitem__
"""
CONFIG = """
import os

def add_classpath(path):
    assert os.path.exists(path)

def add_options(*options):
    with open(os.environ["DOUBLE_OPTIONS"], "a") as file:
        file.write("\\n".join(options) + "\\n")
"""
PASSAGES = {
    "d1": {"raw": json.dumps({"id": "d1", "contents": "Rooibos is red."})},
    "d2": {"raw": json.dumps({"id": "d2", "contents": "Green tea."})},
    "d3": {"raw": json.dumps({"id": "d3", "contents": "The tram is late."})},
}


@pytest.fixture
def java(tmp_path, monkeypatch):
    """The double of Java, in this process's path and that of its child."""
    folder = tmp_path / "double"
    folder.mkdir()
    (folder / "jnius.py").write_text(JNIUS)
    (folder / "jnius_config.py").write_text(CONFIG)
    (tmp_path / "anserini.jar").write_text("")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv(JAR, str(tmp_path / "anserini.jar"))
    monkeypatch.setenv("DOUBLE_OPTIONS", str(tmp_path / "options"))
    yield tmp_path
    for name in ("jnius", "jnius_config"):
        sys.modules.pop(name, None)


def folder_of(path, passages):
    path.mkdir()
    (path / "segments_2").write_bytes(b"a commit")
    (path / "passages.json").write_text(json.dumps(passages))
    return path


@pytest.fixture
def index(java):
    index = ikat.LuceneIndex(folder_of(java / "index", PASSAGES), memory="256m")
    yield index
    index.close()


def asked(retriever, *queries):
    """The best passages' scores of each query."""
    frame = pd.DataFrame({"qid": [f"1_{n}" for n in range(len(queries))], "query": list(queries)})
    return retriever(frame).query("rank == 0")["score"].tolist()


def test_passages_come_with_scores_texts_and_depth(index):
    found = index.bm25(num_results=2)(pd.DataFrame({"qid": ["1_1"], "query": ["tea"]}))
    assert found[["docno", "rank", "text"]].values.tolist() == [
        ["d1", 0, "Rooibos is red."],
        ["d2", 1, "Green tea."],
    ]
    assert (len(index), index.has_text) == (3, True)
    assert list(index.docnos(["d2", "none", "d1"])) == ["d2", "d1"]
    assert index.texts(["d2", "d1", "d2"]) == ["Green tea.", "Rooibos is red.", "Green tea."]
    with pytest.raises(ikat.DataError, match="passages that aren't in .*: x, y"):
        index.texts(["d1", "x", "y"])
    loaded = index.text_loader()(pd.DataFrame({"docno": ["d3"]}))
    assert loaded["text"].tolist() == ["The tram is late."]


def test_each_setting_has_its_own_searcher(index):
    """A score is ten times k1 plus b; with RM3 plus terms times 100, passages and weight."""
    assert asked(index.bm25(), "tea") == pytest.approx([9.4])
    assert asked(index.bm25(k1=1.5, b=0.75), "tea") == pytest.approx([15.75])
    assert asked(index.retriever(k1=2.0, b=0.5), "tea") == pytest.approx([20.5])
    assert asked(index.rm3(), "tea") == pytest.approx([9.4 + 1010.5])
    deep = index.rm3(fb_docs=3, fb_terms=20, original_weight=0.25, k1=1.0, b=0.5)
    assert asked(deep, "tea") == pytest.approx([10.5 + 2003.25])


def test_four_searchers_stay_open_the_oldest_goes(index):
    """Beside the one of texts: the fifth setting closes that which was used longest ago."""
    settings = [0.1, 0.2, 0.3, 0.4]
    for k1 in settings:
        asked(index.bm25(k1=k1), "tea")
    assert asked(index.bm25(k1=0.1), "opened 1") == [5.0]  # used again, so it stays
    assert asked(index.bm25(k1=0.5), "opened 2") == [6.0]
    assert asked(index.bm25(k1=0.1), "opened 3") == [6.0]
    assert asked(index.bm25(k1=0.2), "opened 4") == [7.0]  # it was the oldest


def test_queries_are_asked_sixteen_at_a_time(index):
    queries = [f"tea {number}" for number in range(16)]
    assert asked(index.bm25(), *queries, "count 1")[-1] == 1.0
    assert asked(index.bm25(k1=2.0), *queries[:15], "count 2")[-1] == 16.0


def test_characters_that_no_encoding_has_are_replaced(index):
    frame = pd.DataFrame({"qid": ["1"], "query": column(["echo \ud800\0"])})
    assert index.bm25()(frame)["docno"].tolist() == ["d1"]


@pytest.mark.parametrize(
    ("passages", "texts"),
    [
        ({"d1": {"contents": "Tea."}}, ["Tea."]),
        ({"d1": {"contents": "Tea.", "raw": '{"contents": "x"}'}}, ["Tea."]),
        ({"d1": {"raw": "no JSON"}}, None),
        ({"d1": {"raw": "[1]"}}, None),
        ({"d1": {"raw": '{"contents": 1}'}}, None),
        ({"d1": {}}, None),
        ({}, None),
    ],
)
def test_texts_are_stored_as_contents_or_in_raw_json(java, passages, texts):
    index = ikat.LuceneIndex(folder_of(java / "index", passages))
    try:
        assert index.has_text is (texts is not None)
        if texts is None:
            with pytest.raises(ikat.DataError, match="stores no texts"):
                index.texts(["d1"])
        else:
            assert index.texts(["d1"]) == texts
    finally:
        index.close()


def test_a_passage_without_its_text_is_an_error(java):
    passages = {**PASSAGES, "d4": {"raw": "{}"}}
    index = ikat.LuceneIndex(folder_of(java / "index", passages))
    with pytest.raises(ikat.DataError, match="isn't whole .the field raw of d4 has no text"):
        index.texts(["d1", "d4"])
    assert index.texts(["d1"]) == ["Rooibos is red."]  # the process goes on
    index.close()


def test_a_query_without_answer_names_javas_exception(index):
    with pytest.raises(ikat.DataError, match=r"no answer to the query 'unanswered' .*IOException"):
        index.bm25().search("unanswered")
    assert len(index.bm25().search("tea")) == 3


def test_a_process_that_ends_is_started_again_once(index):
    asked(index.bm25(), "tea")
    first = index.opened().engine.pid
    with pytest.raises(ProcessEnded, match="ended with 3 .*OutOfMemoryError.*give it more"):
        index.bm25().search("die")
    assert len(index.bm25().search("tea")) == 3
    os.kill(index.opened().engine.pid, 9)
    time.sleep(0.05)
    assert len(index.bm25().search("tea")) == 3
    assert index.opened().engine.pid != first


def interrupt_reading(monkeypatch, call):
    """Call ``call``, and interrupt it where it reads an answer."""

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("json.loads", interrupt)
        with pytest.raises(KeyboardInterrupt):
            call()


def test_an_answer_that_nobody_waited_for_is_not_the_next_ones(index, monkeypatch):
    asked(index.bm25(), "tea")
    process = index.opened().engine
    interrupt_reading(monkeypatch, lambda: process.ask("present", docnos=["d1"]))
    assert process.pid is None
    assert process.ask("present", docnos=["d2"]) == ["d2"]


def test_an_opening_that_was_interrupted_is_begun_again(index, monkeypatch):
    asked(index.bm25(), "tea")
    process = index.opened().engine
    interrupt_reading(monkeypatch, process._start)
    assert process.pid is None
    assert process.ask("present", docnos=["d2"]) == ["d2"]


def test_another_index_at_its_place_is_refused(index):
    before = index.fingerprint()
    asked(index.bm25(), "tea")
    (index.opened().folder / "segments_3").write_bytes(b"another commit")
    with pytest.raises(ikat.DataError, match="was replaced since it was opened"):
        index.fingerprint()
    index.close()
    assert index.fingerprint() != before
    assert len(index.bm25().search("tea")) == 3


@pytest.mark.parametrize(
    ("fails", "version", "told"),
    [
        ("java", "17", r"needs Java 11 or later \(Unable to find Java\)"),
        ("", "10", r"needs Java 11 or later \(this is Java 10\)"),
        ("", "1.8", r"needs Java 11 or later \(this is Java 8\)"),
        ("jar", "17", r"anserini.jar in Java 17: .*NoClassDefFoundError"),
        ("index", "17", r"isn't whole \(truncated file\)"),
    ],
)
def test_what_cannot_be_opened_says_why(java, monkeypatch, fails, version, told):
    monkeypatch.setenv("DOUBLE_FAILS", fails)
    monkeypatch.setenv("DOUBLE_JAVA", version)
    index = ikat.LuceneIndex(folder_of(java / "index", PASSAGES))
    with pytest.raises((ikat.UsageError, ikat.DataError), match=told):
        index.opened()
    monkeypatch.setenv("DOUBLE_FAILS", "")
    monkeypatch.setenv("DOUBLE_JAVA", "11")
    assert len(index) == 3
    index.close()


def test_javas_memory_is_the_given_one(java, index):
    asked(index.bm25(), "tea")
    assert (java / "options").read_text().split() == ["-XX:+ExitOnOutOfMemoryError", "-Xmx256m"]
    other = ikat.LuceneIndex(index.path)
    asked(other.bm25(), "tea")
    assert (java / "options").read_text().split()[2:] == ["-XX:+ExitOnOutOfMemoryError"]
    other.close()


@pytest.mark.parametrize("memory", ["4", "g", "0g", "4gb", "-1g", " 4g"])
def test_an_amount_of_memory_has_a_unit(memory):
    with pytest.raises(ikat.UsageError, match="memory="):
        ikat.LuceneIndex("x", memory=memory)


@pytest.mark.parametrize(
    "make",
    [
        lambda index: index.bm25(k1=-1),
        lambda index: index.bm25(b=1.5),
        lambda index: index.rm3(k1=-1),
        lambda index: index.rm3(fb_docs=0),
        lambda index: index.rm3(fb_terms=0),
        lambda index: index.rm3(original_weight=1.5),
        lambda index: index.rm3(original_weight=-0.5),
        lambda index: index.text_loader("title"),
        lambda index: index.bm25()(
            pd.DataFrame({"qid": ["1"], "query": ["tea"], "query_toks": [{"tea": 1.0}]})
        ),
    ],
)
def test_arguments_that_cannot_work_are_refused(index, make):
    with pytest.raises(ikat.UsageError):
        make(index)


def test_weights_of_0_and_1_are_allowed(index):
    for weight in (0.0, 1.0):
        assert index.rm3(original_weight=weight).original_weight == weight


@pytest.mark.parametrize(
    ("names", "last"),
    [
        (["segments_z", "segments_10", "segments_9", "segments_!"], "segments_10"),
        (["segments_z", "segments_9", "segments_a"], "segments_z"),
        (["segments_1", "segments_z~"], "segments_1"),
    ],
)
def test_the_last_commit_is_the_one_of_the_greatest_number(tmp_path, names, last):
    """In base 36: 10 is 36, and z is 35."""
    for name in names:
        (tmp_path / name).touch()
    assert last_commit(tmp_path).name == last


def test_a_folder_without_a_commit_says_what_is_missing(tmp_path):
    with pytest.raises(ikat.UsageError, match="there is no such folder"):
        last_commit(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ikat.UsageError, match="the folder is empty"):
        last_commit(tmp_path / "empty")


def test_an_index_of_lucene_is_a_value(tmp_path):
    index = ikat.LuceneIndex(tmp_path, memory="4g")
    same = pickle.loads(pickle.dumps(index))
    assert same == index
    assert hash(same) == hash(index)
    assert (same.path, same.memory) == (str(tmp_path), "4g")
    assert index != ikat.LuceneIndex(tmp_path, memory="8g")
    assert repr(index) == f"ikat.LuceneIndex({str(tmp_path)!r})"  # memory changes no result


def test_its_own_texts_are_replaced_by_a_loader(java):
    texts = ikat.PassageIndex(java / "texts").index([{"docno": "d1", "text": "Of the loader."}])
    only = {"d1": PASSAGES["d1"]}
    index = ikat.LuceneIndex(folder_of(java / "index", only), text=texts.text_loader())
    assert index.bm25().search("tea")["text"].tolist() == ["Of the loader."]
    index.close()
