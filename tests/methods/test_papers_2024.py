"""IRLab, InfoSense and NII 2024, pinned by hand: LLM calls, queries, depth, what the re-ranker and the response see."""

import json

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByPrompt

import pyterrier_ikat as ikat
from pyterrier_ikat.methods import METHODS, gpt4qr, gpt4qr_qd1, gtr, humanqr, mq4cs_qr, rtg, short_and_long, weighted_reranking

PTKB = {"1": "I am vegan.", "2": "I own a dog.", "3": "I live in Oslo.", "4": "I dislike heat."}
CHAT = [
    {"role": "user", "content": "Where can I walk?"},
    {"role": "assistant", "content": "In the hills. " * 20},
    {"role": "user", "content": "How far?"},
    {"role": "assistant", "content": "Ten kilometres at first."},
    {"role": "user", "content": "What do I eat?"},
]


class Search(pt.Transformer):
    """Finds four passages for every query, named after it, and one that all share; remembers queries."""

    def __init__(self):
        super().__init__()
        self.queries = []

    def transform(self, queries):
        self.queries += queries["query"].tolist()
        found = queries.loc[queries.index.repeat(5)].reset_index(drop=True)
        ranks = list(range(5)) * len(queries)
        docnos = ["shared" if rank == 4 else f"{query[:12]}-{rank}" for query, rank in zip(found["query"], ranks, strict=True)]
        texts = [f"Text of {docno}." for docno in docnos]
        return found.assign(docno=docnos, rank=ranks, score=[5.0 - rank for rank in ranks], text=texts)


class Score(pt.Transformer):
    """Scores "shared" highest, the rest by name; remembers the pairs."""

    def __init__(self):
        super().__init__()
        self.pairs = []

    def transform(self, results):
        self.pairs += list(zip(results["query"], results["docno"], strict=True))
        scores = [9.0 if docno == "shared" else -float(sum(map(ord, docno))) for docno in results["docno"]]
        return pt.model.add_ranks(results.assign(score=scores))

    def __hash__(self):
        return id(self)


@pytest.fixture
def topics():
    return ikat.conversation(CHAT, PTKB, number="9-1").assign(qresolved=["What can a vegan eat on a walk?"])


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


def stages(model):
    return [request.prompt for request in model.asked]


def shown(model, prompt):
    """The text of the only request with this prompt."""
    [request] = [request for request in model.asked if request.prompt == prompt]
    return request.messages[-1]["content"]


def docnos(results):
    assert results["rank"].tolist() == list(range(len(results)))
    assert results["score"].is_monotonic_decreasing
    return results["docno"].tolist()


def test_mq4cs_retrieves_with_five_queries_and_reranks_once_with_the_rewrite(model, topics):
    search, score = Search(), Score()
    results = mq4cs_qr(model.llm, search, score)(topics)
    assert search.queries == ["q one", "q two", "q three", "q four", "q five"]
    assert {query for query, _ in score.pairs} == {"vegan walking food"}
    assert len(score.pairs) == len(set(score.pairs)) == 21
    assert sorted(stages(model)) == ["queries", "respond", "rewrite", "statements_copies"]
    assert results["qstatements"][0] == [("1", 1.0)]
    assert docnos(results)[0] == "shared"
    assert results["used"].tolist() == [True] * 5 + [False] * 16
    assert results["qanswer"].unique().tolist() == ["Eat oats."]


def test_the_irlab_response_sees_the_whole_ptkb_and_the_top_five_passages(model, topics):
    results = mq4cs_qr(model.llm, Search(), Score())(topics)
    text = shown(model, "respond")
    assert all(statement in text for statement in PTKB.values())
    assert [docno for docno in docnos(results) if f"Text of {docno}." in text] == docnos(results)[:5]
    assert "200 words" in text


def test_mq4cs_pools_differ_in_what_they_cut(model, topics):
    sizes = {}
    for pool in ("interleave", "rrf", "union"):
        score = Score()
        mq4cs_qr(model.llm, Search(), score, depth=3, pool=pool, respond=False)(topics)
        sizes[pool] = len(score.pairs)
    assert sizes == {"interleave": 3, "rrf": 3, "union": 15}
    with pytest.raises(ikat.UsageError, match="choose one of interleave, union, rrf"):
        mq4cs_qr(model.llm, Search(), Score(), pool="first")


def test_single_query_runs_of_irlab(model, topics):
    search, score = Search(), Score()
    gpt4qr(model.llm, search, score, respond=False)(topics)
    results = gpt4qr_qd1(model.llm, search, score, respond=False)(topics)
    humanqr(model.llm, search, score, respond=False)(topics)
    assert search.queries == ["vegan walking food", "q one", "What can a vegan eat on a walk?"]
    assert {query for query, _ in score.pairs} == set(search.queries)
    assert len(docnos(results)) == 5
    assert "at most 1," in shown(model, "queries")


def test_weighted_reranking_writes_one_passage_query_and_one_per_statement(model, topics):
    search, score = Search(), Score()
    results = weighted_reranking(model.llm, search, score)(topics)
    assert len(search.queries) == 3
    assert results["qweights"][0] == [1.0, 0.9, 0.3]
    assert results["qstatements"][0] == [("1", 0.9), ("4", 0.3)]
    assert results["qrewrite"][0] == "What can a vegan eat on a long walk?"
    assert sorted(stages(model)) == sorted(
        ["summarise", "statements_scores", "clarify", *["passage_queries_article"] * 3, "respond_passages_only"]
    )
    items = [(request.item, request.messages[-1]["content"]) for request in model.asked if request.prompt == "passage_queries_article"]
    assert [item for item, _ in items] == ["", "1", "4"]
    assert all("What can a vegan eat on a long walk?" in text and "Ten kilometres" not in text for _, text in items)
    assert ("I am vegan." in items[2][1], "I dislike heat." in items[2][1]) == (False, True)
    # every candidate is scored against every passage query, by each of which it may or may not have been found
    assert len(set(score.pairs)) == len(set(search.queries)) * len(docnos(results))


def test_infosense_responds_from_the_top_three_only(model, topics):
    results = short_and_long(model.llm, Search(), Score())(topics)
    text = shown(model, "respond_passages_only")
    assert [docno for docno in docnos(results) if f"Text of {docno}." in text] == docnos(results)[:3]
    assert results["used"].sum() == 3


def test_short_and_long_has_two_queries_of_equal_weight(model, topics):
    search = Search()
    results = short_and_long(model.llm, search, [Score(), Score()])(topics)
    assert search.queries == [sentences("Eat oats", 5), sentences("Vegans walk", 10)]
    assert results["qweights"][0] == [1.0, 1.0]
    assert sorted(stages(model)) == [
        "passage_queries_long",
        "passage_queries_short",
        "respond_passages_only",
        "statements_scores",
        "summarise",
    ]


def test_run_3_thinks_first_and_chooses_a_style(model, topics):
    search = Search()
    results = short_and_long(model.llm, search, Score(), think=True)(topics)
    assert "The season would help." in shown(model, "statements_scores_suggested")
    assert search.queries[1].startswith("Today I walked 1 days.")
    assert results["qstatements"][0] == [("4", 1.0)]
    assert len(model.asked) == 6


def test_infosense_summarises_long_responses_but_the_last(model, topics):
    results = short_and_long(model.llm, Search(), Score(), respond=False)(topics)
    history = [message["content"] for message in results["qhistory"][0]]
    assert history == ["Where can I walk?", "Hills.", "How far?", "Ten kilometres at first."]
    assert topics["qhistory"][0][1]["content"].startswith("In the hills.")
    [request] = [request for request in model.asked if request.prompt == "summarise"]
    assert request.qid == "9-1_1"


def test_rtg_asks_queries_for_each_statement_and_reranks_by_the_short_rewrite(model, topics):
    search, score = Search(), Score()
    results = rtg(model.llm, search, score)(topics)
    assert stages(model) == ["rewrite_short", "statements_ids", "suggest", "queries_statement", "queries_statement", "respond_suggested"]
    items = [(request.item, request.messages[-1]["content"]) for request in model.asked if request.prompt == "queries_statement"]
    assert [item for item, _ in items] == ["1", "4"]
    assert all("What to eat?" in text for _, text in items)
    assert search.queries == ["s one", "s two"]
    assert {query for query, _ in score.pairs} == {"What to eat?"}
    assert "Name light food." in shown(model, "respond_suggested")
    assert results["qanswer"][0] == "Do eat oats!"


def test_rtg_without_a_statement_asks_for_the_rewrite_alone(model, topics):
    model.answers["statements_ids"] = "[]"
    rtg(model.llm, Search(), Score(), respond=False)(topics)
    [request] = [request for request in model.asked if request.prompt == "queries_statement"]
    assert request.item == ""
    assert not any(statement in request.messages[-1]["content"] for statement in PTKB.values())


def test_manual_rtg_starts_from_the_manual_rewrite(model, topics):
    score = Score()
    rtg(model.llm, Search(), score, manual=True, respond=False)(topics)
    assert stages(model) == ["statements_ids_human", "queries_statement_human", "queries_statement_human"]
    assert {query for query, _ in score.pairs} == {"What can a vegan eat on a walk?"}


def test_gtr_with_one_llm(model, topics):
    search, score = Search(), Score()
    results = gtr(model.llm, search, score)(topics)
    assert search.queries == ["a one", "a two"]
    assert {query for query, _ in score.pairs} == {"Nuts and oats."}
    assert sorted(stages(model)) == ["answer", "queries_given_answer", "respond", "statements_copies"]
    assert "I am vegan." in shown(model, "respond")
    assert "I own a dog." not in shown(model, "respond")
    assert len(docnos(results)) == 9


def test_gtr_unites_two_llms_and_reranks_by_the_second_ones_answer(model, topics):
    other = ByPrompt(answer="Bread.", statements_copies="I own a dog.\nI am vegan.", queries_given_answer="1. b one")
    search, score = Search(), Score()
    results = gtr(model.llm, search, score, second_llm=other.llm)(topics)
    assert search.queries == ["a one", "a two", "b one"]
    last = [pair for pair in score.pairs if pair[0] == "Bread."]
    assert len(last) == 5 + 13  # its own five first, then the union of nine and five, of which one is shared
    assert [statement for statement, _ in results["qstatements"][0]] == ["1", "2"]
    assert (len(other.asked), len(model.asked)) == (3, 4)
    assert [request.prompt for request in model.asked][-1] == "respond"


@pytest.mark.parametrize(
    ("name", "depth", "bm25"),
    [("wghtdrerank_1", 5000, {"k1": 1.2, "b": 0.75}), ("rtg", 50, {}), ("gtr", 300, {}), ("mq4cs_qr_ensemble", 1000, {})],
)
def test_depths_and_bm25_parameters(name, depth, bm25):
    assert (METHODS[name].depth, dict(METHODS[name].bm25)) == (depth, bm25)


def test_a_retriever_that_returns_too_few_is_refused(model, tmp_path):
    index = ikat.PassageIndex(tmp_path / "i").index([{"docno": "a", "text": "oats"}])
    with pytest.raises(
        ikat.UsageError, match="wghtdrerank_1 takes 5,000 passages per query, the retriever returns 1000: give it num_results=5000"
    ):
        METHODS["wghtdrerank_1"].build(llm=model.llm, retriever=index.bm25(), reranker=Score())
    with pytest.raises(ikat.UsageError, match="aqd takes one re-ranker, not 2"):
        METHODS["aqd"].build(llm=model.llm, retriever=index.bm25(), reranker=[Score(), Score()])


def test_the_catalogue_is_whole():
    table = ikat.methods.catalogue()
    assert table["name"].is_unique
    for name, published in ikat.methods.TABLES.items():
        unknown = set(published.frame().index) - set(table["name"])
        assert name.startswith(("nii_I", "cfda_on_")) or not unknown, name  # rows that are only published
        assert published.letters().shape == published.frame().shape
        assert published.frame().drop(columns="Judged@10", errors="ignore").stack().between(0, 1).all()
    assert json.dumps(table["published"].tolist())
    assert isinstance(table, pd.DataFrame)
