"""Send the requests of one stage concurrently: each is claimed, retried, counted, cached and paid for as its answer arrives."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from os.path import commonprefix
from threading import Event
from typing import TYPE_CHECKING, Any

import pyterrier as pt

from ..completions.usable import usable_text
from ..events import Exchange, tell
from ..progress import bar as bar_of
from .failures import BudgetExceeded, FatalLLMError, LLMFailure, StageEnded, Transient, Unavailable
from .limits import Stopped, Workers
from .request import Completion, Reply, Request, as_read, failure_of, of_chain

if TYPE_CHECKING:
    from .model import LLM

Outcome = Completion | LLMFailure
Batch = list[tuple[str, Request]]
Then = Callable[[int, Outcome], Request | None]
"""What follows the outcome of the request at a place, or of the one that followed it before."""
Follow = Callable[[dict[str, Outcome]], dict[str, Request]]

NO_LONGER = 3600.0
"""Seconds that the call of a backend without a time-out may take before others ask the same."""
MORE = 30.0
"""Seconds that a call may take beyond its time-out."""


class Sending:
    """Sends distinct requests of one `LLM.ask`, many at a time; those that others are asking are left to them.

    Args:
        llm: who is asked.
        hits: requests of the same `LLM.ask` that the cache answered, for the progress bar.
        follow: gets what has arrived, by cache key, and gives the distinct requests that follow.
        calls: how many requests the `LLM.ask` has in all, where others follow the first ones.
    """

    def __init__(self, llm: "LLM", hits: int = 0, follow: Follow = lambda answers: {}, calls: int = 0) -> None:
        self.llm, self.hits, self.follow, self.calls = llm, hits, follow, calls
        self.stop = Event()
        self.failed = 0
        self._asked: set[str] = set()
        self._costs: list[float] = []

    def run(self, requests: dict[str, Request]) -> dict[str, Outcome]:
        """Send ``requests``, by cache key, and what follows, and wait for them; see `LLM.ask` for the errors.

        Returns:
            The outcome of each that no other thread or process is asking.
        """
        self.llm.open()
        outcomes = dict[str, Outcome]()
        label = f"{', '.join(dict.fromkeys(request.stage for request in requests.values()))} ({self.llm.model})"
        known, total = dict(requests), max(len(requests), self.calls - self.hits)
        with bar_of(total=total, desc=label, unit="call", delay=1, disable=self.llm.backend.replays) as bar:

            def done(result: dict[str, Outcome]) -> list[Batch]:
                outcomes.update(result)
                self._show(bar, result)
                followers = self.follow(result)
                known.update(followers)
                bar.total = max(bar.total, len(known))
                return self._batches(followers)

            waits = {"interrupted": self._say_waiting, "abandoned": self.llm.backend.cut}
            workers = Workers(self._batch, done, threads=self.llm.backend.concurrency, stop=self.stop, **waits)
            workers.run(self._batches(requests))
        error = workers.error
        if error is not None and not isinstance(error, Exception | KeyboardInterrupt):  # such as SystemExit, or a panic of a native library
            error = FatalLLMError(f"{self.llm.model} raised {type(error).__name__}: {error}")
        if isinstance(error, StageEnded):
            kept = sum(isinstance(outcome, Completion) for outcome in outcomes.values()) if self.llm.cache is not None else 0
            left = max(total, len(known)) - kept
            if isinstance(error, BudgetExceeded) and self._costs:
                error.about = left * sum(self._costs) / len(self._costs)
            error.__traceback__ = error.__context__ = None  # their frames hold the connections
            raise error.after(kept, left, self.llm.kept_in) from None
        if error is not None:
            raise error
        self.hits += len(outcomes)
        return outcomes

    def _batches(self, requests: dict[str, Request]) -> list[Batch]:
        items, size = list(requests.items()), self.llm.backend.batch_size
        return [items[start : start + size] for start in range(0, len(items), size)]

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
            llm.ledger.count(
                request.stage, llm.model, key=self._named(key), unanswered=1, **{"retries" if key in self._asked else "calls": 1}
            )
            self._asked.add(key)
        started = llm.retry.clock()
        try:
            replies = llm.backend.complete([request for _, request in batch])
        except (FatalLLMError, Transient) as error:
            for key, request in batch if isinstance(error, FatalLLMError) or error.told else ():
                llm.ledger.count(request.stage, llm.model, key=self._named(key), unanswered=-1)
            raise
        seconds = (llm.retry.clock() - started) / len(batch)
        outcomes, errors = dict[str, Outcome](), list[Exception]()
        for (key, request), reply in zip(batch, replies, strict=True):
            try:
                outcomes[key] = self.settle(key, request, reply, seconds, unanswered=-1)
            except Exception as error:  # the others came, too, and are kept before it is told
                errors.append(error)
        if errors:
            raise errors[0]
        llm.throttle.grow()
        return outcomes

    def _named(self, key: str) -> str | None:
        return None if self.llm.backend.replays else key  # what replays is not known by its key, and costs nothing

    def settle(self, key: str, request: Request, reply: Reply | LLMFailure, seconds: float, **counted: int) -> Outcome:
        """Keep, count and pay what was answered. It is kept first: whatever fails then, nobody pays for it again.

        Raises:
            FatalLLMError: when its cost isn't known, and there is a budget.
            DataError: when it can't be kept or counted; the other of both is done.
        """
        llm = self.llm
        if isinstance(reply, LLMFailure):
            llm.ledger.count(request.stage, llm.model, key=self._named(key), failures=1, seconds=seconds, **counted)
            return reply
        written, failure = reply.completion(llm.model, seconds), failure_of(request, reply)
        try:
            if llm.cache is not None and failure is None and usable_text(as_read(written).text):
                written = replace(llm.cache.put(key, written), cached=False)
        finally:
            self._count(key, request, reply, {**counted, "seconds": seconds, "failures": int(failure is not None)})
        llm.check_served(reply.model)
        return failure or as_read(written)

    def _count(self, key: str, request: Request, reply: Reply, counted: Mapping[str, float]) -> None:
        llm = self.llm
        cost = 0.0 if llm.backend.replays else llm.budget.cost(reply)
        used = {"prompt_tokens": reply.prompt_tokens, "cached_tokens": reply.cached_tokens, "completion_tokens": reply.completion_tokens}
        self._costs.append(cost or 0.0)
        try:
            llm.ledger.count(request.stage, llm.model, served=reply.model, key=self._named(key), cost=cost, **used, **counted)
        finally:
            llm.budget.spend(cost)

    def _say_waiting(self) -> None:
        under_way = self.llm.throttle.busy
        calls = "the call" if under_way == 1 else f"the {under_way} calls"
        pt.tqdm.write(f"stopping: waiting for {calls} under way; press Ctrl-C again to end at once", file=sys.stderr)

    def _show(self, bar: Any, result: dict[str, Outcome]) -> None:
        self.failed += sum(isinstance(outcome, LLMFailure) for outcome in result.values())
        bar.set_postfix(cached=self.hits, failed=self.failed, **self.llm.budget.progress(), refresh=False)
        bar.update(len(result))


class Asking:
    """One `LLM.ask`: which requests are open, who waits for each of them, and what follows an answer.

    Args:
        llm: who is asked.
        requests: the first ones.
        then: gives what follows them.
        calls: how many that makes in all.
    """

    def __init__(self, llm: "LLM", requests: Sequence[Request], then: Then | None, calls: int) -> None:
        self.llm, self.then, self.calls = llm, then, calls
        self._results: dict[int, Outcome] = {}
        self._exchanges: dict[int, list[Exchange]] = {}
        self._answers: dict[str, Outcome] = {}
        self._open: dict[str, list[tuple[int, Request]]] = {}
        self._repeats: list[tuple[str, Request, Outcome]] = []
        self._numbers = count()
        for place, request in enumerate(requests):
            self._add(place, of_chain(request))

    def run(self) -> list[Outcome]:
        """Ask; see `LLM.ask`."""
        sending = self.llm.sending(self._follow, self.calls)
        free = list(self._open)
        while free:
            while hits := self.llm.hits(free):
                sending.hits += len(hits)
                followers = self._follow(dict(hits))
                free = [*(key for key in free if key not in hits), *followers]
            if free:
                fresh = {key: self._open[key][0][1] for key in free}
                sending.run(longest_beginnings_first(fresh) if self.llm.backend.keeps_beginnings else fresh)
            free = self.llm.cache.wait(list(self._open)) if self._open and self.llm.cache is not None else []
        for key, request, outcome in self._repeats:  # once nothing can end the stage: what an ended one did not give is not counted
            self.llm.count_repeat(key, request, outcome)
        tell(self.llm, [exchange for place in sorted(self._exchanges) for exchange in self._exchanges[place]])
        return [self._results[place] for place in range(len(self._results))]

    def _add(self, place: int, request: Request) -> tuple[str, bool]:
        """Let a place wait for the answer to a request; gives its key, and whether nobody has asked it yet."""
        key = str(next(self._numbers)) if self.llm.backend.replays else request.key(self.llm.backend.identity)
        fresh = key not in self._open and key not in self._answers
        self._open.setdefault(key, []).append((place, request))
        return key, fresh

    def _follow(self, answers: Mapping[str, Outcome]) -> dict[str, Request]:
        """Give answers to whoever waits for them; gives the requests that follow and are still to be asked."""
        followers = dict[str, Request]()
        known = [(key, outcome, isinstance(outcome, Completion) and outcome.cached) for key, outcome in answers.items()]
        for key, outcome, repeated in known:  # it grows: what follows may be answered already
            self._answers[key] = outcome
            for place, request in self._open.pop(key, []):
                self._results[place] = self._again(key, request, outcome) if repeated else outcome
                repeated = True
                self._exchanges.setdefault(place, []).append((request, self._results[place]))
                follower = self.then and self.then(place, self._results[place])
                if follower:
                    following, fresh = self._add(place, of_chain(follower))
                    if fresh:
                        followers[following] = self._open[following][0][1]
                    elif following in self._answers:
                        known.append((following, self._answers[following], True))
        return followers

    def _again(self, key: str, request: Request, outcome: Outcome) -> Outcome:
        self._repeats.append((key, request, outcome))
        if isinstance(outcome, LLMFailure):
            return type(outcome)(request.stage, request.qid, outcome.reason, kept=outcome.kept)
        return replace(outcome, cached=True)


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
