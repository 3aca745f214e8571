"""A language model as a value and as a resource: equality, what is known without a call, what
closing frees."""

import copy
import json
import warnings
from types import SimpleNamespace

import pytest
from chat_server import ask, said

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.llms import Reply, StageError, llm


def test_what_was_recorded_took_no_time(tmp_path):
    path = tmp_path / "recorded.jsonl"
    path.write_text(
        json.dumps({"qid": "1_1", "stage": "answer", "completion": "text", "model": "m"})
    )
    assert llm(f"recorded:{path}").peek(ask("a")[0]).seconds == 0.0


def test_closing_closes_the_cache_and_the_next_call_reopens_it(model, home):
    made = model()
    log = home / "llm.sqlite-wal"
    made.ask(ask("a"))
    assert log.exists()
    made.close()
    assert not log.exists()
    assert made.ask(ask("a"))[0].cached


def test_another_packages_prompt_is_cached_and_counted_like_ours(server, model):
    made = model()
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "b"}]
    for _ in range(2):
        found = made.generate(
            ["a", chat],
            max_new_tokens=9,
            stop_sequences=["."],
            num_responses=2,
            return_logprobs=False,
        )
        assert [one.text for one in found] == [
            "answer to a",
            "answer to a",
            "answer to b",
            "answer to b",
        ]
    assert server.calls == 4
    assert {(body["max_tokens"], *body["stop"]) for body in server.bodies} == {(9, ".")}
    alone = [{"role": "user", "content": "a"}]
    sent = [body["messages"] for body in server.bodies]
    assert (sent.count(alone), sent.count(chat)) == (2, 2)
    row = made.ledger.frame().iloc[0]
    assert (row["stage"], row["calls"], row["known"], made.model_id) == ("generate", 4, 4, "m")


def test_it_is_asked_as_the_reader_of_pyterrier_rag_asks(server, model):
    """The arguments of pyterrier_rag 0.3.0: ``TextGenerator.transform`` names them all, and
    ``Reader`` leaves their defaults."""
    of_reader = {
        "return_logprobs": False,
        "num_responses": 1,
        "max_new_tokens": None,
        "stop_sequences": None,
    }
    chats = [[{"role": "system", "content": ""}, {"role": "user", "content": "a"}], "b"]
    found = model("cache=none").generate(chats, **of_reader)
    assert [one.text for one in found] == ["answer to a", "answer to b"]
    for body in server.bodies:
        assert "stop" not in body
        assert "max_tokens" not in body


def test_another_packages_unanswered_prompt_is_an_error_not_text(server, model):
    server.respond = lambda body: said("half", finish="length")
    with pytest.raises(StageError, match=r"1 CutOff\): 1 \(the completion was cut off"):
        model().generate(["a"])


@pytest.mark.parametrize("options", [{"return_logprobs": True}, {"stop_sequences": ["."]}])
def test_what_a_model_cannot_do_for_another_package_is_refused(options):
    with pytest.raises(UsageError, match=next(iter(options)).removeprefix("return_")):
        llm("recorded:sample").generate(["a"], **options)
    with pytest.raises(UsageError, match=next(iter(options)).removeprefix("return_")):
        llm(SimpleNamespace(generate=list)).generate(["a"], **options)


def test_a_look_at_a_known_answer_counts_nothing(model, server):
    made = model()
    request, other = ask("a", "b")
    assert made.peek(request) is None
    made.ask([request])
    known = made.ledger.frame()
    assert made.peek(request).text == "answer to a"
    assert made.peek(other) is None
    assert (server.calls, made.ledger.frame().equals(known)) == (1, True)


def test_a_look_finds_no_answer_that_cannot_be_used(model, server):
    server.respond = lambda body: said("<ponder>Hm.</ponder>Mint.")
    made = model()
    made.ask(ask("a"))  # it is kept, until the mark is named
    assert made.peek(ask("a")[0]) is None
    assert model('reasoning="<ponder> </ponder>"').peek(ask("a")[0]).text == "Mint."


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ("timeout=5", True),
        ("temperature=1", False),
        ("on_error=fallback", False),
        ('reasoning="<ponder> </ponder>"', False),
    ],
)
def test_models_are_equal_where_their_answers_and_failures_are(options, same):
    assert (llm("openai:m") == llm(f"openai:m {options}")) is same


def test_copies_of_a_model_count_in_its_account(model):
    made = model()
    for one in (copy.copy(made), copy.deepcopy(made), copy.deepcopy([made])[0]):
        assert one.ledger is made.ledger
        assert one.budget is made.budget


def test_what_is_said_of_calls_names_where_they_are_kept(model, server):
    server.respond = lambda body: said("half", finish="length")
    with pytest.raises(StageError, match="finished calls are in the cache"):
        model().generate(["a"])
    assert llm("openai:m cache=none").kept_in == ""
    assert llm("openai:m cache=:memory:").kept_in == "process"


def test_a_model_without_options_has_the_documented_limits():
    made = llm("openai:m")
    assert (made.backend.timeout, made.backend.concurrency) == (120, 32)
    assert (made.retry.tries, made.retry.max_seconds) == (6, 600)
    assert (made.budget.limit, made.budget.price_in, made.on_error) == (None, None, "raise")
    assert (made.batches, made.structured, made.backend.batch_size) == (False, False, 1)
    # what pyterrier_rag asks of a backend
    assert (made.supports_message_input, made.supports_num_responses) == (True, True)
    assert (made.supports_logprobs, made.model_id) == (False, "m")


def test_the_lengths_of_recorded_prompts_say_nothing():
    reply = Reply("fine", prompt_tokens=300)
    for made, warned in ((llm("recorded:sample"), 0), (llm("openai:m"), 1)):
        made.note_length(ask("ab" * 2500)[0], reply)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made.lengths.warn()
        assert len(caught) == warned


def test_a_kept_answer_that_cannot_be_read_is_of_who_asks(model, server):
    server.respond = lambda body: said("<ponder>Hm.</ponder>Mint.")
    made = model()
    made.ask(ask("a"))
    request = ask("other", "a")[1]
    (failure,) = made.kept({request.key(made.backend.identity): request}).values()
    assert (failure.stage, failure.qid, failure.kept) == ("answer", "1_2", True)
    assert made.is_settled([request, ask("b")[0]]) == [True, False]
    assert llm("openai:m cache=none").is_settled([request]) == [False]
