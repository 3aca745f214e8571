"""A chat with a method of the catalogue, over an index, of what the command line names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..conversations import conversation
from ..errors import UsageError
from ..llm import LLM, Ledger
from ..methods import Method, method
from ..resources import load_models, named_llm, named_rerankers, named_seq2seq, open_index
from ..retrieve import PassageIndex
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
    entry = method(name)
    if entry.manual:
        raise UsageError(f"method {name} needs the manual rewrite of each turn, and a chat has none: choose another")
    who, resources = read_persona(persona, number), _resources(index_path, ledger, options)
    recorded = any(isinstance(one, LLM) and one.backend.replays for one in resources.values())
    script = who.utterances if recorded and who.utterances else None
    chat = Chat(_system(entry, resources), who.ptkb, number=who.number, save_to=save_to, script=script)
    load_models(resources)
    return chat


def _resources(index_path: str, ledger: Ledger, options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "index": open_index(index_path, options.get("splade_model"), options.get("texts")),
        "llm": named_llm(options.get("llm_spec"), ledger),
        "second_llm": named_llm(options.get("second_spec"), ledger),
        "reranker": named_rerankers(options.get("reranker_spec")),
        "rewriter": named_seq2seq(options.get("rewriter_spec")),
        "expander": named_seq2seq(options.get("expander_spec")),
    }


def _system(entry: Method, resources: Mapping[str, Any]) -> pt.Transformer:
    index = resources["index"]
    parameters: dict[str, Any] = {"num_results": entry.depth, **entry.bm25}
    found = index.bm25(**parameters) if isinstance(index, PassageIndex) else index.retriever(entry.depth)
    system = entry.build(**resources, retriever=found)
    try:
        system(conversation([{"role": "user", "content": "?"}]).head(0))
    except pt.validate.InputValidationError as error:
        raise UsageError(
            f"method {entry.name} reads the passages' text, and the index {index.path} has none: give --texts PASSAGE_INDEX ({error})"
        ) from error
    return system
