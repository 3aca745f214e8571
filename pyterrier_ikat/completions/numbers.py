"""Grades in a completion, and their scale. Pure functions: no model, no frame."""

import re

_DASH = "-−–—~〜"
_LETTER = r"[^\W\d_]"
_SHARE = r"[ \t]*(?:[%٪\uff05]|per[ \t]?cent\b|prozent\b)"
_SCALE = r"(?:/|(?:out[ \t]+of|of|von|sur)\b)[ \t]*"
_OTHER_SCALE = rf"(?:[ \t]*(?:points?|stars?)\b)?[ \t]*(?:{_SCALE}\d|\([ \t]*{_SCALE}\d+[ \t]*\))"
_OR_MORE = rf"(?:[{_DASH}/,]|\.\.+)\d|[ \t]*\b(?:to|or|bis|oder|hasta|à|ou)\b[ \t]*\d"
# A word after the second number begins a reason, as in "2 - 3 huts are missing".
_REASON = rf"[ \t]*(?!(?:and|und|or|oder|to|bis|points?|stars?|out)\b){_LETTER}"
_AND_MORE = rf"[ \t]*(?:[{_DASH},;/]|\b(?:and|und)\b)?[ \t]*-?\d+(?:[.,]\d+)*(?![.,]?\d|{_REASON})"
NO_GRADE = rf"(?:{_SHARE}|{_OTHER_SCALE}|{_OR_MORE}|{_AND_MORE})"
"""What makes the number before it no grade: a percent sign, another scale, a second number."""


def grade(highest: int) -> str:
    """The pattern of a whole number that is a grade, perhaps with its own scale: ``3``, ``3.0``, ``3/4``, ``3 (out of 4)``.

    Its first group is the number. A percentage, a grade on another scale, a half and a range do not match.

    Example:
        >>> [re.match(grade(4), text) is not None for text in ("3/4 stars", "3/5", "3%", "2 to 3", "2, 3 huts are missing")]
        [True, False, False, False, True]
    """
    own_scale = rf"[ \t]*(?:{_SCALE}{highest}\b(?![.,]\d)|\([ \t]*{_SCALE}{highest}[ \t]*\))"
    second = rf"[ \t]*(?:\b(?:to|or|and|bis|oder|und)\b|[{_DASH},;])[ \t]*\d+[ \t]*{_SCALE}{highest}\b|[ \t]*\b(?:to|or)\b[ \t]*\d"
    whole = r"((?:(?<!\w)[-−–])?\d{1,9})(?:(?:\.0+|,0)(?!\d)|(?![.,]?\d))"
    return rf"{whole}(?:{own_scale}(?!{second})|(?!{NO_GRADE}))"


def without_scale(text: str, highest: int) -> str:
    """The text without the scale from 0 that it repeats.

    Example:
        >>> without_scale("Score (0-4): 2", 4)
        'Score (): 2'
    """
    return re.sub(rf"(?<![\d.-])0[ \t]*(?:-|–|—|to)[ \t]*{highest}(?![\d.])", "", text, flags=re.IGNORECASE)
