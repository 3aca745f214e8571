"""What a server does, apart from HTTP: its systems are opened before it listens, asked in a bounded number of threads, and saved."""

import asyncio
import hashlib
import itertools
import re
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pandas as pd
from starlette.requests import Request

from ...conversations import dataset as dataset_named
from ...conversations.frame import object_frame, values
from ...conversations.topics import Conversation
from ...errors import IkatError, UsageError, advice, list_first
from ...events import AskerLeft, Write, asked_by, check_asker, in_chain
from ...llms import LLM, Ledger
from ...runs.answered_turn import Turn
from ...runs.log import (
    TOPICS,
    Dialogue,
    Event,
    Log,
    session_event,
    topics_of,
    turn_event,
    write_topics,
)
from ...store.files import lock_folders
from ...study.systems import System, Systems, check_names, open_systems
from ..answering import answer, settings_of
from .replies import Failure, failure_of, log
from .requests import ChatRequest, SearchRequest

Result = TypeVar("Result")
CLIENT_LEFT = 499
"""The status in the log of a request whose client left before the answer, as nginx has it (ngx_http_request.h)."""


@dataclass
class Service:
    """What the server does, apart from HTTP.

    Attributes:
        systems: the systems by name.
        workers: bounds the requests that are worked on at a time.
        saved: where conversations are saved; None where nothing is.
    """

    systems: Mapping[str, System]
    workers: anyio.CapacityLimiter
    saved: "SavedConversations | None" = None

    def system(self, name: str | None) -> System:
        """A system by its name, which a request may omit where there is only one.

        Raises:
            Failure: when there is none of that name.
        """
        found = self.systems.get(name or "") or (
            next(iter(self.systems.values())) if name is None and len(self.systems) == 1 else None
        )
        if found is None:
            known = f"there is no model {str(name)[:60]!r}: give one of {list_first(list(self.systems))}"
            raise Failure(404, known, param="model", code="model_not_found")
        return found

    async def answer(
        self,
        asked: ChatRequest,
        chat: str = "",
        tell: Callable[[str], None] | None = None,
        write: Write | None = None,
    ) -> Turn:
        """The answer, which is saved if the conversation has a name; ``tell`` and ``write`` are called in other threads.

        Raises:
            Failure: when there is none.
        """
        system = self.system(asked.model)

        def work() -> Turn:
            turn = answer_request(system, asked, tell, write)
            return (
                turn
                if self.saved is None or not chat
                else self.saved.save(system.name, chat, asked, turn)
            )

        return await self._run(work)

    async def search(self, asked: SearchRequest) -> list[dict[str, Any]]:
        """The passages of each query.

        Raises:
            Failure: when there are none.
        """
        system = self.system(asked.model)
        return await self._run(lambda: search(system, asked.every_query, asked.k))

    async def _run(self, work: Callable[[], Result]) -> Result:
        """Work in a thread, which keeps its place until it ends.

        Whoever stops waiting has left: the call to a language model under way is finished, since it
        is paid for, and no other one begins.
        """
        left = threading.Event()

        def told() -> Result:
            try:
                with asked_by(left):
                    check_asker()
                    return work()
            except AskerLeft:
                raise
            except (
                BaseException
            ) as error:  # also SystemExit of a system, which would end the server
                raise failure_of(error) from None

        job = asyncio.ensure_future(
            anyio.to_thread.run_sync(told, limiter=self.workers)
        )  # not cancelled with those who wait for it
        try:
            await asyncio.wait({job})
        except asyncio.CancelledError:
            left.set()
            job.add_done_callback(_forget)
            log.warning(
                "a client left before its answer: the call under way is finished, and no other one begins for it"
            )
            raise
        return job.result()


async def while_there(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of ``work`` for the client of a request whose body is read; when the client leaves, the work is cancelled.

    Raises:
        Failure: when they have left. Nobody reads it.
    """
    job, leaves = asyncio.ensure_future(work), asyncio.ensure_future(_leaves(request))
    try:
        await asyncio.wait({job, leaves}, return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise Failure(CLIENT_LEFT, "the client left")
        return job.result()
    finally:
        job.cancel()
        leaves.cancel()


async def _leaves(request: Request) -> None:
    """Wait until the client of a request leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _forget(job: "asyncio.Future[Any]") -> None:
    """Take the outcome for which nobody waits; asyncio prints the error of an outcome that nobody takes."""
    if not job.cancelled():
        job.exception()


def answer_request(
    system: System, asked: ChatRequest, tell: Any = None, write: Write | None = None
) -> Turn:
    """The answer of a system to a request; see :func:`~pyterrier_ikat.live.answering.answer` for ``tell`` and ``write``.

    Raises:
        Failure: when recorded completions don't answer this conversation, or are for other
            statements about the user.
        StillTooLong: when the model has no room for the prompt, even without the history.
        IkatError: when the system fails.
    """
    number, ptkb = (
        f"chat-{uuid.uuid4().hex}",
        asked.metadata.ptkb,
    )  # no other request's turn has this name, so none can pass for it
    if system.recorded:
        said = [message["content"] for message in asked.said if message["role"] == "user"]
        found = _replayed(system, said, list(ptkb.values()))
        number, ptkb = found.number, dict(found.ptkb)
    with in_chain(0 if system.recorded else asked.sample):
        return answer(system, asked.said, ptkb, number=number, tell=tell, write=write)


def _replayed(system: System, said: list[str], statements: list[str]) -> Conversation:
    """The recorded conversation with these words and statements; a page without a persona sends no statements."""
    words = [text.split() for text in said]
    begun = [
        chat
        for chat in system.recorded
        if [turn.utterance.split() for turn in chat.turns[: len(said)]] == words
    ]
    found = next(
        (chat for chat in begun if not statements or list(chat.ptkb.values()) == statements), None
    )
    if found is None:
        first = f"begin a new conversation with what a recorded user said, such as {system.recorded[0].turns[0].utterance!r}"
        wrong = "the completions of the language model are recorded for other words or other statements about the user"
        raise Failure(
            400,
            f"{wrong}: {first}, and give no statements, or serve a live model",
            param="messages",
            code="not_recorded",
        )
    return found


def search(system: System, queries: list[str], k: int) -> list[dict[str, Any]]:
    """For each query the passages of the system's first stage: a list of ``id``, ``text`` and ``score``, best first.

    Raises:
        Failure: when it has no such stage.
        IkatError: when the search fails.
    """
    if system.retriever is None:
        raise Failure(
            400,
            f"model {system.name} has no stage that searches: choose another one",
            param="model",
        )
    qids = [f"search_{number}" for number in range(1, len(queries) + 1)]
    found: pd.DataFrame = (
        (system.retriever % k).compile().transform(object_frame({"qid": qids, "query": queries}))
    )
    passages: dict[str, list[dict[str, Any]]] = {qid: [] for qid in qids}
    ranked = found.sort_values("rank", kind="stable")
    for qid, docno, text, score in zip(
        ranked["qid"], ranked["docno"], values(ranked, "text", ""), ranked["score"], strict=True
    ):
        passages[qid].append({"id": str(docno), "text": str(text), "score": float(score)})
    return [
        {"query": query, "passages": passages[qid]}
        for qid, query in zip(qids, queries, strict=True)
    ]


def open_served(
    systems: Systems, ledger: Ledger, *, dataset: str | None = None, **resources: Any
) -> dict[str, System]:
    """Systems that are ready to answer, by name, with the conversations that recorded completions answer.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        ledger: the account of language models that are given as text.
        dataset: the dataset whose conversations recorded completions answer.
        resources: see :class:`~pyterrier_ikat.study.Resources`.

    Raises:
        UsageError: for a system that can't answer live users, and recorded completions without
            their dataset.
        DataError: for an index or recorded file that can't be used.
    """
    opened = open_systems(systems, ledger, live=True, cite=True, connect=True, **resources)
    for one in opened:
        one.parameters()  # compiles its templates
    return {one.name: replace(one, recorded=_recorded(one.models, dataset)) for one in opened}


def _recorded(models: list[LLM], dataset: str | None) -> tuple[Conversation, ...]:
    replaying = [model for model in models if model.backend.replays]
    if not replaying:
        return ()
    name = dataset or (
        "ikat:sample"
        if all(model.spec.startswith("recorded:sample") for model in replaying)
        else None
    )
    if name is None:
        given = advice("dataset=...", "ikat.serve(..., dataset=...) in Python")
        raise UsageError(
            f"the completions of {replaying[0].spec} are recorded for a dataset's turns: name it with {given}, or give a live LLM"
        )
    return tuple(dataset_named(name).conversations)


class SavedConversations:
    """The logs of a server.

    A request holds the whole conversation, so that its log follows it: where the user has changed
    an earlier question, the turns from there on are replaced; a turn that was answered elsewhere is
    noted as the client tells it. What begins with another question is another conversation,
    ``<id>.2``, ``<id>.3``, ...

    Args:
        folder: each system gets a folder in it.
        systems: the systems by name.

    Attributes:
        folder: as given.

    Raises:
        UsageError: when a folder holds the conversations of another system, another process writes
            into it, or it can't be made.
    """

    def __init__(self, folder: str | Path, systems: Mapping[str, System]) -> None:
        self.folder = Path(folder)
        check_names(systems)
        self._lock, self._logs = threading.Lock(), dict[str, Log]()
        with ExitStack() as held:
            held.enter_context(lock_folders(*(self.folder / name for name in systems)))
            for name, one in systems.items():
                header = {
                    "kind": "served",
                    "system": name,
                    "recorded": one.replays,
                    **settings_of(one),
                }
                self._logs[name] = Log.create(self.folder / name, header)
            self._write_topics()  # of what a killed server left
            self._held = held.pop_all()

    def save(self, system: str, chat: str, asked: ChatRequest, turn: Turn) -> Turn:
        """Note a turn in the conversation that its client calls ``chat``; the turn says whether it is saved.

        A log that can't be written is told in the server's own log: the answer is there, and goes
        to its user.
        """
        try:
            with self._lock:
                said = list(exchanges(asked.said))
                session, known = self._session(self._logs[system], safe_name(chat), said[0][0])
                self._logs[system].note(*_events(session, asked.metadata.ptkb, turn, known, said))
        except (OSError, UsageError) as error:
            log.error(
                "a conversation with %s can't be saved: %s",
                system,
                getattr(error, "strerror", None) or error,
            )
            return turn
        return replace(turn, more={**turn.more, "saved": True})

    def _session(self, written: Log, name: str, first: str) -> tuple[str, Dialogue | None]:
        """The conversation of that name that begins with these words, as the log has it, or a new one."""
        for number in itertools.count(1):
            session = name + f".{number}" * (number > 1)
            known = written.known.get(session)
            if known is None or not known.turns or known.turns[0].utterance == first:
                break
        return session, known

    def close(self) -> None:
        """Write each log's topics file, and let others write into the folders."""
        with self._held:
            self._write_topics()

    def _write_topics(self) -> None:
        for name, written in self._logs.items():
            try:
                if topics := topics_of(written.dialogues()):
                    write_topics(written.folder / TOPICS, topics)
            except IkatError as error:
                log.error("there is no topics file of the conversations with %s: %s", name, error)


def safe_name(chat: str) -> str:
    """The name under which a conversation is saved, which becomes a part of qids: the client's, or its letters and a digest.

    Example:
        >>> safe_name("7d1-a"), safe_name("room 7")
        ('7d1-a', 'room-7-f64ddcb7b2ac1be3')
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", chat):
        return chat
    plain = re.sub(r"[^A-Za-z0-9]+", "-", chat).strip("-")[:60] or "chat"
    return f"{plain}-{hashlib.sha256(chat.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _events(
    session: str,
    ptkb: Mapping[str, str],
    turn: Turn,
    known: Dialogue | None,
    said: Sequence[tuple[str, str]],
) -> Iterator[Event]:
    """What a request says of its conversation that the log doesn't have."""
    noted = [] if known is None else [one.utterance for one in known.turns]
    if known is None or known.more["ptkb"] != ptkb:
        yield session_event(session, session, ptkb=ptkb, memory="")
    same = next(
        (
            place
            for place, (ours, theirs) in enumerate(zip(noted, said, strict=False))
            if ours != theirs[0]
        ),
        len(noted),
    )
    for number, (utterance, response) in enumerate(
        said[same:-1], same + 1
    ):  # what only the client knows
        yield turn_event(Turn(number, utterance, response, session=session))
    yield turn_event(replace(turn.without_texts(), session=session, number=len(said)))
    for number in range(len(noted), len(said), -1):
        yield {"event": "undone", "session": session, "turn": number}


def exchanges(messages: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """The user's words and what was said next, of each turn; what the assistant says before the first is omitted.

    Example:
        >>> said = [("assistant", "Welcome!"), ("user", "Hi"), ("user", "Which tea?"), ("assistant", "Rooibos."), ("user", "And cold?")]
        >>> list(exchanges([{"role": role, "content": text} for role, text in said]))
        [('Hi', ''), ('Which tea?', 'Rooibos.'), ('And cold?', '')]
    """
    asked = [place for place, message in enumerate(messages) if message["role"] == "user"]
    for place, following in zip(asked, [*asked[1:], len(messages)], strict=True):
        yield (
            messages[place]["content"],
            "\n".join(message["content"] for message in messages[place + 1 : following]),
        )
