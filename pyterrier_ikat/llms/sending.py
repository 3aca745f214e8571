"""Send the requests of one `LLM.ask`: one queue, several threads, and each answer kept, counted and paid for as it arrives."""

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

import tenacity

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
from .pace import LONGEST_WAIT
from .request import Completion, Request
from .streaming import Reader

LOOK = 0.25
"""Seconds between two looks whether whoever asked is still there, while nothing is finished."""
TURNED_AWAY = 3
"""Requests in a row whose every try was answered by 401 or 403, after which a key that was accepted before counts as refused."""
Outcome = Completion | LLMFailure
Then = Callable[[int, Outcome], Request | None]
"""Gives the follow-up for the outcome of the request at a place, or of its last follow-up."""


class Tries:
    """How often some requests were tried, and what each try adds to the columns ``calls``, ``retries`` and ``unanswered``.

    Together these are the requests that were sent: each is a call if it was answered in the end,
    else unanswered, and its further tries are retries.

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
        earlier = self._answered.get(key)
        self._answered[key] = bool(earlier) or why is None
        if earlier is None:
            return {"calls": 1} if why is None else {"unanswered": 1}
        if why is None and not earlier:
            return {"retries": 1, "calls": 1, "unanswered": -1}
        return {"retries": 1}


class Sending:
    """One `LLM.ask`: which requests are open, who waits for each of them, and what follows an answer.

    Args:
        llm: the `LLM` that is asked.
        then: gives what follows an outcome.
        calls: how many requests that makes in all.
    """

    def __init__(self, llm: Any, then: Then | None = None, calls: int = 0) -> None:
        self.llm, self.then, self.calls = llm, then, calls
        write, self._observers = follower(), OBSERVERS.get()  # of the thread that asks
        self._reader = None if write is None else Reader(write)
        self._exchanges = defaultdict[int, list[Exchange]](list)
        self._answers: dict[str, Outcome] = {}
        self._waiting: dict[str, list[tuple[int, Request]]] = {}
        self._numbers = count()
        self._todo = SimpleQueue[dict[str, Request] | None]()
        self._done = SimpleQueue[dict[str, Outcome] | BaseException]()
        self._stop, self._answered, self._finished = Event(), Event(), list[Outcome]()
        self._spend, self._lock = Spend(), Lock()

    def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """Ask; see `LLM.ask`."""
        check_asker()
        exchanges = list[Exchange]()
        try:
            fresh = self._add(enumerate(requests))
            if fresh:
                self.llm.backend.open()
                self.send(fresh)
            for place in range(len(requests)):
                exchanges += self._exchanges[place]
        finally:
            tell(self.llm, exchanges, self._spend)
            self.llm.lengths.warn()
        return [self._exchanges[place][-1][1] for place in range(len(requests))]

    def count(self, stage: str, model: str, **counted: Any) -> None:
        """Add to the account of the model, as `Ledger.count` does, and to what this ask costs."""
        more = Spend(
            **{one.name: counted[one.name] for one in fields(Spend) if one.name in counted}
        )
        with self._lock:
            self._spend += more
        self.llm.ledger.count(stage, model, **counted)

    def send(self, fresh: dict[str, Request]) -> None:
        """Send requests and their follow-ups, and wait for all of them."""
        llm, backend, spent = self.llm, self.llm.backend, self.llm.budget.spent
        label = (
            f"{', '.join(dict.fromkeys(request.stage for request in fresh.values()))} ({llm.model})"
        )
        ordered = (
            longest_beginnings_first(fresh)
            if backend.keeps_beginnings and len(fresh) > 1
            else fresh
        )
        with (
            llm.cache.asking() if llm.cache else nullcontext(True) as first,
            bar_of(
                total=max(len(fresh), self.calls - len(self._answers)),
                desc=label,
                unit="call",
                disable=backend.replays,
            ) as bar,
        ):
            try:
                self._collect(ordered if first else dict(reversed(ordered.items())), bar)
            except StageEnded as error:
                done = sum(isinstance(one, Completion) for one in self._finished)
                if isinstance(error, BudgetExceeded) and done:
                    error.about = (int(bar.total or 0) - done) * (llm.budget.spent - spent) / done
                kept = done if llm.cache else 0
                raise error.after(kept, int(bar.total or 0) - kept, llm.kept_in) from None

    def _add(self, asked: Iterable[tuple[int, Request]]) -> dict[str, Request]:
        """Let places wait for the answers to requests, and give them those that are known. Returns the requests still to be asked."""
        fresh = dict[str, Request]()
        while asked:
            known, new = dict[str, Outcome](), dict[str, Request]()
            for place, request in asked:
                key = (
                    str(next(self._numbers))
                    if self.llm.backend.replays
                    else request.key(self.llm.backend.identity)
                )
                if key in self._answers:
                    known[key] = self._answers[key]
                elif key not in self._waiting:
                    new[key] = request
                self._waiting.setdefault(key, []).append((place, request))
            for key, outcome in self.llm.kept(new).items():
                if isinstance(outcome, LLMFailure):
                    self.count(new[key].stage, self.llm.model, failures=1)
                known[key] = outcome
            fresh.update((key, request) for key, request in new.items() if key not in known)
            asked = self._give(known)
        return fresh

    def _give(self, outcomes: Mapping[str, Outcome]) -> list[tuple[int, Request]]:
        """Give outcomes to the places that wait for them. Returns their follow-ups."""
        followers = list[tuple[int, Request]]()
        for key, outcome in outcomes.items():
            known = key in self._answers or (isinstance(outcome, Completion) and outcome.cached)
            self._answers[key] = outcome
            for place, request in self._waiting.pop(key):
                result = self._again(key, request, outcome) if known else outcome
                known = True
                self._exchanges[place].append((request, result))
                if self.then is not None and (following := self.then(place, result)) is not None:
                    followers.append((place, following))
        return followers

    def _again(self, key: str, request: Request, outcome: Outcome) -> Outcome:
        """A known outcome, counted for one more request."""
        stage, model, worth = request.stage, self.llm.model, None
        if isinstance(outcome, LLMFailure):
            self.count(stage, model, failures=1)
            return type(outcome)(stage, request.qid, outcome.reason, kept=outcome.kept)
        worth = self.llm.budget.cost(outcome)
        self.count(stage, model, served=outcome.model, key=key, known=1, worth=worth)
        self.llm.note_length(request, outcome)
        self.llm.check_served(outcome.model)
        return replace(outcome, cached=True)

    def _collect(self, fresh: dict[str, Request], bar: Any) -> None:
        """Queue requests and their follow-ups, and wait until nothing is open.

        Raises:
            KeyboardInterrupt: after the calls under way are finished; at the second one at once.
            AskerLeft: after the calls under way are finished.
        """
        llm, size, hits, left, failed = (
            self.llm,
            self.llm.backend.batch_size,
            len(self._answers),
            0,
            0,
        )
        threads = []
        for place in range(min(llm.backend.concurrency, math.ceil(len(fresh) / size))):
            target = partial(
                copy_context().run, self._serve, place == 0
            )  # it works for whom this thread works
            # A daemon: the program's end does not wait for it, since a second Ctrl-C must end it.
            threads.append(Thread(target=target, name=f"ikat-llm_{place}", daemon=True))
        for thread in threads:
            thread.start()
        try:
            while fresh or left:
                items = list(fresh.items())
                for start in range(0, len(items), size):
                    self._todo.put(dict(items[start : start + size]))
                    left += 1
                found, left = self._next(), left - 1
                if isinstance(found, BaseException):
                    raise found.with_traceback(None)  # its frames hold the connections
                fresh = self._add(self._give(found))
                bar.total = max(bar.total, bar.n + len(found) + len(fresh))
                failed += sum(isinstance(one, LLMFailure) for one in found.values())
                bar.update(
                    len(found),
                    cached=hits,
                    failed=failed,
                    cost=f"${llm.budget.spent:.4f}" * (llm.budget.spent > 0),
                )
        except (
            KeyboardInterrupt
        ):  # a second one leaves without a wait, also while this line is printed
            self._stop.set()
            print(
                "stopping: waiting for the calls under way; press Ctrl-C again to end at once",
                file=sys.stderr,
            )
            self._end(threads)
            raise
        except BaseException:
            self._end(threads)
            raise
        self._end(threads)

    def _end(self, threads: Sequence[Thread]) -> None:
        """Begin no further call, and wait for those under way."""
        self._stop.set()
        for _ in threads:
            self._todo.put(None)
        for thread in threads:
            thread.join()

    def _next(self) -> dict[str, Outcome] | BaseException:
        """What is finished next.

        Raises:
            AskerLeft: when whoever asked has left.
        """
        found = None
        while found is None:
            with suppress(Empty):
                found = self._done.get(timeout=LOOK if may_leave() else None)
            check_asker()  # a thread that saw that they left has asked nothing
        return found

    @property
    def _over(self) -> bool:
        """Whether no further call may begin."""
        return self._stop.is_set() or has_left()

    def _serve(self, first: bool) -> None:
        """Work on tasks. The first call is on its way alone for a moment, so that a wrong key or name costs one call."""
        if not (first or self.llm.reached):
            self._answered.wait(self.llm.backend.patience)
        while (batch := self._todo.get()) is not None:
            found: dict[str, Outcome] | BaseException = {}
            try:
                if not self._over:
                    found = self._attempt(batch)
                    self._finished += found.values()
                    if self._reader is not None and self._reader.error is not None:
                        raise self._reader.error
            except BaseException as error:
                self._stop.set()  # before anybody else begins a call
                found = error
            self._answered.set()
            self._done.put(found)

    def _attempt(self, batch: dict[str, Request]) -> dict[str, Outcome]:
        """The outcomes of some requests, tried as often as is allowed. Without those that were not sent because the stage ended."""
        llm, found, tries = self.llm, dict[str, Outcome](), Tries()

        def waits(number: int) -> None:
            for one in self._observers:
                one.wait(number, llm.retry.tries)

        try:
            llm.retry.loop(self._stop, waits, is_paced=True)(lambda: self._try(batch, found, tries))
        except Transient as error:
            tried = counted(tries.number, "try")
            if error.unreached:
                raise FatalLLMError(
                    f"{error.reason} (it has never answered, {tried}): start it, or correct base_url=..."
                ) from None
            if error.lasting:
                llm.turned_away += 1
                if llm.turned_away >= TURNED_AWAY:
                    raise FatalLLMError(error.lasting) from None
            for key, request in batch.items() if not self._over else ():
                if key not in found:
                    self.count(request.stage, llm.model, failures=1)
                    found[key] = Unavailable(
                        request.stage, request.qid, f"{error.reason} (given up after {tried})"
                    )
        return found

    def _try(self, batch: dict[str, Request], found: dict[str, Outcome], tries: Tries) -> None:
        """Add the outcomes of requests to those that are known."""
        llm = self.llm
        found.update(llm.kept(batch))  # another process may have asked meanwhile
        fresh = {key: request for key, request in batch.items() if key not in found}
        if not fresh or self._over:
            return
        with llm.pace.call(
            llm.retry.max_seconds, llm.retry.sleeping(self._stop), lambda: self._over
        ):
            if self._over:
                return
            llm.budget.check()
            tries.number += 1
            requests, started = list(fresh.values()), time.perf_counter()
            try:
                if self._reader is None or len(requests) > 1:
                    replies = llm.backend.complete(requests)
                else:
                    replies = [llm.backend.stream(requests[0], self._reader)]
            except AskerLeft:  # before the model was asked
                raise
            except BaseException as error:
                if not llm.backend.replays:
                    self._count_failed(
                        fresh, error, (time.perf_counter() - started) / len(fresh), tries
                    )
                raise
        llm.reached, seconds = True, (time.perf_counter() - started) / len(fresh)
        llm.turned_away = 0
        errors = list[Exception]()
        for (key, request), reply in zip(fresh.items(), replies, strict=True):
            why = reply.unanswered if isinstance(reply, LLMFailure) else None
            try:
                found[key] = llm.settle(
                    key, request, reply, seconds, self.count, **tries.counts(key, why)
                )
            except (
                Exception
            ) as error:  # the others arrived, too, and are kept before this is raised
                errors.append(error)
        if errors:
            raise errors[0]

    def _count_failed(
        self, batch: Mapping[str, Request], error: BaseException, seconds: float, tries: Tries
    ) -> None:
        """Count a try that gave no replies.

        Raises:
            FatalLLMError: when it was answered at an unknown cost, and there is a budget.
        """
        if isinstance(error, Transient | WrongAnswers) and error.paid:
            for (key, request), reply in zip(batch.items(), error.paid, strict=True):
                self.llm.pay(
                    key,
                    request,
                    reply,
                    seconds,
                    self.count,
                    usable=False,
                    **tries.counts(key, None),
                )
            return
        why = Unanswered.LOST
        if isinstance(error, Transient):
            why = error.unanswered
        elif isinstance(error, FatalLLMError):
            why = Unanswered.REFUSED
        for key, request in batch.items():
            self.llm.count_unanswered(
                key, request, why, seconds, self.count, **tries.counts(key, why)
            )


def longest_beginnings_first(requests: Mapping[str, Request]) -> dict[str, Request]:
    """The requests in the order in which a provider that keeps the beginnings of prompts has to read least.

    Turns of a conversation show a history that grows: the prompt of its last turn begins as all the
    others do. That one comes first, of every conversation; the others follow, the shortest first,
    so that those that are sent before a last turn is read lose least.

    Example:
        >>> sizes = {"1_1": 1, "1_2": 2, "1_3": 3, "2_1": 1}
        >>> list(longest_beginnings_first({turn: Request([{"content": "tea? " * size}], "s", turn) for turn, size in sizes.items()}))
        ['1_3', '2_1', '1_1', '1_2']
    """
    sizes = {
        key: sum(len(message["content"]) for message in request.messages)
        for key, request in requests.items()
    }
    longest: dict[tuple[str, str], str] = {}
    for key, request in requests.items():
        conversation = request.prompt, request.qid.rpartition("_")[0]
        longest[conversation] = max(longest.get(conversation, key), key, key=sizes.__getitem__)
    first = set(longest.values())
    rest = sorted((key for key in requests if key not in first), key=sizes.__getitem__)
    return {key: requests[key] for key in (*longest.values(), *rest)}


FIRST_ANSWER = 10.0
"""Seconds after which no call is retried if the server has never answered. Its address is probably wrong. A try takes 5 seconds."""
_backoff = tenacity.wait_exponential_jitter(initial=1, max=LONGEST_WAIT, jitter=1)


@dataclass(frozen=True)
class Retry:
    """How transient failures are retried.

    A server that has never answered is given up within 15 seconds. Calls to other servers are
    retried up to the limits below. The wait doubles from 1 second, with jitter, or it is what the
    server asks for, up to 60 seconds. A server that is asked too often (429) gets the wait that it
    asks for, and the try doesn't count.

    Attributes:
        tries: the number of attempts at one call, including the first, and without those that were
            answered by 429.
        max_seconds: the most seconds that one call waits between its attempts, all waits added up.
        sleep: how to wait. None waits in a way that lets an interrupted run end at once.
    """

    tries: int = 6
    max_seconds: float = 600.0
    sleep: Callable[[float], None] | None = None

    def sleeping(self, stop: Event) -> Callable[[float], object]:
        """How to wait, until ``stop`` is set."""
        return self.sleep or stop.wait

    def loop(
        self, stop: Event, waits: Callable[[int], None] | None = None, is_paced: bool = False
    ) -> tenacity.Retrying:
        """A retry loop for one call.

        Args:
            stop: once set, nothing is retried.
            waits: gets the number of tries that count so far, before each wait.
            is_paced: whether the call itself waits after a 429 (see `Pace`).
        """
        spent = _Spent()

        def sleep(seconds: float) -> None:
            if seconds:
                self.sleeping(stop)(seconds)

        def wait(state: tenacity.RetryCallState) -> float:
            error = _error_of(state)
            if not error.limited:
                return (
                    _backoff(state)
                    if error.retry_after is None
                    else min(error.retry_after, LONGEST_WAIT)
                )
            asked = _backoff(state) if error.retry_after is None else error.retry_after
            spent.limited += asked
            return 0.0 if is_paced else asked

        def is_last(state: tenacity.RetryCallState) -> bool:
            error = _error_of(state)
            spent.tries += not error.limited
            if spent.tries >= self.tries:
                return True
            waited = state.idle_for + state.upcoming_sleep
            if error.unreached:
                return (
                    max(waited, (state.seconds_since_start or 0) + state.upcoming_sleep)
                    > FIRST_ANSWER
                )
            return max(waited, spent.limited) > self.max_seconds

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Transient),
            wait=wait,
            stop=tenacity.stop_any(tenacity.stop_when_event_set(stop), is_last),  # type: ignore[arg-type]
            sleep=sleep,
            before_sleep=None if waits is None else lambda state: waits(spent.tries),
            reraise=True,
        )


@dataclass
class _Spent:
    """What one call has spent: its tries, and the seconds that a server which is asked too often wanted it to wait."""

    tries: int = 0
    limited: float = 0.0


def _error_of(state: tenacity.RetryCallState) -> Transient:
    return state.outcome.exception()  # type: ignore[union-attr, return-value]
