"""The connection to one kind of language model, and any object with ``.generate(list)`` as a language model."""

import json
import re
import warnings
from collections.abc import Callable, Mapping
from traceback import extract_tb
from typing import Any, ClassVar

from ..errors import counted
from ..events import Write
from .failures import Filtered, LLMFailure, TooLong, Unanswered, Unavailable, WrongAnswers
from .request import Reading, Reply, Request, as_text

ERROR = "ERROR::"
"""How pyterrier_rag's backends write an exception into the completion's text."""

NAMED_ERRORS: dict[str, type[LLMFailure]] = {
    "reduce_length": TooLong,
    "response_filtered": Filtered,
}
"""The exceptions that say what is wrong. Any other is `Unavailable`."""
FEW_TOKENS = 128
"""A limit of pyterrier_rag's backends (32 when none is given) below which most answers are cut off."""


class Remade:
    """Pickled without its locks and connections, which are created again when it is unpickled.

    Example:
        >>> import pickle, threading
        >>> from pyterrier_ikat.llms import Ledger
        >>> pickle.loads(pickle.dumps(Ledger())).frame().empty
        True
    """

    of_this_process: ClassVar[Mapping[str, Callable[[], Any]]]
    """Attribute -> the function that creates it again."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in self.of_this_process
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, **{name: make() for name, make in self.of_this_process.items()})


class Backend:
    """The connection to one kind of language model; `LLM` adds caching, retries, threads and accounts.

    A subclass gives ``model``, ``identity`` and :meth:`complete`, and whatever else differs from
    the defaults. Two backends are equal when their identities are.

    Attributes:
        model: the name in the ledger.
        identity: everything that determines the answers (provider, model, base URL, default
            decoding parameters under ``"params"``); JSON values only, no secret; part of the cache
            key and of a run's identity.
        identified: whether ``identity`` distinguishes its answers from those of every other model,
            so that they may be kept in a file.
        batch_size: the most requests that one `complete` takes.
        concurrency: the most `complete` calls at a time.
        patience: seconds in which a wrong key, model or quota is refused as a rule: as long the
            first call is on its way alone.
        keeps_beginnings: whether the server may keep the beginnings of prompts, so that the order
            of sending matters.
        replays: True when it only reads what was written before, by turn: nothing is cached, and it
            costs nothing.
        source: for outputs that others published, their origin and what to cite.
        reasoning: marks of reasoning besides those that are known (``reasoning=``), in pairs. They
            decide how answers are read, not the answers, so they are not in ``identity``.

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
    reasoning: tuple[tuple[str, str], ...] = ()

    def reading(self, request: Request) -> Reading:
        """How the completion of a request is read."""
        return Reading(self.reasoning, request.messages)

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

    def repeats(self, samples: int, asked: Mapping[str, int] | None = None) -> str:
        """Why that many samples of a request may all be the same, in words; empty if there is no reason.

        Args:
            samples: the number of runs, or of samples in one run.
            asked: stage -> how many samples of a request one run asks for; None: of each stage one.
        """
        return (
            "temperature=0"
            if re.search(r'"temperature": "?0(\.0)?\b(?!\.)', json.dumps(self.identity))
            else ""
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(json.dumps(self.identity, sort_keys=True))


class ShortCompletionsWarning(UserWarning):
    """A model cuts its completions off after a few tokens and does not say which ones."""


def told_by(given: Any, name: str) -> Any:
    """The value of an object's attribute; None if there is none, or if it is a method."""
    value = getattr(given, name, None)
    return None if callable(value) else value


class GeneratorBackend(Backend):
    """Asks ``generator.generate(chats)``, which returns one string, or one object with ``.text``, per chat.

    A chat is a list of messages, or plain text when the object says ``supports_message_input =
    False``. Decoding parameters are the object's own. Exceptions and texts that start with
    ``ERROR::`` are failures. An object with ``.text`` may also have ``prompt_tokens``,
    ``completion_tokens``, ``finish_reason`` and ``model``; prices and a budget need the tokens.
    Attributes that are methods are ignored, such as ``identity`` of a `pyterrier.Transformer`.

    Args:
        generator: the object; its ``model_id`` names it in the ledger, its ``batch_size`` (32)
            bounds the chats per call.
        identity: everything that determines its answers besides its class and ``model_id``, as JSON
            values; the object's own ``identity`` when None.

    Warns:
        ShortCompletionsWarning: when the object's ``max_new_tokens`` is small.
    """

    def __init__(self, generator: Any, identity: Any = None) -> None:
        self.generator = generator
        named = told_by(generator, "model_id")
        self.told = told_by(generator, "identity") if identity is None else identity
        self.model = str(named or type(generator).__name__)
        self.identified = bool(named) or self.told is not None
        kind = f"{type(generator).__module__}.{type(generator).__qualname__}"
        self.identity = {
            "provider": "generator",
            "model": self.model,
            "class": kind,
            "identity": self.told,
            "params": {},
        }
        self.batch_size = int(told_by(generator, "batch_size") or 32)
        most = told_by(generator, "max_new_tokens")
        if isinstance(most, int) and most < FEW_TOKENS:
            message = f"{self.model} writes at most {most} tokens (max_new_tokens); texts that are cut off there look complete: allow 1024"
            warnings.warn(message, ShortCompletionsWarning, stacklevel=4)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, GeneratorBackend) and super().__eq__(other)
        return same and (self.told is not None or bool(self.generator == other.generator))  # type: ignore[attr-defined]

    __hash__ = Backend.__hash__

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Ask the object.

        Raises:
            UsageError: when it does not return one completion per chat.
        """
        as_chat = getattr(self.generator, "supports_message_input", True)
        chats = [
            [dict(message) for message in one.messages] if as_chat else as_text(one.messages)
            for one in requests
        ]
        try:
            outputs = self.generator.generate(chats)
        except Exception as error:
            place = extract_tb(error.__traceback__)[-1]
            said = f"{self.model} raised {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
            return [
                Unavailable(one.stage, one.qid, said, unanswered=Unanswered.LOST)
                for one in requests
            ]
        if not isinstance(outputs, list | tuple) or len(outputs) != len(requests):
            many = (
                f" of {len(outputs)} for {counted(len(requests), 'chat')}"
                if isinstance(outputs, list | tuple)
                else ""
            )
            must = f"{self.model}.generate must return a list with one text per chat"
            raise WrongAnswers(f"{must}, not this {type(outputs).__name__}{many}")
        wrong = [
            output
            for output in outputs
            if not isinstance(getattr(output, "text", output), str | None)
        ]
        if wrong:
            text = getattr(wrong[0], "text", wrong[0])
            must = f"{self.model}.generate must return texts, or objects with .text, not {type(text).__name__}"
            raise WrongAnswers(must, [self._told(output, None) for output in outputs])
        return [
            self._reply(request, output) for request, output in zip(requests, outputs, strict=True)
        ]

    def _reply(self, request: Request, output: Any) -> Reply | LLMFailure:
        text = getattr(output, "text", output)
        if text and text.startswith(ERROR):
            kind = NAMED_ERRORS.get(text.removeprefix(ERROR).strip(), Unavailable)
            unanswered = Unanswered.LOST if kind is Unavailable else Unanswered.REFUSED
            return kind(
                request.stage, request.qid, f"{self.model} answered {text}", unanswered=unanswered
            )
        return self._told(output, text)

    def _told(self, output: Any, text: str | None) -> Reply:
        """What an output tells."""
        return Reply(
            text,
            str(getattr(output, "model", None) or self.model),
            finish_reason=getattr(output, "finish_reason", None),
            prompt_tokens=getattr(output, "prompt_tokens", None),
            completion_tokens=getattr(output, "completion_tokens", None),
            cached_tokens=getattr(output, "cached_tokens", None),
        )
