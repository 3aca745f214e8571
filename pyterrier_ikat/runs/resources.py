"""What the command line's options name: indexes, LLMs, re-rankers, rewriters, qrels; checked before anything runs."""

import os
import re
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import UsageError, advice
from ..generate import Seq2SeqRewrite
from ..llms import LLM, Ledger, llm
from ..llms.spec import parse
from ..methods import Method
from ..rank import load_reranker
from ..retrieve import PassageIndex, SpladeIndex
from ..retrieve.splade_index import is_splade

MODELS = ("llm_spec", "second_spec", "reranker_spec", "rewriter_spec", "expander_spec", "splade_model")
"""The options that name a model."""
STATEMENTS = "ptkb"
"""What the names of the qrels of PTKB statements begin with."""


def named_llm(spec: str | None, ledger: Ledger) -> LLM | None:
    """The LLM of ``--llm``, counting in ``ledger``."""
    return None if spec is None else llm(spec, ledger=ledger)


def shown(option: str, text: str | None) -> str | None:
    """What a run folder says of an option: of an LLM everything but what is secret in its address."""
    return parse(text).shown if text is not None and option in ("llm_spec", "second_spec") else text


def without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that name a model ``none``, which is what leaving them away means.

    Example:
        >>> without_none({"reranker_spec": "none", "llm_spec": "recorded:sample", "batch": 5})
        {'llm_spec': 'recorded:sample', 'batch': 5}
    """
    return {name: given for name, given in options.items() if name not in MODELS or str(given).strip().lower() != "none"}


def named_seq2seq(name: str | None) -> pt.Transformer | None:
    """The model of ``--rewriter`` or ``--expander``."""
    return None if name is None else Seq2SeqRewrite(name)


def named_rerankers(names: str | None) -> pt.Transformer | list[pt.Transformer] | None:
    """The re-ranker of ``--reranker``, or several with commas.

    Raises:
        UsageError: when a name is empty.
    """
    if names is None:
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


def check_collection(index: PassageIndex | SpladeIndex, dataset: Any, name: str, qrels: pd.DataFrame) -> None:
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


def load_models(resources: dict[str, Any]) -> None:
    """Load every model once, so that one that cannot be loaded is found before an LLM is asked.

    Raises:
        UsageError: when one can't be loaded.
    """
    row = pd.DataFrame({"qid": ["1_1"], "query": ["tea"], "docno": ["1"], "text": ["tea"], "score": [0.0], "rank": [0]})
    given = resources["reranker"]
    for one in given if isinstance(given, list) else [given]:
        if one is not None:
            one.transform(row)
    for one in (resources["rewriter"], resources["expander"]):
        if isinstance(one, Seq2SeqRewrite):
            one.transform(row[["qid", "query"]])
    resources["index"].warm_up()


def named_resources(index_path: str, ledger: Ledger, options: Mapping[str, Any]) -> dict[str, Any]:
    """All resources of a session or a chat by name, of their options; ``stand_ins`` among the options take the place of others."""
    found: dict[str, Any] = {
        "index": open_index(index_path, options.get("splade_model"), options.get("texts")),
        "llm": named_llm(options.get("llm_spec"), ledger),
        "second_llm": named_llm(options.get("second_spec"), ledger),
        "reranker": named_rerankers(options.get("reranker_spec")),
        "rewriter": named_seq2seq(options.get("rewriter_spec")),
        "expander": named_seq2seq(options.get("expander_spec")),
        "prompts": options.get("prompts"),
    }
    return {**found, **options.get("stand_ins", {})}


def system_of(entry: Method, resources: Mapping[str, Any]) -> pt.Transformer:
    """The method's expression, over a retriever with its depth and its paper's BM25 parameters."""
    index = resources["index"]
    return entry.build(**resources, retriever=index.retriever(entry.depth, **entry.bm25))


def check_texts(entry: Method, resources: Mapping[str, Any], topics: pd.DataFrame) -> None:
    """Whether a method can be built, and finds the texts that it needs.

    Raises:
        UsageError: when it can't.
    """
    system, index = system_of(entry, resources), resources["index"]
    if index.has_text:
        return
    try:
        system(topics.head(0))
    except pt.validate.InputValidationError as error:
        raise UsageError(
            f"method {entry.name} reads the passages' text, and the index {index.path} has none: give --texts PASSAGE_INDEX ({error})"
        ) from error
