"""The words of a text as they are indexed and searched: PISA's tokens and stems on every platform, without PISA."""

import json
import re
import threading
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..errors import UsageError

# PISA also has Krovetz's stemmer, but loads its dictionary for each query word: 280 queries took 19
# to 160 s instead of 0.2 s.
STEMMERS = ("porter2", "none")
STOPS = ("lucene", "terrier", "none")

WORD = "word of ASCII letters and digits"

_NOT_PRINTABLE_ASCII = re.compile("[^ -~]")
_APOSTROPHES = frozenset("\u2018\u2019\u201b\u02bb\u02bc\u02be\u02bf")
"""Quotation marks, and the Hawaiian, Ukrainian and Arabic letters, that are written for an apostrophe."""
_JOINING_APOSTROPHE = re.compile(
    r"'(?<=[A-Za-z]')(?=[A-Za-z])(?!(?i:s|t|m|d|ll|re|ve)(?![A-Za-z]))"
)
"""An apostrophe inside a word (``O'Boyle``), but for the endings that PISA removes (``it's``).

The sign itself is first in the pattern: looking back at each character would take seven times as
long.
"""
_MU = "\u03bc"
_MICRO = re.compile(f"{_MU}(?<![A-Za-z]{_MU})(?=[A-Za-z])")
"""The sign for a millionth before its unit, which NFKD makes a Greek letter. ISO 2955 writes it as u. Without it µg would be g."""
_WITHOUT_WIDTH = frozenset(("Cf", "Mn"))
"""Categories: formats such as the soft hyphen and zero-width spaces, and accents on another character."""
_NAMED_LETTER = re.compile(
    r"LATIN (?:EPIGRAPHIC )?(?:(?:SMALL|CAPITAL) )*(?:LETTER|LIGATURE) (?:(?:SMALL|CAPITAL) )*"
    r"(?:(?:AFRICAN|ARCHAIC|BARRED|BOTTOM HALF|BROKEN|CLOSED|DOTLESS|HALF|INSULAR|INVERTED"
    r"|MIDDLE-WELSH|OPEN|REVERSED|SCRIPT|STRETCHED|TOP HALF|TURNED|VISIGOTHIC) )*"
    r"([A-Z]{1,2})(?: BAR| DIGRAPH| LONGA| ROTUNDA)?(?: (?:WITH|PRECEDED BY) (?!SMALL LETTER).*)?"
)
"""Unicode's name of a Latin letter that may not decompose, such as LATIN SMALL LETTER O WITH STROKE."""
_LETTER_BLOCKS = (
    (0x00C0, 0x024F),  # Latin-1 Supplement, Latin Extended-A and -B
    (0x0250, 0x02AF),  # IPA Extensions
    (0x1D00, 0x1DBF),  # Phonetic Extensions and their Supplement
    (0x1E00, 0x1EFF),  # Latin Extended Additional
    (0x2C60, 0x2C7F),  # Latin Extended-C
    (0xA720, 0xA787),  # Latin Extended-D
    (0xA7FB, 0xA7FF),
)
"""The blocks of Lucene's ASCIIFoldingFilter that have such letters. NFKD decomposes those of the other blocks."""
_LETTERS_WITH_OTHER_NAMES = (
    ("a", "\u0259\u025a\u1d95\u2094"),  # schwa
    ("A", "\u018f"),
    ("c", "\u2184\ua73e"),
    ("D", "\xd0\u1d06"),  # eth
    ("d", "\xf0"),
    ("HV", "\u01f6"),
    ("I", "\u0196"),  # iota
    ("i", "\u1d7c"),
    ("N", "\u014a"),  # eng
    ("n", "\u014b"),
    ("q", "\u0138"),  # kra
    ("R", "\u01a6"),  # yr
    ("SS", "\u1e9e"),  # sharp s
    ("ss", "\xdf"),
    ("s", "\u1e9c\u1e9d"),  # long s
    ("TH", "\xde\ua766"),  # thorn
    ("th", "\xfe\ua767"),
    ("V", "\ua768"),  # vend
    ("W", "\u01f7"),  # wynn
    ("w", "\u01bf"),
    ("Z", "\u021c"),  # yogh
    ("z", "\u021d"),
)
"""The letters of ASCIIFoldingFilter whose names don't have their ASCII letters."""
_BETWEEN = "".join(
    chr(code) if chr(code).isalnum() or chr(code) in ".'" else " " for code in range(128)
)
"""Each ASCII character maps to itself or to a space. No token extends over a space."""
_TOKEN = re.compile(r"(?:[a-z]+\.){2,}|[a-z0-9]+(?:'[a-z]+)?")
"""An abbreviation (``U.S.``), or letters and digits, perhaps with a possessive (``tea's``)."""
_MARKED = re.compile(r"\.|'[a-z]+")
"""The parts removed from a token: the dots of an abbreviation, and the ending of a possessive."""
_of_thread = threading.local()


def ascii_text(text: Any) -> str:
    r"""``text`` as it is indexed: printable ASCII. This function is applied to passages and queries alike, for every engine.

    Each character becomes, by the first rule that fits:

    - nothing, if it has no width: soft hyphens, zero-width spaces and joiners, accents;
    - a space, if it is a superscript, a fraction, a circled number or one of ™, ℠ and №. Subscripts
      are digits: H₂O is H2O;
    - ASCII letters, if it is a Latin letter: æ is ae, ø is o, ß is ss, as in Lucene's
      ASCIIFoldingFilter;
    - an apostrophe, if it is written for one;
    - the ASCII characters of its compatible decomposition (NFKD), and a space for each other
      character. So Greek has no words.

    Then the sign for micro before a unit becomes u (µg is ug), and an apostrophe between letters is
    removed (``O'Boyle``), except before the endings s, t, m, d, ll, re and ve.

    A value that isn't a string is an empty text.

    Example:
        >>> ascii_text("Café Søren; it’s\0open"), ascii_text("O'Boyle²"), ascii_text(None)
        ("Cafe Soren; it's open", 'OBoyle ', '')
    """
    if not isinstance(text, str):
        return ""
    found: str = _NOT_PRINTABLE_ASCII.sub(lambda other: _CHARACTERS[other.group()], text)
    if _MU in found:
        found = _MICRO.sub("u", found).replace(_MU, " ")
    if "'" in found:
        found = _JOINING_APOSTROPHE.sub("", found)
    return found


class _Characters(dict[str, str]):
    """The ASCII text of each character, worked out at its first use."""

    def __missing__(self, character: str) -> str:
        self[character] = found = _ascii_character(character)
        return found


_CHARACTERS = _Characters()


def _ascii_character(character: str) -> str:
    """The printable ASCII text of any other character; with the letter mu, whose meaning depends on the next one."""
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return ""
    if _separates(character):
        return " "
    if (letters := _latin_letters(character)) is not None:
        return letters
    if character in _APOSTROPHES:
        return "'"
    found = ""
    for part in unicodedata.normalize("NFKD", character):
        if unicodedata.category(part) in _WITHOUT_WIDTH:
            continue
        found += part if part == _MU or " " <= part <= "~" else " "
    return found


def _separates(character: str) -> bool:
    """Whether it is a superscript (the signs of trade and service marks are), a fraction, a circled number, or the numero sign."""
    if character == "\u2116" or unicodedata.decomposition(character).startswith(
        ("<super>", "<fraction>")
    ):
        return True
    return unicodedata.category(character) == "No" and "CIRCLED" in unicodedata.name(character, "")


def _latin_letters(character: str) -> str | None:
    """The ASCII letters of a Latin letter; None for another character, and for letters that only NFKD decomposes."""
    for letters, folded in _LETTERS_WITH_OTHER_NAMES:
        if character in folded:
            return letters
    if not any(first <= ord(character) <= last for first, last in _LETTER_BLOCKS):
        return None
    name = unicodedata.name(character, "")
    found = _NAMED_LETTER.fullmatch(name)
    if found is None:
        return None
    return found[1] if "CAPITAL" in name else found[1].lower()


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


def in_other_script(text: str) -> bool:
    """Whether a text has letters but no word, as in Chinese or Cyrillic.

    Example:
        >>> in_other_script("我能吃花生吗？"), in_other_script("花生 peanuts"), in_other_script("?!")
        (True, False, False)
    """
    return any(map(str.isalpha, text)) and not has_word(text)


def has_word(text: Any) -> bool:
    """Whether a text has a word."""
    return bool(plain_tokens(ascii_text(text)))


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
    return [
        _MARKED.sub("", token) if "." in token or "'" in token else token
        for token in _TOKEN.findall(part)
    ]


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
    lists: dict[str, str] = json.loads(
        Path(__file__).with_name("stopwords.json").read_text(encoding="utf-8")
    )
    return lists


def _stemmer() -> Any:
    """The stemmer of this thread. It caches stems, and two threads can't use it at the same time."""
    if not hasattr(_of_thread, "stemmer"):
        import Stemmer

        made = Stemmer.Stemmer("english")
        if (
            made.stemWord("university") != "univers"
        ):  # from version 3 on, the algorithm has exceptions that PISA's doesn't have
            raise UsageError(
                f"PyStemmer {Stemmer.version()} makes other stems than those in the indexes: install the previous version, "
                "pip install 'PyStemmer>=2.2,<3'"
            )
        _of_thread.stemmer = made
    return _of_thread.stemmer
