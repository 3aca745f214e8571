"""Send the requests of one stage concurrently: each is claimed, retried, counted, cached and paid for as its answer arrives."""

import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os.path import commonprefix
from threading import Event
from typing import Any

from ..completions.usable import usable_text
from ..events import OBSERVERS, follower
from ..progress import bar as bar_of
from .cache import CompletionCache
from .failures import BudgetExceeded, FatalLLMError, LLMFailure, StageEnded, Transient, Unavailable
from .ledger import Budget, Ledger
from .limits import Retry, Stopped, Throttle, Workers
from .request import Backend, Completion, Reply, Request, read

Outcome = Completion | LLMFailure
Batch = list[tuple[str, Request]]
Follow = Callable[[dict[str, Outcome]], dict[str, Request]]

NO_LONGER = 3600.0
"""Seconds that the call of a backend without a time-out may take before others ask the same."""
MORE = 30.0
"""Seconds that a call may take beyond its time-out."""

_SNAPSHOT = re.compile(
    r"[-_@:](?:20\d\d-?(?:0[1-9]|1[0-2])(?:-?(?:0[1-9]|[12]\d|3[01]))?"  # 2024-08-06, 20241022, 202501
    r"|(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])|(?:0[1-9]|1[0-2])-20\d\d"  # 0613, 04-17, 08-2024
    r"|2\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])?)"  # 2411, 250115
)


class OtherModelWarning(UserWarning):
    """The server's model is not the requested one."""


def same_model(asked: str, served: str) -> bool:
    """Whether ``served`` is the requested name, or a dated snapshot of it.

    Example:
        >>> [same_model("gpt-4o", name) for name in ("gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-mini", "gpt-4o-mini-2024-07-18")]
        [True, True, False, False]
    """
    asked, served = asked.casefold(), served.casefold()
    return served == asked or (served.startswith(asked) and _SNAPSHOT.fullmatch(served, len(asked)) is not None)


@dataclass
class BatchSettings:
    """The settings of batches.

    Attributes:
        requests: the most in one batch.
        bytes: the most in one file.
        at_most: what the batches that this process has seen under way may cost, in US dollars, by name.
    """

    requests: int
    bytes: int
    at_most: dict[str, float] = field(default_factory=dict)


class Means:
    """A backend with all that its calls need: account, cache, budget, retries and slots; see `LLM` for the arguments."""

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger | None = None,
        cache: CompletionCache | None = None,
        budget: Budget | None = None,
        retry: Retry | None = None,
        batches: BatchSettings | None = None,
    ) -> None:
        self.backend, self.model = backend, backend.model
        self.ledger = Ledger() if ledger is None else ledger
        self.cache, self.budget, self.retry = cache, budget or Budget(), retry or Retry()
        self.throttle, self.batches = Throttle(backend.concurrency, backend.patience), batches
        self._warned_of: dict[str, object] = {}

    @property
    def kept_in(self) -> str:
        """Where finished calls are kept: in a ``"file"``, in this ``"process"`` only, or nowhere (``""``)."""
        if self.cache is None:
            return "file" if self.backend.replays else ""
        return "process" if self.cache.path == ":memory:" else "file"

    def count(self, key: str, request: Request, **counted: Any) -> None:
        """Count the cost of a request. Replaying makes no calls, and replayed completions are not known by their keys."""
        if self.backend.replays:
            counted = {name: value for name, value in counted.items() if name not in ("calls", "retries", "unanswered")}
        self.ledger.count(request.stage, self.model, key=None if self.backend.replays else key, **counted)

    def check_served(self, served: str | None) -> None:
        """Warn once of each model that answers instead of the requested one. A dated snapshot is the same model."""
        first = object()  # of several threads one tells
        if not served or self.backend.replays or same_model(self.model, served) or self._warned_of.setdefault(served, first) is not first:
            return
        known = f"{served!r} answers instead of {self.model!r}, says the server: the ledger and run.json name it"
        warnings.warn(f"{known}; ask for that model if you want it, or correct base_url", OtherModelWarning, stacklevel=2)


class Sending:
    """Sends distinct requests of one `LLM.ask`, many at a time, except those that others are sending.

    Args:
        llm: who is asked.
        follow: gets what has arrived, by cache key, and gives the distinct requests that follow.
        calls: how many requests the `LLM.ask` has in all, where others follow the first ones.

    Attributes:
        hits: requests of the same `LLM.ask` that are answered already, for the progress bar.
    """

    def __init__(self, llm: Means, follow: Follow = lambda answers: {}, calls: int = 0) -> None:
        self.llm, self.follow, self.calls = llm, follow, calls
        self.stop, self.write = Event(), follower()
        self.hits = self.failed = 0
        self._observers = OBSERVERS.get()  # of the thread that asks
        self._asked: set[str] = set()
        self._costs: list[float] = []
        self._bar: Any = None
        self._known = self._done = self._whole = 0

    def run(self, requests: dict[str, Request]) -> None:
        """Send ``requests``, by cache key, and their follow-ups, and wait for all that others don't send. See `LLM.ask` for the errors."""
        backend = self.llm.backend
        backend.open()
        self._done = self._whole = 0
        label = f"{', '.join(dict.fromkeys(request.stage for request in requests.values()))} ({self.llm.model})"
        total = max(len(requests), self.calls - self.hits)
        ctrl_c: dict[str, Any] = {"interrupted": self._say_waiting, "abandoned": backend.cut}
        workers = Workers(self._batch, self._arrived, threads=backend.concurrency, stop=self.stop, **ctrl_c)
        with bar_of(total=total, desc=label, unit="call", disable=backend.replays) as self._bar:
            self._known = len(requests)
            workers.run(self._batches(requests))
        if workers.error is not None:
            raise self._ended(workers.error, max(total, self._known))
        self.hits += self._done

    def _batches(self, requests: dict[str, Request]) -> list[Batch]:
        items, size = list(requests.items()), self.llm.backend.batch_size
        return [items[start : start + size] for start in range(0, len(items), size)]

    def _arrived(self, outcomes: dict[str, Outcome]) -> list[Batch]:
        """Show what came; gives what follows."""
        failed = sum(isinstance(outcome, LLMFailure) for outcome in outcomes.values())
        self.failed += failed
        self._done += len(outcomes)
        self._whole += len(outcomes) - failed
        self._bar.note(cached=self.hits, failed=self.failed, **self.llm.budget.progress())
        self._bar.update(len(outcomes))
        followers = self.follow(outcomes)
        self._known += len(followers)
        self._bar.total = max(self._bar.total, self._known)
        return self._batches(followers)

    def _ended(self, error: BaseException, total: int) -> BaseException:
        """The error that ended the stage, which says how far that came."""
        if not isinstance(error, Exception | KeyboardInterrupt):  # such as SystemExit, or a panic of a native library
            error = FatalLLMError(f"{self.llm.model} raised {type(error).__name__}: {error}")
        if not isinstance(error, StageEnded):
            return error
        kept = 0 if self.llm.cache is None else self._whole
        if isinstance(error, BudgetExceeded) and self._costs:
            error.about = (total - kept) * sum(self._costs) / len(self._costs)
        error.__traceback__ = error.__context__ = None  # their frames hold the connections
        return error.after(kept, total - kept, self.llm.kept_in)

    def _batch(self, batch: Batch) -> dict[str, Outcome]:
        tries: list[Batch] = []
        try:
            return self.llm.retry.loop(self.stop, self._waits)(self._attempt, batch, tries)
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

    def _waits(self, tries: int) -> None:
        for one in self._observers:
            one.wait(tries, self.llm.retry.tries)

    def _attempt(self, batch: Batch, tries: list[Batch]) -> dict[str, Outcome]:
        with self.llm.throttle.slot() as mark:
            if self.stop.is_set():
                raise Stopped
            try:
                if self.llm.cache is None:  # there is nothing to wait for: what others get is not kept
                    tries.append(batch)
                    return self._call(batch)
                return self._call_unclaimed(self.llm.cache, batch, tries)
            except Transient as error:
                if error.overloaded:
                    self.llm.throttle.shrink(mark)
                raise
            except BaseException:
                # Before the slot is free: whoever waits for it must not send another call into the same wall.
                self.stop.set()
                raise

    def _call_unclaimed(self, cache: CompletionCache, batch: Batch, tries: list[Batch]) -> dict[str, Outcome]:
        """The new completions in the cache, and the answers to requests that others don't send. For the rest, neither."""
        timeout = self.llm.backend.timeout
        with cache.claim([key for key, _ in batch], NO_LONGER if timeout is None else timeout + MORE) as (hits, ours):
            fresh = [(key, request) for key, request in batch if key in ours]
            tries.append(fresh)
            return hits | (self._call(fresh) if fresh else {})

    def _call(self, batch: Batch) -> dict[str, Outcome]:
        llm = self.llm
        llm.budget.check()
        for key, request in batch:
            llm.count(key, request, unanswered=1, **{"retries" if key in self._asked else "calls": 1})
            self._asked.add(key)
        started = llm.retry.clock()
        try:
            replies = self._complete([request for _, request in batch])
        except (FatalLLMError, Transient) as error:
            for key, request in batch if isinstance(error, FatalLLMError) or error.told else ():
                llm.count(key, request, unanswered=-1)
            raise
        seconds = (llm.retry.clock() - started) / len(batch)
        outcomes, errors = dict[str, Outcome](), list[Exception]()
        for (key, request), reply in zip(batch, replies, strict=True):
            try:
                outcomes[key] = self.settle(key, request, reply, seconds, unanswered=-1)
            except Exception as error:  # the others also arrived, and are kept before this is raised
                errors.append(error)
        if errors:
            raise errors[0]
        llm.throttle.grow()
        return outcomes

    def _complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        backend, write = self.llm.backend, self.write
        return backend.complete(requests) if write is None or len(requests) > 1 else [backend.stream(requests[0], write)]

    def settle(self, key: str, request: Request, reply: Reply | LLMFailure, seconds: float, **counted: int) -> Outcome:
        """Keep, count and pay for the answers. They are kept first, so they are never paid for again, whatever fails then.

        Raises:
            FatalLLMError: when its cost isn't known, and there is a budget.
            DataError: when they can't be kept or counted. The other one of the two is still done.
        """
        llm = self.llm
        if isinstance(reply, LLMFailure):
            llm.count(key, request, failures=1, seconds=seconds, **counted)
            return reply
        found, written = read(reply), reply.completion(llm.model, seconds)
        failure, kept = found.failure(request), replace(written, text=found.text)
        try:
            if llm.cache is not None and failure is None and usable_text(found.text):
                first = llm.cache.put(key, written)  # as the model wrote it
                kept = kept if first is written else replace(first, cached=False)
        finally:
            self._pay(key, request, reply, {**counted, "seconds": seconds, "failures": int(failure is not None)})
        llm.check_served(reply.model)
        return failure or kept

    def _pay(self, key: str, request: Request, reply: Reply, counted: Mapping[str, float]) -> None:
        llm, cost = self.llm, self.llm.budget.cost(reply)
        if llm.backend.replays:  # read from the recording, as from a cache
            llm.count(key, request, served=reply.model, known=int(not counted["failures"]), worth=cost, **counted)
            return
        used = {"prompt_tokens": reply.prompt_tokens, "cached_tokens": reply.cached_tokens, "completion_tokens": reply.completion_tokens}
        self._costs.append(cost or 0.0)
        try:
            llm.count(key, request, served=reply.model, cost=cost, **used, **counted)
        finally:
            llm.budget.spend(cost)

    def _say_waiting(self) -> None:
        under_way = self.llm.throttle.busy
        calls = "the call" if under_way == 1 else f"the {under_way} calls"
        print(f"stopping: waiting for {calls} under way; press Ctrl-C again to end at once", file=sys.stderr)


LEAST_SHARED = 64
"""Characters that prompts share beyond what all share, from which on they are of one conversation."""


def longest_beginnings_first(requests: Mapping[str, Request]) -> dict[str, Request]:
    """The requests in the order in which a provider that keeps the beginnings of prompts has to read least.

    Turns of a conversation show a history that grows: the prompt of its last turn begins as all the others do. That one comes first, of
    every conversation; the others follow, the shortest first, so that those that are sent before a last turn is read lose least.

    Example:
        >>> history = "user: Which tea has no caffeine? system: Rooibos has none, and mint and camomile have none either. user: And milk?"
        >>> ends = {"1": 70, "2": 90, "3": 117}
        >>> turns = {turn: Request([{"content": f"# Turns {history[:end]}"}], "s", turn) for turn, end in ends.items()}
        >>> list(longest_beginnings_first(turns | {"other": Request([{"content": "# Turns user: Hi"}], "s", "other")}))
        ['3', 'other', '1', '2']
    """
    if len(requests) < 2:
        return dict(requests)
    texts = {key: "\0".join(message["content"] for message in request.messages) for key, request in requests.items()}
    by_prompt: dict[str, list[str]] = {}
    for key, request in requests.items():
        by_prompt.setdefault(request.prompt, []).append(key)
    longest: dict[tuple[str, str], str] = {}
    for prompt, keys in by_prompt.items():
        of_all = len(commonprefix([texts[key] for key in keys]))
        for key in keys:
            conversation = prompt, texts[key][: of_all + LEAST_SHARED]
            longest[conversation] = max(longest.get(conversation, key), key, key=lambda one: len(texts[one]))
    last = set(longest.values())
    rest = sorted((key for key in requests if key not in last), key=lambda key: len(texts[key]))
    return {key: requests[key] for key in (*(key for key in requests if key in last), *rest)}
