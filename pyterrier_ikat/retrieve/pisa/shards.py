"""Indexing in shards, so that a build of hours can be interrupted: what is finished is kept, and the same call goes on behind it.

A shard is a run of passages: its texts are committed to the text store together with its checksum, once PISA's index of it is on disk. At
the end PISA's indexes are merged into the one that PISA would have made of all passages. PISA keeps, per term in the order of the bytes,
the list of its passages and the list of its counts: a length and that many numbers, all 32 bits wide. So all shards can be read from end
to end side by side, with no more in memory than one term's list of one shard.
"""

import errno
import os
import resource
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from heapq import merge
from itertools import accumulate, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import IO

import numpy as np
from tqdm.auto import tqdm

from ...errors import DataError
from ...store.files import link
from ..corpus import Corpus, CorpusReader, check_expected, open_store, store_texts
from . import build
from .index import ascii_text

SHARD = 500_000
WIDTH = 4
BUFFERS = 1 << 26
"""Bytes for the buffers of all files together: shards may be hundreds."""


def index_shards(
    workplace: Path, texts: str, corpus: Corpus, *, stemmer: str, threads: int, k1: float, b: float, expected: int | None = None
) -> CorpusReader:
    """Store a corpus in ``workplace/index/<texts>`` and index it in ``workplace/index/pisa``, behind the shards that are there already.

    Returns:
        The corpus, read: its count and checksum.

    Raises:
        DataError: when the corpus is empty or malformed, or isn't the one that the finished shards were made of, or PISA fails.
    """
    folder, shards = workplace / "index", workplace / "shards"
    folder.mkdir(exist_ok=True)
    shards.mkdir(exist_ok=True)
    reading = CorpusReader(corpus)
    reading.refuse_empty()
    with _full_disk_named(workplace):
        with closing(open_store(folder / texts)) as store:
            paths = _finished(store, reading, shards, stemmer)
            while reading.more():
                paths.append(shards / f"{len(paths):05d}")
                _add_shard(store, reading, paths[-1], stemmer, threads, (k1, b))
        check_expected(reading.count, expected)
        _join_shards(paths, folder / "pisa", k1, b)
    return reading


def holds_shards(workplace: Path) -> bool:
    """Whether an interrupted build left something worth keeping in ``workplace``."""
    return any((workplace / "shards").glob("?????"))


def _join_shards(shards: list[Path], folder: Path, k1: float, b: float) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if len(shards) == 1:
        shutil.copytree(shards[0], folder, copy_function=link)
    else:
        merge_shards(shards, folder)
    if not all(path.exists() for path in build.bm25_files(folder, k1, b)):
        build.make_bm25_ready(folder, k1, b)


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


def _finished(store: sqlite3.Connection, reading: CorpusReader, shards: Path, stemmer: str) -> list[Path]:
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


def _add_shard(store: sqlite3.Connection, reading: CorpusReader, path: Path, stemmer: str, threads: int, bm25: tuple[float, float]) -> None:
    start = reading.count
    unfinished = path.with_name(f"{path.name}.tmp")
    passages = store_texts(store, islice(reading, SHARD), reading, threads)
    in_ascii = ((docno, ascii_text(text)) for docno, text in passages)
    indexed = build.build_text(
        unfinished, in_ascii, stemmer=stemmer, threads=threads, k1=bm25[0], b=bm25[1], whole=lambda: start == 0 and not reading.more()
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


def check_written(folder: Path, count: int) -> None:
    """Check that the lists of a PISA index are all there, and of ``count`` passages.

    Raises:
        DataError: when a file ends in the middle.
    """
    docs = np.memmap(folder / "inv.docs", dtype="<u4", mode="r")
    place, terms = 2, 0
    while place < len(docs):
        place += 1 + int(docs[place])
        terms += 1
    wanted = {
        "inv.docs": ((folder / "inv.docs").stat().st_size, 4 * place),
        "inv.freqs": ((folder / "inv.freqs").stat().st_size, 4 * (place - 2)),
        "inv.sizes": ((folder / "inv.sizes").stat().st_size, 4 * (count + 1)),
        "fwd.terms": (_line_count(folder / "fwd.terms"), terms),
        "fwd.documents": (_line_count(folder / "fwd.documents"), count),
    }
    for name, (found, expected) in wanted.items():
        if found != expected:
            raise DataError(
                f"PISA left {folder / name} cut short ({found} of {expected}): "
                "the disk was full; make room there, and the same call goes on"
            )


def _line_count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))


def merge_shards(shards: Sequence[Path], folder: Path) -> None:
    """Merge PISA indexes.

    Args:
        shards: their folders, in the order of the passages.
        folder: the folder to make; PISA's lexicons and what it needs for BM25 are still to be added.
    """
    folder.mkdir()
    sizes = [_number_of_passages(shard) for shard in shards]
    starts = [0, *accumulate(sizes)]
    shutil.copyfile(shards[0] / "pt_meta.json", folder / "pt_meta.json")
    with (folder / "fwd.documents").open("wb") as documents, (folder / "inv.sizes").open("wb") as lengths:
        lengths.write(_word(starts[-1]))
        for shard in shards:
            _append(shard / "fwd.documents", documents)
            _append(shard / "inv.sizes", lengths, skip=WIDTH)
    _merge_postings(shards, starts, folder)


def _merge_postings(shards: Sequence[Path], starts: Sequence[int], folder: Path) -> None:
    buffer = max(BUFFERS // (3 * len(shards) + 3), 1 << 15)
    _allow_open_files(3 * len(shards) + 100)
    with ExitStack() as opened:

        def opened_in_each(name: str) -> list[IO[bytes]]:
            return [opened.enter_context((shard / name).open("rb", buffer)) for shard in shards]

        docs, freqs = opened_in_each("inv.docs"), opened_in_each("inv.freqs")
        terms, all_docs, all_freqs = (
            opened.enter_context((folder / name).open("wb", buffer)) for name in ("fwd.terms", "inv.docs", "inv.freqs")
        )
        all_docs.write(_word(1) + _word(starts[-1]))
        for file in docs:
            file.seek(2 * WIDTH)
        streams = [_terms(file, shard) for shard, file in enumerate(opened_in_each("fwd.terms"))]
        for term, found in groupby(tqdm(merge(*streams), desc="merging terms", delay=2), key=itemgetter(0)):
            having = [shard for _, shard in found]
            terms.write(term)
            _copy_term(having, docs, all_docs, starts)
            _copy_term(having, freqs, all_freqs, [0] * len(starts))


def _allow_open_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count and soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard))


def _copy_term(having: Sequence[int], files: Sequence[IO[bytes]], out: IO[bytes], offsets: Sequence[int]) -> None:
    lengths = [int.from_bytes(files[shard].read(WIDTH), "little") for shard in having]
    out.write(_word(sum(lengths)))
    for shard, length in zip(having, lengths, strict=True):
        numbers = files[shard].read(length * WIDTH)
        offset = offsets[shard]
        out.write((np.frombuffer(numbers, dtype="<u4") + np.uint32(offset)).tobytes() if offset else numbers)


def _number_of_passages(shard: Path) -> int:
    with (shard / "inv.sizes").open("rb") as file:
        return int.from_bytes(file.read(WIDTH), "little")


def _terms(file: IO[bytes], shard: int) -> Iterator[tuple[bytes, int]]:
    return ((line, shard) for line in file)


def _append(path: Path, out: IO[bytes], skip: int = 0) -> None:
    with path.open("rb") as file:
        file.seek(skip)
        shutil.copyfileobj(file, out, 1 << 20)


def _word(number: int) -> bytes:
    return number.to_bytes(WIDTH, "little")
