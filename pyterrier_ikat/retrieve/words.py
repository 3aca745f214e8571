"""The words of a text as they are indexed and searched: PISA's tokens and stems on every platform, without PISA."""

import json
import re
import threading
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..errors import UsageError

# PISA also has Krovetz's stemmer, but loads its dictionary for each query word: 280 queries took 19 to 160 s instead of 0.2 s.
STEMMERS = ("porter2", "none")
STOPS = ("lucene", "terrier", "none")

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
    found = plain_parts(text)
    if "." in text or "'" in text:
        return [word for part in found for word in ((part,) if part.isalnum() else words_in(part))]
    return found


def plain_parts(text: str) -> list[str]:
    """The parts of a printable ASCII text, in lower case; each has letters, digits, dots and apostrophes."""
    return text.lower().translate(_BETWEEN).split()


def words_in(part: str) -> list[str]:
    """The words in a part of a text."""
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
