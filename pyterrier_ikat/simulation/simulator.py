"""Let simulated users talk to systems: every user to every system, sessions side by side, each turn kept."""

import threading
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..arguments import at_least, checked
from ..chains import in_chain
from ..chat.answering import HISTORY
from ..conversations import conversation
from ..errors import IkatError, UsageError, advice, list_first
from ..evaluation.evaluator import check_baseline
from ..generate.samples import SamplesWarning
from ..llms import LLM, Ledger, llm
from ..methods import Method
from ..operator import parts_of
from ..progress import bar
from ..running.comparison import check_system, load_models
from ..running.identity import distinct_parts, parameters_of
from ..running.in_folders import check_places
from ..running.systems import Resources, Systems, methods_in
from ..runs.dialogues import DialogueLog
from ..runs.samples import sample_name
from ..store.files import lock_folders
from .comparison import session_frames, simulation_rows
from .players import Player, RubricJudge, as_judge, as_player
from .session import Rules, play
from .users import SimulatedUser, checksum, read_users

PASSAGES = 3
"""Passages that a user reads in place of a response that a system doesn't write."""
THREADS = 8
"""Sessions at a time."""

Users = str | Path | Iterable[SimulatedUser]


class SessionsFailed(IkatError):
    """Sessions ended with an error; all others are finished.

    Attributes:
        failures: (name of the run, user id, error) of each.
        whole: the number of sessions.
    """

    def __init__(self, failures: list[tuple[str, str, IkatError]], whole: int) -> None:
        super().__init__(failures, whole)
        self.failures, self.whole = failures, whole

    def __str__(self) -> str:
        told = list_first([f"{name} with user {user} ({error})" for name, user, error in self.failures], 3)
        again = advice("call it again", "run the same command again")
        return (
            f"{len(self.failures)} of {self.whole} sessions failed: {told}; there are no scores without them. All finished turns are kept: "
            f"{again} to continue these sessions"
        )


@dataclass
class Setting:
    """A simulation, all checked.

    Attributes:
        methods: the systems as methods, by name.
        systems: their expressions.
        users: the users.
        rules: what is the same in all sessions.
        samples: the number of runs of each system.
        prompts: the folder of the user's prompts.
        ledger: the account of the LLMs that were given as text.
    """

    methods: dict[str, Method]
    systems: dict[str, pt.Transformer]
    users: list[SimulatedUser]
    rules: Rules
    samples: int
    prompts: str | Path | None
    ledger: Ledger

    def runs(self) -> dict[str, tuple[str, int]]:
        """The name of each run -> its system, and the number of the sample."""
        return {sample_name(name, number): (name, number) for name in self.systems for number in range(1, self.samples + 1)}

    def replays(self, name: str) -> bool:
        """Whether an LLM of the system replays recorded completions."""
        return any(isinstance(part, LLM) and part.backend.replays for part in parts_of(self.systems[name]))

    def llms(self) -> list[LLM]:
        """The language models of all systems, of the users and of the judge, each once."""
        played = [getattr(one, "llm", None) for one in (self.rules.player, self.rules.judge)]
        found = [part for part in [*distinct_parts(self.systems.values()), *played] if isinstance(part, LLM)]
        return list({id(one): one for one in found}.values())


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
        users: a users file (see :class:`~pyterrier_ikat.simulation.SimulatedUser`), ``"sample"``, or users.
        user_llm: the model that plays the users, or any object with ``say``, such as a
            :class:`~pyterrier_ikat.simulation.ScriptedPlayer`.
        judge_llm: the model that judges, or any object with ``met``, such as a :class:`~pyterrier_ikat.simulation.ScriptedJudge`; by
            default ``user_llm``.
        out: the folder of the simulation.
        samples: how often each user talks to each system, each time with own completions of all models.
        baseline: the system that the others are compared with: two-sided paired t-test over users, Bonferroni.
        passages: how many passages, at most 5, users and judge read in place of a response that the system doesn't write.
        show_persona: whether systems get the persona as the user's PTKB; the track's interactive task shows them none.
        history: the most tokens of history that a system sees; None for no limit.
        threads: sessions at a time.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        A row per system with the measures of :func:`~pyterrier_ikat.simulation.simulation_rows`.

    Raises:
        UsageError: before anything is asked: for an unknown system, option or resource, a manual system, or a folder with another
            simulation.
        DataError: for a users file, index or recorded file that can't be used.
        SessionsFailed: when sessions failed; it names them. All others are finished.
        FatalLLMError, BudgetExceeded: when no call can succeed, or the budget is spent; finished turns are kept.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.simulation import ScriptedJudge, ScriptedPlayer, SimulatedUser
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
    check_baseline(setting.systems, baseline, "systems")
    run_sessions(setting, out, threads)
    return pd.DataFrame(simulation_rows(session_frames(out, list(setting.runs())), baseline))


def prepare(
    systems: Systems,
    users: Users,
    user_llm: Any,
    judge_llm: Any = None,
    *,
    samples: int = 1,
    passages: int = PASSAGES,
    show_persona: bool = False,
    history: int | None = HISTORY,
    only_plan: bool = False,
    **resources: Any,
) -> Setting:
    """Check every name and resource, and load every model, before anything is asked; the arguments are those of :func:`simulate`.

    Raises:
        UsageError, DataError: see :func:`simulate`.
    """
    at_least(1, samples=samples, history=history)
    if not 0 <= passages <= 5:
        raise UsageError(f"{advice(f'passages={passages}', f'--passages {passages}')}: give a number from 0 to 5")
    found, ledger = read_users(users), Ledger()
    methods = {entry.name: entry for entry in methods_in(systems)}
    if manual := [name for name, entry in methods.items() if entry.manual or entry.uses_gold]:
        raise UsageError(
            f"system {manual[0]} reads what people wrote about each turn, and a simulated conversation has nothing of it: omit it"
        )
    opened = Resources.of(resources, methods.values()).opened(ledger)
    built = {name: opened.build(entry) for name, entry in methods.items()}
    for name, system in built.items():
        if any(isinstance(part, LLM) and part.batches is not None for part in parts_of(system)):
            raise UsageError(f"system {name} can't wait a day for each turn: omit batch=on in the specification of the LLM")
        check_system(name, system, conversation([{"role": "user", "content": "?"}]), opened.index)
    prompts = None if opened.prompts is None else str(opened.prompts)
    player, judge = _players(user_llm, judge_llm, prompts, ledger)
    if not only_plan:
        load_models(built.values())
    rules = Rules(player, judge, passages, show_persona, history)
    setting = Setting(methods, built, found, rules, samples, opened.prompts, ledger)
    _warn_of_samples(setting)
    return setting


def _players(user_llm: Any, judge_llm: Any, prompts: str | None, ledger: Ledger) -> tuple[Player, RubricJudge]:
    """Who speaks and who judges; models given as text count in the ledger of the simulation."""
    speaks = llm(user_llm, ledger=ledger) if isinstance(user_llm, str) else user_llm
    judges = llm(judge_llm, ledger=ledger) if isinstance(judge_llm, str) else judge_llm
    if judges is None and isinstance(speaks, Player):
        judge = advice("judge_llm=...", "--judge-llm")
        raise UsageError(f"nobody judges which rubrics are met, as no LLM plays the users: give {judge}")
    player = as_player(speaks, prompts)
    return player, as_judge(player.llm if judges is None else judges, prompts)  # type: ignore[attr-defined]


def _warn_of_samples(setting: Setting) -> None:
    reasons = {} if setting.samples == 1 else {one: why for one in setting.llms() if (why := one.backend.repeats(setting.samples))}
    if reasons:
        told = "; ".join(f"{model!r} has {why}" for model, why in reasons.items())
        warnings.warn(f"samples may be the same: {told}", SamplesWarning, stacklevel=4)


def run_sessions(setting: Setting, out: str | Path, threads: int = THREADS) -> None:
    """Play all sessions that are not finished, several at a time.

    Raises:
        UsageError: when a folder holds something else, or another process is at work in it.
        SessionsFailed, FatalLLMError, BudgetExceeded: see :func:`simulate`.
    """
    at_least(1, threads=threads)
    runs = setting.runs()
    check_places(runs, Path(out))
    with lock_folders(*(Path(out) / name for name in runs)):
        logs = {name: DialogueLog.create(Path(out) / name, _header(setting, name)) for name in runs}
        _play_all(setting, logs, threads)


def _header(setting: Setting, run: str) -> dict[str, Any]:
    """Everything that decides a run's conversations; the log refuses to continue one with other values."""
    name, number = setting.runs()[run]
    rules = setting.rules
    return {
        "kind": "simulated",
        "system": name,
        "sample": number,
        "users": len(setting.users),
        "users_sha256": checksum(setting.users),
        "user_llm": rules.player.identity,
        "judge_llm": rules.judge.identity,
        "passages": rules.passages,
        "show_persona": rules.show_persona,
        "history": rules.history,
        "recorded": setting.replays(name),
        "recorded_parts": [part for part, one in (("users", rules.player), ("judge", rules.judge)) if _replays(one)],
        **parameters_of(setting.systems[name], setting.prompts),
    }


def _replays(played: Any) -> bool:
    """Whether a player or judge is a language model that replays recorded completions."""
    model = getattr(played, "llm", None)
    return isinstance(model, LLM) and model.backend.replays


def _play_all(setting: Setting, logs: Mapping[str, DialogueLog], threads: int) -> None:
    runs, stop = setting.runs(), threading.Event()
    known = {name: {one.session: one for one in log.dialogues()} for name, log in logs.items()}
    left = [(run, user) for user in setting.users for run in runs if user.id not in known[run] or not known[run][user.id].end]
    replays = {name: setting.replays(name) for name in setting.systems}

    def session(run: str, user: SimulatedUser) -> None:
        name, number = runs[run]
        with in_chain(number - 1):
            play(
                user,
                name,
                setting.systems[name],
                setting.rules,
                logs[run],
                known[run].get(user.id),
                replays=replays[name],
                go_on=lambda: not stop.is_set(),
            )

    failures: list[tuple[str, str, IkatError]] = []
    with ExitStack() as opened:
        workers = opened.enter_context(ThreadPoolExecutor(threads, thread_name_prefix="ikat-session"))
        opened.callback(workers.shutdown, wait=False, cancel_futures=True)
        opened.callback(stop.set)
        sessions = {workers.submit(session, run, user): (run, user.id) for run, user in left}
        for future in bar(as_completed(sessions), desc="sessions", total=len(sessions)):
            _settle(future, sessions[future], failures)
    if failures:
        raise SessionsFailed(failures, len(runs) * len(setting.users))


def _settle(future: "Future[None]", whose: tuple[str, str], failures: list[tuple[str, str, IkatError]]) -> None:
    """Note the failure of a session; an error that ends all of them is raised."""
    from ..llms.failures import StageEnded

    try:
        future.result()
    except StageEnded:
        raise
    except IkatError as error:
        failures.append((*whose, error))
