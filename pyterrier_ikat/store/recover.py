"""Recover the entries of a damaged cache file: ``python -m pyterrier_ikat.store.recover DAMAGED NEW``."""

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ..errors import DataError
from ..portable import digest
from .cache import FORMAT, TABLE

PAGE_SIZE, PAGES, VERSION, MARK = slice(16, 18), slice(28, 32), slice(60, 64), slice(68, 72)
"""Positions in the header of a sqlite file."""


def recover(damaged: str | Path, new: str | Path) -> int:
    """Copy those entries of a damaged cache into a new file whose checksums are correct.

    Args:
        damaged: a cache of results or completions. It isn't changed. A file ``damaged-wal`` next to it is also read.
        new: the new file.

    Returns:
        The number of entries in the new file.

    Raises:
        DataError: when ``new`` exists, or ``damaged`` is not a cache of this version.
    """
    if Path(new).exists():
        raise DataError(f"{new} already exists: name another file")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "damaged"
        try:
            for end in ("", "-wal"):
                if end == "" or Path(f"{damaged}{end}").exists():
                    shutil.copyfile(f"{damaged}{end}", f"{copy}{end}")
        except OSError as error:
            raise DataError(f"{damaged} can't be read ({error.strerror})") from None
        header = copy.read_bytes()[:100]
        if len(header) < 100 or int.from_bytes(header[VERSION], "big") != FORMAT:
            raise DataError(f"{damaged} is not a cache of this version: nothing can be read from it")
        size = int.from_bytes(header[PAGE_SIZE], "big") * int.from_bytes(header[PAGES], "big")
        os.truncate(copy, max(size, copy.stat().st_size))  # sqlite doesn't open a file with missing pages
        whole = {key: (value, checksum) for key, value, checksum in _rows(copy)}
    with closing(sqlite3.connect(new)) as connection, connection:
        connection.execute(TABLE)
        connection.execute(f"PRAGMA application_id = {int.from_bytes(header[MARK], 'big')}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.executemany("INSERT INTO cache VALUES (?, ?, ?)", ((key, *rest) for key, rest in whole.items()))
    return len(whole)


def _rows(path: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The undamaged entries, read from both ends as far as possible."""
    with closing(sqlite3.connect(path)) as connection:
        for order in ("ASC", "DESC"):
            try:
                for key, value, checksum in connection.execute(
                    f"SELECT key, value, checksum FROM cache NOT INDEXED ORDER BY rowid {order}"
                ):
                    if isinstance(key, bytes) and isinstance(value, bytes) and digest(key, value) == checksum:
                        yield key, value, checksum
            except sqlite3.Error:
                continue


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m pyterrier_ikat.store.recover DAMAGED NEW")
    try:
        print(f"{sys.argv[2]}: {recover(*sys.argv[1:])} entries")
    except DataError as problem:
        sys.exit(f"ikat: {problem}")
