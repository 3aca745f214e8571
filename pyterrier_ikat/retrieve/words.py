"""The words of a text in indexes and queries.

They are PISA's tokens and stems on every platform, without PISA.
"""

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
"""Quotation marks, and Hawaiian, Ukrainian and Arabic letters, that stand for an apostrophe."""
_JOINING_APOSTROPHE = re.compile(
    r"'(?<=[A-Za-z]')(?=[A-Za-z])(?!(?i:s|t|m|d|ll|re|ve)(?![A-Za-z]))"
)
"""An apostrophe inside a word (``O'Boyle``), but for the endings that PISA removes (``it's``).

The sign itself is first in the pattern: looking back at each character would take seven times as
long.
"""
_MU = "\u03bc"
_MICRO = re.compile(f"{_MU}(?<![A-Za-z]{_MU})(?=[A-Za-z])")
"""The sign for a millionth before its unit, which NFKD makes a Greek letter.

ISO 2955 writes it as u. Without this rule µg would be g.
"""
_WITHOUT_WIDTH = frozenset(("Cf", "Mn"))
"""Categories: formats (the soft hyphen, zero-width spaces), and accents on another character."""
_NAMED_LETTER = re.compile(
    r"LATIN (?:EPIGRAPHIC )?(?:(?:SMALL|CAPITAL) )*(?:LETTER|LIGATURE) (?:(?:SMALL|CAPITAL) )*"
    r"(?:(?:AFRICAN|ARCHAIC|BARRED|BOTTOM HALF|BROKEN|CLOSED|DOTLESS|HALF|INSULAR|INVERTED"
    r"|MIDDLE-WELSH|OPEN|REVERSED|SCRIPT|STRETCHED|TOP HALF|TURNED|VISIGOTHIC) )*"
    r"([A-Z]{1,2})(?: BAR| DIGRAPH| LONGA| ROTUNDA)?(?: (?:WITH|PRECEDED BY) (?!SMALL LETTER).*)?"
)
"""Unicode's name of a Latin letter, such as LATIN SMALL LETTER O WITH STROKE."""
_LETTER_BLOCKS = (
    (0x00C0, 0x024F),  # Latin-1 Supplement, Latin Extended-A and -B
    (0x0250, 0x02AF),  # IPA Extensions
    (0x1D00, 0x1DBF),  # Phonetic Extensions and their Supplement
    (0x1E00, 0x1EFF),  # Latin Extended Additional
    (0x2C60, 0x2C7F),  # Latin Extended-C
    (0xA720, 0xA787),  # Latin Extended-D
    (0xA7FB, 0xA7FF),
)
"""The blocks of Lucene's ASCIIFoldingFilter with letters that NFKD doesn't decompose."""
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


def _in_tokens(character: str) -> bool:
    return character.isalnum() or character in ".'"


_SEPARATORS = {code: " " for code in range(128) if not _in_tokens(chr(code))}
"""ASCII characters that no token has -> a space."""
_TOKEN = re.compile(r"(?:[a-z]+\.){2,}|[a-z0-9]+(?:'[a-z]+)?")
"""An abbreviation (``U.S.``), or letters and digits, perhaps with a possessive (``tea's``)."""
_MARKED = re.compile(r"\.|'[a-z]+")
"""The parts removed from a token: the dots of an abbreviation, and the ending of a possessive."""
_of_thread = threading.local()


def ascii_text(text: Any) -> str:
    r"""Return a text in printable ASCII, for passages and queries of every engine.

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
    ascii_only: str = _NOT_PRINTABLE_ASCII.sub(lambda match: _CHARACTERS[match.group()], text)
    if _MU in ascii_only:
        ascii_only = _MICRO.sub("u", ascii_only).replace(_MU, " ")
    if "'" in ascii_only:
        ascii_only = _JOINING_APOSTROPHE.sub("", ascii_only)
    return ascii_only


class _Characters(dict[str, str]):
    """The ASCII text of each character, worked out at its first use."""

    def __missing__(self, character: str) -> str:
        text = _ascii_character(character)
        self[character] = text
        return text


_CHARACTERS = _Characters()


def _ascii_character(character: str) -> str:
    """Return the printable ASCII text of another character.

    The letter mu stays, because its meaning depends on the next character.
    """
    if unicodedata.category(character) in _WITHOUT_WIDTH:
        return ""
    if _separates(character):
        return " "
    letters = _latin_letters(character)
    if letters is not None:
        return letters
    if character in _APOSTROPHES:
        return "'"
    text = ""
    for part in unicodedata.normalize("NFKD", character):
        if unicodedata.category(part) in _WITHOUT_WIDTH:
            continue
        text += part if part == _MU or " " <= part <= "~" else " "
    return text


def _separates(character: str) -> bool:
    """Tell whether a character becomes a space.

    It is a superscript (as are the signs of trade and service marks), a fraction, a circled number,
    or the numero sign.
    """
    if character == "\u2116":
        return True
    if unicodedata.decomposition(character).startswith(("<super>", "<fraction>")):
        return True
    is_number = unicodedata.category(character) == "No"
    return is_number and "CIRCLED" in unicodedata.name(character, "")


def _latin_letters(character: str) -> str | None:
    """Return the ASCII letters of a Latin letter.

    None for another character, and for letters that only NFKD decomposes.
    """
    for letters, folded in _LETTERS_WITH_OTHER_NAMES:
        if character in folded:
            return letters
    if not any(first <= ord(character) <= last for first, last in _LETTER_BLOCKS):
        return None
    name = unicodedata.name(character, "")
    letter_name = _NAMED_LETTER.fullmatch(name)
    if letter_name is None:
        return None
    return letter_name[1] if "CAPITAL" in name else letter_name[1].lower()


def tokenize(text: Any, stemmer: str) -> list[str]:
    """Return the terms of a text, in their order.

    PISA's English tokenizer and stemmer make the same terms of :func:`ascii_text`.

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
    """Tell whether a text has letters but no word, as in Chinese or Cyrillic.

    Example:
        >>> in_other_script("我能吃花生吗？"), in_other_script("?!")
        (True, False)
        >>> in_other_script("花生 peanuts")
        False
    """
    return any(map(str.isalpha, text)) and not has_word(text)


def has_word(text: Any) -> bool:
    """Tell whether a text has a word."""
    return bool(plain_tokens(ascii_text(text)))


def plain_tokens(text: str) -> list[str]:
    """Return the words of a printable ASCII text, in lower case."""
    parts = plain_parts(text)
    if "." not in text and "'" not in text:
        return parts
    words = []
    for part in parts:
        if part.isalnum():
            words.append(part)
        else:
            words += words_in(part)
    return words


def plain_parts(text: str) -> list[str]:
    """Return the parts of a printable ASCII text, in lower case.

    A part consists of letters, digits, dots and apostrophes.
    """
    return text.lower().translate(_SEPARATORS).split()


def words_in(part: str) -> list[str]:
    """Return the words in a part of a text."""
    return [_MARKED.sub("", token) for token in _TOKEN.findall(part)]


def stem(words: list[str], stemmer: str) -> list[str]:
    """Return the terms of lower-case words."""
    if stemmer == "none":
        return words
    return list(map(_stem_word, words))


@lru_cache(maxsize=65536)  # takes half the time of PyStemmer's own cache
def _stem_word(word: str) -> str:
    return str(_stemmer().stemWord(word))


@lru_cache
def stop_terms(stops: str, stemmer: str) -> frozenset[str]:
    """Return the stemmed stop words, because PISA compares after stemming.

    ``stopwords.json`` has Lucene's words, and Terrier's, which PISA uses.
    """
    return frozenset(tokenize(_stop_lists().get(stops, ""), stemmer))


@cache
def _stop_lists() -> dict[str, str]:
    lists: dict[str, str] = json.loads(
        Path(__file__).with_name("stopwords.json").read_text(encoding="utf-8")
    )
    return lists


def _stemmer() -> Any:
    """Return this thread's own stemmer, because stemmers cache stems."""
    if not hasattr(_of_thread, "stemmer"):
        import Stemmer

        stemmer = Stemmer.Stemmer("english")
        # From version 3 on, the algorithm has exceptions that PISA's doesn't have.
        if stemmer.stemWord("university") != "univers":
            raise UsageError(
                f"PyStemmer {Stemmer.version()} makes other stems than those in the indexes: "
                "install the previous version, pip install 'PyStemmer>=2.2,<3'"
            )
        _of_thread.stemmer = stemmer
    return _of_thread.stemmer
