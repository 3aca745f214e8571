"""Cross-encoders as re-rankers, and the choice of the fastest backend that agrees with single precision."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ..arguments import at_least, one_of
from ..errors import UsageError
from ..operator import digest, with_fields
from ..store.cache import open_cache
from ..store.models import model_state
from .backends import BACKENDS, find_backends, score_pairs
from .scoring import Floats, Reranker, as_texts, scored_once, scoring

_chosen: dict[bytes, str] = {}


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
    it, and changes the rank of a few passages. ``"auto"`` times the available backends once per process and model, on 96 pairs of the first
    frame that has so many, and takes the fastest one whose top-10 overlap with single precision on these pairs is at least .99. Smaller
    frames before that are scored in single precision. Because the choice depends on time, another run may choose another backend:
    ``chosen`` and the log (level INFO) name it; pass this name as ``backend`` to repeat the run.

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
        >>> ikat.CrossEncoder("cross-encoder/ms-marco-MiniLM-L-6-v2", backend="auto")
        ikat.CrossEncoder('cross-encoder/ms-marco-MiniLM-L-6-v2', backend='auto')
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
        self.model, self.cache = str(self.model), None if self.cache is None else str(self.cache)

    @property
    def chosen(self) -> str | None:
        """The backend in use; None as long as ``"auto"`` has not decided."""
        return _chosen.get(self._fingerprint()) if self.backend == "auto" else self.backend

    def score(self, frame: pd.DataFrame) -> Floats:
        """The model's score of each row's query and text."""
        queries, texts = as_texts(frame, "query"), as_texts(frame, "text")
        if self.chosen is None:
            self._choose(queries, texts)
        backend = self.chosen or "fp32"
        model = digest("cross-encoder", str(self.max_length), backend, *model_state(self.model))
        return scored_once(queries, texts, model, open_cache(self.cache), self._score_by(backend))

    def check_shippable(self) -> None:
        """Refuse ``backend="auto"``, because each process would choose its own backend."""
        if self.backend == "auto":
            raise UsageError(
                f"{self!r} would choose its backend in each process by itself, and score in single precision where it gets fewer than "
                f"{PAIRS} pairs at a time, so that one ranking would mix scores of several backends: name one, "
                f"backend={' or '.join(map(repr, BACKENDS))}"
            )

    def _score_by(self, backend: str) -> "Score":
        return partial(score_pairs, self.model, self.max_length, backend, self.batch_tokens)

    def _fingerprint(self) -> bytes:
        return digest("cross-encoder", str(self.max_length), *model_state(self.model))

    def _choose(self, queries: Sequence[str], texts: Sequence[str]) -> None:
        with scoring:
            if self.chosen is None and len(pairs := draw_pairs(queries, texts)) == PAIRS:
                backends = {name: self._score_by(name) for name in find_backends(self.model, self.max_length)}
                _chosen[self._fingerprint()] = choose_fastest(backends, pairs, self.model)


PAIRS = 96
"""The number of pairs in a trial; with fewer, no backend is chosen."""
FIRST = 8
"""The number of pairs that each backend scores before it is timed."""
TOP = 10
LEAST_OVERLAP = 0.99
DRAWS = 200

logger = logging.getLogger(__name__)
Score = Callable[[Sequence[tuple[str, str]]], Floats]


def choose_fastest(backends: Mapping[str, Score], pairs: Sequence[tuple[str, str]], model: str) -> str:
    """The fastest backend on ``pairs`` among those that agree with the first; the choice is logged.

    Args:
        backends: scorers by name, ``"fp32"`` first, which the others must agree with.
        pairs: what they are tried on.
        model: its name, for the log.
    """
    exact, seconds = None, {}
    figures = []
    for name, score in backends.items():
        try:
            score(pairs[:FIRST])
            started = time.perf_counter()
            scores = score(pairs)
            taken = time.perf_counter() - started
        except UsageError as error:
            if exact is None:
                raise
            figures.append(f"{name} can't run it: {error}")
            continue
        exact = scores if exact is None else exact
        overlap = top_overlap(exact, scores)
        figures.append(f"{name} {len(pairs) / taken:.3g} pairs/s, top-{TOP} overlap {overlap:.3f}")
        if overlap >= LEAST_OVERLAP:
            seconds[name] = taken
    chosen = min(seconds, key=lambda name: seconds[name])
    logger.info("%s runs with %s: %s", model, chosen, "; ".join(figures))
    return chosen


def draw_pairs(queries: Sequence[str], texts: Sequence[str]) -> list[tuple[str, str]]:
    """``PAIRS`` distinct (query, text) pairs, spread over the rows; fewer if there are not enough."""
    step = max(1, len(queries) // (2 * PAIRS))  # twice as many as needed, since the same pair may be there twice
    drawn = list(dict.fromkeys(zip(queries[::step], texts[::step], strict=True)))
    return drawn[:: max(1, len(drawn) // PAIRS)][:PAIRS]


def top_overlap(exact: Floats, other: Floats) -> float:
    """The share of the ten best by one score that are among the ten best by the other, from 0 to 1.

    It is the mean over fixed random halves of the pairs, because a single list of ten would only resolve tenths. A score that isn't finite
    counts as the worst.
    """
    random = np.random.default_rng(0)
    usable = np.where(np.isfinite(other), other, -np.inf)
    shares = []
    for _ in range(DRAWS):
        drawn = random.permutation(len(exact))[: max(len(exact) // 2, 1)]
        best = [set(drawn[np.argsort(-scores[drawn], kind="stable")[:TOP]]) for scores in (exact, usable)]
        shares.append(len(best[0] & best[1]) / len(best[0]))
    return float(np.mean(shares))
