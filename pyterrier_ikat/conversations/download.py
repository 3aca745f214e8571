"""Data files: read from the folder ``IKAT_DATA``, or downloaded once into the home folder.

They are checked by their checksums. ``sources.tsv`` lists them with their addresses, checksums and
licences. A file in a folder of the user that differs from the published one is read, with a
warning: it may be a newer version of the organisers, or changed on purpose.
"""

import hashlib
import os
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import requests

from ..errors import DataError, UsageError
from ..store.files import atomic_write, home_folder

DATA_FOLDER = "IKAT_DATA"
TIMEOUT = (15, 60)
"""The time-out in seconds to connect, and between two pieces of a download."""
DOWNLOADED = ("outputs", "memory")
"""Folders whose files are downloaded even if ``IKAT_DATA`` is set."""


class OtherDataWarning(UserWarning):
    """A file in the user's folder differs from the published file."""


class Source(NamedTuple):
    """The source of a data file.

    Attributes:
        url: its address; empty when it is not yet published.
        checksum: ``<algorithm>:<hexadecimal digest>`` of the whole file; the algorithm is one of
            hashlib's, or ``git``, the id of a blob.
        licence: as its repository states it.
    """

    url: str
    checksum: str
    licence: str


def _read_sources() -> dict[str, Source]:
    lines = Path(__file__).with_name("sources.tsv").read_text(encoding="utf-8").splitlines()
    sources = {}
    for line in lines[1:]:
        name, url, checksum, licence = line.split("\t")
        sources[name] = Source(url, checksum, licence)
    return sources


SOURCES = _read_sources()
"""Name of a data file -> where it comes from."""


def data_folder() -> Path:
    """Return the folder of the data.

    ``IKAT_DATA`` when set, else ``IKAT_HOME``, else ``ikat`` in PyTerrier's home folder.
    """
    folder = os.environ.get(DATA_FOLDER)
    return Path(folder).expanduser() if folder else home_folder()


def data_file(name: str) -> Path:
    """Return the path of a data file, downloaded at the first call unless ``IKAT_DATA`` is set.

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
    path = at_hand(name)
    if path is not None:
        _check(name, path, path.stat().st_mtime_ns)
        return path
    url = SOURCES[name].url
    if not url:
        raise DataError(
            f"{name} isn't published yet: once you have it, "
            f"put it into a folder and set {DATA_FOLDER} to that folder"
        )
    if os.environ.get(DATA_FOLDER) and not name.startswith(DOWNLOADED):
        raise DataError(
            f"{DATA_FOLDER} is set to {data_folder()}, but there is no file {name} in it; "
            f"download {url} into it, or unset {DATA_FOLDER} to have it fetched"
        )
    return _download(name)


def at_hand(name: str) -> Path | None:
    """Return the path of the file ``name`` in the data folder, or None when it isn't there.

    A file with folders in its name may lie beside the folder ``IKAT_DATA``, and in fewer folders,
    as long as its name is unambiguous: ``mtrag/mtrag-human/evaluations/a.json`` is also found as
    ``mtrag/evaluations/a.json`` and as ``mtrag/a.json``.
    """
    folders = [data_folder()]
    if "/" in name and os.environ.get(DATA_FOLDER):
        folders += [data_folder().parent, home_folder()]
    for folder in folders:
        for short_name in _names_of(name):
            path = folder / short_name
            if path.is_file():
                return path
    return None


def _names_of(name: str) -> list[str]:
    """Return the possible names of a file: its own, and unambiguous ones with fewer folders."""
    top, *parts = name.split("/")
    names = [name]
    for skipped in range(1, len(parts)):
        end = "/".join(parts[skipped:])
        files = sum(other.endswith(f"/{end}") for other in SOURCES)
        if files == 1:
            names.append(f"{top}/{end}")
    return names


def is_published(name: str) -> bool:
    """Tell whether this file equals the published file; False if that is unknown."""
    path = data_file(name)
    return _check(name, path, path.stat().st_mtime_ns)


@cache
def _check(name: str, path: Path, changed: int) -> bool:
    """Tell whether this is the published file; if not, warn once for each state of the file."""
    source = SOURCES[name]
    if not source.checksum:
        return False
    checksum = _checksum(path.read_bytes(), source)
    if checksum == source.checksum:
        return True
    warnings.warn(
        f"{path} isn't the published file ({checksum} instead of {source.checksum}), "
        f"and scores depend on it: download {source.url} in its place, unless you mean this one",
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


def _reason(error: requests.RequestException) -> str:
    """The cause of a failed download in a few words; `requests` tells it with its whole history."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"status {error.response.status_code} {error.response.reason}".strip()
    if isinstance(error, requests.Timeout):
        return "it doesn't answer in time"
    if isinstance(error, requests.exceptions.SSLError):
        return f"the certificate isn't accepted: {_innermost(error)}"
    if isinstance(error, requests.ConnectionError):
        return f"no connection: {_innermost(error)}"
    return f"{type(error).__name__}: {error}"


def _innermost(error: BaseException) -> str:
    """What the system said: requests holds urllib3's error, which has it as reason and cause."""
    inner: Any = error
    while isinstance(inner, BaseException):
        error = inner
        first = error.args[0] if error.args else None
        inner = getattr(error, "reason", None) or error.__cause__ or first
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _download(name: str) -> Path:
    source = SOURCES[name]
    repair = f"or put {name} into a folder yourself and set {DATA_FOLDER} to that folder"
    print(f"downloading {source.url} (licence: {source.licence})", file=sys.stderr)
    try:
        answer = requests.get(source.url, timeout=TIMEOUT)
        answer.raise_for_status()
    except requests.RequestException as error:
        raise DataError(
            f"{source.url} can't be fetched ({_reason(error)}): check the network, {repair}"
        ) from None
    checksum = _checksum(answer.content, source)
    if checksum != source.checksum:
        difference = f"{checksum} instead of {source.checksum}"
        raise DataError(f"{source.url} is not the expected file: {difference}; {repair}")
    path = home_folder() / name
    with atomic_write(path, "wb") as file:
        file.write(answer.content)
    return path
