"""A language model on any backend: requests are cached, retried, counted and limited by a budget."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from ..events import Exchange, tell
from .batch import BatchSending, jobs_of
from .cache import CompletionCache
from .failures import LLMFailure
from .ledger import Budget, Ledger, Spend
from .limits import Retry
from .request import Backend, Completion, Request, of_chain, read
from .sending import BatchSettings, Means, Outcome, Sending, longest_beginnings_first

Then = Callable[[int, Outcome], Request | None]
"""Gives the follow-up for the outcome of the request at a place, or of its last follow-up."""


class LLM(Means):
    """A language model, made by `llm`.

    Two models are equal when they have the same provider, model, base URL, decoding parameters and ``on_error``. Those made from objects
    with ``.generate`` are equal when the objects are, or their ``identity`` is.

    Args:
        backend: the connection to the model.
        ledger: the account to count in; None: a new one.
        cache: where finished completions are kept; None for nowhere.
        budget: prices, and the maximum cost in US dollars.
        retry: how transient failures are retried.
        on_error: the default of operators for failed calls: ``"raise"`` or ``"fallback"``.
        batches: the settings for batches, which are answered within a day; None if each request is its own call.
        text: the argument of `llm` shown by ``repr``.

    Attributes:
        ledger: the account.
        model: the model's name.
        spec: its specification, without secrets.
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
        batches: BatchSettings | None = None,
        text: str | None = None,
    ) -> None:
        super().__init__(backend, ledger, cache, budget, retry, batches)
        self.on_error = on_error
        self.spec = backend.model if text is None else text

    def ask(self, requests: Sequence[Request], then: Then | None = None, calls: int = 0) -> list[Completion | LLMFailure]:
        """Ask all requests concurrently, each distinct request once.

        Several threads and processes may ask at the same time: if one of them is already asking a request, the others wait for it and read
        the answer from the cache.

        Args:
            requests: the requests.
            then: for follow-up requests: gets the position of a request in ``requests`` and its outcome as soon as it arrives, and returns
                the follow-up request, or None. Follow-ups are sent while other requests are still running.
            calls: with ``then``, the total number of requests, if known: for the progress bar and the remaining count.

        Returns:
            For each request, in their order, its completion, or its failure after all retries; with follow-ups, the outcome of
                the last one.

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
        return Asking(self, requests, then, calls).run()

    def peek(self, request: Request) -> Completion | None:
        """The completion that is known without a call, from the cache or the recorded file, or None. Nothing is counted."""
        request = of_chain(request)
        if (reply := self.backend.find(request)) is not None:
            text, fault = read(reply)
            return None if fault else replace(reply.completion(self.model, 0.0), text=text)
        key = request.key(self.backend.identity)
        return self.hits([key]).get(key)

    def in_batches(self, requests: Sequence[Request]) -> list[bool]:
        """Whether each request waits in a batch, or failed in one and is not asked again."""
        if self.batches is None or self.cache is None:
            return [False] * len(requests)
        keys = [of_chain(request).key(self.backend.identity) for request in requests]
        there = jobs_of(self.cache).keys_among(keys) | self.cache.failures(keys).keys()
        return [key in there for key in keys]

    @property
    def structured(self) -> bool:
        """Whether requests have a JSON schema if the operator has one (``structured=on``)."""
        return "structured" in self.backend.identity

    def fingerprint(self) -> dict[str, Any]:
        """Everything that determines its answers."""
        return dict(self.backend.identity)

    def open(self) -> None:
        """Load the client in advance, which takes longer than a call.

        Raises:
            FatalLLMError: when there is no key.
        """
        self.backend.open()

    def close(self) -> None:
        """Close the connections and the cache file. The next call opens them again."""
        self.backend.close()
        if self.cache is not None:
            self.cache.close()

    def spend(self, completion: Completion) -> Spend:
        """The cost of a completion: paid now, or known from the cache or a recording."""
        cost = self.budget.cost(completion)
        if completion.cached or self.backend.replays:
            return Spend(known=1, worth=cost)
        return Spend(1, 0, completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens, cost)

    def hits(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The cached values of those keys."""
        return {} if self.cache is None else self.cache.get(keys)

    def __copy__(self) -> "LLM":
        return self  # the calls of a copy use the same account and the same budget

    def __deepcopy__(self, memo: dict[int, Any]) -> "LLM":
        return self

    def __repr__(self) -> str:
        return f"ikat.llm({self.spec!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LLM) and self.backend == other.backend and self.on_error == other.on_error

    def __hash__(self) -> int:
        return hash(self.backend)


class Asking:
    """One `LLM.ask`: which requests are open, who waits for each of them, and what follows an answer.

    Args:
        llm: who is asked.
        requests: the first ones.
        then: gives what follows them.
        calls: how many that makes in all.
    """

    def __init__(self, llm: LLM, requests: Sequence[Request], then: Then | None, calls: int) -> None:
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
        sending = (Sending if self.llm.batches is None else BatchSending)(self.llm, follow=self._follow, calls=self.calls)
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
        for key, request, outcome in self._repeats:  # an ended stage counts nothing that it did not return
            self._count_repeat(key, request, outcome)
        tell(self.llm, [exchange for place in sorted(self._exchanges) for exchange in self._exchanges[place]])
        return [self._results[place] for place in range(len(self._results))]

    def _add(self, place: int, request: Request) -> tuple[str, bool]:
        """Let a place wait for the answer to a request. Returns the request's key, and whether it is new."""
        key = str(next(self._numbers)) if self.llm.backend.replays else request.key(self.llm.backend.identity)
        fresh = key not in self._open and key not in self._answers
        self._open.setdefault(key, []).append((place, request))
        return key, fresh

    def _follow(self, answers: Mapping[str, Outcome]) -> dict[str, Request]:
        """Give answers to the places that wait for them. Returns the follow-up requests that are still to be asked."""
        followers = dict[str, Request]()
        known = [(key, outcome, isinstance(outcome, Completion) and outcome.cached) for key, outcome in answers.items()]
        for key, outcome, repeated in known:  # the list grows, because a follow-up may already be answered
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

    def _count_repeat(self, key: str, request: Request, outcome: Outcome) -> None:
        """Count a request with an outcome that is known without its own call."""
        llm = self.llm
        if isinstance(outcome, LLMFailure):
            llm.ledger.count(request.stage, llm.model, failures=1)
            return
        llm.ledger.count(request.stage, llm.model, served=outcome.model, key=key, known=1, worth=llm.budget.cost(outcome))
        llm.check_served(outcome.model)

    def _again(self, key: str, request: Request, outcome: Outcome) -> Outcome:
        self._repeats.append((key, request, outcome))
        if isinstance(outcome, LLMFailure):
            return type(outcome)(request.stage, request.qid, outcome.reason, kept=outcome.kept)
        return replace(outcome, cached=True)
