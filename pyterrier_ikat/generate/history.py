"""Change the history or read hints out of a turn before its rewrite: summaries, an old topic, the last response, a guess, preferences."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import Any, NamedTuple

import pandas as pd

from ..completions.kinds import ANSWER, LINE, Kind
from ..completions.usable import usable_words
from ..conversations.frame import histories, values, with_columns
from ..llm_operator import LLMOperator
from ..llms import Request
from ..operator import with_fields
from .statements import AsksSome

History = list[dict[str, str]]
Past = tuple[str, str]
"""A past response: the qid of its turn, its text."""


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
        return [
            self.request(qid, {"response": text}, self.template())
            for qid, text in self._distinct(frame)
        ]

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The responses themselves."""
        return [text for _, text in self._distinct(frame)]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qhistory``."""
        summaries = dict(zip(self._distinct(frame), found, strict=True))
        shortened = [
            [
                message if past is None else {**message, "content": summaries[past]}
                for message, past in zip(history, self._long(history, name), strict=True)
            ]
            for history, name in self._rows(frame)
        ]
        return with_columns(frame, qhistory=shortened)

    def _rows(self, frame: pd.DataFrame) -> list[tuple[list[dict[str, str]], str]]:
        names = frame["qconversation" if "qconversation" in frame.columns else "qid"]
        return list(zip(histories(frame), names, strict=True))

    def _distinct(self, frame: pd.DataFrame) -> list[Past]:
        return list(
            dict.fromkeys(
                past for row in self._rows(frame) for past in self._long(*row) if past is not None
            )
        )

    def _long(self, history: Sequence[Mapping[str, str]], name: str) -> list[Past | None]:
        responses = [
            position for position, message in enumerate(history) if message["role"] != "user"
        ]
        found: list[Past | None] = [None] * len(history)
        for position in responses[:-1]:
            text = history[position]["content"]
            if len(text) >= self.min_characters:
                turn = sum(message["role"] == "user" for message in history[:position])
                found[position] = (f"{name}_{turn}", text)
        return found


_TOPIC = re.compile(r"\b(new|same|old|existing)(?:[ _-]?topic)?\b", re.IGNORECASE)
_NEGATED = re.compile(
    rf"(?:\b(?:not|no|never|cannot|neither|nor)\b|n['’]t\b)[^.;:,!?\n]*?{_TOPIC.pattern}",
    re.IGNORECASE,
)


def _is_new_topic(text: str) -> bool | None:
    """Whether the topic is new; ``None`` for a completion that says neither or both, or only what the topic is not."""
    words = usable_words(text)
    said = {name.casefold() == "new" for name in _TOPIC.findall(words)}
    return said.pop() if len(said) == 1 and not _NEGATED.search(words) else None


class Form(NamedTuple):
    """What an enhancement asks for.

    Attributes:
        label: its name in drawings.
        activity: its work in words.
        stage: its name in the ledger.
        template: its prompt.
        column: the column that it writes.
        kind: how its answer is read.
        words: how many words an answer typically has; 0: as many as the fallback.
        same_topic: whether no model is asked where a new topic begins.
    """

    label: str
    activity: str
    stage: str
    template: str
    column: str
    kind: Kind = LINE
    words: int = 0
    same_topic: bool = False


_RESPONSE = Form(
    "Expand response", "expanding the last response", "expand", "expand_response", "qhistory"
)
FORMS = {
    "topic": Form(
        "Topic switch",
        "looking for a new topic",
        "topic",
        "topic_switch",
        "qhistory",
        Kind(_is_new_topic),
    ),
    "response": _RESPONSE,
    "personal_response": _RESPONSE._replace(template="expand_response_personal", same_topic=True),
    "guess": Form(
        "Guess answer",
        "guessing an answer",
        "guess",
        "guess_answer",
        "qanswer",
        words=20,
        same_topic=True,
    ),
    "preferences": Form(
        "Preferences",
        "looking for preferences",
        "preferences",
        "preferences",
        "qpreferences",
        ANSWER,
        words=20,
    ),
    "summary": Form(
        "Summarise history",
        "summarising the conversation",
        "summarise_history",
        "summarise_history",
        "qsummary",
        words=60,
    ),
}


@with_fields
class Enhance(AsksSome):
    r"""Ask the model for what makes a turn easier to rewrite.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``,
    ``qnewtopic``. At most one call per turn. The model is not asked, and nothing changes, for a
    turn without a response in its history (``"preferences"``: without a persona). The histories of
    the input are not changed. Sources: Mo et al., CHIQ (arXiv 2406.05013), section 3.2; for
    ``"personal_response"``, ``"guess"`` and ``"preferences"`` the code of Chang et al., CFDA & CLIP
    at TREC iKAT 2025.

    ===================== ================
    ===================================================================== ==================== form
    writes           what                                                                  a failed
    turn has ===================== ================
    ===================================================================== ====================
    ``topic``             ``qhistory``     only the last turn of the history where the question
    begins a new     its history
                                           topic, which ``qnewtopic`` says
    ``response``          ``qhistory``     the last response in one self-contained sentence
    its response ``personal_response`` ``qhistory``     the same, with the persona; as it was where
    a new topic begins        its response ``guess``             ``qanswer``      a plausible answer
    of at most ``words`` words, as an example of the   an empty guess
                                           form of a relevant text; empty where a new topic begins
    ``preferences``       ``qpreferences`` the user's interests and preferences that could shape the search, in  an empty text
                                           words; ``Rewrite(form="personal")`` shows them
    ``summary``           ``qsummary``     one sentence for each turn of the history, which                      an empty summary
                                           ``Rewrite(form="enhanced")`` shows instead
    ===================== ================
    ===================================================================== ====================

    Args:
        llm: the model to ask.
        form: what is asked for, see the table.
        words: the word limit of a guess, named in the prompt.

    Raises:
        UsageError: when ``form`` is unknown, or ``words`` is below 1.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> llm, topics = ikat.llm("recorded:sample"), pt.get_dataset("ikat:sample").get_topics().head(3)
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
    choices = {"form": FORMS}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stage, self.activity = self._form.stage, self._form.activity  # type: ignore[misc]
        self.writes, self.typical_words = self._form.column, self._form.words

    @property
    def _form(
        self,
        # looked up, because an operator travels to other processes and the readers of its answers don't
    ) -> Form:
        return FORMS[self.form]

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """How its answer is read."""
        return FORMS[self.form].kind

    @property
    def schematic(self) -> dict[str, str]:
        """How it is drawn."""
        return {"label": self._form.label, "help_url": ""}

    def template(self) -> str:
        """The prompt of the form."""
        return self._form.template

    def asked(self, frame: pd.DataFrame) -> list[bool]:
        """Whether a row has a response (and its topic goes on); for preferences, whether it has a persona."""
        if self.form == "preferences":
            return super().asked(frame)
        rows = zip(histories(frame), values(frame, "qnewtopic", False), strict=True)
        return [
            _last_response(history) is not None and not (new and self._form.same_topic)
            for history, new in rows
        ]

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows, and the last ``response``."""
        return [
            {**row, "response": response}
            for row, response in zip(super().contexts(frame), self._responses(frame), strict=True)
        ]

    def fallback(self, frame: pd.DataFrame) -> list[Any]:
        """The same topic, the response itself, or nothing."""
        rows = self.rows_asked(frame)
        if self._form.column != "qhistory":
            return [""] * len(rows)
        return [False] * len(rows) if self.form == "topic" else self._responses(rows)

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set the form's column, and ``qnewtopic`` for ``"topic"``."""
        outcomes = self.by_row(frame, found)
        if self._form.column != "qhistory":
            return super().write(frame, [text or "" for text in outcomes])
        put, more = (
            (_last_turn, {"qnewtopic": map(bool, outcomes)})
            if self.form == "topic"
            else (_with_last_response, {})
        )
        rows = zip(histories(frame), outcomes, strict=True)
        return with_columns(
            frame,
            qhistory=[put(history, said) if said else history for history, said in rows],
            **more,
        )

    def _responses(self, frame: pd.DataFrame) -> list[str]:
        places = [(history, _last_response(history)) for history in histories(frame)]
        return ["" if place is None else history[place]["content"] for history, place in places]


def _last_response(history: History) -> int | None:
    """The position of the last message that is not the user's."""
    return next(
        (place for place in reversed(range(len(history))) if history[place]["role"] != "user"), None
    )


def _last_turn(history: History, new: bool) -> History:
    users = [place for place, message in enumerate(history) if message["role"] == "user"]
    return history[users[-1] :] if users else history


def _with_last_response(history: History, text: str) -> History:
    last = _last_response(history)
    return [
        {**message, "content": text} if place == last else message
        for place, message in enumerate(history)
    ]
