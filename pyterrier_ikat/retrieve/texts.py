"""The texts of an index's passages by docno: one file, read through a memory map.

The file has, in this order:

- ``HEADER``, and the dictionary with which all texts are compressed: pieces of the first texts;
- the passages in their original order: the docno, a line feed, the text compressed with LZ4, and a checksum of these;
- where each passage ends, in 64 bits;
- for each passage the checksum of its docno and its number, 32 bits each, sorted: in this table a docno is looked up;
- ``FOOTER``: the number of passages, where the tables begin, a checksum of the tables, and one of the header, dictionary and footer.

LZ4 unpacks a text several times as fast as zlib, and with the dictionary a text takes no more space than with zlib. ``text_writer.py``
writes such a file.
"""

import mmap
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import lz4.block
import numpy as np
import numpy.typing as npt

from ..errors import DataError, list_first
from .state import FileState, Replaced, file_state

MAGIC = b"ikattxt1"
HEADER = struct.Struct("<8sI")
"""``MAGIC`` and the size of the dictionary."""
FOOTER = struct.Struct("<QQI")
CHECK = struct.Struct("<I")
WHOLE = 0x2144DF1C
"""The CRC of any bytes that end with their own CRC."""
AT_ONCE = 100_000
Table = npt.NDArray[np.uint64]
HALF, NUMBER = np.uint64(32), np.uint64(0xFFFFFFFF)
"""The upper half of an entry is the checksum of a docno, the lower one the passage's number."""


class TextStore:
    """A file of texts.

    It is opened at the first use, once per process, and again when the file was replaced. Any number of threads and processes
    may read it, also from read-only storage.

    Args:
        path: the file, in the index's folder.
        state: the state of the file; None takes the current file.

    Raises:
        DataError: at every use, when the file can't be read or is damaged.
        Replaced: when the file isn't in this state.

    Example:
        >>> import tempfile
        >>> from pyterrier_ikat.retrieve.corpus import write_texts
        >>> path = Path(tempfile.mkdtemp(), "texts.lz4")
        >>> reading = write_texts(path, [{"docno": "d2", "text": "Trams run."}, {"docno": "d1", "text": "Rooibos has no caffeine."}])
        >>> store = TextStore(path)
        >>> store.read(["d1"]), list(store.docnos(["d2", "d3"])), len(store)
        (['Rooibos has no caffeine.'], ['d2'], 2)
    """

    def __init__(self, path: Path, state: FileState | None = None) -> None:
        self.path = path
        self.state = state

    def read(self, docnos: Sequence[str]) -> list[str]:
        """The texts of ``docnos``, in their order. Rows of the same passage share one string.

        Raises:
            DataError: when docnos aren't in the file; it names them.
        """
        wanted = list(dict.fromkeys(docnos))
        with self._opened() as opened:
            found = dict(zip(wanted, opened.texts(wanted), strict=True))
            missing = sorted((docno for docno, text in found.items() if text is None), key=str)
            if missing:
                opened.check_tables()
        if missing:
            shown = list_first([repr(docno) for docno in missing])
            folder = self.path.parent
            raise DataError(f"the index {folder} lacks {len(missing)} of these passages ({shown}); use the index of their collection")
        return [found[docno] for docno in docnos]  # type: ignore[misc]  # none is None

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Those of the docnos ``among`` that are in the file. They are looked up lazily."""
        with self._opened() as opened:
            for start in range(0, len(among), AT_ONCE):
                part = among[start : start + AT_ONCE]
                yield from compress(part, opened.has(part))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Every (docno, text), in the order of docno, so the order doesn't depend on that of the corpus."""
        with self._opened() as opened:
            for number in opened.sorted_by_docno().tolist():
                yield opened.passage(number)

    def __len__(self) -> int:
        with self._opened() as opened:
            return len(opened.ends)

    @contextmanager
    def _opened(self) -> Iterator["OpenTexts"]:
        try:
            yield _open(str(self.path.absolute()), self.state or file_state(self.path))
        except (OSError, ValueError, IndexError, struct.error, lz4.block.LZ4BlockError) as error:
            raise DataError(
                f"{self.path} can't be read ({error}): it is damaged, copy the index {self.path.parent} again or rebuild it"
            ) from None


class OpenTexts(NamedTuple):
    """An open file of texts. A damaged passage, header or dictionary raises ValueError."""

    map: mmap.mmap
    dictionary: bytes
    first: int
    """Where the first passage begins."""
    ends: Table
    entries: Table
    check: int
    """The checksum of the two tables."""

    def record(self, number: int) -> bytes:
        """The bytes of a passage."""
        return self.map[int(self.ends[number - 1]) if number else self.first : int(self.ends[number])]

    def passage(self, number: int) -> tuple[str, str]:
        """The docno and the text of a passage."""
        record = self.record(number)
        key = key_in(record)
        return key[:-1].decode(), unpacked(record, len(key), self.dictionary)

    def texts(self, docnos: Sequence[str]) -> list[str | None]:
        """The text of each docno; None for a docno that isn't in the file."""
        keys, found = [as_key(docno) for docno in docnos], []
        for key, (place, start, end) in zip(keys, self._places(keys), strict=True):
            first = self.map[start:end]
            record = first if first.startswith(key) else self._record_behind(key, place)
            found.append(None if record is None else unpacked(record, len(key), self.dictionary))
        return found

    def has(self, docnos: Sequence[str]) -> list[bool]:
        """For each docno, whether it is in the file."""
        keys = [as_key(docno) for docno in docnos]
        return [
            self.map[start : start + len(key)] == key or self._record_behind(key, place) is not None
            for key, (place, start, _) in zip(keys, self._places(keys), strict=True)
        ]

    def _places(self, keys: Sequence[bytes]) -> Iterator[tuple[int, int, int]]:
        """For each key, the first entry with its checksum, and where the passage of that entry begins and ends."""
        sums = np.fromiter(map(zlib.crc32, keys), dtype=np.uint64, count=len(keys)) << HALF
        places = np.searchsorted(self.entries, sums)
        numbers = (self.entries[np.minimum(places, len(self.entries) - 1)] & NUMBER).astype(np.int64)
        starts = np.where(numbers > 0, self.ends[numbers - 1], np.uint64(self.first))
        return zip(places.tolist(), starts.tolist(), self.ends[numbers].tolist(), strict=True)

    def _record_behind(self, key: bytes, place: int) -> bytes | None:
        """The record of a docno that isn't the first one with its checksum."""
        for entry in self.entries[place:]:
            if int(entry) >> 32 != zlib.crc32(key):
                break
            record = check_record(self.record(int(entry) & 0xFFFFFFFF))
            if record.startswith(key):
                return record
        return None

    def sorted_by_docno(self) -> npt.NDArray[np.int64]:
        """The numbers of the passages in the order of docno."""
        count = len(self.ends)
        parts = [
            np.array([key_in(self.record(number))[:-1] for number in range(start, min(start + AT_ONCE, count))])
            for start in range(0, count, AT_ONCE)
        ]
        return np.argsort(np.concatenate(parts), kind="stable")

    def check_tables(self) -> None:
        """Check that the tables for finding docnos are unchanged since they were written.

        Raises:
            ValueError: when they aren't.
        """
        if zlib.crc32(self.entries.data, zlib.crc32(self.ends.data)) != self.check:
            raise ValueError("its tables have other content than was written")


def as_key(docno: str) -> bytes:
    """A docno with a line feed after it. A record begins with it, and the docno's checksum is computed from it."""
    return f"{docno}\n".encode("utf-8", "replace")


def key_in(record: bytes) -> bytes:
    """The docno at the beginning of a record, with the line feed."""
    return record[: record.index(b"\n") + 1]


def packed(docno: str, text: str, dictionary: bytes) -> bytes:
    """A passage as it is stored: docno, line feed, compressed text, and a checksum of these."""
    content = text.encode("utf-8", "surrogatepass")
    record: bytes = as_key(docno) + lz4.block.compress(content, mode="high_compression", compression=6, dict=dictionary)
    return record + CHECK.pack(zlib.crc32(record))


def unpacked(record: bytes, start: int, dictionary: bytes) -> str:
    """The text of a record that begins at ``start``."""
    content: bytes = lz4.block.decompress(check_record(record)[start : -CHECK.size], dict=dictionary)
    return content.decode("utf-8", "surrogatepass")


def check_record(record: bytes) -> bytes:
    """``record``, if it is unchanged since it was written.

    Raises:
        ValueError: when it isn't.
    """
    if zlib.crc32(record) != WHOLE:
        raise ValueError("a passage has other content than was written")
    return record


def footer(head: bytes, count: int, tables: int, check: int) -> bytes:
    """The end of a file, with a checksum of the header, the dictionary and itself."""
    found = FOOTER.pack(count, tables, check)
    return found + CHECK.pack(zlib.crc32(found, zlib.crc32(head)))


@lru_cache(maxsize=16)
def _open(path: str, state: FileState) -> OpenTexts:
    """An open file of texts, which must be in this state."""
    with open(path, "rb") as file:
        if file_state(file.fileno()) != state:
            raise Replaced(f"{path} was replaced while it was opened: search again")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    magic, size = HEADER.unpack_from(mapped)
    first, behind = HEADER.size + size, len(mapped) - FOOTER.size - CHECK.size
    count, tables, check = FOOTER.unpack_from(mapped, behind)
    if magic != MAGIC or mapped[behind:] != footer(mapped[:first], count, tables, check) or tables + 2 * 8 * count != behind:
        raise ValueError("its beginning or its end has other content than was written")
    ends, entries = (np.frombuffer(mapped, "<u8", count, start) for start in (tables, tables + 8 * count))
    return OpenTexts(mapped, mapped[HEADER.size : first], first, ends, entries, check)
