"""Read the retrieved passages: decide whether to answer, condense them, and write the response, or choose the best of several."""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..completions.citations import (
    CitedSentence,
    CitedText,
    count_words,
    cut_at_sentence,
    read_citations,
    sentences_in,
    while_written,
)
from ..completions.json_answers import TEXT, YES_NO, answer_in, json_values, list_of, object_of
from ..completions.kinds import ACTION, ANSWER, FINAL_ACTION, Kind
from ..completions.reasoning import without_reasoning
from ..completions.verdicts import ACTIONS
from ..conversations.frame import column, texts_in, turns_of, values, with_columns
from ..errors import DataError, UsageError, counted, list_first
from ..llm_operator import LLMOperator, as_long_as
from ..llms import Request
from ..operator import frame_for, with_fields
from ..order import places_by_rank
from ..planning import Plan
from ..prompts import render


class NoTextWarning(UserWarning):
    """Some of the best passages have an empty text, so the model isn't shown them."""


@with_fields
class ReadsPassages(LLMOperator):
    """Asks the LLM once per turn, shows the turn's best passages, and keeps the rows and the ranking of a result frame.

    A passage with an empty text is not shown. The next one takes its place, and a ``NoTextWarning``
    names it.
    """

    one_row_per_turn = False
    least = {"passages": 1}

    passages: int = 5

    def needs(self) -> list[str]:
        """Also the passages."""
        return [*super().needs(), "rank", "text"]

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """For each turn, the values that every prompt shows, and its ``passages``.

        Raises:
            DataError: when a passage has no text, or all passages of a turn have an empty one.
        """
        turns = frame.drop_duplicates("qid")
        used = frame[self.used(frame)].sort_values("rank", kind="stable")
        shown = dict[str, list[str]]()
        for qid, text in zip(used["qid"], texts_in(used, "text"), strict=True):
            shown.setdefault(qid, []).append(text)
        empty = [qid for qid in turns["qid"] if qid not in shown]
        if empty:
            what = f"all passages of {counted(len(empty), 'turn')} have an empty text ({list_first(empty)})"
            raise DataError(
                f"{what}: load the texts from the collection that was searched, or omit these turns"
            )
        return [
            {**row, "passages": shown[qid]}
            for row, qid in zip(super().contexts(turns), turns["qid"], strict=True)
        ]

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per turn, in the order in which they first occur."""
        return [
            self.request(qid, row, self.template())
            for qid, row in zip(frame["qid"].unique(), self.contexts(frame), strict=True)
        ]

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """One request per turn, with placeholders for the passages."""
        plan.ask(self, plan.passages(frame, self.passages))
        return frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Ask for every turn of a result frame."""
        pt.validate.result_frame(inp, extra_columns=self.needs(), context=self)
        turns_of(inp)
        return self.ask_and_write(inp)

    def per_row(self, frame: pd.DataFrame, of_turn: Mapping[str, Any]) -> pd.Series:
        """For each row the value of its turn."""
        return column([of_turn[qid] for qid in frame["qid"]], frame.index)

    def ask_and_write(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Ask for all turns, and tell of the best passages that have an empty text.

        Warns:
            NoTextWarning: when there are any.
        """
        best = places_by_rank(turns_of(frame), _ranks(frame)) < self.passages
        skipped = frame["docno"][best & _empty(frame)].unique()
        if len(skipped):
            what = f"{counted(len(skipped), 'passage')} with an empty text ({list_first(skipped)})"
            warnings.warn(
                f"{what}: the model is shown the next ones instead", NoTextWarning, stacklevel=2
            )
        return super().ask_and_write(frame)

    def used(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Which passages are shown."""
        empty = _empty(frame)
        places = places_by_rank(turns_of(frame), np.where(empty, np.inf, _ranks(frame)))
        return pd.Series((places < self.passages) & ~empty, index=frame.index)


def _empty(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which passages have an empty text. One without any is an error where the texts are read."""
    return np.array(
        [isinstance(text, str) and not text.strip() for text in frame["text"]], dtype=bool
    )


def _ranks(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """The rank of each passage.

    Raises:
        DataError: when one has none.
    """
    ranks: npt.NDArray[np.float64] = frame["rank"].to_numpy(dtype=np.float64, na_value=np.nan)
    without = np.flatnonzero(np.isnan(ranks))
    if len(without):
        where = frame["qid"].iloc[without[0]]
        raise DataError(
            f"a passage of turn {where} has no rank: rank the frame first with pt.model.add_ranks(frame)"
        )
    return ranks


@with_fields
class Decide(ReadsPassages):
    """Ask the model for an action, given each turn's best passages: answer, ask a clarifying question, or say that there is no answer.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text`` and, if present,
    ``qutterance``, ``qhistory``, ``qptkb``. Keeps rows and ranking. Writes ``qaction``
    (``"answer"``, ``"ask"`` or ``"abstain"``) and ``qaskback``, the clarifying question to the user
    if the action is ``"ask"``. A later :class:`Respond` calls its model only for turns whose action
    is ``"answer"``. One call per turn. The fallback for a failed turn is ``"answer"``. A turn
    without passages has no row in a result frame, so nothing is decided for it.

    The actions are those that turns of MTRAG (Katsis et al., TACL 2025) and MTRAG-UN (Rosenthal et
    al., 2026, arXiv 2602.23184) require. The prompt is ours.
    :func:`~pyterrier_ikat.evaluation.evaluate_actions` compares actions with labels.

    Args:
        llm: the model to ask.
        passages: how many of the best passages are shown.
        may_ask: whether the model may ask a clarifying question.

    Raises:
        UsageError: when ``passages`` is below 1.
        DataError: when a passage has no rank or qid, or a passage to be shown has no text.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, prompts):
        ...         said = '{"reason": "Nothing on prices.", "action": "abstain"}'
        ...         return [type("Reply", (), {"text": said}) for _ in prompts]
        >>> turn = ikat.conversation([{"role": "user", "content": "How dear is rooibos?"}])
        >>> found = turn.assign(docno="d1", text="Rooibos tea has no caffeine.", score=1.0, rank=0)
        >>> decided = ikat.generate.Decide(Model())(found)
        >>> decided["qaction"].item(), ikat.Respond(Model())(decided)["qanswer"].item()
        ('abstain', 'The collection has no answer to this.')
    """

    stage = "decide"
    activity = "deciding whether to answer"
    schematic = {"label": "Decide"}

    may_ask: bool = True

    def template(self) -> str:
        """The prompt with or without asking back."""
        return "decide" if self.may_ask else "decide_abstain"

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """An action, and the question to the user; asking only where it is allowed."""
        return ACTION if self.may_ask else FINAL_ACTION

    def fallback(self, frame: pd.DataFrame) -> list[tuple[str, str]]:
        """The action ``"answer"`` for every turn."""
        return [("answer", "")] * frame["qid"].nunique()

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qaction`` and ``qaskback``."""
        decided = self.per_row(frame, dict(zip(frame["qid"].unique(), found, strict=True)))
        return with_columns(
            frame,
            qaction=[action for action, _ in decided],
            qaskback=[question for _, question in decided],
        )


def told_instead(frame: pd.DataFrame, abstention: str) -> dict[str, str]:
    """The response of each turn whose ``qaction`` is not to answer: the clarifying question, or ``abstention``.

    Raises:
        DataError: naming the turn, when its action is unknown, or it is ``"ask"`` and there is no
            question.

    Example:
        >>> told_instead(pd.DataFrame({"qid": ["1_1", "1_2"], "qaction": ["answer", "abstain"]}), "There is no answer.")
        {'1_2': 'There is no answer.'}
    """
    turns = frame.drop_duplicates("qid")
    told = {}
    for qid, action, question in zip(
        turns["qid"], values(turns, "qaction", "answer"), values(turns, "qaskback", ""), strict=True
    ):
        if action not in ACTIONS:
            raise DataError(f"turn {qid}: qaction is {action!r}: give one of {', '.join(ACTIONS)}")
        if action == "ask" and not (isinstance(question, str) and question.strip()):
            raise DataError(f"turn {qid}: qaction is 'ask', but qaskback has no question: give one")
        if action != "answer":
            told[qid] = question if action == "ask" else abstention
    return told


@with_fields
class Condense(ReadsPassages):
    """Ask the model to summarise each turn's passages below the first ones. The first ones stay whole.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text`` and, if present,
    ``score``, ``qutterance``, ``qhistory``. Keeps rows and ranking. Writes ``qpassages``, a list of
    texts that ``Respond(form="condensed")`` shows: the first ``direct`` passages, then one summary
    for every ``chunk`` other passages, counted from the last (so the first summary may have fewer).
    Also writes ``used``: whether a passage is in this list. One call per summary. The fallback for
    a failed summary is the beginning of its passages. Source: the code of Chang et al., CFDA & CLIP
    at TREC iKAT 2025 (gyeozai/CFDA-TREC-iKAT2025 at 68884f9, ``ikat-offline``).

    Args:
        llm: the model to ask.
        passages: the maximum number of best passages that are read.
        direct: how many of them stay whole.
        chunk: the number of passages per summary.
        threshold: from the second passage on, passages are read until the first one that does not
            score above this value. ``None``: read all.
        words: the word limit of a summary in the prompt.

    Raises:
        UsageError: when ``passages``, ``chunk`` or ``words`` is below 1, or ``direct`` below 0.
        DataError: when a passage has no rank or qid, or a passage to be read has no text.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Two teas." for chat in chats]
        >>> found = pd.DataFrame({"qid": ["t"] * 3, "query": ["tea?"] * 3, "docno": ["a", "b", "c"], "rank": [0, 1, 2],
        ...     "text": ["Mint.", "Sage.", "Rooibos."]})
        >>> ikat.generate.Condense(ikat.llm(Model()), direct=1)(found)["qpassages"][0]
        ['Mint.', 'Two teas.']
    """

    stage = "condense"
    kind = ANSWER
    activity = "summing up passages"
    shows = ("words",)
    template_name = "condense_passages"
    schematic = {"label": "Condense"}
    least = {"passages": 1, "direct": 0, "chunk": 1, "words": 1}

    passages: int = 20
    _: KW_ONLY
    direct: int = 3
    chunk: int = 5
    threshold: float | None = None
    words: int = 250

    def __post_init__(self) -> None:
        super().__post_init__()
        self.typical_words = self.words

    def used(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Which passages are read."""
        first = super().used(frame)
        if self.threshold is None or "score" not in frame.columns:
            return first
        order = frame["rank"].astype(float).groupby(frame["qid"], sort=False).rank(method="first")
        low = frame["score"].le(self.threshold) & order.gt(1)
        stop = order.where(low).groupby(frame["qid"], sort=False).transform("min")
        return first & ~order.ge(stop)

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request for each summary, turn by turn."""
        return [
            self.request(qid, {**row, "passages": texts}, self.template(), str(number))
            for qid, row, number, texts in self._chunks(frame)
        ]

    def _chunks(
        self, frame: pd.DataFrame
    ) -> Iterator[tuple[str, dict[str, Any], int, Sequence[str]]]:
        for qid, row in zip(frame["qid"].unique(), self.contexts(frame), strict=True):
            rest = row["passages"][self.direct :]
            bounds = sorted({0, *range(len(rest) % self.chunk, len(rest), self.chunk), len(rest)})
            for number, (start, end) in enumerate(pairwise(bounds), 1):
                yield qid, row, number, rest[start:end]

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The beginning of the passages."""
        return [cut_at_sentence(" ".join(texts), self.words) for *_, texts in self._chunks(frame)]

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The requests for the maximum number of passages, and summaries of maximum length."""
        passages, before = plan.passages(frame, min(self.passages, plan.cut)), plan.fewer_passages
        plan.fewer_passages = before or self.threshold is not None
        shown = self._shown(passages, plan.ask(self, passages))
        plan.fewer_passages = before
        return frame.assign(qpassages=self.per_row(frame, shown))

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qpassages`` and ``used``."""
        shown = self._shown(frame, found) if len(frame) else {}
        return frame.assign(qpassages=self.per_row(frame, shown), used=self.used(frame))

    def _shown(self, frame: pd.DataFrame, found: Sequence[Any]) -> dict[str, list[str]]:
        """For each turn the first passages and the summaries."""
        shown = {
            qid: list(row["passages"][: self.direct])
            for qid, row in zip(frame["qid"].unique(), self.contexts(frame), strict=True)
        }
        for (qid, *_), text in zip(self._chunks(frame), found, strict=True):
            shown[qid].append(text)
        return shown


ABSTENTION = "The collection has no answer to this."
TEMPLATES = {
    "rag": "respond",
    "passages_only": "respond_passages_only",
    "suggested": "respond_suggested",
    "condensed": "respond",
}


@with_fields
class Respond(ReadsPassages):
    """Ask the model for a response based on each turn's best passages.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text`` and, if present,
    ``qutterance``, ``qhistory``, ``qptkb``. Keeps rows and ranking. Writes ``qanswer``, the
    response, and ``used``, whether the passage was shown to the model. One call per turn. A
    response of more than ``words`` words is cut at the end of a sentence
    (:func:`~pyterrier_ikat.completions.citations.cut_at_sentence`) and counted in the ledger as
    ``dropped``. The fallback for a failed turn is the beginning of its best passage, cut in the
    same way. A turn without passages has no row in a result frame, so the model is not asked for
    it; a run gives it ``abstention``. A passage with an empty text is not shown; the next one takes
    its place, and a ``NoTextWarning`` names it.

    With ``cite``, ``used`` says whether the passage is cited; where the response cites none,
    whether it was shown. ``qcitations`` then has for each sentence ``sentence``, ``docnos``, which
    it cites, and ``unknown``, numbers that no passage has, which count as ``dropped``, too.
    ``qanswer`` has no marks. See :mod:`pyterrier_ikat.completions.citations`.

    If the frame has ``qaction``, as :class:`Decide` writes it, the model is asked only for turns
    whose action is ``"answer"``. For ``"ask"`` the response is the question in ``qaskback``, for
    ``"abstain"`` it is ``abstention``; neither is based on a passage.

    Args:
        llm: the model to ask.
        passages: how many of the best passages are shown.
        words: the word limit, named in the prompt and enforced by cutting; TREC iKAT allows 250.
        form: ``"rag"``: summarise what the passages say about the question (Lupart et al.,
            IRLab@iKAT24, Table 3: 5 passages, 200 words; Fu et al., NII@TREC iKAT 2024, appendix
            A8); ``"passages_only"``: say only what the passages say (De Lima and Yang, Passage
            Query Methods, section 3.3.3: 3 passages); ``"suggested"``: follow the suggestion in
            ``qsuggestion``, in a friendly tone (Fu et al., appendix A4, second prompt: 5 passages,
            250 words); ``"condensed"``: as ``"rag"``, of the texts in ``qpassages``, which
            :class:`Condense` wrote with ``used``.
        statements: ``"all"``: show the whole persona; ``"chosen"``: only the statements in
            ``qstatements``.
        abstention: the response when there is no answer.
        passage_words: the maximum number of words shown of a passage, cut at the end of a sentence
            (the code of De Lima and Yang: 300); ``None``: the whole passage.
        cite: ask the model to cite its passages as ``[1]``. A chat, a server and an interactive run
            do so.

    Raises:
        UsageError: when ``passages``, ``words`` or ``passage_words`` is below 1, ``form`` or
            ``statements`` is unknown, or ``cite`` is given with the form ``"condensed"``, whose
            summaries are not of one passage.
        DataError: when a passage has no rank or qid, a passage to be shown has no text, all
            passages of a turn have an empty one, or a ``qaction`` is unknown.

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
    least = {"passages": 1, "words": 1, "passage_words": 1}
    choices = {"form": TEMPLATES}
    template_of = "form", TEMPLATES

    passages: int = 5
    words: int = 200
    form: str = "rag"
    statements: str = "all"
    abstention: str = ABSTENTION
    _: KW_ONLY
    passage_words: int | None = None
    cite: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cite and self.form == "condensed":
            raise UsageError(
                "cite: a summary of several passages can't be cited as one: take another form, or omit cite"
            )

    def templates(self) -> list[str]:
        """The prompt of the form, and the request for citations."""
        return [self.template(), *["respond_cite"] * self.cite]

    def message(self, template: str, values: dict[str, Any]) -> dict[str, str]:
        """The prompt; the request for citations is its end."""
        made = super().message(template, values)
        if self.cite:
            made["content"] += "\n\n" + render("respond_cite", self.style, self.prompts, **values)
        return made

    def abstains_with(self) -> str:
        """Return the response to a turn without passages."""
        return self.abstention

    def citing(self) -> "Respond | None":
        """With ``cite``; None for summaries, and for recorded completions, whose models were not asked for citations."""
        if self.form == "condensed" or self.llm.backend.replays:
            return None
        return type(self)(**{**self.arguments(), "cite": True})

    def needs(self) -> list[str]:
        """The passages too, and what is shown besides them."""
        return [*super().needs(), *(["qpassages", "used"] if self.form == "condensed" else [])]

    def columns_shown(self) -> dict[str, str]:
        """The outline, for the form that follows one."""
        return {"suggestion": "qsuggestion"} if self.form == "suggested" else {}

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """For each turn the values that every prompt shows, and its ``passages``."""
        shown = super().contexts(frame)
        if self.form == "condensed":
            summaries = frame.drop_duplicates("qid")["qpassages"]
            shown = [
                {**row, "passages": texts} for row, texts in zip(shown, summaries, strict=True)
            ]
        return [{**row, "passages": self._shown(row["passages"])} for row in shown]

    def used(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Which passages are shown, in full or in a summary."""
        return (
            frame["used"].astype(bool)
            if self.form == "condensed" and "used" in frame.columns
            else super().used(frame)
        )

    def _shown(self, passages: Sequence[str]) -> Sequence[str]:
        return (
            passages
            if self.passage_words is None
            else [cut_at_sentence(text, self.passage_words) for text in passages]
        )

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
        texts = [
            cut_at_sentence(shown["passages"][0].strip(), self.words)
            for shown in self.contexts(frame)
        ]
        return [
            CitedText(
                text, tuple(CitedSentence(one, (1,)) for one in sentences_in(text) if self.cite)
            )
            for text in texts
        ]

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """As many words as are allowed."""
        return [as_long_as(self.words, "")] * frame["qid"].nunique()

    def list_dropped(self, frame: pd.DataFrame, found: Sequence[Any]) -> list[str]:
        """Responses that are longer than the limit, and numbers that no passage has."""
        dropped = []
        for qid, cited in self._cited(frame, found).items():
            length = count_words(cited.text)
            dropped += [f"{counted(length - self.words, 'word')} too many in turn {qid}"] * (
                length > self.words
            )
            dropped += [
                f"[{number}] in turn {qid}, which no passage has" for number in cited.unknown
            ]
        return dropped

    def _cited(self, frame: pd.DataFrame, found: Sequence[CitedText]) -> dict[str, CitedText]:
        """For each turn the response; it may have had fewer passages than are shown at most."""
        shown = Counter(frame["qid"][self.used(frame)])
        return {
            qid: cited.among(shown[qid])
            for qid, cited in zip(frame["qid"].unique(), found, strict=True)
        }

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qanswer``, ``used`` and, with ``cite``, ``qcitations``; an answer that was there before becomes ``qdraft``."""
        cited = {qid: one.cut(self.words) for qid, one in self._cited(frame, found).items()}
        answers = {qid: one.text for qid, one in cited.items()}
        frame = self._with_draft(frame).assign(
            qanswer=self.per_row(frame, answers), used=self.used(frame)
        )
        return self._with_citations(frame, cited) if self.cite else frame

    def _with_citations(self, frame: pd.DataFrame, cited: Mapping[str, CitedText]) -> pd.DataFrame:
        """The frame with ``qcitations``, and only cited passages as used where there are any."""
        shown = (
            frame[frame["used"]]
            .sort_values("rank", kind="stable")
            .groupby("qid", sort=False)["docno"]
            .agg(list)
        )
        citations = {
            qid: [
                {
                    "sentence": one.text,
                    "docnos": [shown[qid][number - 1] for number in one.numbers],
                    "unknown": list(one.unknown),
                }
                for one in text.sentences
            ]
            for qid, text in cited.items()
        }
        named = {
            qid: {docno for one in entries for docno in one["docnos"]}
            for qid, entries in citations.items()
        }
        pairs = zip(frame["qid"], frame["docno"], frame["used"], strict=True)
        used = [bool(was) and (not named[qid] or docno in named[qid]) for qid, docno, was in pairs]
        return frame.assign(qcitations=self.per_row(frame, citations), used=used)

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
        made = self._with_draft(frame).assign(qanswer=self.per_row(frame, told), used=False)
        return made.assign(qcitations=column([None] * len(made), made.index)) if self.cite else made

    def _with_draft(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(qdraft=frame["qanswer"]) if "qanswer" in frame.columns else frame


CLAIMS = answer_in("claims", list_of(object_of(claim=TEXT, supported=YES_NO)))


def read_claims(text: str) -> list[dict[str, Any]] | None:
    """The claims in a completion; None if it doesn't have exactly one list of claims with a verdict each.

    Example:
        >>> read_claims('Here: {"claims": [{"claim": "Rooibos has no caffeine.", "supported": true}]}')
        [{'claim': 'Rooibos has no caffeine.', 'supported': True}]
        >>> read_claims("All claims are supported.") is None
        True
    """
    found = [
        said["claims"]
        for one in json_values(without_reasoning(text))
        if (said := CLAIMS.read(json.dumps(one)))
    ]
    return found[0] if len(found) == 1 else None


class BestResponse(ReadsPassages):
    """Let several responders answer from the same passages, and keep each turn's response that the passages support best.

    Reads a result frame like :class:`~pyterrier_ikat.Respond`, and gives the rows of the chosen
    responder, with all that it wrote, and ``qresponder``, its number from 0. A response's value is
    the share of its claims that the passages support, 0 without claims. This takes one call of the
    judge for each distinct response, none for turns whose responders agree. Of equal shares the
    longest response wins, then the first. A failed judgement counts as below 0.

    Source: Derunets et al., RaguTeam at SemEval-2026 Task 8 (arXiv 2605.04523), whose code
    (RaguTeam/ragu_mtrag_semeval at 4697c97) keeps the response with the highest faithfulness of
    RAGAS by GPT-4o-mini, and of equal ones the longest. RAGAS asks twice, for the claims and for
    their verdicts. We ask once, with a prompt of our own.

    Args:
        responders: operators or pipelines that keep the rows of a result frame and write
            ``qanswer``, such as ``ikat.Respond(llm)``.
        judge: the model that judges. A model that also responds may favour itself.
        passages: how many of the best passages the judge is shown.
        prompts: a folder of your own prompt templates (``best_response.jinja``).
        on_error: as for :class:`~pyterrier_ikat.Respond`.

    Raises:
        UsageError: when there are fewer than two responders.
        DataError: when a responder doesn't keep the rows, or writes no response.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Says:
        ...     def __init__(self, text):
        ...         self.text = text
        ...     def generate(self, chats):
        ...         return [self.text] * len(chats)
        >>> class Judge:
        ...     def generate(self, chats):
        ...         return ['{"claims": [{"claim": "?", "supported": %s}]}' % str("Green" not in str(chat)).lower() for chat in chats]
        >>> turn = ikat.conversation([{"role": "user", "content": "Which tea at night?"}])
        >>> found = turn.assign(docno="d1", text="Rooibos tea has no caffeine.", score=1.0, rank=0)
        >>> both = [ikat.Respond(ikat.llm(Says(text))) for text in ("Green tea, as it calms.", "Rooibos: no caffeine.")]
        >>> ikat.BestResponse(both, judge=ikat.llm(Judge()))(found)[["qanswer", "qresponder"]].values.tolist()
        [['Rooibos: no caffeine.', 1]]
    """

    stage = "best_response"
    activity = "choosing a response"
    schematic = {"label": "Best response", "inner_pipelines_mode": "linked"}
    kind = Kind(read_claims, CLAIMS)

    def __init__(
        self,
        responders: Sequence[Any],
        judge: Any,
        passages: int = 5,
        *,
        prompts: str | None = None,
        on_error: str | None = None,
    ) -> None:
        if len(responders) < 2:
            raise UsageError(
                "responders: give two or more, such as [ikat.Respond(one_llm), ikat.Respond(other_llm)]"
            )
        super().__init__(judge, passages, prompts=prompts, on_error=on_error)
        self.responders, self.judge = list(responders), self.llm

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request for each text in the ``qresponses`` of each turn."""
        return [
            self.request(qid, {**row, "response": text}, self.template(), str(number))
            for qid, row, number, text in self._each(frame)
        ]

    def _each(self, frame: pd.DataFrame) -> Iterator[tuple[str, dict[str, Any], int, str]]:
        turns = frame.drop_duplicates("qid")
        for qid, row, texts in zip(
            turns["qid"], self.contexts(frame), turns["qresponses"], strict=True
        ):
            yield from ((qid, row, number, text) for number, text in enumerate(texts, 1))

    def fallback(self, frame: pd.DataFrame) -> list[None]:
        """No claims are known."""
        return [None for _ in self._each(frame)]

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """Claims of the length of the responses."""
        return [[{"claim": text, "supported": True}] for *_, text in self._each(frame)]

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The requests of the responders, and one for each of their responses."""
        for responder in self.responders:
            plan.follow(responder, frame)
        texts = [f"{number} {as_long_as(150, '')}" for number, _ in enumerate(self.responders)]
        plan.ask(
            self, plan.passages(with_columns(frame, qresponses=[texts] * len(frame)), self.passages)
        )
        return frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Respond to every turn of a result frame."""
        pt.validate.result_frame(inp, extra_columns=self.needs(), context=self)
        turns_of(inp)
        made = [responder.transform(frame_for(responder, inp)) for responder in self.responders]
        for responder, frame in zip(self.responders, made, strict=True):
            if "qanswer" not in frame or not np.array_equal(
                frame[["qid", "docno"]].to_numpy(), inp[["qid", "docno"]].to_numpy()
            ):
                raise DataError(
                    f"{responder} doesn't keep the rows or writes no qanswer: give responders such as ikat.Respond(llm)"
                )
        texts = {
            qid: [frame["qanswer"].iloc[rows[0]] for frame in made]
            for qid, rows in inp.groupby("qid", sort=False).indices.items()
        }
        values = self._values(
            with_columns(inp, qresponses=[list(dict.fromkeys(texts[qid])) for qid in inp["qid"]])
        )
        best = {
            qid: max(
                (values.get((qid, text), 0.0), len(text), -place)
                for place, text in enumerate(texts[qid])
            )
            for qid in texts
        }
        chosen = np.array([-best[qid][-1] for qid in inp["qid"]], dtype=int)
        parts = [
            frame.reset_index(drop=True)[chosen == number]
            for number, frame in enumerate(made)
            if (chosen == number).any()
        ]
        return (
            (pd.concat(parts).sort_index() if parts else made[0])
            .set_axis(inp.index)
            .assign(qresponder=chosen)
        )

    def _values(self, frame: pd.DataFrame) -> dict[tuple[str, str], float]:
        """The share of supported claims, for each turn with several different responses and each of these."""
        several = frame[frame["qresponses"].map(len) > 1]
        found = self.settle(several, self.ask(self.requests(several))) if len(several) else []
        shares = [
            -1.0
            if claims is None
            else sum(one["supported"] for one in claims) / max(len(claims), 1)
            for claims in found
        ]
        return {
            (qid, text): share
            for (qid, _, _, text), share in zip(self._each(several), shares, strict=True)
        }
