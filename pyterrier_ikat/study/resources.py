"""The resources of systems: an index, language models, re-rankers."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyterrier as pt

from ..arguments import one_of
from ..errors import UsageError, advice, did_you_mean, option
from ..foreign import folder_of_anserini
from ..fuse import RRF
from ..generate import Seq2SeqRewrite
from ..llms import LLM, Ledger, llm
from ..methods import Method
from ..methods.definition import is_given
from ..operator import label_of
from ..rank import RERANKERS, load_reranker
from ..retrieve import DenseIndex, Index, LuceneIndex, Remote, SpladeIndex
from ..retrieve.artifact import IndexArtifact
from ..search_index import SearchIndex
from ..store.python_files import load_python

HYBRID = "hybrid"
RETRIEVERS = ("bm25", "splade", "dense", HYBRID)
WAYS_TO_NAME_RETRIEVERS = (None, *RETRIEVERS, "FILE.py:NAME", "http://HOST:PORT")
OpenedResources = dict[tuple[str, Any], Any]
"""Opened resources, which systems share: (name, text or identity of the object) -> the object."""


@dataclass(frozen=True)
class Resources:
    """The resources of methods, by argument name: texts, as on the command line, or objects.

    Args:
        index: a folder made by ``ikat index``, an index of Lucene, a PISA index of SPLADE vectors,
            or an index object, also pyterrier-anserini's.
        llm: a specification such as ``"openai:gpt-4o temperature=0"``, or any other value for
            :func:`pyterrier_ikat.llm`.
        second_llm: the second LLM of ``gtr``, and the one that writes the answer in
            ``aqd_given_llama``.
        responders: the LLMs of ``raguteam``, a list, or specifications separated by commas.
        retriever: ``"bm25"``, ``"splade"`` or ``"dense"``, if ``index`` is a folder that holds
            several of them (without it ``"bm25"``, which a note says); ``"hybrid"``, BM25 and dense
            vectors fused by reciprocal ranks; or, instead of the index, any PyTerrier retriever,
            ``FILE.py:NAME``, or the address of an ``ikat serve``, ``http://...`` or
            ``https://...``. Such a NAME is a transformer, or a function that makes one of the
            opened index; you may also give the function.
        reranker: a cross-encoder's name, ``bi:NAME``, ``colbert:NAME``, ``monot5:NAME``,
            ``listwise:LLM`` (such as ``listwise:openai:gpt-4o``), ``ensemble``, ``FILE.py:NAME`` as
            for ``retriever``, or several of these separated by commas; or a transformer, a function
            of the index, or a list.
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
        """Return the resources with these names, for these methods.

        The text ``none`` means the same as omitting one.

        Args:
            options: name -> resource.
            methods: the methods that take them.
            spare: resources that may be given although none of the methods takes them. They are
                omitted.

        Raises:
            UsageError: for an unknown name, or a resource that no method takes.
        """
        entries = list(methods)
        _check_names(options, entries)
        given = {}
        for name, value in options.items():
            if is_given(value) or name == "statements":
                given[name] = value
        taken = taken_by(entries)
        taken.add("prompts")  # only a built system shows whether it reads prompts
        needs_dense = any(_needs_dense(entry) for entry in entries)
        retriever = own_stage(given.get("retriever"))
        rerankers = given.get("reranker")
        if isinstance(rerankers, str):
            rerankers = [own_stage(name) for name in _names_in(rerankers)]
        reads_index = _reads_index(retriever) or _reads_index(rerankers)
        if _replaces_index(retriever) and not reads_index and not needs_dense:
            taken -= OF_THE_INDEX
        for name in list(given):
            if name in taken or given[name] is None:
                continue
            if name not in spare:
                raise unused(name)
            del given[name]
        kinds = _kinds_of(given.get("index"))
        if needs_dense and "retriever" not in given and kinds == ["splade", "dense"]:
            given["retriever"] = "splade"  # the only kind beside dense vectors
        return cls(**given)

    def opened(self, ledger: Ledger, known: OpenedResources) -> "Resources":
        """Return the same resources as objects.

        LLMs that are given as text count in ``ledger``. What is in ``known`` isn't opened again.

        Raises:
            UsageError: for an unknown name, a SPLADE index that needs its model, or a passage index
                that is given a model.
            DataError: for an index or recorded file that cannot be used.
        """
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        opened: dict[str, Any] = {}
        for name, open_resource in OPENERS.items():
            value = values[name]
            if not is_given(value):
                opened[name] = None
                continue
            key = (name, value if isinstance(value, str) else id(value))
            if key not in known:
                known[key] = open_resource(value, ledger)
            opened[name] = known[key]
        return replace(self, **self._opened_index(known), **opened)

    def _opened_index(self, known: OpenedResources) -> dict[str, Any]:
        """The index and the retriever; nothing where both are used as they are given."""
        retriever = own_stage(self.retriever)
        kind = retriever if isinstance(retriever, str) and not is_address(retriever) else None
        one_of(WAYS_TO_NAME_RETRIEVERS, retriever=kind)
        index = folder_of_anserini(self.index) or self.index
        if not isinstance(index, str | Path | Index | SearchIndex | None):
            raise UsageError(
                f"index={type(index).__name__}(...): give the folder of an index, or an index such "
                "as ikat.Index(path); for an engine of your own a subclass of "
                "ikat.retrieve.SearchIndex, or its retriever as retriever="
            )
        is_artifact = isinstance(retriever, pt.Artifact) and not isinstance(
            retriever, pt.Transformer
        )
        if isinstance(retriever, SearchIndex) or is_artifact:
            raise UsageError(
                f"retriever={type(retriever).__name__}(...) is an index: give it as index=, or its "
                "retriever as retriever="
            )
        if kind == "bm25" and isinstance(index, LuceneIndex):
            return {"retriever": None}  # it searches words alone
        if kind and isinstance(index, IndexArtifact | LuceneIndex):
            # all that the folder of an opened index holds
            index = Index(index.path, text=index.text)
        if not isinstance(index, str | Path | Index):
            self._check_without_folder(kind)
            return {"retriever": retriever}
        folder = index if isinstance(index, Index) else Index(index)
        key = ("index", (str(folder.path), kind))
        if key not in known:
            known[key] = self._opened_folder(folder, kind)
        if kind is not None:
            retriever = HYBRID if kind == HYBRID else None
        return {"index": known[key], "retriever": retriever}

    def _check_without_folder(self, kind: str | None) -> None:
        """Refuse resources that select something in an index's folder: none is given."""
        if kind:
            named = advice(f"retriever={kind!r}", f"--resources retriever={kind}")
            raise UsageError(
                f"{named} names what the folder of {option('index')} holds: give that folder, too"
            )
        if self.splade_query_model is not None:
            raise UsageError(
                f"{option('splade_query_model')} is for an index's folder: give "
                "ikat.SpladeIndex(path, query_model=...)"
            )

    def _opened_folder(self, folder: Index, kind: str | None) -> SearchIndex:
        """The index of this kind in a folder."""
        loader = folder.text if self.texts is None else Index(self.texts).text_loader()
        opened = Index(folder.path, text=loader).open(
            "bm25" if kind == HYBRID else kind, self.splade_model
        )
        if self.splade_query_model is None:
            return opened
        if not isinstance(opened, SpladeIndex):
            raise UsageError(
                f"{option('splade_query_model')} is for SPLADE vectors: omit it with the index "
                f"{self.index}"
            )
        return opened.with_query_model(self.splade_query_model)

    def build(self, entry: Method) -> pt.Transformer:
        """Return the method's expression.

        Its retriever has the method's depth and its paper's BM25 parameters.

        Raises:
            UsageError: when a resource is missing.
        """
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        if isinstance(self.retriever, str) and is_address(self.retriever):
            given["retriever"] = _remote(self.retriever, entry)
        for name in ("retriever", "reranker"):
            given[name] = self._of_index(name, given[name])
        if self.index is None:
            return entry.build(**given)
        hybrid = self.retriever == HYBRID
        words_and_vectors = "dense" in entry.resources
        if self.retriever is None or hybrid:
            given["retriever"] = _retriever_of(self.index, entry)
        if hybrid or words_and_vectors:
            given["dense"] = self._vectors().dense(entry.depth)
        if words_and_vectors and given["retriever"] == given["dense"]:
            raise UsageError(
                f"method {entry.name} searches words and vectors, and the index has vectors alone: "
                "add BM25's index to its folder with `ikat index SOURCE PATH`"
            )
        if hybrid:
            given["retriever"] = RRF(
                given["retriever"] % entry.depth,
                given["dense"] % entry.depth,
                num_results=entry.depth,
            )
        return entry.build(**given)

    def _of_index(self, name: str, value: Any) -> Any:
        """A stage, or several; a function is called with the index if it takes an argument."""
        if isinstance(value, list | tuple):
            return [self._of_index(name, stage) for stage in value]
        if not _is_function(value):
            return value
        if not _reads_index(value):
            made = value()
        elif self.index is None:
            raise UsageError(
                f"the function {_name_of(value)} of {option(name)} takes an index: give "
                f"{option('index')}, too"
            )
        else:
            made = value(self.index)
        if not isinstance(made, pt.Transformer):
            raise UsageError(
                f"the function {_name_of(value)} of {option(name)} returns {type(made).__name__}: "
                "end it with return and a PyTerrier transformer"
            )
        return made

    def _vectors(self) -> DenseIndex:
        """The dense vectors in the folder of the index."""
        if isinstance(self.index, DenseIndex):
            return self.index
        if not isinstance(self.index, IndexArtifact):
            raise UsageError(
                f"index={type(self.index).__name__}(...) has no dense vectors beside it: give the "
                "folder of an index that has"
            )
        vectors = Index(self.index.path).open("dense")
        assert isinstance(vectors, DenseIndex)
        return vectors


def _retriever_of(index: Any, entry: Method) -> pt.Transformer:
    """The retriever of an index, with the method's depth and its paper's BM25 parameters."""
    retriever = index.retriever(entry.depth, **entry.bm25)
    if not isinstance(retriever, pt.Transformer):
        raise UsageError(
            f"{type(index).__name__}.retriever() returns {type(retriever).__name__}: end it with "
            "return and a PyTerrier transformer"
        )
    return retriever


IN_FILE = re.compile(r"(?P<file>.+\.py)(:(?P<name>\w*))?")
"""A stage in a user's file."""


def is_address(text: str) -> bool:
    """Return whether a retriever is named by the address of a server."""
    return text.startswith(("http://", "https://"))


def own_stage(value: Any) -> Any:
    """Return the transformer or function that ``FILE.py:NAME`` names; any other value as it is.

    Raises:
        UsageError: when there is no such file or name, it can't be run, or the name is neither.
    """
    named = IN_FILE.fullmatch(value) if isinstance(value, str) else None
    if named is None:
        return value
    module = load_python(named["file"], "a stage")
    stages = {}
    for name, member in vars(module).items():
        is_own = getattr(member, "__module__", None) == module.__name__
        if isinstance(member, pt.Transformer) or (_is_function(member) and is_own):
            stages[name] = member
    if named["name"] in stages:
        return stages[named["name"]]
    repair = did_you_mean(named["name"] or "", stages)
    if not repair:
        repair = f"it has {', '.join(stages) or 'no transformer and no function'}"
    raise UsageError(f"{value} names no transformer or function of {named['file']}: {repair}")


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, pt.Transformer | type)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", function))


def _reads_index(value: Any) -> bool:
    """Whether a value is a function of the index, or a list with one."""
    if isinstance(value, list | tuple):
        return any(map(_reads_index, value))
    if not _is_function(value):
        return False
    required = []
    for parameter in inspect.signature(value).parameters.values():
        is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not is_variadic:
            required.append(parameter.name)
    if len(required) > 1:
        raise UsageError(
            f"the function {_name_of(value)} takes {', '.join(required)}: a retriever or re-ranker "
            "is made by a function of the index alone"
        )
    return len(required) == 1


def _replaces_index(retriever: Any) -> bool:
    """Whether a retriever stands in the place of an index."""
    if isinstance(retriever, str):
        return is_address(retriever)
    return isinstance(retriever, pt.Transformer) or _is_function(retriever)


def _remote(url: str, entry: Method) -> Remote:
    """A retriever from a server, with the method's depth and, for BM25, its paper's parameters."""
    remote = Remote(url, num_results=entry.depth)
    if not remote.facts().bm25:
        return remote
    k1, b = _bm25_of(entry)
    return Remote(url, num_results=entry.depth, k1=k1, b=b)


def _remote_in_words(url: str, entry: Method) -> str:
    """What a server searches with, and the settings that a paper names."""
    facts = Remote(url, num_results=entry.depth).facts()
    if facts.stage != "BM25" or not facts.bm25:
        return f"{facts.stage} of {url}"
    k1, b = _bm25_of(entry)
    return f"BM25 k1={k1} b={b}"


def _bm25_of(entry: Method) -> tuple[float, float]:
    """k1 and b of a method's paper, or those that a local index has."""
    return entry.bm25.get("k1", 0.9), entry.bm25.get("b", 0.4)


OF_SPLADE = ("splade_model", "splade_query_model", "texts")
OF_THE_INDEX = {"index", *OF_SPLADE}


def _check_names(options: Iterable[str], entries: Iterable[Method]) -> None:
    """Refuse options that are no resource."""
    names = [item.name for item in fields(Resources)]
    unknown = [name for name in options if name not in names]
    if not unknown:
        return
    candidates = list(names)
    for entry in entries:
        candidates += entry.arguments
    near = did_you_mean(unknown[0], candidates)
    repair = near or f"give one of {', '.join(names)}"
    raise UsageError(f"there is no option {unknown[0]!r}: {repair}")


def _needs_dense(entry: Method) -> bool:
    """Whether a method searches dense vectors, alone or beside words."""
    return "dense" in entry.resources or entry.own.get("retriever") in ("dense", HYBRID)


def taken_by(methods: Iterable[Method]) -> set[str]:
    """Return the options that methods take. A ready pipeline takes none.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> sorted(taken_by([ikat.methods.find("infosense_2023")]))
        ['index', 'llm', 'retriever', 'splade_model', 'splade_query_model', 'statements', 'texts']
    """
    taken = set[str]()
    for entry in methods:
        for argument, resource in entry.resources.items():
            if argument not in entry.own:
                taken.add(resource)
        if {"retriever", "dense"} & entry.resources.keys():
            taken |= OF_THE_INDEX
    if "llm" in taken:
        taken.add("statements")
    return taken - {"dense"}


def unused(name: str) -> UsageError:
    """Return the error for an option without any effect."""
    return UsageError(f"no system uses {option(name)}: omit it")


def deviations(entry: Method, given: Resources, opened: Resources) -> list[str]:
    """Return how a run's models and retriever differ from the paper's, one line each."""
    used = {}
    for item in fields(Resources):
        resource = getattr(opened, item.name)
        # as given, but an LLM without the secret parts of its address
        used[item.name] = resource if isinstance(resource, LLM) else getattr(given, item.name)
    if opened.retriever is None and opened.index is not None:
        used["retriever"] = _retriever_in_words(entry, opened.index)
    elif isinstance(opened.retriever, str) and is_address(opened.retriever):
        used["retriever"] = _remote_in_words(opened.retriever, entry)
    lines = entry.deviations(used)
    if given.statements and "llm" in entry.resources.values():
        line = f"statements about the user: {given.statements}"
        if opened.llm.backend.replays:
            line += "; recorded completions stay what they were for all of them"
        lines.append(line)
    return lines + _note_of_words(entry, given)


def _retriever_in_words(entry: Method, index: SearchIndex) -> str:
    """The retriever of an index, with the settings that a paper names."""
    label = label_of(index.retriever())
    if label == "BM25":
        settings = entry.bm25
        return " ".join([label, *(f"{name}={value}" for name, value in settings.items())])
    if index.query_model is not None:
        return f"{label} query_model={index.query_model}"
    return label


def _kinds_of(index: Any) -> list[str]:
    """The kinds of index in a folder; none for an index that is opened already."""
    index = folder_of_anserini(index) or index
    if isinstance(index, str | Path):
        return Index(index).kinds
    return index.kinds if isinstance(index, Index) else []


def _note_of_words(entry: Method, given: Resources) -> list[str]:
    """The note that words are searched in a folder with several kinds of index."""
    kinds = _kinds_of(given.index)
    searches = "retriever" in entry.resources.values() and "dense" not in entry.resources
    if given.retriever is not None or not searches or len(kinds) < 2 or "bm25" not in kinds:
        return []
    others = []
    for kind in kinds:
        if kind != "bm25":
            others.append(advice(f"retriever={kind!r}", f"--resources retriever={kind}"))
    path = given.index.path if isinstance(given.index, Index) else given.index
    return [
        f"{path} holds {', '.join(kinds)}: words are searched (bm25); "
        f"{' or '.join(others)} searches the others"
    ]


def _open_llm(given: Any, ledger: Ledger) -> LLM:
    return llm(given, ledger=ledger) if isinstance(given, str) else llm(given)


def _open_llms(given: Any, ledger: Ledger) -> list[LLM]:
    if isinstance(given, str):
        given = _names_in(given)
    return [_open_llm(item, ledger) for item in given]


def _open_trained(given: Any, _: Ledger) -> Any:
    return Seq2SeqRewrite(given) if isinstance(given, str) else given


def _names_in(text: str) -> list[str]:
    """The names in a text, which commas separate."""
    return [name.strip() for name in text.split(",")]


def _open_rerankers(given: Any, _: Ledger) -> Any:
    """Return the re-ranker with this name, or several, separated by commas.

    Anything that is not a text is returned unchanged.
    """
    if not isinstance(given, str):
        return given
    without_model = {"", *(f"{kind}:" for kind in RERANKERS)}
    rerankers = []
    for name in _names_in(given):
        if name in without_model or name.casefold() == "none":
            raise UsageError(
                f"{advice(f'reranker={given!r}', f'--reranker {given!r}')} lacks a model's name: "
                "give a cross-encoder's, bi:NAME, colbert:NAME, monot5:NAME, listwise:LLM, or "
                "several with commas"
            )
        own = own_stage(name)
        rerankers.append(load_reranker(name) if own is name else own)
    return rerankers[0] if len(rerankers) == 1 else rerankers


OPENERS: Mapping[str, Callable[[Any, Ledger], Any]] = {
    "llm": _open_llm,
    "second_llm": _open_llm,
    "responders": _open_llms,
    "rewriter": _open_trained,
    "expander": _open_trained,
    "reranker": _open_rerankers,
}
"""Argument of a method's function -> the function that makes its resource from a text.

The first stage depends on the method: see :meth:`Resources.build`.
"""
