"""TREC run files: ours are written so that every tool ranks them alike, anybody's are read as trec_eval ranks them."""

from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from ..conversations.frame import column
from ..errors import DataError
from ..order import in_trec_eval_order
from ..order import strictly_decreasing as strictly_decreasing  # of the room, too
from ..store.files import atomic_write
from ..store.trec import read_rankings


def write_run(results: pd.DataFrame, path: str | Path, name: str = "ikat") -> None:
    r"""Write a TREC run file, atomically.

    Args:
        results: a result frame (``qid``, ``docno``, ``score``, ``rank``); see :func:`~pyterrier_ikat.order.strictly_decreasing`.
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
