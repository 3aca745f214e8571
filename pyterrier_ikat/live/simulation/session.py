"""One turn of a session: a simulated user speaks, a system answers, a judge judges."""

from dataclasses import asdict, dataclass, replace

from ...errors import DataError
from ...events import hearing
from ...runs.answered_turn import Turn
from ...runs.log import Dialogue
from ...study.systems import System
from ..answering import HISTORY, answer, spent
from .players import NEED, TRACK, Player, RubricJudge, Situation, next_rubric
from .users import SimulatedUser

MOST_PASSAGES = 3
"""Passages that a user reads in place of a response that a system doesn't write."""
RESPONSE, PASSAGES, NOTHING = "response", "passages", "nothing"
"""The kinds of text that a user and the judge read in a turn."""


@dataclass(frozen=True)
class Rules:
    """The rules that are the same in all sessions of a simulation.

    Attributes:
        player: speaks for the users.
        judge: decides which rubrics a text answers.
        passages: how many passages a user reads in place of a response that the system doesn't write; 0 for none.
        show_persona: whether systems get the persona as the user's PTKB.
        history: the most tokens of history that a system sees; None for no limit.
        by: what decides what a user says, ``"need"`` or ``"track"``.
    """

    player: Player
    judge: RubricJudge
    passages: int = MOST_PASSAGES
    show_persona: bool = False
    history: int | None = HISTORY
    by: str = NEED


def end_of(user: SimulatedUser, known: Dialogue, by: str) -> str:
    """Why a session has ended; empty while it goes on."""
    if set(known.met) >= set(user.rubrics):
        return "satisfied"
    if by == TRACK:
        return "" if next_rubric(user.rubrics, known.turns)[0] else "topic ended"
    return "out of patience" if len(known.turns) >= user.turns else ""


def situation_in(user: SimulatedUser, name: str, rules: Rules, known: Dialogue) -> Situation:
    """The situation in which the user says the next utterance to the system of this name."""
    left, after, said = {rubric: text for rubric, text in user.rubrics.items() if rubric not in known.met}, "", list[dict[str, str]]()
    if rules.by == TRACK:
        rubric, after = next_rubric(user.rubrics, known.turns)
        left = {rubric: user.rubrics[rubric]}
    for turn in known.turns:
        said += [{"role": "user", "content": turn.utterance}, {"role": "assistant", "content": read_by_user(turn, rules) or "(no answer)"}]
    return Situation(user, name, len(known.turns) + 1, left, tuple(said), after)


def read_by_user(turn: Turn, rules: Rules) -> str:
    """The text that user and judge read in a turn: the response, or the best passages of a system that writes none."""
    if turn.response.strip():
        return turn.response
    texts = [" ".join(source.text.split()) for source in turn.sources[: rules.passages]]
    return "\n".join(f"[{place}] {text}" for place, text in enumerate(texts, 1) if text)


def play_turn(user: SimulatedUser, system: System, rules: Rules, known: Dialogue) -> Turn:
    """The next turn: the user speaks, the system answers, the judge judges.

    The system gets the utterances, its own responses and, with ``show_persona``, the persona; never the need or a rubric.

    Raises:
        IkatError: when one of them fails.
    """
    situation = situation_in(user, system.method.name, rules, known)
    with hearing() as spoken:
        utterance = " ".join(rules.player.say(situation).split())
    if not utterance:
        raise DataError(f"the simulated user said nothing in turn {situation.qid}: let `say` return a text")
    if system.replays and user.script:
        _check_script(situation, utterance)
    said = [*known.messages, {"role": "user", "content": utterance}]
    persona = list(user.persona) if rules.show_persona else None
    answered = answer(system, said, persona, number=user.topic, history=rules.history)
    text = read_by_user(answered, rules)
    with hearing() as judged:
        met = rules.judge.met(situation, utterance, text) if text else ()
    read = RESPONSE if answered.response.strip() else PASSAGES if text else NOTHING
    about = {"rubric": next(iter(situation.open))} if rules.by == TRACK else {}
    return replace(
        answered,
        session=user.id,
        number=situation.turn,
        citations={one.docno: one.score or 0.0 for one in answered.sources} if answered.response else {},
        met=tuple(rubric for rubric in situation.open if rubric in met),
        more={**answered.more, "read": read, "played": asdict(spent([*spoken, *judged])), **about},
        asked=(),
    )


def _check_script(situation: Situation, utterance: str) -> None:
    """Recorded completions answer the recorded words alone; under other words they would be scored as answers to these."""
    script, turn = situation.user.script, situation.turn
    wanted = script[turn - 1] if turn <= len(script) else None
    if wanted is None or utterance.split() != wanted.split():
        answered = "nothing more" if wanted is None else f"only {wanted!r}"
        raise DataError(
            f"the completions of system {situation.system} are recorded, and in turn {situation.qid} they answer {answered}, not "
            f"{utterance!r}: choose a live LLM, or a simulated user that says the recorded utterances"
        )
