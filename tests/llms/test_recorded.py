"""Recorded completions: the most specific record answers, and what is missing or malformed is
named."""

import json

import pytest
from chat_server import ask

from pyterrier_ikat.errors import DataError
from pyterrier_ikat.llms import Request, llm
from pyterrier_ikat.llms.failures import Empty, OnlyReasoning


@pytest.fixture
def recorded(tmp_path):
    def write(*records):
        path = tmp_path / "recorded.jsonl"
        path.write_text(
            "\n".join(
                one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
                for one in records
            ),
            encoding="utf-8",
        )
        return f"recorded:{path}"

    return write


def record(completion="text", qid="1_1", stage="answer", model="recorded", **more):
    return {"qid": qid, "stage": stage, "completion": completion, "model": model, **more}


def texts(model, *requests):
    return [completion.text for completion in model.ask(requests)]


def test_the_most_specific_record_answers(recorded):
    model = llm(
        recorded(
            record("any"),
            record("by item", item="d1"),
            record("by prompt", prompt="p"),
            record("by both", prompt="p", item="d1"),
            record("other stage", stage="rewrite"),
        )
    )
    cases = {
        ("", ""): "any",
        ("q", "d2"): "any",
        ("q", "d1"): "by item",
        ("p", ""): "by prompt",
        ("p", "d2"): "by prompt",
        ("p", "d1"): "by both",
    }
    requests = [Request([], "answer", "1_1", prompt=prompt, item=item) for prompt, item in cases]
    assert texts(model, *requests) == list(cases.values())
    assert texts(model, Request([], "rewrite", "1_1")) == ["other stage"]


def test_a_prompt_counts_more_than_an_item(recorded):
    model = llm(recorded(record("by item", item="d1"), record("by prompt", prompt="p")))
    assert texts(model, Request([], "answer", "1_1", prompt="p", item="d1")) == ["by prompt"]


def test_a_list_holds_samples(recorded):
    model = llm(recorded(record(["first", "second"]), record("only", qid="1_2")))
    assert texts(model, Request([], "answer", "1_1", sample=1), Request([], "answer", "1_1")) == [
        "second",
        "first",
    ]
    with pytest.raises(DataError, match="1_2 answer sample 1"):
        model.ask([Request([], "answer", "1_2", sample=1)])


def test_completion_carries_its_records_model_and_costs_nothing(recorded):
    model = llm(recorded(record(model="gpt-4o")))
    (completion,) = model.ask(ask("x"))
    assert (completion.model, completion.finish_reason, completion.cached) == (
        "gpt-4o",
        "stop",
        False,
    )
    row = model.ledger.frame().iloc[0]
    assert (row["model"], row["calls"], row["known"], row["prompt_tokens"], row["cost"]) == (
        "recorded",
        0,
        1,
        0,
        0.0,
    )
    assert str(row["worth"]) == "<NA>"  # nobody knows what it would cost, as in the turn of a chat
    assert model.cache is None
    assert model.peek(ask("x")[0]).text == "text"
    assert model.peek(Request([], "answer", "9_9")) is None


def test_equal_messages_of_two_turns_are_two_completions(recorded):
    model = llm(recorded(record("one"), record("two", qid="1_2")))
    assert texts(model, *ask("same", "same")) == ["one", "two"]


def test_all_that_is_missing_is_named_at_once_with_a_line_to_add(recorded):
    spec = recorded(record())
    requests = [*ask(*"abcdefgh"), Request([], "rerank", "3_1", prompt="p", item='d"1')]
    with pytest.raises(DataError) as raised:
        llm(spec).ask(requests)
    message = str(raised.value)
    assert message.startswith(
        f"{spec.removeprefix('recorded:')} lacks 8 completions: 1_2 answer, 1_3 answer, "
    )
    assert (
        '1_6 answer and 3 more: add lines {"qid": "9-1_3", "stage": "answer", "completion": '
        in message
    )


def test_an_empty_recorded_completion_is_an_ordinary_failure(recorded):
    model = llm(recorded(record(" ")))
    assert isinstance(model.ask(ask("x"))[0], Empty)
    assert model.peek(ask("x")[0]) is None


def test_a_recorded_completion_is_read_without_its_reasoning(recorded):
    model = llm(recorded(record("<reasoning>Mint?</reasoning>Rooibos")))
    assert model.ask(ask("x"))[0].text == model.peek(ask("x")[0]).text == "Rooibos"
    model = llm(recorded(record("<reasoning>Mint?")))
    assert isinstance(model.ask(ask("x"))[0], OnlyReasoning)
    assert model.peek(ask("x")[0]) is None


@pytest.mark.parametrize(
    "line",
    [
        '{"qid": "1_1"',
        "[1]",
        '{"qid": "1_1", "stage": "answer", "completion": "x"}',
        '{"qid": "1_1", "stage": "answer", "completion": 5, "model": "m"}',
        '{"qid": "1_1", "stage": "answer", "completion": [], "model": "m"}',
    ],
)
def test_a_malformed_line_is_named(recorded, line):
    with pytest.raises(DataError, match="line 3 is not a recorded completion .*: a line reads"):
        llm(recorded(record(), "", line))


def test_conflicting_lines_are_named_and_equal_ones_are_fine(recorded):
    assert texts(llm(recorded(record("same"), record("same"))), *ask("x")) == ["same"]
    with pytest.raises(
        DataError, match="line 3 answers the same request as an earlier line, differently"
    ):
        llm(recorded(record("one", item="d1"), record("other"), record("two", item="d1")))


def test_line_separators_of_unicode_are_text(recorded):
    assert texts(llm(recorded(record("a\u2028b\x85c"))), *ask("x")) == ["a\u2028b\x85c"]


def test_a_missing_or_unreadable_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.jsonl can't be read .*No such file"):
        llm(f"recorded:{tmp_path}/none.jsonl")
    (tmp_path / "latin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="UTF-8"):
        llm(f"recorded:{tmp_path}/latin")
    with pytest.raises(DataError, match="can't be read"):
        llm(f"recorded:{tmp_path}")


def test_a_turn_outside_the_sample_needs_the_users_model_or_file():
    with pytest.raises(
        DataError, match="recorded:sample lacks 1 completion: 9_9 rewrite: .*or take another llm"
    ):
        llm("recorded:sample").ask([Request([], "rewrite", "9_9")])
