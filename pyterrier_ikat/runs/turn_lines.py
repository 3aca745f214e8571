"""The lines of ``turns.jsonl``: what a system made of each turn, without its ranking."""

import json
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import by_position, is_missing
from ..conversations.frame import each_turn_once
from ..errors import DataError, counted, list_first

TURN_COLUMNS = (
    "qid",
    "qutterance",
    "qresolved",
    "qrewrite",
    "qanswer",
    "qdraft",
    "qsubqueries",
    "qfound",
    "qweights",
    "qstatements",
    "qptkb",
    "qlearned",
    "qaction",
    "qaskback",
    "qcitations",
)
"""The columns of a frame that its turns keep."""


def as_json(value: Any) -> Any:
    """A cell as a JSON value: arrays and tuples become lists, numpy's numbers become Python's.

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


def chosen_statements(qid: str, chosen: Any) -> list[tuple[str, float]]:
    """The statements chosen for a turn, as (id, score), best first. An empty cell has none.

    Raises:
        DataError: when it is not a list, tuple or array of (id, score).

    Example:
        >>> chosen_statements("9-1_3", np.array([("10", 0.5), (2, 0.25)], dtype=object))
        [('10', 0.5), ('2', 0.25)]
    """
    if is_missing(chosen):
        return []
    statements = []
    try:
        pairs = as_json(chosen)
        if isinstance(pairs, str | dict):
            raise TypeError
        for pair in pairs:
            if not isinstance(pair, list):
                raise TypeError
            name, score = pair
            if not isinstance(name, str | int):
                raise TypeError
            statements.append((str(name), float(score)))
    except (TypeError, ValueError):
        raise DataError(
            f"turn {qid}: qstatements is {chosen!r}; give a list of (id, score), best first"
        ) from None
    return statements


def used_marks(results: pd.DataFrame) -> list[bool]:
    """Whether the response is based on each passage, by the column ``used``. An empty mark is no.

    Raises:
        DataError: when a mark is not True, False, 1 or 0; it names turn and passage.

    Example:
        >>> marks = {"qid": ["9-1_3"] * 3, "docno": ["a", "b", "c"], "used": [1.0, None, 0.0]}
        >>> used_marks(pd.DataFrame(marks))
        [True, False, False]
    """
    marks = []
    for row, mark in enumerate(results["used"].tolist()):
        if is_missing(mark):
            marks.append(False)
        elif isinstance(mark, Real | np.bool_) and mark in (0, 1):
            marks.append(bool(mark))
        else:
            where = f"turn {results['qid'].iloc[row]}"
            if "docno" in results.columns:
                where += f", passage {results['docno'].iloc[row]}"
            repair = 'give True or False, as frame["used"].map({"True": True, "False": False})'
            raise DataError(
                f"{where}: used is {mark!r}, neither true nor false: {repair} makes of texts"
            )
    return marks


def response_column(frame: pd.DataFrame) -> str:
    """The column of the responses: ``response``, where ``qanswer`` is a draft, else ``qanswer``.

    Example:
        >>> response_column(pd.DataFrame(columns=["qid", "qanswer", "response"]))
        'response'
    """
    return "response" if "response" in frame.columns else "qanswer"


def turn_lines(
    topics: pd.DataFrame, results: pd.DataFrame, abstention: str | None = None
) -> Iterator[str]:
    """A line for each turn, in the order of the topics.

    Args:
        topics: the turns that were asked.
        results: the ranking, with the columns of the turns.
        abstention: the response to a turn without passages, if others have a response; None: it has
            none.

    Raises:
        DataError: when a turn occurs twice in the topics, the results have others, or chosen
            statements are no list of (id, score).
    """
    topics = by_position(topics)
    results = by_position(results)
    each_turn_once(topics)
    _check_topics(topics, results)
    counts = results["qid"].value_counts()
    answered = {cells["qid"]: cells for cells in _turn_cells(results.drop_duplicates("qid"))}
    responds = "used" in results
    used = _used_passages(results) if responds else {}
    for asked in _turn_cells(topics):
        qid = asked["qid"]
        line: dict[str, Any] = {}
        for name, value in answered.get(qid, asked).items():
            line[name] = chosen_statements(qid, value) if name == "qstatements" else as_json(value)
        if qid in used:
            line["response"] = line.pop("qanswer", "")
            line["used"] = used[qid]
        elif responds and abstention is not None:
            # An answer from before the retrieval stays a draft.
            line["response"] = abstention
            line["used"] = []
        if "qdraft" in line:
            line["qanswer"] = line.pop("qdraft")
        line["passages"] = int(counts.get(qid, 0))
        yield json.dumps(line) + "\n"


def _check_topics(topics: pd.DataFrame, results: pd.DataFrame) -> None:
    """Check that each turn of the results is one of the topics."""
    qids = set(topics["qid"])
    lost = [str(qid) for qid in results["qid"].unique() if qid not in qids]
    if lost:
        raise DataError(
            f"the results have {counted(len(lost), 'turn')} that the topics lack "
            f"({list_first(lost)}), whose responses would be lost: give all topics that the system "
            "was run on, and join the sub-queries first (Interleave, Union, RRF, RerankAgainst)"
        )


def _used_passages(results: pd.DataFrame) -> dict[str, list[str]]:
    """Turn -> the passages that its response is based on, best first."""
    used: dict[str, list[str]] = {qid: [] for qid in results["qid"].unique()}
    passages = results.loc[used_marks(results)].sort_values("rank", kind="stable")
    for qid, docno in zip(passages["qid"], passages["docno"], strict=True):
        used[qid].append(docno)
    return used


def _turn_cells(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The cells of each row that a turn keeps, by column, without empty ones."""
    names = [name for name in TURN_COLUMNS if name in frame.columns]
    rows = zip(*(frame[name].tolist() for name in names), strict=True)
    turns = []
    for row in rows:
        cells = zip(names, row, strict=True)
        turns.append({name: value for name, value in cells if not is_missing(value)})
    return turns
