"""Indexing in shards, so that a build of hours can be interrupted: what is finished is kept, and the same call goes on behind it.

A shard is a run of passages: its texts are committed to the text store together with its checksum, once PISA's index of it is on disk. At
the end PISA's indexes are merged into one. Memory doesn't grow with the number of shards until PISA adds what BM25 needs.
"""

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from ..errors import DataError
from ..store.files import link
from . import pisa
from .pisa_check import check_written
from .pisa_merge import merge_shards
from .text_store import Corpus, Reading, check_expected, open_store, storing

SHARD = 500_000


def index_shards(
    workplace: Path, texts: str, corpus: Corpus, *, stemmer: str, threads: int, k1: float, b: float, expected: int | None = None
) -> Reading:
    """Store a corpus in ``workplace/index/<texts>`` and index it in ``workplace/index/pisa``, behind the shards that are there already.

    Returns:
        The corpus, read: its count and checksum.

    Raises:
        DataError: when the corpus is empty or malformed, or isn't the one that the finished shards were made of, or PISA fails.
    """
    folder, shards = workplace / "index", workplace / "shards"
    folder.mkdir(exist_ok=True)
    shards.mkdir(exist_ok=True)
    reading = Reading(corpus)
    reading.refuse_empty()
    with _full_disk_named(workplace):
        with closing(open_store(folder / texts)) as store:
            paths = _finished(store, reading, shards, stemmer)
            while reading.more():
                paths.append(shards / f"{len(paths):05d}")
                _add_shard(store, reading, paths[-1], stemmer, threads, (k1, b))
        check_expected(reading.count, expected)
        _make_one(paths, folder / "pisa", k1, b)
    return reading


def holds_shards(workplace: Path) -> bool:
    """Whether an interrupted build left something worth keeping in ``workplace``."""
    return any((workplace / "shards").glob("?????"))


def _make_one(shards: list[Path], folder: Path, k1: float, b: float) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if len(shards) == 1:
        shutil.copytree(shards[0], folder, copy_function=link)
    else:
        merge_shards(shards, folder)
    if not all(path.exists() for path in pisa.scorer_files(folder, k1, b)):
        pisa.make_ready(folder, k1, b)


@contextmanager
def _full_disk_named(workplace: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(
            f"{workplace} can't be written to ({error}): make room there, and the same call goes on where it stopped"
        ) from error


def _finished(store: sqlite3.Connection, reading: Reading, shards: Path, stemmer: str) -> list[Path]:
    rows = store.execute("SELECT passages, sha256, made_by FROM shards ORDER BY rowid").fetchall()
    for count, sha256, made_by in rows:
        start = reading.count
        for _ in islice(reading, count):
            pass
        if (reading.count - start, reading.sha256(), stemmer) != (count, sha256, made_by):
            what = f"with stemmer={made_by!r}" if stemmer != made_by else f"of other passages (somewhere in {start + 1} to {start + count})"
            raise DataError(
                f"{shards.parent} holds an interrupted build {what}: give the same corpus and options to go on, or remove it to begin anew"
            )
    paths = [shards / f"{number:05d}" for number in range(len(rows))]
    if lost := [path for path in paths if not path.is_dir()]:
        raise DataError(f"{lost[0]} is missing, a part of an interrupted build: put it back, or remove {shards.parent} to begin anew")
    for path in set(shards.iterdir()).difference(paths):
        shutil.rmtree(path)
    return paths


def _add_shard(store: sqlite3.Connection, reading: Reading, path: Path, stemmer: str, threads: int, bm25: tuple[float, float]) -> None:
    start = reading.count
    unfinished = path.with_name(f"{path.name}.tmp")
    passages = storing(store, islice(reading, SHARD), reading, threads)
    alone = start == 0
    indexed = pisa.build(
        unfinished, passages, stemmer=stemmer, threads=threads, k1=bm25[0], b=bm25[1], whole=lambda: alone and not reading.more()
    )
    count = reading.count - start
    if indexed != count:
        raise DataError(f"PISA has {indexed} of {count} passages: index again, and report it if it happens twice")
    check_written(unfinished, count)
    for written in (*unfinished.iterdir(), unfinished):
        _flush(written)
    os.replace(unfinished, path)
    _flush(path.parent)
    store.execute("INSERT INTO shards VALUES (?, ?, ?)", (count, reading.sha256(), stemmer))
    store.commit()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
