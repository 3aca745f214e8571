"""Rewriting with an LLM: a rewritten query, a clarified utterance, or a shorter history."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import Any

import pandas as pd

from ..arguments import at_least, one_of
from ..completions.kinds import LINE, REWRITE, Kind
from ..completions.texts import parse_reasoned_rewrite, parse_rewrite_and_answer
from ..conversations.frame import histories, values, with_columns, with_query
from ..llm_operator import LLMOperator, as_long_as
from ..llms import Request
from ..operator import with_fields

TEMPLATES = {
    "full": "rewrite",
    "short": "rewrite_short",
    "clear": "rewrite_clear",
    "enhanced": "rewrite_enhanced",
    "personal": "rewrite_personal",
}


class _OneQuery(LLMOperator):
    kind = REWRITE

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qrewrite`` and ``query``."""
        return with_query(with_columns(frame, qrewrite=found), found)


@with_fields
class Rewrite(_OneQuery):
    """Ask the model to rewrite the user's question as one self-contained query.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qrewrite``, sets ``query`` to it and pushes
    the old query to ``query_0``. One call per turn. Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Table 7 (QR). The
    fallback for a failed turn is the question itself.

    Args:
        llm: the model to ask.
        form: ``"full"``: a query that also includes the relevant parts of the persona; ``"short"``: only the question, made self-contained,
            without the persona (Fu et al., NII@TREC iKAT 2024, appendix A1); ``"clear"``: the same, but the prompt shows the persona (code
            of Chang et al., CFDA & CLIP at TREC iKAT 2025); ``"enhanced"``: a query made from the question, a guess at its answer in
            ``qanswer`` and, instead of the history, its summary in ``qsummary`` if present (Mo et al., CHIQ, section 3.3); ``"personal"``:
            a query made from the question and the preferences in ``qpreferences``, where the prompt says that only the form of the guess
            counts, not its content (Chang et al.).
        style: ``"gpt"`` or ``"llama"``; both show all messages of the history (Generate then Retrieve, appendix A.3).

    Raises:
        UsageError: when an argument is unknown.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> len(ikat.Rewrite(ikat.llm("recorded:sample"))(topics)["qrewrite"])
        1
    """

    stage = "rewrite"
    activity = "rewriting"
    schematic = {"label": "Rewrite"}

    form: str = "full"

    def __post_init__(self) -> None:
        one_of(TEMPLATES, form=self.form)
        super().__post_init__()

    def template(self) -> str:
        """The prompt of the form."""
        return TEMPLATES[self.form]

    history_style = "gpt"
    """All messages: only the paper's prompts for answers and queries omit earlier responses."""

    def columns_shown(self) -> dict[str, str]:
        """The guess for the enhanced and the personal form, and the preferences for the personal one."""
        shown = {"enhanced": ("answer",), "personal": ("answer", "preferences")}.get(self.form, ())
        return {name: f"q{name}" for name in shown}

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The values that every prompt shows; for the enhanced form the summary instead of the history."""
        summaries = values(frame, "qsummary", "") if self.form == "enhanced" else [""] * len(frame)
        return [{**row, "context": text or row["context"]} for row, text in zip(super().contexts(frame), summaries, strict=True)]


@with_fields
class RewriteAndAnswer(LLMOperator):
    """Ask the model for a reason, a rewrite of the user's question and an answer, in one completion.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``. Writes ``qrewrite`` and ``qanswer``, sets ``query``
    to "<rewrite> <answer>" and pushes the old query to ``query_0``. One call per turn. Source: Mao et al., LLM4CS (arXiv 2303.06573),
    section 3.2: rewriting-and-response prompting (RAR) and, without the answer, rewriting prompting (REW), both with their chain of
    thought. Their prompts have four examples of CAsT 2022. Ours has none, and can show the persona. The fallback for a failed turn is the
    question, with an empty answer.

    Args:
        llm: the model to ask.
        answer: whether to ask for an answer. Otherwise ``qanswer`` is not written, and ``query`` is the rewrite.
        think: whether the model first names in one sentence the information missing from the question.
        persona: whether the prompt shows the persona.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> topics = pt.get_dataset("ikat:sample").get_topics().head(1)
        >>> both = ikat.RewriteAndAnswer(ikat.llm("recorded:sample"))(topics).iloc[0]
        >>> both["query"] == f"{both['qrewrite']} {both['qanswer']}"
        True
    """

    stage = "rewrite"
    kind = Kind(whole=True)
    shows = ("answer", "think")
    template_name = "rewrite_and_answer"
    activity = "rewriting"
    schematic = {"label": "Rewrite and answer"}

    answer: bool = True
    think: bool = True
    _: KW_ONLY
    persona: bool = True

    def personas(self, frame: pd.DataFrame) -> list[dict[str, str]]:
        """No statements if the persona is not shown."""
        return super().personas(frame) if self.persona else [{} for _ in range(len(frame))]

    def prompt_of(self, template: str) -> str:
        """Its name in recorded files ends in ``_without_persona`` if the persona is not shown."""
        return super().prompt_of(template) + "_without_persona" * (not self.persona)

    def parse(self, text: str) -> tuple[str, str] | None:
        """The rewrite and the answer, which is empty without ``answer``."""
        if self.answer:
            return parse_rewrite_and_answer(text)
        rewrite = parse_reasoned_rewrite(text)
        return (rewrite, "") if rewrite else None

    def fallback(self, frame: pd.DataFrame) -> list[tuple[str, str]]:
        """The question, and no answer."""
        return [(question, "") for question in self.questions(frame)]

    def typical(self, frame: pd.DataFrame) -> list[tuple[str, str]]:
        """The question as the rewrite, and repeated up to 60 words as the answer."""
        return [(question, as_long_as(60 * self.answer, question)) for question in self.questions(frame)]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qrewrite``, ``qanswer`` and ``query``."""
        rewrites, answers = [rewrite for rewrite, _ in found], [answer for _, answer in found]
        written = with_columns(frame, qrewrite=rewrites, **({"qanswer": answers} if self.answer else {}))
        return with_query(written, [f"{rewrite} {answer}".strip() for rewrite, answer in found])


@with_fields
class Clarify(_OneQuery):
    """Ask the model to restate the utterance so that it is self-contained, and make that the query.

    Reads ``qid``, ``query`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``, ``qstatements``. The prompt shows the history and the
    chosen statements (the whole persona if the frame has no ``qstatements``). Writes ``qrewrite``, sets ``query`` to it and pushes the old
    query to ``query_0``. One call per turn. Source: De Lima and Yang, Passage Query Methods, section 4.2.1. The fallback for a failed turn
    is the question itself.

    Args:
        llm: the model to ask.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Clarify(ikat.llm("recorded:sample"))
        ikat.Clarify(ikat.llm('recorded:sample'))
    """

    stage = "clarify"
    activity = "clarifying the question"
    schematic = {"label": "Clarify"}
    statements = "chosen"


Past = tuple[str, str]
"""A past response: the qid of its turn, its text."""


@with_fields
class Summarise(LLMOperator):
    """Replace long past responses in the history by the model's summaries.

    Reads ``qid``, ``query`` and, if present, ``qhistory``, ``qconversation``. Writes a new ``qhistory``. The histories of the input are not
    changed. The response just before the current turn is kept unchanged. Each response of at least ``min_characters`` takes one call, even
    if many later turns repeat it. The request is identified by the qid of the response's own turn, ``<conversation>_<turn>``, where turns
    are counted by the user's messages (without ``qconversation``: by the qid of the row). The fallback for a failed response is the
    response itself. Source: De Lima and Yang, Passage Query Methods, section 3.1 (1).

    Args:
        llm: the model to ask.
        min_characters: responses shorter than this are kept unchanged.

    Raises:
        UsageError: when ``min_characters`` is below 0.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> ikat.Summarise(ikat.llm("recorded:sample"), min_characters=200)
        ikat.Summarise(ikat.llm('recorded:sample'), min_characters=200)
    """

    stage = "summarise"
    kind = LINE
    activity = "summarising earlier responses"
    typical_words = 40
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
