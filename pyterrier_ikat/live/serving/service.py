"""What a server does, apart from HTTP: open systems, ask them in threads, save conversations."""

import asyncio
import hashlib
import itertools
import re
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
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
from ...operator import without_unread_texts
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
from ...study.systems import System, Systems, check_names, open_systems, with_limit
from ..answering import answer, settings_of
from .passages import Address, PassageAddresses, gives_texts, text_of
from .replies import Failure, failure_of, log
from .requests import ChatRequest, SearchRequest
from .searching import search_facts, stage_for_client

Result = TypeVar("Result")
CLIENT_LEFT = 499
"""The logged status of a request whose client left, as nginx has it (ngx_http_request.h)."""


@dataclass
class Service:
    """The work of the server, apart from HTTP.

    Attributes:
        systems: the systems by name.
        workers: bounds the requests that are worked on at a time.
        saved: where conversations are saved; None where nothing is.
        passages: makes the addresses of cited passages; None where they have none.
    """

    systems: Mapping[str, System]
    workers: anyio.CapacityLimiter
    saved: "SavedConversations | None" = None
    passages: PassageAddresses | None = None

    def system(self, name: str | None) -> System:
        """Find a system by its name. A single system needs no name.

        Raises:
            Failure: when there is none of that name.
        """
        if name is None and len(self.systems) == 1:
            [system] = self.systems.values()
            return system
        if name is None or name not in self.systems:
            names = list_first(list(self.systems))
            raise Failure(
                404,
                f"there is no model {str(name)[:60]!r}: give one of {names}",
                param="model",
                code="model_not_found",
            )
        return self.systems[name]

    async def answer(
        self,
        question: ChatRequest,
        chat: str = "",
        tell: Callable[[str], None] | None = None,
        write: Write | None = None,
    ) -> Turn:
        """Answer a question, and save the answer if the conversation has a name.

        Args:
            question: the question.
            chat: the name of the conversation; empty for none.
            tell: called with each step, in another thread.
            write: called with the text so far, in another thread.

        Raises:
            Failure: when there is no answer.
        """
        system = self.system(question.model)

        def work() -> Turn:
            turn = answer_request(system, question, tell, write)
            if self.saved is None or not chat:
                return turn
            return self.saved.save(system.name, chat, question, turn)

        return await self._run(work)

    async def search(self, request: SearchRequest) -> dict[str, Any]:
        """The answer to a search: ``model``, ``results`` and ``fingerprint``, see :func:`search`.

        Raises:
            Failure: when there is none.
        """
        system = self.system(request.model)
        return await self._run(lambda: search(system, request))

    def address(self, system: System) -> Address | None:
        """Return what gives the addresses of a system's passages; None where they have none."""
        if self.passages is None or not gives_texts(system):
            return None
        return partial(self.passages.of, system.name)

    async def passage(self, name: str, docno: str, signature: str) -> str:
        """Return the text of a passage that a system has cited.

        Raises:
            Failure: when the address isn't signed, or no index has the passage any more.
        """
        if self.passages is None or not self.passages.is_signed(name, docno, signature):
            raise Failure(
                403,
                "this is no address of a cited passage: "
                "open the one in an answer's citations, as it is",
                code="not_signed",
            )
        system = self.system(name)
        text = await self._run(lambda: text_of(system, docno))
        if text is None:
            raise Failure(404, f"the index of model {name} has no passage {docno[:100]!r} any more")
        return text

    async def _run(self, work: Callable[[], Result]) -> Result:
        """Work in a thread, and count it among the workers until it ends.

        Whoever stops waiting has left: the call to a language model under way is finished, since it
        is paid for, and no other one begins.
        """
        left = threading.Event()

        def work_or_failure() -> Result:
            try:
                with asked_by(left):
                    check_asker()
                    return work()
            except AskerLeft:
                raise
            except BaseException as error:
                # also SystemExit of a system, which would end the server
                raise failure_of(error) from None

        # not cancelled with those who wait for it
        job = asyncio.ensure_future(anyio.to_thread.run_sync(work_or_failure, limiter=self.workers))
        try:
            await asyncio.wait({job})
        except asyncio.CancelledError:
            left.set()
            job.add_done_callback(_forget)
            log.warning(
                "a client left before its answer: the call under way is finished, "
                "and no other one begins for it"
            )
            raise
        return job.result()


async def while_there(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Work for the client of a request; cancel the work when the client leaves.

    Raises:
        Failure: when they have left. Nobody reads it.
    """
    job = asyncio.ensure_future(work)
    leaves = asyncio.ensure_future(_leaves(request))
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
    """Take an unneeded outcome, because asyncio would print its error otherwise."""
    if not job.cancelled():
        job.exception()


def answer_request(
    system: System, question: ChatRequest, tell: Any = None, write: Write | None = None
) -> Turn:
    """Let a system answer a request.

    Args:
        system: the system.
        question: the request.
        tell: see :func:`~pyterrier_ikat.live.answering.answer`.
        write: see there.

    Raises:
        Failure: when recorded completions don't answer this conversation, or are for other
            statements about the user.
        StillTooLong: when the model has no room for the prompt, even without the history.
        IkatError: when the system fails.
    """
    messages = question.said
    ptkb = question.metadata.ptkb
    if system.recorded:
        utterances = [message["content"] for message in messages if message["role"] == "user"]
        recorded = _recorded_conversation(system, utterances, list(ptkb.values()))
        number = recorded.number
        ptkb = dict(recorded.ptkb)
        chain = 0
    else:
        number = f"chat-{uuid.uuid4().hex}"  # a name of its own: no other turn passes for it
        chain = question.sample
    with in_chain(chain):
        return answer(system, messages, ptkb, number=number, tell=tell, write=write)


def _recorded_conversation(
    system: System, utterances: list[str], statements: list[str]
) -> Conversation:
    """The recorded conversation with these words and statements.

    A page without a persona sends no statements.
    """
    words = [text.split() for text in utterances]
    for chat in system.recorded:
        beginning = chat.turns[: len(words)]
        has_same_words = [turn.utterance.split() for turn in beginning] == words
        if has_same_words and (not statements or list(chat.ptkb.values()) == statements):
            return chat
    example = system.recorded[0].turns[0].utterance
    raise Failure(
        400,
        "the completions of the language model are recorded for other words or other statements "
        "about the user: begin a new conversation with what a recorded user said, such as "
        f"{example!r}, and give no statements, or serve a live model",
        param="messages",
        code="not_recorded",
    )


def search(system: System, request: SearchRequest) -> dict[str, Any]:
    """Search with the first stage of a system.

    Returns:
        ``model``, the name of the system; ``fingerprint``, see
        :func:`~pyterrier_ikat.live.serving.searching.search_facts`; ``results``, for each query
        ``query`` and ``passages``: dicts with ``id``, ``score`` and, if it is wanted and the stage
        has it, ``text``, best first.

    Raises:
        Failure: when it has no such stage, or the stage doesn't take the parameters of BM25.
        IkatError: when the search fails.
    """
    if system.retriever is None:
        raise Failure(
            400,
            f"model {system.name} has no stage that searches: choose another one",
            param="model",
        )
    try:
        retriever = stage_for_client(system, request.k, request.k1, request.b)
    except UsageError as error:
        raise Failure(400, str(error), param="k1") from None
    if not request.texts:
        retriever = without_unread_texts(retriever)
    fingerprint = search_facts(system)["fingerprint"]
    topics = _topics_of(request.every_query)
    results: pd.DataFrame = retriever.compile().transform(topics)
    ranked = results.sort_values("rank", kind="stable")
    passages: dict[str, list[dict[str, Any]]] = {qid: [] for qid in _qids(request.every_query)}
    gives_texts = request.texts and "text" in ranked.columns
    texts = values(ranked, "text", "")
    for qid, docno, text, score in zip(
        ranked["qid"], ranked["docno"], texts, ranked["score"], strict=True
    ):
        passage = {"id": str(docno), "score": float(score)}
        if gives_texts:
            passage["text"] = str(text)
        passages[qid].append(passage)
    of_queries = zip(request.every_query, passages.values(), strict=True)
    found = [{"query": query, "passages": of_query} for query, of_query in of_queries]
    return {"model": system.name, "fingerprint": fingerprint, "results": found}


def _qids(queries: list[str]) -> list[str]:
    return [f"search_{number}" for number in range(1, len(queries) + 1)]


def _topics_of(queries: list[str]) -> pd.DataFrame:
    """The queries that aren't blank, as a query frame."""
    searched: dict[str, list[str]] = {"qid": [], "query": []}
    for qid, query in zip(_qids(queries), queries, strict=True):
        if query.strip():
            searched["qid"].append(qid)
            searched["query"].append(query)
    return object_frame(searched)


def open_served(
    systems: Systems,
    ledger: Ledger,
    *,
    dataset: str | None = None,
    words: int | None = None,
    **resources: Any,
) -> dict[str, System]:
    """Open systems, with the conversations of recorded completions.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        ledger: the account of language models that are given as text.
        dataset: the dataset whose conversations recorded completions answer.
        words: the most words of a response, of systems that have a limit; None for their own.
        resources: see :class:`~pyterrier_ikat.study.Resources`.

    Returns:
        The systems by name, ready to answer.

    Raises:
        UsageError: for a system that can't answer live users, recorded completions without
            their dataset, and ``words`` where no system has a limit.
        DataError: for an index or recorded file that can't be used.
    """
    opened = open_systems(systems, ledger, live=True, cite=True, connect=True, **resources)
    if words is not None:
        opened = with_limit(opened, words)
    for system in opened:
        system.parameters()  # compiles its templates
    served = {}
    for system in opened:
        served[system.name] = replace(system, recorded=_recorded(system.models, dataset))
    return served


def _recorded(models: list[LLM], dataset: str | None) -> tuple[Conversation, ...]:
    """Return the conversations of these models' recorded completions."""
    replaying = [model for model in models if model.backend.replays]
    if not replaying:
        return ()
    if dataset is None and all(model.spec.startswith("recorded:sample") for model in replaying):
        dataset = "ikat:sample"
    if not dataset:
        argument = advice("dataset=...", "ikat.serve(..., dataset=...) in Python")
        raise UsageError(
            f"the completions of {replaying[0].spec} are recorded for a dataset's turns: "
            f"name it with {argument}, or give a live LLM"
        )
    return tuple(dataset_named(dataset).conversations)


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
        self._lock = threading.Lock()
        self._logs: dict[str, Log] = {}
        with ExitStack() as locks:
            locks.enter_context(lock_folders(*(self.folder / name for name in systems)))
            for name, system in systems.items():
                header = {
                    "kind": "served",
                    "system": name,
                    "recorded": system.replays,
                    **settings_of(system),
                }
                self._logs[name] = Log.create(self.folder / name, header)
            self._write_topics()  # of what a killed server left
            self._held = locks.pop_all()

    def save(self, system: str, chat: str, question: ChatRequest, turn: Turn) -> Turn:
        """Note a turn in the client's conversation named ``chat``.

        A log that can't be written is told in the server's own log: the answer is there, and goes
        to its user.

        Returns:
            The turn, which says whether it is saved.
        """
        log_of_system = self._logs[system]
        try:
            with self._lock:
                spoken = list(exchanges(question.said))
                session, dialogue = self._session(log_of_system, safe_name(chat), spoken[0][0])
                events = _events(session, question.metadata.ptkb, turn, dialogue, spoken)
                log_of_system.note(*events)
        except (OSError, UsageError) as error:
            reason = getattr(error, "strerror", None) or error
            log.error("a conversation with %s can't be saved: %s", system, reason)
            return turn
        return replace(turn, more={**turn.more, "saved": True})

    def _session(self, conversations: Log, name: str, first: str) -> tuple[str, Dialogue | None]:
        """Return the conversation of that name with this first utterance, or a new one."""
        for number in itertools.count(1):
            session = name if number == 1 else f"{name}.{number}"
            dialogue = conversations.known.get(session)
            if dialogue is None or not dialogue.turns or dialogue.turns[0].utterance == first:
                break
        return session, dialogue

    def close(self) -> None:
        """Write each log's topics file, and let others write into the folders."""
        with self._held:
            self._write_topics()

    def _write_topics(self) -> None:
        for name, conversations in self._logs.items():
            try:
                topics = topics_of(conversations.dialogues())
                if topics:
                    write_topics(conversations.folder / TOPICS, topics)
            except IkatError as error:
                log.error("there is no topics file of the conversations with %s: %s", name, error)


def safe_name(chat: str) -> str:
    """Return a conversation's name for saving, a part of its qids.

    It is the client's, or its letters and a digest.

    Example:
        >>> safe_name("7d1-a"), safe_name("room 7")
        ('7d1-a', 'room-7-f64ddcb7b2ac1be3')
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", chat):
        return chat
    plain = re.sub(r"[^A-Za-z0-9]+", "-", chat).strip("-")[:60] or "chat"
    digest = hashlib.sha256(chat.encode(errors="surrogatepass")).hexdigest()
    return f"{plain}-{digest[:16]}"


def _events(
    session: str,
    ptkb: Mapping[str, str],
    turn: Turn,
    dialogue: Dialogue | None,
    spoken: Sequence[tuple[str, str]],
) -> Iterator[Event]:
    """Yield the events of a request's conversation missing from its log.

    Args:
        session: the name of the conversation.
        ptkb: the statements of the request.
        turn: the newest turn.
        dialogue: the conversation in the log; None if it is new.
        spoken: the exchanges of the request; the last one is the newest turn's.
    """
    logged = [] if dialogue is None else [known_turn.utterance for known_turn in dialogue.turns]
    if dialogue is None or dialogue.more["ptkb"] != ptkb:
        yield session_event(session, session, ptkb=ptkb, memory="")
    shared = 0  # how many utterances the log and the request share
    while shared < min(len(logged), len(spoken)) and logged[shared] == spoken[shared][0]:
        shared += 1
    for number in range(shared + 1, len(spoken)):  # what only the client knows
        utterance, response = spoken[number - 1]
        yield turn_event(Turn(number, utterance, response, session=session))
    yield turn_event(replace(turn.without_texts(), session=session, number=len(spoken)))
    for number in range(len(logged), len(spoken), -1):
        yield {"event": "undone", "session": session, "turn": number}


def exchanges(messages: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Split messages into exchanges: the user's words, and the replies to them.

    What the assistant says before the user's first words is omitted.

    Example:
        >>> said = [("assistant", "Hello!"), ("user", "Which tea?"), ("assistant", "Mint.")]
        >>> said.append(("user", "And cold?"))
        >>> list(exchanges([{"role": role, "content": text} for role, text in said]))
        [('Which tea?', 'Mint.'), ('And cold?', '')]
    """
    utterance: str | None = None
    replies: list[str] = []
    for message in messages:
        if message["role"] == "user":
            if utterance is not None:
                yield utterance, "\n".join(replies)
            utterance = message["content"]
            replies = []
        else:
            replies.append(message["content"])
    if utterance is not None:
        yield utterance, "\n".join(replies)
