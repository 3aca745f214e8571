"""The passages of an index folder, which indexes of several kinds share: they are compared with a corpus, or stored."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..store.files import atomic_write, read_description, require_free
from .artifact import FORMAT, OURS, TEXTS
from .corpus import Corpus, CorpusReader
from .text_writer import write_texts
from .texts import TextStore

STORED = "passages.json"
"""Says that the texts in a workplace are whole, and of which passages."""


@dataclass(frozen=True)
class Stored:
    """The passages of a folder; iterates over them as a corpus.

    Attributes:
        count: how many they are.
        sha256: the checksum of their corpus.
        texts: the file of their texts.
    """

    count: int
    sha256: str
    texts: Path

    def __iter__(self) -> Iterator[dict[str, str]]:
        return ({"docno": docno, "text": text} for docno, text in TextStore(self.texts))


def shared_passages(path: str | Path, corpus: Corpus) -> Stored | None:
    """The passages of an index that another one is to be added to; None where nothing is.

    Args:
        path: the folder.
        corpus: read once, to see that these are its passages.

    Raises:
        UsageError: when anything else is there, or an index without texts or of other passages.
    """
    there = [Path(path) / name for name in OURS if (Path(path) / name).exists()]
    if not there:
        require_free(path)
        return None
    found = read_description(there[0], form=FORMAT, repair="build it anew")
    if TEXTS not in found["files"] or "sha256" not in found:
        raise UsageError(f"the index {path} has no texts, so that nothing can be added to it: give a path where nothing is")
    CorpusReader(corpus).check_same(str(path), found["count"], found["sha256"])
    return Stored(found["count"], found["sha256"], Path(path).absolute() / TEXTS)


def waits_to_be_moved(made: Path, path: str | Path, meta: str) -> bool:
    """Whether an earlier call finished the index in ``made``, which was killed while it moved it to ``path``.

    With texts of its own it can't be added to a folder that got some meanwhile.
    """
    return (made / meta).exists() and not ((made / TEXTS).exists() and (Path(path) / TEXTS).exists())


def store_passages(workplace: Path, corpus: Corpus) -> Stored:
    """Store the passages of ``corpus`` in ``workplace/index``, unless an earlier call did.

    Raises:
        UsageError: when the earlier call was given other passages.
        DataError: see :func:`write_texts`.
    """
    folder, done = workplace / "index", workplace / STORED
    if done.exists() and (folder / TEXTS).exists():
        count, sha256 = json.loads(done.read_text(encoding="utf-8"))
        CorpusReader(corpus).check_same(str(workplace), count, sha256)
        return Stored(count, sha256, folder / TEXTS)
    stored = store_anew(folder, corpus)
    with atomic_write(done) as file:
        json.dump([stored.count, stored.sha256], file)
    return stored


def store_anew(folder: Path, corpus: Corpus) -> Stored:
    """Store the passages of ``corpus`` in ``folder``, which is emptied before.

    Raises:
        DataError: see :func:`write_texts`.
    """
    shutil.rmtree(folder, ignore_errors=True)  # what a killed call left
    folder.mkdir()
    read = write_texts(folder / TEXTS, corpus)
    return Stored(read.count, read.sha256(), folder / TEXTS)
