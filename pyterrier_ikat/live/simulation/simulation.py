"""Let simulated users talk to systems, keep each turn, and compare the systems."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pandas as pd

from ...arguments import one_of
from ...conversations import conversation
from ...errors import DataError, IkatError, UsageError, advice, counted, list_first
from ...evaluation.evaluator import REPEAT, check_baseline, compare_with_baseline, grouped
from ...evaluation.sessions import (
    SESSION_MEASURES,
    cached_note,
    format_measure,
    recorded_note,
    session_measures,
    session_notes,
    shown_columns,
)
from ...evaluation.units import Clusters, describe_test, notes_on_unit
from ...events import hearing, in_chain
from ...foreign import checksums_of, model_of
from ...llms import LLM, Ledger
from ...llms.failures import StageEnded
from ...planning import PASSAGE_STAND_IN, Plan, PlanTable
from ...progress import bar
from ...runs.answered_turn import Turn, messages_of
from ...runs.log import PLAYERS, Dialogue, Log
from ...show import report
from ...store.files import lock_folders
from ...study.systems import System, Systems, check_names, methods_in, open_systems
from ...tables import HIGHER, LOWER, Cell, Column, Table
from ..answering import HISTORY_TOKENS, answer, check_recorded, spent
from .players import (
    NEED,
    POLICIES,
    TRACK,
    PlayingLLM,
    Situation,
    TrackPlayer,
    next_rubric,
    open_part,
    similarities,
)
from .users import SimulatedUser, checksum, read_users

SATISFIED = "satisfied"
UNTIL_SATISFIED = "turns until satisfied"
TESTED_MEASURES = (SATISFIED, "rubrics met", "turns", "calls", "cost")
"""Measures that every session has, whatever the order of the sessions."""
SECONDS_NOTE = "Seconds are not tested, because sessions share searches, scores and completions."
BY_NEED = "each turn, from the user's utterance and the text that the user reads."
BY_TRACK = (
    "by the track's policy of 2025: a rubric at a time, graded 0 to 5 from the response alone. "
    "Patience and behaviour don't count."
)


class SessionsFailed(IkatError):
    """Sessions ended with an error; all others are finished.

    Attributes:
        failures: (name of the run, user id, error) of each.
    """

    def __init__(self, failures: list[tuple[str, str, IkatError]], whole: int) -> None:
        self.failures = failures
        (name, user, error), *others = failures
        message = (
            f"{len(failures)} of {counted(whole, 'session')} failed: "
            f"{name} with user {user} ({error})"
        )
        if others:
            also = list_first([f"{name} with user {user}" for name, user, _error in others])
            message += f"; also {also}"
        message += (
            "; there are no scores without them. "
            "All finished turns are kept: start it again to continue these sessions"
        )
        if any(getattr(error, "kept", False) for _name, _user, error in failures):
            message += (
                ", with cache=none for the LLM whose unusable completion "
                "would be read from the cache again"
            )
        super().__init__(message)


def simulate(
    systems: Systems,
    users: str | Path | SimulatedUser | Iterable[SimulatedUser],
    user_llm: Any,
    judge_llm: Any,
    *,
    out: str | Path,
    users_by: str = NEED,
    repeats: int = 1,
    baseline: str | None = None,
    passages: int = 3,
    show_persona: bool = False,
    history: int | None = HISTORY_TOKENS,
    threads: int = 8,
    plan: bool = False,
    ledger: Ledger | None = None,
    **resources: Any,
) -> Any:
    """Let simulated users talk to systems, and compare the systems on the same users.

    Each user talks to each system until every rubric is met or the patience is used up. An LLM
    writes the user's utterances; an LLM judges after each turn which open rubrics are answered.
    Both read the system's response, or its best passages if it writes none. A system gets the
    utterances and its own responses, never the need or a rubric.

    Each system gets a folder in ``out`` with its conversations. Finished turns are kept, and an
    interrupted simulation continues.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        users: a users file (see :class:`~pyterrier_ikat.live.simulation.SimulatedUser`),
            ``"sample"``, users, or the folder of the organisers' files of 2025 with arguments of
            :func:`~pyterrier_ikat.live.simulation.track_users`, such as ``"trec-ikat25
            assessed=on"``.
        user_llm: the model that plays the users; or any object with ``say(situation)``, which
            returns the next utterance, and ``identity``, a JSON value that changes when its
            behaviour does, such as a :class:`~pyterrier_ikat.live.simulation.ScriptedPlayer`.
        judge_llm: the model that judges; or any object with ``met(situation)``, which returns the
            ids of the open rubrics that the text answers, and ``identity``. A model that judges
            what it said itself may be kind to itself.
        out: the folder of the simulation.
        users_by: what decides what a user says next. ``"need"``: the need and all open rubrics,
            until the patience is used up. ``"track"``: the policy of the organisers' simulated user
            of 2025, see :mod:`pyterrier_ikat.live.simulation.players`: one rubric at a time, graded
            0 to 5, up to 3 times; above 3 it is met. Its utterances are chosen by the MiniLM of the
            extra ``[demo]``.
        repeats: how often each user talks to each system, each time with new completions of all
            models.
        baseline: the system that the others are compared with: two-sided paired t-test over users,
            Bonferroni. The folders keep its name for their report; another call may name another
            one.
        passages: how many passages, at most 5, users and judge read in place of a response that the
            system doesn't write.
        show_persona: whether systems get the persona as the user's PTKB; the track's interactive
            task shows them none.
        history: the most tokens of history that a system sees; None for no limit.
        threads: sessions at a time.
        plan: ask nothing, and return the table of the most that can be asked, see
            :meth:`~.simulation.Simulation.plan`.
        ledger: the account of the models that are given as text.
        **resources: as for :func:`pyterrier_ikat.run`.

    Returns:
        A :class:`Simulated`, the simulation's outcome, which shows its table; ``.table`` has a row
        per system with the measures of :func:`~pyterrier_ikat.live.simulation.simulation_rows`,
        ``.folders`` the log of each run.

    Raises:
        UsageError: before anything is asked: for an unknown system, option or resource, a manual
            system, or a folder with another simulation.
        DataError: for a users file, index or recorded file that can't be used.
        SessionsFailed: when sessions failed; it names them. All others are finished.
        FatalLLMError, BudgetExceeded: when no call can succeed, or the budget is spent; finished
            turns are kept.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.live.simulation import ScriptedPlayer, SimulatedUser
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos has no caffeine." for chat in chats]
        >>> class Judge:
        ...     identity = "names rooibos"
        ...     def met(self, situation):
        ...         return list(situation.open) if "Rooibos" in situation.text else []
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> systems = {"answer": ikat.Answer(ikat.llm(Model()))}
        >>> done = ikat.simulate(systems, [user], ScriptedPlayer(), Judge(), out="my-sims")
        >>> done.table[["name", "rubrics met", "turns until satisfied"]].values.tolist()
        [['answer', 1.0, 1.0]]
    """
    one_of(POLICIES, users_by=users_by)
    if min(repeats, threads) < 1 or not 0 <= passages <= 5:
        raise UsageError(
            f"repeats={repeats}, threads={threads}, passages={passages}: "
            "give 1 or more, and 0 to 5 passages"
        )
    methods = methods_in(systems)
    ledger = ledger or Ledger()
    known_users = read_users(users)
    names = [method.name for method in methods]
    check_baseline(names, baseline, "systems")
    for name in names:
        if REPEAT.fullmatch(name):
            raise UsageError(
                f"a system is named {name!r}, as a repeat of another one: give it another name"
            )
    opened = open_systems(
        methods, ledger, live=True, only_plan=plan, spare=("prompts",), **resources
    )
    prompts = opened[0].resources.prompts
    player_class, judge_class = POLICIES[users_by]
    player = open_part(user_llm, "say", player_class, ledger, prompts)
    judge = open_part(judge_llm, "met", judge_class, ledger, prompts)
    simulation = Simulation(known_users, player, judge, users_by, passages, show_persona, history)
    repeated = []
    for system in opened:
        for number in range(1, repeats + 1):
            repeated.append(replace(system, repeat=number))
    if plan:
        return simulation.plan(repeated, Path(out))
    folders = simulation.run(repeated, Path(out), baseline, threads)
    return Simulated(folders, ledger, player, judge, baseline)


@dataclass(frozen=True)
class Simulation:
    """Simulated users, and the rules of their sessions with systems; see :func:`simulate`.

    Attributes:
        users: the users.
        player: speaks for the users.
        judge: decides which rubrics a text answers.
        by: what decides what a user says, ``"need"`` or ``"track"``.
        passages: how many passages a user reads in place of a response; 0 for none.
        show_persona: whether systems get the persona as the user's PTKB.
        history: the most tokens of history that a system sees; None for no limit.
    """

    users: list[SimulatedUser]
    player: Any
    judge: Any
    by: str
    passages: int
    show_persona: bool
    history: int | None

    def header(self, system: System) -> dict[str, Any]:
        """Return the settings of a system's conversations: the log refuses to continue others."""
        replayed = []
        for part, player in (("users", self.player), ("judge", self.judge)):
            model = model_of(player)
            if isinstance(model, LLM) and model.backend.replays:
                replayed.append(part)
        return {
            "kind": "simulated",
            "system": system.method.name,
            "repeat": system.repeat,
            "recorded": system.replays,
            "users": len(self.users),
            "users_sha256": checksum(self.users),
            "users_by": self.by,
            "user_llm": self.player.identity,
            "judge_llm": self.judge.identity,
            "recorded_parts": replayed,
            "passages": self.passages,
            "show_persona": self.show_persona,
            "history": self.history,
            "players_prompts": checksums_of(self.player) | checksums_of(self.judge),
            **system.parameters(),
        }

    def run(
        self, systems: list[System], out: Path, baseline: str | None, threads: int
    ) -> dict[str, Log]:
        """Play all unfinished sessions, several at a time.

        Returns:
            The log of each system.

        Raises:
            UsageError: when a folder holds something else, or another process is at work in it.
            SessionsFailed, FatalLLMError, BudgetExceeded: see :func:`simulate`.
        """
        if isinstance(self.player, TrackPlayer):
            similarities(["tea"], ["tea"])  # without its model, nothing is asked
        names = [system.name for system in systems]
        check_names(names)
        with lock_folders(*(out / name for name in names)):
            logs = {}
            for system in systems:
                logs[system.name] = Log.create(out / system.name, self.header(system))
            for log in logs.values():
                log.compare(baseline)
            self._play(systems, logs, threads)
        return logs

    def _play(self, systems: list[System], logs: Mapping[str, Log], threads: int) -> None:
        """Play the sessions without an end in the logs."""
        stop = threading.Event()
        pairs = [(user, system) for user in self.users for system in systems]
        with ThreadPoolExecutor(threads, thread_name_prefix="ikat-session") as workers:
            sessions = []
            for user, system in pairs:
                log = logs[system.name]
                sessions.append(workers.submit(self._session, user, system, log, stop))
            try:
                for session in bar(as_completed(sessions), total=len(sessions), unit="session"):
                    error = session.exception()
                    if isinstance(error, StageEnded):
                        raise error
                    if error is not None and not isinstance(error, IkatError):
                        raise error
            finally:  # after an error or Ctrl-C, the turns under way are finished and kept
                stop.set()
                workers.shutdown(wait=False, cancel_futures=True)
        failures = []
        for (user, system), session in zip(pairs, sessions, strict=True):
            error = session.exception()
            if isinstance(error, IkatError):
                failures.append((system.name, user.id, error))
        if failures:
            raise SessionsFailed(failures, len(pairs))

    def _session(
        self, user: SimulatedUser, system: System, log: Log, stop: threading.Event
    ) -> None:
        """Continue a session from its log to its end, turn by turn."""
        if user.id not in log.known:
            log.begin(user.id, user.person, user.rubrics)
        dialogue = log.known[user.id]
        with in_chain(system.repeat - 1):
            while not dialogue.end and not stop.is_set():
                situation = self.situation(user, system.method.name, dialogue)
                if isinstance(situation, str):
                    log.end(user.id, situation)
                else:
                    log.append(self.turn(situation, system, dialogue))

    def situation(self, user: SimulatedUser, system: str, dialogue: Dialogue) -> Situation | str:
        """Return the situation of the user's next turn, or the reason for the session's end.

        Args:
            user: the user.
            system: the name of the system.
            dialogue: the session so far.
        """
        met = dialogue.met
        open_rubrics = {rubric: text for rubric, text in user.rubrics.items() if rubric not in met}
        if not open_rubrics:
            return SATISFIED
        after = ""
        if self.by == TRACK:
            rubric, after = next_rubric(user.rubrics, dialogue.turns)
            if not rubric:
                return "topic ended"
            open_rubrics = {rubric: user.rubrics[rubric]}
        elif len(dialogue.turns) >= user.turns:
            return "out of patience"
        turns = []
        for turn in dialogue.turns:
            turns.append(replace(turn, response=self.text_of(turn) or "(no answer)"))
        read = messages_of(turns)
        return Situation(user, system, len(turns) + 1, open_rubrics, tuple(read), after)

    def text_of(self, turn: Turn) -> str:
        """Return the text for user and judge: the response, or the best passages instead of one."""
        if turn.response.strip():
            return turn.response
        lines = []
        for number, source in enumerate(turn.sources[: self.passages], 1):
            text = " ".join(source.text.split())
            if text:
                lines.append(f"[{number}] {text}")
        return "\n".join(lines)

    def turn(self, situation: Situation, system: System, dialogue: Dialogue) -> Turn:
        """The turn in a situation: the user speaks, the system answers, the judge judges.

        The system gets the utterances, its own responses and, with ``show_persona``, the persona;
        never the need or a rubric.

        Raises:
            IkatError: when one of them fails.
        """
        user = situation.user
        with hearing() as of_user:
            utterance = self._utterance(situation, system)
        messages = [*dialogue.messages, {"role": "user", "content": utterance}]
        persona = self.shown_of(user)
        answered = answer(system, messages, persona, number=user.topic, history=self.history)
        text = self.text_of(answered)
        met: Iterable[str] = ()
        with hearing() as of_judge:
            if text:
                met = self.judge.met(replace(situation, utterance=utterance, text=text))
        read = "passages" if text else "nothing"
        if answered.response.strip():
            read = "response"
        more: dict[str, Any] = {**answered.more, "read": read}
        if self.by == TRACK:
            more["rubric"] = next(iter(situation.open))
        of_players = spent([*of_user, *of_judge])
        if of_players.completions or of_players.unanswered:
            more[PLAYERS] = asdict(of_players)
        cited = {}
        if answered.response:
            cited = {source.docno: source.score or 0.0 for source in answered.sources}
        return replace(
            answered,
            session=user.id,
            number=situation.turn,
            citations=cited,
            met=tuple(rubric for rubric in situation.open if rubric in met),
            more=more,
        )

    def _utterance(self, situation: Situation, system: System) -> str:
        """Return the user's words. Recorded completions answer the user's script alone."""
        utterance = " ".join(self.player.say(situation).split())
        if not utterance:
            raise DataError(
                f"the simulated user said nothing in turn {situation.qid}: let `say` return a text"
            )
        if system.replays and situation.user.script:
            check_recorded(situation.user.script, situation.turn, utterance, situation.qid)
        return utterance

    def shown_of(self, user: SimulatedUser) -> list[str] | None:
        """Return the persona for systems, or None."""
        return list(user.persona) if self.show_persona else None

    def plan(self, systems: list[System], out: Path) -> PlanTable:
        """The most requests of all sessions: no response meets a rubric.

        Every user talks to every system until the patience is used up. A satisfied user stops
        earlier, so the true number is at most this one, except where a system asks more for a
        longer answer, or a completion of user or judge can't be used and is asked for once more.
        The responses are stand-ins of 150 words, so tokens are estimates.

        Args:
            systems: the systems; each repeat is one.
            out: the folder of the simulation; turns that it has already are not planned.

        Raises:
            UsageError: when ``out`` has another simulation.

        Returns:
            The table of :func:`pyterrier_ikat.plan`; the stages of the simulated user and the judge
            are rows of each system.
        """
        rows: list[dict[str, Any]] = []
        seen: set[Any] = set()
        for system in systems:
            log = Log(out / system.name)
            if Log.is_in(log.folder):
                log.check(self.header(system))
            situations = []
            for user in self.users:
                dialogue = log.known.get(user.id)
                situations += self._ahead(user, system.method.name, dialogue)
            if situations:
                with in_chain(system.repeat - 1):
                    rows += self._planned(situations, system, seen)
        return PlanTable.of_rows(rows)

    def _ahead(
        self, user: SimulatedUser, system: str, dialogue: Dialogue | None
    ) -> list[Situation]:
        """The turns after the known ones until patience is used up, with stand-ins for texts."""
        if dialogue is None:
            dialogue = Dialogue(user.id, user.person)
        situations: list[Situation] = []
        while True:
            situation = self.situation(user, system, dialogue)
            if isinstance(situation, str):
                return situations
            if situation.turn <= len(user.script):
                utterance = user.script[situation.turn - 1]
            else:
                utterance = f"{user.need} {situation.turn}"
            text = f"{PASSAGE_STAND_IN}{system} {user.id} {situation.turn}"
            situations.append(replace(situation, utterance=utterance, text=text))
            more = {"rubric": next(iter(situation.open))}
            dialogue.turns.append(Turn(situation.turn, utterance, text, more=more))

    def _planned(
        self, situations: list[Situation], system: System, seen: set[Any]
    ) -> list[dict[str, Any]]:
        """Return the requests of turns; users with the same topic have qids of their own."""
        plan = Plan(system.name, seen)
        for part in (self.player, self.judge):
            if isinstance(part, PlayingLLM):
                # players and judges read situations as operators read a frame
                plan.ask(part, cast(Any, situations))
        frames = []
        for situation in situations:
            messages = [*situation.read, {"role": "user", "content": situation.utterance}]
            frames.append(
                conversation(messages, self.shown_of(situation.user), number=situation.user.id)
            )
        plan.follow(system.pipeline, pd.concat(frames, ignore_index=True))
        return plan.rows


@dataclass(frozen=True, repr=False, eq=False)
class Simulated:
    """The outcome of a simulation; it shows its table.

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
        """Run -> the measures of its sessions in one order.

        See :func:`~pyterrier_ikat.evaluation.session_measures`.
        """
        frames = {}
        for name, log in self.folders.items():
            measured = session_measures(list(log.known.values()))
            frames[name] = measured.sort_values("session", ignore_index=True)
        return frames

    @property
    def table(self) -> pd.DataFrame:
        """A row per system, as :func:`simulation_rows` gives them."""
        return pd.DataFrame(simulation_rows(self.frames, self.baseline))

    def report(self, **options: Any) -> Any:
        """The conversations to read and compare: see :func:`pyterrier_ikat.report`."""
        folders = [log.folder for log in self.folders.values()]
        return report(folders, **{"baseline": self.baseline, **options})

    def shown(self) -> Table:
        """The table to print, with who played and judged."""
        rows = simulation_rows(self.frames, self.baseline)
        baseline: Mapping[str, Any] = {}
        for row in rows:
            if row["name"] == self.baseline and len(rows) > 1:
                baseline = row
        first_repeats = {row["name"]: self.frames[row["name"]] for row in rows}
        measures = [SATISFIED]
        for name in shown_columns(first_repeats):
            if name not in ("sessions", SATISFIED):
                measures.append(name)
        columns = [
            Column("system", [Cell(row["name"]) for row in rows]),
            Column("users", [Cell(str(row["users"])) for row in rows], numeric=True),
        ]
        for measure in measures:
            cells = [_cell(row, measure, baseline) for row in rows]
            columns.append(Column(measure, cells, numeric=True))
        notes = self._notes_on_means(rows, first_repeats)
        if baseline:
            notes += self._notes_on_test()
        return Table(rows, columns, [*notes, *self._notes_on_players()])

    def _notes_on_means(
        self, rows: Sequence[Mapping[str, Any]], first_repeats: Mapping[str, pd.DataFrame]
    ) -> list[str]:
        about, *notes = session_notes(first_repeats)
        notes.insert(0, about.replace("sessions", "users", 1))
        repeats = rows[0]["repeats"]
        if repeats > 1:
            notes.append(
                f"\u00b1: standard deviation over {repeats} repeats; means are over all of them."
            )
        if len(rows) > 1:
            notes.append(SECONDS_NOTE)
        return notes

    def _notes_on_test(self) -> list[str]:
        clusters = users_of(self.frames)
        test = describe_test(clusters.unit, clusters.number, len(clusters.names), clusters.of)
        marks = (
            f"{HIGHER} significantly higher, {LOWER} significantly lower than {self.baseline}: "
            f"{test}."
        )
        return [marks, *notes_on_unit(clusters.unit, clusters.number, of=clusters.of)]

    def _notes_on_players(self) -> list[str]:
        """Return sentences on the players, the judged text, and cached or recorded completions."""
        headers = {name: log.header for name, log in self.folders.items()}
        header = next(iter(headers.values()))
        turns: list[Turn] = []
        without_response = []
        for name, log in self.folders.items():
            of_run: list[Turn] = []
            for dialogue in log.known.values():
                of_run += dialogue.turns
            turns += of_run
            if any(turn.more.get("read") == "passages" for turn in of_run):
                without_response.append(name)
        judges = f"; {self.judge!r} judges"
        if repr(self.judge) == repr(self.player):
            judges = " and judges"
        policy = BY_TRACK if header.get("users_by") == TRACK else BY_NEED
        notes = [f"{self.player!r} plays the users{judges} {policy}"]
        if without_response:
            best = counted(header.get("passages", 0), "passage")
            names = ", ".join(without_response)
            notes.append(f"Without a response, the text is that of the best {best}: {names}.")
        notes += cached_note(turns, sum(turn.spend.completions for turn in turns))
        of_folders = advice("ikat.show.ledger([...])", "ikat evaluate --cost")
        notes.append(
            f"Calls and cost are those of the systems alone; {of_folders} of the folders "
            "has those of users and judge, too."
        )
        return notes + recorded_note(headers)

    def __repr__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


def users_of(frames: Mapping[str, pd.DataFrame]) -> Clusters:
    """The users of the sessions: the clusters of tests, as a person may have several sessions."""
    return Clusters("user", next(iter(frames.values()))["user"].tolist(), of="session")


def simulation_rows(
    frames: Mapping[str, pd.DataFrame], baseline: str | None = None
) -> list[dict[str, Any]]:
    """The means of each system over the users, and how it differs from a baseline.

    Differences are tested by a two-sided paired t-test that is robust to several sessions of one
    person, the p-value times the number of comparisons (Bonferroni). With fewer than five persons
    nothing is rejected. With several repeats, each user's values are averaged over the repeats
    first: the user is the unit, as the topic is in Smucker, Allan and Carterette, A Comparison of
    Statistical Significance Tests for Information Retrieval Evaluation (CIKM 2007). ``turns until
    satisfied`` is not tested, because each system satisfies different users; ``seconds`` is not,
    because a session finds what others have searched, scored and asked before.

    Args:
        frames: run -> the measures of its sessions, in one order of users; repeats are named
            ``NAME.repeat-2``, ...
        baseline: the system that the others are compared with.

    Returns:
        ``name``, ``users``, ``repeats``, ``satisfied`` (the share of the users) and the measures;
        with repeats the standard deviation over them (`` std``); with a baseline `` +`` and `` -``
        (users with a higher and a lower value; None where a cost is unknown), `` p-value``, ``
        p-value corrected``, `` reject`` (at .05), and `` low`` and `` high``, the interval of the
        difference.

    Example:
        >>> from pyterrier_ikat.runs import Dialogue
        >>> dialogue = Dialogue("u1", "u1", {"r1": "Which tea?"}, end="out of patience")
        >>> rows = simulation_rows({"silent": session_measures([dialogue])})
        >>> [(row["name"], row["users"], row["rubrics met"]) for row in rows]
        [('silent', 1, 0.0)]
    """
    measured = {}
    for run, frame in frames.items():
        satisfied = frame["end"].eq(SATISFIED).astype(float)
        measured[run] = frame.assign(satisfied=satisfied)[[SATISFIED, *SESSION_MEASURES]]
    systems: dict[str, list[pd.DataFrame]] = {}
    of_users: dict[str, Any] = {}  # each user's values, averaged over the repeats
    for name, runs in grouped(frames).items():
        systems[name] = [measured[run] for run in runs]
        of_users[name] = sum(systems[name]) / len(runs)
    rows = []
    for name, repeats in systems.items():
        row = {"name": name, "users": len(repeats[0]), "repeats": len(repeats), **_means(repeats)}
        if baseline is not None:
            for measure in TESTED_MEASURES:
                ours = of_users[name][measure]
                theirs = None if name == baseline else of_users[baseline][measure]
                row |= _differences(measure, ours, theirs, users_of(frames), len(systems) - 1)
        rows.append(row)
    return rows


def _means(repeats: Sequence[pd.DataFrame]) -> dict[str, float]:
    """Return the mean of each measure over the sessions with a value.

    An unknown cost makes that of the system unknown.
    """
    means = {}
    for measure in repeats[0]:
        of_repeats = [frame[measure].mean(skipna=measure != "cost") for frame in repeats]
        values = pd.Series(of_repeats)
        skips_unknown = measure == UNTIL_SATISFIED
        means[str(measure)] = float(values.mean(skipna=skips_unknown))
        if len(repeats) > 1:
            means[f"{measure} std"] = float(values.std(skipna=skips_unknown))
    return means


def _differences(
    measure: str, ours: Any, theirs: Any, clusters: Clusters, comparisons: int
) -> dict[str, Any]:
    """The comparison with the baseline; without counts of users if a cost is unknown."""
    comparison = compare_with_baseline(ours, theirs, clusters, comparisons)
    if theirs is not None and (ours - theirs).isna().any():
        comparison["+"] = None
        comparison["-"] = None
    return {f"{measure} {title}": value for title, value in comparison.items()}


def _cell(row: Mapping[str, Any], measure: str, baseline: Mapping[str, Any]) -> Cell:
    text = format_measure(measure, row[measure])
    deviation = row.get(f"{measure} std")
    if not pd.isna(deviation):
        text += f"\u00b1{format_measure(measure, deviation)}"
    if not baseline or not row.get(f"{measure} reject"):
        return Cell(text)
    return Cell(text, mark=HIGHER if row[measure] > baseline[measure] else LOWER)
