"""Checks of what a user gives: values of arguments, and frames that enter an operator."""

from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timezone
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt

from .errors import DataError, UsageError, counted, did_you_mean

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def at_least(least: int, **numbers: int | None) -> None:
    """Check that each given number is whole, and not below ``least``.

    Raises:
        UsageError: when one isn't.
    """
    for name, number in numbers.items():
        if number is None:
            continue
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise UsageError(f"{name}={number!r}: give a whole number, {least} or more")
        if number < least:
            raise UsageError(f"{name}={number!r}: give {least} or more")


def one_of(choices: Iterable[str | None], **values: Any) -> None:
    """Check that each of the values is one of ``choices``.

    Raises:
        UsageError: when one isn't; it lists them.
    """
    known = list(choices)
    for name, value in values.items():
        if value in known:
            continue
        names = [str(choice) for choice in known]
        repair = f"choose one of {', '.join(names)}"
        near = did_you_mean(str(value), names)
        if near:
            repair = f"{near} {repair}"
        raise UsageError(f"{name}={value!r} is unknown: {repair}")


class Checked:
    """Checks its arguments once it is made, by tables of its class and of its base classes."""

    least: ClassVar[Mapping[str, int]] = {}
    """Argument -> the smallest number that it may be."""
    choices: ClassVar[Mapping[str, Collection[str | None]]] = {}
    """Argument -> what it may be."""
    paths: ClassVar[Collection[str]] = ()
    """The arguments that are kept as texts, if they are given as paths."""

    def __post_init__(self) -> None:
        for cls in reversed(type(self).__mro__):
            for name, number in cls.__dict__.get("least", {}).items():
                at_least(number, **{name: getattr(self, name)})
            for name, known in cls.__dict__.get("choices", {}).items():
                one_of(known, **{name: getattr(self, name)})
        for name in self.paths:
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, str(value))


COLUMNS_OF_STAGES = {
    "a retriever (such as index.bm25())": "docno score rank",
    "a retriever over an index with texts, or index.text_loader()": "text",
    "ikat.Rewrite(llm)": "qrewrite",
    "ikat.Answer(llm)": "qanswer",
    "ikat.generate.OutlineAnswer(llm)": "qsuggestion",
    "ikat.SelectStatements(llm) or ikat.RankStatements(scorer)": "qstatements",
    "ikat.Queries(llm), ikat.generate.StatementQueries(llm) or "
    "ikat.generate.PassageQueries(llm)": "qsubqueries",
    "ikat.generate.PassageQueries(llm)": "qweights",
    "ikat.ExplodeQueries()": "qid_0 qquery qsub query_0",
    "ikat.Samples(operator)": "qsamples",
    'ikat.generate.Enhance(llm, "summary")': "qsummary",
    "ikat.generate.UpdatePtkb(llm)": "qlearned",
    "ikat.generate.Decide(llm)": "qaction qaskback",
    "ikat.Respond(llm, cite=True)": "qcitations",
}
"""Stage -> the columns that it makes."""
COLUMNS_OF_TURNS = {
    "take the turns from dataset.get_topics(), ikat.conversation(messages) or "
    'pd.DataFrame({"qid": ["1"], "query": ["..."]})': "qid query qutterance qhistory qptkb",
    'take the turns from dataset.get_topics("manual"); in a method of your own, set '
    "uses_gold=True": "qresolved qgoldptkb",
    "add the column from dataset.get_answers(): "
    'turns.merge(dataset.get_answers(), on="qid")': "gold_answer",
}
"""How to get columns of the turns -> these columns."""


def _repairs() -> dict[str, str]:
    repairs = {}
    for stage, columns in COLUMNS_OF_STAGES.items():
        for column in columns.split():
            repairs[column] = f"put {stage} before it"
    for source, columns in COLUMNS_OF_TURNS.items():
        for column in columns.split():
            repairs[column] = source
    return repairs


REPAIRS = _repairs()
"""Column -> how to get it, for a frame that lacks it."""


class MissingColumnError(DataError, pt.validate.InputValidationError):
    """A frame lacks columns that a stage reads, or has passages where it takes turns."""

    def __init__(self, message: str, modes: Any) -> None:
        super().__init__(message, modes)
        self.message = message  # PyTerrier adds the stage, which is named already

    def __str__(self) -> str:
        return self.message


def columns_once(frame: pd.DataFrame, who: str = "the frame") -> None:
    """Check that no two columns have the same name, because either could be meant.

    Raises:
        DataError: naming one.
    """
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        repair = "keep one, as in frame.loc[:, ~frame.columns.duplicated()]"
        raise DataError(f"{who} has several columns {str(twice[0])!r}: {repair}")


def by_position(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its rows numbered 0, 1, 2, ..., in their order.

    A frame that has these numbers is returned itself. A frame of a user may have any index: equal
    labels after ``pd.concat``, gaps after a selection, texts, dates, several levels. Rows are never
    found by them.

    Raises:
        DataError: when two columns have the same name.

    Example:
        >>> by_position(pd.DataFrame({"qid": ["1_1", "1_2"]}, index=[7, 7])).index.tolist()
        [0, 1]
    """
    columns_once(frame)
    numbers = pd.RangeIndex(len(frame))
    is_numbered = (
        isinstance(frame.index, pd.RangeIndex)
        and frame.index.name is None
        and frame.index.equals(numbers)
    )
    return frame if is_numbered else frame.set_axis(numbers, axis=0)


def checked_frame(stage: Any, frame: Any) -> pd.DataFrame:
    """Return the frame that a stage is given, its rows numbered from 0.

    Raises:
        UsageError: when it is not a frame.
        DataError: when chosen statements are not pairs of id and score: a prompt would omit them
            without a word.

    Example:
        >>> turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "qstatements": [[(1, 0.5)]]})
        >>> checked_frame("ikat.generate.AppendStatements()", turns)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        pyterrier_ikat.errors.DataError: turn 1_1 has the qstatements [(1, 0.5)]: give a list ...
    """
    if not isinstance(frame, pd.DataFrame):
        shown = " ".join(repr(frame).split())[:80]
        raise UsageError(
            f"{stage!r} is given {shown}: give a DataFrame, such as dataset.get_topics() or "
            "ikat.conversation(messages)"
        )
    frame = by_position(frame)
    if "qstatements" in frame.columns:
        _check_statements(frame)
    return frame


def check_same_turns(stage: Any, inp: pd.DataFrame, out: Any) -> None:
    """Check that a stage with ``one_row_per_turn`` returned the turns that it got, in their order.

    Raises:
        DataError: when it returned no frame, other turns, or more or fewer rows.
    """
    if not isinstance(out, pd.DataFrame) or "qid" not in out.columns:
        returned = "no frame with qid"
    elif len(out) != len(inp):
        returned = counted(len(out), "row")
    elif list(out["qid"]) != list(inp["qid"]):
        returned = "other turns, or in another order"
    else:
        return
    raise DataError(
        f"{stage!r} got {counted(len(inp), 'row')} and returned {returned}: return one row per "
        "row, in their order, or set one_row_per_turn = False"
    )


def _check_statements(frame: pd.DataFrame) -> None:
    """Check that chosen statements are pairs of id and score."""
    checked = set()
    for row, cell in enumerate(frame["qstatements"].tolist()):
        if id(cell) in checked:  # the rows of one turn share one list
            continue
        checked.add(id(cell))
        if is_missing(cell) or _are_statements(cell):
            continue
        turn = f"turn {frame['qid'].iloc[row]}" if "qid" in frame.columns else f"row {row}"
        shown = " ".join(repr(cell).split())[:80]
        raise DataError(
            f"{turn} has the qstatements {shown}: give a list of pairs of id and score, such as "
            '[("2", 0.9)]'
        )


def _are_statements(cell: Any) -> bool:
    sequences = (list, tuple, np.ndarray)
    if not isinstance(cell, sequences):
        return False
    for pair in cell:
        if not isinstance(pair, sequences) or len(pair) != 2 or not isinstance(pair[0], str):
            return False
    return True


def missing_columns(
    stage: Any, frame: pd.DataFrame, error: pt.validate.InputValidationError
) -> pt.validate.InputValidationError:
    """Return PyTerrier's error about the input of a stage in the user's terms.

    Errors of other stages stay as they are.
    """
    is_of_stage = f" in transformer {stage} " in str(error.args[0])
    if isinstance(error, MissingColumnError) or not is_of_stage:
        return error
    lacking = error.modes[0].missing_columns
    if not lacking:
        message = (
            f"{stage!r} takes turns, and the frame has passages (docno): put it before the "
            "retriever"
        )
        if stage.on_passages:
            message += f", or take {stage.on_passages}, which re-ranks passages"
        return MissingColumnError(message, error.modes)
    columns = ", ".join(map(str, frame.columns)) or "no column"
    repairs = dict.fromkeys(REPAIRS.get(name, f"add the column {name}") for name in lacking)
    return MissingColumnError(
        f"{stage!r} reads {', '.join(lacking)}, which the frame lacks (it has {columns}): "
        f"{'; '.join(repairs)}",
        error.modes,
    )


def is_missing(value: Any) -> bool:
    """Return whether a cell holds nothing: None, or a NaN that pandas filled in.

    Example:
        >>> is_missing(np.float32("nan")), is_missing(None), is_missing(""), is_missing(0.0)
        (True, True, False, False)
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def utc(when: str | date | None) -> str:
    """Return a time as events have it, in UTC; now for None.

    A time without a zone is UTC's, a date stands for its beginning.

    Raises:
        UsageError: when it is not a time.

    Example:
        >>> utc("2024-05-02 10:30+02:00"), utc("2024-05-02"), utc(date(2024, 5, 2))
        ('2024-05-02T08:30:00.000Z', '2024-05-02T00:00:00.000Z', '2024-05-02T00:00:00.000Z')
    """
    moment = _moment(when).astimezone(timezone.utc).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def day_of(when: str | date | None) -> str:
    """Return the day of a time in its own zone, with its English name; for None today.

    Raises:
        UsageError: when it is not a time.

    Example:
        >>> day_of("2024-05-02T23:30-05:00"), utc("2024-05-02T23:30-05:00")
        ('Thursday, 2024-05-02', '2024-05-03T04:30:00.000Z')
    """
    day = _moment(when).date()
    return f"{DAYS[day.weekday()]}, {day}"


def _moment(when: str | date | None) -> datetime:
    """A time with its zone, UTC if it has none; now in this computer's zone for None."""
    if when is None:
        return datetime.now().astimezone()
    moment: Any = when
    if isinstance(when, str):
        try:
            moment = datetime.fromisoformat(when.replace("Z", "+00:00"))
        except ValueError:
            moment = None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise UsageError(
            f"{when!r} is not a time: give a datetime, or a text such as 2024-05-02 or "
            "2024-05-02T10:30"
        )
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
