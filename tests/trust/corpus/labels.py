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
    """(family, text, the label from 0 to 4, or None), for the re-ranker and the judge alike."""
    bodies = [
        (family, form.format(label=label, reason=reason), label)
        for family, forms in (("labelled", LABELLED), ("opening", OPENING))
        for form in forms
        for label, reason in zip((0, 1, 2, 3, 4, 2), REASON.values(), strict=True)
    ]
    return [
        *dressed(bodies, *AROUND, *FENCES),
        *same("no label", None, NO_LABEL),
        *same("off the scale", None, OFF_SCALE),
        *same("several", None, SEVERAL),
        *same("unusable", None, UNUSABLE),
    ]


def verdicts():
    """(kind of verdict, text, value, or None)."""
    bodies = []
    for kind, words in VERDICTS.items():
        key = KEYS[kind]
        for said in words:
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
        *((kind, f'{{"reason": "r", "{key}": {value}}}', None) for kind, key in KEYS.items() for value in wrong),
        *((kind, text, None) for kind in KEYS for text in [*REFUSALS[:7], "", "...", "<think>3", "The passage fits.", '{"reason": "It ']),
    ]
