"""Passages to rank, and models that score or order them by a rule."""

import re

import numpy as np
import pandas as pd

from pyterrier_ikat.llms import Backend, Reply


def ranked_passages(*rows):
    """A result frame of (qid, docno, rank, text) rows; the query is that of the turn."""
    frame = pd.DataFrame(rows, columns=["qid", "docno", "rank", "text"])
    return frame.assign(query="about " + frame["qid"], score=0.0)


def orders(ranked):
    """Turn -> its docnos as one text, in the order of the rows."""
    docnos = {}
    for qid, rows in ranked.groupby("qid", sort=False):
        docnos[qid] = "".join(rows["docno"])
    return docnos


LABELLED = ranked_passages(
    ("u", "a", 1, "a worth-2"),
    ("t", "b", 0, "b worth-0"),
    ("u", "c", 0, "c worth-2"),
    ("u", "d", 2, "d worth-4"),
    ("t", "e", 1, "e worth-3"),
    ("u", "f", 3, "f worth-4"),
)


class Labels:
    """Answers with the number in the passage of the prompt, and keeps the prompts."""

    def __init__(self):
        self.asked = []

    def generate(self, chats):
        answers = []
        for chat in chats:
            prompt = chat[-1]["content"]
            self.asked.append(prompt)
            answers.append(prompt.partition("worth-")[2][:1] or "nothing")
        return answers


class Knows(Backend):
    """A model that knows the true order.

    The number in a passage's text says how good it is, the lowest first.
    """

    model = "knows"
    concurrency = 4

    def __init__(self, say=None):
        self.asked = []
        self.identity = {"provider": "fake", "model": str(id(self))}
        self.say = say or self.order

    def order(self, goods):
        places = sorted(range(len(goods)), key=goods.__getitem__)
        return " > ".join(f"[{place + 1}]" for place in places)

    def complete(self, requests):
        self.asked += requests
        replies = []
        for request in requests:
            shown = re.findall(r"passage-(\d+)", request.messages[0]["content"])
            text = self.say(list(map(int, shown)))
            replies.append(Reply(text, prompt_tokens=1, completion_tokens=1))
        return replies


def results(*rows):
    """A result frame of (qid, query, docno, text) rows."""
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text"], dtype=object)
    return frame.assign(score=0.0, rank=np.arange(len(rows)))


FOUND = results(
    ("u", "tea", "d1", "rooibos"),
    ("u", "tea", "d2", "a long text on tea"),
    ("a", "coffee", "d1", "rooibos"),
    ("a", "coffee", "d3", "a long text on tea"),
    ("a", "coffee", "d4", "Rooibos"),
)


class Lengths:
    """Unit vectors that depend on the text's length alone; remembers what it encoded."""

    def __init__(self):
        self.texts = []

    def __call__(self, texts, kind="document"):
        self.texts += texts
        angles = np.array([len(text) for text in texts], dtype=np.float32)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
