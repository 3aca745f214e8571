"""Samples of one prompt: asked, counted, kept apart and replayed."""

import json
import warnings

import pandas as pd
import pytest
from fakes import Reply, scripted
from operators import CAFFEINE, COLD, a_turn, calls_of, labelled, ledger, two_turns

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import DataError, UsageError
from pyterrier_ikat.generate.sampled_queries import (
    SamplesWarning,
)
from pyterrier_ikat.planning import Plan

G = ikat.generate


def test_each_turn_is_asked_n_times_and_the_first_is_the_own_one():
    llm, backend = scripted("a 1", "b 1", "a 2", "b 2", "a 3", "b 3")
    turns = two_turns()
    out = ikat.Samples(ikat.Rewrite(llm), 3)(turns)
    assert len(backend.asked) == 6
    assert out["qsubqueries"].tolist() == [["a 1", "a 2", "a 3"], ["b 1", "b 2", "b 3"]]
    assert out["qsamples"].tolist() == [[["a 1"], ["a 2"], ["a 3"]], [["b 1"], ["b 2"], ["b 3"]]]
    assert out["qrewrite"].tolist() == out["query"].tolist() == ["a 1", "b 1"]
    assert out["query_0"].tolist() == turns["query"].tolist()
    assert "qsamples" not in turns.columns


def test_columns_of_a_sample_stay_apart_and_are_joined_to_search():
    llm, _ = scripted(labelled("r1", "a1"), labelled("r2", "a2"))
    out = ikat.Samples(ikat.RewriteAndAnswer(llm), 2, ("qrewrite", "qanswer"))(a_turn())
    assert out["qsamples"][0] == [["r1", "a1"], ["r2", "a2"]]
    assert out["qsubqueries"][0] == ["r1 a1", "r2 a2"]


def test_a_failed_sample_has_the_fallback_and_the_others_stay():
    llm, _ = scripted("a", "", "c")
    with pytest.raises(ikat.IkatError, match="stage rewrite"):
        ikat.Samples(ikat.Rewrite(llm), 3)(a_turn())
    llm, _ = scripted("a", "", "c")
    out = ikat.Samples(ikat.Rewrite(llm, on_error="fallback"), 3)(a_turn())
    assert out["qsubqueries"][0] == ["a", "And against a cold?", "c"]
    assert ledger(llm, "fallbacks") == 1


class Counted:
    """A model that numbers its answers, with an identity, so that they may be kept in a file."""

    identity = {"provider": "test", "model": "counted", "params": {"temperature": 0.7}}

    def __init__(self):
        self.asked = 0

    def generate(self, prompts):
        replies = []
        for _ in prompts:
            self.asked += 1
            replies.append(Reply(f"sample {self.asked}"))
        return replies


def test_samples_are_cached_apart_and_more_ask_only_for_new_ones(tmp_path):
    def again(n):
        model = Counted()
        out = ikat.Samples(ikat.Rewrite(ikat.llm(model, cache=str(tmp_path / "cache.sqlite"))), n)(
            a_turn()
        )
        return sorted(out["qsubqueries"][0]), model.asked

    first = again(3)
    assert first == (["sample 1", "sample 2", "sample 3"], 3)
    assert again(3) == (first[0], 0)
    assert again(5)[1] == 2


def test_the_plan_counts_each_sample_and_knows_the_cached_ones():
    llm, backend = scripted("a", "b", "c")
    turn = a_turn()
    system = ikat.Samples(ikat.Rewrite(llm), 3)
    before = ikat.plan({"x": system}, turn).total
    assert (before["calls"], before["new"], len(backend.asked)) == (3, 3, 0)
    system(turn)
    after = ikat.plan({"x": system}, turn).total
    assert (after["calls"], after["new"]) == (3, 0)


def test_recorded_samples_are_replayed_in_their_order(tmp_path):
    line = {"qid": "chat_2", "stage": "rewrite", "completion": ["a", "b"], "model": "recorded"}
    (tmp_path / "two.jsonl").write_text(json.dumps(line))
    llm = ikat.llm(f"recorded:{tmp_path / 'two.jsonl'}")
    assert ikat.Samples(ikat.Rewrite(llm), 2)(a_turn())["qsubqueries"][0] == ["a", "b"]
    with pytest.raises(ikat.DataError, match="rewrite sample 2: add lines .*list of texts"):
        ikat.Samples(ikat.Rewrite(llm), 3)(a_turn())


def test_a_model_that_does_not_draw_is_warned_of():
    class Cold(Counted):
        identity = {"provider": "test", "model": "cold", "params": {"temperature": 0}}

    with pytest.warns(
        SamplesWarning,
        match=r"the 2 samples of ikat.Rewrite\(.*may be the same: the model has temperature=0",
    ):
        ikat.Samples(ikat.Rewrite(ikat.llm(Cold())), 2)(a_turn())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda llm: ikat.Samples(ikat.RawUtterance()),
            "sample an operator that asks an LLM once per turn, such as ikat.Rewrite",
        ),
        (
            lambda llm: ikat.Samples(ikat.Respond(llm)),
            "sample an operator that asks an LLM once per turn",
        ),
        (lambda llm: ikat.Samples(ikat.Rewrite(llm), 0), "n=0: give 1 or more"),
        (lambda llm: ikat.Samples(ikat.Rewrite(llm), 2, ()), "columns=.*give a list of columns"),
        (
            lambda llm: ikat.Samples(ikat.Rewrite(llm), 1, ["qanswer"])(a_turn()),
            "writes no qanswer, but qid, query",
        ),
        (
            lambda llm: ikat.Samples(G.PassageQueries(llm, ("short", "long")))(a_turn()),
            "asks 2 times for 1 turn",
        ),
        (
            lambda llm: G.Aggregate("max"),
            "how='max' is unknown: choose one of mean, first, consistent",
        ),
    ],
)
def test_what_cannot_be_sampled_or_chosen_is_named(make, said):
    with pytest.raises(ikat.UsageError, match=said):
        make(scripted("a")[0])


def test_samples_need_one_request_per_turn():
    llm, _ = scripted()
    with pytest.raises(UsageError, match="asks 1 time for 2 turns"):
        ikat.Samples(G.SelectStatements(llm), 2).requests(two_turns())
    assert ikat.Samples(ikat.Rewrite(llm), 2, columns=["query"]).columns == ("query",)


def test_one_sample_is_asked_without_a_warning():
    llm, _ = scripted("a", "b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = ikat.Samples(ikat.Rewrite(llm), 1)(two_turns())
    assert out["qsubqueries"].tolist() == [["a"], ["b"]]


def test_samples_that_may_be_equal_are_told_by_their_number(monkeypatch):
    llm, _ = scripted(*"abcdef")
    asked = []

    def repeats(number, asked_of_stages=None):
        asked.append(number)
        return "no temperature" if number > 2 else ""

    monkeypatch.setattr(llm.backend, "repeats", repeats)
    with pytest.warns(SamplesWarning, match="the 3 samples of .* has no temperature; give it a"):
        ikat.Samples(ikat.Rewrite(llm), 3)(a_turn())
    ikat.Samples(ikat.Rewrite(llm), 2)(a_turn())
    ikat.Samples(ikat.Rewrite(llm), 1)(a_turn())
    assert asked == [3, 2]


def test_samples_of_a_recording_are_what_was_recorded(monkeypatch):
    """So none is told to be perhaps the same as another one."""
    llm, _ = scripted("a", "b", "c")
    monkeypatch.setattr(llm.backend, "replays", True)
    monkeypatch.setattr(llm.backend, "repeats", lambda number: "no temperature")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = ikat.Samples(ikat.Rewrite(llm), 3)(a_turn())
    assert out["qsubqueries"].tolist() == [["a", "b", "c"]]


def test_a_plan_of_samples_may_be_open_ended():
    llm, _ = scripted()
    turn = a_turn(qstatements=[("1", 1.0)])
    for operator, stage in ((ikat.Queries(llm), ""), (G.StatementQueries(llm), ", at least")):
        plan = Plan("mine", set())
        ikat.Samples(operator, 2).plan(turn, plan)
        [row] = plan.rows
        assert (row["stage"], row["calls"]) == (operator.stage + stage, 2)


def test_samples_of_several_turns_stay_with_their_turns():
    llm, _ = scripted("a1", "b1", "a2", "b2")
    frame = two_turns().set_axis([5, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampled = ikat.Samples(ikat.Rewrite(llm), 2, columns=["query", "qid"])(frame)
    assert sampled["qsubqueries"].tolist() == [
        ["a1 chat_2", "a2 chat_2"],
        ["b1 other_1", "b2 other_1"],
    ]
    assert sampled["qsamples"].tolist()[1] == [["b1", "other_1"], ["b2", "other_1"]]
    assert sampled["query"].tolist() == ["a1", "b1"]
    with pytest.raises(DataError, match="several rows"):
        ikat.Samples(ikat.Rewrite(llm), 2)(pd.concat([frame, frame]))
    requests = ikat.Samples(ikat.Rewrite(llm), 2).requests(frame)
    shown = [(one.qid, one.sample, one.samples) for one in requests]
    assert shown == [("chat_2", 0, 2), ("other_1", 0, 2), ("chat_2", 1, 2), ("other_1", 1, 2)]


def test_the_plan_of_several_samples_has_a_query_for_each():
    llm, backend = scripted()
    plan = Plan("mine", set())
    planned = ikat.Samples(ikat.Rewrite(llm), 3).plan(two_turns(), plan)
    assert calls_of(plan) == [("rewrite", 6, 6)]
    assert planned["qsubqueries"].tolist() == [
        [f"{COLD} 0", f"{COLD} 1", f"{COLD} 2"],
        [f"{CAFFEINE} 0", f"{CAFFEINE} 1", f"{CAFFEINE} 2"],
    ]
    assert planned["qrewrite"].tolist() == [COLD, CAFFEINE]
    assert backend.asked == []


def test_the_samples_of_each_stage_and_model_are_counted():
    from pyterrier_ikat.generate.sampled_queries import samples_asked

    one = scripted()[0]
    other = scripted()[0]
    pipeline = (
        ikat.Samples(ikat.Rewrite(one), 3)
        >> ikat.Rewrite(one)
        >> ikat.Answer(one)
        >> ikat.Samples(ikat.Answer(other), 2)
    )
    assert samples_asked(pipeline) == {
        id(one): {"rewrite": 3, "answer": 1},
        id(other): {"answer": 2},
    }
