"""The passages of an index folder: one sqlite file with docnos and compressed texts.

Passages are added, but never changed. Each engine in the folder is built from this file. A
passage's number is its position in the order of the corpus, from 0.
"""

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import lz4.block
import numpy as np
import pandas as pd

from ..conversations.passage_fields import Unread, read_fields
from ..errors import DataError, UsageError, list_first
from ..progress import bar as bar_of
from ..store.files import atomic_write

Corpus: TypeAlias = "Iterable[Mapping[str, Any]] | pd.DataFrame"
"""Passages: dicts with ``docno`` and ``text``, or a frame with these columns."""
Passage = tuple[str, str]
"""A docno and a text."""
TEXTS_FILE = "texts.db"
DOCNOS_AT_ONCE = 100_000
PASSAGES_AT_ONCE = 1000
WAIT_FOR_WRITER = 600.0
"""Seconds that a reader waits for a process that adds passages."""
CREATE_TABLES = (
    "CREATE TABLE passages (number INTEGER PRIMARY KEY, docno TEXT NOT NULL, text BLOB NOT NULL)",
    "CREATE TABLE parts (count INTEGER NOT NULL, sha256 TEXT NOT NULL)",
)
AMONG_DOCNOS = "docno IN (SELECT value FROM json_each(?))"

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
        >>> store.write([("d2", "Trams run."), ("d1", "Rooibos has no caffeine.")])
        >>> store.read(["d1"]), list(store.docnos(["d2", "d3"])), store.count
        (['Rooibos has no caffeine.'], ['d2'], 2)
    """

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self.path = (folder / TEXTS_FILE).absolute()
        with self._errors():
            mode = "rwc" if create else "rw"
            self._connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode={mode}",
                uri=True,
                timeout=WAIT_FOR_WRITER,
                check_same_thread=False,
                isolation_level=None,
            )
            self._connection.executescript(
                f"PRAGMA cache_size = -65536; PRAGMA mmap_size = {1 << 40}"
            )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def parts(self) -> Parts:
        """The sequences of passages added at once, in order; empty for a new file."""
        if not self._rows("SELECT 1 FROM sqlite_master"):
            return []
        return [list(part) for part in self._rows("SELECT count, sha256 FROM parts ORDER BY rowid")]

    @property
    def count(self) -> int:
        """The number of passages."""
        return count_of(self.parts)

    # Reading

    def read(self, docnos: Sequence[str]) -> list[str]:
        """Return the texts of ``docnos``, in their order. Rows of a passage share one string.

        Raises:
            DataError: when docnos aren't in the file; it names them.
        """
        docno_list = json.dumps(list(dict.fromkeys(docnos)))
        rows = self._rows(f"SELECT docno, text FROM passages WHERE {AMONG_DOCNOS}", docno_list)
        texts = {docno: self._text(content) for docno, content in rows}
        missing = sorted(set(docnos) - texts.keys(), key=str)
        if missing:
            examples = list_first([repr(docno) for docno in missing])
            raise DataError(
                f"the index {self.path.parent} lacks {len(missing)} of these passages "
                f"({examples}); use the index of their collection"
            )
        return [texts[docno] for docno in docnos]

    def docnos(self, among: Sequence[str], before: int = 1 << 62) -> Iterator[str]:
        """Look up lazily the docnos of passages with numbers below ``before``.

        Args:
            among: the docnos to look up.
            before: the number.
        """
        query = f"SELECT docno FROM passages WHERE {AMONG_DOCNOS} AND number < ?"
        for start in range(0, len(among), DOCNOS_AT_ONCE):
            part = list(among[start : start + DOCNOS_AT_ONCE])
            for (docno,) in self._rows(query, json.dumps(part), before):
                yield docno

    def passages(self, start: int = 0) -> Iterator[Passage]:
        """Stream every (docno, text) from a number on, in the order of the corpus."""
        query = "SELECT docno, text FROM passages WHERE number >= ? ORDER BY number LIMIT ?"
        while True:
            rows = self._rows(query, start, PASSAGES_AT_ONCE)
            if not rows:
                return
            for docno, content in rows:
                yield docno, self._text(content)
            start += len(rows)

    # Writing

    def write(self, passages: Iterable[Passage]) -> None:
        """Store a corpus in a new file, in one transaction.

        Raises:
            DataError: when the corpus is malformed, or has a docno twice.
        """
        with self._transaction() as execute:
            for statement in CREATE_TABLES:
                execute(statement)
            self._insert(0, passages)
            try:  # after the rows: docnos in any order are sorted once
                execute("CREATE UNIQUE INDEX docnos ON passages (docno)")
            except sqlite3.IntegrityError:
                query = "SELECT docno FROM passages GROUP BY docno HAVING count(*) > 1 LIMIT 1"
                [docno] = execute(query).fetchone()
                raise DataError(
                    f"the corpus has the docno {docno!r} more than once: give each passage its own"
                ) from None

    def add(self, passages: Iterable[Passage]) -> None:
        """Add passages in one transaction, except for stored ones with the same text.

        Raises:
            DataError: when the corpus is malformed, or has other texts for docnos that are there.
        """
        with self._transaction():
            self._insert(self.count, filter(self._is_new, passages))

    def check_same(self, passages: Iterable[Passage]) -> None:
        """Read a corpus to its end, and compare it with the passages of the file.

        Raises:
            UsageError: when they differ.
        """
        for passage, stored in zip_longest(passages, self.passages()):
            if passage != stored:
                raise UsageError(
                    f"{self.path.parent} holds an index of other passages, or in another order: "
                    "remove it, or give a new path"
                )

    def _insert(self, first: int, passages: Iterable[Passage]) -> None:
        """Insert passages with numbers from ``first`` on, and their checksum as a part."""
        checksum = hashlib.sha256()
        count = 0

        def rows() -> Iterator[tuple[int, str, bytes]]:
            nonlocal count
            for docno, text in passages:
                content = text.encode("utf-8", "surrogatepass")
                checksum.update(f"{docno}\n{len(content)}\n".encode() + content)
                yield first + count, docno, lz4.block.compress(content)
                count += 1

        self._connection.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows())
        if count:
            part = (count, checksum.hexdigest())
            self._connection.execute("INSERT INTO parts VALUES (?, ?)", part)

    def _is_new(self, passage: Passage) -> bool:
        docno, text = passage
        query = "SELECT text FROM passages WHERE docno = ?"
        row = self._connection.execute(query, (docno,)).fetchone()
        if row is None:
            return True
        if self._text(row[0]) != text:
            raise DataError(
                f"the index has {docno!r} with another text: passages are added, not changed"
            )
        return False

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with self._errors(), self._connection:  # which commits, or takes everything back
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection.execute

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._errors():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _text(self, content: bytes) -> str:
        try:
            text: str = lz4.block.decompress(content).decode("utf-8", "surrogatepass")
        except (lz4.block.LZ4BlockError, ValueError) as error:
            raise self._unusable(error) from None
        return text

    def _unusable(self, error: Exception) -> DataError:
        return DataError(
            f"{self.path} can't be used ({error}): "
            "free some space on its disk, or copy the index again"
        )


def count_of(parts: Parts) -> int:
    """Return the number of passages."""
    return sum(count for count, _checksum in parts)


# Reading a corpus


def read_corpus(corpus: Corpus) -> Iterator[Passage]:
    """Read the (docno, text) of each passage of a corpus.

    Args:
        corpus: dicts with ``docno`` (a number, or a string without white space) and ``text``, or a
            frame with these columns. The fields may have other names, and there may be a title; see
            :mod:`pyterrier_ikat.conversations.passage_fields`. Its method ``where(number)``, if
            present, gives the origin of a passage.

    Warns:
        CollectionWarning: while iterating, once for each field that nothing reads.

    Raises:
        UsageError: at once, when it isn't an iterable of dicts.
        DataError: at once, when it is empty. While iterating, at a passage without a usable docno
            or text.

    Example:
        >>> list(read_corpus([{"docno": "d1", "title": "Rooibos", "text": "A red drink."}]))
        [('d1', 'Rooibos A red drink.')]
    """
    if isinstance(corpus, pd.DataFrame):
        corpus = corpus.to_dict("records")
    is_table = hasattr(corpus, "columns")  # of polars, for example
    if is_table or isinstance(corpus, str | Mapping) or not isinstance(corpus, Iterable):
        raise UsageError(
            f"the corpus is a {type(corpus).__name__}: "
            "give dicts with docno and text, a pandas DataFrame, or ikat.PassageFiles(folder)"
        )
    progress = bar_of(corpus, desc="reading passages", unit="passage")
    items: Iterator[Mapping[str, Any]] = iter(progress)
    first = next(items, None)
    if first is None:
        raise DataError(
            "the corpus has no passage: "
            "give an iterable of {'docno': ..., 'text': ...} that isn't used up"
        )
    return _checked_passages(corpus, chain([first], items))


def _checked_passages(corpus: Corpus, items: Iterable[Any]) -> Iterator[Passage]:
    unread = Unread("the corpus")
    for number, item in enumerate(items, 1):
        try:
            passage, names = read_fields(item, may_be_empty=True)
        except ValueError as error:
            where = f" ({corpus.where(number)})" if hasattr(corpus, "where") else ""
            repair = "give a dict with 'docno', a string without white space, and 'text', a string"
            raise DataError(
                f"passage {number} of the corpus{where} is {repr(item)[:200]}: {repair} ({error})"
            ) from None
        unread.tell(f"passage {number}", names)
        yield passage["docno"], passage["text"]


# Encoding passages in parts, so that a killed build resumes after the last one

PART_BYTES = 1 << 26
PART_SECONDS = 600.0
"""A part is written when it has this size, or took this long."""
PASSAGES_PER_DEVICE = 4096
"""Passages that each of several devices gets at a time, many batches."""
Encode = Callable[[list[Passage]], Mapping[str, Any]]
"""Returns arrays by name for (docno, text) pairs."""


class _Part:
    """Encoded passages that become one file.

    Args:
        folder: the folder of the file.
        first: the number of the first passage.
    """

    def __init__(self, folder: Path, first: int) -> None:
        self.folder = folder
        self.first = first
        self.end = first
        self.begun = time.monotonic()
        self.arrays: dict[str, Any] = {}
        self.byte_count = 0

    def add(self, count: int, encoded: Mapping[str, Any]) -> None:
        """Add a batch of passages."""
        for name, array in encoded.items():
            self.arrays[f"{self.end}.{name}"] = array
            self.byte_count += array.nbytes
        self.end += count

    @property
    def is_full(self) -> bool:
        seconds = time.monotonic() - self.begun
        return self.byte_count >= PART_BYTES or seconds >= PART_SECONDS

    def write(self) -> None:
        """Write the file, whose name has the passages' numbers, unless there is no passage."""
        if self.arrays:
            path = self.folder / f"{self.first:010d}-{self.end:010d}.npz"
            with atomic_write(path, "wb") as file:
                np.savez(file, **self.arrays)


def encode_parts(
    folder: Path, store: TextStore, start: int, at_once: int, encode: Encode
) -> list[Path]:
    """Encode the passages of a store from the number ``start`` on.

    What the folder has is not encoded again. An interruption keeps all encoded batches, a kill what
    was written.

    Args:
        folder: the folder of the parts, which belongs to the passages, the model and its settings;
            created if missing.
        store: the passages.
        start: the number of the first passage.
        at_once: the number of passages in a batch.
        encode: encodes the passages of a batch.

    Returns:
        The files of the parts, in the order of the passages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = start
    for path in sorted(folder.glob("*.npz")):
        done = int(path.stem.partition("-")[2])
    part = _Part(folder, done)
    with bar_of(total=store.count - start, desc="encoding passages", unit="passage") as bar:
        bar.update(done - start)
        try:
            for batch in batches(store.passages(done), at_once):
                part.add(len(batch), encode(batch))
                bar.update(len(batch))
                if part.is_full:
                    part.write()
                    part = _Part(folder, part.end)
        finally:
            part.write()
    return sorted(folder.glob("*.npz"))


def read_part(file: Path) -> Iterator[dict[str, Any]]:
    """Read the arrays of each batch of a part."""
    with np.load(file, allow_pickle=False) as arrays:
        names_of: dict[str, list[str]] = {}
        for name in arrays.files:
            names_of.setdefault(name.partition(".")[0], []).append(name)
        for names in names_of.values():
            yield {name.partition(".")[2]: arrays[name] for name in names}


def passages_at_once(alone: int, devices: Sequence[str] | None) -> int:
    """Return how many passages are encoded at a time: ``alone`` by this process itself."""
    return alone if devices is None else PASSAGES_PER_DEVICE * len(devices)


def read_names(path: Path) -> list[str]:
    """Read the names in a file, one per line."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def batches(passages: Iterator[Passage], size: int) -> Iterator[list[Passage]]:
    """Divide passages into lists of ``size``; the last one may be shorter."""
    while True:
        batch = list(islice(passages, size))
        if not batch:
            return
        yield batch
