"""What goes between machines: pipelines without their language models, and errors with all they say.

A language model never travels: its key, connections, cache, ledger and budget stay in the calling process. In its place a pipeline
takes a `FarLLM` along, which hands its requests back.
"""

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pyterrier as pt

from ..errors import IkatError, UsageError
from ..llms import LLM, Completion, LLMFailure, Request
from ..operator import Operator

Ask = Callable[[int, Sequence[Request]], list[Completion | LLMFailure]]
Counted = tuple[int, str, str, dict[str, float | None]]
"""Number of the language model, stage, model, increments."""


class FarLLM:
    """Stands for a language model of the calling process in a pipeline that runs elsewhere.

    Args:
        number: which of the pipeline's language models it stands for.
        model: the model's name.
        on_error: what operators do that do not say it themselves where a call fails.
        kept_in: where it keeps finished calls.
        text: what ``repr`` shows.
        ask: brings the requests home, and the completions back.

    Attributes:
        ledger: takes what operators count themselves (fallbacks, dropped pieces), for the ledger at home.
    """

    def __init__(self, number: int, model: str, on_error: str, kept_in: str, text: str, ask: Ask) -> None:
        self.number, self.model, self.on_error, self.kept_in, self.text, self._ask = number, model, on_error, kept_in, text, ask
        self.ledger = Tally()

    def ask(self, requests: Sequence[Request]) -> list[Completion | LLMFailure]:
        """Ask the language model at home (see `LLM.ask`)."""
        return self._ask(self.number, requests)

    def __repr__(self) -> str:
        return self.text


class Tally:
    """Remembers what is counted; `Ledger.count` of the ledger at home gets it when the part is done."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, str, dict[str, float | None]]] = []

    def count(self, stage: str, model: str, **increments: float | None) -> None:
        """Remember one count."""
        self.counted.append((stage, model, increments))


def pack(pipeline: pt.Transformer) -> tuple[bytes, list[LLM]]:
    """The pipeline as bytes, and the language models that it asks, which are not in the bytes.

    Raises:
        UsageError: when a stage can't be sent to another process, or a cross-encoder would choose its backend in each of them.
    """
    from ray import cloudpickle

    models: list[LLM] = []
    pickler: Any = cloudpickle.CloudPickler

    class Packer(pickler):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> tuple[int, str, str, str, str] | None:
            if isinstance(value, Operator):
                value.check_shippable()
            if not isinstance(value, LLM):
                return None
            known = [number for number, model in enumerate(models) if model is value]
            number = known[0] if known else len(models)
            models.extend([] if known else [value])
            return number, value.model, value.on_error, value.kept_in, repr(value)

    buffer = io.BytesIO()
    try:
        packer: Any = Packer
        packer(buffer).dump(pipeline)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        raise UsageError(f"{pipeline!r} can't be sent to another process ({error}): open what can't be sent at first use") from error
    return buffer.getvalue(), models


def unpack(packed: bytes, ask: Ask) -> tuple[pt.Transformer, list[FarLLM]]:
    """The pipeline of `pack`, and what stands for its language models.

    Raises:
        UsageError: when a package that it needs is missing here.
    """
    models: dict[int, FarLLM] = {}

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, name: Any) -> FarLLM:
            number, model, on_error, kept_in, text = name
            return models.setdefault(number, FarLLM(number, model, on_error, kept_in, text, ask))

    try:
        pipeline = Unpacker(io.BytesIO(packed)).load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the pipeline can't be opened on a Ray node ({error}): install the same packages on every node") from error
    return pipeline, list(models.values())


def frozen(error: IkatError) -> tuple[type[IkatError], tuple[Any, ...], dict[str, Any]]:
    """One of our errors in pieces that can be pickled, whatever its ``__init__`` takes."""
    return type(error), error.args, vars(error)


def thawed(kind: type[IkatError], args: tuple[Any, ...], state: dict[str, Any]) -> IkatError:
    """The error of `frozen`, equal in type, message and attributes."""
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error
