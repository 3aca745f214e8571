"""Sends the requests of one stage, many at a time: claimed, retried, counted, kept and paid as their answers arrive."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

import pyterrier as pt

from ..completions.usable import usable_text
from .failures import BudgetExceeded, FatalLLMError, LLMFailure, StageEnded, Transient, Unavailable
from .limits import Stopped, run_all
from .request import Completion, Reply, Request, as_read, failure_of

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
        self.llm.open()
        items, size = list(requests.items()), self.llm.backend.batch_size
        batches = [items[start : start + size] for start in range(0, len(items), size)]
        label = f"{', '.join(dict.fromkeys(request.stage for request in requests.values()))} ({self.llm.model})"
        with pt.tqdm(total=len(requests), desc=label, unit="call", delay=1, disable=self.llm.backend.replays) as bar:
            results, error = run_all(
                batches,
                self._batch,
                threads=self.llm.backend.concurrency,
                stop=self.stop,
                done=lambda result: self._show(bar, result),
                interrupted=self._say_waiting,
                abandoned=self.llm.backend.cut,
            )
        outcomes = {key: outcome for result in results if result for key, outcome in result.items()}
        if isinstance(error, StageEnded):
            done = sum(isinstance(outcome, Completion) for outcome in outcomes.values()) if self.llm.cache is not None else 0
            left = len(requests) - done
            if isinstance(error, BudgetExceeded) and self._costs:
                error.about = left * sum(self._costs) / len(self._costs)
            error.__traceback__ = error.__context__ = None  # their frames hold the connections
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
            tried = "1 try" if len(tries) == 1 else f"{len(tries)} tries"
            if error.unreached:
                reason = f"{error.reason} (it has never answered, {tried}): start it, or correct base_url=..."
                raise FatalLLMError(reason) from None
            for _, request in tries[-1]:
                self.llm.ledger.count(request.stage, self.llm.model, failures=1)
            reason = f"{error.reason} (given up after {tried})"
            return {key: Unavailable(request.stage, request.qid, reason) for key, request in tries[-1]}

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
        timeout = self.llm.backend.timeout
        seconds = NO_LONGER if timeout is None else timeout + MORE
        with cache.claim([key for key, _ in batch], seconds) as (hits, ours):
            yield dict[str, Outcome](hits), [(key, request) for key, request in batch if key in ours]

    def _call(self, batch: Batch) -> dict[str, Outcome]:
        llm = self.llm
        llm.budget.check()
        for key, request in batch:
            llm.ledger.count(request.stage, llm.model, key=self._named(key), **{"retries" if key in self._asked else "calls": 1})
            self._asked.add(key)
        started = llm.retry.clock()
        replies = llm.backend.complete([request for _, request in batch])
        seconds = (llm.retry.clock() - started) / len(batch)
        outcomes = {key: self.settle(key, request, reply, seconds) for (key, request), reply in zip(batch, replies, strict=True)}
        llm.throttle.grow()
        return outcomes

    def _named(self, key: str) -> str | None:
        return None if self.llm.backend.replays else key  # what replays is not known by its key, and costs nothing

    def settle(self, key: str, request: Request, reply: Reply | LLMFailure, seconds: float) -> Outcome:
        """Count, keep and pay what was answered.

        Raises:
            FatalLLMError: when its cost isn't known, and there is a budget.
        """
        llm = self.llm
        if isinstance(reply, LLMFailure):
            llm.ledger.count(request.stage, llm.model, key=self._named(key), failures=1, seconds=seconds)
            return reply
        cost = 0.0 if llm.backend.replays else llm.budget.cost(reply)
        failure = failure_of(request, reply)
        used = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens, "failures": int(failure is not None)}
        # before it is kept: what is paid is counted first
        llm.ledger.count(request.stage, llm.model, served=reply.model, key=self._named(key), seconds=seconds, cost=cost, **used)
        self._costs.append(cost or 0.0)
        written = reply.completion(llm.model, seconds)
        if llm.cache is not None and failure is None and usable_text(written.text):
            written = replace(llm.cache.put(key, written), cached=False)
        llm.budget.spend(cost)
        llm.check_served(reply.model)
        return failure or as_read(written)

    def _say_waiting(self) -> None:
        under_way = self.llm.throttle.busy
        calls = "the call" if under_way == 1 else f"the {under_way} calls"
        pt.tqdm.write(f"stopping: waiting for {calls} under way; press Ctrl-C again to end at once", file=sys.stderr)

    def _show(self, bar: Any, result: dict[str, Outcome]) -> None:
        self.failed += sum(isinstance(outcome, LLMFailure) for outcome in result.values())
        bar.set_postfix(cached=self.hits, failed=self.failed, **self.llm.budget.progress(), refresh=False)
        bar.update(len(result))
