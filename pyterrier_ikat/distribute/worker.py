"""The messages between machines, and the work of a process on a Ray node: one pipeline, one part of the turns at a time.

A language model is never sent: its key, connections, cache, ledger and budget stay in the calling process. The pipeline gets a `FarLLM`
instead. The pipeline runs in a thread. When it asks a language model, the caller gets a `Question` instead of the result, and answers it.
"""

import io
import os
import pickle
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import IkatError, UsageError
from ..llms import LLM, Completion, Ledger, LLMFailure, Request
from ..operator import Operator, parts_of

Answers = list[Completion | LLMFailure]
Ask = Callable[[int, Sequence[Request]], Answers]


@dataclass(eq=False, repr=False)
class FarLLM:
    """Replaces a language model of the calling process in a pipeline that runs elsewhere.

    Attributes:
        number: which of the pipeline's language models it replaces.
        model: the model's name.
        on_error: the default of operators for failed calls.
        kept_in: where the model keeps finished calls.
        text: its text in ``repr``.
        ask: sends the requests to the caller, and returns the completions (see `LLM.ask`).
        ledger: collects what operators count themselves (fallbacks, dropped pieces), for the caller's ledger.
    """

    number: int
    model: str
    on_error: str
    kept_in: str
    text: str
    ask: Callable[[Sequence[Request]], Answers]
    ledger: Ledger = field(default_factory=Ledger)

    def __repr__(self) -> str:
        return self.text


def pack(pipeline: pt.Transformer) -> tuple[bytes, list[LLM]]:
    """The pipeline as bytes, and the language models that it asks, which are not in the bytes.

    Raises:
        UsageError: when a stage can't be sent to another process, or when each process would choose the backend of a cross-encoder.
    """
    from ray import cloudpickle

    models: dict[int, LLM] = {}
    pickler: Any = cloudpickle.CloudPickler

    class Packer(pickler):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> tuple[int, str, str, str, str] | None:
            if isinstance(value, Operator):
                value.check_shippable()
            if not isinstance(value, LLM):
                return None
            models.setdefault(id(value), value)
            return list(models).index(id(value)), value.model, value.on_error, value.kept_in, repr(value)

    buffer = io.BytesIO()
    try:
        packer: Any = Packer
        packer(buffer).dump(pipeline)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        raise UsageError(f"{pipeline!r} can't be sent to another process ({error}): open what can't be sent at first use") from error
    return buffer.getvalue(), list(models.values())


def unpack(packed: bytes, ask: Ask) -> tuple[pt.Transformer, list[FarLLM]]:
    """The pipeline of `pack`, and the replacements of its language models.

    Raises:
        UsageError: when a package that it needs is missing here.
    """
    models: dict[int, FarLLM] = {}

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, name: Any) -> FarLLM:
            number, model, on_error, kept_in, text = name
            return models.setdefault(number, FarLLM(number, model, on_error, kept_in, text, partial(ask, number)))

    try:
        pipeline = Unpacker(io.BytesIO(packed)).load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the pipeline can't be opened on a Ray node ({error}): install the same packages on every node") from error
    return pipeline, list(models.values())


def freeze_error(error: IkatError) -> tuple[type[IkatError], tuple[Any, ...], dict[str, Any]]:
    """One of our errors in pieces that can be pickled, whatever the arguments of its ``__init__``."""
    return type(error), error.args, vars(error)


def thaw_error(kind: type[IkatError], args: tuple[Any, ...], state: dict[str, Any]) -> IkatError:
    """The error of `freeze_error`, equal in type, message and attributes."""
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


@dataclass(frozen=True)
class Question:
    """A question from a running part to its caller.

    Attributes:
        llm: the number of the language model.
        requests: the requests to it.
    """

    llm: int
    requests: list[Request]


@dataclass(frozen=True)
class Outcome:
    """How a part ended.

    Attributes:
        frame: its result, or None.
        error: one of our errors, from `freeze_error`, or None.
        counted: what the part's operators counted themselves, by the numbers of the language models.
        warned: (category, message) of its warnings.
        indexes: path -> fingerprint of the indexes as they are on this node.
    """

    frame: pd.DataFrame | None = None
    error: tuple[Any, ...] | None = None
    counted: dict[int, Ledger] = field(default_factory=dict)
    warned: list[tuple[type[Warning], str]] = field(default_factory=list)
    indexes: dict[str, str] = field(default_factory=dict)


class Worker:
    """Runs parts one after the other. Indexes and models that they open stay open."""

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
        except BaseException as error:  # the caller waits, so it must hear of whatever ends this thread
            self._events.put(error)

    def _outcome(self, packed: bytes, frame: pd.DataFrame) -> Outcome:
        with warnings.catch_warnings(record=True) as caught:
            result, error, models, indexes = None, None, [], {}
            try:
                if packed != self._packed:
                    self._pipeline, self._packed = unpack(packed, self._ask), packed
                pipeline, models = self._pipeline
                result = pipeline.transform(frame.copy())  # frames from Ray are read-only
                indexes = {part.path: part.fingerprint() for part in parts_of(pipeline) if hasattr(part, "path")}
            except IkatError as raised:
                error = freeze_error(raised)
        counted = {model.number: model.ledger.take() for model in models}
        return Outcome(result, error, counted, [(one.category, str(one.message)) for one in caught], indexes)
