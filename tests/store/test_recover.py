"""Copies of a cache that is written meanwhile, and what is left of damaged ones."""

import os
import sqlite3
import subprocess
import sys

import pytest

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.portable import digest
from pyterrier_ikat.store.cache import Cache
from pyterrier_ikat.store.recover import recover

ITEMS = {digest(str(number)): os.urandom(500) for number in range(2000)}


@pytest.fixture
def cache(tmp_path):
    made = Cache(tmp_path / "cache")
    made.put(ITEMS)
    yield made
    made.close()


def test_a_damaged_copy_says_how_to_copy_and_what_is_whole_of_it_is_read(cache, tmp_path):
    cache.close()
    content = (tmp_path / "cache").read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(
        DataError, match=r"it is damaged, .*copied while it was written: copy it again with sqlite3 .*cut '\.backup COPY'.*store\.recover"
    ):
        Cache(tmp_path / "cut").get(list(ITEMS))
    command = [sys.executable, "-m", "pyterrier_ikat.store.recover", str(tmp_path / "cut"), str(tmp_path / "new")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    left = Cache(tmp_path / "new").get(list(ITEMS))
    assert f"{len(left)} entries" in said
    assert len(ITEMS) / 2 < len(left) < len(ITEMS)
    assert all(ITEMS[key] == value for key, value in left.items())


def test_pages_of_two_moments_give_entries_of_either_and_no_other(cache, tmp_path):
    cache.close()
    before = (tmp_path / "cache").read_bytes()
    newer = {key: os.urandom(500) for key in list(ITEMS)[::2]}
    cache.put(newer)
    cache.close()
    after = (tmp_path / "cache").read_bytes()
    half = len(before) // 2 // 4096 * 4096
    for number, content in enumerate((before[:half] + after[half:], after[:half] + before[half:])):
        (tmp_path / "torn").write_bytes(content)
        recover(tmp_path / "torn", tmp_path / f"new{number}")
        left = Cache(tmp_path / f"new{number}").get(list(ITEMS))
        assert len(left) > len(ITEMS) / 3
        assert all(value in (ITEMS[key], newer.get(key)) for key, value in left.items())


def test_a_backup_of_a_cache_in_use_has_all_of_it(cache, tmp_path):
    cache.put({digest("last"): b"kept"})  # it is in the file beside it
    sqlite3.connect(tmp_path / "cache").backup(sqlite3.connect(tmp_path / "copy"))
    assert Cache(tmp_path / "copy").get([*ITEMS, digest("last")]) == {**ITEMS, digest("last"): b"kept"}


def test_what_is_no_cache_is_named(tmp_path, cache):
    (tmp_path / "note").write_text("tea " * 99)
    for damaged, new, why in (
        ("note", "new", "not a cache of this version"),
        ("gone", "new", "can't be read"),
        ("cache", "note", "already exists"),
    ):
        with pytest.raises(DataError, match=why):
            recover(tmp_path / damaged, tmp_path / new)
