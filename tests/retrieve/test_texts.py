"""The store of an index's passages: texts come back, repeated docnos are named, kills lose none."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trust.killing import started

from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.retrieve.texts import TextStore, read_corpus

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
