"""Bi-encoders and late interaction: each text is encoded once, as its kind."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from rank.to_rank import Lengths
from tiny_cross_encoders import (
    CONFIGS,
    save_network,
)
from transformers import (
    AutoModel,
)

import pyterrier_ikat as ikat
from pyterrier_ikat.rank import bi_encoders
from pyterrier_ikat.rank.bi_encoders import cosines, embedded_once
from pyterrier_ikat.store.cache import Cache


def test_cosines_are_those_of_each_pair(monkeypatch):
    monkeypatch.setattr(bi_encoders, "PAIRS_AT_ONCE", 2)
    vectors = {"x": [1, 0], "y": [0, 1], "z": [0.6, 0.8]}
    calls = []

    def embed(texts, kind):
        calls.append((list(texts), kind))
        return np.array([vectors[text] for text in texts], dtype=np.float32)

    scores = bi_encoders.cosines(["x", "y", "x", "z", "y"], ["z", "z", "y", "x", "y"], embed)
    assert scores.tolist() == pytest.approx([0.6, 0.8, 0.0, 0.6, 1.0])
    assert calls == [(["x", "y", "z"], "query"), (["z", "y", "x"], "document")]


def test_embeddings_are_kept_if_finite_and_encoded_longest_first():
    cache = Cache()
    asked = []
    vectors = {"a": [1, 1.0], "odd": [3, math.nan], "long": [4, 1.0]}

    def encode(texts):
        asked.append(list(texts))
        return np.array([vectors[text] for text in texts])

    for _ in range(2):
        found = bi_encoders.embedded_once(["a", "odd", "long"], b"m", cache, encode)
        assert found.dtype == np.float32
        assert found[:, 0].tolist() == [1, 3, 4]
    assert asked == [["long", "odd", "a"], ["odd"]]
    bi_encoders.embedded_once(["a"], b"n", cache, encode)
    assert asked[2:] == [["a"]]


def test_a_bi_encoder_is_asked_for_vectors_of_its_kind(monkeypatch):
    calls = []

    class Encoder:
        def encode_query(self, texts, **options):
            calls.append(("query", texts, options))

        def encode_document(self, texts, **options):
            calls.append(("document", texts, options))

    monkeypatch.setattr(bi_encoders, "load_bi_encoder", lambda name: Encoder())
    for kind in ("query", "document"):
        ikat.BiEncoder("m", 7)._encode(["a"], kind)
    options = {"batch_size": 7, "show_progress_bar": False, "normalize_embeddings": True}
    assert calls == [("query", ["a"], options), ("document", ["a"], options)]


def test_cosines_encode_each_distinct_text_once_longest_first(monkeypatch):
    monkeypatch.setattr(bi_encoders, "TEXTS_AT_ONCE", 2)
    model = Lengths()
    cache = Cache()
    found = cosines(["q", "q", "qqq"], ["text", "te", "text"], model)
    assert found == pytest.approx(np.cos([3, 1, 1]), abs=1e-6)
    assert sorted(model.texts) == ["q", "qqq", "te", "text"]
    model.texts.clear()
    for texts in (["aaa", "b"], ["cc", "b", "dddd", "aaa", "eeeee"]):
        embeddings = embedded_once(texts, b"model", cache, model)
        lengths = list(map(len, texts))
        assert embeddings[:, 0] == pytest.approx(np.cos(lengths), abs=1e-6)
    assert model.texts == ["aaa", "b", "eeeee", "dddd", "cc"]
    embedded_once(["b"], b"other model", cache, model)
    assert model.texts[-1] == "b"


def test_what_was_encoded_before_a_failure_is_kept(monkeypatch):
    monkeypatch.setattr(bi_encoders, "TEXTS_AT_ONCE", 2)
    model = Lengths()
    cache = Cache()

    def failing(texts):
        if model.texts:
            raise KeyboardInterrupt
        return model(texts)

    with pytest.raises(KeyboardInterrupt):
        embedded_once(["a", "bb", "ccc"], b"m", cache, failing)
    embeddings = embedded_once(["a", "bb", "ccc"], b"m", cache, model)
    assert embeddings[:, 0] == pytest.approx(np.cos([1, 2, 3]), abs=1e-6)
    assert model.texts == ["ccc", "bb", "a"]


def test_more_embeddings_than_the_cache_holds_are_still_whole():
    embeddings = embedded_once(["a", "bb", "ccc"], b"model", Cache(max_bytes=300), Lengths())
    assert embeddings[:, 0] == pytest.approx(np.cos([1, 2, 3]), abs=1e-6)


@pytest.mark.parametrize("name", ["roberta", "bert", "modernbert"])
def test_a_bi_encoder_cuts_a_text_at_its_networks_positions(tmp_path, name):
    config = CONFIGS[name]()
    config.max_position_embeddings = 24
    torch.manual_seed(7)
    encoder = ikat.BiEncoder(save_network(tmp_path / "m", AutoModel.from_config(config)))
    frame = pd.DataFrame(
        {
            "qid": "t",
            "query": "tea",
            "docno": ["a", "b"],
            "text": ["coffee " * 400, "coffee " * 399 + "late"],
            "rank": [0, 1],
        }
    )
    assert encoder(frame.assign(score=1.0))["score"].nunique() == 1


# Late interaction


class Vectors:
    """A multi-vector model whose vectors are lengths, with what it was asked."""

    def __init__(self):
        self.asked = []

    def encode_query(self, texts, **options):
        self.asked.append(("query", texts, options))
        return [10 * len(text) for text in texts]

    def encode_document(self, texts, **options):
        self.asked.append(("document", texts, options))
        return [len(text) for text in texts]

    def similarity_pairwise(self, queries, texts):
        return torch.tensor(queries) + torch.tensor(texts)


def test_late_interaction_encodes_each_text_of_its_kind_once(monkeypatch):
    model = Vectors()
    monkeypatch.setattr(bi_encoders, "load_multi_vector_encoder", lambda name: model)
    pairs = [("q", "aa"), ("Q", "b"), ("qqq", "aa"), ("q", "b")]
    assert ikat.ColBERT("m", 7)._score(pairs).tolist() == [12.0, 11.0, 32.0, 11.0]
    options = {"batch_size": 7, "show_progress_bar": False}
    assert model.asked == [
        ("query", ["q", "Q", "qqq"], options),
        ("document", ["aa", "b"], options),
    ]


def test_a_multi_vector_model_is_cut_at_its_positions(monkeypatch):
    model = SimpleNamespace(state_dict=dict)
    library = SimpleNamespace(MultiVectorEncoder=lambda name: model)
    cut = []
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    monkeypatch.setattr(bi_encoders, "cut_at_positions", lambda model: cut.append(model) or model)
    assert bi_encoders.load_multi_vector_encoder.__wrapped__("m") is model  # no double is kept
    assert cut[0] is model
