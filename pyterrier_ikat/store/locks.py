"""The lock: only one process or thread makes a folder or file, and a killed one leaves nothing locked. It is the same on every system."""

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from ..errors import UsageError

REMOVES_OPEN_FILES = os.name != "nt"
"""Whether the system can remove open files. Windows can't."""


@contextmanager
def lock_folders(*folders: Path) -> Iterator[None]:
    """Lock folders that are being made, so that no other process writes into them.

    Meanwhile there is a file ``.<name>.lock`` next to each folder.

    Args:
        folders: the folders, which need not exist.

    Raises:
        UsageError: at once, when another process holds one of them. The error names the folder, and no lock is kept.

    Example:
        >>> from pathlib import Path
        >>> from pyterrier_ikat.store.locks import lock_folders
        >>> with lock_folders(Path("/tmp/ikat-runs/aqd"), Path("/tmp/ikat-runs/raw")):
        ...     sorted(path.name for path in Path("/tmp/ikat-runs").iterdir())
        ['.aqd.lock', '.raw.lock']
    """
    with ExitStack() as held:
        for folder in sorted(folders):  # in a fixed order, so that one of two processes gets all of them
            path = folder.with_name(f".{folder.name}.lock")
            if not folder.parent.exists():
                held.callback(remove_empty, folder.parent)
            if not held.enter_context(hold_lock(path)):
                raise UsageError(f"{folder} is being made by {_written(path)}: wait for it or stop it, or choose another folder")
        yield


@contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Hold a lock, unless another thread or process holds it. Yields whether this call holds it.

    Args:
        path: the lock file, removed at the end. A file left by a killed process is taken over.

    Raises:
        UsageError: when the disk has no locks.
    """
    file, process = _lock(path), os.getpid()
    if file is None:
        yield False
        return
    with file:
        file.truncate(0)
        # The first byte is the lock, and on Windows it can't be read.
        about = f" process {process} on {platform.node()} since {datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        file.write(about.encode())
        try:
            yield True
        finally:
            if os.getpid() == process:  # a forked process leaves the lock to its parent
                _remove(path, file)


def _remove(path: Path, file: IO[bytes]) -> None:
    """Remove the file of a lock that is held, and release the lock.

    While the file is locked, no other process can take it. If the system can't remove open files, the lock is released first. Then the file
    stays if another process has taken the lock meanwhile.
    """
    if REMOVES_OPEN_FILES:
        path.unlink(missing_ok=True)
    file.close()
    if not REMOVES_OPEN_FILES:
        with suppress(OSError):
            path.unlink()


ATTEMPTS = 100


def lock_holder(path: Path) -> str | None:
    """The holder of a lock, in words; None if it isn't held. A file left by a killed process is removed."""
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        if not _locked(file, path):
            return _written(path)
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):  # otherwise another process has created a new one
            _remove(path, file)
    return None


def _written(path: Path) -> str:
    """The text that the holder of a lock wrote into it."""
    with suppress(OSError), path.open("rb", buffering=0) as file:  # it may be released at this moment
        file.seek(1)
        if about := file.read().decode("utf-8", "replace").strip():
            return about
    return "another process"


def _lock(path: Path) -> IO[bytes] | None:
    for attempt in range(ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as opened:
                file = opened.enter_context(path.open("a+b", buffering=0))
                if not _locked(file, path):
                    return None
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    opened.pop_all()
                    return file
        except (FileNotFoundError, FileExistsError, PermissionError) as error:
            # The last holder has removed the lock and the folder that it had made. Windows forbids the name until it is gone.
            if attempt == ATTEMPTS - 1 or (isinstance(error, PermissionError) and REMOVES_OPEN_FILES):
                raise
    return None


def _locked(file: IO[bytes], path: Path) -> bool:
    """Lock an open file. False if another process holds the lock.

    Raises:
        UsageError: when the disk has no locks.
    """
    from filelock import lock_descriptor  # its import takes a while

    try:
        return lock_descriptor(file.fileno(), blocking=False)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        raise UsageError(f"{path} can't be locked ({error.strerror}): choose a folder on a disk that has locks") from error


def remove_empty(folder: Path) -> None:
    """Remove a folder, unless something is in it."""
    with suppress(OSError):
        folder.rmdir()
