"""A provider's side of batches: OpenAI's protocol of files and batches.

Sources: OpenAI's API reference (Files, Batches: a file has at most 50,000 requests and 200 MB, the window is ``24h``, a listing begins with
the newest batch and has pages of at most 100) and its guide "Batch API" (the lines of a result file are in any order; a batch that expired
or was cancelled has its answers in the result file, and they are paid).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..completions.usable import one_line
from .failures import FatalLLMError, LLMFailure, Transient, shorten
from .limits import Retry
from .openai import OpenAIBackend, completed, quoted
from .request import Reply, Request

if TYPE_CHECKING:
    import openai

ENDPOINT, WINDOW = "/v1/chat/completions", "24h"
MARK = "pyterrier_ikat"
"""The key in a batch's metadata of the name that we gave it."""
TRANSFER = 600.0
"""Seconds that a file of 200 MB may take at least."""
PAGE = 100
EARLIER = 86400
"""Seconds by which the provider's clock may differ from ours."""
OMIT = "omit batch=on"
ENDED = ("completed", "expired", "cancelled")

Found = TypeVar("Found")


class Unconfirmed(Exception):  # noqa: N818 - not an error that a user sees
    """A batch was requested, and it is unknown whether it was created."""


class Provider:
    """The files and batches of the server that a backend asks.

    Every method raises `FatalLLMError` when the server refuses it for good, or after all retries.

    Args:
        backend: the model and its server.
        retry: how transient failures are retried.
    """

    def __init__(self, backend: OpenAIBackend, retry: Retry) -> None:
        self.backend, self.retry, self.server = backend, retry, backend.servers.all[0]

    def line(self, key: str, request: Request) -> bytes:
        """A request as a line of a batch's file.

        Raises:
            UnicodeEncodeError: when it holds half a character.
        """
        asked = {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": self.backend.body(self.server, request)}
        return json.dumps(asked, ensure_ascii=False).encode() + b"\n"

    def upload(self, name: str, content: bytes) -> str:
        """The id of a new file of requests."""
        return self._call(
            lambda client: client.files.create(file=(f"{name}.jsonl", content), purpose="batch").id, "has no files for batches"
        )

    def create(self, file: str, name: str) -> dict[str, Any]:
        """A new batch of the requests in an uploaded file.

        Raises:
            Unconfirmed: when it may have been created.
        """
        body = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": WINDOW, "metadata": {MARK: name}}

        def once() -> dict[str, Any]:
            try:
                return _batch(self._once(lambda client: client.post("/batches", cast_to=object, body=body), "has no batches"))
            except Transient as error:
                if error.overloaded:  # the server says that it did nothing
                    raise
                raise Unconfirmed(error.reason) from None

        return self._retried(once)

    def batch(self, number: str, again: str) -> dict[str, Any]:
        """How far a batch is."""
        missing = f"does not know {number}"
        return _batch(self._call(lambda client: client.get(f"/batches/{number}", cast_to=object), missing, again))

    def named(self, name: str, since: float) -> dict[str, Any] | None:
        """The batch that was created with this name, not before ``since``; None if there is none."""
        after: dict[str, Any] = {}
        while True:
            query = {"params": {"limit": PAGE, **after}}
            page: Any = self._call(lambda client, query=query: client.get("/batches", cast_to=object, options=query), "has no batches")  # type: ignore[misc]
            page = _object(page)
            listed = [_batch(one) for one in _list(page.get("data"))]
            for one in listed:
                if _object(one.get("metadata")).get(MARK) == name:
                    return one
            if not page.get("has_more") or not listed or _number(listed[-1].get("created_at"), since) < since - EARLIER:
                return None
            after = {"after": listed[-1]["id"]}

    def results(self, batch: Mapping[str, Any], again: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The lines of an ended batch by the request's key, those with answers first. Lines that can't be read are skipped."""
        for name in ("output_file_id", "error_file_id"):
            if file := batch.get(name):
                missing = f"does not have the results of {batch['id']} any more"
                content = self._call(lambda client, file=file: client.files.content(file).content, missing, again)  # type: ignore[misc]
                for line in content.split(b"\n"):
                    if (found := _parsed(line)) is not None:
                        yield str(found.get("custom_id")), found

    def reply(self, request: Request, line: Mapping[str, Any]) -> Reply | LLMFailure:
        """The outcome in a line of results.

        Raises:
            Transient: when the request has no answer, and another batch may bring one.
            FatalLLMError: when no batch will, until the user has repaired something.
        """
        response = line.get("response")
        if not isinstance(response, dict):
            raise Transient(None, f"no answer: {quoted(self.server, line.get('error') or line)}")
        status, body = response.get("status_code"), response.get("body")
        if status == 200:
            return completed(self.server, body)
        error = body.get("error", body) if isinstance(body, dict) else body
        return self.backend.refused(self.server, request, status if isinstance(status, int) else 500, error, {})

    def failed(self, batch: Mapping[str, Any]) -> str:
        """Why a batch failed, in one line."""
        given = batch.get("errors")
        errors = _list(_object(given).get("data")) or _list(given) or [{"message": given} if isinstance(given, str) else given]
        first = errors[0] if isinstance(errors[0], dict) else {"message": errors[0]}
        place = [str(first["code"])] if first.get("code") else []
        place += [f"line {first['line']}"] if first.get("line") is not None else []
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        said = quoted(self.server, first.get("message") or "no reason is given")
        return shorten(said + (f" ({', '.join(place)})" if place else "") + more)

    def _call(self, work: Callable[["openai.OpenAI"], Found], missing: str, repair: str = OMIT) -> Found:
        return self._retried(lambda: self._once(work, missing, repair))

    def _retried(self, work: Callable[[], Found]) -> Found:
        try:
            return self.retry.loop(Event())(work)
        except Transient as error:
            raise FatalLLMError(f"{error.reason} (given up after {self.retry.tries} tries)") from None

    def _once(self, work: Callable[["openai.OpenAI"], Found], missing: str, repair: str = OMIT) -> Found:
        import openai

        server = self.server
        try:
            return self.backend.call(server, work, max(server.timeout, TRANSFER))
        except openai.APIStatusError as error:
            if error.status_code == 404:
                said = quoted(server, error.body)
                raise FatalLLMError(f"{server.address.shown} {missing} (404: {said}): correct the key or base_url, or {repair}") from None
            failure = self.backend.refused(server, Request([], "", ""), error.status_code, error.body, error.response.headers)
            raise FatalLLMError(failure.reason) from None
        except (openai.APIError, ValueError, AttributeError) as error:
            raise FatalLLMError(f"{server.address.shown} does not speak the protocol of batches: {server.clean(str(error))}") from None


def status_of(batch: Mapping[str, Any]) -> str:
    """How far a batch is, in words.

    Example:
        >>> status_of({"status": "in_progress", "request_counts": {"total": 332, "completed": 120, "failed": 1}})
        'in progress, 121 of 332 done'
    """
    status, counts = one_line(batch["status"].replace("_", " ")), counts_of(batch)
    return f"{status}, {counts.done} of {counts.total} done" if counts and counts.total else status


class Counts(NamedTuple):
    """How many requests a batch has, and how many of them are answered or failed."""

    total: int
    done: int


def counts_of(batch: Mapping[str, Any]) -> Counts | None:
    """The number of requests that a batch reports. None when the report is missing or impossible."""
    given = _object(batch.get("request_counts"))
    total, *done = (_number(given.get(name), -1) for name in ("total", "completed", "failed"))
    return Counts(int(total), int(sum(done))) if min(total, *done) >= 0 and sum(done) <= total else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any, otherwise: float) -> float:
    """A number from a server, or ``otherwise`` when it is missing or impossible."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12 else otherwise


def _batch(found: Any) -> dict[str, Any]:
    if isinstance(found, dict) and isinstance(found.get("id"), str) and isinstance(found.get("status"), str):
        return found
    raise FatalLLMError("the server's answer is not a batch: it does not speak OpenAI's protocol of batches; omit batch=on")


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
