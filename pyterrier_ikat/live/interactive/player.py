"""The play of an interactive run: each step is in the journal before it is taken, so no response is sent twice and none is lost.

Between the events of every log (:mod:`pyterrier_ikat.runs.log`), the journal has:

===========  ==================================================================
``start``    the run is about to be started
``message``  the server sent a user message
``sending``  the response is about to be sent
``next``     the next topic is about to be asked for
``unsent``   the server has certainly not taken what was about to be sent
``stuck``    the server failed for good: ``why``
===========  ==================================================================

The rule: a call whose answer was lost is followed by a look at the server. A message of another turn or topic than before is the reply,
whether it is a later one, or an earlier one because the server has forgotten responses. The same message: wait, look again, and then send
again. Where the server shows no message, its dump says which response it lacks.
"""

import re
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import DataError
from ...generate.respond import ABSTENTION
from ...llms import StageError
from ...llms.failures import Unavailable
from ...memory.user_memory import NothingLearnedWarning, UserMemory
from ...runs.answered_turn import Turn, messages_of
from ...runs.log import Dialogue, Event, Log, session_event, turn_event
from ...study.systems import System
from ..answering import HISTORY, Tell, answer
from ..persona import EVERYBODY, known_of
from .response_limits import count_spacy_tokens, fit_citations, fit_response
from .track_server import AGAIN, Dumped, Lost, ResponseTooLong, ServerDown, ServerFailed, ServerRefusal, TrackServer, UserMessage

WAITS = (2.0, 8.0, 30.0, 60.0, 120.0)
"""Seconds between two looks at a server that may still be at work on a call."""
SETTLED = 2
"""How many waits show that a call was not taken, after a lost connection; after a time-out or a kill, all of them."""
ATTEMPTS = 10
FAILURES = 3
"""How often a call is sent at which the server fails."""
CUT_AGAIN = 0.9
"""The share of a response that is sent again, if a server finds it too long."""
WHAT_HELPS = (
    "Only the organisers can help, so ask them, or begin anew with another run id and another folder; the same command asks the server "
    "once more"
)


class InteractiveWarning(UserWarning):
    """Something of an interactive run is not as it should be, and the run continues."""


class Journal:
    """The steps of a run, and where they lead.

    Args:
        log: the log, in which the steps are kept.

    Attributes:
        message: the newest user message; None before the first.
        session: its conversation.
        under_way: ``"start"``, ``"sending"`` or ``"next"`` while it is unknown whether the server took that.
        stuck: why the server failed for good; empty while it doesn't.
        messages: (conversation, number of a turn) -> the message that began it.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.message: UserMessage | None = None
        self.session, self.under_way, self.stuck = "", "", ""
        self.messages: dict[tuple[str, int], UserMessage] = {}
        for event in log.events():
            self._take(event)

    @property
    def dialogue(self) -> Dialogue:
        """The conversation."""
        return self.log.known[self.session]

    @property
    def finished(self) -> bool:
        """Whether the users have no further question."""
        return self.message is not None and self.message.ends_run

    def response(self) -> Turn | None:
        """The response to the newest message, if the system has made it."""
        message = self.message
        same = (turn for turn in self.dialogue.turns if message and (turn.number, turn.utterance) == (message.number, message.utterance))
        return next(same, None)

    def note(self, *events: Event) -> None:
        """Note what happened at one moment; it is on the disk when this returns."""
        self.log.note(*events)
        for event in events:
            self._take(event)

    def receive(self, message: UserMessage, seconds: float | None = None) -> None:
        """Note a user message, and the seconds that the server took for it: after it the server has the responses before it."""
        before, session, noted = self.message, self.session, list[Event]()
        begins = before is None or before.ends_session or before.topic != message.topic
        if not begins and (turn := self.response()) and (message.ends_session or message.number > turn.number):
            noted.append({"event": "sent", "session": session, "turn": turn.number, "seconds": seconds})
        if begins:
            if session and not self.dialogue.end:
                noted.append(_end(session))
            session = re.sub(r"\s+", "-", message.topic.strip()) or "topic"
            noted.append(session_event(session, message.user))
        noted.append({"event": "message", "message": message.model_dump()})
        if message.ends_session:
            noted.append(_end(session))
        self.note(*noted)

    def _take(self, event: Event) -> None:
        kind = event["event"]
        if kind in ("start", "next", "sending"):
            self.under_way = kind
        elif kind in ("unsent", "turn"):
            self.under_way = ""
        elif kind == "session":
            self.session = event["session"]
        elif kind == "stuck":
            self.stuck = event["why"]
        elif kind == "message":
            self.message = UserMessage.model_validate(event["message"])
            self.under_way = self.stuck = ""
            self.messages[self.session, self.message.number] = self.message


def _end(session: str) -> Event:
    return {"event": "end", "session": session, "end": "topic ended"}


@dataclass
class Player:
    """Plays one run.

    Args:
        server: the server.
        run_id: the run.
        journal: the steps so far.
        system: the system.
        personas: user -> the statements known from the beginning, as :func:`~pyterrier_ikat.live.persona.read_personas` gives them.
        memory: learns about users who come back; a :class:`~pyterrier_ikat.memory.UserMemory`.
        history: see :func:`~pyterrier_ikat.live.answering.answer`.
        tell: called with a line for each turn, and for what else happens.
        doing: called with each step of the system.
    """

    server: TrackServer
    run_id: str
    journal: Journal
    system: System
    personas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    memory: UserMemory | None = None
    history: int | None = HISTORY
    tell: Tell = lambda line: None
    doing: Tell | None = None

    def play(self, description: str, about: Mapping[str, Any], most: int | None = None) -> None:
        """Start or continue the run, until it ends or ``most`` conversations have ended; the organisers keep ``about``."""
        if self.journal.message is None:
            self._call("start", lambda again: self._start(again, description, about))
        while (message := self.journal.message) is not None:
            if not message.ends_session:
                if self.journal.response() is None:
                    self._answer(message)
                self._call("sending", lambda again: self._send())
                continue
            self._learn(message)
            if message.ends_run or (most is not None and len(self.journal.log.known) >= most):
                return
            self._call("next", lambda again: self.server.proceed(self.run_id))

    def _start(self, again: bool, description: str, about: Mapping[str, Any]) -> UserMessage:
        try:
            return self.server.start(self.run_id, description, track_persona=self.memory is not None, about=about)
        except ServerRefusal as error:
            if error.status != 412 or not again:
                raise
            return self.server.proceed(self.run_id)  # the run is there, and its first topic has no message

    def _send(self) -> UserMessage:
        turn = self.journal.response()
        assert turn is not None
        return self.server.proceed(self.run_id, turn.response, turn.citations, list(turn.statements))

    def _call(self, step: str, send: Callable[[bool], UserMessage]) -> None:
        """Make a call, once as far as the server is concerned, and note the message that follows it."""
        lost = Lost("the command was stopped", late=True) if self.journal.under_way == step else None
        failures = 0
        for _ in range(ATTEMPTS):
            turn = self.journal.response() if step == "sending" else None
            if lost:
                if reply := self._reply(turn, lost):
                    return self._accept(reply, turn)
                failures += lost.failed
                if failures == (1 if self.journal.stuck else FAILURES):
                    raise self._stuck(turn, str(lost))
            self.journal.note({"event": step})
            began = time.perf_counter()
            try:
                return self._accept(send(lost is not None), turn, time.perf_counter() - began)
            except ResponseTooLong:
                self._cut(turn)
                lost = None
            except (ServerDown, ServerRefusal):
                self.journal.note({"event": "unsent"})
                raise
            except Lost as error:
                lost = error
        raise self._stuck(turn, f"{ATTEMPTS} attempts")

    def _reply(self, turn: Turn | None, lost: Lost) -> UserMessage | None:
        """The message that followed a call whose answer was lost; None if the server has not taken the call."""
        self.tell(f"asking the server whether it took {what(turn)} ({lost})")
        before, looks = self.journal.message, 0 if self.journal.stuck else len(WAITS) if lost.late else SETTLED
        for look, wait in enumerate((*WAITS, 0.0)):
            now = self._look(turn)
            if now != before and now is not None:
                if lost.failed and turn and not self._is_kept(turn):
                    raise self._stuck(turn, f"{lost}, and its dump lacks the response, which would not be assessed")
                return now
            if now == before and look >= looks:
                return None
            if now != before and (lost.failed or self.journal.stuck or not wait):
                break
            self.server.wait(wait, "it has not taken the call so far" if now == before else "it has taken the response, and has no reply")
        raise self._stuck(turn, str(lost))

    def _look(self, turn: Turn | None) -> UserMessage | None:
        """The message that followed a call; the one before it, if the server has not taken the call; None while it has no reply yet."""
        before = self.journal.message
        try:
            now = self.server.session(self.run_id)
        except (ServerFailed, ServerRefusal) as error:
            if isinstance(error, ServerRefusal) and error.status in (401, 403):
                raise
            return self._look_into_dump(turn, error)
        if now.at_work:
            return None
        same = before and (now.topic, now.ends_session, now.number) == (before.topic, before.ends_session, before.number)
        return before if same else now

    def _look_into_dump(self, turn: Turn | None, error: ServerFailed | ServerRefusal) -> UserMessage | None:
        """What :meth:`_look` finds where the server shows no message: the released one fails while no conversation is open."""
        before = self.journal.message
        if before is None or (turn is None and self.server.debug):
            return before
        try:
            if isinstance(error, ServerRefusal) and error.status == 404:
                raise error
            entries = self._dumped()
            texts = iter([one.text for one in entries])
            for one in self.journal.dialogue.turns:
                if one.response not in texts:  # if it isn't the newest, it was taken once: the server was started again, and forgot it
                    return before if one is turn else self.journal.messages[self.journal.session, one.number]
            if turn is None:
                return before
            state, still = self.server.status(self.run_id)
        except (DataError, ServerFailed, ServerRefusal) as unread:
            raise DataError(
                f"run {self.run_id}: {self.server.shown} does not show whether it took {what(turn)} ({unread}), and nothing is sent twice: "
                f"start again later, {AGAIN}; if it has forgotten the run, ask the organisers, or give another run id and another folder"
            ) from None
        farewell = entries[-1].text is None  # the released server ends a topic with the user's last words, which have no response
        if not farewell and state != "inactive" and isinstance(error, ServerFailed):
            return None
        words = entries[-1].utterance if farewell else ""
        return before.model_copy(update={"utterance": words, "ends_session": True, "ends_run": not still})

    def _is_kept(self, turn: Turn) -> bool:
        """Whether the server's dump has a response; a debug run has no dump."""
        try:
            return self.server.debug or turn.response in [one.text for one in self._dumped()]
        except ServerFailed:
            return False

    def _dumped(self) -> list[Dumped]:
        """What the server's dump has of this topic."""
        try:
            found = self.server.dumped(self.run_id)
        except ServerFailed:  # the released server fails while it has no response at all
            if any(one.sent for one in self.journal.log.known.values()):
                raise
            return []
        return [one for one in found if self.journal.message and one.topic == self.journal.message.topic]

    def _stuck(self, turn: Turn | None, why: str) -> ServerDown:
        """The error of a server that gives no reply, which is noted."""
        if not self.journal.stuck:
            self.journal.note({"event": "stuck", "why": why})
        return ServerDown(f"{self.server.shown} gives no reply to {what(turn)}: {self.journal.stuck}. {WHAT_HELPS}")

    def _accept(self, message: UserMessage, turn: Turn | None, seconds: float | None = None) -> None:
        """Note the message that followed a call."""
        before = self.journal.message
        if turn and before and message.topic != before.topic and not message.ends_session:
            told = f"the server lost the conversation on topic {before.topic}, and may not have {what(turn)}"
            warnings.warn(f"{told}: it continues with topic {message.topic}", InteractiveWarning, stacklevel=2)
        self.journal.receive(message, seconds)
        if turn:
            server = "" if seconds is None else f", the server {seconds:.1f} s"
            cut = f", {turn.cut} tokens cut" if turn.cut else ""
            self.tell(f"{turn.session}_{turn.number} answered: {turn.seconds:.1f} s{server}, {turn.spend.completions} LLM calls{cut}")

    def _answer(self, message: UserMessage) -> None:
        """Note the system's answer to a message, as it is going to be sent."""
        session, number = self.journal.session, message.number
        qid, doing = f"{session}_{number}", self.doing
        persona = self.personas.get(message.user, self.personas.get(EVERYBODY, {}))
        ptkb = known_of(self.memory, message.user, persona, session, number)
        tell = (lambda step: doing(f"{qid} {step}")) if doing else None
        made = answer(self.system, message.messages, ptkb, number=session, turn=number, history=self.history, tell=tell)
        response, cut = fit_response(made.response)
        if not response:
            why = f"turn {qid}: the system wrote no response, because it found no passage; the user is told: {ABSTENTION}"
            warnings.warn(why, InteractiveWarning, stacklevel=2)
            response = ABSTENTION
        citations = fit_citations(qid, made.citations)
        made = replace(made, session=session, utterance=message.utterance, response=response, citations=citations, cut=cut, asked=())
        self.journal.note(turn_event(made))

    def _cut(self, turn: Turn | None) -> None:
        """Note a shorter response, after the server counted more tokens than it accepts."""
        response, cut = fit_response(turn.response, int(CUT_AGAIN * count_spacy_tokens(turn.response))) if turn else ("", 0)
        if not turn or not response:
            raise DataError(f"{self.server.shown} finds {what(turn)} too long: ask the organisers")
        self.journal.note(turn_event(replace(turn, response=response, cut=turn.cut + cut)))

    def _learn(self, message: UserMessage) -> None:
        """Let the memory learn from the conversation that ended, once."""
        one = self.journal.dialogue
        if self.memory is None or one.learned:
            return
        messages = messages_of(one.taken)
        if message.utterance:
            messages.append({"role": "user", "content": message.utterance})
        try:
            self.memory.learn(one.user, one.session, messages)
        except StageError as error:
            if any(isinstance(one, Unavailable) for one in error.failures):
                raise  # the run stops, as at an answer, and learns when it is started again
            # asked again it would fail again, and the run could never go on
            told = f"nothing was learned from conversation {one.session}: {error.failures[0].reason}"
            warnings.warn(told, NothingLearnedWarning, stacklevel=3)
        self.journal.note({"event": "learned", "session": one.session})


def what(turn: Turn | None) -> str:
    """A call, as messages name it: that of a response, or of none."""
    return f"the response to turn {turn.session}_{turn.number}" if turn else "the question for a topic"
