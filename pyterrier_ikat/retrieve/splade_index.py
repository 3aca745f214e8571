"""An index of SPLADE vectors, and retrieval over it."""

import json
import os
from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import checked
from ..errors import DataError, UsageError, advice
from ..operator import Operator
from ..store.files import read_description, state
from ..store.models import files_below
from ..store.models import fingerprint as of_model
from ..store.results import digest, shared
from . import pisa, pisa_impacts
from .fingerprint import fingerprint as of_files
from .pisa import version
from .pisa_search import TIES, by_pisa
from .ranking import Ranking, each_once, result_frame, with_texts
from .sparse_encoder import SCALE, impacts, load_sparse_encoder, numbers, tokens
from .text_store import Corpus, Reading, held, read_texts


class SpladeRetriever(Operator):
    """Learned sparse retrieval; ``SpladeIndex.retriever()`` makes it.

    Reads ``qid`` and ``query``; gives for every row its passages, in the order of the rows: all columns of the row (the same objects),
    ``docno``, ``score``, ``rank`` (from 0), and ``text`` where the index has the passages' text or a loader for it. The score is the dot
    product of the query's and the passage's vector, their weights rounded to hundredths. Equal scores go by docno, the greatest
    first, as in trec_eval.
    Each distinct query is encoded and searched once, as by :class:`BM25`; it is cut off at the tokens that the model can read. A query
    that is blank, not a string, or encoded as an empty vector has no
    result; turns with none are named in a ``NoResultWarning``: an expanded turn only when none of its sub-queries found anything.
    ``retriever % k`` retrieves just k. Source: Formal et al., From Distillation to Hard Negative Sampling, SIGIR 2022; in iKAT:
    IRLab@iKAT24, section 3.1.

    Args:
        index: the index to search.
        num_results: passages per query at most.
        cache: a file in which rankings are kept for other processes and later runs; made when missing.

    Raises:
        UsageError: when ``num_results`` is out of range; at first use, when the model can't be loaded.
        DataError: when the index isn't there, isn't whole, or wasn't made by this model.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.SpladeIndex("splade.index").retriever(num_results=100)  # doctest: +SKIP
        ikat.SpladeIndex('splade.index').retriever(num_results=100)
    """

    schematic = {"label": "SPLADE"}

    def __init__(self, index: "SpladeIndex", num_results: int = 1000, cache: str | Path | None = None) -> None:
        super().__init__()
        if num_results < 1:
            raise UsageError(f"num_results={num_results!r}: retrieve at least one passage per query")
        index.describe()
        self.index = index
        self.num_results = num_results
        self.cache = None if cache is None else str(cache)
        self._pisa: dict[str, Any] = {}

    def fuse_rank_cutoff(self, k: int) -> "SpladeRetriever":
        """This retriever with ``k`` passages per query at most, for ``retriever % k``."""
        return SpladeRetriever(self.index, min(k, self.num_results), self.cache)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        asked = {row: query for row, query in enumerate(inp["query"]) if isinstance(query, str) and query.strip()}
        index = self.index.fingerprint()
        keys = {query: digest("splade", version(), TIES, index, query) for query in dict.fromkeys(asked.values())}
        queries = {key: query for query, key in keys.items()}
        found = each_once(queries, self.num_results, shared(self.cache), partial(self._search, index), "SPLADE")
        weighed = {key: ranking._replace(scores=ranking.scores.astype(np.float64) / SCALE**2) for key, ranking in found.items()}
        rankings = {row: weighed[keys[query]] for row, query in asked.items()}
        return self.index.with_text(result_frame(inp, rankings))

    def _search(self, index: str, queries: list[str]) -> list[Ranking]:
        vectors = self.index.encode_queries(queries)
        return by_pisa(copy(self._retriever(index)), "query_toks", vectors, self.num_results)

    def _retriever(self, index: str) -> Any:
        if index not in self._pisa:
            threads = min(max(os.cpu_count() or 2, 2), 16)  # with one thread PISA keeps Python's lock while it searches
            self._pisa[index] = self.index.pisa_retriever(self.num_results, threads)
        return self._pisa[index]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pisa": {}}  # an open index can't be sent to another process

    def __repr__(self) -> str:
        shown = [f"num_results={self.num_results!r}"] if self.num_results != 1000 else []
        shown += [f"cache={self.cache!r}"] if self.cache is not None else []
        return f"{self.index!r}.retriever({', '.join(shown)})"


FORMAT = 1
META, TEXTS, PISA = "ikat_splade.json", "texts.sqlite", "pisa"
PYTERRIER_META = ("pt_meta.json", "pt_pisa_config.json")
PYTERRIER_FILES = ("inv.docs", "inv.freqs", "inv.sizes", "fwd.termlex", "fwd.doclex")


class SpladeIndex:
    """An index of SPLADE vectors; ``Splade.index`` makes one, with the passages' text.

    It also opens an index that PyTerrier made by ``PisaIndex(...).toks_indexer()`` with its scale of 100, as the iKAT organisers
    distribute one: name the model that encoded the passages, and give ``text`` if the passages' text is wanted. What PISA needs for
    retrieval is added to such an index at the first search. There, as in PyTerrier's own pipeline, terms with a capital (``[SEP]``) count
    nothing: PISA looks terms up in lower case.

    Args:
        path: the folder.
        model: the model that encoded the passages, a name of the Hugging Face hub or the folder of a downloaded model. An index made by
            ``Splade.index`` knows its own; name it only when the model's folder has moved.
        text: an operator that adds ``text`` by ``docno``, such as ``ikat.TextLoader(path)`` or ``PassageIndex.text_loader()``, instead of
            the texts in the index.

    Raises:
        DataError: at ``retriever``, when there is no index at ``path``, or it was cut short or isn't one of learned impacts.
        UsageError: at ``retriever``, when ``model`` is missing or isn't the one that encoded the passages.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.SpladeIndex("ikat_2023_splade.pisa", "naver/splade-cocondenser-selfdistil", text=ikat.TextLoader("passages.jsonl"))
        ikat.SpladeIndex('ikat_2023_splade.pisa', 'naver/splade-cocondenser-selfdistil', text=ikat.TextLoader('passages.jsonl'))
    """

    @checked
    def __init__(self, path: str | Path, model: str | Path | None = None, *, text: pt.Transformer | None = None) -> None:
        self.path = str(path)
        self.model = None if model is None else str(model)
        self.text = text
        self._described: tuple[tuple[tuple[int, ...], ...], dict[str, Any]] | None = None
        self._terms: dict[str, list[str]] = {}

    def retriever(
        self, num_results: int = 1000, cache: str | Path | None = None, *, k1: float | None = None, b: float | None = None
    ) -> SpladeRetriever:
        """Retrieval over this index; see :class:`SpladeRetriever`. ``k1`` and ``b`` are BM25's: here they mean nothing."""
        return SpladeRetriever(self, num_results, cache)

    def warm_up(self) -> None:
        """Load now what the first search would load: the model that encodes queries."""
        self.encode_queries(["tea"])

    @property
    def has_text(self) -> bool:
        """Whether its retriever gives the passages' text."""
        return self.text is not None or self.describe()["texts"] is not None

    def describe(self) -> dict[str, Any]:
        """What the index is, looked up again when another one was put in its place.

        Returns:
            ``model`` (the name to load), ``pisa`` (the folder of PISA's files), ``texts`` (the file of the texts, or None), ``count``
            (the number of passages), and ``files`` (the names of what it is made of).

        Raises:
            DataError: when it isn't there, isn't whole, or is of another kind.
            UsageError: when the model isn't known, or isn't the one that encoded the passages.
        """
        folder = Path(self.path)
        now = tuple(state(folder / name) for name in (META, *PYTERRIER_META))
        if self._described is None or self._described[0] != now:
            self._described = now, _of_pyterrier(folder, self.model) if _is_pyterrier(folder) else _of_ikat(folder, self.model)
        return self._described[1]

    def check_same(self, model: str, corpus: Corpus) -> None:
        """Whether this is what ``Splade(model).index`` would make of ``corpus``.

        Raises:
            UsageError: when it was made of other passages, or encoded by another model, or doesn't say of which.
        """
        described = self.describe()
        if described.get("encoded_by") != content_of(model):
            raise UsageError(
                f"the index {self.path} was encoded by another model than {model!r} is now: remove it, or give a path where nothing is"
            )
        Reading(corpus).check_same(self.path, described["count"], described.get("sha256"))

    def texts(self, docnos: Sequence[str]) -> list[str]:
        """The passages' text as it was indexed, in the order of ``docnos``.

        Raises:
            DataError: naming the docnos that the index lacks, or when the index has no texts.
        """
        file = self.describe()["texts"]
        if file is None:
            raise DataError(f"the index {self.path} has no texts: give ikat.SpladeIndex(..., text=ikat.TextLoader(path))")
        return read_texts(file, list(docnos))

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Those docnos ``among`` the given ones that the index has, looked up as they are asked for."""
        described = self.describe()
        if described["texts"] is not None:
            return held(described["texts"], among)
        return filter(frozenset(among).__contains__, pisa.docnos(described["pisa"]))

    def with_text(self, found: pd.DataFrame) -> pd.DataFrame:
        """``found`` with the column ``text``, or as it is when there is neither a store nor a loader of texts."""
        if not self.has_text:
            return found
        return with_texts(found, self.texts) if self.text is None else self.text.transform(found)

    def encode_queries(self, queries: Sequence[str]) -> list[dict[str, int]]:
        """Impacts by term, for each of ``queries``.

        Raises:
            UsageError: when the model can't be loaded.
            DataError: when the index has more terms than the model.
        """
        described, index = self.describe(), self.fingerprint()
        model = load_sparse_encoder(described["model"])
        if index not in self._terms:
            terms = numbers(model) if described["texts"] else tokens(model)
            found = pisa_impacts.number_of_terms(described["pisa"])
            if found > len(terms):
                raise DataError(
                    f"the index {self.path} has {found} terms, the model {described['model']!r} only {len(terms)}: "
                    "give the model that encoded its passages"
                )
            self._terms[index] = terms
        return impacts(model, queries, of="query").as_dicts(self._terms[index])

    def fingerprint(self) -> str:
        """A checksum that an index of other passages, or vectors of another model, does not have.

        Returns:
            Two words. The first one is that of every copy of the index and of its model; the second one knows when the files of just these
            were changed, and so tells apart what has the same sizes, beginnings and ends.
        """
        described, folder = self.describe(), Path(self.path)
        copied = digest(content_of(described["model"]), of_files(folder, described["files"]))
        changed = (str((folder / name).stat().st_mtime_ns) for name in described["files"])
        return f"{copied.hex()} {digest(of_model('splade', described['model']), *changed).hex()}"

    def pisa_retriever(self, num_results: int, threads: int) -> Any:
        """PISA's own retriever over this index; it reads impacts from ``query_toks``."""
        return pisa_impacts.retriever(self.describe()["pisa"], num_results=num_results, threads=threads)

    def _identity(self) -> tuple[Any, ...]:
        return (self.path, self.model, self.text)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_described": None}  # another machine has to look for itself

    def __len__(self) -> int:
        return int(self.describe()["count"])

    def __repr__(self) -> str:
        model = "" if self.model is None else f", {self.model!r}"
        text = "" if self.text is None else f", text={self.text!r}"
        return f"ikat.SpladeIndex({self.path!r}{model}{text})"

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, SpladeIndex) else NotImplemented

    def __hash__(self) -> int:
        return hash((SpladeIndex, *self._identity()))


def content_of(model: str) -> str:
    """What a copy of a model's folder has, too; a name of the hub stands for itself."""
    folder = Path(model)
    return of_files(folder, (str(path.relative_to(folder)) for path in files_below(folder))) if folder.is_dir() else model


def _is_pyterrier(folder: Path) -> bool:
    return any((folder / name).exists() for name in PYTERRIER_META)


def _of_ikat(folder: Path, model: str | None) -> dict[str, Any]:
    repair = advice(f"ikat.Splade(model).index({str(folder)!r}, corpus)", f"`ikat index SOURCE {folder} --splade MODEL`")
    described = read_description(folder / META, form=FORMAT, repair=f"make it with {repair}")
    made_by = described["model"]
    if model is not None and Path(model).name != Path(made_by).name:
        raise UsageError(
            f"the passages of {folder} were encoded by {made_by!r}, not {model!r}: leave {advice('the model', '--splade-model')} away"
        )
    return {
        "model": model or made_by,
        "pisa": folder / PISA,
        "texts": folder / TEXTS,
        "count": described["count"],
        "files": list(described["files"]),
        "sha256": described.get("sha256"),
        "encoded_by": described.get("encoded_by"),
    }


def _of_pyterrier(folder: Path, model: str | None) -> dict[str, Any]:
    path = next(folder / name for name in PYTERRIER_META if (folder / name).exists())
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        kind, stemmer = described.get("format", "pisa"), described["stemmer"]
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DataError(f"{path} can't be read ({error}): copy the index again") from error
    if (kind, stemmer) != ("pisa", "none"):
        raise DataError(
            f"{folder} is an index of format {kind!r} with stemmer {stemmer!r}: SPLADE vectors are in a PISA index with stemmer 'none'"
        )
    missing = [name for name in PYTERRIER_FILES if not (folder / name).exists()]
    if missing:  # PISA would end our process
        raise DataError(f"the index {folder} isn't whole: {missing[0]} is missing; copy it again")
    if model is None:
        raise UsageError(f"the index {folder} doesn't say which model encoded its passages: give it, ikat.SpladeIndex(path, model)")
    return {"model": model, "pisa": folder, "texts": None, "count": pisa.count(folder), "files": [path.name, *PYTERRIER_FILES]}
