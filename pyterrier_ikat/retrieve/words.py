"""The words of a text as they are indexed, and the passages of each word: PISA's tokens, stems and lists on every platform, without PISA.

A folder of lists has PISA's format, so a shard may be inverted by PISA or by this module. ``fwd.terms`` and ``fwd.documents`` have a name
per line, with terms in the order of their bytes. ``inv.docs``, ``inv.freqs`` and ``inv.sizes`` have lists of 32-bit numbers, each after
its length. ``inv.docs`` begins with a list that has only the number of passages.
"""

import json
import re
import threading
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import UsageError

# PISA also has Krovetz's stemmer, but loads its dictionary for each query word: 280 queries took 19 to 160 s instead of 0.2 s.
STEMMERS = ("porter2", "none")
STOPS = ("lucene", "terrier", "none")

AT_ONCE = 10_000
"""Passages that are sorted at a time, because a term counts once per passage."""
PISA_META = {"type": "sparse_index", "format": "pisa", "package_hint": "pyterrier-pisa"}
Numbers = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]

_MARKS = re.compile("[\u0300-\u036f]")
_NOT_PRINTABLE_ASCII = re.compile("[^ -~]")
_QUOTES = str.maketrans("\u2018\u2019\u02bc", "'''")
_BETWEEN = "".join(chr(code) if chr(code).isalnum() or chr(code) in ".'" else " " for code in range(128))
"""Each ASCII character maps to itself or to a space. No token extends over a space."""
_TOKEN = re.compile(r"(?:[a-z]+\.){2,}|[a-z0-9]+(?:'[a-z]+)?")
"""An abbreviation (``U.S.``), or letters and digits, perhaps with a possessive (``tea's``)."""
_MARKED = re.compile(r"\.|'[a-z]+")
"""The parts removed from a token: the dots of an abbreviation, and the ending of a possessive."""
_of_thread = threading.local()


def ascii_text(text: Any) -> str:
    r"""``text`` as it is indexed: printable ASCII, without accents, with straight apostrophes, and a space for any other character.

    Words end at every character that isn't an ASCII letter or digit, and PISA fails on some characters. This function is applied to
    passages and queries alike, so ``café`` finds ``cafe``, and a curly ``it’s`` is the word ``it's``. A value that isn't a string is an
    empty text.

    Example:
        >>> ascii_text("Caf\u00e9 \u2014 it\u2019s\0open"), ascii_text(None)
        ("Cafe   it's open", '')
    """
    if not isinstance(text, str):
        return ""
    return _NOT_PRINTABLE_ASCII.sub(lambda found: _ascii_character(found.group()), text)


@lru_cache(maxsize=65536)  # normalising whole texts took most of the indexing time
def _ascii_character(character: str) -> str:
    return _NOT_PRINTABLE_ASCII.sub(" ", _MARKS.sub("", unicodedata.normalize("NFKD", character.translate(_QUOTES))))


def tokenize(text: Any, stemmer: str) -> list[str]:
    """The terms of a text, in their order, as PISA's English tokenizer and stemmer make them of :func:`ascii_text`.

    Args:
        text: any text. A value that isn't a string has no terms.
        stemmer: ``"porter2"`` or ``"none"``.

    Raises:
        UsageError: when the installed stemmer produces other stems.

    Example:
        >>> tokenize("The U.S. university's trams", "porter2"), tokenize("trams", "none")
        (['the', 'us', 'univers', 'tram'], ['trams'])
    """
    return stem(plain_tokens(ascii_text(text)), stemmer)


def plain_tokens(text: str) -> list[str]:
    """The words of a printable ASCII text, in lower case."""
    found = text.lower().translate(_BETWEEN).split()
    if "." in text or "'" in text:
        return [word for part in found for word in ((part,) if part.isalnum() else _marked_tokens(part))]
    return found


def _marked_tokens(part: str) -> list[str]:
    """The words in a string of letters, digits, dots and apostrophes without a space."""
    return [_MARKED.sub("", token) if "." in token or "'" in token else token for token in _TOKEN.findall(part)]


def stem(words: list[str], stemmer: str) -> list[str]:
    """The terms of lower-case words."""
    return words if stemmer == "none" else list(map(_stem_one, words))


@lru_cache(maxsize=65536)  # takes half the time of PyStemmer's own cache
def _stem_one(word: str) -> str:
    return str(_stemmer().stemWord(word))


@lru_cache
def stop_terms(stops: str, stemmer: str) -> frozenset[str]:
    """The stemmed stop words, because PISA compares after stemming. ``stopwords.json`` has Lucene's and Terrier's, which PISA uses."""
    return frozenset(tokenize(_stop_lists().get(stops, ""), stemmer))


@cache
def _stop_lists() -> dict[str, str]:
    lists: dict[str, str] = json.loads(Path(__file__).with_name("stopwords.json").read_text(encoding="utf-8"))
    return lists


def _stemmer() -> Any:
    """The stemmer of this thread. It caches stems, and two threads can't use it at the same time."""
    if not hasattr(_of_thread, "stemmer"):
        import Stemmer

        made = Stemmer.Stemmer("english")
        if made.stemWord("university") != "univers":  # from version 3 on, the algorithm has exceptions that PISA's doesn't have
            raise UsageError(
                f"PyStemmer {Stemmer.version()} makes other stems than those in the indexes: install the previous version, "
                "pip install 'PyStemmer>=2.2,<3'"
            )
        _of_thread.stemmer = made
    return _of_thread.stemmer


# Inverting: from texts to the passages of each term, in memory


class Lists(NamedTuple):
    """The passages of each term.

    Attributes:
        docnos: the docnos of the passages, by number.
        lengths: the number of words in each passage.
        terms: the terms, in the order of their bytes.
        starts: where each term's part of ``docs`` and ``counts`` begins, and where the last part ends.
        docs: the numbers of a term's passages, ascending.
        counts: how often the term occurs in each of them.
    """

    docnos: list[str]
    lengths: Numbers
    terms: list[str]
    starts: Places
    docs: Numbers
    counts: Numbers


def invert(passages: Iterable[tuple[str, str]], stemmer: str) -> Lists:
    """The lists of all passages.

    Args:
        passages: (docno, text) pairs, with texts from :func:`ascii_text`.
        stemmer: ``"porter2"`` or ``"none"``.

    Example:
        >>> found = invert([("a", "green tea"), ("b", "tea with tea")], "none")
        >>> found.terms, found.starts.tolist(), found.docs.tolist(), found.counts.tolist()
        (['green', 'tea', 'with'], [0, 1, 3, 4], [0, 0, 1, 1], [1, 1, 2, 1])
    """
    numbers = _Numbers(stemmer)
    docnos: list[str] = []
    lengths, tokens = array("I"), array("I")
    batches: list[tuple[Numbers, Numbers, Numbers]] = []
    done = 0
    for docno, text in passages:
        words = plain_tokens(text)
        docnos.append(docno)
        lengths.append(len(words))
        tokens.extend(map(numbers.__getitem__, words))
        if len(docnos) - done == AT_ONCE:
            batches.append(_counted(tokens, lengths, done))
            tokens, done = array("I"), len(docnos)
    batches.append(_counted(tokens, lengths, done))
    return Lists(docnos, np.array(lengths, dtype=np.uint32), *_joined(batches, list(numbers.terms)))


class _Numbers(dict[str, int]):
    """The number of each word's term, assigned at its first use."""

    def __init__(self, stemmer: str) -> None:
        super().__init__()
        self.stemmer = stemmer
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        (term,) = stem([word], self.stemmer)
        self[word] = number = self.terms.setdefault(term, len(self.terms))
        return number


def _counted(tokens: "array[int]", lengths: "array[int]", first: int) -> tuple[Numbers, Numbers, Numbers]:
    """The terms, passages and counts of the passages from ``first`` on, sorted by term and passage."""
    sizes = np.array(lengths[first:], dtype=np.int64)
    pairs = np.frombuffer(tokens, dtype=np.uint32).astype(np.uint64) << np.uint64(32) if tokens else np.empty(0, np.uint64)
    pairs |= np.repeat(np.arange(first, first + len(sizes), dtype=np.uint64), sizes)
    distinct, counts = np.unique(pairs, return_counts=True)
    return (distinct >> np.uint64(32)).astype(np.uint32), (distinct & np.uint64(0xFFFFFFFF)).astype(np.uint32), counts.astype(np.uint32)


def _joined(batches: Sequence[tuple[Numbers, Numbers, Numbers]], terms: list[str]) -> tuple[list[str], Places, Numbers, Numbers]:
    """The terms in the order of their bytes, each with its part of every batch."""
    order = sorted(range(len(terms)), key=lambda number: terms[number].encode())
    place = np.empty(len(terms), dtype=np.int64)
    place[order] = np.arange(len(terms))
    sizes = np.zeros(len(terms), dtype=np.int64)
    for numbers, _, _ in batches:
        sizes += np.bincount(place[numbers], minlength=len(terms))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    docs, counts = np.empty(starts[-1], dtype=np.uint32), np.empty(starts[-1], dtype=np.uint32)
    free = starts[:-1].copy()
    for numbers, of_batch, times in batches:
        found, first, many = np.unique(numbers, return_index=True, return_counts=True)
        at = np.arange(len(numbers)) + np.repeat(free[place[found]] - first, many)
        docs[at], counts[at] = of_batch, times
        free[place[found]] += many
    return [terms[number] for number in order], starts, docs, counts


# On disk


def build_lists(
    folder: Path, passages: Iterable[tuple[str, str]], *, stemmer: str, threads: int, k1: float, b: float, whole: Callable[[], bool]
) -> int:
    """Invert passages into the new folder ``folder``, and return their number. The arguments are those of :func:`pisa.build_text`."""
    write_lists(folder, invert(passages, stemmer), stemmer)
    return int(np.fromfile(folder / "inv.sizes", "<u4", 1)[0])


def write_lists(folder: Path, lists: Lists, stemmer: str) -> None:
    """Write lists into a new folder, in PISA's format."""
    folder.mkdir()
    heads = np.diff(lists.starts)
    for name, numbers, first in (("inv.docs", lists.docs, [1, len(lists.docnos)]), ("inv.freqs", lists.counts, [])):
        with (folder / name).open("wb") as file:
            file.write(np.array(first, dtype="<u4").tobytes())
            file.write(np.insert(numbers, lists.starts[:-1], heads.astype(np.uint32)).astype("<u4", copy=False).data)
    (folder / "inv.sizes").write_bytes(np.concatenate([[len(lists.docnos)], lists.lengths]).astype("<u4").tobytes())
    for name, lines in (("fwd.terms", lists.terms), ("fwd.documents", lists.docnos)):
        (folder / name).write_bytes("".join(f"{line}\n" for line in lines).encode())
    (folder / "pt_meta.json").write_text(json.dumps({**PISA_META, "stemmer": stemmer}), encoding="utf-8")


def list_places(folder: Path) -> Places:
    """The positions in ``inv.docs`` at which the lists of the terms begin, after their lengths, and the end of the file."""
    docs = np.memmap(folder / "inv.docs", dtype="<u4", mode="r")
    place, places = 2, array("q")
    while place < len(docs):
        places.append(place + 1)
        place += 1 + int(docs[place])
    places.append(place + 1)
    return np.array(places, dtype=np.int64)
