"""The lock: only one process or thread makes a folder or file, and a killed one leaves nothing locked."""

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from ..errors import UsageError

TRIES = 1000
"""How often a lock is tried for while others remove its file; after that, none can be made there."""


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
                _remove(path)


def lock_holder(path: Path) -> str | None:
    """The holder of a lock, in words; None if it isn't held. A file left by a killed process is removed."""
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        if not _locked(file, path):
            return _written(path)
        if _is_at(file, path):
            _remove(path)
    return None


def remove_empty(folder: Path) -> None:
    """Remove a folder, unless something is in it."""
    with suppress(OSError):
        folder.rmdir()


def _lock(path: Path) -> IO[bytes] | None:
    for _ in range(TRIES):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError), ExitStack() as opened:  # the last holder removes the lock, and the folder that it had made
            file = opened.enter_context(path.open("a+b", buffering=0))
            if not _locked(file, path):
                return None
            if _is_at(file, path):
                opened.pop_all()
                return file
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))  # as in /proc


def _locked(file: IO[bytes], path: Path) -> bool:
    """Lock an open file. False if another process holds the lock."""
    from filelock import lock_descriptor  # its import takes a while

    try:
        return lock_descriptor(file.fileno(), blocking=False)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        raise UsageError(f"{path} can't be locked ({error.strerror}): choose a folder on a disk that has locks") from error


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the one at ``path``: its holder may have removed it meanwhile, and another may have made a new one."""
    return os.path.samestat(os.fstat(file.fileno()), path.stat())


def _remove(path: Path) -> None:
    with suppress(OSError):  # Windows keeps open files; the next holder takes the file over
        path.unlink()


def _written(path: Path) -> str:
    """The text that the holder of a lock wrote into it."""
    with suppress(OSError), path.open("rb", buffering=0) as file:  # it may be released at this moment
        file.seek(1)
        if about := file.read().decode("utf-8", "replace").strip():
            return about
    return "another process"
