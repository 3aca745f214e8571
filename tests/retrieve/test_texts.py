"""The store of an index's passages: texts come back, additions are parts, kills lose none."""

import os
import re
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trust.killing import started

from pyterrier_ikat.conversations.passage_fields import CollectionWarning
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.retrieve import texts as texts_module
from pyterrier_ikat.retrieve.texts import (
    TextStore,
    batches,
    count_of,
    read_corpus,
    read_names,
)

ANYTHING = st.text(st.characters(exclude_categories=[]))
DOCNOS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1)


def reading(texts):
    """Read a corpus of docnos and texts: a dict or pairs."""
    return read_corpus([{"docno": docno, "text": text} for docno, text in dict(texts).items()])


@pytest.fixture
def store(tmp_path):
    store = TextStore(tmp_path, create=True)
    yield store
    store.close()


@given(
    st.dictionaries(DOCNOS, ANYTHING, min_size=1, max_size=12),
    st.dictionaries(DOCNOS, ANYTHING, min_size=1),
    st.data(),
)
def test_any_texts_come_back_whether_stored_at_once_or_added(tmp_path_factory, texts, more, data):
    folder = tmp_path_factory.mktemp("any")
    store = TextStore(folder, create=True)
    store.write(reading(texts))
    added = {docno: text for docno, text in more.items() if docno not in texts}
    store.add(reading({**added, **texts}))
    store.close()
    store = TextStore(folder)
    every = texts | added
    asked = data.draw(st.lists(st.sampled_from(list(every))))
    assert store.read(asked) == [every[docno] for docno in asked]
    assert list(store.passages()) == list(every.items())
    assert list(store.passages(len(texts))) == list(added.items())
    assert store.count == len(every)
    assert set(store.docnos([*every, "not there", ""])) == set(every)
    assert set(store.docnos([*every], before=len(texts))) == set(texts)
    store.check_same(reading(every))
    with pytest.raises(UsageError, match="holds an index of other passages"):
        store.check_same(reading({**every, "one-more": ""}))
    store.close()


@pytest.mark.parametrize("there", [False, True], ids=["stored", "added"])
def test_killed_write_keeps_old_passages_and_a_rerun_stores_all(tmp_path, there):
    texts = {f"d{number}": f"tea {number} " * 500 for number in range(2_000)}
    before = {"first": "mint"} if there else {}

    def write(corpus):
        store = TextStore(tmp_path, create=True)
        (store.add if there else store.write)(corpus)

    if there:
        store = TextStore(tmp_path, create=True)
        store.write(reading(before))
        store.close()

    def killed():
        for number, (docno, text) in enumerate(texts.items()):
            if number == 1_500:  # by then pages are on the disk
                os.kill(os.getpid(), signal.SIGKILL)
            yield {"docno": docno, "text": text}

    assert os.WIFSIGNALED(os.waitpid(started(lambda: write(read_corpus(killed()))), 0)[1])
    store = TextStore(tmp_path)
    assert (list(store.passages()) if there else store.parts) == list(before.items())
    write(reading(texts))
    assert store.count == len(texts) + len(before)
    assert store.read(["d1999"]) == [texts["d1999"]]


def test_text_that_mimics_the_next_passage_has_another_checksum(tmp_path):
    parts = []
    alike = (
        {"a": "x", "b": "y"},
        {"a": "x\nb\n1\ny"},
        {"a": "xb\n1\ny"},
        {"a": "xy", "b": ""},
        {"a": "", "b": "xy"},
    )
    for number, texts in enumerate(alike):
        (tmp_path / str(number)).mkdir()
        store = TextStore(tmp_path / str(number), create=True)
        store.write(reading(texts))
        parts.append(store.parts[0][1])
    assert len(set(parts)) == 5


def test_a_damaged_file_is_named(tmp_path):
    store = TextStore(tmp_path, create=True)
    store.write(reading({"d": "tea"}))
    store.close()
    for content in (b"not a database, but long enough to be read as one", b""):
        (tmp_path / "texts.db").write_bytes(content)
        with pytest.raises(DataError, match=r"texts\.db can't be used"):
            TextStore(tmp_path).read(["d"])


def test_threads_read_together_where_nothing_can_be_written(store, tmp_path):
    texts = {f"d{number}": f"tea {number}" for number in range(300)}
    store.write(reading(texts))
    (tmp_path / "texts.db").chmod(0o444)
    shared = TextStore(tmp_path)
    together = threading.Barrier(8)

    def read(start):
        together.wait()
        asked = [f"d{number}" for number in range(start, 300, 3)]
        expected = [f"tea {number}" for number in range(start, 300, 3)]
        for _ in range(20):
            assert shared.read(asked) == expected

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(8)))


PASSAGES = [("d2", "tram"), ("d1", "tea"), ("d3", ""), ("d0", "tea \ud800")]


@pytest.fixture
def filled(tmp_path):
    store = TextStore(tmp_path, create=True)
    store.write(iter(PASSAGES))
    yield store
    store.close()


def test_texts_are_read_in_the_order_asked_and_as_often(filled):
    assert filled.read(["d1", "d2", "d1"]) == ["tea", "tram", "tea"]
    assert filled.read([]) == []
    assert filled.read(["d0", "d3"]) == ["tea \ud800", ""]
    first, second = filled.read(["d1", "d1"])
    assert first is second


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["d9"], r"lacks 1 of these passages \('d9'\)"),
        (["d9", "d1", "d8", "d9"], r"lacks 2 of these passages \('d8', 'd9'\)"),
        (["d9", None, 7], r"lacks 3 of these passages \(7, None, 'd9'\)"),
    ],
)
def test_docnos_that_it_lacks_are_counted_and_named(filled, asked, told):
    with pytest.raises(DataError, match=told):
        filled.read(asked)


@pytest.mark.parametrize(
    ("before", "expected"), [(0, []), (1, ["d2"]), (3, ["d1", "d2", "d3"]), (9, None)]
)
def test_docnos_are_those_before_a_number(filled, before, expected):
    found = sorted(filled.docnos(["d0", "d1", "d2", "d3", "d9"], before))
    assert found == (["d0", "d1", "d2", "d3"] if expected is None else expected)


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_blocks_of_any_size_change_nothing(filled, monkeypatch, at_once):
    monkeypatch.setattr(texts_module, "DOCNOS_AT_ONCE", at_once)
    monkeypatch.setattr(texts_module, "PASSAGES_AT_ONCE", at_once)
    assert sorted(filled.docnos(["d0", "d1", "d9", "d2", "d3"])) == ["d0", "d1", "d2", "d3"]
    assert list(filled.passages()) == PASSAGES
    for start in range(6):
        assert list(filled.passages(start)) == PASSAGES[start:]


def test_each_addition_is_a_part_with_its_own_checksum(filled, tmp_path):
    [(count, first)] = filled.parts
    assert count == 4
    filled.add(iter([("d1", "tea"), ("d7", "milk")]))
    assert [part[0] for part in filled.parts] == [4, 1]
    assert filled.parts[0] == [4, first]
    assert count_of(filled.parts) == filled.count == 5
    filled.add(iter([("d1", "tea")]))  # nothing new: no part
    assert [part[0] for part in filled.parts] == [4, 1]
    assert list(filled.passages(4)) == [("d7", "milk")]
    other = tmp_path / "other"
    other.mkdir()
    alone = TextStore(other, create=True)
    assert alone.parts == []
    assert alone.count == 0
    alone.write(iter([("d7", "milk")]))
    assert alone.parts[0][1] == filled.parts[1][1]  # the number isn't in the checksum
    alone.close()


def test_a_corpus_with_another_text_adds_nothing(filled):
    with pytest.raises(DataError, match="has 'd1' with another text"):
        filled.add(iter([("d7", "milk"), ("d1", "other")]))
    assert filled.count == 4
    assert list(filled.docnos(["d7"])) == []


def test_a_docno_twice_is_named_and_nothing_is_stored(tmp_path):
    store = TextStore(tmp_path, create=True)
    with pytest.raises(DataError, match="has the docno 'b' more than once"):
        store.write(iter([("a", "x"), ("b", "y"), ("b", "y")]))
    assert store.parts == []
    store.write(iter([("b", "y")]))
    assert store.count == 1
    store.add(iter([("c", "x"), ("c", "x")]))  # the second is there already
    assert store.count == 2
    store.close()


@pytest.mark.parametrize(
    "other",
    [PASSAGES[:-1], [*PASSAGES, ("d9", "x")], PASSAGES[::-1], [("d2", "bus"), *PASSAGES[1:]], []],
)
def test_other_passages_are_not_the_same(filled, other):
    filled.check_same(iter(PASSAGES))
    with pytest.raises(UsageError, match="holds an index of other passages, or in another order"):
        filled.check_same(iter(other))


def test_a_missing_file_is_not_made_by_reading(tmp_path):
    with pytest.raises(DataError, match=r"texts\.db can't be used"):
        TextStore(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_closed_store_reads_nothing(tmp_path):
    store = TextStore(tmp_path, create=True)
    store.close()
    with pytest.raises(DataError, match="can't be used"):
        store.read(["d1"])


@pytest.mark.parametrize(
    ("corpus", "error", "told"),
    [
        ("text", UsageError, "the corpus is a str"),
        ({"docno": "d"}, UsageError, "the corpus is a dict"),
        (7, UsageError, "the corpus is a int"),
        ([], DataError, "the corpus has no passage"),
        (iter(()), DataError, "the corpus has no passage"),
        (pd.DataFrame({"docno": [], "text": []}), DataError, "the corpus has no passage"),
    ],
)
def test_what_is_no_corpus_is_refused_at_once(corpus, error, told):
    with pytest.raises(error, match=told):
        read_corpus(corpus)


class Named(list):
    """A corpus that knows where its passages are from."""

    def where(self, number):
        return f"file {number}"


@pytest.mark.parametrize("make", [list, iter, Named])
def test_a_bad_passage_is_numbered_from_one(make):
    corpus = make([{"docno": "a", "text": "x"}, {"docno": "b c", "text": "y"}])
    passages = read_corpus(corpus)
    assert next(passages) == ("a", "x")
    where = r" \(file 2\)" if make is Named else ""
    with pytest.raises(DataError, match=f"passage 2 of the corpus{where} is "):
        next(passages)


def test_a_frame_is_read_by_rows_and_blank_texts_are_kept():
    frame = pd.DataFrame({"docno": [7, 8], "text": ["tea", ""]}, index=[0, 0])
    assert list(read_corpus(frame)) == [("7", "tea"), ("8", "")]


@pytest.mark.parametrize(("size", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (6, [5])])
def test_batches_have_the_size_but_the_last(size, sizes):
    passages = [(f"d{number}", "") for number in range(5)]
    found = list(batches(iter(passages), size))
    assert [len(batch) for batch in found] == sizes
    assert sum(found, []) == passages


def test_names_are_the_lines_of_a_file(tmp_path):
    path = tmp_path / "names"
    for names in ([], ["a"], ["é", "a\rb", "c"]):
        path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8", newline="\n")
        if "a\rb" not in names:
            assert read_names(path) == names


@pytest.mark.parametrize("content", [b"\xff" * 9, b"\x05\0\0\0\xf0", b"\1\0\0\0\x10\xff", b""])
def test_a_damaged_text_is_an_error_that_names_the_file(filled, tmp_path, content):
    """An impossible size, a cut text, one that isn't UTF-8, and nothing."""
    with closing(sqlite3.connect(tmp_path / "texts.db")) as connection, connection:
        connection.execute("UPDATE passages SET text = ? WHERE docno = 'd1'", (content,))
    for use in (
        lambda: filled.read(["d1"]),
        lambda: list(filled.passages()),
        lambda: filled.add([("d1", "tea")]),
    ):
        with pytest.raises(DataError, match=r"texts\.db can't be used .*copy the index again"):
            use()
    assert filled.read(["d2"]) == ["tram"]


def failing_corpus():
    yield "d8", "tea"
    raise ValueError("of the corpus")


def test_an_error_of_a_corpus_is_not_one_of_the_file(filled):
    with pytest.raises(ValueError, match="of the corpus"):
        filled.add(failing_corpus())
    assert filled.count == 4


class Table:
    """A frame of another library: iterable, with columns."""

    columns = ("docno", "text")

    def __iter__(self):
        return iter(["docno", "text"])


def test_a_frame_of_another_library_is_refused():
    with pytest.raises(UsageError, match="the corpus is a Table: give dicts with docno and text"):
        read_corpus(Table())


def test_a_folder_of_any_name_holds_its_own_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a?mode=memory", "b#c", "d%20e", "é f"):
        (tmp_path / name).mkdir()
        with closing(TextStore(Path(name), create=True)) as made:
            made.write([("d1", name)])
        assert [file.name for file in (tmp_path / name).iterdir()] == ["texts.db"]
        with closing(TextStore(tmp_path / name)) as made:
            assert made.read(["d1"]) == [name]
            assert made.path == tmp_path / name / "texts.db"


def test_who_waits_too_long_for_a_writer_is_told(filled, tmp_path, monkeypatch):
    monkeypatch.setattr(texts_module, "WAIT_FOR_WRITER", 0.01)
    waits = []
    connect = sqlite3.connect

    def connected(*given, **options):
        waits.append(options["timeout"])
        return connect(*given, **options)

    monkeypatch.setattr(texts_module.sqlite3, "connect", connected)
    told = r"texts\.db can't be used \(database is locked\)"
    with closing(TextStore(tmp_path)) as other, filled._transaction():
        pytest.raises(DataError, other.add, [("d9", "late")]).match(told)
    assert waits == [0.01]
    assert filled.count == 4


def test_an_error_of_a_corpus_leaves_a_new_file_empty(tmp_path):
    with closing(TextStore(tmp_path, create=True)) as made:
        with pytest.raises(ValueError, match="of the corpus"):
            made.write(failing_corpus())
        assert made.parts == []
        made.write([("d8", "mint")])
        assert made.read(["d8"]) == ["mint"]


def test_the_first_of_several_docnos_with_another_text_is_named(filled):
    with pytest.raises(DataError, match="the index has 'd3' with another text"):
        filled.add([("d1", "tea"), ("d3", "no"), ("d2", "no")])


def test_each_unread_field_is_told_once_with_its_first_place():
    corpus = [
        {"docno": "a", "text": "tea", "summary": "hot"},
        {"docno": "b", "text": "tea", "summary": "hot", "author": "me"},
        {"docno": "c", "text": "tea", "author": "me"},
    ]
    with pytest.warns(CollectionWarning) as warnings:
        assert len(list(read_corpus(corpus))) == 3
    first, second = [str(warning.message) for warning in warnings]
    assert re.match("the corpus, passage 1: .* the field summary", first)
    assert re.match("the corpus, passage 2: .* the field author", second)
