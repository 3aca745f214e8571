"""The lock: only one process or thread makes a folder or file, and a killed one leaves nothing locked."""

import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from ..errors import UsageError


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
                raise UsageError(f"{folder} is being made by {lock_holder(path)}: wait for it or stop it, or choose another folder")
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
        # Between the opening and the lock its last holder may have removed the file. Then it locks nothing.
        held = lock_descriptor(file.fileno(), blocking=False) and os.fstat(file.fileno()).st_nlink > 0
        if held:
            file.truncate(0)
            file.write(f"process {process} on {platform.node()} since {datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC".encode())
        try:
            yield held
        finally:
            if held and os.getpid() == process:  # a forked process leaves the lock to its parent
                with suppress(OSError):  # Windows keeps open files; the next holder takes the file over
                    path.unlink()


def lock_holder(path: Path) -> str:
    """The holder of a lock, in words."""
    with suppress(OSError):  # it may be released at this moment, and Windows lets nobody read locked files
        return path.read_text(errors="replace") or "another process"
    return "another process"


def remove_empty(folder: Path) -> None:
    """Remove a folder, unless something is in it."""
    with suppress(OSError):
        folder.rmdir()
