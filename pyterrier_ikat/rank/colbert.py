"""Re-ranking by late interaction: a vector for each token of query and passage, compared token by token (ColBERT)."""

from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import at_least
from ..errors import UsageError, advice
from ..operator import with_fields
from ..portable import digest
from ..store.cache import open_cache
from ..store.models import load, loaded_once, model_state
from .scoring import Floats, Reranker, as_texts, distinct, scored_once


@with_fields
class ColBERT(Reranker):
    """Re-rank passages by a multi-vector model of ``sentence-transformers``, such as ColBERT.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` and ``rank`` (from 0) and keeps every row and all other columns. Turns
    stay in their order, rows come in the new one; equal scores go by docno, the greatest first. The score is MaxSim: for each query token
    the highest similarity with any passage token, summed over the query tokens, or averaged if the model is configured so. Query and
    passage are truncated at the model's own limits and get the model's own prompts. Each distinct (query, text) is scored once per process,
    as by ``ikat.CrossEncoder``; the vectors, some 100 kB a passage, aren't kept. Source: Khattab and Zaharia, ColBERT, SIGIR 2020.

    Args:
        model: a name of the Hugging Face hub, or the folder of a downloaded model; checkpoints of PyLate and of Stanford's ColBERT, too.
        batch_size: the number of texts per batch.
        cache: a file that keeps the scores for later runs; by default they are kept in memory only.

    Raises:
        UsageError: at first use, when the model can't be loaded, isn't a multi-vector model, or gives a score that isn't finite.
        DataError: at use, when a row has no qid, query or text, or the cache can't be read or written.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.ColBERT("lightonai/GTE-ModernColBERT-v1")
        ikat.ColBERT('lightonai/GTE-ModernColBERT-v1')
    """

    scores_alone = True
    schematic = {"label": "ColBERT"}
    model: str
    batch_size: int = 32
    cache: str | Path | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        at_least(1, batch_size=self.batch_size)
        self.model, self.cache = str(self.model), None if self.cache is None else str(self.cache)

    def score(self, frame: pd.DataFrame) -> Floats:
        """The MaxSim of each row's query and text."""
        model = digest("colbert", *model_state(self.model))
        return scored_once(as_texts(frame, "query"), as_texts(frame, "text"), model, open_cache(self.cache), self._score)

    def _score(self, pairs: list[tuple[str, str]]) -> Floats:
        model = load_multi_vector_encoder(self.model)
        of_query, queries = distinct([query for query, _ in pairs])
        of_text, texts = distinct([text for _, text in pairs])
        options = {"batch_size": self.batch_size, "show_progress_bar": False}
        asked, read = model.encode_query(queries, **options), model.encode_document(texts, **options)
        scores = model.similarity_pairwise([asked[place] for place in of_query], [read[place] for place in of_text])
        return np.asarray(scores.cpu(), dtype=np.float64)


@loaded_once(size=2)
def load_multi_vector_encoder(model: str) -> Any:
    """The loaded model; equal names share it.

    Raises:
        UsageError: when it can't be loaded, isn't a multi-vector model, or the library for it isn't installed.
    """

    def make() -> Any:
        from sentence_transformers import MultiVectorEncoder

        return MultiVectorEncoder(model)

    loaded = load("multi-vector model", model, make)
    # The library turns any other model into a multi-vector model with a random projection, and only logs it.
    again = make().state_dict()
    if any(not weights.equal(again[name]) for name, weights in loaded.state_dict().items()):
        raise UsageError(
            f"the model {model!r} isn't a multi-vector model: it has no projection of its tokens; use "
            + advice(f"ikat.BiEncoder({model!r})", f"bi:{model}")
        )
    return loaded
