"""A language model on any backend: requests are cached, retried, counted and limited by a budget."""

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from ..spend import Spend
from .batch import BatchSending, BatchSettings
from .batch_jobs import jobs_of
from .cache import CompletionCache
from .failures import LLMFailure
from .ledger import Budget, Ledger
from .limits import Retry, Throttle
from .request import Backend, Completion, Request, as_read, failure_of, of_chain
from .sending import Asking, Follow, Outcome, Sending, Then

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


class LLM:
    """A language model; made by `llm`.

    Two models are equal when they have the same provider, model, base URL, decoding parameters and ``on_error``. Those made from objects
    with ``.generate`` are equal when the objects are, or their ``identity`` is.

    Args:
        backend: the connection to the model.
        ledger: the account to count in; a new one when None.
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
        self.backend, self.model = backend, backend.model
        self.ledger = Ledger() if ledger is None else ledger
        self.cache, self.budget, self.retry = cache, budget or Budget(), retry or Retry()
        self.throttle, self.on_error, self.batches = Throttle(backend.concurrency, backend.patience), on_error, batches
        self._warned_of: dict[str, object] = {}
        self.spec = backend.model if text is None else text

    @property
    def kept_in(self) -> str:
        """Where finished calls are kept: in a ``"file"``, in this ``"process"`` only, or nowhere (``""``)."""
        if self.cache is None:
            return "file" if self.backend.replays else ""
        return "process" if self.cache.path == ":memory:" else "file"

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

    def sending(self, follow: Follow, calls: int) -> Sending:
        """The sender of the requests of one `ask`, see `Sending`."""
        return (Sending if self.batches is None else BatchSending)(self, follow=follow, calls=calls)

    def peek(self, request: Request) -> Completion | None:
        """The completion known without a call, from the cache or the recorded file, or None. Nothing is counted."""
        request = of_chain(request)
        if (reply := self.backend.find(request)) is not None:
            return None if failure_of(request, reply) else as_read(reply.completion(self.model, 0.0))
        key = request.key(self.backend.identity)
        return self.hits([key]).get(key)

    def in_batches(self, requests: Sequence[Request]) -> list[bool]:
        """Whether each request waits in a batch, or got no completion in one, so that it is not asked again."""
        if self.batches is None or self.cache is None:
            return [False] * len(requests)
        keys = [of_chain(request).key(self.backend.identity) for request in requests]
        there = jobs_of(self.cache).keys_among(keys) | self.cache.failures(keys).keys()
        return [key in there for key in keys]

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
        """Close the connections and the cache file; the next call opens them again."""
        self.backend.close()
        if self.cache is not None:
            self.cache.close()

    def check_served(self, served: str | None) -> None:
        """Warn once of each model that answers instead of the requested one; a dated snapshot is the same model."""
        first = object()  # of several threads one tells
        if not served or self.backend.replays or same_model(self.model, served) or self._warned_of.setdefault(served, first) is not first:
            return
        known = f"{served!r} answers instead of {self.model!r}, says the server: the ledger and run.json name it"
        warnings.warn(f"{known}; ask for that model if you want it, or correct base_url", OtherModelWarning, stacklevel=2)

    def spend(self, completion: Completion) -> Spend:
        """What a completion came to: paid, or known before from the cache or a recording."""
        cost = self.budget.cost(completion)
        if completion.cached or self.backend.replays:
            return Spend(known=1, worth=cost)
        return Spend(1, 0, completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens, cost)

    def hits(self, keys: Iterable[str]) -> dict[str, Completion]:
        """The cached values of those keys."""
        return {} if self.cache is None else self.cache.get(keys)

    def count_repeat(self, key: str, request: Request, outcome: Outcome) -> None:
        """Count a request whose outcome is known without a call of its own."""
        if isinstance(outcome, LLMFailure):
            self.ledger.count(request.stage, self.model, failures=1)
            return
        self.ledger.count(request.stage, self.model, served=outcome.model, key=key, known=1, worth=self.budget.cost(outcome))
        self.check_served(outcome.model)

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
