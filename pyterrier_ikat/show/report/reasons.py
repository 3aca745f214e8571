"""Why one run is better than another on a turn: the relevant passages that they rank differently, in a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log2

import pandas as pd

from .runs import RunData


@dataclass(frozen=True)
class Relevant:
    """A relevant passage of a turn.

    Attributes:
        docno: its id.
        label: its relevance, above 0.
        ranks: its rank in each run, from 1; None where the run doesn't have it.
    """

    docno: str
    label: int
    ranks: tuple[int | None, ...]

    @property
    def best(self) -> int:
        """Its best rank in any run; 0 where none has it."""
        return min((rank for rank in self.ranks if rank is not None), default=0)


def relevant_by_turn(runs: Sequence[RunData], qrels: pd.DataFrame | None) -> dict[str, list[Relevant]]:
    """For each judged turn its relevant passages, with their ranks in all runs at any depth: highest label first, then best rank.

    Example:
        >>> qrels = pd.DataFrame({"qid": ["9-1_3"], "docno": ["a"], "label": [2]})
        >>> run = RunData("bm25", pd.DataFrame({"qid": ["9-1_3"], "docno": ["a"], "rank": [30], "score": [0.5]}))
        >>> relevant_by_turn([run], qrels)
        {'9-1_3': [Relevant(docno='a', label=2, ranks=(31,))]}
    """
    if qrels is None:
        return {}
    positive = qrels[qrels["label"] > 0]
    wanted = set(zip(positive["qid"], positive["docno"], strict=True))
    ranks = [_ranks(run.results[run.results["docno"].isin(positive["docno"])], wanted) for run in runs]
    found: dict[str, list[Relevant]] = {qid: [] for qid in qrels["qid"].unique()}
    for qid, docno, label in zip(positive["qid"], positive["docno"], positive["label"], strict=True):
        found[qid].append(Relevant(docno, int(label), tuple(of_run.get((qid, docno)) for of_run in ranks)))
    return {qid: sorted(one, key=lambda passage: (-passage.label, passage.best or 10**9, passage.docno)) for qid, one in found.items()}


def _ranks(results: pd.DataFrame, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    rows = zip(results["qid"], results["docno"], results["rank"], strict=True)
    return {(qid, docno): int(rank) + 1 for qid, docno, rank in rows if (qid, docno) in wanted}


def reasons_by_turn(runs: Sequence[RunData], relevant: Mapping[str, Sequence[Relevant]]) -> dict[str, list[str]]:
    """For each judged turn a sentence on every pair of runs, in the order of ``itertools.combinations``."""
    pairs = list(combinations(range(len(runs)), 2))
    ran = {run.name: run.run_on for run in runs}

    def compare(qid: str, one: int, other: int) -> str:
        lacking = [run.name for run in (runs[one], runs[other]) if qid not in (ran[run.name] or {qid})]
        if lacking:
            return f"{' and '.join(lacking)} {'was' if len(lacking) == 1 else 'were'} not run on this turn."
        return explain((runs[one].name, one), (runs[other].name, other), relevant[qid])

    return {qid: [compare(qid, *pair) for pair in pairs] for qid in relevant}


def explain(one: tuple[str, int], other: tuple[str, int], relevant: Sequence[Relevant]) -> str:
    """A sentence on what makes the difference between two runs on a turn.

    A passage counts as in DCG: its label, divided by the logarithm of its rank. The passage that gains one run the most over the other
    is named, and the one that gains the other the most.

    Args:
        one: the name of a run, and its place in ``ranks``.
        other: that of another run.
        relevant: the relevant passages of the turn.

    Example:
        >>> explain(("qr", 0), ("aqd", 1), [Relevant("walk-019", 4, (4, 1))])
        'aqd finds walk-019 (label 4) at rank 1, qr at 4.'
    """
    if not relevant:
        return "No passage is judged relevant."
    clauses = []
    for (name, number), (theirs, theirs_number) in ((one, other), (other, one)):
        gain, passage = max(
            ((_gain(passage, number) - _gain(passage, theirs_number), passage) for passage in relevant), key=lambda pair: pair[0]
        )
        if gain > 0:
            rank = passage.ranks[theirs_number]
            rest = f"{theirs} at {rank}" if rank else f"{theirs} does not find it"
            clauses.append((gain, f"{name} finds {passage.docno} (label {passage.label}) at rank {passage.ranks[number]}, {rest}."))
    if clauses:
        return " ".join(text for _, text in sorted(clauses, key=lambda clause: -clause[0]))
    if not any(passage.ranks[number] for passage in relevant for number in (one[1], other[1])):
        return f"Neither {one[0]} nor {other[0]} finds a relevant passage."
    return f"{one[0]} and {other[0]} rank all relevant passages alike."


def _gain(passage: Relevant, number: int) -> float:
    rank = passage.ranks[number]
    return passage.label / log2(rank + 1) if rank else 0.0


def further_down(relevant: Sequence[Relevant], shown: set[str], most: int = 5) -> list[Relevant]:
    """The relevant passages that some run has, but none among those that are shown: the ``most`` best."""
    return [passage for passage in relevant if passage.best and passage.docno not in shown][:most]
