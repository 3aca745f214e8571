"""The response to the user, written from the retrieved passages and cut at the end of a sentence."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least, one_of
from ..completions.usable import answer_text
from ..conversations.frame import column, texts_in, turns_of
from ..operator import with_fields
from .decide import ReadsPassages, told_instead

_CLOSING = r"(?:\[\d+(?:\s*[,–-]\s*\d+)*\]|[\"'”’»)\]*])*"
_END = re.compile(rf"[.!?…]+{_CLOSING}(?=\s+[^\sa-z]|\s*$)|[。！？]+[」』”]*|(?=\n)")
_LIST_NUMBER = r"(?:^|[.!?:]\s|\n\s*)\d{1,2}"
_SHORTENED = re.compile(rf"(?:\b(?:dr|mr|mrs|ms|prof|st|vs|ca|cf|approx|e\.g|i\.e)|\b[a-z]|{_LIST_NUMBER})\.$", re.IGNORECASE)


def count_words(text: str) -> int:
    """The number of words, as TREC iKAT's checker of 2025 counts them: between white space, after NFKC normalisation.

    Example:
        >>> count_words("Two words")
        2
    """
    return len(unicodedata.normalize("NFKC", text).split())


def cut_at_sentence(text: str, words: int) -> str:
    """The longest beginning of ``text`` that ends where a sentence or a line ends and has at most ``words`` words.

    A text within the limit is returned unchanged. If the first sentence alone exceeds the limit, its first ``words`` words are returned.

    Args:
        text: any text.
        words: the most words to keep, as :func:`count_words` counts them.

    Example:
        >>> cut_at_sentence("Oats are cheap. They keep well. Everybody has some.", 7)
        'Oats are cheap. They keep well.'
    """
    if count_words(text) <= words:
        return text
    whole = [part for part in whole_sentences(text) if count_words(part) <= words]
    return whole[-1] if whole else _first_words(text, words)


def whole_sentences(text: str) -> list[str]:
    """The beginnings of ``text`` that end where a sentence or a line ends, from the shortest.

    Example:
        >>> whole_sentences("Oats keep well, e.g. in a jar. They are cheap.")
        ['Oats keep well, e.g. in a jar.', 'Oats keep well, e.g. in a jar. They are cheap.']
    """
    ends = [text[: found.end()].rstrip() for found in _END.finditer(text)]
    return [part for part in ends if part.strip() and not _SHORTENED.search(part)]


def _first_words(text: str, words: int) -> str:
    kept = ""
    for found in re.finditer(r"\S+", text):
        if count_words(text[: found.end()]) > words:
            break
        kept = text[: found.end()]
    return kept.strip()


ABSTENTION = "The collection has no answer to this."
TEMPLATES = {"rag": "respond", "passages_only": "respond_passages_only", "suggested": "respond_suggested", "condensed": "respond"}


@with_fields
class Respond(ReadsPassages):
    """Ask the model for a response based on each turn's best passages.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text`` and, where there are any, ``qutterance``, ``qhistory``,
    ``qptkb``. Keeps rows and ranking. Writes ``qanswer``, the response, and ``used``, whether the passage was shown to the model. One
    call per turn. A response of more than ``words`` words is cut at the end of a sentence
    (:func:`~pyterrier_ikat.generate.respond.cut_at_sentence`) and counted in the ledger as ``dropped``. The fallback for a failed turn is
    the beginning of its best passage, cut in the same way. A turn without passages has no row in a result frame, so the model is not
    asked for it.

    If the frame has ``qaction``, as :class:`Decide` writes it, the model is asked only for turns whose action is ``"answer"``. For
    ``"ask"`` the response is the question in ``qaskback``, for ``"abstain"`` it is ``abstention``; neither is based on a passage.

    Args:
        llm: the model to ask.
        passages: how many of the best passages are shown.
        words: the word limit, named in the prompt and enforced by cutting; TREC iKAT allows 250.
        form: ``"rag"``: sum up what the passages say about the question (Lupart et al., IRLab@iKAT24, Table 3: 5
            passages, 200 words; Fu et al., NII@TREC iKAT 2024, appendix A8); ``"passages_only"``: say nothing that they
            do not say (De Lima and Yang, Passage Query Methods, section 3.3.3: 3 passages); ``"suggested"``: follow the
            suggestion in ``qsuggestion``, in a friendly tone (Fu et al., appendix A4, second prompt: 5 passages, 250
            words); ``"condensed"``: as ``"rag"``, of the texts in ``qpassages``, which :class:`Condense` wrote with ``used``.
        statements: ``"all"``: show the whole persona; ``"chosen"``: only the statements in ``qstatements``.
        abstention: the response when there is no answer.
        passage_words: the most words of a passage that are shown, cut at the end of a sentence (the code of De Lima and Yang: 300);
            ``None``: the whole passage.

    Raises:
        UsageError: when ``passages``, ``words`` or ``passage_words`` is below 1, or ``form`` or ``statements`` is unknown.
        DataError: when a passage has no rank or qid, a passage to be shown has no text, or a ``qaction`` is unknown.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Respond(ikat.llm("recorded:sample"), passages=3, form="passages_only", statements="chosen")
        ikat.Respond(ikat.llm('recorded:sample'), passages=3, form='passages_only', statements='chosen')
    """

    stage = "respond"
    keeps_text = True
    activity = "answering"
    schematic = {"label": "Respond"}

    passages: int = 5
    words: int = 200
    form: str = "rag"
    statements: str = "all"
    abstention: str = ABSTENTION
    _: KW_ONLY
    passage_words: int | None = None

    def __post_init__(self) -> None:
        at_least(1, words=self.words, passage_words=self.passage_words)
        one_of(TEMPLATES, form=self.form)
        super().__post_init__()

    def template(self) -> str:
        """The prompt of the form."""
        return TEMPLATES[self.form]

    def needs(self) -> list[str]:
        """The passages, and ``qstatements`` and ``qsuggestion`` where they are shown."""
        columns = super().needs()
        columns += ["qstatements"] if self.statements == "chosen" else []
        return columns + {"suggested": ["qsuggestion"], "condensed": ["qpassages", "used"]}.get(self.form, [])

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """For each turn the values that every prompt shows, its ``passages``, ``words`` and ``suggestion``."""
        turns = frame.drop_duplicates("qid")
        suggestions = texts_in(turns, "qsuggestion") if self.form == "suggested" else [""] * len(turns)
        shown = super().contexts(frame)
        if self.form == "condensed":
            shown = [{**row, "passages": texts} for row, texts in zip(shown, turns["qpassages"], strict=True)]
        rows = zip(shown, suggestions, strict=True)
        return [
            {**row, "passages": self._shown(row["passages"]), "words": self.words, "suggestion": suggestion} for row, suggestion in rows
        ]

    def used(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Which passages are shown, be it in a summary."""
        return frame["used"].astype(bool) if self.form == "condensed" and "used" in frame.columns else super().used(frame)

    def _shown(self, passages: Sequence[str]) -> Sequence[str]:
        return passages if self.passage_words is None else [cut_at_sentence(text, self.passage_words) for text in passages]

    def parse(self, text: str) -> str | None:
        """The text without a ``<think>`` block."""
        return answer_text(text)

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The first sentences of each turn's best passage."""
        return [cut_at_sentence(shown["passages"][0].strip(), self.words) for shown in self.contexts(frame)]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """As many words as are allowed."""
        return [" ".join(["words"] * self.words)] * len(frame["qid"].unique())

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """Responses that are longer than the limit."""
        lengths = zip(frame["qid"].unique(), map(count_words, found), strict=True)
        return [f"{length - self.words} words too many in turn {qid}" for qid, length in lengths if length > self.words]

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qanswer`` and ``used``; an answer that was there before becomes ``qdraft``."""
        frame = self._with_draft(frame)
        answers = {qid: cut_at_sentence(text, self.words) for qid, text in zip(frame["qid"].unique(), found, strict=True)}
        return frame.assign(qanswer=column([answers[qid] for qid in frame["qid"]], frame.index), used=self.used(frame))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Respond to every turn of a result frame."""
        pt.validate.result_frame(inp, extra_columns=self.needs(), context=self)
        turns_of(inp)
        instead = told_instead(inp, self.abstention)
        told = inp["qid"].isin(instead).to_numpy()
        if not told.any():
            return self.ask_and_write(inp)
        both = pd.concat([self.ask_and_write(inp[~told]), self._tell(inp[told], instead)])
        return both.iloc[np.argsort(np.concatenate([np.flatnonzero(~told), np.flatnonzero(told)]))]

    def _tell(self, frame: pd.DataFrame, told: Mapping[str, str]) -> pd.DataFrame:
        return self._with_draft(frame).assign(qanswer=column([told[qid] for qid in frame["qid"]], frame.index), used=False)

    def _with_draft(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(qdraft=frame["qanswer"]) if "qanswer" in frame.columns else frame
