"""What the model makes of the conversation: a rewritten query, a clarified utterance, a shorter history."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import pandas as pd

from ..arguments import at_least, one_of
from ..completions.texts import parse_passage, parse_rewrite
from ..conversations.frame import histories, with_columns, with_query
from ..llm_operator import LLMOperator
from ..llms import Request
from ..operator import with_fields

TEMPLATES = {"full": "rewrite", "short": "rewrite_short"}


class _OneQuery(LLMOperator):
    def parse(self, text: str) -> str | None:
        """The first line that is a query, without label and quotes."""
        return parse_rewrite(text) or None

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qrewrite`` and ``query``."""
        return with_query(with_columns(frame, qrewrite=found), found)


@with_fields
class Rewrite(_OneQuery):
    """Ask the model to rewrite the user's question as one self-contained query.

    Reads ``qid``, ``query`` and, where there are any, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qrewrite``,
    sets ``query`` to it and pushes the old query to ``query_0``. One call per turn. Source: Abbasiantaeb and
    Aliannejadi, Generate then Retrieve, Table 7 (QR). The fallback for a failed turn is the question itself.

    Args:
        llm: the model to ask.
        form: ``"full"``: a query that also holds what matters of the persona; ``"short"``: only the question, made
            clear, without the persona (Fu et al., NII@TREC iKAT 2024, appendix A1).
        style: see :class:`Answer`.
        question: see :class:`Answer`.
        prompts: see :class:`Answer`.
        on_error: see :class:`Answer`.

    Raises:
        UsageError: when an argument is unknown.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> len(ikat.Rewrite(ikat.llm("recorded:sample"))(topics)["qrewrite"])
        1
    """

    stage = "rewrite"
    schematic = {"label": "Rewrite"}

    form: str = "full"

    def __post_init__(self) -> None:
        one_of(TEMPLATES, form=self.form)
        super().__post_init__()

    def template(self) -> str:
        """The prompt of the form."""
        return TEMPLATES[self.form]


class Clarify(_OneQuery):
    """Ask the model to restate the utterance so that it is clear by itself, and make that the query.

    Reads ``qid``, ``query`` and, where there are any, ``qutterance``, ``qhistory``, ``qptkb``, ``qstatements``: the
    prompt shows the history and the chosen statements (the whole persona where the frame has no ``qstatements``).
    Writes ``qrewrite``, sets ``query`` to it and pushes the old query to ``query_0``. One call per turn. Source: De
    Lima and Yang, Passage Query Methods, section 4.2.1. The fallback for a failed turn is the question itself.

    Args:
        llm: the model to ask.
        style: see :class:`Answer`.
        question: see :class:`Answer`.
        prompts: see :class:`Answer`.
        on_error: see :class:`Answer`.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Clarify(ikat.llm("recorded:sample"))
        ikat.Clarify(ikat.llm('recorded:sample'))
    """

    stage = "clarify"
    schematic = {"label": "Clarify"}
    statements = "chosen"


Past = tuple[str, str]
"""A past response: the qid of its turn, its text."""


@with_fields
class Summarise(LLMOperator):
    """Replace long past responses in the history by the model's summaries.

    Reads ``qid``, ``query`` and, where there are any, ``qhistory``, ``qconversation``. Writes a new ``qhistory``; the
    histories of the input are not changed. The response just before the current turn stays as it is. One call per
    response of at least ``min_characters``, asked once however many later turns repeat it; it goes by the qid of its
    own turn, ``<conversation>_<turn>``, turns counted by the user's messages (without ``qconversation`` the row's qid
    takes its place). The fallback for a failed response is the response itself. Source: De Lima and Yang, Passage Query
    Methods, section 3.1 (1).

    Args:
        llm: the model to ask.
        min_characters: responses shorter than this stay as they are.
        prompts: a folder of your own prompt templates.
        on_error: see :class:`Answer`.

    Raises:
        UsageError: when ``min_characters`` is below 0.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> ikat.Summarise(ikat.llm("recorded:sample"), min_characters=200)
        ikat.Summarise(ikat.llm('recorded:sample'), min_characters=200)
    """

    stage = "summarise"
    schematic = {"label": "Summarise"}

    min_characters: int = 150
    style: str = field(default="gpt", init=False)
    question: str = field(default="qutterance", init=False)

    def __post_init__(self) -> None:
        at_least(0, min_characters=self.min_characters)
        super().__post_init__()

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per distinct past response that is long enough."""
        return [self.request(qid, {"response": text}, self.template()) for qid, text in self._distinct(frame)]

    def parse(self, text: str) -> str | None:
        """The summary on one line."""
        return parse_passage(text) or None

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The responses themselves."""
        return [text for _, text in self._distinct(frame)]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """The first quarter of each response."""
        return [text[: len(text) // 4 + 1] for text in self.fallback(frame)]

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
        return list(dict.fromkeys(past for row in self._rows(frame) for past in self._long(*row) if past is not None))

    def _long(self, history: Sequence[Mapping[str, str]], name: str) -> list[Past | None]:
        responses = [position for position, message in enumerate(history) if message["role"] != "user"]
        found: list[Past | None] = [None] * len(history)
        for position in responses[:-1]:
            text = history[position]["content"]
            if len(text) >= self.min_characters:
                turn = sum(message["role"] == "user" for message in history[:position])
                found[position] = (f"{name}_{turn}", text)
        return found
