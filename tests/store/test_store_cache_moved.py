"""A cache whose open file is removed, moved or replaced warns and loses nothing paid for."""

import multiprocessing
import os
import shutil
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import Completion
from pyterrier_ikat.llms.cache import COMPLETIONS, CompletionCache
from pyterrier_ikat.store.cache import Cache, CacheKind, CacheMovedWarning, digest

KEYS = [digest(str(number)) for number in range(40)]
TEA = Completion("tea", "m", "stop", 1, 1, 0.0, cached=False)
VALUES = {key: b"%d" % number for number, key in enumerate(KEYS)}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept" / "llm.sqlite"


def opened(place, values=10):
    cache = Cache(place, COMPLETIONS)
    for key in KEYS[:values]:
        cache.put({key: VALUES[key]})
    return cache


def later(place):
    """What another process finds later."""
    cache = Cache(place, COMPLETIONS)
    found = cache.get(KEYS)
    cache.close()
    return found


def remove_all(place):
    for path in place.parent.glob(f"{place.name}*"):
        path.unlink()


def replace_by_a_cache(place):
    remove_all(place)
    other = Cache(place, COMPLETIONS)
    other.put({KEYS[0]: b"theirs", KEYS[39]: VALUES[KEYS[39]]})
    other.close()


def remove_both_beside(place):
    place.with_name("llm.sqlite-wal").unlink()
    place.with_name("llm.sqlite-shm").unlink()


MISHAPS = {
    "removed": lambda place: place.unlink(),
    "removed with all beside it": remove_all,
    "moved": lambda place: place.rename(place.with_name("old.sqlite")),
    "moved to another folder": lambda place: shutil.move(
        place.parent, place.parent.with_name("old")
    ),
    "its folder removed": lambda place: shutil.rmtree(place.parent),
    "its log removed": lambda place: place.with_name("llm.sqlite-wal").unlink(),
    "its shared memory removed": lambda place: place.with_name("llm.sqlite-shm").unlink(),
    "both beside it removed": remove_both_beside,
}


@pytest.mark.parametrize("mishap", MISHAPS)
def test_what_was_put_before_and_after_is_found_later(place, mishap):
    cache = opened(place)
    MISHAPS[mishap](place)
    with pytest.warns(CacheMovedWarning, match="removed, moved or replaced"):
        cache.put({KEYS[10]: VALUES[KEYS[10]]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key in KEYS[11:]:
            cache.put({key: VALUES[key]})
        assert cache.get(KEYS) == VALUES
    assert later(place) == VALUES  # also while it is open
    cache.close()
    assert later(place) == VALUES


def test_another_cache_in_its_place_keeps_what_it_has(place):
    cache = opened(place)
    replace_by_a_cache(place)
    with pytest.warns(CacheMovedWarning):
        cache.put({KEYS[10]: VALUES[KEYS[10]]})
    cache.close()
    assert later(place) == {
        **{key: VALUES[key] for key in KEYS[:11]},
        KEYS[0]: b"theirs",
        KEYS[39]: VALUES[KEYS[39]],
    }


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.store.cache.CacheMovedWarning")
def test_what_can_not_be_written_stays_until_it_can(place):
    cache = opened(place)
    remove_all(place)
    place.write_bytes(b"no database" * 1000)
    for _ in range(2):
        with pytest.raises(DataError, match=r"llm\.sqlite cannot be used"):
            cache.put({KEYS[10]: VALUES[KEYS[10]]})
    place.unlink()
    cache.put({KEYS[11]: VALUES[KEYS[11]]})
    cache.close()
    kept = [*KEYS[:10], KEYS[11]]
    assert later(place) == {key: VALUES[key] for key in kept}


@pytest.mark.filterwarnings("ignore::pyterrier_ikat.store.cache.CacheMovedWarning")
def test_a_folder_that_can_not_be_made_again_is_named(place):
    cache = opened(place)
    shutil.rmtree(place.parent)
    place.parent.write_text("a file in the place of the folder")
    with pytest.raises(DataError, match=r"llm\.sqlite cannot be used"):
        cache.get(KEYS)


@pytest.mark.parametrize("mishap", ["removed", "removed with all beside it", "moved"])
def test_removed_file_opens_anew_and_holders_add_what_they_have(place, mishap):
    old = CompletionCache(place)
    old.put("a", TEA)
    MISHAPS[mishap](place)
    new = CompletionCache(place)
    assert new.get("a") == {}
    new.put("b", TEA)
    with pytest.warns(CacheMovedWarning):
        old.put("c", TEA)
    assert set(new.get("abc")) == set(old.get("abc")) == set("abc")
    new.close()
    old.close()


def test_models_of_a_process_share_what_they_have_open(place):
    one = CompletionCache(place)
    other = CompletionCache(place)
    one.put("a", TEA)
    for end in ("-wal", "-shm"):
        place.with_name(place.name + end).unlink()
    with pytest.warns(CacheMovedWarning):
        other.put("b", TEA)
    assert set(one.get("ab")) == set("ab")
    one.close()
    assert set(other.get("ab")) == set("ab")
    other.close()


def test_results_go_on_in_a_new_file_and_are_computed_again(tmp_path):
    cache = Cache(tmp_path / "results.sqlite")
    cache.put({KEYS[0]: b"1"})
    (tmp_path / "results.sqlite").unlink()
    with pytest.warns(CacheMovedWarning, match="computed again"):
        assert cache.get(KEYS) == {}
    cache.put({KEYS[1]: b"2"})
    cache.close()
    assert Cache(tmp_path / "results.sqlite").get(KEYS) == {KEYS[1]: b"2"}


def test_link_to_a_file_is_followed_and_a_changed_target_noticed(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.sqlite"
    link.symlink_to(tmp_path / "real" / "llm.sqlite")
    cache = opened(link)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(cache.get(KEYS)) == 10
    link.unlink()
    with pytest.warns(CacheMovedWarning):
        assert len(cache.get(KEYS)) == 10


def test_a_name_that_sqlite_would_interpret_is_a_file_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "file:x?mode=memory"
    cache = opened(name)
    cache.close()
    assert os.path.exists(name)
    assert len(later(name)) == 10
    monkeypatch.chdir("/")
    assert len(cache.get(KEYS)) == 10  # the same file from another folder


def write_in_turn(place, numbers, barrier):
    warnings.simplefilter("ignore")
    cache = opened(place, 0)
    cache.get(KEYS)
    barrier.wait(60)  # all have it open
    barrier.wait(60)  # it is removed
    for number in numbers:
        cache.put({KEYS[number]: VALUES[KEYS[number]]})
    barrier.wait(60)
    cache.close()


@pytest.mark.parametrize("mishap", ["removed", "both beside it removed"])
def test_processes_that_have_it_open_lose_nothing(place, mishap):
    opened(place).close()
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    parts = range(10, 20), range(20, 30), range(30, 40)
    processes = [
        context.Process(target=write_in_turn, args=(place, part, barrier)) for part in parts
    ]
    for process in processes:
        process.start()
    barrier.wait(60)
    MISHAPS[mishap](place)
    barrier.wait(60)
    barrier.wait(60)
    for process in processes:
        process.join(60)
    assert later(place) == VALUES
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


KEEP = CacheKind("cache of tests", 0x1234, "give another file")


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
