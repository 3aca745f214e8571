"""Cross-encoders as re-rankers."""

from dataclasses import field
from functools import partial
from pathlib import Path

import pandas as pd

from ..arguments import at_least, one_of
from ..operator import with_fields
from ..portable import digest
from ..store.cache import open_cache
from ..store.models import model_state
from .backends import BACKENDS, openvino_or_fp32, openvino_runs, score_pairs
from .scoring import Floats, Reranker, as_texts, scored_once, scoring


@with_fields
class CrossEncoder(Reranker):
    """Re-rank passages by a cross-encoder of ``sentence-transformers``.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` and ``rank`` (from 0) and keeps every row and all other columns. Turns
    stay in their order, rows come in the new one; equal scores go by docno, the greatest first.

    Any kind of cross-encoder works: networks with a head (BERT, DeBERTa, ModernBERT, ...), several modules (Ettin), language models that
    score by the logits of their words (Qwen3-Reranker), with the prompt and chat template saved with the model. The score is that of
    ``sentence-transformers``' ``predict`` before a final sigmoid, which would make high scores equal.

    Each distinct (query, text) is scored once per process, for all turns, stages and systems: scores are kept by hash, 24 bytes a pair, in
    memory that all re-rankers share, at most 1 GiB.

    Source: Nogueira and Cho, Passage Re-ranking with BERT, 2019; 512 tokens a pair as in Abbasiantaeb and Aliannejadi, Generate then
    Retrieve, section 4. For networks like BERT, the last layer is computed only for the first token, from which they score.

    The default is single precision, because a run must give the same result on any machine. Bfloat16 is faster on processors that support
    it, and changes the rank of a few passages. ``"auto"`` follows a rule: OpenVINO in bfloat16 where it is installed, the processor has
    bfloat16 and torch finds no GPU, but single precision for a model that it can't run. Elsewhere, ``"auto"`` is ``"fp32"``, also in the
    operator's repr. So a run made with OpenVINO and one made without it are told apart, and no choice depends on time.

    Args:
        model: a name of the Hugging Face hub, or the folder of a downloaded model.
        max_length: the maximum number of tokens per pair, with template and prompt; the rest is cut off. It is lowered to the positions
            of the network.
        batch_tokens: the number of tokens per batch, with padding; by default 2,048 on a CPU (fewer for a few pairs with OpenVINO, so that
            each core gets some) and 65,536 on a GPU.
        backend: ``"fp32"``, ``"bf16"``, ``"openvino"`` (bfloat16, on a CPU, no language model; needs ``openvino``) or ``"auto"``.
        cache: a file that keeps the scores for later runs; by default they are kept in memory only.

    Raises:
        UsageError: when the backend is unknown; at first use, when the model can't be loaded or run, wasn't trained to score pairs, gives
            more than one score per pair, or a score that isn't finite.
        DataError: at use, when a row has no qid, query or text, or the cache can't be read or written.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.CrossEncoder("cross-encoder/ms-marco-MiniLM-L-6-v2", backend="bf16")
        ikat.CrossEncoder('cross-encoder/ms-marco-MiniLM-L-6-v2', backend='bf16')
    """

    scores_alone = True
    schematic = {"label": "Cross-encoder"}
    model: str
    max_length: int = 512
    batch_tokens: int | None = None
    backend: str = field(default="fp32", kw_only=True)
    cache: str | Path | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        one_of((*BACKENDS, "auto"), backend=self.backend)
        at_least(1, max_length=self.max_length, batch_tokens=self.batch_tokens)
        if self.backend == "auto" and not openvino_runs():
            self.backend = "fp32"
        self.model, self.cache = str(self.model), None if self.cache is None else str(self.cache)

    @property
    def chosen(self) -> str:
        """The backend in use; with ``"auto"`` the model is loaded to tell."""
        if self.backend != "auto":
            return self.backend
        with scoring:
            return openvino_or_fp32(self.model, self.max_length)

    def score(self, frame: pd.DataFrame) -> Floats:
        """The model's score of each row's query and text."""
        queries, texts, backend = as_texts(frame, "query"), as_texts(frame, "text"), self.chosen
        model = digest("cross-encoder", str(self.max_length), backend, *model_state(self.model))
        score = partial(score_pairs, self.model, self.max_length, backend, self.batch_tokens)
        return scored_once(queries, texts, model, open_cache(self.cache), score)
