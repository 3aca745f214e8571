"""The passages that the runs found for each turn, and the scores of the turns."""

import warnings
from collections.abc import Sequence

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt

from ...errors import DataError
from ...evaluation import TRACK_2023, as_measures, label
from ...evaluation.evaluator import NotJudgedWarning, computable
from ...evaluation.finished_runs import ranking_of
from ...evaluation.scored_turns import Asked, choose_turns
from ...evaluation.scores import make_evaluator
from .material import RunData
from .means import Scores
from .page import Passage

LIMITS = (120, 90, 60, 45, 30)
"""How many words of a passage are shown; fewer if the page has many passages. The index has the rest."""
CHARACTERS = 4_800_000
"""How many characters of passages fit into a page, so that 332 turns of three systems stay within 12 MB."""
OPEN_WORDS = 30
"""How many words can be read without opening the passage."""


def passages_by_turn(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, texts: pt.Transformer | None, depth: int
) -> tuple[dict[str, list[list[Passage]]], int, dict[str, str]]:
    """For each turn and run, its best ``depth`` passages and those on which its response is based.

    The first run is the baseline. Each of its passages has its ranks in all other runs, each of
    another run its rank in the baseline, however low it is.

    Returns:
        qid -> for each run its passages; how many words of a passage are kept, 0 without texts; and
        docno -> the whole texts.

    Raises:
        DataError: when ``texts`` lacks a passage.
    """
    shown = [_shown(run, depth) for run in runs]
    docnos = {docno for frame in shown for docno in frame["docno"]}
    known = _texts_of(runs, texts, docnos)
    limit = word_limit([known.get(docno, "") for frame in shown for docno in frame["docno"]])
    words = {docno: cut_words(known[docno], limit) for docno in docnos if docno in known}
    ranks = [ranks_of(run.results[run.results["docno"].isin(docnos)]) for run in runs]
    labels = {} if qrels is None else qrels.set_index(["qid", "docno"])["label"].to_dict()
    found: dict[str, list[list[Passage]]] = {}
    for number, (run, frame) in enumerate(zip(runs, shown, strict=True)):
        others = [other for other in range(len(runs)) if other != number and 0 in (other, number)]
        for qid, docno, score, rank in zip(
            *(frame[name] for name in ("qid", "docno", "score", "rank")), strict=True
        ):
            elsewhere = [(other, ranks[other].get((qid, docno))) for other in others]
            used = docno in run.turns.get(qid, {}).get("used", ())
            row = (
                int(rank) + 1,
                docno,
                float(score),
                *words.get(docno, ("", "")),
                labels.get((qid, docno)),
                used,
                elsewhere,
            )
            found.setdefault(qid, [[] for _ in runs])[number].append(Passage(*row))
    return found, limit if words else 0, known


def _shown(run: RunData, depth: int) -> pd.DataFrame:
    """The rows of a run that the page shows, by rank."""
    used = {(qid, docno) for qid, turn in run.turns.items() for docno in turn.get("used", ())}
    pairs = zip(run.results["qid"].tolist(), run.results["docno"].tolist(), strict=True)
    wanted = (run.results["rank"] < depth).to_numpy() | np.array(
        [pair in used for pair in pairs], dtype=bool
    )
    return run.results[wanted].sort_values("rank", kind="stable")


def ranks_of(results: pd.DataFrame) -> dict[tuple[str, str], int]:
    """(qid, docno) -> rank from 1."""
    pairs = zip(results["qid"].tolist(), results["docno"].tolist(), strict=True)
    return dict(zip(pairs, (results["rank"] + 1).astype(int).tolist(), strict=True))


def word_limit(texts: Sequence[str]) -> int:
    """How many words of each of these texts a page can have.

    Example:
        >>> word_limit(["tea"]), word_limit(["a word " * 100] * 20_000)
        (120, 60)
    """
    sizes = [(len(text), max(len(text.split()), 1)) for text in texts]
    fitting = (
        limit
        for limit in LIMITS
        if sum(size * min(1.0, limit / words) for size, words in sizes) <= CHARACTERS
    )
    return next(fitting, LIMITS[-1])


def _texts_of(
    runs: Sequence[RunData], texts: pt.Transformer | None, wanted: set[str]
) -> dict[str, str]:
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
    return " ".join(words[:OPEN_WORDS]), f"{rest} …" if len(words) > max(
        limit, OPEN_WORDS
    ) else rest


def judged_to_show(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, turns: Sequence[str], chosen: bool = False
) -> tuple[pd.DataFrame | None, list[str]]:
    """The judgements of the shown turns that are scored, and the sentences about these turns; None without judgements.

    Raises:
        DataError: when none of the turns is judged, or no judged turn was asked of all run folders.
    """
    if qrels is None:
        return None, []
    judged = qrels[qrels["qid"].isin(turns)]
    if judged.empty:
        first = qrels["qid"].iloc[0] if len(qrels) else "none at all"
        raise DataError(
            f"none of the turns ({turns[0]}, ...) is judged: the qrels have turns like {first}"
        )
    asked = {run.name: None if run.run_on is None else Asked(run.run_on) for run in runs}
    scored = choose_turns(judged["qid"], asked, chosen=chosen)
    found = {run.name: set(run.results["qid"]) for run in runs}
    return judged[judged["qid"].isin(scored.ids)], scored.sentences(found)


def scores_to_show(
    runs: Sequence[RunData],
    qrels: pd.DataFrame | None,
    turns: Sequence[str],
    measures: Sequence[ir_measures.Measure | str] | None = None,
) -> tuple[list[str], dict[str, Scores]]:
    """The names of the measures, and for each judged turn the scores of every run. A turn that is missing from a run counts 0.

    The default measures are the track's and all that a run folder has. Without qrels, the scores
    are those of the run folders, for the measures that all of them have.

    Raises:
        DataError: when none of the turns is judged, a run has docnos of another form than the
            judgements, or the run folders have no scores for these measures, no common measures, or
            scores for different turns or qrels.
    """
    if qrels is None:
        tables = _scores_of_folders(
            runs, None if measures is None else list(map(label, as_measures(measures)))
        )
    else:
        judged, _ = judged_to_show(runs, qrels, turns, chosen=True)
        evaluator = make_evaluator(judged, measures_to_show(runs, measures))
        found = []
        for run in runs:
            ranking = ranking_of(run.name, run.results)
            evaluator.check_form(f"run {run.name}", ranking)
            if unlike := evaluator.without_judged(ranking):
                warnings.warn(
                    f"run {run.name}: {unlike}, so that each of its scores is 0",
                    NotJudgedWarning,
                    stacklevel=4,
                )
            found.append(evaluator.per_turn(run.name, ranking))
        tables = [pd.DataFrame({"qid": evaluator.turns, **scores}) for scores in found]
    if not tables or tables[0].empty:
        return [], {}
    names = [name for name in tables[0].columns if name != "qid"]
    values = [
        dict(zip(table["qid"], table[names].to_numpy(dtype=float).tolist(), strict=True))
        for table in tables
    ]
    return names, {qid: [rows[qid] for rows in values] for qid in values[0]}


def measures_to_show(
    runs: Sequence[RunData], measures: Sequence[ir_measures.Measure | str] | None = None
) -> list[ir_measures.Measure]:
    """The given measures; by default the track's and the further ones of the run folders."""
    kept = [name for run in runs if run.scores is not None for name in run.scores.columns]
    return as_measures([*TRACK_2023, *computable(kept)] if measures is None else measures)


def _scores_of_folders(runs: Sequence[RunData], wanted: Sequence[str] | None) -> list[pd.DataFrame]:
    tables = [run.scores for run in runs if run.scores is not None]
    if len(tables) < len(runs):
        return []
    common = [
        name
        for name in tables[0].columns
        if name != "qid" and all(name in table.columns for table in tables)
    ]
    if lacking := [name for name in wanted or () if name not in common]:
        raise DataError(
            f"not all of these runs were measured by {', '.join(lacking)}: give the dataset or the qrels"
        )
    judged = [
        run for run in runs if "qrels_sha256" in run.parameters
    ]  # a folder that was written by hand may not name its qrels
    for run, table in zip(runs, tables, strict=True):
        if (not common and table is not tables[0]) or set(table["qid"]) != set(tables[0]["qid"]):
            raise DataError(
                f"{run.name} and {runs[0].name} were measured by other measures or on other turns: give the dataset or the qrels"
            )
        if (
            "qrels_sha256" in run.parameters
            and run.parameters["qrels_sha256"] != judged[0].parameters["qrels_sha256"]
        ):
            raise DataError(
                f"{run.name} and {judged[0].name} were measured with other qrels: give the dataset or the qrels"
            )
    return [table[["qid", *(common if wanted is None else wanted)]] for table in tables]
