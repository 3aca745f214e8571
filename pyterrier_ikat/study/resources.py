"""The resources of systems: an index, language models, re-rankers."""

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..errors import UsageError, advice, option
from ..fuse import RRF
from ..generate import Seq2SeqRewrite
from ..llms import LLM, Ledger, llm
from ..methods import Method
from ..rank import OF_KIND, load_reranker
from ..retrieve import DenseIndex, DenseRetriever, Index, PassageIndex, SpladeIndex

HYBRID = "hybrid"


@dataclass(frozen=True)
class Resources:
    """The resources of methods, by argument name. Each is a text, as on the command line, or an object.

    Args:
        index: a folder made by ``ikat index``, a PISA index of SPLADE vectors, or an index object.
        llm: a specification such as ``"openai:gpt-4o temperature=0"``, or any other value for :func:`pyterrier_ikat.llm`.
        second_llm: the LLM that writes the answer in the methods named ``..._given``, and the second LLM of ``gtr``.
        retriever: ``"bm25"``, ``"splade"`` or ``"dense"``, if ``index`` is a folder that holds several of them; ``"hybrid"``, BM25 and
            dense vectors fused by reciprocal ranks; or, instead of the index, any PyTerrier retriever.
        dense: the dense retriever in addition to the first stage, if ``index`` has no dense vectors: the folder of an index with dense
            vectors, an index object, or a retriever.
        reranker: a cross-encoder's name, ``bi:NAME``, ``colbert:NAME``, ``monot5:NAME``, ``listwise:LLM`` (such as
            ``listwise:openai:gpt-4o``), ``ensemble``, or several of these separated by commas; or a transformer, or a list.
        rewriter: a T5 or BART rewriter's name, or an operator.
        expander: ConvGQR's T5 expansion model, or an operator.
        prompts: a folder of your own prompt templates, for all LLM operators of a method.
        statements: which statements about the user methods with an LLM see: ``"none"``, or the ``"chosen"`` ones, for one call per turn.
        splade_model: the model that encoded the passages, for an index that doesn't name it.
        splade_query_model: another model for the queries of a SPLADE index, fine-tuned from the model of its passages.
        texts: the folder of a passage index that provides the texts for a SPLADE index without texts.

    Example:
        >>> Resources(llm="recorded:sample").opened(Ledger()).llm
        ikat.llm('recorded:sample')
    """

    index: Any = None
    llm: Any = None
    second_llm: Any = None
    retriever: Any = None
    dense: Any = None
    reranker: Any = None
    rewriter: Any = None
    expander: Any = None
    prompts: str | Path | None = None
    statements: str | None = None
    splade_model: str | None = None
    splade_query_model: str | None = None
    texts: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], methods: Iterable[Method], spare: Collection[str] = ()) -> "Resources":
        """The resources with these names, for these methods. The text ``none`` means the same as omitting one.

        Args:
            options: name -> resource.
            methods: the methods that take them.
            spare: resources that may be given although none of the methods takes them. They are omitted.

        Raises:
            UsageError: for an unknown name, or a resource that no method takes.
        """
        known = [one.name for one in fields(cls)]
        given = {name: one if is_given(one) or name == "statements" else None for name, one in options.items()}
        taken = taken_by(methods) | {"prompts"}  # only a built system shows whether it reads prompts
        if "llm" in taken:
            taken.add("statements")
        if given.get("retriever") == HYBRID:
            taken.add("dense")
        first_stages = taken & {"retriever", "dense"}
        if first_stages and all(isinstance(given.get(name), pt.Transformer) for name in first_stages):
            taken -= OF_THE_INDEX
        for name, value in given.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                repair = f"did you mean {near[0]}?" if near else f"give one of {', '.join(known)}"
                raise UsageError(f"there is no option {name!r}: {repair}")
            if value is not None and name not in taken:
                if name not in spare:
                    raise unused(name)
                given[name] = None
        index = given.get("index")
        if "dense" in taken and isinstance(index, str | Path | Index) and given.get("retriever") is None and given.get("dense") is None:
            given["retriever"] = _beside_dense(index, "retriever" in taken)
        return cls(**given)

    def opened(self, ledger: Ledger) -> "Resources":
        """The same resources as objects. LLMs that are given as text count in ``ledger``.

        Raises:
            UsageError: for an unknown name, a SPLADE index that needs its model, or a passage index that is given a model.
            DataError: for an index or recorded file that cannot be used.
        """
        given = {name: getattr(self, name) for name in OPENERS if getattr(self, name) is not None}
        return replace(self, **self._opened_index(), **{name: OPENERS[name](one, ledger) for name, one in given.items()})

    def _opened_index(self) -> dict[str, Any]:
        if not isinstance(self.index, str | Path | Index):
            if self.index is not None and not hasattr(self.index, "retriever"):
                shown = " ".join(repr(self.index).split())[:80]
                raise UsageError(f"index={shown}: give the folder of an index, or an index such as ikat.Index(path)")
            if isinstance(self.retriever, str):
                named = advice(f"retriever={self.retriever!r}", f"--resources retriever={self.retriever}")
                raise UsageError(f"{named} names what the folder of {option('index')} holds: give that folder, too")
            if self.splade_query_model is not None:
                raise UsageError(f"{option('splade_query_model')} is for an index's folder: give ikat.SpladeIndex(path, query_model=...)")
            return {}
        kind = self.retriever if isinstance(self.retriever, str) else None
        opened = open_index(self.index, "bm25" if kind == HYBRID else kind, self.splade_model, self.texts)
        if self.splade_query_model is not None:
            if not isinstance(opened, SpladeIndex):
                raise UsageError(f"{option('splade_query_model')} is for SPLADE vectors: omit it with the index {self.index}")
            opened = opened.with_query_model(self.splade_query_model)
        return {"index": opened, "retriever": None if kind and kind != HYBRID else self.retriever}

    def build(self, entry: Method) -> pt.Transformer:
        """The method's expression, on a retriever with its depth and its paper's BM25 parameters.

        Raises:
            UsageError: when a resource is missing.
        """
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.index is not None and (self.retriever is None or self.retriever == HYBRID):
            given["retriever"] = self.index.retriever(entry.depth, **entry.bm25)
        if not isinstance(self.dense, pt.Transformer) and (self.retriever == HYBRID or "dense" in entry.resources.values()):
            given["dense"] = _dense(self.dense or self.index, entry.depth)
        if self.retriever == HYBRID:
            if given["dense"] is None:
                raise UsageError(f"method {entry.name} needs dense: give {option('dense')}")
            given["retriever"] = RRF(given["retriever"] % entry.depth, given["dense"] % entry.depth, num_results=entry.depth)
        elif {"retriever", "dense"} <= set(entry.resources.values()) and given["retriever"] is not None:
            _refuse_twice(entry, given["retriever"], given["dense"])
        return entry.build(**given)


def is_given(value: Any) -> bool:
    """Whether a resource is given. The text ``none`` means the same as omitting it."""
    return value is not None and not (isinstance(value, str) and value.strip().lower() == "none")


def _beside_dense(index: str | Path | Index, retrieves: bool) -> str | None:
    """The kind of index to open in a folder with dense vectors that systems also search: the only other kind in the folder."""
    others = [kind for kind in _folder(index).kinds if kind != "dense"]
    return others[0] if retrieves and len(others) == 1 else None if retrieves else "dense"


def _folder(index: str | Path | Index) -> Index:
    return index if isinstance(index, Index) else Index(index)


def _refuse_twice(entry: Method, retriever: Any, dense: Any) -> None:
    """Check that two first stages differ. Otherwise a stage fused with itself would be scored under the name of a hybrid."""
    searched = [(one.index.fingerprint(), one.query_prefix) for one in (retriever, dense) if isinstance(one, DenseRetriever)]
    if retriever == dense or len(searched) > len(set(searched)):
        chosen = advice("retriever='bm25'", "--resources retriever=bm25")
        built = advice("ikat.PassageIndex(path).index(corpus)", "`ikat index SOURCE PATH`")
        raise UsageError(
            f"method {entry.name} fuses two first stages, and both are {dense!r}: add a BM25 index to the folder of "
            f"{option('index')} with {built}, or choose it with {chosen} if it is there"
        )


def _dense(index: Any, depth: int) -> pt.Transformer | None:
    """The dense retriever of an index, or of the folder that it shares with dense vectors; None if there is none."""
    if not hasattr(index, "dense") and "dense" in Index(getattr(index, "path", "")).kinds:
        index = DenseIndex(index.path)
    retriever: pt.Transformer | None = index.dense(depth) if hasattr(index, "dense") else None
    return retriever


OF_THE_INDEX = {"index", "splade_model", "splade_query_model", "texts"}


def taken_by(methods: Iterable[Method]) -> set[str]:
    """The options that methods take. A ready pipeline takes none.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> sorted(taken_by([ikat.methods.find("infosense_2023")]))
        ['index', 'llm', 'retriever', 'splade_model', 'splade_query_model', 'texts']
    """
    taken = {resource for entry in methods for resource in entry.resources.values()}
    return taken | OF_THE_INDEX if taken & {"retriever", "dense"} else taken


def unused(name: str) -> UsageError:
    """The error for an option without any effect."""
    return UsageError(f"no system uses {option(name)}: omit it")


def deviations(entry: Method, given: Resources, opened: Resources) -> list[str]:
    """How the models and the retriever of a run differ from those of the method's paper, one line each."""
    used = {one.name: _as_given(getattr(given, one.name), getattr(opened, one.name)) for one in fields(given)}
    if opened.retriever is None and opened.index is not None:
        label = opened.index.retriever().schematic["label"]
        settings = entry.bm25 if label == "BM25" else {"query_model": getattr(opened.index, "query_model", None)}
        used["retriever"] = " ".join([label, *(f"{name}={value}" for name, value in settings.items() if value is not None)])
    shown = given.statements if "llm" in entry.resources.values() else None
    replayed = "; recorded completions stay what they were for all of them" if shown and opened.llm.backend.replays else ""
    return entry.deviations(used) + [f"statements about the user: {shown}{replayed}"] * bool(shown)


def _as_given(given: Any, opened: Any) -> Any:
    """A resource as it was given, but an LLM without the secret parts of its address."""
    return opened if hasattr(opened, "spec") else given


def _open_llm(given: Any, ledger: Ledger) -> LLM:
    return llm(given, ledger=ledger) if isinstance(given, str) else llm(given)


def _open_trained(given: Any, _: Ledger) -> Any:
    return Seq2SeqRewrite(given) if isinstance(given, str) else given


def _open_dense(given: Any, _: Ledger) -> Any:
    if not isinstance(given, str | Path | Index):
        return given
    opened = DenseIndex(given.path, text=given.text) if isinstance(given, Index) else DenseIndex(given)
    opened.describe()
    return opened


def open_rerankers(names: Any) -> Any:
    """The re-ranker with this name, or several, separated by commas. Anything that is not a text is returned unchanged.

    Raises:
        UsageError: when a name is empty.
    """
    if not isinstance(names, str):
        return names
    wanted, written = [name.strip() for name in names.split(",")], advice(f"reranker={names!r}", f"--reranker {names!r}")
    if any(not name or name in [f"{kind}:" for kind in OF_KIND] for name in wanted):
        raise UsageError(
            f"{written} lacks a model's name: give a cross-encoder's, bi:NAME, colbert:NAME, monot5:NAME, listwise:LLM, or several with "
            "commas"
        )
    if "none" in map(str.lower, wanted):
        raise UsageError(f"{written}: none stands alone, give it, or re-rankers")
    found = [load_reranker(re.sub(r"^(\w+:)?~/", lambda kind: (kind[1] or "") + os.path.expanduser("~/"), name)) for name in wanted]
    return found[0] if len(found) == 1 else found


OPENERS: Mapping[str, Callable[[Any, Ledger], Any]] = {
    "llm": _open_llm,
    "second_llm": _open_llm,
    "rewriter": _open_trained,
    "expander": _open_trained,
    "dense": _open_dense,
    "reranker": lambda given, _: open_rerankers(given),
}
"""Argument of a method's function -> what makes it from a text. The first stage depends on the method: see :meth:`Resources.build`."""


def open_index(
    path: str | Path | Index, kind: str | None = None, model: str | None = None, texts: str | None = None
) -> PassageIndex | SpladeIndex | DenseIndex:
    """The index in a folder: of words for BM25, of SPLADE vectors, or of dense vectors.

    Args:
        path: the folder, or the object that stands for it.
        kind: ``"bm25"``, ``"splade"`` or ``"dense"``, if the folder holds several.
        model: the model that encoded the passages, for a SPLADE index that doesn't name it or an index whose model has moved.
        texts: the folder of an index that provides the texts for an index without texts.

    Raises:
        DataError: when there is no index, or it was cut short.
        UsageError: when the kind has to be chosen or is missing, a SPLADE index needs its model, or a passage index is given a model.
    """
    folder = _folder(path)
    loader = folder.text if texts is None else Index(texts).text_loader()
    index = Index(folder.path, text=loader).open(kind, model)
    if texts is not None and isinstance(index, PassageIndex) and Index(folder.path).open("bm25").has_text:
        raise UsageError(f"the index {folder.path} is a passage index for BM25: omit {option('texts')}")
    return index
