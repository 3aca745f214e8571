"""Re-ranking by monoT5: a T5 model gives the probability that a passage is relevant."""

from dataclasses import field
from pathlib import Path
from typing import Any

import pandas as pd

from ..arguments import at_least
from ..conversations.frame import column
from ..operator import with_fields
from ..portable import digest
from ..store.cache import open_cache
from ..store.models import load, loaded_once, model_state
from .scoring import Floats, Reranker, as_texts, longest_first, scored_once


@with_fields
class MonoT5(Reranker):
    """Re-rank passages by a monoT5 model, through ``pyterrier_t5``.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` (the logarithm of the probability of "true", 0 at most) and ``rank``
    (from 0) and keeps every row and all other columns. Turns stay in their order, rows come in the new one; equal scores go by docno, the
    greatest first. Each distinct (query, text) is scored once per process, as by ``ikat.CrossEncoder``. ``pyterrier_t5`` pads the pairs of
    a batch, which changes the scores of the shorter ones a little, so pairs of about equal length share a batch. Source: Nogueira, Jiang
    and Lin, Document Ranking with a Pretrained Sequence-to-Sequence Model, 2020.

    Args:
        model: a name of the Hugging Face hub, or the folder of a downloaded model.
        tokenizer: name or folder of its tokenizer; the default of ``pyterrier_t5`` is that of ``t5-base``.
        batch_size: the number of pairs per batch.
        cache: a file that keeps the scores for later runs; by default they are kept in memory only.

    Raises:
        UsageError: at first use, when the model can't be loaded or gives a score that isn't finite.
        DataError: at use, when a row has no qid, query or text, or the cache can't be read or written.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.MonoT5()
        ikat.MonoT5()
    """

    schematic = {"label": "MonoT5"}
    model: str = "castorini/monot5-base-msmarco"
    tokenizer: str = "t5-base"
    batch_size: int = 32
    cache: str | Path | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        at_least(1, batch_size=self.batch_size)
        self.model, self.tokenizer, self.cache = str(self.model), str(self.tokenizer), None if self.cache is None else str(self.cache)

    def score(self, frame: pd.DataFrame) -> Floats:
        """The logarithm of the probability that each row's passage is relevant."""
        model = digest("monoT5", digest("tokenizer", *model_state(self.tokenizer)).hex(), *model_state(self.model))
        return scored_once(as_texts(frame, "query"), as_texts(frame, "text"), model, open_cache(self.cache), self._score)

    def _score(self, pairs: list[tuple[str, str]]) -> Floats:
        model = load_monot5(self.model, self.tokenizer, self.batch_size)
        order = longest_first([len(query) + len(text) for query, text in pairs])
        asked = pd.DataFrame({"qid": order, "docno": order, "query": column(pairs[place][0] for place in order)})
        scored = model.transform(asked.assign(text=column(pairs[place][1] for place in order)))
        return scored.set_index("docno")["score"].sort_index().to_numpy(dtype="float64")  # type: ignore[no-any-return]


@loaded_once(size=2)
def load_monot5(model: str, tokenizer: str, batch_size: int) -> Any:
    """The loaded re-ranker of ``pyterrier_t5``; equal arguments share it.

    Raises:
        UsageError: when it can't be loaded.
    """

    def make() -> Any:
        from pyterrier_t5 import MonoT5ReRanker

        return MonoT5ReRanker(tok_model=tokenizer, model=model, batch_size=batch_size, verbose=False)

    return load("monoT5 model", model, make)
