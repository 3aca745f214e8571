"""The eager engine against PISA's rankings and plain sums: on disk, in memory, beside PISA."""

import math
import os
import pickle
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieve.folders import times_of_files
from retrieve.plain import plain_bm25
from retrieve.query_frames import queries

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import NoResultWarning, eager
from pyterrier_ikat.retrieve.eager import LexicalIndex, candidates
from pyterrier_ikat.retrieve.words import tokenize
from pyterrier_ikat.store import cache as result_cache

WORDS = [
    "tea",
    "teas",
    "mint",
    "the",
    "tram",
    "trams",
    "river",
    "café",
    "U.S.",
    "it’s",
    "no",
    "garden",
    "gardening",
    "oats",
    "line",
    "a",
]
PAPERS = [(0.9, 0.4), (1.2, 0.75)]


def passages(count, seed=3):
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0, 30, count)
    texts = []
    for number, length in enumerate(lengths):
        words = [*WORDS, f"w{number % 90}"]
        texts.append(" ".join(draw.choice(words, length)))
    texts[5] = "tea " * 300 + "river"  # a count that no byte holds
    texts[6] = "mint " * 15
    corpus = []
    for number, text in enumerate(texts):
        corpus.append({"docno": f"d{number * 37 % count:04}:é", "text": text})
    return corpus


QUERIES = queries(
    "tea",
    "mint mint trams",
    "the a no",
    "cafe rivers w7",
    "it's gardening in the U.S.",
    " ".join(WORDS * 3),
    "w1 w2 zzz",
    "zzz",
)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoResultWarning)
        yield


@pytest.fixture(scope="module")
def eagerly(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("eager") / "i").index(passages(700))


@pytest.fixture(scope="module")
def both(eagerly, tmp_path_factory):
    """An index of either engine."""
    pytest.importorskip("pyterrier_pisa")
    return eagerly, ikat.PassageIndex(tmp_path_factory.mktemp("pisa") / "i").index(
        passages(700), engine="pisa"
    )


def agree(ours, theirs):
    """Check for equal turns, passages and ranks; scores within 1e-4 may be in any order."""
    assert len(ours) == len(theirs)
    for (_, mine), (_, other) in zip(
        ours.groupby("qid", sort=False), theirs.groupby("qid", sort=False), strict=True
    ):
        assert mine["score"].tolist() == pytest.approx(other["score"].tolist(), rel=1e-4, abs=1e-9)
        near = np.isclose(other["score"].to_numpy()[1:], other["score"].to_numpy()[:-1], rtol=1e-4)
        apart = np.flatnonzero(~np.concatenate([near, [False]]))
        for first, last in zip([0, *(apart[:-1] + 1)], apart + 1, strict=True):
            assert sorted(mine["docno"][first:last]) == sorted(other["docno"][first:last])


@pytest.mark.parametrize(("k1", "b"), [*PAPERS, (0, 0), (2.5, 1.0)])
@pytest.mark.parametrize("depth", [700, 30])
def test_rankings_are_those_of_pisa(both, k1, b, depth):
    ours, theirs = [index.bm25(k1, b, num_results=depth)(QUERIES) for index in both]
    if depth == 700:
        agree(ours, theirs)
    assert ours["score"].tolist() == pytest.approx(theirs["score"].tolist(), rel=1e-4)


@pytest.mark.linux
@pytest.mark.parametrize("options", [{"stemmer": "none"}, {"stops": "terrier"}, {"stops": "none"}])
def test_stemmers_and_stop_words_are_those_of_pisa(tmp_path, options):
    found = []
    for engine in ("eager", "pisa"):
        index = ikat.PassageIndex(tmp_path / engine)
        index.index(passages(120), engine=engine, **options)
        found.append(index.bm25()(QUERIES))
    agree(*found)


def test_both_engines_have_the_same_words_of_other_characters(tmp_path):
    pytest.importorskip("pyterrier_pisa")
    texts = [
        "Straße Søren",
        "O'Boyle’s study¹",
        "choles\xadterol DAO™ №5",
        "l'été 5½ µg H₂O",
        "Ελλάδα tea",
        "日本",
        "it's o'clock ﬁne",
    ]
    corpus = [{"docno": f"d{number}", "text": text} for number, text in enumerate(texts)]
    asked = queries(
        *texts,
        "strasse oboyle study cholesterol",
        "dao 5 lete ug h2o",
        "oclock fine tea soren it",
    )
    found = []
    for engine in ("eager", "pisa"):
        index = ikat.PassageIndex(tmp_path / engine)
        index.index(corpus, engine=engine, stemmer="none", stops="none")
        found.append(index.bm25()(asked))
    agree(*found)
    assert found[0]["qid"].nunique() == 9  # all but that in Chinese


def test_weighted_terms_are_looked_up_as_they_are_in_lower_case(both):
    toks = [{"tea": 1.0, "Mint": 0.31}, {"teas": 1.0}, {"the": 2.0, "x y": 1.0}]
    asked = queries("", "", "", query_toks=toks)
    ours, theirs = both
    agree(ours.bm25()(asked), theirs.bm25()(asked))


def test_a_small_index_has_no_file_of_pisa_and_starts_no_process(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyterrier_pisa", None)
    index = ikat.PassageIndex(tmp_path / "i").index(passages(50))
    assert sorted(os.listdir(index.path)) == ["bm25-50", "pt_meta.json", "texts.db"]
    before = times_of_files(Path(index.path))
    assert len(index.bm25(1.7, 0.3)(QUERIES)) > 0
    assert times_of_files(Path(index.path)) == before
    assert pickle.loads(pickle.dumps(index.bm25()))(QUERIES).equals(index.bm25()(QUERIES))
    with pytest.raises(
        ikat.UsageError,
        match="pyterrier-pisa isn't installed|holds an index with engine 'eager', not 'pisa'",
    ):
        index.index(passages(50), engine="pisa")
    assert index.index(passages(50)).describe()["engine"] == "eager"


@pytest.mark.linux
def test_what_is_kept_of_one_engine_is_not_given_for_the_other(both, tmp_path):
    for index in (*both, *both):
        kept = index.bm25(cache=tmp_path / "c")(QUERIES)
        result_cache._opened.clear()
        pd.testing.assert_frame_equal(kept, index.bm25()(QUERIES), check_exact=True)


@pytest.mark.parametrize("passages_at_once", [7, 64, 10_000])
def test_counts_and_impacts_are_of_the_passages_wherever_cut(
    tmp_path, monkeypatch, passages_at_once
):
    monkeypatch.setattr(eager, "PASSAGES_AT_ONCE", passages_at_once)
    corpus = passages(120)
    folder = ikat.PassageIndex(tmp_path / "i").index(corpus).opened().folder
    postings = eager.open_postings(folder)
    counts = eager.mapped(folder, "counts")
    counts_of = {}
    for passage in corpus:
        counts_of[passage["docno"]] = Counter(tokenize(passage["text"], "porter2"))
    lengths = {docno: counted.total() for docno, counted in counts_of.items()}
    mean = sum(lengths.values()) / len(lengths)
    terms = sorted(set().union(*counts_of.values()))
    assert list(postings.columns.items()) == [(term, number) for number, term in enumerate(terms)]
    for number, term in enumerate(terms):
        part = slice(*postings.starts[number : number + 2])
        docnos = [postings.docnos[rank] for rank in postings.ranks[postings.docs[part]]]
        holders = [docno for docno, counted in counts_of.items() if counted[term]]
        assert sorted(docnos) == sorted(holders)
        assert counts[part].tolist() == [counts_of[docno][term] for docno in docnos]
        idf = max(1e-6, math.log((len(corpus) - len(docnos) + 0.5) / (len(docnos) + 0.5)))
        impacts = []
        for docno in docnos:
            tf = counts_of[docno][term]
            norm = 0.9 * (0.6 + 0.4 * lengths[docno] / mean)
            impacts.append(idf * 1.9 * tf / (tf + norm))
        assert postings.impacts[part].tolist() == pytest.approx(impacts, rel=1e-5)


# Sums and the cut


@given(st.integers(0, 2**32 - 1), st.integers(1, 3000), st.integers(1, 400), st.booleans())
def test_the_cut_keeps_the_best_and_all_that_tie_with_the_last(seed, size, depth, coarse):
    draw = np.random.default_rng(seed)
    if coarse:
        scores = draw.integers(0, 5, size).astype(np.float32)
    else:
        scores = draw.random(size, dtype=np.float32) ** 8
    found, highest = candidates(scores, depth)
    best = np.sort(scores[scores > 0])[::-1][:depth]
    expected = set()
    if len(best) > 0:
        expected.update(np.flatnonzero(scores >= best[-1]).tolist())
    assert set(found.tolist()) == expected
    assert highest.tolist() == scores[found].tolist()
    assert highest.tolist() == sorted(highest.tolist(), reverse=True)
    ranks = draw.permutation(size).astype(np.uint32)
    ranked, again = candidates(scores, depth, ranks)
    score_of_rank = scores[ranks.argsort()]
    wanted = sorted(
        ranks[found].tolist(), key=lambda rank: (score_of_rank[rank], rank), reverse=True
    )
    assert ranked.tolist() == wanted[:depth]
    assert again.tolist() == highest.tolist()[:depth]


# In memory


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), min_size=1, max_size=12),
    st.sampled_from(PAPERS),
)
def test_statements_in_memory_are_ranked_as_by_the_plain_formula(texts, parameters):
    k1, b = parameters
    statements = [(f"s{number}", text) for number, text in enumerate([*texts, "oats"])]
    index = LexicalIndex(statements, k1=k1, b=b)
    for query in ("teas and mint mint", "the gardens", "zzz"):
        assert dict(index.search(query)) == pytest.approx(
            plain_bm25(dict(statements), query, k1, b), rel=1e-5
        )
    found = index.search("tea river")
    assert found == sorted(found, key=lambda pair: (pair[1], pair[0]), reverse=True)
    assert index.search("tea river", 1) == found[:1]


def test_rm3_expands_alike_and_finds_alike(both):
    found = []
    for index in both:
        expanded = index.bm25() >> ikat.RM3() >> index.bm25()
        found.append(expanded(QUERIES))
    agree(*found)


def test_a_memory_is_the_index_on_disk(eagerly):
    index = LexicalIndex((passage["docno"], passage["text"]) for passage in passages(700))
    found = eagerly.bm25(num_results=40)(QUERIES)
    for qid, query in zip(QUERIES["qid"], QUERIES["query"], strict=True):
        rows = found[found["qid"] == qid]
        assert index.search(query, 40) == list(zip(rows["docno"], rows["score"], strict=True))
