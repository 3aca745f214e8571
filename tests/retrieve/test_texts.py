"""The texts of passages by docno: what was stored comes back, damage is named, and a killed writer leaves its last commit."""

import json
import os
import re
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.retrieve import corpus, text_writer
from pyterrier_ikat.retrieve.corpus import CorpusReader, write_texts
from pyterrier_ikat.retrieve.text_writer import TextWriter
from pyterrier_ikat.retrieve.texts import TextStore

ANYTHING = st.text(st.characters(exclude_categories=[]))
DOCNOS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1).filter(
    lambda docno: docno.split() == [docno]
)


def items(texts):
    return [{"docno": docno, "text": text} for docno, text in texts.items()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "texts.lz4"


@given(texts=st.dictionaries(DOCNOS, ANYTHING, min_size=1), batch=st.integers(1, 3), commit=st.integers(1, 4), data=st.data())
@settings(deadline=None, max_examples=25)
def test_any_texts_come_back_whatever_the_batches_and_commits(tmp_path_factory, texts, batch, commit, data):
    path = tmp_path_factory.mktemp("any") / "texts.lz4"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_writer, "BATCH", batch)
        patch.setattr(corpus, "PER_COMMIT", commit)
        assert write_texts(path, items(texts)).count == len(texts)
    store, asked = TextStore(path), data.draw(st.lists(st.sampled_from(list(texts))))
    assert store.read(asked) == [texts[docno] for docno in asked]
    assert list(store) == sorted(texts.items())
    assert len(store) == len(texts)
    assert list(store.docnos([*texts, "not there", ""])) == list(texts)
    assert os.listdir(path.parent) == ["texts.lz4"]


def test_docnos_of_one_checksum_are_told_apart(path, monkeypatch):
    assert zlib.crc32(b"plumless\n") == zlib.crc32(b"buckeroo\n")
    texts = {"plumless": "rooibos", "tea": "mint", "buckeroo": "sage"}
    for per_commit in (1, 3):
        monkeypatch.setattr(corpus, "PER_COMMIT", per_commit)
        for names in (texts, [*texts][::-1], ["buckeroo", "tea"]):
            write_texts(path, items({docno: texts[docno] for docno in names}))
            os.utime(path, ns=(1, per_commit + len(names)))
            store = TextStore(path)
            assert store.read([*names]) == [texts[docno] for docno in names]
            assert set(store.docnos(["plumless", "buckeroo"])) == {"plumless", "buckeroo"} & set(names)
    with pytest.raises(DataError, match=r"lacks 1 of these passages \('plumless'\)"):
        store.read(["tea", "plumless"])


@pytest.mark.parametrize("per_commit", [1, 2, 10])
def test_a_docno_that_comes_again_is_named_with_both_places_even_among_others_of_its_checksum(path, monkeypatch, per_commit):
    monkeypatch.setattr(corpus, "PER_COMMIT", per_commit)
    twice = [{"docno": docno, "text": ""} for docno in ("a", "plumless", "buckeroo", "b", "plumless", "a")]
    with pytest.raises(DataError) as caught:
        write_texts(path, twice)
    assert str(caught.value) == (
        "passage 5 of the corpus: its docno 'plumless' was there before, as passage 2 of the corpus: give each passage its own"
    )


def test_every_damaged_byte_is_noticed_or_without_consequence(tmp_path):
    texts = {"d1": "Rooibos has no caffeine.", "d2": "", "plumless": "tea", "buckeroo": "Cafés \ud800"}
    write_texts(tmp_path / "whole", items(texts))
    whole, errors = (tmp_path / "whole").read_bytes(), []
    damaged = [whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :] for place in range(len(whole))]
    damaged += [whole[:size] for size in range(len(whole))]
    path = tmp_path / "texts.lz4"
    for number, content in enumerate(damaged):
        path.write_bytes(content)
        os.utime(path, ns=(1, number))
        try:
            assert TextStore(path).read([*texts]) == [*texts.values()]
            assert dict(TextStore(path)) == texts
        except DataError as error:
            errors.append(str(error))
    assert len(errors) > 0.95 * len(damaged)  # bytes between the passages and the tables mean nothing, some bits of entries little
    told = re.compile(rf"{path} can't be read \(.+\): it is damaged, copy the index {tmp_path} again or rebuild it")
    assert [error for error in errors if not told.fullmatch(error)] == []


def test_a_killed_writer_leaves_its_last_commit_and_the_next_one_ends_with_the_same_file(path, tmp_path, monkeypatch):
    monkeypatch.setattr(text_writer, "BATCH", 2)
    texts = {f"d{number * 7 % 12}": f"tea {number} " * number for number in range(12)}
    whole = tmp_path / "whole"
    monkeypatch.setattr(corpus, "PER_COMMIT", 5)
    write_texts(whole, items(texts))

    def write(writer, reading, count):
        for _ in writer.store((next(reading) for _ in range(count)), reading.name, 2):
            pass

    reading = CorpusReader(items(texts))
    with TextWriter(path, tmp_path / "notes") as writer:
        write(writer, reading, 5)
        writer.commit(reading.sha256(), "first")
        write(writer, reading, 5)
        (tmp_path / "notes" / "00001.ends").write_bytes(b"half")  # killed while it committed
    with TextWriter(path, tmp_path / "notes") as writer:
        assert [(commit.passages, commit.made_by) for commit in writer.commits] == [(5, "first")]
        reading = CorpusReader(items(texts))
        for _ in range(5):
            next(reading)
        assert writer.commits[0].sha256 == reading.sha256()
        for count in (5, 2):
            write(writer, reading, count)
            writer.commit(reading.sha256())
        writer.finish()
    for _ in range(2):
        assert path.read_bytes() == whole.read_bytes()
        with TextWriter(path, tmp_path / "notes") as writer:  # killed behind the end, before the folder got its name
            writer.finish()


def test_another_file_at_the_same_place_is_noticed(path):
    write_texts(path, items({"d1": "tea"}))
    store = TextStore(path)
    assert store.read(["d1"]) == ["tea"]
    path.unlink()
    write_texts(path, items({"d1": "coffee", "d2": "sage"}))
    assert store.read(["d1", "d2"]) == ["coffee", "sage"]
    path.unlink()
    with pytest.raises(DataError, match=r"texts.lz4 can't be read \(.*No such file"):
        store.read(["d1"])


def test_threads_read_together_where_nothing_can_be_written(path):
    texts = {f"d{number}": f"tea {number}" for number in range(300)}
    write_texts(path, items(texts))
    path.chmod(0o444)
    together = threading.Barrier(8)

    def read(start):
        together.wait()
        asked = [f"d{number}" for number in range(start, 300, 3)]
        return TextStore(path).read(asked) == [texts[docno] for docno in asked]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(8)))


def test_entries_of_many_commits_are_merged_sorted():
    draw = np.random.default_rng(3)
    tables = [np.sort(draw.integers(0, 1 << 64, size, dtype="<u8")) for size in (1, 1000, 0, 77)]
    tables.append(np.array([0, (1 << 64) - 1], "<u8"))
    assert np.array_equal(np.concatenate(list(text_writer.merged(tables))), np.sort(np.concatenate(tables)))


def test_real_texts_take_less_room_than_zlib_gave_them_though_the_dictionary_is_of_other_documents(ikat_data, tmp_path, monkeypatch):
    """The dictionary is made of the first half of the 406 documents, the room is that of the second half's texts."""
    lines = (ikat_data / "2023_test_topics_psg_text.jsonl").read_text(encoding="utf-8").splitlines()
    rows = sorted(map(json.loads, lines), key=lambda row: row["doc_id"])
    documents = sorted({row["doc_id"] for row in rows})
    halves = [[row["passage_text"] for row in rows if (row["doc_id"] < documents[203]) is first] for first in (True, False)]
    monkeypatch.setattr(text_writer, "BATCH", len(halves[0]))
    sizes = []
    for texts in (halves[0], sum(halves, [])):
        write_texts(tmp_path / "t", items({f"{number:027}": text for number, text in enumerate(texts)}))
        sizes.append((tmp_path / "t").stat().st_size)
    by_zlib = sum(len(zlib.compress(text.encode())) for text in halves[1])
    assert sizes[1] - sizes[0] < 1.05 * by_zlib  # with docnos and tables, which took sqlite another 15 in 100
