r"""Completions that only decline, in the languages of likely users. Pure functions."""

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


_ELSEWHERE = [
    re.compile(
        rf"(?:(?:{sorry})\s*)*(?:(?:{machine})\s*)?(?:{unable})[.!。！]*(?:\s*(?:{offer})[^.!?。！？]{{0,120}}[.!?。！？]*)?", re.IGNORECASE
    )
    for sorry, machine, unable, offer in (
        (  # German
            r"(?:es )?tut mir (?:sehr |wirklich )?leid[,.!]?(?: aber)?|entschuldigung[,.!]?(?: aber)?|leider|ich bedaue?re[,.]?(?: aber)?",
            r"als (?:eine? )?(?:ki|künstliche intelligenz|sprachmodell|assistent\w*|ki-\w+),?",
            r"(?:(?:dabei|damit|hierbei|das|dies) )?(?:ich )?(?:kann|darf|könnte)(?: ich| ihnen| dir| euch| leider)*"
            r"(?: (?:dabei|damit|hierbei|das|dies|(?:bei |auf )?(?:dies|ihr|dein)e?[rnms]? (?:anfrage|frage|bitte|anliegen"
            r"|thema)))?(?: leider)?"
            r" nicht (?:weiter)?(?:helfen|beantworten|antworten|erfüllen|bearbeiten|nachkommen|unterstützen|tun|behilflich sein)"
            r"|ich bin nicht in der lage,? (?:(?:dies|ihr|dein)e?[rnms]? (?:anfrage|frage|bitte) zu \w+|(?:dabei|damit) zu helfen)",
            r"kann ich|gibt es|wenn|falls|bitte|gerne|lassen sie|lass mich|aber (?:gerne|ich helfe)",
        ),
        (  # French
            r"(?:je suis (?:vraiment )?)?désolée?[,.!]?(?: mais)?|je m['’]excuse[,.]?(?: mais)?|malheureusement,?"
            r"|je regrette[,.]?(?: mais)?",
            r"en tant qu['’](?:ia|intelligence artificielle|assistante?|modèle de langage)[^,.]{0,30},",
            r"je (?:ne (?:peux|suis)|ne puis) pas (?:en mesure de |capable d['e’] ?)?(?:vous |t['’]|te |y )?"
            r"(?:aider|répondre|traiter|satisfaire|fournir|faire|accéder)"
            r"(?: (?:avec|à|sur|dans|pour))?(?: (?:cela|ça|ceci|(?:cette?|votre|ta|ce) (?:demande|question|requête|sujet|information)))?",
            r"puis-je|y a-t-il|est-ce|si vous|n['’]hésitez|veuillez|mais je (?:peux|serai)",
        ),
        (  # Spanish
            r"lo siento(?: mucho)?[,.!]?(?: pero)?|lo lamento[,.]?(?: pero)?|disculpa[,.]?(?: pero)?|lamentablemente,?"
            r"|desafortunadamente,?",
            r"como (?:una? )?(?:ia|inteligencia artificial|asistente|modelo de lenguaje)[^,.]{0,30},",
            r"no (?:puedo|podré|me es posible|soy capaz de) (?:ayudar(?:te|le|los)?|responder|contestar|cumplir|completar"
            r"|procesar|proporcionar|hacer)"
            r"(?: (?:con|a|en))?(?: (?:eso|esto|ello|lo|(?:es[ae]|est[ae]|tu|su) (?:solicitud|pregunta|petición|consulta|tema"
            r"|información)))?",
            r"¿|si (?:necesitas|tienes|quieres|desea)|por favor|puedo ayudarte",
        ),
        (  # Portuguese
            r"(?:sinto muito|lamento|desculpe?|me desculpe)[,.!]?(?: mas)?|infelizmente,?",
            r"como (?:uma? )?(?:ia|inteligência artificial|assistente|modelo de linguagem)[^,.]{0,30},",
            r"(?:eu )?não (?:posso|consigo|poderei|sou capaz de|me é possível) "
            r"(?:(?:te |lhe |o )?ajudar|ajudá-l[oa]|responder|atender|cumprir|completar|processar|fornecer|fazer)"
            r"(?: (?:com|a|à|em))?(?: (?:isso|isto|(?:ess[ae]|est[ae]|sua|seu) (?:solicitação|pergunta|pedido|tema|informação)))?",
            r"posso (?:te )?ajudar|há (?:algo|mais)|se (?:precisar|quiser|você)|por favor",
        ),
        (  # Italian
            r"mi (?:di)?spiace[,.!]?(?: ma)?|sono (?:spiacente|desolat[oa])[,.]?(?: ma)?|purtroppo,?|mi scuso[,.]?(?: ma)?",
            r"(?:come|in quanto) (?:ia|intelligenza artificiale|assistente|modello linguistico)[^,.]{0,30},",
            r"non (?:posso|sono in grado di|mi è possibile) (?:(?:ti |la )?aiutar(?:ti|la|vi|e)|rispondere|soddisfare|elaborare"
            r"|fornire|farlo|fare)"
            r"(?: (?:con|a|in|su))?(?: (?:ciò|questo|quest[oa] (?:richiesta|domanda|argomento|informazione)|(?:la )?(?:tua|sua) "
            r"(?:richiesta|domanda)))?",
            r"posso aiutar|c['’]è (?:altro|qualcos)|se (?:hai|ha|vuoi|desideri)|per favore",
        ),
        (  # Dutch
            r"(?:het )?spijt me[,.!]?(?: maar)?|sorry[,.!]?(?: maar)?|helaas,?|mijn excuses[,.]?(?: maar)?",
            r"als (?:een )?(?:ai|kunstmatige intelligentie|taalmodel|assistent|ai-\w+),?",
            r"(?:daar|hier)? ?(?:ik )?(?:kan|mag)(?: ik)?(?: je| u| jou)?"
            r"(?: (?:daar|hier|daarbij|hierbij|daarmee|hiermee|dat|dit|(?:op |aan |met )?(?:deze|dit|uw|je|jouw) (?:verzoek"
            r"|vraag|onderwerp)))?(?: helaas)?"
            r" niet (?:(?:mee|bij|aan) )?(?:verder )?(?:helpen|beantwoorden|antwoorden|voldoen|verwerken|doen|ingaan)",
            r"kan ik|is er|als (?:je|u)|laat (?:het )?me|gerust",
        ),
        (  # Chinese
            r"(?:很|非常|真的)?(?:抱歉|对不起|對不起|不好意思|遗憾|遺憾)[，,。！!]?(?:但是?)?",
            r"作为(?:一个|一名)?(?:人工智能|AI|语言模型)[^，,。]{0,15}[，,]",
            r"我(?:目前)?(?:无法|無法|不能|没办法|沒辦法)(?:为您|为你|给您)?(?:提供|回答|回應|回应|帮助|幫助|协助|協助|完成|处理|處理|满足|讨论|满足)"
            r"(?:您|你)?(?:的)?(?:这个|這個|该|該|这|此|这样的|相关|任何)?(?:的)?(?:问题|問題|请求|請求|要求|信息|内容|內容|话题|帮助|服务)?",
            r"如果|请|請|您(?:可以|还)|有(?:什么|其他)",
        ),
        (  # Japanese
            r"(?:大変|誠に)?(?:申し訳(?:ございません|ありません|ない)(?:が|けど)?|すみません(?:が)?|ごめんなさい|残念ながら|恐れ入りますが)[、,。]?",
            r"(?:私は)?AI(?:アシスタント|言語モデル)?(?:として|なので|であるため)[、,]?",
            r"(?:私(?:は|に)は?)?(?:その|この|そのような|このような)?ご?(?:質問|リクエスト|要求|依頼|要望|内容|情報|件|それ|これ)?(?:に|を|は|には|については|について)?お?"
            r"(?:答え|回答|応え|応じ|対応|手伝い|手伝う|提供|お?力)(?:する|し|る)?(?:こと)?(?:は|が|を)?"
            r"(?:できません|できかねます|いたしかねます|致しかねます|しかねます|ません)",
            r"他に|ほかに|もし|ご質問|何か",
        ),
    )
]
"""Whole refusals in other languages: an apology, the refusal itself, and offers."""


def is_refusal(text: str) -> bool:
    """Whether the whole text only declines: it is short, declines from its first words on, and only offers help after that.

    It knows English refusals, and common sentences in Chinese, Dutch, French, German, Italian, Japanese, Portuguese and Spanish.

    Example:
        >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("I'm sorry, but rooibos has no caffeine.")
        (True, False)
        >>> is_refusal("Es tut mir leid, aber dabei kann ich nicht helfen."), is_refusal("抱歉，我无法回答这个问题。")
        (True, True)
    """
    if len(text) > 2 * LONGEST:
        return False
    text = " ".join(text.split()).strip("*_\"'“”„«»「」` ")
    if len(text) > LONGEST:
        return False
    declined = _DECLINES.match(text)
    if declined is None:
        return any(form.fullmatch(text) for form in _ELSEWHERE)
    others = [other for other in re.split(r"(?<=[.!?])\s+", text[declined.end() :]) if other]
    return all(_ASIDE.match(other) and not re.search(_TURN, other, re.IGNORECASE) for other in others)
