"""Send the requests of one `LLM.ask`: one queue, several threads.

Each answer is kept, counted and paid for as it arrives.
"""

import math
import queue
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import copy_context
from dataclasses import fields, replace
from itertools import count
from threading import Event, Lock, Thread
from typing import Any

from ..errors import counted
from ..events import (
    OBSERVERS,
    AskerLeft,
    Exchange,
    check_asker,
    follower,
    has_left,
    may_leave,
    tell,
)
from ..progress import bar as bar_of
from .backend import Backend
from .failures import (
    BudgetExceeded,
    FatalLLMError,
    LLMFailure,
    StageEnded,
    Transient,
    Unanswered,
    Unavailable,
    WrongAnswers,
)
from .ledger import Spend
from .request import Completion, Reply, Request
from .retry import Retry
from .streaming import Reader

LOOK = 0.25
"""Seconds between two checks whether the asker has left, while no call finishes."""
TURNED_AWAY = 3
"""The number of requests in a row with 401 or 403 until an accepted key counts as refused."""
Outcome = Completion | LLMFailure
Outcomes = dict[str, Outcome]
"""Outcomes by the keys of their requests."""
Then = Callable[[int, Outcome], Request | None]
"""Returns the next request for prompt number N, given its latest outcome; None if there is none."""


class Tries:
    """How often some requests were tried, and what each try adds to the account.

    Together ``calls``, ``retries`` and ``unanswered`` are the requests that were sent: each is a
    call if it was answered in the end, else unanswered, and its further tries are retries.

    Attributes:
        number: the tries so far, also those in which nothing was sent.

    Example:
        >>> tries = Tries()
        >>> tries.counts("a", Unanswered.LOST), tries.counts("a", None)
        ({'unanswered': 1}, {'retries': 1, 'calls': 1, 'unanswered': -1})
    """

    def __init__(self) -> None:
        self.number = 0
        self._answered: dict[str, bool] = {}

    def counts(self, key: str, why: Unanswered | None) -> dict[str, int]:
        """Count a try.

        Args:
            key: the request.
            why: why it has no answer; None if it has one.
        """
        if why is Unanswered.UNSENT:
            return {}
        is_answered = why is None
        if key not in self._answered:
            self._answered[key] = is_answered
            return {"calls": 1} if is_answered else {"unanswered": 1}
        if is_answered and not self._answered[key]:
            self._answered[key] = True
            return {"retries": 1, "calls": 1, "unanswered": -1}
        return {"retries": 1}


class Waiters:
    """The positions in `LLM.ask` that wait for each request, and the outcomes so far.

    A prompt and its follow-ups have the same position.

    Attributes:
        waiting: by key, the positions without an outcome, each with its own request.
        outcomes: the outcomes that have arrived.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, list[tuple[int, Request]]] = {}
        self.outcomes: Outcomes = {}
        self._exchanges = defaultdict[int, list[Exchange]](list)

    def add(self, key: str, position: int, request: Request) -> bool:
        """Let a position wait for a request. Returns whether it is the first one with this key."""
        is_first = key not in self.outcomes and key not in self.waiting
        self.waiting.setdefault(key, []).append((position, request))
        return is_first

    def give(self, position: int, request: Request, outcome: Outcome) -> None:
        """Note the outcome of a position's request."""
        self._exchanges[position].append((request, outcome))

    def exchanges(self, number: int) -> list[Exchange]:
        """All requests and outcomes of the first ``number`` positions, position by position."""
        exchanges = list[Exchange]()
        for position in range(number):
            exchanges += self._exchanges[position]
        return exchanges

    def last(self, number: int) -> list[Outcome]:
        """The last outcome of each of the first ``number`` positions."""
        return [self._exchanges[position][-1][1] for position in range(number)]


class Pool:
    """Daemon threads that answer batches of requests from one queue.

    The program's end does not wait for them: a second Ctrl-C must end it.

    Args:
        answer: answers a batch.
        stop: set when a batch has failed, before another thread begins one.
        patience: seconds in which only the first thread works, so that a wrong key or model costs
            one call.
    """

    def __init__(
        self, answer: Callable[[dict[str, Request]], Outcomes], stop: Event, patience: float
    ) -> None:
        self._answer = answer
        self._stop = stop
        self._patience = patience
        self._threads: list[Thread] = []
        self._first_finished = Event()
        self._todo = queue.SimpleQueue[dict[str, Request] | None]()
        self._done = queue.SimpleQueue[Outcomes | BaseException]()

    def start(self, threads: int) -> None:
        """Start threads in the context of this one, so that they work for the same asker."""
        for number in range(threads):
            thread = Thread(
                target=copy_context().run,
                args=(self._work, number == 0),
                name=f"ikat-llm_{number}",
                daemon=True,
            )
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def put(self, batch: dict[str, Request]) -> None:
        """Add a batch to the queue."""
        self._todo.put(batch)

    def next(self) -> Outcomes:
        """Wait for the next finished batch.

        Raises:
            AskerLeft: when the asker has left.
            BaseException: the error of the batch.
        """
        timeout = LOOK if may_leave() else None
        result: Outcomes | BaseException | None = None
        while result is None:
            with suppress(queue.Empty):
                result = self._done.get(timeout=timeout)
            check_asker()  # a thread that noticed it has asked nothing
        if isinstance(result, BaseException):
            raise result.with_traceback(None)  # its frames hold the connections
        return result

    def end(self) -> None:
        """Begin no further batch, and wait for those under way."""
        self._stop.set()
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, is_first: bool) -> None:
        if not is_first:
            self._first_finished.wait(self._patience)
        while True:
            batch = self._todo.get()
            if batch is None:
                return
            result: Outcomes | BaseException
            try:
                result = self._answer(batch)
            except BaseException as error:
                self._stop.set()
                result = error
            self._first_finished.set()
            self._done.put(result)


class Sending:
    """Sends the requests of one `LLM.ask` and their follow-ups, each distinct request once.

    Args:
        llm: the `LLM` that is asked.
        then: gives the follow-up of an outcome.
        calls: the total number of requests with follow-ups; 0 if unknown.
    """

    def __init__(self, llm: Any, then: Then | None = None, calls: int = 0) -> None:
        self.llm = llm
        self.then = then
        self.calls = calls
        self.waiters = Waiters()
        write = follower()
        self._reader = None if write is None else Reader(write)
        self._observers = OBSERVERS.get()  # those of the thread that asks
        self._numbers = count()
        self._stop = Event()
        self._finished: list[Outcome] = []
        self._spend = Spend()
        self._lock = Lock()

    def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """Ask; see `LLM.ask`."""
        check_asker()
        exchanges = list[Exchange]()
        try:
            fresh = self._add(list(enumerate(requests)))
            if fresh:
                self.llm.backend.open()
                self.send(fresh)
            exchanges = self.waiters.exchanges(len(requests))
        finally:
            tell(self.llm, exchanges, self._spend)
            self.llm.lengths.warn()
        return self.waiters.last(len(requests))

    def count(self, stage: str, model: str, **counts: Any) -> None:
        """Add to the ledger, as `Ledger.count` does, and to the cost of this ask."""
        names = [field.name for field in fields(Spend)]
        amounts = {name: counts[name] for name in names if name in counts}
        with self._lock:
            self._spend += Spend(**amounts)
        self.llm.ledger.count(stage, model, **counts)

    def send(self, fresh: dict[str, Request]) -> None:
        """Send requests and their follow-ups, and wait for all of them.

        Of several askers of the same requests, the second begins at the end (see `cache`).
        """
        llm = self.llm
        spent = llm.budget.spent
        stages = ", ".join(dict.fromkeys(request.stage for request in fresh.values()))
        ordered = fresh
        if llm.backend.keeps_beginnings and len(fresh) > 1:
            ordered = longest_beginnings_first(fresh)
        bar: Any = bar_of(
            total=max(len(fresh), self.calls - len(self.waiters.outcomes)),
            desc=f"{stages} ({llm.model})",
            unit="call",
            disable=llm.backend.replays,
        )
        asking = nullcontext(True) if llm.cache is None else llm.cache.asking()
        with asking as is_first, bar:
            if not is_first:
                ordered = dict(reversed(ordered.items()))
            try:
                self._collect(ordered, bar)
            except StageEnded as error:
                done = sum(isinstance(outcome, Completion) for outcome in self._finished)
                left = bar.total - done
                if isinstance(error, BudgetExceeded) and done:
                    error.about = left * (llm.budget.spent - spent) / done
                kept = 0 if llm.cache is None else done
                raise error.after(kept, bar.total - kept, llm.kept_in) from None

    def _add(self, asked: Iterable[tuple[int, Request]]) -> dict[str, Request]:
        """Let positions wait for requests, and give them what is known. Returns the rest by key."""
        fresh = dict[str, Request]()
        while asked:
            known: Outcomes = {}
            new = dict[str, Request]()
            for position, request in asked:
                key = self._key_of(request)
                if self.waiters.add(key, position, request):
                    new[key] = request
                elif key in self.waiters.outcomes:
                    known[key] = self.waiters.outcomes[key]
            for key, outcome in self.llm.kept(new).items():
                request = new.pop(key)
                if isinstance(outcome, LLMFailure):
                    self.count(request.stage, self.llm.model, failures=1)
                known[key] = outcome
            fresh.update(new)
            asked = self._give(known)
        return fresh

    def _key_of(self, request: Request) -> str:
        """The key of a request; for a recording, whose answers depend on the turn, a new one."""
        if self.llm.backend.replays:
            return str(next(self._numbers))
        return request.key(self.llm.backend.identity)

    def _give(self, outcomes: Mapping[str, Outcome]) -> list[tuple[int, Request]]:
        """Assign each outcome to every position that waits for it. Returns the follow-ups."""
        follow_ups = list[tuple[int, Request]]()
        for key, outcome in outcomes.items():
            is_cached = isinstance(outcome, Completion) and outcome.cached
            is_counted = not is_cached and key not in self.waiters.outcomes
            self.waiters.outcomes[key] = outcome
            for position, request in self.waiters.waiting.pop(key):
                result = outcome if is_counted else self._again(key, request, outcome)
                is_counted = False  # the call was counted for one request only
                self.waiters.give(position, request, result)
                follow_up = None if self.then is None else self.then(position, result)
                if follow_up is not None:
                    follow_ups.append((position, follow_up))
        return follow_ups

    def _again(self, key: str, request: Request, outcome: Outcome) -> Outcome:
        """Count a known outcome for one more request, and return it for that request."""
        stage = request.stage
        model = self.llm.model
        if isinstance(outcome, LLMFailure):
            self.count(stage, model, failures=1)
            return type(outcome)(stage, request.qid, outcome.reason, kept=outcome.kept)
        worth = self.llm.budget.cost(outcome)
        self.count(stage, model, served=outcome.model, key=key, known=1, worth=worth)
        self.llm.note_length(request, outcome)
        self.llm.check_served(outcome.model)
        return replace(outcome, cached=True)

    def _collect(self, fresh: dict[str, Request], bar: Any) -> None:
        """Answer requests and their follow-ups in a pool of threads.

        Raises:
            KeyboardInterrupt: after the calls under way are finished; at the second one at once.
            AskerLeft: after the calls under way are finished.
        """
        backend = self.llm.backend
        pool = Pool(self._answer, self._stop, 0.0 if self.llm.reached else backend.patience)
        pool.start(min(backend.concurrency, math.ceil(len(fresh) / backend.batch_size)))
        try:
            self._work_off(pool, fresh, bar)
        except KeyboardInterrupt:
            # A second one leaves without a wait, also while this line is printed.
            self._stop.set()
            print(
                "stopping: waiting for the calls under way; press Ctrl-C again to end at once",
                file=sys.stderr,
            )
            pool.end()
            raise
        except BaseException:
            pool.end()
            raise
        pool.end()

    def _work_off(self, pool: Pool, fresh: dict[str, Request], bar: Any) -> None:
        """Queue requests and their follow-ups until none is open, and show how far it is."""
        size = self.llm.backend.batch_size
        cached = len(self.waiters.outcomes)
        failed = 0
        open_batches = 0
        while fresh or open_batches:
            items = list(fresh.items())
            for start in range(0, len(items), size):
                pool.put(dict(items[start : start + size]))
                open_batches += 1
            outcomes = pool.next()
            open_batches -= 1
            fresh = self._add(self._give(outcomes))
            failed += sum(isinstance(outcome, LLMFailure) for outcome in outcomes.values())
            spent = self.llm.budget.spent
            cost = f"${spent:.4f}" if spent > 0 else ""
            bar.total = max(bar.total, bar.n + len(outcomes) + len(fresh))
            bar.update(len(outcomes), cached=cached, failed=failed, cost=cost)

    def _is_over(self) -> bool:
        """Whether no further call may begin."""
        return self._stop.is_set() or has_left()

    def _answer(self, batch: dict[str, Request]) -> Outcomes:
        """Answer a batch, in a thread of the pool. The error of who reads a stream ends the ask."""
        if self._is_over():
            return {}
        outcomes = self._attempt(batch)
        self._finished += outcomes.values()
        if self._reader is not None and self._reader.error is not None:
            raise self._reader.error
        return outcomes

    def _attempt(self, batch: dict[str, Request]) -> Outcomes:
        """Send a batch with retries. Requests not sent before a stop have no outcome."""
        retry: Retry = self.llm.retry
        outcomes: Outcomes = {}
        tries = Tries()

        def waits(number: int) -> None:
            for observer in self._observers:
                observer.wait(number, retry.tries)

        try:
            retry.loop(self._stop, waits, is_paced=True)(self._try, batch, outcomes, tries)
        except Transient as error:
            self._give_up(batch, outcomes, tries, error)
        return outcomes

    def _give_up(
        self, batch: dict[str, Request], outcomes: Outcomes, tries: Tries, error: Transient
    ) -> None:
        """Add the failures of the requests that are not retried any more.

        Raises:
            FatalLLMError: when the others would fail, too.
        """
        llm = self.llm
        tried = counted(tries.number, "try")
        if error.unreached:
            raise FatalLLMError(
                f"{error.reason} (it has never answered, {tried}): "
                "start it, or correct base_url=..."
            ) from None
        if error.lasting:
            llm.turned_away += 1
            if llm.turned_away >= TURNED_AWAY:
                raise FatalLLMError(error.lasting) from None
        if self._is_over():
            return
        for key, request in batch.items():
            if key not in outcomes:
                self.count(request.stage, llm.model, failures=1)
                reason = f"{error.reason} (given up after {tried})"
                outcomes[key] = Unavailable(request.stage, request.qid, reason)

    def _try(self, batch: dict[str, Request], outcomes: Outcomes, tries: Tries) -> None:
        """Ask once for the requests that have no outcome yet, and add their outcomes."""
        llm = self.llm
        outcomes.update(llm.kept(batch))  # another process may have asked meanwhile
        fresh = {key: request for key, request in batch.items() if key not in outcomes}
        if not fresh or self._is_over():
            return
        sleep = llm.retry.sleeping(self._stop)
        with llm.pace.call(llm.retry.max_seconds, sleep, self._is_over):
            if self._is_over():
                return
            llm.budget.check()
            tries.number += 1
            started = time.perf_counter()
            replies = self._call(fresh, tries)
            seconds = (time.perf_counter() - started) / len(fresh)
        llm.reached = True
        llm.turned_away = 0
        errors = list[Exception]()
        for (key, request), reply in zip(fresh.items(), replies, strict=True):
            why = reply.unanswered if isinstance(reply, LLMFailure) else None
            counts = tries.counts(key, why)
            try:
                outcomes[key] = llm.settle(key, request, reply, seconds, self.count, **counts)
            except Exception as error:  # the other replies are kept before it is raised
                errors.append(error)
        if errors:
            raise errors[0]

    def _call(self, fresh: Mapping[str, Request], tries: Tries) -> list[Reply | LLMFailure]:
        """Call the backend. A call that gives no replies is counted."""
        backend: Backend = self.llm.backend
        requests = list(fresh.values())
        started = time.perf_counter()
        try:
            if self._reader is None or len(requests) > 1:
                return backend.complete(requests)
            return [backend.stream(requests[0], self._reader)]
        except AskerLeft:  # before the model was asked
            raise
        except BaseException as error:
            if not backend.replays:
                seconds = (time.perf_counter() - started) / len(fresh)
                self._count_failed(fresh, error, seconds, tries)
            raise

    def _count_failed(
        self, batch: Mapping[str, Request], error: BaseException, seconds: float, tries: Tries
    ) -> None:
        """Count a try that gave no replies.

        Raises:
            FatalLLMError: when it was answered at an unknown cost, and there is a budget.
        """
        if isinstance(error, Transient | WrongAnswers) and error.paid:
            for (key, request), reply in zip(batch.items(), error.paid, strict=True):
                counts = tries.counts(key, None)
                self.llm.pay(key, request, reply, seconds, self.count, usable=False, **counts)
            return
        why = Unanswered.LOST
        if isinstance(error, Transient):
            why = error.unanswered
        elif isinstance(error, FatalLLMError):
            why = Unanswered.REFUSED
        for key, request in batch.items():
            counts = tries.counts(key, why)
            self.llm.count_unanswered(key, request, why, seconds, self.count, **counts)


def longest_beginnings_first(requests: Mapping[str, Request]) -> dict[str, Request]:
    """Order requests so that a provider that caches the beginnings of prompts reads least.

    Turns of a conversation show a history that grows: the prompt of its last turn begins as all the
    others do. That one comes first, of every conversation; the others follow, the shortest first,
    so that those that are sent before a last turn is read lose least.

    Example:
        >>> sizes = {"1_1": 1, "1_2": 2, "1_3": 3, "2_1": 1}
        >>> requests = {}
        >>> for turn, size in sizes.items():
        ...     requests[turn] = Request([{"content": "tea? " * size}], "answer", turn)
        >>> list(longest_beginnings_first(requests))
        ['1_3', '2_1', '1_1', '1_2']
    """
    sizes = dict[str, int]()
    longest = dict[tuple[str, str], str]()
    for key, request in requests.items():
        sizes[key] = sum(len(message["content"]) for message in request.messages)
        conversation = request.prompt, request.qid.rpartition("_")[0]
        if conversation not in longest or sizes[key] > sizes[longest[conversation]]:
            longest[conversation] = key
    first = dict.fromkeys(longest.values())
    others = [key for key in requests if key not in first]
    others.sort(key=sizes.__getitem__)
    return {key: requests[key] for key in (*first, *others)}
