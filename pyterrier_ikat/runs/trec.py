"""TREC run files that every tool ranks alike: scores strictly decrease, also as the 32-bit floats of trec_eval."""

import codecs
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import column
from ..errors import DataError
from ..files import atomic_write
from ..order import ranked


def strictly_decreasing(results: pd.DataFrame) -> pd.DataFrame:
    """Sort by turn and rank, and lower tied scores by the least 32-bit step, so that no tool breaks ties its own way.

    Args:
        results: a result frame with ``qid``, ``docno``, ``score``, ``rank``.

    Returns:
        The frame in order (turns as they first appear), ``rank`` 0, 1, ..., ``score`` as float32 values that strictly
        decrease within a turn.

    Raises:
        DataError: when a turn has a passage twice, a score that is not finite, scores that rise with the rank, or ties at the
            lowest 32-bit float.

    Example:
        >>> import pandas as pd
        >>> tied = pd.DataFrame({"qid": ["1_1"] * 2, "docno": ["a", "b"], "score": [0.5, 0.5], "rank": [0, 1]})
        >>> strictly_decreasing(tied)["score"].is_monotonic_decreasing
        True
    """
    pt.validate.result_frame(results, extra_columns=["score", "rank"])
    turns = pd.factorize(results["qid"])[0]
    order = np.lexsort((results["rank"].to_numpy(dtype=float), turns))
    ordered = results.iloc[order].reset_index(drop=True)
    turns = turns[order]
    scores = ordered["score"].to_numpy(dtype=np.float64)
    _check(ordered, turns, scores)
    return ranked(ordered, turns, scores.astype(np.float32).astype(np.float64))


def _check(results: pd.DataFrame, turns: "np.ndarray", scores: "np.ndarray") -> None:
    bad = np.flatnonzero(~np.isfinite(scores) | (np.abs(scores) > np.finfo(np.float32).max))
    if len(bad):
        row = results.iloc[bad[0]]
        raise DataError(f"turn {row['qid']}, passage {row['docno']}: the score is {row['score']}; a run needs finite scores")
    twice = results.duplicated(["qid", "docno"])
    if twice.any():
        row = results[twice].iloc[0]
        raise DataError(
            f"turn {row['qid']} has passage {row['docno']} twice: bring sub-queries back first (Interleave, Pool, RRF, RerankBy)"
        )
    rising = np.flatnonzero((turns[1:] == turns[:-1]) & (scores[1:] > scores[:-1]))
    if len(rising):
        row = results.iloc[rising[0] + 1]
        raise DataError(f"turn {row['qid']}, passage {row['docno']}: the score rises with the rank; rank by score first")


def write_run(results: pd.DataFrame, path: str | Path, name: str = "ikat") -> None:
    r"""Write a TREC run file, atomically.

    Args:
        results: a result frame (``qid``, ``docno``, ``score``, ``rank``); see :func:`strictly_decreasing`.
        path: the file.
        name: the run's name, the last column; white space in it becomes ``_``.

    Raises:
        DataError: when the ranking is not clean, the name is empty, or a qid or docno is empty or has white space, which no
            reader of run files could tell from the next column.

    Example:
        >>> import pandas as pd
        >>> write_run(pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.5], "rank": [0]}), "one.trec")
        >>> open("one.trec").read()
        '1_1 Q0 a 1 1.5 ikat\n'
    """
    strict = strictly_decreasing(results)
    name = "_".join(name.split())
    _check_columns(strict, name)
    rows = zip(strict["qid"], strict["docno"], strict["rank"], strict["score"], strict=True)
    with atomic_write(path) as file:
        file.writelines(f"{qid} Q0 {docno} {rank + 1} {_shortest(score)} {name}\n" for qid, docno, rank, score in rows)


def _check_columns(results: pd.DataFrame, name: str) -> None:
    for column_name, found in (("name", [name]), ("qid", results["qid"].unique()), ("docno", results["docno"].unique())):
        for value in found:
            if not isinstance(value, str) or value.split() != [value]:
                raise DataError(f"{value!r} can't be a {column_name} of a run file: give a text without white space")


def _shortest(score: float) -> str:
    return np.format_float_positional(np.float32(score), unique=True, trim="-")


def read_run(path: str | Path) -> pd.DataFrame:
    r"""Read a TREC run file.

    Returns:
        A result frame with ``qid``, ``docno``, ``score``, ``rank`` (from 0, by score, ties in the order of the file).

    Raises:
        DataError: when the file is missing, empty or not UTF-8, a line has not six fields, a score is no finite number, or a
            passage is there twice for a turn.

    Example:
        >>> _ = open("run.trec", "w").write("1_1 Q0 a 1 2.5 x\n")
        >>> read_run("run.trec").values.tolist()
        [['1_1', 'a', 2.5, 0]]
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no run file {path}")
    rows = list(_rows(path))
    if not rows:
        raise DataError(f"{path} is empty: a run has lines `qid Q0 docno rank score name`")
    qids, docnos, scores = zip(*rows, strict=True)
    results = pd.DataFrame({"qid": column(qids), "docno": column(docnos), "score": np.array(scores, dtype=np.float64)})
    twice = results.duplicated(["qid", "docno"])
    if twice.any():
        row = results[twice].iloc[0]
        raise DataError(f"{path}, line {results.index[twice][0] + 1}: passage {row['docno']} is there twice for turn {row['qid']}")
    results = results.iloc[np.lexsort((-results["score"].to_numpy(), pd.factorize(results["qid"])[0]))].reset_index(drop=True)
    return results.assign(rank=results.groupby("qid", sort=False).cumcount())


def _rows(path: Path) -> Iterator[tuple[str, str, float]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            fields = _decoded(path, number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).split()
            if len(fields) != 6:
                raise DataError(f"{path}, line {number}: {len(fields)} fields instead of the six of `qid Q0 docno rank score name`")
            try:
                score = float(fields[4])
            except ValueError:
                score = np.nan
            if not np.isfinite(score):
                raise DataError(f"{path}, line {number}: the score {fields[4]!r} is no finite number")
            yield fields[0], fields[2], score


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: not UTF-8 (byte {error.object[error.start]:#04x}): give a TREC run as plain text"
        ) from error
