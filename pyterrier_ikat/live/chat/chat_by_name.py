"""A chat with a method by name: every name is checked and every model loaded before the first turn."""

from pathlib import Path
from typing import Any

import pyterrier as pt

from ...llms import Ledger, llm
from ...methods import find
from ...study.resources import is_given
from ...study.systems import ALL, System, open_systems
from ..answering import HISTORY
from ..persona import open_memory, read_persona
from .conversation import Chat

MODELS = ("llm", "second_llm")


def open_chat(
    name: str,
    ledger: Ledger | None = None,
    *,
    persona: str | Path | None = None,
    number: str | None = None,
    save_to: str | Path | None = None,
    continue_from: str | Path | None = None,
    history: int | None = HISTORY,
    memory: str | Path | None = None,
    **options: Any,
) -> Chat:
    """Check every name, load every model, and open a chat, which can change to other methods (:meth:`Chat.use`).

    Args:
        name: the method.
        ledger: the account that the LLMs count in; None for a new one.
        persona: see :func:`read_persona`.
        number: see :func:`read_persona`.
        save_to: see :class:`Chat`.
        continue_from: see :class:`Chat`.
        history: see :class:`Chat`.
        memory: the file of a :class:`~pyterrier_ikat.UserMemory`, which learns with the method's ``llm``.
        options: the resources, see :class:`~pyterrier_ikat.study.Resources`. Those that the method doesn't use are kept for others.

    Raises:
        UsageError: for an unknown or manual method, a missing resource, or a model that can't be loaded.
        DataError: for an index, persona, recorded file or saved chat that can't be used.
    """
    who, counting = read_persona(persona, number), Ledger() if ledger is None else ledger
    for model in MODELS:  # each once: its budget counts over all methods of the chat
        if isinstance(given := options.get(model), str) and is_given(given):
            options[model] = llm(given, ledger=counting)
    learns = None if memory is None else open_memory(memory, options.get("llm"), options.get("prompts"))

    def load(name: str) -> System:
        return open_systems(find(name), counting, live=True, connect=True, spare=ALL, **options)[0]

    chat = Chat(
        pt.Transformer.identity(),  # the files are checked before a model is loaded
        who.ptkb if persona else None,
        number=who.number if persona or number else None,
        save_to=save_to,
        continue_from=continue_from,
        script=who.utterances,
        history=history,
        memory=learns,
        load=load,
    )
    chat.use(name)
    return chat
