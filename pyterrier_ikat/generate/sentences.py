"""A text cut to a number of words, at the end of a sentence."""

import re
import unicodedata

_CLOSING = r"(?:\[\d+(?:\s*[,–-]\s*\d+)*\]|[\"'”’»)\]*])*"
_END = re.compile(rf"[.!?…]+{_CLOSING}(?=\s+[^\sa-z]|\s*$)|[。！？]+[」』”]*|(?=\n)")
_LIST_NUMBER = r"(?:^|[.!?:]\s|\n\s*)\d{1,2}"
_SHORTENED = re.compile(rf"(?:\b(?:dr|mr|mrs|ms|prof|st|vs|ca|cf|approx|e\.g|i\.e)|\b[a-z]|{_LIST_NUMBER})\.$", re.IGNORECASE)


def count_words(text: str) -> int:
    """The number of words, as TREC iKAT's checker of 2025 counts them: between white space, after NFKC normalisation.

    Example:
        >>> count_words("Two words")
        2
    """
    return len(unicodedata.normalize("NFKC", text).split())


def cut_at_sentence(text: str, words: int) -> str:
    """The longest beginning of ``text`` that ends where a sentence or a line ends and has at most ``words`` words.

    A text within the limit stays as it is. Where the first sentence alone is longer than the limit, its first ``words``
    words are given.

    Args:
        text: any text.
        words: the most words to keep, as :func:`count_words` counts them.

    Example:
        >>> cut_at_sentence("Oats are cheap. They keep well. Everybody has some.", 7)
        'Oats are cheap. They keep well.'
    """
    if count_words(text) <= words:
        return text
    ends = [text[: found.end()].rstrip() for found in _END.finditer(text)]
    whole = [part for part in ends if part.strip() and not _SHORTENED.search(part) and count_words(part) <= words]
    return whole[-1] if whole else _first_words(text, words)


def _first_words(text: str, words: int) -> str:
    kept = ""
    for found in re.finditer(r"\S+", text):
        if count_words(text[: found.end()]) > words:
            break
        kept = text[: found.end()]
    return kept.strip()
