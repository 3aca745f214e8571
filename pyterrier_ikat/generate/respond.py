"""The response to the user, written from the retrieved passages and cut at the end of a sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least, one_of
from ..completions.citations import CitedSentence, CitedText, count_words, cut_at_sentence, read_citations, sentences_in, while_written
from ..completions.kinds import ANSWER
from ..conversations.frame import column, turns_of
from ..errors import UsageError, counted
from ..llm_operator import as_long_as
from ..operator import with_fields
from ..prompts import render
from .decide import ReadsPassages, told_instead

ABSTENTION = "The collection has no answer to this."
TEMPLATES = {"rag": "respond", "passages_only": "respond_passages_only", "suggested": "respond_suggested", "condensed": "respond"}


@with_fields
class Respond(ReadsPassages):
    """Ask the model for a response based on each turn's best passages.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text`` and, if present, ``qutterance``, ``qhistory``, ``qptkb``.
    Keeps rows and ranking. Writes ``qanswer``, the response, and ``used``, whether the passage was shown to the model. One call per turn. A
    response of more than ``words`` words is cut at the end of a sentence (:func:`~pyterrier_ikat.completions.citations.cut_at_sentence`)
    and counted in the ledger as ``dropped``. The fallback for a failed turn is the beginning of its best passage, cut in the same way. A
    turn without passages has no row in a result frame, so the model is not asked for it.

    With ``cite``, ``used`` says whether the passage is cited; where the response cites none, whether it was shown. ``qcitations`` then has
    for each sentence ``sentence``, ``docnos``, which it cites, and ``unknown``, numbers that no passage has, which count as ``dropped``,
    too. ``qanswer`` has no marks. See :mod:`pyterrier_ikat.completions.citations`.

    If the frame has ``qaction``, as :class:`Decide` writes it, the model is asked only for turns whose action is ``"answer"``. For
    ``"ask"`` the response is the question in ``qaskback``, for ``"abstain"`` it is ``abstention``; neither is based on a passage.

    Args:
        llm: the model to ask.
        passages: how many of the best passages are shown.
        words: the word limit, named in the prompt and enforced by cutting; TREC iKAT allows 250.
        form: ``"rag"``: summarise what the passages say about the question (Lupart et al., IRLab@iKAT24, Table 3: 5 passages, 200 words; Fu
            et al., NII@TREC iKAT 2024, appendix A8); ``"passages_only"``: say only what the passages say (De Lima and Yang, Passage Query
            Methods, section 3.3.3: 3 passages); ``"suggested"``: follow the suggestion in ``qsuggestion``, in a friendly tone (Fu et al.,
            appendix A4, second prompt: 5 passages, 250 words); ``"condensed"``: as ``"rag"``, of the texts in ``qpassages``, which
            :class:`Condense` wrote with ``used``.
        statements: ``"all"``: show the whole persona; ``"chosen"``: only the statements in ``qstatements``.
        abstention: the response when there is no answer.
        passage_words: the maximum number of words shown of a passage, cut at the end of a sentence (the code of De Lima and Yang: 300);
            ``None``: the whole passage.
        cite: ask the model to cite its passages as ``[1]``. A chat, a server and an interactive run do so.

    Raises:
        UsageError: when ``passages``, ``words`` or ``passage_words`` is below 1, ``form`` or ``statements`` is unknown, or ``cite`` is
            given with the form ``"condensed"``, whose summaries are not of one passage.
        DataError: when a passage has no rank or qid, a passage to be shown has no text, or a ``qaction`` is unknown.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Respond(ikat.llm("recorded:sample"), passages=3, form="passages_only", statements="chosen")
        ikat.Respond(ikat.llm('recorded:sample'), passages=3, form='passages_only', statements='chosen')
    """

    stage = "respond"
    kind = ANSWER
    activity = "answering"
    shows = ("words",)
    schematic = {"label": "Respond"}

    passages: int = 5
    words: int = 200
    form: str = "rag"
    statements: str = "all"
    abstention: str = ABSTENTION
    _: KW_ONLY
    passage_words: int | None = None
    cite: bool = False

    def __post_init__(self) -> None:
        at_least(1, words=self.words, passage_words=self.passage_words)
        one_of(TEMPLATES, form=self.form)
        if self.cite and self.form == "condensed":
            raise UsageError("cite: a summary of several passages can't be cited as one: take another form, or omit cite")
        super().__post_init__()

    def template(self) -> str:
        """The prompt of the form."""
        return TEMPLATES[self.form]

    def templates(self) -> list[str]:
        """The prompt of the form, and the request for citations."""
        return [self.template(), *["respond_cite"] * self.cite]

    def message(self, template: str, values: dict[str, Any]) -> dict[str, str]:
        """The prompt; the request for citations is its end."""
        made = super().message(template, values)
        if self.cite:
            made["content"] += "\n\n" + render("respond_cite", self.style, self.prompts, **values)
        return made

    def citing(self) -> "Respond | None":
        """With ``cite``; None for summaries, and for recorded completions, whose models were not asked for citations."""
        if self.form == "condensed" or getattr(getattr(self.llm, "backend", None), "replays", False):
            return None
        return type(self)(**{**self.arguments(), "cite": True})

    def needs(self) -> list[str]:
        """The passages, and ``qstatements`` and ``qsuggestion`` where they are shown."""
        more = ["qstatements"] if self.statements == "chosen" else []
        return [*super().needs(), *more, *(["qpassages", "used"] if self.form == "condensed" else [])]

    def columns_shown(self) -> dict[str, str]:
        """The outline, for the form that follows one."""
        return {"suggestion": "qsuggestion"} if self.form == "suggested" else {}

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """For each turn the values that every prompt shows, and its ``passages``."""
        shown = super().contexts(frame)
        if self.form == "condensed":
            summaries = frame.drop_duplicates("qid")["qpassages"]
            shown = [{**row, "passages": texts} for row, texts in zip(shown, summaries, strict=True)]
        return [{**row, "passages": self._shown(row["passages"])} for row in shown]

    def used(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Which passages are shown, in full or in a summary."""
        return frame["used"].astype(bool) if self.form == "condensed" and "used" in frame.columns else super().used(frame)

    def _shown(self, passages: Sequence[str]) -> Sequence[str]:
        return passages if self.passage_words is None else [cut_at_sentence(text, self.passage_words) for text in passages]

    def parse(self, text: str) -> CitedText | None:
        """The text without a ``<think>`` block, and with ``cite`` without marks."""
        said = super().parse(text)
        if said is None or not self.cite:
            return None if said is None else CitedText(said)
        cited = read_citations(said, self.passages)
        return cited if cited.text else None

    def while_written(self, frame: pd.DataFrame) -> Callable[[str], str]:
        """The text as it is, or where it cites with the numbers of its finished sentences."""
        return partial(while_written, passages=int(self.used(frame).sum())) if self.cite else str

    def fallback(self, frame: pd.DataFrame) -> list[CitedText]:
        """The first sentences of each turn's best passage."""
        texts = [cut_at_sentence(shown["passages"][0].strip(), self.words) for shown in self.contexts(frame)]
        return [CitedText(text, tuple(CitedSentence(one, (1,)) for one in sentences_in(text) if self.cite)) for text in texts]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """As many words as are allowed."""
        return [as_long_as(self.words, "")] * frame["qid"].nunique()

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """Responses that are longer than the limit, and numbers that no passage has."""
        dropped = []
        for qid, cited in self._cited(frame, found).items():
            length = count_words(cited.text)
            dropped += [f"{counted(length - self.words, 'word')} too many in turn {qid}"] * (length > self.words)
            dropped += [f"[{number}] in turn {qid}, which no passage has" for number in cited.unknown]
        return dropped

    def _cited(self, frame: pd.DataFrame, found: Sequence[CitedText]) -> dict[str, CitedText]:
        """For each turn the response; it may have had fewer passages than are shown at most."""
        shown = frame.loc[self.used(frame), "qid"].value_counts()
        return {qid: cited.among(int(shown[qid])) for qid, cited in zip(frame["qid"].unique(), found, strict=True)}

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qanswer``, ``used`` and, with ``cite``, ``qcitations``; an answer that was there before becomes ``qdraft``."""
        cited = {qid: one.cut(self.words) for qid, one in self._cited(frame, found).items()}
        answers = column([cited[qid].text for qid in frame["qid"]], frame.index)
        frame = self._with_draft(frame).assign(qanswer=answers, used=self.used(frame))
        return self._with_citations(frame, cited) if self.cite else frame

    def _with_citations(self, frame: pd.DataFrame, cited: Mapping[str, CitedText]) -> pd.DataFrame:
        """The frame with ``qcitations``, and only cited passages as used where there are any."""
        shown = frame[frame["used"]].sort_values("rank", kind="stable").groupby("qid", sort=False)["docno"].agg(list)
        citations = {
            qid: [
                {"sentence": one.text, "docnos": [shown[qid][number - 1] for number in one.numbers], "unknown": list(one.unknown)}
                for one in text.sentences
            ]
            for qid, text in cited.items()
        }
        named = {qid: {docno for one in entries for docno in one["docnos"]} for qid, entries in citations.items()}
        pairs = zip(frame["qid"], frame["docno"], frame["used"], strict=True)
        used = [bool(was) and (not named[qid] or docno in named[qid]) for qid, docno, was in pairs]
        return frame.assign(qcitations=column([citations[qid] for qid in frame["qid"]], frame.index), used=used)

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
        made = self._with_draft(frame).assign(qanswer=column([told[qid] for qid in frame["qid"]], frame.index), used=False)
        return made.assign(qcitations=column([None] * len(made), made.index)) if self.cite else made

    def _with_draft(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(qdraft=frame["qanswer"]) if "qanswer" in frame.columns else frame
