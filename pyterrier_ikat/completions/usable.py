r"""The cleaners of texts that every parser begins with.

========================== =====================================================================
:func:`printable`          without terminal codes and control characters
:func:`one_line`           a short name on one line
:func:`readable`           without a repeated or invented prompt and without endless repetitions
:func:`usable_text`        without reasoning; empty for a refusal
:func:`usable_words`       the same; also empty for "none"
:func:`answer_text`        the same; None without a letter or digit
:func:`own_turn`           without the next question, which the model invented
:func:`without_fences`     without the lines that begin and end a block of code
:func:`unquoted`           without quotation marks around the whole text
========================== =====================================================================
"""

import math
import re

import numpy as np

from ..conversations.frame import well_formed
from .reasoning import split_reasoning, without_reasoning
from .signs import QUOTES

_ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,99}[ -/]{0,9}[@-~]"
    r"|\x1b[\]P^_][^\x07\x1b\n]{0,999}(?:\x07|\x1b\\)"
    r"|[\x1b\x9b].?"
)
"""Terminal control codes (colours, cursor, titles, links) and their remains."""
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
LONGEST_NAME = 200
"""The maximum length of a model's name, or of another word from a server."""

LOOP_LENGTH = 1200
"""The length from which a repetition is collapsed, in characters."""
LONGEST_PERIOD = 64
"""The longest repeated piece, in characters."""
KEPT_OF_LOOP = 240
"""About how many characters of a repetition are kept."""


def printable(text: str) -> str:
    r"""Remove terminal codes, control characters and lone surrogates. Tabs and line breaks stay.

    Example:
        >>> printable("\x1b[31mred\x1b[0m tea\x00\r\n" + chr(0xD800))
        'red tea\n�'
    """
    text = well_formed(text)
    if text.isprintable():
        return text
    text = _ESCAPES.sub("", text)
    text = _BREAKS.sub("\n", text)
    return _CONTROLS.sub("", text)


def one_line(text: str) -> str:
    r"""Return the text as a short name on one line, such as a model's name or a stop reason.

    Example:
        >>> one_line("gpt\x1b]0;title\x07-4o\nmini")
        'gpt-4o mini'
    """
    words = printable_signs(printable(text[: 20 * LONGEST_NAME])).split()
    return " ".join(words)[:LONGEST_NAME]


def printable_signs(text: str) -> str:
    r"""Replace every sign that can't be printed by a blank, line breaks too.

    Example:
        >>> printable_signs("oat\nmilk")
        'oat milk'
    """
    return "".join(sign if sign.isprintable() else " " for sign in text)


def has_letter_or_digit(text: str) -> bool:
    """Whether a text has content.

    Example:
        >>> has_letter_or_digit("(a)"), has_letter_or_digit("...")
        (True, False)
    """
    return any(character.isalnum() for character in text)


def without_fences(text: str) -> str:
    r"""Remove the lines that open or end a block of code.

    Example:
        >>> without_fences("```json\n[1]\n```")
        '\n[1]\n'
    """
    return _FENCE.sub("", text)


def unquoted(text: str) -> str:
    """Remove the quotation marks around the whole text.

    Example:
        >>> unquoted("„Ist Minze giftig?“"), unquoted('"mint" or "basil"')
        ('Ist Minze giftig?', '"mint" or "basil"')
    """
    while len(text) > 1 and text[0] in QUOTES and text[-1] in QUOTES + ",":
        inner = text[1:].rstrip(", ")
        if inner and inner[-1] in QUOTES:
            inner = inner[:-1].rstrip(", ")
        inner = inner.strip()
        if text[0] not in "'‘’" and text[0] in inner.strip(QUOTES):
            break
        text = inner
    return text


def collapsed(text: str) -> tuple[str, int]:
    """Shorten long repetitions, and count them. The loops of a model carry no further content.

    A repetition is a piece of up to 64 characters that fills 1,200 characters or more.

    Example:
        >>> collapsed("Well, " + "no, " * 5000 + "yes.")[0] == "Well, " + "no, " * 60 + "yes."
        True
        >>> collapsed("no, " * 50)[1]
        0
    """
    count = 0
    for period in range(1, LONGEST_PERIOD + 1):
        repetitions = _repetitions(text, period)
        if not repetitions:
            continue
        kept_length = math.ceil(KEPT_OF_LOOP / period) * period  # whole pieces
        pieces = []
        position = 0
        for start, end in repetitions:
            pieces.append(text[position : start + kept_length])
            position = end - (end - start) % period
        pieces.append(text[position:])
        text = "".join(pieces)
        count += len(repetitions)
    return text, count


def _repetitions(text: str, period: int) -> list[tuple[int, int]]:
    """Return the beginning and end of each long repetition of a piece of ``period`` characters.

    In a repetition every character equals the one ``period`` further on. So the places where they
    differ are its edges.
    """
    if len(text) < LOOP_LENGTH:
        return []
    signs = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    differ = np.flatnonzero(signs[period:] != signs[:-period])
    edges = np.concatenate(([-1], differ, [len(signs) - period]))
    lengths = np.diff(edges) - 1 + period
    repetitions = []
    for number in np.flatnonzero(lengths >= LOOP_LENGTH):
        start = int(edges[number]) + 1
        repetitions.append((start, start + int(lengths[number])))
    return repetitions


def is_loop(text: str) -> bool:
    """Whether more than half of a text, and at least 100 characters, repeats a piece to the end.

    The piece has up to 64 characters and occurs at least four times. The last occurrence may be cut
    off.

    Example:
        >>> is_loop('"The answer is: ' * 12 + '"The answ')
        True
        >>> is_loop("Mint, mint and again mint: three times mint.")
        False
    """
    for period in range(1, LONGEST_PERIOD + 1):
        length = max(100, 4 * period, len(text) // 2 + 1)
        if len(text) >= length and text[period - length :] == text[-length:-period]:
            return True
    return False


LONGEST_REFUSAL = 300
"""The maximum length of a refusal, in characters."""

_WRAPS = "*_\"'“”„«»「」` "
"""Emphasis and quotation marks around a text."""
_BEHIND_SENTENCE = re.compile(r"(?<=[.!?]) ")
# The patterns read texts whose blanks are single spaces and whose apostrophes are straight.
_SORRY = (
    r"(?:(?:i'?m|i am|we'?re|we are) (?:\w+ )?sorry|sorry|(?:i|we) apologi[sz]e|my apologies"
    r"|unfortunately|regrettably)[ ,.:!-]*(?:but )?"
)
_AI = (
    r"(?:ai|artificial intelligence)(?:[ -]+(?:powered|based))?"
    r"(?: (?:language )?(?:model|assistant|chatbot|system))?"
)
_MACHINE = rf"as an? (?:{_AI}|(?:large )?language model)\b(?: \w+ by \w+)?,? "
_CANNOT = (
    r"can ?not|can'?t|could ?not|couldn't|won't|will not|(?:must|have to) decline to"
    r"|(?:do not|don't) feel comfortable"
)
_UNABLE = (
    rf"(?:(?:i|we) (?:{_CANNOT})|(?:(?:i'?m|i am|we're|we are) )?"
    r"(?:unable|not able|not allowed) to)(?: be able to)?"
)
_HELP = r"(?:help|assist)(?:ing)?\b(?: you)?(?= (?:with|in|on)\b|\W*\Z)"
_DEEDS = (
    r"answer|respond to|comply|fulfil+|complete|process|discuss|engage|provid|generat|creat|produc"
    r"|writ|rewrit|offer|support|continu"
)
_MATTERS = (
    r"request|question|query|queries|content|conversation|information|advice|topic|task|text|that"
    r"|this|it|passage|response|rewrite"
)
_WANTED = (
    rf" (?:{_HELP}|do (?:that|this|so)\b"
    rf"|(?:{_DEEDS})(?:e|ing)?\b(?=[^,;:]*\b(?:{_MATTERS})s?\b))"
)
_ASIDE = re.compile(
    r"please|if you|is there|can i|would you|feel free|let me"
    r"|i'm|i (?:am|can|could|cannot|can't|do|don't)\b|my (?:purpose|guidelines|role)"
    r"|it (?:goes|violates|would)|this (?:request|content|topic|violates|goes)|such |sorry",
    re.IGNORECASE,
)
"""What may follow a refusal."""
_CONTRAST = r"\b(?:but|however|although|though|instead|yet)\b"
_OFFER = (
    r",? ?(?:but|however|instead),? (?:please\b|feel free|if you"
    r"|i(?:'m| am|'d| would| can| could) (?:be )?(?:happy|glad|try|help)\b)"
)
_LACK = r"(?:i|we) (?:can ?not|can'?t|do not|don't|am not|am unable)\b"
_REST = rf"(?:(?!{_CONTRAST})[^;:?.!])*(?:{_OFFER}[^;:?.!]*)?"
_DECLINING = (
    rf"(?:{_MACHINE})?(?:{_SORRY})?(?:{_MACHINE})?{_UNABLE}(?:{_WANTED}{_REST})?"
    rf"|(?:{_SORRY})?{_MACHINE}{_LACK}{_REST}"
)
_DECLINES = re.compile(rf"(?:{_DECLINING})(?:[.!]+(?: |\Z)|\Z)", re.IGNORECASE)

_WANTED_QUERY = (
    r"(?:(?:more|further|other|additional|relevant|suitable|new|specific|useful|meaningful"
    r"|appropriate|such|good|valid|sub-?) ?){0,3}"
    r"(?:(?:search|web) )?(?:quer(?:y|ies)|search(?:es)?(?: terms?)?)\b"
)
_WHY = (
    r"(?: (?:here|at this (?:point|time)"
    r"|(?:for|in) (?:this|that|the|these|it|such|your)\b[^.!?;]*"
    r"|(?:because|since|as|that|which) [^.!?;]*"
    r"|to (?:search|ask|add|answer|find)\b[^.!?;]*))?"
)
_THINK_OF = (
    r"(?:think of|come up with|find|see|have|suggest|propose|formulate|identify|generate|provide"
    r"|write|make|need)"
)
_DO_NOT = r"(?:do|does|did)(?: not|n't)"
_NEEDED = r"(?:needed|required|necessary)"
_DONE = rf"(?:{_NEEDED}|possible|generated|found|made|written|to (?:add|make|suggest))"
_IS_DONE = rf"(?: (?:(?:is|are|was|were|can be|could be|needs? to be) )?{_DONE})?"
_NO = (
    rf"(?:(?:there (?:is|are)|there's|i (?:have|see|find)) )?"
    rf"no {_WANTED_QUERY}{_IS_DONE}"
)
_I_CANNOT = rf"(?:i|we) (?:(?:{_CANNOT})|(?:am|are) (?:unable|not able) to|{_DO_NOT})"
_NO_NEED = (
    r"(?:there(?: is|'s) )?no need (?:to search"
    rf"|(?:for|to (?:make|generate|write))(?: (?:any|a))? {_WANTED_QUERY})"
)
_IT_NEEDS_NO = (
    rf"(?:it|this|(?:the|this|that) (?:\w+ ){{0,3}}\w+) {_DO_NOT} (?:need|require|call for) "
    rf"(?:any |a )?{_WANTED_QUERY}"
)
_NO_QUERY = re.compile(
    rf"(?:{_NO}|{_I_CANNOT} {_THINK_OF} (?:\w+ )?(?:any|a) {_WANTED_QUERY}{_IS_DONE}"
    rf"|{_IT_NEEDS_NO}|{_NO_NEED}){_WHY}",
    re.IGNORECASE,
)
"""A sentence which says that there is no query: ``No queries are needed because ...``."""
_NONE_NEEDED = re.compile(
    rf"(?:none|nothing|not)(?: (?:is|are|was|were))? (?:{_NEEDED}|applicable){_WHY}", re.IGNORECASE
)
"""A sentence which says so of anything that was asked for."""
_PROSE = re.compile(r"[^\W\d_].*[.!]\Z", re.DOTALL)


def says_no_query(text: str) -> bool:
    """Whether the first sentence of a text says that there is no query to search with.

    Sentences may follow, but no list.

    Example:
        >>> says_no_query("No queries are needed because the answer is above.")
        True
        >>> says_no_query("no sugar cake recipes")
        False
    """
    return _begins_by_saying(text, _NO_QUERY) or _begins_by_saying(text, _NONE_NEEDED)


def _begins_by_saying(text: str, meaning: re.Pattern[str]) -> bool:
    """Whether a short text of prose has such a first sentence, and no contrast such as "but"."""
    lines = []
    for line in text.strip().splitlines():
        if line.strip():
            lines.append(line.strip(_WRAPS).replace("’", "'"))
    if not lines or sum(len(line) for line in lines) > LONGEST_REFUSAL:
        return False
    first, *sentences = _BEHIND_SENTENCE.split(" ".join(lines[0].split()))
    if not meaning.fullmatch(first.rstrip(".! ")) or _has_contrast(first):
        return False
    return all(_PROSE.match(line) and not _has_contrast(line) for line in [*sentences, *lines[1:]])


def _has_contrast(sentence: str) -> bool:
    """Whether a sentence has a word of contrast such as "but"."""
    return re.search(_CONTRAST, sentence, re.IGNORECASE) is not None


def is_refusal(text: str) -> bool:
    """Whether the whole text only declines.

    It is short, declines from its first words on, and only offers help after that. A text which
    says that there is no query to search with declines as well.

    Example:
        >>> is_refusal("I'm sorry, but I can't help with that.")
        True
        >>> is_refusal("I'm sorry, but rooibos has no caffeine.")
        False
    """
    if len(text) > 2 * LONGEST_REFUSAL:
        return False
    words = " ".join(text.split()).strip(_WRAPS).replace("’", "'")
    if words and _begins_by_saying(text, _NO_QUERY):
        return True
    declined = _DECLINES.match(words)
    if declined is None or len(words) > LONGEST_REFUSAL:
        return False
    for sentence in _BEHIND_SENTENCE.split(words[declined.end() :]):
        if sentence and (not _ASIDE.match(sentence) or _has_contrast(sentence)):
            return False
    return True


_FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
_NOTHING = re.compile(r"\W*(?:null|none|n/?a)\W*", re.IGNORECASE)
_INVENTED = re.compile(
    r"^[ \t]*(?:[-*#]+ )?(?:\d{1,2}[.)] *)?(?:question|user|human) *:", re.IGNORECASE | re.MULTILINE
)
_INPUT = "About the user|Conversation so far|Last message of the user"
_NEXT_PROMPT = re.compile(
    rf"^(?:#+ *(?:Example(?: \d+)?|The user whom you answer) *\n+)?#+ *(?:{_INPUT}) *$",
    re.MULTILINE,
)
"""The headings of our templates above the input, never above the answer."""
_ECHO = re.compile(rf"\s*#+ *(?:Task|Role|(?P<input>{_INPUT})) *(?:\n|\Z)")
"""A text that begins with a heading of our templates above the answer."""


def usable_text(text: str) -> str:
    """Return the model's answer: the text without reasoning, or nothing if it only declines.

    Example:
        >>> usable_text("<think>hm</think> Paris")
        'Paris'
        >>> usable_text("I'm sorry, but I can't help with that.")
        ''
    """
    answer = split_reasoning(text).text
    return "" if is_refusal(answer) else answer


def usable_words(text: str) -> str:
    """Return the model's answer as `usable_text` gives it, or nothing if it means "nothing".

    Example:
        >>> usable_words("<think>hm</think> Paris"), usable_words("N/A")
        ('Paris', '')
    """
    answer = usable_text(text)
    return "" if _NOTHING.fullmatch(answer) else answer


def answer_text(text: str) -> str | None:
    """Return the model's answer as `usable_words` gives it. None without a letter or digit.

    Example:
        >>> answer_text("<think>hm</think> Paris"), answer_text("...")
        ('Paris', None)
    """
    answer = usable_words(text)
    return answer if has_letter_or_digit(answer) else None


def own_turn(text: str) -> str:
    r"""Return the text up to the next question, which the model invented.

    A text that begins with such a question is returned whole.

    Example:
        >>> own_turn("[8]\n\n2. Question: And limes?\n   Provenance: [3]")
        '[8]\n\n'
    """
    own = _INVENTED.split(text, maxsplit=1)[0]
    return own if own.strip() and not own.rstrip().endswith(":") else text


def readable(text: str, whole: bool = False) -> tuple[str, list[str]]:
    r"""Return the part of a completion that a parser reads, and the omitted parts in words.

    Omitted are a repeated or invented prompt, and long repetitions.

    Args:
        text: the completion.
        whole: keep repetitions, because the text itself is the result.

    Example:
        >>> read, omitted = readable("oat milk\n" + "and so on " * 500)
        >>> len(read), omitted
        (249, ['1 long repetition'])
        >>> readable("1. lights\n\n# Example 3\n# About the user\n1: I keep bees\n# Queries")[0]
        '1. lights\n\n'
    """
    echo = _ECHO.match(without_reasoning(text))
    # A written answer may have a heading of its own such as "About the user".
    if echo and not (whole and echo["input"]):
        return "", [f"the prompt, which the model repeats: {text!r}"]
    own = _NEXT_PROMPT.split(text, maxsplit=1)[0]
    omitted = []
    if own.strip() and own != text:
        omitted.append(f"the next prompt, which the model invented: {text[len(own) :]!r}")
    else:
        own = text
    if whole:
        return own, omitted
    collapsed_text, count = collapsed(own)
    if count:
        omitted.append("1 long repetition" if count == 1 else f"{count} long repetitions")
    return collapsed_text, omitted
