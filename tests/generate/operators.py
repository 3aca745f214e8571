"""Turn frames, completions and an observer that the tests of the LLM operators share."""

import json

import pandas as pd

import pyterrier_ikat as ikat
from pyterrier_ikat.events import Observer

CHAT = [
    {"role": "user", "content": "Which tea has no caffeine?"},
    {"role": "assistant", "content": "Rooibos."},
    {"role": "user", "content": "And against a cold?"},
]
PTKB = {"1": "I am allergic to chamomile.", "2": "I own a dog.", "3": "I live in Oslo."}


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
