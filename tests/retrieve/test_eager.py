"""The eager engine: which passages it picks, how it orders them, and BM25 in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieve.plain import plain_bm25

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.retrieve import eager
from pyterrier_ikat.retrieve.eager import (
    LexicalIndex,
    candidates,
    invert,
    open_postings,
    ranks_of,
    save_postings,
)

TEXTS = {
    "d3": "green tea, green leaves",
    "d1": "black tea",
    "d2": "the tram is late",
    "d5": "black tea",
    "d4": "",
    "d6": "coffee and milk and sugar",
    "d7": "a walk along the river",
}


def floats(*numbers):
    return np.array(numbers, dtype=np.float32)


@pytest.mark.parametrize(
    ("scores", "depth", "rows"),
    [
        ([1, 3, 2], 3, [1, 2, 0]),
        ([1, 3, 2], 2, [1, 2]),
        ([1, 3, 2], 1, [1]),
        ([1, 3, 2], 9, [1, 2, 0]),
        ([0, 3, -1], 3, [1]),  # only scores above 0
        ([0, 0, 0], 2, []),
        ([2, 2, 2], 1, [2, 1, 0]),  # all that tie with the last
        ([5, 2, 2, 1], 2, [0, 2, 1]),
        ([5, 2, 2, 1], 1, [0]),
    ],
)
def test_candidates_without_ranks_keep_all_ties_of_the_last(scores, depth, rows):
    found, best = candidates(floats(*scores), depth)
    assert found.tolist() == rows
    assert best.tolist() == [scores[row] for row in rows]


@pytest.mark.parametrize(
    ("scores", "ranks", "depth", "numbers"),
    [
        ([2, 2, 2], [5, 9, 7], 3, [9, 7, 5]),
        ([2, 2, 2], [5, 9, 7], 2, [9, 7]),
        ([1, 2, 2], [5, 9, 7], 3, [9, 7, 5]),
        ([3, 2, 2], [5, 9, 7], 2, [5, 9]),
        ([3, 0, 2], [5, 9, 7], 3, [5, 7]),
    ],
)
def test_candidates_with_ranks_are_at_most_the_depth(scores, ranks, depth, numbers):
    found, best = candidates(floats(*scores), depth, np.array(ranks))
    assert found.tolist() == numbers
    assert best.tolist() == [scores[ranks.index(number)] for number in numbers]


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([3, 40, 10**6]))
def test_any_scores_are_ordered_as_by_a_plain_sort(seed, depth, values):
    draw = np.random.default_rng(seed)
    scores = draw.integers(-values // 2, values, 3000).astype(np.float32)
    ranks = draw.permutation(3000).astype(np.uint32)
    expected = sorted(zip(scores.tolist(), ranks.tolist(), strict=True), reverse=True)
    expected = [pair for pair in expected if pair[0] > 0][:depth]
    found, best = candidates(scores, depth, ranks)
    assert list(zip(best.tolist(), found.tolist(), strict=True)) == expected


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([3, 40, 10**6]))
def test_any_rows_are_ordered_as_by_a_plain_sort(seed, depth, values):
    draw = np.random.default_rng(seed)
    scores = draw.integers(-values // 2, values, 3000).astype(np.float32)
    in_order = sorted(zip(scores.tolist(), range(3000), strict=True), reverse=True)
    last = in_order[depth - 1][0]
    expected = []
    for score, row in in_order:
        if score > 0 and score >= last:
            expected.append((score, row))
    found, best = candidates(scores, depth)
    assert list(zip(best.tolist(), found.tolist(), strict=True)) == expected


def test_the_greatest_numbers_stay_with_their_scores():
    ranks = np.array([0, 2**32 - 1, 2**32 - 2, 1], dtype=np.uint32)
    found, best = candidates(floats(2, 1, 2, 1), 4, ranks)
    assert found.tolist() == [2**32 - 2, 0, 2**32 - 1, 1]
    assert best.tolist() == [2, 2, 1, 1]


def test_few_high_scores_that_a_sample_misses_are_found():
    scores = np.zeros(50_000, dtype=np.float32)
    scores[[7, 4001, 33_333]] = [2, 3, 1]
    found, best = candidates(scores, 10)
    assert (found.tolist(), best.tolist()) == ([4001, 7, 33_333], [3, 2, 1])
    scores[:] = 1
    scores[5::3000] = 4
    assert len(candidates(scores, 17)[0]) == 17
    assert set(candidates(scores, 17)[1].tolist()) == {4}


@pytest.mark.parametrize("parameters", [{}, {"k1": 1.5}, {"b": 0.9}, {"k1": 2.0, "b": 0.0}])
@pytest.mark.parametrize("query", ["tea", "black tea tea", "the tram", "green river", "absent"])
def test_bm25_in_memory_is_the_formula(parameters, query):
    index = LexicalIndex(TEXTS.items(), **parameters)
    expected = plain_bm25(TEXTS, query, **({"k1": 0.9, "b": 0.4} | parameters))
    found = index.search(query)
    assert [docno for docno, _ in found] == sorted(
        expected, key=lambda docno: (round(expected[docno], 5), docno), reverse=True
    )
    assert [score for _, score in found] == pytest.approx(
        [expected[docno] for docno, _ in found], rel=1e-4
    )
    in_order = [expected.get(docno, 0) for docno in TEXTS]
    assert index.scores(query).tolist() == pytest.approx(in_order, rel=1e-4)


def test_ties_go_to_the_greatest_docno_and_the_number_is_a_limit():
    index = LexicalIndex(TEXTS.items())
    assert [docno for docno, _ in index.search("black")] == ["d5", "d1"]
    assert [docno for docno, _ in index.search("black", 1)] == ["d5"]
    passages = []
    for number in range(9000):
        text = "tea" if number < 1500 else "milk"
        passages.append((f"d{number:04}", text))
    many = LexicalIndex(passages)
    assert len(many.search("tea")) == 1000  # the default


@pytest.mark.parametrize(
    ("stemmer", "stops", "query", "docnos"),
    [
        ("porter2", "lucene", "teas", ["d5", "d3", "d1"]),
        ("none", "lucene", "teas", []),
        ("porter2", "lucene", "the", []),
        ("porter2", "none", "the", ["d2", "d7"]),
        ("porter2", "terrier", "late", ["d2"]),
        ("porter2", "lucene", "along", ["d7"]),
        ("porter2", "terrier", "along", []),
    ],
)
def test_words_are_stemmed_and_stopped_as_asked(stemmer, stops, query, docnos):
    index = LexicalIndex(TEXTS.items(), stemmer=stemmer, stops=stops)
    assert sorted(docno for docno, _ in index.search(query)) == sorted(docnos)


def test_an_index_without_words_finds_nothing():
    for passages in ([], [("d1", ""), ("d2", "日本")]):
        index = LexicalIndex(passages)
        assert not index.has_words
        assert index.search("tea") == []
        assert index.scores("tea").tolist() == [0] * len(passages)
    assert LexicalIndex([("d1", "tea")]).has_words


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_words_are_counted_whatever_the_batches(monkeypatch, at_once):
    monkeypatch.setattr(eager, "PASSAGES_AT_ONCE", at_once)
    inverted = invert([("b", "tea tea milk"), ("a", ""), ("c", "milk jam"), ("d", "tea")], "none")
    assert inverted.terms == ["jam", "milk", "tea"]
    assert inverted.docnos == ["b", "a", "c", "d"]
    assert inverted.lengths.tolist() == [3, 0, 2, 1]
    assert inverted.counts.toarray().tolist() == [[0, 1, 2], [0, 0, 0], [1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("times", [1, 255, 256, 70_000])
def test_a_word_is_counted_however_often_it_occurs(times):
    inverted = invert([("a", "tea " * times), ("b", "milk")], "none")
    assert inverted.counts.toarray().tolist() == [[0, times], [1, 0]]
    assert inverted.lengths.tolist() == [times, 1]


def test_ranks_are_positions_in_the_order_of_docnos():
    assert ranks_of(["c", "a", "d", "b"]).tolist() == [2, 0, 3, 1]
    assert ranks_of([]).tolist() == []
    assert ranks_of(["b", "A", "a", "B"]).tolist() == [3, 0, 2, 1]  # capitals first


@pytest.mark.parametrize(
    ("holders", "count", "k1", "weight"),
    [
        (1, 10, 0.9, 1.9 * np.log(9.5 / 1.5)),
        (1, 10, 0.0, np.log(9.5 / 1.5)),
        (5, 10, 0.9, 1.9e-6),  # log(1) is 0
        (8, 10, 1.0, 2e-6),  # in most passages: never below 0
    ],
)
def test_the_weight_of_a_term(holders, count, k1, weight):
    assert eager.weigh_term(holders, count, k1) == pytest.approx(weight, rel=1e-5)


@pytest.mark.parametrize(
    ("lengths", "k1", "b", "norms"),
    [
        ([1, 2, 3], 1.0, 0.0, [1, 1, 1]),
        ([1, 2, 3], 2.0, 0.5, [1.5, 2, 2.5]),
        ([1, 2, 3], 1.0, 1.0, [0.5, 1, 1.5]),
        ([0, 0], 1.0, 0.5, [0.5, 0.5]),  # no word at all
        ([0, 4], 1.0, 1.0, [0, 2]),  # a blank text counts for the mean
    ],
)
def test_the_normalisation_of_lengths(lengths, k1, b, norms):
    found = eager.norms(np.array(lengths, dtype=np.uint32), k1, b)
    assert found.tolist() == pytest.approx(norms)


def test_terms_are_counted_without_stop_words():
    assert eager.count_terms(["tea", "the", "tea"], frozenset({"the"})) == {"tea": 2}


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("passage", "no passage has .*SPLADE or dense"),
        ("statement", "no statement has .*BiEncoder"),
    ],
)
def test_texts_without_a_word_are_refused(what, told):
    eager.refuse_wordless(True, what)
    with pytest.raises(DataError, match=told):
        eager.refuse_wordless(False, what)


def test_other_parameters_leave_the_index_as_it_is(tmp_path):
    eager.build_words(tmp_path, iter(TEXTS.items()), "porter2", (0.9, 0.4))
    index = eager.EagerBM25(tmp_path, {"stemmer": "porter2", "stops": "lucene", "bm25": [0.9, 0.4]})
    assert index.at(0.9, 0.4) is index
    before = index.rankings(["black tea"], 10)[0].scores.tolist()
    for k1, b in ((1.2, 0.4), (0.9, 0.8)):
        [found] = index.at(k1, b).rankings(["black tea"], 10)
        expected = plain_bm25(TEXTS, "black tea", k1, b)
        assert found.scores.tolist() == pytest.approx(
            [expected[docno] for docno in found.docnos], rel=1e-4
        )
        assert index.rankings(["black tea"], 10)[0].scores.tolist() == before
    [weighted, text] = index.rankings([{"tea": 2.0}, "tea tea"], 2)
    assert weighted.docnos == text.docnos
    assert len(text.docnos) == 2
    assert weighted.scores.tolist() == text.scores.tolist()


def test_scores_are_written_over_those_of_the_last_query():
    postings = LexicalIndex(TEXTS.items()).postings
    out = np.full(len(TEXTS), 9, dtype=np.float32)
    scores = postings.scores({"tram": 2.0, "absent": 1.0}, out)
    assert scores is out
    assert np.flatnonzero(scores).tolist() == [2]
    assert postings.scores({"tram": 1.0}).tolist() == pytest.approx((scores / 2).tolist())
    assert postings.scores({"absent": 1.0}, out).tolist() == [0] * len(TEXTS)
    first, second = postings.rankings([{"tram": 1.0}, {"coffe": 1.0}], 5)
    assert (first.docnos, second.docnos) == (["d2"], ["d6"])


@pytest.mark.parametrize(("stops", "docnos"), [("terrier", []), ("lucene", ["a"])])
def test_a_stop_word_is_one_also_where_its_stem_differs(tmp_path, stops, docnos):
    """Stemmed, because is becaus."""
    passages = [("a", "because of tea"), ("b", "milk"), ("c", "jam")]
    eager.build_words(tmp_path, iter(passages), "porter2", (0.9, 0.4))
    index = eager.EagerBM25(tmp_path, {"stemmer": "porter2", "stops": stops, "bm25": [0.9, 0.4]})
    assert index.rankings(["because"], 3)[0].docnos == docnos


def test_ties_of_a_large_index_go_by_their_ranks():
    """Ranks have up to 32 bits."""
    ranks = np.array([70_000, 5, 4_000_000_000, 200_000], dtype=np.uint32)
    found, best = candidates(floats(2, 2, 1, 2), 4, ranks)
    assert found.tolist() == [200_000, 70_000, 5, 4_000_000_000]
    assert best.tolist() == [2, 2, 2, 1]


def test_a_matrix_is_read_as_it_was_saved(tmp_path):
    docs = eager.new_array(tmp_path, "docs", np.int32, 3)
    docs[:] = [1, 0, 2]
    docs.flush()
    impacts = np.array([0.5, 1.5, 2.5], dtype=np.float32)
    starts = np.array([0, 1, 3], dtype=np.int64)
    save_postings(tmp_path, ["é", "z"], ["b", "c", "a"], impacts=impacts, starts=starts)
    assert (tmp_path / "docnos.txt").read_bytes() == b"a\nb\nc\n"
    assert (tmp_path / "terms.txt").read_bytes() == "é\nz\n".encode()
    postings = open_postings(tmp_path)
    assert postings.columns == {"é": 0, "z": 1}
    assert postings.docnos.tolist() == ["a", "b", "c"]
    assert postings.ranks.tolist() == [1, 2, 0]
    assert (postings.starts.tolist(), postings.starts.dtype) == ([0, 1, 3], np.int32)
    first, second, none = postings.rankings([{"é": 2.0}, {"z": 1.0, "é": 1.0}, {"x": 1.0}], 9)
    assert (first.docnos, first.scores.tolist()) == (["c"], [1.0])
    assert (second.docnos, second.scores.tolist()) == (["a", "b", "c"], [2.5, 1.5, 0.5])
    assert (none.docnos, none.scores.tolist()) == ([], [])


def test_files_of_an_open_matrix_are_only_read(tmp_path):
    for name, values in {"docs": [1, 0], "impacts": [1.0, 2.0], "starts": [0, 2]}.items():
        np.save(tmp_path / f"{name}.npy", np.array(values))
    save_postings(tmp_path, ["t"], ["b", "a"])
    postings = open_postings(tmp_path)
    for array in (postings.docs, postings.impacts, postings.ranks):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
