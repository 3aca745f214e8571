"""English completions that only decline. Pure functions."""

import re

LONGEST = 300
"""The maximum length of a refusal, in characters."""

_SORRY = (
    r"(?:(?:i['’]?m|i am|we['’]?re|we are)\s+(?:\w+\s+)?sorry|sorry|(?:i|we)\s+apologi[sz]e|my apologies|unfortunately|regrettably)"
    r"[\s,.:!-]*(?:but\s+)?"
)
_MACHINE = (
    r"as an?\s+(?:(?:ai|artificial\s+intelligence)(?:[\s-]+(?:powered|based))?(?:\s+(?:language\s+)?(?:model|assistant|chatbot|system))?"
    r"|(?:large\s+)?language\s+model)\b(?:\s+\w+\s+by\s+\w+)?,?\s+"
)
_UNABLE = (
    r"(?:(?:i|we)\s+(?:can\s*not|can['’]?t|could\s*not|couldn['’]t|won['’]t|will\s+not|must\s+decline\s+to|have\s+to\s+decline\s+to"
    r"|(?:do\s+not|don['’]t)\s+feel\s+comfortable)|(?:(?:i['’]?m|i\s+am|we['’]re|we\s+are)\s+)?(?:unable|not\s+able|not\s+allowed)\s+to)"
    r"(?:\s+be\s+able\s+to)?"
)
_WANTED = (
    r"\s+(?:(?:help|assist)(?:ing)?\b(?:\s+you)?(?=\s+(?:with|in|on)\b|\W*\Z)"
    r"|do\s+(?:that|this|so)\b"
    r"|(?:answer|respond\s+to|comply|fulfil+|complete|process|discuss|engage|provid|generat|creat|produc|writ|rewrit|offer|support"
    r"|continu)(?:e|ing)?\b(?=[^,;:]*\b(?:request|question|query|queries|content|conversation|information|advice|topic|task|text"
    r"|that|this|it|passage|response|rewrite)s?\b))"
)
_ASIDE = re.compile(
    r"(?:please|if\s+you|is\s+there|can\s+i|would\s+you|feel\s+free|let\s+me|i['’]m|i\s+(?:am|can|could|cannot|can['’]t|do|don['’]t)\b"
    r"|my\s+(?:purpose|guidelines|role)|it\s+(?:goes|violates|would)|this\s+(?:request|content|topic|violates|goes)|such\s+|sorry)",
    re.IGNORECASE,
)
_TURN = r"\b(?:but|however|although|though|instead|yet)\b"
_OFFER = (
    r",?\s*(?:but|however|instead),?\s+(?:please\b|feel\s+free|if\s+you|i(?:['’]m|\s+am|['’]d|\s+would|\s+can|\s+could)\s+"
    r"(?:be\s+)?(?:happy|glad|try|help)\b)"
)
_LACK = r"(?:i|we)\s+(?:can\s*not|can['’]?t|do\s+not|don['’]t|am\s+not|am\s+unable)\b"
_REST = rf"(?:(?!{_TURN})[^;:?.!])*(?:{_OFFER}[^;:?.!]*)?"
_DECLINES = re.compile(
    rf"(?:(?:{_MACHINE})?(?:{_SORRY})?(?:{_MACHINE})?{_UNABLE}(?:{_WANTED}{_REST})?|(?:{_SORRY})?{_MACHINE}{_LACK}{_REST})"
    r"(?:[.!]+(?:\s+|\Z)|\Z)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Whether the whole text only declines: it is short, declines from its first words on, and only offers help after that.

    Example:
        >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("I'm sorry, but rooibos has no caffeine.")
        (True, False)
    """
    said = " ".join(text.split()).strip("*_\"'“”„«»「」` ") if len(text) <= 2 * LONGEST else ""
    declined = _DECLINES.match(said)
    if declined is None or len(said) > LONGEST:
        return False
    others = [other for other in re.split(r"(?<=[.!?])\s+", said[declined.end() :]) if other]
    return all(_ASIDE.match(other) and not re.search(_TURN, other, re.IGNORECASE) for other in others)
