"""Evaluation of the PTKB statements that systems chose."""

import math
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
from ir_measures import P, R, SetF, SetP, SetR, nDCG

from ..arguments import checked
from ..conversations.frame import column, with_columns
from ..conversations.qrels import check_qrels
from ..errors import DataError, UsageError
from ..runs import RunFolder
from ..runs.turns import chosen_statements
from .evaluator import check_form, unlike
from .measures import label


def statement_runs(folders: Mapping[str, str | Path]) -> dict[str, pd.DataFrame]:
    """The statements that each system chose, from its run folder.

    Args:
        folders: name -> a folder made by ``ikat run``.

    Returns:
        Name -> result frame with ``qid``, ``docno`` (the statement's id), ``score``, ``rank``; a turn for which none
        was chosen has no row, and systems that choose none at all are left out.

    Raises:
        DataError: when a folder holds no finished run, or its ``turns.jsonl`` is damaged.

    Example:
        >>> from pyterrier_ikat.evaluation import statement_runs
        >>> statement_runs({})
        {}
    """
    found = {name: statement_ranking(folder) for name, folder in folders.items()}
    return {name: frame for name, frame in found.items() if len(frame)}


def statement_ranking(system: pd.DataFrame | str | Path) -> pd.DataFrame:
    """The statements that one system chose, in its order.

    Args:
        system: a turn or result frame with ``qid`` and ``qstatements`` (a list of (id, score) per turn, best first), or
            a folder made by ``ikat run``. The place in the list decides, not the score. An empty list, ``None`` or NaN
            means that none was chosen.

    Returns:
        ``qid``, ``docno`` (the statement's id), ``score`` (strictly decreasing within a turn), ``rank`` (from 0).

    Raises:
        UsageError: when the frame lacks a column.
        DataError: naming the turn, when a list is malformed, names a statement twice, has a score that is no finite
            number, or when a turn's rows differ; or when the folder holds no finished run.

    Example:
        >>> turns = pd.DataFrame({"qid": ["9-1_3", "9-1_4"], "qstatements": [[("10", 0.9), ("2", 0.4)], []]})
        >>> statement_ranking(turns).values.tolist()
        [['9-1_3', '10', 2.0, 0], ['9-1_3', '2', 1.0, 1]]
    """
    lists = _of_frame(system) if isinstance(system, pd.DataFrame) else _of_folder(Path(system))
    rows = [(qid, name, len(names) - rank, rank) for qid, names in lists.items() for rank, name in enumerate(names)]
    qids, docnos, scores, ranks = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pd.DataFrame(
        {"qid": column(qids), "docno": column(docnos), "score": pd.Series(scores, dtype=float), "rank": pd.Series(ranks, dtype=int)}
    )


def _of_folder(path: Path) -> dict[str, list[str]]:
    if not RunFolder(path).complete:
        raise DataError(f"{path} holds no finished run: give a folder made by `ikat run`")
    RunFolder(path).check_lines("turns.jsonl")
    return _by_turn([(turn["qid"], turn.get("qstatements", [])) for turn in RunFolder(path).turns()])


def _of_frame(frame: pd.DataFrame) -> dict[str, list[str]]:
    missing = [name for name in ("qid", "qstatements") if name not in frame.columns]
    if missing:
        raise UsageError(
            f"the frame has no {' and no '.join(missing)} (it has {', '.join(map(str, frame.columns))}): give the output of a pipeline "
            "that chooses statements, such as ikat.SelectStatements(llm)"
        )
    return _by_turn(zip(frame["qid"], frame["qstatements"], strict=True))


def _by_turn(lists: Iterable[tuple[str, Any]]) -> dict[str, list[str]]:
    given: dict[str, Any] = {}
    for qid, chosen in lists:
        first = given.setdefault(qid, chosen)
        if first is not chosen and _names(qid, first) != _names(qid, chosen):
            raise DataError(f"turn {qid} has rows with different statements: {first!r} and {chosen!r}; give one choice per turn")
    return {qid: _names(qid, chosen) for qid, chosen in given.items()}


def _names(qid: str, chosen: Any) -> list[str]:
    pairs = chosen_statements(qid, chosen)
    names = [name for name, _ in pairs]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise DataError(f"turn {qid}: statement {repeated[0]} is chosen twice; keep its first place")
    for name, score in pairs:
        if not math.isfinite(score):
            raise DataError(f"turn {qid}: statement {name} has the score {score}; give a finite number")
    return names


TRACK_PTKB = (nDCG @ 3, P(rel=1) @ 3, R(rel=1) @ 3, R(rel=1) @ 5, SetP(rel=1), SetR(rel=1), SetF(rel=1))
"""The ranking measures of 2023 (cut at 3) and 2024 (at 5), then precision, recall and F1 of the chosen set."""


@checked
def evaluate_ptkb(systems: Mapping[str, pd.DataFrame | str | Path], qrels: pd.DataFrame) -> pd.DataFrame:
    """Compare the statements that systems chose with PTKB qrels.

    Every measure is computed turn by turn and averaged over **all** turns of the qrels. A turn for which a system chose
    none counts 0, and so does a turn for which no statement is relevant, as in trec_eval: with qrels that have such
    turns even a perfect system stays below 1, so their number is shown. NIST's and the organisers' qrels of 2023 have
    none; the topics' own provenance of 2024 and 2025 has 123 of 218 and 124 of 188. For the mean over the others give
    :func:`with_relevant` of the qrels. A system that chose no statement at all, such as a run of a method that chooses
    none, is named in a warning, and so is one with new statements, which 2025 allows: they are named by their words, and
    count as not relevant.

    Args:
        systems: name -> a frame with ``qid`` and ``qstatements``, or a folder made by ``ikat run``; see
            :func:`~pyterrier_ikat.evaluation.ptkb.statement_ranking`.
        qrels: ``qid``, ``docno`` (the statement's id), ``label``, such as ``get_qrels("ptkb_nist")`` or
            ``get_qrels("ptkb_org")`` of ``ikat:2023`` and ``get_qrels("ptkb")`` of ``ikat:2024``, ``ikat:2025``. They
            alone define the turns.

    Returns:
        One row per system: ``name``, a column per measure of :data:`TRACK_PTKB`, ``turns``, how many the means are over,
        and ``relevant_turns``, how many of them have a relevant statement.

    Raises:
        UsageError: when a frame lacks a column.
        DataError: when a system shares no turn with the qrels, chose an id that the turn's persona does not have, or no statement
            that any has, or its choice or the qrels are malformed.

    Example:
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"], "docno": ["1", "2", "1"], "label": [1, 0, 1]})
        >>> turns = pd.DataFrame({"qid": ["1_1", "1_2"], "qstatements": [[("2", 0.8), ("1", 0.7)], []]})
        >>> evaluate_ptkb({"ours": turns}, qrels)[["name", "SetP(rel=1)", "SetR(rel=1)", "turns"]].values.tolist()
        [['ours', 0.25, 0.5, 2]]
    """
    qrels = _judged(qrels)
    counts = {"turns": qrels["qid"].nunique(), "relevant_turns": with_relevant(qrels)["qid"].nunique()}
    figures = {name: ptkb_per_turn(system, qrels, name).drop(columns="qid").mean() for name, system in systems.items()}
    columns = ["name", *map(label, TRACK_PTKB), *counts]
    return pd.DataFrame([{"name": name, **means, **counts} for name, means in figures.items()], columns=columns)


@checked
def ptkb_per_turn(system: pd.DataFrame | str | Path, qrels: pd.DataFrame, name: str = "") -> pd.DataFrame:
    """The figures of one system, turn by turn.

    Args:
        system: as for :func:`evaluate_ptkb`.
        qrels: as for :func:`evaluate_ptkb`.
        name: what errors call the system.

    Returns:
        One row per turn of the qrels, in their order: ``qid`` and a column per measure of :data:`TRACK_PTKB`.

    Raises:
        UsageError: see :func:`evaluate_ptkb`.
        DataError: see :func:`evaluate_ptkb`.

    Example:
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["1", "2"], "label": [1, 0]})
        >>> turns = pd.DataFrame({"qid": ["1_1"], "qstatements": [[("1", 1.0)]]})
        >>> ptkb_per_turn(turns, qrels)[["qid", "SetF(rel=1)", "P(rel=1)@3"]].round(2).values.tolist()
        [['1_1', 1.0, 0.33]]
    """
    asked = system["qid"] if isinstance(system, pd.DataFrame) and "qid" in system.columns else None
    ranking, qrels = statement_ranking(system), _judged(qrels)
    _check(name, asked if asked is not None else ranking["qid"], ranking, qrels)
    found = ir_measures.iter_calc(list(TRACK_PTKB), _named(qrels, "relevance", "label"), _named(ranking, "score", "score"))
    figures = pd.DataFrame([(one.query_id, label(one.measure), one.value) for one in found], columns=["qid", "measure", "value"])
    wide = figures.pivot(index="qid", columns="measure", values="value").reindex(qrels["qid"].drop_duplicates())
    return wide[[label(measure) for measure in TRACK_PTKB]].fillna(0.0).rename_axis(columns=None).reset_index()


@checked
def with_relevant(qrels: pd.DataFrame) -> pd.DataFrame:
    """The qrels of those turns for which at least one statement is relevant.

    Example:
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_1", "1_2"], "docno": ["1", "2", "1"], "label": [1, 0, 0]})
        >>> with_relevant(qrels)["qid"].tolist()
        ['1_1', '1_1']
    """
    return qrels[qrels["qid"].isin(qrels.loc[qrels["label"] > 0, "qid"])].reset_index(drop=True)


def _judged(qrels: pd.DataFrame) -> pd.DataFrame:
    """The qrels; the ids of statements may be numbers, as in the topics of 2023 and 2024."""
    if isinstance(qrels, pd.DataFrame) and "docno" in qrels.columns:
        qrels = with_columns(qrels, docno=map(str, qrels["docno"]))
    return check_qrels(qrels, "the PTKB qrels")


def _named(frame: pd.DataFrame, to: str, value: str) -> pd.DataFrame:
    return pd.DataFrame({"query_id": frame["qid"], "doc_id": frame["docno"], to: frame[value]})


def _check(name: str, turns: "pd.Series[str]", ranking: pd.DataFrame, qrels: pd.DataFrame) -> None:
    who = f"system {name}" if name else "the system"
    check_form(who, turns.unique(), qrels["qid"])
    if len(turns) and not turns.isin(qrels["qid"]).any():
        raise DataError(f"{who} has no turn of the PTKB qrels: {unlike(turns.iloc[0], qrels['qid'].iloc[0])}")
    judged = ranking[ranking["qid"].isin(qrels["qid"])]
    if ranking.empty:
        warnings.warn(f"{who} chose no statement for any turn: all its figures are 0", stacklevel=4)
    known = set(zip(qrels["qid"], qrels["docno"], strict=True))
    new = [(qid, name) for qid, name in zip(judged["qid"], judged["docno"], strict=True) if (qid, name) not in known]
    for qid, statement in new:
        if len(new) == len(judged) or not _in_words(statement):
            raise DataError(
                f"{who}, turn {qid}: there is no statement {statement!r} in the PTKB qrels, which judge the whole persona; "
                "give the ids of the topics file, as text"
            )
    if new:
        message = f"{who} has {len(new)} statements that the topics lack (such as {new[0][1]!r}): nobody judged them, they count as wrong"
        warnings.warn(message, stacklevel=4)


def _in_words(name: str) -> bool:
    """Whether a statement is named by its words, as new ones are in 2025, not by an id."""
    return name.startswith('"') or any(letter.isalpha() for letter in name)
