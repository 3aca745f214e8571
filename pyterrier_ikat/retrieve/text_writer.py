"""Writing the texts of an index's passages: in commits, so that an interrupted build resumes."""

import json
import os
import zlib
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate, chain, count, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..store.files import atomic_write, read_at
from .texts import HALF, HEADER, MAGIC, NUMBER, Table, as_key, footer, key_in, packed

BATCH = 1_000
DICTIONARY, PIECE = 1 << 15, 96
"""A dictionary of 64 KiB, the most that LZ4 takes, makes texts smaller by a tenth. Compression then takes twice as long."""
PARTS = 256
Passages = list[tuple[str, str]]


class Commit(NamedTuple):
    """A sequence of passages that is stored permanently.

    Attributes:
        passages: the number of passages.
        sha256: the checksum of the corpus up to here.
        made_by: a word chosen by the caller.
        end: where the last passage ends in the file.
    """

    passages: int
    sha256: str
    made_by: str
    end: int


class TextWriter:
    """Writes a file of texts. If a writer is killed, texts that weren't committed are lost.

    Args:
        path: the file, created if missing. A :class:`TextStore` can read it after :meth:`finish`.
        notes: the folder of the files needed until then, created if missing.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with TextWriter(folder / "texts.lz4", folder / "notes") as writer:
        ...     passed = list(writer.store([("d1", "Rooibos")], str, threads=1))
        ...     writer.commit("the checksum of the corpus")
        ...     writer.finish()
        >>> passed, writer.commits[0].passages
        ([('d1', 'Rooibos')], 1)
    """

    def __init__(self, path: Path, notes: Path) -> None:
        notes.mkdir(exist_ok=True)
        self.notes = notes
        self.commits = list(_read_commits(notes))
        self._file: IO[bytes] = path.open("r+b" if self.commits else "w+b")
        self._head = self._read_head() if self.commits else b""
        self._end = self._file.seek(self.commits[-1].end if self.commits else 0)
        self._file.truncate()
        self._begin()

    def __enter__(self) -> "TextWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        """The number of passages that are stored permanently."""
        return sum(commit.passages for commit in self.commits)

    def store(self, passages: Iterable[tuple[str, str]], name: Callable[[int], str], threads: int) -> Iterator[tuple[str, str]]:
        """Store ``passages`` and pass them on; the caller commits.

        Args:
            passages: (docno, text).
            name: returns the name of the passage with a number (from 1) for an error message.
            threads: the number of threads that compress texts.

        Raises:
            DataError: after the last passage, when a docno occurs twice. It names both passages.
        """
        passages = iter(passages)
        pending: deque[tuple[Passages, Future[list[bytes]]]] = deque()
        with ThreadPoolExecutor(threads) as pool:
            while True:
                if batch := list(islice(passages, BATCH)):
                    pending.append((batch, pool.submit(_packed, batch, self._dictionary_for(batch))))
                if not pending:
                    break
                if len(pending) > threads or not batch:
                    batch, records = pending.popleft()
                    self._append(batch, records.result())
                    yield from batch
        self._refuse_repeated(name)

    def commit(self, sha256: str, made_by: str = "") -> None:
        """Make all that was stored since the last commit permanent."""
        self._file.flush()
        os.fsync(self._file.fileno())
        name = self.notes / f"{len(self.commits):05d}"
        for suffix, table in ((".ends", np.array(self._ends, "<u8")), (".entries", self._entries())):
            with atomic_write(name.with_suffix(suffix), "wb") as file:
                file.write(table.data)
        self.commits.append(Commit(len(self._ends), sha256, made_by, self._end))
        with atomic_write(name.with_suffix(".json")) as file:  # the last file: with it the commit exists
            json.dump(self.commits[-1], file)
        self._begin()

    def finish(self) -> None:
        """Append the tables with which a reader finds passages. Then the file is complete."""
        self._file.write(bytes(-self._end % 8))  # numpy would copy a table that begins elsewhere
        tables, check = self._file.tell(), 0
        for table in chain(self._tables(".ends"), merged(list(self._tables(".entries")))):
            self._file.write(table.data)
            check = zlib.crc32(table.data, check)
        self._file.write(footer(self._head, len(self), tables, check))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _begin(self) -> None:
        """Begin a commit: nothing is stored since the last one."""
        self._first = len(self)
        self._ends, self._sums = array("Q"), array("I")

    def _read_head(self) -> bytes:
        head = self._file.read(HEADER.size)
        return head + self._file.read(HEADER.unpack(head)[1])

    def _dictionary_for(self, batch: Passages) -> bytes:
        """The dictionary of the file, made of its first batch."""
        if not self._head:
            pieces = (text.encode("utf-8", "surrogatepass")[:PIECE] for _, text in batch)
            dictionary = b"".join(pieces)[:DICTIONARY]
            self._head = HEADER.pack(MAGIC, len(dictionary)) + dictionary
            self._end = self._file.write(self._head)
        return self._head[HEADER.size :]

    def _append(self, batch: Passages, records: Sequence[bytes]) -> None:
        self._file.write(b"".join(records))
        self._sums.extend(zlib.crc32(as_key(docno)) for docno, _ in batch)
        self._ends.extend(islice(accumulate(map(len, records), initial=self._end), 1, None))
        self._end = self._ends[-1]

    def _entries(self) -> Table:
        """The entries for finding the passages since the last commit."""
        numbers = np.arange(self._first, self._first + len(self._sums), dtype="<u8")
        return np.sort(np.array(self._sums, "<u8") << HALF | numbers)

    def _tables(self, suffix: str) -> Iterator[Table]:
        """The tables of the commits, mapped into memory."""
        for number in range(len(self.commits)):
            yield np.memmap(self.notes / f"{number:05d}{suffix}", dtype="<u8", mode="r")

    def _refuse_repeated(self, name: Callable[[int], str]) -> None:
        """Check that no docno since the last commit was stored before. Only docnos whose checksum was stored before are compared."""
        new = self._entries()
        again = np.flatnonzero(new[1:] >> HALF == new[:-1] >> HALF)
        suspects = [new[again], new[again + 1]]
        for before in self._tables(".entries"):
            suspects += [new[_shared(new, before)], before[_shared(before, new)]]
        self._file.flush()
        first: dict[str, int] = {}
        for number in np.unique(np.concatenate(suspects) & NUMBER).tolist():
            docno = self._docno(number)
            if docno in first:
                there = name(first[docno] + 1)
                raise DataError(f"{name(number + 1)}: its docno {docno!r} was there before, as {there}: give each passage its own")
            first[docno] = number

    def _docno(self, number: int) -> str:
        """The docno of a stored passage."""
        firsts = [*accumulate((commit.passages for commit in self.commits), initial=0)]
        part = bisect_right(firsts, number) - 1
        start = self.commits[part - 1].end if part else len(self._head)
        ends: Any = self._ends
        if part < len(self.commits):
            ends = np.memmap(self.notes / f"{part:05d}.ends", dtype="<u8", mode="r")
        place = number - firsts[part]
        if place:
            start = int(ends[place - 1])
        return key_in(read_at(self._file, int(ends[place]) - start, start))[:-1].decode()


def merged(tables: Sequence[Table]) -> Iterator[Table]:
    """The sorted entries of sorted ``tables``, in consecutive parts of about the same size."""
    bounds = [np.searchsorted(table, np.arange(PARTS, dtype="<u8") << np.uint64(56)).tolist() + [len(table)] for table in tables]
    for part in range(PARTS):
        yield np.sort(np.concatenate([table[bound[part] : bound[part + 1]] for table, bound in zip(tables, bounds, strict=True)]))


def _read_commits(notes: Path) -> Iterator[Commit]:
    for number in count():
        path = notes / f"{number:05d}.json"
        if not path.exists():
            return
        yield Commit(*json.loads(path.read_text(encoding="utf-8")))


def _packed(batch: Passages, dictionary: bytes) -> list[bytes]:
    return [packed(docno, text, dictionary) for docno, text in batch]


def _shared(entries: Table, others: Table) -> npt.NDArray[np.bool_]:
    """Which of ``entries`` have the checksum of one of the sorted ``others``."""
    places = np.searchsorted(others, entries >> HALF << HALF)
    same: npt.NDArray[np.bool_] = others[np.minimum(places, len(others) - 1)] >> HALF == entries >> HALF
    return same
