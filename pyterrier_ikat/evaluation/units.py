"""The unit of inference: which turns may depend on each other, because they belong to one conversation, topic or user.

A dataset declares its unit, see :class:`~pyterrier_ikat.conversations.ikat_dataset.IkatDataset`.
Without one, the conversation is read from the column ``qconversation`` or from the ids, and the
line below a table says so.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError, advice, counted, list_first
from .inference import ALPHA, FEWEST

if TYPE_CHECKING:
    import pandas as pd

    from ..conversations.ikat_dataset import IkatDataset

UNITS = ("turn", "conversation", "topic", "user")
UNIT_COLUMNS = ("unit", "clusters", "unit_from")
"""The columns of a table of scores that say what its intervals rest on."""
LEVEL = f"p < {ALPHA:.2f}".replace("0.", ".")
SOURCES = {
    "qconversation": "The conversation of a turn is that of the column qconversation.",
    "qid": "No dataset is known, so the conversation of a turn was taken from its id: what stands before the last _.",
    "none": "Nothing names the conversations: no dataset is known, and not every id is <conversation>_<turn>.",
}
"""How the unit is known if no dataset declares it -> the sentence about it."""


@dataclass(frozen=True)
class Clusters:
    """The clusters of the turns of a comparison.

    Attributes:
        unit: what a cluster is, one of :data:`UNITS`.
        names: the cluster of each turn, in the order of the scores.
        source: how it is known, a key of :data:`SOURCES`; empty if a dataset declares it or nothing
            was read.
        of: what a score is of.
    """

    unit: str
    names: Sequence[str]
    source: str = ""
    of: str = "turn"

    @property
    def number(self) -> int:
        """The number of clusters."""
        return len(set(self.names))

    @property
    def is_independent(self) -> bool:
        """Whether each turn is its own cluster by choice."""
        return self.unit == self.of

    @property
    def enough(self) -> bool:
        """Whether a difference may be marked. A test over independent turns is exact with any number of them."""
        return self.is_independent or self.number >= FEWEST

    def columns(self) -> dict[str, Any]:
        """The columns of a table of scores that say what its intervals rest on."""
        return dict(zip(UNIT_COLUMNS, (self.unit, self.number, self.source), strict=True))

    def over(self) -> str:
        """What the mean is over, for the line below a table.

        Example:
            >>> Clusters("topic", ["9", "9", "10"]).over(), Clusters("turn", ["a", "b"]).over()
            ('3 turns of 2 topics', '2 turns')
        """
        return _over(self.unit, self.number, len(self.names), self.of)


def independent(turns: int) -> Clusters:
    """As many turns that are independent of each other."""
    return Clusters("turn", [str(place) for place in range(turns)])


def _over(unit: str, number: int, turns: int, of: str = "turn") -> str:
    said = counted(turns, of)
    return said if unit == of else f"{said} of {counted(number, unit)}"


def said_of_test(unit: str, number: int, turns: int, of: str = "turn") -> str:
    """The test of differences in a line below a table.

    Example:
        >>> print(said_of_test("topic", 13, 280))
        two-sided paired t-test robust to clusters, over 280 turns of 13 topics, Bonferroni, p < .05
    """
    kind = "two-sided paired t-test" if unit == of else "two-sided paired t-test robust to clusters"
    return f"{kind}, over {_over(unit, number, turns, of)}, Bonferroni, {LEVEL}"


def notes_on_unit(unit: str, number: int, source: str = "", of: str = "turn") -> list[str]:
    """What a reader of marks and intervals has to know about their unit, a sentence each."""
    notes = []
    if unit == of == "turn":
        notes.append(
            "The test treats all turns as independent, also those of one conversation or topic."
        )
    if source:
        notes.append(SOURCES[source])
    if unit != of and number < FEWEST:
        notes.append(
            f"Nothing is marked: a test needs {FEWEST} {unit}s or more, and these are {number}."
        )
        if of == "turn":
            notes[-1] += " The unit turn takes the turns as independent."
    return notes


def note_on_intervals(table: "pd.DataFrame") -> str:
    """The line below a table of means with intervals, from its columns ``unit`` and ``clusters``."""
    unit, source = table["unit"].iloc[0], table["unit_from"].iloc[0]
    least, most = table["clusters"].min(), table["clusters"].max()
    number = counted(int(most), unit) if least == most else f"{least} to {counted(int(most), unit)}"
    kind = "of independent turns" if unit == "turn" else "robust to clusters"
    said = f"_low and _high, or low and high: intervals of 95 %, {kind}, over {number}."
    return f"{said} {SOURCES[source]}" if source else said


def check_unit(unit: str | None, baseline: str | None) -> None:
    """Check a unit that a user gave.

    Raises:
        UsageError: when it is unknown, or there is no baseline that others are compared with.
    """
    if unit is None:
        return
    from ..arguments import one_of  # imports pandas, which scores of runs do without

    one_of(UNITS, unit=unit)
    if baseline is None:
        given = advice(f"unit={unit!r}", f"--unit {unit}")
        raise UsageError(
            f"{given} is the unit of tests and intervals of differences: give {advice('baseline=...', '--baseline')}"
        )


def find_clusters(
    turns: Iterable[str],
    unit: str | None = None,
    data: "IkatDataset | None" = None,
    frames: "Iterable[pd.DataFrame]" = (),
) -> Clusters:
    """The clusters of turns: by default those that their dataset declares, else their conversations, else the turns themselves.

    Args:
        turns: the turns.
        unit: one of :data:`UNITS`; None for the default.
        data: their dataset, if it is known.
        frames: frames with ``qid`` that may have ``qconversation``.

    Raises:
        UsageError: when the unit is unknown, or the dataset doesn't know it.
        DataError: when a unit is asked for that neither a dataset nor the ids have.

    Warns:
        UserWarning: when the dataset lacks some of the turns. Each of these is a cluster of its
        own.

    Example:
        >>> find_clusters(["9-1_1", "9-1_2", "9-2_1"]).names, find_clusters(["9-1_1", "9-2_1"], "topic").names
        (['9-1', '9-1', '9-2'], ['9', '9'])
    """
    names = list(turns)
    if unit is not None:
        from ..arguments import one_of

        one_of(UNITS, unit=unit)
    if unit == "turn":
        return Clusters("turn", names)
    if data is not None and data.declares_unit:
        return _declared(names, unit or data.unit, data)
    conversations, source = _conversations(names, frames)
    if unit is None and source == "none":
        return Clusters("turn", names, source)
    if source == "none":
        odd = next(qid for qid in names if not qid.rpartition("_")[0])
        repair = advice('give dataset=..., or unit="turn"', "give --dataset, or --unit turn")
        raise DataError(f"turn {odd!r} is not <conversation>_<turn>, such as 9-1_3: {repair}")
    if unit in ("topic", "user"):
        return Clusters(unit, [one.partition("-")[0] for one in conversations], source)
    return Clusters("conversation", conversations, source)


def units_of(turns: Iterable[str], unit: str | None = None) -> list[str]:
    """The unit of each turn without a dataset, see :func:`find_clusters`.

    Example:
        >>> units_of(["9-1_1", "9-1_2", "9-2_1"]), units_of(["9-1_1", "9-2_1"], "topic")
        (['9-1', '9-1', '9-2'], ['9', '9'])
    """
    return list(find_clusters(turns, unit).names)


def _declared(turns: list[str], unit: str, data: "IkatDataset") -> Clusters:
    known = data.clusters(unit)
    lacking = [qid for qid in turns if qid not in known]
    if lacking:
        message = f"{data.name} lacks {counted(len(lacking), 'turn')} ({list_first(lacking)}): each counts as a {unit} of its own in tests"
        warnings.warn(message, stacklevel=4)
    return Clusters(unit, [known.get(qid, qid) for qid in turns])


def _conversations(turns: list[str], frames: "Iterable[pd.DataFrame]") -> tuple[list[str], str]:
    """The conversation of each turn, and how it is known: a key of :data:`SOURCES`."""
    known = dict[str, str]()
    for frame in frames:
        if {"qid", "qconversation"} <= set(frame.columns):
            pairs = frame[["qid", "qconversation"]].drop_duplicates("qid").dropna()
            known.update(zip(pairs["qid"], map(str, pairs["qconversation"]), strict=True))
    own = all(known.get(qid) == qid for qid in turns)  # stands in for an unknown conversation
    if turns and not own and all(qid in known for qid in turns):
        return [known[qid] for qid in turns], "qconversation"
    before = [qid.rpartition("_")[0] for qid in turns]
    return before, "qid" if all(before) else "none"
