"""Data files: read from the folder ``IKAT_DATA``, or downloaded once into the home folder, and checked by their checksums.

``sources.tsv`` lists them with their addresses, checksums and licences. A file in a folder of the
user that differs from the published one is read, with a warning: it may be a newer version of the
organisers, or changed on purpose.
"""

import hashlib
import os
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import requests

from ..errors import DataError, UsageError
from ..store.files import atomic_write, home_folder

DATA_FOLDER = "IKAT_DATA"
TIMEOUT = (15, 60)
"""The time-out in seconds to connect, and between two pieces of a download."""
DOWNLOADED = ("outputs", "memory")
"""Folders whose files are downloaded even if ``IKAT_DATA`` is set."""


class OtherDataWarning(UserWarning):
    """A file in the user's folder isn't the published one."""


class Source(NamedTuple):
    """Where a data file comes from.

    Attributes:
        url: its address; empty when it is not yet published.
        checksum: ``<algorithm>:<hexadecimal digest>`` of the whole file; the algorithm is one of
            hashlib's, or ``git``, the id of a blob.
        licence: as its repository states it.
    """

    url: str
    checksum: str
    licence: str


_, *_LINES = Path(__file__).with_name("sources.tsv").read_text(encoding="utf-8").splitlines()
SOURCES = {name: Source(*fields) for name, *fields in (line.split("\t") for line in _LINES)}


def data_folder() -> Path:
    """The folder of the data: ``IKAT_DATA`` when set, else ``IKAT_HOME``, else ``ikat`` in PyTerrier's home folder."""
    return (
        Path(os.environ[DATA_FOLDER]).expanduser() if os.environ.get(DATA_FOLDER) else home_folder()
    )


def data_file(name: str) -> Path:
    """The path of the data file ``name``, downloaded at the first call unless ``IKAT_DATA`` is set.

    The published outputs of other teams (``outputs/...``) and data for memories (``memory/...``)
    are downloaded in any case.

    Args:
        name: a file under its published name, a key of ``SOURCES``.

    Raises:
        UsageError: for an unknown name.
        DataError: when ``IKAT_DATA`` is set and lacks the file, it isn't published, can't be
            fetched, or isn't what it should be.
    """
    if name not in SOURCES:
        raise UsageError(f"no data file {name!r}; there are {', '.join(SOURCES)}")
    if (path := at_hand(name)) is not None:
        _check(name, path, path.stat().st_mtime_ns)
        return path
    if not SOURCES[name].url:
        raise DataError(
            f"{name} isn't published yet: once you have it, put it into a folder and set {DATA_FOLDER} to that folder"
        )
    if os.environ.get(DATA_FOLDER) and not name.startswith(DOWNLOADED):
        there = f"{DATA_FOLDER} is set to {data_folder()}, but there is no file {name} in it"
        raise DataError(
            f"{there}; download {SOURCES[name].url} into it, or unset {DATA_FOLDER} to have it fetched"
        )
    return _download(name)


def at_hand(name: str) -> Path | None:
    """The path of the file ``name`` in the data folder, or None when it isn't there.

    A file with folders in its name may lie beside the folder ``IKAT_DATA``, and in fewer folders,
    as long as its name is unambiguous: ``mtrag/mtrag-human/evaluations/a.json`` is also found as
    ``mtrag/evaluations/a.json`` and as ``mtrag/a.json``.
    """
    top, *parts = name.split("/")
    shorter = ["/".join(parts[skipped:]) for skipped in range(1, len(parts))]
    names = [
        name,
        *(
            f"{top}/{short}"
            for short in shorter
            if sum(other.endswith(f"/{short}") for other in SOURCES) == 1
        ),
    ]
    beside = [data_folder().parent, home_folder()] if parts and os.environ.get(DATA_FOLDER) else []
    return next(
        (
            folder / one
            for folder in [data_folder(), *beside]
            for one in names
            if (folder / one).is_file()
        ),
        None,
    )


def is_published(name: str) -> bool:
    """Whether the file of this name is the published one. False when this is unknown."""
    path = data_file(name)
    return _check(name, path, path.stat().st_mtime_ns)


@cache
def _check(name: str, path: Path, changed: int) -> bool:
    """Whether this is the published file, with a warning once for each state of the file if it isn't."""
    source = SOURCES[name]
    if not source.checksum:
        return False
    if (found := _checksum(path.read_bytes(), source)) == source.checksum:
        return True
    message = f"{path} isn't the published file ({found} instead of {source.checksum}), and scores depend on it"
    warnings.warn(
        f"{message}: download {source.url} in its place, unless you mean this one",
        OtherDataWarning,
        stacklevel=3,
    )
    return False


def _checksum(content: bytes, source: Source) -> str:
    algorithm = source.checksum.partition(":")[0]
    if algorithm == "git":
        blob = b"blob %d\0" % len(content) + content
        return f"git:{hashlib.sha1(blob).hexdigest()}"
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def _download(name: str) -> Path:
    source, path = SOURCES[name], home_folder() / name
    repair = f"or put {name} into a folder yourself and set {DATA_FOLDER} to that folder"
    print(f"downloading {source.url} (licence: {source.licence})", file=sys.stderr)
    try:
        answer = requests.get(source.url, timeout=TIMEOUT)
        answer.raise_for_status()
    except requests.RequestException as error:
        raise DataError(
            f"{source.url} can't be fetched ({type(error).__name__}: {error}): check the network, {repair}"
        ) from None
    if (found := _checksum(answer.content, source)) != source.checksum:
        raise DataError(
            f"{source.url} is not the expected file: {found} instead of {source.checksum}; {repair}"
        )
    with atomic_write(path, "wb") as file:
        file.write(answer.content)
    return path
