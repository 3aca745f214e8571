"""Any server that speaks OpenAI's chat completions: OpenAI itself, vLLM, Ollama, llama.cpp, ``transformers serve``."""

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .failures import BadRequest, FatalLLMError, Filtered, LLMFailure, Transient, shorten
from .request import Reply, Request
from .retry import seconds_of
from .servers import Server, Servers, addresses

if TYPE_CHECKING:
    import openai

OPENAI = "https://api.openai.com/v1"
TRY_AGAIN = (408, 409, 425, 429)
NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")


class OpenAIBackend:
    """Asks an OpenAI-compatible server, one request per call.

    Args:
        model: the model's name, as the server knows it.
        base_url: the server; else the environment's ``OPENAI_BASE_URL``, else OpenAI. Several, separated by commas, share the calls: they
            have to serve the same model. The first one's address stands for all in the cache key, so that adding machines repeats nothing.
        api_key_env: the environment variable that holds the key.
        params: decoding parameters (temperature, top_p, top_k, max_tokens, seed).
        timeout: seconds until a call without an answer counts as failed.
        concurrency: the most calls at a time, over all servers.

    Raises:
        UsageError: when ``base_url`` is no web address.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        params: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        concurrency: int = 32,
    ) -> None:
        urls = addresses(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI)
        self.model, self.timeout = model, timeout
        self.servers = Servers([Server(url, api_key_env, timeout) for url in urls])
        self.identity: dict[str, Any] = {
            "provider": "openai",
            "model": model,
            "base_url": self.servers.all[0].address.identity,
            "params": dict(params or {}),
        }
        self.batch_size, self.concurrency, self.replays = 1, concurrency, False

    def complete(self, requests: list[Request]) -> list[Reply | LLMFailure]:
        """Answer the one request (see `Backend.complete`)."""
        return [self._ask(request) for request in requests]

    def open(self) -> None:
        """Load the client, so that the first call does not have to.

        Raises:
            FatalLLMError: when there is no key.
        """
        for server in self.servers.all:
            _ = server.client

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        for server in self.servers.all:
            server.close()

    def __del__(self) -> None:
        if "servers" in vars(self):
            self.close()

    def _ask(self, request: Request) -> Reply | LLMFailure:
        with self.servers.next() as server:
            return self._ask_one(server, request)

    def _ask_one(self, server: Server, request: Request) -> Reply | LLMFailure:
        import openai

        try:
            # Without the client's typed layer, which takes half of its CPU time: a stage's threads share one interpreter lock.
            answer = server.client.post("/chat/completions", cast_to=object, body=self._body(server, request))
        except UnicodeEncodeError:
            return BadRequest(request.stage, request.qid, "the prompt holds half a character (a lone surrogate): clean the turn's text")
        except openai.APITimeoutError:
            raise Transient(None, f"no answer within {server.timeout:g} seconds (timeout=...)") from None
        except openai.APIConnectionError as error:
            raise Transient(None, server.clean(f"no connection to {server.address.shown}: {error.__cause__ or error}")) from None
        except openai.APIStatusError as error:
            return self._refused(server, request, error)
        except (openai.APIError, ValueError) as error:
            raise Transient(None, server.clean(f"the server's answer is no chat completion: {error}")) from None
        return _reply(answer)

    def _refused(self, server: Server, request: Request, error: "openai.APIStatusError") -> LLMFailure:
        shown, variable = server.address.shown, server.api_key_env
        status, code, said = error.status_code, error.code or "", _said(server, error)
        if status in (401, 403):
            raise FatalLLMError(
                f"{shown} does not accept the key in {variable} ({status}): set that variable, or name another one with "
                "api_key_env=VARIABLE"
            ) from None
        if status == 404:
            raise FatalLLMError(f"{shown} has no model {self.model!r} (404: {said}): check the name and base_url") from None
        if status == 402 or code in NO_MONEY or error.type in NO_MONEY:
            raise FatalLLMError(f"the quota of the key in {variable} is exhausted ({said}): add credit or use another key") from None
        if status in TRY_AGAIN or status >= 500:
            wait = seconds_of(error.response.headers.get("retry-after"), time.time())
            raise Transient(wait, f"the server answers {status}: {said}", overloaded=status == 429) from None
        if code == "content_filter":
            return Filtered(request.stage, request.qid, "the provider's content filter withheld the prompt")
        return BadRequest(request.stage, request.qid, f"the server rejects the request ({status}): {said}")

    def _body(self, server: Server, request: Request) -> dict[str, Any]:
        params = {**self.identity["params"], **request.params}
        if "seed" in params:
            params["seed"] += request.sample
        if "max_tokens" in params and server.address.url == OPENAI:
            params["max_completion_tokens"] = params.pop("max_tokens")
        return {"model": self.model, "messages": [dict(message) for message in request.messages], **params}


def _reply(answer: Any) -> Reply:
    try:
        choice, usage = answer["choices"][0], answer.get("usage") or {}
        message = choice["message"]
        text, refusal = message.get("content"), message.get("refusal")
        used = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        if not isinstance(text, str | None):
            raise TypeError
        return Reply(text, answer.get("model") or None, choice.get("finish_reason"), *used, refusal)
    except (TypeError, KeyError, IndexError, AttributeError):
        raise Transient(None, "the server's answer holds no completion") from None


def _count(tokens: Any) -> int | None:
    return tokens if isinstance(tokens, int) else None


def _said(server: Server, error: "openai.APIStatusError") -> str:
    said = error.body.get("message") if isinstance(error.body, dict) else None
    return shorten(server.clean(str(said or error.message)))
