"""Small turns and responses, and what models say of them."""

import json

import pandas as pd

from pyterrier_ikat.evaluation.responses import (
    response_means,
)


def said(**verdict):
    return json.dumps({"reason": "because", **verdict})


def turns(n=3):
    return pd.DataFrame(
        {
            "qid": [f"9-1_{i}" for i in range(1, n + 1)],
            "qresolved": [f"Question {i}?" for i in range(1, n + 1)],
            "qhistory": [
                [
                    {"role": "user", "content": "Earlier?"},
                    {"role": "assistant", "content": "Before."},
                ]
            ]
            * n,
            "qptkb": [{"1": "I am vegan."}] * n,
            "gold_answer": ["gold words here"] * n,
        }
    )


def answers(n=3):
    rows = []
    for i in range(1, n + 1):
        for rank in (2, 1, 0):
            rows.append((f"9-1_{i}", f"words of {i}", f"passage {i}{rank}", rank < 2, rank))
    return pd.DataFrame(rows, columns=["qid", "qanswer", "text", "used", "rank"])


def values_of(judged):
    """The values of a frame of judgements, None where there is none."""
    values = judged["value"].astype(object)
    return values.where(values.notna(), None).tolist()


def means(judged):
    return response_means(judged).set_index("judge")
