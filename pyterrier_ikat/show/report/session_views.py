"""The sessions of a report: one user's conversations with several systems, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from ...errors import DataError, counted
from ...llms.ledger import Spend
from ...runs.answered_turn import Turn
from ...runs.log import Dialogue
from .rankings import cut_words

NOT_ENDED = "not ended"


@dataclass(frozen=True)
class SourceView:
    """A passage on which a response is based. ``beginning`` and ``rest`` are its first words, empty if its text is unknown."""

    docno: str
    score: float | None
    beginning: str = ""
    rest: str = ""


@dataclass(frozen=True)
class SessionTurn:
    """A turn as the page shows it.

    Attributes:
        turn: the turn.
        met: the rubrics that it was the first to meet.
        facts: time, calls, cost.
        remarks: whether the response was cut, the user read passages instead, or the user never received it.
        sources: the first passages on which the response is based; without a response, the best ones.
        called: the kind and number of these passages.
        draft: an answer that the system wrote as its query; empty if the response is the same.
        how: names those of rewrite, queries, statements and draft that are known; may be empty.
    """

    turn: Turn
    met: Sequence[str]
    facts: str
    remarks: Sequence[str]
    sources: Sequence[SourceView]
    called: str
    draft: str
    how: str


@dataclass(frozen=True)
class SessionSide:
    """The conversation of one system. ``end`` says why it ended, and ``facts`` has its counts, time and cost."""

    end: str
    facts: str
    turns: list[SessionTurn]


@dataclass(frozen=True)
class Rubric:
    """A question of the user, and for each system the turn that met it; None if none did."""

    name: str
    text: str
    met: list[int | None]


@dataclass(frozen=True)
class SessionView:
    """A session. ``number`` counts those of the report, ``depth`` those of the user, from 1. ``sides`` has None where it is missing."""

    number: int
    depth: int
    name: str
    sides: list[SessionSide | None]
    rubrics: list[Rubric]
    values: list[list[float]]

    @property
    def ends(self) -> list[str]:
        """Why the conversation of each system ended; empty if there is none."""
        return [side.end if side else "" for side in self.sides]


@dataclass(frozen=True)
class UserView:
    """A user's sessions."""

    name: str
    sessions: list[SessionView]


@dataclass(frozen=True)
class Shown:
    """What is shown for each response.

    Attributes:
        sources: the maximum number of passages.
        words: the maximum number of words of each passage.
        costs: whether any cost is known; if none is, costs are not mentioned.
        headers: the description of each system's log.
        texts: docno -> text, for passages without a text in the log.
    """

    sources: int
    words: int
    costs: bool
    headers: Sequence[Mapping[str, Any]]
    texts: Mapping[str, str]


def align(systems: Mapping[str, Sequence[Dialogue]]) -> dict[str, list[Dialogue | None]]:
    """Session -> its conversation with each system, in the order in which the systems have them.

    Raises:
        DataError: when a session has different users or rubrics in different logs, because such systems are not comparable.

    Example:
        >>> found = align({"raw": [Dialogue("s1", "anna")], "QR": [Dialogue("s2", "ben"), Dialogue("s1", "anna")]})
        >>> {session: [one and one.user for one in sides] for session, sides in found.items()}
        {'s1': ['anna', 'anna'], 's2': [None, 'ben']}
    """
    found: dict[str, list[Dialogue | None]] = {}
    for number, dialogues in enumerate(systems.values()):
        for one in dialogues:
            found.setdefault(one.session, [None] * len(systems))[number] = one
    names = list(systems)
    for session, sides in found.items():
        there = [(name, one) for name, one in zip(names, sides, strict=True) if one is not None]
        (first_name, first), *others = there
        for name, one in others:
            for what, theirs, ours in (("users", one.user, first.user), ("rubrics", one.rubrics, first.rubrics)):
                if theirs != ours:
                    raise DataError(f"session {session} has different {what} in {first_name} and {name}: compare systems on the same users")
    return found


def build_users(aligned: Mapping[str, Sequence[Dialogue | None]], values: Mapping[str, list[list[float]]], shown: Shown) -> list[UserView]:
    """The sessions by user, users in the order of their first session.

    Args:
        aligned: the sessions, see :func:`align`.
        values: session -> for each system its measures.
        shown: what is shown for each response.
    """
    by_user: dict[str, list[str]] = {}
    for session, sides in aligned.items():
        by_user.setdefault(next(one.user for one in sides if one is not None), []).append(session)
    numbers = count(1)
    return [
        UserView(user, [_session(next(numbers), depth, session, aligned[session], values[session], shown) for depth, session in places])
        for user, places in ((user, enumerate(sessions, 1)) for user, sessions in by_user.items())
    ]


def _session(number: int, depth: int, name: str, sides: Sequence[Dialogue | None], values: list[list[float]], shown: Shown) -> SessionView:
    views = [None if one is None else _side(one, shown, header) for one, header in zip(sides, shown.headers, strict=True)]
    return SessionView(number, depth, name, views, _rubrics(sides), values)


def _rubrics(sides: Sequence[Dialogue | None]) -> list[Rubric]:
    rubrics = next(one.rubrics for one in sides if one is not None)
    met = [{} if one is None else one.met for one in sides]
    return [Rubric(name, text, [turns.get(name) for turns in met]) for name, text in rubrics.items()]


def _side(one: Dialogue, shown: Shown, header: Mapping[str, Any]) -> SessionSide:
    turns = [_view(turn, one.met, shown, _remarks(turn, one, header)) for turn in one.turns]
    facts = [f"{len(one.met)} of {counted(len(one.rubrics), 'rubric')} met"] if one.rubrics else []
    facts.append(counted(len(one.turns), "turn"))
    if one.turns:
        facts.append(f"{sum(turn.seconds for turn in one.turns) / len(one.turns):.1f} s per turn")
    facts.append(_spent(sum((turn.spend for turn in one.turns), Spend()), shown.costs))
    return SessionSide(one.end or NOT_ENDED, ", ".join(facts), turns)


def _spent(spend: Spend, costs: bool) -> str:
    price = "" if not costs else ", cost unknown" if spend.price is None else f", {spend.price:.4f} USD"
    return f"{counted(spend.completions, 'LLM call')}{price}"


def _remarks(turn: Turn, one: Dialogue, header: Mapping[str, Any]) -> list[str]:
    """Remarks on the part of a response that the user received."""
    remarks = []
    if turn.cut:
        remarks.append(f"{counted(turn.cut, 'token')} cut off before it was sent")
    if turn.more.get("read") == "passages":
        remarks.append(f"the user read the best {header.get('passages', '')} passages".replace("  ", " "))
    if header.get("kind") == "interactive" and turn.number not in one.sent:
        remarks.append("not sent")
    return remarks


def _view(turn: Turn, met: Mapping[str, int], shown: Shown, remarks: Sequence[str]) -> SessionTurn:
    first = passages_of(turn, shown.texts)[: shown.sources]
    return SessionTurn(
        turn=turn,
        met=[rubric for rubric in dict.fromkeys(turn.met) if met[rubric] == turn.number],
        facts=f"{turn.seconds:.1f} s, {_spent(turn.spend, shown.costs)}",
        remarks=remarks,
        sources=[SourceView(docno, score, *cut_words(text, shown.words)) for docno, score, text in first],
        called=_called(turn, shown.sources),
        draft=_draft(turn),
        how=_how(turn),
    )


def passages_of(turn: Turn, texts: Mapping[str, str] | None = None) -> list[tuple[str, float | None, str]]:
    """Docno, score and text of the passages of a turn: those that were shown as [1], [2], ..., or if none was, all that it cites.

    Args:
        turn: the turn.
        texts: docno -> text, for passages without a text in the turn.
    """
    known = texts or {}
    if turn.sources:
        return [(one.docno, one.score, one.text or known.get(one.docno, "")) for one in turn.sources]
    return [(docno, score, known.get(docno, "")) for docno, score in turn.citations.items()]


def _called(turn: Turn, shown: int) -> str:
    """The kind and number of a turn's passages; for an interactive run, in which the citations are the ranking, both numbers."""
    found, cited = len(passages_of(turn)), len(turn.citations)
    name = "best passage" if not turn.response.strip() else "source" if turn.sources else "cited passage"
    part = f"{min(shown, found)} of " if found > shown else ""
    return f"{part}{counted(found, name)}" + f", {counted(cited, 'passage')} cited" * (bool(turn.sources) and cited > found)


def _draft(turn: Turn) -> str:
    """The answer that the system wrote as its query; empty if the response is the same."""
    return "" if turn.draft.strip() == turn.response.strip() else turn.draft.strip()


def _how(turn: Turn) -> str:
    counts = [(len(turn.queries), "query"), (len(turn.statements), "statement")]
    parts = (
        ["rewrite"] * bool(turn.rewrite)
        + [counted(number, name) for number, name in counts if number]
        + ["draft answer"] * bool(_draft(turn))
    )
    return ", ".join(parts)
