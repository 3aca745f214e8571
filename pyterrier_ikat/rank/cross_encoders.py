"""Re-ranking by models that read query and passage together: cross-encoders and monoT5."""

from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ..arguments import at_least, one_of
from ..conversations.frame import column
from ..operator import with_fields
from ..portable import digest
from ..store.cache import open_cache
from ..store.models import load, loaded_once, model_state
from .cross_encoder_backends import BACKENDS, openvino_or_fp32, openvino_runs, score_pairs
from .reranker import Floats, Reranker, as_texts, longest_first, scored_once, scoring


@with_fields
class CrossEncoder(Reranker):
    """Re-rank passages by a cross-encoder of ``sentence-transformers``.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` and ``rank`` (from 0) and keeps every row and all other columns. Turns
    keep their order, and the rows of a turn are in the new order. Equal scores are ordered by docno, the greatest first.

    Any kind of cross-encoder works: networks with a head (BERT, DeBERTa, ModernBERT, ...), several modules (Ettin), and language models
    that score by the logits of their words (Qwen3-Reranker). The prompt and chat template saved with the model are used. The score is that
    of ``sentence-transformers``' ``predict`` before a final sigmoid, which would make high scores equal.

    Each distinct (query, text) is scored once per process for all turns, stages and systems. Scores are kept by hash, with 24 bytes per
    pair, in memory that all re-rankers share, at most 1 GiB.

    Source: Nogueira and Cho, Passage Re-ranking with BERT, 2019. The limit of 512 tokens per pair is that of Abbasiantaeb and Aliannejadi,
    Generate then Retrieve, section 4. Networks like BERT compute the score from the first token, so the last layer is computed only for
    that token.

    The default is single precision, because a run must give the same result on any machine. Bfloat16 is faster on processors that support
    it, and changes the rank of a few passages. ``"auto"`` follows a rule: it is OpenVINO in bfloat16 if OpenVINO is installed, the
    processor has bfloat16 and torch finds no GPU, but single precision for a model that OpenVINO can't run. Elsewhere, ``"auto"`` is
    ``"fp32"``, also in the operator's repr. So runs with and without OpenVINO are told apart, and the choice never depends on timing.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model.
        max_length: the maximum number of tokens per pair, with template and prompt; the rest is cut off. It is lowered to the number of
            positions of the network.
        batch_tokens: the number of tokens per batch, with padding; by default 2,048 on a CPU (fewer for a few pairs with OpenVINO, so that
            each core gets some) and 65,536 on a GPU.
        backend: ``"fp32"``, ``"bf16"``, ``"openvino"`` (bfloat16 on a CPU, not for language models; needs ``openvino``) or ``"auto"``.
        cache: a file that keeps the scores for later runs; by default they are kept in memory only.

    Raises:
        UsageError: when the backend is unknown. At first use, when the model can't be loaded or run, wasn't trained to score pairs, gives
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
        """The backend in use. With ``"auto"``, the model is loaded to find out."""
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


@with_fields
class MonoT5(Reranker):
    """Re-rank passages by a monoT5 model, through ``pyterrier_t5``.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` (the logarithm of the probability of "true", 0 at most) and ``rank``
    (from 0) and keeps every row and all other columns. Turns keep their order, and the rows of a turn are in the new order. Equal scores
    are ordered by docno, the greatest first. Each distinct (query, text) is scored once per process, as in ``ikat.CrossEncoder``.
    ``pyterrier_t5`` pads the pairs of a batch, which changes the scores of the shorter ones a little. So pairs of about equal length share
    a batch. Source: Nogueira, Jiang and Lin, Document Ranking with a Pretrained Sequence-to-Sequence Model, 2020.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model.
        tokenizer: the name or folder of its tokenizer. The default of ``pyterrier_t5`` is that of ``t5-base``.
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
    """The loaded re-ranker of ``pyterrier_t5``. Equal arguments share one re-ranker.

    Raises:
        UsageError: when it can't be loaded.
    """

    def make() -> Any:
        from pyterrier_t5 import MonoT5ReRanker

        return MonoT5ReRanker(tok_model=tokenizer, model=model, batch_size=batch_size, verbose=False)

    return load("monoT5 model", model, make)
