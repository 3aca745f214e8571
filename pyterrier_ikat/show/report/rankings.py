"""The passages that the runs found for each turn, and the scores of the turns."""

import warnings
from collections.abc import Collection, Sequence

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
from .content import ListedPassage
from .material import RunData
from .means import ScoreRows

WORD_LIMITS = (120, 90, 60, 45, 30)
"""How many words of a passage are shown; fewer if the page has many passages."""
PASSAGE_CHARACTERS = 3_000_000
"""How many characters of distinct passages a page has. Packed, they are about 1.5 MB."""
OPEN_WORDS = 30
"""How many words can be read without opening the passage."""


def passages_by_turn(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, texts: pt.Transformer | None, depth: int
) -> tuple[dict[str, list[list[ListedPassage]]], int, dict[str, str]]:
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
    docnos = {docno for results in shown for docno in results["docno"]}
    known = _texts_of(runs, texts, docnos)
    limit = word_limit([known[docno] for docno in docnos if docno in known])
    words = {docno: cut_words(known[docno], limit) for docno in docnos if docno in known}
    ranks = [ranks_of(run.results[run.results["docno"].isin(docnos)]) for run in runs]
    labels = {} if qrels is None else qrels.set_index(["qid", "docno"])["label"].to_dict()
    listed: dict[str, list[list[ListedPassage]]] = {}
    for number, (run, results) in enumerate(zip(runs, shown, strict=True)):
        # the baseline is compared with all runs, another run with the baseline
        others = range(1, len(runs)) if number == 0 else range(1)
        for qid, docno, score, rank in zip(
            results["qid"], results["docno"], results["score"], results["rank"], strict=True
        ):
            beginning, rest = words.get(docno, ("", ""))
            passage = ListedPassage(
                rank=int(rank) + 1,
                docno=docno,
                score=float(score),
                beginning=beginning,
                rest=rest,
                label=labels.get((qid, docno)),
                used=docno in run.turns.get(qid, {}).get("used", ()),
                elsewhere=[(other, ranks[other].get((qid, docno))) for other in others],
            )
            if qid not in listed:
                listed[qid] = [[] for _ in runs]
            listed[qid][number].append(passage)
    return listed, limit if words else 0, known


def _shown(run: RunData, depth: int) -> pd.DataFrame:
    """The rows of a run that the page shows, by rank."""
    used: set[tuple[str, str]] = set()
    for qid, turn in run.turns.items():
        used.update((qid, docno) for docno in turn.get("used", ()))
    pairs = zip(run.results["qid"].tolist(), run.results["docno"].tolist(), strict=True)
    is_used = np.array([pair in used for pair in pairs], dtype=bool)
    among_best = (run.results["rank"] < depth).to_numpy()
    return run.results[among_best | is_used].sort_values("rank", kind="stable")


def ranks_of(results: pd.DataFrame) -> dict[tuple[str, str], int]:
    """Return the rank of each passage of each turn: (qid, docno) -> rank from 1."""
    pairs = zip(results["qid"].tolist(), results["docno"].tolist(), strict=True)
    ranks = (results["rank"] + 1).astype(int).tolist()
    return dict(zip(pairs, ranks, strict=True))


def word_limit(texts: Collection[str]) -> int:
    """How many words of each of these texts a page can have.

    Example:
        >>> word_limit(["tea"]), word_limit(["a word " * 100] * 10_000)
        (120, 60)
    """
    lengths = [(len(text), len(text.split())) for text in texts]
    for limit in WORD_LIMITS:
        shown = 0.0
        for characters, words in lengths:
            shown += characters * limit / words if words > limit else characters
        if shown <= PASSAGE_CHARACTERS:
            return limit
    return WORD_LIMITS[-1]


def _texts_of(
    runs: Sequence[RunData], texts: pt.Transformer | None, wanted: set[str]
) -> dict[str, str]:
    """Docno -> text: the texts that runs have, and the loaded ones of the other wanted passages."""
    known: dict[str, str] = {}
    for run in runs:
        if "text" in run.results.columns:
            for docno, text in zip(run.results["docno"], run.results["text"], strict=True):
                if isinstance(text, str):
                    known[docno] = text
    return known | load_texts(texts, wanted - set(known))


def load_texts(texts: pt.Transformer | None, docnos: set[str]) -> dict[str, str]:
    """Docno -> text; empty without an operator for texts."""
    if texts is None or not docnos:
        return {}
    loaded = texts.transform(pd.DataFrame({"docno": sorted(docnos)}, dtype=object))
    return dict(zip(loaded["docno"], loaded["text"], strict=True))


def cut_words(text: str, limit: int) -> tuple[str, str]:
    """Split a text: the words that are always shown, and the following words up to the limit."""
    words = text.split()
    beginning = " ".join(words[:OPEN_WORDS])
    rest = " ".join(words[OPEN_WORDS:limit])
    if len(words) > max(limit, OPEN_WORDS):
        rest += " …"
    return beginning, rest


def judged_to_show(
    runs: Sequence[RunData], qrels: pd.DataFrame | None, turns: Sequence[str], chosen: bool = False
) -> tuple[pd.DataFrame | None, list[str]]:
    """Return the judgements of the scored turns, and sentences about these turns.

    Args:
        runs: the runs.
        qrels: the judgements; without them, there are none to return.
        turns: the turns that the page shows.
        chosen: whether the user chose these turns.

    Raises:
        DataError: when none of the turns is judged, or no judged turn was asked of all run folders.
    """
    if qrels is None:
        return None, []
    judged = qrels[qrels["qid"].isin(turns)]
    if judged.empty:
        example = qrels["qid"].iloc[0] if len(qrels) else "none at all"
        raise DataError(
            f"none of the turns ({turns[0]}, ...) is judged: the qrels have turns like {example}"
        )
    asked: dict[str, Asked | None] = {}
    with_results = {}
    for run in runs:
        asked[run.name] = None if run.run_on is None else Asked(run.run_on)
        with_results[run.name] = set(run.results["qid"])
    scored = choose_turns(judged["qid"], asked, chosen=chosen)
    return judged[judged["qid"].isin(scored.ids)], scored.sentences(with_results)


def scores_to_show(
    runs: Sequence[RunData],
    qrels: pd.DataFrame | None,
    turns: Sequence[str],
    measures: Sequence[ir_measures.Measure | str] | None = None,
) -> tuple[list[str], dict[str, ScoreRows]]:
    """Return the names of the measures, and for each judged turn the scores of every run.

    A turn that is missing from a run counts 0. The default measures are all that a run folder has,
    and the track's. Without qrels, the scores are those of the run folders, for the measures that
    all of them have.

    Raises:
        DataError: when none of the turns is judged, a run has docnos of another form than the
            judgements, or the run folders have no scores for these measures, no common measures, or
            scores for different turns or qrels.
    """
    if qrels is None:
        wanted = None if measures is None else list(map(label, as_measures(measures)))
        tables = _scores_of_folders(runs, wanted)
    else:
        judged, _ = judged_to_show(runs, qrels, turns, chosen=True)
        tables = _scores_of_rankings(runs, judged, measures_to_show(runs, measures))
    if not tables or tables[0].empty:
        return [], {}
    names = [name for name in tables[0].columns if name != "qid"]
    scores: dict[str, ScoreRows] = {qid: [] for qid in tables[0]["qid"]}
    for table in tables:
        values = table[names].to_numpy(dtype=float).tolist()
        of_turns = dict(zip(table["qid"], values, strict=True))
        for qid, of_runs in scores.items():
            of_runs.append(of_turns[qid])
    return names, scores


def _scores_of_rankings(
    runs: Sequence[RunData],
    judged: pd.DataFrame | None,
    measures: Sequence[ir_measures.Measure],
) -> list[pd.DataFrame]:
    """The scores of each run: ``qid`` and a column per measure."""
    evaluator = make_evaluator(judged, measures)
    tables = []
    for run in runs:
        ranking = ranking_of(run.name, run.results)
        evaluator.check_form(f"run {run.name}", ranking)
        unlike = evaluator.without_judged(ranking)
        if unlike:
            warnings.warn(
                f"run {run.name}: {unlike}, so that each of its scores is 0",
                NotJudgedWarning,
                stacklevel=5,
            )
        scores = evaluator.per_turn(run.name, ranking)
        tables.append(pd.DataFrame({"qid": evaluator.turns, **scores}))
    return tables


def measures_to_show(
    runs: Sequence[RunData], measures: Sequence[ir_measures.Measure | str] | None = None
) -> list[ir_measures.Measure]:
    """The given measures; by default those of the run folders, and the track's.

    The first measure of a folder is the first one that its run asked for.
    """
    if measures is not None:
        return as_measures(measures)
    names: list[str] = []
    for run in runs:
        if run.scores is not None:
            names.extend(run.scores.columns)
    return as_measures([*computable(names), *TRACK_2023])


def _scores_of_folders(runs: Sequence[RunData], wanted: Sequence[str] | None) -> list[pd.DataFrame]:
    """The scores that the run folders have; none if a folder has none."""
    tables = [run.scores for run in runs if run.scores is not None]
    if len(tables) < len(runs):
        return []
    common = list(tables[0].columns)
    for table in tables:
        common = [name for name in common if name in table.columns]
    common.remove("qid")
    if wanted is None:
        wanted = common
    lacking = [name for name in wanted if name not in common]
    if lacking:
        raise DataError(
            f"not all of these runs were measured by {', '.join(lacking)}: "
            "give the dataset or the qrels"
        )
    _check_alike(runs, tables, common)
    return [table[["qid", *wanted]] for table in tables]


def _check_alike(
    runs: Sequence[RunData], tables: Sequence[pd.DataFrame], common: Sequence[str]
) -> None:
    """Check that folders were measured by common measures on the same turns with the same qrels."""
    turns = set(tables[0]["qid"])
    # a folder that was written by hand may not name its qrels
    with_qrels = [run for run in runs if "qrels_sha256" in run.parameters]
    for number, (run, table) in enumerate(zip(runs, tables, strict=True)):
        other_measures = number > 0 and not common
        if other_measures or set(table["qid"]) != turns:
            raise DataError(
                f"{run.name} and {runs[0].name} were measured by other measures or on other turns: "
                "give the dataset or the qrels"
            )
        if "qrels_sha256" not in run.parameters:
            continue
        first = with_qrels[0]
        if run.parameters["qrels_sha256"] != first.parameters["qrels_sha256"]:
            raise DataError(
                f"{run.name} and {first.name} were measured with other qrels: "
                "give the dataset or the qrels"
            )
