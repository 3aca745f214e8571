"""Reading a corpus once, with checks and counts."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ..errors import DataError, UsageError
from ..events import bar

Corpus = Iterable[Mapping[str, Any]]


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
        self._items: Iterator[Mapping[str, Any]] = iter(bar(corpus, desc="reading passages", unit="passage", delay=2, gives_way=True))

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
        """Look whether there is anything to read.

        Raises:
            DataError: when there isn't.
        """
        if not self.more():
            raise DataError("the corpus has no passage: give an iterable of {'docno': ..., 'text': ...} that isn't used up")

    def sha256(self) -> str:
        """The checksum over what was read: of each passage docno, line feed, bytes of the text, line feed, text, in UTF-8."""
        return self._digest.copy().hexdigest()

    def check_same(self, where: str, count: int, sha256: str | None) -> None:
        """Read to the end, and compare the passages with those that an index was made from.

        Raises:
            UsageError: when these are other passages.
            DataError: when there is no passage.
        """
        self.refuse_empty()
        for _ in self:
            if self.count > count:
                break
        if (self.count, self.sha256()) != (count, sha256):
            raise UsageError(f"{where} holds an index of other passages, or in another order: remove it, or give a path where nothing is")

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
        DataError: when it hasn't.
    """
    if expected not in (None, count):
        raise DataError(f"the corpus has {count} passages instead of {expected}: look for a file that is missing or cut short")


def _is_unicode(docno: str) -> bool:
    return docno.isascii() or docno.encode("utf-8", "replace").decode() == docno
