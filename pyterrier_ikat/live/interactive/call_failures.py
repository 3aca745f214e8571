"""What can go wrong with a call to the server of the simulated users."""

from ...errors import IkatError, UsageError
from ...llms.failures import Transient


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
