"""LLMRerank: the best passages in the order of a model's labels."""

import pandas as pd
import pyterrier as pt
import pytest
from fakes import ByQuestion, scripted
from rank.to_rank import LABELLED, Knows, Labels, orders, ranked_passages

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import IkatError
from pyterrier_ikat.llms import LLM, StageError


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (10, [("u", "dfca"), ("t", "eb")]),
        (3, [("u", "dca"), ("t", "eb")]),
        (2, [("u", "ca"), ("t", "eb")]),
        (1, [("t", "b"), ("u", "c")]),
    ],
)
def test_the_best_passages_are_ordered_by_label_then_rank(depth, expected):
    model = Labels()
    ranked = ikat.LLMRerank(ikat.llm(model), depth)(LABELLED)
    assert list(orders(ranked).items()) == expected
    for _, rows in ranked.groupby("qid"):
        assert rows["rank"].tolist() == list(range(len(rows)))
    labels = ranked["text"].str[-1].astype(float)
    fractions = ranked["score"] - labels
    assert fractions.tolist() == pytest.approx([1 / (rank + 2) for rank in ranked["rank"]])
    assert len(model.asked) == len(ranked)
    for prompt in model.asked:
        assert ("about u" in prompt) != ("about t" in prompt)


def test_a_request_shows_a_passage_and_is_known_by_it():
    rerank = ikat.LLMRerank(ikat.llm(Labels()))
    first, second = rerank.requests(LABELLED[:2])
    assert (first.qid, first.stage, first.prompt, first.item) == ("u", "rerank", "rerank", "a")
    assert (second.qid, second.stage, second.prompt, second.item) == ("t", "rerank", "rerank", "b")
    for request, query, text in (
        (first, "about u", "a worth-2"),
        (second, "about t", "b worth-0"),
    ):
        prompt = request.messages[-1]["content"]
        assert query in prompt
        assert text in prompt


def test_the_depth_counts_passages_wherever_their_ranks_begin():
    ranked = ikat.LLMRerank(ikat.llm(Labels()), 2)(LABELLED.assign(rank=LABELLED["rank"] + 5))
    assert list(orders(ranked).values()) == ["ca", "eb"]
    assert ranked.index.tolist() == [0, 1, 2, 3]


def test_a_passage_without_label_is_below_every_label():
    found = ranked_passages(("t", "a", 0, "?"), ("t", "b", 1, "worth-0"), ("t", "c", 2, "x"))
    rerank = ikat.LLMRerank(ikat.llm(Labels()), on_error="fallback")
    ranked = rerank(found)
    assert ranked["docno"].tolist() == ["b", "a", "c"]
    assert ranked["score"].tolist() == pytest.approx([0.5, -1 + 1 / 3, -1 + 1 / 4])
    assert rerank.fallback(found) == [-1, -1, -1]
    assert rerank.typical(found) == [2, 2, 2]


@pytest.mark.parametrize("lacking", ["query", "rank", "text", "docno"])
def test_columns_that_a_label_needs_are_named(lacking):
    with pytest.raises((IkatError, ValueError), match=lacking):
        ikat.LLMRerank(ikat.llm(Labels()))(LABELLED.drop(columns=lacking))


def test_passages_of_equal_labels_keep_their_order_by_rank():
    frame = pd.DataFrame(
        {"qid": ["1_1"] * 3, "query": ["tea"] * 3, "docno": list("abc"), "rank": [2, 0, 1]}
    ).assign(text=["mint", "sage", "thyme"], score=[1.0, 3.0, 2.0])
    llm, _ = scripted("2", "2", "3")
    ranked = ikat.LLMRerank(llm)(frame)
    assert ranked["docno"].tolist() == ["c", "b", "a"]
    assert ranked["score"].tolist() == pytest.approx([3 + 1 / 2, 2 + 1 / 3, 2 + 1 / 4])


def five(order=(3, 1, 0, 4, 2)):
    """Five passages of a turn, in an order of rows that is not that of their ranks."""
    frame = pd.DataFrame({"qid": "1_1", "query": "tea", "docno": list("dbaec"), "rank": order})
    return frame.assign(text="text " + frame["docno"], score=5.0 - frame["rank"])


def labelling(**labels):
    """A model that gives these passages these labels."""
    backend = ByQuestion(**{f"text {docno}": label for docno, label in labels.items()})
    return ikat.llm(backend), backend


def test_only_the_best_passages_are_judged_and_kept():
    llm, backend = labelling(a="1", b="3", c="1")
    ranked = ikat.LLMRerank(llm, depth=3)(five())
    assert ranked["docno"].tolist() == ["b", "a", "c"]
    assert ranked["rank"].tolist() == [0, 1, 2]
    assert len(backend.asked) == 3


def test_a_passage_without_label_comes_last_or_is_an_error():
    labels = {"a": "no idea", "b": "0", "c": "2"}
    ranked = ikat.LLMRerank(labelling(**labels)[0], depth=3, on_error="fallback")(five())
    assert ranked["docno"].tolist() == ["c", "b", "a"]
    assert ranked["score"].is_monotonic_decreasing
    with pytest.raises(StageError):
        ikat.LLMRerank(labelling(**labels)[0], depth=3)(five())


@pytest.mark.parametrize(("depth", "cut", "calls"), [(10, 40, 10), (10, 4, 4), (3, 40, 3)])
def test_a_plan_has_a_call_for_each_judged_passage(depth, cut, calls):
    finds = pt.apply.generic(lambda turns: turns.assign(docno="a", score=1.0, rank=0, text="t"))
    topics = pt.get_dataset("ikat:sample").get_topics().head(2)
    rows = ikat.plan({"x": finds % cut >> ikat.LLMRerank(LLM(Knows()), depth)}, topics)
    assert rows["calls"].sum() == 2 * calls
