"""Any object with ``.generate(list)``, such as a pyterrier_rag backend."""

from collections.abc import Mapping, Set
from typing import Any

from ..errors import UsageError
from .failures import LLMFailure, Unavailable
from .request import Reply, Request, as_text

ERROR = "ERROR::"
"""How pyterrier_rag's backends write an exception into the completion's text."""

NO_LIST = (str, bytes, Mapping, Set)
"""What can be gone through like a list, but does not hold one completion per chat in their order."""


class GeneratorBackend:
    """Asks ``generator.generate(chats)``, which returns one object with ``.text``, or one string, per chat.

    A chat is a list of messages, or plain text when the object says ``supports_message_input = False``. Decoding parameters are
    the object's own. Exceptions and texts that start with ``ERROR::`` are failures.

    Args:
        generator: the object; its ``model_id`` names it in the ledger, its ``batch_size`` (32) bounds the chats per call.
    """

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.model = str(getattr(generator, "model_id", None) or type(generator).__name__)
        self.identity: dict[str, Any] = {"provider": "generator", "model": self.model, "params": {}}
        self.batch_size = int(getattr(generator, "batch_size", None) or 32)
        self.concurrency, self.replays = 1, False

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Ask the object.

        Raises:
            UsageError: when it does not return one completion per chat.
        """
        chats = [self._chat(request) for request in requests]
        try:
            returned = self.generator.generate(chats)
            outputs = [] if isinstance(returned, NO_LIST) else list(returned)
        except Exception as error:
            return [Unavailable(one.stage, one.qid, f"{self.model} raised {type(error).__name__}: {error}") for one in requests]
        if len(outputs) != len(requests):
            what = f"one {type(returned).__name__}" if isinstance(returned, NO_LIST) else f"{len(outputs)} completions"
            raise UsageError(f"{self.model}.generate returned {what} for {len(requests)} chats: it must return a list with one per chat")
        return [self._reply(request, output) for request, output in zip(requests, outputs, strict=True)]

    def _chat(self, request: Request) -> Any:
        if getattr(self.generator, "supports_message_input", True):
            return [dict(message) for message in request.messages]
        return as_text(request.messages)

    def _reply(self, request: Request, output: Any) -> Reply | LLMFailure:
        text = output if isinstance(output, str) else getattr(output, "text", None)
        if isinstance(text, str) and text.startswith(ERROR):
            return Unavailable(request.stage, request.qid, f"{self.model} answered {text}")
        return Reply(text if isinstance(text, str) else None, self.model)
