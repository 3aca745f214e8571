"""The program in the process with Java, in this process, with a double of Anserini's searcher."""

import json
import sys
from types import SimpleNamespace

import pytest

from pyterrier_ikat.retrieve import lucene_child
from pyterrier_ikat.retrieve.lucene_child import (
    LuceneSearch,
    Refusal,
    answer_to,
    first_line,
    refuse_old_java,
    text_of,
    without_surrogates,
)

PASSAGES = {
    "d1": {"id": "d1", "contents": "Rooibos."},
    "d2": {"id": "d2", "contents": "Green tea."},
}

BOTH = {"passages": 1, "texts": "contents"}


class Searcher:
    """What LuceneSearch calls of Anserini's SimpleSearcher; ``made`` has all of them."""

    made = []
    passages = PASSAGES
    unanswered = ()

    def __init__(self, folder):
        self.folder = folder
        self.calls = []
        self.searched = []
        Searcher.made.append(self)

    def get_total_num_docs(self):
        return len(self.passages)

    def doc(self, key):
        if isinstance(key, int):
            key = list(self.passages)[key]
        return self.passages.get(key)

    def set_bm25(self, k1, b):
        self.calls.append(("bm25", k1, b))

    def set_rm3(self, terms, docs, weight):
        self.calls.append(("rm3", terms, docs, weight))

    def close(self):
        self.calls.append("closed")

    def batch_search(self, queries, numbers, depth, threads):
        self.searched.append((list(queries), list(numbers), depth))
        answers = {}
        for query, number in zip(queries, numbers, strict=True):
            if query not in self.unanswered:
                first = SimpleNamespace(docid=f"{query}0", score=0)
                second = SimpleNamespace(docid=f"{query}1", score=-1)
                answers[number] = [] if query == "nothing" else [first, second][:depth]
        return answers


class Strings(list):
    add = list.append


@pytest.fixture
def options(monkeypatch):
    """A Java of version 17 with Anserini; what it was started with."""
    started = []
    clauses = []
    properties = SimpleNamespace(getProperty=lambda name: "17")
    classes = {
        "java.lang.System": properties,
        "java.util.ArrayList": Strings,
        "org.apache.lucene.search.IndexSearcher": SimpleNamespace(setMaxClauseCount=clauses.append),
        "io.anserini.search.SimpleSearcher": Searcher,
    }
    config = SimpleNamespace(
        add_classpath=lambda jar: started.append(jar), add_options=lambda text: started.append(text)
    )
    monkeypatch.setitem(sys.modules, "jnius_config", config)
    monkeypatch.setitem(sys.modules, "jnius", SimpleNamespace(autoclass=classes.__getitem__))
    monkeypatch.setattr(Searcher, "made", [])
    return SimpleNamespace(started=started, clauses=clauses, java=properties, classes=classes)


@pytest.fixture
def search(options):
    return LuceneSearch("folder", "some/anserini.jar", "")


@pytest.mark.parametrize(("memory", "more"), [("", []), ("4g", ["-Xmx4g"])])
def test_java_starts_with_the_jar_and_its_memory(options, memory, more):
    LuceneSearch("folder", "some/anserini.jar", memory)
    assert options.started == ["some/anserini.jar", "-XX:+ExitOnOutOfMemoryError", *more]
    assert options.clauses == [1 << 20]


@pytest.mark.parametrize(
    ("version", "told"),
    [("11", None), ("17", None), ("21.0.1", None), ("10", "10"), ("1.8", "8"), ("9.0.4", "9")],
)
def test_java_is_at_least_11(version, told):
    if told is None:
        refuse_old_java(version)
        return
    with pytest.raises(Refusal, match=f"^this is Java {told}$") as refused:
        refuse_old_java(version)
    assert refused.value.kind == "java"


def test_what_fails_at_the_start_has_its_kind(options, monkeypatch):
    options.java.getProperty = lambda name: "1.8"
    with pytest.raises(Refusal, match="this is Java 8"):
        LuceneSearch("folder", "some/anserini.jar", "")
    searchers = options.classes.pop("org.apache.lucene.search.IndexSearcher")
    with pytest.raises(Refusal, match="this is Java 8"):  # which loads no newer jar
        LuceneSearch("folder", "some/anserini.jar", "")
    options.classes["org.apache.lucene.search.IndexSearcher"] = searchers
    options.java.getProperty = lambda name: "17"
    searcher = options.classes.pop("io.anserini.search.SimpleSearcher")
    with pytest.raises(Refusal, match=r"^anserini\.jar in Java 17: .*SimpleSearcher") as refused:
        LuceneSearch("folder", "some/anserini.jar", "")
    assert refused.value.kind == "jar"

    def fails(folder):
        raise OSError("\n no segments file\nmore")

    options.classes["io.anserini.search.SimpleSearcher"] = fails
    with pytest.raises(Refusal, match="^no segments file$") as refused:
        LuceneSearch("folder", "some/anserini.jar", "")
    assert refused.value.kind == "index"
    options.classes["io.anserini.search.SimpleSearcher"] = searcher
    monkeypatch.setitem(sys.modules, "jnius", None)
    with pytest.raises(Refusal, match="jnius") as refused:
        LuceneSearch("folder", "some/anserini.jar", "")
    assert refused.value.kind == "java"


@pytest.mark.parametrize(
    ("passages", "described"),
    [
        (PASSAGES, {"passages": 2, "texts": "contents"}),
        ({"d": {"id": "d", "raw": '{"contents": "x"}'}}, {"passages": 1, "texts": "raw"}),
        ({"d": {"id": "d", "contents": "x", "raw": '{"contents": "y"}'}}, BOTH),
        ({"d": {"id": "d", "raw": "x"}}, {"passages": 1, "texts": None}),
        ({"d": None}, {"passages": 1, "texts": None}),
        ({}, {"passages": 0, "texts": None}),
    ],
    ids=["contents", "raw", "both", "no text", "deleted", "empty"],
)
def test_an_index_says_its_size_and_where_its_texts_are(search, monkeypatch, passages, described):
    monkeypatch.setattr(Searcher, "passages", passages)
    assert search.describe() == described


def test_passages_without_an_id_are_not_anserinis(search, monkeypatch):
    monkeypatch.setattr(Searcher, "passages", {"d": {"body": "x"}})
    with pytest.raises(Refusal, match="store no id") as refused:
        search.describe()
    assert refused.value.kind == "foreign"


def test_queries_are_searched_in_batches_of_sixteen(search):
    queries = [f"q{number}" for number in range(18)]
    found = search.search(queries, 1, 0.9, 0.4, [])
    assert found == [[[f"{query}0"], [0]] for query in queries]
    searcher = Searcher.made[-1]
    numbers = [str(number) for number in range(16)]
    assert searcher.searched == [(queries[:16], numbers, 1), (queries[16:], ["0", "1"], 1)]
    assert search.search(["a"], 5, 0.9, 0.4, []) == [[["a0", "a1"], [0, -1]]]
    assert search.search([], 5, 0.9, 0.4, []) == []
    found = search.search(["nothing", "tea"], 1, 0.9, 0.4, [])
    assert found == [[[], []], [["tea0"], [0]]]


def test_a_query_that_anserini_leaves_out_is_named(search, monkeypatch):
    monkeypatch.setattr(Searcher, "unanswered", ("bad ", "x" * 200))
    with pytest.raises(Refusal, match="^no answer to the query 'bad.*'$") as refused:
        search.search(["tea", "bad\0", "mint"], 5, 0.9, 0.4, [])
    assert refused.value.kind == "query"
    with pytest.raises(Refusal, match=f"'{'x' * 80}'$"):
        search.search(["x" * 200], 5, 0.9, 0.4, [])


def test_each_setting_has_a_searcher_and_the_oldest_is_closed(search):
    settings = [(0.1, 0.4, []), (0.2, 0.4, []), (0.1, 0.5, []), (0.1, 0.4, [10, 20, 0.5])]
    for setting in settings:
        search.search(["tea"], 1, *setting)
    first, second, third, fourth = Searcher.made[1:]
    assert [searcher.folder for searcher in Searcher.made] == ["folder"] * 5
    assert fourth.calls == [("bm25", 0.1, 0.4), ("rm3", 20, 10, 0.5)]
    search.search(["tea"], 1, *settings[0])  # used again, so it stays
    assert len(Searcher.made) == 5
    search.search(["tea"], 1, 3.0, 0.0, [])
    assert first.calls == [("bm25", 0.1, 0.4)]
    assert second.calls == [("bm25", 0.2, 0.4), "closed"]
    assert "closed" not in third.calls
    assert len(Searcher.made) == 6


def test_texts_are_none_for_passages_that_are_not_there(search, monkeypatch):
    assert search.texts(["d2", "none", "d1"], "contents") == ["Green tea.", None, "Rooibos."]
    assert search.present(["d2", "none", "d1"]) == ["d2", "d1"]
    with pytest.raises(Refusal, match="^the field raw of d1 has no text$") as refused:
        search.texts(["none", "d1"], "raw")
    assert refused.value.kind == "index"


@pytest.mark.parametrize(
    ("document", "field", "text"),
    [
        ({"contents": "Tea."}, "contents", "Tea."),
        ({"contents": ""}, "contents", ""),
        ({}, "contents", None),
        ({}, "raw", None),
        ({"contents": '{"contents": "x"}'}, "contents", '{"contents": "x"}'),
        ({"raw": '{"contents": "Tea."}'}, "raw", "Tea."),
        ({"raw": '{"contents": 7}'}, "raw", None),
        ({"raw": '{"text": "Tea."}'}, "raw", None),
        ({"raw": '["contents"]'}, "raw", None),
        ({"raw": "<DOC>"}, "raw", None),
    ],
)
def test_a_text_is_contents_or_in_the_json_of_raw(document, field, text):
    assert text_of(document, field) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("tea", "tea"), ("a\ud800b", "a\ufffdb"), ("a\0b", "a b"), ("\U0001f375 é", "\U0001f375 é")],
)
def test_a_query_is_what_java_can_read(text, expected):
    assert without_surrogates(text) == expected


@pytest.mark.parametrize(
    ("message", "line"),
    [("one\ntwo", "one"), ("\n \n  two \nthree", "two"), ("", "ValueError"), (" \n", "ValueError")],
)
def test_the_first_line_with_words_is_an_errors_message(message, line):
    assert first_line(ValueError(message)) == line


def test_a_line_is_answered_by_its_result_or_its_error(search):
    def asked(name, **arguments):
        return answer_to(search, json.dumps([name, arguments]).encode())

    assert asked("present", docnos=["d1", "x"]) == {"answer": ["d1"]}
    refused = asked("texts", docnos=["d1"], field="raw")
    assert refused == {"error": "the field raw of d1 has no text", "kind": "index"}
    failed = asked("present", docnos=7)
    assert failed["kind"] == "query"
    assert failed["error"].startswith("TypeError: ")


class Answers:
    """The two standard streams of the process."""

    def __init__(self, *lines):
        self.buffer = iter([json.dumps(line).encode() + b"\n" for line in lines])
        self.buffer = _Lines(self.buffer)
        self.written = ""
        self.flushed = ""

    def write(self, text):
        self.written += text

    def flush(self):
        self.flushed = self.written


class _Lines:
    def __init__(self, lines):
        self.lines = lines

    def readline(self):
        return next(self.lines)

    def __iter__(self):
        return self.lines


@pytest.mark.parametrize("version", ["17", "1.8"])
def test_the_program_answers_each_line_at_once(options, monkeypatch, version):
    options.java.getProperty = lambda name: version
    opening = {"folder": "folder", "jar": "anserini.jar", "memory": "1g"}
    streams = Answers(opening, ["present", {"docnos": ["d2"]}], ["present", {"docnos": []}])
    monkeypatch.setattr(sys, "stdin", streams)
    monkeypatch.setattr(lucene_child, "take_stdout", lambda: streams)
    lucene_child.main()
    assert streams.flushed == streams.written
    answers = [json.loads(line) for line in streams.written.splitlines()]
    if version == "17":
        described = {"passages": 2, "texts": "contents"}
        assert answers == [{"answer": described}, {"answer": ["d2"]}, {"answer": []}]
    else:
        assert answers == [{"error": "this is Java 8", "kind": "java"}]
