"""The base of all retrievers, and retrieval from a collection that is divided into several indexes."""

import struct
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import STALE_WITH_QUERY, NoResultWarning, each_turn_once, report_turns_without_result
from ..errors import DataError, UsageError
from ..events import carried
from ..operator import Operator, frame_for, without_unread_texts
from ..order import order_by_score, set_ranks
from ..store.cache import Cache, compute_missing, open_cache
from .artifact import IndexArtifact
from .ranking import NOTHING, Ranking

AT_ONCE = 256
HEADER = struct.Struct("<II")


class Query(NamedTuple):
    """What one row asks.

    Attributes:
        row: its position in the frame.
        query: text, or how often each term counts.
        unit: by which the scores are to be multiplied, so that terms of weight 1 score like the words of a query.
    """

    row: int
    query: str | dict[str, int]
    unit: float = 1.0


class IndexRetriever(Operator):
    """Base of retrievers over an index: each distinct query is searched once, unless its ranking is in the cache.

    A subclass gives the cache key of a query (:meth:`key`) and finds rankings (:meth:`find_rankings`).

    Args:
        index: the index to search.
        num_results: passages per query at most.
        cache: a file in which rankings are kept for other processes and later runs; made when missing.
    """

    activity = "searching {queries}"
    label: ClassVar[str]
    method: ClassVar[str]
    """The method of the index that makes it."""
    scale: ClassVar[int] = 1
    """How many times the score what is searched gives."""

    def __init__(self, index: IndexArtifact, num_results: int = 1000, cache: str | Path | None = None) -> None:
        super().__init__()
        if num_results < 1:
            raise UsageError(f"num_results={num_results!r}: retrieve at least one passage per query")
        index.describe()
        self.index: Any = index
        self.num_results = num_results
        self.cache = None if cache is None else str(cache)
        self._opened: dict[tuple[Any, ...], Any] = {}

    def queries(self, frame: pd.DataFrame) -> list[Query]:
        """What those rows of a query frame ask that ask for anything: by default the texts that aren't blank."""
        return [Query(row, query) for row, query in enumerate(frame["query"]) if isinstance(query, str) and query.strip()]

    @abstractmethod
    def key(self, fingerprint: str, query: str | dict[str, int]) -> bytes:
        """The cache key: everything that determines a ranking except its depth."""

    @abstractmethod
    def find_rankings(self, fingerprint: str, queries: list[Any]) -> list[Ranking]:
        """The rankings of queries, ``num_results`` deep."""

    def opened(self, fingerprint: str, options: tuple[Any, ...], open_retriever: Callable[..., Any]) -> Any:
        """What an engine searches with, over the index with this fingerprint, opened once per options.

        Args:
            fingerprint: of the index.
            options: what else decides it.
            open_retriever: opens it, from a name of the index's folder that leads to no other one meanwhile.
        """
        key = (fingerprint, *options)
        if (found := self._opened.get(key)) is None:
            with self.index.held(fingerprint) as folder:
                found = open_retriever(folder)
            for known in [known for known in self._opened if known[0] != fingerprint]:
                self._opened.pop(known, None)
            self._opened[key] = found
        return found

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """This retriever with ``k`` passages per query at most, for ``retriever % k``."""
        return type(self)(**{**self.arguments(), "num_results": min(k, self.num_results)})

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        return self.index.of_one_state(partial(self._retrieve, inp))  # type: ignore[no-any-return]

    def _retrieve(self, inp: pd.DataFrame, check_same: Callable[[], None]) -> pd.DataFrame:
        queries, fingerprint = self.queries(inp), self.index.fingerprint()
        keys = [self.key(fingerprint, query.query) for query in queries]
        distinct = {key: query.query for key, query in zip(keys, queries, strict=True)}

        def find(asked: list[Any]) -> list[Ranking]:
            rankings = self.find_rankings(fingerprint, asked)
            check_same()  # before they are kept as those of this index
            return rankings

        found = cached_rankings(distinct, self.num_results, open_cache(self.cache), find, self.label)
        rankings = {query.row: self._weigh(found[key], query.unit) for key, query in zip(keys, queries, strict=True)}
        results = result_frame(inp, rankings)
        return self.index.with_text(results) if self.gives_texts else results

    def _weigh(self, ranking: Ranking, unit: float) -> Ranking:
        return ranking._replace(scores=ranking.scores.astype(np.float64) * unit / self.scale)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": {}}  # an open index can't be sent to another process

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = {name: value for name, value in self.arguments().items() if name != "index" and value != defaults[name]}
        return f"{self.index!r}.{self.method}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def cached_rankings(
    queries: Mapping[bytes, Any], depth: int, cache: Cache, find: Callable[[list[Any]], list[Ranking]], label: str
) -> dict[bytes, Ranking]:
    """The ranking of each query; only those that ``cache`` doesn't have are searched.

    Args:
        queries: by a key that stands for everything that decides the ranking but the depth.
        depth: passages per query at most.
        cache: where rankings are kept, empty ones too. A deeper ranking serves: its beginning is the shallower one.
        find: gives the rankings of up to 256 queries, ``depth`` deep.
        label: the progress bar's.
    """
    return compute_missing(
        cache,
        queries,
        find,
        encode=partial(packed, depth=depth),
        decode=partial(unpacked, depth=depth),
        at_once=AT_ONCE,
        label=label,
        unit="query",
    )


def packed(ranking: Ranking, depth: int) -> bytes:
    """A ranking of PISA, searched to ``depth``, as bytes: depth, number of passages, scores in PISA's 32 bits, docnos by line."""
    scores = ranking.scores.astype("<f4").tobytes()
    return HEADER.pack(depth, len(ranking.docnos)) + scores + "\n".join(ranking.docnos).encode()


def unpacked(value: bytes, depth: int) -> Ranking | None:
    """The first ``depth`` passages of a packed ranking; None when it was searched less deep and may have missed some."""
    searched, count = HEADER.unpack_from(value)
    if searched < depth and count == searched:
        return None
    scores = np.frombuffer(value, "<f4", count, HEADER.size)
    docnos = value[HEADER.size + scores.nbytes :].decode().split("\n") if count else []
    return Ranking(docnos, scores).best(depth)


REPLACED = ("docno", "score", "rank", "text")


def result_frame(inp: pd.DataFrame, rankings: Mapping[int, Ranking]) -> pd.DataFrame:
    """The rows of ``inp`` with their passages, in the order of the rows.

    Turns without a passage are named in a ``NoResultWarning``.

    Args:
        inp: a query frame.
        rankings: by a row's position in ``inp``; rows without a ranking have no passage.

    Returns:
        All columns of ``inp`` (the same objects), ``docno``, ``score`` and ``rank``, from 0.
    """
    each_turn_once(inp)
    found = [rankings.get(row, NOTHING) for row in range(len(inp))]
    counts = np.array([len(ranking.docnos) for ranking in found], dtype=np.int64)
    report_turns_without_result(inp, counts)
    queries = inp.drop(columns=[name for name in (*STALE_WITH_QUERY, *REPLACED) if name in inp.columns])
    columns: dict[str, Any] = {str(name): _repeat(queries[name], counts) for name in queries.columns}
    docnos = np.empty(counts.sum(), dtype=object)
    docnos[:] = list(chain.from_iterable(ranking.docnos for ranking in found))
    scores = np.concatenate([NOTHING.scores, *(ranking.scores for ranking in found)]).astype(np.float64)
    found_by = pd.DataFrame({**columns, "docno": pd.Series(docnos, dtype=object)}, copy=False)
    return set_ranks(found_by, np.repeat(np.arange(len(inp)), counts), scores, by_docno=True)


def _repeat(values: "pd.Series[Any]", counts: Any) -> "pd.Series[Any]":
    dtype = values.dtype if pd.api.types.is_numeric_dtype(values.dtype) else object
    return pd.Series(np.repeat(values.to_numpy(dtype=dtype), counts), dtype=dtype)


class MergeShards(Operator):
    """Search the parts of a collection at the same time, and keep the best passages of all.

    For a collection whose index is too large for one machine: each part has its own index and retriever, such as
    ``PassageIndex(path).bm25()``, ``SpladeIndex(path).retriever()``, or one of these ``on_ray`` with the resource of the machine that
    has the part. Reads ``qid`` and ``query``; returns the columns of the retrievers, for each query the ``num_results`` passages of
    highest score, equal scores by docno (the greatest first), queries in the order of the rows. ``merged % k`` lets each part retrieve
    only k passages.

    Scores are compared without normalisation. Scores of learned sparse retrieval don't depend on the other passages, so the result
    equals that of one index. BM25 takes the rarity of words and the mean length of passages from each part alone: the more alike the
    parts, the closer to one index (measured in ``docs/scale.md``). Source: Callan, Distributed Information Retrieval, 2000, section
    5, raw-score merging.

    Args:
        retrievers: one per part; no passage may be in two parts.
        num_results: passages per query at most.

    Raises:
        UsageError: when there is no retriever, one isn't a transformer, or ``num_results`` is below 1.
        DataError: when a passage is found in two parts.

    Example:
        >>> import tempfile, pyterrier_ikat as ikat
        >>> texts = {"d1": "Rooibos has no caffeine.", "d2": "Coffee has caffeine.", "d3": "Trams run."}
        >>> rows = [{"docno": docno, "text": text} for docno, text in texts.items()]
        >>> halves = [ikat.PassageIndex(tempfile.mkdtemp()).index(half) for half in (rows[:2], rows[2:])]
        >>> ikat.MergeShards([half.bm25() for half in halves]).search("trams and coffee")["docno"].tolist()
        ['d2', 'd3']
    """

    activity = "searching {queries}"
    schematic = {"label": "Merge shards", "inner_pipelines_mode": "linked"}
    reads_texts = False

    def __init__(self, retrievers: Sequence[pt.Transformer], num_results: int = 1000) -> None:
        super().__init__()
        if not isinstance(retrievers, list | tuple) or not retrievers or not all(isinstance(one, pt.Transformer) for one in retrievers):
            raise UsageError(f"retrievers={retrievers!r}: give a list of retrievers, one per part of the collection")
        if num_results < 1:
            raise UsageError(f"num_results={num_results!r}: retrieve at least one passage per query")
        self.retrievers = list(retrievers)
        self.num_results = num_results

    def fuse_rank_cutoff(self, k: int) -> "MergeShards":
        """This operator with ``k`` passages per query at most, from each part too."""
        k = min(k, self.num_results)
        return MergeShards([(retriever % k).compile() for retriever in self.retrievers], k)

    def without_texts(self) -> "MergeShards":
        """This operator for a place behind which nobody reads texts."""
        found = super().without_texts()
        found.retrievers = [without_unread_texts(retriever) for retriever in self.retrievers]
        return found

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Retrieve for each row of a query frame."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        each_turn_once(inp)
        if len(inp) == 0:
            return self.retrievers[0].transform(inp)

        def search(retriever: pt.Transformer) -> pd.DataFrame:
            return retriever.transform(frame_for(retriever, inp))

        with warnings.catch_warnings(), ThreadPoolExecutor(len(self.retrievers)) as threads:
            warnings.simplefilter("ignore", NoResultWarning)  # what one part lacks another may have
            found = list(threads.map(carried(search), self.retrievers))
        merged = merge_rankings(found, inp["qid"].tolist(), self.num_results)
        report_turns_without_result(inp, inp["qid"].isin(merged["qid"]).to_numpy(dtype=np.int64))
        return merged


def merge_rankings(frames: Sequence[pd.DataFrame], qids: Sequence[str], num_results: int) -> pd.DataFrame:
    """The best passages of several result frames, per ``qid``.

    Args:
        frames: with ``qid``, ``docno``, ``score``.
        qids: the order of the queries.
        num_results: passages per query at most.

    Raises:
        DataError: when two frames have the same passage for a query.
    """
    together = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    twice = together[together.duplicated(["qid", "docno"])]
    if len(twice):
        raise DataError(f"passage {twice['docno'].iloc[0]} is in two parts of the collection: index each passage in one part only")
    places = pd.Index(qids).unique().get_indexer(together["qid"])
    score = together["score"].to_numpy(dtype=np.float64)
    order = order_by_score(together, places, score)
    merged = set_ranks(together.take(order), places[order], score[order], by_docno=True)
    return merged[merged["rank"] < num_results].reset_index(drop=True)
