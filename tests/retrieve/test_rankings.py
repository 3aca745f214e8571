"""Rankings as bytes and back, and each query searched once: within calls, over processes."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieve.query_frames import queries

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import BM25, SpladeRetriever
from pyterrier_ikat.retrieve.rankings import Ranking, packed, unpacked
from pyterrier_ikat.store.cache import Cache, compute_missing

DOCNOS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1),
    unique=True,
    max_size=30,
)


def ranking(*docnos):
    return Ranking(list(docnos), np.arange(len(docnos), 0, -1, dtype=np.float32))


@given(DOCNOS, st.integers(1, 40), st.integers(1, 40), st.randoms())
def test_a_ranking_comes_back_bit_for_bit_or_not_at_all(docnos, searched, wanted, random):
    found = Ranking(
        docnos[:searched],
        np.array([random.uniform(-9, 9) for _ in docnos[:searched]], dtype=np.float32),
    )
    back = unpacked(packed(found, searched), wanted)
    if wanted > searched and len(found.docnos) == searched:
        assert back is None  # there may be more
    else:
        assert back.docnos == found.docnos[:wanted]
        assert back.scores.tobytes() == found.scores[:wanted].tobytes()


def test_only_what_is_not_known_deep_enough_is_searched():
    cache = Cache()
    calls = []

    def search(queries):
        calls.append(queries)
        rankings = []
        for query in queries:
            if query == "none":
                rankings.append(ranking())
            else:
                rankings.append(ranking(*[f"{query}{place}" for place in range(depth)]))
        return rankings

    def once(*queries):
        coded = {"encode": partial(packed, depth=depth), "decode": partial(unpacked, depth=depth)}
        found = compute_missing(
            cache,
            {q.encode(): q for q in queries},
            search,
            **coded,
            at_once=9,
            label="",
            unit="query",
        )
        return {key.decode(): ranking.docnos for key, ranking in found.items()}

    depth = 2
    assert once("a", "none") == {"a": ["a0", "a1"], "none": []}
    assert once("none", "a", "b") == {"a": ["a0", "a1"], "b": ["b0", "b1"], "none": []}
    depth = 1
    assert once("a", "none") == {"a": ["a0"], "none": []}
    depth = 3
    assert once("b", "none") == {"b": ["b0", "b1", "b2"], "none": []}
    depth = 2
    assert once("b") == {"b": ["b0", "b1"]}
    assert calls == [["a", "none"], ["b"], ["b"]]


# BM25 and SPLADE


WORDS = ["tea", "tram", "river", "garden", "mint", "sage", "coffee", "oats"]


def passage(number):
    """A passage of one to seven words, each as far behind the last as the number says."""
    words = [WORDS[number * step % 8] for step in range(1, 2 + number % 7)]
    return {"docno": f"d{number:02}", "text": " ".join(words)}


CORPUS = [passage(number) for number in range(60)]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("ranking") / "i").index(CORPUS)


@pytest.fixture
def searched(monkeypatch):
    """What was searched for, by BM25 and SPLADE."""
    queries = []

    for retriever in (BM25, SpladeRetriever):
        find = retriever.find_rankings

        def spy(self, opened, asked, find=find):
            queries.extend(asked)
            return find(self, opened, asked)

        monkeypatch.setattr(retriever, "find_rankings", spy)
    return queries


def test_rows_that_ask_the_same_are_answered_alike_by_one_search(index, searched):
    found = index.bm25()(queries("tea mint", "river", "tea mint"))
    assert sorted(searched) == ["river", "tea mint"]
    first = found[found["qid"] == "q0"].drop(columns="qid")
    last = found[found["qid"] == "q2"].drop(columns="qid")
    pd.testing.assert_frame_equal(first.reset_index(drop=True), last.reset_index(drop=True))


def test_what_is_remembered_is_what_would_be_searched(index, searched, monkeypatch):
    asking = queries("tea mint mint", "river zzzz", "zzzz mint")
    weighted = asking.assign(
        query_toks=[{"tea": 0.3, "mint": 1.1}, {"river": 2.0}, {"mint": 0.1, "tea": 0.1}]
    )
    for retriever in (
        index.bm25(),
        index.bm25(num_results=7),
        index.bm25(k1=1.2, b=0.75),
        index.bm25(num_results=9),
    ):
        for asked in (asking, weighted):
            retriever(asked)
            remembered = retriever(asked)
            with monkeypatch.context() as patch:
                patch.setattr("pyterrier_ikat.store.cache._opened", {})
                pd.testing.assert_frame_equal(remembered, retriever(asked), check_exact=True)
    # those of k1=0.9, b=0.4 and of 1.2, 0.75 once; and each again without a memory
    assert len(searched) == 2 * 6 + 4 * 6


def test_weights_are_equal_in_any_order_but_not_to_their_text(index, searched):
    index.bm25()(queries("x").assign(query_toks=[{"tea": 1.0, "mint": 2.0}]))
    index.bm25()(queries("y").assign(query_toks=[{"mint": 4.0, "tea": 2.0}]))
    assert searched == [{"mint": 10000, "tea": 5000}]
    (weights,) = index.bm25().queries(queries("x").assign(query_toks=[{"tea": 1.0}]))
    index.bm25()(queries(json.dumps(weights.query)))
    index.bm25()(queries("z").assign(query_toks=[{"tea": 1.0}]))
    assert len(searched) == 3


def test_another_index_of_the_same_words_is_searched_for_itself(index, searched, tmp_path):
    other = ikat.PassageIndex(tmp_path / "i").index(CORPUS, stemmer="none")
    more = ikat.PassageIndex(tmp_path / "j").index([*CORPUS, {"docno": "e", "text": "tea"}])
    assert len({index.fingerprint(), other.fingerprint(), more.fingerprint()}) == 3
    for one in (index, other, more, index):
        one.bm25()(queries("tea"))
    assert len(searched) == 3
    assert "e" in set(more.bm25()(queries("tea"))["docno"])


def test_a_file_remembers_for_another_process(index, searched, tmp_path, monkeypatch):
    first = index.bm25(cache=tmp_path / "c")(queries("tea mint", "river"))
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    pd.testing.assert_frame_equal(
        index.bm25(cache=tmp_path / "c")(queries("tea mint", "river")), first
    )
    assert len(searched) == 2
