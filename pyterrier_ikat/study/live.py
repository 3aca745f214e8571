"""Systems that answer live users: each is checked, and its models are loaded, before the first user waits."""

from dataclasses import dataclass
from typing import Any

import pyterrier as pt

from ..conversations import conversation
from ..errors import UsageError
from ..llms import LLM, Ledger
from ..methods import Method
from ..operator import parts_of
from .comparison import check_system, load_models
from .systems import Resources, Systems, methods_in


@dataclass(frozen=True)
class LiveSystem:
    """A system that is ready to answer.

    Attributes:
        method: its name and the facts of its paper.
        system: the expression.
        columns: the columns of its results; None if a stage doesn't tell them.
        resources: the opened resources, which the systems opened with it share.
    """

    method: Method
    system: pt.Transformer
    columns: list[str] | None
    resources: Resources

    @property
    def models(self) -> list[LLM]:
        """Its language models."""
        return [part for part in parts_of(self.system) if isinstance(part, LLM)]

    def open_models(self) -> None:
        """Connect to its language models, so that a missing key is reported now and not to the first user.

        Raises:
            FatalLLMError: when there is no key.
        """
        for model in self.models:
            model.open()


def open_live_systems(
    systems: Systems, ledger: Ledger, *, only_plan: bool = False, asks: bool = True, **resources: Any
) -> dict[str, LiveSystem]:
    """Check every name and resource, build every system, and load every model.

    Args:
        systems: as for :func:`pyterrier_ikat.run`.
        ledger: the account of language models that are given as text.
        only_plan: load no model.
        asks: whether language models are sure to be asked, so that a missing key is an error now. Without it they may answer from the
            cache alone.
        **resources: see :class:`~pyterrier_ikat.study.Resources`.

    Raises:
        UsageError: for an unknown method, one that reads manual rewrites or gold statements, a missing or unused resource, a language
            model that asks in batches, or a model that can't be loaded.
        FatalLLMError: when a language model lacks its key, with ``asks``.
        DataError: for an index or recorded file that can't be used.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["Rooibos." for chat in chats]
        >>> open_live_systems({"mine": ikat.Answer(ikat.llm(Model()))}, Ledger())["mine"].system
        ikat.Answer(ikat.llm('Model'))
    """
    methods = methods_in(systems)
    for entry in methods:
        if entry.manual:
            raise UsageError(
                f"method {entry.name} reads annotations of each turn, such as manual rewrites, and a live user gives none: choose another"
            )
    given = Resources.of(resources, methods)
    opened = given.opened(ledger)
    found = {entry.name: _built(entry, opened) for entry in methods}
    if not only_plan:
        load_models([one.system for one in found.values()])
    if asks and not only_plan:
        for one in found.values():
            one.open_models()
    return found


def _built(entry: Method, opened: Resources) -> LiveSystem:
    system = opened.build(entry)
    columns = check_system(entry.name, system, conversation([{"role": "user", "content": "?"}]), opened.index)
    live = LiveSystem(entry, system, columns, opened)
    if any(model.batches is not None for model in live.models):
        raise UsageError(f"a live user can't wait a day for an answer of {entry.name}: omit batch=on in the specification of the LLM")
    return live
