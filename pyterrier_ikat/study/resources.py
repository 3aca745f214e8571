"""The resources of systems: an index, language models, re-rankers."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..arguments import one_of
from ..errors import UsageError, advice, did_you_mean, option
from ..fuse import RRF
from ..generate import Seq2SeqRewrite
from ..llms import LLM, Ledger, llm
from ..methods import Method
from ..methods.definition import is_given
from ..operator import label_of
from ..rank import RERANKERS, load_reranker
from ..retrieve import DenseIndex, Index, SpladeIndex
from ..retrieve.artifact import IndexArtifact
from ..search_index import SearchIndex

HYBRID = "hybrid"
RETRIEVERS = ("bm25", "splade", "dense", HYBRID)
# What was opened already, so that systems share it: (name, text or identity of the object) -> the
# object.
Opened = dict[tuple[str, Any], Any]


@dataclass(frozen=True)
class Resources:
    """The resources of methods, by argument name. Each is a text, as on the command line, or an object.

    Args:
        index: a folder made by ``ikat index``, a PISA index of SPLADE vectors, or an index object.
        llm: a specification such as ``"openai:gpt-4o temperature=0"``, or any other value for
            :func:`pyterrier_ikat.llm`.
        second_llm: the second LLM of ``gtr``, and the one that writes the answer in
            ``aqd_given_llama``.
        responders: the LLMs of ``raguteam``, a list, or specifications separated by commas.
        retriever: ``"bm25"``, ``"splade"`` or ``"dense"``, if ``index`` is a folder that holds
            several of them (without it ``"bm25"``, which a note says); ``"hybrid"``, BM25 and dense
            vectors fused by reciprocal ranks; or, instead of the index, any PyTerrier retriever.
        reranker: a cross-encoder's name, ``bi:NAME``, ``colbert:NAME``, ``monot5:NAME``,
            ``listwise:LLM`` (such as ``listwise:openai:gpt-4o``), ``ensemble``, or several of these
            separated by commas; or a transformer, or a list.
        rewriter: a T5 or BART rewriter's name, or an operator.
        expander: ConvGQR's T5 expansion model, or an operator.
        prompts: a folder of your own prompt templates, for all LLM operators of a method.
        statements: which statements about the user methods with an LLM see: ``"none"``, or the
            ``"chosen"`` ones, for one call per turn.
        splade_model: the model that encoded the passages, for an index that doesn't name it.
        splade_query_model: another model for the queries of a SPLADE index, fine-tuned from the
            model of its passages.
        texts: the folder of a passage index that provides the texts for a SPLADE index without
            texts.

    Example:
        >>> Resources(llm="recorded:sample").opened(Ledger(), {}).llm
        ikat.llm('recorded:sample')
    """

    index: Any = None
    llm: Any = None
    second_llm: Any = None
    responders: Any = None
    retriever: Any = None
    reranker: Any = None
    rewriter: Any = None
    expander: Any = None
    prompts: str | Path | None = None
    statements: str | None = None
    splade_model: str | None = None
    splade_query_model: str | None = None
    texts: str | None = None

    @classmethod
    def of(
        cls, options: Mapping[str, Any], methods: Iterable[Method], spare: Collection[str] = ()
    ) -> "Resources":
        """The resources with these names, for these methods. The text ``none`` means the same as omitting one.

        Args:
            options: name -> resource.
            methods: the methods that take them.
            spare: resources that may be given although none of the methods takes them. They are
                omitted.

        Raises:
            UsageError: for an unknown name, or a resource that no method takes.
        """
        known, entries = [one.name for one in fields(cls)], list(methods)
        given = {
            name: one for name, one in options.items() if is_given(one) or name == "statements"
        }
        taken = taken_by(entries) | {
            "prompts"
        }  # only a built system shows whether it reads prompts
        beside = any(
            "dense" in entry.resources or entry.own.get("retriever") in ("dense", HYBRID)
            for entry in entries
        )
        if isinstance(given.get("retriever"), pt.Transformer) and not beside:
            taken -= OF_THE_INDEX
        if unknown := [name for name in options if name not in known]:
            near = did_you_mean(
                unknown[0], [*known, *(one for entry in entries for one in entry.arguments)]
            )
            raise UsageError(
                f"there is no option {unknown[0]!r}: {near or 'give one of ' + ', '.join(known)}"
            )
        for name in [
            name for name, value in given.items() if name not in taken and value is not None
        ]:
            if name not in spare:
                raise unused(name)
            del given[name]
        if (
            beside
            and "retriever" not in given
            and _kinds_of(given.get("index")) == ["splade", "dense"]
        ):
            given["retriever"] = "splade"  # beside dense vectors, the only other kind in the folder
        return cls(**given)

    def opened(self, ledger: Ledger, known: Opened) -> "Resources":
        """The same resources as objects. LLMs that are given as text count in ``ledger``, and what is in ``known`` isn't opened again.

        Raises:
            UsageError: for an unknown name, a SPLADE index that needs its model, or a passage index
                that is given a model.
            DataError: for an index or recorded file that cannot be used.
        """
        found = {}
        for name in OPENERS:
            one = getattr(self, name) if is_given(getattr(self, name)) else None
            key = (name, one if isinstance(one, str) else id(one))
            if one is not None and key not in known:
                known[key] = OPENERS[name](one, ledger)
            found[name] = known.get(key)
        return replace(self, **self._opened_index(known), **found)

    def _opened_index(self, known: Opened) -> dict[str, Any]:
        index, kind = self.index, self.retriever if isinstance(self.retriever, str) else None
        one_of((None, *RETRIEVERS), retriever=kind)
        if not isinstance(index, str | Path | Index | SearchIndex | None):
            repair = (
                "give the folder of an index, or an index such as ikat.Index(path); for an engine "
                "of your own a subclass of ikat.retrieve.SearchIndex, or its retriever as retriever="
            )
            raise UsageError(f"index={type(index).__name__}(...): {repair}")
        if kind and isinstance(index, IndexArtifact):
            index = Index(index.path)  # all that the folder of an opened index holds
        if not isinstance(index, str | Path | Index):
            if kind:
                named = advice(f"retriever={kind!r}", f"--resources retriever={kind}")
                raise UsageError(
                    f"{named} names what the folder of {option('index')} holds: give that folder, too"
                )
            if self.splade_query_model is not None:
                raise UsageError(
                    f"{option('splade_query_model')} is for an index's folder: give ikat.SpladeIndex(path, query_model=...)"
                )
            return {}
        path = index.path if isinstance(index, Index) else index
        key = ("index", (str(path), kind))
        if key not in known:
            folder = index if isinstance(index, Index) else Index(index)
            loader = folder.text if self.texts is None else Index(self.texts).text_loader()
            opened: Any = Index(folder.path, text=loader).open(
                "bm25" if kind == HYBRID else kind, self.splade_model
            )
            if self.splade_query_model is not None:
                if not isinstance(opened, SpladeIndex):
                    raise UsageError(
                        f"{option('splade_query_model')} is for SPLADE vectors: omit it with the index {self.index}"
                    )
                opened = opened.with_query_model(self.splade_query_model)
            known[key] = opened
        return {
            "index": known[key],
            "retriever": kind if kind == HYBRID else None if kind else self.retriever,
        }

    def build(self, entry: Method) -> pt.Transformer:
        """The method's expression, on a retriever with its depth and its paper's BM25 parameters.

        Raises:
            UsageError: when a resource is missing.
        """
        given, hybrid, both = (
            vars(self).copy(),
            self.retriever == HYBRID,
            "dense" in entry.resources,
        )
        if self.index is not None and (self.retriever is None or hybrid):
            given["retriever"] = self.index.retriever(entry.depth, **entry.bm25)
        if self.index is not None and (hybrid or both):
            vectors = self._vectors()
            given["dense"] = vectors.dense(entry.depth)
            if both and given["retriever"] == given["dense"]:
                add = "add BM25's index to its folder with `ikat index SOURCE PATH`"
                raise UsageError(
                    f"method {entry.name} searches words and vectors, and the index has vectors alone: {add}"
                )
            if hybrid:
                given["retriever"] = RRF(
                    given["retriever"] % entry.depth,
                    given["dense"] % entry.depth,
                    num_results=entry.depth,
                )
        return entry.build(**given)

    def _vectors(self) -> DenseIndex:
        """The dense vectors in the folder of the index."""
        if isinstance(self.index, DenseIndex):
            return self.index
        if not isinstance(self.index, IndexArtifact):
            raise UsageError(
                f"index={type(self.index).__name__}(...) has no dense vectors beside it: give the folder "
                "of an index that has"
            )
        vectors = Index(self.index.path).open("dense")
        assert isinstance(vectors, DenseIndex)
        return vectors


OF_SPLADE = ("splade_model", "splade_query_model", "texts")
OF_THE_INDEX = {"index", *OF_SPLADE}


def taken_by(methods: Iterable[Method]) -> set[str]:
    """The options that methods take. A ready pipeline takes none.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> sorted(taken_by([ikat.methods.find("infosense_2023")]))
        ['index', 'llm', 'retriever', 'splade_model', 'splade_query_model', 'statements', 'texts']
    """
    entries = list(methods)
    taken = {
        resource
        for entry in entries
        for argument, resource in entry.resources.items()
        if argument not in entry.own
    }
    taken |= {"statements"} if "llm" in taken else set()
    searches = any({"retriever", "dense"} & entry.resources.keys() for entry in entries)
    return taken - {"dense"} | (OF_THE_INDEX if searches else set())


def unused(name: str) -> UsageError:
    """The error for an option without any effect."""
    return UsageError(f"no system uses {option(name)}: omit it")


def deviations(entry: Method, given: Resources, opened: Resources) -> list[str]:
    """How the models and the retriever of a run differ from those of the method's paper, one line each."""
    # as given, but an LLM without the secret parts of its address
    used = {
        name: one if isinstance(one, LLM) else getattr(given, name)
        for name, one in vars(opened).items()
    }
    if opened.retriever is None and opened.index is not None:
        label = label_of(opened.index.retriever())
        settings = entry.bm25 if label == "BM25" else {"query_model": opened.index.query_model}
        used["retriever"] = " ".join(
            [label, *(f"{name}={value}" for name, value in settings.items() if value is not None)]
        )
    shown = given.statements if "llm" in entry.resources.values() else None
    replayed = (
        "; recorded completions stay what they were for all of them"
        if shown and opened.llm.backend.replays
        else ""
    )
    told = [f"statements about the user: {shown}{replayed}"] if shown else []
    return entry.deviations(used) + told + _note_of_words(entry, given)


def _kinds_of(index: Any) -> list[str]:
    """The kinds of index in a folder; none for an index that is opened already."""
    if isinstance(index, str | Path):
        index = Index(index)
    return index.kinds if isinstance(index, Index) else []


def _note_of_words(entry: Method, given: Resources) -> list[str]:
    """The note that words are searched in a folder with several kinds, because no retriever was named."""
    kinds = _kinds_of(given.index)
    searches = "retriever" in entry.resources.values() and "dense" not in entry.resources
    if given.retriever is not None or not searches or len(kinds) < 2 or "bm25" not in kinds:
        return []
    others = [
        advice(f"retriever={kind!r}", f"--resources retriever={kind}")
        for kind in kinds
        if kind != "bm25"
    ]
    path = given.index.path if isinstance(given.index, Index) else given.index
    return [
        f"{path} holds {', '.join(kinds)}: words are searched (bm25); {' or '.join(others)} searches the others"
    ]


def _open_llm(given: Any, ledger: Ledger) -> LLM:
    return llm(given, ledger=ledger) if isinstance(given, str) else llm(given)


def _open_llms(given: Any, ledger: Ledger) -> list[LLM]:
    return [
        _open_llm(one, ledger)
        for one in (map(str.strip, given.split(",")) if isinstance(given, str) else given)
    ]


def _open_trained(given: Any, _: Ledger) -> Any:
    return Seq2SeqRewrite(given) if isinstance(given, str) else given


def _open_rerankers(given: Any, _: Ledger) -> Any:
    """The re-ranker with this name, or several, separated by commas. Anything that is not a text is returned unchanged."""
    if not isinstance(given, str):
        return given
    names = [
        re.sub(r"^(\w+:)?~/", lambda kind: (kind[1] or "") + os.path.expanduser("~/"), name.strip())
        for name in given.split(",")
    ]
    if any(
        name in ("", *(f"{kind}:" for kind in RERANKERS)) or name.casefold() == "none"
        for name in names
    ):
        kinds = "a cross-encoder's, bi:NAME, colbert:NAME, monot5:NAME, listwise:LLM, or several with commas"
        raise UsageError(
            f"{advice(f'reranker={given!r}', f'--reranker {given!r}')} lacks a model's name: give {kinds}"
        )
    found = list(map(load_reranker, names))
    return found[0] if len(found) == 1 else found


OPENERS: Mapping[str, Callable[[Any, Ledger], Any]] = {
    "llm": _open_llm,
    "second_llm": _open_llm,
    "responders": _open_llms,
    "rewriter": _open_trained,
    "expander": _open_trained,
    "reranker": _open_rerankers,
}
"""Argument of a method's function -> what makes it from a text. The first stage depends on the method: see :meth:`Resources.build`."""
