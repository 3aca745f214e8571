"""Turn frames, completions and an observer that the tests of the LLM operators share."""

import json
import warnings

import numpy as np
import pandas as pd

import pyterrier_ikat as ikat
from pyterrier_ikat.events import Observer
from pyterrier_ikat.generate.respond import NoTextWarning
from pyterrier_ikat.planning import Plan

CHAT = [
    {"role": "user", "content": "Which tea has no caffeine?"},
    {"role": "assistant", "content": "Rooibos."},
    {"role": "user", "content": "And against a cold?"},
]
COLD = "And against a cold?"
CAFFEINE = "Which tea has no caffeine?"
PTKB = {"1": "I am allergic to chamomile.", "2": "I own a dog.", "3": "I live in Oslo."}
RUN_ON = """
# Example 3
# About the user
1: I keep bees
# Conversation so far
user: Which hive?
# Last message of the user
And in winter?
# Queries
1. insulated hives
"""
"""What a model invents behind its completion: the next prompt."""


def a_turn(**columns):
    """One turn with history and persona, and more columns."""
    return ikat.conversation(CHAT, PTKB).assign(
        **{name: [value] for name, value in columns.items()}
    )


def two_turns():
    """Two turns; only the first one has a persona."""
    return pd.concat(
        [ikat.conversation(CHAT, PTKB), ikat.conversation(CHAT[:1], number="other")],
        ignore_index=True,
    )


def found(turns, count):
    """A result frame with ``count`` passages per turn, worst first; ``rank`` gives the order."""
    rows = []
    for turn in turns.to_dict("records"):
        qid = turn["qid"]
        for rank in reversed(range(count)):
            passage = {
                "docno": f"{qid}-{rank}",
                "rank": rank,
                "score": float(-rank),
                "text": f"Passage {rank} of {qid}. More.",
            }
            rows.append({**turn, **passage})
    return pd.DataFrame(rows)


def mixed(count, **columns):
    """Passages of two turns, the turns' rows in turn, best first; the second's ranks are higher."""
    frame = found(two_turns(), count).sort_values(["rank", "qid"]).reset_index(drop=True)
    frame["rank"] += np.where(frame["qid"] == "other_1", 10, 0)
    return frame.assign(**columns)


def results(*rows, **columns):
    """A result frame of one turn: a rank and a text a row, with an index of its own."""
    frame = pd.DataFrame(
        {
            "qid": "t",
            "query": "tea?",
            "docno": [f"d{rank}" for rank, _ in rows],
            "rank": [rank for rank, _ in rows],
            "text": [text for _, text in rows],
        },
        index=range(10, 10 + len(rows)),
    )
    return frame.assign(score=-frame["rank"].astype(float), **columns)


MIXED = results((3, "C."), (0, "A."), (2, " \n"), (1, ""), (4, "D."))


def texts(backend):
    """The prompts that a scripted backend was asked, as text."""
    prompts = []
    for chat in backend.asked:
        contents = [message["content"] for message in chat]
        prompts.append("\n".join(contents))
    return prompts


def ledger(llm, column):
    """The sum of a column of the ledger."""
    return llm.ledger.frame()[column].sum()


def claims(*verdicts):
    """A completion that says of each claim of a response whether a passage supports it."""
    rows = []
    for number, verdict in enumerate(verdicts):
        rows.append({"claim": f"Claim {number}.", "supported": verdict})
    return json.dumps({"claims": rows})


class Watch(Observer):
    """Notes whether a response was shortened, and to how many words."""

    def __init__(self):
        self.limits = []

    def shorten(self, step, words):
        self.limits.append(words)


def used_of(frame):
    """The used passages of each turn."""
    docnos = {}
    for qid, rows in frame.groupby("qid", sort=False):
        docnos[qid] = rows.loc[rows["used"], "docno"].tolist()
    return docnos


def planned(operator, fewer=False):
    """What a plan counts for an operator on two turns."""
    plan = Plan("mine", set())
    plan.fewer_passages = fewer
    operator.plan(two_turns(), plan)
    return plan.rows


def calls_of(plan):
    """Of each stage its calls, and how many of them are new."""
    return [(row["stage"], row["calls"], row["new"]) for row in plan.rows]


def labelled(rewrite, answer):
    """A completion of a rewrite and an answer."""
    return f"Rewrite: {rewrite}\nResponse: {answer}"


def no_text_warnings(call):
    """What a call gives, and its warnings of passages without a text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call()
    return value, [str(one.message) for one in caught if one.category is NoTextWarning]
