"""Texts from outside, as everybody here reads them: printable, and without repetitions that go on and on. Pure functions."""

import re

import numpy as np

from ..conversations.frame import well_formed

_ESCAPES = re.compile(r"\x1b\[[0-?]{0,99}[ -/]{0,9}[@-~]|\x1b[\]P^_][^\x07\x1b\n]{0,999}(?:\x07|\x1b\\)|[\x1b\x9b].?")
"""Codes that a terminal obeys: of colours and the cursor, titles and links, and what is left of them."""
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
LONGEST_NAME = 200
"""Characters of a model's name, or of another word of a server."""

LOOP = 1200
"""Characters from which on a repetition is collapsed."""
PERIOD = 64
"""The longest repeated piece, in characters."""
LEFT = 240
"""Characters that are left of a repetition, about."""


def printable(text: str) -> str:
    r"""The text without codes for a terminal, control characters and lone surrogates; tabs and line breaks stay.

    Example:
        >>> printable("\x1b[31mred\x1b[0m tea\x00\r\n" + chr(0xD800))
        'red tea\n�'
    """
    text = well_formed(text)
    if text.isprintable():
        return text
    return _CONTROLS.sub("", _BREAKS.sub("\n", _ESCAPES.sub("", text)))


def one_line(text: str) -> str:
    r"""The text as a short name in one line: a model's, a reason to stop.

    Example:
        >>> one_line("gpt\x1b]0;title\x07-4o\nmini")
        'gpt-4o mini'
    """
    words = "".join(sign if sign.isprintable() else " " for sign in printable(text[: 20 * LONGEST_NAME]))
    return " ".join(words.split())[:LONGEST_NAME]


def collapsed(text: str) -> tuple[str, int]:
    """The text with long repetitions cut down to some of their pieces, and how many there were: loops of a model say nothing more.

    A repetition is a piece of up to 64 characters that fills 1,200 characters or more.

    Example:
        >>> collapsed("Well, " + "no, " * 5000 + "yes.")[0] == "Well, " + "no, " * 60 + "yes."
        True
        >>> collapsed("no, " * 50)[1]
        0
    """
    count = 0
    for period in range(1, PERIOD + 1):
        pieces, place = list[str](), 0
        for start, end in _repetitions(text, period):
            pieces += [text[place : start + -(-LEFT // period) * period]]
            place = end - (end - start) % period
        if pieces:
            text, count = "".join([*pieces, text[place:]]), count + len(pieces)
    return text, count


def is_loop(text: str) -> bool:
    """Whether a text goes round in circles: more than half of it, and 100 characters or more, repeats a piece up to its end.

    The piece has up to 64 characters and is there four times or more; the last time it may be cut off.

    Example:
        >>> is_loop('"The answer is: ' * 12 + '"The answ'), is_loop("Mint, mint and again mint: three times mint.")
        (True, False)
    """
    for period in range(1, PERIOD + 1):
        same = next((place for place in range(len(text) - period) if text[-1 - place] != text[-1 - place - period]), len(text) - period)
        if same + period >= max(100, 4 * period, len(text) // 2 + 1):
            return True
    return False


def _repetitions(text: str, period: int) -> list[tuple[int, int]]:
    """Where the repetitions of a piece of ``period`` characters begin and end."""
    if len(text) < LOOP:
        return []
    signs = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    edges = np.concatenate(([-1], np.flatnonzero(signs[period:] != signs[:-period]), [len(signs) - period]))
    long = np.flatnonzero(np.diff(edges) - 1 + period >= LOOP)
    return [(int(edges[place]) + 1, int(edges[place + 1]) + period) for place in long]
