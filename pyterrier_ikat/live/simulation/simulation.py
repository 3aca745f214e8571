"""Let simulated users talk to systems: every user to every system, sessions side by side, each turn kept."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from ...arguments import one_of
from ...conversations import conversation
from ...errors import DataError, IkatError, UsageError, counted, list_first
from ...evaluation.evaluator import REPEAT, check_baseline
from ...events import hearing, in_chain
from ...llms import Ledger, Request
from ...llms.failures import StageEnded
from ...planning import COLUMNS, PASSAGE_STAND_IN, Plan, PlanTable
from ...progress import bar
from ...runs.answered_turn import Turn
from ...runs.log import PLAYERS, Dialogue, Log
from ...store.files import lock_folders
from ...study.in_folders import check_names
from ...study.systems import System, Systems, checksums_of, methods_in, open_systems
from ..answering import HISTORY, answer, check_recorded, spent
from .players import NEED, TRACK, LLMPlayer, LLMRubricJudge, Player, RubricJudge, Situation, model_of, next_rubric, player_and_judge
from .simulated import NOTHING, PASSAGES, RESPONSE, SATISFIED, Simulated
from .users import SimulatedUser, checksum, read_users

THREADS = 8
"""Sessions at a time."""
MOST_PASSAGES = 3
"""Passages that a user reads in place of a response that a system doesn't write."""

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
        plan: ask nothing, and return the table of the most that can be asked, see :meth:`~.simulation.Simulation.plan`.
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
    player, judge = player_and_judge(user_llm, judge_llm, None if prompts is None else str(prompts), ledger, users_by, plan)
    repeated = [replace(one, repeat=number) for one in opened for number in range(1, repeats + 1)]
    simulation = Simulation(repeated, known, player, judge, passages, show_persona, history, users_by, ledger, baseline)
    return simulation.plan(out) if plan else simulation.run(out, threads)


@dataclass(frozen=True)
class Simulation:
    """Systems and simulated users, all checked and opened, and the rules of all sessions; see :func:`simulate`.

    Attributes:
        systems: the systems; each repeat is one.
        users: the users.
        player: speaks for the users.
        judge: decides which rubrics a text answers.
        passages: how many passages a user reads in place of a response; 0 for none.
        show_persona: whether systems get the persona as the user's PTKB.
        history: the most tokens of history that a system sees; None for no limit.
        by: what decides what a user says, ``"need"`` or ``"track"``.
        ledger: the account.
        baseline: the system that the others are compared with.
    """

    systems: list[System]
    users: list[SimulatedUser]
    player: Player
    judge: RubricJudge
    passages: int
    show_persona: bool
    history: int | None
    by: str
    ledger: Ledger
    baseline: str | None

    def header(self, system: System) -> dict[str, Any]:
        """Everything that decides the conversations of a system; the log refuses to continue others."""
        parts = {"users": model_of(self.player), "judge": model_of(self.judge)}
        return {
            "kind": "simulated",
            "system": system.method.name,
            "repeat": system.repeat,
            "users": len(self.users),
            "users_sha256": checksum(self.users),
            "user_llm": self.player.identity,
            "judge_llm": self.judge.identity,
            "passages": self.passages,
            "show_persona": self.show_persona,
            "history": self.history,
            "users_by": self.by,
            "recorded": system.replays,
            "recorded_parts": [part for part, model in parts.items() if model is not None and model.backend.replays],
            "players_prompts": checksums_of(self.player) | checksums_of(self.judge),
            **system.parameters(),
        }

    def run(self, out: str | Path, threads: int) -> Simulated:
        """Play all sessions that are not finished, several at a time.

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
        return Simulated(logs, self.ledger, self.player, self.judge, self.baseline)

    def _play(self, logs: Mapping[str, Log], threads: int) -> list[tuple[str, str, IkatError]]:
        """Play the sessions that have no end in the logs; those that failed, in their order."""
        stop, failures = threading.Event(), dict[tuple[str, str], IkatError]()
        with ThreadPoolExecutor(threads, thread_name_prefix="ikat-session") as workers:
            try:
                sessions = {
                    workers.submit(self._session, user, system, logs[system.name], stop): (system.name, user.id)
                    for user in self.users
                    for system in self.systems
                }
                for future in bar(as_completed(sessions), total=len(sessions), unit="session"):
                    try:
                        future.result()
                    except StageEnded:
                        raise
                    except IkatError as error:
                        failures[sessions[future]] = error
            finally:  # after an error or Ctrl-C, the turns under way are finished and kept
                stop.set()
                workers.shutdown(wait=False, cancel_futures=True)
        return [(*whose, failures[whose]) for whose in sessions.values() if whose in failures]

    def _session(self, user: SimulatedUser, system: System, log: Log, stop: threading.Event) -> None:
        """Play a session to its end, turn by turn, from where the log has it."""
        if user.id not in log.known:
            log.begin(user.id, user.person, user.rubrics)
        known = log.known[user.id]
        with in_chain(system.repeat - 1):
            while not known.end and not stop.is_set():
                now = self.situation(user, system.method.name, known)
                if isinstance(now, str):
                    log.end(user.id, now)
                else:
                    log.append(self.turn(now, system, known))

    def situation(self, user: SimulatedUser, system: str, known: Dialogue) -> Situation | str:
        """The situation in which the user says the next utterance to the system of this name, or why the session has to end."""
        left, after, said = {rubric: text for rubric, text in user.rubrics.items() if rubric not in known.met}, "", list[dict[str, str]]()
        if not left:
            return SATISFIED
        if self.by == TRACK:
            rubric, after = next_rubric(user.rubrics, known.turns)
            if not rubric:
                return "topic ended"
            left = {rubric: user.rubrics[rubric]}
        elif len(known.turns) >= user.turns:
            return "out of patience"
        for turn in known.turns:
            said += [{"role": "user", "content": turn.utterance}, {"role": "assistant", "content": self.text_of(turn) or "(no answer)"}]
        return Situation(user, system, len(known.turns) + 1, left, tuple(said), after)

    def text_of(self, turn: Turn) -> str:
        """The text that user and judge read in a turn: the response, or the best passages of a system that writes none."""
        if turn.response.strip():
            return turn.response
        texts = [" ".join(source.text.split()) for source in turn.sources[: self.passages]]
        return "\n".join(f"[{place}] {text}" for place, text in enumerate(texts, 1) if text)

    def turn(self, situation: Situation, system: System, known: Dialogue) -> Turn:
        """The turn in a situation: the user speaks, the system answers, the judge judges.

        The system gets the utterances, its own responses and, with ``show_persona``, the persona; never the need or a rubric.

        Raises:
            IkatError: when one of them fails.
        """
        user = situation.user
        with hearing() as asked:
            utterance = " ".join(self.player.say(situation).split())
        if not utterance:
            raise DataError(f"the simulated user said nothing in turn {situation.qid}: let `say` return a text")
        if system.replays and user.script:
            check_recorded(user.script, situation.turn, utterance, situation.qid)
        said = [*known.messages, {"role": "user", "content": utterance}]
        persona = list(user.persona) if self.show_persona else None
        answered = answer(system, said, persona, number=user.topic, history=self.history)
        text = self.text_of(answered)
        with hearing() as judged:
            met = self.judge.met(situation, utterance, text) if text else ()
        more: dict[str, Any] = {"read": RESPONSE if answered.response.strip() else PASSAGES if text else NOTHING}
        more |= {"rubric": next(iter(situation.open))} if self.by == TRACK else {}
        if (players := spent([*asked, *judged])).completions:
            more[PLAYERS] = asdict(players)
        return replace(
            answered,
            session=user.id,
            number=situation.turn,
            citations={one.docno: one.score or 0.0 for one in answered.sources} if answered.response else {},
            met=tuple(rubric for rubric in situation.open if rubric in met),
            more={**answered.more, **more},
            asked=(),
        )

    def plan(self, out: str | Path) -> PlanTable:
        """The most requests of all sessions: every user talks to every system until the end, and no response meets a rubric.

        A satisfied user stops earlier, so the true number is at most this one, except where a system asks more for a longer answer, or a
        completion of user or judge can't be used and is asked for once more. The responses are stand-ins of 150 words, so tokens are
        estimates.

        Args:
            out: the folder of the simulation; turns that it has already are not planned.

        Raises:
            UsageError: when ``out`` has another simulation.

        Returns:
            The table of :func:`pyterrier_ikat.plan`; the stages of the simulated user and the judge are rows of each system.
        """
        rows, seen = list[dict[str, Any]](), set[Any]()
        for system in self.systems:
            log = Log(Path(out) / system.name)
            if begun := Log.is_in(log.folder):
                log.check(self.header(system))
            for user in self.users:  # apart: the turns of two users may have the same qids
                kept = log.known.get(user.id) if begun else None
                turns = list(self._stand_ins(system.method.name, user, kept.turns if kept else ()))
                if not turns:
                    continue
                plan = Plan(system.name, seen)
                with in_chain(system.repeat - 1):
                    self._plan_players(plan, turns)
                    plan.follow(system.pipeline, pd.concat([frame for *_, frame in turns], ignore_index=True))
                rows += plan.rows
        stages = PlanTable.of_rows(rows).groupby(list(COLUMNS[:3]), sort=False)
        sums = stages.agg(lambda numbers: numbers.sum(skipna=False))  # what is unknown for one user is unknown
        return PlanTable.of_rows(sums.reset_index().to_dict("records"))

    def _stand_ins(self, system: str, user: SimulatedUser, kept: Sequence[Turn]) -> Iterator["Planned"]:
        """The turns that are not kept, without an end but that of the patience."""
        known = Dialogue(user.id, user.person, dict(user.rubrics), list(kept))
        while not isinstance(situation := self.situation(user, system, known), str):
            number = situation.turn
            utterance = user.script[number - 1] if number <= len(user.script) else f"{user.need} {number}"
            response = f"{PASSAGE_STAND_IN}{system} {user.id} {number}"
            now = [*known.messages, {"role": "user", "content": utterance}]
            frame = conversation(now, list(user.persona) if self.show_persona else None, number=user.topic)
            yield situation, utterance, response, frame
            known.turns.append(Turn(number, utterance, response, more={"rubric": next(iter(situation.open))}))

    def _plan_players(self, plan: Plan, turns: Sequence["Planned"]) -> None:
        """Plan the requests of user and judge, where these are language models."""
        if isinstance(player := self.player, LLMPlayer):
            _ask(plan, player, [(request, said) for situation, said, *_ in turns for request in player.requests_in(situation)])
        if isinstance(judge := self.judge, LLMRubricJudge):
            _ask(plan, judge, [(judge.request_for(situation, said, text), judge.typical) for situation, said, text, _ in turns])


Planned = tuple[Situation, str, str, pd.DataFrame]
"""The user's situation, stand-ins for utterance and response, and the system's frame."""


def _ask(plan: Plan, part: LLMPlayer | LLMRubricJudge, asked: list[tuple[Request, str]]) -> None:
    """Count requests that are not made from a frame, each with a stand-in for its completion."""
    requests, typical = map(list, zip(*asked, strict=True))
    stage: Any = SimpleNamespace(llm=part.llm, stage=part.stage, read=part.read, requests=lambda _: requests, typical=lambda _: typical)
    plan.ask(stage, pd.DataFrame())
