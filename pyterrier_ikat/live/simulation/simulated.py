"""What came out of a simulation: systems compared on the same users, by means, differences from a baseline, and a table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ...errors import DataError, advice, counted, list_first
from ...evaluation.evaluator import compared, grouped
from ...evaluation.experiment_table import TEST
from ...evaluation.sessions import MEASURES, cached_note, format_measure, recorded_note, session_measures, session_notes, shown_columns
from ...llms import Ledger
from ...runs.log import Dialogue, Log
from ...show import report
from ...tables import HIGHER, LOWER, Cell, Column, Table
from .players import MOST_TRIES, THRESHOLD, TRACK, Player, RubricJudge, named

RESPONSE, PASSAGES, NOTHING = "response", "passages", "nothing"
"""The kinds of text that a user and the judge read in a turn."""
SATISFIED = "satisfied"
TESTED = (SATISFIED, "rubrics met", "turns", "calls", "cost")
"""Measures that every session has, whatever the order of the sessions, so that two systems can be compared user by user."""
SHARED = (
    "Seconds depend on the order of sessions, because searches, scores and completions that another session has computed are not "
    "repeated: they are not tested."
)

BY_TRACK = (
    f"by the track's policy of 2025: one rubric at a time, graded 0 to 5 from the response alone, met above {THRESHOLD}, asked about at "
    f"most {MOST_TRIES} times. Patience, cooperativeness and language skill don't count."
)

Rows = list[dict[str, Any]]


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
    player: Player
    judge: RubricJudge
    baseline: str | None = None

    @cached_property
    def frames(self) -> dict[str, pd.DataFrame]:
        """The measures of each session, see :func:`session_frames`."""
        return session_frames({name: list(log.known.values()) for name, log in self.folders.items()})

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row per system, as :func:`simulation_rows` gives them."""
        return pd.DataFrame(simulation_rows(self.frames, self.baseline))

    def report(self, **options: Any) -> Any:
        """The conversations, to read and compare, the baseline first: see :func:`pyterrier_ikat.report`."""
        baseline = None if self.baseline is None else grouped(self.folders)[self.baseline][0]  # of repeats the first
        first = sorted(self.folders, key=lambda name: name != baseline)
        return report([self.folders[name].folder for name in first], **options)

    def shown(self) -> Table:
        """The table to print, with who played and judged."""
        return simulation_table(self.frames, self.baseline, reading_notes(self.folders, named(self.player), named(self.judge)))

    def __repr__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


def session_frames(runs: Mapping[str, Sequence[Dialogue]]) -> dict[str, pd.DataFrame]:
    """The measures of each session of a simulation's runs, see :func:`~pyterrier_ikat.evaluation.session_measures`.

    Args:
        runs: run -> its conversations, as ``Log(folder).dialogues()`` gives them.

    Raises:
        DataError: when the runs have sessions of different users.
    """
    found = {name: session_measures(dialogues) for name, dialogues in runs.items()}
    users = {name: set(frame["session"]) for name, frame in found.items()}
    first = next(iter(users))
    for name, ours in users.items():
        if differs := sorted(ours ^ users[first]):
            raise DataError(f"{name} and {first} talked to different users ({list_first(differs)}): run the simulation to its end")
    return {name: frame.sort_values("session", ignore_index=True) for name, frame in found.items()}


def simulation_rows(frames: Mapping[str, pd.DataFrame], baseline: str | None = None) -> Rows:
    """The means of each system over the users, and how it differs from a baseline.

    Differences are tested by a two-sided paired t-test over users, the p-value times the number of comparisons (Bonferroni). With several
    repeats, each user's values are averaged over the repeats first: the user is the unit, as the topic is in Smucker, Allan and
    Carterette, A Comparison of Statistical Significance Tests for Information Retrieval Evaluation (CIKM 2007). ``turns until satisfied``
    is not tested, because each system satisfies different users; ``seconds`` is not, because a session finds what others have searched,
    scored and asked before.

    Args:
        frames: run -> its sessions, as :func:`session_frames` gives them; repeats are named ``NAME.repeat-2``, ...
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
    known = {run: frame.assign(**{SATISFIED: (frame["end"] == SATISFIED).astype(float)}) for run, frame in frames.items()}
    systems = {name: [known[run] for run in runs] for name, runs in grouped(frames).items()}
    rows = [_means(name, repeats) for name, repeats in systems.items()]
    if baseline is not None:
        of_users = {name: _averaged(repeats) for name, repeats in systems.items()}
        for row in rows:
            theirs = None if row["name"] == baseline else of_users[baseline]
            for measure in TESTED:
                row |= _compared(measure, of_users[row["name"]][measure], None if theirs is None else theirs[measure], len(rows) - 1)
    return rows


def _averaged(repeats: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """Measure -> a value for each user, the mean over the repeats."""
    return {measure: np.mean([frame[measure].to_numpy(dtype=float) for frame in repeats], axis=0) for measure in TESTED}


def _means(name: str, repeats: Sequence[pd.DataFrame]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "users": len(repeats[0]), "repeats": len(repeats)}
    for measure in (SATISFIED, *MEASURES):
        means = pd.Series([frame[measure].mean(skipna=measure != "cost") for frame in repeats])  # a cost may be unknown
        known = measure == "turns until satisfied"  # of the repeats that satisfied somebody
        row[measure] = float(means.mean(skipna=known))
        if len(repeats) > 1:
            row[f"{measure} std"] = float(means.std(skipna=known))
    return row


def _compared(measure: str, ours: Any, theirs: Any, comparisons: int) -> dict[str, Any]:
    unknown = theirs is not None and np.isnan(ours - theirs).any()
    return compared(measure, ours, theirs, comparisons) | ({f"{measure} +": None, f"{measure} -": None} if unknown else {})


def simulation_table(frames: Mapping[str, pd.DataFrame], baseline: str | None = None, notes: Sequence[str] = ()) -> Table:
    """The comparison as a table to show; the frame behind it has the rows of :func:`simulation_rows`.

    Args:
        frames: as for :func:`simulation_rows`.
        baseline: the system that the others are compared with.
        notes: further sentences, see :func:`reading_notes`.
    """
    rows = simulation_rows(frames, baseline)
    base = next((row for row in rows if row["name"] == baseline), None) if len(rows) > 1 else None
    first = {row["name"]: frames[row["name"]] for row in rows}
    shown = [name for name in shown_columns(first) if name not in ("sessions", SATISFIED)]
    columns = [Column("system", [Cell(str(row["name"])) for row in rows]), Column("users", [Cell(str(row["users"])) for row in rows], True)]
    columns += [Column(measure, [_cell(row, measure, base) for row in rows], numeric=True) for measure in (SATISFIED, *shown)]
    told = [session_notes(first)[0].replace("sessions", "users", 1), *session_notes(first)[1:]]
    if any(row["repeats"] > 1 for row in rows):
        told.append(f"\u00b1: standard deviation over {max(row['repeats'] for row in rows)} repeats; means are over all of them.")
    if len(rows) > 1:
        told.append(SHARED if base is not None else SHARED.partition(":")[0] + ".")
    if base is not None:
        told.append(f"{HIGHER} significantly higher, {LOWER} significantly lower than {baseline}: {TEST}; over users.")
    return Table(rows, columns, [*told, *notes])


def _cell(row: Mapping[str, Any], measure: str, base: Mapping[str, Any] | None) -> Cell:
    text = format_measure(measure, row[measure])
    spread = row.get(f"{measure} std", math.nan)
    differs = base is not None and row.get(f"{measure} reject") is True
    mark = "" if base is None or not differs else HIGHER if row[measure] > base[measure] else LOWER
    return Cell(text if spread != spread else f"{text}\u00b1{format_measure(measure, spread)}", mark=mark)


def reading_notes(logs: Mapping[str, Log], user: str, judge: str) -> list[str]:
    """Sentences on who spoke and judged, from which text, and which completions were cached or recorded.

    Args:
        logs: run -> its log.
        user: who played the users.
        judge: who judged.
    """
    turns = {name: [turn for one in log.known.values() for turn in one.turns] for name, log in logs.items()}
    who = f"{user} plays the users" + (" and judges" if judge == user else f"; {judge} judges")
    notes = [f"{who} each turn, from the user's utterance and the text that the user reads."]
    if any(log.header.get("users_by") == TRACK for log in logs.values()):
        notes = [f"{who} {BY_TRACK}"]
    kinds = {name: {turn.more.get("read") for turn in said} for name, said in turns.items()}
    if of_passages := [name for name, found in kinds.items() if PASSAGES in found]:
        most = logs[of_passages[0]].header["passages"]
        where = ", ".join(name + " in some turns" * (RESPONSE in kinds[name]) for name in of_passages)
        notes.append(f"Without a response, the text is that of the best {counted(most, 'passage')}: {where}.")
    every = [turn for said in turns.values() for turn in said]
    notes += cached_note(every, sum(turn.spend.completions for turn in every))
    with_theirs = advice("ikat.show.ledger([...])", "ikat evaluate --cost")
    notes.append(f"Calls and cost are those of the systems alone; {with_theirs} of the folders has those of users and judge, too.")
    return notes + recorded_note({name: log.header for name, log in logs.items()})
