"""Which systems find other passages for logged conversations, at what price, and which turns tell them apart: without judgements."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from ..conversations import IkatDataset, dataset
from ..errors import UsageError, counted
from ..evaluation.finished_runs import ranking_of
from ..operator import without_unread_texts
from ..study.study import Study
from ..study.systems import System, Systems
from ..tables import of_frame

TOP = 3
"""Users read about so many passages."""


@dataclass(frozen=True, eq=False)
class Advice:
    """What :func:`advise` found. It says nothing about quality.

    Attributes:
        systems: ``system``, ``cost``: US dollars per turn, also of completions that were known
            before.
        pairs: ``system``, ``other``, ``overlap``: the mean share of common passages at the top, and
            ``differ``: the share of turns where the first three passages aren't the same three.
        turns: the turns worth judging first: where the systems have least in common.
        depth: how many passages of a turn are compared.
    """

    systems: pd.DataFrame
    pairs: pd.DataFrame
    turns: Sequence[str]
    depth: int

    def __str__(self) -> str:
        about = f"overlap of the first {self.depth} passages; differ: other first {TOP}; cost: USD per turn. No judgements: nothing on quality."
        tables = f"{of_frame(self.systems, [])}\n{of_frame(self.pairs, [about], texts=2)}"
        return f"{tables}Judge first: ikat judge RUN... --turns {','.join(self.turns)}"


def advise(
    logs: IkatDataset | str | Path | pd.DataFrame,
    systems: Systems,
    *,
    depth: int = 10,
    first: int = 20,
    **resources: Any,
) -> Advice:
    """Compare systems on logged conversations, without judgements: agreement, price, and the turns that are worth judging first.

    Args:
        logs: the folder of a saved chat or of served conversations, any other dataset, or a turn
            frame.
        systems: as for :func:`pyterrier_ikat.run`, at least two.
        depth: how many passages of a turn are compared.
        first: how many turns are named.
        **resources: as for :func:`pyterrier_ikat.run`.

    Raises:
        UsageError: when there are fewer than two systems, or one is invalid.
        DataError: when a ranking is invalid.

    Example:
        >>> import pyterrier as pt
        >>> turns = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea", "milk"]})
        >>> one = pt.apply.generic(lambda rows: rows.assign(docno=rows["query"], score=1.0, rank=0))
        >>> other = pt.apply.generic(lambda rows: rows.assign(docno="tea", score=1.0, rank=0))
        >>> advise(turns, {"one": one, "other": other}, first=1).turns
        ['1_2']
    """
    study = Study(
        systems,
        topics=logs if isinstance(logs, pd.DataFrame) else dataset(logs).get_topics(),
        **resources,
    )
    if len(study.systems) < 2:
        raise UsageError(
            f"{counted(len(study.systems), 'system')}: give two or more, whose rankings are compared"
        )
    tops, costs = dict[str, dict[str, list[str]]](), dict[str, Any]()
    for one in study.systems:
        turns = study.turns_of(one).frame
        before = _price(one)
        ranking = ranking_of(one.name, without_unread_texts(one.pipeline).transform(turns))
        tops[one.name] = {qid: list(ranking.get(qid, ()))[:depth] for qid in turns["qid"]}
        costs[one.name] = (_price(one) - before) / len(turns)
    shared = {
        pair: {qid: _overlap(tops[pair[0]][qid], tops[pair[1]][qid], depth) for qid in turns["qid"]}
        for pair in combinations(tops, 2)
    }
    other = {
        pair: sum(
            {*tops[pair[0]][qid][:TOP]} != {*tops[pair[1]][qid][:TOP]} for qid in turns["qid"]
        )
        for pair in shared
    }
    rows = [
        (*pair, sum(found.values()) / len(found), other[pair] / len(found))
        for pair, found in shared.items()
    ]
    alike = pd.DataFrame(shared).mean(axis=1)
    return Advice(
        pd.DataFrame(costs.items(), columns=["system", "cost"]),
        pd.DataFrame(rows, columns=["system", "other", "overlap", "differ"]),
        alike.sort_values(kind="stable").index[:first].tolist(),
        depth,
    )


def _overlap(one: Sequence[str], other: Sequence[str], depth: int) -> float:
    return len({*one} & {*other}) / max(len(one), len(other)) if one or other else 1.0


def _price(system: System) -> Any:
    """What the completions of a system's models cost so far, with those that were known before; NA if a price is unknown."""
    account = pd.concat(
        [model.ledger.frame()[["cost", "worth"]] for model in system.models]
        or [pd.DataFrame({"cost": [0.0], "worth": 0.0})]
    )
    return account.to_numpy(dtype=object).sum() if len(account) else 0.0
