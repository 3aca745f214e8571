"""Crash-safe writing: a file is written to a temporary neighbour, flushed and renamed, so the old one is whole until the new one is."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open ``path`` for writing so that it appears whole or not at all.

    Args:
        path: the file to write; its folder is made when missing.
        mode: ``"w"`` (UTF-8 text) or ``"wb"``.

    Yields:
        The open temporary file. An exception inside the block removes it and leaves ``path`` as it was.

    Example:
        >>> from pyterrier_ikat.files import atomic_write
        >>> with atomic_write("figures.txt") as file:
        ...     _ = file.write("0.25")
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = neighbour(path)
    try:
        with temporary.open(mode.replace("w", "x"), encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)  # the system does not say on which file a disk was full
        raise


def neighbour(path: Path) -> Path:
    """A hidden name beside ``path`` that nothing else has."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
