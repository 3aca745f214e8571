"""What every operator checks of its input, at one entrance: that it is a frame, its columns and their ids, numbers and statements.

A fault is one line that names the column, the row and the value, so that no stage reads half of a frame or fails deep inside pandas.
"""

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from .errors import DataError, UsageError, list_first

MOST_SUB_QUERIES = 1_000_000
"""More sub-queries than any turn has; fusions reserve memory for so many."""

_RETRIEVER = "a retriever (such as index.bm25())"
MADE_BY: Mapping[str, str] = {
    "docno": _RETRIEVER,
    "score": _RETRIEVER,
    "rank": _RETRIEVER,
    "text": "a retriever over an index with texts, or index.text_loader()",
    "qrewrite": "ikat.Rewrite(llm)",
    "qanswer": "ikat.Answer(llm)",
    "qsuggestion": "ikat.OutlineAnswer(llm)",
    "qstatements": "ikat.SelectStatements(llm) or ikat.RankStatements(scorer)",
    "qsubqueries": "ikat.Queries(llm), ikat.StatementQueries(llm) or ikat.PassageQueries(llm)",
    "qweights": "ikat.PassageQueries(llm)",
    "qid_0": "ikat.ExplodeQueries()",
    "qquery": "ikat.ExplodeQueries()",
    "qsub": "ikat.ExplodeQueries()",
    "query_0": "ikat.ExplodeQueries()",
    "qsamples": "ikat.Samples(operator)",
    "qsummary": "ikat.SummariseHistory(llm)",
    "qlearned": "ikat.UpdatePtkb(llm)",
    "qaction": "ikat.Decide(llm)",
    "qaskback": "ikat.Decide(llm)",
    "query_toks": "ikat.RM3()",
    "query_vec": "ikat.Aggregate()",
}
"""Column -> the operator that makes it."""

GIVEN_BY: Mapping[str, str] = {
    "qid": 'give each turn its qid, as in dataset.get_topics() or pd.DataFrame({"qid": ["1"], "query": ["..."]})',
    "query": "give each turn its query, as in dataset.get_topics()",
    "qutterance": "take the turns from dataset.get_topics() or ikat.conversation(messages)",
    "qhistory": "take the turns from dataset.get_topics() or ikat.conversation(messages)",
    "qptkb": "take the turns from dataset.get_topics() or ikat.conversation(messages, ptkb)",
    "qresolved": 'take the turns from dataset.get_topics("manual"); a method of your own says uses_gold=True',
    "qgoldptkb": 'take the turns from dataset.get_topics("manual"); a method of your own says uses_gold=True',
    "gold_answer": 'add the column from dataset.get_answers(): turns.merge(dataset.get_answers(), on="qid")',
}
"""Column of the turns -> how to get it."""


class MissingColumnError(DataError, pt.validate.InputValidationError):
    """A frame lacks columns that a stage reads, or has passages where it takes turns; the message names the stage to put before it."""

    def __init__(self, message: str, modes: Any) -> None:
        super().__init__(message, modes)
        self.message = message  # PyTerrier adds the stage, which is named already

    def __str__(self) -> str:
        return self.message


def checked_frame(stage: Any, frame: Any) -> pd.DataFrame:
    """The frame that a stage is given, where it can be read.

    Raises:
        UsageError: when it is no frame.
        DataError: when a column is there twice, or holds what no such column can hold.

    Example:
        >>> checked_frame("ikat.RRF()", pd.DataFrame({"qid": [["1"]], "query": ["tea"]}))
        Traceback (most recent call last):
        pyterrier_ikat.errors.DataError: ikat.RRF(): row 0 of the frame has the qid ['1']: give a text
    """
    if not isinstance(frame, pd.DataFrame):
        shown = " ".join(repr(frame).split())[:80]
        raise UsageError(f"{stage!r} is given {shown}: give a DataFrame, such as dataset.get_topics() or ikat.conversation(messages)")
    if frame.columns.nlevels > 1:
        raise DataError(f"{_name(stage)}: the columns of the frame have {frame.columns.nlevels} levels: give each column one name")
    if not frame.columns.is_unique:
        twice = list(dict.fromkeys(frame.columns[frame.columns.duplicated()]))
        raise DataError(f"{_name(stage)}: the frame has several columns {list_first(twice)}: rename or drop all but one")
    for name, (holds, wanted) in HELD.items():
        if name in frame.columns and (row := holds(frame[name])) is not None:
            value = " ".join(repr(frame[name].iloc[[row]].tolist()[0]).split())[:80]
            raise DataError(f"{_name(stage)}: row {row} of the frame has the {name} {value}: give {wanted}")
    named_twice = [name for name in frame.index.names if name is not None and name in frame.columns]
    return frame.rename_axis([None] * frame.index.nlevels) if named_twice else frame  # pandas can't tell the index from the column


def missing_columns(stage: Any, frame: pd.DataFrame, error: pt.validate.InputValidationError) -> pt.validate.InputValidationError:
    """The error of PyTerrier's check of a stage in the user's terms; that of another stage as it is."""
    if isinstance(error, MissingColumnError) or f" in transformer {stage} " not in str(error.args[0]):
        return error
    mode = error.modes[0]
    if not mode.missing_columns:
        return MissingColumnError(f"{stage!r} takes turns, and the frame has passages (docno): put it before the retriever", error.modes)
    lacking = mode.missing_columns
    repairs = list(dict.fromkeys(_repair(name, frame) for name in lacking))
    there = f"it has {', '.join(map(str, frame.columns))}" if len(frame.columns) else "it has no column"
    return MissingColumnError(f"{stage!r} reads {', '.join(lacking)}, which the frame lacks ({there}): {'; '.join(repairs)}", error.modes)


def _repair(name: str, frame: pd.DataFrame) -> str:
    if name in frame.index.names:
        return f"{name} is the index of the frame, so give frame.reset_index()"
    if name in MADE_BY:
        return f"put {MADE_BY[name]} before it"
    return GIVEN_BY.get(name, f"add the column {name}")


def _name(stage: Any) -> str:
    return stage if isinstance(stage, str) else repr(stage)


def _first(wrong: Any) -> int | None:
    rows = np.flatnonzero(np.asarray(wrong, dtype=bool))
    return int(rows[0]) if len(rows) else None


def _no_id(ids: pd.Series) -> int | None:
    """The first row without a usable id; a missing one is named where it matters."""
    if pd.api.types.infer_dtype(ids, skipna=True) in ("string", "integer", "empty"):
        return None
    return _first([not isinstance(one, str | Integral) and not _is_missing(one) for one in ids])


def _no_number(numbers: pd.Series) -> int | None:
    """The first row without a number; a missing one is named where it matters."""
    if pd.api.types.is_numeric_dtype(numbers):
        return None
    return _first(pd.to_numeric(numbers.map(_plain), errors="coerce").isna() & ~numbers.map(_is_missing))


def _no_sub_query(numbers: pd.Series) -> int | None:
    """The first row whose number of a sub-query is none."""
    read = numbers if pd.api.types.is_integer_dtype(numbers) else pd.to_numeric(numbers.map(_plain), errors="coerce")
    return _first(~((read >= 0) & (read < MOST_SUB_QUERIES) & (read % 1 == 0)))


def _no_statements(cells: pd.Series) -> int | None:
    """The first row that does not hold pairs of id and score. Rows of one turn share one list, which is looked at once."""
    held = cells.tolist()
    wrong = {id(cell) for cell in {id(cell): cell for cell in held}.values() if not _is_missing(cell) and not _are_statements(cell)}
    return _first([id(cell) in wrong for cell in held]) if wrong else None


def _are_statements(cell: Any) -> bool:
    return isinstance(cell, list | tuple | np.ndarray) and all(map(_is_statement, cell))


def _is_statement(pair: Any) -> bool:
    if not isinstance(pair, list | tuple | np.ndarray) or len(pair) != 2:
        return False
    number, score = pair
    return isinstance(number, str) and isinstance(score, Real) and not isinstance(score, bool) and np.isfinite(float(score))


def _plain(value: Any) -> Any:
    """The value, where pandas can read a number from it."""
    return value if isinstance(value, str | Real) and not isinstance(value, bool) else None


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


_ID, _NUMBER = (_no_id, "a text"), (_no_number, "a number")
HELD: Mapping[str, tuple[Callable[[pd.Series], int | None], str]] = {
    **dict.fromkeys(("qid", "qid_0", "docno"), _ID),
    **dict.fromkeys(("score", "rank", "qweight"), _NUMBER),
    "qsub": (_no_sub_query, f"the number of a sub-query, a whole number from 0 to {MOST_SUB_QUERIES - 1:,}"),
    "qstatements": (_no_statements, 'a list of pairs of id and score, such as [("2", 0.9)]'),
}
"""Column -> the first row that holds what such a column can't hold, and what to give instead."""
