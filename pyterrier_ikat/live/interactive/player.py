"""The play of an interactive run: each step is in the journal before it is taken, so no response is sent twice and none is lost.

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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import DataError, IkatError
from ...generate.respond import ABSTENTION
from ...llms import StageError
from ...llms.failures import Unavailable
from ...memory.user_memory import NothingLearnedWarning, UserMemory
from ...runs.answered_turn import Turn, messages_of
from ...runs.folder import OURS, versions
from ...runs.log import Dialogue, Event, Log, session_event, turn_event
from ...study.systems import System
from ..answering import Tell, answer
from ..persona import known_of
from .track_server import AGAIN, Dumped, ServerDown, ServerRefusal, TrackServer, UserMessage, fitted

WAITS = (2.0, 8.0, 30.0, 60.0, 120.0)
"""Seconds between two looks at a server that may still be at work on a call."""
SETTLED = 2
"""How many waits show that a call was not taken, after a lost connection; after a time-out or a kill, all of them."""
ATTEMPTS = 3
"""How often a command sends a call whose answer is lost."""
CUT_AGAIN = 0.9
"""The share of a response that is sent again, if a server finds it too long."""
WHAT_HELPS = "only the organisers can help, or a new run id in a new folder; the same command asks the server once more"
NOTHING_SAID = UserMessage(
    topic_id="",
    user_id="",
    utterance="",
    history=[],
    last_response_of_session=True,
    last_response_of_run=False,
)
"""Where a run begins: as after the end of a topic, the next call asks for a topic."""


class InteractiveWarning(UserWarning):
    """Something of an interactive run is not as it should be, and the run continues."""


class InteractiveRun:
    """An interactive run in its folder: the journal of its steps, and where they lead.

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
        self.folder, self.header, self.log = Path(folder), header, Log.create(folder, header)
        self.message, self.session, self.under_way, self.stuck = NOTHING_SAID, "", False, ""
        self.begun: dict[tuple[str, int], UserMessage] = {}
        for event in self.log.events():
            self._take(event)

    def __repr__(self) -> str:
        return (
            f"<interactive run in {self.folder}, {'finished' if self.finished else 'not finished'}>"
        )

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
        message, turns = self.message, [] if self.message.ends_session else self.dialogue.turns
        return next(
            (
                one
                for one in turns
                if (one.number, one.utterance) == (message.number, message.utterance)
            ),
            None,
        )

    def note(self, *events: Event) -> None:
        """Note what happened at one moment; it is on the disk when this returns."""
        self.log.note(*events)
        for event in events:
            self._take(event)

    def receive(self, message: UserMessage, seconds: float | None = None) -> None:
        """Note a user message, and the seconds that the server took for it: after it the server has the responses before it."""
        before, turn, session, noted = self.message, self.turn, self.session, list[Event]()
        if before.ends_session or message.topic != before.topic:
            session = "-".join(message.topic.split()) or "topic"
            noted.append(session_event(session, message.user))
        elif turn and (message.ends_session or message.number > turn.number):
            noted.append(
                {"event": "sent", "session": session, "turn": turn.number, "seconds": seconds}
            )
        noted.append({"event": "message", "message": message.model_dump()})
        if message.ends_session:
            noted.append({"event": "end", "session": session, "end": "topic ended"})
        self.note(*noted)

    def _take(self, event: Event) -> None:
        match event:
            case {"event": "sending"}:
                self.under_way = True
            case {"event": "unsent" | "turn"}:
                self.under_way = False
            case {"event": "session", "session": session}:
                self.session = session
            case {"event": "stuck", "why": why}:
                self.stuck = why
            case {"event": "message", "message": said}:
                self.message, self.under_way, self.stuck = (
                    UserMessage.model_validate(said),
                    False,
                    "",
                )
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
        message, session, doing = self.run.message, self.run.session, self.doing
        number, qid = message.number, f"{session}_{message.number}"
        persona = self.personas.get(message.user, self.personas.get("", {}))
        ptkb = known_of(self.memory, message.user, persona, session, number)
        tell = (lambda step: doing(f"{qid} {step}")) if doing else None
        made = answer(
            self.system,
            message.messages,
            ptkb,
            number=session,
            turn=number,
            history=self.history,
            tell=tell,
        )
        made = fitted(replace(made, session=session, utterance=message.utterance, asked=()))
        if not made.response:
            why = f"turn {qid}: the system wrote no response, because it found no passage; the user is told: {ABSTENTION}"
            warnings.warn(why, InteractiveWarning, stacklevel=2)
            made = replace(made, response=ABSTENTION)
        self.run.note(turn_event(made))

    def _learn(self) -> None:
        """Let the memory learn from the conversation that ended, once."""
        one, last = self.run.dialogue, self.run.message.utterance
        if self.memory is None or one.learned:
            return
        try:
            self.memory.learn(
                one.user,
                one.session,
                [*messages_of(one.taken), *[{"role": "user", "content": last}] * bool(last)],
            )
        except StageError as error:
            if any(isinstance(one, Unavailable) for one in error.failures):
                raise  # the run stops, as at an answer, and learns when it is started again
            # asked again it would fail again, and the run could never go on
            told = (
                f"nothing was learned from conversation {one.session}: {error.failures[0].reason}"
            )
            warnings.warn(told, NothingLearnedWarning, stacklevel=3)
        self.run.note({"event": "learned", "session": one.session})

    def _call(self) -> None:
        """Send the response, or ask for a topic, once as far as the server is concerned, and note the message that follows."""
        lost = ServerDown("the command was stopped", late=True) if self.run.under_way else None
        left = 1 if self.run.stuck else ATTEMPTS
        while True:
            turn = self.run.turn
            if lost and (reply := self._reply(turn, lost)):
                return self._accept(reply, turn)
            if lost and not left:
                raise self._stuck(turn, lost.why) if lost.status == 500 else lost
            left -= 1
            self.run.note({"event": "sending"})
            began = time.perf_counter()
            try:
                return self._accept(
                    self._send(turn, again=lost is not None), turn, time.perf_counter() - began
                )
            except ServerDown as error:
                lost = error
            if lost.unsent:
                self.run.note({"event": "unsent"})
                if not (turn and left and lost.status == 422 and "long" in lost.why):
                    raise lost
                self.run.note(turn_event(fitted(turn, CUT_AGAIN)))
                lost = None

    def _send(self, turn: Turn | None, again: bool) -> UserMessage:
        """Send a response, or ask for a topic: the first one starts the run, and tells the organisers what answers."""
        if turn:
            return self.server.proceed(turn.response, turn.citations, turn.statements)
        if self.run.session:
            return self.server.proceed()
        about = {
            "system": self.system.name,
            "models": [model.model for model in self.system.models],
            "package": versions()[OURS],
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
        """The message that followed a call whose answer was lost; None if the server has not taken the call."""
        self.tell(f"asking the server whether it took {what(turn)} ({lost.why})")
        before, final = self.run.message, lost.status == 500 or bool(self.run.stuck)
        settled = 0 if self.run.stuck else len(WAITS) if lost.late else SETTLED
        for look, wait in enumerate((*WAITS, 0.0)):
            now = self._look(turn)
            if now and now.place != before.place:
                if lost.status == 500 and turn and not self._is_kept(turn):
                    raise self._stuck(
                        turn,
                        f"{lost.why}, and its dump lacks the response, which would not be assessed",
                    )
                return now
            if now and look >= settled:
                return None
            if not now and (final or not wait):
                break
            self.server.wait(
                wait,
                "it has not taken the call so far"
                if now
                else "it has taken the response, and has no reply",
            )
        raise self._stuck(turn, lost.why)

    def _look(self, turn: Turn | None) -> UserMessage | None:
        """The message at which the server stands; None while it has taken the response and has no reply."""
        try:
            now = self.server.session()
        except ServerDown as error:
            if error.status not in (400, 404, 500):
                raise
            return self._look_into_dump(turn, failed=error.status == 500)
        return None if now.at_work else now

    def _look_into_dump(self, turn: Turn | None, failed: bool) -> UserMessage | None:
        """What :meth:`_look` finds where the server shows no message: the released one fails (500) while no conversation is open."""
        run = self.run
        if not run.session or (turn is None and self.server.debug):
            return run.message
        try:
            entries = self._dumped()
            texts = iter([one.text for one in entries])
            for one in run.dialogue.turns:
                if (
                    one.response not in texts
                    # if it isn't the newest, it was taken once: the server was started again, and
                    # forgot it
                ):
                    return run.begun[run.session, one.number]
            if turn is None:
                return run.message
            farewell = (
                entries[-1].text is None
            )  # the released server ends a topic with the user's last words, which have no response
            if failed and not farewell:
                return None
            ends = {
                "utterance": entries[-1].utterance if farewell else "",
                "ends_session": True,
                "ends_run": not self.server.open_topics(),
            }
        except IkatError as unread:
            why = f"{self.server.shown} does not show whether it took {what(turn)} ({unread}), and nothing is sent twice"
            raise DataError(
                f"{why}: start again later, {AGAIN}; if it has forgotten the run, {WHAT_HELPS}"
            ) from None
        return run.message.model_copy(update=ends)

    def _is_kept(self, turn: Turn) -> bool:
        """Whether the server's dump has a response; a debug run has no dump."""
        try:
            return self.server.debug or turn.response in [one.text for one in self._dumped()]
        except ServerDown as error:
            if error.status == 500:
                return False
            raise

    def _dumped(self) -> list[Dumped]:
        """What the server's dump has of this topic."""
        try:
            return [one for one in self.server.dumped() if one.topic == self.run.message.topic]
        except ServerDown as error:  # the released server fails while it has no response at all
            if error.status != 500 or any(one.sent for one in self.run.log.known.values()):
                raise
            return []

    def _stuck(self, turn: Turn | None, why: str) -> ServerDown:
        """The error of a server that gives no reply, which is noted."""
        if not self.run.stuck:
            self.run.note({"event": "stuck", "why": why})
        return ServerDown(f"no reply to {what(turn)}: {self.run.stuck}", WHAT_HELPS)

    def _accept(
        self, message: UserMessage, turn: Turn | None, seconds: float | None = None
    ) -> None:
        """Note the message that followed a call."""
        before = self.run.message
        if turn and message.topic != before.topic and not message.ends_session:
            told = f"the server lost the conversation on topic {before.topic}, and may not have {what(turn)}"
            warnings.warn(
                f"{told}: it continues with topic {message.topic}", InteractiveWarning, stacklevel=2
            )
        self.run.receive(message, seconds)
        if turn and turn.number in self.run.log.known[turn.session].sent:
            server = "" if seconds is None else f", the server {seconds:.1f} s"
            cut = f", {turn.cut} tokens cut" if turn.cut else ""
            self.tell(
                f"{turn.session}_{turn.number} answered: {turn.seconds:.1f} s{server}, {turn.spend.completions} LLM calls{cut}"
            )


def what(turn: Turn | None) -> str:
    """A call, as messages name it: that of a response, or of none."""
    return (
        f"the response to turn {turn.session}_{turn.number}" if turn else "the question for a topic"
    )
