"""Files and folders that are complete or absent, and files of JSON lines that a kill can cut only at their end."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import DataError


@contextmanager
def atomic_write(path: str | Path, mode: str = "w", *, private: bool = False) -> Iterator[IO[Any]]:
    """Open ``path`` for writing, so that it appears complete or not at all.

    Args:
        path: the file to write. Its folder is created if missing.
        mode: ``"w"`` (UTF-8 text) or ``"wb"``.
        private: whether only the file's owner may read it (mode 0600), from its first byte on.

    Yields:
        The open temporary file. An exception inside the block removes it and leaves ``path`` as it was.

    Example:
        >>> from pyterrier_ikat.store.files import atomic_write
        >>> with atomic_write("figures.txt") as file:
        ...     _ = file.write("0.25")
    """
    path = Path(path)
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")  # the same bytes on every system
    if path.exists() and not path.is_file() and not path.is_dir():  # a device such as /dev/null, which root's rename would replace
        with path.open(mode, encoding=encoding, newline=newline) as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        if private:
            temporary.touch(0o600, exist_ok=False)
        with temporary.open(mode if private else mode.replace("w", "x"), encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)  # when a disk is full, the system doesn't name the file
        raise


def flush(path: Path) -> None:
    """Flush a file to disk, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_name(path: Path) -> Path:
    """An unused hidden name next to ``path``."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


def append_line(path: Path, line: str) -> None:
    """Append a line. It is on disk when this returns. Half a surrogate pair becomes ``?``.

    Example:
        >>> from pathlib import Path
        >>> append_line(Path("events.jsonl"), '{"event": "start"}')
        >>> list(read_lines(Path("events.jsonl")))
        [(1, {'event': 'start'})]
    """
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "replace") + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and content of each line. A missing file has no lines, and an incomplete last line is omitted.

    Raises:
        DataError: when a line is not a JSON object; it names the first one.
    """
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number}, is not JSON ({error}): restore the file from a copy") from None
        if not isinstance(found, dict):
            raise DataError(f"{path}, line {number}, is not a JSON object: restore the file from a copy")
        yield number, found


def drop_cut_line(path: Path) -> None:
    """Remove a last line that a kill cut short, so that the next line takes its place."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
