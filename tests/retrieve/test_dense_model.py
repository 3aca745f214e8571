"""What a dense index asks its model and makes of the vectors, of passages and of queries."""

import json
import shutil
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from retrieve.query_frames import turns

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import dense as dense_module


class Words:
    """A bi-encoder of two dimensions, tea and tram, that remembers its calls."""

    similarity_fn_name = None

    def __init__(self):
        self.calls = []

    def _encode(self, of, texts, **options):
        self.calls.append((of, list(texts), options))
        vectors = [[text.count("tea"), text.count("tram")] for text in texts]
        vectors = np.array(vectors, dtype=np.float32)
        if options["normalize_embeddings"]:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return vectors

    def encode_query(self, texts, **options):
        return self._encode("query", texts, **options)

    def encode_document(self, texts, **options):
        return self._encode("document", texts, **options)


@pytest.fixture
def words(monkeypatch):
    model = Words()
    model.similarity_fn_name = "dot"
    monkeypatch.setattr(dense_module, "load_bi_encoder", lambda name: model)
    return model


CORPUS = [
    {"docno": "d1", "text": "tea tea"},
    {"docno": "d2", "text": "tram"},
    {"docno": "d3", "text": "\n"},
    {"docno": "d4", "text": "tea tram \ud800"},
]


def test_the_model_is_called_with_prefix_size_and_similarity(words, tmp_path):
    index = ikat.DenseIndex(tmp_path / "i").index(
        CORPUS, "m", passage_prefix="p: ", query_prefix="q: ", batch_size=7
    )
    [(of, texts, options)] = words.calls
    assert (of, len(texts)) == ("document", 3)
    assert texts[2] == "tea tram \ufffd"
    assert options == {
        "prompt": "p: ",
        "batch_size": 7,
        "show_progress_bar": False,
        "normalize_embeddings": False,
        "pool": None,
    }
    index.encode_queries(["tea"])
    index.encode_queries(["tea"], "own: ")
    index.encode_queries(["tea"], "")
    assert [of for of, _, _ in words.calls[1:]] == ["query", "query", "query"]
    assert [options["prompt"] for _, _, options in words.calls[1:]] == ["q: ", "own: ", ""]
    assert words.calls[1][2]["batch_size"] == 32


@pytest.mark.parametrize(
    ("of_model", "argument", "normalised"),
    [
        ("dot", None, False),
        ("cosine", None, True),
        ("cosine", "dot", False),
        ("dot", "cosine", True),
    ],
)
def test_the_argument_similarity_overrides_the_models(
    words, tmp_path, of_model, argument, normalised
):
    words.similarity_fn_name = of_model
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m", similarity=argument)
    assert words.calls[0][2]["normalize_embeddings"] is normalised
    scores = index.dense().search("tea").set_index("docno")["score"]
    expected = {"d1": 1, "d4": 2**-0.5, "d2": 0} if normalised else {"d1": 2, "d4": 1, "d2": 0}
    assert scores.to_dict() == pytest.approx(expected)
    given = index.dense()(turns("x").assign(query_vec=[[3, 0]])).set_index("docno")["score"]
    wanted = expected if normalised else {"d1": 6, "d4": 3, "d2": 0}
    assert given.to_dict() == pytest.approx(wanted)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_has_at_least_one_text(words, tmp_path, batch_size):
    with pytest.raises(ikat.UsageError, match="batch_size"):
        ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m", batch_size=batch_size)


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_batches_of_any_size_make_the_same_index(words, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(dense_module, "PASSAGES_AT_ONCE", at_once)
    index = ikat.DenseIndex(tmp_path / "i").index(iter(CORPUS[:3]), "m").add(iter(CORPUS[3:]))
    assert len(index) == 4
    found = index.dense()(turns("tea", "tram"))
    assert found[["qid", "docno", "score", "rank"]].values.tolist() == [
        ["1_1", "d1", 2.0, 0],
        ["1_1", "d4", 1.0, 1],
        ["1_1", "d2", 0.0, 2],
        ["1_2", "d4", 1.0, 0],
        ["1_2", "d2", 1.0, 1],
        ["1_2", "d1", 0.0, 2],
    ]
    assert found["text"].tolist()[:2] == ["tea tea", "tea tram \ud800"]
    assert index.describe()["size"] == 2


@pytest.mark.parametrize(
    ("vector", "fits"),
    [
        ([1, 2], True),
        ([1.5, -2], True),
        (np.array([1, 2], dtype=np.uint8), True),
        ([1, 2, 3], False),
        ([[1, 2]], False),
        ([True, False], False),
        (["1", "2"], False),
        ([1, float("inf")], False),
        ([1e300, 0], False),  # infinite in 32 bits
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_vectors_of_queries_fit_the_index_or_are_named(words, tmp_path, vector, fits):
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m")
    if fits:
        [found] = index.as_queries(["1_1"], [vector])
        assert found.tolist() == list(map(float, vector))
        assert found.dtype == np.float32
        return
    with pytest.raises(ikat.DataError, match="query_vec of 1_2 is .*2 finite numbers"):
        index.as_queries(["1_1", "1_2"], [[1, 2], vector])


def test_queries_without_words_have_zeros_in_their_own_rows(words, tmp_path):
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m", query_prefix="tram ")
    asked = turns("tea", " ", None, "tram", "tea").set_index(pd.Index([9, 8, 7, 6, 5]))
    found = index.query_encoder()(asked)
    assert np.stack(found["query_vec"]).tolist() == [[1, 0], [0, 0], [0, 0], [0, 1], [1, 0]]
    assert words.calls[-1][1] == ["tea", "tram"]
    assert words.calls[-1][2]["prompt"] == "tram "
    index.query_encoder("own ")(turns("tea"))
    assert words.calls[-1][2]["prompt"] == "own "
    count = len(words.calls)
    index.query_encoder()(turns(" "))
    assert len(words.calls) == count  # no text, no call


def test_the_retrievers_of_an_index_have_its_arguments(words, tmp_path):
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m")
    plain = index.dense()
    assert (plain.num_results, plain.cache, plain.query_prefix, plain.device) == (
        1000,
        None,
        None,
        "auto",
    )
    cache = tmp_path / "c"
    full = index.dense(5, cache, query_prefix="q: ", device="cpu")
    assert (full.num_results, full.query_prefix, full.device) == (5, "q: ", "cpu")
    assert str(full.cache) == str(cache)
    assert full.query_encoder().query_prefix == "q: "
    assert index.retriever(5, k1=2.0, b=1.0) == index.dense(5)
    assert str(index.retriever(5, cache).cache) == str(cache)
    assert index.retriever() == plain


@pytest.mark.parametrize(
    ("changed", "encoded"),
    [
        ({}, 2),
        ({"model": "n"}, 3),
        ({"passage_prefix": "tram "}, 3),
        ({"similarity": "cosine"}, 3),
        ({"query_prefix": "tram "}, 2),
    ],
)
def test_a_build_continues_only_what_its_settings_made(
    words, tmp_path, monkeypatch, changed, encoded
):
    """Passages are encoded one at a time, and the first build stops at the second."""
    monkeypatch.setattr(dense_module, "PASSAGES_AT_ONCE", 1)
    encode = words.encode_document

    def stops(texts, **options):
        if words.calls:
            raise KeyboardInterrupt
        return encode(texts, **options)

    words.encode_document = stops
    with pytest.raises(KeyboardInterrupt):
        ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m")
    words.encode_document = encode
    words.calls.clear()
    settings = {"model": "m", **changed}
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, **settings)
    assert len(words.calls) == encoded
    assert index.opened().engine.docnos.tolist() == ["d1", "d2", "d4"]


def test_a_moved_model_is_the_one_that_encodes(words, tmp_path, monkeypatch):
    here = tmp_path / "here" / "m"
    there = tmp_path / "there" / "m"
    here.mkdir(parents=True)
    (here / "weights").write_text("first")
    path = ikat.DenseIndex(tmp_path / "i").index(CORPUS[:2], here).path
    shutil.move(here.parent, there.parent)
    loaded = []

    def load(name):
        loaded.append(name)
        return words

    monkeypatch.setattr(dense_module, "load_bi_encoder", load)
    index = ikat.DenseIndex(path, there).add(CORPUS[2:])
    assert index.dense().search("tram")["docno"].tolist() == ["d4", "d2", "d1"]
    assert set(loaded) == {str(there)}
    same = ikat.DenseIndex(path).index(CORPUS, there)  # its name isn't compared
    assert same.describe()["model"] == str(here)


def test_devices_encode_passages_as_the_models_processes(words, tmp_path, monkeypatch):
    started = []

    @contextmanager
    def pool(model, devices):
        started.append((model, devices))
        yield "a pool"

    monkeypatch.setattr(dense_module, "usable_devices", lambda devices: devices)
    monkeypatch.setattr(dense_module, "encoding_pool", pool)
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m", devices=["a", "b"])
    assert started == [(words, ["a", "b"])]
    assert words.calls[0][2]["pool"] == "a pool"
    index.encode_queries(["tea"])
    assert words.calls[1][2]["pool"] is None


def test_blank_passages_alone_are_added_to_vectors(words, tmp_path):
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS[:2], "m")
    index.add([{"docno": "d8", "text": " "}])
    assert (len(index), index.describe()["size"]) == (3, 2)
    assert index.dense().search("tea")["docno"].tolist() == ["d1", "d2"]


def test_vectors_are_multiplied_on_the_retrievers_device(words, tmp_path):
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m")
    with pytest.raises(RuntimeError, match="no-device"):
        index.dense(device="no-device").search("tea")
    assert repr(index.query_encoder("")).endswith("query_encoder(query_prefix='')")
    assert repr(index.query_encoder()).endswith("query_encoder()")


def test_an_index_without_lookup_is_no_flexindex(words, tmp_path, monkeypatch):
    double = SimpleNamespace(FlexIndex=lambda folder, verbose: folder)
    monkeypatch.setitem(sys.modules, "pyterrier_dr", double)
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m")
    folder = tmp_path / "i" / "dense-4"
    (folder / dense_module.NPIDS_FILE).unlink()
    described = json.loads((folder / "ikat.json").read_text())
    del described["files"][dense_module.NPIDS_FILE]
    (folder / "ikat.json").write_text(json.dumps(described))
    with pytest.raises(ikat.DataError, match=r"can't hold the docnos .*: use \.dense\(\)"):
        index.flex  # noqa: B018
    assert len(index.dense().search("tea")) == 3


def test_without_npids_nothing_is_encoded(words, tmp_path, monkeypatch):
    monkeypatch.setattr(dense_module, "find_spec", lambda name: None)
    with pytest.raises(ikat.UsageError, match=r"need npids: pip install 'pyterrier_ikat\[dense\]'"):
        ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m")
    assert words.calls == []
    assert not (tmp_path / "i").exists()


def test_a_wrong_vector_is_named_by_its_own_turn(words, tmp_path):
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m")
    with pytest.raises(ikat.DataError, match="query_vec of 1_1 is"):
        index.as_queries(["1_2", "1_1"], [[1, 2], [1]])


def test_warming_up_encodes_a_query(words, tmp_path):
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m", query_prefix="q: ")
    index.warm_up()
    [(of, texts, options)] = words.calls[1:]
    assert (of, texts, options["prompt"]) == ("query", ["tea"], "q: ")


def test_each_query_vector_is_divided_by_its_own_length(words, tmp_path):
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, "m", similarity="cosine")
    found = index.as_queries(["1", "2", "3"], [[3, 4], [0.0, -2.0], [0, 0]])
    assert found.tolist() == pytest.approx(np.array([[0.6, 0.8], [0, -1], [0, 0]]))
    asked = turns("x", "y").assign(query_vec=[[3, 0], [0, 5]])
    best = index.dense(num_results=1)(asked)
    assert best[["qid", "docno", "score"]].values.tolist() == [
        ["1_1", "d1", 1.0],
        ["1_2", "d2", 1.0],
    ]
