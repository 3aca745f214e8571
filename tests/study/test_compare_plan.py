"""The plan: nothing is asked, retrieved or loaded, and what it counts is what the systems do."""

import pandas as pd
import pyterrier as pt
import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat import plan
from pyterrier_ikat.conversations.frame import with_query
from pyterrier_ikat.evaluation import with_gold
from pyterrier_ikat.llms import LLM, Backend
from pyterrier_ikat.methods import METHODS, aqd_a
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.planning import AT_LEAST, AT_MOST, Plan, PlanTable

RESULT = ("docno", "score", "rank", "text")
STAGES = {
    "raw": [],
    "mq4cs_ans": ["answer", "queries"],
    "short_long_3": ["summarise", "suggest", "statements", "passage_queries", "respond"],
    "rtg": ["rewrite", "statements", "suggest", "queries", "respond"],
    "gtr": [*["statements", "answer", "queries"] * 2, "respond"],
    "cfda_auto": [
        "statements",
        "topic",
        "rewrite",
        "guess",
        "expand",
        "preferences",
        *["rewrite"] * 2,
        "condense",
        "respond",
    ],
}
"""Method -> its stages that ask.

What each method asks is counted in tests/methods/test_every_method.py.
"""


class Finds(pt.Transformer):
    """A retriever, which says its columns as real ones do and must not be given a turn."""

    def transform(self, inp):
        assert inp.empty, "the plan ran a stage"
        return pd.DataFrame(columns=list(dict.fromkeys([*inp.columns, *RESULT])))


class Scores(Operator):
    """A re-ranker that must not be given a turn."""

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["text"])
        assert inp.empty, "the plan ran a stage"
        return inp


class Mute(Backend):
    """A backend that must not be asked."""

    def __init__(self, model="mute"):
        self.model, self.identity = model, {"provider": "fake", "model": model, "params": {}}

    def complete(self, requests):
        raise AssertionError("the plan asked")


def mute(model="mute"):
    return LLM(Mute(model))


@pytest.fixture
def topics():
    return (
        pt.get_dataset("ikat:sample")
        .get_topics("manual")
        .query("qid == '1-1_3'")
        .reset_index(drop=True)
    )


def resources():
    trained = {
        "rewriter": ikat.generate.Seq2SeqRewrite("no/model"),
        "expander": ikat.generate.Seq2SeqRewrite("no/other"),
    }
    return {
        "llm": mute("one"),
        "second_llm": mute("two"),
        "retriever": Finds(),
        "dense": Finds(),
        "reranker": Scores(),
    } | trained


@pytest.mark.parametrize("name", STAGES)
def test_a_method_is_planned_without_running_anything(name, topics):
    entry = METHODS[name]
    rows = plan({name: entry.build(**resources())}, topics.assign(qfacts=topics["qptkb"]))
    assert (
        rows["stage"].str.removesuffix(AT_LEAST).str.removesuffix(AT_MOST).tolist() == STAGES[name]
    )
    assert rows["new"].tolist() == rows["calls"].tolist()
    assert rows["calls"].ge(1).all()
    assert rows["prompt_tokens"].ge(20).all()


def test_what_two_systems_ask_alike_is_new_once(topics):
    llm = mute()
    rows = plan(
        {"one": ikat.Answer(llm), "two": ikat.Answer(llm), "other": ikat.Answer(mute("another"))},
        topics,
    )
    assert rows[["calls", "known", "shared", "new"]].values.tolist() == [
        [1, 0, 0, 1],
        [1, 0, 1, 0],
        [1, 0, 0, 1],
    ]


def test_a_token_is_four_characters_of_prompts_and_completions(topics):
    answer = ikat.Answer(mute())
    request = answer.requests(topics)[0]
    prompt = sum(len(message["content"]) for message in request.messages)
    found = plan({"one": answer}, topics).iloc[0]
    assert found[["prompt_tokens", "completion_tokens"]].tolist() == [
        prompt // 4,
        len(answer.typical(topics)[0]) // 4,
    ]


class Drops(pt.Transformer):
    """A filter of another package: what it drops is not known before it runs."""

    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["score"])
        return inp[inp["score"] > 9]


def test_plan_says_at_most_behind_a_stage_it_cannot_see_through(topics):
    passages = ikat.LLMRerank(mute(), 10)
    turns = ikat.Answer(mute())
    systems = {
        "found": Finds() >> passages,
        "dropped": Finds() >> Drops() >> passages,
        "turns": Drops() >> turns,
        "seen": turns,
    }
    rows = plan(systems, topics).set_index("system")
    assert rows["stage"].to_dict() == {
        "found": "rerank, at most",
        "dropped": "rerank, at most",
        "turns": "answer, at most",
        "seen": "answer",
    }
    assert "At most: a stage of another package in front may give fewer" in " ".join(
        str(plan(systems, topics)).split()
    )
    assert "At most" not in str(plan({"seen": turns}, topics))


def prompt_of(system, topics):
    """Tokens of the prompt that judges one passage of what ``system`` finds."""
    return plan({"x": system >> ikat.LLMRerank(mute(), 1)}, topics)["prompt_tokens"].sum()


def test_stages_behind_an_expander_count_with_its_stand_in(topics):
    appended = ikat.generate.AppendQuery(ikat.generate.Seq2SeqRewrite("no/model")) >> Finds()
    more = prompt_of(appended, topics) - prompt_of(ikat.RawUtterance() >> Finds(), topics)
    assert more == pytest.approx(len(topics["query"][0]) / 4, abs=1)


def test_baselines_ranked_statements_are_the_personas_first(topics):
    first = " ".join(list(topics["qptkb"][0].values())[:3])
    more = prompt_of(METHODS["organizers_2023_auto"].build(**resources()), topics) - prompt_of(
        ikat.RawUtterance() >> Finds(), topics
    )
    assert more == pytest.approx((len(first) + 1) / 4, abs=1)


def test_asking_reranker_is_asked_once_per_passage_of_the_union(topics):
    rows = plan({"x": aqd_a(mute(), Finds(), ikat.LLMRerank(mute("judge"), 7))}, topics)
    assert rows[["stage", "calls"]].values.tolist() == [
        ["answer", 1],
        ["queries", 1],
        ["rerank", 7],
    ]


def test_a_judge_is_asked_about_every_passage_behind_the_cut(topics):
    for given in (topics, topics.drop(columns=["qresolved", "qgoldptkb", "qptkb"])):
        rows = plan({"x": ikat.Rewrite(mute()) >> Finds() % 7 >> ikat.Judge(mute("judge"))}, given)
        assert rows[["stage", "model", "calls", "new"]].values.tolist() == [
            ["rewrite", "mute", 1, 1],
            ["judge", "judge", 7, 7],
        ]
        assert rows["prompt_tokens"][1] > 7 * 150
    assert plan({"x": Finds() >> ikat.Judge(mute())}, topics)["calls"].tolist() == [1000]


def test_turns_that_are_given_twice_are_refused(topics):
    with pytest.raises(ikat.UsageError, match="the turns are given twice"):
        ikat.plan({"raw": ikat.RawUtterance()}, topics, topics=topics.head(1))


def test_a_judge_alone_is_counted_on_its_pool():
    data = pt.get_dataset("ikat:sample")
    pooled = with_gold(data.get_qrels()[["qid", "docno"]].head(9), data)
    rows = plan({"judge": ikat.Judge(mute())}, pooled)
    assert rows["calls"].tolist() == [9]
    characters = 0
    for request in ikat.Judge(mute()).requests(pooled):
        characters += len(request.messages[0]["content"])
    assert rows["prompt_tokens"].tolist() == [characters // 4]


class Pass(pt.Transformer):
    """A rewriter of another package, which may ask anybody."""

    def transform(self, inp):
        assert inp.empty, "the plan ran a stage that may cost something"
        return inp


class Reads(Pass):
    """A reader or re-ranker of another package, which may ask a model about passages."""

    def transform(self, inp):
        pt.validate.result_frame(inp)
        return super().transform(inp)


class LastWord(Operator):
    """A user's operator."""

    def transform(self, inp):
        return with_query(inp, [query.split()[-1] for query in inp["query"]])


class Asking(LastWord):
    """A user's operator that asks a model by itself and does not say what."""

    def __init__(self, llm):
        super().__init__()
        self.llm = llm


@pytest.mark.parametrize(
    "stage",
    [
        Pass(),
        Reads(),
        Asking(mute()),
        pt.apply.query(lambda row: 1 / 0),
        pt.apply.generic(lambda frame: 1 / 0),
    ],
)
def test_a_stage_that_cannot_be_planned_is_a_row_of_unknowns(stage, topics):
    rows = plan({"x": stage >> ikat.Rewrite(mute())}, topics)
    assert rows["stage"].tolist() == [repr(stage), "rewrite, at most"]
    assert rows.loc[0, ["model", "calls", "cost"]].fillna("?").tolist() == ["unknown", "?", "?"]
    assert rows["calls"].sum() == 1


def test_queries_that_a_user_writes_are_counted(topics):
    """What `pt.apply` writes is a column like any other.

    Three sub-queries, each judged once per passage.
    """
    queries = pt.apply.qsubqueries(lambda row: ["a", "b", "c"])
    rows = plan(
        {"x": queries >> ikat.ExplodeQueries() >> Finds() % 4 >> ikat.LLMRerank(mute(), 4)}, topics
    )
    assert rows["calls"].tolist() == [12]


def test_a_users_operator_is_run(topics):
    assert prompt_of(LastWord() >> Finds(), topics) < prompt_of(
        ikat.RawUtterance() >> Finds(), topics
    )


def test_the_total_with_an_unknown_amount_is_unknown():
    rows = [{"calls": 2, "new": 2, "cost": 0.5}, {"calls": 3, "new": 1, "cost": None}]
    total = PlanTable.of_rows(rows).total
    assert (total["calls"], total["new"]) == (5, 3)
    assert total["cost"] is pd.NA


@pytest.mark.parametrize(
    ("turns", "cut", "calls"),
    [(1, 3, 3), (2, 3, 6), (3, 1, 3)],
)
def test_stand_ins_are_as_many_as_turns_and_the_cut(turns, cut, calls):
    found = Plan("x", set())
    frame = pd.DataFrame({"qid": [f"1_{n}" for n in range(turns)], "query": "tea"})
    passages = found.passages(frame, cut)
    assert len(passages) == calls
    assert passages["qid"].tolist() == frame["qid"].repeat(cut).tolist()
    assert passages["rank"].tolist() == list(range(cut)) * turns
    assert passages["docno"].tolist()[:cut] == [str(number) for number in range(cut)]
    assert passages["text"].nunique() == cut


def test_a_cut_is_the_last_one_and_a_thousand_without_one():
    found = Plan("x", set())
    assert (found.cut, found.fewer_turns, found.fewer_passages) == (1000, False, False)
    found.fewer_passages = True
    found.cut_at(7)
    assert (found.cut, found.fewer_passages) == (7, False)


def test_sums_are_unknown_where_a_part_is():
    row = {"system": "a", "stage": "answer", "model": "m"}
    counts = {"calls": 2, "known": 1, "shared": 0, "new": 1}
    tokens = {"prompt_tokens": 10, "completion_tokens": 4, "cost": 0.5}
    whole = PlanTable.of_rows([row | counts | tokens, row | counts | tokens])
    assert whole.total == {
        "calls": 4,
        "known": 2,
        "shared": 0,
        "new": 2,
        "prompt_tokens": 20,
        "completion_tokens": 8,
        "cost": 1.0,
    }
    assert "Total: 4 calls, 2 of them new, with about 20 prompt and 8 completion" in str(whole)
    assert "cost 1.0000 USD" in str(whole)
    part = PlanTable.of_rows([row | counts | tokens, row | counts | tokens | {"cost": None}])
    assert part.total["cost"] is pd.NA
    assert part.total["calls"] == 4
    assert "cost unknown (give price_in and price_out)" in str(part)
    assert str(PlanTable.of_rows([])) == "No LLM is asked."
    single = PlanTable.of_rows([row | counts | tokens | {"calls": 1}])
    assert "Total: 1 call, " in str(single)
