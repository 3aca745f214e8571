"""Texts that the package tells itself, between two markers: ``<!-- generated: NAME -->`` and ``<!-- end -->``.

In reStructuredText they are ``.. generated: NAME`` and ``.. end``.
"""

import re
from collections.abc import Callable, Mapping

Make = Callable[[str], str]
"""Makes the text between two markers from the text that stands there now."""

_PART = re.compile(r"^((?:<!--|\.\.) generated: (\S+)(?: -->)?\n)(.*?)^(<!-- end -->|\.\. end)$", re.DOTALL | re.MULTILINE)
_OPENED = re.compile(r"^(?:<!--|\.\.) generated: ", re.MULTILINE)


class MarkerError(Exception):
    """A marker without its end, or one that nothing generates."""


def renewed(text: str, makers: Mapping[str, Make]) -> str:
    """The text with every generated part made anew.

    Args:
        text: a page.
        makers: what makes the part of each name.

    Raises:
        MarkerError: for a name that nothing makes, or a marker that isn't closed.
    """
    if len(_OPENED.findall(text)) != len(_PART.findall(text)):
        raise MarkerError("a line '<!-- generated: NAME -->' has no line '<!-- end -->' below it")

    def make(part: re.Match[str]) -> str:
        opened, name, body, closed = part.groups()
        if name not in makers:
            raise MarkerError(f"nothing generates {name!r}: choose one of {', '.join(makers)}")
        apart = "\n" if opened.startswith("..") else ""  # else it belongs to the comment
        return f"{opened}{apart}{makers[name](body).strip()}\n{apart}{closed}"

    return _PART.sub(make, text)
