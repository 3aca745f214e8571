"""The passages of an index folder: one sqlite file with docnos and compressed texts. Passages are added, but never changed.

Each engine in the folder is built from this file. A passage's number is its place in the order of the corpus, from 0.
"""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np

from ..errors import DataError, UsageError, list_first
from ..progress import bar as bar_of
from ..store.files import atomic_write

Corpus = Iterable[Mapping[str, Any]]
NAME = "texts.db"
AT_ONCE = 100_000
WAIT = 600.0
"""Seconds that a reader waits for a process that adds passages."""
TABLES = """
CREATE TABLE passages (number INTEGER PRIMARY KEY, docno TEXT NOT NULL, text BLOB NOT NULL);
CREATE TABLE parts (count INTEGER NOT NULL, sha256 TEXT NOT NULL)
"""
CHOSEN = "docno IN (SELECT value FROM json_each(?))"

Parts = list[list[Any]]
"""The number of passages and the checksum of each sequence of passages that was added at once."""


class TextStore:
    """The file of a folder's passages.

    Any number of threads and processes may read it, also from read-only storage.

    Args:
        folder: the index's folder.
        create: make the file if it is missing.

    Raises:
        DataError: at every use, when the file can't be read.

    Example:
        >>> import tempfile
        >>> store = TextStore(Path(tempfile.mkdtemp()), create=True)
        >>> store.write(CorpusReader([{"docno": "d2", "text": "Trams run."}, {"docno": "d1", "text": "Rooibos has no caffeine."}]))
        >>> store.read(["d1"]), list(store.docnos(["d2", "d3"])), store.count
        (['Rooibos has no caffeine.'], ['d2'], 2)
    """

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self.path = (folder / NAME).absolute()
        self._lock = threading.Lock()
        with self._errors():
            address = f"{self.path.as_uri()}?mode={'rwc' if create else 'rw'}"
            self._connection = sqlite3.connect(address, uri=True, timeout=WAIT, check_same_thread=False, isolation_level=None)
            self._connection.executescript(f"PRAGMA cache_size = -65536; PRAGMA mmap_size = {1 << 40}")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def parts(self) -> Parts:
        """What was added at once, in order; empty for a new file."""
        if not self._rows("SELECT 1 FROM sqlite_master"):
            return []
        return [list(part) for part in self._rows("SELECT count, sha256 FROM parts ORDER BY rowid")]

    @property
    def count(self) -> int:
        """The number of passages."""
        return count_of(self.parts)

    # Reading

    def read(self, docnos: Sequence[str]) -> list[str]:
        """The texts of ``docnos``, in their order. Rows of the same passage share one string.

        Raises:
            DataError: when docnos aren't in the file; it names them.
        """
        wanted = json.dumps(list(dict.fromkeys(docnos)))
        unpack = lz4.block.decompress
        rows = self._rows(f"SELECT docno, text FROM passages WHERE {CHOSEN}", wanted)
        found = {docno: unpack(text).decode("utf-8", "surrogatepass") for docno, text in rows}
        try:
            return [found[docno] for docno in docnos]
        except KeyError:
            missing = sorted({docno for docno in docnos if docno not in found}, key=str)
        shown = list_first([repr(docno) for docno in missing])
        raise DataError(f"the index {self.path.parent} lacks {len(missing)} of these passages ({shown}); use the index of their collection")

    def docnos(self, among: Sequence[str], before: int | None = None) -> Iterator[str]:
        """Those of the docnos ``among`` that passages with numbers below ``before`` have. They are looked up lazily."""
        for start in range(0, len(among), AT_ONCE):
            part = json.dumps(list(among[start : start + AT_ONCE]))
            limit = 1 << 62 if before is None else before
            yield from (docno for (docno,) in self._rows(f"SELECT docno FROM passages WHERE {CHOSEN} AND number < ?", part, limit))

    def passages(self, start: int = 0) -> Iterator[tuple[str, str]]:
        """Every (docno, text) from a number on, in the order of the corpus."""
        while rows := self._rows("SELECT docno, text FROM passages WHERE number >= ? ORDER BY number LIMIT 1000", start):
            yield from ((docno, lz4.block.decompress(text).decode("utf-8", "surrogatepass")) for docno, text in rows)
            start += len(rows)

    # Writing

    def write(self, reading: "CorpusReader") -> None:
        """Store a corpus in a new file, in one transaction.

        Raises:
            DataError: when the corpus is malformed, or has a docno twice.
        """
        with self._transaction() as execute:
            for statement in TABLES.split(";"):
                execute(statement)
            self._insert(0, reading)
            try:
                execute("CREATE UNIQUE INDEX docnos ON passages (docno)")  # after the rows: docnos in any order are sorted once
            except sqlite3.IntegrityError:
                self._name_repeated(reading)

    def add(self, reading: "CorpusReader") -> None:
        """Add passages in one transaction. Those that are there with the same text are skipped.

        Raises:
            DataError: when the corpus is malformed, or has other texts for docnos that are there.
        """
        with self._transaction():
            self._insert(self.count, (passage for passage in reading if self._is_new(reading, *passage)))

    def check_same(self, reading: "CorpusReader") -> None:
        """Read a corpus to its end, and compare it with the passages of the file.

        Raises:
            UsageError: when they differ.
        """
        for count, sha256 in self.parts:
            checksum, start = Checksum(), reading.count
            for docno, text in islice(reading, count):
                checksum.add(docno, as_bytes(text))
            if (reading.count - start, checksum.hex()) != (count, sha256):
                break
        else:
            if next(reading, None) is None:
                return
        raise UsageError(f"{self.path.parent} holds an index of other passages, or in another order: remove it, or give a new path")

    def _insert(self, first: int, passages: Iterator[tuple[str, str]]) -> None:
        checksum, count = Checksum(), 0

        def rows() -> Iterator[tuple[int, str, bytes]]:
            nonlocal count
            for docno, text in passages:
                content = as_bytes(text)
                checksum.add(docno, content)
                yield first + count, docno, lz4.block.compress(content)
                count += 1

        self._connection.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows())
        if count:
            self._connection.execute("INSERT INTO parts VALUES (?, ?)", (count, checksum.hex()))

    def _is_new(self, reading: "CorpusReader", docno: str, text: str) -> bool:
        there = self._connection.execute("SELECT text FROM passages WHERE docno = ?", (docno,)).fetchone()
        if there is not None and lz4.block.decompress(there[0]) != as_bytes(text):
            raise DataError(f"{reading.name(reading.count)}: the index has {docno!r} with another text: passages are added, not changed")
        return there is None

    def _name_repeated(self, reading: "CorpusReader") -> None:
        twice = "SELECT docno, min(number), max(number) FROM passages GROUP BY docno HAVING count(*) > 1 ORDER BY 3 LIMIT 1"
        docno, first, again = self._connection.execute(twice).fetchone()
        there = reading.name(first + 1)
        raise DataError(f"{reading.name(again + 1)}: its docno {docno!r} was there before, as {there}: give each passage its own")

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._lock, self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # sqlite itself takes it back where the disk is full
                    self._connection.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._errors():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, lz4.block.LZ4BlockError) as error:
            raise DataError(f"{self.path} can't be used ({error}): free some space on its disk, or copy the index again") from None


def count_of(parts: Parts) -> int:
    """The number of passages."""
    return sum(count for count, _ in parts)


# Reading a corpus


class CorpusReader:
    """Iterates over the (docno, text) of a corpus.

    Args:
        corpus: dicts with ``docno`` (a string without white space) and ``text``. Its method ``where(number)``, if present, gives the origin
            of a passage.

    Raises:
        UsageError: when it isn't an iterable of dicts.
        DataError: when it is empty. While iterating, at a passage without a usable docno or text.

    Example:
        >>> reading = CorpusReader([{"docno": "d1", "text": "Rooibos"}])
        >>> next(reading), reading.count
        (('d1', 'Rooibos'), 1)
    """

    def __init__(self, corpus: Corpus) -> None:
        if isinstance(corpus, str | Mapping) or hasattr(corpus, "columns") or not isinstance(corpus, Iterable):
            raise UsageError(
                f"the corpus is a {type(corpus).__name__}: give dicts with docno and text, such as frame.to_dict('records') "
                "of a frame, or ikat.PassageFiles(folder)"
            )
        self.corpus = corpus
        self.count = 0
        items = iter(bar_of(corpus, desc="reading passages", unit="passage"))
        if (first := next(items, None)) is None:
            raise DataError("the corpus has no passage: give an iterable of {'docno': ..., 'text': ...} that isn't used up")
        self._items: Iterator[Mapping[str, Any]] = chain([first], items)

    def __iter__(self) -> "CorpusReader":
        return self

    def __next__(self) -> tuple[str, str]:
        passage = self._checked(next(self._items))
        self.count += 1
        return passage

    def name(self, number: int) -> str:
        """What to call the passage with this number (from 1) in an error."""
        where = getattr(self.corpus, "where", None)
        return f"passage {number} of the corpus" + (f" ({where(number)})" if where else "")

    def _checked(self, item: Mapping[str, Any]) -> tuple[str, str]:
        docno, text = (item.get("docno"), item.get("text", 0)) if isinstance(item, Mapping) else (None, None)
        if (
            not isinstance(docno, str)
            or docno.split() != [docno]
            or "\0" in docno
            or not _is_unicode(docno)
            or not isinstance(text, str | None)
        ):
            wanted = "give a dict with 'docno', a string without white space, and 'text', a string"
            raise DataError(f"{self.name(self.count + 1)} is {repr(item)[:200]}: {wanted}")
        return docno, text or ""


class Checksum:
    """The checksum of passages: for each one docno, line feed, number of bytes of the text, line feed, text, in UTF-8."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, docno: str, text: bytes) -> None:
        """Add a passage. The number of bytes says where the next one begins."""
        self._digest.update(f"{docno}\n{len(text)}\n".encode() + text)

    def hex(self) -> str:
        """The checksum of the passages so far."""
        return self._digest.hexdigest()


def as_bytes(text: str) -> bytes:
    """A text as it is stored; half a surrogate pair is kept."""
    return text.encode("utf-8", "surrogatepass")


def _is_unicode(docno: str) -> bool:
    return docno.isascii() or docno.encode("utf-8", "replace").decode() == docno


# Encoding passages in steps, so that an interrupted build resumes after the last one

Encode = Callable[[list[tuple[str, str]]], Mapping[str, Any]]
"""Returns arrays by name for (docno, text) pairs."""


def encode_steps(folder: Path, store: TextStore, start: int, step: int, encode: Encode) -> list[Path]:
    """Encode the passages of a store from the number ``start`` on, except for steps whose files are there.

    Args:
        folder: the folder of the steps, which belongs to the passages, the model and its settings; created if missing.
        store: the passages.
        start: the number of the first passage.
        step: the number of passages in a step. A killed build repeats no more than these.
        encode: encodes the passages of a step.

    Returns:
        The files of the steps, in the order of the passages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with bar_of(total=store.count - start, desc="encoding passages", unit="passage") as bar:
        for number, batch in enumerate(_batches(store.passages(start), step)):
            files.append(folder / f"{number:08d}.npz")
            if not files[-1].exists():
                found = encode(batch)
                with atomic_write(files[-1], "wb") as file:
                    np.savez(file, **found)
            bar.update(len(batch))
    return files


def read_step(file: Path) -> dict[str, Any]:
    """The arrays of a step."""
    with np.load(file, allow_pickle=False) as found:
        return dict(found)


def _batches(passages: Iterator[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    while batch := list(islice(passages, size)):
        yield batch
