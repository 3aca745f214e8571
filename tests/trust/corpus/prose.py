"""Texts for people: passages, rewritten questions, answers."""

from trust.corpus.families import AROUND, REFUSALS, UNUSABLE, dressed, same

PASSAGES = [
    "Rooibos has no caffeine. It comes from South Africa.",
    "Der Harz hat viele Wege. Hunde sind willkommen.",
    "Le thé vert contient de la caféine. Le rooibos n'en a pas.",
    "Málaga tiene playas largas. ¿Cuál es la mejor? La del sur.",
    "路易波士茶不含咖啡因。它来自南非。",
    "شاي الرويبوس خال من الكافيين. مصدره جنوب أفريقيا.",
    "Oats cost 2 euros; 1. they keep well, 2. they are filling.",
    "Prices rose by 5% in 2024: oats [1] cost more.",
    "🫖 Tea keeps you warm. 🇳🇴 winters are long.",
    "чай без кофеина полезен. Он растёт в Африке.",
]
PASSAGE_FORMS = {
    "plain": "{}",
    "quoted": '"{}"',
    "labelled": "Passage: {}",
    "label and quotes": 'Passage: "{}"',
    "bold label": "**Passage:** {}",
    "style before": "Style: blog\n\n{}",
    "style and label": "Style: encyclopedia\nPassage: {}",
    "bold style": "**Style: blog**\n\n{}",
    "lead-in": "Here is the passage:\n\n{}",
    "lead-in de": "Hier ist der Text:\n\n{}",
    "lead-in fr": "Voici le passage :\n\n{}",
    "fenced": "```\n{}\n```",
    "fenced text": "```text\n{}\n```",
    "answer": "Answer: {}",
    "blank lines": "\n\n{}\n\n",
    "lines": None,
    "lead-in zh": "以下是段落:\n{}",
    "lead-in zh, wide colon": "以下是段落\uff1a\n{}",
}
QUESTIONS = [
    "Is rooibos free of caffeine?",
    "Welche Wege im Harz sind mit Hund erlaubt?",
    "Quel thé vert est sans caféine ?",
    "¿Qué playas de Málaga son mejores en mayo?",
    "路易波士茶含咖啡因吗?",
    "هل شاي الرويبوس خال من الكافيين؟",
    "vegan breakfast without oats for 2 euros",
    "C++ vs Rust: which one for games?",
    "What is the baker's rye bread of 2024?",
    "чай без кофеина для сна",
    "🫖 which tea keeps me warm?",
]
QUESTION_FORMS = {
    "plain": "{}",
    "quoted": '"{}"',
    "curly": "“{}”",
    "bold": "**{}**",
    "labelled": "Rewritten query: {}",
    "label and quotes": 'Query: "{}"',
    "bold label": "**Rewritten question:** {}",
    "lead-in": "Here is the rewritten query:\n\n{}",
    "lead-in before": "Sure! Here is the rewritten question:\n{}",
    "explained": '{}\n\nI replaced "it".',
    "fenced": "```\n{}\n```",
    "fenced text": "```text\n{}\n```",
    "self-contained": "Self-contained query: {}",
    "lead-in de": "Hier ist die Frage:\n\n{}",
    "lead-in fr": "Voici la question :\n\n{}",
    "lead-in zh": "改写后的问题如下:\n{}",
    "lead-in zh, wide colon": "改写后的问题如下\uff1a\n{}",
    "blank lines": "\n\n{}\n\n",
}
PASSAGES_BY_HAND = [
    ("यह चाय बिना कैफीन की है। इसका दाम 200 रुपये है।", "यह चाय बिना कैफीन की है। इसका दाम 200 रुपये है।"),
    ("麦茶にはカフェインがありません。\n夏に飲みます。", "麦茶にはカフェインがありません。 夏に飲みます。"),
    ("보리차에는 카페인이 없습니다.", "보리차에는 카페인이 없습니다."),
    ("Rooibos grows in the Cederberg, where about 90% of", "Rooibos grows in the Cederberg, where about 90% of"),
    ("<think>\nA blog, 4/5 of it about price.\n</think>\n\nRooibos is cheap.", "Rooibos is cheap."),
    ("Passage:\nRooibos is cheap.", "Rooibos is cheap."),
    ("Style: government\n\nPassage:\n\nRooibos is taxed at 5%.", "Rooibos is taxed at 5%."),
    ("“Rooibos is cheap.\n\nIt keeps for 2 years.”", "Rooibos is cheap. It keeps for 2 years."),
    ("Summary: rooibos is cheap", "rooibos is cheap"),
    ("1. Rooibos is cheap.\n2. It keeps.", "1. Rooibos is cheap. 2. It keeps."),
    ("Style and taste: rooibos has both.", "Style and taste: rooibos has both."),
    ("I'm sorry to say that rooibos got dearer in 2024.", "I'm sorry to say that rooibos got dearer in 2024."),
    ("<think>Rooibos is", ""),
    ("```\nRooibos is cheap.", "Rooibos is cheap."),
    ('{"passage": "Rooibos is cheap."}', "Rooibos is cheap."),
    ('{"style": "blog", "passage": "Rooibos is cheap.\\nIt keeps."}', "Rooibos is cheap. It keeps."),
    ('```json\n{"passage": "Rooibos is cheap."}\n```', "Rooibos is cheap."),
    ("**Passage**\n\nRooibos is cheap.", "Rooibos is cheap."),
    ("# Passage\n\nRooibos is cheap.", "Rooibos is cheap."),
    ("**Style: blog**\n\n**Passage**\n\nRooibos is cheap.", "Rooibos is cheap."),
    ("Summary\nRooibos is cheap.", "Rooibos is cheap."),
    ("Summary of teas\nRooibos is cheap.", "Summary of teas Rooibos is cheap."),
    ('{"passage": "I cannot help with that."}', ""),
    ('In JSON, {"text": "tea"} is an object.', 'In JSON, {"text": "tea"} is an object.'),
    ("„Rooibos ist billig.“", "Rooibos ist billig."),
    ("« Le rooibos est bon marché. »", "Le rooibos est bon marché."),
    ("“Rooibos is cheap,” he said. “It keeps.”", "“Rooibos is cheap,” he said. “It keeps.”"),
]
QUESTIONS_BY_HAND = [
    ("क्या रूइबोस में कैफीन है?", "क्या रूइबोस में कैफीन है?"),
    ("はい、こちらです:\nルイボスティーにカフェインはありますか？", "ルイボスティーにカフェインはありますか？"),
    ("ज़रूर:\nक्या यह चाय सस्ती है?", "क्या यह चाय सस्ती है?"),
    ("Is a 4/5 star hotel under 80 euros", "Is a 4/5 star hotel under 80 euros"),
    ("<think>\nit = the hut\n</think>\n\nIs the hut open?", "Is the hut open?"),
    ("<think>it = the hut", ""),
    ("Okay, here's the standalone question: Is the hut open?", "Is the hut open?"),
    ("Search query: hut Oslo open March", "hut Oslo open March"),
    ("Final query: hut Oslo\n\nI left the dog out.", "hut Oslo"),
    ("- Rewritten query: Is the hut open?", "Is the hut open?"),
    ("The query could be: Is the hut open?", "Is the hut open?"),
    ("Huts: which are open in 2024-2025?", "Huts: which are open in 2024-2025?"),
    ("5 huts near Oslo", "5 huts near Oslo"),
    ("I can't sleep, which tea helps?", "I can't sleep, which tea helps?"),
    ("```\nIs the hut open?", "Is the hut open?"),
    ("**Rewritten query**\n\nIs the hut open?", "Is the hut open?"),
    ("# Query\nIs the hut open?", "Is the hut open?"),
    ("Rewritten query\n\nIs the hut open?", "Is the hut open?"),
    ("Rewritten: Is the hut open?", "Is the hut open?"),
    ("__Rewritten query:__ Is the hut open?", "Is the hut open?"),
    ("Rewritten query\uff1aIs the hut open?", "Is the hut open?"),
    ("Query optimisation\nfor databases", "Query optimisation"),
    ('{"query": "Is the hut open?"}', "Is the hut open?"),
    ("{'query': 'Is the hut open?'}", "Is the hut open?"),
    ('```json\n{"rewritten_query": "Is the hut open?"}\n```', "Is the hut open?"),
    ('Here you are:\n{"reason": "it = the hut", "query": "Is the hut open?"}', "Is the hut open?"),
    ('{"question": "Is it open?", "rewritten_question": "Is the hut open?"}', "Is the hut open?"),
    ('{"query": "hut Oslo"}\n{"query": "hut Bergen"}', "hut Oslo"),
    ("What is {x: 1} in Python?", "What is {x: 1} in Python?"),
    ('What does {"query": "tea"} mean?', 'What does {"query": "tea"} mean?'),
    ('{"query": "I cannot help with that."}', ""),
    ("„Ist die Hütte offen?“", "Ist die Hütte offen?"),
    ("‚Ist die Hütte offen?‘", "Ist die Hütte offen?"),
    ("»Ist die Hütte offen?«", "Ist die Hütte offen?"),
    ("「山小屋は開いていますか？」", "山小屋は開いていますか？"),
    ("『山小屋は開いていますか？』", "山小屋は開いていますか？"),
    ("「お茶」と「麦茶」", "「お茶」と「麦茶」"),
    ('"hut" or "cabin"', '"hut" or "cabin"'),
]
ANSWER_FORMS = [
    "{}",
    "{}\n\nSecond paragraph.",
    "- {}\n- More.",
    "# Tea\n{}",
    "I'm sorry to hear that. {}",
    "{} I can't say more.",
    "1. {}",
]
CANNOT_BUT = [
    "I'm sorry, but rooibos has no caffeine, so it will not keep you awake.",
    "I cannot recommend coffee to you. Rooibos has no caffeine, and mint tea is another choice.",
    "Es tut mir leid, dass Sie schlecht schlafen. Rooibos enthält kein Koffein.",
    "Why can't I help a vegan with breakfast?",
]


def passages():
    """(family, text, the passage on one line, empty where there is none)."""
    bodies = [(name, form.replace("{}", text), text) for name, form in PASSAGE_FORMS.items() if form for text in PASSAGES]
    bodies += [("lines", text.replace(". ", ".\n"), text) for text in PASSAGES]
    return [
        *dressed(bodies, *AROUND),
        *(("by hand", text, passage) for text, passage in PASSAGES_BY_HAND),
        *same("unusable", "", UNUSABLE),
        *same("only a label", "", ["Passage:", "Style: blog", "**Passage:**", '""']),
    ]


def rewrites():
    """(family, text, the question, empty where there is none)."""
    bodies = [(name, form.replace("{}", text), text) for name, form in QUESTION_FORMS.items() for text in QUESTIONS]
    return [
        *dressed(bodies, *AROUND),
        *(("by hand", text, question) for text, question in QUESTIONS_BY_HAND),
        *same("unusable", "", UNUSABLE),
        *same("only a label", "", ["Query:", "**Query:**", '""', "Rewritten query:", "# Rewritten query", '{"query": ""}']),
    ]


def answers():
    """(family, text, what is said to the user, empty where the model only declines or says nothing)."""
    bodies = [("answer", form.replace("{}", text), form.replace("{}", text)) for form in ANSWER_FORMS for text in PASSAGES]
    thoughts = ["{}", "<think>hm</think>{}", "hm 1. [2]</think>\n{}", "<think>\nfirst\n</think>\n\n<think>then</think>\n{}", " \n{}\n "]
    said = [(family, thought.replace("{}", text), outcome) for thought in thoughts[:3] for family, text, outcome in bodies]
    more = dressed(bodies, *thoughts[3:])
    silent = ["", " ", "\n\n", "<think>", "<think>It is mint", "<think>hm</think>", "</think>"]
    refused = [text for refusal in REFUSALS for text in (refusal, f"<think>No.</think>{refusal}", f"**{refusal}**")]
    return [*said, *more, *((("no refusal"), text, text) for text in CANNOT_BUT), *same("silent", "", [*silent, *refused])]
