"""What runs in a process of a Ray node: one pipeline, one part of the turns at a time, as a dialogue with the calling process.

The pipeline runs in a thread. Where it asks a language model, the caller gets a `Question` in the place of the result, and answers it.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import pandas as pd

from ..errors import IkatError
from ..llms import Completion, LLMFailure, Request
from ..operator import parts_of
from .shipping import Counted, frozen, unpack

Answers = list[Completion | LLMFailure]


@dataclass(frozen=True)
class Question:
    """What a running part wants to know.

    Attributes:
        llm: the number of the language model.
        requests: what to ask it.
    """

    llm: int
    requests: list[Request]


@dataclass(frozen=True)
class Outcome:
    """How a part ended.

    Attributes:
        frame: its result, or None.
        error: one of our errors, frozen, or None.
        counted: what the part's operators counted themselves.
        warned: (category, message) of its warnings.
        indexes: path -> fingerprint of the indexes as they are on this node.
    """

    frame: pd.DataFrame | None = None
    error: tuple[Any, ...] | None = None
    counted: list[Counted] = field(default_factory=list)
    warned: list[tuple[type[Warning], str]] = field(default_factory=list)
    indexes: dict[str, str] = field(default_factory=dict)


class Worker:
    """Runs parts one after the other; indexes and models that they open stay open."""

    def __init__(self) -> None:
        self._packed = b""
        self._pipeline: Any = None
        self._events: SimpleQueue[Question | Outcome | BaseException] = SimpleQueue()
        self._answers: SimpleQueue[Answers] = SimpleQueue()
        self._asking = Lock()  # a pipeline may ask from several threads, and an answer doesn't say to which question

    def ready(self) -> int:
        """The process id: the worker has started."""
        return os.getpid()

    def begin(self, packed: bytes, frame: pd.DataFrame) -> Question | Outcome:
        """Start the pipeline on a part, and run it to its first question or its end."""
        Thread(target=self._work, args=(packed, frame), daemon=True).start()
        return self._next()

    def answer(self, answers: Answers) -> Question | Outcome:
        """Answer the question, and run on to the next one or the end."""
        self._answers.put(answers)
        return self._next()

    def _next(self) -> Question | Outcome:
        event = self._events.get()
        if isinstance(event, BaseException):
            raise event
        return event

    def _ask(self, llm: int, requests: Sequence[Request]) -> Answers:
        with self._asking:
            self._events.put(Question(llm, list(requests)))
            return self._answers.get()

    def _work(self, packed: bytes, frame: pd.DataFrame) -> None:
        try:
            self._events.put(self._outcome(packed, frame))
        except BaseException as error:  # the caller waits: whatever ends this thread, it has to hear of it
            self._events.put(error)

    def _outcome(self, packed: bytes, frame: pd.DataFrame) -> Outcome:
        with warnings.catch_warnings(record=True) as caught:
            result, error, models, indexes = None, None, [], {}
            try:
                if packed != self._packed:
                    self._pipeline, self._packed = unpack(packed, self._ask), packed
                pipeline, models = self._pipeline
                result = pipeline.transform(frame.copy())  # what Ray brought can't be written to
                indexes = {part.path: part.fingerprint() for part in parts_of(pipeline) if hasattr(part, "path")}
            except IkatError as raised:
                error = frozen(raised)
        counted = [(model.number, *count) for model in models for count in model.ledger.counted]
        for model in models:
            model.ledger.counted.clear()
        return Outcome(result, error, counted, [(one.category, str(one.message)) for one in caught], indexes)
