"""JSON lines, a chat, a small folder as a dataset, and the least object that is one."""

import json
from itertools import cycle

import pandas as pd


def lines(*items):
    return "".join(json.dumps(item) + "\n" for item in items)


def numbers_of(chats):
    """The conversation, the number and the qid of each turn."""
    numbers = []
    for chat in chats:
        for turn in chat.turns:
            numbers.append((chat.number, turn.turn_id, turn.qid))
    return numbers


def said(*texts):
    messages = []
    for text, role in zip(texts, cycle(["user", "assistant"]), strict=False):
        messages.append({"role": role, "content": text})
    return messages


CHAT = said("Which tea?", "Rooibos.", "And for sleep?")
ASK = {"role": "user", "content": "Tea?"}
TURNS = [
    {"qid": "9-1_1", "messages": [ASK], "ptkb": {"1": "I run."}, "answer": "Mint."},
    {"qid": "9-2_1", "messages": [ASK], "resolved": "Which tea?"},
]
PASSAGES = [{"docno": "d1", "text": " Mint. "}, {"id": "d2", "contents": "Rye.", "url": "u"}]


class Own:
    """The least that a dataset has."""

    year = 2023

    def get_topics(self):
        history = [ASK, {"role": "assistant", "content": "Mint."}]
        return pd.DataFrame(
            {
                "qid": ["a", "b"],
                "query": ["Tea?", "And now?"],
                "qhistory": [None, history],
                "qgoldptkb": [["1"], []],
                "gold_x": [1, 2],
            }
        )
