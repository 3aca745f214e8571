"""The passages of an index: a corpus is read once, checked, counted and stored, or the passages come from an index in the folder."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError
from ..progress import bar
from ..store.files import atomic_write, read_description, require_free
from .artifact import FORMAT, OURS, TEXTS
from .text_writer import TextWriter
from .texts import TextStore

Corpus = Iterable[Mapping[str, Any]]
STORED = "passages.json"
"""A file saying that the texts in a workplace are complete, and of which passages they are."""
PER_COMMIT = 500_000


class CorpusReader:
    """Iterates over the (docno, text) of a corpus.

    Args:
        corpus: dicts with ``docno`` (a string without white space) and ``text``. Its method ``where(number)``, if present, gives the origin
            of a passage.

    Raises:
        DataError: while iterating, at a passage without a usable docno or text.

    Example:
        >>> reading = CorpusReader([{"docno": "d1", "text": "Rooibos"}])
        >>> next(reading), reading.count, reading.sha256()[:8]
        (('d1', 'Rooibos'), 1, '1af157a1')
    """

    def __init__(self, corpus: Corpus) -> None:
        if isinstance(corpus, str | Mapping) or hasattr(corpus, "columns") or not isinstance(corpus, Iterable):
            raise UsageError(
                f"the corpus is a {type(corpus).__name__}: give dicts with docno and text, such as frame.to_dict('records') "
                "of a frame, or ikat.PassageFiles(folder)"
            )
        self.corpus = corpus
        self.count = 0
        self._digest = hashlib.sha256()
        self._ahead: list[Mapping[str, Any]] = []
        self._items: Iterator[Mapping[str, Any]] = iter(bar(corpus, desc="reading passages", unit="passage", gives_way=True))

    def __iter__(self) -> "CorpusReader":
        return self

    def __next__(self) -> tuple[str, str]:
        docno, text = self._checked(self._ahead.pop() if self._ahead else next(self._items))
        self.count += 1
        content = text.encode("utf-8", "surrogatepass")
        self._digest.update(f"{docno}\n{len(content)}\n".encode() + content)  # the length says where the next passage begins
        return docno, text

    def more(self) -> bool:
        """Whether there is another passage."""
        self._ahead = self._ahead or list(islice(self._items, 1))
        return bool(self._ahead)

    def refuse_empty(self) -> None:
        """Check that there is a passage to read.

        Raises:
            DataError: when there is none.
        """
        if not self.more():
            raise DataError("the corpus has no passage: give an iterable of {'docno': ..., 'text': ...} that isn't used up")

    def sha256(self) -> str:
        """The checksum of the passages read: for each one docno, line feed, number of bytes of the text, line feed, text, in UTF-8."""
        return self._digest.copy().hexdigest()

    def check_same(self, where: str, count: int, sha256: str | None) -> None:
        """Read to the end, and compare the passages with those of an existing index.

        Raises:
            UsageError: when the passages differ.
            DataError: when there is no passage.
        """
        self.refuse_empty()
        for _ in self:
            if self.count > count:
                break
        if (self.count, self.sha256()) != (count, sha256):
            raise UsageError(f"{where} holds an index of other passages, or in another order: remove it, or give a new path")

    def name(self, number: int) -> str:
        """What to call the passage with this number (from 1) in an error."""
        where = getattr(self.corpus, "where", None)
        return f"passage {number} of the corpus" + (f" ({where(number)})" if where else "")

    def _checked(self, item: Mapping[str, Any]) -> tuple[str, str]:
        if not isinstance(item, Mapping):
            raise DataError(f"{self.name(self.count + 1)} is a {type(item).__name__}: give a dict with docno and text")
        docno, text = item.get("docno"), item.get("text", "")
        if not isinstance(docno, str) or docno.split() != [docno] or "\0" in docno or not _is_unicode(docno):
            raise DataError(f"{self.name(self.count + 1)} has the docno {docno!r}: give a string without white space")
        if "text" not in item or not isinstance(text, str | None):
            raise DataError(f"{self.name(self.count + 1)} ({docno}) has no text, only {sorted(item)}: give a string under 'text'")
        return docno, text or ""


def check_expected(count: int, expected: int | None) -> None:
    """Check that a corpus has the expected number of passages, if there is one.

    Raises:
        DataError: when the number differs.
    """
    if expected not in (None, count):
        raise DataError(f"the corpus has {count} passages instead of {expected}: look for a file that is missing or cut short")


def _is_unicode(docno: str) -> bool:
    return docno.isascii() or docno.encode("utf-8", "replace").decode() == docno


# Stored, or shared with an index of another kind in the same folder


@dataclass(frozen=True)
class Stored:
    """The passages of a folder; iterates over them as a corpus.

    Attributes:
        count: the number of passages.
        sha256: the checksum of their corpus.
        texts: the file of their texts.
    """

    count: int
    sha256: str
    texts: Path

    def __iter__(self) -> Iterator[dict[str, str]]:
        return ({"docno": docno, "text": text} for docno, text in TextStore(self.texts))


def shared_passages(path: str | Path, corpus: Corpus) -> Stored | None:
    """The passages of the index to which another one is added; None if there is nothing at the path.

    Args:
        path: the folder.
        corpus: read once, to check that its passages are the same.

    Raises:
        UsageError: when anything else is at the path, or an index without texts or of other passages.
    """
    there = [Path(path) / name for name in OURS if (Path(path) / name).exists()]
    if not there:
        require_free(path)
        return None
    found = read_description(there[0], form=FORMAT, repair="rebuild it")
    if TEXTS not in found["files"] or "sha256" not in found:
        raise UsageError(f"the index {path} has no texts, so nothing can be added to it: give a new path")
    CorpusReader(corpus).check_same(str(path), found["count"], found["sha256"])
    return Stored(found["count"], found["sha256"], Path(path).absolute() / TEXTS)


def waits_to_be_moved(made: Path, path: str | Path, meta: str) -> bool:
    """Whether an earlier call finished the index in ``made`` and was killed while it moved the index to ``path``.

    An index with its own texts can't be added to a folder that has got texts meanwhile.
    """
    return (made / meta).exists() and not ((made / TEXTS).exists() and (Path(path) / TEXTS).exists())


def store_passages(workplace: Path, corpus: Corpus) -> Stored:
    """Store the passages of ``corpus`` in ``workplace/index``, unless an earlier call did so.

    Raises:
        UsageError: when the earlier call had other passages.
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
    """Store the passages of ``corpus`` in ``folder``, which is emptied first.

    Raises:
        DataError: see :func:`write_texts`.
    """
    shutil.rmtree(folder, ignore_errors=True)  # what a killed call left
    folder.mkdir()
    read = write_texts(folder / TEXTS, corpus)
    return Stored(read.count, read.sha256(), folder / TEXTS)


def write_texts(path: Path, corpus: Corpus) -> CorpusReader:
    """Store the passages of ``corpus`` in a new file.

    Args:
        path: the file to create. It is complete only when this function returns, so write to a temporary place.
        corpus: dicts with ``docno`` and ``text``; a text of ``None`` is stored as empty.

    Returns:
        The corpus after reading, with its count and checksum.

    Raises:
        DataError: when a passage has no usable docno or text, a docno occurs twice, or there is no passage.
    """
    reading = CorpusReader(corpus)
    reading.refuse_empty()
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".texts.") as notes, TextWriter(path, Path(notes)) as writer:
        while reading.more():
            for _ in writer.store(islice(reading, PER_COMMIT), reading.name, 1):
                pass
            writer.commit(reading.sha256())
        writer.finish()
    return reading
