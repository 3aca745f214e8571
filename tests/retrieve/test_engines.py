"""The eager engine: PISA's rankings and plain sums are the measure; on disk, in memory, and beside PISA."""

import math
import os
import pickle
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import BM25, NoResultWarning, eager, eager_writer, shards, words
from pyterrier_ikat.retrieve import retriever as engines
from pyterrier_ikat.retrieve.eager import LexicalIndex, candidates, column_kernel
from pyterrier_ikat.retrieve.words import ascii_text, stop_terms, tokenize
from pyterrier_ikat.store import cache as result_cache

WORDS = ["tea", "teas", "mint", "the", "tram", "trams", "river", "café", "U.S.", "it’s", "no", "garden", "gardening", "oats", "line", "a"]
PAPERS = [(0.9, 0.4), (1.2, 0.75)]


def passages(count, seed=3):
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0, 30, count)
    texts = [" ".join(draw.choice([*WORDS, f"w{number % 90}"], length, p=None)) for number, length in enumerate(lengths)]
    texts[5] = "tea " * 300 + "river"  # a count that no byte holds
    texts[6] = "mint " * 15
    return [{"docno": f"d{number * 37 % count:04}:é", "text": text} for number, text in enumerate(texts)]


def asked(*texts, **columns):
    return pd.DataFrame({"qid": [f"q{number}" for number in range(len(texts))], "query": list(texts)}, dtype=object).assign(**columns)


QUERIES = asked(
    "tea", "mint mint trams", "the a no", "cafe rivers w7", "it's gardening in the U.S.", " ".join(WORDS * 3), "w1 w2 zzz", "zzz"
)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoResultWarning)
        yield


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    pytest.importorskip("pyterrier_pisa")
    return ikat.PassageIndex(tmp_path_factory.mktemp("both") / "i").index(passages(700), engine="both")


def agree(ours, theirs):
    """Equal turns, passages and ranks, but for the order of passages whose scores differ by less than 1e-4."""
    assert len(ours) == len(theirs)
    for (_, mine), (_, other) in zip(ours.groupby("qid", sort=False), theirs.groupby("qid", sort=False), strict=True):
        assert mine["score"].tolist() == pytest.approx(other["score"].tolist(), rel=1e-4, abs=1e-9)
        near = np.isclose(other["score"].to_numpy()[1:], other["score"].to_numpy()[:-1], rtol=1e-4)
        apart = np.flatnonzero(~np.concatenate([near, [False]]))
        for first, last in zip([0, *(apart[:-1] + 1)], apart + 1, strict=True):
            assert sorted(mine["docno"][first:last]) == sorted(other["docno"][first:last])


@pytest.mark.parametrize(("k1", "b"), [*PAPERS, (0, 0), (2.5, 1.0), (0.333, 0.123)])
@pytest.mark.parametrize("depth", [700, 30])
def test_rankings_are_those_of_pisa(both, k1, b, depth):
    ours, theirs = (both.bm25(k1, b, num_results=depth, engine=engine)(QUERIES) for engine in ("eager", "pisa"))
    if depth == 700:
        agree(ours, theirs)
    assert ours["score"].tolist() == pytest.approx(theirs["score"].tolist(), rel=1e-4)


@pytest.mark.linux
@pytest.mark.parametrize("options", [{"stemmer": "none"}, {"stops": "terrier"}, {"stops": "none"}])
def test_stemmers_and_stop_words_are_those_of_pisa(tmp_path, options):
    index = ikat.PassageIndex(tmp_path / "i").index(passages(120), engine="both", **options)
    agree(*(index.bm25(engine=engine)(QUERIES) for engine in ("eager", "pisa")))


def test_rm3_expands_alike_and_finds_alike(both):
    ours, theirs = ((bm25 >> ikat.RM3() >> bm25)(QUERIES) for bm25 in (both.bm25(engine="eager"), both.bm25(engine="pisa")))
    agree(ours, theirs)


def test_terms_of_weights_are_looked_up_as_they_are_in_lower_case(both):
    toks = [{"tea": 1.0, "Mint": 0.31}, {"teas": 1.0}, {"the": 2.0, "x y": 1.0}]
    ours, theirs = (both.bm25(engine=engine)(asked("", "", "", query_toks=toks)) for engine in ("eager", "pisa"))
    agree(ours, theirs)


def test_ties_go_by_docno_also_at_the_cut(tmp_path):
    index = ikat.PassageIndex(tmp_path / "i").index([{"docno": f"d{number:03}", "text": "same words"} for number in range(300)])
    assert index.bm25(num_results=7)(asked("words"))["docno"].tolist() == [f"d{number}" for number in range(299, 292, -1)]


def test_a_run_and_what_is_kept_do_not_mix_the_engines(both, tmp_path):
    eagerly, by_pisa = (both.bm25(engine=engine, cache=tmp_path / "c") for engine in ("eager", "pisa"))
    alone = [both.bm25(engine=engine, cache=tmp_path / engine)(QUERIES) for engine in ("eager", "pisa")]
    for retriever, expected in zip((eagerly, by_pisa), alone, strict=True):
        pd.testing.assert_frame_equal(retriever(QUERIES), expected, check_exact=True)
    small = ikat.PassageIndex(tmp_path / "small").index(passages(700))
    assert small.engines == ["eager"]
    assert small.fingerprint() == both.fingerprint()


def test_where_both_are_there_the_query_decides(both, monkeypatch):
    used = []
    monkeypatch.setattr(BM25, "search_pisa", lambda self, fingerprint, queries: used.extend(queries) or [eager.NOTHING] * len(queries))
    monkeypatch.setattr(result_cache, "_opened", {})
    long = " ".join(f"w{number}" for number in range(engines.SHORT))
    both.bm25()(asked("tea tea", long))
    assert used == []
    monkeypatch.setattr(engines, "LARGE", 600)
    both.bm25()(asked("river river", f"{long} more"))
    assert used == ["river river"]
    monkeypatch.setattr(engines, "has_pisa", lambda: False)
    both.bm25()(asked("mint"))
    assert used == ["river river"]
    with pytest.raises(ikat.UsageError, match="is searched by PISA, and pyterrier-pisa isn't installed.*engine='eager'"):
        both.bm25(engine="pisa")


def test_a_small_index_has_no_file_of_pisa_and_starts_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.retrieve.pisa.subprocess", None)
    monkeypatch.setitem(__import__("sys").modules, "pyterrier_pisa", None)
    index = ikat.PassageIndex(tmp_path / "i").index(passages(50))
    assert sorted(os.listdir(index.path)) == ["eager", "ikat_index.json", "pt_meta.json", "texts.lz4"]
    before = {path: path.stat().st_mtime_ns for path in Path(index.path).rglob("*")}
    assert len(index.bm25(1.7, 0.3)(QUERIES)) > 0
    assert {path: path.stat().st_mtime_ns for path in Path(index.path).rglob("*")} == before
    assert pickle.loads(pickle.dumps(index.bm25()))(QUERIES).equals(index.bm25()(QUERIES))
    with pytest.raises(ikat.UsageError, match=r"has no files for engine='pisa', only for eager: .*engine='pisa' at PassageIndex.index"):
        index.bm25(engine="pisa")
    with pytest.raises(ikat.UsageError, match="holds an index without files for engine='eagr'|engine='eagr' is unknown"):
        index.index(passages(50), engine="eagr")


def test_an_index_of_pisa_alone_stays_one(tmp_path):
    pytest.importorskip("pyterrier_pisa")
    index = ikat.PassageIndex(tmp_path / "i").index(passages(50), engine="pisa")
    assert index.engines == ["pisa"]
    assert index.index(passages(50)).engines == ["pisa"]
    with pytest.raises(ikat.UsageError, match="without files for engine='eager': remove it"):
        index.index(passages(50), engine="eager")


def test_lists_are_those_that_pisa_writes(both, tmp_path, monkeypatch):
    monkeypatch.setattr(words, "AT_ONCE", 64)
    texts = [(passage["docno"], ascii_text(passage["text"])) for passage in passages(700)]
    words.write_lists(tmp_path / "lists", words.invert(texts, "porter2"), "porter2")
    for name in ("inv.docs", "inv.freqs", "inv.sizes", "fwd.terms", "fwd.documents"):
        assert (tmp_path / "lists" / name).read_bytes() == (both.pisa / name).read_bytes(), name


@pytest.mark.parametrize(("at_once", "in_memory"), [(2, 0), (64, 0), (1 << 22, 200_000)])
def test_files_have_each_count_wherever_they_are_cut(both, tmp_path, monkeypatch, at_once, in_memory):
    monkeypatch.setattr(eager_writer, "AT_ONCE", at_once)
    monkeypatch.setattr(eager, "IN_MEMORY", in_memory)
    eager_writer.write_words(tmp_path / "e", both.pisa, 0.9, 0.4)
    for path in both.eager.iterdir():
        assert path.read_bytes() == (tmp_path / "e" / path.name).read_bytes(), path.name
    files = eager.EagerFiles(tmp_path / "e", (0.9, 0.4))
    built = eager.EagerFiles(tmp_path / "e")
    held = {passage["docno"]: Counter(tokenize(passage["text"], "porter2")) for passage in passages(700)}
    for term in ["tea", "mint", "the", "river", "w7", "us", "cafe", "zzz", "te", "teaa"]:
        (number,) = files.find([term])
        if number < 0:
            assert not any(counts[term] for counts in held.values())
            continue
        docs, impacts = files.part(number)
        start = int(files._starts[number])
        counts = files._times(start, start + len(docs)).tolist()
        assert dict(zip(files.docnos(docs.tolist()), counts, strict=True)) == {d: c[term] for d, c in held.items() if c[term]}
        assert impacts.tobytes() == built.part(number)[1].tobytes()


@pytest.mark.parametrize("engine", ["eager", "both"])
def test_an_index_of_merged_shards_has_the_files_of_an_index_of_one(tmp_path, monkeypatch, engine):
    if engine == "both":
        pytest.importorskip("pyterrier_pisa")
    whole = ikat.PassageIndex(tmp_path / "whole").index(passages(700))
    monkeypatch.setattr(shards, "SHARD", 150)
    merged = ikat.PassageIndex(tmp_path / "merged").index(passages(700), engine=engine)
    assert merged.engines == (["eager"] if engine == "eager" else ["eager", "pisa"])
    for path in whole.eager.iterdir():
        assert path.read_bytes() == (merged.eager / path.name).read_bytes(), path.name
    pd.testing.assert_frame_equal(merged.bm25(engine="eager")(QUERIES), whole.bm25()(QUERIES), check_exact=True)
    if engine == "both":
        agree(merged.bm25(engine="eager")(QUERIES), merged.bm25(engine="pisa")(QUERIES))


# Sums and the cut


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3000), st.integers(1, 400), st.booleans())
def test_the_cut_keeps_the_best_and_all_that_tie_with_the_last(seed, size, depth, coarse):
    draw = np.random.default_rng(seed)
    scores = draw.integers(0, 5, size).astype(np.float32) if coarse else (draw.random(size, dtype=np.float32) ** 8)
    found, highest = candidates(scores, depth)
    best = np.sort(scores[scores > 0])[::-1][:depth]
    assert set(found.tolist()) == ({number for number in range(size) if scores[number] >= best[-1]} if len(best) else set())
    assert highest.tolist() == scores[found].tolist() == sorted(scores[found].tolist(), reverse=True)


def test_a_query_is_summed_alike_in_one_product_and_term_by_term(both, monkeypatch):
    retriever = both.bm25(engine="eager")
    whole = retriever(QUERIES)
    assert column_kernel() is not None  # else every search takes twice as long
    monkeypatch.setattr(eager, "column_kernel", lambda: None)
    monkeypatch.setattr(result_cache, "_opened", {})
    agree(retriever(QUERIES), whole)


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_threads_that_take_a_part_of_the_passages_each_find_the_same(both, monkeypatch, threads):
    postings = eager.EagerFiles(both.eager)
    queries = [dict(Counter(tokenize(text, "porter2"))) for text in QUERIES["query"]]
    alone = eager.search(postings, queries, 100)
    monkeypatch.setattr(eager, "MANY_POSTINGS", 1)
    for ours, expected in zip(eager.search(postings, queries, 100, threads), alone, strict=True):
        assert (ours.docnos, ours.scores.tolist()) == (expected.docnos, expected.scores.tolist())


# In memory


def plain_bm25(statements, query, k1, b):
    docs = {docno: Counter(tokenize(text, "porter2")) for docno, text in statements}
    mean = sum(counts.total() if hasattr(counts, "total") else sum(counts.values()) for counts in docs.values()) / len(docs)
    scores = Counter()
    for term, times in Counter(tokenize(query, "porter2")).items():
        holders = sum(term in counts for counts in docs.values())
        if holders and term not in stop_terms("lucene", "porter2"):
            idf = max(1e-6, math.log((len(docs) - holders + 0.5) / (holders + 0.5)))
            for docno, counts in docs.items():
                if counts[term]:
                    norm = k1 * (1 - b + b * sum(counts.values()) / mean)
                    scores[docno] += times * idf * (k1 + 1) * counts[term] / (counts[term] + norm)
    return scores


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), min_size=1, max_size=12), st.sampled_from(PAPERS))
def test_statements_in_memory_are_ranked_as_by_the_plain_formula(texts, parameters):
    k1, b = parameters
    statements = [(f"s{number}", text) for number, text in enumerate([*texts, "oats"])]
    index = LexicalIndex(statements, k1=k1, b=b)
    for query in ("teas and mint mint", "the gardens", "zzz"):
        assert dict(index.search(query)) == pytest.approx(dict(plain_bm25(statements, query, k1, b)), rel=1e-5)
    found = index.search("tea river")
    assert found == sorted(found, key=lambda pair: (pair[1], pair[0]), reverse=True)
    assert index.search("tea river", 1) == found[:1]
    assert pickle.loads(pickle.dumps(index)).search("tea river") == found


def test_a_memory_is_the_index_on_disk(both):
    index = LexicalIndex((passage["docno"], passage["text"]) for passage in passages(700))
    found = both.bm25(engine="eager", num_results=40)(QUERIES)
    for qid, query in zip(QUERIES["qid"], QUERIES["query"], strict=True):
        rows = found[found["qid"] == qid]
        assert index.search(query, 40) == list(zip(rows["docno"], rows["score"], strict=True))


def test_an_empty_memory_finds_nothing_and_a_docno_twice_is_named():
    assert LexicalIndex([]).search("tea") == []
    with pytest.raises(ikat.DataError, match="docno 'b' occurs twice"):
        LexicalIndex([("a", "tea"), ("b", "tea"), ("b", "mint")])
