"""Send the requests of one `LLM.ask`: one queue, several threads, and each answer kept, counted and paid for as it arrives."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from os.path import commonprefix
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from ..errors import counted
from ..events import OBSERVERS, Exchange, follower, tell
from ..progress import bar as bar_of
from .failures import BudgetExceeded, FatalLLMError, LLMFailure, StageEnded, Transient, Unavailable
from .request import Completion, Request, of_chain

if TYPE_CHECKING:
    from .model import LLM

Outcome = Completion | LLMFailure
Then = Callable[[int, Outcome], Request | None]
"""Gives the follow-up for the outcome of the request at a place, or of its last follow-up."""


class Sending:
    """One `LLM.ask`: which requests are open, who waits for each of them, and what follows an answer.

    Args:
        llm: who is asked.
        then: gives what follows an outcome.
        calls: how many requests that makes in all.
    """

    def __init__(self, llm: "LLM", then: Then | None = None, calls: int = 0) -> None:
        self.llm, self.then, self.calls = llm, then, calls
        self.stop, self.error = Event(), list[BaseException]()
        self.write, self._observers = follower(), OBSERVERS.get()  # of the thread that asks
        self._results: dict[int, Outcome] = {}
        self._exchanges: dict[int, list[Exchange]] = {}
        self._answers: dict[str, Outcome] = {}
        self._waiting: dict[str, list[tuple[int, Request]]] = {}
        self._repeats: list[tuple[str, Request, Outcome]] = []
        self._numbers = count()
        self._tasks = SimpleQueue[list[tuple[str, Request]] | None]()
        self._arrived = SimpleQueue[dict[str, Outcome]]()
        self._answered, self._under_way = Event(), set[int]()

    def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """Ask; see `LLM.ask`."""
        llm = self.llm
        if fresh := self._add(list(enumerate(requests))):
            llm.backend.open()
            self.send(fresh)
        for key, request, outcome in self._repeats:  # an ended stage counts nothing that it did not return
            if isinstance(outcome, LLMFailure):
                llm.ledger.count(request.stage, llm.model, failures=1)
            else:
                llm.ledger.count(request.stage, llm.model, served=outcome.model, key=key, known=1, worth=llm.budget.cost(outcome))
                llm.check_served(outcome.model)
        tell(llm, [exchange for place in sorted(self._exchanges) for exchange in self._exchanges[place]])
        return [self._results[place] for place in range(len(self._results))]

    def send(self, fresh: dict[str, Request]) -> None:
        """Send requests and their follow-ups, and wait for all of them."""
        llm, backend = self.llm, self.llm.backend
        hits, spent = len(self._answers), llm.budget.spent
        label = f"{', '.join(dict.fromkeys(request.stage for request in fresh.values()))} ({llm.model})"
        ordered = longest_beginnings_first(fresh) if backend.keeps_beginnings and len(fresh) > 1 else fresh
        some = range(min(backend.concurrency, -(-len(fresh) // backend.batch_size)))
        # Daemons: the program's end does not wait for them, since a second Ctrl-C must end it.
        threads = [Thread(target=self._serve, args=(place == 0,), name=f"ikat-llm_{place}", daemon=True) for place in some]
        with llm.cache.asking() if llm.cache else nullcontext(True) as first:
            total = max(len(fresh), self.calls - hits)
            with bar_of(total=total, desc=label, unit="call", disable=backend.replays) as bar:
                done = self._collect(ordered if first else dict(reversed(ordered.items())), threads, bar, hits)
        if self.error:
            raise self._ended(self.error[0], done, bar.total, llm.budget.spent - spent)

    def _add(self, asked: Sequence[tuple[int, Request]]) -> dict[str, Request]:
        """Let places wait for the answers to requests, and give them those that are known. Returns the requests still to be asked."""
        fresh = dict[str, Request]()
        while asked:
            known, new = dict[str, Outcome](), dict[str, Request]()
            for place, given in asked:
                request = of_chain(given)
                key = str(next(self._numbers)) if self.llm.backend.replays else request.key(self.llm.backend.identity)
                if key in self._answers:
                    known[key] = self._answers[key]
                elif key not in self._waiting:
                    new[key] = request
                self._waiting.setdefault(key, []).append((place, request))
            if self.llm.cache is not None:
                known.update(self.llm.cache.get(new))
            fresh.update((key, request) for key, request in new.items() if key not in known)
            asked = self._give(known)
        return fresh

    def _give(self, outcomes: Mapping[str, Outcome]) -> list[tuple[int, Request]]:
        """Give outcomes to the places that wait for them. Returns their follow-ups."""
        followers = list[tuple[int, Request]]()
        for key, outcome in outcomes.items():
            repeated = key in self._answers or (isinstance(outcome, Completion) and outcome.cached)
            self._answers[key] = outcome
            for place, request in self._waiting.pop(key):
                result = outcome
                if repeated:
                    self._repeats.append((key, request, outcome))
                    if isinstance(outcome, Completion):
                        result = replace(outcome, cached=True)
                    else:
                        result = type(outcome)(request.stage, request.qid, outcome.reason, kept=outcome.kept)
                repeated, self._results[place] = True, result
                self._exchanges.setdefault(place, []).append((request, result))
                if self.then is not None and (follower := self.then(place, result)) is not None:
                    followers.append((place, follower))
        return followers

    def _collect(self, fresh: dict[str, Request], threads: Sequence[Thread], bar: Any, hits: int) -> int:
        """Queue requests and their follow-ups, and wait until nothing is open. Returns how many have their completion.

        Raises:
            KeyboardInterrupt: after the calls under way are finished; at the second one at once.
        """
        size, left, known, done, failed = self.llm.backend.batch_size, 0, 0, 0, 0
        for thread in threads:
            thread.start()
        try:
            while fresh or left:
                items, known = list(fresh.items()), known + len(fresh)
                for start in range(0, len(items), size):
                    self._tasks.put(items[start : start + size])
                    left += 1
                outcomes = self._arrived.get()
                left -= 1
                some = sum(isinstance(outcome, LLMFailure) for outcome in outcomes.values())
                done, failed = done + len(outcomes) - some, failed + some
                fresh = self._add(self._give(outcomes))
                bar.total = max(bar.total, known + len(fresh))
                bar.note(cached=hits, failed=failed, **self.llm.budget.progress())
                bar.update(len(outcomes))
        except KeyboardInterrupt:
            self.stop.set()
            calls = "the call" if len(self._under_way) == 1 else f"the {len(self._under_way)} calls"
            print(f"stopping: waiting for {calls} under way; press Ctrl-C again to end at once", file=sys.stderr)
            raise
        finally:
            self.stop.set()
            for _ in threads:
                self._tasks.put(None)
            for thread in threads:
                thread.join()
        return done

    def _serve(self, alone: bool) -> None:
        """Work on tasks. The first call is on its way alone for a moment, so that a wrong key or name costs one call."""
        if not (alone or self.llm.reached):
            self._answered.wait(self.llm.backend.patience)
        while (batch := self._tasks.get()) is not None:
            found = dict[str, Outcome]()
            try:
                if not self.stop.is_set():
                    self._attempt(dict(batch), found)
            except BaseException as error:
                self.stop.set()  # before anybody else begins a call
                self.error.append(error)
            self._answered.set()
            self._arrived.put(found)

    def _attempt(self, batch: dict[str, Request], found: dict[str, Outcome]) -> None:
        """Find the outcomes of a task, as often as is allowed."""
        llm, tries = self.llm, list[dict[str, Request]]()

        def once() -> None:
            if llm.cache is not None:
                found.update(llm.cache.get(batch))  # another process may have asked meanwhile
            fresh = {key: request for key, request in batch.items() if key not in found}
            if fresh and not self.stop.is_set():
                llm.budget.check()
                tries.append(fresh)
                self._call(fresh, found, "calls" if len(tries) == 1 else "retries")

        def waits(number: int) -> None:
            for one in self._observers:
                one.wait(number, llm.retry.tries)

        try:
            llm.retry.loop(self.stop, waits)(once)
        except Transient as error:
            if self.stop.is_set():  # it isn't tried again because the stage ended
                return
            tried = counted(len(tries), "try")
            if error.unreached:
                raise FatalLLMError(f"{error.reason} (it has never answered, {tried}): start it, or correct base_url=...") from None
            for key, request in tries[-1].items():
                llm.ledger.count(request.stage, llm.model, failures=1)
                found[key] = Unavailable(request.stage, request.qid, f"{error.reason} (given up after {tried})")

    def _call(self, fresh: dict[str, Request], found: dict[str, Outcome], counted_as: str) -> None:
        llm, requests, errors = self.llm, list(fresh.values()), list[Exception]()
        started = llm.retry.clock()
        self._under_way.add(id(fresh))
        try:
            if self.write is None or len(requests) > 1:
                replies = llm.backend.complete(requests)
            else:
                replies = [llm.backend.stream(requests[0], self.write)]
        except BaseException:
            for key, request in fresh.items() if not llm.backend.replays else ():
                llm.ledger.count(request.stage, llm.model, key=key, **{counted_as: 1})
            raise
        finally:
            self._under_way.discard(id(fresh))
        llm.reached = True
        seconds = (llm.retry.clock() - started) / len(fresh)
        for (key, request), reply in zip(fresh.items(), replies, strict=True):
            try:
                found[key] = llm.settle(key, request, reply, seconds, **{counted_as: 1})
            except Exception as error:  # the others also arrived, and are kept before this is raised
                errors.append(error)
        if errors:
            raise errors[0]

    def _ended(self, error: BaseException, done: int, total: int, spent: float) -> BaseException:
        """The error that ended the stage, which says how far that came."""
        error.__traceback__ = None  # its frames hold the connections
        if not isinstance(error, StageEnded):
            return error
        kept = 0 if self.llm.cache is None else done
        if isinstance(error, BudgetExceeded) and done:
            error.about = (total - kept) * spent / done
        return error.after(kept, total - kept, self.llm.kept_in)


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
