"""The server of the track's simulated users: its calls, its user messages, and its dump.

A call that only reads is repeated. A call that changes something (``start``, ``continue``) is repeated only where the server has certainly
not taken it. Otherwise it raises `Lost`, and the player looks where the server stands.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import httpx
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError, model_validator

from ...errors import DataError, IkatError, UsageError
from ...runs.answered_turn import strip_controls
from ..answering import Tell

TOKEN = "IKAT_TOKEN"
"""The environment variable with the team's token; nothing else has it."""
TIMEOUT = 300.0
CONNECT = 10.0
RETRIES = (1, 2, 4, 8, 15, 30, 60)
"""Seconds before a call is repeated that the server has not taken."""
AGAIN = "the same command continues the run"
SHOWN = 200
"""The most characters of a server's own words."""

Text = Annotated[str, BeforeValidator(lambda value: strip_controls(value) if isinstance(value, str) else value)]


class ServerDown(IkatError):
    """The server gives no answer that the run can go on with; the same command continues."""


class ServerFailed(ServerDown):
    """The server failed (500)."""


class ServerRefusal(UsageError):
    """The server refuses a call.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Lost(Exception):  # noqa: N818 - a signal
    """The answer to a call is lost.

    Attributes:
        unsent: whether the server has certainly not taken the call: it was not reached, or has too many calls (429).
        late: whether the server may still be at work on it.
        failed: whether the server said that it failed (500).
    """

    def __init__(self, why: str, *, unsent: bool = False, late: bool = False, failed: bool = False) -> None:
        super().__init__(why)
        self.unsent, self.late, self.failed = unsent, late, failed


class ResponseTooLong(Exception):  # noqa: N818 - a signal
    """The server counts more tokens than it accepts."""


class Said(BaseModel):
    """A message of a conversation."""

    role: Literal["user", "assistant"]
    content: Text


class UserMessage(BaseModel):
    """The words of a simulated user, and the state of the run. A field of another type is an error, never a guess.

    Attributes:
        topic: the topic's id.
        user: the user's id; the same user may have several topics.
        utterance: the user's words.
        history: the conversation so far; some servers include the utterance.
        ends_session: whether the user has no further question; the next call asks for the next topic.
        ends_run: whether there is no further topic either.
    """

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True, populate_by_name=True)
    topic: Text = Field(alias="topic_id")
    user: Text = Field(alias="user_id")
    utterance: Text
    history: list[Said]
    ends_session: StrictBool = Field(alias="last_response_of_session")
    ends_run: StrictBool = Field(alias="last_response_of_run")

    @model_validator(mode="before")
    @classmethod
    def _of_an_end(cls, found: Any) -> Any:
        """At the end of a run or topic, servers send null for what there isn't."""
        if not isinstance(found, Mapping) or True not in (found.get("last_response_of_session"), found.get("last_response_of_run")):
            return found
        nothing = {"topic_id": "", "user_id": "", "utterance": "", "history": []}
        known = {name: value for name, value in found.items() if value is not None}
        return {**nothing, **known, "last_response_of_session": True}

    @classmethod
    def of(cls, answer: Any) -> "UserMessage":
        """The message in the server's answer.

        Raises:
            DataError: when it holds none, naming the field.
        """
        try:
            return cls.model_validate(answer)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise DataError(f"the server's answer is not a user message ({where}: {first['msg']}): ask the organisers") from None

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation as chat messages, with the utterance at its end."""
        said = [one.model_dump() for one in self.history]
        newest = {"role": "user", "content": self.utterance}
        return said if said and said[-1] == newest else [*said, newest]

    @property
    def number(self) -> int:
        """The number of the turn that the message begins."""
        return sum(one["role"] == "user" for one in self.messages)

    @property
    def at_work(self) -> bool:
        """Whether the server has taken a response and has no reply yet: it shows the response itself."""
        return bool(self.history) and self.history[-1] == Said(role="assistant", content=self.utterance)


@dataclass(frozen=True)
class Dumped:
    """A response in the server's dump; the text is None for the user's last words on a topic, which have no response."""

    topic: str
    utterance: str
    text: str | None


def read_dump(entries: Iterable[Any]) -> list[Dumped]:
    """The responses in a dump: of the documented form, or of the released one (``assistant_text``).

    Raises:
        DataError: for another form. Nothing is concluded from it.

    Example:
        >>> said = {"user_utterance": "Which tea?", "assistant_text": "Rooibos."}
        >>> read_dump([{"metadata": {"topic_id": "1-1_1"}, "responses": [said]}])
        [Dumped(topic='1-1', utterance='Which tea?', text='Rooibos.')]
    """
    found = []
    for number, entry in enumerate(entries, 1):
        try:
            (response,) = entry["responses"]
            (name,) = {"text", "assistant_text"} & set(response)
            topic = entry["metadata"]["topic_id"].rpartition("_")[0]
            if not topic or not isinstance(response[name], str | None):
                raise TypeError(topic)
            found.append(Dumped(strip_controls(topic), response["user_utterance"], response[name]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"entry {number} of the server's dump has an unknown form ({error!r})") from None
    return found


class TrackServer:
    """The server of the simulated users. Its token comes from the environment, and is shown nowhere.

    Args:
        address: the base address, before ``/run/start``.
        debug: use the calls for debugging, which have a budget and are never assessed.
        timeout: seconds to wait for an answer; the simulated user may be a slow language model.
        tell: called with each wait.
        sleep: how to wait.
        transport: how calls reach the server, for tests.

    Attributes:
        shown: the address.
        debug: as given.

    Raises:
        UsageError: when the address would send the token unencrypted to another machine or holds a login, or when there is no token.
    """

    def __init__(
        self,
        address: str,
        *,
        debug: bool = False,
        timeout: float = TIMEOUT,
        tell: Tell = lambda line: None,
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.shown, self.debug, self._tell, self._sleep = safe_address(address), debug, tell, sleep
        self._area = "debug" if debug else "run"
        token = os.environ.get(TOKEN, "").strip()
        if not token.isascii() or not token.isprintable() or len(token.split()) != 1:
            raise UsageError(f"the token in {TOKEN} is empty or has a character that no token has: copy the token of your team again")
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(timeout, connect=CONNECT),
            limits=httpx.Limits(max_keepalive_connections=0),  # an idle connection may be lost while the system answers
            trust_env=self.shown.startswith("https"),  # else a proxy of the environment would get the token unencrypted
            transport=transport,
        )

    def team(self) -> str:
        """The team that the token belongs to."""
        match self._read("auth/verify"):
            case {"team_id": str(team)}:
                return team
        raise DataError(f"{self.shown} does not name the team of the token: check the address")

    def start(self, run_id: str, description: str, *, track_persona: bool, about: Mapping[str, Any]) -> UserMessage:
        """Start a run. ``track_persona`` is sent where the documentation of 2025 has it, and in ``extra`` with ``about``, which is kept."""
        said = {"run_id": run_id, "description": description, "track_persona": track_persona}
        return self._change("start", {**said, "extra": {**about, "track_persona": track_persona}})

    def proceed(
        self, run_id: str, response: str = "", citations: Mapping[str, float] | None = None, statements: Sequence[str] = ()
    ) -> UserMessage:
        """Answer the user; after the end of a session, without a response, ask for the next topic.

        The chosen statements are sent where the documentation of 2025 has them, and in ``meta``, where the released server reads them.

        Raises:
            ResponseTooLong: when the server counts too many tokens.
            Lost: when it is unknown whether the server took the response.
        """
        said = {"run_id": run_id, "response": response, "citations": dict(citations or {}), "ptkb_provenance": statements}
        return self._change("continue", {**said, "meta": {"ptkb_provenance": statements}})

    def session(self, run_id: str) -> UserMessage:
        """The current user message again, without answering it; `ServerFailed` where the released server has no open conversation."""
        return UserMessage.of(self._read(f"{self._area}/session", run_id=run_id))

    def status(self, run_id: str) -> tuple[str, list[Any]]:
        """The state of a run (``inactive`` after the server was started again), and the topics that are open."""
        match found := self._read("run/status", run_id=run_id):
            case {"status": str(state), "open_topics": list(topics)}:
                return state, topics
        raise DataError(f"the status of the run has an unknown form ({str(found)[:SHOWN]})")

    def dump(self, run_id: str) -> list[Any]:
        """The objects of the run file, one for each response that the server took."""
        found = self._read("run/dump", run_id=run_id)
        return found if isinstance(found, list) else [found]

    def dumped(self, run_id: str) -> list[Dumped]:
        """The responses in the run file, see :func:`read_dump`."""
        return read_dump(self.dump(run_id))

    def wait(self, seconds: float, why: str) -> None:
        """Wait, and say so."""
        self._tell(f"waiting {seconds:.0f} s: {why}")
        self._sleep(seconds)

    def _read(self, path: str, **query: str) -> Any:
        try:
            return self._call("GET", path, params=query)
        except Lost as error:
            raise ServerFailed(f"{self.shown} failed at {path} ({error}): check the address, or start again later; {AGAIN}") from None

    def _change(self, call: str, body: Mapping[str, Any]) -> UserMessage:
        try:
            return UserMessage.of(self._call("POST", f"{self._area}/{call}", json=body))
        except DataError as error:
            raise Lost(str(error)) from None

    def _call(self, method: str, path: str, **content: Any) -> Any:
        """The JSON of an answer, or a list of its lines; a call that the server has not taken is repeated, and one that only reads."""
        for wait in RETRIES:
            try:
                text = self._send(method, path, **content).text
                lines = text.split("\n") if text.startswith("{") else [text]
                found = [json.loads(line) for line in lines if line.strip()]
                return found[0] if len(found) == 1 else found
            except json.JSONDecodeError:
                raise Lost("its answer is not JSON") from None
            except Lost as error:
                if error.failed or (method == "POST" and not error.unsent):
                    raise
                why = f"{self.shown} gave no answer to {path} ({error})"
                self.wait(wait, why)
        raise ServerDown(f"{why}: start again later, {AGAIN}")

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        """An answer with a status below 300."""
        try:
            answer = self._client.request(method, f"{self.shown}/{path}", **content)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Lost(f"no connection: {error}", unsent=True) from None
        except httpx.TransportError as error:
            raise Lost(str(error) or type(error).__name__, late=isinstance(error, httpx.ReadTimeout)) from None
        if answer.is_success:
            return answer
        status, said = answer.status_code, self._said(answer)
        if status == 429 or status >= 500:
            raise Lost(f"{status}: {said}", unsent=status == 429, late=status in (502, 504), failed=status == 500)
        raise self._refusal(status, said, path)

    def _said(self, answer: httpx.Response) -> str:
        """The server's own words, or where it redirects to: in one line, without the token."""
        try:
            said = answer.json()["detail"]
        except (ValueError, TypeError, KeyError):
            said = answer.headers.get("Location") or answer.reason_phrase
        if isinstance(said, list):
            said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in said)
        token = self._client.headers["Authorization"].removeprefix("Bearer ")
        return " ".join(strip_controls(str(said)).replace(token, "***").split())[:SHOWN]

    def _refusal(self, status: int, said: str, path: str) -> Exception:
        """The error that a refusal means."""
        if status == 422 and path.endswith("continue") and re.search(r"token|too long", said, re.IGNORECASE):
            return ResponseTooLong(said)
        known = 401 if (status, path) == (400, "auth/verify") else status  # the released server's answer to a part of a token
        why = {
            401: f"does not accept the token in {TOKEN}: copy the token of your team again",
            403: "does not allow this",
            404: f"knows no {path}, or no such run: check the address, which is the part before /run/start",
            412: "knows this run already: continue it in its folder; if that is lost, give another run id",
        }.get(known, "answers with a redirect, and the token is not sent on: give that address" if status < 400 else f"refuses {path}")
        return ServerRefusal(status, f"{self.shown} {why} ({status}: {said})")


def safe_address(text: str) -> str:
    """The base address of the server, without a slash at its end.

    Raises:
        UsageError: when it is not a web address, has a login or a query, or is neither encrypted nor on this machine.

    Example:
        >>> safe_address("https://example.org/simulation/")
        'https://example.org/simulation'
    """
    url = httpx.URL(text)
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query:
        part = "the part before /run/start, such as https://HOST/simulation, without a login or a query"
        raise UsageError(f"the address is not one of a server: give {part}; the token comes from {TOKEN}")
    if url.scheme == "http" and url.host not in ("localhost", "127.0.0.1", "::1"):
        forward = "forward its port to this machine (ssh -L 8888:localhost:8888 HOST) and give http://localhost:8888"
        raise UsageError(f"{url} would send the token unencrypted: give an https:// address, or {forward}")
    return str(url).rstrip("/")
