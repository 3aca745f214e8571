"""Waits and retries by themselves."""

import threading
import time

import pytest

from pyterrier_ikat.llms.failures import Transient
from pyterrier_ikat.llms.retry import Retry


@pytest.mark.parametrize(
    ("given", "waits"),
    [({}, 5), ({"tries": 2000}, 600), ({"tries": 2000, "max_seconds": 3}, 3), ({"tries": 1}, 0)],
)
def test_tries_and_waits_end_exactly_where_it_is_said(given, waits):
    slept, tries = [], []

    def work():
        tries.append(1)
        raise Transient(1.0, "busy")

    with pytest.raises(Transient):
        Retry(**given, sleep=slept.append).loop(threading.Event())(work)
    assert slept == [1.0] * waits
    assert len(tries) == waits + 1


def test_a_set_stop_ends_the_waiting_at_once():
    stop = threading.Event()
    tries = []

    def work():
        tries.append(1)
        threading.Timer(0.05, stop.set).start()
        raise Transient(60.0, "busy")

    with pytest.raises(Transient):
        Retry().loop(stop)(work)
    assert len(tries) <= 2


def test_other_errors_are_not_retried():
    tries = []

    def work():
        tries.append(1)
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        Retry(sleep=tries.append).loop(threading.Event())(work)
    assert tries == [1]


def tried(retry, *errors, is_paced=False, waits=None):
    """The seconds slept and the number of tries, where these errors come and then an answer."""
    slept = []
    left = list(errors)

    def work():
        if left:
            raise left.pop(0)
        return "answer"

    retry = Retry(retry.tries, retry.max_seconds, slept.append)
    try:
        assert retry.loop(threading.Event(), waits, is_paced)(work) == "answer"
    except Transient:
        return slept, len(errors) - len(left)
    return slept, len(errors) - len(left) + 1


def busy(wait=5.0, **more):
    return Transient(wait, "busy", **more)


@pytest.mark.parametrize(
    ("error", "is_paced", "slept"),
    [
        (busy(5.0), False, [5.0]),
        (busy(0.0), False, []),
        (busy(61.0), False, [60.0]),
        (busy(61.0, limited=True), False, [61.0]),
        (busy(61.0, limited=True), True, []),
        (busy(5.0), True, [5.0]),
    ],
    ids=["asked", "none", "too long", "limited", "the pace waits", "the pace doesn't"],
)
def test_a_wait_is_what_the_server_asks_for_within_bounds(error, is_paced, slept):
    assert tried(Retry(), error, is_paced=is_paced) == (slept, 2)


def test_waits_that_nobody_asked_for_grow_to_a_minute():
    slept, tries = tried(Retry(tries=9), *[busy(None)] * 8)
    assert tries == 9
    for wait, least in zip(slept, (1, 2, 4, 8, 16, 32, 60, 60), strict=True):
        assert least <= wait <= min(least + 1, 60)


def test_tries_that_count_are_told_before_each_wait():
    told = []
    errors = [busy(), busy(limited=True), busy(), busy(limited=True)]
    assert tried(Retry(tries=3), *errors, waits=told.append) == ([5.0] * 4, 5)
    assert told == [1, 1, 2, 2]
    assert tried(Retry(tries=2), *errors) == ([5.0, 5.0], 3)


def test_waits_end_when_their_sum_would_exceed_the_time():
    assert tried(Retry(tries=99, max_seconds=10), *[busy()] * 9) == ([5.0, 5.0], 3)
    assert tried(Retry(tries=99, max_seconds=9.9), *[busy()] * 9) == ([5.0], 2)
    limited = [busy(4.0, limited=True)] * 9
    assert tried(Retry(max_seconds=8), *limited, is_paced=True) == ([], 3)
    mixed = [busy(4.0, limited=True), busy(3.0), busy(5.0), busy(5.0)]
    assert tried(Retry(max_seconds=8), *mixed, is_paced=True) == ([3.0, 5.0], 4)


def test_a_server_that_never_answered_is_left_after_ten_seconds(monkeypatch):
    assert tried(Retry(tries=99), *[busy(unreached=True)] * 9) == ([5.0, 5.0], 3)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    errors = [busy(3.0, unreached=True) for _ in range(9)]
    slept = []

    def work():
        now[0] += 4.0  # the time-out of a connection
        raise errors.pop()

    with pytest.raises(Transient):
        Retry(tries=99, sleep=slept.append).loop(threading.Event())(work)
    assert (len(errors), slept) == (9 - 2, [3.0])  # 8 seconds of tries and another wait


def test_the_last_error_itself_is_raised():
    last = busy()
    errors = [busy(), last]

    def work():
        raise errors.pop(0)

    with pytest.raises(Transient) as raised:
        Retry(tries=2, sleep=lambda seconds: None).loop(threading.Event())(work)
    assert raised.value is last


def test_without_a_way_to_sleep_the_stop_is_waited_for():
    stop = threading.Event()
    sleep = [].append
    assert Retry().sleeping(stop) == stop.wait
    assert Retry(sleep=sleep).sleeping(stop) is sleep
