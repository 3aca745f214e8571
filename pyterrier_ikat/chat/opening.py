"""A chat with a method of the catalogue, over an index, of what the command line names."""

from pathlib import Path
from typing import Any

from ..conversations import conversation
from ..errors import UsageError
from ..llm import LLM, Ledger
from ..methods import find
from ..resources import check_texts, load_models, named_resources, system_of, without_none
from .conversation import Chat
from .persona import read_persona


def open_chat(
    name: str,
    index_path: str,
    ledger: Ledger,
    *,
    persona: str | Path | None = None,
    number: str | None = None,
    save_to: str | Path | None = None,
    **options: Any,
) -> Chat:
    """Check every name, load every model, and open a chat.

    Args:
        name: the method.
        index_path: the folder of the index.
        ledger: the account that the LLMs count in.
        persona: see :func:`read_persona`.
        number: see :func:`read_persona`.
        save_to: see :class:`Chat`.
        options: the resources, as ``ikat run`` names them: ``splade_model``, ``texts``, ``llm_spec``, ``second_spec``, ``reranker_spec``,
            ``rewriter_spec``, ``expander_spec``.

    Raises:
        UsageError: for an unknown or manual method, a resource that it lacks, or a model that can't be loaded.
        DataError: for an index, persona or recorded file that can't be used.
    """
    entry = find(name)
    if entry.manual:
        raise UsageError(f"method {name} needs the manual rewrite of each turn, and a chat has none: choose another")
    who, resources = read_persona(persona, number), named_resources(index_path, ledger, without_none(options))
    recorded = any(isinstance(one, LLM) and one.backend.replays for one in resources.values())
    script = who.utterances if recorded and who.utterances else None
    check_texts(entry, resources, conversation([{"role": "user", "content": "?"}]))
    chat = Chat(system_of(entry, resources), who.ptkb, number=who.number, save_to=save_to, script=script)
    load_models(resources)
    return chat
