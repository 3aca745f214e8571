"""A chat with a method by name: every name is checked and every model loaded before the first turn."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..errors import UsageError, list_first, option
from ..generate import UserMemory
from ..llms import LLM, Ledger, llm
from ..methods import Method, find
from ..study.live import open_live_systems
from ..study.systems import Resources, taken_by
from .answering import HISTORY
from .conversation import Chat, Opened
from .persona import Persona, read_persona
from .turn import writes_response

MODELS = ("llm", "second_llm")


class Loader:
    """Loads methods by name over the same resources, so that a chat can change from one to another.

    Args:
        ledger: the account that the LLMs count in.
        who: the persona, with the recorded utterances of its conversation.
        options: the resources, see :class:`~pyterrier_ikat.study.Resources`.
    """

    def __init__(self, ledger: Ledger, who: Persona, options: Mapping[str, Any]) -> None:
        self.ledger, self.who, self.options = ledger, who, dict(options)

    def load(self, name: str) -> Opened:
        """The method of that name, with notes for the user.

        Raises:
            UsageError: for an unknown or manual method, a missing resource, or a model that can't be loaded.
            DataError: for an index or recorded file that can't be used.
        """
        entry = find(name)
        self._open_models()
        spare = self._spare(entry)
        live = open_live_systems(entry, self.ledger, **{key: value for key, value in self.options.items() if key not in spare})[entry.name]
        recorded = any(model.backend.replays for model in live.models)
        script = self.who.utterances if recorded and self.who.utterances else None
        return Opened(entry.name, live.system, script, tuple(_notes(entry.name, live.columns, spare)))

    def model(self) -> LLM:
        """The language model ``llm``, also for a method that doesn't take one.

        Raises:
            UsageError: when none was given.
        """
        self._open_models()
        if not isinstance(found := self.options.get("llm"), LLM):
            raise UsageError(f"a memory learns with a language model: give {option('llm')}")
        return found

    def _open_models(self) -> None:
        """Make each LLM once: its budget counts over all methods of the chat."""
        for name in MODELS:
            given = self.options.get(name)
            if isinstance(given, str) and _is_given(given):
                self.options[name] = llm(given, ledger=self.ledger)

    def _spare(self, entry: Method) -> list[str]:
        """The resources that this method doesn't take: another method of the chat may."""
        taken, known = taken_by([entry]) | {"prompts"}, {one.name for one in fields(Resources)}
        return [name for name in known - taken if _is_given(self.options.get(name))]


def _is_given(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and value.strip().lower() == "none")


def _notes(name: str, columns: list[str] | None, spare: list[str]) -> list[str]:
    notes = []
    if columns is not None and not writes_response(columns):
        notes.append(f"{name} writes no response: you see the best passages, and the history has only your words")
    if spare:
        notes.append(f"{name} doesn't use {list_first([option(one) for one in sorted(spare)])}: another method of this chat may")
    return notes


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
    who = read_persona(persona, number)
    loader = Loader(Ledger() if ledger is None else ledger, who, options)
    ptkb, named = (who.ptkb if persona else None), (who.number if persona or number else None)
    kept = None if memory is None else UserMemory(memory, loader.model(), prompts=options.get("prompts"))
    nothing = pt.Transformer.identity()  # the files are checked before a model is loaded
    chat = Chat(nothing, ptkb, number=named, save_to=save_to, continue_from=continue_from, history=history, memory=kept, load=loader.load)
    chat.use(name)
    return chat
