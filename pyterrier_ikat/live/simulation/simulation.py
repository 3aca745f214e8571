"""Let simulated users talk to systems: every user to every system, sessions side by side, each turn kept."""

import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...arguments import one_of
from ...errors import IkatError, UsageError, advice, counted, list_first
from ...evaluation.evaluator import check_baseline
from ...events import in_chain
from ...llms import LLM, Ledger
from ...llms.failures import StageEnded
from ...planning import PlanTable
from ...progress import bar, doing
from ...runs.log import Log
from ...runs.origin import REPEAT
from ...store.locks import lock_folders
from ...study.identity import checksums_of, kept_as_they_are
from ...study.in_folders import check_places
from ...study.study import RepeatsWarning
from ...study.systems import System, Systems, distinct_models, methods_in, open_systems
from ..answering import HISTORY
from .planned import plan_sessions
from .players import LLMPlayer, LLMRubricJudge, model_of, player_and_judge
from .session import NEED, TRACK, Rules, play
from .simulated import Simulated
from .track_policy import TrackJudge, TrackPlayer
from .track_users import users_of_folder
from .users import SimulatedUser, checksum, read_users

PASSAGES = 3
"""Passages that a user reads in place of a response that a system doesn't write."""
THREADS = 8
"""Sessions at a time."""
KINDS: dict[str, tuple[type[LLMPlayer], type[LLMRubricJudge]]] = {NEED: (LLMPlayer, LLMRubricJudge), TRACK: (TrackPlayer, TrackJudge)}
"""What decides what users say -> how language models play and judge."""

Users = str | Path | SimulatedUser | Iterable[SimulatedUser]


class SessionsFailed(IkatError):
    """Sessions ended with an error; all others are finished.

    Attributes:
        failures: (name of the run, user id, error) of each.
        whole: the number of sessions.
        others: the number of users none of whose sessions failed.
    """

    def __init__(self, failures: list[tuple[str, str, IkatError]], whole: int, others: int) -> None:
        super().__init__(failures, whole, others)
        self.failures, self.whole, self.others = failures, whole, others
        self._again = advice("call it again", "run the same command again")
        self._without = advice("without_failed=True", "--without-failed")

    @property
    def told(self) -> str:
        """Which sessions failed, and why the first did."""
        (name, user, error), *others = self.failures
        also = f"; also {list_first([f'{name} with user {user}' for name, user, _ in others])}" if others else ""
        return f"{len(self.failures)} of {counted(self.whole, 'session')} failed: {name} with user {user} ({error}){also}"

    def __str__(self) -> str:
        kept = any(getattr(error, "kept", False) for *_, error in self.failures)
        return (
            f"{self.told}; there are no scores without them. All finished turns are kept: {self._again} to continue these sessions"
            + (", with cache=none for the LLM whose unusable completion would be read from the cache again" if kept else "")
            + (f"; {self._without} gives scores over the users without a failed session ({self.others})" if self.others else "")
        )


def simulate(
    systems: Systems,
    users: Users,
    user_llm: Any,
    judge_llm: Any = None,
    *,
    out: str | Path,
    users_by: str = NEED,
    repeats: int = 1,
    baseline: str | None = None,
    passages: int = PASSAGES,
    show_persona: bool = False,
    history: int | None = HISTORY,
    threads: int = THREADS,
    without_failed: bool = False,
    ledger: Ledger | None = None,
    **resources: Any,
) -> Simulated:
    """Let simulated users talk to systems, and compare the systems on the same users.

    Each user talks to each system until every rubric is met or the patience is used up. An LLM writes the user's utterances; an LLM judges
    after each turn which open rubrics are answered. Both read the system's response, or its best passages if it writes none. A system gets
    the utterances and its own responses, never the need or a rubric.

    Each system gets a folder in ``out`` with its conversations. Finished turns are kept, and an interrupted simulation continues.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        users: a users file (see :class:`~pyterrier_ikat.live.simulation.SimulatedUser`), ``"sample"``, users, or the folder of the
            organisers' files of 2025 with arguments of :func:`~pyterrier_ikat.live.simulation.convert_track_users`, such as
            ``"trec-ikat25 assessed=on"``.
        user_llm: the model that plays the users, or any object with ``say``, such as a
            :class:`~pyterrier_ikat.live.simulation.ScriptedPlayer`.
        judge_llm: the model that judges, or any object with ``met``, such as a :class:`~pyterrier_ikat.live.simulation.ScriptedJudge`; by
            default ``user_llm``.
        out: the folder of the simulation.
        users_by: what decides what a user says next. ``"need"``: the need and all open rubrics, until the patience is used up. ``"track"``:
            the policy of the organisers' simulated user of 2025, see :mod:`pyterrier_ikat.live.simulation.track_policy`: one rubric at a
            time, graded 0 to 5, up to 3 times; above 3 it is met. Its utterances are chosen by the MiniLM of the extra ``[demo]``.
        repeats: how often each user talks to each system, each time with new completions of all models.
        baseline: the system that the others are compared with: two-sided paired t-test over users, Bonferroni. The folders keep its
            name for their report; another call may name another one.
        passages: how many passages, at most 5, users and judge read in place of a response that the system doesn't write.
        show_persona: whether systems get the persona as the user's PTKB; the track's interactive task shows them none.
        history: the most tokens of history that a system sees; None for no limit.
        threads: sessions at a time.
        without_failed: whether there are scores when sessions fail: a user one of whose sessions failed is left out of all systems, so
            that all are compared on the same users. A warning and the table say who is.
        ledger: the account of the models that are given as text.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        The simulation's outcome, which shows its table; ``.table`` has a row per system with the measures of
        :func:`~pyterrier_ikat.live.simulation.simulation_rows`, ``.folders`` the log of each run.

    Raises:
        UsageError: before anything is asked: for an unknown system, option or resource, a manual system, or a folder with another
            simulation.
        DataError: for a users file, index or recorded file that can't be used.
        SessionsFailed: when sessions failed; it names them. All others are finished. With ``without_failed`` only when no user is left.
        FatalLLMError, BudgetExceeded: when no call can succeed, or the budget is spent; finished turns are kept.

    Warns:
        UserWarning: when users are left out.

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
    simulation = Simulation(
        systems,
        users,
        user_llm,
        judge_llm,
        users_by=users_by,
        repeats=repeats,
        baseline=baseline,
        passages=passages,
        show_persona=show_persona,
        history=history,
        ledger=ledger,
        **resources,
    )
    return simulation.run(out, threads, without_failed)


class Simulation:
    """Systems and simulated users, all checked: every name is known and every model loaded before anything is asked.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        users: see :func:`simulate`.
        user_llm: see :func:`simulate`.
        judge_llm: see :func:`simulate`.
        users_by: see :func:`simulate`.
        repeats: see :func:`simulate`.
        baseline: see :func:`simulate`.
        passages: see :func:`simulate`.
        show_persona: see :func:`simulate`.
        history: see :func:`simulate`.
        ledger: the account of the models that are given as text.
        only_plan: whether nothing is to be asked: no model is loaded.
        **resources: as for :func:`pyterrier_ikat.run`.

    Attributes:
        systems: the systems; each repeat is one.
        users: the users.
        rules: the rules of all sessions.
        baseline: the system that the others are compared with.
        ledger: the account.
        notes: what was read of the organisers' files, a sentence each.

    Raises:
        UsageError, DataError: see :func:`simulate`.
    """

    def __init__(
        self,
        systems: Systems,
        users: Users,
        user_llm: Any,
        judge_llm: Any = None,
        *,
        users_by: str = NEED,
        repeats: int = 1,
        baseline: str | None = None,
        passages: int = PASSAGES,
        show_persona: bool = False,
        history: int | None = HISTORY,
        ledger: Ledger | None = None,
        only_plan: bool = False,
        **resources: Any,
    ) -> None:
        _at_least_one(repeats=repeats, history=history)
        one_of(tuple(KINDS), users_by=users_by)
        if not 0 <= passages <= 5:
            raise UsageError(f"passages={passages}: give a number from 0 to 5")
        methods = methods_in(systems)
        if baseline is not None:
            check_baseline([one.name for one in methods], baseline, "systems")
        if repeats_of := [one.name for one in methods if REPEAT.fullmatch(one.name)]:
            raise UsageError(f"a system is named {repeats_of[0]!r}, as a repeat of another one: give it another name")
        of_track = users_of_folder(str(users)) if isinstance(users, str | Path) else None
        self.users, self.notes = (of_track.users, of_track.notes) if of_track else (read_users(users), [])
        self.ledger, self.baseline = ledger or Ledger(), baseline
        opened = open_systems(methods, self.ledger, live=True, only_plan=only_plan, spare=("prompts",), **resources)
        prompts = opened[0].resources.prompts
        player, judge = player_and_judge(user_llm, judge_llm, None if prompts is None else str(prompts), self.ledger, KINDS[users_by])
        if isinstance(player, TrackPlayer) and not only_plan:
            player.load()
        self.rules = Rules(player, judge, passages, show_persona, history, users_by)
        if repeats > 1:
            played = (model_of(one) for one in (player, judge))
            _warn_of_repeats([*distinct_models(opened), *(model for model in played if model is not None)], repeats)
        self.systems = [replace(one, repeat=number) for one in opened for number in range(1, repeats + 1)]

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
            **({} if rules.by == NEED else {"users_by": rules.by}),
            "recorded": system.replays,
            "recorded_parts": [part for part, model in parts.items() if model is not None and model.backend.replays],
            "players_prompts": checksums_of(rules.player) | checksums_of(rules.judge),
            **system.parameters(),
        }

    def plan(self, out: str | Path | None = None) -> PlanTable:
        """The most that can be asked, see :func:`~pyterrier_ikat.live.simulation.planned.plan_sessions`."""
        return plan_sessions(self, out)

    def run(self, out: str | Path, threads: int = THREADS, without_failed: bool = False) -> Simulated:
        """Play all sessions that are not finished, several at a time; see :func:`simulate`.

        Raises:
            UsageError: when a folder holds something else, or another process is at work in it.
            SessionsFailed, FatalLLMError, BudgetExceeded: see :func:`simulate`.
        """
        _at_least_one(threads=threads)
        folders = {one.name: Path(out) / one.name for one in self.systems}
        check_places(folders, Path(out))
        with lock_folders(*folders.values()), kept_as_they_are(one.pipeline for one in self.systems):
            logs = {one.name: Log.create(folders[one.name], self.header(one)) for one in self.systems}
            for log in logs.values():
                log.compare(self.baseline)
            failures = self._play(logs, threads)
        left_out: dict[str, list[str]] = {}
        for name, user, _ in failures:
            left_out.setdefault(user, []).append(name)
        done = Simulated(logs, self.ledger, self.rules, self.baseline, left_out)
        if failures:
            others = len(self.users) - len(left_out)
            error = SessionsFailed(failures, len(self.users) * len(self.systems), others)
            if not (without_failed and others):
                raise error
            warnings.warn(f"{error.told}; {done.without()[0]}", stacklevel=3)
        return done

    def _play(self, logs: Mapping[str, Log], threads: int) -> list[tuple[str, str, IkatError]]:
        """Play the sessions that have no end in the logs; those that failed, in their order."""
        stop = threading.Event()
        every = [(system, user) for user in self.users for system in self.systems]
        ended = {(name, one.session) for name, log in logs.items() for one in log.known.values() if one.end}
        left = [(system, user) for system, user in every if (system.name, user.id) not in ended]

        def session(system: System, user: SimulatedUser) -> None:
            with in_chain(system.repeat - 1):
                play(user, system, self.rules, logs[system.name], go_on=lambda: not stop.is_set())

        failures: list[tuple[str, str, IkatError]] = []
        with ExitStack() as opened:
            workers = opened.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="ikat-session"))
            opened.callback(workers.shutdown, wait=False, cancel_futures=True)
            opened.callback(stop.set)
            sessions = {workers.submit(session, system, user): (system.name, user.id) for system, user in left}
            left_of = Counter(name for name, _ in sessions.values())
            reports = {name: doing(name) for name in left_of}
            for future in bar(as_completed(sessions), total=len(sessions), unit="session"):
                _settle(future, sessions[future], failures)
                name, _ = sessions[future]
                left_of[name] -= 1
                if not left_of[name]:
                    reports[name].report(counted(len(self.users), "session"))
        order = list(sessions.values())  # not that of time
        return sorted(failures, key=lambda one: order.index(one[:2]))


def _settle(future: "Future[None]", whose: tuple[str, str], failures: list[tuple[str, str, IkatError]]) -> None:
    """Note the failure of a session; an error that ends all of them is raised."""
    try:
        future.result()
    except StageEnded:
        raise
    except IkatError as error:
        failures.append((*whose, error))


def _at_least_one(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise UsageError(f"{advice(f'{name}={number}', f'--{name} {number}')}: give 1 or more")


def _warn_of_repeats(models: Iterable[LLM], repeats: int) -> None:
    reasons = {model: why for model in {id(one): one for one in models}.values() if (why := model.backend.repeats(repeats))}
    if reasons:
        told = "; ".join(f"{model!r} has {why}" for model, why in reasons.items())
        warnings.warn(f"repeats may be the same: {told}", RepeatsWarning, stacklevel=4)
