"""Lists and objects within texts: the values in each, and the whole strings of one that was cut off."""

import json

from trust.corpus.families import AFTER, BEFORE, UNUSABLE, dressed, same
from trust.corpus.lists import CONTENTS

VALUES = [
    [3, 7],
    {"3": 0.9, "7": 0.4},
    ["oat milk", "rye bread"],
    {"queries": ["vegan breakfast", "tofu scramble"]},
    [{"id": 4, "score": 0.75}, {"id": 1, "score": 0.5}],
    {"reason": "It's about 2 of 3 towns.", "score": 2},
    {"reason": "Der Preis fehlt.", "verdict": False},
    ["路易波士茶", "无咖啡因的茶"],
    {"reason": "ينقصه السعر", "better": "A"},
    {"scores": {"10": 1, "12": 0}},
    ["¿qué ver en Cádiz?", "चाय", "お茶"],
    {"statement": None, "relevant": True},
]
FORMS = {
    "plain": lambda value: json.dumps(value, ensure_ascii=False),
    "escaped": json.dumps,
    "no blanks": lambda value: json.dumps(value, separators=(",", ":")),
    "lines": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    "python": repr,
    "comma": lambda value: f"{json.dumps(value)[:-1]},{json.dumps(value)[-1]}",
    "fenced": lambda value: f"```json\n{json.dumps(value)}\n```",
    "fenced and explained": lambda value: f"My choice:\n```\n{json.dumps(value, indent=4)}\n```\nThe rest does not matter.",
}
BY_HAND = [
    ("{1, 4}", [[1, 4]]),
    ("{4, 1, 4}", [[4, 1, 4]]),
    ("{'a'}", [["a"]]),
    ("{3: 0.9, 7: .4}", [{"3": 0.9, "7": 0.4}]),
    ("{score: 2}", [{"score": 2}]),
    ("{reason: 'short', score: 2}", [{"reason": "short", "score": 2}]),
    ("{score: 2, done: true, next: null}", [{"score": 2, "done": True, "next": None}]),
    ("[1, 2,]", [[1, 2]]),
    ("[1, 2,\n]", [[1, 2]]),
    ("{'id': 3,}", [{"id": 3}]),
    ("[]", [[]]),
    ("{}", [{}]),
    ("[ ]", [[]]),
    ("[[1, 2], [3]]", [[[1, 2], [3]]]),
    ('{"a": {"b": [1]}}', [{"a": {"b": [1]}}]),
    ("Statements [3] and [7] fit.", [[3], [7]]),
    ('First [1], then {"2": 0.5}.', [[1], {"2": 0.5}]),
    ('{"query": "oats"}\n{"query": "rye"}', [{"query": "oats"}, {"query": "rye"}]),
    ("[1][2]", [[1], [2]]),
    ("I took [4, 1] rather than {these}.", [[4, 1]]),
    ("[see above] [2]", [[2]]),
    ("{curly} and [square]: [5]", [[5]]),
    ('["a [b] c"]', [["a [b] c"]]),
    ('["closing ] inside"]', [["closing ] inside"]]),
    ("['it is [so]', 'or {so}']", [["it is [so]", "or {so}"]]),
    ('["say \\"oats\\""]', [['say "oats"']]),
    ('["don\'t"]', [["don't"]]),
    ("[\"don't\", 'do',]", [["don't", "do"]]),
    ("It's [1, 2] that I'd take", [[1, 2]]),
    ("don't take [9, don't take], take [1]", [[1]]),
    ("[1.5, -2, 1e3]", [[1.5, -2, 1000.0]]),
    ("[true, false, null]", [[True, False, None]]),
    ("[True, False, None]", [[True, False, None]]),
    ("['x', null]", [["x", None]]),
    ('{"1": "high"}', [{"1": "high"}]),
    ('{"1": ""}', [{"1": ""}]),
    ("答案是[2, 5]。", [[2, 5]]),
    ("الجواب: [2, 5]", [[2, 5]]),
    ("Die Antwort lautet [2, 5].", [[2, 5]]),
    ("उत्तर: [2, 5]", [[2, 5]]),
    ("Answer: **[2, 5]**", [[2, 5]]),
    ("(`[2, 5]`)", [[2, 5]]),
    ("[2, 5", []),
    ("2, 5]", []),
    ('{"reason": "The fee is', []),
    ('{"score": ', []),
    ("[", []),
    ("}{", []),
    ("][", []),
    ("[one, two]", []),
    ("{reason}", []),
    ("[link](https://example.org)", []),
    ("set of things: {oats, rye}", []),
    ("[1 2]", []),
    ("[1, 2)", []),
    ("print([x for x in y])", []),
    ("[__import__('os')]", []),
    ("[1 + 1j]", []),
    ("{'a': (1, 2)}", []),
    ("{'a': b'c'}", []),
    ("3, 7 and 9", []),
    ('"oats", "rye"', []),
    ("1. oats\n2. rye", []),
    ("null", []),
    ("true", []),
    ("All of them matter.", []),
    ("两个都重要。", []),
    ("{{ query }}", []),
    ("\\[ x^2 \\]", []),
    ("[the 2 of them, [3, 4]]", [[3, 4]]),
    ("[oats: [1]]", [[1]]),
    ('[\n  "oats", // cheap\n  "rye"\n]', [["oats", "rye"]]),
    ('[\n  "oats", // it\'s "old\n  "rye" // ]\n]', [["oats", "rye"]]),
    ('{\n  // the score\n  "score": 2\n}', [{"score": 2}]),
    ("{'score': 2 // of 3\n}", [{"score": 2}]),
    ('["https://example.org//a", 1,]', [["https://example.org//a", 1]]),
    ("['https://example.org//a', 1,]", [["https://example.org//a", 1]]),
    ("[1, 2] // [3]", [[1, 2], [3]]),
    ("[1, // and so on]", []),
]
CUT = {
    "list": lambda whole, half: f"[{', '.join(whole)}, {half}",
    "lines": lambda whole, half: "[\n" + "".join(f"  {text},\n" for text in whole) + f"  {half}",
    "object": lambda whole, half: f'{{"queries": [{", ".join(whole)}, {half}',
    "objects": lambda whole, half: "[" + "".join(f'{{"query": {text}}}, ' for text in whole) + f'{{"query": {half}',
    "numbered": lambda whole, half: "{" + "".join(f'"{number}": {text}, ' for number, text in enumerate(whole, 1)) + f'"9": {half}',
}
UNCUT = [
    '["oats", "rye"]',
    '{"query": "oats"}',
    '{"queries": ["oats"]} and more',
    "[]",
    "{}",
    '["oats"] ["rye',
    "[1, 2",
    "{oats",
    "[oats, rye",
    "1. oats\n2. ry",
    "- oats\n- ry",
    "oats\nrye",
    '"oats", "rye',
    'Sure! ["oats", "ry',
    'Hier: {"queries": ["oats", "ry',
    '结果: ["燕麦", "黑',
    "[link to oats",
    "[2024] train strikes",
    "I choose oats.",
    '```json\n["oats", "ry',
]
CUT_BY_HAND = [
    ('["', []),
    ('{"', []),
    ('{"query', []),
    ('{"query":', []),
    ('{"query": "', []),
    ('{"query": "oats"', ["oats"]),
    ('["oats"', ["oats"]),
    ('["oats",', ["oats"]),
    ('["oats", ', ["oats"]),
    ('["oats", "rye"', ["oats", "rye"]),
    ('["say \\"oats\\"", "ry', ['say "oats"']),
    ('["a [b] c", "d', ["a [b] c"]),
    ('["a, b", "c', ["a, b"]),
    ('["", "oats", "r', ["", "oats"]),
    ('["\\u00e9t\\u00e9", "r', ["été"]),
    ('[ "oats" , "ry', ["oats"]),
    ('\n\n["oats", "ry', ["oats"]),
    ('[{"query": "oats", "why": "cheap"}, {"query": "r', ["oats", "cheap"]),
    ('{"first": "oats", "second": "r', ["oats"]),
    ("['oats', 'ry", ["oats"]),
    ("{'queries': ['oats', 'ry", ["oats"]),
    ("['baker\\'s rye', 'oa", ["baker's rye"]),
    ("['baker's rye', 'oa", ["baker's rye"]),
    ("[\"baker's rye\", 'oa", ["baker's rye"]),
    ("[\"oats\", \"what's 'x' up", ["oats"]),
    ("['", []),
]


def cases():
    """(family, text, the lists and objects in order)."""
    bodies = [(name, write(value), [value]) for name, write in FORMS.items() for value in VALUES]
    return [
        *dressed(bodies, "{}", *BEFORE, *AFTER),
        *dressed(bodies, "I thought about all 5 of them.\n\n{}\n\nNo other counts."),
        *(("by hand", text, values) for text, values in BY_HAND),
        *same("unusable", [], [text for text in UNUSABLE[::2] if "[1, 2]" not in text]),
    ]


def cut_off():
    """(family, text, the whole strings of what was cut off, or None)."""
    bodies = []
    for name, write in CUT.items():
        for queries in CONTENTS[:10]:
            for place in range(1, len(queries)):
                quoted = [json.dumps(query, ensure_ascii=name == "numbered") for query in queries]
                bodies += [
                    (name, write(quoted[:place], half), queries[:place]) for half in ("", '"', quoted[place][:4], quoted[place][:-1])
                ]
    return [
        *((family, text, whole) for family, text, whole in bodies),
        *(("by hand", text, whole) for text, whole in CUT_BY_HAND),
        *same("not cut off", None, [*UNCUT, *UNUSABLE]),
    ]
