"""RM3 against a plain definition, and BM25 on weighted terms."""

import json
import math
import re
from collections import Counter
from importlib.resources import files

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieve.query_frames import queries

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.retrieve import NoResultWarning
from pyterrier_ikat.retrieve.pisa import PisaBM25
from pyterrier_ikat.retrieve.words import stop_terms, tokenize

TEXTS = {
    "d1": "Rooibos teas have no caffeine; the rooibos is red.",
    "d2": "Green tea and black tea have caffeine.",
    "d3": "Mint tea cools, mint leaves are green, mint grows.",
    "d4": "The tram crosses the river.",
    "d5": "Rooibos grows in Cederberg, a tea of herbs.",
    "d6": "This and that.",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return ikat.PassageIndex(tmp_path_factory.mktemp("rm3") / "index").index(
        [{"docno": d, "text": t} for d, t in TEXTS.items()]
    )


def asked(*toks, **columns):
    texts = ["no such words"] * len(toks)
    return queries(*texts, query_toks=column(toks), **columns)


def scores(found, qid="q0"):
    rows = found[found["qid"] == qid]
    return dict(zip(rows["docno"], rows["score"], strict=True))


def results(*rows):
    """A result frame of (qid, query, score, text) rows, ranked in the given order."""
    frame = pd.DataFrame(rows, columns=["qid", "query", "score", "text"], dtype=object)
    frame["score"] = frame["score"].astype("float64")
    frame["docno"] = [f"d{number}" for number in range(len(rows))]
    frame["rank"] = frame.groupby("qid").cumcount()
    return frame


def plain_rm3(query, passages, scores, fb_terms, weight):
    """RM3 over words as they stand, without stop words."""
    words = [re.findall("[a-z]+", text) for text in passages]
    rm1 = Counter()
    for terms, score in zip(words, scores, strict=True):
        for term in set(terms):
            if 2 <= len(term) <= 20:
                rm1[term] += score / math.fsum(scores) * terms.count(term) / len(terms)
    best = sorted(rm1.items(), key=lambda item: (-round(item[1], 12), item[0]))[:fb_terms]
    total = math.fsum(value for _, value in best)
    own = re.findall("[a-z]+", query)
    mixed = Counter()
    for term in own:
        mixed[term] += weight / len(own)
    for term, value in best:
        mixed[term] += (1 - weight) * value / total
    return {term: value for term, value in mixed.items() if value > 0}


texts = st.lists(
    st.sampled_from(["tea", "mint", "tram", "x", "river", "herb", "a" * 21]), min_size=1, max_size=8
).map(" ".join)


@given(
    texts,
    st.lists(st.tuples(texts, st.integers(1, 40)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(1, 8),
    st.floats(0, 1),
)
def test_the_weights_are_those_of_the_plain_definition(query, passages, fb_docs, fb_terms, weight):
    found = results(*(("t", query, score, text) for text, score in passages))
    (toks,) = ikat.RM3(fb_docs, fb_terms, weight, stemmer="none", stops="none")(found.iloc[::-1])[
        "query_toks"
    ]
    used = passages[:fb_docs]
    assert toks == pytest.approx(
        plain_rm3(query, [text for text, _ in used], [score for _, score in used], fb_terms, weight)
    )


def test_the_worked_example():
    # Passages' weights 3/4 and 1/4. mint: 3/4 * 1/2 + 1/4 * 1/4, tea: 3/4 * 1/2, tram: 1/4 * 2/4,
    # river: 1/4 * 1/4.
    found = results(
        ("t", "herbal teas", 9.0, "Mint teas"),
        ("t", "herbal teas", 3.0, "Trams and the tram: a river, mint"),
    )
    (toks,) = ikat.RM3(fb_terms=3, original_weight=0.6)(found)["query_toks"]
    total = 7 / 16 + 6 / 16 + 2 / 16
    expected = {
        "herbal": 0.3,
        "tea": 0.3 + 0.4 * 6 / 16 / total,
        "mint": 0.4 * 7 / 16 / total,
        "tram": 0.4 * 2 / 16 / total,
    }
    assert toks == pytest.approx(expected)
    assert sum(toks.values()) == pytest.approx(1)


def test_index_stop_words_are_no_terms_terriers_no_feedback():
    found = results(("t", "what of the Teas", 1.0, "You would have what the teas have"))
    assert ikat.RM3()(found)["query_toks"][0] == pytest.approx({"what": 0.25, "tea": 0.25 + 0.5})
    every = ikat.RM3(stops="none", stemmer="none")(found)["query_toks"][0]
    assert set(every) == {"what", "of", "the", "teas", "you", "would", "have"}


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), 0.0])
def test_scores_that_cannot_weigh_are_named(wrong):
    with pytest.raises(
        ikat.DataError,
        match="the scores of turn u can't weigh its passages .*put RM3 right behind a BM25",
    ):
        ikat.RM3()(results(("t", "tea", 1.0, "mint"), ("u", "tea", wrong, "mint")))


TestRM3 = pt.testing.transformer_test_class(ikat.RM3)


def test_terms_of_weight_1_score_like_the_words_of_a_query(index):
    for query, toks in (
        ("teas of mint", {"tea": 1, "mint": 1}),
        ("mint tea mint", {"mint": 2.0, "tea": 1.0}),
    ):
        found = index.bm25()(pd.DataFrame({"qid": ["q0"], "query": [query]}))
        assert scores(index.bm25()(asked(toks))) == pytest.approx(scores(found), rel=1e-5)


@given(
    st.dictionaries(
        st.sampled_from(["tea", "mint", "rooibo", "green", "zzz"]), st.floats(0.01, 50), min_size=1
    )
)
def test_a_score_is_the_weighted_sum_of_its_terms(index, toks):
    known = [term for term in toks if term != "zzz"]
    expected = Counter()
    for term in known:
        alone = scores(index.bm25()(queries(term)))
        for docno, score in alone.items():
            expected[docno] += toks[term] * score
    if known:
        found = scores(index.bm25()(asked(toks)))
        assert found == pytest.approx(expected, abs=1e-3 * max(toks.values()))
        assert set(found) == set(expected)


def test_terms_are_neither_stemmed_nor_stopped(index):
    found = index.bm25()(asked({"tea": 1.0}, {"the": 1.0, "this": 0.5}))
    assert set(scores(found, "q1")) == {"d1", "d4", "d6"}
    with pytest.warns(NoResultWarning, match="1 of 2 turns found no passage: q1"):
        found = index.bm25()(asked({"tea": 1.0}, {"teas": 1.0}))
    assert set(found["qid"]) == {"q0"}
    assert scores(found) == pytest.approx(
        scores(index.bm25()(pd.DataFrame({"qid": ["q0"], "query": ["teas"]})))
    )


def test_rows_without_terms_have_no_result_and_hide_no_other_row(index):
    with pytest.warns(NoResultWarning, match="3 of 5 turns found no passage: q0, q2, q3"):
        found = index.bm25()(
            asked({}, {"tea": 0.3}, {"tea": 0.0}, {"tea": -1.0}, {"mint": np.float32(0.5)})
        )
    assert list(dict.fromkeys(found["qid"])) == ["q1", "q4"]
    assert scores(found, "q1")["d2"] == pytest.approx(
        0.3 * scores(index.bm25()(asked({"tea": 1})))["d2"]
    )
    assert "query_toks" not in found.columns


@pytest.mark.parametrize("toks", [None, "tea", {"tea": "1"}, {"tea": float("nan")}])
def test_what_is_not_a_dict_of_weights_is_named(index, toks):
    with pytest.raises(
        ikat.DataError, match="query_toks of q1 is .*give a dict of terms to weights"
    ):
        index.bm25()(asked({"tea": 1.0}, toks))


@pytest.mark.linux
def test_our_stop_words_are_those_that_pisa_drops(tmp_path):
    lists = json.loads(files("pyterrier_ikat.retrieve").joinpath("stopwords.json").read_text())
    stop_words = set()
    for text in lists.values():
        stop_words.update(word for word in text.split() if "-" not in word)
    words = [*sorted(stop_words), "tram"]
    passage = {"docno": "d", "text": " ".join(words)}
    index = ikat.PassageIndex(tmp_path / "i").index([passage], engine="pisa", stops="none")
    for stops in ("lucene", "terrier", "none"):
        bm25 = PisaBM25(index.opened().folder, {"stops": stops}).at(0.9, 0.4)
        for word, ranking in zip(words, bm25.rankings(words, 10), strict=True):
            dropped = set(tokenize(word, "porter2")) <= stop_terms(stops, "porter2")
            assert (ranking.docnos == []) == dropped


def test_passages_without_feedback_terms_leave_the_query_alone():
    found = results(("t", "mint tea", 1.0, "the"), ("u", "of the", 1.0, "mint tea"))
    assert ikat.RM3()(found)["query_toks"].tolist() == [
        {"mint": 0.25, "tea": 0.25},
        {"mint": 0.25, "tea": 0.25},
    ]


@pytest.mark.parametrize(("letters", "counts"), [(1, False), (2, True), (20, True), (21, False)])
def test_terms_of_feedback_have_two_to_twenty_letters(letters, counts):
    term = "q" * letters
    row = {
        "qid": "t",
        "query": "tea",
        "docno": "d",
        "score": 1.0,
        "rank": 0,
        "text": f"mint {term}",
    }
    (weights,) = ikat.RM3(stemmer="none")(pd.DataFrame([row]))["query_toks"]
    assert (term in weights) is counts


def test_a_query_frame_has_each_turn_once_with_its_columns():
    found = results(
        ("u", "tram", 2.0, "late tram"), ("t", "tea", 1.0, "mint tea"), ("u", "tram", 1.0, "bus")
    ).assign(qturn=[7, 3, 7], query_vec=0, query_toks=0, other=0)
    expanded = ikat.RM3(stemmer="none")(found.set_axis([5, 5, 5]))
    assert expanded.columns.tolist() == ["qid", "query", "qturn", "query_toks"]
    assert expanded[["qid", "query", "qturn"]].values.tolist() == [
        ["u", "tram", 7],
        ["t", "tea", 3],
    ]
    assert expanded.index.tolist() == [0, 1]
    # u: RM1 of late 2/6, tram 2/6, bus 1/3
    toks = expanded["query_toks"][0]
    assert toks == pytest.approx({"tram": 0.5 + 0.5 / 3, "late": 0.5 / 3, "bus": 0.5 / 3})
    for name in ("query", "score", "rank", "text"):
        with pytest.raises((ikat.IkatError, ValueError), match=name):
            ikat.RM3()(found.drop(columns=name))


def test_best_passages_are_those_of_the_lowest_ranks():
    found = results(("t", "tea", 1.0, "mint"), ("t", "tea", 9.0, "oats")).assign(rank=[1, 0])
    (toks,) = ikat.RM3(fb_docs=1, stemmer="none")(found)["query_toks"]
    assert toks == {"tea": 0.5, "oats": 0.5}
    (own,) = ikat.RM3(original_weight=1, stemmer="none")(found)["query_toks"]
    assert own == {"tea": 1.0}
    (feedback,) = ikat.RM3(original_weight=0, stemmer="none")(found)["query_toks"]
    assert feedback == pytest.approx({"oats": 0.9, "mint": 0.1})


def test_words_that_are_stopped_are_those_of_the_stemmer():
    """Stemmed, because is becaus."""
    found = results(("t", "tea because", 1.0, "because of mint"))
    for stemmer in ("porter2", "none"):
        [toks] = ikat.RM3(stemmer=stemmer, stops="terrier")(found)["query_toks"]
        assert toks == {"tea": 0.5, "mint": 0.5}


def test_feedback_for_a_row_without_turn_is_refused():
    found = results(("t", "tea", 1.0, "mint"), ("t", "tea", 1.0, "oats"))
    with pytest.raises(ikat.DataError, match="row 1 of the frame has no qid"):
        ikat.RM3()(found.assign(qid=["t", None]))


def test_each_turn_is_expanded_by_its_own_query():
    rows = [("u", "tram", 2.0, "late"), ("u", "tram", 1.0, "late"), ("t", "tea", 1.0, "mint")]
    expanded = ikat.RM3(stemmer="none")(results(*rows))
    assert expanded["query_toks"].tolist() == [
        {"tram": 0.5, "late": 0.5},
        {"tea": 0.5, "mint": 0.5},
    ]


def test_each_turn_has_its_own_number_of_passages():
    rows = [
        ("u", "tram", 2.0, "late"),
        ("t", "tea", 3.0, "mint"),
        ("u", "tram", 1.0, "bus"),
        ("t", "tea", 1.0, "oats"),
    ]
    expanded = ikat.RM3(fb_docs=1, stemmer="none")(results(*rows))
    assert expanded["query_toks"].tolist() == [
        {"tram": 0.5, "late": 0.5},
        {"tea": 0.5, "mint": 0.5},
    ]


def test_of_equal_words_the_first_of_the_alphabet_are_feedback():
    expanded = ikat.RM3(fb_terms=1, stemmer="none")(results(("t", "tea", 1.0, "oats mint")))
    assert expanded["query_toks"].tolist() == [{"tea": 0.5, "mint": 0.5}]


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_one_score_of_a_turn_that_cannot_weigh_is_told(wrong):
    rows = [("u", "tea", 5.0, "mint"), ("u", "tea", wrong, "oats")]
    with pytest.raises(ikat.DataError, match="the scores of turn u can't weigh its passages"):
        ikat.RM3()(results(*rows))
    [toks] = ikat.RM3(stemmer="none")(results(rows[0], ("u", "tea", 0.0, "oats")))["query_toks"]
    assert toks == {"tea": 0.5, "mint": 0.5}  # a score of 0 weighs nothing


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_share_of_the_query_is_from_0_to_1(weight):
    with pytest.raises(ikat.UsageError, match=f"original_weight={weight}: give a number from 0 to"):
        ikat.RM3(original_weight=weight)


def test_rows_out_of_order_are_feedback_for_their_own_turn():
    rows = [("u", "tram", 3.0, "late"), ("u", "tram", 1.0, "bus"), ("t", "tea", 1.0, "mint")]
    expanded = ikat.RM3(stemmer="none")(results(*rows).iloc[[1, 2, 0]])
    assert expanded["qid"].tolist() == ["u", "t"]
    first, second = expanded["query_toks"]
    assert first == pytest.approx({"tram": 0.5, "late": 0.375, "bus": 0.125})
    assert second == {"tea": 0.5, "mint": 0.5}
