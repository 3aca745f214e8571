"""The passages that the runs found for each turn, and their scores: all passages in one list, each with its rank in every run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt

from ...errors import DataError
from ...evaluation import TRACK_2023, as_measures, label, per_turn
from ...evaluation.evaluator import compared
from ...evaluation.measures import computable
from .material import RunData

LIMITS = (120, 90, 60, 45, 30)
"""How many words of a passage are shown; fewer if the page has many passages. The index has the rest."""
CHARACTERS = 4_800_000
"""How many characters of passages fit into a page, so that 332 turns of three systems without a common passage stay within 12 MB."""
WRITTEN = 1_000_000
"""How many characters written by the runs fit in addition. More than that reduces the passages."""
OPEN_WORDS = 30
"""How many words can be read without opening the passage."""


@dataclass(frozen=True)
class RunPlace:
    """The rank of a passage in a run.

    Attributes:
        rank: from 1.
        score: its score in the run.
        used: whether the run's response is based on it.
        deep: whether the rank is below the shown depth.
    """

    rank: int
    score: float
    used: bool = False
    deep: bool = False


@dataclass(frozen=True)
class ListedPassage:
    """A passage that at least one run found.

    Attributes:
        docno: its id.
        places: one per run; None if the run doesn't have the passage.
        label: its relevance; None if it is not judged.
        beginning: the first words of its text.
        rest: the following words, up to the limit.
    """

    docno: str
    places: tuple[RunPlace | None, ...]
    label: int | None
    beginning: str
    rest: str

    @property
    def shown_by(self) -> list[int]:
        """The numbers of the runs that have it among their shown passages."""
        return [number for number, place in enumerate(self.places) if place is not None and not place.deep]


def passages_by_turn(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, texts: pt.Transformer | None, depth: int
) -> tuple[dict[str, list[ListedPassage]], int, dict[str, str]]:
    """For each turn, the best ``depth`` passages of every run and those on which a response is based, ordered by best rank.

    A passage that one run shows also has its rank in the other runs, however low it is.

    Returns:
        qid -> passages; how many words of a passage are kept, 0 without texts; and docno -> the whole texts.

    Raises:
        DataError: when ``texts`` lacks a passage.
    """
    places: dict[str, dict[str, list[RunPlace | None]]] = {}
    for number, run in enumerate(runs):
        for qid, docno, place in _places(run, depth):
            places.setdefault(qid, {}).setdefault(docno, [None] * len(runs))[number] = place
    for number, run in enumerate(runs):
        _add_deep(run, number, places)
    labels = {} if qrels is None else qrels.set_index(["qid", "docno"])["label"].to_dict()
    known = _texts_of(runs, texts, {docno for turn in places.values() for docno in turn})
    limit = word_limit([known.get(docno, "") for turn in places.values() for docno in turn], sum(map(_written, runs)))
    words = {docno: cut_words(text, limit) for docno, text in known.items()}
    listed = {
        qid: [
            ListedPassage(docno, tuple(by_run), labels.get((qid, docno)), *words.get(docno, ("", "")))
            for docno, by_run in sorted(found.items(), key=lambda entry: _best_place(entry[1]))
        ]
        for qid, found in places.items()
    }
    return listed, limit if words else 0, known


def _best_place(by_run: Sequence[RunPlace | None]) -> tuple[int, int]:
    return min((place.rank, number) for number, place in enumerate(by_run) if place is not None and not place.deep)


def _add_deep(run: RunData, number: int, places: Mapping[str, dict[str, list[RunPlace | None]]]) -> None:
    """Add the ranks of passages that other runs show and that are further down in this one."""
    found = run.results[run.results["docno"].isin({docno for turn in places.values() for docno in turn})]
    for qid, docno, rank, score in zip(*(found[name] for name in ("qid", "docno", "rank", "score")), strict=True):
        by_run = places.get(qid, {}).get(docno)
        if by_run is not None and by_run[number] is None:
            by_run[number] = RunPlace(int(rank) + 1, float(score), deep=True)


def _written(run: RunData) -> int:
    """The characters of queries, rewrites and answers, with each text of a turn once."""
    lists = [[*turn.get("searched", ()), *turn.get("qsubqueries", ())] for turn in run.turns.values()]
    texts = [[turn[name] for name in ("qrewrite", "qanswer", "response") if isinstance(turn.get(name), str)] for turn in run.turns.values()]
    return sum(len(text) for several in [*lists, *texts] for text in set(several))


def word_limit(texts: Sequence[str], written: int = 0) -> int:
    """How many words of each text a page can have, in addition to the texts written by the runs.

    Args:
        texts: the texts of all passages.
        written: the characters that the runs wrote.

    Example:
        >>> word_limit(["tea"]), word_limit(["a word " * 500] * 20_000)
        (120, 60)
    """
    sizes = [(len(text), max(len(text.split()), 1)) for text in texts]
    room = CHARACTERS - max(0, written - WRITTEN)
    fitting = (limit for limit in LIMITS if sum(size * min(1.0, limit / words) for size, words in sizes) <= room)
    return next(fitting, LIMITS[-1])


def _places(run: RunData, depth: int) -> Iterator[tuple[str, str, RunPlace]]:
    used = {(qid, docno) for qid, turn in run.turns.items() for docno in turn.get("used", ())}
    wanted = (run.results["rank"] < depth) | run.results["docno"].isin({docno for _, docno in used})
    best = run.results[wanted]
    for qid, docno, rank, score in zip(*(best[name] for name in ("qid", "docno", "rank", "score")), strict=True):
        if rank < depth or (qid, docno) in used:
            yield qid, docno, RunPlace(int(rank) + 1, float(score), (qid, docno) in used)


def _texts_of(runs: Sequence[RunData], texts: pt.Transformer | None, wanted: set[str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for run in runs:
        if "text" in run.results.columns:
            pairs = zip(run.results["docno"], run.results["text"], strict=True)
            known.update((docno, text) for docno, text in pairs if isinstance(text, str))
    return known | load_texts(texts, wanted - set(known))


def load_texts(texts: pt.Transformer | None, docnos: set[str]) -> dict[str, str]:
    """Docno -> text; empty without an operator for texts."""
    if texts is None or not docnos:
        return {}
    loaded = texts.transform(pd.DataFrame({"docno": sorted(docnos)}, dtype=object))
    return dict(zip(loaded["docno"], loaded["text"], strict=True))


def cut_words(text: str, limit: int) -> tuple[str, str]:
    """The words of a text that can be read without opening it, and the following words up to the limit."""
    words = text.split()
    rest = " ".join(words[OPEN_WORDS:limit])
    return " ".join(words[:OPEN_WORDS]), f"{rest} …" if len(words) > max(limit, OPEN_WORDS) else rest


Scores = list[list[float]]
"""One list per run, with one score per measure."""


def scores_to_show(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, turns: Sequence[str], measures: Sequence[ir_measures.Measure | str] | None = None
) -> tuple[list[str], dict[str, Scores]]:
    """The names of the measures, and for each judged turn the scores of every run. A turn that is missing from a run counts 0.

    The default measures are the track's and all that a run folder has. Without qrels, the scores are those of the run folders, for the
    measures that all of them have.

    Raises:
        DataError: when none of the turns is judged, or the run folders have no scores for these measures, no common measures, or scores for
            different turns or qrels.
    """
    if qrels is None:
        tables = _scores_of_folders(runs, None if measures is None else list(map(label, as_measures(measures))))
    else:
        judged = qrels[qrels["qid"].isin(turns)]
        if judged.empty:
            first = qrels["qid"].iloc[0] if len(qrels) else "none at all"
            raise DataError(f"none of the turns ({turns[0]}, ...) is judged: the qrels have turns like {first}")
        wanted = measures_to_show(runs, measures)
        tables = [per_turn(run.results, judged, wanted) for run in runs]
    if not tables or tables[0].empty:
        return [], {}
    names = [name for name in tables[0].columns if name != "qid"]
    values = [dict(zip(table["qid"], table[names].to_numpy(dtype=float).tolist(), strict=True)) for table in tables]
    return names, {qid: [rows[qid] for rows in values] for qid in values[0]}


def measures_to_show(runs: Sequence[RunData], measures: Sequence[ir_measures.Measure | str] | None = None) -> list[ir_measures.Measure]:
    """The given measures; by default the track's and the further ones of the run folders."""
    kept = [name for run in runs if run.scores is not None for name in run.scores.columns]
    return as_measures([*TRACK_2023, *computable(kept)] if measures is None else measures)


def mean_scores(scores: Mapping[str, Scores]) -> Scores:
    """The mean over the turns, for each run and measure."""
    if not scores:
        return []
    means: Scores = np.mean([rows for rows in scores.values()], axis=0).tolist()
    return means


def significant_pairs(scores: Mapping[str, Scores]) -> list[list[list[int]]]:
    """For each run and measure, the numbers of the runs from which it differs according to the corrected test of ``ikat evaluate``.

    That is a two-sided paired t-test over the turns. With each run as the baseline, there are as many comparisons as other runs.

    Example:
        >>> scores = {f"9-1_{turn}": [[0.0], [0.5 + turn / 100], [turn % 2 / 10]] for turn in range(1, 7)}
        >>> significant_pairs(scores)
        [[[1]], [[0, 2]], [[1]]]
    """
    if not scores:
        return []
    values = np.array(list(scores.values()), dtype=float)  # by turn, run and measure
    runs, measures = range(values.shape[1]), range(values.shape[2])

    def differ(one: int, other: int, measure: int) -> bool:
        return bool(compared("", values[:, one, measure], values[:, other, measure], len(runs) - 1)[" reject"])

    found = {(one, other, place) for one in runs for other in range(one) for place in measures if differ(one, other, place)}
    return [[[other for other in runs if (max(run, other), min(run, other), place) in found] for place in measures] for run in runs]


def _scores_of_folders(runs: Sequence[RunData], wanted: Sequence[str] | None) -> list[pd.DataFrame]:
    tables = [run.scores for run in runs if run.scores is not None]
    if len(tables) < len(runs):
        return []
    common = [name for name in tables[0].columns if name != "qid" and all(name in table.columns for table in tables)]
    if lacking := [name for name in wanted or () if name not in common]:
        raise DataError(f"not all of these runs were measured by {', '.join(lacking)}: give the dataset or the qrels")
    judged = [run for run in runs if "qrels_sha256" in run.parameters]  # a folder that was written by hand may not name its qrels
    for run, table in zip(runs, tables, strict=True):
        if (not common and table is not tables[0]) or set(table["qid"]) != set(tables[0]["qid"]):
            raise DataError(
                f"{run.name} and {runs[0].name} were measured by other measures or on other turns: give the dataset or the qrels"
            )
        if "qrels_sha256" in run.parameters and run.parameters["qrels_sha256"] != judged[0].parameters["qrels_sha256"]:
            raise DataError(f"{run.name} and {judged[0].name} were measured with other qrels: give the dataset or the qrels")
    return [table[["qid", *(common if wanted is None else wanted)]] for table in tables]
