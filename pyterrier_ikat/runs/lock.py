"""One process at a time makes a run: locks that are free again when their process ends, however it ends."""

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

from ..errors import UsageError


@contextmanager
def alone(*folders: Path) -> Iterator[None]:
    """Hold the run folders of a comparison, so that no other process writes into them.

    Beside each folder lies ``.<name>.lock`` meanwhile. One that a killed process left is taken over.

    Args:
        folders: where the runs are to be; they need not be there.

    Raises:
        UsageError: at once, when another process holds one of them; it says which one. No lock is kept then.

    Example:
        >>> from pathlib import Path
        >>> from pyterrier_ikat.runs.lock import alone
        >>> with alone(Path("/tmp/ikat-runs/aqd"), Path("/tmp/ikat-runs/raw")):
        ...     sorted(path.name for path in Path("/tmp/ikat-runs").iterdir())
        ['.aqd.lock', '.raw.lock']
    """
    with ExitStack() as held:
        for folder in sorted(folders):  # in one order, so that of two processes one gets them all
            held.enter_context(_held(folder))
        yield


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    path, made = folder.with_name(f".{folder.name}.lock"), not folder.parent.exists()
    with _locked(path, folder) as file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()} since {datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is locked: nobody can have taken it
            if made:
                with suppress(OSError):  # not empty
                    folder.parent.rmdir()


def _locked(path: Path, folder: Path) -> IO[str]:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whoever held it until now may just have removed it, and the folder that it had made.
        with suppress(FileNotFoundError), ExitStack() as opened:
            file = opened.enter_context(path.open("a+", encoding="utf-8"))
            _lock(file, folder)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                opened.pop_all()
                return file


def _lock(file: IO[str], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read() or "another process"
        raise UsageError(f"{folder} is being made by {holder}: wait for it or stop it, or choose another --out") from None
    except OSError as error:
        raise UsageError(f"{folder} can't be locked ({error.strerror}): choose an --out on a disk that has locks") from error
