"""Let simulated users talk to systems: every user to every system, sessions side by side, each turn kept."""

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...arguments import one_of
from ...errors import IkatError, UsageError, counted, list_first
from ...evaluation.evaluator import REPEAT, check_baseline
from ...events import in_chain
from ...llms import Ledger
from ...llms.failures import StageEnded
from ...progress import bar
from ...runs.log import Log
from ...store.locks import lock_folders
from ...study.identity import checksums_of
from ...study.in_folders import check_names
from ...study.systems import System, Systems, methods_in, open_systems
from ..answering import HISTORY
from .planned import plan_sessions
from .players import NEED, TRACK, TrackPlayer, model_of, player_and_judge
from .session import MOST_PASSAGES, Rules, end_of, play_turn
from .simulated import Simulated
from .users import SimulatedUser, checksum, read_users

THREADS = 8
"""Sessions at a time."""

Users = str | Path | SimulatedUser | Iterable[SimulatedUser]


class SessionsFailed(IkatError):
    """Sessions ended with an error; all others are finished.

    Attributes:
        failures: (name of the run, user id, error) of each.
    """

    def __init__(self, failures: list[tuple[str, str, IkatError]], whole: int) -> None:
        (name, user, error), *others = self.failures = failures
        also = f"; also {list_first([f'{name} with user {user}' for name, user, _ in others])}" if others else ""
        told = f"{len(failures)} of {counted(whole, 'session')} failed: {name} with user {user} ({error}){also}"
        kept = any(getattr(error, "kept", False) for *_, error in failures)
        again = "All finished turns are kept: start it again to continue these sessions"
        clear = ", with cache=none for the LLM whose unusable completion would be read from the cache again" if kept else ""
        super().__init__(f"{told}; there are no scores without them. {again}{clear}")


def simulate(
    systems: Systems,
    users: Users,
    user_llm: Any,
    judge_llm: Any,
    *,
    out: str | Path,
    users_by: str = NEED,
    repeats: int = 1,
    baseline: str | None = None,
    passages: int = MOST_PASSAGES,
    show_persona: bool = False,
    history: int | None = HISTORY,
    threads: int = THREADS,
    plan: bool = False,
    ledger: Ledger | None = None,
    **resources: Any,
) -> Any:
    """Let simulated users talk to systems, and compare the systems on the same users.

    Each user talks to each system until every rubric is met or the patience is used up. An LLM writes the user's utterances; an LLM judges
    after each turn which open rubrics are answered. Both read the system's response, or its best passages if it writes none. A system gets
    the utterances and its own responses, never the need or a rubric.

    Each system gets a folder in ``out`` with its conversations. Finished turns are kept, and an interrupted simulation continues.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        users: a users file (see :class:`~pyterrier_ikat.live.simulation.SimulatedUser`), ``"sample"``, users, or the folder of the
            organisers' files of 2025 with arguments of :func:`~pyterrier_ikat.live.simulation.track_users`, such as
            ``"trec-ikat25 assessed=on"``.
        user_llm: the model that plays the users, or any object with ``say``, such as a
            :class:`~pyterrier_ikat.live.simulation.ScriptedPlayer`.
        judge_llm: the model that judges, or any object with ``met``, such as a :class:`~pyterrier_ikat.live.simulation.ScriptedJudge`. A
            model that judges what it said itself may be kind to itself.
        out: the folder of the simulation.
        users_by: what decides what a user says next. ``"need"``: the need and all open rubrics, until the patience is used up. ``"track"``:
            the policy of the organisers' simulated user of 2025, see :mod:`pyterrier_ikat.live.simulation.players`: one rubric at a
            time, graded 0 to 5, up to 3 times; above 3 it is met. Its utterances are chosen by the MiniLM of the extra ``[demo]``.
        repeats: how often each user talks to each system, each time with new completions of all models.
        baseline: the system that the others are compared with: two-sided paired t-test over users, Bonferroni. The folders keep its
            name for their report; another call may name another one.
        passages: how many passages, at most 5, users and judge read in place of a response that the system doesn't write.
        show_persona: whether systems get the persona as the user's PTKB; the track's interactive task shows them none.
        history: the most tokens of history that a system sees; None for no limit.
        threads: sessions at a time.
        plan: ask nothing, and return the table of the most that can be asked, see :func:`~.planned.plan_sessions`.
        ledger: the account of the models that are given as text.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        A :class:`Simulated`, the simulation's outcome, which shows its table; ``.table`` has a row per system with the measures of
        :func:`~pyterrier_ikat.live.simulation.simulation_rows`, ``.folders`` the log of each run.

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
        >>> done = ikat.simulate({"answer": ikat.Answer(ikat.llm(Model()))}, [user], ScriptedPlayer(), judge, out="my-sims")
        >>> done.table[["name", "rubrics met", "turns until satisfied"]].values.tolist()
        [['answer', 1.0, 1.0]]
    """
    one_of((NEED, TRACK), users_by=users_by)
    if min(repeats, threads) < 1 or not 0 <= passages <= 5:
        raise UsageError(f"repeats={repeats}, threads={threads}, passages={passages}: give 1 or more, and 0 to 5 passages")
    methods, ledger, known = methods_in(systems), ledger or Ledger(), read_users(users)
    if baseline is not None:
        check_baseline([one.name for one in methods], baseline, "systems")
    if repeats_of := [one.name for one in methods if REPEAT.fullmatch(one.name)]:
        raise UsageError(f"a system is named {repeats_of[0]!r}, as a repeat of another one: give it another name")
    opened = open_systems(methods, ledger, live=True, only_plan=plan, spare=("prompts",), **resources)
    prompts = opened[0].resources.prompts
    player, judge = player_and_judge(user_llm, judge_llm, None if prompts is None else str(prompts), ledger, users_by)
    if isinstance(player, TrackPlayer) and not plan:
        player.load()
    rules = Rules(player, judge, passages, show_persona, history, users_by)
    repeated = [replace(one, repeat=number) for one in opened for number in range(1, repeats + 1)]
    simulation = Simulation(repeated, known, rules, ledger, baseline)
    return plan_sessions(simulation, out) if plan else simulation.run(out, threads)


@dataclass(frozen=True)
class Simulation:
    """Systems and simulated users, all checked and opened.

    Attributes:
        systems: the systems; each repeat is one.
        users: the users.
        rules: the rules of all sessions.
        ledger: the account.
        baseline: the system that the others are compared with.
    """

    systems: list[System]
    users: list[SimulatedUser]
    rules: Rules
    ledger: Ledger
    baseline: str | None

    def header(self, system: System) -> dict[str, Any]:
        """Everything that decides the conversations of a system; the log refuses to continue others."""
        rules, parts = self.rules, {"users": model_of(self.rules.player), "judge": model_of(self.rules.judge)}
        return {
            "kind": "simulated",
            "system": system.method.name,
            "repeat": system.repeat,
            "users": len(self.users),
            "users_sha256": checksum(self.users),
            "user_llm": rules.player.identity,
            "judge_llm": rules.judge.identity,
            "passages": rules.passages,
            "show_persona": rules.show_persona,
            "history": rules.history,
            "users_by": rules.by,
            "recorded": system.replays,
            "recorded_parts": [part for part, model in parts.items() if model is not None and model.backend.replays],
            "players_prompts": checksums_of(rules.player) | checksums_of(rules.judge),
            **system.parameters(),
        }

    def run(self, out: str | Path, threads: int) -> Simulated:
        """Play all sessions that are not finished, several at a time; see :func:`simulate`.

        Raises:
            UsageError: when a folder holds something else, or another process is at work in it.
            SessionsFailed, FatalLLMError, BudgetExceeded: see :func:`simulate`.
        """
        folders = {one.name: Path(out) / one.name for one in self.systems}
        check_names(folders)
        with lock_folders(*folders.values()):
            logs = {one.name: Log.create(folders[one.name], self.header(one)) for one in self.systems}
            for log in logs.values():
                log.compare(self.baseline)
            failures = self._play(logs, threads)
        if failures:
            raise SessionsFailed(failures, len(self.users) * len(self.systems))
        return Simulated(logs, self.ledger, self.rules, self.baseline)

    def _play(self, logs: Mapping[str, Log], threads: int) -> list[tuple[str, str, IkatError]]:
        """Play the sessions that have no end in the logs; those that failed, in their order."""
        stop, failures = threading.Event(), dict[tuple[str, str], IkatError]()
        with ExitStack() as opened:
            workers = opened.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="ikat-session"))
            opened.callback(workers.shutdown, wait=False, cancel_futures=True)
            opened.callback(stop.set)
            sessions = {
                workers.submit(self._session, user, system, logs[system.name], stop): (system.name, user.id)
                for user in self.users
                for system in self.systems
                if user.id not in logs[system.name].known or not logs[system.name].known[user.id].end
            }
            for future in bar(as_completed(sessions), total=len(sessions), unit="session"):
                try:
                    future.result()
                except StageEnded:
                    raise
                except IkatError as error:
                    failures[sessions[future]] = error
        return [(*whose, failures[whose]) for whose in sessions.values() if whose in failures]

    def _session(self, user: SimulatedUser, system: System, log: Log, stop: threading.Event) -> None:
        """Play a session to its end, turn by turn, from where the log has it."""
        if user.id not in log.known:
            log.begin(user.id, user.person, user.rubrics)
        known = log.known[user.id]
        with in_chain(system.repeat - 1):
            while not (end := end_of(user, known, self.rules.by)):
                if stop.is_set():
                    return
                log.append(play_turn(user, system, self.rules, known))
        log.end(user.id, end)
