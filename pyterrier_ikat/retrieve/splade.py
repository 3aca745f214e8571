"""SPLADE: a masked language model weights the terms of a text and adds related terms.

This module has its index and its retriever.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyterrier as pt
from scipy.sparse import csc_array, csr_array

from ..arguments import at_least
from ..conversations.frame import well_formed
from ..errors import DataError, UsageError, advice
from ..store.cache import digest
from ..store.models import (
    checksum_model,
    cut_at_positions,
    encoding_pool,
    load,
    loaded_once,
    usable_devices,
)
from .artifact import PYTERRIER_META, IndexArtifact, OpenIndex, made_by_pyterrier
from .eager import new_array, open_postings, save_postings
from .pisa import count_passages, count_terms, open_impacts
from .retriever import IndexRetriever
from .texts import Corpus, TextStore, passages_at_once, read_part

PYTERRIER_FILES = ("inv.docs", "inv.freqs", "inv.sizes", "fwd.termlex", "fwd.doclex")
PASSAGES_AT_ONCE = 512
SCALE = 100
"""Impacts per unit of weight, for passages and for queries.

So an engine's score is SCALE * SCALE times the dot product.
"""


@loaded_once(size=2)
def load_sparse_encoder(model: str) -> Any:
    """Load a model. Equal names share one model.

    Raises:
        UsageError: when the model can't be loaded or isn't a SPLADE model, or its library isn't
            installed.
    """

    def make() -> Any:
        from sentence_transformers import SparseEncoder

        return cut_at_positions(SparseEncoder(model))

    loaded = load("sparse encoder", model, make)
    modules = {type(module).__name__ for module in loaded.modules()}
    if "SpladePooling" not in modules:
        raise UsageError(
            f"the model {model!r} isn't a SPLADE model: "
            "it has no weights of a masked language model for the vocabulary"
        )
    return loaded


def list_tokens(model: Any) -> list[str]:
    """Return the names of the dimensions in indexes of PyTerrier's SPLADE.

    They are the tokenizer's tokens (``"tea"``, ``"##ing"``).
    """
    tokens = model.tokenizer.convert_ids_to_tokens(list(range(len(model.tokenizer))))
    # The size of a vector, because before it encodes, a model reports its hidden size.
    size = model.encode_document(["."], show_progress_bar=False).shape[1]
    unnamed = range(len(tokens), size)  # a model may have more dimensions than tokens
    return [*tokens, *map(str, unnamed)]


def checksum_vocabulary(model: Any) -> str:
    """Return a checksum of the terms of a model's vectors."""
    return digest(*list_tokens(model)).hex()


def encode_texts(
    model: Any, texts: Sequence[str], *, of: str, batch_size: int = 32, pool: Any = None
) -> csr_array:
    """Encode texts: the impact of each term of the vocabulary (column) on each text (row).

    Impacts are whole numbers from 1.

    Args:
        model: a ``sentence_transformers.SparseEncoder``.
        texts: the texts to encode, each truncated at the model's limit of tokens. A blank text has
            no impacts.
        of: ``"query"`` or ``"document"``. Most models encode both in the same way.
        batch_size: the number of texts per batch.
        pool: the model's processes on several devices, which encode instead of this one.

    Raises:
        UsageError: when the model gives a weight that isn't finite.
    """
    worded = [row for row, text in enumerate(texts) if text.strip()]
    if not worded:
        return csr_array((len(texts), 1), dtype=np.uint32)
    import torch

    encode = model.encode_query if of == "query" else model.encode_document
    # torch warns unless somebody has decided whether it checks tensors of other processes
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        vectors = encode(
            [well_formed(texts[row]) for row in worded],
            batch_size=batch_size,
            show_progress_bar=False,
            convert_to_sparse_tensor=True,
            save_to_cpu=True,
            pool=pool,
        ).coalesce()
    weights = vectors.values().float().numpy().astype(np.float64)
    if not np.isfinite(weights).all():
        raise UsageError(
            "the sparse encoder gave a weight that is not a finite number: "
            "its weights are damaged, use another model"
        )
    rows, terms = vectors.indices().numpy()
    rows = np.array(worded)[rows]
    impacts = np.rint(weights * SCALE)
    positive = impacts > 0
    content = (impacts[positive].astype(np.uint32), (rows[positive], terms[positive]))
    return csr_array(content, shape=(len(texts), vectors.shape[1]))


class SpladeRetriever(IndexRetriever):
    """Learned sparse retrieval; ``SpladeIndex.retriever()`` makes it.

    Reads ``qid`` and ``query``; returns the passages of every row, in the order of the rows, with
    all columns of the row (the same objects), ``docno``, ``score``, ``rank`` (from 0), and ``text``
    if the index has the passages' text or a loader for it. The score is the dot product of the
    query's and the passage's vector, with weights rounded to hundredths. Equal scores are ordered
    by docno, the greatest first, as in trec_eval.

    Each distinct query is encoded and searched once, as in :class:`BM25`. It is encoded with the
    index's ``query_model``, if it has one, and truncated at the model's limit. A query that is
    blank, not a string, or encoded as an empty vector has no result. A ``NoResultWarning`` names
    the turns without results. It names a turn with sub-queries only when none of them found
    anything. ``retriever % k`` retrieves only k passages.

    Source: Formal et al., From Distillation to Hard Negative Sampling, SIGIR 2022; in iKAT:
    IRLab@iKAT24, section 3.1.

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.

    Raises:
        UsageError: when ``num_results`` is out of range. At first use, when the model can't be
            loaded.
        DataError: when the index is missing, incomplete, or was made with another model.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.SpladeIndex("splade.index").retriever(num_results=100)  # doctest: +SKIP
        ikat.SpladeIndex('splade.index').retriever(num_results=100)
    """

    schematic = {"label": "SPLADE"}
    reads_texts = False
    label = "SPLADE"
    method = "retriever"
    scale = SCALE**2

    def find_rankings(self, opened: OpenIndex, queries: list[Any]) -> Any:
        """Search for the queries' vectors."""
        vectors = self.index.encode_queries(queries)
        return opened.engine.rankings(vectors, self.num_results)


class SpladeIndex(IndexArtifact):
    """An index of SPLADE vectors; ``Splade.index`` makes one, with the passages' text.

    It is a PyTerrier artifact: ``pt.Artifact.load(path)`` opens it, and ``build_package`` packs it
    into one file to share. The class also opens an index that PyTerrier made with
    ``PisaIndex(...).toks_indexer()`` and its scale of 100, such as the one that the iKAT organisers
    distribute. For such an index, name the model that encoded the passages, and give ``text`` if
    you need the passages' text. PISA searches it, and adds the files that it needs at the first
    search. As in PyTerrier's own pipeline, terms with a capital letter (``[SEP]``) are then
    ignored, because PISA looks terms up in lower case.

    Args:
        path: the folder.
        model: the model that encoded the passages: a name on the Hugging Face hub or the folder of
            a downloaded model. An index made by ``Splade.index`` stores its name, so give it only
            if the model's folder has moved.
        text: an operator that adds ``text`` by ``docno``, such as ``ikat.TextLoader(path)`` or
            ``PassageIndex.text_loader()``, instead of the texts in the index.
        query_model: another model for queries. It has the same vocabulary and was fine-tuned while
            the passages' encoder was frozen. In Lupart et al., DiSCo, SIGIR 2025 (arXiv
            2410.14609), it reads the whole conversation.

    Raises:
        DataError: at ``retriever``, when the index at ``path`` is missing, incomplete, or not an
            index of learned impacts.
        UsageError: at ``retriever``, when ``model`` is missing or isn't the one that encoded the
            passages. At the first search, when ``query_model`` has another vocabulary.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> model = "naver/splade-cocondenser-selfdistil"
        >>> texts = ikat.TextLoader("passages.jsonl")
        >>> ikat.SpladeIndex("splade.pisa", model, text=texts)  # doctest: +NORMALIZE_WHITESPACE
        ikat.SpladeIndex('splade.pisa', 'naver/splade-cocondenser-selfdistil',
                         text=ikat.TextLoader('passages.jsonl'))
    """

    ARTIFACT_FORMAT = "ikat_splade"
    KIND = "splade"
    OPTION = " --splade MODEL"
    ENCODES = True

    def __init__(
        self,
        path: str | Path,
        model: str | Path | None = None,
        *,
        text: pt.Transformer | None = None,
        query_model: str | Path | None = None,
    ) -> None:
        super().__init__(path, text=text)
        self.model = None if model is None else str(model)
        self.query_model = None if query_model is None else str(query_model)
        self._tokens: list[str] = []
        self._checked = False

    def retriever(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        query_model: str | Path | None = None,
        k1: float = 0.9,
        b: float = 0.4,
    ) -> SpladeRetriever:
        """Return retrieval from this index; see :class:`SpladeRetriever`.

        BM25's parameters are ignored. With ``query_model`` it searches
        ``SpladeIndex(path, query_model=...)``: this index with another model for queries.
        """
        index = self if query_model is None else self.with_query_model(query_model)
        return SpladeRetriever(index, num_results, cache)

    def with_query_model(self, model: str | Path) -> "SpladeIndex":
        """Return this index with another model for queries."""
        return SpladeIndex(self.path, self.model, text=self.text, query_model=model)

    def _folder(self) -> Path:
        folder = Path(self.path)
        return folder if made_by_pyterrier(folder) else super()._folder()

    def _read(self, folder: Path) -> dict[str, Any]:
        if made_by_pyterrier(folder):
            return _describe_pyterrier_index(folder, self.model)
        return super()._read(folder)

    def _engine(self, folder: Path, described: dict[str, Any]) -> Any:
        return open_impacts(folder) if made_by_pyterrier(folder) else open_postings(folder)

    def _build(
        self,
        folder: Path,
        store: TextStore,
        old: Path | None,
        made_with: dict[str, Any],
        batch_size: int = 32,
        devices: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        model = load_sparse_encoder(self._model(made_with))

        def encode(passages: list[tuple[str, str]]) -> dict[str, Any]:
            texts = [text for _, text in passages]
            impacts = encode_texts(model, texts, of="document", batch_size=batch_size, pool=pool)
            return {
                "docnos": np.array([docno for docno, _ in passages]),
                "data": impacts.data,
                "indices": impacts.indices,
                "indptr": impacts.indptr,
            }

        at_once = passages_at_once(PASSAGES_AT_ONCE, devices)
        with encoding_pool(model, devices) as pool:
            files = self._encode_new(store, old, made_with, at_once, encode)
        write_impacts(folder, files, old)
        return {"vocabulary": checksum_vocabulary(model), "scale": SCALE}

    def encode_queries(self, queries: Sequence[str]) -> list[dict[str, int]]:
        """Return for each of ``queries`` a dict from terms to impacts.

        Raises:
            UsageError: when the model can't be loaded.
            DataError: when the index has more terms than the model.
        """
        passages = self._model()
        model = load_sparse_encoder(self.query_model or passages)
        if not self._checked:
            if self.query_model is not None and checksum_vocabulary(model) != self._vocabulary():
                raise UsageError(
                    f"the model for queries, {self.query_model!r}, has another vocabulary than "
                    f"{passages!r}, which encoded the passages of {self.path}: "
                    "give one that was fine-tuned from it"
                )
            self._tokens = self._tokens_of_index(model)
            self._checked = True
        impacts = encode_texts(model, queries, of="query")
        names = [self._term_name(number) for number in impacts.indices.tolist()]
        encoded = []
        for start, end in pairwise(impacts.indptr):
            of_query = impacts.data[start:end].tolist()
            encoded.append(dict(zip(names[start:end], of_query, strict=True)))
        return encoded

    def _term_name(self, number: int) -> str:
        return self._tokens[number] if number < len(self._tokens) else str(number)

    def _tokens_of_index(self, model: Any) -> list[str]:
        """Return the names of the model's dimensions in an index of PyTerrier.

        In ours they are the numbers, and the list is empty. PISA lowercases the terms of queries,
        but not those of passages. If tokens were used, ``"[SEP]"`` and the capitalised tokens of a
        cased vocabulary would never be found.
        """
        folder = self.opened().folder
        if not made_by_pyterrier(folder):
            return []
        tokens = list_tokens(model)
        count = count_terms(folder)
        if count > len(tokens):
            raise DataError(
                f"the index {self.path} has {count} terms, the model {self.model!r} only "
                f"{len(tokens)}: give the model that encoded its passages"
            )
        return tokens

    def _vocabulary(self) -> str:
        """Return the checksum of the terms of the passages' model."""
        stored = self.describe().get("vocabulary")
        if stored:
            return str(stored)
        # PyTerrier's indexes don't store it.
        return checksum_vocabulary(load_sparse_encoder(self._model()))


@dataclass(frozen=True)
class Splade:
    """A SPLADE model for indexing passages.

    It uses the ``SparseEncoder`` of ``sentence-transformers``.

    Source: Formal et al., From Distillation to Hard Negative Sampling: Making Sparse Neural IR
    Models More Effective, SIGIR 2022. The default is the checkpoint of IRLab@iKAT24, section 4.2.

    Args:
        model: a name on the Hugging Face hub, or the folder of a downloaded model. It is a sparse
            encoder, or a plain masked language model, to which SPLADE's max pooling is added.
        batch_size: the number of passages per batch.

    Raises:
        UsageError: when ``batch_size`` is below 1. At ``index``, when the model can't be loaded.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> splade = ikat.Splade("naver/splade-cocondenser-selfdistil")
        >>> retriever = splade.index("splade.index", corpus).retriever()  # doctest: +SKIP
    """

    model: str = "naver/splade-cocondenser-selfdistil"
    batch_size: int = 32

    def __post_init__(self) -> None:
        at_least(1, batch_size=self.batch_size)
        object.__setattr__(self, "model", str(self.model))

    def index(
        self, path: str | Path, corpus: Corpus, *, devices: Sequence[str] | None = None
    ) -> SpladeIndex:
        """Encode a corpus and build an index of it, with the passages' text.

        Weights are rounded to hundredths. A blank text, or one without any weight from the model,
        is kept but never found. Texts are stored first. After an interruption, the same call
        continues; after a kill it repeats the last ten minutes at most. :meth:`SpladeIndex.add`
        adds passages later.

        Args:
            path: the folder of the index. If it holds an index of the same passages for BM25 or
                dense vectors, the SPLADE vectors are added to it, and the texts are shared; see
                :class:`Index`. If the path already has the index that this call would build, it is
                returned without building it again.
            corpus: dicts with ``docno`` and ``text``, or a frame; read once; see
                :meth:`PassageIndex.index`.
            devices: several devices, each for a process; see :meth:`DenseIndex.index`.

        Returns:
            The index, opened.

        Raises:
            UsageError: when the path already has an index of other passages, an index of another
                model, or anything else, or the model can't be loaded, or a device not be used.
            DataError: when the corpus is empty, has a passage without docno or text or a duplicate
                docno, or the model gives no passage a term.
        """
        # errors show before a large corpus is read for hours
        load_sparse_encoder(self.model)
        devices = usable_devices(devices)
        made_with = {"model": self.model, "encoded_by": checksum_model(self.model)}
        options = {"batch_size": self.batch_size, "devices": devices}
        return SpladeIndex(path)._make(corpus, made_with, **options)


def write_impacts(folder: Path, files: Sequence[Path], old: Path | None) -> None:
    """Write the matrix of the passages of an older one, and after them the encoded parts.

    All are read twice: to count the postings of each term, and to write each to its position in the
    file. So one batch is in memory.

    Raises:
        DataError: when no passage has a term.
    """
    docnos: list[str] = []
    holders = np.zeros(0, dtype=np.int64)  # the number of postings of each term
    for of_part, part in _parts(files, old):
        docnos += of_part
        holders = np.pad(holders, (0, max(0, part.shape[1] - len(holders))))
        holders[: part.shape[1]] += np.diff(part.indptr)
    starts = np.concatenate([[0], np.cumsum(holders)])
    count = starts[-1]
    if not count:
        raise DataError(
            "the model gives no passage a term: its weights are damaged, use another model"
        )
    docs = new_array(folder, "docs", np.int32 if count < 1 << 31 else np.int64, count)
    impacts = new_array(folder, "impacts", np.float32, count)
    free = starts[:-1].copy()  # the next free position of each term
    first = 0  # the number of the part's first passage
    for _, part in _parts(files, old):
        of_terms = np.diff(part.indptr)
        shifts = free[: len(of_terms)] - part.indptr[:-1]
        positions = np.arange(part.nnz) + np.repeat(shifts, of_terms)
        docs[positions] = part.indices + first
        impacts[positions] = part.data
        free[: len(of_terms)] += of_terms
        first += part.shape[0]
    save_postings(folder, list(map(str, range(len(holders)))), docnos, starts=starts)


def _parts(files: Sequence[Path], old: Path | None) -> Iterator[tuple[list[str], csc_array]]:
    """Read parts of a matrix: docnos, and impacts of each term (column) on each of them (row)."""
    if old is not None:
        postings = open_postings(old)
        content = (postings.impacts, postings.docs, postings.starts)
        shape = (len(postings.docnos), len(postings.starts) - 1)
        yield postings.docnos[postings.ranks].tolist(), csc_array(content, shape=shape)
    for file in files:
        for batch in read_part(file):
            content = (batch["data"], batch["indices"], batch["indptr"])
            shape = (len(batch["docnos"]), int(batch["indices"].max(initial=0)) + 1)
            yield batch["docnos"].tolist(), csr_array(content, shape=shape).tocsc()


def _describe_pyterrier_index(folder: Path, model: str | None) -> dict[str, Any]:
    """Describe an index of PyTerrier in the fields of our own descriptions."""
    paths = [folder / name for name in PYTERRIER_META if (folder / name).exists()]
    described = json.loads(paths[0].read_text(encoding="utf-8"))
    kind = described.get("format", "pisa")
    stemmer = described.get("stemmer")
    if (kind, stemmer) != ("pisa", "none"):
        raise DataError(
            f"{folder} is an index of format {kind!r} with stemmer {stemmer!r}: "
            "SPLADE vectors are in a PISA index with stemmer 'none'; an index of words gives "
            f"retriever=pyterrier_pisa.PisaIndex({str(folder)!r}).bm25()"
        )
    if model is None:
        argument = advice("ikat.SpladeIndex(path, model)", "--resources splade_model=NAME")
        raise UsageError(
            f"the index {folder} doesn't say which model encoded its passages: give it, {argument}"
        )
    sizes = []
    for name in (paths[0].name, *PYTERRIER_FILES):  # PISA ends our process if one is missing
        sizes.append(f"{name} {(folder / name).stat().st_size}")
    return {
        "model": model,
        "encoded_by": checksum_model(model),
        "parts": [[count_passages(folder), digest(*sizes).hex()]],
    }
