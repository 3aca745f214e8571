"""One query made of the samples of a turn: joined, chosen or as a mean vector."""

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.generate.sampled_queries import (
    encode,
    joined,
    word_vectors,
)
from pyterrier_ikat.planning import Plan

G = ikat.generate


def drawn(*samples, **columns):
    return pd.DataFrame(
        {"qid": ["1_2"], "query": ["it?"], "qsamples": [[list(sample) for sample in samples]]}
    ).assign(**columns)


def test_the_texts_of_all_samples_or_of_one_are_joined():
    frame = drawn(("mint tea", "a1"), ("sage", "a2"), ("mint leaf tea", "a3"), qrewrite=["whole"])
    queries = {}
    for how in ("mean", "first", "consistent"):
        queries[how] = G.Aggregate(how)(frame)["query"].item()
    # cosines, each with all three: mint tea 1 + 0 + 2/sqrt(6) = 1.816, sage 1, mint leaf tea 1.816
    # again: the first of the equal ones
    assert queries == {
        "mean": "mint tea a1 sage a2 mint leaf tea a3",
        "first": "mint tea a1",
        "consistent": "mint tea a1",
    }
    assert G.Aggregate("first", also="qrewrite")(frame)["query"].item() == "mint tea a1 whole"
    assert G.Aggregate()(frame)["query_0"].item() == "it?"


def test_samples_are_compared_by_their_first_texts():
    frame = drawn(("sage", "x"), ("mint tea", "x y"), ("mint leaf tea", "z"))
    assert G.Aggregate("consistent")(frame)["query"].item() == "mint tea x y"


class Vectors(pt.Transformer):
    """An encoder: each text has the vector of a table."""

    def __init__(self, **vectors):
        super().__init__()
        self.vectors = vectors
        self.encoded = []

    def transform(self, inp):
        self.encoded += inp["query"].tolist()
        vectors = []
        for text in inp["query"]:
            name = text.replace(" ", "_")
            vectors.append(np.array(self.vectors[name], dtype=np.float32))
        return inp.assign(query_vec=vectors)

    def __hash__(self):
        return id(self)


def test_the_mean_vector_counts_repeats_and_encodes_texts_once():
    encoder = Vectors(r=[1, 0], a1=[0, 1], a2=[0, 3])
    frame = drawn(("r", "a1"), ("r", "a2"))
    out = G.Aggregate("mean", encoder)(frame)
    assert out["query_vec"].item().tolist() == [0.5, 1.0]  # (2 r + a1 + a2) / 4
    assert out["query"].item() == "r"
    assert sorted(encoder.encoded) == ["a1", "a2", "r"]


def test_the_mean_vector_has_the_text_of_one_more_column():
    encoder = Vectors(r=[1, 0], a1=[0, 1], more=[5, 2])
    frame = drawn(("r", "a1")).assign(qrewrite="more")
    out = G.Aggregate("mean", encoder, "qrewrite")(frame)
    assert out["query_vec"].item().tolist() == [2.0, 1.0]
    assert out["query"].item() == "r"


def test_by_vectors_the_sample_of_largest_dot_sum_is_chosen():
    encoder = Vectors(r1=[1, 0], r2=[0.9, 0.9], r3=[0, 1], a1=[0, 0], a2=[2, 2], a3=[0, 0])
    frame = drawn(("r1", "a1"), ("r2", "a2"), ("r3", "a3"))  # sums: 1.9, 3.42, 1.9
    out = G.Aggregate("consistent", encoder)(frame)
    np.testing.assert_allclose(out["query_vec"].item(), [1.45, 1.45], rtol=1e-6)
    assert out["query"].item() == "r2"


def test_a_query_vector_of_an_earlier_query_does_not_stay():
    frame = drawn(("mint",)).assign(query_vec=[np.zeros(2)])
    assert "query_vec" not in G.Aggregate()(frame).columns


@pytest.mark.parametrize("samples", [[], [["", "a"]], [[]], [["a", None]]])
def test_a_turn_without_a_sample_and_a_non_encoder_are_named(samples):
    with pytest.raises(ikat.DataError, match=r"turn 1_2 has the qsamples \["):
        G.Aggregate()(drawn(("a",)).assign(qsamples=[samples]))
    with pytest.raises(ikat.DataError, match="gave no query_vec for each query"):
        G.Aggregate(encoder=ikat.RawUtterance())(drawn(("a",)))


WORDS = st.lists(st.sampled_from(["mint", "tea", "sage"]), min_size=1, max_size=5)


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_closeness_is_the_cosine_of_word_counts(lists):
    vectors = word_vectors([" ".join(words) for words in lists])
    rows = [[words.count("mint"), words.count("tea"), words.count("sage")] for words in lists]
    counts = np.array(rows, dtype=float)
    lengths = np.linalg.norm(counts, axis=1)
    cosines = counts @ counts.T / np.outer(lengths, lengths)
    np.testing.assert_allclose(vectors @ vectors.T, cosines, atol=1e-12)


def test_for_bm25_joined_texts_rank_as_by_their_mean_scores(tmp_path):
    passages = {
        "a": "mint tea is mint",
        "b": "sage tea cures",
        "c": "mint leaf",
        "d": "a tram runs",
        "e": "sage and mint and tea leaves",
    }
    index = ikat.PassageIndex(tmp_path / "i").index(
        [{"docno": docno, "text": text} for docno, text in passages.items()]
    )
    texts = ["mint tea", "sage tea", "mint tea", "leaves of sage"]
    together = (G.Aggregate() >> index.bm25())(drawn(*([text] for text in texts))).set_index(
        "docno"
    )["score"]
    alone = (
        index.bm25()(pd.DataFrame({"qid": list("0123"), "query": texts}))
        .groupby("docno")["score"]
        .sum()
    )
    np.testing.assert_allclose(together.sort_index(), alone.sort_index(), rtol=1e-5)


def refuse(frame):
    raise AssertionError("nothing is encoded")


def test_a_plan_of_aggregation_encodes_nothing():
    turn = pd.DataFrame({"qid": ["1"], "query": ["mint tea"]})
    planned = G.Aggregate("mean", pt.apply.generic(refuse)).plan(turn, Plan("mine", set()))
    assert planned["query"].tolist() == ["mint tea"]


def test_the_most_consistent_sample_is_close_to_all():
    turn = pd.DataFrame({"qid": ["1"], "query": ["q"]})
    turn["qsamples"] = [[["x"], ["a b"], ["a c"], ["a b c"]]]
    assert G.Aggregate("consistent")(turn)["query"].item() == "a b c"
    turn["qsamples"] = [[["a"], []]]
    with pytest.raises(DataError, match="turn 1 has the qsamples"):
        G.Aggregate()(turn)


@pytest.mark.parametrize("change", [lambda rows: rows[::-1], lambda rows: rows[:1]])
def test_an_encoder_keeps_the_order_of_its_queries(change):
    def encode(rows):
        return change(rows.assign(query_vec=[np.ones(2)] * len(rows)))

    turn = pd.DataFrame({"qid": ["1"], "query": ["q"], "qsamples": [[["a"], ["b"]]]})
    with pytest.raises(DataError, match="gave no query_vec for each query"):
        G.Aggregate("mean", pt.apply.generic(encode))(turn)


class Encoder(pt.Transformer):
    """The vector of a text is its length and 1; it counts what it encodes."""

    def __init__(self):
        self.texts = []

    def transform(self, inp):
        self.texts += inp["query"].tolist()
        return inp.assign(query_vec=[np.array([len(text), 1.0]) for text in inp["query"]])


def test_the_mean_vector_is_of_all_texts_with_content():
    encoder = Encoder()
    frame = pd.DataFrame(
        {
            "qid": ["1", "2"],
            "query": "q",
            "qsamples": [[["ab", ""], ["abcd", "a"]], [["ab"]]],
            "also": ["abcdef", ""],
        }
    )
    mean = G.Aggregate("mean", encoder, also="also")(frame)
    assert [vector.tolist() for vector in mean["query_vec"]] == [[13 / 4, 1.0], [2.0, 1.0]]
    assert mean["query"].tolist() == ["ab", "ab"]
    assert sorted(encoder.texts) == ["a", "ab", "abcd", "abcdef"]
    first = G.Aggregate("first", also="also")(frame)
    assert first["query"].tolist() == ["ab abcdef", "ab"]
    assert G.Aggregate()(frame.drop(columns="qsamples"))["query"].tolist() == ["q", "q"]
    assert encode({""}, encoder) == {}
    assert joined(["", "a", "", "b"]) == "a b"
    assert word_vectors(["A a b", ""]).round(3).tolist() == [[0.894, 0.447], [0.0, 0.0]]
