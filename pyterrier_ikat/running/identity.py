"""What makes a run this run: a finished one is reused only when all of it is the same."""

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pyterrier as pt

from .. import prompts
from ..errors import UsageError
from ..llms import LLM
from ..llms.spec import deciding_options
from ..operator import parts_of, stages
from ..store.models import fingerprint

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def parts(pipeline: pt.Transformer) -> list[Any]:
    """The language models, indexes and folders that a pipeline is made of, each once."""
    return list({part if isinstance(part, str) else id(part): part for part in parts_of(pipeline)}.values())


def parameters_of(pipeline: pt.Transformer, templates: str | Path | None = None) -> dict[str, Any]:
    """What a run depends on beside its topics: package, prompts, its stages, and the state of models, indexes and folders.

    Stages are told apart by their repr, without what their results don't depend on: the path of an index, which has a fingerprint, the
    budget of an LLM, an address in memory.
    """
    named = dict(_named(parts(pipeline)))
    written = [_written(repr(stage), named) for stage in stages(pipeline)]
    return {
        "package": metadata.version("pyterrier_ikat"),
        "prompts_sha256": prompts.fingerprint(templates),
        "stages": {str(number): text for number, text in enumerate(written, 1)},
        "parts": {name: _state(part) for name, (_, part) in named.items()},
        "on_error": {name: part.on_error for name, (_, part) in named.items() if hasattr(part, "on_error")},
        "expression": _written(repr(pipeline), named),
    }


def _named(found: list[Any]) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Name -> (what a repr has in its place, part)."""
    indexes = 0
    for part in found:
        if isinstance(part, str):
            yield part, (part, part)
        elif isinstance(part, LLM):
            yield f"ikat.llm({_deciding(part.spec)!r})", (repr(part), part)
        else:
            indexes += 1
            yield "index" if indexes == 1 else f"index {indexes}", (repr(part), part)


def _state(part: Any) -> Any:
    return fingerprint("model", part).hex() if isinstance(part, str) else part.fingerprint()


def _written(text: str, named: dict[str, tuple[str, Any]]) -> str:
    for name, (shown, _) in sorted(named.items(), key=lambda one: -len(one[1][0])):
        text = text.replace(shown, name)
    return ADDRESS.sub("", text)


def _deciding(spec: str) -> str:
    try:
        return deciding_options(spec)
    except UsageError:  # the name of a user's object
        return ADDRESS.sub("", spec)
