"""The client of the REST interface with which the simulated users of TREC iKAT 2025 and 2026 talk to systems.

A call that only reads is retried. A call that changes something (``start``, ``continue``) is repeated only when the server certainly
has not taken it; otherwise it raises `Unsure`, and the caller asks the server for the state of the run.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import requests

from ...errors import DataError, UsageError
from ...llms.failures import Transient, shorten
from ...llms.limits import Retry, seconds_of
from ..answering import Tell
from .response_limits import TOKENS
from .server_access import (
    TOKEN,
    Failed,
    KeepsFailing,
    Late,
    ResponseTooLong,
    ServerDown,
    ServerRefusal,
    Token,
    Unsure,
    Untaken,
    safe_address,
)
from .server_answers import RunStatus, UserMessage, cleaned

T = TypeVar("T")
TIMEOUT = 300.0
CONNECT = 10.0
AGAIN = "the same command continues the run"


class TrackServer:
    """The server of the simulated users.

    Args:
        address: the base address, before ``/run/start``.
        debug: use the calls for debugging, which have a budget and are never assessed.
        timeout: seconds to wait for an answer; the simulated user may be a slow language model.
        retry: how calls are retried that the server has not taken.
        tell: called with each wait before a call is repeated.

    Attributes:
        shown: the address as it may be shown.
        debug: as given.

    Raises:
        UsageError: when the address is wrong, or would send the token unencrypted to another machine; when the timeout is not above 0; or
            when there is no token.
    """

    def __init__(
        self, address: str, *, debug: bool = False, timeout: float = TIMEOUT, retry: Retry | None = None, tell: Tell | None = None
    ) -> None:
        base = safe_address(address)
        if not timeout > 0:
            raise UsageError(f"timeout is {timeout:g}: give more than 0 seconds")
        self.shown, self._url = base.shown, base.url
        self.debug, self._calls = debug, "debug" if debug else "run"
        self._timeout, self._tell, self._why = timeout, tell, ""
        given = retry or Retry(tries=10)
        self._sleep = given.sleep or time.sleep
        self.retry = replace(given, sleep=self._wait)
        self._token, self.session = Token(), requests.Session()
        self.session.trust_env = base.url.startswith("https://")  # else a proxy of the environment would get the token unencrypted
        self._answered = False

    def team(self) -> str:
        """The team that the token belongs to."""
        found = self._read("auth/verify", {})
        if not isinstance(found, dict) or not isinstance(found.get("team_id"), str):
            raise DataError(f"{self.shown} does not name the team of the token: check the address")
        return str(found["team_id"])

    def budget(self) -> int | None:
        """How many runs may still be started, or debug conversations; None if the server's answer doesn't say it.

        A number without a name is the budget of the debug conversations, as in the documentation of 2025.
        """
        found = self._read("budget/check", {})
        left = found.get("remaining", found) if isinstance(found, dict) else found
        if isinstance(left, dict):
            left = left.get(self._calls)
            left = left.get("remaining") if isinstance(left, dict) else left
        elif self._calls != "debug":
            return None
        return left if isinstance(left, int) and not isinstance(left, bool) else None

    def start(self, run_id: str, description: str, *, track_persona: bool, about: Mapping[str, Any] | None = None) -> UserMessage:
        """Start a run.

        ``track_persona`` is sent at the top level, as the documentation of 2025 says, and in ``extra``, where the released server reads it
        and keeps what else is there: ``about``.
        """
        body = {"run_id": run_id, "description": description, "track_persona": track_persona}
        return self._change("start", {**body, "extra": {**(about or {}), "track_persona": track_persona}})

    def proceed(
        self, run_id: str, response: str, citations: Mapping[str, float], statements: list[str], about: Mapping[str, Any] | None = None
    ) -> UserMessage:
        """Answer the user; after the end of a session, with an empty response, ask for the next topic.

        The statements are sent at the top level, as the documentation of 2025 says, and in ``meta``, where the released server reads them
        and keeps what else is there: ``about``.

        Raises:
            ResponseTooLong: when the server counts too many tokens.
            Unsure: when it is unknown whether the server took the response.
        """
        body = {"run_id": run_id, "response": response, "citations": dict(citations), "ptkb_provenance": statements}
        return self._change("continue", {**body, "meta": {**(about or {}), "ptkb_provenance": statements}})

    def current(self, run_id: str) -> UserMessage:
        """The current user message again, without answering it.

        Raises:
            KeepsFailing: when the server fails twice, as the released one does while no conversation is open.
        """
        return UserMessage.of(self._read(f"{self._calls}/session", {"run_id": run_id}, failures=2))

    def status(self, run_id: str) -> RunStatus:
        """The state of a run."""
        return RunStatus.of(self._read("run/status", {"run_id": run_id}))

    def dump(self, run_id: str) -> list[Any]:
        """The objects of the run file, which :func:`~.server_answers.read_dump` reads: one for each response that the server took.

        Raises:
            KeepsFailing: when the server fails twice, as the released one does before it has a response.
        """
        found = self._read("run/dump", {"run_id": run_id}, failures=2)
        return found if isinstance(found, list) else [found]

    def _read(self, path: str, query: Mapping[str, str], failures: int | None = None) -> Any:
        """The content of an answer to a call that only reads; `KeepsFailing` after so many failures of the server."""
        failed = 0

        def read() -> Any:
            nonlocal failed
            try:
                return self._content(self._send("GET", path, params=query))
            except Failed as error:
                failed += 1
                if failed == failures:
                    raise KeepsFailing(
                        f"{self.shown} failed {failed} times at {path} ({error.reason}): start again later, {AGAIN}"
                    ) from None
                raise

        try:
            return self._retried(read)
        except Unsure as error:  # an answer that is not JSON
            raise DataError(f"{self.shown} is not a server of simulated users ({error}): check the address") from None
        except Transient as error:
            raise ServerDown(f"{self.shown} gave no answer to {path} ({error.reason}): start again later, {AGAIN}") from None

    def _change(self, call: str, body: Mapping[str, Any]) -> UserMessage:
        """The message in the answer to a call that changes the state of the run."""
        try:
            return self._retried(lambda: self._changed(call, body))
        except Transient as error:
            raise ServerDown(f"{self.shown} did not take {call} ({error.reason}): start again later, {AGAIN}") from None

    def _retried(self, call: Callable[[], T]) -> T:
        """The outcome of a call, which is retried after each transient failure."""
        for attempt in self.retry.loop(threading.Event()):
            with attempt:
                try:
                    return call()
                except Transient as error:
                    self._why = error.reason
                    raise
        raise AssertionError("a loop of retries returns or raises")

    def _wait(self, seconds: float) -> None:
        if self._tell:
            self._tell(f"waiting {seconds:.0f} s for {self.shown} ({self._why})")
        self._sleep(seconds)

    def _changed(self, call: str, body: Mapping[str, Any]) -> UserMessage:
        """One attempt."""
        try:
            answer = self._send("POST", f"{self._calls}/{call}", json=body)
        except Untaken:
            raise
        except Transient as error:
            raise Unsure(error.reason, late=isinstance(error, Late), failed=isinstance(error, Failed)) from None
        try:
            return UserMessage.of(self._content(answer))
        except DataError as error:
            raise Unsure(str(error)) from None

    def _send(self, method: str, path: str, **options: Any) -> requests.Response:
        """An answer with a status below 300.

        Raises:
            Late: when the answer takes too long.
            Untaken: when the call did not reach the server, or is one too many (429).
            Transient: when the server failed, or its answer was lost.
            ServerRefusal: when the server refuses the call for good.
            UsageError: when the first connection can't be encrypted.
        """
        try:
            answer = self.session.request(
                method,
                f"{self._url}/{path}",
                auth=self._token,  # as a header it would give way to a login in ~/.netrc
                headers={"Connection": "close"},  # an idle connection may be lost while the system answers
                timeout=(CONNECT, self._timeout),
                allow_redirects=False,
                **options,
            )
        except requests.ReadTimeout:
            raise Late(None, f"no answer within {self._timeout:g} seconds") from None
        except (requests.RequestException, OSError) as error:
            reason = self._token.hidden(_cause(error))
            if isinstance(error, requests.exceptions.SSLError) and not self._answered:
                repair = "check the address; for a certificate of your own set REQUESTS_CA_BUNDLE to its file"
                raise UsageError(f"no encrypted connection to {self.shown} ({reason}): {repair}") from None
            if _is_unsent(error):
                raise Untaken(None, reason, unreached=not self._answered) from None
            raise Transient(None, reason) from None
        self._answered = True
        if answer.status_code < 300:
            return answer
        said = self._said(answer)
        if answer.status_code == 429 or answer.status_code >= 500:
            wait = seconds_of(answer.headers.get("Retry-After"), time.time())
            kind = {429: Untaken, 500: Failed, 502: Late, 504: Late}.get(answer.status_code, Transient)
            raise kind(wait, f"{answer.status_code}: {said}")
        raise self._refusal(answer.status_code, said, path)

    def _content(self, answer: requests.Response) -> Any:
        """The JSON of an answer, or a list of its lines."""
        text = self._token.hidden(answer.content.decode("utf-8", "replace"))
        try:
            return cleaned(json.loads(text))
        except (ValueError, RecursionError):
            pass
        try:
            return [cleaned(json.loads(line)) for line in text.split("\n") if line.strip()]
        except (ValueError, RecursionError):
            raise Unsure(f"its answer is not JSON: {shorten(text)[:80]!r}") from None

    def _said(self, answer: requests.Response) -> str:
        """The answer of a server that refuses or redirects a call, without the token."""
        redirected = answer.status_code < 400
        return str(cleaned(self._token.hidden(shorten(answer.headers.get("Location") or "") if redirected else _detail(answer))))

    def _refusal(self, status: int, said: str, path: str) -> Exception:
        """The error that a refusal means."""
        if status == 422 and path.endswith("/continue") and re.search(r"token|too long", said, re.IGNORECASE):
            counted, limit = (re.search(pattern, said) for pattern in (r"(\d+)\s+tokens", r"limit of (\d+)"))
            share = (int(limit[1]) if limit else TOKENS) / max(1, int(counted[1])) if counted else 1.0
            return ResponseTooLong(share if share < 1 else None)
        repairs = {
            401: f"does not accept the token in {TOKEN}: copy the token of your team again",
            403: "does not allow this",
            412: "knows this run already: continue it in its folder; if that is lost, ask the organisers, or give another run id",
            404: f"knows no {path}, or no such run: check the address, it is the part before /run/start, and the run id",
        }
        moved = "answers with a redirect, and the token is not sent on: ask the organisers for the address"
        known = 401 if (status, path) == (400, "auth/verify") else status  # the released server's answer to a part of a token
        why = moved if status < 400 else repairs.get(known, f"refuses {path}")
        return ServerRefusal(status, f"{self.shown} {why} ({status}: {said})")

    def __repr__(self) -> str:
        return f"TrackServer({self.shown!r})"


def _is_unsent(error: Exception) -> bool:
    """Whether no connection was made, so that the server has received nothing."""
    inner = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or type(inner).__name__ in ("NewConnectionError", "NameResolutionError")


def _cause(error: Exception) -> str:
    inner = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
    return f"no connection: {shorten(str(getattr(inner, 'reason', None) or inner))}"


def _detail(answer: requests.Response) -> str:
    """The server's own words, in one line."""
    try:
        found = json.loads(answer.content).get("detail")
    except (ValueError, AttributeError, RecursionError):
        found = None
    if isinstance(found, list):
        found = "; ".join(
            f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg')}" if isinstance(one, dict) else str(one) for one in found
        )
    return shorten(str(found or answer.reason or "no reason given"))
