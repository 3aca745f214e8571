"""English completions that only decline. Pure functions."""

import re

LONGEST = 300
"""The maximum length of a refusal, in characters."""

# The patterns read texts whose blanks are single spaces and whose apostrophes are straight.
_SORRY = (
    r"(?:(?:i'?m|i am|we'?re|we are) (?:\w+ )?sorry|sorry|(?:i|we) apologi[sz]e|my apologies|unfortunately|regrettably)[ ,.:!-]*(?:but )?"
)
_KIND = r"(?:ai|artificial intelligence)(?:[ -]+(?:powered|based))?(?: (?:language )?(?:model|assistant|chatbot|system))?"
_MACHINE = rf"as an? (?:{_KIND}|(?:large )?language model)\b(?: \w+ by \w+)?,? "
_CANNOT = r"can ?not|can'?t|could ?not|couldn't|won't|will not|(?:must|have to) decline to|(?:do not|don't) feel comfortable"
_UNABLE = rf"(?:(?:i|we) (?:{_CANNOT})|(?:(?:i'?m|i am|we're|we are) )?(?:unable|not able|not allowed) to)(?: be able to)?"
_HELP = r"(?:help|assist)(?:ing)?\b(?: you)?(?= (?:with|in|on)\b|\W*\Z)"
_DEEDS = r"answer|respond to|comply|fulfil+|complete|process|discuss|engage|provid|generat|creat|produc|writ|rewrit|offer|support|continu"
_MATTERS = r"request|question|query|queries|content|conversation|information|advice|topic|task|text|that|this|it|passage|response|rewrite"
_WANTED = rf" (?:{_HELP}|do (?:that|this|so)\b|(?:{_DEEDS})(?:e|ing)?\b(?=[^,;:]*\b(?:{_MATTERS})s?\b))"
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


def is_refusal(text: str) -> bool:
    """Whether the whole text only declines: it is short, declines from its first words on, and only offers help after that.

    Example:
        >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("I'm sorry, but rooibos has no caffeine.")
        (True, False)
    """
    said = " ".join(text.split()).strip("*_\"'“”„«»「」` ") if len(text) <= 2 * LONGEST else ""
    said = said.replace("’", "'")
    declined = _DECLINES.match(said)
    if declined is None or len(said) > LONGEST:
        return False
    others = [other for other in re.split(r"(?<=[.!?]) ", said[declined.end() :]) if other]
    return all(_ASIDE.match(other) and not re.search(_TURN, other, re.IGNORECASE) for other in others)
