"""Waits and retries by themselves."""

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.llms.failures import Transient
from pyterrier_ikat.llms.retry import Retry
from pyterrier_ikat.llms.waits import header_seconds


@given(st.text() | st.floats().map(str) | st.integers().map(str) | st.none(), st.floats(0, 4e9))
def test_any_header_gives_a_bounded_wait_or_none(header, now):
    wait = header_seconds(header, now)
    assert wait is None or 0 <= wait < math.inf


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
    stop, tries = threading.Event(), []

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
