"""What came out of a simulation: systems compared on the same users, by means, differences from a baseline, and a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from ...errors import advice, counted
from ...evaluation.evaluator import compared, grouped
from ...evaluation.experiment_table import TEST
from ...evaluation.sessions import MEASURES, cached_note, format_measure, recorded_note, session_measures, session_notes, shown_columns
from ...llms import Ledger
from ...runs.log import Log
from ...show import report
from ...tables import HIGHER, LOWER, Cell, Column, Table
from .players import TRACK

SATISFIED = "satisfied"
UNTIL = "turns until satisfied"
TESTED = (SATISFIED, "rubrics met", "turns", "calls", "cost")
"""Measures that every session has, whatever the order of the sessions, so that two systems can be compared user by user."""
SHARED = "Seconds are not tested, because sessions share searches, scores and completions."
BY_NEED = "each turn, from the user's utterance and the text that the user reads."
BY_TRACK = "by the track's policy of 2025: a rubric at a time, graded 0 to 5 from the response alone. Patience and behaviour don't count."


@dataclass(frozen=True, repr=False, eq=False)
class Simulated:
    """What came out of a simulation; it shows its table.

    Attributes:
        folders: run -> its log, in a folder of its own.
        ledger: the account of this call, of the models that were given as text.
        player: spoke for the users.
        judge: judged.
        baseline: the system that the others are compared with.
    """

    folders: Mapping[str, Log]
    ledger: Ledger
    player: Any
    judge: Any
    baseline: str | None = None

    @cached_property
    def frames(self) -> dict[str, pd.DataFrame]:
        """Run -> the measures of its sessions in one order, see :func:`~pyterrier_ikat.evaluation.session_measures`."""
        measured = {name: session_measures([*log.known.values()]) for name, log in self.folders.items()}
        return {name: frame.sort_values("session", ignore_index=True) for name, frame in measured.items()}

    @property
    def table(self) -> pd.DataFrame:
        """A row per system, as :func:`simulation_rows` gives them."""
        return pd.DataFrame(simulation_rows(self.frames, self.baseline))

    def report(self, **options: Any) -> Any:
        """The conversations, to read and compare, the baseline first: see :func:`pyterrier_ikat.report`."""
        return report([log.folder for log in self.folders.values()], **{"baseline": self.baseline, **options})

    def shown(self) -> Table:
        """The table to print, with who played and judged."""
        rows = simulation_rows(self.frames, self.baseline)
        base = next((row for row in rows if row["name"] == self.baseline and len(rows) > 1), None)
        first = {row["name"]: self.frames[row["name"]] for row in rows}
        shown = [SATISFIED, *(name for name in shown_columns(first) if name not in ("sessions", SATISFIED))]
        columns = [Column("system", [Cell(row["name"]) for row in rows]), Column("users", [Cell(str(row["users"])) for row in rows], True)]
        columns += [Column(measure, [_cell(row, measure, base) for row in rows], numeric=True) for measure in shown]
        about, *notes = session_notes(first)
        notes.insert(0, about.replace("sessions", "users", 1))
        if (repeats := rows[0]["repeats"]) > 1:
            notes.append(f"\u00b1: standard deviation over {repeats} repeats; means are over all of them.")
        notes += [SHARED] * (len(rows) > 1)
        if base is not None:
            notes.append(f"{HIGHER} significantly higher, {LOWER} significantly lower than {self.baseline}: {TEST}; over users.")
        return Table(rows, columns, [*notes, *self._notes()])

    def _notes(self) -> list[str]:
        """Sentences on who spoke and judged, from which text, and which completions were cached or recorded."""
        headers = {name: log.header for name, log in self.folders.items()}
        turns = {name: [turn for one in log.known.values() for turn in one.turns] for name, log in self.folders.items()}
        first, every = next(iter(headers.values())), [turn for said in turns.values() for turn in said]
        judges = " and judges" if repr(self.judge) == repr(self.player) else f"; {self.judge!r} judges"
        notes = [f"{self.player!r} plays the users{judges} {BY_TRACK if first.get('users_by') == TRACK else BY_NEED}"]
        if without := [name for name, said in turns.items() if any(turn.more.get("read") == "passages" for turn in said)]:
            notes.append(
                f"Without a response, the text is that of the best {counted(first.get('passages', 0), 'passage')}: {', '.join(without)}."
            )
        notes += cached_note(every, sum(turn.spend.completions for turn in every))
        with_theirs = advice("ikat.show.ledger([...])", "ikat evaluate --cost")
        notes.append(f"Calls and cost are those of the systems alone; {with_theirs} of the folders has those of users and judge, too.")
        return notes + recorded_note(headers)

    def __repr__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


def simulation_rows(frames: Mapping[str, pd.DataFrame], baseline: str | None = None) -> list[dict[str, Any]]:
    """The means of each system over the users, and how it differs from a baseline.

    Differences are tested by a two-sided paired t-test over users, the p-value times the number of comparisons (Bonferroni). With several
    repeats, each user's values are averaged over the repeats first: the user is the unit, as the topic is in Smucker, Allan and
    Carterette, A Comparison of Statistical Significance Tests for Information Retrieval Evaluation (CIKM 2007). ``turns until satisfied``
    is not tested, because each system satisfies different users; ``seconds`` is not, because a session finds what others have searched,
    scored and asked before.

    Args:
        frames: run -> the measures of its sessions, in one order of users; repeats are named ``NAME.repeat-2``, ...
        baseline: the system that the others are compared with.

    Returns:
        ``name``, ``users``, ``repeats``, ``satisfied`` (the share of the users) and the measures; with repeats the standard deviation
        over them (`` std``); with a baseline `` +`` and `` -`` (users with a higher and a lower value; None
        where a cost is unknown), `` p-value``, `` p-value corrected`` and `` reject`` (at .05).

    Example:
        >>> from pyterrier_ikat.runs import Dialogue
        >>> silent = session_measures([Dialogue("u1", "u1", {"r1": "Which tea?"}, end="out of patience")])
        >>> [(row["name"], row["users"], row["rubrics met"]) for row in simulation_rows({"silent": silent})]
        [('silent', 1, 0.0)]
    """
    known = {run: frame.assign(satisfied=frame["end"].eq(SATISFIED).astype(float))[[SATISFIED, *MEASURES]] for run, frame in frames.items()}
    systems = {name: [known[run] for run in runs] for name, runs in grouped(frames).items()}
    of_users: dict[str, Any] = {name: sum(repeats) / len(repeats) for name, repeats in systems.items()}
    rows = []
    for name, repeats in systems.items():
        row = {"name": name, "users": len(repeats[0]), "repeats": len(repeats), **_means(repeats)}
        for measure in TESTED if baseline is not None else ():
            theirs = None if name == baseline else of_users[str(baseline)][measure]
            row |= _differences(measure, of_users[name][measure], theirs, len(systems) - 1)
        rows.append(row)
    return rows


def _means(repeats: Sequence[pd.DataFrame]) -> dict[str, float]:
    """The mean of each measure, over those sessions that have it; an unknown cost makes that of the system unknown."""
    found = {}
    for measure in repeats[0]:
        means = pd.Series([frame[measure].mean(skipna=measure != "cost") for frame in repeats])
        found[str(measure)] = float(means.mean(skipna=measure == UNTIL))
        if len(repeats) > 1:
            found[f"{measure} std"] = float(means.std(skipna=measure == UNTIL))
    return found


def _differences(measure: str, ours: Any, theirs: Any, comparisons: int) -> dict[str, Any]:
    unknown = theirs is not None and (ours - theirs).isna().any()
    return compared(measure, ours, theirs, comparisons) | ({f"{measure} +": None, f"{measure} -": None} if unknown else {})


def _cell(row: Mapping[str, Any], measure: str, base: Mapping[str, Any] | None) -> Cell:
    text = format_measure(measure, row[measure])
    if not pd.isna(spread := row.get(f"{measure} std")):
        text += f"\u00b1{format_measure(measure, spread)}"
    if base is None or not row.get(f"{measure} reject"):
        return Cell(text)
    return Cell(text, mark=HIGHER if row[measure] > base[measure] else LOWER)
