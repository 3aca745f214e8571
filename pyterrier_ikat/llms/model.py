"""One way to ask a language model, whatever it runs on: cached, retried, counted and within a budget."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from .batch import BatchSending, BatchSettings
from .batch_jobs import jobs_of
from .cache import CompletionCache
from .failures import LLMFailure
from .ledger import Budget, Ledger
from .limits import Retry, Throttle
from .request import Backend, Completion, OtherModelWarning, Request, as_read, failure_of, of_chain, same_model
from .sending import Outcome, Sending


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
        batches: how its requests are put into batches, which are answered within a day; None where each is a call of its own.
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
        batches: BatchSettings | None = None,
        text: str | None = None,
    ) -> None:
        self.backend, self.model = backend, backend.model
        self.ledger = Ledger() if ledger is None else ledger
        self.cache, self.budget, self.retry = cache, budget or Budget(), retry or Retry()
        self.throttle, self.on_error, self.batches = Throttle(backend.concurrency), on_error, batches
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

    def sending(self) -> Sending:
        """What sends the requests of one `ask`."""
        return Sending(self) if self.batches is None else BatchSending(self)

    def peek(self, request: Request) -> Completion | None:
        """What is known without a call: the completion in the cache, or in the recorded file, or None. Counts nothing."""
        request = of_chain(request)
        if (reply := self.backend.find(request)) is not None:
            return None if failure_of(request, reply) else as_read(reply.completion(self.model, 0.0))
        key = request.key(self.backend.identity)
        return self._hits([key]).get(key)

    def in_batches(self, requests: Sequence[Request]) -> list[bool]:
        """Whether each request waits in a batch, or got no completion in one, so that it is not asked again."""
        if self.batches is None or self.cache is None:
            return [False] * len(requests)
        keys = [of_chain(request).key(self.backend.identity) for request in requests]
        there = jobs_of(self.cache).keys_among(keys) | self.cache.failures(keys).keys()
        return [key in there for key in keys]

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
        answers, sent, sending = dict[str, Outcome](), set[str](), self.sending()
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
            return type(outcome)(request.stage, request.qid, outcome.reason, kept=outcome.kept)
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
