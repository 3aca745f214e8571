"""The line in which requests wait: its order, its bounds, and places that become free."""

import asyncio
import threading

import pytest

from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.live.serving import Limits
from pyterrier_ikat.live.serving.waiting_line import FullError, Line


class Work:
    """Work that waits until it may end."""

    def __init__(self, done):
        self.may, self.done = threading.Event(), done

    def __call__(self, name):
        def work():
            self.done.append(name)
            assert self.may.wait(60)
            return name

        return work


async def until(true):
    while not true():
        await asyncio.sleep(0.001)


def test_work_beyond_the_threads_waits_in_order_and_beyond_the_line_is_refused():
    async def go():
        line, done = Line(workers=2, waiting=2), []
        work = Work(done)
        tasks = [asyncio.ensure_future(line.run(work(name))) for name in "abcd"]
        await until(lambda: len(done) == 2)
        assert (line.busy, line.waiting) == (2, 2)
        with pytest.raises(FullError) as full:
            await line.run(work("e"))
        work.may.set()
        assert await asyncio.gather(*tasks) == ["a", "b", "c", "d"]
        assert (line.busy, line.waiting) == (0, 0)
        line.stop()
        return full.value.seconds, done

    seconds, done = asyncio.run(go())
    assert (1 <= seconds <= 60, sorted(done[:2]), sorted(done)) == (True, ["a", "b"], ["a", "b", "c", "d"])


def test_whoever_leaves_frees_the_place_in_line_but_begun_work_is_finished():
    async def go():
        line, done = Line(workers=1, waiting=1), []
        work = Work(done)
        first, second = (asyncio.ensure_future(line.run(work(name))) for name in ("first", "second"))
        await until(lambda: done == ["first"])
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        third = asyncio.ensure_future(line.run(work("third")))
        await until(lambda: line.waiting == 1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (line.busy, line.waiting) == (1, 1)  # its thread works on: nothing else may use it
        work.may.set()
        assert await third == "third"
        line.stop()
        return done

    assert asyncio.run(go()) == ["first", "third"]


def test_an_error_of_the_work_is_its_caller_s_and_none_ends_the_server():
    async def go():
        line = Line(workers=1, waiting=0)
        for error in (ValueError("no"), SystemExit("secret"), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()):

            def work(error=error):
                raise error

            kept = isinstance(error, ValueError)
            with pytest.raises(ValueError if kept else RuntimeError, match="no" if kept else f"raised {type(error).__name__}$"):
                await asyncio.wait_for(line.run(work), 60)
        assert await line.run(lambda: 1) == 1
        line.stop()

    asyncio.run(go())


def test_at_the_stop_those_that_wait_are_refused_and_begun_work_is_finished():
    async def go():
        line, done = Line(workers=1, waiting=5), []
        work = Work(done)
        tasks = [asyncio.ensure_future(line.run(work(name))) for name in "ab"]
        await until(lambda: done == ["a"])
        line.stop()
        with pytest.raises(FullError):
            await line.run(work("c"))
        work.may.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second = asyncio.run(go())
    assert (first, second.stopping) == ("a", True)


def test_bounds_below_one_are_refused():
    with pytest.raises(UsageError, match="workers=0: give 1 or more"):
        Limits(workers=0)
    assert Limits(waiting=0).waiting == 0
