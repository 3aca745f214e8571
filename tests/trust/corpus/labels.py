"""Relevance labels and verdicts of judges: what each text decides."""

import json

from trust.corpus.families import AROUND, FENCES, REFUSALS, UNUSABLE, dressed, same

REASON = {
    "en": "It names a tea, but not the price.",
    "de": "Der Text nennt einen Tee, aber keinen Preis.",
    "fr": "Le passage parle du thé, sans le prix.",
    "es": "El texto habla del té, pero no del precio.",
    "zh": "这段文字提到了茶。",
    "ar": "يذكر النص الشاي.",
}
LABELLED = [
    "Score: {label}",
    "score: {label}",
    "**Score:** {label}",
    "Score: **{label}**",
    "Score: {label}/4",
    "Score: {label} out of 4",
    "Score: {label}\n{reason}",
    "Relevance: {label}\n\n{reason}",
    "Rating: {label}. {reason}",
    "Label: {label}\nReason: {reason}",
    "The relevance score is {label}.",
    "I would rate this {label}.",
    '{{"score": {label}}}',
    '{{"score": {label}, "reason": "{reason}"}}',
    "Grade: {label} - {reason}",
]
OPENING = [
    "{label}",
    "{label}.",
    "{label}\n{reason}",
    "{label}: {reason}",
    "**{label}**\n{reason}",
    "{label}/4\n{reason}",
    "({label})",
    '"{label}"',
    "{label}.0",
]
NO_LABEL = ["The passage is relevant.", "No idea.", "Der Text passt gut.", "部分相关", "high", "relevant", "A", "½", "four", "N/A"]
OFF_SCALE = ["7", "Score: 5", "Score: 42", "Score: 10/10", "9\nVery good.", "Rating: 8", "Label: 100"]
SEVERAL = ["Score: 1 or score: 3", "Score: 2. On reflection, score: 3", "Rating: 0\nRating: 4"]

BY_HAND = {
    0: [
        "0 - it is an advert",
        "The score is 0.",
        "Score: 0 because none of the 3 wishes is met.",
        "{'score': 0}",
        "Nichts passt.\n\nScore: 0/4",
        "Relevance: 0 of 4",
        "<think>3? no</think>\n0",
        "评分 0",
        "Score (0-4): 0",
    ],
    1: [
        "1)",
        "# Score\n1",
        "(1) touches the topic",
        "My rating: 1, as it has 4 lines on tea.",
        '{"label": 1, "reason": "2 of 5 wishes"}',
        "The passage deserves 1.",
        "1 – kaum",
        "*1*",
        "分数: 1",
        "1 out of 4",
        "Score - 1",
        "Score: 1 (out of 4)",
    ],
    2: [
        '{"reason": "Parts fit.", "score": 2',
        '{reason: "Parts fit.", score: 2,}',
        '{"relevance": "2"}',
        "**Relevance score**: **2**",
        "I would rate 2.",
        "Score = 2",
        "SCORE: 2.0",
        "2!",
        "Score: 2 / 4",
        "Score: 2\nScore: 2",
        "التقييم: 2",
        "अंक: 2",
        "Score:\n2",
        "- Score: 2",
        "Score (0-4): 2",
        "Score (0 to 4): **2**",
        "Score (on a scale of 0-4): 2",
        "Score: 2, 3 huts are missing",
        "Score: 2 and 3 huts are missing",
        "Score: 2 (of the 4 wishes)",
        "Score: 2,0",
    ],
    3: [
        "3/4 – lo más importante está",
        "Rating: 3 stars",
        "The passage lists 3 trails.",
        "Score: 3. It names 2 of the 5 trails.",
        "関連度: 3",
        "Final answer: 3",
        "I think it is a 3",
        "It is relevant.\n\n3",
        "Grade: **3**\nOnly 1 fact is missing.",
        "|Score|3|",
        "Score-3",
        "75% fits: 3",
        "3. The 10% discount is named",
        "Grade: 3 - 4 huts are named",
        "On a scale from 0 to 4, 3",
        "Score: 3 of 4",
        "Score: 3 or so",
    ],
    4: ["4!", "Score: 4/4\nTodo está.", "4 out of 4", "4.00", "label=4", "4\n\n4", "完全相关: 4", "Rated 4 for its prices"],
    None: [
        "three",
        "Score: drei",
        "Score: high",
        "三",
        "II",
        "Score: N/A",
        "75%",
        "Score: 90 %",
        "Score: 7/10",
        "6/10",
        "10/10",
        "3.5",
        "Score: 2.5",
        "0.75",
        "2 or 3",
        "3, 4",
        "Score: between 2 and 3",
        "1. It is short.\n2. It fits.",
        "-1",
        "33",
        "Score: 2024",
        "Score: " + "1" * 5000,
        '{"score": null}',
        '{"score": true}',
        '{"score": []}',
        '{"score": ',
        '{"reason": "Parts of the',
        "<think>Score: 3",
        "null",
        "Text 1: score 4. Text 2: score 2.",
        '{"score": 1}\n{"score": 4}',
        "★★★☆",
        "0-4",
        "2-3",
        "2,5",
        "4%",
        "4 %",
        "4 out of 10",
        "4 of 12 huts",
        "3/5",
        "Score: -1",
        "**Score:** -1",
        "Score: \u22121",
        "Score: 3/5",
        "Score: 2 out of 10",
        "Score: 2 (out of 10)",
        "Score: 2 stars out of 5",
        "Score: 2 to 3",
        "Score: 2 - 3",
        "Score: 2 bis 3",
        "Score: 2~3",
        "Score: 2,5",
        "Score: 3 %",
        "Score: 3 percent",
        "Score: 3/4, 4/4",
        "The text lists 2-3 huts. 3",
    ],
}

YES = ["Yes", "yes.", "YES", "true", "**Yes**"]
NO = ["No", "no.", "NO", "false", "**No**"]
VERDICTS = {
    "score": ["-1", "0", "1", "2", "3"],
    "yes_no": [*YES, *NO],
    "choice": ["A", "B", "tie", "Tie", "TIE"],
    "numbers": ["[1, 3]", "[2]", "[]", "[1, 2, 3]"],
}
KEYS = {"score": "score", "yes_no": "verdict", "choice": "better", "numbers": "nuggets"}


def meant(kind, said):
    """What a verdict's word means."""
    if kind == "yes_no":
        return said in YES
    if kind == "choice":
        return said if said in ("A", "B") else "tie"
    return json.loads(said)


def labels():
    """(family, text, the label from 0 to 4, or None), as the re-ranker reads them."""
    bodies = [
        (family, form.format(label=label, reason=reason), label)
        for family, forms in (("labelled", LABELLED), ("opening", OPENING))
        for form in forms
        for label, reason in zip((0, 1, 2, 3, 4, 2), REASON.values(), strict=True)
    ]
    return [
        *dressed(bodies, *AROUND, *FENCES),
        *((f"by hand {label}", text, label) for label, texts in BY_HAND.items() for text in texts),
        *same("no label", None, NO_LABEL),
        *same("off the scale", None, OFF_SCALE),
        *same("several", None, SEVERAL),
        *same("unusable", None, UNUSABLE),
    ]


def verdicts(kind):
    """(kind of verdict, text, value, or None)."""
    bodies = []
    key = KEYS[kind]
    for said in VERDICTS[kind]:
        value = said if kind in ("score", "numbers") else json.dumps(said)
        for reason in (REASON["en"], REASON["de"], REASON["zh"]):
            quoted = json.dumps(reason, ensure_ascii=False)
            bodies += [
                (kind, f'{{"reason": {quoted}, "{key}": {value}}}', meant(kind, said)),
                (kind, f'{{\n  "reason": {quoted},\n  "{key}": {value}\n}}', meant(kind, said)),
                (kind, f"Reason: {reason}\n{key.title()}: {said}", meant(kind, said)),
                (kind, f"**{key}**: {said}\n\n{reason}", meant(kind, said)),
            ]
        bodies.append((kind, said, meant(kind, said)))
    wrong = ["null", '"perhaps"', "{}", '{"a": 1}', "7.5", "[null]"]
    return [
        *dressed(bodies, *AROUND, *FENCES),
        *((kind, f'{{"reason": "r", "{key}": {value}}}', None) for value in wrong),
        *same(kind, None, [*REFUSALS[:7], "", "...", "<think>3", "The passage fits.", '{"reason": "It ']),
    ]
