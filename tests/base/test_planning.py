"""The plan's own bookkeeping: counts, names, sums, and stages of which only columns are known."""

from types import SimpleNamespace

import pandas as pd
import pyterrier as pt
import pytest
from fakes import scripted
from small_operators import Holds

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import Completion, Request
from pyterrier_ikat.lost_columns import LostColumns, LostColumnsWarning
from pyterrier_ikat.operator import (
    Operator,
)
from pyterrier_ikat.planning import REFUSED, Plan, PlanTable, estimate

TURNS = pd.DataFrame({"qid": ["1_1", "1_2"], "query": ["tea?", "milk?"]})

AMOUNTS = ("calls", "known", "shared", "new", "prompt_tokens", "completion_tokens", "cost")


class Model:
    """A model whose known completions and waiting requests are given by their text."""

    model = "m"
    backend = SimpleNamespace(identity={"model": "m", "params": {}})

    def __init__(self, known=None, waiting=(), price=(1.0, 100.0)):
        self.known = known or {}
        self.waiting = waiting
        self.budget = SimpleNamespace(price=self.price)
        self.prices = price

    def price(self, prompt, completion):
        return (
            None if self.prices is None else prompt * self.prices[0] + completion * self.prices[1]
        )

    def peek(self, request):
        text = self.known.get(request.messages[0]["content"])
        return None if text is None else Completion(text, "m", "stop", None, None, 0.0, False)

    def is_settled(self, requests):
        return [request.messages[0]["content"] in self.waiting for request in requests]


class Stage:
    """Asks for each row's query, read by the given function."""

    stage = "ask"
    open_ended = False

    def __init__(self, llm, read=lambda text: text, times=1):
        self.llm = llm
        self._read = read
        self.times = times

    def requests(self, frame):
        requests = []
        for qid, query in zip(frame["qid"], frame["query"], strict=True):
            message = {"role": "user", "content": query}
            requests += [Request([message], "ask", qid)] * self.times
        return requests

    def read(self, text):
        return self._read(text), []

    def typical(self, frame):
        return ["x" * 8] * len(frame) * self.times


def row_of(plan):
    [row] = plan.rows
    return {name: row[name] for name in AMOUNTS}


def test_a_plan_counts_requests_tokens_and_cost_of_new_ones():
    plan = Plan("mine", set())
    turns = TURNS.assign(query=["a" * 40, "b" * 24])
    assert plan.ask(Stage(Model()), turns) == ["x" * 8] * 2
    counts = {"calls": 2, "known": 0, "shared": 0, "new": 2}
    tokens = {"prompt_tokens": 16, "completion_tokens": 4, "cost": 416.0}
    assert row_of(plan) == {**counts, **tokens}
    assert {name: plan.rows[0][name] for name in ("system", "stage", "model")} == {
        **{"system": "mine", "stage": "ask", "model": "m"},
    }


def test_known_completions_are_read_and_waiting_ones_free():
    plan = Plan("mine", set())
    turns = pd.DataFrame({"qid": list("abcd"), "query": ["tea?", "milk?", "ale?", "gin?"]})
    stage = Stage(
        Model({"tea?": "Rooibos.", "gin?": "bad"}, {"milk?"}), lambda text: text[3:] or None
    )
    assert plan.ask(stage, turns) == ["ibos.", "x" * 8, "x" * 8, "x" * 8]
    counts = {"calls": 4, "known": 3, "shared": 0, "new": 1}
    assert row_of(plan) == {**counts, "prompt_tokens": 1, "completion_tokens": 2, "cost": 201.0}


def test_a_request_counts_once_for_all_systems():
    seen = set()
    model = Model()
    first = Plan("first", seen)
    second = Plan("second", seen)
    first.ask(Stage(model, times=2), TURNS)
    second.ask(Stage(model), TURNS.assign(query=["tea?", "ale?"]))
    Plan("third", seen).ask(Stage(Model()), TURNS)
    assert [row_of(plan)["shared"] for plan in (first, second)] == [2, 1]
    assert [row_of(plan)["new"] for plan in (first, second)] == [2, 1]
    assert [row_of(plan)["known"] for plan in (first, second)] == [0, 0]
    assert [row_of(plan)["prompt_tokens"] for plan in (first, second)] == [2, 1]
    other = Plan("fourth", seen)
    other.ask(Stage(Model()), TURNS)
    assert row_of(other)["new"] == 2  # another model object has a budget of its own


def test_nothing_new_costs_nothing_also_without_a_price():
    plan = Plan("mine", set())
    plan.ask(Stage(Model({"tea?": "a", "milk?": "b"}, price=None)), TURNS)
    assert row_of(plan)["cost"] == 0.0
    unpriced = Plan("mine", set())
    unpriced.ask(Stage(Model(price=None)), TURNS)
    assert row_of(unpriced)["cost"] is None
    empty = Plan("mine", set())
    assert empty.ask(Stage(Model()), TURNS.head(0)) == []
    assert row_of(empty) == dict.fromkeys(AMOUNTS, 0)


@pytest.mark.parametrize(
    ("fewer_turns", "fewer_passages", "times", "open_ended", "name"),
    [
        (False, False, 2, False, "ask"),
        (True, False, 1, False, "ask, at most"),
        (False, True, 1, False, "ask"),
        (False, True, 2, False, "ask, at most"),
        (True, True, 2, True, "ask, at least"),
    ],
)
def test_a_count_that_is_a_bound_says_so(fewer_turns, fewer_passages, times, open_ended, name):
    plan = Plan("mine", set())
    stage = Stage(Model(), times=times)
    plan.fewer_turns = fewer_turns
    plan.fewer_passages = fewer_passages
    stage.open_ended = open_ended
    plan.ask(stage, TURNS)
    assert plan.rows[0]["stage"] == name


def test_stand_ins_for_passages_repeat_each_turn():
    rows = Plan("mine", set()).passages(TURNS.set_index(pd.Index([7, 9])).reset_index(drop=True), 2)
    assert rows[["qid", "docno", "rank"]].values.tolist() == [
        *(["1_1", "0", 0], ["1_1", "1", 1], ["1_2", "0", 0], ["1_2", "1", 1]),
    ]
    assert rows.index.tolist() == [0, 1, 2, 3]
    assert rows["text"].tolist()[1] == "word " * 150 + "1"


class Finds(pt.Transformer):
    def transform(self, inp):
        assert inp.empty, "the plan ran a stage"
        return inp.assign(docno=[], score=[], rank=[])


class Reranks(Operator):
    def transform(self, inp):
        pt.validate.result_frame(inp, extra_columns=["text"])
        assert inp.empty, "the plan ran a stage"
        return inp


class Silent(pt.Transformer):
    """Can't say what it returns."""

    def transform(self, inp):
        raise KeyError("something")


class Upper(Operator):
    """Works on queries, and asks no model."""

    def transform(self, inp):
        return inp.assign(query=inp["query"].str.upper())


class Fails(Upper):
    def transform(self, inp):
        if len(inp):
            raise ValueError("not on a stand-in")
        return inp


def followed(pipeline, turns=TURNS):
    plan = Plan("mine", set())
    return plan, plan.follow(pipeline, turns)


def test_retrievers_cutoffs_and_re_rankers_keep_the_turns():
    plan, frame = followed(Finds() >> pt.RankCutoff(20) >> Reranks())
    assert frame.equals(TURNS)
    assert (plan.rows, plan.cut, plan.fewer_turns) == ([], 20, False)
    assert followed(Finds())[0].fewer_passages
    assert followed(Finds())[0].cut == 1000
    assert not followed(Finds() >> pt.RankCutoff(20))[0].fewer_passages
    assert followed(pt.RankCutoff(5) >> pt.RankCutoff(20))[0].cut == 20


def test_an_operator_or_a_stage_of_pyterrier_on_queries_is_run():
    plan, frame = followed(Upper() >> pt.apply.query(lambda row: row["query"] + "!"))
    assert frame["query"].tolist() == ["TEA?!", "MILK?!"]
    assert (plan.rows, plan.fewer_turns) == ([], False)


@pytest.mark.parametrize("stage", [Silent(), Fails()], ids=["silent", "fails"])
def test_a_stage_that_cannot_be_planned_has_unknown_counts(stage):
    plan, frame = followed(stage)
    assert list(frame["query"]) == ["tea?", "milk?"]
    [row] = plan.rows
    assert (row["system"], row["stage"], row["model"]) == ("mine", repr(stage), "unknown")
    assert all(row[name] is pd.NA for name in AMOUNTS)
    assert plan.fewer_turns


class Cuts(pt.Transformer):
    """Of another package: keeps the columns qid and query."""

    def transform(self, inp):
        return inp[["qid", "query"]]


def test_a_stage_of_another_package_may_drop_turns_and_columns():
    turns = TURNS.assign(qutterance="tea?", qhistory=[[{"role": "user", "content": "x"}]] * 2)
    plan = Plan("mine", set())
    lost = LostColumns("mine", Upper(), turns, set())
    with lost.watching():
        frame = plan.follow(Cuts(), turns)
    assert list(frame.columns) == ["qid", "query"]
    assert [row["model"] for row in plan.rows] == ["unknown"]
    assert (plan.fewer_turns, plan.fewer_passages) == (True, True)
    assert lost.dropped.keys() == {"qutterance", "qhistory"}
    assert not followed(Finds())[0].fewer_turns


def test_a_frame_of_any_index_is_planned():
    turns = TURNS.set_index(pd.Index([5, 5]))
    assert followed(Upper(), turns)[1].index.tolist() == [0, 1]


def test_a_model_in_another_stage_is_asked_for_unknown_counts():
    class Asks(Operator):
        def __init__(self, llm):
            super().__init__()
            self.llm = llm

        def transform(self, inp):
            return inp

    plan, _ = followed(Asks(scripted("x")[0]))
    assert [row["model"] for row in plan.rows] == ["unknown"]


def test_estimates_are_those_of_all_systems_and_chains():
    model, _ = scripted()
    answer = ikat.Answer(model)
    turns = TURNS.assign(qutterance=TURNS["query"])
    table = estimate([("a", answer, turns, 0), ("b", answer, turns, 0), ("c", answer, turns, 1)])
    assert table["system"].tolist() == ["a", "b", "c"]
    assert table["new"].tolist() == [2, 0, 2]
    assert table["shared"].tolist() == [0, 2, 0]


def table_of(*rows):
    names = ("system", "stage", "model", *AMOUNTS)
    return PlanTable.of_rows([dict(zip(names, row, strict=True)) for row in rows])


ASKED = ("mine", "rewrite", "m", 3, 1, 1, 1, 1200, 50, 0.25)

FREE = ("mine", "answer", "m", 1, 0, 0, 1, 4, 5, 0.5)


def test_sums_are_of_all_rows_and_unknown_with_an_unknown_part():
    total = table_of(ASKED, FREE).total
    assert total == {
        **{"calls": 4, "known": 1, "shared": 1, "new": 2},
        **{"prompt_tokens": 1204, "completion_tokens": 55, "cost": 0.75},
    }
    types = {name: str(table_of(ASKED, FREE)[name].dtype) for name in AMOUNTS}
    assert types == {**dict.fromkeys(AMOUNTS, "Int64"), "cost": "Float64"}
    unpriced = table_of(ASKED, (*FREE[:-1], None)).total
    assert (unpriced["cost"] is pd.NA, unpriced["calls"]) == (True, 4)


def words_of(table):
    return " ".join(str(table).split())


def test_a_plan_is_told_in_words():
    text = words_of(table_of(ASKED, FREE))
    assert (
        "Total: 4 calls, 2 of them new, with about 1,204 prompt and 55 completion tokens; cost "
        "0.7500 USD. Tokens and cost are estimates, at 4 characters a token." in text
    )
    assert "At least" not in text
    assert "At most" not in text
    assert "Total: 1 call, 1 of them new" in words_of(table_of(FREE))
    assert "cost unknown (give price_in and price_out)" in words_of(table_of((*FREE[:-1], None)))
    missing = words_of(table_of(("mine", "stage", "unknown", *[None] * 7)))
    assert "Total: unknown calls, unknown of them new" in missing


def test_bounds_are_explained():
    queries = ("mine", "queries, at least", *FREE[2:])
    facts = ("mine", "facts, at least", *FREE[2:])
    text = words_of(table_of(ASKED, queries, facts))
    assert "At least: in facts and queries, the model decides how many texts" in text
    assert "At most" not in text
    assert "At most: a stage" in words_of(table_of(ASKED, ("mine", "judge, at most", *FREE[2:])))


def test_refusals_stand_below_a_plan():
    table = table_of(ASKED)
    assert table.refused == []
    table.attrs[REFUSED] = ["runs/mine holds another run"]
    assert table.refused == ["runs/mine holds another run"]
    assert "The run would be refused: runs/mine holds another run" in words_of(table)
    empty = PlanTable.of_rows([])
    assert str(empty) == repr(empty) == "No LLM is asked."
    empty.attrs[REFUSED] = ["a", "b"]
    assert str(empty).split("\n") == [
        "No LLM is asked.",
        "The run would be refused: a",
        "The run would be refused: b",
    ]


def test_a_printed_plan_has_titles_and_whole_numbers():
    shown = table_of(ASKED).shown()
    cells = {}
    for column in shown.columns:
        [cell] = column.cells
        cells[column.title] = cell.text
    assert cells["calls"] == "3"
    assert shown.label == "plan"
    assert {"1200", "0.2500"} <= set(cells.values())
    assert "prompt_tokens" not in cells


def test_a_dropped_conversation_is_told_once_in_a_plan():
    turns = TURNS.assign(
        qutterance=["tea?", "it?"], qhistory=[[], [{"role": "user", "content": "x"}]]
    )
    model, _ = scripted()
    answers = Cuts() >> ikat.Answer(model)
    systems = [("a", answers, turns, 0), ("b", answers, turns, 0)]
    with pytest.warns(LostColumnsWarning, match="system a: the stage") as told:
        estimate(systems)
    assert len(told) == 1


class Numbers(Operator):
    """Needs a frame that is numbered from 0 in its plan."""

    def plan(self, frame, plan):
        assert frame.index.tolist() == list(range(len(frame)))
        return frame.iloc[::-1]

    def transform(self, inp):
        return inp


def test_each_stage_is_planned_on_a_numbered_frame():
    _, frame = followed(Numbers() >> Numbers(), TURNS.set_index(pd.Index([5, 5])))
    assert frame["qid"].tolist() == ["1_1", "1_2"]


class Forgets(pt.Transformer):
    """Of another package: says that it keeps one column."""

    def transform_outputs(self, input_columns):
        return ["qutterance"]

    def transform(self, inp):
        return inp


def test_a_plan_keeps_ids_and_queries_whatever_a_stage_says():
    _, frame = followed(Forgets(), TURNS.assign(qutterance="x", qmore="y"))
    assert list(frame.columns) == ["qid", "query", "qutterance"]


class Wants(Operator):
    """Needs a column that the turns lack, with passages or without."""

    def transform(self, inp):
        pt.validate.columns(inp, includes=["qmissing"])
        return inp


def test_a_stage_without_turns_or_passages_is_unknown():
    plan, frame = followed(Wants())
    assert [row["model"] for row in plan.rows] == ["unknown"]
    assert frame.equals(TURNS)


class Inside(Operator):
    """Runs a pipeline inside, and finds nothing."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def transform(self, inp):
        return inp


def test_requests_of_inner_pipelines_count():
    model, _ = scripted()
    turns = TURNS.assign(qutterance=TURNS["query"])
    plan, _ = followed((ikat.Rewrite(model) >> Finds()) | Finds(), turns)
    assert [(row["stage"], row["calls"]) for row in plan.rows] == [("rewrite", 2)]
    second, _ = followed(Finds() | (ikat.Rewrite(model) >> Finds()), turns)
    assert [(row["stage"], row["calls"]) for row in second.rows] == [("rewrite", 2)]
    inside, _ = followed(Inside(ikat.Rewrite(model)), turns)
    assert [row["stage"] for row in inside.rows] == ["rewrite", repr(Inside(ikat.Rewrite(model)))]
    assert [row["model"] for row in inside.rows][1] == "unknown"


def test_a_bound_of_one_row_is_told_among_others():
    text = words_of(table_of(ASKED, ("mine", "judge, at most", *FREE[2:])))
    assert "At most: a stage of another package" in text
    assert "At least" not in text
    once = words_of(table_of(*[("mine", "queries, at least", *FREE[2:])] * 2))
    assert "At least: in queries, the model decides" in once


def test_a_plan_that_costs_nothing_says_so():
    free = table_of((*FREE[:-1], 0.0))
    assert "cost 0.0000 USD" in words_of(free)
    assert free.total["calls"] == 1
    assert type(free.total["calls"]) is int
    assert [type(free.total[name]) for name in ("new", "cost")] == [int, float]


def test_a_cached_completion_that_is_unusable_has_a_stand_in():
    plan = Plan("mine", set())
    stage = Stage(Model({"tea?": "bad", "milk?": "long answer"}), lambda text: text[3:] or None)
    assert plan.ask(stage, TURNS) == ["x" * 8, "g answer"]
    assert row_of(plan)["known"] == 2


@pytest.mark.parametrize("value", ["", [], 0, False])
def test_a_cached_completion_may_say_nothing(value):
    stage = Stage(Model({"tea?": "none", "milk?": "none"}), lambda text: value)
    assert Plan("mine", set()).ask(stage, TURNS) == [value, value]


def test_completions_of_each_length_count_by_their_mean():
    class Lengths(Stage):
        def typical(self, frame):
            return ["x" * 3, ["x"] * 3]  # 3 and 15 characters

    plan = Plan("mine", set())
    plan.ask(Lengths(Model()), TURNS)
    assert row_of(plan)["completion_tokens"] == 4  # 9 * 2 characters
    known = Plan("mine", set())
    known.ask(Lengths(Model({"tea?": "x"})), TURNS)
    assert row_of(known)["completion_tokens"] == 2


def test_a_mean_length_is_rounded_after_it_is_multiplied():
    class Lengths(Stage):
        def typical(self, frame):
            return ["xxx", "xxx", "xxx", "xx"]

    turns = pd.DataFrame({"qid": list("abcd"), "query": ["tea?", "milk?", "ale?", "gin?"]})
    plan = Plan("mine", set())
    plan.ask(Lengths(Model({"gin?": "x"})), turns)
    assert row_of(plan)["completion_tokens"] == 2  # 3 * 2.75 characters


class Passages(Operator):
    """Wants passages."""

    def transform(self, inp):
        pt.validate.result_frame(inp)
        return inp.assign(qseen="x")


class TheirModel(pt.Transformer):
    """Of another package: works on passages alone, and may ask anything."""

    def transform(self, inp):
        pt.validate.result_frame(inp)
        return inp.assign(qseen="x")


def test_a_stage_on_passages_keeps_the_turns_unless_it_may_ask():
    plan, frame = followed(Passages())
    assert (list(frame.columns), plan.rows) == (["qid", "query"], [])
    theirs, frame = followed(TheirModel())
    assert [row["model"] for row in theirs.rows] == ["unknown"]
    assert list(frame.columns) == ["qid", "query"]


def test_turns_are_not_lost_to_a_stage_of_pyterrier_on_queries():
    plan, _ = followed(pt.apply.query(lambda row: row["query"]))
    assert (plan.fewer_turns, plan.fewer_passages, plan.rows) == (False, True, [])


def test_branches_get_the_frame_before_the_first_one():
    seen = []

    class Adds(Upper):
        def plan(self, frame, plan):
            seen.append(list(frame["query"]))
            return frame.assign(query="changed")

    followed((Adds() >> Finds()) | (Adds() >> Finds()))
    assert seen == [["tea?", "milk?"]] * 2


class FindsAlone(pt.Transformer):
    """A retriever that returns nothing of the turns but their ids."""

    def transform(self, inp):
        assert inp.empty
        return pd.DataFrame(columns=["qid", "docno", "score", "rank"])


def test_a_plan_has_the_columns_that_a_retriever_leaves():
    turns = TURNS.assign(qutterance="tea", qhistory=[["x"], []])
    plan = Plan("mine", set())
    finder = FindsAlone()
    lost = LostColumns("mine", Holds(), turns, set())
    with lost.watching():
        frame = plan.follow(finder, turns)
    assert frame.to_dict("list") == TURNS.to_dict("list")
    assert lost.dropped == {"qutterance": [finder], "qhistory": [finder]}
    assert (plan.rows, plan.fewer_turns, plan.fewer_passages) == ([], False, True)


def test_a_notebook_shows_the_whole_plan():
    row = dict.fromkeys(("calls", "known", "shared", "new"), 1)
    tokens = {"prompt_tokens": 1200, "completion_tokens": 5, "cost": 0.25}
    table = PlanTable.of_rows([{"system": "a", "stage": "s", "model": "m", **row, **tokens}])
    html = table._repr_html_()
    assert html == table.shown()._repr_html_()
    assert "Total: 1 call, 1 of them new, with about 1,200 prompt" in html
