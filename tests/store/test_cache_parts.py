"""The cache in detail: what is computed, in which parts, and what a bound removes."""

import os
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.store import cache as cache_module
from pyterrier_ikat.store.cache import (
    RESULTS,
    Cache,
    CacheKind,
    CacheMovedWarning,
    compute_missing,
    digest,
    open_cache,
)

KEEP = CacheKind("cache of tests", 0x1234, "give another file")
KEYS = [digest(str(number)) for number in range(10)]


class Doubles:
    """Doubles numbers, remembers the parts, and fails at a number."""

    def __init__(self, fails_at=None):
        self.parts = []
        self.fails_at = fails_at

    def __call__(self, numbers):
        self.parts.append(list(numbers))
        for number in numbers:
            if number == self.fails_at:
                raise ZeroDivisionError
            yield 2 * number


def doubled(cache, numbers, compute, at_once=2, **coding):
    coding = {
        "encode": lambda value: str(value).encode(),
        "decode": lambda content: int(content),
    } | coding
    inputs = {KEYS[number]: number for number in numbers}
    values = compute_missing(
        cache, inputs, compute, **coding, at_once=at_once, label="doubling", unit="number"
    )
    return {KEYS.index(key): value for key, value in values.items()}


def test_missing_values_are_computed_in_parts_and_kept():
    cache = Cache()
    doubles = Doubles()
    assert doubled(cache, [3, 1, 4, 2, 5], doubles) == {3: 6, 1: 2, 4: 8, 2: 4, 5: 10}
    assert doubles.parts == [[3, 1], [4, 2], [5]]
    assert doubled(cache, [6, 1, 5], doubles) == {6: 12, 1: 2, 5: 10}
    assert doubles.parts[3:] == [[6]]
    assert doubled(cache, [], doubles) == {}
    assert cache.get([KEYS[3]]) == {KEYS[3]: b"6"}


def test_a_value_without_bytes_is_given_and_not_kept():
    cache = Cache()
    doubles = Doubles()
    encode = lambda value: None if value == 2 else str(value).encode()  # noqa: E731
    for _ in range(2):
        assert doubled(cache, [1, 2], doubles, encode=encode) == {1: 2, 2: 4}
    assert doubles.parts == [[1, 2], [1]]


def test_bytes_that_give_no_value_are_computed_again():
    cache = Cache()
    doubles = Doubles()
    cache.put({KEYS[1]: b"old", KEYS[2]: b"0"})
    decode = lambda content: None if content == b"old" else int(content)  # noqa: E731
    assert doubled(cache, [1, 2], doubles, decode=decode) == {1: 2, 2: 0}
    assert doubles.parts == [[1]]
    assert cache.get(KEYS[1:3]) == {KEYS[1]: b"2", KEYS[2]: b"0"}


def test_parts_before_a_failure_are_kept():
    cache = Cache()
    doubles = Doubles(fails_at=4)
    with pytest.raises(ZeroDivisionError):
        doubled(cache, [1, 2, 3, 4, 5], doubles)
    assert set(cache.get(KEYS)) == {KEYS[1], KEYS[2]}


@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_as_many_values_as_inputs_are_computed(values):
    with pytest.raises(ValueError, match="zip"):
        doubled(Cache(), [1, 2], lambda numbers: values)


# What is stored


@pytest.fixture(params=["memory", "file"])
def cache(request, tmp_path):
    cache = Cache(None if request.param == "memory" else tmp_path / "c", KEEP)
    yield cache
    cache.close()


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


def test_a_moved_file_is_noticed_before_it_is_used(tmp_path):
    cache = Cache(tmp_path / "c", KEEP)
    assert not cache.has_moved()  # it isn't open
    cache.put({KEYS[0]: b"0"})
    assert not cache.has_moved()
    (tmp_path / "c").rename(tmp_path / "d")
    assert cache.has_moved()
    with pytest.warns(CacheMovedWarning, match="its entries are kept and written into a new file"):
        assert cache.get(KEYS) == {KEYS[0]: b"0"}
    assert not cache.has_moved()
    cache.close()


def test_what_a_removed_database_left_beside_it_goes(tmp_path):
    for end in ("-wal", "-shm"):
        Path(f"{tmp_path / 'c'}{end}").write_bytes(b"of an older one")
        Path(f"{tmp_path / 'other'}{end}").write_bytes(b"of another")
    with closing(Cache(tmp_path / "c", KEEP)) as cache:
        cache.put({KEYS[0]: b"0"})
        assert cache.get(KEYS) == {KEYS[0]: b"0"}
    assert Path(f"{tmp_path / 'other'}-wal").read_bytes() == b"of another"
    assert sorted(os.listdir(tmp_path)) == ["c", "other-shm", "other-wal"]


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


def test_a_value_without_a_byte_is_kept():
    cache = Cache()
    doubles = Doubles()
    for _ in range(2):
        coding = {"encode": lambda value: b"", "decode": lambda content: 2}
        assert doubled(cache, [1], doubles, **coding) == {1: 2}
    assert doubles.parts == [[1]]


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


class Bar:
    """A progress bar that keeps what it was made with and told."""

    def __init__(self, **made_with):
        self.made_with = made_with
        self.updates = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def update(self, count):
        self.updates.append(count)


@pytest.mark.parametrize(
    ("numbers", "at_once", "disabled", "updates"),
    [([1, 2, 3], 2, False, [2, 1]), ([1, 2, 3], 3, True, [3]), ([1, 2, 3, 9], 3, True, [3])],
)
def test_progress_counts_what_is_computed(monkeypatch, numbers, at_once, disabled, updates):
    bars = []

    def bar_of(**made_with):
        bars.append(Bar(**made_with))
        return bars[-1]

    monkeypatch.setattr(cache_module, "bar_of", bar_of)
    cache = Cache()
    cache.put({KEYS[9]: b"18"})
    doubled(cache, numbers, Doubles(), at_once)
    [bar] = bars
    expected = {"total": 3, "desc": "doubling", "unit": "number", "disable": disabled}
    assert (bar.made_with, bar.updates) == (expected, updates)


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
