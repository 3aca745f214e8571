"""Let simulated users talk to systems: every user to every system, sessions side by side, each turn kept; and compare the systems."""

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
from ...evaluation.evaluator import REPEAT, check_baseline, compared, grouped
from ...evaluation.sessions import (
    MEASURES,
    cached_note,
    format_measure,
    recorded_note,
    session_measures,
    session_notes,
    shown_columns,
)
from ...evaluation.units import Clusters, notes_on_unit, said_of_test
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
    played,
    similarities,
)
from .users import SimulatedUser, checksum, read_users

SATISFIED = "satisfied"
UNTIL = "turns until satisfied"
TESTED = (SATISFIED, "rubrics met", "turns", "calls", "cost")
"""Measures that every session has, whatever the order of the sessions, so that two systems can be compared user by user."""
SHARED = "Seconds are not tested, because sessions share searches, scores and completions."
BY_NEED = "each turn, from the user's utterance and the text that the user reads."
BY_TRACK = "by the track's policy of 2025: a rubric at a time, graded 0 to 5 from the response alone. Patience and behaviour don't count."


class SessionsFailed(IkatError):
    """Sessions ended with an error; all others are finished.

    Attributes:
        failures: (name of the run, user id, error) of each.
    """

    def __init__(self, failures: list[tuple[str, str, IkatError]], whole: int) -> None:
        (name, user, error), *others = self.failures = failures
        also = (
            f"; also {list_first([f'{name} with user {user}' for name, user, _ in others])}"
            * bool(others)
        )
        again = "All finished turns are kept: start it again to continue these sessions"
        if any(getattr(error, "kept", False) for *_, error in failures):
            again += ", with cache=none for the LLM whose unusable completion would be read from the cache again"
        told = f"{len(failures)} of {counted(whole, 'session')} failed: {name} with user {user} ({error}){also}"
        super().__init__(f"{told}; there are no scores without them. {again}")


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
        >>> done = ikat.simulate({"answer": ikat.Answer(ikat.llm(Model()))}, [user], ScriptedPlayer(), Judge(), out="my-sims")
        >>> done.table[["name", "rubrics met", "turns until satisfied"]].values.tolist()
        [['answer', 1.0, 1.0]]
    """
    one_of(POLICIES, users_by=users_by)
    if min(repeats, threads) < 1 or not 0 <= passages <= 5:
        raise UsageError(
            f"repeats={repeats}, threads={threads}, passages={passages}: give 1 or more, and 0 to 5 passages"
        )
    methods, ledger, known = methods_in(systems), ledger or Ledger(), read_users(users)
    check_baseline([one.name for one in methods], baseline, "systems")
    if repeats_of := [one.name for one in methods if REPEAT.fullmatch(one.name)]:
        raise UsageError(
            f"a system is named {repeats_of[0]!r}, as a repeat of another one: give it another name"
        )
    opened = open_systems(
        methods, ledger, live=True, only_plan=plan, spare=("prompts",), **resources
    )
    prompts, (speaks, decides) = opened[0].resources.prompts, POLICIES[users_by]
    player, judge = (
        played(user_llm, "say", speaks, ledger, prompts),
        played(judge_llm, "met", decides, ledger, prompts),
    )
    simulation = Simulation(known, player, judge, users_by, passages, show_persona, history)
    repeated = [replace(one, repeat=number) for one in opened for number in range(1, repeats + 1)]
    if plan:
        return simulation.plan(repeated, Path(out))
    return Simulated(
        simulation.run(repeated, Path(out), baseline, threads), ledger, player, judge, baseline
    )


@dataclass(frozen=True)
class Simulation:
    """Users who talk to systems, and the rules of their sessions; see :func:`simulate`.

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
        """Everything that decides the conversations of a system; the log refuses to continue others."""
        models = {
            "users": model_of(self.player),
            "judge": model_of(self.judge),
        }
        replayed = [
            part
            for part, model in models.items()
            if isinstance(model, LLM) and model.backend.replays
        ]
        of_system = {
            "kind": "simulated",
            "system": system.method.name,
            "repeat": system.repeat,
            "recorded": system.replays,
        }
        of_users = {
            "users": len(self.users),
            "users_sha256": checksum(self.users),
            "users_by": self.by,
        }
        of_players = {
            "user_llm": self.player.identity,
            "judge_llm": self.judge.identity,
            "recorded_parts": replayed,
        }
        rules = {
            "passages": self.passages,
            "show_persona": self.show_persona,
            "history": self.history,
        }
        prompts = {"players_prompts": checksums_of(self.player) | checksums_of(self.judge)}
        return {**of_system, **of_users, **of_players, **rules, **prompts, **system.parameters()}

    def run(
        self, systems: list[System], out: Path, baseline: str | None, threads: int
    ) -> dict[str, Log]:
        """Play all sessions that are not finished, several at a time; the log of each system.

        Raises:
            UsageError: when a folder holds something else, or another process is at work in it.
            SessionsFailed, FatalLLMError, BudgetExceeded: see :func:`simulate`.
        """
        if isinstance(self.player, TrackPlayer):
            similarities(["tea"], ["tea"])  # without its model, nothing is asked
        check_names(one.name for one in systems)
        with lock_folders(*(out / one.name for one in systems)):
            logs = {one.name: Log.create(out / one.name, self.header(one)) for one in systems}
            for log in logs.values():
                log.compare(baseline)
            self._play(systems, logs, threads)
        return logs

    def _play(self, systems: list[System], logs: Mapping[str, Log], threads: int) -> None:
        """Play the sessions that have no end in the logs."""
        stop, pairs = (
            threading.Event(),
            [(user, system) for user in self.users for system in systems],
        )
        with ThreadPoolExecutor(threads, thread_name_prefix="ikat-session") as workers:
            sessions = [
                workers.submit(self._session, user, system, logs[system.name], stop)
                for user, system in pairs
            ]
            try:
                for session in bar(as_completed(sessions), total=len(sessions), unit="session"):
                    error = session.exception()
                    if error is not None and (
                        isinstance(error, StageEnded) or not isinstance(error, IkatError)
                    ):
                        raise error
            finally:  # after an error or Ctrl-C, the turns under way are finished and kept
                stop.set()
                workers.shutdown(wait=False, cancel_futures=True)
        ends = zip(pairs, (session.exception() for session in sessions), strict=True)
        if failures := [
            (system.name, user.id, error)
            for (user, system), error in ends
            if isinstance(error, IkatError)
        ]:
            raise SessionsFailed(failures, len(pairs))

    def _session(
        self, user: SimulatedUser, system: System, log: Log, stop: threading.Event
    ) -> None:
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
        left, after = (
            {rubric: text for rubric, text in user.rubrics.items() if rubric not in known.met},
            "",
        )
        if not left:
            return SATISFIED
        if self.by == TRACK:
            rubric, after = next_rubric(user.rubrics, known.turns)
            if not rubric:
                return "topic ended"
            left = {rubric: user.rubrics[rubric]}
        elif len(known.turns) >= user.turns:
            return "out of patience"
        read = messages_of(
            [replace(turn, response=self.text_of(turn) or "(no answer)") for turn in known.turns]
        )
        return Situation(user, system, len(known.turns) + 1, left, tuple(read), after)

    def text_of(self, turn: Turn) -> str:
        """The text that user and judge read in a turn: the response, or the best passages of a system that writes none."""
        if turn.response.strip():
            return turn.response
        texts = [" ".join(source.text.split()) for source in turn.sources[: self.passages]]
        return "\n".join(f"[{place}] {text}" for place, text in enumerate(texts, 1) if text)

    def turn(self, now: Situation, system: System, known: Dialogue) -> Turn:
        """The turn in a situation: the user speaks, the system answers, the judge judges.

        The system gets the utterances, its own responses and, with ``show_persona``, the persona;
        never the need or a rubric.

        Raises:
            IkatError: when one of them fails.
        """
        user = now.user
        with hearing() as asked:
            utterance = " ".join(self.player.say(now).split())
        if not utterance:
            raise DataError(
                f"the simulated user said nothing in turn {now.qid}: let `say` return a text"
            )
        if system.replays and user.script:
            check_recorded(user.script, now.turn, utterance, now.qid)
        said = [*known.messages, {"role": "user", "content": utterance}]
        answered = answer(
            system, said, self.shown_of(user), number=user.topic, history=self.history
        )
        text = self.text_of(answered)
        with hearing() as judged:
            met = self.judge.met(replace(now, utterance=utterance, text=text)) if text else ()
        more = {
            **answered.more,
            "read": "response" if answered.response.strip() else "passages" if text else "nothing",
        }
        more |= {"rubric": next(iter(now.open))} if self.by == TRACK else {}
        players = spent([*asked, *judged])
        if players.completions or players.unanswered:
            more[PLAYERS] = asdict(players)
        cited = (
            {one.docno: one.score or 0.0 for one in answered.sources} if answered.response else {}
        )
        met = tuple(rubric for rubric in now.open if rubric in met)
        return replace(
            answered, session=user.id, number=now.turn, citations=cited, met=met, more=more
        )

    def shown_of(self, user: SimulatedUser) -> list[str] | None:
        """What systems are shown of the user's persona."""
        return list(user.persona) if self.show_persona else None

    def plan(self, systems: list[System], out: Path) -> PlanTable:
        """The most requests of all sessions: every user talks to every system until the end, and no response meets a rubric.

        A satisfied user stops earlier, so the true number is at most this one, except where a
        system asks more for a longer answer, or a completion of user or judge can't be used and is
        asked for once more. The responses are stand-ins of 150 words, so tokens are estimates.

        Args:
            systems: the systems; each repeat is one.
            out: the folder of the simulation; turns that it has already are not planned.

        Raises:
            UsageError: when ``out`` has another simulation.

        Returns:
            The table of :func:`pyterrier_ikat.plan`; the stages of the simulated user and the judge
            are rows of each system.
        """
        rows, seen = list[dict[str, Any]](), set[Any]()
        for system in systems:
            log = Log(out / system.name)
            if Log.is_in(log.folder):
                log.check(self.header(system))
            if turns := [
                now
                for user in self.users
                for now in self._ahead(user, system.method.name, log.known.get(user.id))
            ]:
                with in_chain(system.repeat - 1):
                    rows += self._planned(turns, system, seen)
        return PlanTable.of_rows(rows)

    def _ahead(self, user: SimulatedUser, system: str, known: Dialogue | None) -> list[Situation]:
        """The turns after the known ones, with stand-ins for what is said, until the patience is used up."""
        found, known = list[Situation](), known or Dialogue(user.id, user.person)
        while not isinstance(now := self.situation(user, system, known), str):
            said = (
                user.script[now.turn - 1]
                if now.turn <= len(user.script)
                else f"{user.need} {now.turn}"
            )
            text = f"{PASSAGE_STAND_IN}{system} {user.id} {now.turn}"
            found.append(replace(now, utterance=said, text=text))
            known.turns.append(Turn(now.turn, said, text, more={"rubric": next(iter(now.open))}))
        return found

    def _planned(
        self, turns: list[Situation], system: System, seen: set[Any]
    ) -> list[dict[str, Any]]:
        """The requests of turns; users who talk about the same topic have qids of their own."""
        plan, given = (
            Plan(system.name, seen),
            cast(Any, turns),
        )  # players and judges read situations as operators read a frame
        for part in (self.player, self.judge):
            if isinstance(part, PlayingLLM):
                plan.ask(part, given)
        said = [
            (now.user, [*now.read, {"role": "user", "content": now.utterance}]) for now in turns
        ]
        frames = [
            conversation(messages, self.shown_of(user), number=user.id) for user, messages in said
        ]
        plan.follow(system.pipeline, pd.concat(frames, ignore_index=True))
        return plan.rows


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
    player: Any
    judge: Any
    baseline: str | None = None

    @cached_property
    def frames(self) -> dict[str, pd.DataFrame]:
        """Run -> the measures of its sessions in one order, see :func:`~pyterrier_ikat.evaluation.session_measures`."""
        measured = {
            name: session_measures([*log.known.values()]) for name, log in self.folders.items()
        }
        return {
            name: frame.sort_values("session", ignore_index=True)
            for name, frame in measured.items()
        }

    @property
    def table(self) -> pd.DataFrame:
        """A row per system, as :func:`simulation_rows` gives them."""
        return pd.DataFrame(simulation_rows(self.frames, self.baseline))

    def report(self, **options: Any) -> Any:
        """The conversations, to read and compare, the baseline first: see :func:`pyterrier_ikat.report`."""
        return report(
            [log.folder for log in self.folders.values()], **{"baseline": self.baseline, **options}
        )

    def shown(self) -> Table:
        """The table to print, with who played and judged."""
        rows = simulation_rows(self.frames, self.baseline)
        base = next((row for row in rows if row["name"] == self.baseline and len(rows) > 1), {})
        first = {row["name"]: self.frames[row["name"]] for row in rows}
        shown = [
            SATISFIED,
            *(name for name in shown_columns(first) if name not in ("sessions", SATISFIED)),
        ]
        columns = [
            Column("system", [Cell(row["name"]) for row in rows]),
            Column("users", [Cell(str(row["users"])) for row in rows], True),
        ]
        columns += [
            Column(measure, [_cell(row, measure, base) for row in rows], numeric=True)
            for measure in shown
        ]
        about, *notes = session_notes(first)
        notes.insert(0, about.replace("sessions", "users", 1))
        if (repeats := rows[0]["repeats"]) > 1:
            notes.append(
                f"\u00b1: standard deviation over {repeats} repeats; means are over all of them."
            )
        notes += [SHARED] * (len(rows) > 1)
        if base:
            clusters = users_of(self.frames)
            test = said_of_test(clusters.unit, clusters.number, len(clusters.names), clusters.of)
            notes.append(
                f"{HIGHER} significantly higher, {LOWER} significantly lower than {self.baseline}: {test}."
            )
            notes += notes_on_unit(clusters.unit, clusters.number, of=clusters.of)
        return Table(rows, columns, [*notes, *self._notes()])

    def _notes(self) -> list[str]:
        """Sentences on who spoke and judged, from which text, and which completions were cached or recorded."""
        headers = {name: log.header for name, log in self.folders.items()}
        turns = {
            name: [turn for one in log.known.values() for turn in one.turns]
            for name, log in self.folders.items()
        }
        first, every = (
            next(iter(headers.values())),
            [turn for said in turns.values() for turn in said],
        )
        judges = (
            " and judges" if repr(self.judge) == repr(self.player) else f"; {self.judge!r} judges"
        )
        notes = [
            f"{self.player!r} plays the users{judges} {BY_TRACK if first.get('users_by') == TRACK else BY_NEED}"
        ]
        if without := [
            name
            for name, said in turns.items()
            if any(turn.more.get("read") == "passages" for turn in said)
        ]:
            best = counted(first.get("passages", 0), "passage")
            notes.append(
                f"Without a response, the text is that of the best {best}: {', '.join(without)}."
            )
        notes += cached_note(every, sum(turn.spend.completions for turn in every))
        with_theirs = advice("ikat.show.ledger([...])", "ikat evaluate --cost")
        notes.append(
            f"Calls and cost are those of the systems alone; {with_theirs} of the folders has those of users and judge, too."
        )
        return notes + recorded_note(headers)

    def __repr__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


def users_of(frames: Mapping[str, pd.DataFrame]) -> Clusters:
    """The users of the sessions, which are the clusters of tests: one person may have several sessions."""
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
        >>> silent = session_measures([Dialogue("u1", "u1", {"r1": "Which tea?"}, end="out of patience")])
        >>> [(row["name"], row["users"], row["rubrics met"]) for row in simulation_rows({"silent": silent})]
        [('silent', 1, 0.0)]
    """
    known = {
        run: frame.assign(satisfied=frame["end"].eq(SATISFIED).astype(float))[
            [SATISFIED, *MEASURES]
        ]
        for run, frame in frames.items()
    }
    systems = {name: [known[run] for run in runs] for name, runs in grouped(frames).items()}
    of_users: dict[str, Any] = {
        name: sum(repeats) / len(repeats) for name, repeats in systems.items()
    }
    rows = []
    for name, repeats in systems.items():
        row = {"name": name, "users": len(repeats[0]), "repeats": len(repeats), **_means(repeats)}
        for measure in TESTED if baseline is not None else ():
            theirs = None if name == baseline else of_users[str(baseline)][measure]
            row |= _differences(
                measure, of_users[name][measure], theirs, users_of(frames), len(systems) - 1
            )
        rows.append(row)
    return rows


def _means(repeats: Sequence[pd.DataFrame]) -> dict[str, float]:
    """The mean of each measure, over those sessions that have it; an unknown cost makes that of the system unknown."""
    found = {}
    for measure in repeats[0]:
        means = pd.Series([frame[measure].mean(skipna=measure != "cost") for frame in repeats])
        found[str(measure)] = float(means.mean(skipna=measure == UNTIL))
        if len(repeats) > 1:
            found[f"{measure} std"] = float(means.std(skipna=measure == UNTIL))
    return found


def _differences(
    measure: str, ours: Any, theirs: Any, clusters: Clusters, comparisons: int
) -> dict[str, Any]:
    unknown = theirs is not None and (ours - theirs).isna().any()
    found = compared(measure, ours, theirs, clusters, comparisons)
    if unknown:
        found.update({f"{measure} +": None, f"{measure} -": None})
    return found


def _cell(row: Mapping[str, Any], measure: str, base: Mapping[str, Any]) -> Cell:
    text = format_measure(measure, row[measure])
    if not pd.isna(spread := row.get(f"{measure} std")):
        text += f"\u00b1{format_measure(measure, spread)}"
    differs = bool(base) and row.get(f"{measure} reject")
    return Cell(text, mark="" if not differs else HIGHER if row[measure] > base[measure] else LOWER)
