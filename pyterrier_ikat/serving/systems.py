"""The systems of a server: checked, built and loaded before it listens."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd
import pyterrier as pt

from ..chat.answering import HISTORY
from ..chat.context import answer_in_context
from ..chat.turn import ChatTurn, writes_response
from ..conversations import conversation
from ..conversations import dataset as dataset_named
from ..conversations.frame import object_frame, values
from ..conversations.topics import Conversation
from ..errors import UsageError, advice
from ..llms import LLM, Ledger
from ..operator import every_stage, parts_of, subpipelines
from ..study.comparison import check_prompts_are_read
from ..study.live import LiveSystem, open_live_systems
from ..study.systems import Systems
from .requests import ChatRequest, RequestError

QUERY = ["qid", "query"]


@dataclass(frozen=True)
class Served:
    """A system that a server offers as a model.

    Attributes:
        name: the model's id.
        title: where it comes from, in words; may be empty.
        system: the pipeline.
        writes_response: whether it writes responses; else its answers are passages.
        recorded: the conversations that its recorded completions answer, where its language model replays some.
    """

    name: str
    title: str
    system: pt.Transformer
    writes_response: bool
    recorded: tuple[Conversation, ...] = field(default=(), repr=False)

    def answer(self, asked: ChatRequest, tell: Any) -> ChatTurn:
        """The answer to a request.

        Raises:
            RequestError: when recorded completions don't answer this conversation, or are for other statements about the user.
            StillTooLong: when the model has no room for the prompt, even without the history.
            IkatError: when the system fails.
        """
        number, ptkb = f"chat-{uuid.uuid4().hex}", asked.ptkb or {}  # no other request's turn has this name, so none can pass for it
        if self.recorded:
            found = self._replayed([message["content"] for message in asked.messages if message["role"] == "user"], list(ptkb.values()))
            number, ptkb = found.number, dict(found.ptkb)
        turn = conversation(asked.messages, ptkb, number=number)
        return answer_in_context(self.system, turn, tell, method=self.name, history=HISTORY, repeats=None)[0]

    def _replayed(self, said: list[str], statements: list[str]) -> Conversation:
        """The recorded conversation with these words and statements; a page without a persona sends no statements."""
        words = [text.split() for text in said]
        begun = [chat for chat in self.recorded if [turn.utterance.split() for turn in chat.turns[: len(said)]] == words]
        found = next((chat for chat in begun if not statements or list(chat.ptkb.values()) == statements), None)
        if found is not None:
            return found
        if begun:
            wrong, repair = "are recorded for other statements about the user", "give no statements"
        else:
            wrong = "are recorded, and this conversation is not among them"
            repair = f"begin a new conversation with what a recorded user said, such as {self.recorded[0].turns[0].utterance!r}"
        raise RequestError(
            f"the completions of the language model {wrong}: {repair}, or serve a live model",
            param="metadata" if begun else "messages",
            code="not_recorded",
        )

    @cached_property
    def retriever(self) -> pt.Transformer | None:
        """Its first stage: the first one in the pipeline that finds passages for a query and asks no language model."""
        return next((stage for stage in every_stage(self.system) if _retrieves(stage)), None)

    def search(self, queries: list[str], k: int) -> list[list[dict[str, Any]]]:
        """The passages of its first stage: for each query a list of ``id``, ``text`` and ``score``, best first.

        Raises:
            RequestError: when it has no such stage.
            IkatError: when the search fails.
        """
        if self.retriever is None:
            raise RequestError(f"model {self.name} has no stage that searches: choose another one", param="model")
        qids = [f"search_{number}" for number in range(1, len(queries) + 1)]
        found: pd.DataFrame = (self.retriever % k).compile().transform(object_frame({"qid": qids, "query": queries}))
        passages: dict[str, list[dict[str, Any]]] = {qid: [] for qid in qids}
        for qid, docno, text, score in _rows(found.sort_values("rank", kind="stable")):
            passages[qid].append({"id": docno, "text": text, "score": score})
        return list(passages.values())


def _rows(found: pd.DataFrame) -> Iterator[tuple[str, str, str, float]]:
    rows = zip(found["qid"], found["docno"], values(found, "text", ""), found["score"], strict=True)
    return ((qid, str(docno), str(text), float(score)) for qid, docno, text, score in rows)


def _retrieves(stage: pt.Transformer) -> bool:
    if subpipelines(stage) or any(isinstance(part, LLM) for part in parts_of(stage)):
        return False
    try:
        return "docno" in pt.inspect.transformer_outputs(stage, QUERY)
    except (pt.inspect.InspectError, pt.validate.InputValidationError):
        return False


def open_systems(systems: Systems, ledger: Ledger, *, dataset: str | None = None, **resources: Any) -> dict[str, Served]:
    """Check every name and resource, build every system and load every model.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        ledger: the account of language models that are given as text.
        dataset: the dataset whose conversations recorded completions answer.
        resources: see :class:`~pyterrier_ikat.study.Resources`.

    Raises:
        UsageError: for an unknown or manual method, a missing or unused resource, a language model that asks in batches, recorded
            completions without their dataset, or a model that can't be loaded.
        DataError: for an index or recorded file that can't be used.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos." for chat in chats]
        >>> open_systems({"mine": ikat.Answer(ikat.llm(Model()))}, Ledger())["mine"].writes_response
        True
    """
    live = open_live_systems(systems, ledger, **resources)
    opened = next(iter(live.values())).resources
    check_prompts_are_read(opened, [one.system for one in live.values()])
    return {name: _served(one, dataset) for name, one in live.items()}


def _served(live: LiveSystem, dataset: str | None) -> Served:
    entry, writes = live.method, live.columns is not None and writes_response(live.columns)
    title = " ".join(text for text in (entry.summary, f"({entry.paper})" if entry.paper else "") if text)
    return Served(entry.name, title, live.system, writes, _recorded(live.models, dataset))


def _recorded(models: list[LLM], dataset: str | None) -> tuple[Conversation, ...]:
    replaying = [model for model in models if model.backend.replays]
    if not replaying:
        return ()
    name = dataset or ("ikat:sample" if all(model.spec.startswith("recorded:sample") for model in replaying) else None)
    if name is None:
        given = advice("dataset=...", "--dataset")
        raise UsageError(
            f"the completions of {replaying[0].spec} are recorded for a dataset's turns: name it with {given}, or give a live LLM"
        )
    return tuple(dataset_named(name).conversations)


def describe(systems: Mapping[str, Served]) -> list[str]:
    """A line for each system that writes no response."""
    return [f"{one.name} writes no response: its answers list passages" for one in systems.values() if not one.writes_response]
