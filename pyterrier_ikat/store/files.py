"""Files and folders that are complete or absent, and files of JSON lines that a kill can cut only at their end."""

import json
import os
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import DataError, UsageError
from .locks import lock_folders


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
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        if private:
            temporary.touch(0o600, exist_ok=False)
        encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")  # the same bytes on every system
        with temporary.open(mode if private else mode.replace("w", "x"), encoding=encoding, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)  # when a disk is full, the system doesn't name the file
        raise


PATIENCE, PAUSE = 2.0, 0.02
"""For a file that another program has open: how long to retry, and the pause between two tries, in seconds."""


def replace(source: Path, target: Path) -> None:
    """Replace ``target`` with ``source`` atomically.

    Windows refuses this while another program has the old file open or mapped. Readers and virus scanners have it open only for a moment,
    so on Windows it is retried.

    Raises:
        OSError: when it fails, with the system's reason and both names.
    """
    started = time.monotonic()
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError as error:
            if getattr(error, "winerror", None) is None or time.monotonic() - started > PATIENCE:
                raise
        time.sleep(PAUSE)


def flush(path: Path) -> None:
    """Flush a file to disk, or the names in a folder if the system has a call for it. Windows flushes names itself."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_at(file: IO[bytes], length: int, start: int) -> bytes:
    """``length`` bytes of an open file from ``start`` on. The file's position stays the same."""
    position = file.tell()
    file.seek(start)
    try:
        return file.read(length)
    finally:
        file.seek(position)


def temporary_name(path: Path) -> Path:
    """An unused hidden name next to ``path``."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


@contextmanager
def resumable_folder(path: str | Path, keep: Callable[[Path], bool], *, last: str, part: str = "") -> Iterator[Path]:
    """Make a folder that appears under its name only when the block succeeds. After an interruption, the next call continues the work.

    If something is already at ``path``, the block has to check it, and the new files are added there.

    Args:
        path: the folder to make.
        keep: whether the workplace of an interrupted block holds anything worth keeping.
        last: the file without which the folder doesn't count as finished.
        part: the name of the part, if several parts are made separately.

    Yields:
        The workplace ``<path>.partial`` or ``<path>.<part>.partial``. The content of its folder ``index`` appears under ``path``.

    Raises:
        UsageError: when the path already has something of the same name, or another process is working on it.
    """
    target = Path(path).absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    workplace = target.with_name(f"{target.name}{part and '.'}{part}.partial")
    with lock_folders(target):
        if (target / last).exists():  # another process that has just finished put it there
            require_free(path)
        workplace.mkdir(exist_ok=True)
        for unfinished in workplace.rglob(".*.tmp"):  # left by a killed atomic_write
            unfinished.unlink()
        try:
            yield workplace
            put_in_place(workplace / "index", target, last)
        except BaseException:
            if not keep(workplace):
                shutil.rmtree(workplace)
            raise
        shutil.rmtree(workplace)


def put_in_place(made: Path, target: Path, last: str) -> None:
    """Move a finished folder to its name, or its content into an existing folder. The file ``last`` is moved after all others.

    Raises:
        UsageError: when a file with one of these names already exists.
    """
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        replace(made, target)
        return
    names = sorted((entry.name for entry in made.iterdir()), key=lambda name: name == last)
    if not target.is_dir() or any((target / name).is_file() for name in names):
        require_free(target)
    for name in names:
        if (target / name).is_dir():  # from a build whose workplace was removed
            shutil.rmtree(target / name)
        replace(made / name, target / name)


def link(source: str | Path, target: str | Path) -> None:
    """Give the file ``source`` the second name ``target``, or copy it if the disk has no hard links."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def point_to(source: Path, target: Path) -> None:
    """Give ``target`` the content of ``source``, without a copy if the user may create links. On Windows few users may."""
    try:
        target.symlink_to(source)
    except OSError:
        link(source, target)


def require_free(path: str | Path) -> Path:
    """The absolute ``path``, with its parent created, if nothing but an empty folder is there.

    Raises:
        UsageError: when something is there.
    """
    target = Path(path).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{path} exists already: remove it, or give a new path")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


PLACES, PLACE = 64, 1 << 16


def write_description(path: Path, fields: Mapping[str, Any], beside: Collection[Path] = ()) -> None:
    """Write ``fields``, and the size and checksum of every file in the folder of ``path`` and of the files ``beside``."""
    folder = path.parent
    there = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    there |= {file.name: file for file in beside}
    files, checks = ({name: about(file) for name, file in there.items()} for about in (lambda file: file.stat().st_size, sample_checksum))
    with atomic_write(path) as file:
        json.dump({**fields, "files": files, "checks": checks}, file, indent=1)


def sample_checksum(path: Path) -> int:
    """A checksum of the whole file up to 4 MiB, or of 64 places of a larger file: enough to find zeros, garbage, or another index's file.

    When PISA reads a damaged file, the process ends, or rankings change silently.
    """
    found, size = 0, path.stat().st_size
    with path.open("rb") as file:
        for number in range(PLACES):
            file.seek(max(number * PLACE, (size - PLACE) * number // (PLACES - 1)))
            found = zlib.crc32(file.read(PLACE), found)
    return found


def read_description(path: Path, *, form: int, repair: str, spare: Collection[str] = ()) -> dict[str, Any]:
    """The description at ``path``, after checking that every file has the size named there.

    Args:
        path: the description, in the index's folder.
        form: the number of the format that can be read.
        repair: how to repair an unusable index, for the errors.
        spare: files that may have been removed.

    Raises:
        DataError: when the description is missing or has another format, or a file is missing, cut short or damaged.
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
        if (folder / name).exists() and sample_checksum(folder / name) != check:
            raise DataError(
                f"the index {folder} is damaged: {name} has other content than was written; copy it again, or remove it and {repair}"
            )
    return described


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
