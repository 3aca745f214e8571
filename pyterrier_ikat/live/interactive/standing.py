"""The state of an interactive run, from its folder and optionally from its server. Nothing is started, sent or written."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ...errors import DataError, UsageError, counted
from ...llms.ledger import Spend
from ...runs.log import Log
from ...tables import Table, of_frame
from .client import TIMEOUT, TrackServer
from .interactive_run import InteractiveRun
from .journal import Journal
from .server_access import ServerDown, ServerRefusal
from .server_answers import read_dump


class NotAskedWarning(UserWarning):
    """The server did not return the state of the run."""


def interactive_status(folder: str | Path, address: str | None = None, *, timeout: float = TIMEOUT) -> tuple[Table, InteractiveRun]:
    """The state of an interactive run: the table of facts, and the run with its turns.

    Args:
        folder: the folder of ``ikat interact``; a run that goes on in another process may be looked at.
        address: the server's base address, which is asked for its status, its budget and the users' grades. With None, no server is asked.
        timeout: seconds to wait for an answer of the server.

    Raises:
        UsageError: when the folder is of no interactive run, or of another team than the token's.
        DataError: when its log can't be read.

    Warns:
        NotAskedWarning: when the server gives no answer.
    """
    log = Log(folder)
    header = log.header
    if header.get("kind") != "interactive":
        raise UsageError(f"{folder} is {log.kind}, and not an interactive run: give the folder of `ikat interact`")
    journal, asked = Journal(log), list[tuple[str, Any]]()
    if address is not None:
        try:
            asked = list(_asked(TrackServer(address, debug=header["debug"], timeout=timeout), journal))
        except (ServerDown, ServerRefusal, DataError) as error:
            warnings.warn(f"what follows is of the folder alone ({error})", NotAskedWarning, stacklevel=2)
    rows = [*_noted(journal), *asked, *_grades(journal)]
    facts = pd.DataFrame({"of the run": [name for name, _ in rows], "": [str(value) for _, value in rows]})
    return of_frame(facts), InteractiveRun(Path(folder), log, journal.finished, tuple(journal.dialogues.values()))


def _noted(journal: Journal) -> Iterator[tuple[str, Any]]:
    """The facts in the folder."""
    header, dialogues = journal.log.header, list(journal.dialogues.values())
    yield "run", f"{header['run_id']} of team {header['team']}" + ", for debugging" * bool(header["debug"])
    yield "system", header["system"]
    ended = sum(bool(one.end) for one in dialogues)
    yield "conversations", f"{ended} ended" + (f", {len(dialogues) - ended} under way" if ended < len(dialogues) else "")
    yield "responses sent", sum(len(one.sent) for one in dialogues)
    yield "stands", "finished" if journal.finished else _next_step(journal)
    spend = sum((turn.spend for one in dialogues for turn in one.turns), Spend())
    yield "LLM calls", f"{spend.completions}" + ("" if spend.price is None else f", {spend.price:.4f} USD")


def _grades(journal: Journal) -> Iterator[tuple[str, Any]]:
    grades = [grade for one in journal.dialogues.values() for grade, _ in one.grades.values()]
    if grades:
        yield "the users' grades", f"{sum(grades) / len(grades):.2f} of 5 in the mean, of {counted(len(grades), 'response')}"


def _next_step(journal: Journal) -> str:
    """What the same command would do next."""
    turn, message = journal.pending, journal.message
    if turn is not None:
        sent = "it is not known whether the server took it" if journal.sending else "it is not sent"
        return f"the response to {turn.session}_{turn.number} is there, {sent}"
    if message is None:
        return "not started" if not journal.asking else "it is not known whether the server started it"
    if message.ends_session:
        return f"{journal.session} has ended, and the next topic is to be asked for"
    return f"the user waits for the response to {journal.session}_{len(journal.dialogues[journal.session].taken) + 1}"


def _asked(server: TrackServer, journal: Journal) -> Iterator[tuple[str, Any]]:
    """The facts from the server. The grades go into the conversations in memory, not into the log."""
    header = journal.log.header
    if (team := server.team()) != header["team"]:
        raise UsageError(f"the run is of team {header['team']}, and the token of team {team}: set the token of that team")
    left = server.budget()
    yield "left of the budget", "not told" if left is None else counted(left, "debug conversation" if server.debug else "run")
    if server.debug:
        return  # the server keeps neither status nor dump of a debug run
    status = server.status(header["run_id"])
    yield "at the server", f"{status.state}: {counted(len(status.done), 'topic')} begun or done, {len(status.open)} open"
    for session, number, grade, rubric in journal.grades_in(read_dump(server.dump(header["run_id"]))):
        journal.dialogues[session].grades[number] = (grade, rubric)
