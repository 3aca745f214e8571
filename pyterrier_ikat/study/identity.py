"""The identity of a system's run, from its stages, prompts, models and indexes, and a check that an index has the judged passages."""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, advice, counted
from ..llms import LLM
from ..llms.spec import deciding_options
from ..operator import every_stage, parts_of, stages
from ..portable import digest
from ..store.models import model_state

ANEW = "start the run again elsewhere"
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Parts:
    """The language models, indexes and folders that systems use, each once, under the names that run folders use for them.

    Attributes:
        named: name -> part.
    """

    def __init__(self, systems: Iterable[pt.Transformer]) -> None:
        self.named: dict[str, Any] = {}
        self._names: dict[str, str] = {}  # text in a repr -> name
        given, indexes, folders = list(systems), 0, list[Any]()
        for part in {part if isinstance(part, str) else id(part): part for part in chain.from_iterable(map(parts_of, given))}.values():
            if isinstance(part, str):
                self.named[part] = part
                continue
            indexes += not isinstance(part, LLM)
            name = f"ikat.llm({_deciding(part.spec)!r})" if isinstance(part, LLM) else f"index {indexes}".removesuffix(" 1")
            self.named[name] = part
            self._names.setdefault(repr(part), name)
        for stage in chain.from_iterable(map(every_stage, given)):
            folder = getattr(stage, "prompts", None) if hasattr(stage, "prompt_checksums") else None
            if folder is not None and folder not in folders:
                folders.append(folder)
                self._names[f"prompts={folder!r}"] = f"prompts={f'own {len(folders)}'.removesuffix(' 1')!r}"

    def states(self) -> dict[str, Any]:
        """Name -> the values that distinguish a part from another one with this name."""
        return {
            name: digest("model", *model_state(part)).hex() if isinstance(part, str) else part.fingerprint()
            for name, part in self.named.items()
        }

    def written(self, text: str) -> str:
        """The repr of a stage as written in run folders, without the parts that don't change results.

        These are the path of an index (which has a fingerprint), the folder of prompts (whose texts count), the budget of an LLM, and an
        address in memory.
        """
        for shown in sorted(self._names, key=len, reverse=True):
            text = text.replace(shown, self._names[shown])
        return ADDRESS.sub("", text)


def _deciding(spec: str) -> str:
    try:
        return deciding_options(spec)
    except UsageError:  # the name of a user's object
        return ADDRESS.sub("", spec)


def parameters_of(pipeline: pt.Transformer) -> dict[str, Any]:
    """The dependencies of a run apart from its topics: its stages, prompt texts, and the state of models, indexes and folders.

    Stages are identified by their repr, see :meth:`Parts.written`.
    """
    parts = Parts([pipeline])
    return {
        "prompts": prompts_of(pipeline),
        "stages": {str(number): parts.written(repr(stage)) for number, stage in enumerate(stages(pipeline), 1)},
        "parts": parts.states(),
        "on_error": {name: part.on_error for name, part in parts.named.items() if hasattr(part, "on_error")},
        "expression": parts.written(repr(pipeline)),
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


def check_unchanged(pipeline: pt.Transformer, states: Mapping[str, Any]) -> None:
    """Check that models' folders and indexes are what they were when a run began.

    Args:
        pipeline: the system.
        states: their states at the beginning, ``parts`` in :func:`parameters_of`.

    Raises:
        DataError: when one was replaced or changed; it names it.
    """
    parts = Parts([pipeline])
    for name, now in parts.states().items():
        if name in states and states[name] != now:
            where = getattr(parts.named[name], "path", parts.named[name])
            raise DataError(f"{where} was replaced or changed while a run used it: put back what the run began with, or {ANEW}")


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
        raise UsageError(
            f"the index {index.path} has none of the {counted(len(judged), 'passage')} judged in {name} (such as {judged[0]}), so that "
            f"every score would be 0: give an index of its collection, as {make} makes, or the dataset that {index.path} was made for"
        )
    size, docnos = dataset.collection() if hasattr(dataset, "collection") else (None, None)
    if size is None and not judged:
        return  # only turns, without a collection
    if len(index) == size and (docnos is None or sum(1 for _ in index.docnos(sorted(docnos))) == size):
        return
    what = f"another collection than that of {name}" if size else f"a collection that may be another one than that of {name}"
    sizes = counted(len(index), "passage") + (f", not the same {size:,}" if size else "")
    known = f"{1 + sum(1 for _ in there) if judged else 0:,} of {counted(len(judged), 'judged passage')} found in it"
    warnings.warn(f"the index {index.path} is of {what} ({sizes}): {known}, and what it lacks can't be found", OtherCollectionWarning, 3)


def indexes_of(systems: Iterable[pt.Transformer]) -> list[Any]:
    """The indexes that are searched, without those that only provide the texts of another index."""
    found = [part for part in Parts(systems).named.values() if hasattr(part, "docnos")]
    texts = {id(getattr(getattr(index, "text", None), "index", None)) for index in found}
    return [index for index in found if id(index) not in texts]
