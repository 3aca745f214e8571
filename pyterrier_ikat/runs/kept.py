"""What a run keeps of the cells of a frame that anybody may have made: JSON's lists and numbers, and marks that are yes or no."""

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from ..conversations.frame import is_missing
from ..errors import DataError


def plain(value: Any) -> Any:
    """A cell as JSON has it: arrays and tuples as lists, numpy's numbers as Python's.

    Example:
        >>> plain((np.array([1, 2]), {"a": np.float64(0.5)}))
        [[1, 2], {'a': 0.5}]
    """
    if isinstance(value, np.ndarray | np.generic | pd.Series):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value


def kept(qid: str, name: str, value: Any) -> str | list[Any] | dict[str, Any] | None:
    """What is kept of the cell of a turn in the column ``name``; None of a cell without a value.

    Raises:
        DataError: when it is no text, list or dict, or ``qstatements`` is no list of (id, score).

    Example:
        >>> kept("9-1_3", "qsubqueries", ("tea", "mint"))
        ['tea', 'mint']
    """
    if is_missing(value):
        return None
    if name == "qstatements":
        return chosen_statements(qid, value)
    found = plain(value)
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
    pairs = [] if is_missing(chosen) else plain(chosen)
    try:
        if not isinstance(pairs, list) or any(not isinstance(pair, list) for pair in pairs):
            raise TypeError
        if any(not isinstance(name, str | int) for name, _ in pairs):
            raise TypeError
        return [(str(name), float(score)) for name, score in pairs]
    except (TypeError, ValueError) as error:
        raise DataError(f"turn {qid}: qstatements is {chosen!r}; give a list of (id, score), best first") from error


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
