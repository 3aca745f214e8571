"""Let simulated users talk to systems: every user to every system, sessions side by side, each turn kept."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd

from ...arguments import checked
from ...chains import in_chain
from ...errors import IkatError, advice, list_first
from ...evaluation.evaluator import check_baseline
from ...llms.failures import StageEnded
from ...progress import bar
from ...runs.log import Log
from ...store.locks import lock_folders
from ...study.identity import kept_as_they_are
from ...study.in_folders import check_places
from ...study.systems import System, Systems
from ..answering import HISTORY
from .comparison import session_frames, simulation_rows
from .session import play
from .setting import PASSAGES, Setting, Users, header_of, least_one, prepare
from .users import SimulatedUser

THREADS = 8
"""Sessions at a time."""


class SessionsFailed(IkatError):
    """Sessions ended with an error; all others are finished.

    Attributes:
        failures: (name of the run, user id, error) of each.
        whole: the number of sessions.
    """

    def __init__(self, failures: list[tuple[str, str, IkatError]], whole: int) -> None:
        super().__init__(failures, whole)
        self.failures, self.whole = failures, whole
        self._again = advice("call it again", "run the same command again")

    def __str__(self) -> str:
        (name, user, error), *others = self.failures
        also = f"; also {list_first([f'{name} with user {user}' for name, user, _ in others])}" if others else ""
        kept = any(getattr(error, "kept", False) for *_, error in self.failures)
        return (
            f"{len(self.failures)} of {self.whole} sessions failed: {name} with user {user} ({error}){also}; there are no scores without "
            f"them. All finished turns are kept: {self._again} to continue these sessions"
            + (", with cache=none for the LLM whose unusable completion would be read from the cache again" if kept else "")
        )


@checked
def simulate(
    systems: Systems,
    users: Users,
    user_llm: Any,
    judge_llm: Any = None,
    *,
    out: str | Path,
    samples: int = 1,
    baseline: str | None = None,
    passages: int = PASSAGES,
    show_persona: bool = False,
    history: int | None = HISTORY,
    threads: int = THREADS,
    **resources: Any,
) -> pd.DataFrame:
    """Let simulated users talk to systems, and compare the systems on the same users.

    Each user talks to each system until every rubric is met or the patience is used up. An LLM writes the user's utterances; an LLM judges
    after each turn which open rubrics are answered. Both read the system's response, or its best passages if it writes none. A system gets
    the utterances and its own responses, never the need or a rubric.

    Each system gets a folder in ``out`` with its conversations. Finished turns are kept, and an interrupted simulation continues.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        users: a users file (see :class:`~pyterrier_ikat.live.simulation.SimulatedUser`), ``"sample"``, or users.
        user_llm: the model that plays the users, or any object with ``say``, such as a
            :class:`~pyterrier_ikat.live.simulation.ScriptedPlayer`.
        judge_llm: the model that judges, or any object with ``met``, such as a :class:`~pyterrier_ikat.live.simulation.ScriptedJudge`; by
            default ``user_llm``.
        out: the folder of the simulation.
        samples: how often each user talks to each system, each time with new completions of all models.
        baseline: the system that the others are compared with: two-sided paired t-test over users, Bonferroni.
        passages: how many passages, at most 5, users and judge read in place of a response that the system doesn't write.
        show_persona: whether systems get the persona as the user's PTKB; the track's interactive task shows them none.
        history: the most tokens of history that a system sees; None for no limit.
        threads: sessions at a time.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        A row per system with the measures of :func:`~pyterrier_ikat.live.simulation.simulation_rows`.

    Raises:
        UsageError: before anything is asked: for an unknown system, option or resource, a manual system, or a folder with another
            simulation.
        DataError: for a users file, index or recorded file that can't be used.
        SessionsFailed: when sessions failed; it names them. All others are finished.
        FatalLLMError, BudgetExceeded: when no call can succeed, or the budget is spent; finished turns are kept.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.live.simulation import ScriptedJudge, ScriptedPlayer, SimulatedUser
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos has no caffeine." for chat in chats]
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> judge = ScriptedJudge({"u1": {"r1": "rooibos"}})
        >>> table = ikat.simulate({"answer": ikat.Answer(ikat.llm(Model()))}, [user], ScriptedPlayer(), judge, out="my-sims")
        >>> table[["name", "rubrics met", "turns until satisfied"]].values.tolist()
        [['answer', 1.0, 1.0]]
    """
    setting = prepare(
        systems,
        users,
        user_llm,
        judge_llm,
        samples=samples,
        passages=passages,
        show_persona=show_persona,
        history=history,
        **resources,
    )
    check_baseline(list(dict.fromkeys(one.method.name for one in setting.systems)), baseline, "systems")
    run_sessions(setting, out, threads)
    return pd.DataFrame(simulation_rows(session_frames(out, setting.runs), baseline))


def run_sessions(setting: Setting, out: str | Path, threads: int = THREADS) -> None:
    """Play all sessions that are not finished, several at a time.

    Raises:
        UsageError: when a folder holds something else, or another process is at work in it.
        SessionsFailed, FatalLLMError, BudgetExceeded: see :func:`simulate`.
    """
    least_one("threads", threads)
    check_places(setting.runs, Path(out))
    with lock_folders(*(Path(out) / name for name in setting.runs)), kept_as_they_are(one.pipeline for one in setting.systems):
        logs = {one.name: Log.create(Path(out) / one.name, header_of(setting, one)) for one in setting.systems}
        _play_all(setting, logs, threads)


def _play_all(setting: Setting, logs: Mapping[str, Log], threads: int) -> None:
    stop = threading.Event()
    known = {name: {one.session: one for one in log.dialogues()} for name, log in logs.items()}
    every = [(system, user) for user in setting.users for system in setting.systems]
    left = [(system, user) for system, user in every if user.id not in known[system.name] or not known[system.name][user.id].end]

    def session(system: System, user: SimulatedUser) -> None:
        with in_chain(system.sample - 1):
            play(
                user,
                system,
                setting.rules,
                logs[system.name],
                known[system.name].get(user.id),
                go_on=lambda: not stop.is_set(),
            )

    failures: list[tuple[str, str, IkatError]] = []
    with ExitStack() as opened:
        workers = opened.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="ikat-session"))
        opened.callback(workers.shutdown, wait=False, cancel_futures=True)
        opened.callback(stop.set)
        sessions = {workers.submit(session, system, user): (system.name, user.id) for system, user in left}
        for future in bar(as_completed(sessions), desc="sessions", total=len(sessions)):
            _settle(future, sessions[future], failures)
    if failures:
        order = list(sessions.values())  # not that of time
        raise SessionsFailed(sorted(failures, key=lambda one: order.index(one[:2])), len(every))


def _settle(future: "Future[None]", whose: tuple[str, str], failures: list[tuple[str, str, IkatError]]) -> None:
    """Note the failure of a session; an error that ends all of them is raised."""
    try:
        future.result()
    except StageEnded:
        raise
    except IkatError as error:
        failures.append((*whose, error))
