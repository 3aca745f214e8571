"""How long responses may be: 250 words as the checker of 2025 counts them, tokens in the guidelines of 2023 and 2024."""

import re
from collections.abc import Sequence

from ..generate.sentences import count_words
from .problem import Place

WORDS = 250

_TOKEN = re.compile(r"\w+(?=n['’]t\b)|n['’]t\b|['’]\w+|\w+|[^\w\s]")


def check_length(place: Place, texts: Sequence[str], consequence: str = "") -> None:
    """At most 250 words, as the checker of 2025 counts them, in all ``texts`` together."""
    length = sum(map(count_words, texts))
    if length > WORDS:
        place.error(f"{length} words, {WORDS} are allowed{consequence}: shorten at the end of a sentence")


def check_tokens(place: Place, text: str) -> None:
    """A warning for a text within 250 words that has more tokens, the unit of 2023 and 2024."""
    tokens = count_tokens(text)
    if tokens > WORDS >= count_words(text):
        message = (
            f"about {tokens} tokens, as spaCy counts them (words and punctuation marks); {WORDS} were allowed: shorten it if that counts"
        )
        place.warning(message)


def count_tokens(text: str) -> int:
    """About the number of tokens of spaCy's English tokenizer: words, parts of contractions, and punctuation marks.

    Within 1 % of spaCy's on the gold responses of 2023, 2024 and 2025, and over 250 for the same ones.

    Example:
        >>> count_tokens("I don't know, it's late.")
        9
    """
    return len(_TOKEN.findall(text))
