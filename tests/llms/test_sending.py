"""One stage's calls on their way: batches, threads, tries, errors and the progress bar."""

import threading
import traceback

import pytest
from chat_server import ask, refused, said
from scripted import PRICES, Script, echo, made, row, texts

from pyterrier_ikat import progress
from pyterrier_ikat.events import AskerLeft, Observer, asked_by, has_left, observed, observed_by
from pyterrier_ikat.llms import (
    LLM,
    Backend,
    Completion,
    FatalLLMError,
    Reply,
    Request,
    Transient,
    llm,
    sending,
)
from pyterrier_ikat.llms.cache import CompletionCache
from pyterrier_ikat.llms.failures import BadRequest, UnknownMark
from pyterrier_ikat.llms.ledger import Budget
from pyterrier_ikat.llms.sending import Waiters, longest_beginnings_first


@pytest.fixture
def bars(monkeypatch):
    """The counts that were shown."""
    made = []

    def noted(**given):
        made.append(progress.bar(**given))
        return made[-1]

    monkeypatch.setattr(sending, "bar_of", noted)
    return made


def test_the_bar_counts_what_is_sent_cached_failed_and_paid(model, server, bars):
    made = model("price_in=1000 price_out=1000")
    made.ask(ask("a"))
    server.respond = lambda body: (
        refused(400) if body["messages"][0]["content"] == "bad" else said()
    )
    made.ask([*ask("a", "bad", "b"), *ask("c", stage="rewrite")])
    assert [str(one) for one in bars] == [
        "answer (m) 1/1, cost=$0.0100",
        "answer, rewrite (m) 3/3, cached=1, failed=1, cost=$0.0300",
    ]


class Own(Backend):
    """A user's own backend, whose answers ``work`` makes from the question."""

    model, identity = "own", {"provider": "own"}

    def __init__(self, work):
        self.work = work

    def complete(self, requests):
        return [self.work(request.messages[0]["content"]) for request in requests]


def test_a_completion_without_model_name_has_that_of_the_backend():
    named, unnamed = llm(Own(lambda text: Reply("fine", model=text or None))).ask(
        ask("own-2026-01-31", "")
    )
    assert (named.model, unnamed.model) == ("own-2026-01-31", "own")


def test_the_bar_counts_follow_ups_that_are_announced_or_come(model, bars):
    made = model()
    made.ask(ask("a"))
    made.ask(
        ask("a", "b"), lambda position, outcome: ask("c")[0] if "b" in outcome.text else None, 3
    )
    assert [bar.total for bar in bars] == [1, 2]  # one of the three was known
    assert str(bars[0]) == "answer (m) 1/1"  # nobody knows what it cost


def test_a_replay_shows_no_bar(monkeypatch):
    shown = []
    monkeypatch.setattr(
        sending, "bar_of", lambda **given: shown.append(given) or progress.bar(**given)
    )
    request = ask("x", stage="rewrite", prompt="rewrite")[0]
    made = llm(Own(lambda text: Reply("fine")))
    made.ask([request])
    made.backend.replays = True
    made.ask([request])
    assert [given["disable"] for given in shown] == [False, True]


def test_positions_wait_for_requests_and_keep_their_exchanges():
    waiters = Waiters()
    (first, second) = ask("a", "b")
    assert [waiters.add("k", 0, first), waiters.add("k", 1, second)] == [True, False]
    assert waiters.waiting.pop("k") == [(0, first), (1, second)]
    waiters.outcomes["k"] = "an outcome"
    assert not waiters.add("k", 2, first)
    for position, outcome in ((1, "y"), (0, "x"), (1, "z")):
        waiters.give(position, first, outcome)
    assert waiters.exchanges(2) == [(first, "x"), (first, "y"), (first, "z")]
    assert waiters.exchanges(1) == [(first, "x")]
    assert waiters.last(2) == ["x", "z"]


def sized(*turns):
    """Requests by key: turn, prompt and size."""
    requests = {}
    for turn, prompt, size in turns:
        messages = [{"content": "x"}, {"content": "x" * size}]
        requests[f"{turn} {prompt}{size}"] = Request(messages, "answer", turn, prompt=prompt)
    return requests


@pytest.mark.parametrize(
    ("turns", "order"),
    [
        ([("1_1", "", 2), ("1_2", "", 9), ("1_3", "", 1)], ["1_2 9", "1_3 1", "1_1 2"]),
        ([("1_1", "", 2), ("1_2", "", 2)], ["1_1 2", "1_2 2"]),
        ([("1_1", "p", 1), ("1_1", "q", 2), ("1_2", "p", 3)], ["1_2 p3", "1_1 q2", "1_1 p1"]),
        ([("1-1_1", "", 1), ("1-1_2", "", 2), ("1-2_1", "", 1)], ["1-1_2 2", "1-2_1 1", "1-1_1 1"]),
        ([("a_b_1", "", 1), ("a_c_1", "", 2)], ["a_b_1 1", "a_c_1 2"]),
        ([], []),
    ],
    ids=["the longest first", "a tie", "prompts", "conversations", "underscores", "none"],
)
def test_the_longest_of_each_conversation_goes_first(turns, order):
    requests = sized(*turns)
    ordered = longest_beginnings_first(requests)
    assert list(ordered) == order
    assert ordered == requests


def test_requests_go_in_batches_of_the_size_of_the_backend():
    backend = Script(batch_size=2, concurrency=1)
    model, _ = made(backend)
    assert texts(model.ask(ask(*"abcde"))) == list("abcde")
    assert backend.calls == [["a", "b"], ["c", "d"], ["e"]]
    assert (backend.opened, backend.threads) == (1, {"ikat-llm_0"})


@pytest.mark.parametrize(
    ("number", "size", "concurrency", "threads"),
    [(5, 2, 8, 3), (4, 2, 8, 2), (5, 1, 3, 3), (1, 9, 8, 1)],
)
def test_no_more_threads_are_started_than_have_work(number, size, concurrency, threads):
    before = set(threading.enumerate())
    started = set()

    def step(requests):
        started.update(set(threading.enumerate()) - before)
        return echo(requests)

    model, _ = made(Script(*[step] * number, batch_size=size, concurrency=concurrency))
    model.ask(ask(*"abcdefgh"[:number]))
    names = {thread.name for thread in started if thread.name.startswith("ikat-llm")}
    assert names == {f"ikat-llm_{thread}" for thread in range(threads)}
    assert not any(thread.is_alive() for thread in started)


def test_requests_that_are_given_up_fail_and_the_others_stay():
    backend = Script(echo, *[Transient(0.0, "busy")] * 3, concurrency=1)
    model, _ = made(backend, tries=3)
    outcomes = model.ask(ask("a", "b"))
    assert texts(outcomes) == ["a", "Unavailable"]
    assert str(outcomes[1]) == "answer of turn 1_2: busy (given up after 3 tries)"
    assert row(model, "calls", "retries", "unanswered", "failures") == [1, 2, 1, 1]


def test_a_failure_names_all_tries_also_those_that_do_not_count():
    busy = Transient(0.0, "busy")
    model, _ = made(Script(Transient(0.0, "slow", limited=True), busy, busy), tries=2)
    (outcome,) = model.ask(ask("a"))
    assert outcome.reason == "busy (given up after 3 tries)"


def test_an_error_of_a_call_holds_no_frame_of_its_thread():
    model, _ = made(Script(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError) as raised:
        model.ask(ask("a"))
    assert "complete" not in [frame.name for frame in traceback.extract_tb(raised.tb)]


def test_a_server_that_was_never_reached_ends_the_stage():
    model, _ = made(Script(Transient(11.0, "no connection", unreached=True)))
    with pytest.raises(FatalLLMError, match=r"no connection \(it has never answered, 1 try\)"):
        model.ask(ask("a"))


def test_three_requests_in_a_row_without_a_key_end_the_stage():
    gone = Transient(0.0, "401", lasting="the key is gone")
    backend = Script(gone, gone, echo, gone, gone, gone, echo, concurrency=1)
    model, _ = made(backend, tries=1)
    with pytest.raises(FatalLLMError, match="the key is gone") as raised:
        model.ask(ask(*"abcdefgh"))
    assert len(backend.calls) == 6
    assert (raised.value.done, raised.value.left) == (0, 8)  # nothing is kept without a cache
    assert model.turned_away == 3


def test_observers_are_told_which_try_of_how_many_failed():
    told = []

    class Waits(Observer):
        def wait(self, tries, most):
            told.append((tries, most))

    model, _ = made(Script(*[Transient(0.0, "busy")] * 2), tries=4)
    with observed_by(Waits()):
        model.ask(ask("a"))
    assert told == [(1, 4), (2, 4)]


def test_a_batch_keeps_its_other_answers_before_an_error():
    def half(requests):
        return [Reply("a"), Reply("b", prompt_tokens=10, completion_tokens=1)]

    cache = CompletionCache(":memory:")
    model, _ = made(Script(half, batch_size=2), cache=cache, budget=Budget(**PRICES, limit=9))
    with pytest.raises(FatalLLMError, match="does not tell how many tokens"):
        model.ask(ask("a", "b"))
    assert row(model, "calls", "prompt_tokens") == [2, None]
    first, second = ask("a", "b")
    assert model.peek(first).text == "a"
    assert model.peek(second).text == "b"


def test_a_kept_failure_is_that_of_each_request_that_has_it(tmp_path):
    odd = [lambda requests: [Reply("<ponder>hm</ponder>Mint")]]
    model, entries = made(Script(*odd), cache=CompletionCache(tmp_path / "c.sqlite"))
    outcomes = [*model.ask(ask("a", "a")), *model.ask(ask("a", stage="rewrite"))]
    assert [(type(one), one.stage, one.qid, one.kept) for one in outcomes] == [
        (UnknownMark, "answer", "1_1", True),
        (UnknownMark, "answer", "1_2", True),
        (UnknownMark, "rewrite", "1_1", True),
    ]
    assert len({one.reason for one in outcomes}) == 1
    assert [entry.increments.get("failures") for entry in entries] == [1, 1, 1]
    model.close()


def test_a_replay_answers_each_request_by_itself():
    backend = Script(replays=True, batch_size=9)
    model, entries = made(backend)
    assert texts(model.ask(ask("a", "a"))) == ["a", "a"]
    assert backend.calls == [["a", "a"]]
    assert [entry.increments["known"] for entry in entries] == [1, 1]


@pytest.mark.parametrize(
    ("keeps", "order"), [(True, ["ccc", "a", "bb"]), (False, ["bb", "a", "ccc"])]
)
def test_sending_is_ordered_where_beginnings_are_kept(keeps, order):
    backend = Script(concurrency=1, keeps_beginnings=keeps)
    made(backend)[0].ask(ask("bb", "a", "ccc"))
    assert [text for (text,) in backend.calls] == order


def test_who_asks_second_begins_at_the_end(tmp_path):
    cache = CompletionCache(tmp_path / "c.sqlite")
    backend = Script(concurrency=1)
    model, _ = made(backend, cache=cache)
    with cache.asking() as is_first:
        assert is_first
        model.ask(ask(*"abc"))
    assert backend.calls == [["c"], ["b"], ["a"]]
    model.close()


def test_what_another_asker_has_put_meanwhile_is_not_asked(tmp_path):
    cache = CompletionCache(":memory:")
    key = ask("b")[0].key(Script().identity)

    def step(requests):
        cache.put(key, Completion("theirs", "script", None, 1, 1, 0.1, False))
        return echo(requests)

    backend = Script(step, concurrency=1)
    model, _ = made(backend, cache=cache)
    assert texts(model.ask(ask("a", "b"))) == ["a", "theirs"]
    assert backend.calls == [["a"]]
    assert row(model, "calls", "known") == [1, 1]


def test_an_error_of_a_reader_is_raised_after_the_call_is_kept():
    class Fails(Observer):
        def follow(self, step):
            return fail

    def fail(text):
        raise ZeroDivisionError

    class Streams(Script):
        def stream(self, request, write):
            write("a")
            return self.complete([request])[0]

    model, _ = made(Streams(), cache=CompletionCache(":memory:"))
    with observed_by(Fails()), pytest.raises(ZeroDivisionError):
        observed(object(), None, lambda: model.ask(ask("a")))
    assert model.peek(ask("a")[0]).text == "a"


def test_several_requests_of_a_call_are_not_streamed():
    class Reads(Observer):
        def follow(self, step):
            return seen.append

    class Streams(Script):
        def stream(self, request, write):
            write(request.qid)
            return self.complete([request])[0]

    seen = []
    with observed_by(Reads()):
        model, _ = made(Streams(batch_size=2))
        assert texts(observed(object(), None, lambda: model.ask(ask("a", "b")))) == ["a", "b"]
        assert seen == []
        assert texts(observed(object(), None, lambda: model.ask(ask("c")))) == ["c"]
        assert seen == ["1_1"]


def test_no_requests_are_no_calls():
    backend = Script()
    model, entries = made(backend)
    assert model.ask([]) == []
    assert (backend.opened, entries) == (0, [])


def test_a_wrong_key_costs_one_call_while_the_others_wait():
    another = threading.Event()

    def no_key(requests):
        another.wait(0.2)
        raise FatalLLMError("no key")

    def too_early(requests):
        another.set()
        return echo(requests)

    backend = Script(no_key, too_early, too_early, patience=30.0, concurrency=3)
    model, _ = made(backend)
    with pytest.raises(FatalLLMError):
        model.ask(ask(*"abc"))
    assert len(backend.calls) == 1
    assert not model.reached


def test_threads_work_for_the_one_who_asks():
    left = threading.Event()
    seen = []

    def step(requests):
        left.set()
        seen.append((has_left(), threading.current_thread().daemon))
        return echo(requests)

    model, _ = made(Script(step))
    with asked_by(left), pytest.raises(AskerLeft):
        model.ask(ask("a"))
    assert seen == [(True, True)]


def test_the_first_error_of_a_batch_is_raised():
    class Fails(LLM):
        def settle(self, key, request, *_, **__):
            raise ValueError(request.qid)

    model = Fails(Script(batch_size=2))
    with pytest.raises(ValueError, match="1_1"):
        model.ask(ask("a", "b"))


def test_requests_that_have_an_answer_are_not_given_up():
    cache = CompletionCache(":memory:")
    key = ask("b")[0].key(Script().identity)

    def step(requests):
        cache.put(key, Completion("theirs", "script", None, 1, 1, 0.1, False))
        raise Transient(0.0, "busy")

    backend = Script(step, Transient(0.0, "busy"), batch_size=2)
    model, _ = made(backend, cache=cache, tries=2)
    assert texts(model.ask(ask("a", "b"))) == ["Unavailable", "theirs"]
    assert backend.calls == [["a", "b"], ["a"]]


def test_calls_of_a_model_that_answered_wait_for_none():
    second = threading.Event()
    seen = []

    def first_step(requests):
        seen.append(second.wait(10))
        return echo(requests)

    def second_step(requests):
        second.set()
        return echo(requests)

    model, _ = made(Script(echo, first_step, second_step, patience=30.0, concurrency=2))
    model.ask(ask("a"))
    assert model.reached
    model.ask(ask("b", "c"))
    assert seen == [True]


def test_the_answer_that_was_kept_first_is_everybodys():
    cache = CompletionCache(":memory:")
    request = ask("a")[0]
    first = Completion("<think>hm</think>theirs", "other", None, 1, 1, 0.1, False)

    def step(requests):
        cache.put(request.key(Script().identity), first)
        return echo(requests)

    model, entries = made(Script(step), cache=cache, budget=Budget(**PRICES))
    (outcome,) = model.ask([request])
    assert (outcome.text, outcome.model, outcome.cached) == ("theirs", "other", False)
    assert [entry.increments["cost"] for entry in entries] == [2.0]  # of our own call


def test_ctrl_c_says_on_stderr_what_it_waits_for(capsys):
    before = set(threading.enumerate())

    def then(position, outcome):
        raise KeyboardInterrupt

    model, _ = made(Script(concurrency=1))
    with pytest.raises(KeyboardInterrupt):
        model.ask(ask("a"), then)
    for thread in set(threading.enumerate()) - before:
        assert not thread.name.startswith("ikat-llm")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("stopping: waiting for the calls under way; press Ctrl-C again")


def test_the_bar_adds_up_failures_batches_and_follow_ups(bars):
    def refuse(requests):
        return [BadRequest(request.stage, request.qid, "no") for request in requests]

    made(Script(refuse, batch_size=2, concurrency=1))[0].ask(ask(*"abc"))
    follow_ups = {"a": ask("b")[0]}
    made(Script())[0].ask(ask("a"), lambda position, outcome: follow_ups.pop(outcome.text, None))
    assert [str(one) for one in bars] == ["answer (script) 3/3, failed=2", "answer (script) 2/2"]


def test_cut_prompts_are_told_also_by_a_stage_that_ends():
    class Notes:
        def note(self, request, read):
            told.append(read)

        def warn(self):
            told.append("warned")

    told = []
    model, _ = made(Script(echo, FatalLLMError("no key"), concurrency=1))
    model.lengths = Notes()
    with pytest.raises(FatalLLMError):
        model.ask(ask("a", "b"))
    assert told == [10, "warned"]


def test_every_observer_is_told_of_every_wait():
    told = []

    class Waits(Observer):
        def __init__(self, name):
            self.name = name

        def wait(self, tries, most):
            told.append((self.name, tries))

    model, _ = made(Script(*[Transient(0.0, "busy")] * 2), tries=4)
    with observed_by(Waits("outer")), observed_by(Waits("inner")):
        model.ask(ask("a"))
    assert sorted(told) == [("inner", 1), ("inner", 2), ("outer", 1), ("outer", 2)]
