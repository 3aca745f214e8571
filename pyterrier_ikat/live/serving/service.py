"""What a server does, apart from HTTP: its systems are opened before it listens, and asked in a bounded number of threads."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio
import pandas as pd

from ...conversations import dataset as dataset_named
from ...conversations.frame import object_frame, values
from ...conversations.topics import Conversation
from ...errors import UsageError, advice, list_first
from ...events import Write, in_chain
from ...llms import LLM, Ledger
from ...runs.answered_turn import Turn
from ...study.systems import System, Systems, open_systems
from ..answering import answer
from .replies import Failure, failure_of
from .requests import ChatRequest, SearchRequest
from .saved import SavedConversations

Result = TypeVar("Result")


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
    saved: SavedConversations | None = None

    def system(self, name: str | None) -> System:
        """A system by its name, which a request may omit where there is only one.

        Raises:
            Failure: when there is none of that name.
        """
        found = self.systems.get(name or "") or (next(iter(self.systems.values())) if name is None and len(self.systems) == 1 else None)
        if found is None:
            known = f"there is no model {str(name)[:60]!r}: give one of {list_first(list(self.systems))}"
            raise Failure(404, known, param="model", code="model_not_found")
        return found

    async def answer(
        self, asked: ChatRequest, chat: str = "", tell: Callable[[str], None] | None = None, write: Write | None = None
    ) -> Turn:
        """The answer, which is saved if the conversation has a name; ``tell`` and ``write`` are called in other threads.

        Raises:
            Failure: when there is none.
        """
        system = self.system(asked.model)

        def work() -> Turn:
            turn = answer_request(system, asked, tell, write)
            return turn if self.saved is None or not chat else self.saved.save(system.name, chat, asked, turn)

        return await self._run(work)

    async def search(self, asked: SearchRequest) -> list[dict[str, Any]]:
        """The passages of each query.

        Raises:
            Failure: when there are none.
        """
        system = self.system(asked.model)
        return await self._run(lambda: search(system, asked.every_query, asked.k))

    async def _run(self, work: Callable[[], Result]) -> Result:
        """Work in a thread. Who stops waiting frees the place; a call that has begun is finished, since it is paid for and cached."""

        def told() -> Result:
            try:
                return work()
            except BaseException as error:  # also SystemExit of a system, which would end the server
                raise failure_of(error) from None

        return await anyio.to_thread.run_sync(told, limiter=self.workers, abandon_on_cancel=True)


def answer_request(system: System, asked: ChatRequest, tell: Any = None, write: Write | None = None) -> Turn:
    """The answer of a system to a request; see :func:`~pyterrier_ikat.live.answering.answer` for ``tell`` and ``write``.

    Raises:
        Failure: when recorded completions don't answer this conversation, or are for other statements about the user.
        StillTooLong: when the model has no room for the prompt, even without the history.
        IkatError: when the system fails.
    """
    number, ptkb = f"chat-{uuid.uuid4().hex}", asked.metadata.ptkb  # no other request's turn has this name, so none can pass for it
    if system.recorded:
        said = [message["content"] for message in asked.said if message["role"] == "user"]
        found = _replayed(system, said, list(ptkb.values()))
        number, ptkb = found.number, dict(found.ptkb)
    with in_chain(0 if system.recorded else asked.sample):
        return answer(system, asked.said, ptkb, number=number, tell=tell, write=write)


def _replayed(system: System, said: list[str], statements: list[str]) -> Conversation:
    """The recorded conversation with these words and statements; a page without a persona sends no statements."""
    words = [text.split() for text in said]
    begun = [chat for chat in system.recorded if [turn.utterance.split() for turn in chat.turns[: len(said)]] == words]
    found = next((chat for chat in begun if not statements or list(chat.ptkb.values()) == statements), None)
    if found is None:
        first = f"begin a new conversation with what a recorded user said, such as {system.recorded[0].turns[0].utterance!r}"
        wrong = "the completions of the language model are recorded for other words or other statements about the user"
        raise Failure(400, f"{wrong}: {first}, and give no statements, or serve a live model", param="messages", code="not_recorded")
    return found


def search(system: System, queries: list[str], k: int) -> list[dict[str, Any]]:
    """For each query the passages of the system's first stage: a list of ``id``, ``text`` and ``score``, best first.

    Raises:
        Failure: when it has no such stage.
        IkatError: when the search fails.
    """
    if system.retriever is None:
        raise Failure(400, f"model {system.name} has no stage that searches: choose another one", param="model")
    qids = [f"search_{number}" for number in range(1, len(queries) + 1)]
    found: pd.DataFrame = (system.retriever % k).compile().transform(object_frame({"qid": qids, "query": queries}))
    passages: dict[str, list[dict[str, Any]]] = {qid: [] for qid in qids}
    ranked = found.sort_values("rank", kind="stable")
    for qid, docno, text, score in zip(ranked["qid"], ranked["docno"], values(ranked, "text", ""), ranked["score"], strict=True):
        passages[qid].append({"id": str(docno), "text": str(text), "score": float(score)})
    return [{"query": query, "passages": passages[qid]} for qid, query in zip(qids, queries, strict=True)]


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
