"""Enhance the turn before its rewrite: a shorter history, a new topic, a guess, preferences."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from typing import Any, NamedTuple

import pandas as pd

from ..completions.kinds import ANSWER, LINE, Kind
from ..completions.texts import parse_new_topic
from ..conversations.frame import histories, values, with_columns
from ..llm_operator import LLMOperator
from ..llms import Request
from ..lost_columns import has_column
from ..operator import with_fields
from .statements import AsksSome

History = list[dict[str, str]]


class PastResponse(NamedTuple):
    """A response in the history, with the qid of its own turn."""

    qid: str
    text: str


@with_fields
class Summarise(LLMOperator):
    """Replace long past responses in the history by the model's summaries.

    Reads ``qid``, ``query`` and, if present, ``qhistory``, ``qconversation``. Writes a new
    ``qhistory``. The histories of the input are not changed. The response just before the current
    turn is kept unchanged. Each response of at least ``min_characters`` takes one call, even if
    many later turns repeat it. The request is identified by the qid of the response's own turn,
    ``<conversation>_<turn>``, where turns are counted by the user's messages (without
    ``qconversation``: by the qid of the row). The fallback for a failed response is the response
    itself. Source: De Lima and Yang, Passage Query Methods, section 3.1 (1).

    Args:
        llm: the model to ask.
        min_characters: responses shorter than this are kept unchanged.

    Raises:
        UsageError: when ``min_characters`` is below 0.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> ikat.generate.Summarise(ikat.llm("recorded:sample"), min_characters=200)
        ikat.generate.Summarise(ikat.llm('recorded:sample'), min_characters=200)
    """

    stage = "summarise"
    kind = LINE
    activity = "summarising earlier responses"
    typical_words = 40
    schematic = {"label": "Summarise"}
    least = {"min_characters": 0}

    min_characters: int = 150
    style: str = field(default="gpt", init=False)
    question: str = field(default="qutterance", init=False)

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per distinct past response that is long enough."""
        requests = []
        for response in self._distinct(frame):
            shown = {"response": response.text}
            requests.append(self.request(response.qid, shown, self.template()))
        return requests

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The responses themselves."""
        return [response.text for response in self._distinct(frame)]

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qhistory``."""
        summaries = dict(zip(self._distinct(frame), outcomes, strict=True))
        shortened = []
        for history, conversation in self._rows(frame):
            messages = list(history)
            for position, response in self._long_responses(history, conversation).items():
                messages[position] = {**history[position], "content": summaries[response]}
            shortened.append(messages)
        return with_columns(frame, qhistory=shortened)

    def _rows(self, frame: pd.DataFrame) -> list[tuple[History, str]]:
        """Return the history and the conversation of each row."""
        column = "qconversation" if has_column(frame, "qconversation") else "qid"
        return list(zip(histories(frame), frame[column], strict=True))

    def _distinct(self, frame: pd.DataFrame) -> list[PastResponse]:
        """Return the responses to summarise, each once."""
        responses: dict[PastResponse, None] = {}
        for history, conversation in self._rows(frame):
            responses.update(dict.fromkeys(self._long_responses(history, conversation).values()))
        return list(responses)

    def _long_responses(self, history: History, conversation: str) -> dict[int, PastResponse]:
        """Return the responses to summarise, by their position in the history."""
        last = _last_response(history)
        turn = 0
        responses = {}
        for position, message in enumerate(history):
            text = message["content"]
            if message["role"] == "user":
                turn += 1
            elif position != last and len(text) >= self.min_characters:
                responses[position] = PastResponse(f"{conversation}_{turn}", text)
        return responses


class Enhancement(NamedTuple):
    """What a form of :class:`Enhance` asks for.

    Attributes:
        label: its name in drawings.
        activity: its work in words.
        stage: its name in the ledger.
        template: its prompt.
        column: the column that it writes.
        kind: how its answer is read.
        words: how many words an answer typically has; 0: as many as the fallback.
        same_topic: whether the model is asked only where the topic continues.
    """

    label: str
    activity: str
    stage: str
    template: str
    column: str
    kind: Kind = LINE
    words: int = 0
    same_topic: bool = False


_RESPONSE = Enhancement(
    label="Expand response",
    activity="expanding the last response",
    stage="expand",
    template="expand_response",
    column="qhistory",
)
ENHANCEMENTS = {
    "topic": Enhancement(
        label="Topic switch",
        activity="looking for a new topic",
        stage="topic",
        template="topic_switch",
        column="qhistory",
        kind=Kind(parse_new_topic),
    ),
    "response": _RESPONSE,
    "personal_response": _RESPONSE._replace(template="expand_response_personal", same_topic=True),
    "guess": Enhancement(
        label="Guess answer",
        activity="guessing an answer",
        stage="guess",
        template="guess_answer",
        column="qanswer",
        words=20,
        same_topic=True,
    ),
    "preferences": Enhancement(
        label="Preferences",
        activity="looking for preferences",
        stage="preferences",
        template="preferences",
        column="qpreferences",
        kind=ANSWER,
        words=20,
    ),
    "summary": Enhancement(
        label="Summarise history",
        activity="summarising the conversation",
        stage="summarise_history",
        template="summarise_history",
        column="qsummary",
        words=60,
    ),
}
"""Form of :class:`Enhance` -> what it asks for."""


@with_fields
class Enhance(AsksSome):
    r"""Ask the model for what makes a turn easier to rewrite.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``,
    ``qnewtopic``. At most one call per turn. The model is not asked, and nothing changes, for a
    turn without a response in its history (``"preferences"``: without a persona). The histories of
    the input are not changed. Sources: Mo et al., CHIQ (arXiv 2406.05013), section 3.2; for
    ``"personal_response"``, ``"guess"`` and ``"preferences"`` the code of Chang et al., CFDA & CLIP
    at TREC iKAT 2025.

    - ``"topic"``: whether the question begins a new topic, which ``qnewtopic`` says. If it does,
      ``qhistory`` is only the last turn of the history. A failed turn keeps its history.
    - ``"response"``: the last response in one self-contained sentence, in ``qhistory``. A failed
      turn keeps its response.
    - ``"personal_response"``: the same, with the persona. Where a new topic begins, the response
      does not change.
    - ``"guess"``: a plausible answer of at most ``words`` words in ``qanswer``, as an example of
      the form of a relevant text. Empty where a new topic begins or the turn failed.
    - ``"preferences"``: the user's interests and preferences that could shape the search, in words,
      in ``qpreferences``; ``Rewrite(form="personal")`` shows them. Empty if the turn failed.
    - ``"summary"``: one sentence for each turn of the history, in ``qsummary``;
      ``Rewrite(form="enhanced")`` shows it instead of the history. Empty if the turn failed.

    Args:
        llm: the model to ask.
        form: what is asked for, see the list.
        words: the word limit of a guess, named in the prompt.

    Raises:
        UsageError: when ``form`` is unknown, or ``words`` is below 1.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> llm = ikat.llm("recorded:sample")
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(3)
        >>> [len(history) for history in ikat.generate.Enhance(llm, "topic")(topics)["qhistory"]]
        [0, 2, 4]
        >>> ikat.generate.Enhance(llm, "preferences")(topics)["qpreferences"][0]
        '- Walks with a dog\n- Travels by train'
    """

    form: str
    _: KW_ONLY
    words: int = 20

    shows = ("words",)
    least = {"words": 1}
    choices = {"form": ENHANCEMENTS}

    def __post_init__(self) -> None:
        super().__post_init__()
        enhancement = self._enhancement
        self.stage = enhancement.stage  # type: ignore[misc]
        self.activity = enhancement.activity  # type: ignore[misc]
        self.writes = enhancement.column
        self.typical_words = enhancement.words

    @property
    def _enhancement(self) -> Enhancement:
        # looked up each time: operators are pickled for other processes, and parsers can't be
        return ENHANCEMENTS[self.form]

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """How its answer is read."""
        return self._enhancement.kind

    @property
    def schematic(self) -> dict[str, str]:
        """How it is drawn."""
        return {"label": self._enhancement.label, "help_url": ""}

    def template(self) -> str:
        """The prompt of the form."""
        return self._enhancement.template

    def asked(self, frame: pd.DataFrame) -> list[bool]:
        """For each row, whether it has a response in its history, or for preferences a persona."""
        if self.form == "preferences":
            return super().asked(frame)
        asked = []
        new_topics = values(frame, "qnewtopic", False)
        for history, new_topic in zip(histories(frame), new_topics, strict=True):
            if new_topic and self._enhancement.same_topic:
                asked.append(False)
            else:
                asked.append(_last_response(history) is not None)
        return asked

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows, and the last ``response``."""
        shown = super().contexts(frame)
        for row, response in zip(shown, _last_texts(frame), strict=True):
            row["response"] = response
        return shown

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """The same topic, the response itself, or nothing."""
        rows = self.rows_asked(frame)
        if self.form == "topic":
            return [False] * len(rows)
        if self._enhancement.column == "qhistory":
            return _last_texts(rows)
        return [""] * len(rows)

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set the form's column, and ``qnewtopic`` for ``"topic"``."""
        answers = self.by_row(frame, outcomes)
        if self._enhancement.column != "qhistory":
            return super().write(frame, [text or "" for text in answers])
        changed = []
        for history, answer in zip(histories(frame), answers, strict=True):
            if answer and self.form == "topic":
                history = _last_turn(history)
            elif answer:
                history = _with_last_response(history, answer)
            changed.append(history)
        frame = with_columns(frame, qhistory=changed)
        if self.form == "topic":
            frame = with_columns(frame, qnewtopic=map(bool, answers))
        return frame


def _last_response(history: History) -> int | None:
    """Find the position of the last message that is not the user's."""
    for position in reversed(range(len(history))):
        if history[position]["role"] != "user":
            return position
    return None


def _last_texts(frame: pd.DataFrame) -> list[str]:
    """Return the last response of each row, empty without one."""
    texts = []
    for history in histories(frame):
        position = _last_response(history)
        texts.append("" if position is None else history[position]["content"])
    return texts


def _last_turn(history: History) -> History:
    """Return the history from the last message of the user on."""
    for position in reversed(range(len(history))):
        if history[position]["role"] == "user":
            return history[position:]
    return history


def _with_last_response(history: History, text: str) -> History:
    """Return the history with another text in its last response."""
    last = _last_response(history)
    messages = list(history)
    if last is not None:
        messages[last] = {**history[last], "content": text}
    return messages
