"""Completions that only decline: they are no query, no passage and no answer. Pure functions: no model, no frame."""

import re

LONGEST = 300
"""Characters of a completion that can be nothing but a refusal."""

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
_ENGLISH = re.compile(rf"(?:{_MACHINE})?(?:{_SORRY})?(?:{_MACHINE})?{_UNABLE}{_WANTED}[^;:]*", re.IGNORECASE)
_LACK = r"(?:i|we)\s+(?:can\s*not|can['’]?t|do\s+not|don['’]t|am\s+not|am\s+unable)\b"
_AS_MACHINE = re.compile(rf"(?:{_SORRY})?{_MACHINE}{_LACK}[^;:]*", re.IGNORECASE)
_BARE = re.compile(rf"(?:{_SORRY})?{_UNABLE}", re.IGNORECASE)
_ELSEWHERE = re.compile(
    "|".join(
        (
            r"(?:es\s+)?(?:tut\s+mir\s+leid|entschuldigung|leider)\b[\s,]*(?:aber\s+)?(?:(?:dabei|damit|da|das)\s+kann\s+ich|ich\s+kann)\b"
            r"[^,;:]*\bnicht\s+(?:weiter)?(?:helfen|behilflich\s+sein|beantworten|antworten|erfüllen)",
            r"leider\s+kann\s+ich(?:\s+(?:ihnen|dir|euch|da|hier|dabei|damit|hierbei|das|diesen?|ihre|deine|frage|wunsch|anfrage))*"
            r"\s+nicht\s+(?:weiter)?(?:helfen|behilflich\s+sein|beantworten|antworten|erfüllen)",
            r"(?:je\s+suis\s+)?(?:désolée?|navrée?)\b[\s,]*(?:mais\s+)?je\s+ne\s+(?:peux|puis)\s+pas\s+"
            r"(?:vous\s+|t['’]|te\s+|y\s+)?(?:aider|répondre|assister|fournir)\b[^,;:]*",
            r"lo\s+siento\b[\s,]*(?:pero\s+)?no\s+puedo\s+(?:ayudar|asistir|responder|proporcionar|cumplir)\w*[^,;:]*",
            r"mi\s+dispiace\b[\s,]*(?:ma\s+)?non\s+posso\s+(?:aiutar|risponder|assister|fornir)\w*[^,;:]*",
            r"(?:desculpe|sinto\s+muito|lamento)\b[\s,]*(?:mas\s+)?não\s+posso\s+(?:ajudar|responder|fornecer|atender)\w*[^,;:]*",
            r"(?:het\s+spijt\s+me|sorry|helaas)\b[\s,]*(?:maar\s+)?(?:daar\s+kan\s+ik|ik\s+kan)\b[^,;:]*\b(?:niet|geen)\b[^,;:]*"
            r"\b(?:helpen|beantwoorden)",
            r"helaas\s+kan\s+ik(?:\s+(?:je|jou|jullie|u|daar|hier|daarmee|hiermee|die|deze|dit|uw|jouw|vraag|verzoek))*\s+niet"
            r"(?:\s+(?:mee|bij|verder))*\s+(?:helpen|beantwoorden)",
            r"(?:很?抱歉|对不起)[\s,\uff0c。]*但?我(?:无法|不能)(?:帮助|协助|提供|回答|满足)[^,\uff0c。]*",
            r"申し訳(?:ありません|ございません)が[、\s]*[^、。]*(?:お手伝いできません|お答えできません|対応できません|お応えできません)",
        )
    ),
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"(?:please|if\s+you|is\s+there|can\s+i|would\s+you|feel\s+free|let\s+me|i['’]m|i\s+(?:am|can|could|cannot|can['’]t|do|don['’]t)\b"
    r"|my\s+(?:purpose|guidelines|role)|it\s+(?:goes|violates|would)|this\s+(?:request|content|topic|violates|goes)|such\s+|sorry)",
    re.IGNORECASE,
)
_TURN = re.compile(r"\b(?:but|however|although|though|instead|yet)\b", re.IGNORECASE)
_OFFER = re.compile(
    r",?\s*(?:but|however|instead),?\s+(?:please\b|feel\s+free|if\s+you|i(?:['’]m|\s+am|['’]d|\s+would|\s+can|\s+could)\s+"
    r"(?:be\s+)?(?:happy|glad|try|help)\b)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Whether the whole text does nothing but decline: short, from its first words on, and nothing but offers after it.

    English, and how German, French, Spanish, Italian, Portuguese, Dutch, Chinese and Japanese refusals usually begin.

    Example:
        >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("I'm sorry, but rooibos has no caffeine.")
        (True, False)
    """
    text = " ".join(text.split()).strip("*_\"'“”` ")
    if len(text) > LONGEST or not text:
        return False
    first, *others = re.split(r"(?<=[.!?])\s+|(?<=。)(?=.)", text)
    if len(first) < 16 and others and re.fullmatch(_SORRY + r"\W*", first, re.IGNORECASE):
        first = f"{first} {others.pop(0)}"
    return _declines(first) and all(_ASIDE.match(other) and not _TURN.search(other) for other in others)


def _declines(sentence: str) -> bool:
    sentence = sentence.rstrip(" .!。")
    if "?" in sentence:
        return False
    if _BARE.fullmatch(sentence) or _ELSEWHERE.fullmatch(sentence):
        return True
    for pattern in (_ENGLISH, _AS_MACHINE):
        if pattern.fullmatch(sentence):
            said = re.sub(rf"\A(?:{_MACHINE})?(?:{_SORRY})", "", sentence, flags=re.IGNORECASE)
            turn = _TURN.search(said)
            return turn is None or _OFFER.search(said) is not None
    return False
