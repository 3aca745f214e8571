"""The connection to one kind of language model, or to an object with ``.generate(list)``."""

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
"""The limit of tokens below which most answers are cut off; pyterrier_rag's default is 32."""


class Remade:
    """Pickled without locks and connections, which are created again when it is unpickled.

    Example:
        >>> import pickle, threading
        >>> from pyterrier_ikat.llms import Ledger
        >>> pickle.loads(pickle.dumps(Ledger())).frame().empty
        True
    """

    of_this_process: ClassVar[Mapping[str, Callable[[], Any]]]
    """Attribute -> the function that creates it again."""

    def __getstate__(self) -> dict[str, Any]:
        state = {}
        for name, value in vars(self).items():
            if name not in self.of_this_process:
                state[name] = value
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for name, make in self.of_this_process.items():
            setattr(self, name, make())


class Backend:
    """The connection to one kind of language model; `LLM` adds cache, retries and accounts.

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
        >>> request = Request([{"role": "user", "content": "hi"}], stage="answer", qid="1_1")
        >>> [completion.text for completion in ikat.llm(Echo()).ask([request])]
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
        """Answer one request, and pass the partial text to ``write`` if possible."""
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
        """Why several samples of a request may all be the same; empty if there is no reason.

        Args:
            samples: the number of runs, or of samples in one run.
            asked: stage -> how many samples of a request one run asks for; None: of each stage one.
        """
        identity = json.dumps(self.identity)
        is_greedy = re.search(r'"temperature": "?0(\.0)?\b(?!\.)', identity)
        return "temperature=0" if is_greedy else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(json.dumps(self.identity, sort_keys=True))


class ShortCompletionsWarning(UserWarning):
    """A model cuts its completions off after a few tokens and does not say which ones."""


def value_of(generator: Any, name: str) -> Any:
    """The value of an object's attribute; None if there is none, or if it is a method."""
    value = getattr(generator, name, None)
    return None if callable(value) else value


class GeneratorBackend(Backend):
    """Asks ``generator.generate(chats)``.

    It returns one string, or one object with ``.text``, per chat. A chat is a list of messages, or
    plain text when the object says ``supports_message_input = False``. Decoding parameters are the
    object's own. Exceptions and texts that start with ``ERROR::`` are failures. An object with
    ``.text`` may also have ``prompt_tokens``, ``completion_tokens``, ``finish_reason`` and
    ``model``; prices and a budget need the tokens. Attributes that are methods are ignored, such as
    ``identity`` of a `pyterrier.Transformer`.

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
        model_id = value_of(generator, "model_id")
        if identity is None:
            identity = value_of(generator, "identity")
        self.declared = identity
        self.model = str(model_id or type(generator).__name__)
        self.identified = bool(model_id) or identity is not None
        self.identity = {
            "provider": "generator",
            "model": self.model,
            "class": f"{type(generator).__module__}.{type(generator).__qualname__}",
            "identity": identity,
            "params": {},
        }
        self.batch_size = int(value_of(generator, "batch_size") or 32)
        most = value_of(generator, "max_new_tokens")
        if isinstance(most, int) and most < FEW_TOKENS:
            warnings.warn(
                f"{self.model} writes at most {most} tokens (max_new_tokens); texts that are cut "
                "off there look complete: allow 1024",
                ShortCompletionsWarning,
                stacklevel=4,
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GeneratorBackend) or not super().__eq__(other):
            return False
        return self.declared is not None or bool(self.generator == other.generator)

    __hash__ = Backend.__hash__

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Ask the object.

        Raises:
            UsageError: when it does not return one completion per chat.
        """
        takes_messages = getattr(self.generator, "supports_message_input", True)
        chats: list[Any] = []
        for request in requests:
            if takes_messages:
                chats.append([dict(message) for message in request.messages])
            else:
                chats.append(as_text(request.messages))
        try:
            outputs = self.generator.generate(chats)
        except Exception as error:
            return self._unavailable(requests, error)
        must = f"{self.model}.generate must return a list with one text per chat"
        if not isinstance(outputs, list | tuple):
            raise WrongAnswers(f"{must}, not this {type(outputs).__name__}")
        if len(outputs) != len(requests):
            raise WrongAnswers(
                f"{must}, not this {type(outputs).__name__} of {len(outputs)} "
                f"for {counted(len(requests), 'chat')}"
            )
        for output in outputs:
            text = _text_of(output)
            if not isinstance(text, str | None):
                raise WrongAnswers(
                    f"{self.model}.generate must return texts, or objects with .text, "
                    f"not {type(text).__name__}",
                    [self._reply(each, None) for each in outputs],
                )
        replies = []
        for request, output in zip(requests, outputs, strict=True):
            replies.append(self._outcome(request, output))
        return replies

    def _unavailable(self, requests: list[Request], error: Exception) -> list[Reply | LLMFailure]:
        """The failures for an error of the object."""
        place = extract_tb(error.__traceback__)[-1]
        reason = (
            f"{self.model} raised {type(error).__name__}: {error} "
            f"({place.filename}, line {place.lineno})"
        )
        failures: list[Reply | LLMFailure] = []
        for request in requests:
            failures.append(
                Unavailable(request.stage, request.qid, reason, unanswered=Unanswered.LOST)
            )
        return failures

    def _outcome(self, request: Request, output: Any) -> Reply | LLMFailure:
        """The reply in an output, or the failure that it names."""
        text = _text_of(output)
        if not text or not text.startswith(ERROR):
            return self._reply(output, text)
        kind = NAMED_ERRORS.get(text.removeprefix(ERROR).strip(), Unavailable)
        unanswered = Unanswered.LOST if kind is Unavailable else Unanswered.REFUSED
        reason = f"{self.model} answered {text}"
        return kind(request.stage, request.qid, reason, unanswered=unanswered)

    def _reply(self, output: Any, text: str | None) -> Reply:
        return Reply(
            text,
            str(getattr(output, "model", None) or self.model),
            finish_reason=getattr(output, "finish_reason", None),
            prompt_tokens=getattr(output, "prompt_tokens", None),
            completion_tokens=getattr(output, "completion_tokens", None),
            cached_tokens=getattr(output, "cached_tokens", None),
        )


def _text_of(output: Any) -> Any:
    """The text of an output: its ``.text``, or the output itself."""
    return getattr(output, "text", output)
