"""The text of every passage by docno: one sqlite file, compressed texts, read without locks from any thread or process.

Rows are appended in the order of the corpus, which costs the same however many there are; an index of the docnos finds them.
"""

import sqlite3
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import DataError
from .reading import Corpus, Reading

# With pages of 16 KiB a compressed passage lies within one page.
SCHEMA = """
PRAGMA page_size = 16384; PRAGMA journal_mode = DELETE; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536;
CREATE TABLE IF NOT EXISTS passages (number INTEGER PRIMARY KEY, docno TEXT NOT NULL UNIQUE, text BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS shards (passages INTEGER NOT NULL, sha256 TEXT NOT NULL, made_by TEXT NOT NULL);
"""
BATCH = 1_000
AT_ONCE = 500

Numbered = list[tuple[int, str, bytes]]


def open_store(path: Path) -> sqlite3.Connection:
    """Open a text store to write to; it is made when missing. What was not committed when a writer was killed is gone."""
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    return connection


def storing(store: sqlite3.Connection, passages: Iterable[tuple[str, str]], reading: Reading, threads: int) -> Iterator[tuple[str, str]]:
    """Store ``passages`` while they go by.

    Args:
        store: an open store; the caller commits.
        passages: (docno, text) from ``reading``.
        reading: knows the passages' numbers and where they came from.
        threads: how many threads compress texts.

    Raises:
        DataError: when a docno occurs twice, naming both passages.
    """
    passages, first = iter(passages), reading.count + 1
    pending: deque[tuple[list[tuple[str, str]], Future[Numbered]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        while True:
            if batch := list(islice(passages, BATCH)):
                pending.append((batch, pool.submit(_packed, first, batch)))
                first += len(batch)
            if not pending:
                return
            if len(pending) > threads or not batch:
                batch, packed = pending.popleft()
                _insert(store, packed.result(), reading)
                yield from batch


def write_texts(path: Path, corpus: Corpus) -> Reading:
    """Store the passages of ``corpus`` in a new file.

    Args:
        path: the file to make. It is whole only when this returns: write to a temporary place.
        corpus: dicts with ``docno`` and ``text``; a text of ``None`` is stored as empty.

    Returns:
        The corpus, read: its count and checksum.

    Raises:
        DataError: when a passage has no usable docno or text, a docno occurs twice, or there is no passage.
    """
    reading = Reading(corpus)
    reading.refuse_empty()
    with closing(open_store(path)) as store:
        for _ in storing(store, reading, reading, 1):
            pass
        store.commit()
    return reading


def read_texts(path: Path, docnos: Sequence[str]) -> list[str]:
    """The texts of ``docnos``, in their order; rows of the same passage share one string.

    Raises:
        DataError: naming the docnos that aren't in the file.
    """
    found: dict[str, str] = {}
    wanted = sorted(set(docnos), key=str)
    with _opened(path) as connection:
        for start in range(0, len(wanted), AT_ONCE):
            part = [_key(docno) for docno in wanted[start : start + AT_ONCE]]
            rows = connection.execute(f"SELECT docno, text FROM passages WHERE docno IN ({','.join('?' * len(part))})", part)
            found.update((docno, _unpack(packed)) for docno, packed in rows)
    missing = [docno for docno in wanted if docno not in found]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise DataError(f"the index {path.parent} lacks {len(missing)} of these passages ({shown}); use the index of their collection")
    return [found[docno] for docno in docnos]


def held(path: Path, docnos: Sequence[str]) -> Iterator[str]:
    """Those of ``docnos`` that are in the file, looked up as they are asked for."""
    with _opened(path) as connection:
        for start in range(0, len(docnos), AT_ONCE):
            part = [_key(docno) for docno in docnos[start : start + AT_ONCE]]
            rows = connection.execute(f"SELECT docno FROM passages WHERE docno IN ({','.join('?' * len(part))})", part)
            yield from (docno for (docno,) in rows)


def all_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Every (docno, text), in the order of docno."""
    with _opened(path) as connection:
        for docno, packed in connection.execute("SELECT docno, text FROM passages ORDER BY docno"):
            yield docno, _unpack(packed)


def _insert(store: sqlite3.Connection, rows: Numbered, reading: Reading) -> None:
    try:
        store.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows)
    except sqlite3.IntegrityError:
        for number, docno, _ in rows:
            found = store.execute("SELECT number FROM passages WHERE docno = ?", (docno,)).fetchone()
            if found and found[0] != number:
                raise DataError(
                    f"{reading.name(number)}: its docno {docno!r} was there before, as {reading.name(found[0])}; give each passage its own"
                ) from None
        raise


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            yield connection
    except (sqlite3.Error, zlib.error, UnicodeDecodeError, TypeError) as error:
        raise DataError(f"{path} can't be read ({error}): it is damaged, copy the index {path.parent} again or build it anew") from error


def _key(docno: Any) -> str:
    return str(docno).encode("utf-8", "replace").decode()


def _packed(first: int, passages: Sequence[tuple[str, str]]) -> Numbered:
    texts = (zlib.compress(text.encode("utf-8", "surrogatepass")) for _, text in passages)
    return [(number, docno, packed) for number, ((docno, _), packed) in enumerate(zip(passages, texts, strict=True), first)]


def _unpack(packed: bytes) -> str:
    return zlib.decompress(packed).decode("utf-8", "surrogatepass")
