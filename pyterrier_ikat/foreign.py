"""Stages of other packages: the files that their results depend on, and what can't be told of them.

A stage of another package doesn't say what it was made of. So its attributes are searched for
artifacts of PyTerrier and for paths, in its objects, lists and dicts too. Files count by their
names, sizes and contents; of a large file only parts are read.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatch
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import pyterrier as pt

SMALL = 1 << 20
"""Up to this size the whole file is read; of a larger one ``SAMPLE`` bytes at its beginning, middle and end."""
SAMPLE = 1 << 16
MOST_FILES = 10_000
"""A folder with more files is no index: it can't be told whether it changed."""
DEPTH = 3
"""How many objects deep a stage is searched: a retriever, its searcher, the searcher's index."""

CACHES = ("pyterrier_caching",)
"""Packages whose folders don't decide on results: a cache writes into its own (seanmacavaney/pyterrier-caching, scorer_cache.py and
retriever_cache.py). The stage inside a cache counts."""
BUILT_FROM = {
    # pyterrier_pisa 0.4.9: prepare_index writes bm25.k1-0.9.b-0.4.q0.bmw.64 and .block_simdbp at
    # the first use of a scorer
    "pyterrier_pisa.PisaIndex": ("pt_*.json", "fwd*", "inv*"),
    # pyterrier_dr 0.8.1, flex/core.py: the files of the indexer; faiss_retr.py, corpus_graph.py and
    # others build theirs at first use
    "pyterrier_dr.FlexIndex": ("pt_meta.json", "vecs.f4", "docnos.npids"),
}
"""Index -> the files that all its others are built from, at any time."""
PASSING = ("*.lock", "*.tmp", ".*")
"""Files and folders that come and go: Lucene's write.lock, temporary and hidden ones."""

_NAMES_PATH = re.compile(r"(^|_)(path|dir|directory|folder|file|filename|index|location|root)s?$")
_WRITTEN = re.compile(r"(^|_)(caches?|logs?|tmp|temp|out|output)(_|$)")
"""Attributes that name what a stage writes."""
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    Path,
    Enum,
    type,
    range,
    re.Pattern,
    ModuleType,
    FunctionType,
    MethodType,
)


@dataclass(frozen=True)
class HeldFiles:
    """A file or folder that an object names.

    Attributes:
        path: where it is.
        kind: the class of the object, with its package.
        artifact: whether the object is an artifact of PyTerrier, such as an index. Any other may
            also write there.
    """

    path: str
    kind: str = ""
    artifact: bool = False

    def files(self) -> list[Path]:
        """The files that count, in order; of a folder with too many, one more than ``MOST_FILES``."""
        root = Path(self.path)
        if not root.is_dir():
            return [root] if root.is_file() else []
        counted = BUILT_FROM.get(self.kind, ("*",))
        found = []
        for path in _walk(root):
            name = path.relative_to(root)
            if any(fnmatch(part, pattern) for part in name.parts for pattern in PASSING):
                continue
            if any(fnmatch(name.as_posix(), pattern) for pattern in counted) and path.is_file():
                found.append(path)
            if len(found) > MOST_FILES:
                break
        return sorted(found)

    @property
    def told(self) -> bool:
        """Whether a change of the files can be told."""
        return 0 < len(self.files()) <= MOST_FILES

    def fingerprint(self) -> str:
        """A checksum of the names, sizes and contents of the files; empty if a change can't be told."""
        found = hashlib.blake2b(digest_size=16)
        files = self.files()
        if not 0 < len(files) <= MOST_FILES:
            return ""
        for path in files:
            size = path.stat().st_size
            name = os.path.relpath(path, self.path)
            found.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
            found.update(_content(path, size))
        return found.hexdigest()


def files_below(folder: Path) -> list[Path]:
    """All files of a folder and its subfolders, also of those that are links."""
    return sorted(_walk(folder))


def _walk(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder, followlinks=True):
        for name in names:
            yield Path(place, name)


def _content(path: Path, size: int) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        if size <= SMALL:
            found.update(file.read())
        else:
            for start in (0, (size - SAMPLE) // 2, size - SAMPLE):
                file.seek(start)
                found.update(file.read(SAMPLE))
    return found.digest()


def named_file(text: str | Path) -> HeldFiles | None:
    """The file that an argument names; None for any other text.

    A word without a separator or an ending is not taken for the file that happens to have its name.
    """
    name = os.fspath(text)
    is_path = isinstance(text, Path) or os.sep in name or Path(name).suffix != ""
    return HeldFiles(name) if is_path and os.path.isfile(name) else None


def held_by(owner: Any) -> list[Any]:
    """What an object of another package holds: files, stages, and whatever has a ``fingerprint()``.

    A path inside an artifact, such as the one that a retriever remembers beside its index, stands
    for the artifact.
    """
    found = list(_held_by(owner, DEPTH, {}))
    artifacts = [
        os.path.realpath(one.path) for one in found if isinstance(one, HeldFiles) and one.artifact
    ]
    kept = []
    for one in found:
        if isinstance(one, HeldFiles) and not one.artifact:
            place = os.path.realpath(one.path)
            if any(place == root or place.startswith(root + os.sep) for root in artifacts):
                continue
        kept.append(one)
    return kept


def untold(stage: pt.Transformer) -> bool:
    """Whether a stage of another package holds something whose change can't be told.

    That is an artifact without files or a folder with too many; or, in a retriever, the address of
    a server, or an object that names no file at all.
    """
    found = held_by(stage)
    files = [one for one in found if isinstance(one, HeldFiles)]
    if any(not one.told for one in files):
        return True
    held = _attributes(stage).values()
    is_opaque = not all(map(_is_plain, held)) or any(map(_names_server, held))
    return is_opaque and not found and _retrieves(stage)


def _retrieves(stage: pt.Transformer) -> bool:
    return "docno" in (pt.inspect.transformer_outputs(stage, ["qid", "query"], strict=False) or ())


def _held_by(owner: Any, depth: int, seen: dict[int, Any]) -> Iterator[Any]:
    if id(owner) in seen:
        return
    seen[id(owner)] = owner
    if _package(owner) in CACHES:
        yield from (one for one in _attributes(owner).values() if isinstance(one, pt.Transformer))
        return
    if isinstance(owner, pt.Artifact):
        kind = f"{_package(owner)}.{type(owner).__name__}"
        path = getattr(owner, "path", None) or getattr(owner, "index_path", None)
        yield HeldFiles(str(path), kind, artifact=True)
        return
    for name, value in _attributes(owner).items():
        yield from _in_value(name, value, depth, seen)


def _in_value(name: str, value: Any, depth: int, seen: dict[int, Any]) -> Iterator[Any]:
    """What the value of an attribute holds, or an entry of its list or dict."""
    if callable(getattr(value, "fingerprint", None)):
        yield value
    elif isinstance(value, str | Path):
        if _is_path(name, value):
            yield HeldFiles(os.fspath(value))
    elif isinstance(value, pt.Transformer) and not isinstance(value, pt.Artifact):
        yield value
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _in_value(name, one, depth, seen)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _in_value(str(key), one, depth, seen)
    elif not _is_plain(value) and depth:
        yield from _held_by(value, depth - 1, seen)


def _is_path(name: str, value: str | Path) -> bool:
    """Whether an attribute names a file or folder that is there, and that it doesn't only write to."""
    if _WRITTEN.search(name.casefold()) or not os.path.exists(value):
        return False
    return isinstance(value, Path) or os.sep in value or bool(_NAMES_PATH.search(name.casefold()))


def _is_plain(value: Any) -> bool:
    """Whether a value has nothing inside that a repr doesn't show."""
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    return value is None or isinstance(value, _PLAIN)


def _names_server(value: Any) -> bool:
    """Whether a value is or holds the address of a server, whose index may change at any time."""
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_names_server, value))
    if isinstance(value, Mapping):
        return any(map(_names_server, value.values()))
    return isinstance(value, str) and "://" in value


def _attributes(owner: Any) -> dict[str, Any]:
    found = dict(getattr(owner, "__dict__", {}))
    for cls in type(owner).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(owner, name):
                found[name] = getattr(owner, name)
    return found


def _package(owner: Any) -> str:
    return type(owner).__module__.partition(".")[0]
