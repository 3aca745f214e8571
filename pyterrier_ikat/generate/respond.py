"""Operators that read passages: decide whether to answer, condense, respond, choose the best."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
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
    unfinished,
    while_written,
)
from ..completions.kinds import ACTION, ANSWER, FINAL_ACTION, Kind
from ..completions.verdicts import ACTIONS, CLAIMS, read_claims
from ..conversations.frame import column, texts_in, turns_of, values, with_columns
from ..errors import DataError, UsageError, counted, list_first
from ..events import shortened
from ..llm_operator import LLMOperator, as_long_as
from ..llms import Request
from ..lost_columns import has_column
from ..operator import frame_for, with_fields
from ..order import positions_by_rank
from ..planning import Plan
from ..prompts import render


class NoTextWarning(UserWarning):
    """Some of the best passages have an empty text, so the model isn't shown them."""


@with_fields
class ReadsPassages(LLMOperator):
    """Ask the LLM once per turn, with the turn's best passages. Rows and ranking do not change.

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
        passages: dict[str, list[str]] = {}
        for qid, text in zip(used["qid"], texts_in(used, "text"), strict=True):
            passages.setdefault(qid, []).append(text)
        empty = [qid for qid in turns["qid"] if qid not in passages]
        if empty:
            raise DataError(
                f"all passages of {counted(len(empty), 'turn')} have an empty text "
                f"({list_first(empty)}): load the texts from the collection that was searched, "
                "or omit these turns"
            )
        shown = super().contexts(turns)
        for qid, row in zip(turns["qid"], shown, strict=True):
            row["passages"] = passages[qid]
        return shown

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request per turn, in the order in which they first occur."""
        template = self.template()
        rows = zip(frame["qid"].unique(), self.contexts(frame), strict=True)
        return [self.request(qid, shown, template) for qid, shown in rows]

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
        """For each row, the value of its turn."""
        return column([of_turn[qid] for qid in frame["qid"]], frame.index)

    def ask_and_write(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Ask for all turns, and warn of the best passages that have an empty text.

        Warns:
            NoTextWarning: when there are any.
        """
        best = positions_by_rank(turns_of(frame), _ranks(frame)) < self.passages
        skipped = frame["docno"][best & _empty(frame)].unique()
        if len(skipped):
            warnings.warn(
                f"{counted(len(skipped), 'passage')} with an empty text ({list_first(skipped)}): "
                "the model is shown the next ones instead",
                NoTextWarning,
                stacklevel=2,
            )
        return super().ask_and_write(frame)

    def used(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Which passages are shown."""
        empty = _empty(frame)
        ranks = np.where(empty, np.inf, _ranks(frame))
        first = positions_by_rank(turns_of(frame), ranks) < self.passages
        return pd.Series(first & ~empty, index=frame.index)


def _empty(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which passages have an empty text. A missing text is an error where texts are read."""
    empty = [isinstance(text, str) and not text.strip() for text in frame["text"]]
    return np.array(empty, dtype=bool)


def _ranks(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the rank of each passage.

    Raises:
        DataError: when one has none.
    """
    ranks: npt.NDArray[np.float64] = frame["rank"].to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.isnan(ranks)
    if missing.any():
        turn = frame["qid"][missing].iloc[0]
        raise DataError(
            f"a passage of turn {turn} has no rank: "
            "rank the frame first with pt.model.add_ranks(frame)"
        )
    return ranks


@with_fields
class Decide(ReadsPassages):
    """Ask the model whether each turn's best passages answer it, or whether to ask back or abstain.

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

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qaction`` and ``qaskback``."""
        decided = self.per_row(frame, dict(zip(frame["qid"].unique(), outcomes, strict=True)))
        return with_columns(
            frame,
            qaction=[action for action, _question in decided],
            qaskback=[question for _action, question in decided],
        )


def responses_without_model(frame: pd.DataFrame, abstention: str) -> dict[str, str]:
    """Return the response to each turn whose ``qaction`` is not to answer.

    It is the clarifying question, or ``abstention``.

    Raises:
        DataError: naming the turn, when its action is unknown, or it is ``"ask"`` and there is no
            question.

    Example:
        >>> frame = pd.DataFrame({"qid": ["1_1", "1_2"], "qaction": ["answer", "abstain"]})
        >>> responses_without_model(frame, "There is no answer.")
        {'1_2': 'There is no answer.'}
    """
    turns = frame.drop_duplicates("qid")
    actions = values(turns, "qaction", "answer")
    questions = values(turns, "qaskback", "")
    responses = {}
    for qid, action, question in zip(turns["qid"], actions, questions, strict=True):
        if action not in ACTIONS:
            raise DataError(f"turn {qid}: qaction is {action!r}: give one of {', '.join(ACTIONS)}")
        if action == "abstain":
            responses[qid] = abstention
        if action == "ask":
            if not isinstance(question, str) or not question.strip():
                raise DataError(
                    f"turn {qid}: qaction is 'ask', but qaskback has no question: give one"
                )
            responses[qid] = question
    return responses


@with_fields
class Condense(ReadsPassages):
    """Ask the model to summarise each turn's passages after the first ones, which stay whole.

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
        >>> texts = ["Mint.", "Sage.", "Rooibos."]
        >>> results = pd.DataFrame({"docno": ["a", "b", "c"], "text": texts, "rank": [0, 1, 2]})
        >>> results = results.assign(qid="t", query="tea?")
        >>> ikat.generate.Condense(ikat.llm(Model()), direct=1)(results)["qpassages"][0]
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
        """Which passages are read: the best, up to where the threshold stops the reading."""
        best = super().used(frame)
        if self.threshold is None or "score" not in frame.columns:
            return best
        ranks = frame["rank"].astype(float)
        positions = ranks.groupby(frame["qid"], sort=False).rank(method="first")  # from 1
        may_stop = frame["score"].le(self.threshold) & positions.gt(1)
        # The first position of the turn at which reading stops; infinite where nothing stops it.
        stops = positions.where(may_stop, np.inf).groupby(frame["qid"], sort=False).transform("min")
        return best & positions.lt(stops)

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request for each summary, turn by turn."""
        requests = []
        for qid, number, shown in self._chunks(frame):
            requests.append(self.request(qid, shown, self.template(), str(number)))
        return requests

    def _chunks(self, frame: pd.DataFrame) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """Give for each summary its turn, its number in the turn, and what its prompt shows."""
        for qid, row in zip(frame["qid"].unique(), self.contexts(frame), strict=True):
            rest = row["passages"][self.direct :]
            start = 0
            number = 0
            while start < len(rest):
                number += 1
                left = len(rest) - start
                size = left % self.chunk or self.chunk  # only the first chunk may be smaller
                yield qid, number, {**row, "passages": rest[start : start + size]}
                start += size

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The beginning of the passages."""
        texts = [" ".join(shown["passages"]) for _, _, shown in self._chunks(frame)]
        return [cut_at_sentence(text, self.words) for text in texts]

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The requests for the maximum number of passages, and summaries of maximum length."""
        passages = plan.passages(frame, min(self.passages, plan.cut))
        fewer_before = plan.fewer_passages
        plan.fewer_passages = fewer_before or self.threshold is not None
        texts = self._texts(passages, plan.ask(self, passages))
        plan.fewer_passages = fewer_before
        return frame.assign(qpassages=self.per_row(frame, texts))

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qpassages`` and ``used``."""
        texts = self._texts(frame, outcomes) if len(frame) else {}
        return frame.assign(qpassages=self.per_row(frame, texts), used=self.used(frame))

    def _texts(self, frame: pd.DataFrame, summaries: Sequence[str]) -> dict[str, list[str]]:
        """Return for each turn its first passages and its summaries."""
        texts = {}
        for qid, row in zip(frame["qid"].unique(), self.contexts(frame), strict=True):
            texts[qid] = list(row["passages"][: self.direct])
        for (qid, _, _), summary in zip(self._chunks(frame), summaries, strict=True):
            texts[qid].append(summary)
        return texts


ABSTENTION = "The collection has no answer to this."
RESPONSE_TEMPLATES = {
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
        >>> ikat.Respond(ikat.llm("recorded:sample"), passages=3, form="passages_only")
        ikat.Respond(ikat.llm('recorded:sample'), passages=3, form='passages_only')
    """

    stage = "respond"
    kind = ANSWER
    activity = "answering"
    shows = ("words",)
    schematic = {"label": "Respond"}
    least = {"passages": 1, "words": 1, "passage_words": 1}
    choices = {"form": RESPONSE_TEMPLATES}
    template_of = "form", RESPONSE_TEMPLATES

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
                "cite: a summary of several passages can't be cited as one: "
                "take another form, or omit cite"
            )

    def templates(self) -> list[str]:
        """The prompt of the form, and the request for citations."""
        if self.cite:
            return [self.template(), "respond_cite"]
        return [self.template()]

    def message(self, template: str, values: dict[str, Any]) -> dict[str, str]:
        """The prompt; the request for citations is its end."""
        message = super().message(template, values)
        if self.cite:
            citing = render("respond_cite", self.style, self.prompts, **values)
            message["content"] += f"\n\n{citing}"
        return message

    def abstains_with(self) -> str:
        """Return the response to a turn without passages."""
        return self.abstention

    def citing(self) -> "Respond | None":
        """A copy that asks for citations; None for summaries and for recorded completions."""
        if self.form == "condensed" or self.llm.backend.replays:
            return None
        return type(self)(**{**self.arguments(), "cite": True})

    def limited(self, words: int) -> "Respond":
        """A copy with this word limit."""
        return type(self)(**{**self.arguments(), "words": words})

    def needs(self) -> list[str]:
        """The passages too, and what is shown besides them."""
        columns = super().needs()
        if self.form == "condensed":
            columns += ["qpassages", "used"]
        return columns

    def columns_shown(self) -> dict[str, str]:
        """The outline, for the form that follows one."""
        return {"suggestion": "qsuggestion"} if self.form == "suggested" else {}

    def contexts(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """For each turn, the values that every prompt shows, and its ``passages``."""
        shown = super().contexts(frame)
        if self.form == "condensed":
            condensed = frame.drop_duplicates("qid")["qpassages"]
            for row, texts in zip(shown, condensed, strict=True):
                row["passages"] = texts
        if self.passage_words is not None:
            for row in shown:
                row["passages"] = [
                    cut_at_sentence(text, self.passage_words) for text in row["passages"]
                ]
        return shown

    def used(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Which passages are shown, in full or in a summary."""
        if self.form == "condensed" and "used" in frame.columns:
            return frame["used"].astype(bool)
        return super().used(frame)

    def parse(self, text: str) -> CitedText | None:
        """The text without reasoning; with ``cite``, also without marks."""
        response = super().parse(text)
        if response is None:
            return None
        if not self.cite:
            return CitedText(response)
        cited = read_citations(response, self.passages)
        return cited if cited.text else None

    def while_written(self, frame: pd.DataFrame) -> Callable[[str], str]:
        """The text within the word limit; with ``cite``, with the numbers of finished sentences."""
        passages = int(self.used(frame).sum())

        def readable(text: str) -> str:
            cited = unfinished(text, passages) if self.cite else CitedText(text)
            if count_words(cited.text) > self.words:
                shortened(self.words)
            if self.cite:
                return while_written(text, passages, self.words)
            return cut_at_sentence(text, self.words)

        return readable

    def fallback(self, frame: pd.DataFrame) -> list[CitedText]:
        """The first sentences of each turn's best passage."""
        fallbacks = []
        for shown in self.contexts(frame):
            text = cut_at_sentence(shown["passages"][0].strip(), self.words)
            sentences: list[CitedSentence] = []
            if self.cite:
                sentences = [CitedSentence(sentence, (1,)) for sentence in sentences_in(text)]
            fallbacks.append(CitedText(text, tuple(sentences)))
        return fallbacks

    def typical(self, frame: pd.DataFrame) -> list[str]:
        """As many words as are allowed."""
        return [as_long_as(self.words, "")] * frame["qid"].nunique()

    def settle(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[Any]:
        """As in every stage; observers learn whether a response is shortened."""
        responses: list[CitedText] = super().settle(frame, outcomes)
        is_too_long = any(count_words(response.text) > self.words for response in responses)
        shortened(self.words if is_too_long else None)
        return responses

    def list_dropped(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> list[str]:
        """Responses that are longer than the limit, and numbers that no passage has."""
        dropped = []
        for qid, cited in self._cited(frame, outcomes).items():
            excess = count_words(cited.text) - self.words
            if excess > 0:
                dropped.append(f"{counted(excess, 'word')} too many in turn {qid}")
            for number in cited.unknown:
                dropped.append(f"[{number}] in turn {qid}, which no passage has")
        return dropped

    def _cited(self, frame: pd.DataFrame, outcomes: Sequence[CitedText]) -> dict[str, CitedText]:
        """Return each turn's response; numbers beyond the passages it was shown are unknown."""
        shown = Counter(frame["qid"][self.used(frame)])
        rows = zip(frame["qid"].unique(), outcomes, strict=True)
        return {qid: cited.among(shown[qid]) for qid, cited in rows}

    def write(self, frame: pd.DataFrame, outcomes: Sequence[Any]) -> pd.DataFrame:
        """Set ``qanswer`` and ``used``, with ``cite`` ``qcitations``; keep an older answer."""
        cited = {}
        for qid, response in self._cited(frame, outcomes).items():
            cited[qid] = response.cut(self.words)
        texts = {qid: response.text for qid, response in cited.items()}
        frame = self._with_draft(frame)
        frame = frame.assign(qanswer=self.per_row(frame, texts), used=self.used(frame))
        return self._with_citations(frame, cited) if self.cite else frame

    def _with_citations(self, frame: pd.DataFrame, cited: Mapping[str, CitedText]) -> pd.DataFrame:
        """Set ``qcitations``, and ``used`` to the cited passages for turns that cite any."""
        shown = frame[frame["used"]].sort_values("rank", kind="stable")
        docnos_of = shown.groupby("qid", sort=False)["docno"].agg(list)
        citations: dict[str, list[dict[str, Any]]] = {}
        cited_docnos: dict[str, set[str]] = {}
        for qid, response in cited.items():
            citations[qid] = []
            cited_docnos[qid] = set()
            for sentence in response.sentences:
                docnos = [docnos_of[qid][number - 1] for number in sentence.numbers]
                citation = {
                    "sentence": sentence.text,
                    "docnos": docnos,
                    "unknown": list(sentence.unknown),
                }
                citations[qid].append(citation)
                cited_docnos[qid].update(docnos)
        used = []
        rows = zip(frame["qid"], frame["docno"], frame["used"], strict=True)
        for qid, docno, was_shown in rows:
            cites_it = docno in cited_docnos[qid] or not cited_docnos[qid]
            used.append(bool(was_shown) and cites_it)
        return frame.assign(qcitations=self.per_row(frame, citations), used=used)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Respond to every turn of a result frame."""
        pt.validate.result_frame(inp, extra_columns=self.needs(), context=self)
        turns_of(inp)
        responses = responses_without_model(inp, self.abstention)
        without_model = inp["qid"].isin(responses).to_numpy()
        if not without_model.any():
            return self.ask_and_write(inp)
        answered = self.ask_and_write(inp[~without_model])
        others = self._with_responses(inp[without_model], responses)
        # The rows of both, in this order; sorted by their positions, they are as they came.
        rows = np.concatenate([np.flatnonzero(~without_model), np.flatnonzero(without_model)])
        return pd.concat([answered, others]).iloc[np.argsort(rows)]

    def _with_responses(self, frame: pd.DataFrame, responses: Mapping[str, str]) -> pd.DataFrame:
        """Set responses that are not based on passages."""
        frame = self._with_draft(frame)
        frame = frame.assign(qanswer=self.per_row(frame, responses), used=False)
        if self.cite:
            frame = with_columns(frame, qcitations=[None] * len(frame))
        return frame

    def _with_draft(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Keep an older answer as ``qdraft``."""
        return frame.assign(qdraft=frame["qanswer"]) if has_column(frame, "qanswer") else frame


class BestResponse(ReadsPassages):
    """Let several responders answer, and keep each turn's response that the passages support best.

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
        >>> import json
        >>> import pyterrier_ikat as ikat
        >>> class Says:
        ...     def __init__(self, text):
        ...         self.text = text
        ...     def generate(self, chats):
        ...         return [self.text] * len(chats)
        >>> class Judge:
        ...     def generate(self, chats):
        ...         return [self.judge("Green" not in str(chat)) for chat in chats]
        ...     def judge(self, supported):
        ...         return json.dumps({"claims": [{"claim": "?", "supported": supported}]})
        >>> turn = ikat.conversation([{"role": "user", "content": "Which tea at night?"}])
        >>> found = turn.assign(docno="d1", text="Rooibos tea has no caffeine.", score=1.0, rank=0)
        >>> one = ikat.Respond(ikat.llm(Says("Green tea, as it calms.")))
        >>> other = ikat.Respond(ikat.llm(Says("Rooibos: no caffeine.")))
        >>> best = ikat.BestResponse([one, other], judge=ikat.llm(Judge()))(found)
        >>> best["qanswer"].item(), best["qresponder"].item()
        ('Rooibos: no caffeine.', 1)
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
                "responders: give two or more, "
                "such as [ikat.Respond(one_llm), ikat.Respond(other_llm)]"
            )
        super().__init__(judge, passages, prompts=prompts, on_error=on_error)
        self.responders = list(responders)
        self.judge = self.llm

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request for each text in the ``qresponses`` of each turn."""
        requests = []
        for qid, number, shown in self._responses(frame):
            requests.append(self.request(qid, shown, self.template(), str(number)))
        return requests

    def _responses(self, frame: pd.DataFrame) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """Give for each response its turn, its number in the turn, and what its prompt shows."""
        turns = frame.drop_duplicates("qid")
        rows = zip(turns["qid"], self.contexts(frame), turns["qresponses"], strict=True)
        for qid, row, texts in rows:
            for number, text in enumerate(texts, 1):
                yield qid, number, {**row, "response": text}

    def fallback(self, frame: pd.DataFrame) -> list[None]:
        """No claims are known."""
        return [None for _ in self._responses(frame)]

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """Claims of the length of the responses."""
        claims = []
        for _qid, _number, shown in self._responses(frame):
            claims.append([{"claim": shown["response"], "supported": True}])
        return claims

    def plan(self, frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
        """The requests of the responders, and one for each of their responses."""
        for responder in self.responders:
            plan.follow(responder, frame)
        response = as_long_as(150, "")
        texts = [f"{number} {response}" for number in range(len(self.responders))]
        responded = with_columns(frame, qresponses=[texts] * len(frame))
        plan.ask(self, plan.passages(responded, self.passages))
        return frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Respond to every turn of a result frame."""
        pt.validate.result_frame(inp, extra_columns=self.needs(), context=self)
        turns_of(inp)
        frames = []
        for responder in self.responders:
            frame = responder.transform(frame_for(responder, inp))
            _check_response(responder, inp, frame)
            frames.append(frame)
        responses = {}
        for qid, rows in inp.groupby("qid", sort=False).indices.items():
            responses[qid] = [frame["qanswer"].iloc[rows[0]] for frame in frames]
        distinct = [list(dict.fromkeys(responses[qid])) for qid in inp["qid"]]
        shares = self._shares(with_columns(inp, qresponses=distinct))
        best = {}
        for qid, texts in responses.items():
            values_of_texts = [(shares.get((qid, text), 0.0), len(text)) for text in texts]
            best[qid] = values_of_texts.index(max(values_of_texts))  # the first of equal ones
        chosen = np.array([best[qid] for qid in inp["qid"]], dtype=int)
        parts = []
        for number, frame in enumerate(frames):
            parts.append(frame.reset_index(drop=True)[chosen == number])
        joined = pd.concat([part for part in parts if len(part)] or parts[:1]).sort_index()
        return joined.set_axis(inp.index).assign(qresponder=chosen)

    def _shares(self, frame: pd.DataFrame) -> dict[tuple[str, str], float]:
        """Return the share of supported claims by turn and response, for turns with several."""
        several = frame[frame["qresponses"].map(len) > 1]
        if not len(several):
            return {}
        verdicts = self.settle(several, self.ask(self.requests(several)))
        shares = {}
        for (qid, _, shown), claims in zip(self._responses(several), verdicts, strict=True):
            share = -1.0
            if claims is not None:
                share = sum(claim["supported"] for claim in claims) / max(len(claims), 1)
            shares[qid, shown["response"]] = share
        return shares


def _check_response(responder: Any, inp: pd.DataFrame, response: pd.DataFrame) -> None:
    """Check that a responder kept the rows of a result frame and wrote ``qanswer``."""
    ids = ["qid", "docno"]
    if "qanswer" in response and np.array_equal(response[ids].to_numpy(), inp[ids].to_numpy()):
        return
    raise DataError(
        f"{responder} doesn't keep the rows or writes no qanswer: "
        "give responders such as ikat.Respond(llm)"
    )
