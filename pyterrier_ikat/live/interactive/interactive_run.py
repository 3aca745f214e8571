"""Interactive runs in folders: started, continued after a kill, and compared with the server's dump."""

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ...errors import DataError, UsageError, advice, counted, list_first
from ...llms import Ledger
from ...llms.limits import Retry
from ...runs.log import Dialogue, Log
from ...store.files import atomic_write
from ...store.locks import lock_folders
from ...study.identity import checksums_of, kept_as_they_are
from ...study.systems import System, Systems, methods_in, open_systems
from ...tables import Table, of_frame
from ..answering import HISTORY, Tell, settings_of
from ..persona import Personas, open_memory
from .client import TIMEOUT, TrackServer
from .delivery import Sender
from .journal import Journal
from .playing import Memory, RunPlayer
from .response_limits import tokenizer
from .server_access import ServerDown, ServerRefusal
from .server_answers import read_dump
from .submission import DUMP, DumpDiffersError, as_dump, differences, doubled


class NotComparedWarning(UserWarning):
    """The server gave no dump, so that the log is not compared with it."""


class DoubledWarning(UserWarning):
    """The server has a response of the log twice; nothing was sent twice by this package."""


class OpenTopicsWarning(UserWarning):
    """The server ended a run that has open topics."""


@dataclass(frozen=True)
class InteractiveRun:
    """An interactive run in its folder.

    Attributes:
        folder: the folder.
        log: its conversations.
        finished: whether the users have no further question.
        known: the conversations; None for those of the log.
    """

    folder: Path
    log: Log
    finished: bool
    known: tuple[Dialogue, ...] | None = None

    def latency(self) -> Table:
        """The seconds that system and server took for each turn, the LLM calls, their cost, the tokens that were cut off, and the grade.

        The grade, from 0 to 5, is the simulated user's, with the rubric that it is for, as far as the server's dump has them.
        """
        dialogues = self.log.dialogues() if self.known is None else self.known
        sent = [(turn, one.sent[turn.number]) for one in dialogues for turn in one.taken]
        grades = [one.grades.get(turn.number, (None, "")) for one in dialogues for turn in one.taken]
        turns = [turn for turn, _ in sent]
        names = {
            "session": [turn.session for turn in turns],
            "turn": [turn.number for turn in turns],
            "system s": pd.Series([turn.seconds for turn in turns], dtype=float),
            "server s": pd.Series([seconds for _, seconds in sent], dtype=float),
            "calls": [turn.spend.completions for turn in turns],
            "cost (USD)": pd.Series([turn.spend.price for turn in turns], dtype=float),
            "cut tokens": [turn.cut for turn in turns],
        }
        if any(one.grades for one in dialogues):
            names |= {"grade": pd.Series([grade for grade, _ in grades], dtype=float), "rubric": [rubric for _, rubric in grades]}
        frame = pd.DataFrame(names)
        notes = [f"{counted(frame['session'].nunique(), 'conversation')} with {counted(len(frame), 'turn')}."]
        if len(frame):
            slowest = turns[int(frame["system s"].argmax())]
            middle = f"The system took {frame['system s'].median():.2f} s for the median turn"
            notes += [f"{middle}, and {slowest.seconds:.2f} s for the slowest, {slowest.session}_{slowest.number}."]
        if "grade" in frame:
            told = (
                f"The simulated users' mean grade is {frame['grade'].mean():.2f} of 5, over {counted(frame['grade'].count(), 'response')}"
            )
            notes.append(f"{told}; the released server does not say the rubric of a topic's first one.")
        return of_frame(frame, notes, decimals={"system s": 2, "server s": 2, "cost (USD)": 4, "grade": 0})

    def __repr__(self) -> str:
        state = "finished" if self.finished else "not finished"
        return f"<interactive run in {self.folder}, {state}: {counted(len(self.log.dialogues()), 'conversation')}>"


def interact(
    address: str,
    system: Systems | pt.Transformer,
    *,
    run_id: str,
    out: str | Path,
    description: str | None = None,
    debug: bool = False,
    persona: str | Path | None = None,
    memory: Memory | str | Path | None = None,
    history: int | None = HISTORY,
    sessions: int | None = None,
    timeout: float = TIMEOUT,
    tell: Tell | None = None,
    ledger: Ledger | None = None,
    retry: Retry | None = None,
    sleep: Callable[[float], None] = time.sleep,
    **options: Any,
) -> InteractiveRun:
    """Let the simulated users of TREC iKAT talk to a system.

    The token of the team comes from the environment variable ``IKAT_TOKEN``. Each conversation is named like its topic, and its turns like
    those of the track's topic files: ``1-1_2`` is the second one of topic 1-1. (A server's dump may number them from 0.) A call
    that was stopped is repeated with the same arguments and the same folder: it continues from the server's state, and doesn't send a
    response or ask a model twice.

    Args:
        address: the server's base address, before ``/run/start``; ``https://``, or on this machine.
        system: a method's name, a function, or a pipeline. It has to write responses.
        run_id: the run's name; a team may start two runs.
        out: the folder of the run.
        description: a description of the run for the organisers.
        debug: start a debug run, which is never assessed; a team has 100 debug conversations.
        persona: what is known about the users from the beginning: a folder with a file for each user, named like the user's id, or a file
            for all of them; see ``ikat chat --persona`` for the forms of a file.
        memory: learns from each conversation that ended, and gives the statements about users who come back: a file, which
            :class:`~pyterrier_ikat.memory.UserMemory` keeps with the method's LLM, or an object like one.
        history: the most tokens of history that the system sees; None for all.
        sessions: stop after so many conversations; the same call without it continues.
        timeout: seconds to wait for the server's answer to a call.
        tell: called with each step of the system, and with each wait for the server.
        ledger: the account of LLMs that are given by name.
        retry: how calls are retried that the server has not taken.
        sleep: how to wait for a server that is still at work.
        options: the resources of a method, see :class:`~pyterrier_ikat.study.Resources`.

    Returns:
        The run, with its log. The server's dump is next to it in ``dump.json``.

    Raises:
        UsageError: for a wrong address, token, system or folder, or what the server refuses.
        ServerDown: when the server doesn't answer; the same call continues.
        DumpDiffersError: when the server's dump differs from the log.
    """
    tokenizer()
    server = TrackServer(address, debug=debug, timeout=timeout, retry=retry, tell=tell)
    _check_run_id(run_id)
    team = server.team()
    live = _opened(system, run_id, options, Ledger() if ledger is None else ledger)
    personas = Personas(persona)
    if isinstance(memory, str | Path):
        memory = open_memory(memory, live.resources.llm, live.resources.prompts, run=run_id)
    about = {"run_id": run_id, "team": team, "debug": debug, "description": description or f"{live.name} (pyterrier_ikat)"}
    header = _header(about, live, personas, memory)
    with lock_folders(Path(out).absolute()), kept_as_they_are([live.pipeline], header["parts"]):
        journal = Journal(Log.create(out, header))
        if not journal.finished:
            live.open_models()
        if journal.message is None and not journal.asking:
            _check_budget(server)
        made = {"system": live.name, "models": [model.model for model in live.models], "package": journal.log.packages[-1]}
        player = RunPlayer(Sender(server, run_id, journal, tell, sleep), live, personas, memory, history)
        player.play(header["description"], about=made, most=sessions)
        if not debug:
            _check_topics(server, journal)
            _compare(server, journal)
    return InteractiveRun(Path(out), journal.log, journal.finished)


def _check_run_id(run_id: str) -> None:
    if len(run_id.split()) != 1 or run_id != run_id.strip() or not run_id.isprintable():
        raise UsageError(f"the run id {run_id!r} is not one word: give one without white space")


def _header(about: Mapping[str, Any], live: System, personas: Personas, memory: Memory | None) -> dict[str, Any]:
    """Everything that must not change when the run is continued."""
    return {
        "kind": "interactive",
        "system": live.name,
        **about,
        "track_persona": memory is not None,
        "persona": personas.checksum(),
        "memory_prompts": checksums_of(memory),
        **settings_of(live),
    }


def _opened(system: Any, run_id: str, options: Mapping[str, Any], ledger: Ledger) -> System:
    """The system, checked, with its rankers loaded."""
    entries = methods_in({run_id: system} if isinstance(system, pt.Transformer) else system)
    if len(entries) != 1:
        raise UsageError(f"a run is of one system, and these are {', '.join(one.name for one in entries)}: give one")
    opened = open_systems(entries[0], ledger, live=True, cite=True, **options)[0]
    if opened.writes_response is False:
        repair = advice("such as rtg, or any system >> ikat.Respond(llm)", "such as rtg or gtr")
        raise UsageError(f"system {opened.name} writes no response that a user could read: choose one that ends with Respond ({repair})")
    return opened


def _check_budget(server: TrackServer) -> None:
    """Check that another run may be started, where the server says how many."""
    try:
        left = server.budget()
    except ServerRefusal as error:
        if error.status != 404:
            raise
        return
    if left is not None and left <= 0:
        what = "no debug conversation" if server.debug else "no run"
        raise UsageError(f"the team has {what} left, says {server.shown}: continue one in its folder, or ask the organisers")


def _check_topics(server: TrackServer, journal: Journal) -> None:
    """Check that a run that the server ended has no open topic, where the server says it."""
    try:
        left = server.status(journal.log.header["run_id"]).open if journal.finished else ()
    except (ServerDown, ServerRefusal, DataError):
        return
    if left:
        told = f"the server ended the run with open topics, which count 0 ({list_first(left)})"
        warnings.warn(f"{told}: ask the organisers", OpenTopicsWarning, stacklevel=3)


def _compare(server: TrackServer, journal: Journal) -> None:
    """Keep the server's dump, and compare it with the log.

    Raises:
        DumpDiffersError: when they differ.
        DataError: when the dump has an unknown form.
    """
    log, header = journal.log, journal.log.header
    try:
        dump = server.dump(header["run_id"])
    except (ServerDown, ServerRefusal) as error:
        told = f"the log is not compared with the server's dump ({error})"
        warnings.warn(f"{told}: repeat the same command later, which sends nothing", NotComparedWarning, stacklevel=3)
        return
    with atomic_write(log.folder / DUMP) as file:
        json.dump(dump, file, ensure_ascii=False, indent=1)
    entries = read_dump(dump)
    journal.keep_dumped(entries)
    journal.keep_grades(entries)
    ours = as_dump(log.dialogues(), header)
    if again := doubled(ours, dump):
        warnings.warn(f"the dump of {server.shown}: {'; '.join(again)}: its submission is possible", DoubledWarning, stacklevel=3)
    if found := differences(ours, dump):
        raise DumpDiffersError(f"the dump of {server.shown} in {log.folder / DUMP}", found)
