"""Lists of search queries: what each text lists, in families."""

import json

from trust.corpus.families import AFTER, AROUND, BEFORE, FENCES, UNUSABLE, dressed, same

CONTENTS = [
    ["vegan breakfast ideas", "tofu scramble recipe", "oats without milk"],
    ["beste Wanderwege im Harz", "Wanderung mit Hund"],
    ["recettes végétariennes rapides", "cuisiner sans gluten"],
    ["mejores playas de Málaga", "¿qué ver en Cádiz?"],
    ["无咖啡因的茶", "路易波士茶"],
    ["شاي بدون كافيين", "فوائد النعناع"],
    ["2024 train strike dates", "10 km running plan"],
    ["baker's rye bread", "C++ vs Rust for games"],
    ["カフェインのないお茶", "ルイボスティー"],
    ["чай без кофеина", "ромашка и аллергия"],
    ["one query alone"],
]
MARKED = {
    "1.": lambda number, query: f"{number}. {query}",
    "1)": lambda number, query: f"{number}) {query}",
    "(1)": lambda number, query: f"({number}) {query}",
    "1:": lambda number, query: f"{number}: {query}",
    "dash": lambda number, query: f"- {query}",
    "star": lambda number, query: f"* {query}",
    "dot": lambda number, query: f"• {query}",
    "bold": lambda number, query: f"{number}. **{query}**",
    "quoted": lambda number, query: f'{number}. "{query}"',
    "curly": lambda number, query: f"- “{query}”",
    "indented": lambda number, query: f"   {number}. {query}  ",
    "1、": lambda number, query: f"{number}、{query}",
    "named": lambda number, query: f"Query {number}: {query}",
    "only quotes": lambda number, query: f'"{query}"',
}
JSON = {
    "list": lambda queries: json.dumps(queries, ensure_ascii=False),
    "escaped list": json.dumps,
    "lines": lambda queries: json.dumps(queries, indent=2, ensure_ascii=False),
    "object": lambda queries: json.dumps({"queries": queries}, ensure_ascii=False),
    "objects": lambda queries: json.dumps([{"query": query} for query in queries], ensure_ascii=False),
    "object of queries": lambda queries: json.dumps({f"query_{number}": query for number, query in enumerate(queries)}, ensure_ascii=False),
    "object in lines": lambda queries: json.dumps({f"{number}": query for number, query in enumerate(queries, 1)}, indent=2),
    "an object per line": lambda queries: "\n".join(json.dumps({"query": query}, ensure_ascii=False) for query in queries),
    "single quotes": lambda queries: repr(queries),
    "comma": lambda queries: json.dumps(queries, ensure_ascii=False)[:-1] + ",]",
}
BY_HAND = [
    ("repeats", "1. Oats\n2. oats\n3. rye", ["Oats", "rye"]),
    ("repeats", '["oats", "OATS", "rye"]', ["oats", "rye"]),
    ("more than five", "\n".join(f"{n}. query {'abcdefgh'[n]}" for n in range(1, 8)), [f"query {c}" for c in "bcdef"]),
    ("empty items", "1. \n2. ...\n3. oats", ["oats"]),
    ("empty items", '["", " ", "oats"]', ["oats"]),
    ("wrong types", '["oats", 7, null, true, {"a": 1}, ["rye"]]', ["oats", "rye"]),
    *same(
        "cut off in JSON",
        [],
        [
            '["oat milk", "rye br',
            '["oat milk",',
            '["oat milk"',
            '```json\n["oat milk", "rye br',
            '[\n  "oat milk",\n  "rye br',
            '{"queries": ["oat milk", "rye br',
            '{"query_1": "oat milk", "query_2": "rye',
        ],
    ),
    *same("cut off in the first query", [], ['["oat mi', '{"queries": ["oat', '[\n  "oat']),
    *same("cut off in single quotes", [], ["['oat milk', 'rye br", "{'queries': ['oat milk', 'rye br", "['oat milk'"]),
    ("no comment", '["https://example.org//oats", "rye"]', ["https://example.org//oats", "rye"]),
    ("marked 1.)", "1.) oats\n2.) rye", ["oats", "rye"]),
    ("marked (1)", "(1)oats\n(2)rye", ["oats", "rye"]),
    ("times", "10:30 train to Oslo\n12:00 ferry", ["10:30 train to Oslo", "12:00 ferry"]),
    ("halves", "1.5 km run\n2.5 km run", ["1.5 km run", "2.5 km run"]),
    ("quotes", "„Hafer“\n„Roggen“", ["Hafer", "Roggen"]),
    ("quotes", "「お茶」\n「麦茶」", ["お茶", "麦茶"]),
    ("quotes within", '1. "oats" OR "rye"\n2. "tea"', ['"oats" OR "rye"', "tea"]),
    ("cut off", "1. vegan breakfast\n2. tofu scr", ["vegan breakfast", "tofu scr"]),
    ("with a reason", '{"queries": ["oats", "rye"], "reason": "cheap"}', ["oats", "rye"]),
    ("bold labels", "**Query 1:** oats\n**Query 2:** rye", ["oats", "rye"]),
    ("hindi", "ज़रूर:\n1. बिना चीनी की चाय\n2. पुदीने की चाय", ["बिना चीनी की चाय", "पुदीने की चाय"]),
    ("japanese", "はい、どうぞ:\n\n1. 抹茶ラテ\n2. 麦茶", ["抹茶ラテ", "麦茶"]),
    ("korean", '["보리차", "녹차"]', ["보리차", "녹차"]),
    ("turkish", "- şekersiz çay\n- nane çayı", ["şekersiz çay", "nane çayı"]),
    ("numbers within", "1. hotels under 80 euros, 2 nights\n2. 4/5 star hotels", ["hotels under 80 euros, 2 nights", "4/5 star hotels"]),
    ("percent", "1. 100% rye bread\n2. 5% discount", ["100% rye bread", "5% discount"]),
    ("years", "1. 2024-2025 ski season\n2. marathons 2024", ["2024-2025 ski season", "marathons 2024"]),
    ("two objects in prose", 'First:\n{"query": "oats"}\nThen:\n{"query": "rye"}', ["oats", "rye"]),
    ("remarks after", "1. oats\n2. rye\n\nThese 2 queries cover both.", ["oats", "rye"]),
    ("thoughts", "<think>\n1. tea\n</think>\n\n1. oats\n2. rye", ["oats", "rye"]),
    ("prose", "vegan breakfast without oats", ["vegan breakfast without oats"]),
    ("surrogate", "1. \ud800 tea", ["\ud800 tea"]),
    ("bidirectional", "1. \u202bתה ירוק\u202c", ["\u202bתה ירוק\u202c"]),
    *same("nothing listed", [], ["[]", "{}", '{"queries": []}', '{"count": 5}', "[1, 2]", "[null]", "1.\n2.\n3.", "- \n- ", '[""]']),
]


def cases():
    """(family, text, the queries)."""
    marked = [
        (f"marked {name}", "\n".join(write(number, query) for number, query in enumerate(queries, 1)), queries)
        for name, write in MARKED.items()
        for queries in CONTENTS
    ]
    lists = [(f"json {name}", write(queries), queries) for name, write in JSON.items() for queries in CONTENTS]
    bare = [("bare lines", "\n".join(queries), queries) for queries in CONTENTS]
    return [
        *dressed(marked, *AROUND, *FENCES, *BEFORE, *AFTER),
        *dressed(lists, *AROUND, *FENCES, *BEFORE, *AFTER),
        *dressed(bare, *AROUND, *FENCES, *BEFORE),
        *BY_HAND,
        *same("unusable", [], UNUSABLE),
    ]
