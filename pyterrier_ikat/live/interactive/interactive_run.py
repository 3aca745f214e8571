"""Interactive runs in folders: started, and continued after a kill."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyterrier as pt

from ...errors import IkatError, UsageError, advice, counted
from ...foreign import checksums_of
from ...llms import Ledger
from ...memory import UserMemory
from ...store.cache import digest
from ...store.files import atomic_write, lock_folders
from ...study.systems import System, Systems, methods_in, open_systems
from ..answering import HISTORY_TOKENS, Tell, settings_of
from ..persona import open_memory, read_personas
from .player import InteractiveRun, InteractiveWarning, Player
from .track_server import AGAIN, TrackServer, tokenizer

DUMP = "dump.json"
"""The server's dump, a file in the folder of a run."""


def interact(
    address: str,
    system: Systems | pt.Transformer,
    *,
    run_id: str,
    out: str | Path,
    description: str | None = None,
    debug: bool = False,
    persona: str | Path | None = None,
    memory: UserMemory | str | Path | None = None,
    history: int | None = HISTORY_TOKENS,
    sessions: int | None = None,
    tell: Tell = lambda line: None,
    doing: Tell | None = None,
    ledger: Ledger | None = None,
    **options: Any,
) -> InteractiveRun:
    """Let the simulated users of TREC iKAT talk to a system.

    The token of the team comes from the environment variable ``IKAT_TOKEN``. Each conversation is
    named like its topic, and its turns like those of the track's topic files: ``1-1_2`` is the
    second one of topic 1-1. (A server's dump may number them from 0.) A call that was stopped is
    repeated with the same arguments and the same folder: it continues from the server's state, and
    doesn't send a response or ask a model twice.

    Args:
        address: the server's base address, before ``/run/start``; ``https://``, or on this machine.
        system: a method's name, a function, or a pipeline. It has to write responses.
        run_id: the run's name; a team may start two runs.
        out: the folder of the run.
        description: a description of the run for the organisers.
        debug: start a debug run, which is never assessed; a team has 100 debug conversations.
        persona: what is known about the users from the beginning: a folder with a file for each
            user, named like the user's id, or a file for all of them; see ``ikat chat --persona``
            for the forms of a file.
        memory: learns from each conversation that ended, and gives the statements about users who
            come back: a file, which :class:`~pyterrier_ikat.memory.UserMemory` keeps with the
            method's LLM.
        history: the most tokens of history that the system sees; None for all.
        sessions: stop after so many conversations; the same call without it continues.
        tell: called with a line for each turn, and for each wait.
        doing: called with each step of the system.
        ledger: the account of LLMs that are given by name.
        options: the resources of a method, see :class:`~pyterrier_ikat.study.Resources`.

    Returns:
        The run, with its log. The server's dump is next to it in ``dump.json``.

    Raises:
        UsageError: for a wrong address, token, system or folder, or what the server refuses.
        ServerDown: when the server doesn't answer, or failed for good; the same call continues.
        DataError: when the server's answer has an unknown form, so that nothing can be concluded
            from it.

    Warns:
        InteractiveWarning: when the system wrote no response, the server lost a conversation, or
        gives no dump.
    """
    server = TrackServer(address, run_id, debug=debug, tell=tell)
    tokenizer()
    opened = _opened(system, run_id, options, Ledger() if ledger is None else ledger)
    personas = {} if persona is None else read_personas(persona)
    learns: UserMemory | None = open_memory(
        memory, opened.resources.llm, opened.resources.prompts, run=run_id
    )
    header = {
        "kind": "interactive",
        "system": opened.name,
        "run_id": run_id,
        "team": server.team(),
        "debug": debug,
        "description": description or f"{opened.name} (pyterrier_ikat)",
        "track_persona": learns is not None,
        "persona": digest(json.dumps(personas, sort_keys=True)).hex() if personas else "",
        "memory_prompts": checksums_of(learns),
        **settings_of(opened),
    }
    with lock_folders(Path(out).absolute()):
        run = InteractiveRun(out, header)
        if run.session:
            responses = sum(len(dialogue.taken) for dialogue in run.log.known.values())
            tell(f"{out} has {counted(responses, 'response')} that the server took")
        Player(server, run, opened, personas, learns, history, tell, doing).play(sessions)
        _keep_dump(server, run.folder)
    return run


def _opened(system: Any, run_id: str, options: Mapping[str, Any], ledger: Ledger) -> System:
    """The system, checked."""
    methods = methods_in({run_id: system} if isinstance(system, pt.Transformer) else system)
    if len(methods) != 1:
        names = ", ".join(method.name for method in methods)
        raise UsageError(f"a run is of one system, and these are {names}: give one")
    [opened] = open_systems(methods[0], ledger, connect=True, live=True, cite=True, **options)
    if opened.writes_response is False:
        repair = advice("such as rtg, or any system >> ikat.Respond(llm)", "such as rtg or gtr")
        raise UsageError(
            f"system {opened.name} writes no response that a user could read: "
            f"choose one that ends with Respond ({repair})"
        )
    return opened


def _keep_dump(server: TrackServer, folder: Path) -> None:
    """Keep the server's dump; a debug run has none."""
    if server.debug:
        return
    try:
        dump = server.dump()
        with atomic_write(folder / DUMP) as file:
            json.dump(dump, file, indent=1)
    except IkatError as error:
        warnings.warn(
            f"there is no {DUMP} ({error}): {AGAIN}, and fetches it",
            InteractiveWarning,
            stacklevel=3,
        )
