"""Who speaks for a simulated user, and who judges the responses: a language model, or a script with exact counts."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from ...completions.json_answers import json_values
from ...completions.usable import answer_text, without_reasoning
from ...errors import DataError, UsageError, advice, counted
from ...llm_operator import AsksLLM, as_llm
from ...llms import LLM, CutOff, Empty, Ledger, LLMFailure, OnlyReasoning, Request, Unfinished, llm
from ...llms.spec import deciding_options
from ...prompts import history_text
from .users import SimulatedUser

YES_NO = {"yes": True, "no": False}
TRIES = 2
"""How often a model is asked when its completion can't be used: the second time as another sample."""
UNUSABLE = (CutOff, Empty, OnlyReasoning, Unfinished)
"""Completions that came and can't be used, beside those that can't be read."""


@dataclass(frozen=True)
class Situation:
    """A session at one moment, as the simulated user sees it.

    Attributes:
        user: the user.
        system: the name of the system that the user talks to.
        turn: the number of the next or current turn, from 1.
        open: the rubrics that no response has answered so far, id -> question; with the track's policy the one that the user asks about.
        read: the conversation so far: the user's utterances, and the texts that the user read, as chat messages.
        after: with the track's policy, what happened to the rubric of the last turn.
    """

    user: SimulatedUser
    system: str
    turn: int
    open: Mapping[str, str]
    read: tuple[Mapping[str, str], ...] = ()
    after: str = ""

    @property
    def qid(self) -> str:
        """The id of the turn in the requests of the simulated user and the judge."""
        return f"{self.user.id}_{self.turn}"


@runtime_checkable
class Player(Protocol):
    """Speaks for the users. ``identity`` is a JSON value that changes when its behaviour does."""

    @property
    def identity(self) -> Any:
        """A JSON value that decides its utterances."""
        ...

    def say(self, situation: Situation) -> str:
        """The user's next utterance."""
        ...


@runtime_checkable
class RubricJudge(Protocol):
    """Decides which open rubrics a text answers. ``identity`` is a JSON value that changes when its behaviour does."""

    @property
    def identity(self) -> Any:
        """A JSON value that decides its verdicts."""
        ...

    def met(self, situation: Situation, utterance: str, text: str) -> Collection[str]:
        """The ids of the open rubrics that ``text``, the system's part of the turn, answers."""
        ...


@dataclass(eq=False, repr=False)
class _Plays(AsksLLM):
    """A language model in a part."""

    @property
    def identity(self) -> Any:
        """The model's."""
        return self.llm.fingerprint()

    def completed(self, request: Request, fault: Callable[[Any], str] = lambda found: "") -> Any:
        """The parsed completion; instead of one that can't be used, another sample, unless completions are replayed.

        Raises:
            LLMFailure: when there is none; of several the last one. Each is counted.
        """
        for sample in range(1 if self.llm.backend.replays else TRIES):
            found = self.ask([replace(request, sample=sample)])[0]
            if not isinstance(found, LLMFailure):
                if not (reason := fault(found)):
                    return found
                self.count(failures=1)
                found = LLMFailure(self.stage, request.qid, reason, kept=True)
            if not is_unusable(found):
                break
        raise found


def is_unusable(failure: LLMFailure) -> bool:
    """Whether a completion came that can't be used: empty, cut off or not readable. Another sample may be usable."""
    return failure.kept or isinstance(failure, UNUSABLE)


class LLMPlayer(_Plays):
    """A language model plays the users: it reads persona, need, open rubrics and the conversation, and writes the next utterance.

    Requests have the stage and the prompt ``simulate_user``, the qid ``<user id>_<turn>`` and the system's name as ``item``. The
    template is ``simulate_user.jinja``; vagueness and willingness each choose one of its sentences. A completion without an utterance is
    asked for once more, as another sample. A failed request fails the session, whatever the model's ``on_error``.

    Args:
        llm: the model.
        prompts: a folder of your own templates.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Which tea may I drink?" for chat in chats]
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> LLMPlayer(ikat.llm(Model())).say(Situation(user, "raw", 1, user.rubrics))
        'Which tea may I drink?'
    """

    stage = "simulate_user"

    def say(self, situation: Situation) -> str:
        """The user's next utterance.

        Raises:
            LLMFailure: when the model twice gave no utterance.
        """
        [request] = self.requests_in(situation)
        return str(self.completed(request))

    def requests_in(self, situation: Situation) -> list[Request]:
        """The request for the next utterance."""
        user = situation.user
        shown = {
            "persona": list(user.persona),
            "need": user.need,
            "rubrics": list(situation.open.values()),
            "vagueness": user.vagueness_level,
            "willingness": user.willingness_level,
            "context": history_text(situation.read),
        }
        return [self.request(situation.qid, shown, self.stage, item=situation.system)]

    def parse(self, text: str) -> str | None:
        """Read the utterance, without the role or the quotation marks that models put around it."""
        said = answer_text(text)
        if said is None:
            return None
        said = said.removeprefix("user:").removeprefix("User:").strip()
        quoted = len(said) > 2 and said[0] + said[-1] in ('""', "“”") and said[0] not in said[1:-1]
        return answer_text(said[1:-1] if quoted else said)


class LLMRubricJudge(_Plays):
    """A language model judges: it reads the user's utterance, the text that the user reads, and the open rubrics; not the conversation.

    All open rubrics are judged after each response, in one request. The completion has to be a JSON list of ``yes`` and ``no``, one
    for each rubric. Anything else counts as a failure, and the model is asked once more, for another sample. Requests have
    the stage and the prompt ``simulate_judge``, the qid ``<user id>_<turn>`` and the system's name as ``item``.

    Args:
        llm: the model.
        prompts: a folder of your own templates.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['["yes"]' for chat in chats]
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> LLMRubricJudge(ikat.llm(Model())).met(Situation(user, "raw", 1, user.rubrics), "Which tea?", "Rooibos has none.")
        ['r1']
    """

    stage = "simulate_judge"
    typical = '["yes", "no", "no"]'
    """Stands in for a completion in a plan."""

    def met(self, situation: Situation, utterance: str, text: str) -> list[str]:
        """The ids of the open rubrics that the text answers.

        Raises:
            LLMFailure: when the model twice gave no list of verdicts, or one of another length.
        """
        wanted = len(situation.open)
        verdicts = self.completed(
            self.request_for(situation, utterance, text),
            lambda found: "" if len(found) == wanted else f"{counted(len(found), 'verdict')} for {counted(wanted, 'rubric')}",
        )
        return [rubric for rubric, verdict in zip(situation.open, verdicts, strict=True) if verdict]

    def request_for(self, situation: Situation, utterance: str, text: str) -> Request:
        """The request about a response."""
        shown = {"question": utterance, "response": text, "rubrics": list(situation.open.values())}
        return self.request(situation.qid, shown, self.stage, item=situation.system)

    def parse(self, text: str) -> Any:
        """Read the verdicts; None unless the completion holds one list of ``yes`` and ``no``."""
        lists = [value for value in json_values(without_reasoning(text)) if isinstance(value, list)]
        if len(lists) != 1:
            return None
        words = [word.strip().casefold() if isinstance(word, str) else None for word in lists[0]]
        return [YES_NO[word] for word in words if word is not None] if words and all(word in YES_NO for word in words) else None

    def describe_unusable(self, text: str) -> str:
        """Another kind of text than was asked for."""
        return f'no JSON list of "yes" and "no" in the completion {text[:200]!r}'


@dataclass(frozen=True)
class ScriptedPlayer:
    """Says fixed utterances: those of the user's script, else the questions of the open rubrics in their order.

    Example:
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> ScriptedPlayer().say(Situation(user, "raw", 1, user.rubrics))
        'Which tea has no caffeine?'
    """

    identity: str = "scripted user"

    def say(self, situation: Situation) -> str:
        """The utterance of the turn.

        Raises:
            DataError: when the user's script is shorter than the conversation.
        """
        script = situation.user.script
        if script and situation.turn > len(script):
            raise DataError(
                f"user {situation.user.id} has a script of {counted(len(script), 'utterance')}, and turn "
                f"{situation.turn} needs another: lower the "
                "patience to the script's length"
            )
        return script[situation.turn - 1] if script else next(iter(situation.open.values()))


@dataclass(frozen=True)
class ScriptedJudge:
    """Takes a rubric as answered when the text contains one of its phrases, whatever the case; exact and free of cost.

    Args:
        phrases: user id -> rubric id -> phrase. A rubric without a phrase is never answered.

    Example:
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> judge = ScriptedJudge({"u1": {"r1": "rooibos"}})
        >>> judge.met(Situation(user, "raw", 1, user.rubrics), "Which tea?", "Rooibos has none.")
        ['r1']
    """

    phrases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def identity(self) -> Any:
        """The phrases."""
        return {"scripted judge": {user: dict(phrases) for user, phrases in self.phrases.items()}}

    def met(self, situation: Situation, utterance: str, text: str) -> list[str]:
        """The ids of the open rubrics whose phrase the text contains."""
        phrases, said = self.phrases.get(situation.user.id, {}), text.casefold()
        return [rubric for rubric in situation.open if rubric in phrases and phrases[rubric].casefold() in said]


def player_of(user_llm: Any, prompts: str | None, ledger: Ledger, speaks: type[LLMPlayer]) -> Player:
    """Who speaks for the users, see :func:`player_and_judge`."""
    return user_llm if isinstance(user_llm, Player) else speaks(_at_once(user_llm, "user_llm", ledger), prompts=prompts)


def player_and_judge(
    user_llm: Any, judge_llm: Any, prompts: str | None, ledger: Ledger, kinds: tuple[type[LLMPlayer], type[LLMRubricJudge]]
) -> tuple[Player, RubricJudge]:
    """Who speaks for the users, and who judges: the objects themselves where they have ``say`` and ``met``, else language models.

    Args:
        user_llm: see :func:`~pyterrier_ikat.live.simulation.simulate`.
        judge_llm: see there; None for the model that plays the users.
        prompts: a folder of the user's own templates.
        ledger: the account of models that are given as text.
        kinds: how a language model speaks, and how one judges.

    Raises:
        UsageError: when one is neither, a model answers in batches, or there is no judge.
    """
    speaks, decides = kinds
    player = player_of(user_llm, prompts, ledger, speaks)
    if judge_llm is None and not isinstance(player, LLMPlayer):
        judge = advice("judge_llm=...", "--judge-llm")
        raise UsageError(f"there is no judge of the rubrics, because no LLM plays the users: give {judge}")
    judges = player.llm if isinstance(player, LLMPlayer) and judge_llm is None else judge_llm
    return player, judges if isinstance(judges, RubricJudge) else decides(_at_once(judges, "judge_llm", ledger), prompts=prompts)


def _at_once(given: Any, argument: str, ledger: Ledger) -> LLM:
    if (model := llm(given, ledger=ledger) if isinstance(given, str) else as_llm(given)).batches:
        option = advice(f"{argument}=...", "--" + argument.replace("_", "-"))
        raise UsageError(f"{option}: a conversation can't wait a day for each turn: omit batch=on in the specification of the LLM")
    return model


def model_of(played: Player | RubricJudge) -> LLM | None:
    """The language model that plays or judges; None where there is none."""
    model = getattr(played, "llm", None)
    return model if isinstance(model, LLM) else None


def named(played: Player | RubricJudge) -> str:
    """Who plays or judges, for a reader: the model's specification without secrets and prices, or the object's repr."""
    if (model := model_of(played)) is None:
        return repr(played)
    try:
        return deciding_options(model.spec)
    except UsageError:  # the name of a user's object
        return model.spec
