"""How models dress up what they say: frames around a text that change nothing of what it means, and texts that mean nothing."""

from itertools import count

THINKING = "<think>\nPerhaps:\n1. not this one\n[9]\nScore: 1\n</think>\n\n{}"
AROUND = ["{}", THINKING, "9. not this one, I think.\n</think>\n{}", "\n \n{}\n\n", "<THINK>[9]</THINK>{}"]
"""Around any text: nothing, a thought, a thought whose opening tag was eaten, blanks."""
FENCES = ["```\n{}\n```", "```json\n{}\n```", "```text\n{}\n```\n"]
BEFORE = [
    "Sure! Here you are:\n\n{}",
    "Of course, here is what I found:\n{}",
    "Hier ist das Ergebnis:\n\n{}",
    "Voici le résultat :\n\n{}",
    "Aquí tienes el resultado:\n{}",
    "以下是结果:\n{}",
    "إليك النتيجة:\n{}",
]
"""A first line that announces what follows, in several languages."""
AFTER = ["{}\n\nI hope this helps!", "{}\n\nLet me know if you need anything else.", "{}\n\nViel Erfolg!", "{}\n\n¡Espero que ayude!"]

REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "I’m sorry, I cannot assist with that request.",
    "I cannot answer this question.",
    "As an AI language model, I cannot provide that information.",
    "Sorry, I can't do that.",
    "I am unable to comply with this request.",
    "Unfortunately, I'm not able to help with this.",
]
NOTHING = [
    "",
    " ",
    "\n\n",
    "```\n```",
    "```json\n\n```",
    "<think>",
    "<think>It is 3, or [1, 2]",
    "<think>hm</think>",
    "</think>",
    "...",
    "---",
    "…",
]
"""Texts without a word of an answer: empty, a fence, a thought, a thought that was cut off."""
UNUSABLE = [around.replace("{}", refusal) for refusal in REFUSALS for around in ("{}", "<think>Is that safe?</think>\n{}")] + NOTHING


def dressed(bodies, *dresses):
    """Each (family, text, outcome) in one of the dresses, by turns."""
    turn = count()
    return [(family, dresses[next(turn) % len(dresses)].replace("{}", text), outcome) for family, text, outcome in bodies]


def same(family, outcome, texts):
    """Texts of one outcome."""
    return [(family, text, outcome) for text in texts]
