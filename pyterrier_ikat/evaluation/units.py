"""The unit of inference: which turns may depend on each other.

These are the turns of one conversation, topic or user. A dataset declares its unit, see
:class:`~pyterrier_ikat.conversations.ikat_dataset.IkatDataset`. Without one, the conversation is
read from the column ``qconversation`` or from the ids, and the line below a table says so.
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
    "qid": (
        "No dataset is known, so the conversation of a turn was taken from its id: what stands "
        "before the last _."
    ),
    "none": (
        "Nothing names the conversations: no dataset is known, and not every id is "
        "<conversation>_<turn>."
    ),
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
        """Whether there are enough clusters to mark a difference.

        A test over independent turns is exact with any number of them.
        """
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
        return _turns_of_clusters(self.unit, self.number, len(self.names), self.of)


def independent(turns: int) -> Clusters:
    """Clusters of this many turns, each independent of the others."""
    return Clusters("turn", [str(number) for number in range(turns)])


def _turns_of_clusters(unit: str, number: int, turns: int, of: str = "turn") -> str:
    text = counted(turns, of)
    if unit == of:
        return text
    return f"{text} of {counted(number, unit)}"


def describe_test(unit: str, number: int, turns: int, of: str = "turn") -> str:
    """The test of differences in a line below a table.

    Example:
        >>> print(describe_test("topic", 13, 280))
        two-sided paired t-test robust to clusters, over 280 turns of 13 topics, Bonferroni, p < .05
    """
    test = "two-sided paired t-test"
    if unit != of:
        test += " robust to clusters"
    return f"{test}, over {_turns_of_clusters(unit, number, turns, of)}, Bonferroni, {LEVEL}"


def notes_on_unit(unit: str, number: int, source: str = "", of: str = "turn") -> list[str]:
    """Sentences on the unit of marks and intervals, for the lines below a table."""
    notes = []
    if unit == of == "turn":
        notes.append(
            "The test treats all turns as independent, also those of one conversation or topic."
        )
    if source:
        notes.append(SOURCES[source])
    if unit != of and number < FEWEST:
        note = f"Nothing is marked: a test needs {FEWEST} {unit}s or more, and these are {number}."
        if of == "turn":
            note += " The unit turn takes the turns as independent."
        notes.append(note)
    return notes


def note_on_intervals(table: "pd.DataFrame") -> str:
    """The line on intervals below a table of means, from its ``unit`` and ``clusters``."""
    unit = table["unit"].iloc[0]
    source = table["unit_from"].iloc[0]
    fewest = int(table["clusters"].min())
    most = int(table["clusters"].max())
    number = counted(most, unit)
    if fewest != most:
        number = f"{fewest} to {number}"
    kind = "of independent turns" if unit == "turn" else "robust to clusters"
    note = f"_low and _high, or low and high: intervals of 95 %, {kind}, over {number}."
    if source:
        note += f" {SOURCES[source]}"
    return note


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
        argument = advice(f"unit={unit!r}", f"--unit {unit}")
        repair = advice("baseline=...", "--baseline")
        raise UsageError(
            f"{argument} is the unit of tests and intervals of differences: give {repair}"
        )


def find_clusters(
    turns: Iterable[str],
    unit: str | None = None,
    data: "IkatDataset | None" = None,
    frames: "Iterable[pd.DataFrame]" = (),
) -> Clusters:
    """The clusters of turns.

    By default they are those that the dataset declares, else the turns' conversations, else the
    turns themselves.

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
        >>> find_clusters(["9-1_1", "9-1_2", "9-2_1"]).names
        ['9-1', '9-1', '9-2']
        >>> find_clusters(["9-1_1", "9-2_1"], "topic").names
        ['9', '9']
    """
    qids = list(turns)
    if unit is not None:
        from ..arguments import one_of

        one_of(UNITS, unit=unit)
    if unit == "turn":
        return Clusters("turn", qids)
    if data is not None and data.declares_unit:
        return _declared(qids, unit or data.unit, data)
    conversations, source = _conversations(qids, frames)
    if source == "none":
        if unit is None:
            return Clusters("turn", qids, source)
        odd = next(qid for qid in qids if not qid.rpartition("_")[0])
        repair = advice('give dataset=..., or unit="turn"', "give --dataset, or --unit turn")
        raise DataError(f"turn {odd!r} is not <conversation>_<turn>, such as 9-1_3: {repair}")
    if unit in ("topic", "user"):
        topics = [conversation.partition("-")[0] for conversation in conversations]
        return Clusters(unit, topics, source)
    return Clusters("conversation", conversations, source)


def _declared(turns: list[str], unit: str, data: "IkatDataset") -> Clusters:
    cluster_of = data.clusters(unit)
    missing = [qid for qid in turns if qid not in cluster_of]
    if missing:
        warnings.warn(
            f"{data.name} lacks {counted(len(missing), 'turn')} ({list_first(missing)}): "
            f"each counts as a {unit} of its own in tests",
            stacklevel=4,
        )
    return Clusters(unit, [cluster_of.get(qid, qid) for qid in turns])


def _conversations(turns: list[str], frames: "Iterable[pd.DataFrame]") -> tuple[list[str], str]:
    """The conversation of each turn, and how it is known: a key of :data:`SOURCES`."""
    conversation_of: dict[str, str] = {}
    for frame in frames:
        if {"qid", "qconversation"} <= set(frame.columns):
            pairs = frame[["qid", "qconversation"]].drop_duplicates("qid").dropna()
            names = map(str, pairs["qconversation"])
            conversation_of.update(zip(pairs["qid"], names, strict=True))
    # A frame without conversations may have the turns themselves in this column.
    are_turns = all(conversation_of.get(qid) == qid for qid in turns)
    if turns and not are_turns and all(qid in conversation_of for qid in turns):
        return [conversation_of[qid] for qid in turns], "qconversation"
    from_ids = [qid.rpartition("_")[0] for qid in turns]
    return from_ids, "qid" if all(from_ids) else "none"
