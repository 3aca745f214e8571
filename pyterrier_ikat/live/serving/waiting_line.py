"""The bounds of a server, and the line in which requests wait for one of its threads."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from ...arguments import at_least

Result = TypeVar("Result")


@dataclass(frozen=True)
class Limits:
    """The bounds of a server.

    Attributes:
        workers: requests that systems work on at a time. Further ones wait in line.
        waiting: requests that may wait in line. Further ones are refused with status 503 and ``Retry-After``.
        messages: messages of a request.
        body: bytes of a request's body.
        header: bytes of a request's header.
        statements: statements about a user.
        queries: queries of a search.
        passages: passages for each query of a search.
        read: seconds until a request's header has to be complete, and again for its body.
        send: seconds that a client may take to accept each part of a response.
        heartbeat: seconds of silence in a stream after which a comment is sent, so that proxies keep it open.
        stop: seconds that requests under way get to finish when the server stops.

    Raises:
        UsageError: when a whole number is below 1, or ``waiting`` below 0.

    Example:
        >>> Limits(workers=4).waiting
        64
    """

    workers: int = 16
    waiting: int = 64
    messages: int = 1000
    body: int = 1 << 20
    header: int = 16 << 10
    statements: int = 500
    queries: int = 64
    passages: int = 1000
    read: float = 20.0
    send: float = 60.0
    heartbeat: float = 15.0
    stop: float = 30.0

    def __post_init__(self) -> None:
        at_least(0, waiting=self.waiting)
        at_least(1, **{name: value for name, value in vars(self).items() if isinstance(value, int) and name != "waiting"})


class FullError(Exception):
    """The line is full, or the server stops.

    Attributes:
        seconds: after which a client may retry.
        stopping: whether the server stops.
    """

    def __init__(self, seconds: int, stopping: bool = False) -> None:
        super().__init__()
        self.seconds, self.stopping = seconds, stopping


def _as_defect(raised: BaseException) -> Exception:
    """The error, or one in its place for those that a task can't raise: SystemExit would end the server, StopIteration is lost."""
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration | StopAsyncIteration):
        return raised
    return RuntimeError(f"a system raised {type(raised).__name__}").with_traceback(raised.__traceback__)


class Line:
    """Runs work on a fixed number of threads; what they can't take waits in a line of bounded length, first come, first served.

    All methods run in the event loop's thread. A caller that stops waiting frees its place in line. Work that has begun is finished, and
    keeps its thread until then, because calls of a language model are paid for: their completions are cached.

    Args:
        workers: the number of threads.
        waiting: the most places in line.

    Example:
        >>> async def both() -> list[int]:
        ...     line = Line(workers=1, waiting=1)
        ...     return await asyncio.gather(line.run(lambda: 1), line.run(lambda: 2))
        >>> asyncio.run(both())
        [1, 2]
    """

    def __init__(self, workers: int, waiting: int) -> None:
        self.workers, self.most = workers, waiting
        self.busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._stopping = False
        self._seconds = 1.0  # that a piece of work takes, a running mean
        self._jobs = SimpleQueue[Callable[[], None] | None]()
        self._threads = 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def check(self) -> None:
        """Check that there is a thread or a place in line.

        Raises:
            FullError: when there is none.
        """
        if self._stopping or (self.busy >= self.workers and self.waiting >= self.most):
            raise self._full()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run ``work`` in a thread, after those that came earlier.

        Raises:
            FullError: when there is no place in line, or the server stops while the work waits.
        """
        self.check()
        await self._enter()
        loop, began = asyncio.get_running_loop(), time.monotonic()
        done: asyncio.Future[Result] = loop.create_future()

        def finish(result: Any, error: BaseException | None) -> None:
            self._seconds += (time.monotonic() - began - self._seconds) / 8
            self._leave()
            if done.done():  # nobody waits for it any more
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        def job() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = _as_defect(raised)
            with suppress(RuntimeError):  # the loop ended before the work did
                loop.call_soon_threadsafe(finish, result, error)

        self._start_thread()
        self._jobs.put(job)
        return await done

    def stop(self) -> None:
        """Refuse the work that waits, and all later work."""
        self._stopping = True
        for _ in range(self._threads):
            self._jobs.put(None)
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(self._full())

    def _full(self) -> FullError:
        seconds = math.ceil(self._seconds * (self.waiting + 1) / self.workers)
        return FullError(min(max(seconds, 1), 60), self._stopping)

    async def _enter(self) -> None:
        if self.busy < self.workers:
            self.busy += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
            elif not place.cancelled() and place.exception() is None:  # its turn came at the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        self.busy -= 1
        while self._waiting and self.busy < self.workers:
            place = self._waiting.popleft()
            if not place.done():
                self.busy += 1
                place.set_result(None)

    def _start_thread(self) -> None:
        """Threads stay: models keep memory for each thread that ever computed with them. The process's end waits for none of them."""
        if self._threads < self.workers and self._threads < self.busy:
            self._threads += 1
            threading.Thread(target=self._work, name=f"ikat-serve_{self._threads}", daemon=True).start()

    def _work(self) -> None:
        while job := self._jobs.get():
            job()
