"""Each pair once: against a dictionary in plain Python, over calls, threads, kills and whole experiments."""

import threading
from collections import Counter

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_cross_encoders import save_cross_encoder

import pyterrier_ikat as ikat
from pyterrier_ikat.rank import reranker as each_pair_once
from pyterrier_ikat.rank.reranker import scored_once
from pyterrier_ikat.store.cache import Cache, open_cache


class Spy:
    """Scores a pair by its texts and remembers the pairs."""

    def __init__(self):
        self.pairs = []

    def __call__(self, pairs):
        self.pairs += pairs
        return np.array([worth(*pair) for pair in pairs])


def worth(query, text):
    return sum(map(ord, query)) / 7 - sum(map(ord, text)) / 3


TEXT = st.text(alphabet="ab\x00\ud800", max_size=2)
CALLS = st.lists(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=12), min_size=1, max_size=4)


@given(CALLS, st.integers(1, 5))
def test_every_row_gets_its_score_and_every_pair_is_scored_once(calls, at_once):
    spy, cache = Spy(), Cache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(each_pair_once, "PAIRS_AT_ONCE", at_once)
        for rows in calls:
            scores = scored_once([query for query, _ in rows], [text for _, text in rows], b"model", cache, spy)
            assert scores.tolist() == [worth(*row) for row in rows]
    assert sorted(spy.pairs) == sorted({row for rows in calls for row in rows})


def test_another_model_is_asked_itself():
    spy, cache = Spy(), Cache()
    for model in (b"one", b"other", b"one"):
        scored_once(["q"], ["text"], model, cache, spy)
    assert len(spy.pairs) == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_given_but_not_kept(bad):
    cache = Cache()
    first = scored_once(
        ["q", "q"], ["good", "bad"], b"m", cache, lambda pairs: np.array([1.0 if text == "good" else bad for _, text in pairs])
    )
    np.testing.assert_array_equal(first, [1.0, bad])
    spy = Spy()
    scored_once(["q", "q"], ["good", "bad"], b"m", cache, spy)
    assert spy.pairs == [("q", "bad")]


def test_what_was_scored_before_a_failure_is_kept(monkeypatch):
    monkeypatch.setattr(each_pair_once, "PAIRS_AT_ONCE", 2)
    spy, cache = Spy(), Cache()

    def failing(pairs):
        if len(spy.pairs) == 4:
            raise KeyboardInterrupt
        return spy(pairs)

    queries, texts = ["a", "a", "a", "b", "b"], ["1", "2", "3", "1", "2"]
    with pytest.raises(KeyboardInterrupt):
        scored_once(queries, texts, b"m", cache, failing)
    assert scored_once(queries, texts, b"m", cache, spy).tolist() == [worth(*pair) for pair in zip(queries, texts, strict=True)]
    assert len(spy.pairs) == 5


def test_threads_that_ask_for_the_same_pairs_score_them_once():
    spy, cache, start = Spy(), Cache(), threading.Barrier(4)

    def work():
        start.wait()
        scored_once(["q"] * 50, [str(number) for number in range(50)], b"m", cache, spy)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(spy.pairs) == 50


def test_a_file_keeps_the_scores_for_another_process(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(ikat.CrossEncoder, "_score", lambda self, pairs: [seen.extend(pairs), Spy()(pairs)][1])
    frame = pd.DataFrame({"qid": "t", "query": "tea", "docno": ["a", "b"], "text": ["mint", "rooibos"]})
    ranked = ikat.CrossEncoder("m", cache=tmp_path / "scores.sqlite")(frame)
    monkeypatch.setattr("pyterrier_ikat.store.cache._opened", {})
    pd.testing.assert_frame_equal(ikat.CrossEncoder("m", cache=tmp_path / "scores.sqlite")(frame), ranked)
    assert len(seen) == 2
    with open_cache().connection() as connection:
        assert connection.execute("SELECT * FROM cache").fetchall() == []


# Twelve systems

PASSAGES = {f"d{n}": f"{first} {second}" for n, (first, second) in enumerate(
    (first, second) for first in ("tea", "coffee", "rooibos") for second in ("has caffeine", "has no caffeine", "the train runs late")
)}  # fmt: skip


class Finds(pt.Transformer):
    """Finds the passages of some numbers for every query."""

    def __init__(self, *numbers):
        super().__init__()
        self.docnos = [f"d{number}" for number in numbers]

    def transform(self, inp):
        rows = inp.merge(pd.DataFrame({"docno": self.docnos, "text": [PASSAGES[docno] for docno in self.docnos]}), how="cross")
        return rows.assign(score=1.0, rank=rows.groupby("qid").cumcount())


def test_twelve_systems_score_each_distinct_pair_exactly_once(tmp_path, monkeypatch):
    one, other = (ikat.CrossEncoder(save_cross_encoder(tmp_path / name, name)) for name in ("electra", "roberta"))
    asked, scored = [], []
    transform, score = ikat.CrossEncoder.transform, ikat.CrossEncoder._score

    def asking(self, inp):
        asked.extend((self.model, row.query, row.text) for row in inp.itertuples())
        return transform(self, inp)

    def scoring(self, pairs):
        scored.extend((self.model, *pair) for pair in pairs)
        return score(self, pairs)

    monkeypatch.setattr(ikat.CrossEncoder, "transform", asking)
    monkeypatch.setattr(ikat.CrossEncoder, "_score", scoring)
    low, high = Finds(0, 1, 2, 3, 4), Finds(3, 4, 5, 6, 7, 8)
    both = ikat.Ensemble([one.model, other])
    systems = [
        *(low >> one, high >> one, low >> other, high >> other),
        *(ikat.Union(low, high) >> one, ikat.Union(low >> one, high >> one), ikat.Union(low >> both, high) >> other),
        *(low >> both, high >> both, low >> both >> one),
        *(low >> ikat.RerankAgainst(one, "qanswer"), high >> one >> ikat.RerankAgainst(both, "qanswer")),
    ]
    topics = pd.DataFrame({"qid": ["1_1", "1_2", "2_1"], "query": ["tea no caffeine", "the train", "tea no caffeine"]})
    topics["qanswer"] = ["rooibos has no caffeine", "the train", "green tea"]
    qrels = pd.DataFrame({"qid": topics["qid"], "docno": ["d1", "d2", "d7"], "label": 1})
    pt.Experiment(systems, topics, qrels, ["ndcg_cut_3"])
    assert len(systems) == 12
    assert len(asked) > 4 * len(set(asked))
    assert Counter(scored) == dict.fromkeys(asked, 1)
