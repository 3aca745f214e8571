"""Where a text says something else than the baseline's: word by word, in order."""

import re
from difflib import SequenceMatcher

Pieces = list[tuple[str, bool]]
"""A text in pieces; the flag tells that the baseline's text lacks the piece."""


def marked(text: str, baseline: str | None) -> Pieces:
    """Split a text at the words that the baseline's text lacks; case doesn't count.

    Args:
        text: the text to show.
        baseline: the text that it is compared with; None marks nothing.

    Returns:
        Pieces that together are ``text`` without white space around it.

    Example:
        >>> marked("trails for a bad knee", "Trails for dogs")
        [('trails for ', False), ('a bad knee', True)]
    """
    if baseline is None:
        return [(text.strip(), False)]
    words = re.split(r"(?<=\s)(?=\S)", text.strip())
    theirs, ours = baseline.lower().split(), [word.strip().lower() for word in words]
    blocks = SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks()
    same = {place for block in blocks for place in range(block.b, block.b + block.size)}
    pieces: Pieces = []
    for place, word in enumerate(words):
        new = place not in same
        if pieces and pieces[-1][1] == new:
            word = pieces.pop()[0] + word
        pieces.append((word, new))
    return pieces
