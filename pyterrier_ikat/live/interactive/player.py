"""Play an interactive run: a step is noted before it is taken, so no response is lost or repeated.

Between the events of every log (:mod:`pyterrier_ikat.runs.log`), the journal has:

===========  ==================================================================
``message``  the server sent a user message
``sending``  the response to it, or the question for a topic, is about to be sent
``unsent``   the server has certainly not taken that
``stuck``    the server failed for good: ``why``
===========  ==================================================================

The rule: a call whose answer was lost is followed by a look at the server. A message of another
turn or topic than before is the reply, whether it is a later one, or an earlier one because the
server has forgotten responses. The same message: wait, look again, and then send again. Where the
server shows no message, its dump says which response it lacks.
"""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import DataError, IkatError
from ...generate.respond import ABSTENTION
from ...llms import StageError
from ...llms.failures import Unavailable
from ...memory.user_memory import NothingLearnedWarning, UserMemory
from ...runs.answered_turn import Turn, messages_of
from ...runs.folder import THIS_PACKAGE, versions
from ...runs.log import Dialogue, Event, Log, session_event, turn_event
from ...study.systems import System
from ..answering import Tell, answer
from ..persona import known_of
from .track_server import AGAIN, Dumped, ServerDown, ServerRefusal, TrackServer, UserMessage, fitted

WAITS = (2.0, 8.0, 30.0, 60.0, 120.0)
"""Seconds between two looks at a server that may still be at work on a call."""
SETTLED = 2
"""After how many waits a call counts as not taken; after a time-out or a kill, after all."""
ATTEMPTS = 3
"""How often a command sends a call whose answer is lost."""
CUT_AGAIN = 0.9
"""The share of a response that is sent again if a server finds it too long."""
WHAT_HELPS = (
    "only the organisers can help, or a new run id in a new folder; "
    "the same command asks the server once more"
)
START_OF_RUN = UserMessage(
    topic_id="",
    user_id="",
    utterance="",
    history=[],
    last_response_of_session=True,
    last_response_of_run=False,
)
"""The beginning of a run: as after the end of a topic, the next call asks for a topic."""


class InteractiveWarning(UserWarning):
    """Something of an interactive run is not as it should be, and the run continues."""


class InteractiveRun:
    """An interactive run in its folder: the journal of its steps, and its current state.

    Args:
        folder: the folder.
        header: what must not change while the run continues, see
            :meth:`~pyterrier_ikat.runs.log.Log.create`.

    Attributes:
        folder: the folder.
        header: as given.
        log: its conversations, and the journal.
        message: the newest user message.
        session: its conversation; empty before the first.
        under_way: whether it is unknown if the server took the call that follows the message.
        stuck: why the server failed for good; empty while it doesn't.
        begun: (conversation, number of a turn) -> the message that began it.
    """

    def __init__(self, folder: str | Path, header: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.header = header
        self.log = Log.create(folder, header)
        self.message = START_OF_RUN
        self.session = ""
        self.under_way = False
        self.stuck = ""
        self.begun: dict[tuple[str, int], UserMessage] = {}
        for event in self.log.events():
            self._take(event)

    def __repr__(self) -> str:
        state = "finished" if self.finished else "not finished"
        return f"<interactive run in {self.folder}, {state}>"

    @property
    def finished(self) -> bool:
        """Whether the users have no further question."""
        return self.message.ends_run

    @property
    def dialogue(self) -> Dialogue:
        """The conversation."""
        return self.log.known[self.session]

    @property
    def turn(self) -> Turn | None:
        """The response to the newest message, if the system has made it."""
        message = self.message
        if message.ends_session:
            return None
        for turn in self.dialogue.turns:
            if turn.number == message.number and turn.utterance == message.utterance:
                return turn
        return None

    def note(self, *events: Event) -> None:
        """Write events to the journal at once; they are on the disk when this returns."""
        self.log.note(*events)
        for event in events:
            self._take(event)

    def receive(self, message: UserMessage, seconds: float | None = None) -> None:
        """Note a user message: after it, the server has the responses before it.

        Args:
            message: the message.
            seconds: how long the server took for it; None if unknown.
        """
        turn = self.turn
        session = self.session
        events: list[Event] = []
        if self.message.ends_session or message.topic != self.message.topic:
            session = "-".join(message.topic.split()) or "topic"
            events.append(session_event(session, message.user))
        elif turn and (message.ends_session or message.number > turn.number):
            sent = {"event": "sent", "session": session, "turn": turn.number, "seconds": seconds}
            events.append(sent)
        events.append({"event": "message", "message": message.model_dump()})
        if message.ends_session:
            events.append({"event": "end", "session": session, "end": "topic ended"})
        self.note(*events)

    def _take(self, event: Event) -> None:
        """Follow an event of the journal."""
        match event:
            case {"event": "sending"}:
                self.under_way = True
            case {"event": "unsent" | "turn"}:
                self.under_way = False
            case {"event": "session", "session": session}:
                self.session = session
            case {"event": "stuck", "why": why}:
                self.stuck = why
            case {"event": "message", "message": message}:
                self.message = UserMessage.model_validate(message)
                self.under_way = False
                self.stuck = ""
                self.begun[self.session, self.message.number] = self.message


@dataclass
class Player:
    """Plays a run.

    Args:
        server: the server.
        run: the steps so far.
        system: the system.
        personas: user -> the statements known from the beginning, as
            :func:`~pyterrier_ikat.live.persona.read_personas` gives them.
        memory: learns about users who come back.
        history: see :func:`~pyterrier_ikat.live.answering.answer`.
        tell: called with a line for each turn, and for what else happens.
        doing: called with each step of the system.
    """

    server: TrackServer
    run: InteractiveRun
    system: System
    personas: Mapping[str, Mapping[str, str]]
    memory: UserMemory | None
    history: int | None
    tell: Tell
    doing: Tell | None

    def play(self, most: int | None = None) -> None:
        """Start or continue the run, until it ends or ``most`` conversations have ended."""
        while True:
            if not self.run.message.ends_session:
                if self.run.turn is None:
                    self._answer()
            elif self.run.session:
                self._learn()
                if self.run.finished or (most is not None and len(self.run.log.known) >= most):
                    return
            self._call()

    def _answer(self) -> None:
        """Note the system's answer to the newest message, as it is going to be sent."""
        message = self.run.message
        session = self.run.session
        qid = f"{session}_{message.number}"
        persona = self.personas.get(message.user, self.personas.get("", {}))
        turn = answer(
            self.system,
            message.messages,
            known_of(self.memory, message.user, persona, session, message.number),
            number=session,
            turn=message.number,
            history=self.history,
            tell=self._tell_step(qid),
        )
        turn = fitted(replace(turn, session=session, utterance=message.utterance, asked=()))
        if not turn.response:
            warnings.warn(
                f"turn {qid}: the system wrote no response, because it found no passage; "
                f"the user is told: {ABSTENTION}",
                InteractiveWarning,
                stacklevel=2,
            )
            turn = replace(turn, response=ABSTENTION)
        self.run.note(turn_event(turn))

    def _tell_step(self, qid: str) -> Tell | None:
        """Return a function for telling the steps of a turn."""
        doing = self.doing
        if doing is None:
            return None
        return lambda step: doing(f"{qid} {step}")

    def _learn(self) -> None:
        """Let the memory learn from the finished conversation, once."""
        dialogue = self.run.dialogue
        if self.memory is None or dialogue.learned:
            return
        messages = messages_of(dialogue.taken)
        last_words = self.run.message.utterance
        if last_words:
            messages.append({"role": "user", "content": last_words})
        try:
            self.memory.learn(dialogue.user, dialogue.session, messages)
        except StageError as error:
            if any(isinstance(failure, Unavailable) for failure in error.failures):
                raise  # the run stops, as at an answer, and learns when it is started again
            # asked again it would fail again, and the run could never go on
            reason = error.failures[0].reason
            warnings.warn(
                f"nothing was learned from conversation {dialogue.session}: {reason}",
                NothingLearnedWarning,
                stacklevel=3,
            )
        self.run.note({"event": "learned", "session": dialogue.session})

    def _call(self) -> None:
        """Send the response, or ask for a topic, and note the server's next message.

        A call whose answer was lost is sent again only if the server has not taken it.
        """
        lost = ServerDown("the command was stopped", late=True) if self.run.under_way else None
        attempts_left = 1 if self.run.stuck else ATTEMPTS
        while True:
            turn = self.run.turn
            if lost is not None:
                reply = self._reply(turn, lost)
                if reply is not None:
                    self._accept(reply, turn)
                    return
                if not attempts_left:
                    raise self._stuck(turn, lost.why) if lost.status == 500 else lost
            attempts_left -= 1
            self.run.note({"event": "sending"})
            began = time.perf_counter()
            try:
                message = self._send(turn, again=lost is not None)
            except ServerDown as error:
                lost = error
            else:
                self._accept(message, turn, time.perf_counter() - began)
                return
            if lost.unsent:
                self.run.note({"event": "unsent"})
                too_long = lost.status == 422 and "long" in lost.why
                if turn is None or not attempts_left or not too_long:
                    raise lost
                self.run.note(turn_event(fitted(turn, CUT_AGAIN)))
                lost = None

    def _send(self, turn: Turn | None, again: bool) -> UserMessage:
        """Send a response, or ask for a topic.

        The first call starts the run, and tells the organisers what answers.
        """
        if turn:
            return self.server.proceed(turn.response, turn.citations, turn.statements)
        if self.run.session:
            return self.server.proceed()
        about = {
            "system": self.system.name,
            "models": [model.model for model in self.system.models],
            "package": versions()[THIS_PACKAGE],
        }
        try:
            return self.server.start(
                self.run.header["description"], track_persona=self.memory is not None, about=about
            )
        except ServerRefusal as error:
            if error.status != 412 or not again:
                raise
            return self.server.proceed()  # the run is there, and its first topic has no message

    def _reply(self, turn: Turn | None, lost: ServerDown) -> UserMessage | None:
        """Find the server's message after a call with a lost answer.

        The server may still be at work, so it is asked again and again. Each look shows one of:

        - another message than before: the server took the call, and this is its reply.
        - no message: the server took the response, and its reply may come later.
        - the same message: the server has not taken the call, or not yet.

        Returns:
            The message; None if the server has not taken the call.
        """
        self.tell(f"asking the server whether it took {describe_call(turn)} ({lost.why})")
        position_before = self.run.message.position
        failed = lost.status == 500
        settled = len(WAITS) if lost.late else SETTLED
        if self.run.stuck:
            settled = 0
        looks = 0
        while True:
            message = self._look(turn)
            if message is not None and message.position != position_before:
                if failed and turn and not self._is_kept(turn):
                    why = "and its dump lacks the response, which would not be assessed"
                    raise self._stuck(turn, f"{lost.why}, {why}")
                return message
            if message is None:
                if failed or self.run.stuck or looks == len(WAITS):
                    raise self._stuck(turn, lost.why)
                state = "it has taken the response, and has no reply"
            else:
                if looks >= settled:
                    return None
                state = "it has not taken the call so far"
            self.server.wait(WAITS[looks], state)
            looks += 1

    def _look(self, turn: Turn | None) -> UserMessage | None:
        """Return the server's current message; None if it took the response and has no reply."""
        try:
            message = self.server.session()
        except ServerDown as error:
            if error.status not in (400, 404, 500):
                raise
            return self._look_into_dump(turn, failed=error.status == 500)
        return None if message.at_work else message

    def _look_into_dump(self, turn: Turn | None, failed: bool) -> UserMessage | None:
        """Conclude from the dump where the server stands, if it shows no message.

        Returns:
            As :meth:`_look`.

        Raises:
            DataError: when the dump can't be had: nothing is sent twice on a guess.
        """
        if not self.run.session or (turn is None and self.server.debug):
            return self.run.message  # no dump tells more
        try:
            return self._conclude(turn, failed)
        except IkatError as error:
            raise DataError(
                f"{self.server.shown} does not show whether it took {describe_call(turn)} "
                f"({error}), and nothing is sent twice: start again later, {AGAIN}; "
                f"if it has forgotten the run, {WHAT_HELPS}"
            ) from None

    def _conclude(self, turn: Turn | None, failed: bool) -> UserMessage | None:
        """Compare the responses in the server's dump with those of the conversation.

        If one is missing, the message to which it responds is the current one. If none is, the
        topic has ended, because the server shows no message. A failed server (500) may still owe
        its reply, unless the dump ends with the user's last words: the released server fails while
        no conversation is open.
        """
        run = self.run
        entries = self._dumped()
        forgotten = self._forgotten(entries)
        if forgotten is not None:
            return run.begun[run.session, forgotten.number]
        if turn is None:
            return run.message
        last = entries[-1]
        is_farewell = last.text is None  # the user's last words have no response
        if failed and not is_farewell:
            return None
        end_of_topic = {
            "utterance": last.utterance if is_farewell else "",
            "ends_session": True,
            "ends_run": not self.server.open_topics(),
        }
        return run.message.model_copy(update=end_of_topic)

    def _forgotten(self, entries: Sequence[Dumped]) -> Turn | None:
        """Return the first response of the conversation missing from the server's dump.

        If it isn't the newest, it was taken once: the server was started again, and forgot it.
        """
        texts = iter([entry.text for entry in entries])
        for turn in self.run.dialogue.turns:
            if turn.response not in texts:  # reads on: the dump has the responses in their order
                return turn
        return None

    def _is_kept(self, turn: Turn) -> bool:
        """Whether the server's dump has a response; a debug run has no dump."""
        if self.server.debug:
            return True
        try:
            return turn.response in [entry.text for entry in self._dumped()]
        except ServerDown as error:
            if error.status == 500:
                return False
            raise

    def _dumped(self) -> list[Dumped]:
        """Return the responses to this topic in the server's dump."""
        topic = self.run.message.topic
        try:
            return [entry for entry in self.server.dumped() if entry.topic == topic]
        except ServerDown as error:  # the released server fails while it has no response at all
            if error.status != 500 or any(chat.sent for chat in self.run.log.known.values()):
                raise
            return []

    def _stuck(self, turn: Turn | None, why: str) -> ServerDown:
        """Note that the server gives no reply, and return the error."""
        if not self.run.stuck:
            self.run.note({"event": "stuck", "why": why})
        return ServerDown(f"no reply to {describe_call(turn)}: {self.run.stuck}", WHAT_HELPS)

    def _accept(
        self, message: UserMessage, turn: Turn | None, seconds: float | None = None
    ) -> None:
        """Note the server's message after a call."""
        topic = self.run.message.topic
        if turn and message.topic != topic and not message.ends_session:
            warnings.warn(
                f"the server lost the conversation on topic {topic}, and may not have "
                f"{describe_call(turn)}: it continues with topic {message.topic}",
                InteractiveWarning,
                stacklevel=2,
            )
        self.run.receive(message, seconds)
        if turn and turn.number in self.run.log.known[turn.session].sent:
            facts = [f"{turn.seconds:.1f} s"]
            if seconds is not None:
                facts.append(f"the server {seconds:.1f} s")
            facts.append(f"{turn.spend.completions} LLM calls")
            if turn.cut:
                facts.append(f"{turn.cut} tokens cut")
            self.tell(f"{turn.session}_{turn.number} answered: {', '.join(facts)}")


def describe_call(turn: Turn | None) -> str:
    """Name a call in messages: the sending of a response, or the question for a topic."""
    if turn is None:
        return "the question for a topic"
    return f"the response to turn {turn.session}_{turn.number}"
