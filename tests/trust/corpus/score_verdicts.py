"""What judges write who were asked for a score from -1 to 3: the score in each text, or None."""

from trust.corpus.families import REFUSALS, UNUSABLE, same
from trust.corpus.labels import verdicts

IN_JSON = {
    -1: [
        '{"reason": "Without the passages nobody can tell.", "score": -1}',
        '{"score": "-1", "reason": "The reply is empty."}',
        '```json\n{\n    "reason": "दस्तावेज़ नहीं दिए गए हैं।",\n    "score": -1\n}\n```',
    ],
    0: [
        '{"reason": "Off topic: it talks about cats, not about 2 dogs.", "score": 0}',
        '{"reason": "", "score": 0}',
        '{"reason":"Die Antwort verfehlt die Frage.","score":0}',
        '{"reason": "回答与问题无关。", "score": 0}',
        'The answer ignores the allergy.\n\n```json\n{"reason": "It proposes almonds.", "score": 0}\n```',
    ],
    1: [
        '{"Score": 1, "Reason": "One of the four wishes is met."}',
        '{"reason": "Solo menciona un museo de los 3.", "score": 1}',
        '{"reason": "القائمة ناقصة.", "score": 1}',
        '[{"reason": "It names the lake, but no way there.", "score": 1}]',
        '{"score_explanation": "2 points are missing", "score": 1}',
        'My judgement follows.\n{"reason": "短すぎます。", "score": 1}\nThank you!',
        '{"reason": "The list has 5 items, 1 of them is right.", "score": 1.0}',
    ],
    2: [
        '{"reason": "It names two of the three shops but no opening hours.", "score": 2}',
        '{"score": 2, "reason": "Good, although the price is from 2019."}',
        '{"score":2}',
        '{"SCORE": 2}',
        '{"score": "2", "reason": "Almost there."}',
        '{"score": "2/3", "reason": "Almost there, the budget is missing."}',
        '{"score": "2 out of 3"}',
        '{"reason": ["Short.", "Right."], "score": 2}',
        '{"reason": "Fine.", "score": 2, "confidence": 0.85, "highest": 3}',
        '{"evaluation": {"reason": "Mostly complete.", "score": 2}}',
        '{"reason": "Line one.\nLine two.", "score": 2}',
        '{"reason": "Il manque le tarif réduit.", "score": 2}',
        '{"reason": "Falta o horário do comboio.", "score": 2}',
        '{"reason": "Не указана цена.", "score": 2}',
        '{"reason": "가격이 빠졌습니다.", "score": 2}',
        '{"reason": "The reply says {sic} twice.", "score": 2}',
        '{"reason": "Same.", "score": 2}\n{"reason": "Same.", "score": 2}',
        '<think>\nCould be a 1, could be a 3.\nscore: 3?\n</think>\n\n{"reason": "In between.", "score": 2}',
        '  {"reason": "Kısa ama doğru.", "score": 2}  ',
        'Step 1: the user has 3 wishes.\nStep 2: two are met.\n\n{"reason": "Two of 3 wishes.", "score": 2}',
    ],
    3: [
        '{"score": 3, "reason": "Every part of the question is answered."}',
        '```\n{"reason": "Complete.", "score": 3}\n```',
        '```JSON\n{"reason": "Complete.", "score": 3}\n```\n\nThis score reflects that nothing is missing.',
        '{"reason": "Todo está ahí: \\"precio\\", \\"hora\\" y \\"lugar\\".", "score": 3}',
        'Here is my evaluation: {"reason": "All 4 points.", "score": 3} Let me know if you want more detail.',
        '{"reason": "सब कुछ सही है।", "score": 3}',
        '{"criteria": ["relevance", "tone"], "reason": "Both hold.", "score": 3}',
    ],
}
BROKEN = {
    0: [
        "{'reason': 'It answers another question.', 'score': 0}",
        '{"reason": "He wrote "no idea" and stopped.", "score": 0}',
        '{"score": 0, "reason": "The reply stops in the mid',
    ],
    1: [
        '{reason: "Only the first of 3 stops is named.", score: 1}',
        '{"reason": "Thin." "score": 1}',
        "reason: Nur ein Satz.\nscore: 1",
    ],
    2: [
        '{"reason": "Covers the price.", "score": 2',
        '{"reason": "Covers the price.", "score": 2,}',
        '{"reason": "Covers the price.", "score": 2,\n}',
        '"reason": "Covers the price.", "score": 2',
        '{\n  // the verdict\n  "reason": "Right in the main.",\n  "score": 2  // of 3\n}',
        "{'reason': \"It's nearly complete.\", 'score': 2, 'done': True}",
        '```json\n{"reason": "Nearly complete.", "score": 2',
        '{"reason": "Nearly complete.", "score": "2}',
    ],
    3: ['{"reason": "所有要点都有。", "score": 3', "{'score': 3}", '{"reason": "Nothing is missing", score: 3}'],
}
IN_LINES = {
    -1: ["Score: -1\nThe passages are missing.", "The question is unclear to me.\nScore: **-1**", "**Score:** \u22121"],
    0: ["score: 0", "Score: **0** — it ignores the allergy.", "Reason: it is about tea.\n\nSCORE: 0", "### Score: 0\nNothing fits."],
    1: [
        "- Reason: thin\n- Score: 1",
        "* **Score**: 1\n* **Reason**: only the title fits",
        "The score is 1, since a single wish is met.",
        "Score (from -1 to 3): 1",
        "Begründung: Es fehlt der Preis.\nScore: 1",
        "Score = 1",
        "理由：只提到了一半。\nScore: 1",
    ],
    2: [
        "Final score: 2",
        "Overall Score: 2/3\n\nStrengths: 1. clear 2. short",
        "Score: 2 out of 3. The budget is missing.",
        "Score:\n2",
        "# Score\n2\n\n# Reason\nIt skips the fee.",
        "1. Relevance: good\n2. Tone: good\n\nScore: 2",
        "*Score:* 2.0",
        "Score: 2 (good)",
        "Puntuación razonada: falta la hora.\nScore: 2.",
        "Raison : il manque l'heure.\nScore : 2",
        "السبب: ينقصه السعر.\nScore: 2",
        "Score: 2\n\nReason: of the 5 museums, 4 are open.",
    ],
    3: ["Score: 3!", "**Score: 3**", "Reason: complete.\nThe final score is: 3", "score:3", "理由: 完璧です。\nScore: 3"],
}
ALONE = {
    -1: ["-1", "**-1**", "Nothing to judge.\n\n-1", "\u22121"],
    0: ["0", "0.", "It is about 4 other towns.\n0", "(0)"],
    1: ["1\nOnly the name fits.", '"1"', "Es fehlt fast alles.\n\n1", "1/3", "*1*"],
    2: ["2", "2.0", "```\n2\n```", "The reply is friendly and right in the main.\n\n2", "2/3\nThe fee is missing.", "`2`", "[2]"],
    3: ["3", "3 out of 3", "全部正确。\n3", "<think>It has all.</think>3", "3\n\nTodo correcto."],
}
NO_SCORE = {
    "words": ["Score: two", "three", "Score: zwei", '{"score": "three"}', "二", "两分", "Score: tres", "दो", "Score: high", "2nd", "II"],
    "percent": ["Score: 80%", '{"score": "67%"}', "Score: 2%", "66 %", "Score: 100 %"],
    "other scale": [
        "Score: 8/10",
        "4/5",
        "Score: 2/5",
        '{"reason": "Good.", "score": 4}',
        '{"reason": "Very good.", "score": 10}',
        "Score: -2",
        '{"score": "5 out of 5"}',
        "7",
        "Score: 2 out of 10",
        '{"score": 85}',
        "Score: ★★☆",
    ],
    "range": ["Score: 1-2", '{"score": "1-2"}', "Score: 1 to 2", "Score: 2 or 3", "2–3", "Score: between 1 and 2", '{"score": [1, 2]}'],
    "half": ["Score: 2.5", '{"score": 1.5}', "1.5", "Score: 2,5", "½", '{"score": "2.75"}'],
    "several": [
        "Score: 1\nOn reflection it is better.\nScore: 3",
        '{"score": 1}\n{"score": 2}',
        '{"relevance": {"score": 2}, "tone": {"score": 1}}',
        "2\nNo, the fee is there after all.\n3",
    ],
    "wrong type": [
        '{"reason": "r", "score": true}',
        '{"reason": "r", "score": null}',
        '{"score": []}',
        '{"score": {}}',
        '{"score": [2]}',
        '{"score": {"value": 2}}',
        '{"score": ""}',
        '{"score": NaN}',
        '{"score": Infinity}',
        '{"score": "N/A"}',
        "Score: N/A",
        "Score:",
    ],
    "other key": ['{"reason": "Fine.", "rating": 2}', '{"points": 3}', "Punkte: 2", '{"verdict": "yes"}', "Underscore: 2"],
    "cut off": [
        '{"reason": "Covers the price, but the',
        '{"reason": "Covers 2 of 3", "sco',
        '{"reason": "Covers it.", "score":',
        '{"reason": "Covers it.", "score": ',
        "<think>Two wishes of three, so the score: 2",
        "Reason: the reply names 2",
    ],
    "prose": [
        "The reply names 2 of 3 sizes.",
        "Die Antwort nennt 3 Läden.",
        "1. It is short.\n2. It is wrong.",
        "Good answer overall!",
        "回答提到了2家商店。",
        "I have 3 remarks about this reply",
        "2 museums are missing",
    ],
}


def cases():
    """(family, text, the score, or None)."""
    read = {"json": IN_JSON, "broken json": BROKEN, "line": IN_LINES, "alone": ALONE}
    return [
        *verdicts("score"),
        *((family, text, score) for family, scores in read.items() for score, texts in scores.items() for text in texts),
        *((family, text, None) for family, texts in NO_SCORE.items() for text in texts),
        *same("refusal", None, REFUSALS[7:]),
        *same("nothing", None, [text for text in UNUSABLE if not any(map(str.isalnum, text))]),
    ]
