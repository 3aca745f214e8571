"""SPLADE: a masked language model weights the terms of a text and adds related terms. This module has its index and its retriever."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..arguments import checked
from ..errors import DataError, UsageError, advice
from ..portable import digest
from ..store.files import read_description
from ..store.models import checksum_files, checksum_model, is_copy, model_state
from . import eager
from .artifact import FORMAT, PYTERRIER_META, IndexArtifact, made_by_pyterrier
from .artifact import SPLADE_META as META
from .corpus import Corpus, CorpusReader
from .pisa import count_passages, count_terms, open_impacts, search
from .ranking import TIES, Ranking
from .retriever import THREADS, Query, SparseRetriever, made_by
from .sparse_encoder import SCALE, checksum_vocabulary, encode_texts, list_numbers, list_tokens, load_sparse_encoder
from .state import Seen, changed_at, open_folder

FOLDER = "splade"
PYTERRIER_FILES = ("inv.docs", "inv.freqs", "inv.sizes", "fwd.termlex", "fwd.doclex")


class SpladeRetriever(SparseRetriever):
    """Learned sparse retrieval; ``SpladeIndex.retriever()`` makes it.

    Reads ``qid`` and ``query``; returns the passages of every row, in the order of the rows, with all columns of the row (the same
    objects), ``docno``, ``score``, ``rank`` (from 0), and ``text`` if the index has the passages' text or a loader for it. The score is the
    dot product of the query's and the passage's vector, with weights rounded to hundredths. Equal scores are ordered by docno, the
    greatest first, as in trec_eval.

    Each distinct query is encoded and searched once, as in :class:`BM25`. It is encoded with the index's ``query_model``, if it has one,
    and truncated at the model's limit. A query that is blank, not a string, or encoded as an empty vector has no result. A
    ``NoResultWarning`` names the turns without results. It names a turn with sub-queries only when none of them found anything.
    ``retriever % k`` retrieves only k passages.

    Source: Formal et al., From Distillation to Hard Negative Sampling, SIGIR 2022; in iKAT: IRLab@iKAT24, section 3.1.

    Args:
        index: the index to search.
        num_results: the maximum number of passages per query.
        cache: a file that keeps rankings for other processes and later runs; created if missing.
        engine: ``"eager"`` or ``"pisa"``, if the index has both; see :class:`BM25`. Their rankings and scores are equal.

    Raises:
        UsageError: when ``num_results`` is out of range, or the index has no files for ``engine``. At first use, when the model
            can't be loaded.
        DataError: when the index is missing, incomplete, or was made with another model.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.SpladeIndex("splade.index").retriever(num_results=100)  # doctest: +SKIP
        ikat.SpladeIndex('splade.index').retriever(num_results=100)
    """

    schematic = {"label": "SPLADE"}
    reads_texts = False
    label, method, scale = "SPLADE", "retriever", SCALE**2

    def __init__(self, index: "SpladeIndex", num_results: int = 1000, cache: str | Path | None = None, engine: str | None = None) -> None:
        super().__init__(index, num_results, cache, engine)

    def key(self, fingerprint: str, query: Query) -> bytes:
        """The cache key: the index, its model and the query."""
        return digest("splade", made_by(query.engine), TIES, fingerprint, query.query)

    def search_eager(self, seen: Seen, queries: list[Any]) -> list[Ranking]:
        """Add up the products of impacts with the queries' vectors."""
        return eager.search(self.opened_eager(seen), self.index.encode_queries(queries), self.num_results, THREADS)

    def search_pisa(self, seen: Seen, queries: list[Any]) -> list[Ranking]:
        """Search PISA for the queries' vectors."""
        retriever = self.opened_pisa(seen, (), open_impacts)
        return search(retriever, "query_toks", self.index.encode_queries(queries), self.num_results)


class SpladeIndex(IndexArtifact):
    """An index of SPLADE vectors; ``Splade.index`` makes one, with the passages' text.

    It is a PyTerrier artifact: ``pt.Artifact.load(path)`` opens it, and ``build_package`` packs it into one file to share. The class also
    opens an index that PyTerrier made with ``PisaIndex(...).toks_indexer()`` and its scale of 100, such as the one that the iKAT organisers
    distribute. For such an index, name the model that encoded the passages, and give ``text`` if you need the passages' text. The files
    that PISA needs for retrieval are added at the first search. As in PyTerrier's own pipeline, terms with a capital letter (``[SEP]``) are
    then ignored, because PISA looks terms up in lower case.

    Args:
        path: the folder.
        model: the model that encoded the passages: a name on the Hugging Face hub or the folder of a downloaded model. An index made by
            ``Splade.index`` stores its name, so give it only if the model's folder has moved.
        text: an operator that adds ``text`` by ``docno``, such as ``ikat.TextLoader(path)`` or ``PassageIndex.text_loader()``, instead of
            the texts in the index.
        query_model: another model for queries. It has the same vocabulary and was fine-tuned while the passages' encoder was frozen. In
            Lupart et al., DiSCo, SIGIR 2025 (arXiv 2410.14609), it reads the whole conversation.

    Raises:
        DataError: at ``retriever``, when the index at ``path`` is missing, incomplete, or not an index of learned impacts.
        UsageError: at ``retriever``, when ``model`` is missing or isn't the one that encoded the passages. At the first search, when
            ``query_model`` has another vocabulary.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.SpladeIndex("ikat_2023_splade.pisa", "naver/splade-cocondenser-selfdistil", text=ikat.TextLoader("passages.jsonl"))
        ikat.SpladeIndex('ikat_2023_splade.pisa', 'naver/splade-cocondenser-selfdistil', text=ikat.TextLoader('passages.jsonl'))
    """

    ARTIFACT_FORMAT = "ikat_splade"
    META, descriptions = META, (META, *PYTERRIER_META)

    @checked
    def __init__(
        self,
        path: str | Path,
        model: str | Path | None = None,
        *,
        text: pt.Transformer | None = None,
        query_model: str | Path | None = None,
    ) -> None:
        super().__init__(path, text)
        self.model = None if model is None else str(model)
        self.query_model = None if query_model is None else str(query_model)
        self._terms: dict[str, list[str]] = {}
        self._checksum: tuple[Seen, str] | None = None

    def retriever(
        self,
        num_results: int = 1000,
        cache: str | Path | None = None,
        *,
        query_model: str | Path | None = None,
        k1: float | None = None,
        b: float | None = None,
        engine: str | None = None,
    ) -> SpladeRetriever:
        """Retrieval from this index; see :class:`SpladeRetriever`. ``k1`` and ``b`` are BM25's parameters and are ignored.

        With ``query_model`` it searches ``SpladeIndex(path, query_model=...)``: this index with another model for queries.
        """
        return SpladeRetriever(self if query_model is None else self.with_query_model(query_model), num_results, cache, engine)

    def with_query_model(self, model: str | Path) -> "SpladeIndex":
        """This index with another model for queries."""
        return SpladeIndex(self.path, self.model, text=self.text, query_model=model)

    def warm_up(self) -> None:
        """Load the model that encodes queries in advance."""
        self.encode_queries(["tea"])

    def _read_description(self, folder: Path) -> dict[str, Any]:
        return (_describe_pyterriers if made_by_pyterrier(folder) else _describe_ours)(folder, self.model)

    @property
    def pisa(self) -> Path:
        """The folder of PISA's files."""
        return Path(self.path) if made_by_pyterrier(Path(self.path)) else Path(self.path) / FOLDER

    @property
    def eager(self) -> Path:
        """The folder of the eager engine's files."""
        return Path(self.path) / FOLDER

    def build_package(self, package_path: str | None = None, *, texts: bool = False, **options: Any) -> str:
        """Build a package of the index; see :meth:`IndexArtifact.build_package`. An index of PyTerrier is packed by PyTerrier's code."""
        if made_by_pyterrier(Path(self.path)) and not texts:
            return pt.Artifact(self.path).build_package(package_path, **options)
        return super().build_package(package_path, texts=texts, **options)

    def check_same(self, model: str, corpus: Corpus) -> None:
        """Check that this is the index that ``Splade(model).index`` would make from ``corpus``.

        Raises:
            UsageError: when it has other passages, was encoded with another model, or doesn't say of which passages it was made.
        """
        described = self.describe()
        if described.get("encoded_by") != checksum_model(model):
            raise UsageError(
                f"the index {self.path} was encoded with another model than {model!r} as it is now: remove it, or give a new path"
            )
        CorpusReader(corpus).check_same(self.path, described["count"], described.get("sha256"))

    def encode_queries(self, queries: Sequence[str]) -> list[dict[str, int]]:
        """For each of ``queries``, a dict from terms to impacts.

        Raises:
            UsageError: when the model can't be loaded.
            DataError: when the index has more terms than the model.
        """
        passages, index = self.describe()["model"], self.fingerprint()
        model = load_sparse_encoder(self.query_model or passages)
        if index not in self._terms:
            terms = list_tokens(model) if made_by_pyterrier(Path(self.path)) else list_numbers(model)
            if self.query_model is not None and checksum_vocabulary(model) != self._vocabulary():
                raise UsageError(
                    f"the model for queries, {self.query_model!r}, has another vocabulary than {passages!r}, which encoded the passages of "
                    f"{self.path}: give one that was fine-tuned from it"
                )
            count = eager.count_distinct(self.eager) if "eager" in self.engines else count_terms(self.pisa)
            if count > len(terms):
                raise DataError(
                    f"the index {self.path} has {count} terms, the model {passages!r} only {len(terms)}: "
                    "give the model that encoded its passages"
                )
            self._terms[index] = terms
        return encode_texts(model, queries, of="query").as_dicts(self._terms[index])

    def _vocabulary(self) -> str:
        """The checksum of the terms of the model that encoded the passages. PyTerrier's indexes don't store it."""
        described = self.describe()
        return str(described.get("vocabulary") or checksum_vocabulary(load_sparse_encoder(described["model"])))

    def fingerprint_of(self, seen: Seen) -> str:
        """A checksum that changes with the passages and with the model of the vectors.

        Returns:
            Two words. The first one is equal for every copy of the index and its model. The second one depends on the times at which the
            files of these copies were changed, and so distinguishes files with the same sizes, beginnings and ends.
        """
        described = seen.described
        model = described["model"]
        if "named" in described and not is_copy(model, described["named"], described.get("encoded_by")):
            raise UsageError(
                f"the index {self.path} was encoded with another model than {model!r} as it is now: give that one, or index again"
            )
        copied = digest(checksum_model(model), self._checksum_of(seen))
        changed = (str(changed_at(seen.states[name])) for name in described["files"])
        state = digest("splade", *model_state(model))
        if self.query_model is not None:
            copied = digest(copied, "queries", checksum_model(self.query_model))
            state = digest(state, *model_state(self.query_model))
        return f"{copied.hex()} {digest(state, *changed).hex()}"

    def _checksum_of(self, seen: Seen) -> str:
        """The checksum of the index's files, read once."""
        known = self._checksum
        if known is None or known[0] is not seen:
            with open_folder(Path(self.path)) as folder:
                self._check_held(folder, seen)
                known = seen, checksum_files(folder, seen.described["files"])
                self._check_held(folder, seen)
            self._checksum = known
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_checksum": None}

    def _identity(self) -> tuple[Any, ...]:
        return (self.path, self.model, self.text, self.query_model)

    def __repr__(self) -> str:
        shown = [repr(value) for value in (self.path, self.model) if value is not None]
        shown += [f"{name}={getattr(self, name)!r}" for name in ("text", "query_model") if getattr(self, name) is not None]
        return f"ikat.SpladeIndex({', '.join(shown)})"


def _describe_ours(folder: Path, model: str | None) -> dict[str, Any]:
    repair = advice(f"ikat.Splade(model).index({str(folder)!r}, corpus)", f"`ikat index SOURCE {folder} --splade MODEL`")
    described = read_description(folder / META, form=FORMAT, repair=f"make it with {repair}")
    made_by = described["model"]
    if model is not None and not is_copy(model, made_by, described.get("encoded_by")):
        raise UsageError(
            f"the passages of {folder} were encoded by {made_by!r}, not {model!r} as it is now: omit "
            + advice("the model", "--resources splade_model=NAME")
        )
    return described | {"model": model or made_by, "named": made_by}


def _describe_pyterriers(folder: Path, model: str | None) -> dict[str, Any]:
    path = next(folder / name for name in PYTERRIER_META if (folder / name).exists())
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        kind, stemmer = described.get("format", "pisa"), described["stemmer"]
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(f"{path} can't be read ({error}): copy the index again") from None
    if (kind, stemmer) != ("pisa", "none"):
        raise DataError(
            f"{folder} is an index of format {kind!r} with stemmer {stemmer!r}: SPLADE vectors are in a PISA index with stemmer 'none'"
        )
    missing = [name for name in PYTERRIER_FILES if not (folder / name).exists()]
    if missing:  # otherwise PISA would end our process
        raise DataError(f"the index {folder} isn't whole: {missing[0]} is missing; copy it again")
    if model is None:
        given = advice("ikat.SpladeIndex(path, model)", "--resources splade_model=NAME")
        raise UsageError(f"the index {folder} doesn't say which model encoded its passages: give it, {given}")
    return {"model": model, "count": count_passages(folder), "files": [path.name, *PYTERRIER_FILES]}
