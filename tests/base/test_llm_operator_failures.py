"""Operators that ask a model: failures, fallbacks and refusals, and what is counted."""

import logging

import pandas as pd
import pytest
from fakes import Scripted, scripted
from shouting import NOTED, Searches, Shout, one_word

import pyterrier_ikat as ikat
from pyterrier_ikat import events
from pyterrier_ikat.completions.json_answers import TEXT, answer_in, list_of
from pyterrier_ikat.completions.kinds import Kind
from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llm_operator import LLMOperator
from pyterrier_ikat.llms import StageError, llm
from pyterrier_ikat.llms.failures import LLMFailure, NotStructured, Refused
from pyterrier_ikat.operator import (
    with_fields,
)


class Repairs(events.Observer):
    def __init__(self):
        self.told = []

    def repair(self, step, reasons):
        self.told.append(list(reasons))


def test_fallbacks_and_repairs_are_counted_told_and_logged(shout_prompts, turns, caplog):
    model, _ = scripted("unusable", "Rooibos is good.")
    asks = Shout(model, prompts=shout_prompts, on_error="fallback")
    repairs = Repairs()
    with events.observed_by(repairs), caplog.at_level(logging.INFO, "pyterrier_ikat"):
        words = asks(turns)
    assert words["qword"].tolist() == ["Which tea?", "Rooibos"]
    counts = model.ledger.frame()[["failures", "fallbacks", "dropped"]]
    assert counts.values.tolist() == [[1, 1, 2]]
    assert repairs.told == [
        ["nothing usable in the completion 'unusable'"],
        ["1_1: long", "1_2: long"],
    ]
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert "fallback for 1 request: 1_1" in warned[0]


def test_who_decides_on_errors_is_the_operator_then_its_model(shout_prompts, turns):
    lenient = llm(Scripted("unusable", "b"), on_error="fallback")
    assert not Shout(lenient, prompts=shout_prompts).fails
    assert Shout(lenient, prompts=shout_prompts, on_error="raise").fails
    strict, _ = scripted("unusable", "b", "unusable", "b")
    assert Shout(strict, prompts=shout_prompts).fails
    assert not Shout(strict, prompts=shout_prompts, on_error="fallback").fails
    with pytest.raises(StageError, match="stage shout: 1 request failed .*1_1") as caught:
        Shout(strict, prompts=shout_prompts)(turns)
    assert caught.value.kept_in == strict.kept_in
    assert [failure.kept for failure in caught.value.failures] == [True]


UNUSABLE = "[]"


@pytest.fixture
def three_turns():
    return pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "query": ["tea?", "coffee?", "milk?"]})


def test_each_fallback_is_counted_and_is_its_turns_question(three_turns):
    llm, _ = scripted(UNUSABLE, "Is coffee safe?", UNUSABLE)
    rewritten = ikat.Rewrite(llm, on_error="fallback")(three_turns)
    assert rewritten["query"].tolist() == ["tea?", "Is coffee safe?", "milk?"]
    ledger = llm.ledger.frame()
    assert ledger[["failures", "fallbacks"]].values.tolist() == [[2, 2]]


def test_without_fallbacks_the_error_names_each_failed_turn(three_turns):
    llm, _ = scripted(UNUSABLE, "Is coffee safe?", UNUSABLE)
    with pytest.raises(StageError) as caught:
        ikat.Rewrite(llm)(three_turns)
    assert [failure.qid for failure in caught.value.failures] == ["1_1", "1_3"]
    assert llm.ledger.frame()["fallbacks"].tolist() == [0]


def test_what_is_dropped_is_counted_over_all_turns():
    persona = ["I am vegan.", "I run."]
    turns = []
    for qid, question in (("1_1", "What may I eat?"), ("1_2", "And drink?")):
        turn = ikat.conversation([{"role": "user", "content": question}], persona)
        turns.append(turn.assign(qid=qid))
    llm, _ = scripted("[2, 8, 9]", "[1, 12]")
    chosen = ikat.SelectStatements(llm)(pd.concat(turns, ignore_index=True))
    [[(first, _)], [(second, _)]] = chosen["qstatements"]
    assert (first, second) == ("2", "1")
    assert llm.ledger.frame()["dropped"].tolist() == [3]


class Reasons(events.Observer):
    def __init__(self):
        self.reasons = []

    def repair(self, step, reasons):
        self.reasons.append(sorted(reasons))


def test_every_failure_has_its_fallback_and_its_reason(note_prompts):
    model, _ = scripted("unusable 1", "unusable 2")
    repairs = Reasons()
    with events.observed_by(repairs):
        out = Searches(model, prompts=note_prompts, on_error="fallback")(NOTED)
    assert out["query"].tolist() == ["tea", "walk"]
    reason = "nothing usable in the completion 'unusable {}'"
    assert repairs.reasons == [[reason.format(1), reason.format(2)]]
    counts = model.ledger.frame()[["failures", "fallbacks", "dropped"]]
    assert counts.values.tolist() == [[2, 2, 0]]


def test_a_fallback_names_the_first_turns_and_how_many_follow(caplog):
    turns = pd.DataFrame({"qid": [f"t_{number}" for number in range(332)], "query": "tea?"})
    llm, _ = scripted(*["[]"] * 332)
    with caplog.at_level(logging.WARNING, "pyterrier_ikat"):
        ikat.Queries(llm, on_error="fallback")(turns)
    assert "t_0, t_1, t_2, t_3, t_4 and 327 more" in caplog.text
    assert "t_300" not in caplog.text


def failure_of(asks, text):
    return asks._failure("1_1", text)


def test_a_refused_call_has_a_fallback_and_counts_once(shout_prompts, turns):
    refusal = "I'm sorry, but I can't help with that."
    model, _ = scripted(refusal, "Oat")

    class Strict(Shout):
        def parse(self, text):
            return None if "sorry" in text else text

    words = Strict(model, prompts=shout_prompts, on_error="fallback")(turns)
    assert words["qword"].tolist() == ["Which tea?", "Oat"]
    counts = model.ledger.frame()[["failures", "fallbacks"]]
    assert counts.values.tolist() == [[1, 1]]


def test_thoughts_are_not_read_as_a_refusal(shout_prompts):
    asks = Shout(scripted()[0], prompts=shout_prompts)
    thought = "<think>I'm sorry, but I can't help with that.</think>unusable"
    assert type(failure_of(asks, thought)) is LLMFailure
    behind = "<think>Is this allowed?</think>I'm sorry, but I can't help with that."
    assert type(failure_of(asks, behind)) is Refused


def test_an_unusable_completion_says_what_is_wrong_with_it(shout_prompts):
    asks = Shout(scripted()[0], prompts=shout_prompts)
    refused = failure_of(asks, "I'm sorry, but I can't help with that.")
    assert type(refused) is Refused
    assert (refused.stage, refused.qid) == ("shout", "1_1")
    unusable = failure_of(asks, "word " * 40)
    assert type(unusable) is LLMFailure
    assert repr("word " * 16) in unusable.reason
    assert unusable.kept
    assert not failure_of(asks, "<think>only thoughts</think>").kept


def test_free_text_of_a_structured_model_is_not_called_json(shout_prompts):
    model = llm(Scripted())
    model.structured = True
    failure = failure_of(Shout(model, prompts=shout_prompts), "unusable")
    assert type(failure) is LLMFailure
    assert failure.reason == "nothing usable in the completion 'unusable'"


@with_fields
class Words(LLMOperator):
    """Asks for words as JSON."""

    stage = "shout"
    writes = "qwords"
    kind = Kind(one_word, answer_in("words", list_of(TEXT)), lambda answer: answer["words"] or None)


def test_an_answer_of_another_form_is_not_structured(tmp_path, turns):
    (tmp_path / "shout.jinja").write_text("{{ question }}")
    model = llm(Scripted('{"words": ["a", "b"]}', "a, b", '{"words": []}'))
    model.structured = True
    asks = Words(model, prompts=str(tmp_path))
    request = asks.requests(turns)[0]
    assert request.structure == asks.kind.structure
    assert request.messages[-1]["content"].startswith("Which tea?\n\n")
    assert request.messages[-1]["content"].endswith(asks.kind.structure.instruction)
    third = turns.head(1).assign(qutterance="Ale?")
    words, prose, nothing = asks.ask([*asks.requests(turns), *asks.requests(third)])
    assert words == ["a", "b"]
    assert (type(prose), type(nothing)) == (NotStructured, NotStructured)
    assert "4 characters" in prose.reason
    assert prose.kept
    assert not asks._failure("1_1", "<think>a, b</think>").kept
    assert "of 4 characters" in asks._failure("1_1", "<think>long thoughts</think>a, b").reason
    assert type(asks._failure("1_1", "I'm sorry, but I can't help with that.")) is Refused
    assert model.ledger.frame()["failures"].tolist() == [2]
    free = Words(scripted()[0], prompts=str(tmp_path))
    assert free.requests(turns)[0].structure is None


def test_a_parser_that_stops_names_turn_and_completion(shout_prompts, turns):
    class Broken(Shout):
        def parse(self, text):
            raise RuntimeError("no such word")

    with pytest.raises(
        DataError, match="parser of Broken stops with RuntimeError: no such word; .*turn 1_1, 'Tea'"
    ) as caught:
        Broken(scripted("Tea", "x")[0], prompts=shout_prompts)(turns)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_error_of_a_stage_says_where_calls_are_kept(shout_prompts, turns, monkeypatch):
    strict, _ = scripted("unusable", "unusable")
    monkeypatch.setattr(type(strict), "kept_in", "process")
    with pytest.raises(StageError) as caught:
        Shout(strict, prompts=shout_prompts)(turns)
    assert caught.value.kept_in == "process"


# What is omitted


def test_omitted_parts_of_completions_are_all_counted(shout_prompts, turns):
    class Whole(Shout):
        kind = Kind(str.strip, whole=True)

        def list_dropped(self, frame, outcomes):
            return []

    class Collapsed(Whole):
        kind = Kind(str.strip)

    loop = "tea " + "and so on " * 300
    both = f"{loop}\n\n# Example 3\n# About the user\n1: I keep bees\n# Queries"
    model, _ = scripted(both, "Oat")
    words = Whole(model, prompts=shout_prompts)(turns)["qword"].tolist()
    assert words == [loop.strip(), "Oat"]
    assert model.ledger.frame()["dropped"].tolist() == [1]
    model, _ = scripted(both, "Oat")
    first, second = Collapsed(model, prompts=shout_prompts)(turns)["qword"]
    assert first.startswith("tea and so on")
    assert len(first) < len(loop.strip())
    assert "bees" not in first
    assert second == "Oat"
    assert model.ledger.frame()["dropped"].tolist() == [2]


def test_what_an_unusable_completion_omits_counts_too(shout_prompts, turns):
    model, _ = scripted("unusable " + "and so on " * 300, "Oat")
    Shout(model, prompts=shout_prompts, on_error="fallback")(turns)
    counts = model.ledger.frame()[["failures", "fallbacks", "dropped"]]
    assert counts.values.tolist() == [[1, 1, 2]]  # the repetition, and the long fallback
