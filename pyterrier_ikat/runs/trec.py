"""TREC run files: ours are written so that every tool ranks them alike, anybody's are read as trec_eval ranks them."""

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from ..conversations.frame import column, starts_of_runs
from ..errors import DataError
from ..order import order_by_score, set_ranks
from ..store.files import atomic_write
from ..store.trec import read_rankings


def in_trec_eval_order(results: pd.DataFrame) -> pd.DataFrame:
    """The ranking that trec_eval makes of the scores of a file, whatever its ranks: by 32-bit score, then by docno, both descending.

    Args:
        results: ``qid``, ``docno``, ``score``.

    Returns:
        The frame in this order (turns as they first appear), the scores as they are, ``rank`` 0, 1, ...

    Raises:
        DataError: when a turn has a passage twice, or a score is no finite number.

    Example:
        >>> import pandas as pd
        >>> tied = pd.DataFrame({"qid": ["1_1"] * 3, "docno": ["a", "b", "c"], "score": [0.5, 0.5, 2.0], "rank": [0, 1, 2]})
        >>> in_trec_eval_order(tied).values.tolist()
        [['1_1', 'c', 2.0, 0], ['1_1', 'b', 0.5, 1], ['1_1', 'a', 0.5, 2]]
    """
    scores = _finite(results)
    turns = pd.factorize(results["qid"])[0]
    with np.errstate(over="ignore"):  # what is beyond 32 bits is infinite in trec_eval, and ties
        single = scores.astype(np.float32).astype(np.float64)
    order = order_by_score(results, turns, np.nan_to_num(single, posinf=1e39, neginf=-1e39))
    ordered = results.iloc[order].reset_index(drop=True)
    _check_once(ordered)
    return ordered.assign(rank=_ranks(turns[order]))


def scores_by_turn(results: pd.DataFrame) -> dict[str, dict[str, float]]:
    """The scores of a ranking: turn -> passage -> score.

    Raises:
        DataError: when a turn has a passage twice, or a score is no finite number.

    Example:
        >>> scores_by_turn(pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [2.5]}))
        {'1_1': {'a': 2.5}}
    """
    qids, docnos, scores = results["qid"].to_numpy(dtype=object), results["docno"].tolist(), _finite(results).tolist()
    bounds = [*starts_of_runs(qids).tolist(), len(docnos)]
    found: dict[str, dict[str, float]] = {}
    for start, end in zip(bounds, bounds[1:], strict=False):
        found.setdefault(qids[start], {}).update(zip(docnos[start:end], scores[start:end], strict=True))
    if sum(map(len, found.values())) < len(docnos):
        raise _twice(results)
    return found


def strictly_decreasing(results: pd.DataFrame) -> pd.DataFrame:
    """Sort by turn and rank, and lower tied scores by the least 32-bit step, so that no tool breaks ties its own way.

    Args:
        results: a result frame with ``qid``, ``docno``, ``score``, ``rank``.

    Returns:
        The frame in order (turns as they first appear), ``rank`` 0, 1, ..., ``score`` as float32 values that strictly
        decrease within a turn.

    Raises:
        DataError: when a turn has a passage twice, a score that is not finite, 32-bit scores that rise with the rank, or ties
            at the lowest 32-bit float.

    Example:
        >>> import pandas as pd
        >>> tied = pd.DataFrame({"qid": ["1_1"] * 2, "docno": ["a", "b"], "score": [0.5, 0.5], "rank": [0, 1]})
        >>> strictly_decreasing(tied)["score"].is_monotonic_decreasing
        True
    """
    import pyterrier as pt

    pt.validate.result_frame(results, extra_columns=["score", "rank"])
    turns = pd.factorize(results["qid"])[0]
    order = np.lexsort((results["rank"].to_numpy(dtype=float), turns))
    ordered = results.iloc[order].reset_index(drop=True)
    turns = turns[order]
    scores = _finite(ordered, float(np.finfo(np.float32).max)).astype(np.float32)
    _check_once(ordered)
    _check_falling(ordered, turns, scores)
    return set_ranks(ordered, turns, scores.astype(np.float64))


def _ranks(turns: "np.ndarray") -> "np.ndarray":
    """The place of each row within its turn, whose rows stand together."""
    starts = np.flatnonzero(np.append(len(turns) > 0, turns[1:] != turns[:-1]))
    return np.arange(len(turns)) - np.repeat(starts, np.diff(np.append(starts, len(turns))))


def _finite(results: pd.DataFrame, largest: float = np.inf) -> "np.ndarray":
    scores: np.ndarray = pd.to_numeric(results["score"], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(scores) | (np.abs(scores) > largest))
    if len(bad):
        row = results.iloc[bad[0]]
        raise DataError(f"turn {row['qid']}, passage {row['docno']}: the score is {row['score']}; a run needs finite scores")
    return scores


def _check_once(ordered: pd.DataFrame) -> None:
    """Whether each turn, whose rows stand together, has each passage once."""
    docnos = ordered["docno"].tolist()
    bounds = [*starts_of_runs(ordered["qid"].to_numpy(dtype=object)).tolist(), len(docnos)]
    if any(len(set(docnos[start:end])) < end - start for start, end in zip(bounds, bounds[1:], strict=False)):
        raise _twice(ordered)


def _twice(results: pd.DataFrame) -> DataError:
    row = results[results.duplicated(["qid", "docno"])].iloc[0]
    return DataError(
        f"turn {row['qid']} has passage {row['docno']} twice: bring sub-queries back first (Interleave, Union, RRF, RerankAgainst)"
    )


def _check_falling(results: pd.DataFrame, turns: "np.ndarray", scores: "np.ndarray") -> None:
    rising = np.flatnonzero((turns[1:] == turns[:-1]) & (scores[1:] > scores[:-1]))
    if len(rising):
        row = results.iloc[rising[0] + 1]
        raise DataError(
            f"turn {row['qid']}, passage {row['docno']}: the score rises with the rank; rank by score first, by pt.model.add_ranks(run)"
        )


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
    r"""Read a TREC run file, also one packed by gzip.

    Returns:
        A result frame with ``qid``, ``docno``, ``score``, ``rank`` (from 0), in the order of :func:`in_trec_eval_order`: the
        file's own ranks and the order of its lines don't count.

    Raises:
        DataError: when the file is missing, empty, damaged or not UTF-8, a line has not six fields, a score is no finite number,
            or a passage is there twice for a turn.

    Example:
        >>> _ = open("run.trec", "w").write("1_1 Q0 a 1 2.5 x\n")
        >>> read_run("run.trec").values.tolist()
        [['1_1', 'a', 2.5, 0]]
    """
    by_turn = read_rankings(path)
    sizes = list(map(len, by_turn.values()))
    return in_trec_eval_order(
        pd.DataFrame(
            {
                "qid": np.repeat(column(by_turn).to_numpy(), sizes),
                "docno": column(chain.from_iterable(by_turn.values())),
                "score": np.fromiter(chain.from_iterable(map(dict.values, by_turn.values())), dtype=np.float64, count=sum(sizes)),
            }
        )
    )
