"""The stages of Generate then Retrieve, on frames that can be worked out by hand."""

import pyterrier as pt
import pytest
from fakes import scripted

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import StageError
from pyterrier_ikat.methods import ad, aqd, aqd_a, find, human_qr, llama10, published, qd, qr, raw

RANKINGS = {
    "q one": ["a", "b", "c"],
    "q two": ["b", "d"],
    "q three": [],
    "the answer": ["e", "a"],
    "the rewrite": ["c", "b", "a"],
    "by hand": ["d"],
    "what?": ["c"],
}
RELEVANCE = {"a": 1.0, "b": 5.0, "c": 2.0, "d": 4.0, "e": 3.0}


class Retriever(pt.Transformer):
    """Looks rankings up by query and remembers every query it saw."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def transform(self, queries):
        self.seen += queries["query"].tolist()
        rankings = [RANKINGS[query] for query in queries["query"]]
        lengths = [len(ranking) for ranking in rankings]
        found = queries.loc[queries.index.repeat(lengths)].reset_index(drop=True)
        found["docno"] = sum(rankings, [])
        found["rank"] = found.groupby("qid").cumcount()
        found["score"] = 10.0 - found["rank"]
        found["text"] = [f"text of {docno}" for docno in found["docno"]]
        return found


class Reranker(pt.Transformer):
    """Scores a passage by a table, whatever the query, and remembers the pairs it saw."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def transform(self, results):
        self.seen += list(zip(results["qid"], results["query"], results["docno"], strict=True))
        return pt.model.add_ranks(
            results.assign(score=[RELEVANCE[docno] for docno in results["docno"]])
        )


@pytest.fixture
def topics():
    frame = ikat.conversation([{"role": "user", "content": "what?"}], ["I am vegan."], number="9-1")
    return frame.assign(qresolved=["by hand"])


def ranking(results):
    assert results["qid"].unique().tolist() == ["9-1_1"]
    assert results["rank"].tolist() == list(range(len(results)))
    assert results["score"].is_monotonic_decreasing
    assert results["score"].is_unique
    return results["docno"].tolist()


def test_ad_gives_the_answer_to_retriever_and_reranker(topics):
    llm, backend = scripted("the answer")
    retriever = Retriever()
    reranker = Reranker()
    assert ranking(ad(llm, retriever, reranker)(topics).sort_values("rank")) == ["e", "a"]
    assert (len(backend.asked), retriever.seen) == (1, ["the answer"])
    assert reranker.seen == [("9-1_1", "the answer", "e"), ("9-1_1", "the answer", "a")]


def test_qd_reranks_each_query_by_itself_and_interleaves(topics):
    llm, backend = scripted("1. q one\n2. q two\n3. q three")
    retriever = Retriever()
    reranker = Reranker()
    # by RELEVANCE: q one -> b c a, q two -> b d, q three -> none; round robin: b (one), then two's
    # next d, c, a
    assert ranking(qd(llm, retriever, reranker)(topics)) == ["b", "d", "c", "a"]
    assert (len(backend.asked), retriever.seen) == (1, ["q one", "q two", "q three"])
    assert {(qid, query) for qid, query, _ in reranker.seen} == {
        ("9-1_1::0", "q one"),
        ("9-1_1::1", "q two"),
    }


def test_aqd_asks_twice_and_interleaves(topics):
    llm, backend = scripted("the answer", "1. q two\n2. q one")
    retriever = Retriever()
    reranker = Reranker()
    assert ranking(aqd(llm, retriever, reranker)(topics)) == ["b", "c", "d", "a"]
    assert (len(backend.asked), retriever.seen) == (2, ["q two", "q one"])


def test_aqd_a_reranks_the_union_once_against_the_answer(topics):
    llm, backend = scripted("the answer", "1. q one\n2. q two")
    retriever = Retriever()
    reranker = Reranker()
    results = aqd_a(llm, retriever, reranker)(topics)
    assert ranking(results) == ["b", "d", "c", "a"]
    assert sorted(reranker.seen) == [("9-1_1", "the answer", docno) for docno in "abcd"]
    assert (len(backend.asked), retriever.seen) == (2, ["q one", "q two"])
    assert results["qsubqueries"].tolist() == [["q one", "q two"]] * 4
    assert not {"qid_0", "qsub"} & set(results.columns)


def test_aqd_a_reaches_what_no_single_query_ranks_first(topics):
    """The whole union is re-ranked: with 1 passage per query, re-ordering could not bring d in."""
    llm, _ = scripted("the answer", "1. q one\n2. q two")
    assert set(ranking(aqd_a(llm, Retriever(), Reranker(), depth=1)(topics))) == {"a", "b"}
    llm, _ = scripted("the answer", "1. q one\n2. q two")
    assert set(ranking(aqd_a(llm, Retriever(), Reranker(), depth=2)(topics))) == {"a", "b", "d"}


def test_qr_human_qr_and_raw_have_one_query(topics):
    llm, backend = scripted("the rewrite")
    retriever = Retriever()
    reranker = Reranker()
    assert ranking(qr(llm, retriever, reranker)(topics).sort_values("rank")) == ["b", "c", "a"]
    assert ranking(human_qr(retriever)(topics)) == ["d"]
    assert ranking(raw(retriever)(topics)) == ["c"]
    assert (len(backend.asked), retriever.seen) == (1, ["the rewrite", "by hand", "what?"])


def test_llama10_orders_judged_passages_by_label_and_drops_rest(topics):
    llm, backend = scripted("the rewrite", "Score: 1", "3")
    assert ranking(llama10(llm, Retriever(), judged=2)(topics)) == ["b", "c"]
    [_, first, second] = [chat[0]["content"] for chat in backend.asked]
    assert "the rewrite" in first
    assert "the rewrite" in second
    assert "text of c" in first
    assert "text of c" not in second


def test_llama10_keeps_order_of_equal_labels_with_unjudged_last(topics):
    llm, _ = scripted("the rewrite", "cannot say", "2", "2")
    pipeline = ikat.Rewrite(llm) >> Retriever() >> ikat.LLMRerank(llm, on_error="fallback")
    assert ranking(pipeline(topics)) == ["b", "a", "c"]
    assert llm.ledger.frame()["fallbacks"].sum() == 1


THOUGHTS = [
    "<thinking>Score: 4? It lacks the price.</thinking>\n{}",
    "<reasoning>Score: 4?</reasoning>{}",
    "<thought>4</thought>{}",
    "[THINK]Relevance: 4[/THINK]{}",
    "<seed:think>4</seed:think>{}",
    "Score: 4?</think>{}",
    "<|channel|>analysis<|message|>Score: 4?<|end|><|start|>assistant<|channel|>final<|message|>{}",
    "analysisScore: 4?assistantfinal{}",
]


@pytest.mark.parametrize("thought", THOUGHTS)
def test_llama10_reads_no_label_out_of_the_reasoning(topics, thought):
    llm, _ = scripted("the rewrite", thought.replace("{}", "1"), thought.replace("{}", "3"))
    retriever = Retriever()
    assert ranking(llama10(llm, retriever, judged=2)(topics)) == ["b", "c"]
    assert ranking(
        llama10(
            scripted("the rewrite", thought.replace("{}", "3"), "Score: 1")[0], retriever, judged=2
        )(topics)
    ) == ["c", "b"]


@pytest.mark.parametrize(
    "thought", [thought for thought in THOUGHTS if not thought.startswith("Score")]
)
def test_llama10_reads_no_label_out_of_reasoning_without_an_end(topics, thought):
    llm, _ = scripted("the rewrite", thought[: thought.index("4") + 1], "2")
    with pytest.raises(StageError, match="1 OnlyReasoning"):
        llama10(llm, Retriever(), judged=2)(topics)


def test_an_unknown_table_is_named():
    with pytest.raises(
        ikat.UsageError,
        match="there is no table 'Table 1': choose one of .*generate_then_retrieve_1, ",
    ):
        published("Table 1")


def test_unknown_methods_and_missing_resources():
    with pytest.raises(ikat.UsageError, match="there is no method 'aqda': did you mean aqd"):
        find("aqda")
    with pytest.raises(
        ikat.UsageError, match="method aqd_given_llama needs second_llm: give second_llm="
    ):
        find("aqd_given_llama").build(llm=scripted()[0], retriever=Retriever())
    with pytest.raises(ikat.UsageError, match="method aqd_a needs reranker: give reranker="):
        find("aqd_a").build(llm=scripted()[0], retriever=Retriever())
