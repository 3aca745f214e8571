"""The sending side of an interactive run: each call is noted before it is made, and settled where its answer is lost."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import DataError
from ...runs.answered_turn import Turn
from ..answering import Tell
from .client import AGAIN, TrackServer
from .journal import Journal
from .response_limits import count_spacy_tokens, fit_response
from .server_access import ResponseTooLong, ServerDown, ServerRefusal, Unsure
from .server_answers import UserMessage, more_than, read_dump
from .settling import Lost, Settled, qid_of, settle_start, what

ATTEMPTS = 10
"""How often a call that the server has not taken is sent, and a response that it finds too long is cut."""
RESTARTS = 2
"""After how many failures of a server that was started again, and has no conversation of the run, it is given up."""
CUT_AGAIN = 0.9
"""The share of a response that is sent again, if a server finds it too long and doesn't say how long it may be."""


class NotKeptWarning(UserWarning):
    """The server failed at a response, goes on, and has not kept it."""


class LostSessionWarning(UserWarning):
    """The server lost a conversation, and continued without the last response."""


@dataclass
class Sender:
    """Sends the responses of one run, none of them twice.

    Args:
        server: the server.
        run_id: the run.
        journal: the steps so far.
        tell: called with what happens, and with each wait.
        sleep: how to wait.
    """

    server: TrackServer
    run_id: str
    journal: Journal
    tell: Tell | None = None
    sleep: Callable[[float], None] = time.sleep
    _unkept: int = 0

    def start(self, description: str, *, track_persona: bool, about: Mapping[str, Any]) -> UserMessage:
        """The first message of the run; ``about`` says what it is made with."""
        if self.journal.asking and (found := settle_start(self.server, self.run_id, self._wait)):  # it was sent, and its answer was lost
            return self._begun(found)
        reason = ""
        for _ in range(ATTEMPTS):
            began = time.perf_counter()
            try:
                message = self._noted("start", lambda: self._start(description, track_persona, about))
            except Unsure as error:
                reason = str(error)
                if found := settle_start(self.server, self.run_id, self._wait):
                    return self._begun(found)
                continue
            self.journal.received(message, time.perf_counter() - began)
            return message
        told = f"{self.server.shown} did not start run {self.run_id} in {ATTEMPTS} attempts ({reason})"
        raise ServerDown(f"{told}: start again later, or give another run id")

    def _start(self, description: str, track_persona: bool, about: Mapping[str, Any]) -> UserMessage:
        return self.server.start(self.run_id, description, track_persona=track_persona, about=about)

    def _begun(self, message: UserMessage) -> UserMessage:
        """The first message of a run that the server has started."""
        if len(message.messages()) > 1 or message.ends_session:
            raise DataError(
                f"run {self.run_id} has gone on without this folder: continue in the folder in which it was started, or give another run id"
            )
        self.journal.received(message)
        return message

    def next_topic(self, message: UserMessage) -> UserMessage:
        """The first message of the next topic."""
        if self.journal.asking and (found := self._settle(message, None, late=True)).reply:
            return self._accept(message, None, found, None)
        return self._send(message, None)

    def exchange(self, message: UserMessage, answer: Callable[[UserMessage], Turn]) -> UserMessage:
        """The user's reply to the response to a message, which ``answer`` makes unless the journal has it."""
        turn = self.journal.pending
        if turn is not None and self.journal.sending and (found := self._settle(message, turn, late=True)).reply:
            return self._accept(message, turn, found, None)
        if turn is None:
            turn = answer(message)
            self.journal.answered(turn)
        return self._send(message, turn)

    def _send(self, message: UserMessage, turn: Turn | None) -> UserMessage:
        """Send a response, or ask for the next topic; returns the user's reply."""
        reason, restarts = "", 0
        for _ in range(ATTEMPTS):
            began = time.perf_counter()
            try:
                reply = self._proceed(turn)
            except ResponseTooLong as error:
                if turn is None:
                    raise DataError(f"{self.server.shown} refuses the question for the next topic as too long") from None
                turn = self._cut(turn, error.share)
                self.journal.answered(turn)
                continue
            except Unsure as error:
                reason = str(error)
                found = self._settle(message, turn, late=error.late)
                restarts += found.restarted
                if found.reply is None and restarts == RESTARTS:
                    raise ServerDown(self._lost(reason)) from None
                if found.reply is None:
                    continue
                if turn is not None and error.failed and not found.dropped:
                    self._check_kept(message, turn, reason)
            else:
                found = Settled(reply, dropped=turn is not None and not _follows(message, turn, reply))
            return self._accept(message, turn, found, time.perf_counter() - began)
        raise ServerDown(f"{self.server.shown} did not take {what(turn)} in {ATTEMPTS} attempts ({reason}): start again later, {AGAIN}")

    def _check_kept(self, message: UserMessage, turn: Turn, reason: str) -> None:
        """Check that a server that failed at a response, and yet went on, has it in its dump.

        The released server's own simulated users let it fail so at each response, for ever, and none is assessed.

        Raises:
            ServerDown: when it lacks the second one in a row.
        """
        known, topic = self.journal.texts_on(message.topic), message.topic
        try:
            entries = [entry for entry in read_dump(self.server.dump(self.run_id)) if entry.topic == topic]
        except (ServerDown, ServerRefusal):
            entries = []
        if more_than(known, entries)[turn.response]:
            self._unkept = 0
            return
        self._unkept += 1
        told = f"{self.server.shown} failed at {what(turn)} ({reason}), goes on with the conversation, and its dump has no such response"
        if self._unkept > 1:
            raise ServerDown(f"{told}, nor the one before, so that they would not be assessed: ask the organisers; {AGAIN}")
        warnings.warn(f"{told}: it may not be assessed", NotKeptWarning, stacklevel=4)

    def _lost(self, reason: str) -> str:
        told = f"{self.server.shown} was started again, has no conversation of run {self.run_id}, and fails at each call ({reason})"
        return f"{told}: ask the organisers whether they can recover it, {AGAIN}"

    def _proceed(self, turn: Turn | None) -> UserMessage:
        if turn is None:
            return self._noted("next", lambda: self.server.proceed(self.run_id, "", {}, []))
        said = (turn.response, turn.citations, list(turn.statements), facts_of(turn))
        return self._noted("sending", lambda: self.server.proceed(self.run_id, *said))

    def _noted(self, step: str, call: Callable[[], UserMessage]) -> UserMessage:
        """The answer to a call that is noted before it is made, and again when the server has certainly not taken it."""
        self.journal.step(step)
        try:
            return call()
        except (ServerDown, ServerRefusal):
            self.journal.step("unsent")
            raise

    def _settle(self, message: UserMessage, turn: Turn | None, *, late: bool) -> Settled:
        if self.tell:
            self.tell(f"{self.journal.session}: asking the server whether it took {what(turn)}")
        known, begun = self.journal.texts_on(message.topic), len(self.journal.dialogues)
        return Lost(self.server, self.run_id, message, turn, known, begun).settle(late=late, sleep=self._wait)

    def _wait(self, seconds: float) -> None:
        if self.tell:
            self.tell(f"waiting {seconds:.0f} s before the server is asked again")
        self.sleep(seconds)

    def _accept(self, message: UserMessage, turn: Turn | None, found: Settled, seconds: float | None) -> UserMessage:
        """Note the reply."""
        assert found.reply is not None
        if found.dropped:
            told = f"the server lost the conversation on topic {message.topic} and has not taken {what(turn)}"
            warnings.warn(f"{told}: it continues with topic {found.reply.topic}", LostSessionWarning, stacklevel=2)
            self.journal.dropped(found.reply)
        else:
            if found.restarted:
                told = f"the server took {what(turn)} and lost the conversation on topic {message.topic}"
                warnings.warn(f"{told}: the next topic is asked for", LostSessionWarning, stacklevel=2)
            self.journal.received(found.reply, seconds)
            if turn is not None and self.tell:
                self.tell(f"{qid_of(turn)} answered: {_in_words(turn, seconds)}")
        return found.reply

    def _cut(self, turn: Turn, share: float | None) -> Turn:
        """A shorter response, after the server counted more tokens than it accepts."""
        now = count_spacy_tokens(turn.response)
        limit = min(now - 1, int(now * (share or CUT_AGAIN)))
        response, cut = fit_response(turn.response, limit)
        if not response:
            raise DataError(f"turn {qid_of(turn)}: {self.server.shown} finds even a response of {now} tokens too long: ask the organisers")
        return replace(turn, response=response, cut=turn.cut + cut)


def facts_of(turn: Turn) -> dict[str, Any]:
    """How a response came about, as the organisers get it in ``meta``; a cost that is not known is null."""
    spend = turn.spend
    found = {"rewrite": turn.rewrite, "queries": list(turn.queries), "seconds": round(turn.seconds, 3)}
    found |= {"llm_calls": spend.completions, "tokens": spend.tokens, "cost_usd": spend.price}
    return found if turn.cited is None else {**found, "cited": [source.docno for source in turn.sources], "unknown_citations": turn.unknown}


def _follows(before: UserMessage, turn: Turn, reply: UserMessage) -> bool:
    """Whether a reply is the user's to this response, and not the beginning of another conversation."""
    if reply.topic != before.topic:
        return False
    return not reply.history or not before.history or len(reply.messages()) > len(before.messages())


def _in_words(turn: Turn, seconds: float | None) -> str:
    server = "" if seconds is None else f", the server {seconds:.1f} s"
    return f"{turn.seconds:.1f} s{server}, {turn.spend.completions} LLM calls" + (f", {turn.cut} tokens cut" if turn.cut else "")
