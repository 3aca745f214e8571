"""The cache of results: its bounds, and what damaged files, threads, processes and kills leave."""

import multiprocessing
import os
import sqlite3
import threading
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trust.killing import started

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.store import cache as result_cache
from pyterrier_ikat.store.cache import Cache, digest, open_cache

A = digest("a")
B = digest("b")
C = digest("c")


@pytest.fixture(params=["memory", "file"])
def cache(request, tmp_path):
    made = Cache(None if request.param == "memory" else tmp_path / "deep" / "results.sqlite")
    yield made
    made.close()


def test_what_is_put_is_got_and_the_rest_left_out(cache):
    assert cache.get([A, B]) == {}
    cache.put({A: b"1", B: b"\x00\xff" * 1000})
    assert cache.get([B, C, A, A]) == {A: b"1", B: b"\x00\xff" * 1000}
    assert cache.get([]) == {}


def test_a_later_value_takes_the_place_of_the_earlier(cache):
    cache.put({A: b"1"})
    cache.put({A: b"22", B: b""})
    assert cache.get([A, B]) == {A: b"22", B: b""}


def test_more_keys_than_sqlite_takes_at_once(cache):
    items = {digest(str(number)): str(number).encode() for number in range(1203)}
    cache.put(items)
    assert cache.get(list(items)) == items


def test_a_file_is_bounded_and_what_was_put_longest_ago_goes(tmp_path, caplog):
    cache = Cache(tmp_path / "results.sqlite", max_bytes=1 << 20)
    keys = [digest(str(number)) for number in range(2000)]
    for start in range(0, 2000, 50):
        items = dict.fromkeys(keys[start : start + 50], bytes(1000))
        cache.put({**items, A: b"put again"})
    cache.close()
    known = cache.get(keys)
    assert set(known) == set(keys[-len(known) :])
    assert 600 < len(known) < 1000
    assert cache.get([A]) == {A: b"put again"}
    assert (tmp_path / "results.sqlite").stat().st_size < 1.2 * (1 << 20)
    (said,) = caplog.messages
    assert "results.sqlite, 1 MiB) is full: the oldest entries are removed" in said


def test_that_memory_is_full_is_said_once(caplog):
    cache = Cache(max_bytes=2 << 20)
    cache.put({A: bytes(1 << 20)})
    assert caplog.messages == []
    for _ in range(2):
        cache.put({B: bytes(1 << 20), C: bytes(1 << 20)})
    (said,) = caplog.messages
    assert "in memory, 2 MiB) is full" in said


def test_what_is_revised_is_revised_by_one_at_a_time(cache):
    def one_more(known):
        return {A: b"%d" % (int(known.get(A, b"0")) + 1)}

    def revise():
        for _ in range(25):
            cache.revise([A, B], one_more)

    threads = [threading.Thread(target=revise) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert cache.get([A]) == {A: b"100"}


@pytest.mark.linux
def test_two_processes_revise_one_file(tmp_path):
    path = tmp_path / "results.sqlite"
    together = multiprocessing.get_context("fork").Barrier(2)

    def revise():
        cache = Cache(path)
        together.wait(120)
        for _ in range(100):
            cache.revise([A], lambda known: {A: b"%d" % (int(known.get(A, b"0")) + 1)})

    both = [started(revise) for _ in range(2)]
    assert [os.waitpid(process, 0)[1] for process in both] == [0, 0]
    assert Cache(path).get([A]) == {A: b"200"}


@pytest.mark.linux
def test_a_forked_process_opens_the_file_anew(tmp_path):
    cache = Cache(tmp_path / "results.sqlite")
    cache.put({A: b"1"})
    child = os.fork()
    if child == 0:
        cache.put({B: b"2"})
        os._exit(0 if cache.get([A]) == {A: b"1"} else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get([A, B]) == {A: b"1", B: b"2"}


@pytest.mark.linux
def test_what_a_fork_puts_stays_when_its_parent_closes_the_file(tmp_path):
    cache = Cache(tmp_path / "results.sqlite")
    heard, say = os.pipe()
    told, tell = os.pipe()
    cache.put({A: b"1"})
    child = os.fork()
    if child == 0:
        cache.put({B: b"2"})
        os.write(say, b".")
        os.read(told, 1)
        cache.put({C: b"3"})
        os._exit(0)
    os.read(heard, 1)
    cache.close()
    os.write(tell, b".")
    assert os.waitpid(child, 0)[1] == 0
    for end in (heard, say, told, tell):
        os.close(end)
    assert cache.get([A, B, C]) == {A: b"1", B: b"2", C: b"3"}


def test_what_is_no_database_is_an_error_and_stays_as_it_was(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 500)
    with pytest.raises(
        DataError,
        match=r"notes.txt cannot be used \(file is not a database\).*name another one with "
        "cache=PATH",
    ):
        Cache(path).put({A: b"1"})
    assert path.read_text() == "my notes\n" * 500


def test_a_file_cut_short_is_an_error_or_a_miss(tmp_path):
    path = tmp_path / "results.sqlite"
    cache = Cache(path)
    cache.put({digest(str(number)): bytes(5000) for number in range(50)})
    cache.close()
    path.write_bytes(path.read_bytes()[:10_000])
    with pytest.raises(DataError, match="cannot be used"):
        Cache(path).get([digest("1")])


def test_another_database_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cache (key, value, checksum)")
    connection.close()
    with pytest.raises(DataError, match="is a database of something else, not a cache of results"):
        Cache(path).get([A])


def test_error_in_a_revision_changes_nothing_and_blocks_nobody(cache):
    cache.put({A: b"1"})
    with pytest.raises(ZeroDivisionError):
        cache.revise([A], lambda known: {B: b"%d" % (1 // 0)})
    cache.put({C: b"3"})
    assert cache.get([A, B, C]) == {A: b"1", C: b"3"}


def test_after_an_error_the_cache_works_again(tmp_path):
    path = tmp_path / "deep" / "results.sqlite"
    (tmp_path / "deep").write_text("in the way")
    cache = Cache(path)
    with pytest.raises(DataError):
        cache.get([A])
    (tmp_path / "deep").unlink()
    cache.put({A: b"1"})
    assert cache.get([A]) == {A: b"1"}


def test_one_object_per_file_and_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_cache() is open_cache(None)
    assert open_cache("a.sqlite") is open_cache(tmp_path / "b" / ".." / "a.sqlite")
    assert open_cache("a.sqlite") is not open_cache("b.sqlite")
    assert open_cache().path == ":memory:"


def test_digest_is_blake2b_of_parts_prefixed_by_their_lengths():
    content = (2).to_bytes(8, "little") + "é".encode() + (1).to_bytes(8, "little") + b"\xff"
    assert digest("é", b"\xff") == blake2b(content, digest_size=16).digest()
    assert len(digest("\ud800", "")) == 16


@given(st.lists(st.text(max_size=3), max_size=3), st.lists(st.text(max_size=3), max_size=3))
def test_other_parts_have_another_digest(one, other):
    assert (digest(*one) == digest(*other)) == (one == other)


def test_what_operators_share_can_be_kept_in_a_file(tmp_path, monkeypatch):
    file = tmp_path / "results.sqlite"
    open_cache().put({b"before": b"1"})
    result_cache.set_default_cache(file)
    assert open_cache() is open_cache(file)
    assert open_cache().get([b"before"]) == {}
    open_cache().put({b"after": b"2"})
    monkeypatch.setattr(result_cache, "_opened", {})
    assert open_cache().get([b"after"]) == {}
    result_cache.set_default_cache(file)
    assert open_cache().get([b"after"]) == {b"after": b"2"}
