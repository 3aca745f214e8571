"""A shorter history: past responses of the assistant summed up."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..completions.texts import parse_passage
from ..conversations.frame import histories, with_columns
from ..errors import UsageError
from ..llm_operator import LLMOperator
from ..llms import LLM, Request

Past = tuple[str, str]
"""A past response: the qid of its turn, its text."""


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

    def __init__(self, llm: LLM, min_characters: int = 150, *, prompts: str | None = None, on_error: str | None = None) -> None:
        super().__init__()
        if min_characters < 0:
            raise UsageError(f"min_characters={min_characters}: give 0 or more")
        self.min_characters = min_characters
        self._set(llm, "gpt", "qutterance", prompts, on_error)

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per distinct past response that is long enough."""
        return [self.request(qid, {"response": text}) for qid, text in self._distinct(frame)]

    def owners(self, frame: pd.DataFrame) -> list[str]:
        """The turns whose responses are summed up."""
        return [qid for qid, _ in self._distinct(frame)]

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
