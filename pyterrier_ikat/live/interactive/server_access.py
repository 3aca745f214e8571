"""Access to the server of the simulated users: the team's token, an address that keeps it safe, and what can go wrong with a call."""

import os

import requests
from requests.auth import AuthBase

from ...errors import IkatError, UsageError
from ...llms.failures import Transient
from ...llms.network import SHORTEST, Address, redact

TOKEN = "IKAT_TOKEN"
"""The environment variable with the token; nothing else has it."""


class Token(AuthBase):
    """The token in ``IKAT_TOKEN``. It is sent as a header and shown nowhere.

    Raises:
        UsageError: when there is none, or it can't be sent.
    """

    def __init__(self) -> None:
        if not _token():
            raise UsageError(f"there is no token: set the environment variable {TOKEN} to the token of your team")
        if not _token().isascii() or not _token().isprintable() or len(_token().split()) != 1:
            raise UsageError(f"the token in {TOKEN} has a character that no token has, such as a space: copy it again")

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header to a request."""
        request.headers["Authorization"] = f"Bearer {_token()}"
        return request

    def hidden(self, text: str) -> str:
        """The text without the token."""
        return redact(text, [_token()] if len(_token()) >= SHORTEST else [])

    def __repr__(self) -> str:
        return f"<the token in {TOKEN}>"


def _token() -> str:
    return os.environ.get(TOKEN, "").strip()


def safe_address(text: str) -> Address:
    """The base address of the server.

    Raises:
        UsageError: when it is not a web address, has a login, or is neither encrypted nor on this machine.

    Example:
        >>> safe_address("https://example.org/simulation/").url
        'https://example.org/simulation'
    """
    try:
        found = Address(text)
    except UsageError:
        raise UsageError("the address is not a web address: give the part before /run/start, such as https://HOST/simulation") from None
    if found.login or found.query:
        raise UsageError(f"{found.shown} has a login or a query: give the address without them, the token comes from {TOKEN}")
    if not found.local and not found.url.startswith("https://"):
        forward = "forward its port to this machine (ssh -L 8888:localhost:8888 HOST) and give http://localhost:8888"
        raise UsageError(f"{found.shown} would send the token unencrypted: give an https:// address, or {forward}")
    return found


class Untaken(Transient):
    """The server has certainly not taken the call."""


class Late(Transient):
    """The server may still be at work on the call."""


class Failed(Transient):
    """The server failed at the call (500)."""


class Unsure(Exception):  # noqa: N818 - a signal to the run, which finds out
    """A call was sent, and it is unknown whether the server took it.

    Attributes:
        late: whether the server may still be at work on it.
        failed: whether the server said that it failed (500).
    """

    def __init__(self, reason: str, *, late: bool = False, failed: bool = False) -> None:
        super().__init__(reason)
        self.late, self.failed = late, failed


class ServerRefusal(UsageError):
    """The server refuses a call.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ServerDown(IkatError):
    """The server gave no answer to a call that only reads, after all retries."""


class KeepsFailing(ServerDown):
    """The server failed twice at a call that only reads, as the released one does where there is nothing to show."""


class ResponseTooLong(Exception):  # noqa: N818 - a signal to the run, which cuts the response
    """The server counts more tokens than it accepts.

    Attributes:
        share: how much of the response it accepts, by its own count; None if it doesn't say.
    """

    def __init__(self, share: float | None) -> None:
        super().__init__(share)
        self.share = share
