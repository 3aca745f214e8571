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
    "set": lambda ids: f"{{{', '.join(ids)}}}",
    "object": lambda ids: json.dumps({"statements": [int(number) for number in ids]}),
    "objects": lambda ids: json.dumps([{"id": int(number)} for number in ids]),
    "numbered": lambda ids: "\n".join(f"{number}. {PERSONA[number]}" for number in ids),
    "colon": lambda ids: "\n".join(f"{number}: {PERSONA[number]}" for number in ids),
    "bracket": lambda ids: "\n".join(f"({number}) {PERSONA[number]}" for number in ids),
    "bullets": lambda ids: "\n".join(f"- {number}. {PERSONA[number]}" for number in ids),
    "one per line": lambda ids: "\n".join(ids),
    "commas": lambda ids: ", ".join(ids),
    "and": lambda ids: " and ".join(ids),
    "called": lambda ids: f"The relevant statements are {' and '.join(f'statement {number}' for number in ids)}.",
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
PROSE = ["Sure!", "The user has 2 dogs and wants food.", "It depends on the budget.", "See above.", "Gerne!", "好的。"]


def ids():
    """(family, text, the ids, or None where the text says nothing)."""
    bodies = [(name, write(chosen), chosen) for name, write in IDS.items() for chosen in CHOICES]
    return [
        *dressed(bodies, *AROUND, *FENCES),
        *dressed(bodies, "{}", *BEFORE, *AFTER),
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
        *same("unusable", None, UNUSABLE),
        *same("one letter wrong", ["2"], ["I own a dog caled Bo.", "I owm a dog called Bo", "I own a dog, called Bo!"]),
        *same("cut off", ["1"], ['["I am vegan.", "I own a d', '["I am vegan."', '[\n"I am vegan.",\n"I ow', "I am vegan.\nI ow"]),
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
        *same("none", [], [*NONE, "[]", "{}", "```json\n{}\n```", '{"1": 0, "2": 0.0}']),
        *same("unusable", None, [*UNUSABLE, *PROSE, "Statement 3 matters."]),
        *same(
            "cut to the range",
            [("1", 1.0)],
            ['{"1": 1.5}', '{"1": 7}', '{"1": "3"}', '{"1": Infinity}', '{"1": 1e999}', '{"1": 1.5, "2": -1}'],
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
