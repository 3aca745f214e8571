"""What the page of a report shows: its turns or sessions, its measures and its notes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .means import Mean, ShownMeasure

LONG_TITLE = 60
"""The maximum number of characters of the names in the title."""


@dataclass(frozen=True)
class ListedPassage:
    """A passage in the list of a run.

    Attributes:
        rank: from 1.
        docno: its id.
        score: its score in the run; None if unknown.
        beginning: the first words of its text.
        rest: the following words, up to the limit.
        label: its relevance; None if it is not judged.
        used: whether the run's response is based on it.
        elsewhere: its ranks in runs that the list is compared with, as (number of the run, rank or
            None).
    """

    rank: int
    docno: str
    score: float | None
    beginning: str = ""
    rest: str = ""
    label: int | None = None
    used: bool = False
    elsewhere: Sequence[tuple[int, int | None]] = ()


@dataclass(frozen=True)
class Call:
    """An LLM call.

    Attributes:
        name: the name of its prompt.
        stage: the stage that asked.
        messages: its messages.
        completion: the completion, or why there is none.
        failed: whether there is none.
    """

    name: str
    stage: str
    messages: Sequence[Mapping[str, str]]
    completion: str
    failed: bool = False


@dataclass(frozen=True)
class Note:
    """Texts that a system wrote, with a label.

    Attributes:
        label: what they are.
        texts: the texts.
        kind: ``query``, ``draft`` or empty.
        folded: whether a click opens them.
    """

    label: str
    texts: Sequence[str]
    kind: str = ""
    folded: bool = False


@dataclass(frozen=True)
class ShownStep:
    """What a system did for one utterance.

    Attributes:
        title: ``Turn 1`` of a conversation; empty for a run of topics, where the utterance stands
            above all sides.
        facts: time, calls, cost.
        utterance: the user's words; empty for a run of topics.
        notes: what the system wrote on its way.
        response: the answer for the user.
        remarks: what the reader must know about it, in words.
        cited: the ranks of the passages on which the response is based.
        basis: what these are for the response, in words.
        passages: the ranked passages.
        found: says what they are, and how many.
        calls: the LLM calls.
    """

    title: str = ""
    facts: str = ""
    utterance: str = ""
    notes: Sequence[Note] = ()
    response: str = ""
    remarks: Sequence[str] = ()
    cited: Sequence[int] = ()
    basis: str = "based on"
    passages: Sequence[ListedPassage] = ()
    found: str = ""
    calls: Sequence[Call] = ()


@dataclass(frozen=True)
class Side:
    """One system's part: a step on a turn, or all steps of a session with its end and counts."""

    steps: Sequence[ShownStep]
    end: str = ""
    facts: str = ""


@dataclass(frozen=True)
class Unit:
    """A turn of all runs, or a session of all systems.

    Attributes:
        name: its qid, or the session's name.
        depth: its number in the conversation, or among the user's sessions.
        sides: one per system; None where a system lacks it.
        scores: the values of each system for each measure; None if it is not judged.
        utterance: the user's words on a turn.
        reasons: for each system and measure, why it differs from the baseline; empty texts for the
            baseline.
        references: what the organisers wrote, as (label, text).
        missed: relevant passages that no system shows, in words.
        rubrics: the user's questions, as (name, text, for each system the turn that met it or
            None).
    """

    name: str
    depth: int
    sides: Sequence[Side | None]
    scores: Sequence[Sequence[float]] | None = None
    utterance: str = ""
    reasons: Sequence[Sequence[str]] = ()
    references: Sequence[tuple[str, str]] = ()
    missed: Sequence[str] = ()
    rubrics: Sequence[tuple[str, str, Sequence[int | None]]] = ()


@dataclass(frozen=True)
class Group:
    """A conversation with its turns, or a user with the sessions.

    Attributes:
        name: the name of the conversation, or the user's id.
        units: the turns or sessions.
        title: what it is about, if known.
        persona: id -> statement.
    """

    name: str
    units: Sequence[Unit]
    title: str = ""
    persona: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Content:
    """What a page shows.

    Attributes:
        names: the systems. The first one is the baseline, with which the others are compared.
        unit: ``turn`` or ``session``.
        group: ``Conversation`` or ``User``.
        facts: what the page covers, in a sentence.
        groups: the turns or sessions.
        measures: the measures of the turns or sessions.
        columns: the measures of the table of means.
        means: for each system its means, in the order of the columns.
        notes: what the reader must know.
        caption: what the reader must know about the means.
        made: how the systems were made: name -> lines, the first one the expression.
        dataset: its name; may be empty.
        labelled: whether passages have labels.
    """

    names: Sequence[str]
    unit: str
    group: str
    facts: str
    groups: Sequence[Group]
    measures: Sequence[ShownMeasure]
    columns: Sequence[ShownMeasure]
    means: Sequence[Sequence[Mean]]
    notes: Sequence[str] = ()
    caption: str = ""
    made: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dataset: str = ""
    labelled: bool = False

    @property
    def title(self) -> str:
        """One line: the names, or their number if they are too long."""
        names = ", ".join(self.names)
        if len(self.names) > 1 and len(names) > LONG_TITLE:
            return f"{len(self.names)} systems"
        return names

    @property
    def first_shown(self) -> int:
        """The position in ``names`` of the system that is shown beside the baseline at first.

        It is the best other one, by the first measure that has a better side. 0 if there is only
        the baseline.
        """
        if len(self.names) < 2:
            return 0
        better = [position for position, column in enumerate(self.columns) if column.better]
        if not better or not self.means:
            return 1
        position = better[0]

        def worth(system: int) -> float:
            value = self.means[system][position].value * self.columns[position].better
            return -math.inf if math.isnan(value) else value

        return max(range(1, len(self.names)), key=worth)
