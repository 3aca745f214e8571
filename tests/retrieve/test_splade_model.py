"""What SPLADE asks its model, and how the weights become impacts of an index."""

import sys
from contextlib import contextmanager
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import splade as splade_module
from pyterrier_ikat.retrieve.splade import SCALE, encode_texts, write_impacts


class Fixed:
    """A model with a weight for each of three words."""

    def __init__(self, weights=(0.5, 1.0, 2.0)):
        self.weights = weights
        self.calls = []

    def _encode(self, of, texts, **options):
        self.calls.append((of, list(texts), options))
        a, b, c = self.weights
        rows = []
        for text in texts:
            words = text.split()
            rows.append([a * words.count("a"), b * words.count("b"), c * words.count("c")])
        return torch.tensor(rows, dtype=torch.float32).to_sparse()

    def encode_query(self, texts, **options):
        return self._encode("query", texts, **options)

    def encode_document(self, texts, **options):
        return self._encode("document", texts, **options)


@pytest.mark.parametrize("of", ["query", "document"])
@pytest.mark.parametrize("batch_size", [None, 5])
def test_texts_are_encoded_as_what_they_are_in_batches(of, batch_size):
    model = Fixed()
    options = {} if batch_size is None else {"batch_size": batch_size}
    found = encode_texts(model, ["a b", "", "c c \ud800", " \n"], of=of, **options)
    assert found.toarray().tolist() == [[50, 100, 0], [0, 0, 0], [0, 0, 400], [0, 0, 0]]
    [(called, texts, given)] = model.calls
    assert (called, texts) == (of, ["a b", "c c \ufffd"])
    assert given["batch_size"] == (batch_size or 32)
    assert given["show_progress_bar"] is False


def test_blank_texts_ask_no_model():
    model = Fixed()
    found = encode_texts(model, ["", " "], of="query")
    assert (found.shape[0], found.nnz, model.calls) == (2, 0, [])


@pytest.mark.parametrize(
    ("weight", "impact"),
    [(0.004, 0), (0.006, 1), (0.014, 1), (0.016, 2), (-1.0, 0), (3.14159, 314), (90.0, 9000)],
)
def test_a_weight_is_rounded_to_hundredths_and_positive(weight, impact):
    found = encode_texts(Fixed((weight, 1.0, 1.0)), ["a c"], of="query")
    assert found.toarray().tolist() == [[impact, 0, 100]]
    assert (found.data > 0).all()  # no term is kept without an impact


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_a_weight_that_is_no_number_is_refused(weight):
    with pytest.raises(ikat.UsageError, match="not a finite number"):
        encode_texts(Fixed((weight, 1.0, 1.0)), ["a"], of="query")


def test_scores_are_products_of_hundredths():
    assert SCALE == 100
    assert ikat.SpladeIndex("x").retriever.__self__.KIND == "splade"
    assert splade_module.SpladeRetriever.scale == 10_000


def part(path, docnos, rows):
    """A file of a part of one batch, with (term, impact) pairs for each passage."""
    pairs = list(chain.from_iterable(rows))
    data = [impact for _, impact in pairs]
    indices = [term for term, _ in pairs]
    indptr = np.cumsum([0, *map(len, rows)])
    arrays = {
        "0.docnos": np.array(docnos),
        "0.data": np.array(data, dtype=np.uint32),
        "0.indices": np.array(indices, dtype=np.int32),
        "0.indptr": indptr,
    }
    np.savez(path, **arrays)
    return path


def matrix(folder):
    postings = splade_module.open_postings(folder)
    by_docno = {}
    for number, docno in enumerate(np.array(postings.docnos)[postings.ranks].tolist()):
        row = {}
        for term, column in postings.columns.items():
            for place in range(postings.starts[column], postings.starts[column + 1]):
                if postings.docs[place] == number:
                    row[term] = float(postings.impacts[place])
        by_docno[docno] = row
    return by_docno


def test_parts_with_different_terms_are_one_matrix(tmp_path):
    files = [
        part(tmp_path / "0.npz", ["d", "b"], [[(0, 5), (2, 7)], []]),
        part(tmp_path / "1.npz", ["c"], [[(4, 5001)]]),  # more than 16 bits tell apart
        part(tmp_path / "blank.npz", ["e"], [[]]),
        part(tmp_path / "2.npz", ["a"], [[(0, 3), (1, 2)]]),
    ]
    whole = tmp_path / "whole"
    first = tmp_path / "first"
    added = tmp_path / "added"
    for folder in (whole, first, added):
        folder.mkdir()
    write_impacts(whole, files, None)
    expected = {"d": {"0": 5, "2": 7}, "b": {}, "c": {"4": 5001}, "e": {}, "a": {"0": 3, "1": 2}}
    assert matrix(whole) == expected
    write_impacts(first, files[:1], None)
    write_impacts(added, files[1:], first)
    assert matrix(added) == expected
    for name in ("docs", "impacts", "starts", "ranks"):
        assert np.load(whole / f"{name}.npy").tolist() == np.load(added / f"{name}.npy").tolist()


@pytest.mark.parametrize("size", [0, -3])
def test_a_batch_has_at_least_one_passage(size):
    with pytest.raises(ikat.UsageError, match="batch_size"):
        ikat.Splade("m", size)
    assert ikat.Splade("m", 1).batch_size == 1
    assert ikat.Splade().model == "naver/splade-cocondenser-selfdistil"
    assert ikat.Splade().batch_size == 32


def test_the_retriever_has_its_arguments_and_no_bm25(model, tmp_path):
    corpus = [{"docno": "d1", "text": "green tea"}, {"docno": "d2", "text": "the train"}]
    index = ikat.Splade(model).index(tmp_path / "i", corpus)
    plain = index.retriever()
    assert (plain.num_results, plain.cache) == (1000, None)
    assert index.retriever(k1=3.0, b=1.0) == plain
    small = index.retriever(1, tmp_path / "cache")
    assert small.num_results == 1
    assert str(small.cache) == str(tmp_path / "cache")
    found = small(pd.DataFrame({"qid": ["1_1"], "query": ["green tea"]}))
    assert found["docno"].tolist() == ["d1"]
    text = index.text_loader()
    other = ikat.SpladeIndex(index.path, text=text).with_query_model("tuned")
    assert (other.path, other.model, other.query_model) == (index.path, None, "tuned")
    assert other.text == text
    tuned = ikat.SpladeIndex(index.path, text=text).retriever(5, query_model=model)
    assert tuned.index == ikat.SpladeIndex(index.path, text=text, query_model=model)
    assert tuned.num_results == 5
    assert index.query_model is None
    assert index.describe()["scale"] == 100


@pytest.fixture
def fixed(monkeypatch):
    """A model of three words, by any name; ``loaded`` has the names, ``pools`` the devices."""
    model = Fixed()
    model.loaded = []
    model.pools = []

    def load(name):
        model.loaded.append(name)
        return model

    @contextmanager
    def pool(of, devices):
        model.pools.append(devices)
        yield devices and "a pool"

    monkeypatch.setattr(splade_module, "load_sparse_encoder", load)
    monkeypatch.setattr(splade_module, "usable_devices", lambda devices: devices)
    monkeypatch.setattr(splade_module, "encoding_pool", pool)
    monkeypatch.setattr(splade_module, "checksum_vocabulary", lambda model: "abc")
    return model


WORDS = [{"docno": "d1", "text": "a b"}, {"docno": "d2", "text": "c"}]


@pytest.mark.parametrize("devices", [None, ["x", "y"]])
def test_passages_are_encoded_in_batches_on_the_devices(fixed, tmp_path, devices):
    index = ikat.Splade("m", 5).index(tmp_path / "i", WORDS, devices=devices)
    assert fixed.pools == [devices]
    [(of, texts, options)] = fixed.calls
    assert (of, texts, options["batch_size"]) == ("document", ["a b", "c"], 5)
    assert options["pool"] == (devices and "a pool")
    assert index.describe()["vocabulary"] == "abc"
    found = index.retriever().search("c b")
    assert found[["docno", "score"]].values.tolist() == [["d2", 4.0], ["d1", 1.0]]
    assert fixed.calls[1][2]["pool"] is None


def test_a_moved_sparse_model_is_the_one_that_encodes(fixed, tmp_path):
    here = tmp_path / "here" / "m"
    there = tmp_path / "there" / "m"
    here.mkdir(parents=True)
    (here / "weights").write_text("first")
    path = ikat.Splade(here).index(tmp_path / "i", WORDS[:1]).path
    here.parent.rename(there.parent)
    fixed.loaded.clear()
    index = ikat.SpladeIndex(path, there).add(WORDS[1:])
    assert index.retriever().search("c")["docno"].tolist() == ["d2"]
    assert set(fixed.loaded) == {str(there)}


def test_a_model_that_cannot_be_loaded_is_told_before_reading(
    fixed, tmp_path, monkeypatch, unread_corpus
):
    def fails(name):
        raise ikat.UsageError("can't load it")

    monkeypatch.setattr(splade_module, "load_sparse_encoder", fails)
    with pytest.raises(ikat.UsageError, match="can't load it"):
        ikat.Splade("m").index(tmp_path / "i", unread_corpus)
    assert not (tmp_path / "i").exists()


class SpladePooling:
    """The module by which a SPLADE model is known."""


def test_a_sparse_encoder_is_cut_at_its_positions(monkeypatch):
    model = SimpleNamespace(modules=lambda: [SpladePooling()])
    library = SimpleNamespace(SparseEncoder=lambda name: model)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    cut_models = []

    def cut(loaded):
        cut_models.append(loaded)
        return loaded

    monkeypatch.setattr(splade_module, "cut_at_positions", cut)
    assert splade_module.load_sparse_encoder.__wrapped__("m") is model  # no double is kept
    assert cut_models == [model]


def test_passages_without_any_term_make_no_index(tmp_path):
    files = [
        part(tmp_path / "a.npz", ["a"], [[]]),
        part(tmp_path / "b.npz", ["b"], [[]]),
    ]
    for given in (files, []):
        with pytest.raises(ikat.DataError, match="the model gives no passage a term"):
            write_impacts(tmp_path, given, None)


def test_each_query_has_its_own_terms_and_a_blank_one_none(fixed, tmp_path):
    index = ikat.Splade("m").index(tmp_path / "i", WORDS)
    fixed.loaded.clear()
    expected = [{"1": 100, "2": 200}, {}, {"0": 100}]
    assert index.encode_queries(["c b", " ", "a a"]) == expected
    assert index.encode_queries(["c b"]) == expected[:1]
    assert fixed.loaded == ["m", "m"]
    assert index.encode_queries([" "]) == [{}]
    tuned = index.with_query_model("tuned")
    assert tuned.encode_queries(["b"]) == [{"1": 100}]
    assert fixed.loaded[3:] == ["tuned"]


def test_a_vocabulary_is_compared_once_for_a_model_of_queries(fixed, tmp_path, monkeypatch):
    index = ikat.Splade("m").index(tmp_path / "i", WORDS)
    compared = []

    def checksum(model):
        compared.append(model)
        return "xyz"

    monkeypatch.setattr(splade_module, "checksum_vocabulary", checksum)
    assert index.encode_queries(["b"]) == [{"1": 100}]
    assert compared == []  # its own model
    tuned = index.with_query_model("tuned")
    for _ in range(2):
        with pytest.raises(ikat.UsageError, match="'tuned', has another vocabulary than 'm', whic"):
            tuned.encode_queries(["b"])
    monkeypatch.setattr(splade_module, "checksum_vocabulary", lambda model: "abc")
    assert tuned.encode_queries(["b"]) == [{"1": 100}]
    monkeypatch.setattr(splade_module, "checksum_vocabulary", checksum)
    assert tuned.encode_queries(["b"]) == [{"1": 100}]


def test_a_vocabulary_that_is_not_stored_is_the_passages_models(monkeypatch):
    monkeypatch.setattr(splade_module, "load_sparse_encoder", lambda name: name)
    monkeypatch.setattr(splade_module, "checksum_vocabulary", lambda model: f"of {model}")
    index = ikat.SpladeIndex("i", "passages", query_model="queries")
    description = {}
    monkeypatch.setattr(index, "describe", lambda: description)
    assert index._vocabulary() == "of passages"
    description["vocabulary"] = "stored"
    assert index._vocabulary() == "stored"
