"""The best of several responses: each responder writes one from the same passages, and a judge chooses."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..completions.json_answers import TEXT, YES_NO, answer_in, json_values, list_of, object_of
from ..completions.kinds import Kind
from ..completions.usable import without_reasoning
from ..conversations.frame import turns_of, with_columns
from ..errors import DataError, UsageError
from ..llm_operator import as_long_as
from ..llms import Request
from ..operator import frame_for
from .respond import ReadsPassages

if TYPE_CHECKING:
    from ..planning import Plan

CLAIMS = answer_in("claims", list_of(object_of(claim=TEXT, supported=YES_NO)))


def read_claims(text: str) -> list[dict[str, Any]] | None:
    """The claims in a completion; None if it doesn't have exactly one list of claims with a verdict each.

    Example:
        >>> read_claims('Here: {"claims": [{"claim": "Rooibos has no caffeine.", "supported": true}]}')
        [{'claim': 'Rooibos has no caffeine.', 'supported': True}]
        >>> read_claims("All claims are supported.") is None
        True
    """
    found = [said["claims"] for one in json_values(without_reasoning(text)) if (said := CLAIMS.read(json.dumps(one)))]
    return found[0] if len(found) == 1 else None


class BestResponse(ReadsPassages):
    """Let several responders answer from the same passages, and keep each turn's response that the passages support best.

    Reads a result frame like :class:`~pyterrier_ikat.Respond`, and gives the rows of the chosen responder, with all that it wrote, and
    ``qresponder``, its number from 0. A response's value is the share of its claims that the passages support, 0 without claims. This takes
    one call of the judge for each distinct response, none for turns whose responders agree. Of equal shares the longest response wins, then
    the first. A failed judgement counts as below 0.

    Source: Derunets et al., RaguTeam at SemEval-2026 Task 8 (arXiv 2605.04523), whose code (RaguTeam/ragu_mtrag_semeval at 4697c97) keeps
    the response with the highest faithfulness of RAGAS by GPT-4o-mini, and of equal ones the longest. RAGAS asks twice, for the claims and
    for their verdicts. We ask once, with a prompt of our own.

    Args:
        responders: operators or pipelines that keep the rows of a result frame and write ``qanswer``, such as ``ikat.Respond(llm)``.
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
        self, responders: Sequence[Any], judge: Any, passages: int = 5, *, prompts: str | None = None, on_error: str | None = None
    ) -> None:
        if len(responders) < 2:
            raise UsageError("responders: give two or more, such as [ikat.Respond(one_llm), ikat.Respond(other_llm)]")
        super().__init__(judge, passages, prompts=prompts, on_error=on_error)
        self.responders, self.judge = list(responders), self.llm

    def requests(self, frame: pd.DataFrame) -> list[Request]:
        """One request for each text in the ``qresponses`` of each turn."""
        return [self.request(qid, {**row, "response": text}, self.template(), str(number)) for qid, row, number, text in self._each(frame)]

    def _each(self, frame: pd.DataFrame) -> Iterator[tuple[str, dict[str, Any], int, str]]:
        turns = frame.drop_duplicates("qid")
        for qid, row, texts in zip(turns["qid"], self.contexts(frame), turns["qresponses"], strict=True):
            yield from ((qid, row, number, text) for number, text in enumerate(texts, 1))

    def fallback(self, frame: pd.DataFrame) -> list[None]:
        """No claims are known."""
        return [None for _ in self._each(frame)]

    def typical(self, frame: pd.DataFrame) -> list[Any]:
        """Claims of the length of the responses."""
        return [[{"claim": text, "supported": True}] for *_, text in self._each(frame)]

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """The requests of the responders, and one for each of their responses."""
        for responder in self.responders:
            plan.follow(responder, frame)
        texts = [f"{number} {as_long_as(150, '')}" for number, _ in enumerate(self.responders)]
        plan.ask(self, plan.passages(with_columns(frame, qresponses=[texts] * len(frame)), self.passages))
        return frame

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Respond to every turn of a result frame."""
        pt.validate.result_frame(inp, extra_columns=self.needs(), context=self)
        turns_of(inp)
        made = [responder.transform(frame_for(responder, inp)) for responder in self.responders]
        for responder, frame in zip(self.responders, made, strict=True):
            if "qanswer" not in frame or not np.array_equal(frame[["qid", "docno"]].to_numpy(), inp[["qid", "docno"]].to_numpy()):
                raise DataError(f"{responder} doesn't keep the rows or writes no qanswer: give responders such as ikat.Respond(llm)")
        texts = {qid: [frame["qanswer"].iloc[rows[0]] for frame in made] for qid, rows in inp.groupby("qid", sort=False).indices.items()}
        values = self._values(with_columns(inp, qresponses=[list(dict.fromkeys(texts[qid])) for qid in inp["qid"]]))
        best = {qid: max((values.get((qid, text), 0.0), len(text), -place) for place, text in enumerate(texts[qid])) for qid in texts}
        chosen = np.array([-best[qid][-1] for qid in inp["qid"]], dtype=int)
        parts = [frame.reset_index(drop=True)[chosen == number] for number, frame in enumerate(made) if (chosen == number).any()]
        return (pd.concat(parts).sort_index() if parts else made[0]).set_axis(inp.index).assign(qresponder=chosen)

    def _values(self, frame: pd.DataFrame) -> dict[tuple[str, str], float]:
        """The share of supported claims, for each turn with several different responses and each of these."""
        several = frame[frame["qresponses"].map(len) > 1]
        found = self.settle(several, self.ask(self.requests(several))) if len(several) else []
        shares = [-1.0 if claims is None else sum(one["supported"] for one in claims) / max(len(claims), 1) for claims in found]
        return {(qid, text): share for (qid, _, _, text), share in zip(self._each(several), shares, strict=True)}
