"""The turns that systems are run on, in their order, whatever index the user's frame had."""

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import by_position
from ..conversations.datasets import Turns, read_turns
from ..conversations.frame import each_turn_once, values, with_text_ids
from ..errors import DataError, UsageError


class NoRewritesWarning(UserWarning):
    """A manual system runs on a dataset without manual rewrites, so the run is an automatic one."""


@dataclass(frozen=True, eq=False)
class AskedTurns:
    """The turns that systems are run on. Each has a position, from 0.

    Attributes:
        frame: a row for each turn, whose label is its position.

    Example:
        >>> both = pd.concat([pd.DataFrame({"qid": ["1_1"]}), pd.DataFrame({"qid": ["1_2"]})])
        >>> turns = AskedTurns.given(both)
        >>> turns.ids, turns.left({"1_1"})
        (('1_1', '1_2'), [1])
    """

    frame: pd.DataFrame

    @classmethod
    def given(cls, topics: pd.DataFrame) -> "AskedTurns":
        """Return the turns of a user's frame.

        Raises:
            UsageError: when it is not a frame.
            InputValidationError: when it has no column ``qid``.
            DataError: when it has no turn, an id is not a text, or the ids are the index.
        """
        if not isinstance(topics, pd.DataFrame):
            shown = " ".join(repr(topics).split())[:80]
            raise UsageError(
                f"topics={shown}: give a frame with qid and query, such as dataset.get_topics() or "
                "pd.DataFrame(rows)"
            )
        if "qid" not in topics.columns and "qid" in topics.index.names:
            raise DataError(
                "the topics frame has qid as its index, not as a column: give topics.reset_index()"
            )
        pt.validate.columns(topics, includes=["qid"])
        if topics.empty:
            raise DataError("the topics frame has no turn: look at what it was selected by")
        return cls(by_position(with_text_ids("the topics frame", topics, ["qid"])))

    @classmethod
    def of_dataset(cls, data: Any, manual: bool) -> "AskedTurns":
        """Return the turns of a dataset, for a manual run with their rewrites.

        A dataset without rewrites causes a warning.
        """
        frame = data.get_topics("manual" if manual else None)
        if manual and not _is_rewritten(frame):
            message = (
                f"{data.name} has no manual rewrites: manual methods get the raw utterances, so "
                "this is not a manual run"
            )
            warnings.warn(message, NoRewritesWarning, stacklevel=5)
        return cls(by_position(frame))

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The id of each turn, by position."""
        return tuple(self.frame["qid"])

    def chosen(self, wanted: Turns, where: str) -> "AskedTurns":
        """Return only the turns that a user names, at new positions.

        Args:
            wanted: the ids, as for :func:`~pyterrier_ikat.conversations.datasets.read_turns`.
            where: their source, for the message.

        Raises:
            UsageError: when no turn is named, or an unknown one.
        """
        return self.among(set(read_turns(wanted, self.ids, where)))

    def among(self, ids: Collection[str]) -> "AskedTurns":
        """Return only the turns with these ids, at new positions."""
        return AskedTurns(self.frame[self.frame["qid"].isin(ids)].reset_index(drop=True))

    def check_once(self) -> None:
        """Check that every turn has an id of its own.

        Raises:
            DataError: naming the row without one, or the first turn that occurs again.
        """
        each_turn_once(self.frame)

    def left(self, finished: Collection[str]) -> list[int]:
        """Return the positions of the turns whose ids are not in ``finished``."""
        return [position for position, qid in enumerate(self.ids) if qid not in finished]


def batches(positions: Sequence[int], size: int) -> Iterator[slice]:
    """Yield groups of up to ``size`` consecutive positions, as slices of ``positions``.

    Turns that wait for an LLM's batch leave gaps.

    Example:
        >>> list(batches([0, 1, 2, 7], 2))
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    start = 0
    for end in range(1, len(positions) + 1):
        is_last = end == len(positions)
        if is_last or end - start == size or positions[end] != positions[end - 1] + 1:
            yield slice(start, end)
            start = end


def _is_rewritten(frame: pd.DataFrame) -> bool:
    """Whether a turn has a rewrite, or no turn needs one because none has a history."""
    rows = zip(
        values(frame, "qhistory"),
        values(frame, "qresolved"),
        values(frame, "qutterance"),
        strict=True,
    )
    later = [resolved != utterance for history, resolved, utterance in rows if history]
    return any(later) or not later
