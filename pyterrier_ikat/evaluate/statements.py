"""The chosen PTKB statements of a system, as a ranking that is evaluated like passages."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..conversations.frame import column
from ..errors import DataError, UsageError
from ..runs import RunFolder
from ..runs.kept import chosen_statements


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
        >>> from pyterrier_ikat.evaluate import statement_runs
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
