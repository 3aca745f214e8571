"""One way to ask a language model, whatever it runs on: cached, retried, counted and within a budget."""

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Any

import pyterrier as pt

from ..completions.usable import usable_text
from .cache import CompletionCache
from .failures import BudgetExceeded, FatalLLMError, LLMFailure, StageEnded, Transient, Unavailable
from .ledger import Budget, Ledger
from .limits import Retry, Stopped, Throttle, run_all
from .request import Backend, Completion, OtherModelWarning, Reply, Request, as_read, failure_of, of_chain, same_model

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


class LLM:
    """A language model; made by `llm`.

    Two of them are equal when they answer alike: same provider, model, base URL, decoding parameters and ``on_error``. Those made from
    objects with ``.generate`` are equal when the objects are, or their ``identity`` is.

    Args:
        backend: how the model is reached.
        ledger: the account to count in; a new one when None.
        cache: where finished completions are kept; None for nowhere.
        budget: prices and the most US dollars to spend.
        retry: how transient failures are retried.
        on_error: what operators do that do not say it themselves where a call fails: ``"raise"`` or ``"fallback"``.
        text: what ``repr`` shows as the argument of `llm`.

    Attributes:
        ledger: the account.
        model: the model's name.
        spec: what names it, without secrets.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        ledger: Ledger | None = None,
        cache: CompletionCache | None = None,
        budget: Budget | None = None,
        retry: Retry | None = None,
        on_error: str = "raise",
        text: str | None = None,
    ) -> None:
        self.backend, self.model = backend, backend.model
        self.ledger = Ledger() if ledger is None else ledger
        self.cache, self.budget, self.retry = cache, budget or Budget(), retry or Retry()
        self.throttle, self.on_error = Throttle(backend.concurrency), on_error
        self._warned_of: dict[str, object] = {}
        self.spec = backend.model if text is None else text

    @property
    def kept_in(self) -> str:
        """Where finished calls are kept: in a ``"file"``, in this ``"process"`` only, or nowhere (``""``)."""
        if self.cache is None:
            return "file" if self.backend.replays else ""
        return "process" if self.cache.path == ":memory:" else "file"

    def ask(self, requests: Sequence[Request]) -> list[Completion | LLMFailure]:
        """Ask everything, many requests at a time, each distinct one once.

        Several threads and processes may ask at a time: what one of them is asking, the others wait for and read from the cache.

        Returns:
            For each request, in their order, its completion or the failure that is left after all retries.

        Raises:
            FatalLLMError: when no call can succeed (key, model, quota); finished calls are kept.
            BudgetExceeded: when the budget is spent; finished calls are kept.
            DataError: when the cache cannot be used, or recorded completions are missing.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> class Echo:
            ...     def generate(self, chats):
            ...         return [chat[-1]["content"].upper() for chat in chats]
            >>> request = Request([{"role": "user", "content": "hi"}], stage="answer", qid="1_1")
            >>> [completion.text for completion in ikat.llm(Echo()).ask([request])]
            ['HI']
        """
        requests = [of_chain(request) for request in requests]
        keys = [self._key(request, position) for position, request in enumerate(requests)]
        first: dict[str, Request] = {}
        for key, request in zip(keys, requests, strict=True):
            first.setdefault(key, request)
        answers, sent = self._answers(first)
        results = []
        for key, request in zip(keys, requests, strict=True):
            results.append(answers[key] if key in sent else self._again(key, request, answers[key]))
            sent.discard(key)
        return results

    def peek(self, request: Request) -> Completion | None:
        """What is known without a call: the completion in the cache, or in the recorded file, or None. Counts nothing."""
        request = of_chain(request)
        if (reply := self.backend.find(request)) is not None:
            return None if failure_of(request, reply) else as_read(reply.completion(self.model, 0.0))
        key = request.key(self.backend.identity)
        return self._hits([key]).get(key)

    def fingerprint(self) -> dict[str, Any]:
        """What decides its answers."""
        return dict(self.backend.identity)

    def open(self) -> None:
        """Make the client ready, which takes longer than to ask.

        Raises:
            FatalLLMError: when there is no key.
        """
        self.backend.open()

    def close(self) -> None:
        """Close the connections and the cache file; the next call opens them again."""
        self.backend.close()
        if self.cache is not None:
            self.cache.close()

    def check_served(self, served: str | None) -> None:
        """Warn once of each model that answers in the place of the one that was asked for; a dated snapshot of it is the same model."""
        first = object()  # of several threads one tells
        if not served or self.backend.replays or same_model(self.model, served) or self._warned_of.setdefault(served, first) is not first:
            return
        known = f"{served!r} answers in the place of {self.model!r}, says the server: the ledger and run.json name it"
        warnings.warn(f"{known}; ask for that model if you want it, or correct base_url", OtherModelWarning, stacklevel=2)

    def _key(self, request: Request, position: int) -> str:
        return str(position) if self.backend.replays else request.key(self.backend.identity)

    def _answers(self, first: dict[str, Request]) -> tuple[dict[str, Outcome], set[str]]:
        answers, sent, sending = dict[str, Outcome](), set[str](), Sending(self)
        free = list(first)
        while free:
            answers.update(self._hits(free))
            if fresh := {key: first[key] for key in free if key not in answers}:
                sending.hits = len(answers)
                got = sending.run(fresh)
                answers.update(got)
                sent.update(key for key, outcome in got.items() if not (isinstance(outcome, Completion) and outcome.cached))
            left = [key for key in first if key not in answers]
            free = self.cache.wait(left) if left and self.cache is not None else []
        return answers, sent

    def _hits(self, keys: Iterable[str]) -> dict[str, Completion]:
        return {} if self.cache is None else self.cache.get(keys)

    def _again(self, key: str, request: Request, outcome: Outcome) -> Outcome:
        if isinstance(outcome, LLMFailure):
            self.ledger.count(request.stage, self.model, failures=1)
            return type(outcome)(request.stage, request.qid, outcome.reason)
        self.ledger.count(request.stage, self.model, served=outcome.model, key=key, cache_hits=1, worth=self.budget.cost(outcome))
        self.check_served(outcome.model)
        return replace(outcome, cached=True)

    def __copy__(self) -> "LLM":
        return self  # what a copy asks is counted in the same account and paid from the same budget

    def __deepcopy__(self, memo: dict[int, Any]) -> "LLM":
        return self

    def __repr__(self) -> str:
        return f"ikat.llm({self.spec!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LLM) and self.backend == other.backend and self.on_error == other.on_error

    def __hash__(self) -> int:
        return hash(self.backend)
