"""The most that a simulation can ask, estimated before anything is spent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...conversations import conversation
from ...events import in_chain
from ...llms import LLM, Request
from ...planning import COLUMNS, Plan, PlanTable
from ...runs.answered_turn import Turn
from ...runs.log import Dialogue, Log
from ...study.systems import System
from .players import LLMPlayer, LLMRubricJudge, Situation
from .session import end_of, situation_in
from .users import SimulatedUser

if TYPE_CHECKING:
    from .simulation import Simulation

RESPONSE = "word " * 150
"""Stands in for each response."""


def plan_sessions(simulation: "Simulation", out: str | Path | None = None) -> PlanTable:
    """The most requests of all sessions: every user talks to every system until the end, and no response meets a rubric.

    A satisfied user stops earlier, so the true number is at most this one, except where a system asks more for a longer answer, or a
    completion of user or judge can't be used and is asked for once more. The responses are stand-ins of 150 words, so tokens are
    estimates.

    Args:
        simulation: the simulation.
        out: the folder of the simulation; turns that it has already are not planned.

    Raises:
        UsageError: when ``out`` has another simulation.

    Returns:
        The table of :func:`pyterrier_ikat.plan`; the stages of the simulated user and the judge are rows of each system.
    """
    rows: list[dict[str, Any]] = []
    seen: set[tuple[LLM, str]] = set()
    for system in simulation.systems:
        kept = _kept(simulation, system, out)
        for user in simulation.users:  # apart: the turns of two users may have the same qids
            plan, turns = Plan(system.name, seen), list(_turns(simulation, system.method.name, user, kept.get(user.id)))
            if not turns:
                continue
            with in_chain(system.repeat - 1):
                for stage in _played(simulation, turns):
                    plan.ask(stage, pd.DataFrame(index=range(len(turns))))
                plan.follow(system.pipeline, pd.concat([frame for *_, frame in turns], ignore_index=True))
            rows += plan.rows
    return PlanTable.of_rows(_summed(rows))


Planned = tuple[Situation, str, str, pd.DataFrame]
"""The user's situation, stand-ins for utterance and response, and the system's frame."""


def _summed(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of all users, those of the same stage and model added up; what is unknown for one user is unknown."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(tuple(row[name] for name in COLUMNS[:3]), {**row, **dict.fromkeys(COLUMNS[3:], 0)})
        for name in COLUMNS[3:]:
            known[name] = pd.NA if any(value is None or value is pd.NA for value in (known[name], row[name])) else known[name] + row[name]
    return list(found.values())


def _kept(simulation: "Simulation", system: System, out: str | Path | None) -> dict[str, Dialogue]:
    """Session -> the part of it that a run's folder has."""
    if out is None or not Log.is_in(Path(out) / system.name):
        return {}
    log = Log(Path(out) / system.name)
    log.check(simulation.header(system))
    return {one.session: one for one in log.dialogues()}


def _turns(simulation: "Simulation", name: str, user: SimulatedUser, kept: Dialogue | None) -> Iterator[Planned]:
    """The turns that are not kept, without an end but that of the patience."""
    known = Dialogue(user.id, user.person, dict(user.rubrics), list(kept.turns) if kept else [])
    while not end_of(user, known, simulation.rules.by):
        situation = situation_in(user, name, simulation.rules, known)
        number = situation.turn
        utterance = user.script[number - 1] if number <= len(user.script) else f"{user.need} {number}"
        response = f"{RESPONSE}{name} {user.id} {number}"
        now = [*known.messages, {"role": "user", "content": utterance}]
        frame = conversation(now, list(user.persona) if simulation.rules.show_persona else None, number=user.topic)
        yield situation, utterance, response, frame
        known.turns.append(Turn(number, utterance, response, more={"rubric": next(iter(situation.open))}))


@dataclass
class _Asked:
    """A player or judge as a plan sees it."""

    llm: LLM
    stage: str  # type: ignore[misc]
    made: list[Request]
    read: Any
    stand_ins: list[Any]

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        return self.made

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        return self.stand_ins


def _played(simulation: "Simulation", turns: Sequence[Planned]) -> Iterator[Any]:
    player, judge = simulation.rules.player, simulation.rules.judge
    if isinstance(player, LLMPlayer):
        asked = [(request, utterance) for situation, utterance, *_ in turns for request in player.requests_in(situation)]
        yield _Asked(player.llm, player.stage, [one for one, _ in asked], player.read, [utterance for _, utterance in asked])
    if isinstance(judge, LLMRubricJudge):
        judged = [judge.request_for(situation, utterance, response) for situation, utterance, response, _ in turns]
        yield _Asked(judge.llm, judge.stage, judged, judge.read, [judge.typical] * len(turns))
