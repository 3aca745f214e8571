"""LLM4CS by hand: forms and aggregates of five samples, by words and by vectors."""

from types import SimpleNamespace

import numpy as np
import pytest
from methods.sampled import Likes, Search, prompts

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import find, llm4cs
from pyterrier_ikat.methods.definition import StandIn
from pyterrier_ikat.retrieve import dense as dense_index


def test_llm4cs_searches_once_for_five_rewrites_and_answers(model, turn):
    search = Search()
    llm4cs(model.llm, search)(turn)
    assert search.queries == ["oats Eat oats nuts Eat nuts oats Take bread figs Buy figs oats Eat"]
    assert prompts(model) == ["rewrite_and_answer"] * 5
    assert sorted(request.sample for request in model.asked) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("form", "aggregate", "query", "calls"),
    [
        ("rewrite", "mean", "oats nuts oats figs oats", 5),
        ("rewrite", "self_consistency", "oats", 5),
        ("rewrite", "maxprob", "oats", 1),
        ("rewrite_and_answer", "self_consistency", "oats Eat oats", 5),
        ("rewrite_and_answer", "maxprob", "oats Eat oats", 1),
        ("rewrite_then_answer", "mean", "Rye Oats too Rye Spelt Rice oats", 6),
        ("rewrite_then_answer", "self_consistency", "Rye oats", 6),
        ("rewrite_then_answer", "maxprob", "Rye oats", 2),
    ],
)
def test_llm4cs_forms_and_aggregates(model, turn, form, aggregate, query, calls):
    search = Search()
    system = llm4cs(model.llm, search, form=form, aggregate=aggregate)
    assert ikat.plan({"x": system}, turn).total["calls"] == calls
    system(turn)
    assert search.queries == [query]
    assert len(model.asked) == calls


@pytest.mark.parametrize("form", ["rewrite", "rewrite_and_answer", "rewrite_then_answer"])
def test_llm4cs_asks_for_a_thought_unless_told_not_to(model, turn, form):
    for think in (True, False):
        asked = len(model.asked)
        llm4cs(model.llm, Search(), form=form, think=think)(turn)
        first = str(model.asked[asked].messages[-1]["content"])
        assert ("one sentence" in first) is think


def test_llm4cs_may_fuse_the_lists_of_the_samples(model, turn):
    search = Search()
    likes = Likes()
    out = llm4cs(model.llm, search, aggregate="fusion", form="rewrite")(turn)
    assert search.queries == ["oats", "nuts", "oats", "figs", "oats"]
    assert out["docno"].tolist() == [
        "oats",
        "nuts",
        "figs",
    ]  # in three lists of five, then one each, in their order
    llm4cs(model.llm, search, likes, aggregate="fusion")(turn)
    assert search.queries[5:] == [
        "oats Eat oats",
        "nuts Eat nuts",
        "oats Take bread",
        "figs Buy figs",
        "oats Eat",
    ]
    assert {query for query, _ in likes.pairs} == {"oats"}


def letters(texts, **options):
    """An encoder: how often a text has each letter, of length 1."""
    counts = np.zeros((len(texts), 26), dtype=np.float32)
    for row, text in enumerate(texts):
        for column, letter in enumerate("abcdefghijklmnopqrstuvwxyz"):
            counts[row, column] = text.count(letter)
    return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def test_llm4cs_on_a_dense_index_ranks_by_the_mean_vector(model, turn, tmp_path, monkeypatch):
    encoder = SimpleNamespace(
        similarity_fn_name="cosine", prompts={}, encode_query=letters, encode_document=letters
    )
    monkeypatch.setattr(dense_index, "load_bi_encoder", lambda name: encoder)
    passages = {
        "d1": "oats and rye",
        "d2": "figs from the hills",
        "d3": "nuts",
        "d4": "a tram runs late",
    }
    index = ikat.DenseIndex(tmp_path / "i").index(
        [{"docno": docno, "text": text} for docno, text in passages.items()], "some/letters"
    )
    out = llm4cs(model.llm, index.dense())(turn)
    texts = [
        "oats",
        "Eat oats",
        "nuts",
        "Eat nuts",
        "oats",
        "Take bread",
        "figs",
        "Buy figs",
        "oats",
        "Eat",
    ]
    mean = letters(texts).mean(axis=0)
    cosines = dict(
        zip(passages, letters(passages.values()) @ (mean / np.linalg.norm(mean)), strict=True)
    )
    assert out["docno"].tolist() == sorted(passages, key=lambda docno: -cosines[docno])
    np.testing.assert_allclose(out["score"], sorted(cosines.values(), reverse=True), rtol=1e-5)


def test_vectors_are_averaged_by_the_retrievers_own_encoder():
    encoder = StandIn("encoder")

    class Dense(StandIn):
        def query_encoder(self):
            return encoder

    system = find("llm4cs").build(llm=StandIn("llm"), retriever=Dense("dense"))
    assert "Aggregate(encoder=encoder)" in repr(system)
    given = find("llm4cs").with_arguments({"encoder": StandIn("given")})
    system = given.build(llm=StandIn("llm"), retriever=Dense("dense"))
    assert "Aggregate(encoder=given)" in repr(system)
