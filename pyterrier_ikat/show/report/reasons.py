"""Why one run is better than another on a turn: the passages that make the difference."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf, log2

import ir_measures
import pandas as pd

from ...errors import counted
from ...evaluation import label
from ...evaluation.inference import TIE_TOLERANCE
from ...tables import format_score
from .material import RunData
from .means import ScoreRows
from .rankings import ranks_of

FROM_WINNER = 2
"""How many passages are named from which the winner gains most."""
FROM_LOSER = 1
"""How many passages are named from which the loser gains most."""
INTRUDERS = 2
"""How many passages are named that came before the first of the winner's."""

MOST_TEXTS = 20_000
"""The maximum number of explanations of a page, unless there are more for its first measure."""
OPENING_WORDS = 6
"""How many first words are the name of a passage."""
SUM_MEASURES = ("nDCG", "P", "R")
"""The measures that are sums over the relevant passages above their cutoff."""
MOST_MISSED = 5
"""The maximum number of relevant passages of a turn that are named although no run shows them."""


class Explainer:
    """Explain the difference between two runs on a judged turn, for a measure.

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
        self.measure = measure
        self.labels = labels
        self.names = names
        self.ranks = ranks
        self.called = called or {}
        cutoff = cutoff_of(measure)
        # the first rank that the measure does not use
        self.end = inf if cutoff is None else cutoff + 1
        level = level_of(measure)
        relevant = [docno for docno, label in labels.items() if label >= level]
        self.relevant = bool(relevant)
        self.gains = []
        for of_run in ranks:
            found = {docno: of_run[docno] for docno in relevant if docno in of_run}
            self.gains.append(self._gains(found))

    def _gains(self, ranks: Mapping[str, int]) -> Mapping[str, float]:
        """Docno -> what a relevant passage adds to the score, or as much as it adds to the DCG."""
        if is_sum(self.measure):
            return passage_shares(self.measure, self.labels, ranks)
        gains = {}
        for docno, rank in ranks.items():
            if rank < self.end:
                gains[docno] = self.labels[docno] / log2(rank + 1)
        return gains

    def explain(self, run: int, other: int, lead: float) -> str:
        """Write a sentence about each of the passages that matter most, the winner's first.

        Args:
            run: the number of a run.
            other: the number of another run.
            lead: the score of ``run`` minus the score of ``other``.

        Example:
            >>> from ir_measures import nDCG
            >>> ranks = [{"a": 1, "b": 2}, {"b": 1}]
            >>> text = Explainer(nDCG @ 3, {"b": 2}, ["qr", "aqd"], ranks).explain(0, 1, 0.6309 - 1)
            >>> for sentence in text.split(". "):
            ...     print(sentence)
            aqd leads by .3691 in nDCG@3
            aqd finds b (label 2) at rank 1, qr at 2 (+.3691)
            In qr a, not judged, came in at rank 1.
        """
        name = label(self.measure)
        if abs(lead) < TIE_TOLERANCE:
            return f"No difference in {name}{self._why_alike(run, other)}."
        winner, loser = (run, other) if lead > 0 else (other, run)
        up, down = self._moved(winner, loser)
        sentences = [f"{self.names[winner]} leads by {format_score(abs(lead))} in {name}."]
        for change, docno in up[:FROM_WINNER]:
            sentences.append(self._found(winner, loser, change, docno))
        for change, docno in down[:FROM_LOSER]:
            sentences.append(self._found(loser, winner, change, docno))
        sentences.append(self._rest([*up[FROM_WINNER:], *down[FROM_LOSER:]]))
        if up:
            sentences.append(self._intruders(winner, loser, up[0][1]))
        return " ".join(sentence for sentence in sentences if sentence)

    def _moved(
        self, winner: int, loser: int
    ) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
        """The passages from which the winner gains, and those from which the loser gains.

        Each has its amount before it; the largest are first. Without a gain of the winner, both are
        empty: what the loser gains alone would explain the opposite.
        """
        ours = self.gains[winner]
        theirs = self.gains[loser]
        gained = []
        lost = []
        for docno in {**ours, **theirs}:
            change = ours.get(docno, 0.0) - theirs.get(docno, 0.0)
            if change > TIE_TOLERANCE:
                gained.append((change, docno))
            elif change < -TIE_TOLERANCE:
                lost.append((change, docno))
        if not gained:
            return [], []
        gained.sort(key=lambda pair: pair[0], reverse=True)
        lost.reverse()  # of equal losses, the one that was read last is first
        lost.sort(key=lambda pair: pair[0])
        return gained, lost

    def _name(self, docno: str) -> str:
        return self.called.get(docno, docno)

    def _found(self, run: int, other: int, change: float, docno: str) -> str:
        """A sentence about a passage that a run finds before another run."""
        rank = self.ranks[run][docno]
        others_rank = self.ranks[other].get(docno)
        if others_rank:
            elsewhere = f"{self.names[other]} at {others_rank}"
        else:
            elsewhere = f"{self.names[other]} does not find it"
        share = f" ({_signed(change)})" if is_sum(self.measure) else ""
        passage = f"{self._name(docno)} (label {self.labels[docno]})"
        return f"{self.names[run]} finds {passage} at rank {rank}, {elsewhere}{share}."

    def _rest(self, moved: Sequence[tuple[float, str]]) -> str:
        if not moved:
            return ""
        passages = counted(len(moved), "more relevant passage")
        if not is_sum(self.measure):
            return f"{passages} came in or out."
        return f"{passages}: {_signed(sum(change for change, _docno in moved))}."

    def _intruders(self, winner: int, loser: int, docno: str) -> str:
        """The passages that came before a relevant one, in words."""
        intruders = []
        for other, rank in islice(self._before(winner, loser, docno), INTRUDERS):
            status = "relevant" if other in self.labels else "judged"
            within = self.ranks[winner].get(other, inf) < self.end
            how = "moved up to" if within else "came in at"
            intruders.append(f"{self._name(other)}, not {status}, {how} rank {rank}")
        if not intruders:
            return ""
        return f"In {self.names[loser]} {'; '.join(intruders)}."

    def _before(self, winner: int, loser: int, docno: str) -> Iterator[tuple[str, int]]:
        """Passages that aren't relevant and that only the loser has before a relevant one.

        One in the place of the relevant passage counts, too. Each has its rank.
        """
        ours = self.ranks[winner]
        theirs = self.ranks[loser]
        rank_of_relevant = ours[docno]
        end = self.end
        if docno in theirs:
            end = min(theirs[docno], end)
        elif end == inf:  # without a cutoff: down to the rank that the winner has it at
            end = rank_of_relevant + 1
        for other, rank in theirs.items():
            if rank >= end:
                break
            if self.labels.get(other, 0) >= level_of(self.measure):
                continue
            if ours.get(other, rank_of_relevant + 1) > rank_of_relevant:
                yield other, rank

    def _why_alike(self, run: int, other: int) -> str:
        if not self.relevant:
            return ": no passage is judged relevant"
        ours = self.gains[run]
        theirs = self.gains[other]
        names = f"neither {self.names[run]} nor {self.names[other]}"
        if not ours and not theirs:
            within = "" if self.end == inf else f" among its first {self.end - 1}"
            return f": {names} finds a relevant passage{within}"
        if ours.keys() != theirs.keys():
            return ""
        if all(self.ranks[run][docno] == self.ranks[other][docno] for docno in ours):
            return ": both rank the relevant passages alike"
        return ": both find the same relevant passages"


def _signed(change: float) -> str:
    sign = "+" if change >= 0 else "−"
    return f"{sign}{format_score(abs(change))}"


def reasons_by_turn(
    runs: Sequence[RunData],
    qrels: pd.DataFrame | None,
    scores: Mapping[str, ScoreRows],
    measures: Sequence[ir_measures.Measure],
    texts: Mapping[str, str] | None = None,
) -> dict[str, list[list[str]]]:
    """Explain why each run is better or worse than the baseline on each scored turn.

    Of many runs, the first measures alone are explained.

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
    texts_of_a_measure = (len(runs) - 1) * len(scores)
    explained = measures[: max(1, MOST_TEXTS // texts_of_a_measure)]
    names = [run.name for run in runs]
    ranks_of_runs = [_RanksOfRun(run.results) for run in runs]
    labels = {}
    for qid, rows in qrels.groupby("qid", sort=False):
        labels[qid] = dict(zip(rows["docno"], rows["label"].tolist(), strict=True))
    called = {}
    for docno, text in (texts or {}).items():
        if text.strip():
            called[docno] = _opening(text)
    reasons: dict[str, list[list[str]]] = {}
    for qid, of_turn in scores.items():
        ranks = [of_run.of(qid) for of_run in ranks_of_runs]
        explainers = [
            Explainer(measure, labels[qid], names, ranks, called) for measure in explained
        ]
        reasons[qid] = [[]]
        for other in range(1, len(runs)):
            not_run = _not_run([runs[0], runs[other]], qid)
            sentences = []
            for number, explainer in enumerate(explainers):
                lead = of_turn[other][number] - of_turn[0][number]
                sentences.append(not_run or explainer.explain(other, 0, lead))
            reasons[qid].append(sentences)
    return reasons


def _opening(text: str) -> str:
    """The first words of a passage, which are its name."""
    words = text.split()
    opening = " ".join(words[:OPENING_WORDS])
    if len(words) > OPENING_WORDS:
        opening += " …"
    return f"“{opening}”"


def _not_run(runs: Sequence[RunData], qid: str) -> str:
    """A sentence that names the runs that were not run on a turn; empty if both were."""
    names = [run.name for run in runs if run.run_on is not None and qid not in run.run_on]
    if not names:
        return ""
    verb = "was" if len(names) == 1 else "were"
    return f"{' and '.join(names)} {verb} not run on this turn."


class _RanksOfRun:
    """The ranks of a run, for each turn."""

    def __init__(self, results: pd.DataFrame) -> None:
        ordered = results.sort_values("rank", kind="stable").reset_index(drop=True)
        self._docnos = ordered["docno"].tolist()
        self._rows = ordered.groupby("qid", sort=False).indices

    def of(self, qid: str) -> dict[str, int]:
        """Docno -> rank from 1, the best first."""
        rows = self._rows.get(qid, ())
        return {self._docnos[row]: rank for rank, row in enumerate(rows, 1)}


def missed_by_turn(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, shown: Mapping[str, set[str]]
) -> dict[str, list[str]]:
    """Name the relevant passages of each turn that runs have too low for the page to show them.

    Those with the highest label are first, then those with the best rank.

    Args:
        runs: the runs.
        qrels: the judgements.
        shown: qid -> the docnos that the page shows.

    Example:
        >>> qrels = pd.DataFrame({"qid": ["9-1_3"], "docno": ["a"], "label": [2]})
        >>> results = pd.DataFrame({"qid": ["9-1_3"], "docno": ["a"], "rank": [30], "score": [0.5]})
        >>> missed_by_turn([RunData("bm25", results)], qrels, {})
        {'9-1_3': ['a (label 2): bm25 at rank 31']}
    """
    if qrels is None:
        return {}
    relevant = qrels[qrels["label"] > 0]
    ranks = {}
    for run in runs:
        ranks[run.name] = ranks_of(run.results[run.results["docno"].isin(relevant["docno"])])
    missed: dict[str, list[tuple[int, int, str]]] = {}
    for qid, docno, grade in zip(
        relevant["qid"], relevant["docno"], relevant["label"], strict=True
    ):
        if docno in shown.get(qid, ()):
            continue
        found = {}
        for name, of_run in ranks.items():
            if (qid, docno) in of_run:
                found[name] = of_run[qid, docno]
        if not found:
            continue
        places = ", ".join(f"{name} at rank {rank}" for name, rank in found.items())
        text = f"{docno} (label {grade}): {places}"
        missed.setdefault(qid, []).append((-int(grade), min(found.values()), text))
    texts = {}
    for qid, passages in missed.items():
        texts[qid] = [text for _grade, _rank, text in sorted(passages)[:MOST_MISSED]]
    return texts


def cutoff_of(measure: ir_measures.Measure) -> int | None:
    """How many passages a measure uses; None for all."""
    cutoff: int | None = measure.params.get("cutoff")
    return cutoff


def level_of(measure: ir_measures.Measure) -> int:
    """The lowest label that is relevant for a measure."""
    return int(measure.params.get("rel", 1))


def is_sum(measure: ir_measures.Measure) -> bool:
    """Whether :func:`passage_shares` knows the measure.

    It is one of trec_eval's, without its own gains and with all unjudged passages.
    """
    if measure.NAME not in SUM_MEASURES:
        return False
    if measure.params.get("dcg", "log2") != "log2":
        return False
    return measure.params.keys() <= {"cutoff", "rel", "dcg"}


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
        >>> shares = passage_shares(nDCG @ 3, {"a": 2, "c": 1}, {"a": 1})
        >>> round(shares["a"], 4)  # 2 / (2 + 1 / log2(3))
        0.7602
    """
    cutoff = cutoff_of(measure)
    level = level_of(measure)
    relevant = {docno: label for docno, label in labels.items() if label >= level}
    found = []
    for docno in relevant:
        if docno in ranks and (cutoff is None or ranks[docno] <= cutoff):
            found.append(docno)
    if measure.NAME == "P":
        return dict.fromkeys(found, 1 / int(measure["cutoff"]))
    if measure.NAME == "R":
        return dict.fromkeys(found, 1 / max(len(relevant), 1))
    ideal = _dcg(sorted(relevant.values(), reverse=True)[:cutoff])
    shares = {}
    for docno in found:
        shares[docno] = relevant[docno] / log2(ranks[docno] + 1) / ideal
    return shares


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))
