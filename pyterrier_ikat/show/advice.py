"""Compare systems on logged conversations without judgements: agreement, price, turns to judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from ..arguments import at_least
from ..conversations import IkatDataset, dataset
from ..errors import UsageError, counted
from ..evaluation.finished_runs import ranking_of
from ..operator import without_unread_texts
from ..study.study import Study
from ..study.systems import System, Systems
from ..tables import of_frame

TOP_PASSAGES = 3
"""How many passages of a turn ``differ`` compares: users read about so many."""


@dataclass(frozen=True, eq=False)
class Advice:
    """The result of :func:`advise`. It says nothing about quality.

    Attributes:
        systems: ``system``, ``cost``: US dollars per turn. Cached completions count with their
            price, too.
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
        note = (
            f"overlap of the first {self.depth} passages; differ: other first {TOP_PASSAGES}; "
            "cost: USD per turn. No judgements: nothing on quality."
        )
        systems = of_frame(self.systems, [])
        pairs = of_frame(self.pairs, [note], texts=2)
        turns = ",".join(self.turns)
        return f"{systems}\n{pairs}Judge first: ikat judge RUN... --turns {turns}"


def advise(
    logs: IkatDataset | str | Path | pd.DataFrame,
    systems: Systems,
    *,
    depth: int = 10,
    first: int = 20,
    **resources: Any,
) -> Advice:
    """Compare systems on logged conversations without judgements: agreement, price, turns to judge.

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
    at_least(1, depth=depth, first=first)
    topics = logs if isinstance(logs, pd.DataFrame) else dataset(logs).get_topics()
    study = Study(systems, topics=topics, **resources)
    if len(study.systems) < 2:
        number = counted(len(study.systems), "system")
        raise UsageError(f"{number}: give two or more, whose rankings are compared")
    tops: dict[str, dict[str, list[str]]] = {}
    costs: dict[str, Any] = {}
    for system in study.systems:
        turns = study.turns_of(system).frame
        cost_before = _cost(system)
        result = without_unread_texts(system.pipeline).transform(turns)
        rankings = ranking_of(system.name, result)
        tops[system.name] = {qid: list(rankings.get(qid, ()))[:depth] for qid in turns["qid"]}
        costs[system.name] = (_cost(system) - cost_before) / len(turns)
    pairs, mean_overlaps = _agreement(tops)
    return Advice(
        systems=pd.DataFrame(costs.items(), columns=["system", "cost"]),
        pairs=pairs,
        turns=mean_overlaps.sort_values(kind="stable").index[:first].tolist(),
        depth=depth,
    )


def _agreement(
    tops: Mapping[str, Mapping[str, list[str]]],
) -> tuple[pd.DataFrame, "pd.Series[float]"]:
    """The ``pairs`` of an :class:`Advice`, and the mean overlap of all pairs by turn.

    Args:
        tops: system -> qid -> the first passages.
    """
    rows = []
    overlaps: dict[tuple[str, str], dict[str, float]] = {}
    for name, other in combinations(tops, 2):
        overlap: dict[str, float] = {}
        differing = 0
        for qid, passages in tops[name].items():
            others = tops[other][qid]
            overlap[qid] = _overlap(passages, others)
            if set(passages[:TOP_PASSAGES]) != set(others[:TOP_PASSAGES]):
                differing += 1
        overlaps[name, other] = overlap
        turns = len(overlap)
        rows.append((name, other, sum(overlap.values()) / turns, differing / turns))
    pairs = pd.DataFrame(rows, columns=["system", "other", "overlap", "differ"])
    return pairs, pd.DataFrame(overlaps).mean(axis=1)


def _overlap(passages: Sequence[str], others: Sequence[str]) -> float:
    """The share of common passages; 1 where both lists are empty."""
    longer = max(len(passages), len(others))
    if longer == 0:
        return 1.0
    return len(set(passages) & set(others)) / longer


def _cost(system: System) -> Any:
    """The price of all completions of a system so far, cached ones too; NA if it is unknown."""
    accounts = [model.ledger.frame()[["cost", "worth"]] for model in system.models]
    if not accounts:
        return 0.0
    account = pd.concat(accounts)
    if account.empty:
        return 0.0
    return account.to_numpy(dtype=object).sum()
