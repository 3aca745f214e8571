"""How many of the requests in a comparison are computed: the whole catalogue on the sample, with each distinct request once.

A user's pt.Experiment over these systems computes everything that their stages request, one system after the other. With ``plan="tree"``,
only equal beginnings are shared. Ours computes each distinct request. The benchmark counts LLM requests, queries to the index, and pairs of
a cross-encoder. Its scores are invented, because only their number matters. The LLM's completions are the recorded ones of the sample.

The cost of the bookkeeping is measured on a few turns, with a real cross-encoder: the seconds of the experiment against those of its
searches and its model alone, on the same distinct queries and pairs. The recorded completions take no time, so all work of the LLM layer
counts as ours.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyterrier as pt
from bench import Row
from reranking import save_model

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import LLM, Backend
from pyterrier_ikat.llms.recorded import RecordedBackend
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.retrieve import BM25
from pyterrier_ikat.store import cache as result_cache

FEW_TURNS, TOKENS = 2, 64
Things = dict[str, list[Any]]


class Sample(Backend):
    """An LLM with the sample's completions that counts its requests."""

    concurrency = 4

    def __init__(self, name: str, computed: list[Any]) -> None:
        self.recorded, self.model, self.computed = RecordedBackend(name), name, computed
        self.identity = {"provider": "own", "model": name, "params": {}}

    def complete(self, requests: Sequence[Any]) -> list[Any]:
        """The recorded completions."""
        self.computed += [_request(self.model, request) for request in requests]
        return [replace(reply, model=self.model) for reply in self.recorded.complete(requests)]


def _request(model: str, request: Any) -> str:
    return json.dumps([model, request.messages, request.sample, dict(request.params)])


def _systems(index: ikat.PassageIndex, computed: Things, reranker: ikat.CrossEncoder) -> dict[str, pt.Transformer]:
    llms = {name: ikat.llm(Sample(f"sample{tail}", computed["LLM requests"])) for name, tail in (("llm", ""), ("second_llm", "-claude"))}
    stand_ins = {"rewriter": ikat.Rewrite(llms["llm"], style="llama"), "expander": ikat.Answer(llms["llm"], style="llama")}
    given = {**llms, **stand_ins, "reranker": reranker}
    return {
        name: entry.build(**given, retriever=index.bm25(num_results=entry.depth, **entry.bm25))
        for name, entry in METHODS.items()
        if not name.endswith("_given_llama")  # it was recorded for the first model's answer
    }


def _scores(computed: list[Any], pairs: Sequence[tuple[str, str]]) -> Any:
    computed += pairs
    return np.array([len(set(query.split()) & set(text.split())) for query, text in pairs], dtype=float)


def sorted_terms(terms: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Weighted terms in a form that distinguishes two queries."""
    return tuple(sorted(terms.items()))


def _asked(systems: Mapping[str, pt.Transformer], topics: pd.DataFrame) -> tuple[Things, dict[str, int]]:
    """The requests of the stages of each system, and how many of them remain with ``plan="tree"``."""
    asked: Things = {"LLM requests": [], "queries": [], "pairs": []}
    ask, search, rerank = LLM.ask, BM25.transform, ikat.CrossEncoder.transform

    def asking(self: LLM, requests: Sequence[Any]) -> Any:
        asked["LLM requests"] += [_request(self.backend.identity["model"], request) for request in requests]
        return ask(self, requests)

    def searching(self: BM25, frame: pd.DataFrame) -> pd.DataFrame:
        words = frame["query_toks"].map(sorted_terms) if "query_toks" in frame else frame["query"].str.strip()
        asked["queries"] += [(self.k1, self.b, query) for query in words if query]
        return search(self, frame)

    def reranking(self: ikat.CrossEncoder, frame: pd.DataFrame) -> pd.DataFrame:
        asked["pairs"] += list(zip(frame["query"], frame["text"], strict=True))
        return rerank(self, frame)

    with (
        patch.object(LLM, "ask", asking),
        patch.object(BM25, "transform", searching),
        patch.object(ikat.CrossEncoder, "transform", reranking),
    ):
        for system in systems.values():
            system.transform(topics)
        alone = {name: list(things) for name, things in asked.items()}
        for things in asked.values():
            things.clear()
        _experiment(systems, topics)
    return alone, {name: len(things) for name, things in asked.items()}


def _experiment(systems: Mapping[str, pt.Transformer], topics: pd.DataFrame) -> float:
    judged = pt.get_dataset("ikat:sample").get_qrels()
    started = perf_counter()
    ikat.experiment(systems, topics=topics, qrels=judged[judged["qid"].isin(topics["qid"])])
    return perf_counter() - started


def _overhead(index: ikat.PassageIndex, topics: pd.DataFrame) -> Row:
    """The whole catalogue on a few turns, against its searches and its cross-encoder alone."""
    searches: list[tuple[Any, ...]] = []
    pairs: list[tuple[str, str]] = []
    search, score = BM25.find_rankings, ikat.CrossEncoder._score

    def noted(*given: Any) -> Any:
        searches.append(given)
        return search(*given)

    def scored(self: ikat.CrossEncoder, asked: list[tuple[str, str]]) -> Any:
        pairs.extend(asked)
        return score(self, asked)

    with tempfile.TemporaryDirectory() as folder:
        model = save_model(folder)
        encoder = ikat.CrossEncoder(model, TOKENS)
        encoder(pd.DataFrame([("t", "tea", "d", "rooibos")], columns=["qid", "query", "docno", "text"], dtype=object))  # loads it
        systems = _systems(index, {"LLM requests": []}, encoder)
        result_cache._opened.clear()
        with patch.object(BM25, "find_rankings", noted), patch.object(ikat.CrossEncoder, "_score", scored):
            seconds = _experiment(systems, topics)
        started = perf_counter()
        for given in searches:
            search(*given)
        score(encoder, pairs)
        bare = perf_counter() - started
    queries = sum(len(given[2]) for given in searches)
    why = f"its {queries} searches and the scores of its {len(pairs)} pairs in one call each, nothing else"
    task = f"{len(systems)} systems, {len(topics)} turns, MiniLM-L6 cross-encoder, {TOKENS} tokens a pair"
    return Row(task, seconds, None, "", bare, why, {"over the bare stages": seconds / bare - 1})


def rows() -> Iterator[Row]:
    """One row per kind of request, with the seconds of the whole experiment, and one row for the bookkeeping."""
    data = pt.get_dataset("ikat:sample")
    topics = data.get_topics("manual")
    search = BM25.find_rankings
    with tempfile.TemporaryDirectory() as folder:
        index = ikat.PassageIndex(Path(folder, "index")).index(data.get_corpus_iter(verbose=False))
        computed: Things = {"LLM requests": [], "queries": [], "pairs": []}

        def counted(retriever: Any, opened: Any, queries: Sequence[Any]) -> Any:
            computed["queries"] += queries
            return search(retriever, opened, queries)

        def scored(*given: Any) -> Any:
            return _scores(computed["pairs"], given[-1])

        with patch.object(BM25, "find_rankings", counted), patch.object(ikat.CrossEncoder, "_score", scored):
            systems = _systems(index, computed, ikat.CrossEncoder("counted"))
            seconds = _experiment(systems, topics)
            done = {name: len(things) for name, things in computed.items()}
            alone, tree = _asked(systems, topics)
        overhead = _overhead(index, topics.head(FEW_TURNS))
    for name, things in alone.items():
        needed = len(set(things))
        more = {
            "needed": needed,
            "computed / needed": done[name] / needed,
            "plain pt.Experiment / needed": len(things) / needed,
            'plan="tree" / needed': tree[name] / needed,
        }
        yield Row(f"{name} of {len(systems)} systems, {len(topics)} turns", seconds, None, "", None, "", more)
    yield overhead
