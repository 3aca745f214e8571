"""The files of a run: the ranking, which every tool ranks in the same way, a JSON line for each turn, and the work of its stages.

Any TREC run file is read in trec_eval's order. The line of a turn has its rewrite, answer, queries and number of passages.

The work of the stages is in ``stages.jsonl.gz``: one JSON line per turn and stage, in the order of the turns, then of the stages.

A line has ``qid`` (the turn), ``stage`` and one or more of these:

===========  =======================================================================================================
``wrote``    column -> what the stage wrote there: rewrites, answers, statements, suggestions, summaries, queries
``found``    what a retriever found: for each query ``qid``, ``query``, ``docnos`` (best first), ``scores``; for sub-queries
             also ``qsub`` and ``qweight``, and beside ``found`` the turn's own ``query``
``asked``    the LLM calls, cached ones too: for each ``messages`` and ``completion``, or ``failure``, which says why there is none;
             ``prompt`` and ``item``, if present, name the template and the part of the turn that it was about
``scored``   the output of a re-ranker: for each query ``qid``, ``query``, ``docnos`` (in the order of its input) and ``scores``
===========  =======================================================================================================

Scores have six decimals. Each turn is a separate member of the gzip file, so the file doesn't depend on the size of the batches.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import is_missing
from ..conversations.frame import column, each_turn_once
from ..errors import DataError, counted, list_first
from ..order import in_trec_eval_order
from ..order import strictly_decreasing as strictly_decreasing  # also exported from here
from ..store.files import atomic_write
from ..store.trec import read_rankings

LEVEL = 4
"""The level of compression of the stages' work. Level 6 takes twice the time and saves two per cent."""
PER_TURN = (
    *("qid", "qutterance", "qresolved", "qrewrite", "qanswer", "qdraft"),
    *("qsubqueries", "qfound", "qweights", "qstatements", "qptkb", "qlearned", "qaction", "qaskback", "qcitations"),
)


def write_run(results: pd.DataFrame, path: str | Path, name: str = "ikat") -> None:
    r"""Write a TREC run file, atomically.

    Args:
        results: a result frame (``qid``, ``docno``, ``score``, ``rank``); see :func:`~pyterrier_ikat.order.strictly_decreasing`.
        path: the file.
        name: the run's name, the last column. White space in it becomes ``_``.

    Raises:
        DataError: when the ranking is not clean, the name is empty, or a qid or docno is empty or has white space, which would
            look like a column separator.

    Example:
        >>> import pandas as pd
        >>> write_run(pd.DataFrame({"qid": ["1_1"], "docno": ["a"], "score": [1.5], "rank": [0]}), "one.trec")
        >>> open("one.trec").read()
        '1_1 Q0 a 1 1.5 ikat\n'
    """
    with atomic_write(path) as file:
        file.writelines(run_lines(strictly_decreasing(results), name))


def run_lines(strict: pd.DataFrame, name: str) -> Iterator[str]:
    """The lines of a run file, of a ranking from :func:`strictly_decreasing`; see :func:`write_run`."""
    name = "_".join(name.split())
    for column_name, found in (("name", [name]), ("qid", strict["qid"].unique()), ("docno", strict["docno"].unique())):
        for value in found:
            if not isinstance(value, str) or value.split() != [value]:
                raise DataError(f"{value!r} can't be a {column_name} of a run file: give a text without white space")
    for qid, docno, rank, score in zip(strict["qid"], strict["docno"], strict["rank"], strict["score"], strict=True):
        shortest = np.format_float_positional(np.float32(score), unique=True, trim="-")
        yield f"{qid} Q0 {docno} {rank + 1} {shortest} {name}\n"


def read_run(path: str | Path) -> pd.DataFrame:
    r"""Read a TREC run file, which may be compressed with gzip.

    Returns:
        A result frame with ``qid``, ``docno``, ``score``, ``rank`` (from 0), in the order of :func:`in_trec_eval_order`. The
        file's own ranks and the order of its lines are ignored.

    Raises:
        DataError: when the file is missing, empty, damaged or not UTF-8, a line does not have six fields, a score is not a finite number,
            or a passage occurs twice for a turn.

    Example:
        >>> _ = open("run.trec", "w").write("1_1 Q0 a 1 2.5 x\n")
        >>> read_run("run.trec").values.tolist()
        [['1_1', 'a', 2.5, 0]]
    """
    return ranking_frame(read_rankings(path))


def ranking_frame(by_turn: dict[str, dict[str, float]]) -> pd.DataFrame:
    """Rankings (turn -> passage -> score) as a result frame, in trec_eval's order."""
    scores = chain.from_iterable(map(dict.values, by_turn.values()))
    columns = {"qid": np.repeat(column(by_turn).to_numpy(), list(map(len, by_turn.values())))}
    columns |= {"docno": column(chain.from_iterable(by_turn.values())), "score": np.fromiter(scores, dtype=np.float64)}
    return in_trec_eval_order(pd.DataFrame(columns))


def as_json(value: Any) -> Any:
    """A cell as a JSON value: arrays and tuples become lists, and numpy's numbers become Python's.

    Example:
        >>> as_json((np.array([1, 2]), {"a": np.float64(0.5)}))
        [[1, 2], {'a': 0.5}]
    """
    if isinstance(value, np.ndarray | np.generic | pd.Series):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    return value


def as_stored(qid: str, name: str, value: Any) -> str | list[Any] | dict[str, Any] | None:
    """The stored form of the cell of a turn in the column ``name``; None for a cell without a value.

    Raises:
        DataError: when it is not a text, list or dict, or ``qstatements`` is not a list of (id, score).

    Example:
        >>> as_stored("9-1_3", "qsubqueries", ("tea", "mint"))
        ['tea', 'mint']
    """
    if is_missing(value):
        return None
    if name == "qstatements":
        return chosen_statements(qid, value)
    found = as_json(value)
    if not isinstance(found, str | list | dict):
        raise DataError(f"turn {qid}: {name} is {value!r}, which a run can't store: give a text, a list or a dict")
    return found


def chosen_statements(qid: str, chosen: Any) -> list[tuple[str, float]]:
    """The statements that were chosen for a turn, as (id, score), best first. A cell without a value has none.

    Raises:
        DataError: when it is not a list, tuple or array of (id, score).

    Example:
        >>> chosen_statements("9-1_3", np.array([("10", 0.5), (2, 0.25)], dtype=object))
        [('10', 0.5), ('2', 0.25)]
    """
    pairs = [] if is_missing(chosen) else as_json(chosen)
    try:
        if any(not isinstance(pair, list) or not isinstance(pair[0], str | int) for pair in pairs) or isinstance(pairs, str | dict):
            raise TypeError
        return [(str(name), float(score)) for name, score in pairs]
    except (TypeError, ValueError, IndexError):
        raise DataError(f"turn {qid}: qstatements is {chosen!r}; give a list of (id, score), best first") from None


def used_marks(results: pd.DataFrame) -> list[bool]:
    """For each passage, whether the response is based on it, from the column ``used``. A missing mark means no.

    Raises:
        DataError: when a mark is not True, False, 1 or 0; it names turn and passage.

    Example:
        >>> used_marks(pd.DataFrame({"qid": ["9-1_3"] * 3, "docno": ["a", "b", "c"], "used": [1.0, None, 0.0]}))
        [True, False, False]
    """
    marks = results["used"].tolist()
    for place, mark in enumerate(marks):
        if not (is_missing(mark) or (isinstance(mark, Real | np.bool_) and mark in (0, 1))):
            passage = f", passage {results['docno'].iloc[place]}" if "docno" in results.columns else ""
            told = f"turn {results['qid'].iloc[place]}{passage}: used is {mark!r}, neither true nor false"
            raise DataError(f'{told}: give True or False, as frame["used"].map({{"True": True, "False": False}}) makes of texts')
    return [not is_missing(mark) and bool(mark) for mark in marks]


def response_column(frame: pd.DataFrame) -> str:
    """The column of the responses: ``response`` as in ``turns.jsonl``, where ``qanswer`` is the draft, else ``qanswer``.

    Example:
        >>> response_column(pd.DataFrame(columns=["qid", "qanswer", "response"]))
        'response'
    """
    return "response" if "response" in frame.columns else "qanswer"


def checksum_of(frame: pd.DataFrame) -> str:
    """A checksum of a frame's rows."""
    digest, columns = hashlib.sha256(), frame.columns.tolist()
    for row in frame.itertuples(index=False, name=None):  # one at a time: histories are long
        digest.update(json.dumps(dict(zip(columns, row, strict=True)), sort_keys=True, default=str).encode())
    return digest.hexdigest()


def turn_lines(topics: pd.DataFrame, results: pd.DataFrame) -> Iterator[str]:
    """A line for each turn, in the order of the topics.

    Raises:
        DataError: when a turn occurs twice in the topics, or the results have others, or a column can't be stored.
    """
    each_turn_once(topics)
    known = set(topics["qid"])
    if lost := [str(qid) for qid in results["qid"].unique() if qid not in known]:
        raise DataError(
            f"the results have {counted(len(lost), 'turn')} that the topics lack ({list_first(lost)}), whose responses would be lost: give "
            "all topics that the system was run on, and join the sub-queries first (Interleave, Union, RRF, RerankAgainst)"
        )
    counts, used = results["qid"].value_counts(), _used(results)
    found = {row["qid"]: row for row in _rows(results.drop_duplicates("qid"))}
    for turn in _rows(topics):
        qid = turn["qid"]
        cells = ((name, as_stored(qid, name, value)) for name, value in found.get(qid, turn).items())
        shown = {name: value for name, value in cells if value is not None}
        if qid in used:
            shown |= {"response": shown.pop("qanswer", ""), "used": used[qid]}
        if "qdraft" in shown:
            shown["qanswer"] = shown.pop("qdraft")
        yield json.dumps(shown | {"passages": int(counts.get(qid, 0))}) + "\n"


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    names = [name for name in PER_TURN if name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in frame[names].itertuples(index=False, name=None)]


def _used(results: pd.DataFrame) -> dict[str, list[str]]:
    """For each turn with a response, the passages that the response is based on, best first."""
    if "used" not in results:
        return {}
    found: dict[str, list[str]] = {qid: [] for qid in results["qid"].unique()}
    shown = results.loc[used_marks(results)].sort_values("rank", kind="stable")
    for qid, docno in zip(shown["qid"], shown["docno"], strict=True):
        found[qid].append(docno)
    return found


def packed_stages(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """The lines of a turn as a separate gzip file; empty if there are no lines.

    Example:
        >>> packed = packed_stages([{"qid": "9-1_3", "stage": "raw", "wrote": {"query": "tea"}}])
        >>> json.loads(gzip.decompress(packed))["wrote"]
        {'query': 'tea'}
    """
    text = "".join(json.dumps(line, default=str) + "\n" for line in lines)
    return gzip.compress(text.encode(), LEVEL, mtime=0) if text else b""


def read_stages(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of stages, one at a time.

    Raises:
        DataError: when it can't be read.
    """
    try:
        with gzip.open(path) as file:
            yield from map(json.loads, file)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"{path} can't be read ({error}): repeat the run") from None
