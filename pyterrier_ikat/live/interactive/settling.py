"""After a lost answer: find out whether the server took a response, so that none is sent twice and none is lost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ...errors import DataError
from ...runs.answered_turn import Turn
from .client import AGAIN, TrackServer
from .server_access import KeepsFailing, ServerDown, ServerRefusal
from .server_answers import DumpEntry, UserMessage, more_than, read_dump

WAITS = (2.0, 8.0, 30.0, 60.0, 120.0)
"""Seconds between two questions to a server that may still be at work on a response."""
SETTLED = 2
"""How many waits without a change show that a response was not taken, after a lost connection; after a time-out or a kill, all of them."""


@dataclass(frozen=True)
class Settled:
    """The outcome of a call.

    Attributes:
        reply: the user message that followed it; None if the server has not taken the call, so that it is to be sent again.
        dropped: whether the server will never take it, because it lost the session and has gone on to ``reply``.
        restarted: whether the server says that it has no conversation of the run since it was started again.
    """

    reply: UserMessage | None = None
    dropped: bool = False
    restarted: bool = False


class Seen(Enum):
    """The server's state while the outcome of a call is open."""

    UNTAKEN = "it has not taken the response so far"
    AT_WORK = "it has taken the response, and has no reply yet"
    BEGUN = "it has begun the next topic, and shows no message"


NOT_TAKEN = Settled()


def is_taken(before: UserMessage, now: UserMessage) -> bool | None:
    """Whether the server took the response to ``before``, by its present user message; None if that doesn't show it.

    The history shows it: it grows by the response and the user's next words, also if the user repeats the last ones. A history that changed
    without growing does not show it. If the server keeps no history, another utterance shows it, and an equal time shows that it is the old
    message.

    Example:
        >>> said = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}, {"role": "user", "content": "Why?"}]
        >>> before = UserMessage("1-1", "u", "Why?", said[:1])
        >>> is_taken(before, UserMessage("1-1", "u", "Why?", said)), is_taken(before, before)
        (True, False)
    """
    if now.topic != before.topic:
        return None
    if before.history or now.history:
        grown = len(now.messages()) - len(before.messages())
        return grown > 0 if grown > 0 or now.messages() == before.messages() else None
    if now.utterance != before.utterance or now.ends_session != before.ends_session:
        return True
    return False if now.timestamp and now.timestamp == before.timestamp else None


@dataclass
class Lost:
    """A call whose answer was lost.

    Attributes:
        server: the server.
        run_id: the run.
        before: the user message that the call answered.
        turn: the response that was sent; None if the next topic was asked for.
        known: the responses on this topic that the server is known to have taken.
        begun: how many conversations the run has had.
    """

    server: TrackServer
    run_id: str
    before: UserMessage
    turn: Turn | None
    known: Sequence[str]
    begun: int

    def settle(self, *, late: bool, sleep: Callable[[float], None]) -> Settled:
        """Find out the outcome.

        Args:
            late: whether the server may still be at work on the call.
            sleep: how to wait.

        Raises:
            DataError: when the server doesn't show it.
            ServerDown: when it is not reached, or has not finished its work on the response.
        """
        for number, wait in enumerate((*WAITS, None)):
            found = self._look()
            if isinstance(found, Settled):
                return found
            if found is Seen.UNTAKEN and number >= (len(WAITS) if late else SETTLED):
                return NOT_TAKEN
            if wait is not None:
                sleep(wait)
        if found is Seen.BEGUN:
            return NOT_TAKEN  # the topic has no message at all: the next call gets its first one
        told = f"{self.server.shown} has taken {what(self.turn)} and gives no reply: it is still at work, or its simulated user failed"
        raise ServerDown(f"{told}; start again later, {AGAIN}, or ask the organisers")

    def _look(self) -> Settled | Seen:
        """The current state of the server."""
        try:
            now = self.server.current(self.run_id)
        except (ServerRefusal, ServerDown) as error:
            _unless_forbidden(error)
            return self._without_session()
        if self.turn is None:
            return Settled(now) if now.topic != self.before.topic or not now.ends_session else Seen.UNTAKEN
        taken = is_taken(self.before, now)
        if taken is None:  # the message doesn't show it, but the dump does
            if self._is_dumped(self._entries(), self.turn):
                return Settled(now)
            return Settled(now, dropped=True) if now.topic != self.before.topic else NOT_TAKEN
        if not taken:
            return Seen.UNTAKEN
        at_work = not now.ends_session and _ends_with(self.before, "user") and _ends_with(now, "assistant")
        return Seen.AT_WORK if at_work else Settled(now)

    def _without_session(self) -> Settled | Seen:
        """What status and dump show, where the server shows no user message: the released one fails while no conversation is open."""
        try:
            status = self.server.status(self.run_id)
        except (ServerRefusal, ServerDown, DataError) as error:
            if isinstance(error, ServerRefusal) and error.status == 404 and not self.server.debug:  # debug runs have no status
                raise _forgotten(self.server, self.run_id, error) from None
            raise self._unknown(error) from None
        restarted = status.state == "inactive"
        if self.turn is None:
            return Seen.BEGUN if len(status.done) > self.begun else replace(NOT_TAKEN, restarted=restarted)
        entries = self._entries()
        if not self._is_dumped(entries, self.turn):
            # with a session it is taken now; without one the server ignores it, and starts the next topic
            return replace(NOT_TAKEN, restarted=restarted)
        last = entries[-1]  # the released server ends a topic with the user's last words, which have no response
        if last.text is not None and status.state == "active":
            return Seen.AT_WORK
        words = last.utterance if last.text is None else ""
        ended = replace(self.before, utterance=words, history=[], ends_session=True, ends_run=not status.open)
        return Settled(ended, restarted=restarted and last.text is not None)

    def _entries(self) -> list[DumpEntry]:
        """The dump's entries of the topic.

        Raises:
            DataError: when there is no dump, or one of an unknown form.
        """
        try:
            return [entry for entry in read_dump(self.server.dump(self.run_id)) if entry.topic == self.before.topic]
        except (ServerRefusal, ServerDown, DataError) as error:
            raise self._unknown(error) from None

    def _is_dumped(self, entries: Sequence[DumpEntry], turn: Turn) -> bool:
        """Whether the response is among the topic's in the dump, besides the known ones.

        Raises:
            DataError: when another one is.
        """
        more = more_than(self.known, entries)
        if set(more) - {turn.response, *self.known}:
            told = f"the server has another response to turn {qid_of(turn)}: another process has continued this run"
            raise DataError(f"run {self.run_id}: {told}")
        return more[turn.response] > 0

    def _unknown(self, error: Exception) -> DataError:
        return DataError(
            f"run {self.run_id}: {self.server.shown} does not show whether it took {what(self.turn)} ({error}), and nothing is sent twice: "
            f"start again later, {AGAIN}; start a debug run that can't continue again, with another run id and folder"
        )


def settle_start(server: TrackServer, run_id: str, sleep: Callable[[float], None]) -> UserMessage | None:
    """The first message of a run whose start got no answer; None if the server does not know the run.

    Raises:
        Unsure: when the server has started the run, and fails at its first message.
    """
    for wait in (*WAITS, None):
        try:
            return server.current(run_id)
        except ServerRefusal as error:
            _unless_forbidden(error)
            return None
        except KeepsFailing:
            if not _is_known(server, run_id):
                return None
        if wait is not None:
            sleep(wait)
    return server.proceed(run_id, "", {}, [])  # the run is there, and its first topic has no message


def _is_known(server: TrackServer, run_id: str) -> bool:
    try:
        server.status(run_id)
    except ServerRefusal as error:
        _unless_forbidden(error)
        return False
    return True


def _unless_forbidden(error: Exception) -> None:
    """A refusal says that there is nothing, unless it is one of the token."""
    if isinstance(error, ServerRefusal) and error.status in (401, 403):
        raise error


def _ends_with(message: UserMessage, role: str) -> bool:
    """Whether the server's history ends with words of this role; that of some servers always ends before the user's newest words."""
    return bool(message.history) and message.history[-1]["role"] == role


def _forgotten(server: TrackServer, run_id: str, error: Exception) -> DataError:
    """The released server keeps a run from its first response on, and forgets an earlier one when it is started again."""
    told = f"{server.shown} does not know run {run_id} any more, because it was started again before it kept a response ({error})"
    return DataError(f"{told}: give another run id and another folder, or ask the organisers")


def what(turn: Turn | None) -> str:
    """A call, as messages name it: that of a response, or of none."""
    return f"the response to turn {qid_of(turn)}" if turn else "the question for the next topic"


def qid_of(turn: Turn) -> str:
    """The id of a turn."""
    return f"{turn.session}_{turn.number}"
