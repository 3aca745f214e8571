"""Statements about the user: which ones each text chooses, by number, as copies, or with scores."""

import json

from trust.corpus.families import AFTER, AROUND, BEFORE, FENCES, UNUSABLE, dressed, same

PERSONA = {
    "1": "I am vegan.",
    "2": "I own a dog called Bo.",
    "3": "I live in Oslo.",
    "4": "Ich wohne in der Nähe von Köln.",
    "5": "Je n'aime pas le café.",
    "6": "我喜欢喝茶。",
    "7": "أعيش في القاهرة.",
    "10": "I run 10 km every Sunday.",
    "11": "I am allergic to nuts & seeds.",
    "12": "My budget is 200 euros.",
}
CHOICES = [["1"], ["4", "1"], ["2", "3", "7"], ["10", "12"], ["12", "1", "2"], ["5", "6"]]
IDS = {
    "numbers": lambda ids: f"[{', '.join(ids)}]",
    "texts": json.dumps,
    "floats": lambda ids: f"[{', '.join(f'{number}.0' for number in ids)}]",
    "single quotes": repr,
    "comma": lambda ids: f"[{', '.join(ids)},]",
    "object": lambda ids: json.dumps({"statements": [int(number) for number in ids]}),
    "objects": lambda ids: json.dumps([{"id": int(number)} for number in ids]),
    "numbered": lambda ids: "\n".join(f"{number}. {PERSONA[number]}" for number in ids),
    "colon": lambda ids: "\n".join(f"{number}: {PERSONA[number]}" for number in ids),
    "bracket": lambda ids: "\n".join(f"({number}) {PERSONA[number]}" for number in ids),
    "bullets": lambda ids: "\n".join(f"- {number}. {PERSONA[number]}" for number in ids),
    "one per line": lambda ids: "\n".join(ids),
    "commas": lambda ids: ", ".join(ids),
    "and": lambda ids: " and ".join(ids),
    "called": lambda ids: "\n".join(f"Statement {number}" for number in ids),
}
COPIES = {
    "lines": lambda ids: "\n".join(PERSONA[number] for number in ids),
    "numbered": lambda ids: "\n".join(f"{number}. {PERSONA[number]}" for number in ids),
    "renumbered": lambda ids: "\n".join(f"{place}) {PERSONA[number]}" for place, number in enumerate(ids, 1)),
    "bullets": lambda ids: "\n".join(f"- {PERSONA[number]}" for number in ids),
    "quoted": lambda ids: "\n".join(f'"{PERSONA[number]}"' for number in ids),
    "bold": lambda ids: "\n".join(f"* **{PERSONA[number]}**" for number in ids),
    "other case": lambda ids: "\n".join(PERSONA[number].upper() for number in ids),
    "no full stop": lambda ids: "\n".join(PERSONA[number].rstrip(".。") for number in ids),
    "json": lambda ids: json.dumps([PERSONA[number] for number in ids], ensure_ascii=False),
    "escaped json": lambda ids: json.dumps([PERSONA[number] for number in ids]),
    "json lines": lambda ids: json.dumps([PERSONA[number] for number in ids], indent=1, ensure_ascii=False),
    "python": lambda ids: repr([PERSONA[number] for number in ids]),
    "blank lines": lambda ids: "\n\n".join(PERSONA[number] for number in ids),
    "indented": lambda ids: "\n".join(f"   - {PERSONA[number]}  " for number in ids),
}
SCORES = {
    "object": lambda pairs: json.dumps(dict(pairs)),
    "lines": lambda pairs: json.dumps(dict(pairs), indent=2),
    "numbers as keys": lambda pairs: "{" + ", ".join(f"{number}: {score}" for number, score in pairs) + "}",
    "single quotes": lambda pairs: repr(dict(pairs)),
    "comma": lambda pairs: json.dumps(dict(pairs))[:-1] + ",}",
    "texts as scores": lambda pairs: json.dumps({number: str(score) for number, score in pairs}),
    "objects": lambda pairs: json.dumps([{"id": number, "score": score} for number, score in pairs]),
    "whole numbers as ids": lambda pairs: json.dumps([{"id": int(number), "score": score} for number, score in pairs]),
    "relevance": lambda pairs: json.dumps([{"index": number, "relevance": score} for number, score in pairs]),
    "nested": lambda pairs: json.dumps({"scores": dict(pairs)}),
    "object of objects": lambda pairs: json.dumps({number: {"score": score} for number, score in pairs}),
    "statements as keys": lambda pairs: json.dumps({f"Statement {number}": score for number, score in pairs}),
}
NONE = ["None", "None.", "None of the statements is relevant.", "Nothing", "N/A", "No statement is relevant."]
IDS_BY_HAND = [
    ("Relevant statements: 1, 4", ["1", "4"]),
    ("Statement 10 (running) decides.", None),
    ("I would choose statements 2 and 3.", ["2", "3"]),
    ("Die Aussagen sind [4, 1].", ["4", "1"]),
    ("相关的陈述是[6, 5]。", ["6", "5"]),
    ("العبارات: [7]", ["7"]),
    ("प्रासंगिक कथन: [2, 3]", ["2", "3"]),
    ("関連するのは [6] です。", ["6"]),
    ("Las frases [10, 12] ayudan; las otras 8 no.", ["10", "12"]),
    ("- 2\n- 3", ["2", "3"]),
    ("#1, #4", ["1", "4"]),
    ("**1**, **4**", ["1", "4"]),
    ('{"relevant": [1, 4], "reason": "diet and place"}', ["1", "4"]),
    ('[{"id": 1, "reason": "diet"}, {"id": 4, "reason": "place"}]', ["1", "4"]),
    ('{"1": "diet", "4": "place"}', ["1", "4"]),
    ("[1, 4] because 3 of the 12 statements are about food", ["1", "4"]),
    ("1 - I am vegan.\n4 - Ich wohne in der Nähe von Köln.", ["1", "4"]),
    ("Statement 1: I am vegan.\nStatement 10: I run 10 km every Sunday.", ["1", "10"]),
    ("Statements 1 and 4 are relevant; statement 2 is not.", None),
    ("Statements: 1, 4, and 10", ["1", "4", "10"]),
    ("IDs: 12, 2", ["12", "2"]),
    ("PTKB 1, PTKB 4", None),
    ("No. 3 and no. 7", None),
    ('"1"', ["1"]),
    ("(11)", ["11"]),
    ("1\n\nThe diet decides.", ["1"]),
    ("The 2 dogs do not matter, the budget does: [12]", ["12"]),
    ("<think>\nStatement 2? The 12?\n</think>\n\nStatement 3", ["3"]),
    ("1. I am vegan.\n2. I own a d", ["1", "2"]),
    ("None of the 12 statements is relevant.", []),
    ("No statements are relevant to 2 dogs", []),
    ("N/A", []),
    ("statements 2-4", None),
    ("Statements 2 to 4 are relevant.", None),
    ("Statements 2 through 4 and 7", None),
    ("2-4", None),
    ("2 - 4", None),
    ("[1-3]", None),
    ("1–3, 12", None),
    ("10 - I run 10 km every Sunday.", ["10"]),
    ("Statement 1 - 3 dogs are named", ["1"]),
    ('{"1": true, "2": false}', ["1"]),
    ('{"1": "relevant", "2": "not relevant"}', ["1"]),
    ('{"1": false, "2": false}', []),
    ("No statement is relevant except statement 2", None),
    ("None of them except 2 and 4.", None),
    ("Not statement 3 but statement 4", None),
    ("Not only statement 3 but also statement 4", None),
    ("2024-2025", None),
    ("The first and the fourth.", None),
    ("statement one", None),
    ("All of them.", None),
    ("所有的都相关。", None),
    ("I moved in 2024 and run 10 km.", None),
    ("Der Nutzer hat 2 Hunde.", None),
    ('{"statements": [', None),
]
SCORES_BY_HAND = [
    ('Here are the scores: {"1": 0.9, "4": 0.5} as asked.', [("1", 0.9), ("4", 0.5)]),
    ('Die Bewertung:\n```json\n{"4": 0.8}\n```\nDie anderen 9 passen nicht.', [("4", 0.8)]),
    ('评分如下: {"6": 0.7, "5": 0.2}', [("6", 0.7), ("5", 0.2)]),
    ('الدرجات: {"7": 1}', [("7", 1.0)]),
    ('अंक: {"2": 0.25}', [("2", 0.25)]),
    ('スコア: {"10": 0.6, "3": 0.1}', [("10", 0.6), ("3", 0.1)]),
    ('{"1. I am vegan.": 0.9}', [("1", 0.9)]),
    ('{"I own a dog called Bo.": 0.4}', [("2", 0.4)]),
    ('{"1": "0.9", "4": "half"}', [("1", 0.9)]),
    ('{"1": "90%", "4": 0.5}', [("4", 0.5)]),
    ('{"1": "4/5", "4": 0.5}', [("4", 0.5)]),
    ('{"1": "0.5-0.7", "4": 0.5}', [("4", 0.5)]),
    ('{"id": 1, "score": 0.9}\n{"id": 4, "score": 0.5}', [("1", 0.9), ("4", 0.5)]),
    ('{"1": {"score": 0.9, "reason": "diet"}, "4": {"score": 0.5, "reason": "place"}}', [("1", 0.9), ("4", 0.5)]),
    ('[{"statement": "I am vegan.", "score": 0.3}]', [("1", 0.3)]),
    ('[{"id": "1", "score": 0.9, "why": "2 dogs"}, {"id": "4"}]', [("1", 0.9)]),
    ("{1: 0.9, 4: 0.5, }", [("1", 0.9), ("4", 0.5)]),
    ('<think>{"2": 1.0}</think>{"1": 0.9}', [("1", 0.9)]),
    ('{"1": 5e-1}', [("1", 0.5)]),
    ('{"1": " 0.5 "}', [("1", 0.5)]),
    ('{"results": [{"id": 1, "score": 0.9}, {"id": 4, "score": 0.5}]}', [("1", 0.9), ("4", 0.5)]),
    ('{"reason": "diet", "scores": {"1": 0.9}}', [("1", 0.9)]),
    ('{"scores": {"1": 0.9}, "note": "the diet"}', [("1", 0.9)]),
    ('{"scores": {"1": {"score": 0.9}}, "note": "the diet"}', [("1", 0.9)]),
    ('{"1": 0.9, "2": {"why": "a dog"}}', [("1", 0.9)]),
    ('{"results": []}', []),
    ("No statement is relevant.", []),
    ('{"99": 0.9}', []),
    ("1: 0.9\n4: 0.5", None),
    ("Statement 1 is very relevant (0.9).", None),
    ("0.9", None),
    ("high", None),
]
PROSE = ["Sure!", "The user has 2 dogs and wants food.", "It depends on the budget.", "See above.", "Gerne!", "好的。"]


def ids():
    """(family, text, the ids, or None where the text says nothing)."""
    bodies = [(name, write(chosen), chosen) for name, write in IDS.items() for chosen in CHOICES]
    return [
        *dressed(bodies, *AROUND, *FENCES),
        *dressed(bodies, "{}", *BEFORE, *AFTER),
        *(("by hand", text, chosen) for text, chosen in IDS_BY_HAND),
        *same("none", [], [*NONE, "[]", "```json\n[]\n```", "<think>1?</think>None", '{"statements": []}']),
        *same("unusable", None, [*UNUSABLE, *PROSE]),
        *same("unknown numbers are left out", ["1"], ["[1, 99]", "1, 99", "[99, 1]", '["1", "x"]', "1. I am vegan.\n99. I fly."]),
        *same("repeats", ["1", "2"], ["[1, 2, 1]", "1, 2, 1", "[1, 1, 2]", '["1", 2, "2"]']),
        *same("wrong types", ["1"], ["[1, null]", "[1, {}]", "[1, [99]]", "[1, true]", "[1, -2]", "[1, 2.5]"]),
        *same("cut off", ["4", "1"], ["[4, 1", '["4", "1"', '{"statements": [4, 1']),
    ]


def copies():
    """(family, text, the ids of the statements that are copied, or None)."""
    bodies = [(name, write(chosen), chosen) for name, write in COPIES.items() for chosen in CHOICES]
    return [
        *dressed(bodies, *AROUND, *FENCES),
        *dressed(bodies, *BEFORE, *AFTER),
        *same("none", [], [*NONE, "[]", "{}", "```json\n[]\n```", *PROSE]),
        *same("unusable", None, [*UNUSABLE, '["I am vegan.", "I own a d', '["I am vegan."', '[\n"I am vegan.",\n"I ow']),
        *same("one letter wrong", ["2"], ["I own a dog caled Bo.", "I owm a dog called Bo", "I own a dog, called Bo!"]),
        *same("cut off", ["1"], ["I am vegan.\nI ow"]),
        *same("invented", ["1"], ["I am vegan.\nI own a boat.", '["I am vegan.", "I love opera."]']),
        *same("wrong types", [], ["[1.5]", "[null]"]),
    ]


def scores():
    """(family, text, pairs of id and score, best first, or None)."""
    drawn = [[(number, round(0.9 - place / 5, 2)) for place, number in enumerate(chosen)] for chosen in CHOICES]
    bodies = [(name, write(pairs), pairs) for name, write in SCORES.items() for pairs in drawn]
    return [
        *dressed(bodies, *AROUND, *FENCES),
        *dressed(bodies, "{}", *BEFORE, *AFTER),
        *(("by hand", text, pairs) for text, pairs in SCORES_BY_HAND),
        *same("none", [], [*NONE, "[]", "{}", "```json\n{}\n```", '{"1": 0, "2": 0.0}']),
        *same("unusable", None, [*UNUSABLE, *PROSE, "Statement 3 matters."]),
        *same(
            "cut to the range",
            [("1", 1.0)],
            ['{"1": 1.5}', '{"1": 7}', '{"1": "3"}', '{"1": Infinity}', '{"1": 1e999}', '{"1": 1.5, "2": -1}'],
        ),
        *same(
            "another scale is cut to the range",
            [("1", 1.0), ("2", 1.0)],
            ['{"1": 8, "2": 3}', '[{"id": 1, "score": 80}, {"id": 2, "score": 30}]'],
        ),
        *same(
            "no number",
            [("1", 0.5)],
            [
                '{"1": 0.5, "2": "high"}',
                '{"1": 0.5, "2": null}',
                '{"1": 0.5, "2": true}',
                '{"1": 0.5, "2": []}',
                '{"1": 0.5, "2": {}}',
                '{"1": 0.5, "2": NaN}',
                '{"1": 0.5, "2": ""}',
                '{"1": 0.5, "99": 0.5}',
            ],
        ),
        *same("cut off", None, ['{"1": 0.5, "2": 0.', '{"1": 0.5', '{"1":', '[{"id": 1, "sco']),
        *same(
            "best first",
            [("2", 0.9), ("1", 0.1)],
            ['{"1": 0.1, "2": 0.9}', "{1: .1, 2: .9}", '[{"id": 1, "score": 0.1}, {"id": 2, "score": 0.9}]'],
        ),
    ]
