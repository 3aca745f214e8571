"""What a server does, apart from HTTP: its systems are opened before it listens, asked by requests, and their conversations saved."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ...conversations import dataset as dataset_named
from ...conversations.frame import object_frame, values
from ...conversations.topics import Conversation
from ...errors import UsageError, advice
from ...events import Write, in_chain
from ...llms import LLM, Ledger
from ...runs.answered_turn import Turn
from ...study.systems import System, Systems, open_systems
from ..answering import answer
from .conversation_logs import ConversationLogs
from .requests import ChatRequest, SearchRequest, read_chat, read_search
from .waiting_line import Limits, Line
from .wire import RequestError


@dataclass
class Service:
    """What the server does, apart from HTTP.

    Attributes:
        systems: the systems by name.
        limits: the bounds.
        line: where requests wait.
        logs: where conversations are saved; None where nothing is.
    """

    systems: Mapping[str, System]
    limits: Limits
    line: Line
    logs: ConversationLogs | None = None

    def read_chat(self, data: Mapping[str, Any], named: Sequence[str] = (), person: str = "") -> ChatRequest:
        """A checked chat request; ``named`` are the ids of its conversation in the header. No ``person`` gets at another one's."""
        asked = read_chat(data, list(self.systems), self.limits, None if self.logs is None else named)
        return replace(asked, conversation=f"{person}.{asked.conversation}") if person and asked.conversation else asked

    def read_search(self, data: Mapping[str, Any]) -> SearchRequest:
        """A checked search request."""
        return read_search(data, list(self.systems), self.limits)

    async def answer(self, asked: ChatRequest, tell: Callable[[str], None], write: Write | None = None) -> Turn:
        """The answer, which is saved where the request names its conversation; ``tell`` and ``write`` are called in other threads."""

        def work() -> Turn:
            turn = answer_request(self.systems[asked.model], asked, tell, write)
            return turn if self.logs is None or not asked.conversation else self.logs.save(asked, turn)

        return await self.line.run(work)

    async def search(self, asked: SearchRequest) -> list[dict[str, Any]]:
        """For each query its passages."""
        found = await self.line.run(lambda: search(self.systems[asked.model], asked.queries, asked.k))
        return [{"query": query, "passages": passages} for query, passages in zip(asked.queries, found, strict=True)]

    def notes(self) -> list[str]:
        """What the server's user should know."""
        silent = [f"{one.name} writes no response: its answers list passages" for one in self.systems.values() if not one.writes_response]
        return silent + ([] if self.logs is None else [f"conversations whose clients name them are saved in {self.logs.folder}"])


def answer_request(system: System, asked: ChatRequest, tell: Any, write: Write | None = None) -> Turn:
    """The answer of a system to a request; see :func:`~pyterrier_ikat.live.answering.answer` for ``tell`` and ``write``.

    Raises:
        RequestError: when recorded completions don't answer this conversation, or are for other statements about the user.
        StillTooLong: when the model has no room for the prompt, even without the history.
        IkatError: when the system fails.
    """
    number, ptkb = f"chat-{uuid.uuid4().hex}", asked.ptkb or {}  # no other request's turn has this name, so none can pass for it
    if system.recorded:
        found = _replayed(system, [message["content"] for message in asked.messages if message["role"] == "user"], list(ptkb.values()))
        number, ptkb = found.number, dict(found.ptkb)
    with in_chain(0 if system.recorded else asked.sample):
        return answer(system, asked.messages, ptkb, number=number, tell=tell, write=write)


def _replayed(system: System, said: list[str], statements: list[str]) -> Conversation:
    """The recorded conversation with these words and statements; a page without a persona sends no statements."""
    words = [text.split() for text in said]
    begun = [chat for chat in system.recorded if [turn.utterance.split() for turn in chat.turns[: len(said)]] == words]
    found = next((chat for chat in begun if not statements or list(chat.ptkb.values()) == statements), None)
    if found is not None:
        return found
    if begun:
        wrong, repair = "are recorded for other statements about the user", "give no statements"
    else:
        wrong = "are recorded, and this conversation is not among them"
        repair = f"begin a new conversation with what a recorded user said, such as {system.recorded[0].turns[0].utterance!r}"
    raise RequestError(
        f"the completions of the language model {wrong}: {repair}, or serve a live model",
        param="metadata" if begun else "messages",
        code="not_recorded",
    )


def search(system: System, queries: list[str], k: int) -> list[list[dict[str, Any]]]:
    """The passages of its first stage: for each query a list of ``id``, ``text`` and ``score``, best first.

    Raises:
        RequestError: when it has no such stage.
        IkatError: when the search fails.
    """
    if system.retriever is None:
        raise RequestError(f"model {system.name} has no stage that searches: choose another one", param="model")
    qids = [f"search_{number}" for number in range(1, len(queries) + 1)]
    found: pd.DataFrame = (system.retriever % k).compile().transform(object_frame({"qid": qids, "query": queries}))
    passages: dict[str, list[dict[str, Any]]] = {qid: [] for qid in qids}
    for qid, docno, text, score in _rows(found.sort_values("rank", kind="stable")):
        passages[qid].append({"id": docno, "text": text, "score": score})
    return list(passages.values())


def _rows(found: pd.DataFrame) -> Iterator[tuple[str, str, str, float]]:
    rows = zip(found["qid"], found["docno"], values(found, "text", ""), found["score"], strict=True)
    return ((qid, str(docno), str(text), float(score)) for qid, docno, text, score in rows)


def open_served(systems: Systems, ledger: Ledger, *, dataset: str | None = None, **resources: Any) -> dict[str, System]:
    """Systems that are ready to answer, by name, with the conversations that recorded completions answer.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        ledger: the account of language models that are given as text.
        dataset: the dataset whose conversations recorded completions answer.
        resources: see :class:`~pyterrier_ikat.study.Resources`.

    Raises:
        UsageError: for a system that can't answer live users, and recorded completions without their dataset.
        DataError: for an index or recorded file that can't be used.
    """
    opened = open_systems(systems, ledger, live=True, cite=True, connect=True, **resources)
    return {one.name: replace(one, recorded=_recorded(one.models, dataset)) for one in opened}


def _recorded(models: list[LLM], dataset: str | None) -> tuple[Conversation, ...]:
    replaying = [model for model in models if model.backend.replays]
    if not replaying:
        return ()
    name = dataset or ("ikat:sample" if all(model.spec.startswith("recorded:sample") for model in replaying) else None)
    if name is None:
        given = advice("dataset=...", "ikat.serve(..., dataset=...) in Python")
        raise UsageError(
            f"the completions of {replaying[0].spec} are recorded for a dataset's turns: name it with {given}, or give a live LLM"
        )
    return tuple(dataset_named(name).conversations)
