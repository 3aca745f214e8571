"""The connection to one kind of language model."""

import json
import re
from collections.abc import Mapping
from typing import Any

from ..events import Write
from .failures import LLMFailure
from .request import Reply, Request


class Backend:
    """The connection to one kind of language model; `LLM` adds caching, retries, threads and accounts.

    A subclass gives ``model``, ``identity`` and :meth:`complete`, and whatever else differs from the defaults. Two backends are equal
    when their identities are.

    Attributes:
        model: the name in the ledger.
        identity: everything that determines the answers (provider, model, base URL, default decoding parameters under ``"params"``); JSON
            values only, no secret; part of the cache key and of a run's identity.
        identified: whether ``identity`` distinguishes its answers from those of every other model, so that they may be kept in a file.
        batch_size: the most requests that one `complete` takes.
        concurrency: the most `complete` calls at a time.
        patience: seconds in which a wrong key, model or quota is refused as a rule: as long the first call is on its way alone.
        keeps_beginnings: whether the server may keep the beginnings of prompts, so that the order of sending matters.
        replays: True when it only reads what was written before, by turn: nothing is cached, and it costs nothing.
        source: for outputs that others published, their origin and what to cite.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Echo(Backend):
        ...     model, identity = "echo", {"provider": "mine", "model": "echo"}
        ...     def complete(self, requests):
        ...         return [Reply(request.messages[-1]["content"].upper()) for request in requests]
        >>> [one.text for one in ikat.llm(Echo()).ask([Request([{"role": "user", "content": "hi"}], stage="answer", qid="1_1")])]
        ['HI']
    """

    model: str
    identity: dict[str, Any]
    identified: bool = True
    batch_size: int = 1
    concurrency: int = 1
    patience: float = 0.25
    keeps_beginnings: bool = False
    replays: bool = False
    source: str = ""

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Answer ``requests`` in their order.

        Raises:
            Transient: when trying the same again may help.
            FatalLLMError: when no later call can succeed either (key, model, quota).
        """
        raise NotImplementedError

    def stream(self, request: Request, write: Write) -> Reply | LLMFailure:
        """Answer one request like `complete`, and pass the text to ``write`` while it is written, if possible."""
        return self.complete([request])[0]

    def open(self) -> Any:
        """Make ready what the first call would have to wait for.

        Raises:
            FatalLLMError: when no call can succeed, for example without a key.
        """

    def close(self) -> None:
        """Release connections and the like. The next call makes new ones."""

    def find(self, request: Request) -> Reply | None:
        """The reply that is known without asking anybody, or None."""
        return None

    def check_turns(self, turns: set[str]) -> None:
        """Refuse turns about which it can't be asked.

        Raises:
            UsageError: naming others.
        """

    def repeats(self, samples: int, asked: Mapping[str, int] | None = None) -> str:
        """Why that many samples of a request may all be the same, in words; empty if there is no reason.

        Args:
            samples: the number of runs, or of samples in one run.
            asked: stage -> how many samples of a request one run asks for; None: of each stage one.
        """
        return "temperature=0" if re.search(r'"temperature": "?0(\.0)?\b(?!\.)', json.dumps(self.identity)) else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(json.dumps(self.identity, sort_keys=True))
