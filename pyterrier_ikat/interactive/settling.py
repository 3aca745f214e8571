"""After a lost answer: find out whether the server took a response, so that none is sent twice and none is lost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DataError
from ..runs.dialogues import DialogueTurn
from .client import AGAIN, ServerDown, ServerRefusal, TrackServer
from .messages import UserMessage

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
    """

    reply: UserMessage | None = None
    dropped: bool = False


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


def settle(
    server: TrackServer,
    run_id: str,
    before: UserMessage,
    turn: DialogueTurn | None,
    *,
    earlier: int,
    begun: int,
    late: bool,
    sleep: Callable[[float], None],
) -> Settled:
    """Find out the outcome of a call whose answer was lost.

    Args:
        server: the server.
        run_id: the run.
        before: the user message that the call answered.
        turn: the response that was sent; None if the next topic was asked for.
        earlier: how many responses the server is known to have taken on this topic.
        begun: how many conversations the run has had.
        late: whether the server may still be at work on the call.
        sleep: how to wait.

    Raises:
        DataError: when the server doesn't show it.
        ServerDown: when it is not reached, or has not finished its work on the response.
    """
    for number, wait in enumerate((*WAITS, None)):
        try:
            now = server.current(run_id)
        except ServerRefusal as error:
            if error.status in (401, 403):
                raise
            return _without_session(server, run_id, before, turn, earlier, begun)
        except ServerDown:
            return _without_session(server, run_id, before, turn, earlier, begun)
        if turn is None:
            taken: bool | None = now.topic != before.topic or not now.ends_session
        else:
            taken = is_taken(before, now)
        working = turn is not None and not now.ends_session and _ends_with(before, "user") and _ends_with(now, "assistant")
        if taken and not working:
            return Settled(now)
        if taken is None:
            return _by_dump(server, run_id, before, turn, now, earlier)
        if not taken and number >= (len(WAITS) if late else SETTLED):
            return NOT_TAKEN
        if wait is not None:
            sleep(wait)
    raise ServerDown(f"{server.shown} has taken the response of turn {_name(turn)} and does not answer it: start again later, {AGAIN}")


def _ends_with(message: UserMessage, role: str) -> bool:
    """Whether the server's history ends with words of this role; that of some servers always ends before the user's newest words."""
    return bool(message.history) and message.history[-1]["role"] == role


def _by_dump(server: TrackServer, run_id: str, before: UserMessage, turn: DialogueTurn | None, now: UserMessage, earlier: int) -> Settled:
    """Whether the response is in the dump, where the user message doesn't show it."""
    if turn is None or _is_dumped(_entries(server, run_id, before, turn), run_id, turn, earlier):
        return Settled(now)
    return Settled(now, dropped=True) if now.topic != before.topic else NOT_TAKEN


def _without_session(server: TrackServer, run_id: str, before: UserMessage, turn: DialogueTurn | None, earlier: int, begun: int) -> Settled:
    """The outcome of a call where the server shows no user message: the released one fails after the end of a session."""
    try:
        status = server.status(run_id)
    except (ServerRefusal, ServerDown) as error:
        raise _unknown(server, run_id, turn, error) from None
    if turn is None:
        if len(status.get("done_topics") or ()) > begun:
            raise _unknown(server, run_id, turn)
        return NOT_TAKEN
    entries = _entries(server, run_id, before, turn)
    if not _is_dumped(entries, run_id, turn, earlier):
        return NOT_TAKEN  # with a session it is taken now; without one the server ignores it, and starts the next topic
    last = entries[-1]  # the released server ends a topic with the user's last words, which have no response
    if last.get("text") is not None and not str(status.get("status")).startswith("complete"):
        raise _unknown(server, run_id, turn)
    words = "" if last.get("text") is not None else str(last.get("user_utterance") or "")
    return Settled(replace(before, utterance=words, history=[], ends_session=True, ends_run=not status.get("open_topics")))


def _entries(server: TrackServer, run_id: str, before: UserMessage, turn: DialogueTurn) -> list[Mapping[str, Any]]:
    """The dump's responses on the topic.

    Raises:
        DataError: when there is no dump.
    """
    try:
        return [response_of(entry) for entry in server.dump(run_id) if topic_of(entry) == before.topic]
    except (ServerRefusal, ServerDown, DataError) as error:
        raise _unknown(server, run_id, turn, error) from None


def _is_dumped(entries: Sequence[Mapping[str, Any]], run_id: str, turn: DialogueTurn, earlier: int) -> bool:
    """Whether a response is among the topic's in the dump.

    Raises:
        DataError: when another one is in its place.
    """
    place = [one["text"] for one in entries if one.get("text") is not None][earlier:]
    if place and place[0] != turn.response:
        raise DataError(f"run {run_id}: the server has another response to turn {_name(turn)}: another process has continued this run")
    return bool(place)


def topic_of(entry: Mapping[str, Any]) -> str:
    """The topic of an entry of the dump, which is named ``<topic>_<number>``."""
    return str(entry["metadata"].get("topic_id", "")).rpartition("_")[0]


def response_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The response in an entry of the dump."""
    found = entry.get("responses") or [{}]
    return found[0] if isinstance(found[0], Mapping) else {}


def _unknown(server: TrackServer, run_id: str, turn: DialogueTurn | None, error: Exception | None = None) -> DataError:
    what = "the question for the next topic" if turn is None else f"the response to turn {_name(turn)}"
    why = f" ({error})" if error else ""
    return DataError(
        f"run {run_id}: {server.shown} does not show whether it took {what}{why}, and nothing is sent twice: start again later, {AGAIN}; "
        "start a debug run that can't continue anew, with another run id and folder"
    )


def _name(turn: DialogueTurn | None) -> str:
    return "" if turn is None else f"{turn.session}_{turn.turn}"
