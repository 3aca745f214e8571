"""The cache: its kinds and bounds, and what damaged files, threads, processes and kills leave."""

import multiprocessing
import os
import signal
import sqlite3
import threading
from contextlib import closing
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trust.killing import started

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.store import cache as cache_module
from pyterrier_ikat.store.cache import (
    RESULTS,
    Cache,
    CacheKind,
    CacheMovedWarning,
    digest,
    open_cache,
)

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
    cache_module.set_default_cache(file)
    assert open_cache() is open_cache(file)
    assert open_cache().get([b"before"]) == {}
    open_cache().put({b"after": b"2"})
    monkeypatch.setattr(cache_module, "_opened", {})
    assert open_cache().get([b"after"]) == {}
    cache_module.set_default_cache(file)
    assert open_cache().get([b"after"]) == {b"after": b"2"}


# A cache of a kind, in its file


KEEP = CacheKind("cache of tests", 0x1234, "give another file")
KEYS = [digest(str(number)) for number in range(10)]


def test_a_revision_sees_its_keys_stores_and_removes(cache):
    cache.put({KEYS[0]: b"0", KEYS[1]: b"1", KEYS[2]: b"2"})
    seen = []

    def change(known):
        seen.append(dict(known))
        return {KEYS[0]: None, KEYS[1]: b"", KEYS[3]: b"3", KEYS[4]: None}

    cache.revise([KEYS[1], KEYS[5], KEYS[0]], change)
    assert seen == [{KEYS[0]: b"0", KEYS[1]: b"1"}]
    assert cache.get(KEYS) == {KEYS[1]: b"", KEYS[2]: b"2", KEYS[3]: b"3"}


def test_a_kind_without_a_bound_keeps_everything(tmp_path):
    kept = Cache(tmp_path / "c", KEEP)
    assert kept.max_bytes == float("inf")
    assert (Cache().max_bytes, Cache(tmp_path / "r").max_bytes) == (1 << 30, 10 << 30)
    assert Cache(max_bytes=5).max_bytes == 5
    small = Cache(kind=KEEP, max_bytes=4096)
    small.put({key: bytes(4000) for key in KEYS})
    assert len(small.get(KEYS)) == 10
    bounded = Cache(max_bytes=4096)
    bounded.put({key: bytes(4000) for key in KEYS})
    assert bounded.get(KEYS) == {}


def test_the_oldest_rows_are_removed_until_it_fits(monkeypatch):
    monkeypatch.setattr(cache_module, "ROWS_AT_ONCE", 1)
    cache = Cache(max_bytes=60_000)
    for key in KEYS:
        cache.put({key: bytes(10_000)})
    known = set(cache.get(KEYS))
    assert known == set(KEYS[-len(known) :])
    assert 3 <= len(known) <= 5
    cache.put({KEYS[-2]: bytes(10_000)})  # put again, it is the newest
    for key in KEYS[:3]:
        cache.put({key: bytes(10_000)})
    assert set(cache.get(KEYS)) == {*KEYS[:3], KEYS[-2]}
    cache.put({key: bytes(10_000) for key in KEYS})  # several are removed for it
    assert set(cache.get(KEYS)) == set(KEYS[-4:])


def test_a_file_is_marked_as_its_kind(tmp_path):
    for kind in (KEEP, RESULTS):
        with closing(Cache(tmp_path / kind.name, kind)) as cache:
            cache.put({KEYS[0]: b"0"})
        with closing(sqlite3.connect(tmp_path / kind.name)) as connection:
            assert connection.execute("PRAGMA application_id").fetchone() == (kind.mark,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    told = "is a database of something else, not a cache of results: name another one"
    with pytest.raises(DataError, match=told):
        Cache(tmp_path / KEEP.name).get([])
    with closing(Cache(tmp_path / KEEP.name, KEEP)) as cache:
        assert cache.get(KEYS) == {KEYS[0]: b"0"}


def test_an_empty_database_becomes_a_cache_a_marked_one_not(tmp_path):
    for name, mark in (("empty", 0), ("marked", 7)):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.execute(f"PRAGMA application_id = {mark}")
            connection.execute("PRAGMA user_version = 1")
    with closing(Cache(tmp_path / "empty", KEEP)) as cache:
        cache.put({KEYS[0]: b"0"})
    with pytest.raises(DataError, match="not a cache of tests: give another file"):
        Cache(tmp_path / "marked", KEEP).get([])


def test_an_error_names_file_cause_and_repair(tmp_path):
    (tmp_path / "c").mkdir()
    with pytest.raises(DataError) as failed:
        Cache(tmp_path / "c", KEEP).get([])
    assert str(failed.value).startswith(f"the cache of tests {tmp_path / 'c'} cannot be used (")
    assert str(failed.value).endswith("or give another file")


def test_a_closed_cache_is_opened_again_by_its_next_use(cache):
    cache.put({KEYS[0]: b"0"})
    cache.close()
    cache.close()
    in_memory = cache.path == ":memory:"
    assert cache.get(KEYS) == ({} if in_memory else {KEYS[0]: b"0"})
    assert not cache.has_moved()


def test_a_path_is_that_of_the_folder_where_it_was_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = Cache("new/deep/c", KEEP)
    monkeypatch.chdir("/")
    cache.put({KEYS[0]: b"0"})
    assert (tmp_path / "new" / "deep" / "c").is_file()
    cache.close()


def test_one_thread_at_a_time_has_the_connection(tmp_path):
    cache = Cache(tmp_path / "c", KEEP)
    other = []
    with cache.connection() as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO cache VALUES (?, ?)", (KEYS[0], b"0"))
        thread = threading.Thread(target=lambda: other.append(cache.get(KEYS)))
        thread.start()
        thread.join(0.05)
        assert other == []
    thread.join(20)
    assert other == [{}]  # what wasn't committed is rolled back
    cache.close()


def test_a_link_and_a_home_are_the_same_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(cache_module, "_opened", {})
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    first = open_cache(tmp_path / "real" / "c")
    assert open_cache("~/link/c") is first
    assert first.path == str(tmp_path / "real" / "c")
    assert first.kind == RESULTS


def test_parts_of_a_digest_count_as_their_bytes():
    assert digest("é") == digest("é".encode())
    assert digest("\ud800") not in (digest("?"), digest("\ud801"), digest(""))
    assert len({digest(), digest(""), digest("", ""), digest("a"), digest("a", "")}) == 5


def test_the_log_of_a_linked_cache_is_beside_its_file(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "c")
    with closing(Cache(tmp_path / "link", KEEP)) as cache:
        cache.put({KEYS[0]: b"0"})
        (tmp_path / "disk" / "c-wal").unlink()
        assert cache.has_moved()
        with pytest.warns(CacheMovedWarning):
            assert cache.get(KEYS) == {KEYS[0]: b"0"}


@pytest.mark.linux
def test_a_fork_has_its_parents_memory_and_a_lock_of_its_own():
    cache = Cache()
    cache.put({KEYS[0]: b"0"})
    with cache._lock:  # of another thread, at the moment of the fork
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if cache.get(KEYS) == {KEYS[0]: b"0"} else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert cache.get(KEYS) == {KEYS[0]: b"0"}


def test_a_cache_that_another_process_has_just_made_is_used(tmp_path, monkeypatch):
    with closing(Cache(tmp_path / "c", KEEP)) as first:
        first.put({KEYS[0]: b"0"})
    pragma = cache_module._pragma
    marks = [0]  # as before the other process made it

    def late(connection, name):
        return marks.pop() if marks else pragma(connection, name)

    monkeypatch.setattr(cache_module, "_pragma", late)
    with closing(Cache(tmp_path / "c", KEEP)) as second:
        assert second.get(KEYS) == {KEYS[0]: b"0"}
    assert marks == []


def test_who_waits_too_long_for_others_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "SECONDS_FOR_OTHERS", 0.01)
    waits = []
    connect = sqlite3.connect

    def connected(*given, **options):
        waits.append(options["timeout"])
        return connect(*given, **options)

    monkeypatch.setattr(cache_module.sqlite3, "connect", connected)
    with (
        closing(Cache(tmp_path / "c", KEEP)) as first,
        closing(Cache(tmp_path / "c", KEEP)) as late,
    ):
        late.put({KEYS[1]: b"1"})
        with first.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            pytest.raises(DataError, late.put, {KEYS[2]: b"2"}).match("database is locked")
            assert late.get(KEYS) == {KEYS[1]: b"1"}
        late.put({KEYS[3]: b"3"})
        assert first.get(KEYS) == {KEYS[1]: b"1", KEYS[3]: b"3"}
    assert waits == [0.01, 0.01]
