"""Completions of models that think aloud: what is left without the thoughts."""

from trust.corpus.families import NOTHING, REFUSALS, same

SAID = [
    "Rooibos has no caffeine.",
    "1. vegan breakfast\n2. tofu scramble",
    '{"reason": "Two of 3 wishes.", "score": 2}',
    '```json\n["oats", "rye"]\n```',
    "Der Harz hat viele Wege.\n\nHunde sind willkommen.",
    "路易波士茶不含咖啡因。",
    "الشاي خال من الكافيين.",
    "यह चाय बिना कैफीन की है।",
    "ルイボスティーにはカフェインがありません。",
    "¿Qué playas son mejores en mayo?",
    "Score: 3",
    "I think that a < b and b > c hold.",
    "Let me think about it.",
    "The tags are called thinking and thought.",
]
THOUGHT = [
    "{}",
    "<think>hm</think>{}",
    "<think>\nThe user wants tea.\n1. mint\n2. rooibos\n</think>\n\n{}",
    "<think></think>\n\n{}",
    "<think>\n\n</think>\n\n{}",
    "Okay, so the user asks about tea.\nScore: 1?\n</think>\n\n{}",
    "<THINK>Maybe [4, 1].</THINK>\n{}",
    "<think>one</think>\n<think>two</think>\n{}",
    "  \n<think>用户想要茶。\n[9]</think> {}",
    '<think>{"score": 1}</think>{}\n\n',
    "<think>Der Nutzer mag 2 Tees.</think>\n\n\n{}\n",
    "\t{}  ",
    "{}\n<think>Was that right? I will check the 3 wishes",
    "{}\n\n<think>Done.</think>",
    "</think>{}",
]
BY_HAND = [
    ("<think>a</think>Oats.<think>b</think> Rye.", "Oats.Rye."),
    ("Oats <think>or rye?</think>and milk", "Oats and milk"),
    ("<think>a <think>b</think> Oats.", "Oats."),
    ("<think>a</think>b</think>Oats.", "Oats."),
    ("a</think>b</think>Oats.", "Oats."),
    ("<Think>a</Think> Oats.", "Oats."),
    ("<think>never closed\n\nOats.", ""),
    ("Oats.<think>never closed", "Oats."),
    ("<think>a</think>", ""),
    ("a</think>", ""),
    ("<thinking>a</thinking> Oats.", "<thinking>a</thinking> Oats."),
    ("<thought>a</thought> Oats.", "<thought>a</thought> Oats."),
    ("think: Oats.", "think: Oats."),
    ("<thin", "<thin"),
    ("<th", "<th"),
    ("Oats </thi", "Oats </thi"),
    ("&lt;think&gt;a&lt;/think&gt;", "&lt;think&gt;a&lt;/think&gt;"),
]


def cases():
    """(family, text, what is left)."""
    return [
        *(("said", thought.replace("{}", said), said) for thought in THOUGHT for said in SAID),
        *(("refused", f"<think>Is that safe?</think>\n\n{refusal}", refusal) for refusal in REFUSALS),
        *(("by hand", text, left) for text, left in BY_HAND),
        *same("nothing", "", [text for text in NOTHING if "think>" in text] + ["", " ", "\n\n"]),
    ]
