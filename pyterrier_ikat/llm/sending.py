"""One stage's calls on their way: retried, throttled, counted, and kept as soon as they arrive."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Any

import pyterrier as pt

from .dispatch import Stopped, run_all
from .failures import BudgetExceeded, FatalLLMError, LLMFailure, Transient, Unavailable
from .parsing import spoken
from .request import Completion, Reply, Request, failure_of, spoken_of

if TYPE_CHECKING:
    from .model import LLM

Outcome = Completion | LLMFailure
Batch = list[tuple[str, Request]]

NO_LONGER = 3600.0
"""Seconds that the call of a backend without a time-out may take before others ask the same."""
MORE = 30.0
"""Seconds that a call may take beyond its time-out."""


class Sending:
    """Sends distinct requests of one `LLM.ask`, many at a time; those that others are asking are left to them.

    Args:
        llm: who is asked.
        hits: requests of the same `LLM.ask` that the cache answered, for the progress bar.
    """

    def __init__(self, llm: "LLM", hits: int = 0) -> None:
        self.llm, self.hits = llm, hits
        self.stop = Event()
        self.failed = 0
        self._asked: set[str] = set()
        self._costs: list[float] = []

    def run(self, requests: dict[str, Request]) -> dict[str, Outcome]:
        """Send ``requests``, by cache key, and wait for them; see `LLM.ask` for the errors.

        Returns:
            The outcome of each that no other thread or process is asking.
        """
        if self.llm.cache is not None:
            self.llm.cache.check_writable()
        self.llm.open()
        batches = list(_batches(requests, self.llm.backend.batch_size))
        stages = ", ".join(dict.fromkeys(request.stage for request in requests.values()))
        with pt.tqdm(
            total=len(requests), desc=f"{stages} ({self.llm.model})", unit="call", delay=1, disable=self.llm.backend.replays
        ) as bar:
            results, error = run_all(
                batches,
                self._batch,
                threads=self.llm.backend.concurrency,
                stop=self.stop,
                done=lambda result: self._show(bar, result),
                interrupted=self._say_waiting,
                abandoned=self._cut,
            )
        outcomes = {key: outcome for result in results if result for key, outcome in result.items()}
        if isinstance(error, FatalLLMError | BudgetExceeded):
            kept = outcomes.values() if self.llm.cache is not None else ()
            done = sum(isinstance(outcome, Completion) for outcome in kept)
            left = len(requests) - done
            if isinstance(error, BudgetExceeded):
                error.about = left * sum(self._costs) / len(self._costs) if self._costs else None
            raise error.after(done, left, self.llm.kept_in) from None
        if error is not None:
            raise error
        return outcomes

    def _batch(self, batch: Batch) -> dict[str, Outcome]:
        tries: list[Batch] = []
        try:
            return self.llm.retry.loop(self.stop)(lambda: self._attempt(batch, tries))
        except Transient as error:
            if self.stop.is_set():
                raise Stopped from None
            if error.unreached:
                raise FatalLLMError(
                    f"{error.reason} (it has never answered, {_tried(len(tries))}): start it, or correct base_url=..."
                ) from None
            return {key: self._gave_up(request, error, len(tries)) for key, request in tries[-1]}

    def _attempt(self, batch: Batch, tries: list[Batch]) -> dict[str, Outcome]:
        with self.llm.throttle.slot() as mark:
            if self.stop.is_set():
                raise Stopped
            try:
                with self._claimed(batch) as (hits, fresh):
                    tries.append(fresh)
                    return hits | self._call(fresh) if fresh else hits
            except Transient as error:
                if error.overloaded:
                    self.llm.throttle.shrink(mark)
                raise
            except BaseException:
                # Before the slot is free: whoever waits for it must not send another call into the same wall.
                self.stop.set()
                raise

    @contextmanager
    def _claimed(self, batch: Batch) -> Iterator[tuple[dict[str, Outcome], Batch]]:
        """What got into the cache since we looked, and what nobody else is asking; of the rest, neither."""
        cache = self.llm.cache
        if cache is None:  # there is nothing to wait for: what others get is not kept
            yield {}, batch
            return
        with cache.claims.holding([key for key, _ in batch], self._longest()) as ours:
            hits: dict[str, Outcome] = {key: hit for key in ours if (hit := cache.get(key)) is not None}
            yield hits, [(key, request) for key, request in batch if key in ours and key not in hits]

    def _longest(self) -> float:
        timeout = getattr(self.llm.backend, "timeout", None)
        return NO_LONGER if timeout is None else timeout + MORE

    def _call(self, batch: Batch) -> dict[str, Outcome]:
        llm = self.llm
        llm.budget.check()
        for key, request in batch:
            llm.ledger.count(request.stage, llm.model, key=self._named(key), **{"retries" if key in self._asked else "calls": 1})
            self._asked.add(key)
        started = llm.retry.clock()
        replies = llm.backend.complete([request for _, request in batch])
        seconds = (llm.retry.clock() - started) / len(batch)
        outcomes = {key: self._settle(key, request, reply, seconds) for (key, request), reply in zip(batch, replies, strict=True)}
        llm.throttle.grow()
        return outcomes

    def _named(self, key: str) -> str | None:
        return None if self.llm.backend.replays else key  # what replays is not known by its key, and costs nothing

    def _settle(self, key: str, request: Request, reply: Reply | LLMFailure, seconds: float) -> Outcome:
        llm = self.llm
        if isinstance(reply, LLMFailure):
            llm.ledger.count(request.stage, llm.model, key=self._named(key), failures=1, seconds=seconds)
            return reply
        cost = 0.0 if llm.backend.replays else llm.budget.cost(reply)
        used = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
        failure = failure_of(request, reply)
        spent = {**used, "seconds": seconds, "cost": cost, "failures": int(failure is not None)}
        # before it is kept: what is paid is counted first
        llm.ledger.count(request.stage, llm.model, served=reply.model, key=self._named(key), **spent)
        self._costs.append(cost or 0.0)
        written = completion_of(reply, llm.model, seconds)
        if llm.cache is not None and failure is None and spoken(written.text):
            written = replace(llm.cache.put(key, written), cached=False)
        llm.budget.spend(cost)
        llm.check_served(reply.model)
        return failure or spoken_of(written)

    def _gave_up(self, request: Request, error: Transient, tries: int) -> LLMFailure:
        self.llm.ledger.count(request.stage, self.llm.model, failures=1)
        return Unavailable(request.stage, request.qid, f"{error.reason} (given up after {_tried(tries)})")

    def _say_waiting(self) -> None:
        under_way = self.llm.throttle.busy
        calls = "the call" if under_way == 1 else f"the {under_way} calls"
        pt.tqdm.write(f"stopping: waiting for {calls} under way; press Ctrl-C again to end at once", file=sys.stderr)

    def _cut(self) -> None:
        cut = getattr(self.llm.backend, "cut", None)
        if cut is not None:
            cut()

    def _show(self, bar: Any, result: dict[str, Outcome]) -> None:
        self.failed += sum(isinstance(outcome, LLMFailure) for outcome in result.values())
        bar.set_postfix(cached=self.hits, failed=self.failed, **self.llm.budget.shown(), refresh=False)
        bar.update(len(result))


def completion_of(reply: Reply, model: str, seconds: float) -> Completion:
    """The completion that a usable ``reply`` is, as the model wrote it."""
    tokens = (reply.prompt_tokens, reply.completion_tokens)
    return Completion(reply.text or "", reply.model or model, reply.finish_reason, *tokens, seconds=seconds, cached=False)


def _tried(tries: int) -> str:
    return "1 try" if tries == 1 else f"{tries} tries"


def _batches(requests: dict[str, Request], size: int) -> Iterator[Batch]:
    items = iter(requests.items())
    while batch := list(islice(items, size)):
        yield batch
