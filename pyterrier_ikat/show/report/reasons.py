"""Why one run is better than another on a turn, for the shown measure: the passages that make the difference, in sentences."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf, log2

import ir_measures
import pandas as pd

from ...errors import counted
from ...evaluation import label
from ...evaluation.inference import SAME
from ...tables import format_score
from .material import RunData
from .means import Scores
from .rankings import ranks_of

UP, DOWN, INTRUDERS = 2, 1, 2
"""How many passages are named from which the winner gains most, from which the loser gains most, and that came before the first of them."""
MOST = 20_000
"""The maximum number of texts of a page, unless there are more for its first measure."""
OPENING = 6
"""How many first words are the name of a passage."""
SUMS = ("nDCG", "P", "R")
"""The measures that are sums over the relevant passages above their cutoff."""
MISSED = 5
"""The maximum number of relevant passages of a turn that are named although no run shows them."""


class Explainer:
    """Explains the difference between two runs on a judged turn, for a measure.

    A passage counts with its share of the measure (:func:`passage_shares`). For measures without
    shares it counts as in DCG, which only determines the order of the passages that came in and
    out.

    Args:
        measure: the measure.
        labels: the turn's judgements.
        names: the runs' names.
        ranks: for each run docno -> rank from 1, the best first.
        called: docno -> the name of the passage; by default its docno.
    """

    def __init__(
        self,
        measure: ir_measures.Measure,
        labels: Mapping[str, int],
        names: Sequence[str],
        ranks: Sequence[Mapping[str, int]],
        called: Mapping[str, str] | None = None,
    ) -> None:
        self.measure, self.labels, self.names, self.ranks, self.called = (
            measure,
            labels,
            names,
            ranks,
            called or {},
        )
        cutoff = cutoff_of(measure)
        self.end = (
            inf if cutoff is None else cutoff + 1
        )  # the first rank that the measure does not use
        relevant = [docno for docno, grade in labels.items() if grade >= level_of(measure)]
        self.relevant = bool(relevant)
        self.gains = [
            self._gains({docno: of_run[docno] for docno in relevant if docno in of_run})
            for of_run in ranks
        ]

    def _gains(self, ranks: Mapping[str, int]) -> Mapping[str, float]:
        if is_sum(self.measure):
            return passage_shares(self.measure, self.labels, ranks)
        return {
            docno: self.labels[docno] / log2(rank + 1)
            for docno, rank in ranks.items()
            if rank < self.end
        }

    def explain(self, one: int, other: int, lead: float) -> str:
        """A sentence about each of the passages that matter most, the winner's first.

        Args:
            one: the number of a run.
            other: the number of another run.
            lead: the score of ``one`` minus the score of ``other``.

        Example:
            >>> from ir_measures import nDCG
            >>> Explainer(nDCG @ 3, {"b": 2}, ["qr", "aqd"], [{"a": 1, "b": 2}, {"b": 1}]).explain(0, 1, 0.6309 - 1)
            'aqd leads by .3691 in nDCG@3. aqd finds b (label 2) at rank 1, qr at 2 (+.3691). In qr a, not judged, came in at rank 1.'
        """
        if abs(lead) < SAME:
            return f"No difference in {label(self.measure)}{self._why_alike(one, other)}."
        first, second = (one, other) if lead > 0 else (other, one)
        up, down = self._moved(first, second)
        told = [self._found(first, second, *pair) for pair in up[:UP]] + [
            self._found(second, first, *pair) for pair in down[:DOWN]
        ]
        rest = self._rest([*up[UP:], *down[DOWN:]])
        intruders = self._intruders(first, second, up[0][1]) if up else ""
        said = [
            f"{self.names[first]} leads by {format_score(abs(lead))} in {label(self.measure)}.",
            *told,
            rest,
            intruders,
        ]
        return " ".join(filter(None, said))

    def _moved(
        self, winner: int, loser: int
    ) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
        """The passages from which the winner gains and those from which the loser gains, with the amounts, the largest first."""
        ours, theirs = self.gains[winner], self.gains[loser]
        changes = {
            docno: ours.get(docno, 0.0) - theirs.get(docno, 0.0) for docno in {**ours, **theirs}
        }
        moved = sorted(
            ((change, docno) for docno, change in changes.items() if abs(change) > SAME),
            key=lambda pair: -pair[0],
        )
        up = [pair for pair in moved if pair[0] > 0]
        return up, [
            pair for pair in reversed(moved) if pair[0] < 0 and up
        ]  # alone they would favour the loser

    def _name(self, docno: str) -> str:
        return self.called.get(docno, docno)

    def _found(self, who: int, whom: int, change: float, docno: str) -> str:
        lower = self.ranks[whom].get(docno)
        rest = f"{self.names[whom]} at {lower}" if lower else f"{self.names[whom]} does not find it"
        share = f" ({_signed(change)})" if is_sum(self.measure) else ""
        return f"{self.names[who]} finds {self._name(docno)} (label {self.labels[docno]}) at rank {self.ranks[who][docno]}, {rest}{share}."

    def _rest(self, moved: Sequence[tuple[float, str]]) -> str:
        if not moved:
            return ""
        what = counted(len(moved), "more relevant passage")
        return (
            f"{what}: {_signed(sum(change for change, _ in moved))}."
            if is_sum(self.measure)
            else f"{what} came in or out."
        )

    def _intruders(self, winner: int, loser: int, docno: str) -> str:
        """The passages that came before a relevant one, in words."""
        found: list[str] = []
        for other, rank in islice(self._before(winner, loser, docno), INTRUDERS):
            how = "moved up to" if self.ranks[winner].get(other, inf) < self.end else "came in at"
            found.append(
                f"{self._name(other)}, not {'relevant' if other in self.labels else 'judged'}, {how} rank {rank}"
            )
        return f"In {self.names[loser]} {'; '.join(found)}." if found else ""

    def _before(self, winner: int, loser: int, docno: str) -> Iterator[tuple[str, int]]:
        """Passages that are not relevant and that only in the losing run are before a relevant one or in its place, with their ranks."""
        ours, theirs = self.ranks[winner], self.ranks[loser]
        end = min(theirs.get(docno, ours[docno] + 1 if self.end == inf else inf), self.end)
        for other, rank in theirs.items():
            if rank >= end:
                break
            if (
                self.labels.get(other, 0) < level_of(self.measure)
                and ours.get(other, ours[docno] + 1) > ours[docno]
            ):
                yield other, rank

    def _why_alike(self, one: int, other: int) -> str:
        if not self.relevant:
            return ": no passage is judged relevant"
        ours, theirs = self.gains[one], self.gains[other]
        if not ours and not theirs:
            within = "" if self.end == inf else f" among its first {self.end - 1}"
            return f": neither {self.names[one]} nor {self.names[other]} finds a relevant passage{within}"
        if ours.keys() != theirs.keys():
            return ""
        alike = all(self.ranks[one][docno] == self.ranks[other][docno] for docno in ours)
        return (
            ": both rank the relevant passages alike"
            if alike
            else ": both find the same relevant passages"
        )


def _signed(change: float) -> str:
    return f"{'+' if change >= 0 else '−'}{format_score(abs(change))}"


def reasons_by_turn(
    runs: Sequence[RunData],
    qrels: pd.DataFrame | None,
    scores: Mapping[str, Scores],
    measures: Sequence[ir_measures.Measure],
    texts: Mapping[str, str] | None = None,
) -> dict[str, list[list[str]]]:
    """Why each run is better or worse than the baseline on each scored turn, for each measure. Of many runs only for the first measures.

    Args:
        runs: the runs, the baseline first.
        qrels: the judgements. Without them, there are no reasons.
        scores: the scores of the turns.
        measures: the measures, in the order of the scores.
        texts: docno -> the text of the passage, as far as known.

    Returns:
        For each scored turn and run a text by each measure; none for the baseline.
    """
    if qrels is None or not scores or len(runs) == 1:
        return {}
    told = measures[: max(1, MOST // ((len(runs) - 1) * len(scores)))]
    names, rankings = [run.name for run in runs], [_Ranking(run.results) for run in runs]
    labels = {
        qid: dict(zip(rows["docno"], rows["label"].tolist(), strict=True))
        for qid, rows in qrels.groupby("qid", sort=False)
    }
    called = {docno: _opening(text) for docno, text in (texts or {}).items() if text.strip()}
    said: dict[str, list[list[str]]] = {}
    for qid, of_turn in scores.items():
        ranks = [ranking.of(qid) for ranking in rankings]
        explained = [Explainer(measure, labels[qid], names, ranks, called) for measure in told]
        said[qid] = [[] for _ in runs]
        for other in range(1, len(runs)):
            leads = [ours - theirs for ours, theirs in zip(of_turn[other], of_turn[0], strict=True)]
            lacking = _not_run(
                [
                    run
                    for run in (runs[0], runs[other])
                    if run.run_on is not None and qid not in run.run_on
                ]
            )
            said[qid][other] = [
                lacking or one.explain(other, 0, lead)
                for one, lead in zip(explained, leads, strict=False)
            ]
    return said


def _opening(text: str) -> str:
    words = text.split()
    return f"“{' '.join(words[:OPENING])}{' …' if len(words) > OPENING else ''}”"


def _not_run(lacking: Sequence[RunData]) -> str:
    names = " and ".join(run.name for run in lacking)
    return (
        f"{names} {'was' if len(lacking) == 1 else 'were'} not run on this turn." if lacking else ""
    )


class _Ranking:
    """The ranks of a run, for each turn."""

    def __init__(self, results: pd.DataFrame) -> None:
        ordered = results.sort_values("rank", kind="stable")
        self._docnos = ordered["docno"].tolist()
        self._places = ordered.reset_index(drop=True).groupby("qid", sort=False).indices

    def of(self, qid: str) -> dict[str, int]:
        """Docno -> rank from 1, the best first."""
        return {
            self._docnos[place]: rank for rank, place in enumerate(self._places.get(qid, ()), 1)
        }


def missed_by_turn(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, shown: Mapping[str, set[str]]
) -> dict[str, list[str]]:
    """The relevant passages of each turn that runs have, but so low that the page doesn't show them: highest label first, then best rank.

    Args:
        runs: the runs.
        qrels: the judgements.
        shown: qid -> the docnos that the page shows.

    Example:
        >>> qrels = pd.DataFrame({"qid": ["9-1_3"], "docno": ["a"], "label": [2]})
        >>> run = RunData("bm25", pd.DataFrame({"qid": ["9-1_3"], "docno": ["a"], "rank": [30], "score": [0.5]}))
        >>> missed_by_turn([run], qrels, {})
        {'9-1_3': ['a (label 2): bm25 at rank 31']}
    """
    if qrels is None:
        return {}
    relevant = qrels[qrels["label"] > 0]
    ranks = [ranks_of(run.results[run.results["docno"].isin(relevant["docno"])]) for run in runs]
    found: dict[str, list[tuple[int, int, str]]] = {}
    for qid, docno, grade in zip(
        relevant["qid"], relevant["docno"], relevant["label"], strict=True
    ):
        places = {
            run.name: of_run[qid, docno]
            for run, of_run in zip(runs, ranks, strict=True)
            if (qid, docno) in of_run
        }
        if places and docno not in shown.get(qid, ()):
            told = ", ".join(f"{name} at rank {rank}" for name, rank in places.items())
            found.setdefault(qid, []).append(
                (-int(grade), min(places.values()), f"{docno} (label {grade}): {told}")
            )
    return {
        qid: [text for _, _, text in sorted(several)[:MISSED]] for qid, several in found.items()
    }


def cutoff_of(measure: ir_measures.Measure) -> int | None:
    """How many passages a measure uses; None for all."""
    found: int | None = measure.params.get("cutoff")
    return found


def level_of(measure: ir_measures.Measure) -> int:
    """The lowest label that is relevant for a measure."""
    return int(measure.params.get("rel", 1))


def is_sum(measure: ir_measures.Measure) -> bool:
    """Whether :func:`passage_shares` knows the measure: it is one of trec_eval's, without its own gains or removed unjudged passages."""
    plain = (
        measure.params.keys() <= {"cutoff", "rel", "dcg"}
        and measure.params.get("dcg", "log2") == "log2"
    )
    return measure.NAME in SUMS and plain


def passage_shares(
    measure: ir_measures.Measure, labels: Mapping[str, int], ranks: Mapping[str, int]
) -> dict[str, float]:
    """The share of each relevant passage in a turn's score. The shares sum to the score.

    Source: the definitions of trec_eval's ``ndcg``, ``P`` and ``recall``: a passage of label l at
    rank r adds l / log2(r + 1), divided by the best possible sum; 1 / cutoff; 1 / the number of
    relevant passages.

    Args:
        measure: a measure for which :func:`is_sum` is true.
        labels: the turn's judgements.
        ranks: the rank of each relevant passage that was found, from 1. Other passages don't count.

    Returns:
        docno -> share, without passages below the cutoff.

    Example:
        >>> from ir_measures import P, nDCG
        >>> passage_shares(P @ 2, {"a": 1, "b": 0, "c": 1}, {"a": 2, "c": 3})
        {'a': 0.5}
        >>> round(passage_shares(nDCG @ 3, {"a": 2, "c": 1}, {"a": 1})["a"], 4)  # 2 / (2 + 1 / log2(3))
        0.7602
    """
    cutoff, level = cutoff_of(measure), level_of(measure)
    relevant = {docno: label for docno, label in labels.items() if label >= level}
    counted = [
        docno for docno in relevant if docno in ranks and (cutoff is None or ranks[docno] <= cutoff)
    ]
    if measure.NAME == "nDCG":
        ideal = _dcg(sorted(relevant.values(), reverse=True)[:cutoff])
        return {docno: relevant[docno] / log2(ranks[docno] + 1) / ideal for docno in counted}
    return dict.fromkeys(
        counted, 1 / (int(measure["cutoff"]) if measure.NAME == "P" else max(len(relevant), 1))
    )


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(place + 2) for place, gain in enumerate(gains))
