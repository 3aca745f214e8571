"""TREC run files: rankings as text, which every evaluator reads."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from ..conversations.frame import column
from ..errors import DataError
from ..order import in_trec_eval_order
from ..order import strictly_decreasing as strictly_decreasing  # also exported from here
from ..store.files import atomic_write
from ..store.trec import read_rankings


def write_run(results: pd.DataFrame, path: str | Path, name: str = "ikat") -> None:
    r"""Write a TREC run file, atomically.

    Args:
        results: a result frame (``qid``, ``docno``, ``score``, ``rank``); see
            :func:`~pyterrier_ikat.order.strictly_decreasing`.
        path: the file.
        name: the run's name, the last column. White space in it becomes ``_``.

    Raises:
        DataError: when the ranking is not clean, the name is empty, or a qid or docno is empty or
            has white space, which would look like a column separator.

    Example:
        >>> import pandas as pd
        >>> run = pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.5], "rank": [0]})
        >>> write_run(run, "one.trec")
        >>> open("one.trec").read()
        '1_1 Q0 a 1 1.5 ikat\n'
    """
    with atomic_write(path) as file:
        file.writelines(run_lines(strictly_decreasing(results), name))


def run_lines(strict: pd.DataFrame, name: str) -> Iterator[str]:
    """The lines of a run file; see :func:`write_run`.

    Args:
        strict: a ranking from :func:`strictly_decreasing`.
        name: the run's name.
    """
    name = "_".join(name.split())
    fields = {"name": [name], "qid": strict["qid"].unique(), "docno": strict["docno"].unique()}
    for field, texts in fields.items():
        for text in texts:
            if not isinstance(text, str) or text.split() != [text]:
                raise DataError(
                    f"{text!r} can't be a {field} of a run file: give a text without white space"
                )
    # numpy writes all scores at once in half the time, but very large and small ones with an
    # exponent.
    scores = strict["score"].to_numpy(dtype=np.float32).astype(str).tolist()
    rows = zip(strict["qid"], strict["docno"], strict["rank"], scores, strict=True)
    for qid, docno, rank, score in rows:
        yield f"{qid} Q0 {docno} {rank + 1} {_without_exponent(score)} {name}\n"


def _without_exponent(score: str) -> str:
    """A 32-bit score in digits alone, as few as give the same number again."""
    if "e" in score:
        return np.format_float_positional(np.float32(score), trim="-")
    return score.removesuffix(".0")


def read_run(path: str | Path) -> pd.DataFrame:
    r"""Read a TREC run file, which may be compressed with gzip.

    Returns:
        A result frame with ``qid``, ``docno``, ``score``, ``rank`` (from 0), in the order of
        :func:`in_trec_eval_order`. The file's own ranks and the order of its lines are ignored.

    Raises:
        DataError: when the file is missing, empty, damaged or not UTF-8, a line does not have six
            fields, a score is not a finite number, or a passage occurs twice for a turn.

    Example:
        >>> _ = open("run.trec", "w").write("1_1 Q0 a 1 2.5 x\n")
        >>> read_run("run.trec").values.tolist()
        [['1_1', 'a', 2.5, 0]]
    """
    return ranking_frame(read_rankings(path))


def ranking_frame(by_turn: dict[str, dict[str, float]]) -> pd.DataFrame:
    """Rankings (turn -> passage -> score) as a result frame, in trec_eval's order."""
    sizes = [len(ranking) for ranking in by_turn.values()]
    scores = chain.from_iterable(ranking.values() for ranking in by_turn.values())
    columns = {
        "qid": np.repeat(column(by_turn).to_numpy(), sizes),
        "docno": column(chain.from_iterable(by_turn.values())),
        "score": np.fromiter(scores, dtype=np.float64),
    }
    return in_trec_eval_order(pd.DataFrame(columns))
