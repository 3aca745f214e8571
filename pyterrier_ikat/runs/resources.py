"""What systems run on, by name: an index, language models, re-rankers, rewriters; checked before anything runs."""

import difflib
import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import UsageError, advice
from ..generate import Seq2SeqRewrite
from ..llms import Ledger, llm
from ..methods import Method
from ..operator import every_stage, parts_of
from ..rank import load_reranker
from ..retrieve import PassageIndex, SpladeIndex
from ..retrieve.splade import is_splade

STATEMENTS = "ptkb"
"""What the names of the qrels of PTKB statements begin with."""


@dataclass(frozen=True)
class Resources:
    """What methods take by the names of their arguments, each as text, as on the command line, or as an object.

    Args:
        index: a folder made by ``ikat index``, or a PISA index of SPLADE vectors; an index object.
        llm: a specification such as ``"openai:gpt-4o temperature=0"``, or what :func:`pyterrier_ikat.llm` takes.
        second_llm: the LLM that writes the answer in ..._given, the second one of gtr.
        retriever: what searches, where it is not the index's own: any PyTerrier retriever.
        reranker: a cross-encoder's name, ``bi:NAME``, ``monot5:NAME``, ``ensemble``, or several with commas; a transformer, or a list.
        rewriter: a T5 or BART rewriter's name, or an operator.
        expander: ConvGQR's T5 expansion model, or an operator.
        prompts: a folder of your own prompt templates, for all LLM operators of a method.
        splade_model: the model that encoded the passages of an index that doesn't say it.
        texts: the folder of a passage index that has the texts of a SPLADE index without any.

    Example:
        >>> Resources(llm="recorded:sample", reranker="none").opened(Ledger()).llm
        ikat.llm('recorded:sample')
    """

    index: Any = None
    llm: Any = None
    second_llm: Any = None
    retriever: Any = None
    reranker: Any = None
    rewriter: Any = None
    expander: Any = None
    prompts: str | Path | None = None
    splade_model: str | None = None
    texts: str | None = None
    said: Mapping[str, str | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "Resources":
        """The resources of these names; ``none`` as text is what leaving them out means.

        Raises:
            UsageError: for a name that is none.
        """
        known = [one.name for one in fields(cls) if one.name != "said"]
        for name in options:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                raise UsageError(
                    f"there is no option {name!r}: {f'did you mean {near[0]}?' if near else 'give one of ' + ', '.join(known)}"
                )
        given: dict[str, Any] = {
            name: None if isinstance(one, str) and one.strip().lower() == "none" else one for name, one in options.items()
        }
        return cls(**given)

    def opened(self, ledger: Ledger) -> "Resources":
        """The same as objects; LLMs that are given as text count in ``ledger``.

        Raises:
            UsageError: for a name that can't be understood, a SPLADE index that needs its model, or a passage index that is given one.
            DataError: for an index or recorded file that cannot be used.
        """
        models = {name: _llm(getattr(self, name), ledger) for name in ("llm", "second_llm")}
        trained = {name: _seq2seq(getattr(self, name)) for name in ("rewriter", "expander")}
        opened = _index(self.index, self.splade_model, self.texts)
        found = replace(self, index=opened, reranker=named_rerankers(self.reranker), **models, **trained)
        return replace(found, said={one.name: _in_words(getattr(self, one.name), getattr(found, one.name)) for one in fields(self)})

    def system(self, entry: Method) -> pt.Transformer:
        """The method's expression, over a retriever with its depth and its paper's BM25 parameters.

        Raises:
            UsageError: when it lacks a resource.
        """
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.retriever is None and self.index is not None:
            given["retriever"] = self.index.retriever(entry.depth, **entry.bm25)
        return entry.build(**given)

    def deviations(self, entry: Method) -> list[str]:
        """How these models and the retriever differ from those of the method's paper, one line each."""
        used = dict(self.said)
        if self.retriever is None and self.index is not None:
            label = self.index.retriever().schematic["label"]
            used["retriever"] = " ".join([label, *(f"{name}={value}" for name, value in entry.bm25.items() if label == "BM25")])
        return entry.deviations(used)


def _llm(given: Any, ledger: Ledger) -> Any:
    return llm(given, ledger=ledger) if isinstance(given, str) else given if given is None else llm(given)


def _seq2seq(given: Any) -> Any:
    return Seq2SeqRewrite(given) if isinstance(given, str) else given


def _index(given: Any, model: str | None, texts: str | None) -> Any:
    return open_index(str(given), model, texts) if isinstance(given, str | Path) else given


def _in_words(given: Any, opened: Any) -> str | None:
    """How a run folder names a resource: as it was given, of an LLM without what is secret in its address."""
    return getattr(opened, "spec", None) or (given if given is None or isinstance(given, str) else repr(given))


def named_rerankers(names: Any) -> Any:
    """The re-ranker of that name, or several with commas; what is no text as it is.

    Raises:
        UsageError: when a name is empty.
    """
    if not isinstance(names, str):
        return names
    if names.strip().lower() == "none":
        return None
    wanted = [name.strip() for name in names.split(",")]
    if any(not name or name in ("bi:", "monot5:") for name in wanted):
        raise UsageError(f"--reranker {names!r} lacks a model's name: give a cross-encoder's, bi:NAME, monot5:NAME, or several with commas")
    if "none" in map(str.lower, wanted):
        raise UsageError(f"--reranker {names!r}: none stands alone, give it, or re-rankers")
    found = [load_reranker(re.sub(r"^(\w+:)?~/", lambda kind: (kind[1] or "") + os.path.expanduser("~/"), name)) for name in wanted]
    return found[0] if len(found) == 1 else found


def named_turns(text: str | None) -> list[str] | None:
    """The turns of ``--turns``.

    Raises:
        UsageError: when one is empty.
    """
    if text is None:
        return None
    turns = [turn.strip() for turn in text.split(",")]
    if not all(turns):
        raise UsageError(f"--turns {text!r} lacks a turn: give their ids with commas between them, such as 1-1_1,1-1_2")
    return turns


def open_index(path: str, model: str | None = None, texts: str | None = None) -> PassageIndex | SpladeIndex:
    """The index in a folder: of passages for BM25, or of SPLADE vectors.

    Args:
        path: the folder.
        model: the model that encoded the passages of a SPLADE index that does not say it.
        texts: the folder of a passage index whose texts an index without any gives.

    Raises:
        DataError: when there is none, or it was cut short.
        UsageError: when a SPLADE index needs its model, or a passage index is given one.
    """
    loader = None if texts is None else _opened(texts).text_loader()
    if is_splade(path):
        index: PassageIndex | SpladeIndex = SpladeIndex(path, model, text=loader)
        index.describe()
        return index
    opened = _opened(path)
    if model is not None or (texts is not None and opened.has_text):
        raise UsageError(f"the index {path} is a passage index for BM25: leave --splade-model and --texts away")
    return PassageIndex(path, text=loader)


def _opened(path: str) -> PassageIndex:
    index = PassageIndex(path)
    index.describe()
    return index


def open_qrels(dataset: Any, name: str, variant: str | None) -> pd.DataFrame:
    """The dataset's qrels of ``--qrels``.

    Raises:
        UsageError: when it has none of this name.
    """
    known, name = dataset._describe_component("qrels"), getattr(dataset, "name", name)
    if variant is not None and variant not in known:
        raise UsageError(f"{name} has no qrels {variant!r}: give --qrels {' or --qrels '.join(known)}, or leave it away for the default")
    found: pd.DataFrame = dataset.get_qrels(variant)
    return found


def refuse_statements(name: str, variant: str | None) -> None:
    """Passages are no PTKB statements.

    Raises:
        UsageError: when the qrels judge statements.
    """
    if variant is not None and variant.startswith(STATEMENTS):
        raise UsageError(f"the qrels {variant} of {name} judge PTKB statements, and this is a run of passages: give other --qrels")


class OtherCollectionWarning(UserWarning):
    """The index isn't of the dataset's collection, or it can't be told."""


def check_collection(index: Any, dataset: Any, name: str | None, qrels: pd.DataFrame) -> None:
    """Whether an index is of the collection that was judged; another one than the dataset's, or one that can't be told, is a warning.

    What counts are the passages: 2023, 2024 and 2025 share a collection, and so do all indexes of it.

    Raises:
        UsageError: when it has none of the judged passages, so that every figure would be 0.
    """
    judged = sorted(set(qrels["docno"]))
    there = index.docnos(judged)
    if judged and next(there, None) is None:
        make = advice(f"ikat.PassageIndex(path).index(pt.get_dataset({name!r}).get_corpus_iter())", f"`ikat index {name} PATH`")
        raise UsageError(
            f"the index {index.path} has none of the {len(judged):,} passages judged in {name} (such as {judged[0]}), so that every figure "
            f"would be 0: give an index of its collection, as {make} makes, or the dataset that {index.path} was made for"
        )
    size, docnos = dataset.collection() if hasattr(dataset, "collection") else (None, None)
    if len(index) == size and (docnos is None or sum(1 for _ in index.docnos(sorted(docnos))) == size):
        return
    what = f"another collection than that of {name}" if size else f"a collection that may be another one than that of {name}"
    sizes = f"{len(index):,} passages" + (f", not the same {size:,}" if size else "")
    known = f"{1 + sum(1 for _ in there) if judged else 0:,} of the {len(judged):,} judged passages are in it"
    warnings.warn(f"the index {index.path} is of {what} ({sizes}): {known}, and what it lacks can't be found", OtherCollectionWarning, 3)


def check_out(path: Path) -> None:
    """Whether the folder is there or can be made, and be written to; leaves nothing behind.

    Raises:
        UsageError: when it can't.
    """
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists() or folder.is_symlink())
    if not there.is_dir():
        raise UsageError(f"--out {path}: {there} is no folder: give a folder, or a path where nothing is")
    try:
        with tempfile.TemporaryDirectory(dir=there, prefix=".ikat."):
            pass
    except OSError as error:
        raise UsageError(f"--out {path}: {there} can't be written to ({error.strerror}): give another folder") from error


def load_models(systems: Iterable[pt.Transformer]) -> None:
    """Load every model once, so that one that cannot be loaded is found before an LLM is asked.

    Raises:
        UsageError: when one can't be loaded.
    """
    row = pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "docno": ["1"], "text": ["tea"], "score": [0.0], "rank": [0]})
    done: list[Any] = []
    for system in systems:
        for stage in every_stage(system):
            if getattr(stage, "loads_models", False) and stage not in done:
                done.append(stage)
                stage.transform(row)
        for part in parts_of(system):
            if hasattr(part, "warm_up") and part not in done:
                done.append(part)
                part.warm_up()


def check_system(name: str, system: pt.Transformer, topics: pd.DataFrame, index: Any = None) -> None:
    """Whether a system works on these topics, as far as their columns tell.

    Raises:
        UsageError: when it doesn't.
    """
    try:
        pt.inspect.transformer_outputs(system, list(topics.columns))
    except pt.inspect.InspectError:  # a stage that can't be asked without data
        return
    except pt.validate.InputValidationError as error:
        if index is not None and not index.has_text:
            raise UsageError(
                f"method {name} reads the passages' text, and the index {index.path} has none: give --texts PASSAGE_INDEX ({error})"
            ) from error
        raise UsageError(f"system {name} does not work on these topics: {error}") from error
