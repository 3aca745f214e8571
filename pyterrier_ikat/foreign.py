"""Stages of other packages: careful answers to a run, and the files that results depend on.

This is the only file that looks into an object of another package. A stage of another package
doesn't say what it was made of. So its attributes are searched for artifacts of PyTerrier and for
paths, in its objects, lists and dicts too. Files count by their names, sizes and contents; of a
large file only parts are read.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatch
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import pandas as pd
import pyterrier as pt

from .arguments import check_same_turns
from .errors import UsageError

SMALL_FILE = 1 << 20
"""Up to this size the whole file is read."""
SAMPLE_BYTES = 1 << 16
"""Bytes that are read of a larger file, at its beginning, middle and end each."""
MOST_FILES = 10_000
"""A folder with more files is no index: it can't be told whether it changed."""
SEARCH_DEPTH = 3
"""How many objects deep a stage is searched: a retriever, its searcher, the searcher's index."""

CACHE_PACKAGES = ("pyterrier_caching",)
"""Packages whose folders don't decide on results: a cache writes into its own.

The stage inside a cache counts. Source: seanmacavaney/pyterrier-caching, scorer_cache.py and
retriever_cache.py.
"""
BUILT_FROM = {
    # pyterrier_pisa 0.4.9: prepare_index writes bm25.k1-0.9.b-0.4.q0.bmw.64 and .block_simdbp at
    # the first use of a scorer
    "pyterrier_pisa.PisaIndex": ("pt_*.json", "fwd*", "inv*"),
    # pyterrier_dr 0.8.1, flex/core.py: the files of the indexer; faiss_retr.py, corpus_graph.py and
    # others build theirs at first use
    "pyterrier_dr.FlexIndex": ("pt_meta.json", "vecs.f4", "docnos.npids"),
}
"""Index -> the files that all its others are built from, at any time."""
PASSING_FILES = ("*.lock", "*.tmp", ".*")
"""Files and folders that come and go: Lucene's write.lock, temporary and hidden ones."""

COPIES_ON_WRITE = int(pd.__version__.partition(".")[0]) >= 3
"""Whether pandas copies the columns of a shallow copy when they are written to."""

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""The address in memory that a repr shows; it tells nothing to a user."""

_NAMES_PATH = re.compile(r"(^|_)(path|dir|directory|folder|file|filename|index|location|root)s?$")
_WRITTEN = re.compile(r"(^|_)(caches?|logs?|tmp|temp|out|output)(_|$)")
"""Attributes that name what a stage writes."""
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    Path,
    Enum,
    type,
    range,
    re.Pattern,
    ModuleType,
    FunctionType,
    MethodType,
)


@dataclass(frozen=True)
class HeldFiles:
    """A file or folder that an object names.

    Attributes:
        path: where it is.
        kind: the class of the object, with its package.
        artifact: whether the object is an artifact of PyTerrier, such as an index. Any other may
            also write there.
    """

    path: str
    kind: str = ""
    artifact: bool = False

    def files(self) -> list[Path]:
        """Return the files that count, in order. The search ends behind ``MOST_FILES``."""
        root = Path(self.path)
        if not root.is_dir():
            return [root] if root.is_file() else []
        patterns = BUILT_FROM.get(self.kind, ("*",))
        files = []
        for path in _walk(root):
            name = path.relative_to(root)
            if any(_matches(part, PASSING_FILES) for part in name.parts):
                continue
            if _matches(name.as_posix(), patterns) and path.is_file():
                files.append(path)
            if len(files) > MOST_FILES:
                break
        return sorted(files)

    @property
    def tracked(self) -> bool:
        """Whether a change of the files can be noticed."""
        return 0 < len(self.files()) <= MOST_FILES

    def fingerprint(self) -> str:
        """Return a checksum of names, sizes and contents; empty if a change can't be noticed."""
        checksum = hashlib.blake2b(digest_size=16)
        files = self.files()
        if not files or len(files) > MOST_FILES:
            return ""
        for path in files:
            size = path.stat().st_size
            name = os.path.relpath(path, self.path)
            checksum.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
            checksum.update(_content(path, size))
        return checksum.hexdigest()


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def files_below(folder: Path) -> list[Path]:
    """Return all files of a folder and its subfolders, also of those that are links."""
    return sorted(_walk(folder))


def _walk(folder: Path) -> Iterator[Path]:
    for subfolder, _, names in os.walk(folder, followlinks=True):
        for name in names:
            yield Path(subfolder, name)


def _content(path: Path, size: int) -> bytes:
    """A checksum of a file's content, of a large file only of three parts."""
    checksum = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        if size <= SMALL_FILE:
            checksum.update(file.read())
        else:
            for start in (0, (size - SAMPLE_BYTES) // 2, size - SAMPLE_BYTES):
                file.seek(start)
                checksum.update(file.read(SAMPLE_BYTES))
    return checksum.digest()


def named_file(text: str | Path) -> HeldFiles | None:
    """Return the file that an argument names; None for any other text.

    A word without a separator or an ending is not taken for the file that happens to have its name.
    """
    name = os.fspath(text)
    is_path = isinstance(text, Path) or os.sep in name or Path(name).suffix != ""
    return HeldFiles(name) if is_path and os.path.isfile(name) else None


def held_by(owner: Any) -> list[Any]:
    """Return the files, stages and fingerprinted objects that an object of another package holds.

    A path inside an artifact, such as the one that a retriever remembers beside its index, stands
    for the artifact.
    """
    parts = list(_held_by(owner, SEARCH_DEPTH, {}))
    artifacts = []
    for part in parts:
        if isinstance(part, HeldFiles) and part.artifact:
            artifacts.append(Path(os.path.realpath(part.path)))
    outermost = []
    for part in parts:
        if isinstance(part, HeldFiles) and not part.artifact:
            path = Path(os.path.realpath(part.path))
            if any(path.is_relative_to(artifact) for artifact in artifacts):
                continue
        outermost.append(part)
    return outermost


def untracked(stage: pt.Transformer) -> bool:
    """Return whether a stage of another package holds something whose change can't be noticed.

    That is an artifact without files or a folder with too many; or, in a retriever, the address of
    a server, or an object that names no file at all.
    """
    parts = held_by(stage)
    for part in parts:
        if isinstance(part, HeldFiles) and not part.tracked:
            return True
    if parts:
        return False
    values = _attributes(stage).values()
    is_opaque = not all(map(_is_plain, values)) or any(map(_names_server, values))
    return is_opaque and _retrieves(stage)


def _retrieves(stage: pt.Transformer) -> bool:
    outputs = pt.inspect.transformer_outputs(stage, ["qid", "query"], strict=False)
    return outputs is not None and "docno" in outputs


def _held_by(owner: Any, depth: int, seen: dict[int, Any]) -> Iterator[Any]:
    if id(owner) in seen:
        return
    seen[id(owner)] = owner
    if _package(owner) in CACHE_PACKAGES:
        for value in _attributes(owner).values():
            if isinstance(value, pt.Transformer):
                yield value
        return
    if isinstance(owner, pt.Artifact):
        kind = f"{_package(owner)}.{type(owner).__name__}"
        path = getattr(owner, "path", None) or getattr(owner, "index_path", None)
        yield HeldFiles(str(path), kind, artifact=True)
        return
    for name, value in _attributes(owner).items():
        yield from _in_value(name, value, depth, seen)


def _in_value(name: str, value: Any, depth: int, seen: dict[int, Any]) -> Iterator[Any]:
    """What the value of an attribute holds, or an entry of its list or dict."""
    if is_fingerprinted(value):
        yield value
    elif isinstance(value, str | Path):
        if _is_path(name, value):
            yield HeldFiles(os.fspath(value))
    elif isinstance(value, pt.Transformer) and not isinstance(value, pt.Artifact):
        yield value
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _in_value(name, item, depth, seen)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _in_value(str(key), item, depth, seen)
    elif not _is_plain(value) and depth:
        yield from _held_by(value, depth - 1, seen)


def _is_path(name: str, value: str | Path) -> bool:
    """Whether an attribute names an existing file or folder that isn't only written to."""
    if _WRITTEN.search(name.casefold()) or not os.path.exists(value):
        return False
    return isinstance(value, Path) or os.sep in value or bool(_NAMES_PATH.search(name.casefold()))


def _is_plain(value: Any) -> bool:
    """Whether a value has nothing inside that a repr doesn't show."""
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    return value is None or isinstance(value, _PLAIN)


def _names_server(value: Any) -> bool:
    """Whether a value is or holds the address of a server, whose index may change at any time."""
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_names_server, value))
    if isinstance(value, Mapping):
        return any(map(_names_server, value.values()))
    return isinstance(value, str) and "://" in value


def _attributes(owner: Any) -> dict[str, Any]:
    """The attributes of an object, also those in slots."""
    attributes = dict(getattr(owner, "__dict__", {}))
    for cls in type(owner).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(owner, name):
                attributes[name] = getattr(owner, name)
    return attributes


def _package(owner: Any) -> str:
    return type(owner).__module__.partition(".")[0]


class Answers:
    """What a stage answers to a run's questions, unless it knows more."""

    open_ended = False
    """Whether its model decides how many texts it writes, so that a plan counts the fewest."""

    def prompt_checksums(self) -> dict[str, str]:
        """Return a checksum for each prompt template that it sends, by the template's name."""
        return {}

    def own_prompts(self) -> str | None:
        """Return the folder of the user's prompt templates, or None."""
        return None

    def abstains_with(self) -> str | None:
        """Return its response to a turn without passages, or None if it writes no responses."""
        return None

    def query_encoder(self) -> pt.Transformer | None:
        """Return the operator that encodes its queries, or None if it doesn't search vectors."""
        return None

    def analysis(self) -> dict[str, Any]:
        """Return how its index makes words of texts, such as ``stemmer`` and ``stops``."""
        return {}


class Foreign(Answers):
    """A stage of PyTerrier or of another package, with careful answers to a run's questions.

    They are the questions that :class:`~pyterrier_ikat.Operator` answers, too. The stage may read
    texts, drop turns and hold anything. A package or a user that knows better sets one of four
    hooks on the stage:

    - ``one_row_per_turn = True``: it maps rows one to one, independently;
    - ``loads_models = True``: its first use loads a model;
    - ``reads_texts = False``: it ignores the passages' ``text``;
    - ``citing()``: returns a copy that cites passages, or None.

    Example:
        >>> cut = Foreign(pt.RankCutoff(5))
        >>> cut.reads_texts, cut.passages_at_most(), cut.doing(pd.DataFrame())
        (False, 5, '')
        >>> upper = pt.apply.query(lambda row: row["query"].upper())
        >>> upper.one_row_per_turn = True
        >>> Foreign(upper).one_row_per_turn
        True
    """

    def __init__(self, stage: pt.Transformer) -> None:
        self.stage = stage
        self.cutoff: int | None = stage.k if isinstance(stage, pt.RankCutoff) else None
        self.one_row_per_turn: bool = getattr(stage, "one_row_per_turn", False)
        self.loads_models: bool = getattr(stage, "loads_models", False)
        self.reads_texts: bool = getattr(stage, "reads_texts", self.cutoff is None)

    @property
    def is_of_pyterrier(self) -> bool:
        """Whether it is a stage of PyTerrier itself, which asks no language model."""
        return _package(self.stage) == "pyterrier"

    def transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame after it.

        Raises:
            DataError: when it returns other turns, although its user said ``one_row_per_turn``.
        """
        out: pd.DataFrame = self.stage.transform(frame)
        if self.one_row_per_turn:
            check_same_turns(self.stage, frame, out)
        return out

    def plan(self, frame: pd.DataFrame, plan: Any) -> pd.DataFrame:
        """Return the frame after it, as far as known. A cutoff changes the plan's."""
        if self.cutoff is not None:
            plan.cut_at(self.cutoff)
            return frame
        planned: pd.DataFrame = plan.foreign(self, frame)
        return planned

    def subpipelines(self) -> list[pt.Transformer]:
        """Return the pipelines that it runs inside, such as the branches of a union."""
        if isinstance(self.stage, pt.Compose):
            return list(self.stage)  # PyTerrier would inspect the signature of the class
        return inspected_subpipelines(self.stage)

    def parts(self) -> list[Any]:
        """Return its inner pipelines, files, and whatever it holds that has a ``fingerprint()``."""
        return [*self.subpipelines(), *held_by(self.stage)]

    def arguments(self) -> dict[str, Any]:
        """Return its attributes, because what it was made with is unknown."""
        return _attributes(self.stage)

    def is_untracked(self) -> bool:
        """Return whether a change of its parts can go unnoticed; see :func:`untracked`."""
        return untracked(self.stage)

    def passages_at_most(self) -> int | None:
        """Return the cutoff, or the attribute ``num_results`` of a retriever."""
        if self.cutoff is not None:
            return self.cutoff
        number = getattr(self.stage, "num_results", None)
        return number if isinstance(number, int) else None

    def without_texts(self) -> pt.Transformer:
        """Return the stage as it is."""
        return self.stage

    def citing(self) -> pt.Transformer | None:
        """Return the stage that its own method ``citing`` makes, or None."""
        own_method = getattr(self.stage, "citing", None)
        return None if own_method is None else own_method()

    def limited(self, words: int) -> pt.Transformer | None:
        """Return None: nothing is known of a word limit."""
        return None

    def own_frame(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a copy of a frame that others read, too, because it may write into its input."""
        return frame.copy(deep=not COPIES_ON_WRITE)

    def name_shown(self) -> str:
        """Return its name in drawings, or that of its class."""
        drawing = getattr(type(self.stage), "schematic", None)
        label = drawing.get("label") if isinstance(drawing, dict) else None
        return str(label or type(self.stage).__name__)

    def doing(self, frame: pd.DataFrame) -> str:
        """Describe its work for a user who waits. A cutoff is not worth a word."""
        return f"running {self.name_shown()}" if self.cutoff is None else ""


def inspected_subpipelines(stage: pt.Transformer) -> list[pt.Transformer]:
    """Return the inner pipelines that PyTerrier finds in a stage."""
    nested: list[pt.Transformer] = []
    for pipelines in pt.inspect.subtransformers(stage).values():
        nested += pipelines if isinstance(pipelines, Sequence) else [pipelines]
    return nested


def is_fingerprinted(value: Any) -> bool:
    """Return whether a value has a method ``fingerprint``, as models and indexes do."""
    return callable(getattr(value, "fingerprint", None))


def fingerprint_of(part: Any) -> Any:
    """Return the fingerprint of a model, index, file or foreign object.

    Raises:
        UsageError: when an object of a user has none: its changes would go unnoticed.
    """
    fingerprint = part.fingerprint()
    if fingerprint or isinstance(part, HeldFiles):
        return fingerprint
    raise UsageError(
        f"{type(part).__name__}.fingerprint() returns {fingerprint!r}: return a text that changes "
        "when its contents change, such as a checksum"
    )


def loader_of(index: Any) -> Any:
    """Return the operator that adds texts for an index, or None."""
    return getattr(index, "text", None)


def path_of(part: Any) -> str | None:
    """Return where an index or file is, or None."""
    path = getattr(part, "path", None)
    return None if path is None else os.fspath(path)


def folder_of_anserini(index: Any) -> str | None:
    """Return the folder of pyterrier-anserini's ``AnseriniIndex``; None for any other object.

    Source: seanmacavaney/pyterrier-anserini, _index.py.
    """
    return path_of(index) if _package(index) == "pyterrier_anserini" else None


def is_asked(value: Any) -> bool:
    """Return whether a value is a language model, or stands for one: it has a method ``ask``."""
    return not isinstance(value, type) and callable(getattr(value, "ask", None))


def checksums_of(asks: Any) -> dict[str, str]:
    """Return a checksum for each prompt template of an object that asks a model, else nothing."""
    own_method = getattr(asks, "prompt_checksums", None)
    return {} if own_method is None else own_method()


def model_of(asks: Any) -> Any:
    """Return the language model that a player or a judge asks, or None."""
    return getattr(asks, "llm", None)
