"""Files and folders that are whole or absent, and locks on folders."""

import fcntl
import json
import os
import platform
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from ..errors import DataError, UsageError, advice


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open ``path`` for writing so that it appears whole or not at all.

    Args:
        path: the file to write; its folder is made when missing.
        mode: ``"w"`` (UTF-8 text) or ``"wb"``.

    Yields:
        The open temporary file. An exception inside the block removes it and leaves ``path`` as it was.

    Example:
        >>> from pyterrier_ikat.store.files import atomic_write
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


PLACES, PLACE = 64, 1 << 16

OPENS = {"ikat_index.json": "PassageIndex", "ikat_splade.json": "SpladeIndex"}
"""The description of an index -> what opens it."""


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """Make a folder that appears under its name only when the block ends well.

    Args:
        path: where the folder is to be; nothing but an empty folder may be there.

    Yields:
        The folder to fill, beside ``path``. An exception inside the block removes it.

    Raises:
        UsageError: when something is at the path already.
    """
    target = free_place(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp") as name:
        workplace = Path(name) / "index"
        workplace.mkdir()
        yield workplace
        os.replace(workplace, target)


@contextmanager
def resumable_folder(path: str | Path, keep: Callable[[Path], bool]) -> Iterator[Path]:
    """As :func:`whole_folder`, for work of hours: what an interrupted block leaves is there for the next one.

    Args:
        path: where the folder is to be; nothing but an empty folder may be there.
        keep: whether the workplace of an interrupted block holds anything worth keeping.

    Yields:
        The workplace ``<path>.partial``; its folder ``index`` is what appears under ``path``.

    Raises:
        UsageError: when something is at the path already, or another process is at work.
    """
    target = free_place(path)
    workplace = target.with_name(f"{target.name}.partial")
    workplace.mkdir(exist_ok=True)
    with (workplace / "lock").open("w") as lock:
        if not _is_ours(lock, workplace / "lock"):
            raise UsageError(f"another process is making {path} (in {workplace}): wait for it, or stop it")
        try:
            free_place(path)  # one that was at work until now may just have put it there
            yield workplace
            os.replace(workplace / "index", free_place(path))
        except BaseException:
            if not keep(workplace):
                shutil.rmtree(workplace)
            raise
        shutil.rmtree(workplace)


def _is_ours(lock: IO[str], path: Path) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())  # not one that a finished process has removed
    except (BlockingIOError, FileNotFoundError):
        return False


def link(source: str | Path, target: str | Path) -> None:
    """The file ``source`` under the name ``target``, too; a copy where the disk has no hard links."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def free_place(path: str | Path) -> Path:
    """``path`` from the root, its parent made, when nothing but an empty folder is there.

    Raises:
        UsageError: when something is.
    """
    target = Path(path).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        opens = next((name for description, name in OPENS.items() if (target / description).exists()), None)
        opening = advice(f"ikat.{opens}({str(path)!r}) opens", f"--index {path} takes")
        hint = "" if opens is None else f"{opening} the index that is there; for a new one: "
        raise UsageError(f"{hint}{path} exists already: remove it, or give a path where nothing is")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def write_description(path: Path, fields: Mapping[str, Any]) -> None:
    """Write ``fields``, and the size and checksum of every file of the folder that ``path`` is in."""
    folder = path.parent
    there = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    files, checks = ({name: about(file) for name, file in there.items()} for about in (lambda file: file.stat().st_size, sampled))
    with atomic_write(path) as file:
        json.dump({**fields, "files": files, "checks": checks}, file, indent=1)


def sampled(path: Path) -> int:
    """A checksum of a whole file up to 4 MiB, and of 64 places of a larger one: enough to find zeros, rubbish, or another index's file.

    What PISA reads of a damaged file ends the process, or gives other rankings, without a word.
    """
    found, size = 0, path.stat().st_size
    with path.open("rb") as file:
        for number in range(PLACES):
            file.seek(max(number * PLACE, (size - PLACE) * number // (PLACES - 1)))
            found = zlib.crc32(file.read(PLACE), found)
    return found


def read_description(path: Path, *, form: int, repair: str, spare: Collection[str] = ()) -> dict[str, Any]:
    """The description at ``path``, once every file was found to have the size that it names.

    Args:
        path: the description, in the index's folder.
        form: the number of the format that can be read.
        repair: what to do when the index is of no use, for the errors.
        spare: files that may have been removed.

    Raises:
        DataError: when it isn't there, has another format, or a file is missing, cut short or damaged.
    """
    folder = path.parent
    try:
        described: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        made_by, files = described["format"], described["files"]
    except (FileNotFoundError, NotADirectoryError):
        there = "the folder holds no such index" if folder.exists() else "there is no such folder"
        raise DataError(f"no index at {folder}: {there}; {repair}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} can't be read ({error}): remove {folder} and {repair}") from error
    if made_by != form:
        raise DataError(f"the index {folder} has format {made_by}, this version reads format {form}: remove it and {repair}")
    for name, size in files.items():
        found = (folder / name).stat().st_size if (folder / name).exists() else None
        if found != size and not (found is None and name in spare):
            what = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise DataError(f"the index {folder} isn't whole: {name} {what}; copy it again, or remove it and {repair}")
    for name, check in described.pop("checks", {}).items():  # the first indexes have none
        if (folder / name).exists() and sampled(folder / name) != check:
            raise DataError(
                f"the index {folder} is damaged: {name} has other content than was written; copy it again, or remove it and {repair}"
            )
    return described


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
        >>> from pyterrier_ikat.store.files import alone
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
