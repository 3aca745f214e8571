"""The server of the track's simulated users: calls, messages, its dump, limits of a response.

A call that only reads is repeated. A call that changes something (``start``, ``continue``) is
repeated only where the server has certainly not taken it. Otherwise it raises `ServerDown`, and the
player looks where the server stands.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from time import sleep
from typing import Annotated, Any, Literal, NamedTuple

import httpx
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError

from ...completions.citations import whole_sentences
from ...errors import DataError, IkatError, UsageError
from ...runs.answered_turn import Turn, strip_controls
from ...submit.checks import MOST_PASSAGES, six_decimals
from ...submit.submissions import lower_score
from ..answering import Tell


def _without_controls(value: Any) -> Any:
    """Remove control characters from a text; pydantic refuses other values."""
    return strip_controls(value) if isinstance(value, str) else value


TOKEN_VARIABLE = "IKAT_TOKEN"
"""The environment variable with the team's token; nothing else has it."""
TIMEOUT = 300.0
CONNECT_TIMEOUT = 10.0
RETRY_WAITS = (1, 2, 4, 8, 15, 30, 60)
"""Seconds before a call is repeated that the server has not taken."""
AGAIN = "the same command continues the run"
SHOWN_CHARACTERS = 200
"""The most characters of a server's own words."""
REFUSALS = {
    401: (f"does not accept the token in {TOKEN_VARIABLE}", "copy the token of your team again"),
    404: ("knows no such address or run", "check the address, which is the part before /run/start"),
    412: (
        "knows this run already",
        "continue it in its folder; if that is lost, give another run id",
    ),
}
"""Why a server refuses a call, and the repair, by HTTP status."""
RESPONSE_TOKENS = 250
"""The most tokens of a response; the server refuses a longer one."""
SENTENCE_LOOKAHEAD = 200
"""How many characters after the limit decide where a sentence ends."""
SCORE_STEP = 2e-6
"""The least difference of two scores that six decimals show."""

Text = Annotated[str, BeforeValidator(_without_controls)]


class ServerDown(IkatError):
    """A call has no answer that the run can go on with; the same command continues.

    Attributes:
        why: the reason.
        status: the HTTP status; 500 if the server failed, 0 for none.
        unsent: whether the server has certainly not taken the call: it was not reached, has too
            many calls (429), or refuses.
        late: whether the server may still be at work on it.
    """

    def __init__(
        self,
        why: str,
        repair: str = "",
        status: int = 0,
        *,
        unsent: bool = False,
        late: bool = False,
    ) -> None:
        repair = repair or f"check the address, or start again later; {AGAIN}"
        super().__init__(f"{why}: {repair}")
        self.why = why
        self.status = status
        self.unsent = unsent
        self.late = late


class ServerRefusal(ServerDown, UsageError):
    """The server refuses a call."""


class HistoryMessage(BaseModel):
    """A message of a conversation."""

    role: Literal["user", "assistant"]
    content: Text


class UserMessage(BaseModel):
    """The words of a simulated user, and the state of the run. A field of another type is an error.

    Attributes:
        topic: the topic's id.
        user: the user's id; the same user may have several topics.
        utterance: the user's words.
        history: the conversation so far; some servers include the utterance.
        ends_session: whether the user has no further question; the next call asks for the next
            topic.
        ends_run: whether there is no further topic either.
    """

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True, populate_by_name=True)
    topic: Text = Field(alias="topic_id")
    user: Text = Field(alias="user_id")
    utterance: Text
    history: list[HistoryMessage]
    ends_session: StrictBool = Field(alias="last_response_of_session")
    ends_run: StrictBool = Field(alias="last_response_of_run")

    @classmethod
    def of(cls, answer: Any) -> "UserMessage":
        """Read the message in the server's answer.

        Raises:
            DataError: when it holds none, naming the field.
        """
        try:
            return cls.model_validate(answer)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise DataError(
                f"the server's answer is not a user message ({field}: {first['msg']}): "
                "ask the organisers"
            ) from None

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation as chat messages, with the utterance at its end."""
        messages = [message.model_dump() for message in self.history]
        newest = {"role": "user", "content": self.utterance}
        if not messages or messages[-1] != newest:
            messages.append(newest)
        return messages

    @property
    def number(self) -> int:
        """The number of the turn beginning with the message."""
        return sum(message["role"] == "user" for message in self.messages)

    @property
    def position(self) -> tuple[str, int, bool]:
        """The position of the message in the run: topic, turn, and whether the session ends."""
        return self.topic, self.number, self.ends_session

    @property
    def at_work(self) -> bool:
        """Whether the server has no reply to a response yet: it shows the response itself."""
        if not self.history:
            return False
        return self.history[-1] == HistoryMessage(role="assistant", content=self.utterance)


class Dumped(NamedTuple):
    """A response in the server's dump.

    The text is None for the user's last words on a topic, which have no response.
    """

    topic: str
    utterance: str
    text: str | None


def read_dump(entries: Iterable[Any]) -> list[Dumped]:
    """Read the responses in a dump.

    They have the documented form (``text``), or the released one (``assistant_text``).

    Raises:
        DataError: for another form. Nothing is concluded from it.

    Example:
        >>> said = {"user_utterance": "Which tea?", "assistant_text": "Rooibos."}
        >>> read_dump([{"metadata": {"topic_id": "1-1_1"}, "responses": [said]}])
        [Dumped(topic='1-1', utterance='Which tea?', text='Rooibos.')]
    """
    dumped = []
    for number, entry in enumerate(entries, 1):
        try:
            dumped.append(_read_entry(entry))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"entry {number} of the server's dump has an unknown form ({error!r})"
            ) from None
    return dumped


def _read_entry(entry: Any) -> Dumped:
    [response] = entry["responses"]
    [text] = [response[name] for name in ("text", "assistant_text") if name in response]
    topic = entry["metadata"]["topic_id"].rpartition("_")[0]
    if not topic or not isinstance(text, str | None):
        raise TypeError(topic)
    return Dumped(strip_controls(topic), response["user_utterance"], text)


class TrackServer:
    """The server of the simulated users, for one run.

    Its token comes from the environment, and is shown nowhere.

    Args:
        address: the base address, before ``/run/start``.
        run_id: the run.
        debug: use the calls for debugging, which have a budget and are never assessed.
        tell: called with each wait.
        transport: how calls reach the server, for tests.

    Attributes:
        shown: the address.
        debug: as given.

    Raises:
        UsageError: when the address would send the token unencrypted to another machine or holds a
            login, when there is no token, or when the run id is not one word.
    """

    def __init__(
        self,
        address: str,
        run_id: str,
        *,
        debug: bool = False,
        tell: Tell = lambda line: None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.shown = safe_address(address)
        self.debug = debug
        self._run_id = run_id
        self._tell = tell
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not re.fullmatch("[!-~]+", token):
            raise UsageError(
                f"the token in {TOKEN_VARIABLE} is empty or has a character that no token has: "
                "copy the token of your team again"
            )
        if not run_id or not run_id.isprintable() or " " in run_id:
            raise UsageError(f"the run id {run_id!r} is not one word: give one without white space")
        encrypted = self.shown.startswith("https")
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(TIMEOUT, connect=CONNECT_TIMEOUT),
            # else a proxy of the environment would get the token unencrypted
            trust_env=encrypted,
            transport=transport,
        )

    def team(self) -> str:
        """Return the team of the token."""
        match self._call("GET", "auth/verify"):
            case {"team_id": str(team)}:
                return team
        raise DataError(f"{self.shown} does not name the team of the token: check the address")

    def start(
        self, description: str, *, track_persona: bool, about: Mapping[str, Any]
    ) -> UserMessage:
        """Start the run.

        ``track_persona`` is sent where the documentation of 2025 has it, and in ``extra``, which
        the server keeps.
        """
        extra = {**about, "track_persona": track_persona}
        return self._message(
            "POST", "start", description=description, track_persona=track_persona, extra=extra
        )

    def proceed(
        self,
        response: str = "",
        citations: Mapping[str, float] | None = None,
        statements: Sequence[str] = (),
    ) -> UserMessage:
        """Answer the user; after the end of a session, without a response, ask for the next topic.

        The chosen statements are sent where the documentation of 2025 has them, and in ``meta``,
        where the released server reads them.
        """
        chosen = {"ptkb_provenance": statements}
        return self._message(
            "POST",
            "continue",
            response=response,
            citations=dict(citations or {}),
            meta=chosen,
            **chosen,
        )

    def session(self) -> UserMessage:
        """Read the current user message again, without answering it.

        The released server fails (500) where it has no open conversation.
        """
        return self._message("GET", "session")

    def open_topics(self) -> list[Any]:
        """Return the topics not yet begun."""
        status = self._call("GET", "run/status", run_id=self._run_id)
        match status:
            case {"open_topics": list(topics)}:
                return topics
        excerpt = str(status)[:SHOWN_CHARACTERS]
        raise DataError(f"the status of the run has an unknown form ({excerpt})")

    def dump(self) -> list[Any]:
        """Return the objects of the run file, one for each accepted response."""
        entries = self._call("GET", "run/dump", run_id=self._run_id)
        return entries if isinstance(entries, list) else [entries]

    def dumped(self) -> list[Dumped]:
        """The responses in the run file, see :func:`read_dump`."""
        return read_dump(self.dump())

    def wait(self, seconds: float, why: str) -> None:
        """Wait, and say so."""
        self._tell(f"waiting {seconds:.0f} s: {why}")
        sleep(seconds)

    def _message(self, method: str, call: str, **fields: Any) -> UserMessage:
        path = f"debug/{call}" if self.debug else f"run/{call}"
        return UserMessage.of(self._call(method, path, run_id=self._run_id, **fields))

    def _call(self, method: str, path: str, **fields: Any) -> Any:
        """The JSON of an answer, or a list of its lines.

        A call is repeated if it only reads, or if the server has not taken it.
        """
        for seconds in RETRY_WAITS:
            try:
                return self._send(method, path, fields)
            except ServerDown as error:
                maybe_taken = method == "POST" and not error.unsent
                if isinstance(error, ServerRefusal) or error.status == 500 or maybe_taken:
                    raise
                self.wait(seconds, error.why)
        return self._send(method, path, fields)

    def _send(self, method: str, path: str, fields: Mapping[str, Any]) -> Any:
        lost = f"{self.shown} gave no answer to {path}"
        url = f"{self.shown}/{path}"
        try:
            if method == "GET":
                answer = self._client.get(url, params=fields)
            else:
                answer = self._client.post(url, json=fields)
            if answer.is_success:
                lines = [json.loads(line) for line in answer.text.split("\n") if line.strip()]
                return lines[0] if len(lines) == 1 else lines
        except httpx.TransportError as error:
            raise ServerDown(
                f"{lost} ({type(error).__name__}: {error})",
                unsent=isinstance(error, httpx.ConnectError | httpx.ConnectTimeout),
                late=isinstance(error, httpx.ReadTimeout),
            ) from None
        except json.JSONDecodeError:
            raise ServerDown(f"{lost} (what came is not JSON)", status=500) from None
        raise self._refusal(answer, path, lost)

    def _refusal(self, answer: httpx.Response, path: str, lost: str) -> ServerDown:
        """Return the error for an answer without success."""
        status = answer.status_code
        words = self._words(answer)
        if status == 429 or status >= 500:
            return ServerDown(
                f"{lost} ({words})", status=status, unsent=status == 429, late=status in (502, 504)
            )
        reason = status
        if status == 400 and path == "auth/verify":
            reason = 401  # the released server's answer to a part of a token
        why, repair = REFUSALS.get(reason, (f"refuses {path}", f"correct that; {AGAIN}"))
        return ServerRefusal(f"{self.shown} {why} ({words})", repair, status, unsent=True)

    def _words(self, answer: httpx.Response) -> str:
        """The status and the server's words, or its redirection, in one line without the token."""
        words = strip_controls(answer.headers.get("Location") or answer.text)
        token = self._client.headers["Authorization"].removeprefix("Bearer ")
        line = " ".join(words.replace(token, "***").split())
        return f"{answer.status_code}: {line[:SHOWN_CHARACTERS]}"


def safe_address(text: str) -> str:
    """The base address of the server, without a slash at its end.

    Raises:
        UsageError: when it is not a web address, has a login or a query, or is neither encrypted
            nor on this machine.

    Example:
        >>> safe_address("https://example.org/simulation/")
        'https://example.org/simulation'
    """
    url = httpx.URL(text)
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query:
        raise UsageError(
            "the address is not one of a server: give the part before /run/start, such as "
            "https://HOST/simulation, without a login or a query; "
            f"the token comes from {TOKEN_VARIABLE}"
        )
    if url.scheme == "http" and url.host not in ("localhost", "127.0.0.1", "::1"):
        raise UsageError(
            f"{url} would send the token unencrypted: give an https:// address, or forward its "
            "port to this machine (ssh -L 8888:localhost:8888 HOST) and give http://localhost:8888"
        )
    return str(url).rstrip("/")


@cache
def tokenizer() -> Any:
    """Return spaCy's blank English tokenizer, by which the server counts.

    Raises:
        UsageError: when spaCy is not installed.
    """
    try:
        import spacy
    except ImportError:
        raise UsageError(
            "an interactive run counts tokens with spaCy: pip install 'pyterrier_ikat[live]'"
        ) from None
    return spacy.blank("en").tokenizer


def count_spacy_tokens(text: str) -> int:
    """Count the tokens of a text with spaCy's blank English tokenizer.

    It also counts punctuation marks and repeated spaces.

    Example:
        >>> count_spacy_tokens("I don't know, it's late.")
        9
    """
    return len(tokenizer()(text))


def cut_to_tokens(text: str, limit: int = RESPONSE_TOKENS) -> str:
    """Cut a text where a sentence or a line ends, so that it has at most ``limit`` tokens.

    A text within the limit is returned unchanged. If the first sentence alone exceeds the limit, it
    is cut after a token.

    Args:
        text: any text.
        limit: the most tokens, as :func:`count_spacy_tokens` counts them.

    Example:
        >>> cut_to_tokens("Oats are cheap. They keep well.", 5)
        'Oats are cheap.'
    """
    tokens = tokenizer()(text)
    if len(tokens) <= limit:
        return text
    beginning = text[: tokens[limit].idx].rstrip()
    # The text behind it decides what is the end of a sentence: 3.5 has none after its point.
    sentences = whole_sentences(text[: len(beginning) + SENTENCE_LOOKAHEAD])
    # A part is counted again: without the rest, it may be divided into other tokens.
    for part in reversed(sentences):
        if len(part) <= len(beginning) and count_spacy_tokens(part) <= limit:
            return part
    for end in range(len(beginning), 0, -1):
        part = beginning[:end].rstrip()
        if count_spacy_tokens(part) <= limit:
            return part
    return ""


def fitted(turn: Turn, share: float = 1.0) -> Turn:
    """Fit a turn to the server: its response is cut, and its best 1000 scores decrease strictly.

    Args:
        turn: the turn.
        share: the share of the response that is kept, if a server finds it too long.

    Raises:
        DataError: when a score is not finite.

    Example:
        >>> citations = {"d1": 2.5, "d2": 2.5}
        >>> turn = Turn(1, "Which tea?", "Rooibos. It has none.", citations=citations)
        >>> fitted(turn, share=0.5).response
        'Rooibos.'
    """
    text = strip_controls(turn.response).strip()  # as it will come back from the server
    size = count_spacy_tokens(text)
    response = cut_to_tokens(text, int(share * min(size, RESPONSE_TOKENS)))
    cut = turn.cut
    if response != text:
        cut += size - count_spacy_tokens(response)
    return replace(turn, response=response, citations=_fitted_scores(turn), cut=cut)


def _fitted_scores(turn: Turn) -> dict[str, float]:
    """Return the best passages of a turn, with strictly decreasing scores of six decimals."""
    citations: dict[str, float] = {}
    before = math.inf
    for docno, score in list(turn.citations.items())[:MOST_PASSAGES]:
        if not math.isfinite(score):
            raise DataError(
                f"turn {turn.session}_{turn.number}: passage {docno} has the score {score}, "
                "and a citation needs a finite one: correct the stage that scores, "
                "and start again; the run continues with this turn"
            )
        before = lower_score(float(score), before, six_decimals, SCORE_STEP)
        citations[str(docno)] = before
    return citations
