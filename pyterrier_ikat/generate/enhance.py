"""Enhance the history before a rewrite: remove an old topic, restate the last response, guess the answer, summarise, find preferences."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

import pandas as pd

from ..arguments import at_least
from ..completions.kinds import ANSWER, LINE
from ..completions.usable import usable_words
from ..conversations.frame import histories, values, with_columns
from ..llm_operator import LLMOperator
from ..llms import Request
from ..operator import with_fields

History = list[dict[str, str]]

_TOPIC = re.compile(r"\b(new|same|old|existing)(?:[ _-]?topic)?\b", re.IGNORECASE)
_NEGATED = re.compile(rf"(?:\b(?:not|no|never|cannot|neither|nor)\b|n['’]t\b)[^.;:,!?\n]*?{_TOPIC.pattern}", re.IGNORECASE)


def _last_response(history: History) -> int | None:
    """The position of the last message that is not the user's."""
    return next((place for place in reversed(range(len(history))) if history[place]["role"] != "user"), None)


@with_fields
class _OfHistory(LLMOperator):
    """Asks the LLM only for rows whose history has a response. :meth:`put` writes the outcome of one row."""

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per row with a response in its history."""
        asked = zip(frame["qid"], self.contexts(frame), self.responses(frame), strict=True)
        return [self.request(qid, {**row, "response": response}, self.template()) for qid, row, response in asked if response is not None]

    def outcomes_by_row(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[Any]:
        """For each row its outcome; ``None`` if the LLM was not asked."""
        outcomes = iter(found)
        return [None if response is None else next(outcomes) for response in self.responses(frame)]

    def responses(self, frame: pd.DataFrame) -> list[str | None]:
        """The last response before each question; ``None`` if the LLM is not asked."""
        places = [(history, _last_response(history)) for history in histories(frame)]
        return [None if place is None else history[place]["content"] for history, place in places]


def _of_old_topic(frame: pd.DataFrame, responses: list[str | None]) -> list[str | None]:
    """The responses, without those before a new topic."""
    return [None if new else response for response, new in zip(responses, values(frame, "qnewtopic", False), strict=True)]


@with_fields
class TopicSwitch(_OfHistory):
    """Ask the model whether the question begins a new topic. If so, keep only the last turn of the history.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``. Writes a new ``qhistory``, and ``qnewtopic``: whether the model
    said that a new topic begins. The histories of the input are not changed. One call per turn that has a response in its history. Source:
    Mo et al., CHIQ (arXiv 2406.05013), section 3.2. The fallback for a failed turn is "same topic": its history stays.

    Args:
        llm: the model to ask.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(3)
        >>> [len(history) for history in ikat.TopicSwitch(ikat.llm("recorded:sample"))(topics)["qhistory"]]
        [0, 2, 4]
    """

    stage = "topic"
    activity = "looking for a new topic"
    schematic = {"label": "Topic switch"}

    def template(self) -> str:
        """The prompt."""
        return "topic_switch"

    def parse(self, text: str) -> bool | None:
        """Whether the topic is new; ``None`` for a completion that says neither or both, or only what the topic is not."""
        words = usable_words(text)
        said = {name.casefold() == "new" for name in _TOPIC.findall(words)}
        return said.pop() if len(said) == 1 and not _NEGATED.search(words) else None

    def fallback(self, frame: pd.DataFrame) -> list[bool]:
        """The same topic."""
        return [False for response in self.responses(frame) if response is not None]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qhistory`` and ``qnewtopic``."""
        new = [bool(outcome) for outcome in self.outcomes_by_row(frame, found)]
        rows = zip(histories(frame), new, strict=True)
        return with_columns(frame, qhistory=[_last_turn(history) if begins else history for history, begins in rows], qnewtopic=new)


def _last_turn(history: History) -> History:
    users = [place for place, message in enumerate(history) if message["role"] == "user"]
    return history[users[-1] :] if users else history


@with_fields
class ExpandResponse(_OfHistory):
    """Replace the last response in the history by one self-contained sentence written by the model.

    Reads ``qid``, ``query`` and, if present, ``qhistory``. Writes a new ``qhistory``. The histories of the input are not changed. One call
    per turn that has a response in its history. Source: Mo et al., CHIQ (arXiv 2406.05013), section 3.2. The fallback for a failed turn is
    the response itself.

    Args:
        llm: the model to ask.
        persona: whether the prompt also shows the persona. The response then stays unchanged if ``qnewtopic`` says that a new topic begins,
            as in the code of Chang et al., CFDA & CLIP at TREC iKAT 2025.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.ExpandResponse(ikat.llm("recorded:sample"))
        ikat.ExpandResponse(ikat.llm('recorded:sample'))
    """

    stage = "expand"
    kind = LINE
    activity = "expanding the last response"
    schematic = {"label": "Expand response"}

    persona: bool = False

    def template(self) -> str:
        """The prompt, with or without the persona."""
        return "expand_response_personal" if self.persona else "expand_response"

    def responses(self, frame: pd.DataFrame) -> list[str | None]:
        """As for the other operators; with the persona, no request if a new topic begins."""
        return _of_old_topic(frame, super().responses(frame)) if self.persona else super().responses(frame)

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The responses themselves."""
        return [response for response in self.responses(frame) if response is not None]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qhistory``."""
        rows = zip(histories(frame), self.outcomes_by_row(frame, found), strict=True)
        return with_columns(frame, qhistory=[history if text is None else _with_last_response(history, text) for history, text in rows])


def _with_last_response(history: History, text: str) -> History:
    last = _last_response(history)
    return [{**message, "content": text} if place == last else message for place, message in enumerate(history)]


@with_fields
class GuessAnswer(_OfHistory):
    """Ask the model to guess the answer in one plausible sentence, as an example of the form of a relevant text.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``, ``qnewtopic``. Writes ``qanswer``. It is empty,
    without a call, if the history has no response or a new topic begins. One call for each other turn. Source: Chang et al., CFDA & CLIP at
    TREC iKAT 2025, in their code (the pseudo response of CHIQ, of at most 20 words). The fallback for a failed turn is an empty guess.

    Args:
        llm: the model to ask.
        words: the word limit named in the prompt.

    Raises:
        UsageError: when ``words`` is below 1.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(2)
        >>> [bool(guess) for guess in ikat.GuessAnswer(ikat.llm("recorded:sample"))(topics)["qanswer"]]
        [False, True]
    """

    stage = "guess"
    kind = LINE
    activity = "guessing an answer"
    schematic = {"label": "Guess answer"}

    _: KW_ONLY
    words: int = 20

    def __post_init__(self) -> None:
        at_least(1, words=self.words)
        super().__post_init__()

    def template(self) -> str:
        """The prompt."""
        return "guess_answer"

    def responses(self, frame: pd.DataFrame) -> list[str | None]:
        """As for the other operators; no request if a new topic begins."""
        return _of_old_topic(frame, super().responses(frame))

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows, and ``words``."""
        return [{**row, "words": self.words} for row in super().contexts(frame)]

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """No guess."""
        return ["" for response in self.responses(frame) if response is not None]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """As many words as are allowed."""
        return [" ".join(["words"] * self.words) for _ in self.fallback(frame)]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qanswer``."""
        return with_columns(frame, qanswer=[guess or "" for guess in self.outcomes_by_row(frame, found)])


@with_fields
class Preferences(LLMOperator):
    r"""Ask the model to describe in its own words which of the user's interests and preferences could shape the search.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qpreferences``, a list in words, which the
    prompt of ``Rewrite(form="personal")`` shows. It is empty without a persona. One call per turn with a persona. Source: Chang et al.,
    CFDA & CLIP at TREC iKAT 2025, in their code. It asks about the clarified question: ``question="qrewrite"``. The fallback for a failed
    turn is an empty text.

    Args:
        llm: the model to ask.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> ikat.Preferences(ikat.llm("recorded:sample"))(topics)["qpreferences"].item()
        '- Walks with a dog\n- Travels by train'
    """

    stage = "preferences"
    kind = ANSWER
    activity = "looking for preferences"
    schematic = {"label": "Preferences"}

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per row that has a persona."""
        return super().requests(self._with_persona(frame))

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """No preference."""
        return [""] * len(self._with_persona(frame))

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """The first two statements."""
        return ["\n".join(list(ptkb.values())[:2]) for ptkb in self.personas(self._with_persona(frame))]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qpreferences``."""
        outcomes = iter(found)
        return with_columns(frame, qpreferences=[next(outcomes) if ptkb else "" for ptkb in self.personas(frame)])

    def _with_persona(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[[bool(ptkb) for ptkb in self.personas(frame)]]


@with_fields
class SummariseHistory(_OfHistory):
    """Ask the model to summarise the history, one sentence per turn. ``Rewrite(form="enhanced")`` shows the summary instead.

    Reads ``qid``, ``query`` and, if present, ``qhistory``. Writes ``qsummary``, empty if the history has no response. The history stays.
    One call per turn that has a response in its history. Source: Mo et al., CHIQ (arXiv 2406.05013), section 3.2. The fallback for a failed
    turn is an empty summary, so that the history itself is shown.

    Args:
        llm: the model to ask.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(2)
        >>> [bool(summary) for summary in ikat.SummariseHistory(ikat.llm("recorded:sample"))(topics)["qsummary"]]
        [False, True]
    """

    stage = "summarise_history"
    kind = LINE
    activity = "summarising the conversation"
    schematic = {"label": "Summarise history"}

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """No summary."""
        return ["" for response in self.responses(frame) if response is not None]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """A fifth of each history."""
        rows = zip(self.contexts(frame), self.responses(frame), strict=True)
        return [row["context"][: len(row["context"]) // 5 + 1] for row, response in rows if response is not None]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qsummary``."""
        return with_columns(frame, qsummary=[summary or "" for summary in self.outcomes_by_row(frame, found)])
