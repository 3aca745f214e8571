"""IRLab, InfoSense and NII 2024 by hand: LLM calls, queries, depth, re-ranking, response."""

from functools import partial

import pyterrier as pt
import pytest
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import (
    METHODS,
    gpt4qr,
    gpt4qr_qd1,
    gtr,
    humanqr,
    mq4cs_qr,
    rtg,
    short_and_long,
    weighted_reranking,
)

PTKB = {"1": "I am vegan.", "2": "I own a dog.", "3": "I live in Oslo.", "4": "I dislike heat."}
CHAT = [
    {"role": "user", "content": "Where can I walk?"},
    {"role": "assistant", "content": "In the hills. " * 20},
    {"role": "user", "content": "How far?"},
    {"role": "assistant", "content": "Ten kilometres at first."},
    {"role": "user", "content": "What do I eat?"},
]


class Search(pt.Transformer):
    """Find four passages for every query, named after it, and one that all share."""

    def __init__(self):
        super().__init__()
        self.queries = []

    def transform(self, queries):
        self.queries += queries["query"].tolist()
        found = queries.loc[queries.index.repeat(5)].reset_index(drop=True)
        ranks = list(range(5)) * len(queries)
        docnos = []
        for query in queries["query"]:
            docnos += [f"{query[:12]}-{rank}" for rank in range(4)]
            docnos.append("shared")
        texts = [f"Text of {docno}." for docno in docnos]
        return found.assign(
            docno=docnos, rank=ranks, score=[5.0 - rank for rank in ranks], text=texts
        )


class Score(pt.Transformer):
    """Scores "shared" highest, the rest by name; remembers the pairs."""

    def __init__(self):
        super().__init__()
        self.pairs = []

    def transform(self, results):
        self.pairs += list(zip(results["query"], results["docno"], strict=True))
        scores = []
        for docno in results["docno"]:
            score = 9.0 if docno == "shared" else -float(sum(map(ord, docno)))
            scores.append(score)
        return pt.model.add_ranks(results.assign(score=scores))

    def __hash__(self):
        return id(self)


@pytest.fixture
def topics():
    return ikat.conversation(CHAT, PTKB, number="9-1").assign(
        qresolved=["What can a vegan eat on a walk?"]
    )


def sentences(beginning, count):
    return " ".join(f"{beginning} {number} days." for number in range(1, count + 1))


@pytest.fixture
def model():
    """Answers by the prompt's own words, and counts by stage."""
    return ByPrompt(
        rewrite="vegan walking food",
        rewrite_short="What to eat?",
        queries="1. q one\n2. q two\n3. q three\n4. q four\n5. q five\n6. q six",
        queries_given_answer="1. a one\n2. a two",
        queries_statement='["s one", "s two"]',
        answer="Nuts and oats.",
        statements_copies="I am vegan.",
        statements_ids="[1, 4]",
        statements_scores='{"1": 0.9, "4": 0.3}',
        statements_scores_suggested='{"4": 1.0}',
        clarify="What can a vegan eat on a long walk?",
        passage_queries_article=sentences("Oats keep", 10),
        passage_queries_short=sentences("Eat oats", 5),
        passage_queries_long=sentences("Vegans walk", 10),
        passage_queries_styled="Style: blog\n" + sentences("Today I walked", 10),
        suggest="Name light food.",
        suggest_context="The season would help.",
        summarise="Hills.",
        respond="Eat oats.",
        respond_passages_only="Oats.",
        respond_suggested="Do eat oats!",
    )


def docnos(results):
    assert results["rank"].tolist() == list(range(len(results)))
    assert results["score"].is_monotonic_decreasing
    return results["docno"].tolist()


FIVE = ["q one", "q two", "q three", "q four", "q five"]
SHORT = sentences("Eat oats", 5)
LONG = sentences("Vegans walk", 10)
BY_HAND = "What can a vegan eat on a walk?"


@pytest.mark.parametrize(
    ("system", "searched", "read_by", "pairs", "used"),
    [
        (mq4cs_qr, FIVE, {"vegan walking food"}, 21, 5),
        (gpt4qr, ["vegan walking food"], {"vegan walking food"}, 5, 5),
        (gpt4qr_qd1, ["q one"], {"q one"}, 5, 5),
        (humanqr, [BY_HAND], {BY_HAND}, 5, 5),
        (short_and_long, [SHORT, LONG], {SHORT, LONG}, 18, 3),
        (rtg, ["s one", "s two"], {"What to eat?"}, 9, 5),
        (partial(rtg, manual=True), ["s one", "s two"], {BY_HAND}, 9, 5),
        (gtr, ["a one", "a two"], {"Nuts and oats."}, 9, 5),
    ],
)
def test_what_is_searched_re_ranked_and_shown_to_the_response(
    model, topics, system, searched, read_by, pairs, used
):
    search = Search()
    score = Score()
    results = system(model.llm, search, score)(topics).sort_values("rank")
    assert search.queries == searched
    assert {query for query, _ in score.pairs} == read_by
    assert len(score.pairs) == len(set(score.pairs)) == pairs
    assert docnos(results)[0] == "shared"
    assert results["used"].tolist() == [True] * used + [False] * (len(results) - used)


def test_weighted_reranking_scores_all_candidates_by_all_queries(model, topics):
    search = Search()
    score = Score()
    results = weighted_reranking(model.llm, search, score)(topics)
    assert len(search.queries) == 3
    assert results["qweights"][0] == [1.0, 0.9, 0.3]
    assert results["qstatements"][0] == [("1", 0.9), ("4", 0.3)]
    assert results["qrewrite"][0] == "What can a vegan eat on a long walk?"
    assert [
        request.item for request in model.asked if request.prompt == "passage_queries_article"
    ] == ["", "1", "4"]
    assert len(set(score.pairs)) == len(set(search.queries)) * len(docnos(results))
    history = [message["content"] for message in results["qhistory"][0]]
    assert history == [
        "Where can I walk?",
        "Hills.",
        "How far?",
        "Ten kilometres at first.",
    ]  # long responses but the last are summed up
    assert topics["qhistory"][0][1]["content"].startswith("In the hills.")


def test_mq4cs_pools_differ_in_what_they_cut(model, topics):
    sizes = {}
    for pool in ("interleave", "rrf", "union"):
        score = Score()
        mq4cs_qr(model.llm, Search(), score, depth=3, pool=pool, respond=False)(topics)
        sizes[pool] = len(score.pairs)
    assert sizes == {"interleave": 3, "rrf": 3, "union": 15}
    with pytest.raises(ikat.UsageError, match="choose one of interleave, union, rrf"):
        mq4cs_qr(model.llm, Search(), Score(), pool="first")


def test_rtg_without_a_statement_asks_for_the_rewrite_alone(model, topics):
    model.answers["statements_ids"] = "[]"
    rtg(model.llm, Search(), Score(), respond=False)(topics)
    [request] = [request for request in model.asked if request.prompt == "queries_statement"]
    assert request.item == ""
    prompt = request.messages[-1]["content"]
    assert not any(statement in prompt for statement in PTKB.values())


def test_gtr_unites_two_llms_and_reranks_by_the_seconds_answer(model, topics):
    other = ByPrompt(
        answer="Bread.",
        statements_copies="I own a dog.\nI am vegan.",
        queries_given_answer="1. b one",
    )
    search = Search()
    score = Score()
    results = gtr(model.llm, search, score, second_llm=other.llm)(topics)
    assert search.queries == ["a one", "a two", "b one"]
    last = [pair for pair in score.pairs if pair[0] == "Bread."]
    assert (
        len(last) == 5 + 13
    )  # its own five first, then the union of nine and five, of which one is shared
    assert [statement for statement, _ in results["qstatements"][0]] == ["1", "2"]
    assert (len(other.asked), len(model.asked)) == (3, 4)
    assert [request.prompt for request in model.asked][-1] == "respond"


def test_resources_that_do_not_fit_a_method_are_refused(model, tmp_path):
    bm25 = ikat.PassageIndex(tmp_path / "i").index([{"docno": "a", "text": "oats"}]).bm25()
    told = (
        "wghtdrerank_1 takes 5,000 passages per query, the retriever returns 1000: "
        "give it num_results=5000"
    )
    with pytest.raises(ikat.UsageError, match=told):
        METHODS["wghtdrerank_1"].build(llm=model.llm, retriever=bm25, reranker=Score())
    with pytest.raises(ikat.UsageError, match="aqd takes one re-ranker, not 2"):
        METHODS["aqd"].build(llm=model.llm, retriever=bm25, reranker=[Score(), Score()])
