"""English completions that only decline. Pure functions."""

import re

LONGEST = 300
"""The maximum length of a refusal, in characters."""

_SORRY = r"(?:(?:i['’]?m|i am|we['’]?re|we are) (?:\w+ )?sorry|sorry|(?:i|we) apologi[sz]e|unfortunately|regrettably)[ ,.:!-]*(?:but )?"
_MACHINE = r"as an? (?:ai|artificial intelligence|(?:large )?language model)(?:[ -](?:language|model|assistant|chatbot|system))*\b,? "
_UNABLE = (
    r"(?:(?:i|we) (?:can ?not|can['’]?t|could ?not|couldn['’]t|won['’]t|will not|must decline to|(?:do not|don['’]t) feel comfortable)"
    r"|(?:(?:i['’]?m|i am|we['’]re|we are) )?(?:unable|not able|not allowed) to)(?: be able to)?"
)
_WANTED = (
    r" (?:(?:help|assist)(?:ing)?\b(?: you)?(?= (?:with|in|on)\b|\W*\Z)|do (?:that|this|so)\b"
    r"|(?:answer|respond to|comply|fulfil+|complete|process|discuss|engage|provid|generat|creat|produc|writ|rewrit|offer)(?:e|ing)?\b"
    r"(?=[^,;:]*\b(?:request|question|query|content|conversation|information|advice|topic|task|text|that|this|it|passage|response)s?\b))"
)
_TURN = r"\b(?:but|however|although|though|instead|yet)\b"
_OFFER = r",?(?: but|\W*however),? (?:please|feel free|if you|i['’ ]?(?:m|am|d|would|can|could) (?:be )?(?:happy|glad|try|help))\b"
_REST = rf"(?:(?!{_TURN})[^;:?.!])*(?:{_OFFER}[^;:?.!]*)?"
_LACK = rf"(?:{_SORRY})?{_MACHINE}(?:i|we) (?:can ?not|can['’]?t|do not|don['’]t)\b{_REST}"
_DECLINES = re.compile(
    rf"(?:(?:{_MACHINE})?(?:{_SORRY})?(?:{_MACHINE})?{_UNABLE}(?:{_WANTED}{_REST})?|{_LACK})(?:[.!]+(?: |\Z)|\Z)", re.IGNORECASE
)
_ASIDE = re.compile(
    r"(?:please|if you|is there|can i|would you|feel free|let me|i['’]m|i (?:am|can|cannot|can['’]t|do|don['’]t)\b|sorry)", re.IGNORECASE
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
    others = [other for other in re.split(r"(?<=[.!?]) ", said[declined.end() :]) if other]
    return all(_ASIDE.match(other) and not re.search(_TURN, other, re.IGNORECASE) for other in others)
