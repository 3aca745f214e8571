"""What makes a run this run: a finished one is reused only when all of it is the same."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from .llm import LLM
from .llm.recorded import RecordedBackend

PROMPTS = Path(__file__).parent / "prompts"


def parameters_of(resources: Mapping[str, Any], needs: Iterable[str]) -> dict[str, Any]:
    """What a run depends on beside its topics and its expression: package, prompts, index, LLMs.

    Args:
        resources: by name, ``index`` among them.
        needs: the names of those that the method uses.
    """
    models = {name: one for name in needs if (one := _llm_in(resources.get(name))) is not None}
    return {
        "package": metadata.version("pyterrier_ikat"),
        "prompts_sha256": _prompts(),
        "index": resources["index"].fingerprint(),
        "llms": {name: identity(model) for name, model in models.items()},
    }


def of_frame(frame: pd.DataFrame) -> str:
    """A checksum of a frame's rows."""
    return hashlib.sha256(json.dumps(frame.to_dict("records"), sort_keys=True, default=str).encode()).hexdigest()


def identity(model: LLM) -> dict[str, Any]:
    """What decides what a model answers; of recorded completions also the checksum of the file."""
    backend = model.backend
    if isinstance(backend, RecordedBackend):
        return backend.identity | {"sha256": hashlib.sha256(backend.path.read_bytes()).hexdigest()}
    return dict(backend.identity)


def _prompts() -> str:
    digest = hashlib.sha256()
    for path in sorted(PROMPTS.glob("*.jinja")):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _llm_in(resource: Any) -> LLM | None:
    found = getattr(resource, "llm", resource)
    return found if isinstance(found, LLM) else None
