"""Summarise the passages below the first ones in groups, so that a response can use many passages."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..arguments import at_least
from ..completions.citations import cut_at_sentence
from ..completions.kinds import ANSWER
from ..conversations.frame import column, with_columns
from ..llms import Request
from ..operator import with_fields
from .decide import ReadsPassages

if TYPE_CHECKING:
    from ..planning import Plan


@with_fields
class Condense(ReadsPassages):
    """Ask the model to summarise each turn's passages below the first ones. The first ones stay whole.

    Reads a result frame with ``qid``, ``query``, ``docno``, ``rank``, ``text`` and, if present, ``score``, ``qutterance``, ``qhistory``.
    Keeps rows and ranking. Writes ``qpassages``, a list of texts that ``Respond(form="condensed")`` shows: the first ``direct`` passages,
    then one summary for every ``chunk`` other passages, counted from the last (so the first summary may have fewer). Also writes ``used``:
    whether a passage is in this list. One call per summary. The fallback for a failed summary is the beginning of its passages. Source: the
    code of Chang et al., CFDA & CLIP at TREC iKAT 2025 (gyeozai/CFDA-TREC-iKAT2025 at 68884f9, ``ikat-offline``).

    Args:
        llm: the model to ask.
        passages: the maximum number of best passages that are read.
        direct: how many of them stay whole.
        chunk: the number of passages per summary.
        threshold: from the second passage on, passages are read until the first one that does not score above this value. ``None``: read
            all.
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
        >>> ikat.Condense(ikat.llm(Model()), direct=1)(found)["qpassages"][0]
        ['Mint.', 'Two teas.']
    """

    stage = "condense"
    kind = ANSWER
    activity = "summing up passages"
    shows = ("words",)
    template_name = "condense_passages"
    schematic = {"label": "Condense"}

    passages: int = 20
    _: KW_ONLY
    direct: int = 3
    chunk: int = 5
    threshold: float | None = None
    words: int = 250

    def __post_init__(self) -> None:
        at_least(1, chunk=self.chunk, words=self.words)
        at_least(0, direct=self.direct)
        self.typical_words = self.words
        super().__post_init__()

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
            self.request(qid, {**row, "passages": texts}, self.template(), str(number)) for qid, row, number, texts in self._chunks(frame)
        ]

    def _chunks(self, frame: pd.DataFrame) -> Iterator[tuple[str, dict[str, Any], int, Sequence[str]]]:
        for qid, row in zip(frame["qid"].unique(), self.contexts(frame), strict=True):
            rest = row["passages"][self.direct :]
            bounds = sorted({0, *range(len(rest) % self.chunk, len(rest), self.chunk), len(rest)})
            for number, (start, end) in enumerate(pairwise(bounds), 1):
                yield qid, row, number, rest[start:end]

    def fallback(self, frame: pd.DataFrame) -> list[str]:
        """The beginning of the passages."""
        return [cut_at_sentence(" ".join(texts), self.words) for *_, texts in self._chunks(frame)]

    def plan(self, frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
        """The requests for the maximum number of passages, and summaries of maximum length."""
        passages, before = plan.passages(frame, min(self.passages, plan.cut)), plan.fewer_passages
        plan.fewer_passages = before or self.threshold is not None
        shown = self._shown(passages, plan.ask(self, passages))
        plan.fewer_passages = before
        return with_columns(frame, qpassages=[shown[qid] for qid in frame["qid"]])

    def write(self, frame: pd.DataFrame, found: Sequence[Any]) -> pd.DataFrame:
        """Set ``qpassages`` and ``used``."""
        shown = self._shown(frame, found) if len(frame) else {}
        return frame.assign(qpassages=column([shown[qid] for qid in frame["qid"]], frame.index), used=self.used(frame))

    def _shown(self, frame: pd.DataFrame, found: Sequence[Any]) -> dict[str, list[str]]:
        """For each turn the first passages and the summaries."""
        shown = {qid: list(row["passages"][: self.direct]) for qid, row in zip(frame["qid"].unique(), self.contexts(frame), strict=True)}
        for (qid, *_), text in zip(self._chunks(frame), found, strict=True):
            shown[qid].append(text)
        return shown
