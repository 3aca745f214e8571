"""What an index of Lucene asks its process, and what becomes of errors, without any process."""

import os
import subprocess
import sys
from collections import deque
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import lucene as lucene_module
from pyterrier_ikat.retrieve import lucene_process
from pyterrier_ikat.retrieve.lucene_process import (
    JAR,
    LuceneProcess,
    ProcessEnded,
    error_of,
    find_jar,
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
def folder(tmp_path, monkeypatch):
    (tmp_path / "a.jar").touch()
    monkeypatch.setenv(JAR, str(tmp_path / "a.jar"))
    (tmp_path / "i").mkdir()
    (tmp_path / "i" / "segments_1").write_bytes(b"first")
    return tmp_path / "i"


@pytest.fixture
def index(folder):
    index = ikat.LuceneIndex(folder)
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


def test_an_index_without_texts_takes_those_of_a_loader(folder):
    index = ikat.LuceneIndex(folder)
    index._process = Process(texts=None)
    assert not index.has_text
    assert "text" not in index.bm25().search("tea").columns
    with pytest.raises(ikat.DataError, match="stores no texts"):
        index.texts(["d1"])
    loader = pt.apply.generic(lambda rows: rows.assign(text="own " + rows["docno"]))
    for stored in (None, "contents"):
        index = ikat.LuceneIndex(folder, text=loader)
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
def test_a_process_started_again_has_the_same_index(index, folder, how):
    index.opened()
    (folder / "segments_1").write_bytes(b"other")
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


def test_a_fingerprint_is_of_the_commit_and_the_jar(index, folder, monkeypatch):
    fingerprints = {index.fingerprint()}
    (folder / "segments_1").write_bytes(b"other")
    fingerprints.add(index.fingerprint())
    (folder / "segments_1").rename(folder / "segments_2")
    fingerprints.add(index.fingerprint())
    (folder.parent / "b.jar").touch()
    monkeypatch.setenv(JAR, str(folder.parent / "b.jar"))
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


# The jar


def test_the_jar_of_the_environment_goes_before_pyserinis(tmp_path, monkeypatch):
    jars = tmp_path / "resources" / "jars"
    jars.mkdir(parents=True)
    spec = ModuleSpec("pyserini", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "none"), str(tmp_path)]
    monkeypatch.setattr(lucene_process, "find_spec", {"pyserini": spec}.get)
    monkeypatch.delenv(JAR, raising=False)
    with pytest.raises(ikat.UsageError, match="pip install --no-deps pyserini"):
        find_jar()
    for name in ("anserini-0.22.1-fatjar.jar", "anserini-0.21.0-fatjar.jar", "anserini-x.jar"):
        (jars / name).touch()
    assert find_jar() == jars / "anserini-0.22.1-fatjar.jar"
    monkeypatch.setenv(JAR, str(jars / "anserini-x.jar"))
    assert find_jar() == jars / "anserini-x.jar"
    monkeypatch.setenv(JAR, str(tmp_path))
    with pytest.raises(ikat.UsageError, match=f"{JAR}={tmp_path}: there is no such file"):
        find_jar()


# Errors


@pytest.mark.parametrize(
    ("kind", "text", "error", "told"),
    [
        ("java", "none", ikat.UsageError, r"needs Java 11 or later \(none\)"),
        ("jar", "bad", ikat.UsageError, r"jar can't be loaded \(bad\): `pip install"),
        ("foreign", "no id", ikat.UsageError, r"FOLDER isn't of Anserini \(no id\)"),
        ("index", "IndexFormatTooOld: 8", ikat.UsageError, r"another version .*a\.jar \(Index"),
        ("index", "an IndexFormatTooNew", ikat.UsageError, "another version of Lucene"),
        ("index", "Could not load codec x", ikat.UsageError, "another version of Lucene"),
        ("index", "truncated", ikat.DataError, r"FOLDER isn't whole \(truncated\): copy it again"),
        ("query", "no answer", ikat.DataError, r"FOLDER: no answer \(an IOException, last\)$"),
        ("query", "IndexFormatTooOld", ikat.DataError, "FOLDER: IndexFormatTooOld "),
    ],
)
def test_each_kind_of_error_says_how_to_go_on(folder, kind, text, error, told):
    printed = deque(["an Error", "an IOException, last", "at line 3"])
    found = error_of(kind, text, "FOLDER", printed)
    assert type(found) is error
    with pytest.raises(error, match=told):
        raise found


def test_an_error_without_javas_lines_stands_alone():
    assert str(error_of("query", "no answer", "i", deque(["a warning"]))) == (
        "the Lucene index i: no answer"
    )
    assert str(error_of("query", "no answer", "i", deque(["an Error: x", "at y"]))) == (
        "the Lucene index i: no answer (an Error: x)"
    )


# The process


ECHO = """
import json, sys
opening = json.loads(sys.stdin.readline())
print(json.dumps({"answer": opening}), flush=True)
for line in sys.stdin:
    name, arguments = json.loads(line)
    if name == "print":
        for number in range(arguments["count"]):
            print("line", number, file=sys.stderr)
        print(arguments["last"], file=sys.stderr, flush=True)
        sys.exit(4)
    if name == "half":
        print('{"answer": 1', end="", flush=True)
        sys.exit(5)
    if name == "bytes":
        sys.stderr.buffer.write(b"not UTF-8: \\xff\\n")
        sys.exit(6)
    if name == "refuse":
        print(json.dumps({"error": "no", "kind": "query"}), flush=True)
    else:
        print(json.dumps({"answer": [name, arguments]}), flush=True)
"""


@pytest.fixture
def process(folder, tmp_path, monkeypatch):
    program = tmp_path / "echo.py"
    program.write_text(ECHO)
    monkeypatch.setattr(lucene_process, "PROGRAM", program)
    monkeypatch.setattr(lucene_process, "find_spec", lambda name: name)
    process = LuceneProcess(str(folder), "1g")
    yield process
    process.close()


def test_a_process_is_started_by_folder_jar_and_memory(process, folder):
    opening = {"folder": str(folder), "jar": os.environ[JAR], "memory": "1g"}
    assert process.pid is None
    assert process.describe() == opening
    first = process.pid
    assert process.describe() == opening
    assert process.ask("any", a=1) == ["any", {"a": 1}]
    assert process.pid == first
    process.close()
    assert process.pid is None
    assert process.ask("any") == ["any", {}]
    assert process.pid != first
    other = LuceneProcess(str(folder), None)
    assert other.describe()["memory"] == ""
    other.close()


def test_a_refusal_leaves_the_process_as_it_is(process):
    process.describe()
    first = process.pid
    with pytest.raises(ikat.DataError, match="no"):
        process.ask("refuse")
    assert process.pid == first
    assert process.ask("next") == ["next", {}]


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("the end", r"ended with 4 \(line 23 line 24 the end\): start again"),
        ("java.lang.OutOfMemoryError: heap", r'OutOfMemoryError: heap\): give it more, .*"8g"'),
    ],
)
def test_an_end_has_its_status_and_the_last_lines(process, folder, last, told):
    with pytest.raises(ProcessEnded, match=told) as ended:
        process.ask("print", count=25, last=last)
    assert str(ended.value).startswith(f"the process that searches {folder} ended")
    assert process.pid is None
    assert process.ask("next") == ["next", {}]


def test_without_pyjnius_the_extra_is_named(process, monkeypatch):
    monkeypatch.setattr(lucene_process, "find_spec", lambda name: None)
    with pytest.raises(
        ikat.UsageError, match=r"needs pyjnius: `pip install pyterrier_ikat\[lucene"
    ):
        process.describe()


def test_a_closed_process_has_ended(process):
    process.describe()
    child = process._child
    process.close()
    assert child.poll() is not None
    assert child.stdin.closed
    assert child.stdout.closed


@pytest.mark.linux
def test_a_fork_leaves_the_process_to_its_owner(process):
    process.describe()
    first = process.pid
    fork = os.fork()
    if fork == 0:
        own = process.pid is None and process.ask("of the fork") == ["of the fork", {}]
        own = own and process.pid != first
        process.close()
        os._exit(0 if own else 1)
    assert os.waitpid(fork, 0)[1] == 0
    assert process.ask("of the owner") == ["of the owner", {}]
    assert process.pid == first


def test_a_fork_waits_for_no_question_of_its_owner(folder):
    process = LuceneProcess(str(folder), None)
    with process._lock:  # of another thread, at the moment of the fork
        forgotten = process._lock
        process.forget()
        assert not process._lock.locked()
    assert process._lock is not forgotten


def test_only_its_owner_ends_a_process():
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    lucene_process._kill(child, os.getpid() + 1)
    assert child.poll() is None
    lucene_process._kill(child, os.getpid())
    assert child.returncode == -9


def test_half_an_answer_is_an_end_with_nothing_printed(process):
    with pytest.raises(ProcessEnded, match=r"ended with 5 \(it printed nothing\): start again"):
        process.ask("half")
    assert process.pid is None


def test_what_java_prints_is_shown_in_any_encoding(process):
    with pytest.raises(ProcessEnded, match="ended with 6 .not UTF-8: \ufffd."):
        process.ask("bytes")


def test_a_closed_process_is_started_again_to_be_described(process):
    assert process.ask("first") == ["first", {}]
    described = process.describe()
    assert described["memory"] == "1g"
    process.close()
    assert process.describe() == described
    assert process.pid is not None


def test_a_pipe_that_takes_a_few_bytes_gets_all_of_them(folder):
    taken = bytearray()

    def write(content):
        taken.extend(content[:7])
        return min(7, len(content))

    process = LuceneProcess(str(folder), None)
    process._child = SimpleNamespace(stdin=SimpleNamespace(write=write))
    process._write(["any", {"a": 1}])
    process._child = None
    assert taken == b'["any", {"a": 1}]\n'


@pytest.mark.linux
def test_ctrl_c_does_not_reach_the_process_with_java(process):
    process.describe()
    assert os.getsid(process.pid) == process.pid != os.getsid(0)


def test_an_index_is_known_from_its_first_question(index, folder):
    assert list(index.docnos(["d1"])) == ["d1"]
    (folder / "segments_1").write_bytes(b"other")
    index._process.ends = 1
    with pytest.raises(ikat.DataError, match="was replaced since it was opened"):
        list(index.docnos(["d1"]))


def test_an_empty_text_is_a_text(index, monkeypatch):
    monkeypatch.setitem(PASSAGES, "d4", "")
    assert index.texts(["d4", "d1"]) == ["", "Rooibos."]


def test_all_pipes_that_there_are_are_closed(tmp_path):
    pipes = [(tmp_path / name).open("w") for name in ("in", "out", "err")]
    lucene_process._close_pipes(SimpleNamespace(stdin=pipes[0], stdout=pipes[1], stderr=pipes[2]))
    assert [pipe.closed for pipe in pipes] == [True] * 3
    lucene_process._close_pipes(SimpleNamespace(stdin=None, stdout=None, stderr=None))


def test_the_process_imports_from_where_this_one_does(process, monkeypatch):
    started = []

    def popen(command, **options):
        started.append((command, options["env"]["PYTHONPATH"], options["env"]["OF_THE_USER"]))
        raise ZeroDivisionError

    monkeypatch.setenv("OF_THE_USER", "1")
    monkeypatch.setattr(lucene_process.subprocess, "Popen", popen)
    monkeypatch.setattr(sys, "path", ["", "/one", "/two"])
    with pytest.raises(ZeroDivisionError):
        process.describe()
    command = [sys.executable, str(lucene_process.PROGRAM)]
    assert started == [(command, os.pathsep.join(["/one", "/two"]), "1")]
    assert process.pid is None
