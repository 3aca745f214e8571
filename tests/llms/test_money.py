"""What is paid is counted, whatever is wrong with the answer: in the ledger, under a budget, in a
turn's spend and over restarts."""

import json
import threading
import time

import pandas as pd
import pytest
from chat_server import DROP, Answer, ask, piece, refused, said

import pyterrier_ikat as ikat
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.events import Observer, hearing, observed_by
from pyterrier_ikat.live.answering import answer, spent
from pyterrier_ikat.live.serving.replies import usage as served_usage
from pyterrier_ikat.llms import BudgetExceeded, Completion, FatalLLMError, Ledger, llm
from pyterrier_ikat.llms.ledger import account_table
from pyterrier_ikat.runs import RunFolder
from pyterrier_ikat.study.recorder import Account, Spending
from pyterrier_ikat.study.systems import System

MILLION = {"prompt_tokens": 1_000_000, "completion_tokens": 0}  # a dollar at price_in=1
TEA = [{"role": "user", "content": "Which tea?"}]


def paid(**changed):
    answer = said(usage=None).body
    return Answer(body={**answer, "usage": MILLION, **changed})


def with_message(**message):
    return {
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
        ]
    }


NO_COMPLETIONS = {
    "no choices": paid(choices=[]),
    "null as choices": paid(choices=None),
    "no message": paid(choices=[{"index": 0, "finish_reason": "stop"}]),
    "null as message": paid(choices=[{"index": 0, "message": None, "finish_reason": "stop"}]),
    "an error beside it": paid(error={"message": "upstream"}),
    "an error and no choices": Answer(body={"error": {"message": "upstream"}, "usage": MILLION}),
    "an object as content": paid(**with_message(content={"a": 1})),
    "a number as content": paid(**with_message(content=5)),
    "a part without text": paid(**with_message(content=[{"text": "fine"}])),
}


def row(made, *names):
    (found,) = made.ledger.frame()[list(names)].astype(object).values.tolist()
    return found


@pytest.mark.parametrize("name", NO_COMPLETIONS)
def test_a_paid_answer_without_completion_counts_for_the_budget(model, server, name):
    server.respond = lambda body: NO_COMPLETIONS[name]
    made = model("price_in=1 price_out=1 budget=2.5 concurrency=1 cache=none on_error=fallback")
    with pytest.raises(BudgetExceeded):
        made.ask(ask(*"abcdefghijkl"))
    assert server.calls == 3
    assert row(made, "calls", "retries", "unanswered", "prompt_tokens", "cost") == [
        1,
        2,
        0,
        3_000_000,
        3.0,
    ]
    assert made.budget.spent == 3.0


@pytest.mark.parametrize("finish", ["length", "content_filter", "tool_calls", "strange"])
def test_a_paid_completion_that_is_not_whole_counts(model, server, finish):
    server.respond = lambda body: said("half an", finish=finish, usage=(1_000_000, 500_000))
    made = model("price_in=1 price_out=1 cache=none")
    made.ask(ask("a"))
    assert row(made, "calls", "failures", "prompt_tokens", "completion_tokens", "cost") == [
        1,
        1,
        1_000_000,
        500_000,
        1.5,
    ]


class Follows(Observer):
    """Reads what is written."""

    def follow(self, step):
        return lambda text: None


def followed(made):
    with observed_by(Follows()):
        return ikat.Answer(made, on_error="fallback")(ikat.conversation(TEA))


TOLD = {"model": "m", "choices": [], "usage": MILLION}
STREAMS = {
    "no end after the usage": [piece("Roo"), TOLD],
    "an error after the usage": [piece("Roo"), TOLD, {"error": {"message": "upstream"}}, "[DONE]"],
    "an error with the usage": [
        piece("Roo"),
        {"error": {"message": "upstream"}, "choices": [], "usage": MILLION},
    ],
    "no choices": [TOLD, "[DONE]"],
    "zeros after the usage": [
        piece("Roo"),
        TOLD,
        {**TOLD, "usage": {"prompt_tokens": 0, "completion_tokens": 0}},
    ],
    "no JSON after the usage": [piece("Roo"), TOLD, "{", ""],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_breaks_counts_what_it_told_before(model, server, name):
    server.respond = lambda body: Answer(body=list(STREAMS[name]))
    made = model("price_in=1 price_out=1 budget=2.5 cache=none")
    with pytest.raises(BudgetExceeded):
        followed(made)
    assert server.calls == 3
    assert row(made, "calls", "retries", "unanswered", "prompt_tokens", "cost") == [
        1,
        2,
        0,
        3_000_000,
        3.0,
    ]


def test_a_stream_broken_before_its_usage_counts_an_estimate(model, server):
    server.respond = lambda body: Answer(body=[piece("Roo")])
    made = model("price_in=1000 price_out=1 budget=100 retries=1 cache=none")
    followed(made)
    characters = sum(len(message["content"]) for message in server.bodies[0]["messages"])
    assert row(made, "calls", "retries", "unanswered", "lost_tokens") == [
        0,
        1,
        1,
        2 * (characters // 4),
    ]
    assert row(made, "cost") == [pd.NA]
    assert made.budget.spent == pytest.approx(2 * (characters // 4) * 1000 / 1e6)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        "x",
        [],
        {},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -1_000_000, "completion_tokens": 0},
        {"prompt_tokens": 10**30, "completion_tokens": 0},
        {"prompt_tokens": 10**400, "completion_tokens": 0},
        {"prompt_tokens": True, "completion_tokens": 0},
        {"prompt_tokens": "9", "completion_tokens": 0},
        {"prompt_tokens": 1.5, "completion_tokens": 0},
        {"prompt_tokens": None, "completion_tokens": 0},
    ],
)
def test_an_unknown_cost_is_shown_and_stops_a_budgeted_stage(model, server, usage):
    server.respond = lambda body: paid(usage=usage)
    free = model("price_in=1 price_out=1 cache=none")
    assert isinstance(free.ask(ask("a"))[0], Completion)
    assert row(free, "calls", "cost", "prompt_tokens") == [1, pd.NA, pd.NA]
    assert "–" in str(free.ledger)
    limited = model("price_in=1 price_out=1 budget=1 concurrency=1 cache=none")
    with pytest.raises(FatalLLMError, match="a budget can't be kept"):
        limited.ask(ask(*"abcdef"))
    assert (server.calls, limited.budget.spent) == (2, 0.0)


def test_no_choices_and_no_usage_stops_a_stage_with_a_budget(model, server):
    server.respond = lambda body: Answer(body={"choices": []})
    made = model("price_in=1 price_out=1 budget=1 cache=none")
    with pytest.raises(FatalLLMError, match="a budget can't be kept"):
        made.ask(ask("a"))
    assert row(made, "calls", "cost") == [1, pd.NA]


def test_a_time_out_is_unanswered_and_counts_an_estimate(model, server):
    server.respond = lambda body: time.sleep(0.6) or said()
    made = model("price_in=1 price_out=1 budget=1 timeout=0.2 retries=2 cache=none")
    made.ask(ask("tea " * 100_000, "tea"))
    assert row(made, "calls", "unanswered", "retries", "failures", "prompt_tokens", "cost") == [
        0,
        2,
        4,
        2,
        0,
        pd.NA,
    ]
    assert row(made, "lost_tokens") == [300_000]  # 400,000 characters, three times
    assert made.budget.spent == pytest.approx(0.3)


def test_time_outs_end_a_budget(model, server):
    server.respond = lambda body: time.sleep(0.6) or said()
    made = model("price_in=1 price_out=1 budget=0.15 timeout=0.2 cache=none")
    with pytest.raises(BudgetExceeded):
        made.ask(ask("tea " * 100_000))
    assert server.calls == 2


def test_a_lost_connection_is_unanswered_and_a_refusal_is_free(model, server):
    server.script = [said(), DROP, refused(500), said(), refused(400), refused(503)]
    made = model("price_in=1 price_out=1 concurrency=1 retries=1 cache=none")
    made.ask(ask("first"))
    assert row(made, "cost", "lost_tokens") == [pytest.approx(10e-6), 0]
    made.ask(ask("a"))
    assert row(made, "calls", "unanswered", "retries", "cost") == [1, 1, 1, pd.NA]
    assert row(made, "lost_tokens") == [0]  # one character


def test_forty_answered_and_five_refused_are_told_apart(model, server):
    server.respond = lambda body: (
        refused(400, "no")
        if int(body["messages"][-1]["content"]) >= 50
        else said(usage=(1_000_000, 0))
    )
    made = model("price_in=1 price_out=1 cache=none")
    made.ask(ask(*map(str, range(10, 55))))
    assert row(made, "calls", "unanswered", "retries", "failures", "cost") == [40, 5, 0, 5, 40.0]


def test_nothing_sent_counts_nothing(model):
    made = model("price_in=1 price_out=1 budget=1 cache=none")
    made.ask(ask("half a character \ud800"))
    assert row(made, "calls", "unanswered", "retries", "failures", "cost") == [0, 0, 0, 1, 0.0]


class Output:
    """What an object with ``.generate`` returns."""

    def __init__(self, text, finish_reason="stop", prompt_tokens=1000, completion_tokens=500):
        self.text, self.finish_reason, self.model = text, finish_reason, "m"
        self.prompt_tokens, self.completion_tokens = prompt_tokens, completion_tokens


class Model:
    """Returns what a function makes of each chat."""

    model_id, identity = "m", {"a": 1}

    def __init__(self, output):
        self.output = output

    def generate(self, chats):
        return [self.output(chat[-1]["content"]) for chat in chats]


def own(output, **options):
    return llm(Model(output), cache="none", price_in=1, price_out=1, on_error="fallback", **options)


@pytest.mark.parametrize(
    "output",
    [
        Output("half", "length"),
        Output(""),
        Output(None),
        Output("<think>hm"),
        Output("no", "content_filter"),
    ],
)
def test_an_unusable_answer_of_an_object_counts(output):
    made = own(lambda said: output)
    made.ask(ask("a"))
    assert row(made, "calls", "failures", "prompt_tokens", "completion_tokens", "cost") == [
        1,
        1,
        1000,
        500,
        0.0015,
    ]


def test_answers_of_a_wrong_type_count_before_the_error():
    made = own(lambda said: Output({"a": 1}))
    with pytest.raises(UsageError, match="must return texts, or objects with .text, not dict"):
        made.ask(ask("a", "b"))
    assert row(made, "calls", "prompt_tokens", "cost") == [2, 2000, 0.003]
    assert made.budget.spent == 0.003


@pytest.mark.parametrize("number", [-1, 10**30, True, "9", 1.5, float("nan")])
def test_what_an_object_tells_is_checked_like_a_servers_usage(number):
    made = own(lambda said: Output("fine", prompt_tokens=number))
    assert made.ask(ask("a"))[0].prompt_tokens is None
    assert row(made, "calls", "cost") == [1, pd.NA]
    with pytest.raises(FatalLLMError, match="a budget can't be kept"):
        own(lambda said: Output("fine", prompt_tokens=number), budget=1).ask(ask("a"))


def test_an_object_that_raises_is_unanswered_at_an_unknown_cost():
    def fails(said):
        raise RuntimeError("no")

    made = own(fails)
    made.ask(ask("a"))
    assert row(made, "calls", "unanswered", "failures", "cost") == [0, 1, 1, pd.NA]


def cut_rewrites(said):
    return Output("cut", "length") if "ewrite" in said else Output("Rooibos.")


def test_a_turns_spend_has_its_paid_failures():
    made = own(cut_rewrites)
    turn = answer(System.of(ikat.Rewrite(made) >> ikat.Answer(made), "mine"), TEA)
    assert (turn.spend.calls, turn.spend.prompt_tokens, turn.spend.cost) == (2, 2000, 0.003)
    assert turn.spend == made.ledger.total()
    assert served_usage(turn.spend) == {
        "prompt_tokens": 2000,
        "completion_tokens": 1000,
        "total_tokens": 3000,
    }


def test_a_turns_spend_has_its_retries_and_lost_requests(model, server):
    server.script = [
        said("Rooibos?", usage=(5, 1)),
        paid(choices=[]),
        DROP,
        refused(503),
        said("Rooibos.", usage=(1_000_000, 0)),
    ]
    made = model("price_in=1 price_out=1 cache=none concurrency=1")
    made.ask(ask("first"))
    turn = answer(System.of(ikat.Answer(made), "mine"), TEA)
    assert (turn.spend.calls, turn.spend.prompt_tokens, turn.spend.cost, turn.spend.unanswered) == (
        1,
        2_000_000,
        None,
        0,
    )


def test_turns_at_the_same_time_have_their_own_spend():
    both = threading.Barrier(2)
    made = own(lambda said: both.wait(60) and None or Output("Rooibos.", prompt_tokens=len(said)))
    system = System.of(ikat.Answer(made), "mine")
    turns = {}

    def say(words):
        turns[words] = answer(system, [{"role": "user", "content": words}])

    threads = [threading.Thread(target=say, args=(words,)) for words in ("tea?", "tea and coffee?")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {turn.spend.calls for turn in turns.values()} == {1}
    assert turns["tea and coffee?"].spend.prompt_tokens - turns["tea?"].spend.prompt_tokens == len(
        " and coffee"
    )


def test_a_stage_that_ends_tells_what_it_cost(model, server):
    server.respond = lambda body: said(usage=(1_000_000, 0))
    made = model("price_in=1 price_out=1 budget=2.5 concurrency=1 cache=none")
    with pytest.raises(BudgetExceeded), hearing() as heard:
        made.ask(ask(*"abcdef"))
    assert (spent(heard).calls, spent(heard).cost) == (3, 3.0)


def written(tmp_path, name, *counts):
    """A run that was stopped."""
    place = tmp_path / f"{name}.partial"
    place.mkdir()
    account = Account(place / "costs.jsonl")
    for number, one in enumerate(counts):
        account.count("answer", "m", key=str(number), **one)
    return RunFolder(tmp_path / name)


def test_lost_requests_count_over_restarts_and_end_no_budget(tmp_path):
    answered = {
        "calls": 1,
        "prompt_tokens": 1_000_000,
        "completion_tokens": 0,
        "cached_tokens": 0,
        "cost": 1.0,
    }
    lost = {"unanswered": 1, "lost_tokens": 500_000, "cost": None, "answered": False}
    written(tmp_path, "aqd", answered, lost)
    assert Spending(tmp_path, Ledger()).total("m", 1, 1) == pytest.approx(1.5)


def test_an_unusable_answer_is_no_answer_to_a_later_start(tmp_path):
    unusable = {"calls": 1, "prompt_tokens": 9, "cost": 1.0, "answered": False}
    written(tmp_path, "aqd", unusable)
    again = Account(tmp_path / "aqd.partial" / "costs.jsonl")
    again.count("answer", "m", key="0", known=1, worth=1.0)
    assert again.frame()[["calls", "known", "cost", "worth"]].values.tolist() == [[1, 1, 1.0, 1.0]]


def test_the_account_says_that_requests_got_lost():
    ledger = Ledger()
    ledger.count("answer", "m", calls=2, unanswered=1, lost_tokens=80, cost=None)
    table = account_table(ledger.frame())
    assert "unanswered" in table.text()
    assert "nothing came back" in table.text()
    assert json.loads(ledger.frame()["lost_tokens"].to_json()) == {"0": 80}
