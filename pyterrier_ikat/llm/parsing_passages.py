"""Texts of several sentences that a completion holds: passages, clarified utterances. Pure functions: no model, no frame."""

import re

from .parsing import in_object, parse_rewrite, spoken, unquoted

_FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
_STYLE = re.compile(r"\W*style\W+\w[\w-]*(?: [\w-]+){0,2}\W*$", re.IGNORECASE)
_STYLE_BEFORE = re.compile(
    r"""\W*style(?:
        [*_]*\s*[:–—-]\s*[*_]*\s*(?:encyclop[a]?edi[ac]\w*|blogs?(?:\s+post)?|government(?:al)?(?:\s+website)?)\b(?=\W*(?:\s[*_"“]*(?-i:[A-Z])|\Z))
        |\s*[:–—-]\s*[\w-]+(?:\s[\w-]+){0,2}[*_\])]+(?=\s)
    )\W*""",
    re.IGNORECASE | re.VERBOSE,
)
_NAME = re.compile("passage|article|assistant|answer|response|summary|text", re.IGNORECASE)
_LABEL = re.compile(rf"^\W*(?:{_NAME.pattern})\W*:[\s*_]*", re.IGNORECASE)
_HEADING = re.compile(rf"^[\W_]*(?:{_NAME.pattern})[\W_]*$", re.IGNORECASE)


def parse_passage(text: str) -> str:
    r"""The passage in a completion as one line: without ``<think>`` block, style line, lead-in, heading, label and surrounding quotes.

    Returns:
        The passage, or ``""`` when the text holds none.

    Example:
        >>> parse_passage('Style: blog\n\nPassage: Oats are cheap.\nThey keep well.')
        'Oats are cheap. They keep well.'
    """
    text = spoken(text)
    held = in_object(text, _NAME)
    lines = [line.strip() for line in _FENCE.sub("", text if held is None else held).splitlines() if line.strip()]
    while lines and (_STYLE.match(lines[0]) or _HEADING.match(lines[0]) or (lines[0].endswith(":") and len(lines) > 1)):
        lines.pop(0)
    if lines:
        lines[0] = _STYLE_BEFORE.sub("", lines[0], count=1) if _STYLE_BEFORE.match(lines[0]) else lines[0]
    passage = _LABEL.sub("", " ".join(" ".join(lines).split()), count=1)
    passage = unquoted(passage) if passage.startswith(('"', "“", "„", "«", "「")) else passage
    return passage if any(map(str.isalnum, passage)) else ""


def parse_clarified(text: str) -> str:
    """The clarified utterance in a completion; ``""`` when it holds none.

    Example:
        >>> parse_clarified("Clarified utterance: The user asks for a vegan breakfast. It has to be quick.")
        'The user asks for a vegan breakfast. It has to be quick.'
    """
    return parse_rewrite(text)
