"""A language model on any backend, with cache, retries, ledger and budget."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..completions.usable import is_refusal
from ..errors import UsageError
from ..store.cache import IN_MEMORY
from .backend import Backend
from .batch import BatchSending, jobs_of
from .cache import AGAIN, CompletionCache
from .checking import Check, check
from .failures import LLMFailure, StageError, Unanswered, UnknownMark
from .ledger import Budget, Ledger, estimated_tokens
from .lengths import Lengths
from .pace import Pace
from .request import Completion, Reply, Request, read
from .retry import Retry
from .sending import Sending, Then

Count = Callable[..., None]
"""Adds to accounts, as `Ledger.count` does."""


class OtherModelWarning(UserWarning):
    """The server's model is not the requested one."""


def same_model(asked: str, served: str) -> bool:
    """Whether ``served`` is the requested name, or a dated snapshot of it.

    Example:
        >>> same_model("gpt-4o", "gpt-4o-2024-08-06"), same_model("gpt-4o", "gpt-4o-mini")
        (True, False)
    """
    pattern = rf"{re.escape(asked)}([-_@:]\d[\d-]{{3,}})?"
    return re.fullmatch(pattern, served, re.IGNORECASE) is not None


class LLM:
    """A language model, made by `llm`.

    Two models are equal when they have the same provider, model, base URL, decoding parameters,
    ``reasoning`` and ``on_error``. Those made from objects with ``.generate`` are equal when the
    objects are, or their ``identity`` is.

    Args:
        backend: the connection to the model.
        ledger: the account to count in; None: a new one.
        cache: where finished completions are kept; None for nowhere.
        budget: prices, and the maximum cost in US dollars.
        retry: how transient failures are retried.
        on_error: the default of operators for failed calls: ``"raise"`` or ``"fallback"``.
        batches: whether requests are sent as batches, which are answered within a day.
        text: the argument of `llm` shown by ``repr``.

    Attributes:
        ledger: the account.
        model: the model's name.
        spec: its specification, without secrets.
        structured: whether requests have a JSON schema if the operator has one (``structured=on``).
        reached: whether a call has got an answer.
        pace: the calls under way, which all threads that ask this model share.
        lengths: the lengths of its prompts, which show whether the server cuts them.
        turned_away: how many requests in a row were given up because the server did not accept the
            key any more.
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
        batches: bool = False,
        text: str | None = None,
    ) -> None:
        self.backend = backend
        self.spec = text or backend.model
        self.model = backend.model
        self.model_id = backend.model  # pyterrier_rag asks for it
        self.ledger = Ledger() if ledger is None else ledger
        self.cache = cache
        self.budget = budget or Budget()
        self.retry = retry or Retry()
        self.on_error = on_error
        self.batches = batches
        self.structured = "structured" in backend.identity
        self.reached = False
        self.turned_away = 0
        self.pace = Pace()
        self.lengths = Lengths()
        self._warned_of = set[str]()

    def ask(
        self, requests: Sequence[Request], then: Then | None = None, calls: int = 0
    ) -> list[Completion | LLMFailure]:
        """Ask all requests concurrently, each distinct request once.

        Several threads and processes may ask at the same time. With the same requests they begin at
        different ends, and look into the cache right before each call, so that few are paid for
        twice.

        Args:
            requests: the requests.
            then: for follow-up requests: gets the position of a request in ``requests`` and its
                outcome as soon as it arrives, and returns the follow-up request, or None.
                Follow-ups are sent while other requests are still running.
            calls: with ``then``, the total number of requests, if known: for the progress bar and
                the remaining count.

        Returns:
            For each request, in their order, its completion, or its failure after all retries; with
            follow-ups, the outcome of the last one.

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
        sending = BatchSending if self.batches else Sending
        return sending(self, then, calls).run(requests)

    supports_message_input = True
    supports_logprobs = False
    supports_num_responses = True

    def generate(
        self,
        inps: Sequence[str | Sequence[Mapping[str, str]]],
        *,
        max_new_tokens: int | None = None,
        stop_sequences: Sequence[str] | None = None,
        num_responses: int = 1,
        return_logprobs: bool = False,
    ) -> list[Completion]:
        """Answer prompts as a backend of pyterrier_rag does.

        Cache, budget and ledger (stage ``generate``) are those of `ask`.

        Args:
            inps: texts, or lists of messages ``{"role", "content"}``.
            max_new_tokens: the maximum number of tokens of a completion; None: the model's own
                ``max_tokens``.
            stop_sequences: texts before which a completion ends; only for a model of a server.
                None: no such texts.
            num_responses: the number of completions of each prompt, which stand together.
            return_logprobs: not supported.

        Raises:
            UsageError: for an argument that the model does not support.
            StageError: when a prompt has no usable completion. The others are kept.

        Example:
            >>> import pyterrier_ikat as ikat
            >>> [completion.text for completion in ikat.llm("recorded:sample").generate([])]
            []
        """
        if return_logprobs or (stop_sequences and self.backend.identity["provider"] != "openai"):
            raise UsageError(f"{self!r} has no stop_sequences or logprobs: omit the argument")
        params = dict[str, Any]()
        if max_new_tokens:
            params["max_tokens"] = max_new_tokens
        if stop_sequences:
            params["stop"] = list(stop_sequences)
        requests = []
        for number, inp in enumerate(inps, 1):
            chat = [{"role": "user", "content": inp}] if isinstance(inp, str) else inp
            for sample in range(num_responses):
                requests.append(
                    Request(chat, "generate", str(number), sample=sample, params=params)
                )
        outcomes = self.ask(requests)
        failures = [outcome for outcome in outcomes if isinstance(outcome, LLMFailure)]
        if failures:
            raise StageError("generate", failures, self.kept_in)
        return cast(list[Completion], outcomes)

    def text_generator(self, **options: Any) -> Any:
        """The generator that pyterrier_rag's ``Reader`` asks its backend for, by this name.

        Args:
            options: of ``pyterrier_rag.backend.TextGenerator``.
        """
        from pyterrier_rag.backend import TextGenerator

        return TextGenerator(self, **options)

    def kept(self, requests: Mapping[str, Request]) -> dict[str, Completion | LLMFailure]:
        """The outcomes of some requests in the cache, by their keys.

        A completion that can't be read is a failure.

        Raises:
            DataError: when the cache can't be used.
        """
        if self.cache is None:
            return {}
        readings = {key: self.backend.reading(request) for key, request in requests.items()}
        outcomes = self.cache.get(requests, readings)
        for key, outcome in outcomes.items():
            if isinstance(outcome, LLMFailure):
                stage = requests[key].stage
                outcomes[key] = type(outcome)(stage, requests[key].qid, outcome.reason, kept=True)
        return outcomes

    def peek(self, request: Request) -> Completion | None:
        """The completion in the cache or the recorded file, or None. Nothing is counted."""
        reply = self.backend.find(request)
        if reply is not None:
            text, fault = read(reply, self.backend.reading(request))
            return None if fault else replace(reply.completion(self.model, 0.0), text=text)
        key = request.key(self.backend.identity)
        kept = self.kept({key: request}).get(key)
        return kept if isinstance(kept, Completion) else None

    def is_settled(self, requests: Sequence[Request]) -> list[bool]:
        """Whether each request without a usable completion is not asked again.

        It waits in a batch, failed in one, or has a completion that is kept though it can't be
        read.
        """
        if self.cache is None:
            return [False] * len(requests)
        keys = [request.key(self.backend.identity) for request in requests]
        settled = set(self.kept(dict(zip(keys, requests, strict=True))))
        if self.batches:
            for job in jobs_of(self.cache):
                settled.update(job.keys)
            settled.update(self.cache.failures(keys))
        return [key in settled for key in keys]

    @property
    def kept_in(self) -> str:
        """Where finished calls are kept: ``"file"``, ``"process"`` (this one only), or ``""``."""
        if self.cache is None:
            return "file" if self.backend.replays else ""
        return "process" if self.cache.path == IN_MEMORY else "file"

    def settle(
        self,
        key: str,
        request: Request,
        reply: Reply | LLMFailure,
        seconds: float,
        count: Count,
        **counts: int,
    ) -> Completion | LLMFailure:
        """Keep, count and pay for an answer.

        It is kept first, so it is never paid for again, whatever fails then.

        Args:
            key: the request's key.
            request: the request.
            reply: its answer, or why there is none.
            seconds: how long it took.
            count: adds to the accounts, as `Ledger.count` does.
            counts: what the try adds to ``calls``, ``retries`` and ``unanswered``.

        Raises:
            FatalLLMError: when its cost isn't known, and there is a budget.
            DataError: when it can't be kept or counted. It is counted even if it can't be kept.
        """
        if isinstance(reply, LLMFailure):
            why = reply.unanswered
            self.count_unanswered(key, request, why, seconds, count, failures=1, **counts)
            return reply
        reply = reply.counted()
        reading = self.backend.reading(request)
        text, fault = read(reply, reading)
        # An answer with an unknown mark can be read once the user has named the mark.
        is_unknown = fault is not None and fault[0] is UnknownMark
        is_good = fault is None and not is_refusal(text)
        written = reply.completion(self.model, seconds)
        kept = written
        try:
            if self.cache is not None and (is_unknown or is_good):
                kept = self.cache.put(key, written, reading)  # as the model wrote it
        finally:
            self._account(key, request, reply, seconds, count, fault is None, counts)
        self.note_length(request, reply)
        self.check_served(reply.model)
        if kept is not written:
            text, fault = read(kept, reading)
        if fault is None:
            return replace(kept, cached=False, text=text)
        kind, reason = fault
        is_kept = kind is UnknownMark and bool(self.kept_in)
        if kind is UnknownMark and self.kept_in == "file":
            reason = f"{reason}; {AGAIN}"
        return kind(request.stage, request.qid, reason, kept=is_kept)

    def _account(
        self,
        key: str,
        request: Request,
        reply: Reply,
        seconds: float,
        count: Count,
        usable: bool,
        counts: Mapping[str, int],
    ) -> None:
        """Count a reply: one of a recording as one from a cache, others as paid."""
        failures = 0 if usable else 1
        if not self.backend.replays:
            self.pay(
                key, request, reply, seconds, count, usable=usable, failures=failures, **counts
            )
            return
        count(
            request.stage,
            self.model,
            served=reply.model,
            seconds=seconds,
            failures=failures,
            known=1 - failures,
            worth=self.budget.cost(reply),
        )

    def pay(
        self,
        key: str,
        request: Request,
        reply: Reply,
        seconds: float,
        count: Count,
        *,
        usable: bool,
        **counts: int,
    ) -> None:
        """Count what an answer cost, whether it can be used or not.

        Raises:
            FatalLLMError: when that isn't known, and there is a budget.
        """
        reply = reply.counted()
        cost = self.budget.cost(reply)
        count(
            request.stage,
            self.model,
            served=reply.model,
            key=key,
            answered=usable,
            prompt_tokens=reply.prompt_tokens,
            cached_tokens=reply.cached_tokens,
            completion_tokens=reply.completion_tokens,
            seconds=seconds,
            cost=cost,
            **counts,
        )
        self.budget.spend(cost)

    def count_unanswered(
        self,
        key: str,
        request: Request,
        why: Unanswered,
        seconds: float,
        count: Count,
        **counts: int,
    ) -> None:
        """Count a request that has no answer.

        One that got lost counts towards the budget by an estimate of its prompt.
        """
        amounts: dict[str, Any] = {"seconds": seconds}
        if why is Unanswered.LOST:
            tokens = estimated_tokens([request])
            amounts["lost_tokens"] = tokens
            amounts["cost"] = None
            self.budget.spend(self.budget.price(tokens, 0) or 0.0)
        count(request.stage, self.model, key=key, answered=False, **amounts, **counts)

    def note_length(self, request: Request, answer: Reply | Completion) -> None:
        """Note how many tokens of a prompt were read."""
        if not self.backend.replays:  # a recorded answer may be of another prompt
            self.lengths.note(request, answer.prompt_tokens)

    def check_served(self, served: str | None) -> None:
        """Warn once of each model that answers instead of the requested one.

        A dated snapshot is the same model.
        """
        if served is None or served == self.model or served in self._warned_of:
            return
        if self.backend.replays or same_model(self.model, served):
            return
        self._warned_of.add(served)
        warnings.warn(
            f"{served!r} answers instead of {self.model!r}, says the server: the ledger and "
            "run.json name it; ask for that model if you want it, or correct base_url",
            OtherModelWarning,
            stacklevel=2,
        )

    def check(self, tokens: int = 5000) -> Check:
        """Find out by five calls which forms a server uses.

        They show its stream, its finish reasons, its usage, schemas and long prompts. Ledger and
        budget count the calls; the cache has no part in them.

        Args:
            tokens: the length in words of the prompt that shows whether the server cuts prompts;
                most of the cost.

        Returns:
            ten lines to print.

        Raises:
            UsageError: for a model that is no server.
            FatalLLMError: when no call can succeed.
        """
        return check(self, tokens)

    def fingerprint(self) -> dict[str, Any]:
        """Everything that determines its answers, and how they are read."""
        fingerprint = dict(self.backend.identity)
        if self.backend.reasoning:
            fingerprint["reasoning"] = [list(pair) for pair in self.backend.reasoning]
        return fingerprint

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

    def __copy__(self) -> "LLM":
        return self  # the calls of a copy use the same account and the same budget

    def __deepcopy__(self, memo: dict[int, Any]) -> "LLM":
        return self

    def __repr__(self) -> str:
        return f"ikat.llm({self.spec!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LLM) or self.backend.reasoning != other.backend.reasoning:
            return False
        return self.backend == other.backend and self.on_error == other.on_error

    def __hash__(self) -> int:
        return hash(self.backend)
