"""Waits, the adaptive number of calls in flight, and the threads, each by itself."""

import threading
import time
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyterrier_ikat.llms.failures import Transient
from pyterrier_ikat.llms.limits import Retry, Throttle, Workers, seconds_of


@given(st.text() | st.floats().map(str) | st.integers().map(str) | st.none(), st.floats(0, 4e9))
def test_any_header_gives_a_bounded_wait_or_none(header, now):
    wait = seconds_of(header, now)
    assert wait is None or 0 <= wait <= 60


@pytest.mark.parametrize(("asked", "waits"), [(5.0, [5.0]), (1e9, [60.0])])
def test_whatever_a_backend_asks_for_is_bounded(asked, waits):
    slept = []

    def work():
        if not slept:
            raise Transient(asked, "busy")
        return "done"

    assert Retry(sleep=slept.append).loop(threading.Event())(work) == "done"
    assert slept == waits


@pytest.mark.parametrize(("given", "waits"), [({}, 5), ({"tries": 2000}, 600), ({"tries": 2000, "max_seconds": 3}, 3), ({"tries": 1}, 0)])
def test_tries_and_waits_end_exactly_where_it_is_said(given, waits):
    slept, tries = [], []

    def work():
        tries.append(1)
        raise Transient(1.0, "busy")

    with pytest.raises(Transient):
        Retry(**given, sleep=slept.append).loop(threading.Event())(work)
    assert slept == [1.0] * waits
    assert len(tries) == waits + 1


def test_time_that_a_call_waits_for_its_place_is_no_reason_to_give_it_up():
    now, slept = [0.0], []

    def work():
        now[0] += 10_000
        if len(slept) < 2:
            raise Transient(1.0, "busy")
        return "done"

    assert Retry(sleep=slept.append, clock=lambda: now[0]).loop(threading.Event())(work) == "done"
    assert slept == [1.0, 1.0]


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


def taken(throttle, count):
    """Takes ``count`` slots in threads, and gives how many were had within a moment, and how to give them back."""
    had, release = [], threading.Event()

    def take():
        with throttle.slot() as mark:
            had.append(mark)
            release.wait(120)

    threads = [threading.Thread(target=take) for _ in range(count)]
    for thread in threads:
        thread.start()
    return had, release, threads


def test_throttle_opens_with_the_first_success():
    throttle = Throttle(8)
    assert throttle.limit == 1
    throttle.grow()
    assert throttle.limit == 8


def test_throttle_opens_when_the_first_call_is_not_refused_in_time():
    throttle = Throttle(3, patience=0.1)
    had, release, threads = taken(throttle, 5)
    while len(had) < 3:
        time.sleep(0.001)
    threads[0].join(0.2)  # all have lost their patience by now: two still have to wait
    assert (throttle.limit, len(had)) == (3, 3)
    release.set()
    for thread in threads:
        thread.join(120)
    assert len(had) == 5


def test_throttle_stays_at_one_while_it_has_patience():
    throttle = Throttle(3, patience=60)
    had, release, threads = taken(throttle, 3)
    while not had:
        time.sleep(0.001)
    threads[0].join(0.05)
    assert (throttle.limit, len(had)) == (1, 1)
    release.set()
    for thread in threads:
        thread.join(120)
    assert len(had) == 3


def filled(throttle, count):
    """Holds ``count`` slots."""
    held = ExitStack()
    return held, [held.enter_context(throttle.slot()) for _ in range(count)]


def test_throttle_ends_at_what_the_server_took():
    throttle = Throttle(10)
    throttle.grow()
    held, marks = filled(throttle, 10)
    for mark in marks[:3]:
        throttle.shrink(mark)
    held.close()
    assert throttle.limit == 7


def test_throttle_halves_at_most_for_the_calls_of_one_moment():
    throttle = Throttle(10)
    throttle.grow()
    for width in (5, 2, 1, 1):
        held, marks = filled(throttle, throttle.limit)
        for mark in marks:
            throttle.shrink(mark)
        held.close()
        assert throttle.limit == width


def test_throttle_grows_by_one_per_round_and_only_where_all_of_it_is_used():
    throttle = Throttle(8)
    throttle.grow()
    held, marks = filled(throttle, 8)
    for mark in marks:
        throttle.shrink(mark)
    held.close()
    assert throttle.limit == 4
    for _ in range(100):
        throttle.grow()
    assert throttle.limit == 4
    held, _ = filled(throttle, 4)
    for _ in range(4):
        throttle.grow()
    assert throttle.limit == 4  # 4 + 1/4 + 1/4.25 + ...: a little less than one more
    throttle.grow()
    assert throttle.limit == 5
    held.close()


def test_the_first_success_lets_all_that_wait_through():
    throttle = Throttle(3, patience=60)
    had, release, threads = taken(throttle, 3)
    while not had:
        time.sleep(0.001)
    threads[0].join(0.05)
    assert len(had) == 1
    throttle.grow()
    for _ in range(5000):
        if len(had) == 3:
            break
        time.sleep(0.001)
    assert len(had) == 3  # though none has given its place back
    release.set()
    for thread in threads:
        thread.join(120)


def test_a_place_that_is_added_is_taken_at_once():
    throttle = Throttle(2)
    throttle.grow()
    held, marks = filled(throttle, 2)
    throttle.shrink(marks[0])
    held.close()
    held, _ = filled(throttle, 1)
    had, release, (thread,) = taken(throttle, 1)
    thread.join(0.05)
    assert (throttle.limit, had) == (1, [])
    throttle.grow()
    release.set()
    thread.join(120)  # by the place that was added: the other one is still held
    assert had == [1]
    held.close()


@given(st.lists(st.booleans()), st.integers(1, 50))
def test_throttle_never_closes_and_never_exceeds_its_size(events, most):
    throttle = Throttle(most)
    for success in events:
        held, marks = filled(throttle, throttle.limit)
        throttle.grow() if success else throttle.shrink(marks[0])
        held.close()
        assert 1 <= throttle.limit <= most


def test_a_slot_is_given_back_after_an_error():
    throttle = Throttle(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="x"), throttle.slot():
            raise ValueError("x")


def test_after_an_error_nothing_new_begins_and_results_are_kept():
    begun, results = [], []

    def work(task):
        begun.append(task)
        if task == 3:
            raise ValueError("three")
        return task * 10

    workers = Workers(work, results.append, threads=1, stop=threading.Event())
    workers.run(range(10))
    assert results == [0, 10, 20]
    assert str(workers.error) == "three"
    assert begun == [0, 1, 2, 3]


def test_tasks_that_find_the_stage_ended_are_no_error():
    stop = threading.Event()
    stop.set()
    results = []
    workers = Workers(str, results.append, threads=2, stop=stop)
    workers.run(range(3))
    assert (results, workers.error) == ([], None)


def test_an_interrupt_cancels_what_has_not_begun_and_finishes_what_has():
    begun, finished, shown = [], [], threading.Event()

    def work(task):
        begun.append(task)
        if task:
            shown.wait(120)
        finished.append(task)
        return task

    def interrupted(result):
        shown.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Workers(work, interrupted, threads=2, stop=threading.Event()).run(range(100))
    assert sorted(begun) == sorted(finished)
    assert len(begun) < 100


def test_a_second_ctrl_c_that_follows_at_once_ends_the_stage_too():
    """It may come while the first one's message is being printed: nobody waits for the call under way then."""
    release, told = threading.Event(), []

    def work(task):
        return task if task == 0 else release.wait(60)

    def ctrl_c(*_):
        raise KeyboardInterrupt

    workers = Workers(
        work,
        ctrl_c,
        threads=2,
        stop=threading.Event(),
        interrupted=ctrl_c,
        abandoned=lambda: told.append(sum(thread.is_alive() for thread in workers._threads)),
    )
    with pytest.raises(KeyboardInterrupt):
        workers.run([0, 1])
    assert told[0] >= 1  # the call under way was left
    release.set()
