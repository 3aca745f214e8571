"""The words of a text as an index has them, on every platform: PISA's tokens and stems without PISA."""

import json
import re
import threading
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..errors import UsageError

# PISA has krovetz too, but loads its dictionary per query word: 280 queries took 19 to 160 s in place of 0.2 s.
STEMMERS = ("porter2", "none")
STOPS = ("lucene", "terrier", "none")

_MARKS = re.compile("[\u0300-\u036f]")
_NOT_PRINTABLE_ASCII = re.compile("[^ -~]")
_QUOTES = str.maketrans("\u2018\u2019\u02bc", "'''")
_BETWEEN = "".join(chr(code) if chr(code).isalnum() or chr(code) in ".'" else " " for code in range(128))
"""Each ASCII character, or the space that it stands for: no token goes beyond one."""
_TOKEN = re.compile(r"(?:[a-z]+\.){2,}|[a-z0-9]+(?:'[a-z]+)?")
"""An abbreviation (``U.S.``), or letters and digits, perhaps with a possessive (``tea's``)."""
_MARKED = re.compile(r"\.|'[a-z]+")
"""What is removed from a token: the dots of an abbreviation, and the end of a possessive."""
_of_thread = threading.local()


def ascii_text(text: Any) -> str:
    r"""``text`` as it is indexed: printable ASCII, accents removed, curly apostrophes straightened, anything else a space.

    Words end at every character that isn't an ASCII letter or digit, and PISA fails on some. Passages and queries go through this
    alike, so that ``café`` finds ``cafe`` and a curly ``it’s`` is the word ``it's``. A value that isn't a string is an empty text.

    Example:
        >>> ascii_text("Caf\u00e9 \u2014 it\u2019s\0open"), ascii_text(None)
        ("Cafe   it's open", '')
    """
    if not isinstance(text, str):
        return ""
    return _NOT_PRINTABLE_ASCII.sub(lambda found: _ascii_character(found.group()), text)


@lru_cache(maxsize=65536)  # normalising whole texts was most of the time of indexing
def _ascii_character(character: str) -> str:
    return _NOT_PRINTABLE_ASCII.sub(" ", _MARKS.sub("", unicodedata.normalize("NFKD", character.translate(_QUOTES))))


def tokenize(text: Any, stemmer: str) -> list[str]:
    """The terms of a text, in their order: those that PISA's English tokenizer and its stemmer make of :func:`ascii_text`.

    Args:
        text: any text; a value that isn't a string has no terms.
        stemmer: ``"porter2"`` or ``"none"``.

    Raises:
        UsageError: when the stemmer that is installed makes other stems.

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
    """The words of letters, digits, dots and apostrophes without a space."""
    return [_MARKED.sub("", token) if "." in token or "'" in token else token for token in _TOKEN.findall(part)]


def stem(words: list[str], stemmer: str) -> list[str]:
    """The terms of lower-case words."""
    return words if stemmer == "none" else list(map(_stem_one, words))


@lru_cache(maxsize=65536)  # takes half the time of PyStemmer's own memory
def _stem_one(word: str) -> str:
    return str(_stemmer().stemWord(word))


@lru_cache
def stop_terms(stops: str, stemmer: str) -> frozenset[str]:
    """The stop words as terms, as PISA compares them after stemming; ``stopwords.json`` has Lucene's and Terrier's, which PISA uses."""
    return frozenset(tokenize(_stop_lists().get(stops, ""), stemmer))


@cache
def _stop_lists() -> dict[str, str]:
    lists: dict[str, str] = json.loads(Path(__file__).with_name("stopwords.json").read_text(encoding="utf-8"))
    return lists


def _stemmer() -> Any:
    """The stemmer of this thread: it keeps what it has stemmed, and isn't safe in two threads at once."""
    if not hasattr(_of_thread, "stemmer"):
        import Stemmer

        made = Stemmer.Stemmer("english")
        if made.stemWord("university") != "univers":  # from version 3 on, the algorithm has exceptions that PISA's lacks
            raise UsageError(
                f"PyStemmer {Stemmer.version()} makes other stems than the indexes have: install the version before, "
                "pip install 'PyStemmer>=2.2,<3'"
            )
        _of_thread.stemmer = made
    return _of_thread.stemmer
