"""One session: a simulated user talks to one system until every rubric is met or the patience is used up."""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...errors import DataError
from ...events import hearing
from ...runs.answered_turn import Turn
from ...runs.log import Dialogue, Log
from ...study.systems import System
from ..answering import answer, spent
from .players import Player, RubricJudge, Situation
from .track_policy import TrackJudge, answered_at, next_rubric
from .users import SimulatedUser

SATISFIED, OUT_OF_PATIENCE, NO_QUESTION = "satisfied", "out of patience", "topic ended"
NEED, TRACK = "need", "track"
"""What decides what a user says next: need and open rubrics, until the patience is used up; or the track's policy."""
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
        by: :data:`NEED` or :data:`TRACK`.
    """

    player: Player
    judge: RubricJudge
    passages: int
    show_persona: bool
    history: int | None
    by: str = NEED


def play(
    user: SimulatedUser,
    system: System,
    rules: Rules,
    log: Log,
    *,
    go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Play a session to its end, turn by turn, from where the log has it.

    A turn is in the log once the system has answered and the judge has judged. The system gets the utterances, its own responses and, with
    ``show_persona``, the persona; never the need or a rubric.

    Args:
        user: the user.
        system: the system.
        rules: the rules.
        log: the log of the system's conversations.
        go_on: called before each turn; if it returns false, the session stops there, and can be continued.

    Raises:
        IkatError: when the user, the system or the judge fails; the finished turns are in the log.
    """
    if user.id not in log.known:
        log.begin(user.id, user.person, user.rubrics)
    known = log.known[user.id]
    while not (end := end_of(user, known, rules)):
        if not go_on():
            return
        log.append(_turn(user, system, rules, known))
    if known.end != end:
        log.end(user.id, end)


def situation_in(user: SimulatedUser, name: str, rules: Rules, known: Dialogue) -> Situation:
    """The situation in which the user says the next utterance."""
    left, after = {rubric: text for rubric, text in known.rubrics.items() if rubric not in known.met}, ""
    if rules.by == TRACK:
        rubric, after = next_rubric(known.rubrics, known.turns)
        left = {rubric: known.rubrics[rubric]}
    return Situation(user, name, len(known.turns) + 1, left, tuple(_read(known, rules.passages)), after)


def end_of(user: SimulatedUser, known: Dialogue, rules: Rules) -> str:
    """Why the session has ended; empty while it goes on."""
    if set(known.met) >= set(user.rubrics):
        return SATISFIED
    if rules.by == TRACK:
        return "" if next_rubric(user.rubrics, known.turns)[0] else NO_QUESTION
    return OUT_OF_PATIENCE if len(known.turns) >= user.patience else ""


def _turn(user: SimulatedUser, system: System, rules: Rules, known: Dialogue) -> Turn:
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
    kind, text = read_by_user(answered.response, [source.text for source in answered.sources], rules.passages)
    with hearing() as judged:
        met, about = _judged(rules, situation, utterance, text)
    return replace(
        answered,
        session=user.id,
        number=situation.turn,
        citations={one.docno: one.score or 0.0 for one in answered.sources} if answered.response else {},
        met=tuple(rubric for rubric in situation.open if rubric in met),
        more={**answered.more, "read": kind, "played": asdict(spent([*spoken, *judged])), **about},
        asked=(),
    )


def _judged(rules: Rules, situation: Situation, utterance: str, text: str) -> tuple[Collection[str], dict[str, Any]]:
    """The rubrics that the text answers, and with the track's policy the rubric of the turn and its grade."""
    about: dict[str, Any] = {"rubric": next(iter(situation.open))} if rules.by == TRACK else {}
    if not text:
        return (), about
    if isinstance(rules.judge, TrackJudge):
        grade = rules.judge.grade(situation, utterance, text)
        return answered_at(grade, situation), {**about, "grade": grade}
    return rules.judge.met(situation, utterance, text), about


def read_by_user(response: str, passages: list[str], most: int) -> tuple[str, str]:
    r"""The text that the user and the judge read in a turn, and its kind.

    Args:
        response: the system's response.
        passages: the texts of its best passages.
        most: how many of them are read where there is no response.

    Example:
        >>> read_by_user("Rooibos.", ["Rooibos has no caffeine."], 3)
        ('response', 'Rooibos.')
        >>> read_by_user("", ["Rooibos has no caffeine.", "Mate has some."], 1)
        ('passages', '[1] Rooibos has no caffeine.')
        >>> read_by_user("", [], 3)
        ('nothing', '')
    """
    if response.strip():
        return RESPONSE, response
    shown = [f"[{place}] {' '.join(text.split())}" for place, text in enumerate(passages[:most], 1) if text.strip()]
    return (PASSAGES, "\n".join(shown)) if shown else (NOTHING, "")


def _read(known: Dialogue, passages: int) -> list[dict[str, str]]:
    """The conversation as the user knows it."""
    said: list[dict[str, str]] = []
    for turn in known.turns:
        _, text = read_by_user(turn.response, [source.text for source in turn.sources], passages)
        said += [{"role": "user", "content": turn.utterance}, {"role": "assistant", "content": text or "(no answer)"}]
    return said


def _check_script(situation: Situation, utterance: str) -> None:
    script, turn = situation.user.script, situation.turn
    wanted = script[turn - 1] if turn <= len(script) else None
    if wanted is None or utterance.split() != wanted.split():
        answered = "nothing more" if wanted is None else f"only {wanted!r}"
        raise DataError(
            f"the completions of system {situation.system} are recorded, and in turn {situation.qid} they answer {answered}, not "
            f"{utterance!r}: choose a live LLM, or a simulated user that says the recorded utterances"
        )
