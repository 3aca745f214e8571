"""Checks of what a user gives: values of arguments, and frames at the entrance of every operator."""

from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timezone
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt

from .errors import DataError, UsageError, did_you_mean

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def at_least(least: int, **numbers: int | None) -> None:
    """Check that each given number is whole, and not below ``least``.

    Raises:
        UsageError: when one isn't.
    """
    for name, number in numbers.items():
        if number is None:
            continue
        is_whole = isinstance(number, Integral)
        if not is_whole or number < least:
            raise UsageError(
                f"{name}={number!r}: give {'' if is_whole else 'a whole number, '}{least} or more"
            )


def one_of(choices: Iterable[str | None], **values: Any) -> None:
    """Check that each of the values is one of ``choices``.

    Raises:
        UsageError: when one isn't; it lists them.
    """
    for name, value in values.items():
        if value not in (known := list(choices)):
            near = did_you_mean(str(value), map(str, known))
            raise UsageError(
                f"{name}={value!r} is unknown: {near}{' ' * bool(near)}choose one of {', '.join(map(str, known))}"
            )


class Checked:
    """Checks its arguments once it is made, by two tables of its class and of each class that it is made from."""

    least: ClassVar[Mapping[str, int]] = {}
    """Argument -> the smallest number that it may be."""
    choices: ClassVar[Mapping[str, Collection[str | None]]] = {}
    """Argument -> what it may be."""

    def __post_init__(self) -> None:
        for cls in reversed(type(self).__mro__):
            for name, number in vars(cls).get("least", {}).items():
                at_least(number, **{name: getattr(self, name)})
            for name, known in vars(cls).get("choices", {}).items():
                one_of(known, **{name: getattr(self, name)})


MAKERS = {
    "a retriever (such as index.bm25())": "docno score rank",
    "a retriever over an index with texts, or index.text_loader()": "text",
    "ikat.Rewrite(llm)": "qrewrite",
    "ikat.Answer(llm)": "qanswer",
    "ikat.generate.OutlineAnswer(llm)": "qsuggestion",
    "ikat.SelectStatements(llm) or ikat.RankStatements(scorer)": "qstatements",
    "ikat.Queries(llm), ikat.generate.StatementQueries(llm) or ikat.generate.PassageQueries(llm)": "qsubqueries",
    "ikat.generate.PassageQueries(llm)": "qweights",
    "ikat.ExplodeQueries()": "qid_0 qquery qpushed qsub query_0",
    "ikat.Samples(operator)": "qsamples",
    'ikat.generate.Enhance(llm, "summary")': "qsummary",
    "ikat.generate.UpdatePtkb(llm)": "qlearned",
    "ikat.generate.Decide(llm)": "qaction qaskback",
    "ikat.Respond(llm, cite=True)": "qcitations",
}
"""Stage -> the columns that it makes."""
SOURCES = {
    'take the turns from dataset.get_topics(), ikat.conversation(messages) or pd.DataFrame({"qid": ["1"], "query": ["..."]})': (
        "qid query qutterance qhistory qptkb"
    ),
    'take the turns from dataset.get_topics("manual"); in a method of your own, set uses_gold=True': "qresolved qgoldptkb",
    'add the column from dataset.get_answers(): turns.merge(dataset.get_answers(), on="qid")': "gold_answer",
}
"""How to get columns of the turns -> these columns."""
REPAIRS = {
    name: f"put {stage} before it" for stage, names in MAKERS.items() for name in names.split()
}
REPAIRS |= {name: repair for repair, names in SOURCES.items() for name in names.split()}


class MissingColumnError(DataError, pt.validate.InputValidationError):
    """A frame lacks columns that a stage reads, or has passages where it takes turns; the message names the stage to put before it."""

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
    """The frame with its rows numbered 0, 1, 2, ..., in their order. A frame that has these numbers is returned itself.

    A frame of a user may have any index: equal labels after ``pd.concat``, gaps after a selection,
    texts, dates, several levels. Rows are never found by them.

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
    """The frame that a stage is given, its rows numbered from 0.

    Raises:
        UsageError: when it is not a frame.
        DataError: when chosen statements are not pairs of id and score: a prompt would omit them
            without a word.

    Example:
        >>> checked_frame("ikat.generate.AppendStatements()", pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "qstatements": [[(1, 0.5)]]}))
        Traceback (most recent call last):
        pyterrier_ikat.errors.DataError: turn 1_1 has the qstatements [(1, 0.5)]: give a list of pairs of id and score, such as [("2", 0.9)]
    """
    if not isinstance(frame, pd.DataFrame):
        shown = " ".join(repr(frame).split())[:80]
        raise UsageError(
            f"{stage!r} is given {shown}: give a DataFrame, such as dataset.get_topics() or ikat.conversation(messages)"
        )
    frame = by_position(frame)
    cells = frame["qstatements"].tolist() if "qstatements" in frame.columns else []
    for cell in {id(cell): cell for cell in cells}.values():  # the rows of one turn share one list
        if not (is_missing(cell) or _are_statements(cell)):
            where = next(row for row, one in enumerate(cells) if one is cell)
            turn = f"turn {frame['qid'].iloc[where]}" if "qid" in frame.columns else f"row {where}"
            given = " ".join(repr(cell).split())[:80]
            raise DataError(
                f'{turn} has the qstatements {given}: give a list of pairs of id and score, such as [("2", 0.9)]'
            )
    return frame


def _are_statements(cell: Any) -> bool:
    of_pairs = (list, tuple, np.ndarray)
    return isinstance(cell, of_pairs) and all(
        isinstance(one, of_pairs) and len(one) == 2 and isinstance(one[0], str) for one in cell
    )


def missing_columns(
    stage: Any, frame: pd.DataFrame, error: pt.validate.InputValidationError
) -> pt.validate.InputValidationError:
    """PyTerrier's error about the input of a stage, in the user's terms. Errors of other stages stay as they are."""
    if isinstance(error, MissingColumnError) or f" in transformer {stage} " not in str(
        error.args[0]
    ):
        return error
    mode = error.modes[0]
    if not mode.missing_columns:
        instead = (
            f", or take {stage.on_passages}, which re-ranks passages" if stage.on_passages else ""
        )
        what = f"{stage!r} takes turns, and the frame has passages (docno): put it before the retriever{instead}"
        return MissingColumnError(what, error.modes)
    lacking = mode.missing_columns
    repairs = dict.fromkeys(REPAIRS.get(name, f"add the column {name}") for name in lacking)
    there = f"it has {', '.join(map(str, frame.columns)) or 'no column'}"
    return MissingColumnError(
        f"{stage!r} reads {', '.join(lacking)}, which the frame lacks ({there}): {'; '.join(repairs)}",
        error.modes,
    )


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, or the NaN that pandas fills in where one of several joined frames lacks a column."""
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float) and value != value)
    )


def utc(when: str | date | None) -> str:
    """A time as events have it, in UTC; now for None. A time without a zone is UTC's, a date its beginning.

    Raises:
        UsageError: when it is not a time.

    Example:
        >>> utc("2024-05-02 10:30+02:00"), utc("2024-05-02"), utc(date(2024, 5, 2))
        ('2024-05-02T08:30:00.000Z', '2024-05-02T00:00:00.000Z', '2024-05-02T00:00:00.000Z')
    """
    return (
        _moment(when)
        .astimezone(timezone.utc)
        .replace(tzinfo=None)
        .isoformat(timespec="milliseconds")
        + "Z"
    )


def day_of(when: str | date | None) -> str:
    """The day of a time where it was said, with its name, in English wherever the program runs; for None this computer's day.

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
    try:
        found = (
            datetime.fromisoformat(when.replace("Z", "+00:00")) if isinstance(when, str) else when
        )
    except ValueError:
        found = None
    if isinstance(found, date) and not isinstance(found, datetime):
        found = datetime(found.year, found.month, found.day)
    if not isinstance(found, datetime):
        raise UsageError(
            f"{when!r} is not a time: give a datetime, or a text such as 2024-05-02 or 2024-05-02T10:30"
        )
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
