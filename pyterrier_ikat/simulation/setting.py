"""Check a simulation before anything is asked: its systems, users, players and judge."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..chat.answering import HISTORY
from ..errors import UsageError, advice
from ..generate.samples import SamplesWarning
from ..llms import LLM, Ledger, llm
from ..llms.spec import deciding_options
from ..methods import Method
from ..operator import parts_of
from ..runs.samples import SAMPLE, sample_name
from ..study.identity import checksums_of, distinct_parts, parameters_of
from ..study.live import open_live_systems
from ..study.systems import Systems, methods_in
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
        methods: the systems as methods, by name.
        systems: their expressions.
        users: the users.
        rules: the rules of all sessions.
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
    methods = {entry.name: entry for entry in methods_in(systems)}
    if samples_of := [name for name in methods if SAMPLE.fullmatch(name)]:
        raise UsageError(f"a system is named {samples_of[0]!r}, as a sample of another one: give it another name")
    live = open_live_systems(list(methods.values()), ledger, only_plan=only_plan, asks=False, **resources)
    built = {name: one.system for name, one in live.items()}
    opened = next(iter(live.values())).resources
    prompts = None if opened.prompts is None else str(opened.prompts)
    player, judge = _players(user_llm, judge_llm, prompts, ledger)
    rules = Rules(player, judge, passages, show_persona, history)
    setting = Setting(methods, built, found, rules, samples, opened.prompts, ledger)
    _warn_of_samples(setting)
    return setting


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


def _warn_of_samples(setting: Setting) -> None:
    reasons = {} if setting.samples == 1 else {one: why for one in setting.llms() if (why := one.backend.repeats(setting.samples))}
    if reasons:
        told = "; ".join(f"{model!r} has {why}" for model, why in reasons.items())
        warnings.warn(f"samples may be the same: {told}", SamplesWarning, stacklevel=4)


def header_of(setting: Setting, run: str) -> dict[str, Any]:
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
        "players_prompts": checksums_of(rules.player) | checksums_of(rules.judge),
        **parameters_of(setting.systems[name]),
    }


def _replays(played: Any) -> bool:
    """Whether a player or judge is a language model that replays recorded completions."""
    model = getattr(played, "llm", None)
    return isinstance(model, LLM) and model.backend.replays
