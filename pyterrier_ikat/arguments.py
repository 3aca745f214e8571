"""Checks of what a user gives: arguments against the signature, and frames at the entrance of every operator.

So a wrong type is found at once and not much later, and no stage fails deep inside pandas. The error is one line that names the
argument, or the column, the row and the value.
"""

import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import numpy as np
import pandas as pd
import pyterrier as pt

from .errors import DataError, UsageError, did_you_mean, list_first

MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
Made = TypeVar("Made", bound=Callable[..., Any])

Kind = tuple[str, Callable[[Any], bool]]
"""The name of a type in messages, and its check."""

KINDS: Mapping[Any, Kind] = {
    bool: ("True or False", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)),
    str: ("a text", lambda value: isinstance(value, str | os.PathLike)),
    Path: ("a path", lambda value: isinstance(value, os.PathLike)),
    NoneType: ("None", lambda value: value is None),
    Mapping: ("a dict", lambda value: isinstance(value, Mapping)),
}
"""Type in a signature -> its name in messages, and its check. Other types are checked by the function that takes them."""

CLASSES = {"Transformer": "a PyTerrier transformer", "DataFrame": "a DataFrame"}
"""The same for classes by their names, so that nothing is imported for them."""

EXAMPLES: Mapping[str, str] = {
    "system": 'a pipeline, or a method by its name and its resources: ikat.Chat("rtg", llm=..., index=...)',
    "runs": 'each frame its name, {"name": frame, ...}',
    "run": "a frame, such as read_run(path)",
    "qrels": 'a frame, such as pt.get_dataset("ikat:2023").get_qrels() or read_qrels(path)',
}
"""Argument -> advice in messages, where the name of the type would not say where to get such a value."""


def checked(function: Made) -> Made:
    """The function with a check that refuses arguments of another type than its signature says.

    Raises:
        UsageError: when the function is called with such an argument; the message names it and the type to give.

    Example:
        >>> @checked
        ... def cut(depth: int | None = 10): ...
        >>> cut("5")
        Traceback (most recent call last):
        pyterrier_ikat.errors.UsageError: depth='5': give a whole number or None
    """
    signature = inspect.signature(function)
    kinds = {name: _checks(one.annotation) for name, one in signature.parameters.items() if one.kind not in MANY}
    ordered = "dataset" in kinds and ("topics" in kinds or "qrels" in kinds)

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        args, options = _native(args), {name: _native(value) for name, value in options.items()}
        if ordered:
            _check_order(signature, args, options)
        try:
            bound = signature.bind(*args, **options)
        except TypeError as error:
            raise _wrong_call(function, signature, args, options, error) from None
        for name, value in bound.arguments.items():
            if kinds.get(name):
                _check(name, value, kinds[name])
        return function(*args, **options)

    return run  # type: ignore[return-value]


def _wrong_call(function: Any, signature: inspect.Signature, args: Any, options: Any, error: TypeError) -> UsageError:
    """The error for wrong names or a wrong number of arguments. It names the function and what it takes."""
    of_class = function.__name__ == "__init__"
    called = type(args[0]).__name__ if of_class and args else function.__name__
    parameters = list(signature.parameters.values())[of_class:]
    known = [one.name for one in parameters if one.kind not in MANY]
    by_name = next((place for place, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY), None)
    shown = list(map(_shown, parameters))
    if by_name is not None and not any(one.kind is one.VAR_POSITIONAL for one in parameters):
        shown.insert(by_name, "by name")
    takes = f"it takes {', '.join(shown) or 'nothing'}".replace("by name, ", "and by name ")
    unknown = [name for name in options if name not in known]
    if unknown and not any(one.kind is one.VAR_KEYWORD for one in parameters):
        near = did_you_mean(unknown[0], known)
        return UsageError(f"{called} has no argument {unknown[0]}: {near}{' ' * bool(near)}{takes}")
    by_place = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    given = {*by_place[: len(args) - of_class], *options}
    lacking = [one.name for one in parameters if one.default is one.empty and one.kind not in MANY and one.name not in given]
    if lacking and "missing" in str(error):
        return UsageError(f"{called} lacks {', '.join(lacking)}: {takes}")
    return UsageError(f"{called} can't be called like this ({error}): {takes}")


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.kind in MANY:
        return str(parameter).partition(":")[0]
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"


def _check_order(signature: inspect.Signature, args: Any, options: Any) -> None:
    """Refuse frames in the order of ``pt.Experiment``, whose second and third argument are topics and judgements."""
    names = [name for name in ("topics", "qrels") if name in signature.parameters]
    frames = [type(value).__name__ == "DataFrame" for value in (*args[1:3], *([options["dataset"]] if "dataset" in options else []))]
    if all(frames[:1]) and frames and (len(frames) > 1 or "DataFrame" not in str(signature.parameters["dataset"].annotation)):
        raise UsageError(f"the topics and judgements of pt.Experiment have names here: give {', '.join(f'{name}=FRAME' for name in names)}")


def at_least(least: int, **numbers: int | None) -> None:
    """Check that no given number is below ``least``.

    Raises:
        UsageError: when one is.
    """
    for name, number in numbers.items():
        if number is not None and number < least:
            raise UsageError(f"{name}={number!r}: give {least} or more")


def one_of(choices: Iterable[str | None], **values: Any) -> None:
    """Check that each of the values is one of ``choices``.

    Raises:
        UsageError: when one isn't; it lists them.
    """
    for name, value in values.items():
        if value not in (known := list(choices)):
            raise UsageError(f"{name}={value!r} is unknown: choose one of {', '.join(map(str, known))}")


def _native(value: Any) -> Any:
    """A NumPy number as a Python number, also inside lists and tuples, so that it can be stored and its repr can be pasted back."""
    if type(value).__module__ == "numpy" and value.ndim == 0:
        return value.item()
    return type(value)(map(_native, value)) if type(value) in (list, tuple) else value


def _check(name: str, value: Any, kinds: list[Kind]) -> None:
    for _, holds in kinds:
        if holds(value):
            return
    wanted = EXAMPLES.get(name) or " or ".join(kind[0] for kind in kinds)
    raise UsageError(f"{name}={' '.join(repr(value).split())[:80]}: give {wanted}")


def _checks(annotation: Any) -> list[Kind]:
    """The checks of a parameter's types. One of them must hold. Empty when one of the types has no check here."""
    found = [_known(kind) for kind in _kinds(annotation)]
    known = [kind for kind in found if kind is not None]
    return known if len(known) == len(found) else []


def _known(kind: Any) -> Kind | None:
    named = CLASSES.get(getattr(kind, "__name__", ""))
    return KINDS.get(kind) or (None if named is None else (named, lambda value: isinstance(value, kind)))


def _kinds(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (Union, UnionType):
        for one in get_args(annotation):
            yield from _kinds(one)
    elif annotation is not inspect.Parameter.empty:
        yield get_origin(annotation) or (NoneType if annotation is None else annotation)


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
    "qcitations": "ikat.Respond(llm, cite=True)",
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
    "qresolved": 'take the turns from dataset.get_topics("manual"); in a method of your own, set uses_gold=True',
    "qgoldptkb": 'take the turns from dataset.get_topics("manual"); in a method of your own, set uses_gold=True',
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
        UsageError: when it is not a frame.
        DataError: when a column occurs twice, or holds a value that such a column can't hold.

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
    """PyTerrier's error about the input of a stage, in the user's terms. Errors of other stages stay as they are."""
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
    """The first row without a usable id. Missing ids are named elsewhere."""
    if pd.api.types.infer_dtype(ids, skipna=True) in ("string", "integer", "empty"):
        return None
    return _first([not isinstance(one, str | Integral) and not is_missing(one) for one in ids])


def _no_number(numbers: pd.Series) -> int | None:
    """The first row without a number; a missing one is named where it matters."""
    if pd.api.types.is_numeric_dtype(numbers):
        return None
    return _first(pd.to_numeric(numbers.map(_plain), errors="coerce").isna() & ~numbers.map(is_missing))


def _no_sub_query(numbers: pd.Series) -> int | None:
    """The first row whose sub-query number is not a number."""
    read = numbers if pd.api.types.is_integer_dtype(numbers) else pd.to_numeric(numbers.map(_plain), errors="coerce")
    return _first(~((read >= 0) & (read < MOST_SUB_QUERIES) & (read % 1 == 0)))


def _no_statements(cells: pd.Series) -> int | None:
    """The first row that does not hold pairs of id and score. Rows of one turn share one list, which is looked at once."""
    held = cells.tolist()
    wrong = {id(cell) for cell in {id(cell): cell for cell in held}.values() if not is_missing(cell) and not _are_statements(cell)}
    return _first([id(cell) in wrong for cell in held]) if wrong else None


def _are_statements(cell: Any) -> bool:
    return isinstance(cell, list | tuple | np.ndarray) and all(map(_is_statement, cell))


def _is_statement(pair: Any) -> bool:
    if not isinstance(pair, list | tuple | np.ndarray) or len(pair) != 2:
        return False
    number, score = pair
    return isinstance(number, str) and isinstance(score, Real) and not isinstance(score, bool) and np.isfinite(float(score))


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, or the NaN that pandas fills in where one of several joined frames lacks a column."""
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    """The value, where pandas can read a number from it."""
    return value if isinstance(value, str | Real) and not isinstance(value, bool) else None


_ID, _NUMBER = (_no_id, "a text"), (_no_number, "a number")
HELD: Mapping[str, tuple[Callable[[pd.Series], int | None], str]] = {
    **dict.fromkeys(("qid", "qid_0", "docno"), _ID),
    **dict.fromkeys(("score", "rank", "qweight"), _NUMBER),
    "qsub": (_no_sub_query, f"the number of a sub-query, a whole number from 0 to {MOST_SUB_QUERIES - 1:,}"),
    "qstatements": (_no_statements, 'a list of pairs of id and score, such as [("2", 0.9)]'),
}
"""Column -> the first row that holds what such a column can't hold, and what to give instead."""


def utc(when: str | datetime | None) -> str:
    """A time as events have it, in UTC; now for None. A time without a zone is UTC's.

    Raises:
        UsageError: when it is not a time.

    Example:
        >>> utc("2024-05-02 10:30+02:00"), utc("2024-05-02")
        ('2024-05-02T08:30:00.000Z', '2024-05-02T00:00:00.000Z')
    """
    try:
        found = datetime.fromisoformat(when.replace("Z", "+00:00")) if isinstance(when, str) else when or datetime.now(timezone.utc)
    except ValueError:
        raise UsageError(f"{when!r} is not a time: give a datetime, or a text such as 2024-05-02 or 2024-05-02T10:30") from None
    zoned = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
    return zoned.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
