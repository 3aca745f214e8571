"""The identity of a system's run, from its stages, prompts, models and indexes, and a check that an index has the judged passages."""

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import UsageError, advice, counted
from ..llms import LLM
from ..llms.spec import deciding_options
from ..operator import every_stage, parts_of, stages
from ..portable import digest
from ..store.models import model_state

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _parts(systems: Iterable[pt.Transformer]) -> tuple[dict[str, Any], dict[str, str]]:
    """The language models, indexes and folders of systems, by the names that run folders have for them; and text in a repr -> name."""
    given, found, names = list(systems), dict[str, Any](), dict[str, str]()
    parts = {part if isinstance(part, str) else id(part): part for part in chain.from_iterable(map(parts_of, given))}.values()
    for part in parts:
        if isinstance(part, str):
            found[part] = part
            continue
        indexes = sum(1 for name in found if name.startswith("index ")) + ("index" in found)
        name = f"ikat.llm({_deciding(part.spec)!r})" if isinstance(part, LLM) else f"index {indexes + 1}".removesuffix(" 1")
        found[name] = part
        names.setdefault(repr(part), name)
    asking = [stage for stage in chain.from_iterable(map(every_stage, given)) if hasattr(stage, "prompt_checksums")]
    folders = dict.fromkeys(folder for stage in asking if (folder := getattr(stage, "prompts", None)) is not None)
    own = {f"prompts={folder!r}": f"prompts={f'own {number}'.removesuffix(' 1')!r}" for number, folder in enumerate(folders, 1)}
    return found, names | own


def _deciding(spec: str) -> str:
    try:
        return deciding_options(spec)
    except UsageError:  # the name of a user's object
        return ADDRESS.sub("", spec)


def naming(pipeline: pt.Transformer) -> Callable[[str], str]:
    """What turns the repr of a stage into the text for run folders, without the parts that don't change results.

    These are the path of an index (which has a fingerprint), the folder of prompts (whose texts count), the budget of an LLM, and an
    address in memory.
    """
    _, names = _parts([pipeline])

    def written(text: str) -> str:
        for shown in sorted(names, key=len, reverse=True):
            text = text.replace(shown, names[shown])
        return ADDRESS.sub("", text)

    return written


def parameters_of(pipeline: pt.Transformer) -> dict[str, Any]:
    """The dependencies of a run apart from its topics: its stages, prompt texts, and the state of models, indexes and folders.

    Stages are identified by their repr, see :func:`naming`.
    """
    parts, written = _parts([pipeline])[0].items(), naming(pipeline)
    states = {name: digest("model", *model_state(part)).hex() if isinstance(part, str) else part.fingerprint() for name, part in parts}
    return {
        "prompts": prompts_of(pipeline),
        "stages": {str(number): written(repr(stage)) for number, stage in enumerate(stages(pipeline), 1)},
        "parts": states,
        "on_error": {name: part.on_error for name, part in parts if hasattr(part, "on_error")},
        "expression": written(repr(pipeline)),
    }


def prompts_of(pipeline: pt.Transformer) -> dict[str, str]:
    """The number of a stage and the name of a template -> the checksums of the template's texts there.

    If a stage runs other stages inside, their templates count as its own, in their order.
    """
    found = defaultdict[str, list[str]](list)
    for number, stage in enumerate(stages(pipeline), 1):
        for inner in every_stage(stage):
            for template, said in checksums_of(inner).items():
                found[f"{number} {template}"].append(said)
    return {name: " ".join(said) for name, said in found.items()}


def checksums_of(asks: Any) -> dict[str, str]:
    """Template -> checksum of its text, for all templates of an object that asks a model; empty for other objects."""
    return getattr(asks, "prompt_checksums", dict)()


class OtherCollectionWarning(UserWarning):
    """The index isn't built from the dataset's collection, or its collection is unknown."""


def check_collection(index: Any, dataset: Any, name: str | None, qrels: pd.DataFrame) -> None:
    """Check that an index is built from the judged collection. Another or an unknown collection causes a warning.

    Collections are compared by their passages. 2023, 2024 and 2025 share one collection, and so do all its indexes.

    Raises:
        UsageError: when the index has none of the judged passages, so every score would be 0.
    """
    judged = sorted(set(qrels["docno"]))
    there = index.docnos(judged)
    if judged and next(there, None) is None:
        make = advice(f"ikat.PassageIndex(path).index(pt.get_dataset({name!r}).get_corpus_iter())", f"`ikat index {name} PATH`")
        told = f"the index {index.path} has none of the {counted(len(judged), 'passage')} judged in {name} (such as {judged[0]})"
        repair = f"give an index of its collection, as {make} makes, or the dataset that {index.path} was made for"
        raise UsageError(f"{told}, so that every score would be 0: {repair}")
    size, docnos = dataset.collection() if hasattr(dataset, "collection") else (None, None)
    if size is None and not judged:
        return  # only turns, without a collection
    if len(index) == size and (docnos is None or sum(1 for _ in index.docnos(sorted(docnos))) == size):
        return
    what = f"{'is' if size else 'may be'} of another collection than that of {name}"
    sizes = counted(len(index), "passage") + (f", not the same {size:,}" if size else "")
    known = f"{1 + sum(1 for _ in there) if judged else 0:,} of {counted(len(judged), 'judged passage')} found in it"
    warnings.warn(f"the index {index.path} {what} ({sizes}): {known}, and what it lacks can't be found", OtherCollectionWarning, 3)


def indexes_of(systems: Iterable[pt.Transformer]) -> list[Any]:
    """The indexes that are searched, without those that only provide the texts of another index."""
    found = [part for part in _parts(systems)[0].values() if hasattr(part, "docnos")]
    texts = {id(getattr(getattr(index, "text", None), "index", None)) for index in found}
    return [index for index in found if id(index) not in texts]
