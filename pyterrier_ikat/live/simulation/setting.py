"""Check a simulation before anything is asked: its systems, users, players and judge."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import UsageError, advice
from ...generate.samples import SamplesWarning
from ...llms import LLM, Ledger, llm
from ...llms.spec import deciding_options
from ...runs.samples import SAMPLE
from ...study.identity import checksums_of
from ...study.systems import System, Systems, distinct_models, methods_in, open_systems
from ..answering import HISTORY
from .players import Player, RubricJudge, as_judge, as_player
from .session import Rules
from .users import SimulatedUser, checksum, read_users

PASSAGES = 3
"""Passages that a user reads in place of a response that a system doesn't write."""

Users = str | Path | SimulatedUser | Iterable[SimulatedUser]


@dataclass
class Setting:
    """A simulation, all checked.

    Attributes:
        systems: the systems; each sample is one.
        users: the users.
        rules: the rules of all sessions.
        ledger: the account of the LLMs that were given as text.
    """

    systems: list[System]
    users: list[SimulatedUser]
    rules: Rules
    ledger: Ledger

    @property
    def runs(self) -> list[str]:
        """The names of the systems."""
        return [one.name for one in self.systems]


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
    least_one("samples", samples)
    least_one("history", history)
    if not 0 <= passages <= 5:
        raise UsageError(f"{advice(f'passages={passages}', f'--passages {passages}')}: give a number from 0 to 5")
    found, ledger = read_users(users), Ledger()
    methods = methods_in(systems)
    if samples_of := [one.name for one in methods if SAMPLE.fullmatch(one.name)]:
        raise UsageError(f"a system is named {samples_of[0]!r}, as a sample of another one: give it another name")
    opened = open_systems(methods, ledger, live=True, only_plan=only_plan, spare=("prompts",), **resources)
    prompts = opened[0].resources.prompts
    player, judge = _players(user_llm, judge_llm, None if prompts is None else str(prompts), ledger)
    rules = Rules(player, judge, passages, show_persona, history)
    if samples > 1:
        played = (getattr(one, "llm", None) for one in (player, judge))
        _warn_of_samples([*distinct_models(opened), *(one for one in played if isinstance(one, LLM))], samples)
    return Setting([replace(one, sample=number) for one in opened for number in range(1, samples + 1)], found, rules, ledger)


def named(played: Player | RubricJudge) -> str:
    """Who plays or judges, for a reader: the model's specification without secrets and prices, or the object's repr."""
    model = getattr(played, "llm", None)
    if not isinstance(model, LLM):
        return repr(played)
    try:
        return deciding_options(model.spec)
    except UsageError:  # the name of a user's object
        return model.spec


def least_one(name: str, number: int | None) -> None:
    """Check that a number isn't below 1.

    Raises:
        UsageError: when it is.
    """
    if number is not None and number < 1:
        raise UsageError(f"{advice(f'{name}={number}', f'--{name} {number}')}: give 1 or more")


def _players(user_llm: Any, judge_llm: Any, prompts: str | None, ledger: Ledger) -> tuple[Player, RubricJudge]:
    """Who speaks and who judges; models given as text count in the ledger of the simulation."""
    speaks = llm(user_llm, ledger=ledger) if isinstance(user_llm, str) else user_llm
    judges = llm(judge_llm, ledger=ledger) if isinstance(judge_llm, str) else judge_llm
    if judges is None and isinstance(speaks, Player):
        judge = advice("judge_llm=...", "--judge-llm")
        raise UsageError(f"there is no judge of the rubrics, because no LLM plays the users: give {judge}")
    player = as_player(speaks, prompts)
    return player, as_judge(player.llm if judges is None else judges, prompts)  # type: ignore[attr-defined]


def _warn_of_samples(models: Iterable[LLM], samples: int) -> None:
    reasons = {model: why for model in {id(one): one for one in models}.values() if (why := model.backend.repeats(samples))}
    if reasons:
        told = "; ".join(f"{model!r} has {why}" for model, why in reasons.items())
        warnings.warn(f"samples may be the same: {told}", SamplesWarning, stacklevel=4)


def header_of(setting: Setting, system: System) -> dict[str, Any]:
    """Everything that decides a run's conversations; the log refuses to continue one with other values."""
    rules = setting.rules
    return {
        "kind": "simulated",
        "system": system.method.name,
        "sample": system.sample,
        "users": len(setting.users),
        "users_sha256": checksum(setting.users),
        "user_llm": rules.player.identity,
        "judge_llm": rules.judge.identity,
        "passages": rules.passages,
        "show_persona": rules.show_persona,
        "history": rules.history,
        "recorded": system.replays,
        "recorded_parts": [part for part, one in (("users", rules.player), ("judge", rules.judge)) if _replays(one)],
        "players_prompts": checksums_of(rules.player) | checksums_of(rules.judge),
        **system.parameters(),
    }


def _replays(played: Any) -> bool:
    """Whether a player or judge is a language model that replays recorded completions."""
    model = getattr(played, "llm", None)
    return isinstance(model, LLM) and model.backend.replays
