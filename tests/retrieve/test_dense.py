"""Dense retrieval over an index that keeps the passages' text, and that pyterrier_dr opens."""

import json
import os
import pickle
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.retrieve import NoResultWarning
from pyterrier_ikat.retrieve import dense as dense_module
from pyterrier_ikat.store.models import BUNDLED, load_bi_encoder

SIZE = 8
TEXTS = {
    "d1": "green tea",
    "d2": "black coffee",
    "d3": "the train is late",
    "d4": "green tea",
    "d5": " ",
    "d10": "a tram and a train",
}
CORPUS = [{"docno": docno, "text": text} for docno, text in TEXTS.items()]


def vector(text):
    """A vector of the letters of a text, by their position in the alphabet."""
    found = np.zeros(SIZE, dtype=np.float32)
    for letter in text:
        found[ord(letter) % SIZE] += 1
    return found


class Letters:
    """Encodes as a ``SentenceTransformer`` does: ``encoded`` has the texts, with their prompts."""

    similarity_fn_name = "cosine"
    prompts = {"query": "", "document": ""}

    def __init__(self):
        self.encoded = {"query": [], "document": []}

    def _encode(
        self,
        of,
        texts,
        prompt=None,
        batch_size=32,
        show_progress_bar=True,
        normalize_embeddings=False,
        pool=None,
    ):
        prompt = self.prompts[of] if prompt is None else prompt
        self.encoded[of] += [prompt + text for text in texts]
        vectors = np.array([vector(prompt + text) for text in texts], dtype=np.float32)
        return (
            vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            if normalize_embeddings
            else vectors
        )

    def encode_query(self, texts, **options):
        return self._encode("query", texts, **options)

    def encode_document(self, texts, **options):
        return self._encode("document", texts, **options)


@pytest.fixture
def letters(monkeypatch):
    """The model of every name, but the bundled one."""
    model = Letters()
    monkeypatch.setattr(
        dense_module,
        "load_bi_encoder",
        lambda name: load_bi_encoder(name) if name == BUNDLED else model,
    )
    return model


@pytest.fixture
def index(letters, tmp_path):
    return ikat.DenseIndex(tmp_path / "i").index(CORPUS, "some/letters")


def topics(*queries):
    return pd.DataFrame(
        {"qid": [str(number) for number in range(len(queries))], "query": queries}, dtype=object
    )


def by_definition(query, passages, cosine=True):
    """Docno and score of all passages with a text, from the definition."""
    scores = []
    for docno, text in passages.items():
        if text.strip():
            asked = vector(query).astype(np.float64)
            held = vector(text).astype(np.float64)
            length = np.linalg.norm(asked) * np.linalg.norm(held) if cosine else 1
            scores.append((asked @ held / length, docno))
    return sorted(scores, key=lambda one: (round(one[0], 6), one[1]), reverse=True)


@pytest.mark.parametrize("similarity", [None, "cosine", "dot"])
def test_it_finds_by_similarity_and_ties_by_the_greatest_docno(letters, tmp_path, similarity):
    retriever = (
        ikat.DenseIndex(tmp_path / "i").index(CORPUS, "some/letters", similarity=similarity).dense()
    )
    asked = topics("green tree", "the tram", "green tree").assign(qturn=[1, 2, 3])
    found = retriever(asked)
    assert list(found.columns) == ["qid", "query", "qturn", "docno", "score", "rank", "text"]
    for qid, query in zip(asked["qid"], asked["query"], strict=True):
        rows = found[found["qid"] == qid]
        expected = by_definition(query, TEXTS, cosine=similarity != "dot")
        assert rows["docno"].tolist() == [docno for _, docno in expected]
        np.testing.assert_allclose(rows["score"], [score for score, _ in expected], rtol=1e-6)
        assert rows["rank"].tolist() == list(range(5))
        assert rows["text"].tolist() == [TEXTS[docno] for _, docno in expected]
    assert (retriever % 2).compile().num_results == 2
    pd.testing.assert_frame_equal(
        (retriever % 2)(asked), found[found["rank"] < 2].reset_index(drop=True)
    )


def test_any_docno_is_found_and_flexindex_takes_it(letters, tmp_path):
    draw = np.random.default_rng(0)
    signs = list("01aé:-%Z\U0001f600")
    texts = {}  # a set's order changes, and npids can't hold some orders
    for _ in range(700):
        docno = "".join(draw.choice(signs, draw.integers(1, 7)))
        if docno not in texts:
            number = len(texts)
            texts[docno] = "tea " + "ab"[number % 2] * (number % 7)
    docnos = list(texts)
    corpus = [{"docno": docno, "text": text} for docno, text in texts.items()]
    index = ikat.DenseIndex(tmp_path / "i").index(corpus, "some/letters")
    found = index.dense()(topics("tea"))
    expected = by_definition("tea", texts)
    assert found["docno"].tolist() == [docno for _, docno in expected]
    assert list(index.flex.docnos()) == docnos
    assert sorted(index.docnos(["none", *docnos])) == sorted(docnos)


# pyterrier_dr's torch retriever warns
@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_inner_folder_is_a_flexindex_with_the_same_results(letters, tmp_path, similarity):
    corpus = []
    for number in range(300):
        text = " ".join(["tea" * (number % 5), str(number), "tram" * (number % 3)])
        corpus.append({"docno": f"d{number:03}", "text": text})
    index = ikat.DenseIndex(tmp_path / "i").index(corpus, "some/letters", similarity=similarity)
    assert (type(index.flex).__module__, len(index.flex)) == ("pyterrier_dr.flex.core", 300)
    assert (
        pt.Artifact.load(str(tmp_path / "i" / "dense-300")).payload()[2] == index.flex.payload()[2]
    )
    asked = topics("tea time", "a tram")
    ours = index.dense(num_results=50)(asked)
    for theirs in (
        index.flex.np_retriever(num_results=50),
        index.flex.torch_retriever(num_results=50, fp16=False),
    ):
        found = (index.query_encoder() >> theirs)(asked)
        for qid in asked["qid"]:
            mine = ours[ours["qid"] == qid]
            other = found[found["qid"] == qid]
            np.testing.assert_allclose(mine["score"], other["score"], rtol=1e-6)
            # Who ties with the 50th is up to the order of ties.
            last = mine["score"].min() + 1e-6
            assert set(mine[mine["score"] > last]["docno"]) == set(
                other[other["score"] > last]["docno"]
            )


def test_a_vector_is_searched_in_the_place_of_the_query(index, letters):
    asked = topics("green tea", "nothing").assign(
        query_vec=[3 * vector("the train"), np.zeros(SIZE)]
    )
    with pytest.warns(NoResultWarning):
        found = index.dense()(asked)
    assert "query_vec" not in found.columns
    pd.testing.assert_frame_equal(
        found.drop(columns="query"), index.dense()(topics("the train")).drop(columns="query")
    )
    assert letters.encoded["query"] == ["the train"]
    for wrong in ("green", np.zeros(3), [float("nan")] * SIZE, None):
        with pytest.raises(
            ikat.DataError, match=rf"^query_vec of 1 is .*: give a vector of {SIZE} finite numbers"
        ):
            index.dense()(asked.assign(query_vec=[vector("a"), wrong]))


def test_the_query_encoder_adds_vectors_encoding_each_query_once(index, letters):
    asked = topics("green tea", "the train", "green tea")
    found = index.query_encoder()(asked)
    assert letters.encoded["query"] == ["green tea", "the train"]
    assert found.columns.tolist() == ["qid", "query", "query_vec"]
    np.testing.assert_array_equal(found["query_vec"][0], found["query_vec"][2])
    pd.testing.assert_frame_equal(index.dense()(found), index.dense()(asked))
    assert len(index.query_encoder()(asked.iloc[:0])) == 0
    with pytest.warns(NoResultWarning, match="0, 2"):
        assert index.dense()(index.query_encoder()(topics(" ", "green tea", None)))[
            "qid"
        ].unique().tolist() == ["1"]
    assert (
        repr(index.query_encoder("q: "))
        == f"ikat.DenseIndex({index.path!r}).query_encoder(query_prefix='q: ')"
    )


def test_prefixes_are_the_models_own_unless_they_are_given(letters, tmp_path, monkeypatch):
    monkeypatch.setattr(Letters, "prompts", {"query": "Q: ", "document": "D: "})
    ikat.DenseIndex(tmp_path / "own").index(CORPUS[:1], "some/letters").dense()(topics("tea"))
    given = ikat.DenseIndex(tmp_path / "given").index(
        CORPUS[:1], "some/letters", query_prefix="query: ", passage_prefix=""
    )
    given.dense()(topics("tea"))
    given.dense(query_prefix="")(topics("tea"))
    assert letters.encoded == {
        "query": ["Q: tea", "query: tea", "tea"],
        "document": ["D: green tea", "green tea"],
    }


def test_the_fingerprint_is_of_passages_model_and_prefixes(index, letters, tmp_path):
    others = [
        {"corpus": CORPUS[:-1]},
        {"model": "o/letters"},
        {"query_prefix": "q: "},
        {"passage_prefix": "p: "},
        {"similarity": "dot"},
    ]
    found = {index.fingerprint()}
    for number, changed in enumerate(others):
        built = ikat.DenseIndex(tmp_path / str(number)).index(
            **{"corpus": CORPUS, "model": "some/letters"} | changed
        )
        found.add(built.fingerprint())
    assert len(found) == 6
    copy = ikat.DenseIndex(shutil.copytree(index.path, tmp_path / "copy"))
    assert (
        pickle.loads(pickle.dumps(copy)).fingerprint() == copy.fingerprint() == index.fingerprint()
    )


def nan_vectors(self, texts, **_):
    return np.full((len(texts), SIZE), np.nan)


def infinite_vectors(self, texts, **_):
    return np.full((len(texts), SIZE), np.inf)


@pytest.mark.parametrize(
    ("of_model", "options", "error", "message"),
    [
        (
            {},
            {"similarity": "euclidean"},
            ikat.UsageError,
            "similarity 'euclidean', of the argument, is unknown: give cosine or dot with",
        ),
        (
            {"similarity_fn_name": "manhattan"},
            {},
            ikat.UsageError,
            "'manhattan', of some/letters, is unknown: give cosine or dot with",
        ),
        (
            {"encode_document": nan_vectors},
            {},
            ikat.UsageError,
            "isn't finite: its weights are damaged",
        ),
        (
            {"encode_document": infinite_vectors},
            {},
            ikat.UsageError,
            "isn't finite: its weights are damaged",
        ),
        (
            {},
            {"corpus": [{"docno": "d", "text": ""}]},
            ikat.DataError,
            "no passage of the corpus has a text",
        ),
        (
            {},
            {"model": "/no/where"},
            ikat.UsageError,
            "can't load the bi-encoder .*: give the folder of a downloaded model",
        ),
    ],
)
def test_what_cannot_be_indexed_is_said(
    letters, tmp_path, monkeypatch, of_model, options, error, message
):
    for name, value in of_model.items():
        monkeypatch.setattr(Letters, name, value)
    if "model" in options:
        monkeypatch.setattr(dense_module, "load_bi_encoder", load_bi_encoder)
        options = {**options, "corpus": (pytest.fail("the corpus was read") for _ in "a")}
    with pytest.raises(error, match=message):
        ikat.DenseIndex(tmp_path / "i").index(
            **{"corpus": CORPUS, "model": "some/letters", **options}
        )
    assert ikat.Index(tmp_path / "i").kinds == []


def test_another_model_than_the_one_of_the_passages_is_refused(letters, tmp_path):
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "weights").write_text("first")
    path = ikat.DenseIndex(tmp_path / "i").index(CORPUS, folder).path
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    assert len(ikat.DenseIndex(path, moved).dense()(topics("tea"))) == 5
    (folder / "weights").write_text("other")
    for index, named in (
        (ikat.DenseIndex(path), "letters"),
        (ikat.DenseIndex(path, "hub/other"), "hub/other"),
    ):
        with pytest.raises(
            ikat.UsageError, match=f"was encoded with another model than '.*{named}' as it is now"
        ):
            index.dense()(topics("tea"))


def test_a_model_of_the_hub_goes_by_its_owner_too(index, tmp_path):
    with pytest.raises(
        ikat.UsageError, match="was encoded with another model than 'other/letters' as it is now"
    ):
        ikat.DenseIndex(index.path, "other/letters").dense()(topics("tea"))
    (tmp_path / "letters").mkdir()
    # the name without its owner, and a folder, of which nothing else is known
    for same in ("letters", tmp_path / "letters"):
        assert ikat.DenseIndex(index.path, same).fingerprint() == index.fingerprint()


_folder = None


@pytest.fixture(autouse=True, scope="module")
def _small_index(tmp_path_factory):
    global _folder
    _folder = tmp_path_factory.mktemp("dense") / "i"
    ikat.DenseIndex(_folder).index(CORPUS, BUNDLED)


TestDense = pt.testing.transformer_test_class(lambda: ikat.DenseIndex(_folder).dense())
TestQueryEncoder = pt.testing.transformer_test_class(
    lambda: ikat.DenseIndex(_folder).query_encoder()
)


def test_distinct_queries_are_encoded_and_searched_once_for_all(index, letters, tmp_path):
    asked = topics("green tea", "the train", "green tea", " ")
    with pytest.warns(NoResultWarning, match="3"):
        first = (index.dense() % 3)(asked)
    assert letters.encoded["query"] == ["green tea", "the train"]
    other = ikat.DenseIndex(index.path)
    pd.testing.assert_frame_equal(other.dense(num_results=3)(asked.iloc[:3]), first)
    other.dense(num_results=2)(asked.iloc[:2])
    assert len(letters.encoded["query"]) == 2
    for _ in range(2):
        index.dense(num_results=4, cache=tmp_path / "cache")(asked.iloc[:2])
    assert len(letters.encoded["query"]) == 4
    index.dense(num_results=3, query_prefix="find: ")(asked.iloc[:1])  # other queries
    assert letters.encoded["query"][-1] == "find: green tea"


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_minilm_gives_the_product_of_its_own_vectors(tmp_path, similarity):
    model = load_bi_encoder(BUNDLED)
    index = ikat.DenseIndex(tmp_path / "i").index(CORPUS, BUNDLED, similarity=similarity)
    held = model.encode(
        [text for text in TEXTS.values() if text.strip()], normalize_embeddings=True
    )
    expected = model.encode(["hot drinks"], normalize_embeddings=True) @ held.T
    found = index.dense()(topics("hot drinks")).set_index("docno")["score"]
    np.testing.assert_allclose(
        found[[docno for docno in TEXTS if TEXTS[docno].strip()]], expected[0], atol=1e-6
    )


@pytest.mark.parametrize("rows", [2, 255, 256, 257, 513])
def test_a_flexindex_looks_its_docnos_up(tmp_path, rows):
    npids = pytest.importorskip("npids")
    docnos = [f"d{number:04}" for number in range(rows)]
    (tmp_path / dense_module.DOCNOS).write_text("".join(f"{docno}\n" for docno in docnos))
    dense_module._finish_flex(tmp_path, rows, 8)
    assert json.loads((tmp_path / "pt_meta.json").read_text()) == {
        "type": "dense_index",
        "format": "flex",
        "package_hint": "pyterrier-dr",
        "vec_size": 8,
        "doc_count": rows,
    }
    lookup = npids.Lookup(tmp_path / dense_module.NPIDS_FILE)
    assert [lookup.fwd[number] for number in range(rows)] == docnos
    assert lookup.inv[docnos[-1]] == rows - 1


class Lookup:
    """A lookup of docnos that can't hold some, and leaves half a file."""

    def __init__(self, path, error):
        self.path = path
        self.error = error

    def __enter__(self):
        self.path.write_text("half")
        return self

    def __exit__(self, *_):
        return False

    def add(self, docno):
        raise self.error


@pytest.mark.parametrize("error", [ZeroDivisionError, ValueError, TypeError])
def test_docnos_that_npids_cant_hold_leave_no_lookup(tmp_path, monkeypatch, error):
    npids = pytest.importorskip("npids")
    builder = SimpleNamespace(builder=lambda path, min_block: Lookup(path, error))
    monkeypatch.setattr(npids, "Lookup", builder)
    (tmp_path / dense_module.DOCNOS).write_text("a\nb\n")
    dense_module._finish_flex(tmp_path, 2, 8)
    assert sorted(os.listdir(tmp_path)) == [dense_module.DOCNOS, "pt_meta.json"]
