r"""The usable part of a text: printable, without reasoning, endless repetitions and what a model invented after its answer."""

import re

import numpy as np

from ..conversations.frame import well_formed
from .reasoning import split_reasoning, without_reasoning

_ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,99}[ -/]{0,9}[@-~]|\x1b[\]P^_][^\x07\x1b\n]{0,999}(?:\x07|\x1b\\)|[\x1b\x9b].?"
)
"""Terminal control codes (colours, cursor, titles, links) and their remains."""
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
LONGEST_NAME = 200
"""The maximum length of a model's name, or of another word from a server."""

LOOP = 1200
"""The length from which a repetition is collapsed, in characters."""
PERIOD = 64
"""The longest repeated piece, in characters."""
LEFT = 240
"""About how many characters of a repetition are kept."""


def printable(text: str) -> str:
    r"""The text without terminal codes, control characters and lone surrogates. Tabs and line breaks stay.

    Example:
        >>> printable("\x1b[31mred\x1b[0m tea\x00\r\n" + chr(0xD800))
        'red tea\n�'
    """
    text = well_formed(text)
    if text.isprintable():
        return text
    return _CONTROLS.sub("", _BREAKS.sub("\n", _ESCAPES.sub("", text)))


def one_line(text: str) -> str:
    r"""The text as a short name on one line, such as a model's name or a stop reason.

    Example:
        >>> one_line("gpt\x1b]0;title\x07-4o\nmini")
        'gpt-4o mini'
    """
    words = "".join(
        sign if sign.isprintable() else " " for sign in printable(text[: 20 * LONGEST_NAME])
    )
    return " ".join(words.split())[:LONGEST_NAME]


def collapsed(text: str) -> tuple[str, int]:
    """The text with long repetitions shortened, and their number. The loops of a model carry no further content.

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


def _repetitions(text: str, period: int) -> list[tuple[int, int]]:
    """The beginning and end of each long repetition of a piece of ``period`` characters."""
    if len(text) < LOOP:
        return []
    signs = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    edges = np.concatenate(
        ([-1], np.flatnonzero(signs[period:] != signs[:-period]), [len(signs) - period])
    )
    return [
        (int(edges[place]) + 1, int(edges[place + 1]) + period)
        for place in np.flatnonzero(np.diff(edges) - 1 + period >= LOOP)
    ]


def is_loop(text: str) -> bool:
    """Whether a text is a loop: more than half of it, and at least 100 characters, repeats a piece up to the end.

    The piece has up to 64 characters and occurs at least four times. The last occurrence may be cut
    off.

    Example:
        >>> is_loop('"The answer is: ' * 12 + '"The answ'), is_loop("Mint, mint and again mint: three times mint.")
        (True, False)
    """
    periods = [
        (period, max(100, 4 * period, len(text) // 2 + 1)) for period in range(1, PERIOD + 1)
    ]
    return any(
        text[period - least :] == text[-least:-period]
        for period, least in periods
        if len(text) >= least
    )


LONGEST_REFUSAL = 300
"""The maximum length of a refusal, in characters."""

# The patterns read texts whose blanks are single spaces and whose apostrophes are straight.
_SORRY = r"(?:(?:i'?m|i am|we'?re|we are) (?:\w+ )?sorry|sorry|(?:i|we) apologi[sz]e|my apologies|unfortunately|regrettably)[ ,.:!-]*(?:but )?"
_KIND = r"(?:ai|artificial intelligence)(?:[ -]+(?:powered|based))?(?: (?:language )?(?:model|assistant|chatbot|system))?"
_MACHINE = rf"as an? (?:{_KIND}|(?:large )?language model)\b(?: \w+ by \w+)?,? "
_CANNOT = r"can ?not|can'?t|could ?not|couldn't|won't|will not|(?:must|have to) decline to|(?:do not|don't) feel comfortable"
_UNABLE = rf"(?:(?:i|we) (?:{_CANNOT})|(?:(?:i'?m|i am|we're|we are) )?(?:unable|not able|not allowed) to)(?: be able to)?"
_HELP = r"(?:help|assist)(?:ing)?\b(?: you)?(?= (?:with|in|on)\b|\W*\Z)"
_DEEDS = r"answer|respond to|comply|fulfil+|complete|process|discuss|engage|provid|generat|creat|produc|writ|rewrit|offer|support|continu"
_MATTERS = r"request|question|query|queries|content|conversation|information|advice|topic|task|text|that|this|it|passage|response|rewrite"
_WANTED = (
    rf" (?:{_HELP}|do (?:that|this|so)\b|(?:{_DEEDS})(?:e|ing)?\b(?=[^,;:]*\b(?:{_MATTERS})s?\b))"
)
_ASIDE = re.compile(
    r"please|if you|is there|can i|would you|feel free|let me|i'm|i (?:am|can|could|cannot|can't|do|don't)\b|my (?:purpose|guidelines|role)"
    r"|it (?:goes|violates|would)|this (?:request|content|topic|violates|goes)|such |sorry",
    re.IGNORECASE,
)
_TURN = r"\b(?:but|however|although|though|instead|yet)\b"
_OFFER = r",? ?(?:but|however|instead),? (?:please\b|feel free|if you|i(?:'m| am|'d| would| can| could) (?:be )?(?:happy|glad|try|help)\b)"
_LACK = r"(?:i|we) (?:can ?not|can'?t|do not|don't|am not|am unable)\b"
_REST = rf"(?:(?!{_TURN})[^;:?.!])*(?:{_OFFER}[^;:?.!]*)?"
_DECLINING = rf"(?:{_MACHINE})?(?:{_SORRY})?(?:{_MACHINE})?{_UNABLE}(?:{_WANTED}{_REST})?|(?:{_SORRY})?{_MACHINE}{_LACK}{_REST}"
_DECLINES = re.compile(rf"(?:{_DECLINING})(?:[.!]+(?: |\Z)|\Z)", re.IGNORECASE)

_WANTED_QUERY = (
    r"(?:(?:more|further|other|additional|relevant|suitable|new|specific|useful|meaningful|appropriate|such|good|valid|sub-?) ?){0,3}"
    r"(?:(?:search|web) )?(?:quer(?:y|ies)|search(?:es)?(?: terms?)?)\b"
)
_WHY = (
    r"(?: (?:here|at this (?:point|time)|(?:for|in) (?:this|that|the|these|it|such|your)\b[^.!?;]*|(?:because|since|as|that|which) [^.!?;]*"
    r"|to (?:search|ask|add|answer|find)\b[^.!?;]*))?"
)
_THINK_OF = r"(?:think of|come up with|find|see|have|suggest|propose|formulate|identify|generate|provide|write|make|need)"
_DO_NOT = r"(?:do|does|did)(?: not|n't)"
_NEEDED = r"(?:needed|required|necessary)"
_DONE = rf"(?:{_NEEDED}|possible|generated|found|made|written|to (?:add|make|suggest))"
_IS_DONE = rf"(?: (?:(?:is|are|was|were|can be|could be|needs? to be) )?{_DONE})?"
_NO = rf"(?:(?:there (?:is|are)|there's|i (?:have|see|find)) )?no {_WANTED_QUERY}{_IS_DONE}"
_I_CANNOT = rf"(?:i|we) (?:(?:{_CANNOT})|(?:am|are) (?:unable|not able) to|{_DO_NOT})"
_NO_NEED = rf"(?:there(?: is|'s) )?no need (?:to search|(?:for|to (?:make|generate|write))(?: (?:any|a))? {_WANTED_QUERY})"
_IT_NEEDS_NO = rf"(?:it|this|(?:the|this|that) (?:\w+ ){{0,3}}\w+) {_DO_NOT} (?:need|require|call for) (?:any |a )?{_WANTED_QUERY}"
_NO_QUERY = re.compile(
    rf"(?:{_NO}|{_I_CANNOT} {_THINK_OF} (?:\w+ )?(?:any|a) {_WANTED_QUERY}{_IS_DONE}|{_IT_NEEDS_NO}|{_NO_NEED}){_WHY}",
    re.IGNORECASE,
)
"""A sentence which says that there is no query: ``I can't think of any query``, ``No queries are needed because ...``."""
_NONE_NEEDED = re.compile(
    rf"(?:none|nothing|not)(?: (?:is|are|was|were))? (?:{_NEEDED}|applicable){_WHY}", re.IGNORECASE
)
"""A sentence which says so of anything that was asked for."""
_PROSE = re.compile(r"[^\W\d_].*[.!]\Z", re.DOTALL)


def says_no_query(text: str) -> bool:
    """Whether the whole text says, in its first sentence, that there is no query to search with. Sentences may follow, but no list.

    Example:
        >>> says_no_query("No queries are needed because the answer is above."), says_no_query("no sugar cake recipes")
        (True, False)
    """
    return _begins_by_saying(text, _NO_QUERY) or _begins_by_saying(text, _NONE_NEEDED)


def _begins_by_saying(text: str, meaning: re.Pattern[str]) -> bool:
    """Whether a short text of prose has such a first sentence, and no turn such as "but"."""
    lines = [
        line.strip("*_\"'“”„«»「」` ").replace("’", "'")
        for line in text.strip().splitlines()
        if line.strip()
    ]
    if not lines or sum(map(len, lines)) > LONGEST_REFUSAL:
        return False
    first, *sentences = re.split(r"(?<=[.!?]) ", " ".join(lines[0].split()))
    if not meaning.fullmatch(first.rstrip(".! ")) or re.search(_TURN, first, re.IGNORECASE):
        return False
    return all(
        _PROSE.match(line) and not re.search(_TURN, line, re.IGNORECASE)
        for line in [*sentences, *lines[1:]]
    )


def is_refusal(text: str) -> bool:
    """Whether the whole text only declines: it is short, declines from its first words on, and only offers help after that.

    A text which says that there is no query to search with declines as well.

    Example:
        >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("I'm sorry, but rooibos has no caffeine.")
        (True, False)
    """
    said = (
        " ".join(text.split()).strip("*_\"'“”„«»「」` ") if len(text) <= 2 * LONGEST_REFUSAL else ""
    )
    said = said.replace("’", "'")
    if said and _begins_by_saying(text, _NO_QUERY):
        return True
    declined = _DECLINES.match(said)
    if declined is None or len(said) > LONGEST_REFUSAL:
        return False
    others = [other for other in re.split(r"(?<=[.!?]) ", said[declined.end() :]) if other]
    return all(
        _ASIDE.match(other) and not re.search(_TURN, other, re.IGNORECASE) for other in others
    )


FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
"""A line that opens or ends a block of code."""
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
    """The model's answer: the text without reasoning, or nothing if it only declines.

    Example:
        >>> usable_text("<think>hm</think> Paris"), usable_text("I'm sorry, but I can't help with that.")
        ('Paris', '')
    """
    said = split_reasoning(text).text
    return "" if is_refusal(said) else said


def usable_words(text: str) -> str:
    """The model's answer, as `usable_text` gives it. Empty if it is a value that means "nothing".

    Example:
        >>> usable_words("<think>hm</think> Paris"), usable_words("N/A")
        ('Paris', '')
    """
    text = usable_text(text)
    return "" if _NOTHING.fullmatch(text) else text


def answer_text(text: str) -> str | None:
    """The model's answer, as `usable_words` gives it. None if there is none, or if it has neither a letter nor a digit.

    Example:
        >>> answer_text("<think>hm</think> Paris"), answer_text("...")
        ('Paris', None)
    """
    text = without_reasoning(text)
    return (
        None
        if is_refusal(text) or _NOTHING.fullmatch(text) or not any(map(str.isalnum, text))
        else text
    )


def own_turn(text: str) -> str:
    r"""The text up to the next question, which the model invented. A text that begins with such a question is returned whole.

    Example:
        >>> own_turn("[8]\n\n2. Question: And limes?\n   Provenance: [3]")
        '[8]\n\n'
    """
    own = _INVENTED.split(text, maxsplit=1)[0]
    return own if own.strip() and not own.rstrip().endswith(":") else text


def readable(text: str, whole: bool = False) -> tuple[str, list[str]]:
    r"""The part of a completion that a parser reads, and the omitted parts in words: a repeated or invented prompt, long repetitions.

    Args:
        text: the completion.
        whole: keep repetitions, because the text itself is the result.

    Example:
        >>> said, omitted = readable("oat milk\n" + "and so on " * 500)
        >>> len(said), omitted
        (249, ['1 long repetition'])
        >>> readable("1. lights\n\n# Example 3\n# About the user\n1: I keep bees\n# Queries\n1. hives")[0]
        '1. lights\n\n'
    """
    echo = _ECHO.match(without_reasoning(text))
    if echo and not (
        whole and echo["input"]
    ):  # a written answer may have such a heading of its own
        return "", [f"the prompt, which the model repeats: {text!r}"]
    own = _NEXT_PROMPT.split(text, maxsplit=1)[0]
    own = own if own.strip() else text
    omitted = [f"the next prompt, which the model invented: {text[len(own) :]!r}"] * (own != text)
    said, count = (own, 0) if whole else collapsed(own)
    return said, omitted + [f"{count} long repetition{'s' * (count > 1)}"] * bool(count)
