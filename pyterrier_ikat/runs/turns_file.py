"""The turns of a run: one JSON line for each, with its rewrite, answer, queries and number of passages."""

import hashlib
import json
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..conversations.frame import each_turn_once, is_missing, values
from ..errors import DataError, list_first
from ..store.files import atomic_write

PER_TURN = (
    *("qid", "qutterance", "qresolved", "qrewrite", "qanswer", "qdraft"),
    *("qsubqueries", "qfound", "qweights", "qstatements", "qptkb", "qlearned", "qaction", "qaskback"),
)


Part = tuple[pd.DataFrame, pd.DataFrame]
"""Some turns of a run, and their ranking."""


def as_json(value: Any) -> Any:
    """A cell as JSON has it: arrays and tuples as lists, numpy's numbers as Python's.

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
        DataError: when it is no text, list or dict, or ``qstatements`` is no list of (id, score).

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
        raise DataError(f"turn {qid}: {name} is {value!r}, which no run keeps: give a text, a list or a dict")
    return found


def chosen_statements(qid: str, chosen: Any) -> list[tuple[str, float]]:
    """The statements that were chosen for a turn, as (id, score), best first; none where the cell has no value.

    Raises:
        DataError: when it is no list, tuple or array of (id, score).

    Example:
        >>> chosen_statements("9-1_3", np.array([("10", 0.5), (2, 0.25)], dtype=object))
        [('10', 0.5), ('2', 0.25)]
    """
    pairs = [] if is_missing(chosen) else as_json(chosen)
    try:
        if not isinstance(pairs, list) or any(not isinstance(pair, list) for pair in pairs):
            raise TypeError
        if any(not isinstance(name, str | int) for name, _ in pairs):
            raise TypeError
        return [(str(name), float(score)) for name, score in pairs]
    except (TypeError, ValueError):
        raise DataError(f"turn {qid}: qstatements is {chosen!r}; give a list of (id, score), best first") from None


def used_marks(results: pd.DataFrame) -> list[bool]:
    """Whether the response is based on each passage, by the column ``used``; where a mark is missing it is not.

    Raises:
        DataError: naming turn and passage, when a mark is none of True, False, 1, 0.

    Example:
        >>> used_marks(pd.DataFrame({"qid": ["9-1_3"] * 3, "docno": ["a", "b", "c"], "used": [1.0, None, 0.0]}))
        [True, False, False]
    """
    marks = results["used"].tolist()
    for place, mark in enumerate(marks):
        if not (is_missing(mark) or (isinstance(mark, Real | np.bool_) and mark in (0, 1))):
            row = results.iloc[place]
            passage = f", passage {row['docno']}" if "docno" in row else ""
            raise DataError(
                f"turn {row['qid']}{passage}: used is {mark!r}, neither true nor false: "
                'give True or False, as frame["used"].map({"True": True, "False": False}) makes of texts'
            )
    return [not is_missing(mark) and bool(mark) for mark in marks]


def response_column(frame: pd.DataFrame) -> str:
    """Where a frame has the responses: ``response`` as in ``turns.jsonl``, where ``qanswer`` is the draft, else ``qanswer``.

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


def check_turns(topics: pd.DataFrame, results: pd.DataFrame) -> None:
    """Whether each turn is there once, and all that the results are of.

    Raises:
        DataError: when not.
    """
    each_turn_once(topics)
    known = set(topics["qid"])
    lost = [str(qid) for qid in results["qid"].unique() if qid not in known]
    if lost:
        raise DataError(
            f"the results have {len(lost)} turns that the topics lack ({list_first(lost)}), whose responses would be lost: give all topics "
            "that the system was run on, and bring sub-queries back first (Interleave, Union, RRF, RerankAgainst)"
        )


def write_turns(topics: pd.DataFrame, results: pd.DataFrame, path: Path) -> None:
    """Write the turns in the order of the topics."""
    counts = results["qid"].value_counts()
    found = results.drop_duplicates("qid")
    turns = pd.concat([found, topics[~topics["qid"].isin(found["qid"])]])
    turns = turns.set_index(turns["qid"]).reindex(topics["qid"].tolist())
    columns = [name for name in PER_TURN if name in turns.columns]
    used = _used(results)
    with atomic_write(path) as file:
        for qid, *row in zip(turns["qid"], *(values(turns, name) for name in columns), strict=True):
            cells = ((name, as_stored(qid, name, value)) for name, value in zip(columns, row, strict=True))
            shown = {name: value for name, value in cells if value is not None}
            if qid in used:
                shown |= {"response": shown.pop("qanswer", ""), "used": used[qid]}
            if "qdraft" in shown:
                shown["qanswer"] = shown.pop("qdraft")
            file.write(json.dumps(shown | {"passages": int(counts.get(qid, 0))}) + "\n")


def _used(results: pd.DataFrame) -> dict[str, list[str]]:
    """For each turn that was responded to, the passages that the response is based on, best first."""
    if "used" not in results:
        return {}
    found: dict[str, list[str]] = {qid: [] for qid in results["qid"].unique()}
    shown = results.loc[used_marks(results)].sort_values("rank", kind="stable")
    for qid, docno in zip(shown["qid"], shown["docno"], strict=True):
        found[qid].append(docno)
    return found
