"""Retrieval from a collection that is divided into several indexes."""

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyterrier as pt

from ..conversations.frame import NoResultWarning, each_turn_once, report_turns_without_result
from ..errors import DataError, UsageError
from ..events import carried
from ..operator import Operator, frame_for, without_unread_texts
from ..order import order_by_score, set_ranks


class MergeShards(Operator):
    """Search the parts of a collection at the same time, and keep the best passages of all.

    It serves a collection whose index is too large for one machine. Each part has its own index and retriever, such as
    ``PassageIndex(path).bm25()``, ``SpladeIndex(path).retriever()``, or one of these ``on_ray`` with the resource of the machine that
    has the part. Reads ``qid`` and ``query``; returns the columns of the retrievers, with the ``num_results`` passages of highest score
    for each query. Equal scores are ordered by docno, the greatest first, and queries are in the order of the rows. ``merged % k`` lets
    each part retrieve only k passages.

    Scores are compared without normalisation. Scores of learned sparse retrieval don't depend on the other passages, so the result
    equals that of one index. BM25 computes idf and the mean length of passages in each part separately: the more alike the
    parts are, the closer the result is to that of one index (measured in ``docs/scale.md``). Source: Callan, Distributed Information
    Retrieval, 2000, section 5, raw-score merging.

    Args:
        retrievers: one per part; no passage may be in two parts.
        num_results: the maximum number of passages per query.

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
        """This operator with at most ``k`` passages per query, also from each part."""
        k = min(k, self.num_results)
        return MergeShards([(retriever % k).compile() for retriever in self.retrievers], k)

    def without_texts(self) -> "MergeShards":
        """This operator without texts, for pipelines where no later stage reads them."""
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
            warnings.simplefilter("ignore", NoResultWarning)  # another part may have results
            found = list(threads.map(carried(search), self.retrievers))
        merged = merge_rankings(found, inp["qid"].tolist(), self.num_results)
        report_turns_without_result(inp, inp["qid"].isin(merged["qid"]).to_numpy(dtype=np.int64))
        return merged


def merge_rankings(frames: Sequence[pd.DataFrame], qids: Sequence[str], num_results: int) -> pd.DataFrame:
    """The best passages of several result frames, per ``qid``.

    Args:
        frames: with ``qid``, ``docno``, ``score``.
        qids: the order of the queries.
        num_results: the maximum number of passages per query.

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
