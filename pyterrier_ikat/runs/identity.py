"""What makes a run this run: a finished one is reused only when all of it is the same."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from .. import prompts
from ..llms import LLM
from ..operator import Operator
from ..store.models import fingerprint

READ = ("llm", "model", "tokenizer", "scorers", "prompts")
"""Arguments of operators that may name a folder, or hold what names one."""


def parameters_of(resources: Mapping[str, Any], needs: Iterable[str]) -> dict[str, Any]:
    """What a run depends on beside its topics and its expression: package, prompts, index, LLMs, folders of models.

    Args:
        resources: by name, ``index`` among them.
        needs: the names of those that the method uses.
    """
    needed = {name: resources.get(name) for name in sorted(needs)}
    models = {name: one for name, resource in needed.items() if (one := _llm_in(resource)) is not None}
    folders = sorted({folder for resource in needed.values() for folder in _folders(resource)})
    texts = getattr(resources["index"], "text", None)
    return {
        "package": metadata.version("pyterrier_ikat"),
        "prompts_sha256": prompts.fingerprint(resources.get("prompts")),
        "index": resources["index"].fingerprint(),
        "texts": None if texts is None else texts.index.fingerprint(),
        "llms": {name: dict(model.backend.identity) for name, model in models.items()},
        "on_error": {name: model.on_error for name, model in models.items()},
        "folders": {folder: fingerprint("model", folder).hex() for folder in folders},
    }


def of_frame(frame: pd.DataFrame) -> str:
    """A checksum of a frame's rows."""
    digest, columns = hashlib.sha256(), frame.columns.tolist()
    for row in frame.itertuples(index=False, name=None):  # one at a time: histories are long
        digest.update(json.dumps(dict(zip(columns, row, strict=True)), sort_keys=True, default=str).encode())
    return digest.hexdigest()


def _folders(resource: Any) -> Iterator[str]:
    """The folders of models and prompts that a resource reads; a name of the hub stands for itself, and the expression has it."""
    if isinstance(resource, str) and Path(resource).is_dir():
        yield resource
    elif isinstance(resource, list | tuple):
        for one in resource:
            yield from _folders(one)
    elif isinstance(resource, Operator):
        yield from _folders([value for name, value in resource.arguments().items() if name in READ])


def _llm_in(resource: Any) -> LLM | None:
    found = getattr(resource, "llm", resource)
    return found if isinstance(found, LLM) else None
