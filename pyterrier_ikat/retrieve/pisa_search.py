"""Searching with PISA: rankings that depend neither on its threads nor on the order of indexing."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from .ranking import NOTHING, Ranking

TIES = "the greatest docno first"
"""Part of a kept ranking's key, so that one that was kept with its ties in another order isn't taken for it."""


def by_pisa(retriever: Any, name: str, queries: Sequence[Any], depth: int) -> list[Ranking]:
    """The rankings of ``queries`` by PISA, equal scores by docno, the greatest first, as in trec_eval.

    Which of several passages that tie at the cut PISA keeps is by chance: it is asked again, further down, until the tie ends.

    Args:
        retriever: PISA's; its number of results is changed.
        name: the column of ``queries``: ``"query"`` or ``"query_toks"``.
        queries: what PISA takes there.
        depth: passages per query at most.
    """
    best: dict[int, Ranking] = {}
    left, retriever.num_results = list(range(len(queries))), depth + 1
    while left:
        found = _searched(retriever, name, [queries[place] for place in left])
        for place, ranking in zip(left, found, strict=True):
            if len(ranking.scores) < retriever.num_results or ranking.scores[-1] != ranking.scores[depth - 1]:
                best[place] = _ties_by_docno(ranking).best(depth)
        left = [place for place in left if place not in best]
        retriever.num_results *= 2
    return [best[place] for place in range(len(queries))]


def _searched(retriever: Any, name: str, queries: list[Any]) -> list[Ranking]:
    asking = {place: query for place, query in enumerate(queries) if query}
    found = retriever.transform(pd.DataFrame({"qid": [*asking], name: pd.Series([*asking.values()], dtype=object)}))
    # PISA's threads hand over queries as they end, each query's passages in order.
    rows, docnos, scores = found["qid"].to_numpy(), found["docno"].to_numpy(), found["score"].to_numpy()
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    rankings = {
        rows[start]: Ranking(docnos[start:end].tolist(), scores[start:end]) for start, end in pairwise([*starts.tolist(), len(rows)])
    }
    return [rankings.get(number, NOTHING) for number in range(len(queries))]


def _ties_by_docno(ranking: Ranking) -> Ranking:
    docnos = ranking.docnos
    changes = np.flatnonzero(np.diff(ranking.scores)) + 1
    for start, end in pairwise([0, *changes.tolist(), len(docnos)]):
        if end - start > 1:
            docnos[start:end] = sorted(docnos[start:end], reverse=True)
    return ranking
