"""LLM4CS, CHIQ-AD, the best of N rewrites and the organisers' baselines of 2025, pinned by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import Reply
from pyterrier_ikat.methods import best_of_n, cfda_best_of_n, chiq_ad, llm4cs
from pyterrier_ikat.methods.cfda_2025 import personal_chiq
from pyterrier_ikat.retrieve import dense as dense_index

PTKB = {"1": "I am vegan."}
CHAT = [
    {"role": "user", "content": "Where can I walk?"},
    {"role": "assistant", "content": "In the hills."},
    {"role": "user", "content": "What do I eat?"},
]


class Draws(ByPrompt):
    """Answers a list by the sample's number."""

    def complete(self, requests):
        self.asked += requests
        replies = []
        for request in requests:
            answer = self.answers[request.prompt]
            if isinstance(answer, list):
                answer = answer[request.sample]
            replies.append(Reply(answer, self.model))
        return replies


class Search(pt.Transformer):
    """Find a passage for each word of the query, in their order; remember queries and vectors."""

    def __init__(self):
        super().__init__()
        self.queries, self.vectors = [], []

    def transform(self, inp):
        self.queries += inp["query"].tolist()
        self.vectors += inp["query_vec"].tolist() if "query_vec" in inp.columns else []
        rows = []
        for row in inp.drop(columns="query_vec", errors="ignore").to_dict("records"):
            for rank, word in enumerate(dict.fromkeys(row["query"].split())):
                found = {"docno": word, "text": word, "rank": rank, "score": -float(rank)}
                rows.append(row | found)
        return pd.DataFrame(
            rows, columns=None if rows else [*inp.columns, "docno", "text", "rank", "score"]
        )

    def __hash__(self):
        return id(self)


class Likes(pt.Transformer):
    """Scores passages by a table, 0 for the others; remembers the pairs."""

    def __init__(self, **scores):
        super().__init__()
        self.scores, self.pairs = scores, []

    def transform(self, inp):
        self.pairs += list(zip(inp["query"], inp["docno"], strict=True))
        return pt.model.add_ranks(
            inp.assign(score=[float(self.scores.get(docno, 0)) for docno in inp["docno"]])
        )

    def __hash__(self):
        return id(self)


@pytest.fixture
def turn():
    return ikat.conversation(CHAT, PTKB, number="9-1")


def both(*pairs):
    return [f"Rewrite: {rewrite}\nResponse: {answer}" for rewrite, answer in pairs]


@pytest.fixture
def model():
    return Draws(
        rewrite_and_answer=both(
            ("oats", "Eat oats"),
            ("nuts", "Eat nuts"),
            ("oats", "Take bread"),
            ("figs", "Buy figs"),
            ("oats", "Eat"),
        ),
        answer=["Rye", "Oats too", "Rye", "Spelt", "Rice"],
        topic_switch="same",
        rewrite_short="What does a vegan eat on a walk",
        expand_response="There are walks in the hills.",
        summarise_history="It was about walks.",
        rewrite_enhanced=["vegan walk food", "hill food", "vegan walk food", "food", "hills"],
        rewrite_clear="What does a vegan eat on a walk in the hills?",
        guess_answer="Walkers like nuts.",
        expand_response_personal="One walks in the hills.",
        preferences="- Eats no meat",
        rewrite_personal=["vegan walk food", "hill food", "vegan walk food", "food", "hills"],
    )


def prompts(model):
    return [request.prompt for request in model.asked]


def shown(model, prompt):
    return model.texts_of(prompt)[0]


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


def chiq_model():
    return ByPrompt(
        topic_switch="new",
        rewrite_short="What does a vegan eat on a walk?",
        expand_response="There are walks in the hills.",
        answer="Oats.",
        summarise_history="It was about walks.",
        rewrite_enhanced="vegan walk food",
    )


def test_chiq_enhances_the_history_and_then_rewrites(turn):
    model = chiq_model()
    search = Search()
    chiq_ad(model.llm, search)(turn)
    assert prompts(model) == [
        "topic_switch",
        "rewrite_short",
        "expand_response",
        "answer",
        "summarise_history",
        "rewrite_enhanced",
    ]
    assert search.queries == ["vegan walk food"]
    assert "at most 30 words" in shown(model, "answer")
    assert "system: There are walks in the hills." in shown(model, "summarise_history")
    assert "It was about walks." in shown(model, "rewrite_enhanced")


def test_chiq_without_summary_and_with_the_guess_in_the_query(turn):
    model = chiq_model()
    search = Search()
    chiq_ad(model.llm, search, summarise=False, append=True)(turn)
    assert "summarise_history" not in prompts(model)
    assert "system: There are walks in the hills." in shown(model, "rewrite_enhanced")
    assert search.queries == ["vegan walk food Oats."]


def test_chiq_asks_a_first_turn_three_times():
    model = chiq_model()
    first = ikat.conversation(CHAT[:1], PTKB)
    system = chiq_ad(model.llm, Search())
    assert ikat.plan({"x": system}, first).total["calls"] == 3
    system(first)
    assert prompts(model) == ["rewrite_short", "answer", "rewrite_enhanced"]


def test_the_best_of_n_is_chosen_by_its_passages_and_searched(model, turn):
    search = Search()
    likes = Likes(figs=3, nuts=2)
    out = best_of_n(model.llm, search, likes, n=5)(turn)
    assert search.queries == [
        "oats",
        "nuts",
        "figs",
        "figs",
    ]  # each distinct rewrite, then the best
    assert out["qrewrite"].tolist() == ["figs"]
    assert out["docno"].tolist() == ["figs"]


def test_cfda_fuses_the_best_of_each_kind_and_reranks_by_llm4cs(model, turn):
    search = Search()
    likes = Likes(hill=9, food=1, figs=3)
    out = cfda_best_of_n(model.llm, search, likes, n=5)(turn)
    assert len(model.asked) == 5 + 5 + 5
    # of CHIQ: (0 + 0 + 1) / 3, (9 + 1) / 2, 1 and 0; of LLM4CS: figs
    assert search.queries == [
        "vegan walk food",
        "hill food",
        "food",
        "hills",
        "hill food",
        "oats",
        "nuts",
        "figs",
        "figs",
    ]
    assert out["docno"].tolist() == ["hill", "figs", "food"]
    assert {query for query, _ in likes.pairs[-3:]} == {"figs"}
    assert out["qrewrite"].unique().tolist() == ["figs"]


def test_cfda_guesses_and_expands_nothing_where_a_topic_begins(model, turn):
    model.answers["topic_switch"] = "new"
    earlier = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Welcome."}]
    out = personal_chiq(model.llm)(ikat.conversation([*earlier, *CHAT], PTKB))
    assert prompts(model) == ["topic_switch", "rewrite_clear", "preferences"]
    assert out["qhistory"].item() == CHAT[:2]
    assert out["qanswer"].item() == ""
    model.asked.clear()
    cfda_best_of_n(model.llm, Search(), Likes(), n=5)(ikat.conversation(CHAT[:1], PTKB))
    assert len(model.asked) == 2 + 5 + 5
