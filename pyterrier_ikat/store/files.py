"""Files and folders that are complete or absent, files of JSON lines, and the lock.

A kill can cut a file of JSON lines only at its end. Only one process or thread makes a folder or
file, and a killed one leaves nothing locked.
"""

import json
import os
import platform
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from os import fsync  # a name of this module: tests stand in for it here, and nowhere else
from pathlib import Path
from typing import IO, Any

from ..errors import DataError, UsageError

HOME_FOLDER = "IKAT_HOME"
PARTIAL_ENDING = ".partial"
"""How the name of an unfinished run's folder ends."""


def home_folder() -> Path:
    """The folder for caches and downloads: ``$IKAT_HOME``, or ``ikat`` in PyTerrier's home.

    PyTerrier's home is created if missing.

    Raises:
        DataError: when PyTerrier's home can't be created.
    """
    folder = os.environ.get(HOME_FOLDER)
    if folder:
        return Path(folder).expanduser()
    import pyterrier as pt  # imported late: some commands need no frame

    try:
        return Path(pt.io.pyterrier_home()) / "ikat"
    except OSError as error:
        raise DataError(
            f"there is no home folder for caches and downloads ({error}): set {HOME_FOLDER} to a "
            "folder"
        ) from None


@contextmanager
def atomic_write(path: str | Path, mode: str = "w", *, private: bool = False) -> Iterator[IO[Any]]:
    """Open ``path`` for writing, so that it appears complete or not at all.

    Args:
        path: the file to write. Its folder is created if missing.
        mode: ``"w"`` (UTF-8 text) or ``"wb"``.
        private: whether only the file's owner may read it (mode 0600), from its first byte on.

    Yields:
        The open temporary file. An exception inside the block removes it and leaves ``path`` as it
        was.

    Example:
        >>> from pyterrier_ikat.store.files import atomic_write
        >>> with atomic_write("figures.txt") as file:
        ...     _ = file.write("0.25")
    """
    path = Path(path)
    encoding = None if "b" in mode else "utf-8"
    newline = None if "b" in mode else "\n"  # the same bytes on every system
    if path.exists() and not path.is_file() and not path.is_dir():
        # A device such as /dev/null, which root's rename would replace.
        with path.open(mode, encoding=encoding, newline=newline) as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        if private:
            temporary.touch(0o600, exist_ok=False)
        else:
            mode = mode.replace("w", "x")
        with temporary.open(mode, encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            fsync(file.fileno())
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
        fsync(descriptor)
    finally:
        os.close(descriptor)


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
        fsync(file.fileno())


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and content of each line, without an incomplete last line.

    A missing file has no lines.

    Raises:
        DataError: when a line is not a JSON object; it names the first one.
    """
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            content = json.loads(line)
        except ValueError as error:
            raise DataError(
                f"{path}, line {number}, is not JSON ({error}): restore the file from a copy"
            ) from None
        if not isinstance(content, dict):
            raise DataError(
                f"{path}, line {number}, is not a JSON object: restore the file from a copy"
            )
        yield number, content


def drop_cut_line(path: Path) -> None:
    """Remove a last line that a kill cut short, so that the next line takes its place."""
    if not path.exists():
        return
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


@contextmanager
def lock_folders(*folders: Path) -> Iterator[None]:
    """Lock folders that are being made, so that no other process writes into them.

    Meanwhile there is a file ``.<name>.lock`` next to each folder.

    Args:
        folders: the folders, which need not exist.

    Raises:
        UsageError: at once, when another process holds one of them. The error names the folder, and
            no lock is kept.

    Example:
        >>> from pathlib import Path
        >>> from pyterrier_ikat.store.files import lock_folders
        >>> with lock_folders(Path("/tmp/ikat-runs/aqd"), Path("/tmp/ikat-runs/raw")):
        ...     sorted(path.name for path in Path("/tmp/ikat-runs").iterdir())
        ['.aqd.lock', '.raw.lock']
    """
    with ExitStack() as held:
        # In a fixed order, so that one of two processes gets all of them.
        for folder in sorted(folders):
            path = folder.with_name(f".{folder.name}.lock")
            if not folder.parent.exists():
                held.callback(remove_empty, folder.parent)
            if not held.enter_context(hold_lock(path)):
                raise UsageError(
                    f"{folder} is being made by {lock_holder(path)}: wait for it or stop it, or "
                    "choose another folder"
                )
        yield


@contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Hold a lock, unless another thread or process holds it. Yields whether this call holds it.

    Args:
        path: the lock file, removed at the end. A file left by a killed process is taken over.
    """
    from filelock import lock_descriptor  # its import takes a while

    path.parent.mkdir(parents=True, exist_ok=True)
    process = os.getpid()
    with path.open("a+b", buffering=0) as file:
        # Between the opening and the lock its last holder may have removed the file. Then it locks
        # nothing.
        held = lock_descriptor(file.fileno(), blocking=False)
        held = held and os.fstat(file.fileno()).st_nlink > 0
        if held:
            now = datetime.now(timezone.utc)
            holder = f"process {process} on {platform.node()} since {now:%Y-%m-%d %H:%M:%S} UTC"
            file.truncate(0)
            file.write(holder.encode())
        try:
            yield held
        finally:
            if held and os.getpid() == process:  # a forked process leaves the lock to its parent
                # Windows keeps open files; the next holder takes the file over.
                with suppress(OSError):
                    path.unlink()


def lock_holder(path: Path) -> str:
    """The holder of a lock, in words."""
    # It may be released at this moment, and Windows lets nobody read locked files.
    with suppress(OSError):
        return path.read_text(errors="replace") or "another process"
    return "another process"


def remove_empty(folder: Path) -> None:
    """Remove a folder, unless something is in it."""
    with suppress(OSError):
        folder.rmdir()
