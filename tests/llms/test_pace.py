"""A server that is asked too often: who waits how long, and when a stage gives up.

No test sleeps.
"""

import pickle
import threading
import time
from datetime import datetime

import pytest
from chat_server import Answer, ask, gemini, refused, said

import pyterrier_ikat as ikat
from pyterrier_ikat.llms import FatalLLMError
from pyterrier_ikat.llms import pace as pace_module
from pyterrier_ikat.llms.failures import RateLimited, Transient, Unavailable
from pyterrier_ikat.llms.pace import Pace, in_words
from pyterrier_ikat.llms.retry import Retry


class Clock:
    """A clock that only those who wait move on."""

    def __init__(self):
        self.now = 1000.0
        self.lock = threading.Lock()
        self.slept = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        with self.lock:
            self.slept.append(seconds)
            self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def limited_to(clock, server, calls, seconds, refusal):
    """Let a server answer so many calls in so many seconds, and refuse the others with
    ``refusal(wait)``."""
    answered = []
    lock = threading.Lock()

    def respond(body):
        with lock:
            while answered and clock.now - answered[0] >= seconds:
                answered.pop(0)
            if len(answered) < calls:
                answered.append(clock.now)
                return said()
            return refusal(int(seconds - (clock.now - answered[0])) + 1)

    server.respond = respond


def paced(model, clock, options):
    made = model(f"cache=none {options}")
    made.retry = Retry(tries=made.retry.tries, sleep=clock.sleep)
    return made


REFUSALS = [
    lambda wait: Answer(429, gemini(wait)),
    lambda wait: refused(429, f"Please try again in {wait}s."),
    lambda wait: refused(429, "no", Retry_After=str(wait)),
]


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize(
    ("options", "turns"),
    [("", 30), ("retries=0", 30), ("concurrency=1", 45), ("concurrency=128", 150)],
)
def test_all_turns_are_answered_however_often_a_server_says_wait(
    model, server, clock, refusal, options, turns
):
    limited_to(clock, server, 10, 60, refusal)
    made = paced(model, clock, options)
    outcomes = made.ask(ask(*map(str, range(turns))))
    assert [one.text for one in outcomes] == ["fine"] * turns
    assert 60 * (turns // 10 - 1) <= clock.now - 1000 <= 65 * (turns // 10 + 1)
    assert server.calls <= 2 * turns + 128  # those that wait don't ask


def test_a_server_that_names_no_wait_is_asked_until_it_answers(model, server, clock):
    limited_to(clock, server, 10, 60, lambda wait: refused(429))
    outcomes = paced(model, clock, "").ask(ask(*map(str, range(30))))
    assert [one.text for one in outcomes] == ["fine"] * 30


@pytest.mark.parametrize("options", ["", "on_error=fallback", "retries=0"])
def test_a_wait_beyond_the_time_limit_ends_the_stage_at_once(model, server, clock, options):
    server.respond = lambda body: (
        said()
        if server.calls <= 3
        else refused(429, "daily limit. Please retry after 12000 seconds.")
    )
    with pytest.raises(FatalLLMError) as raised:
        paced(model, clock, f"concurrency=1 {options}").ask(ask(*map(str, range(9))))
    assert server.calls == 4
    assert clock.slept == []
    told = str(raised.value)
    assert (
        "it asks to wait 3 h 20 min, and a stage waits no longer than 10 min: run again after"
        in told
    )
    assert datetime.fromtimestamp(time.time() + 12000).strftime("%H:") in told
    assert "left: " in told


def test_waits_that_add_up_to_the_time_limit_end_the_stage(model, server, clock):
    server.respond = lambda body: refused(429, "Please retry in 59s.")
    with pytest.raises(
        FatalLLMError, match="asks to wait 59 s, and a stage waits no longer than 10 min"
    ):
        paced(model, clock, "").ask(ask(*map(str, range(9))))
    assert clock.now - 1000 == pytest.approx(590, abs=60)


def test_endless_refusals_without_a_wait_end_the_stage(model, server, clock):
    server.respond = lambda body: refused(429)
    with pytest.raises(FatalLLMError, match="has done so for 10 min: run again later"):
        paced(model, clock, "concurrency=1").ask(ask("a", "b"))
    assert 500 <= clock.now - 1000 <= 600


def test_a_request_that_alone_is_refused_does_not_go_on_for_ever():
    tries = []

    def work():
        tries.append(1)
        raise Transient(50.0, "busy", limited=True)

    with pytest.raises(Transient):
        Retry(tries=1).loop(threading.Event(), is_paced=True)(work)
    assert len(tries) == 13  # 12 waits of 50 seconds are the 600 that are allowed


def test_other_failures_still_count_as_tries(model, server, clock):
    busy = refused(429, "Please try again in 5s.")
    broken = refused(500)
    server.script = [said(), busy, broken, busy, broken, busy, busy, broken]
    made = paced(model, clock, "retries=2 concurrency=1")
    outcomes = made.ask(ask("a", "b"))
    assert isinstance(outcomes[1], Unavailable)
    assert server.calls == 8


def test_a_pace_stays_behind_when_a_model_changes_process():
    pace = pickle.loads(pickle.dumps(Pace()))
    with pace.call(1.0, lambda seconds: None, lambda: False):
        assert pace.waited == 0


def test_a_refused_call_waits_in_the_public_operators_too(model, server, clock):
    limited_to(clock, server, 10, 60, lambda wait: Answer(429, gemini(wait)))
    messages = []
    for number in range(30):
        messages.append({"role": "user", "content": f"user {number}"})
        messages.append({"role": "assistant", "content": f"assistant {number}"})
    turns = ikat.conversation(messages, every_turn=True)
    assert len(ikat.Rewrite(paced(model, clock, ""))(turns)) == 30


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.2, "1 s"),
        (59, "59 s"),
        (59.5, "1 min"),
        (60, "1 min"),
        (61, "2 min"),
        (3599, "1 h 0 min"),
        (3600, "1 h 0 min"),
        (3661, "1 h 2 min"),
        (7200, "2 h 0 min"),
    ],
)
def test_a_duration_in_words_is_rounded_up(seconds, words):
    assert in_words(seconds) == words


def never():
    return False


def refuse(pace, clock, wait=None, most=600.0, inside=None):
    """A call that is refused."""

    def call():
        with pace.call(most, clock.sleep, never):
            if inside is not None:
                inside()
            raise Transient(wait, "busy", limited=True)

    with pytest.raises(Transient):
        call()


def answer(pace, clock):
    with pace.call(600.0, clock.sleep, never):
        pass


def test_each_call_waits_what_the_server_asks_for(clock):
    pace = Pace()
    answer(pace, clock)
    refuse(pace, clock, 5.0)
    refuse(pace, clock, 0.0)
    refuse(pace, clock, 7.0)
    assert (clock.slept, pace.waited) == ([5.0], 12.0)
    answer(pace, clock)
    assert (clock.slept, pace.waited) == ([5.0, 7.0], 0.0)
    answer(pace, clock)
    assert clock.slept == [5.0, 7.0]


def test_waits_that_nobody_asked_for_double_up_to_a_minute(clock, monkeypatch):
    monkeypatch.setattr(pace_module.random, "random", lambda: 0.5)
    pace = Pace()
    for _ in range(8):
        refuse(pace, clock, most=1e9)
    assert clock.slept == [1.5, 2.5, 4.5, 8.5, 16.5, 32.5, 60.0]
    answer(pace, clock)
    refuse(pace, clock)
    answer(pace, clock)
    assert clock.slept[-2:] == [60.0, 1.5]


def test_a_refusal_of_a_call_that_was_on_its_way_waits_no_longer(clock):
    pace = Pace()
    refuse(pace, clock, inside=lambda: refuse(pace, clock, 5.0))
    assert pace.waited == 5.0
    answer(pace, clock)
    assert clock.slept == [5.0]
    refuse(pace, clock, 3.0, inside=lambda: refuse_at_once(pace, 9.0))
    answer(pace, clock)
    assert clock.slept == [5.0, 9.0]


def refuse_at_once(pace, wait):
    """A refusal of a call that began when the one around it did."""
    pace._slow_down(Transient(wait, "busy", limited=True), pace._round, 600.0)


def test_a_late_refusal_without_a_wait_adds_none(clock, monkeypatch):
    monkeypatch.setattr(pace_module.random, "random", lambda: 0.5)
    pace = Pace()
    refuse(pace, clock, None, inside=lambda: refuse(pace, clock, 1.0))
    answer(pace, clock)
    assert clock.slept == [1.0]
    with pytest.raises(RateLimited, match="it asks to wait 12 min"):
        refuse(pace, clock, 700.0, inside=lambda: refuse(pace, clock, 1.0))


def test_a_refusal_while_one_waits_makes_the_wait_longer(clock):
    pace = Pace()
    refuse(pace, clock, 5.0)

    def sleep(seconds):
        clock.sleep(seconds)
        if len(clock.slept) == 1:
            refuse_at_once(pace, 4.0)

    with pace.call(600.0, sleep, never):
        pass
    assert clock.slept == [5.0, 4.0]


def test_an_answer_of_before_a_refusal_ends_no_waits(clock):
    pace = Pace()
    with pace.call(600.0, clock.sleep, never):
        refuse(pace, clock, 5.0)
    assert pace.waited == 5.0


def test_waits_longer_than_a_stage_waits_end_it(clock):
    pace = Pace()
    refuse(pace, clock, 6.0, most=10.0)
    refuse(pace, clock, 4.0, most=10.0)
    with pytest.raises(RateLimited, match="it asks to wait 1 s, and a stage waits no longer than"):
        refuse(pace, clock, 1.0, most=10.0)
    with pytest.raises(RateLimited, match="busy; it asks to wait 1 h 0 min, .* than 10 s: run"):
        refuse(Pace(), clock, 3600.0, most=10.0)
    with pytest.raises(RateLimited, match="busy, and has done so for 1 s: run again later"):
        refuse(Pace(), clock, None, most=0.9)


@pytest.mark.parametrize(("hours", "form"), [(0.5, "%H:%M"), (30, "%Y-%m-%d %H:%M")])
def test_the_end_of_a_long_wait_has_a_date_if_it_is_another_day(clock, hours, form, monkeypatch):
    class Noon(datetime):
        @classmethod
        def now(cls):
            return cls(2026, 5, 4, 12)

    monkeypatch.setattr(pace_module, "datetime", Noon)
    end = {0.5: "12:30", 30: "2026-05-05 18:00"}[hours]
    with pytest.raises(RateLimited) as raised:
        refuse(Pace(), clock, hours * 3600, most=10.0)
    assert raised.value.reason.endswith(f"run again after {end}")
    with pytest.raises(RateLimited, match="run again after 20"):
        refuse(Pace(), clock, 1e15, most=10.0)


def test_other_failures_slow_nothing_down(clock):
    pace = Pace()
    with pytest.raises(Transient), pace.call(600.0, clock.sleep, never):
        raise Transient(5.0, "HTTP 500")
    answer(pace, clock)
    assert (clock.slept, pace.waited, pace._under_way) == ([], 0.0, 0)


def test_after_a_refusal_one_call_goes_and_answers_add_more(clock):
    pace = Pace()
    refuse(pace, clock, 1.0)
    blocked = []
    with pace.call(600.0, clock.sleep, never):
        blocked.append(is_blocked(pace, clock))
    with pace.call(600.0, clock.sleep, never):
        blocked.append(is_blocked(pace, clock))
        with pace.call(600.0, clock.sleep, never):
            blocked.append(is_blocked(pace, clock))
    assert blocked == [True, False, True]
    refuse(pace, clock, 1.0)
    with pace.call(600.0, clock.sleep, never):
        assert is_blocked(pace, clock)
    answer(pace, clock)
    assert pace._most == 3
    fresh = Pace()
    answer(fresh, clock)
    with fresh.call(600.0, clock.sleep, never), fresh.call(600.0, clock.sleep, never):
        pass
    assert fresh._under_way == 0


def is_blocked(pace, clock):
    """Whether a call would wait for others; it isn't wanted as soon as it looks."""
    looks = []

    def is_over():
        looks.append(1)
        return True

    with pace.call(600.0, clock.sleep, is_over):
        pass
    return len(looks) == 3  # before it enters, before it sleeps, after its answer
