"""Frames of queries: the turns of a conversation, and queries that belong to none."""

import pandas as pd


def turns(*queries, **columns):
    """The turns 1_1, 1_2 and so on with these queries."""
    qids = [f"1_{number}" for number in range(1, len(queries) + 1)]
    return pd.DataFrame({"qid": qids, "query": pd.Series(queries, dtype=object), **columns})


def queries(*texts, **columns):
    """The queries q0, q1 and so on."""
    qids = [f"q{number}" for number in range(len(texts))]
    frame = pd.DataFrame({"qid": qids, "query": list(texts)}, dtype=object)
    return frame.assign(**columns)
