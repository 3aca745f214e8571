"""An index folder: the passages' texts, and engines built from them.

Each kind of index is a PyTerrier artifact. The folder has ``texts.db`` (see :mod:`.texts`) and a
folder for each engine, named after its kind and its number of passages, such as ``bm25-700``. An
engine is built in a hidden folder, which is renamed at the end, and the one with the most passages
is searched. So after a kill at any moment the old engine or the new one is there.
"""

import json
import os
import shutil
import tempfile
import threading
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import pandas as pd
import pyterrier as pt

from ..conversations.passages import Fields, fields_named
from ..errors import DataError, UsageError, advice
from ..operator import Operator, with_fields
from ..search_index import SearchIndex
from ..store.cache import digest
from ..store.files import atomic_write, flush, lock_folders
from ..store.models import checksum_model, is_copy, usable_devices
from .formats import PISA, format_of, how_to_open
from .texts import (
    TEXTS_FILE,
    Corpus,
    Encode,
    Parts,
    TextStore,
    count_of,
    encode_parts,
    read_corpus,
    read_names,
)

FORMAT = 4
DESCRIPTION = "ikat.json"
PT_META = "pt_meta.json"
PYTERRIER_META = (PT_META, "pt_pisa_config.json")
FILES_OF_DOCNOS = ("docnos.txt", "fwd.documents")
"""The docnos of an engine, ours and PISA's."""
NOT_COMPARED = ("files", "model")
"""Fields of a description that may differ for the same passages and settings."""
_opening = threading.RLock()
IndexT = TypeVar("IndexT", bound="IndexArtifact")


class OpenIndex(NamedTuple):
    """An open index.

    Its engine, its texts and its fingerprint belong together, whatever happens to the folder.

    Attributes:
        folder: the engine's folder.
        described: the engine's description: ``parts`` (the number and the checksum of the passages
            that were added at once), and settings.
        fingerprint: a checksum of the passages and the settings.
        engine: finds rankings.
        texts: the passages' texts; None for an index without them.
    """

    folder: Path
    described: dict[str, Any]
    fingerprint: str
    engine: Any
    texts: TextStore | None


class IndexArtifact(SearchIndex, pt.Artifact):
    """Base of every index: a folder with one of its engines.

    A subclass names the kind of its engine (:attr:`KIND`), builds it (:meth:`_build`), opens it
    (:meth:`_engine`), and gives a retriever.

    Args:
        path: the folder.
        text: an operator that adds ``text`` by ``docno``, instead of the texts in the folder.
    """

    ARTIFACT_TYPE = "sparse_index"
    ARTIFACT_FORMAT: ClassVar[str]
    ARTIFACT_PACKAGE_HINT = "pyterrier_ikat"
    KIND: ClassVar[str]
    VERSION: ClassVar[int] = FORMAT
    """The format of the engine's folder.

    An engine of another version is refused, and replaced by the call that builds the index.
    """
    OPTION: ClassVar[str] = ""
    """The options of the command that makes such an index."""
    ENCODES: ClassVar[bool] = False
    """Whether a model encodes the passages."""
    SPARE: ClassVar[tuple[str, ...]] = ()
    """Files that may be removed."""
    kinds: ClassVar[dict[str, Any]] = {}
    """Kind -> the class that opens it."""
    path: str  # type: ignore[assignment]  # as it was given
    model: str | None = None
    """The model that encodes passages, if it isn't the one that the index names."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        IndexArtifact.kinds[cls.KIND] = cls

    def __init__(self, path: str | Path, *, text: pt.Transformer | None = None) -> None:
        super().__init__(str(path))
        self.path = str(path)
        self.text = text
        self._opened: OpenIndex | None = None

    # Opening

    def opened(self) -> OpenIndex:
        """Open the index at the first call, and return the same afterwards.

        Raises:
            DataError: when it is missing, incomplete or in another format.
        """
        with _opening:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> OpenIndex:
        folder = self._folder()
        try:
            described = self._read(folder)
            engine = self._engine(folder, described)
            texts = None
            if (Path(self.path) / TEXTS_FILE).exists():
                texts = TextStore(Path(self.path))
            opened = OpenIndex(folder, described, self._fingerprint(described), engine, texts)
        except UsageError:
            raise
        except (DataError, FileNotFoundError, ValueError, KeyError) as error:
            if self._folder() != folder:  # passages were added meanwhile
                return self._open()
            if isinstance(error, DataError):
                raise
            raise _not_whole(folder, error) from None
        if texts is not None:
            self._compare_texts(described["parts"], texts.parts)
        return opened

    def _compare_texts(self, parts: Parts, stored: Parts) -> None:
        """Compare the parts of the engine with those of the texts; these may be ahead."""
        if stored[: len(parts)] != parts:
            repair = "copy it again, or remove it and build it again"
            raise DataError(f"the index {self.path} has texts of other passages: {repair}")
        lacking = count_of(stored) - count_of(parts)
        if lacking:
            warnings.warn(
                f"{self.KIND} of {self.path} lacks the last {lacking} passages: "
                "call add(passages) again",
                stacklevel=5,
            )

    def _folder(self) -> Path:
        folder = engine_folder(self.path, self.KIND)
        if folder is not None:
            return folder
        is_ours = (Path(self.path) / TEXTS_FILE).exists() or any(
            engine_folder(self.path, kind) for kind in self.kinds
        )
        other = "" if is_ours else how_to_open(self.path)
        if other:
            raise DataError(other)
        reason = "there is no such folder"
        if Path(self.path).exists():
            reason = "the folder holds no such index"
        raise DataError(f"no index at {self.path}: {reason}; make it with {self._building()}")

    def _building(self) -> str:
        """Return the line for building this index."""
        return advice(
            f"ikat.{type(self).__name__}({self.path!r}).index(corpus)",
            f"`ikat index SOURCE {self.path}{self.OPTION}`",
        )

    def _read(self, folder: Path) -> dict[str, Any]:
        """Read the description in an engine's folder, and check the sizes of its files."""
        described = _read_description(folder)
        version = described["format"]
        if version != self.VERSION:
            raise DataError(
                f"the index {self.path} has format {version}, this version reads format "
                f"{self.VERSION}: build it again with {self._building()}"
            )
        for name in ("parts", "files"):
            if name not in described:
                raise _not_whole(folder, f"{DESCRIPTION} has no {name}")
        for name, expected in described["files"].items():
            try:
                size = (folder / name).stat().st_size
            except FileNotFoundError as error:
                raise _not_whole(folder, error) from None
            if size != expected:
                raise _not_whole(folder, f"{name} has {size} bytes instead of {expected}")
        if "model" in described:
            model = self._model(described)
            if not is_copy(model, described["model"], described["encoded_by"]):
                repair = "give that one, or index the passages again"
                raise UsageError(
                    f"the index {self.path} was encoded with another model than {model!r} "
                    f"as it is now: {repair}"
                )
        return described

    def _model(self, described: Mapping[str, Any] | None = None) -> str:
        """Return the encoder of passages and queries."""
        if self.model:
            return self.model
        return str((described or self.describe())["model"])

    def _fingerprint(self, described: Mapping[str, Any]) -> str:
        compared = {name: value for name, value in described.items() if name not in NOT_COMPARED}
        of_queries = "" if self.query_model is None else checksum_model(self.query_model)
        return digest(json.dumps(compared, sort_keys=True), of_queries).hex()

    @abstractmethod
    def _engine(self, folder: Path, described: dict[str, Any]) -> Any:
        """Open the engine in a folder."""

    def fingerprint(self) -> str:
        """Return a checksum of the passages and the settings of the open index.

        Raises:
            DataError: when it isn't the index that is in the folder now.
        """
        fingerprint = self.opened().fingerprint
        if self._fingerprint(self._read(self._folder())) != fingerprint:
            repair = "open it again, and start again what used it"
            raise DataError(f"the index {self.path} was replaced since it was opened: {repair}")
        return fingerprint

    def describe(self) -> dict[str, Any]:
        """Return the description of the engine."""
        return self.opened().described

    def warm_up(self) -> None:
        """Load the files and the model of queries, before the first search."""
        self.opened()
        self.encode_queries(["tea"])

    def encode_queries(self, queries: Sequence[str]) -> Any:
        """Return the queries as the engine takes them, by default unchanged."""
        return queries

    def __len__(self) -> int:
        return count_of(self.opened().described["parts"])

    # Texts

    @property
    def has_text(self) -> bool:
        """Whether its retrievers return the passages' text."""
        return self.text is not None or self.opened().texts is not None

    def texts(self, docnos: Sequence[str]) -> list[str]:
        """Return the passages' text as it was indexed, in the order of ``docnos``.

        Raises:
            DataError: when docnos aren't in the index (it names them), or the index has no texts.
        """
        store = self.opened().texts
        if store is None:
            python = f"ikat.{type(self).__name__}(..., text=ikat.TextLoader(path))"
            argument = advice(python, "--resources texts=PASSAGE_INDEX")
            raise DataError(f"the index {self.path} has no texts: give {argument}")
        return store.read(docnos)

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> "PassageText":
        """Make an operator that adds ``text`` by ``docno``; see :class:`PassageText`.

        ``pt.text.get_text(index)`` makes it as well.

        Args:
            fields: ``"text"``, ``["text"]`` or ``"*"``: an index keeps only the text.
            verbose: has no effect; PyTerrier gives it to every loader.

        Raises:
            UsageError: for another field.
        """
        fields_named(fields, ["text"])
        return PassageText(self)

    def with_text(self, results: pd.DataFrame) -> pd.DataFrame:
        """Add the column ``text`` to ``results``, if the index has texts or a loader."""
        if self.text is not None:
            return self.text.transform(results)
        if self.opened().texts is None:
            return results
        return PassageText(self).transform(results)

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Look up lazily the docnos in the index, of those ``among``."""
        store = self.opened().texts
        if store is not None:
            return store.docnos(among, len(self))
        folder = self.opened().folder
        files = [folder / name for name in FILES_OF_DOCNOS if (folder / name).exists()]
        return filter(frozenset(among).__contains__, read_names(files[0]))

    # Building

    def _make(self: IndexT, corpus: Corpus, made_with: Mapping[str, Any], **options: Any) -> IndexT:
        """Build the engine, or compare an existing one with the passages and settings."""
        target = Path(self.path).absolute()
        for path in (target, *target.parents):
            if path.is_file():
                repair = "give another path"
                raise UsageError(
                    f"{self.path}: {path} is a file, and an index is a folder: {repair}"
                )
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock_folders(target):
            engine = engine_folder(target, self.KIND)
            if engine is not None and not self._outdated(engine):
                self._check_settings(made_with)
            if not (target / TEXTS_FILE).exists() and target.exists() and any(target.iterdir()):
                raise UsageError(f"{self.path} exists already{_named(target)}: give a new path")
            passages = read_corpus(corpus)
            target.mkdir(exist_ok=True)
            with closing(TextStore(target, create=True)) as store:
                if store.parts:
                    store.check_same(passages)
                else:
                    store.write(passages)
                self._bring_up(store, made_with, **options)
        return self

    def add(self: IndexT, corpus: Corpus, *, devices: Sequence[str] | None = None) -> IndexT:
        """Add passages to the folder, for all indexes that it holds.

        Texts are stored first. BM25's index is then built again from all texts; SPLADE and dense
        vectors encode the new passages only. Searches that are open keep the passages that they
        began with. After a kill, the same call continues.

        Args:
            corpus: dicts with ``docno`` and ``text``, or a frame. Passages that are there with the
                same text are skipped.
            devices: several devices that encode; see :meth:`DenseIndex.index`.

        Returns:
            This index with the new passages.

        Raises:
            DataError: when the corpus is malformed, has a docno with another text than the one that
                is there, or the index has no texts.
            UsageError: when another process is building there, a model isn't the one that encoded
                the passages, a device can't be used, or there are devices but nothing to encode.
        """
        devices = usable_devices(devices)
        target = Path(self.path).absolute()
        with lock_folders(target):
            indexes = self._indexes_in(target)
            # A wrong model shows before anything is stored.
            descriptions = [index.opened().described for index in indexes]
            if not indexes or not (target / TEXTS_FILE).exists():
                raise DataError(
                    f"the index {self.path} has no texts, so nothing can be added to it"
                )
            if devices is not None and not any(index.ENCODES for index in indexes):
                raise UsageError(f"devices encode, and {self.path} has no vectors: omit devices")
            with closing(TextStore(target)) as store:
                store.add(read_corpus(corpus))
                for index, described in zip(indexes, descriptions, strict=True):
                    made_with = dict(described)
                    del made_with["files"]
                    del made_with["parts"]
                    options = {"devices": devices} if index.ENCODES else {}
                    index._bring_up(store, made_with, **options)
        return self

    def _indexes_in(self, folder: Path) -> list["IndexArtifact"]:
        """Return this index and those of other kinds in its folder."""
        indexes: list[IndexArtifact] = []
        for kind, cls in self.kinds.items():
            if engine_folder(folder, kind):
                indexes.append(self if kind == self.KIND else cls(self.path))
        return indexes

    def _bring_up(self, store: TextStore, made_with: Mapping[str, Any], **options: Any) -> None:
        """Build the engine from the store, unless one of all its passages is there."""
        parts = store.parts
        target = store.path.parent
        old = engine_folder(target, self.KIND)
        outdated = old is not None and self._outdated(old)
        if outdated:
            old = None
        if old is not None and self._read(old)["parts"] == parts:
            self._tidy(old)
            return
        partial = target / f".{self.KIND}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        fields = self._build(partial, store, old, dict(made_with), **options)
        sizes = {}
        for path in sorted(partial.iterdir()):
            if path.name not in self.SPARE:
                sizes[path.name] = path.stat().st_size
        described = {"format": self.VERSION, "parts": parts, **made_with, **fields, "files": sizes}
        write_json(partial / DESCRIPTION, described)
        for path in (*partial.iterdir(), partial):
            flush(path)
        new = target / f"{self.KIND}-{count_of(parts)}"
        if outdated:  # it may have the same name
            shutil.rmtree(new, ignore_errors=True)
        os.replace(partial, new)
        self._tidy(new)
        self._opened = None

    def _outdated(self, engine: Path) -> bool:
        """Tell whether an engine was made by another version."""
        return bool(_read_description(engine)["format"] != self.VERSION)

    def _tidy(self, engine: Path) -> None:
        """Remove older engines than a finished one, and remains of killed builds.

        Then write the file that PyTerrier reads of an artifact.
        """
        folder = engine.parent
        for path in (*folder.glob(f"{self.KIND}-*"), *folder.glob(f".{self.KIND}.*")):
            if path != engine:
                shutil.rmtree(path, ignore_errors=True)
        for path in folder.glob(".*.tmp"):
            path.unlink()
        if not (folder / PT_META).exists():
            write_json(folder / PT_META, self._about())

    @abstractmethod
    def _build(
        self, folder: Path, store: TextStore, old: Path | None, made_with: dict[str, Any]
    ) -> dict[str, Any]:
        """Write the engine's files into ``folder``, and return further fields of the description.

        Args:
            folder: an empty folder.
            store: the passages.
            old: the folder of the same engine for the first passages, if there is one.
            made_with: the settings.
        """

    def _encode_new(
        self,
        store: TextStore,
        old: Path | None,
        made_with: Mapping[str, Any],
        at_once: int,
        encode: Encode,
    ) -> list[Path]:
        """Encode the passages after the old engine's, and return the files of the parts."""
        start = 0 if old is None else count_of(self._read(old)["parts"])
        settings = [made_with.get(name) for name in ("encoded_by", "passage_prefix", "similarity")]
        key = digest(json.dumps([*settings, store.parts, start])).hex()
        parts = store.path.parent / f".{self.KIND}.parts" / key
        return encode_parts(parts, store, start, at_once, encode)

    def _check_settings(self, made_with: Mapping[str, Any]) -> None:
        described = self._read(self._folder())
        for name, value in made_with.items():
            if name not in NOT_COMPARED and described[name] != value:
                other = f"an index with {name} {described[name]!r}, not {value!r}"
                raise UsageError(f"{self.path} holds {other}: remove it, or give a new path")

    # As an artifact

    def build_package(
        self, package_path: str | None = None, *, texts: bool = False, **options: Any
    ) -> str:
        """Build a package of the index: one file that ``pt.Artifact.from_url`` opens anywhere.

        Args:
            package_path: the file to make; by default the folder's name with ``.tar.lz4``.
            texts: also pack the passages' texts. The license of a collection such as ClueWeb22
                forbids sharing them. An index without texts gets them from ``text=...``, or from
                ``--resources texts=...`` on the command line.
            options: those of PyTerrier's ``build_package``.

        Returns:
            The file.

        Raises:
            DataError: when the index is incomplete, or ``texts`` is true and it has none.
        """
        opened = self.opened()
        if texts and opened.texts is None:
            raise DataError(f"the index {self.path} has no texts to pack: omit texts=True")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_json(folder / PT_META, self._about())  # the index's own one may be of another
            (folder / opened.folder.name).mkdir()
            files = [opened.folder / file for file in (DESCRIPTION, *opened.described["files"])]
            if texts:
                files.append(Path(self.path) / TEXTS_FILE)
            for path in files:
                (folder / path.relative_to(self.path)).symlink_to(path.absolute())
            artifact = pt.Artifact(name)
            return artifact.build_package(package_path or f"{self.path}.tar.lz4", **options)

    def _about(self) -> dict[str, str]:
        return {
            "type": self.ARTIFACT_TYPE,
            "format": self.ARTIFACT_FORMAT,
            "package_hint": self.ARTIFACT_PACKAGE_HINT,
        }

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_opened"] = None  # an open index can't be sent to another process
        return state

    def _arguments(self) -> dict[str, Any]:
        arguments = {
            "path": self.path,
            "model": self.model,
            "text": self.text,
            "query_model": self.query_model,
        }
        return {name: value for name, value in arguments.items() if value is not None}

    def __repr__(self) -> str:
        arguments = []
        for name, value in self._arguments().items():
            by_position = name in ("path", "model")
            arguments.append(repr(value) if by_position else f"{name}={value!r}")
        return f"ikat.{type(self).__name__}({', '.join(arguments)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash((type(self), *self._arguments().items()))


def _read_description(folder: Path) -> dict[str, Any]:
    """Read the description in an engine's folder, of any version.

    Raises:
        DataError: when it is missing or damaged.
    """
    try:
        described = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError) as error:
        raise _not_whole(folder, f"{DESCRIPTION}: {error}") from None
    if not isinstance(described, dict) or "format" not in described:
        raise _not_whole(folder, f"{DESCRIPTION} has no format")
    return described


def _not_whole(folder: Path, problem: object) -> DataError:
    repair = "copy it again, or remove it and build it again"
    return DataError(f"the index {folder} isn't whole ({problem}): {repair}")


def engine_folder(path: str | Path, kind: str) -> Path | None:
    """Return the folder of a kind's engine with the most passages, if there is any."""
    largest = None
    most = 0
    for folder in Path(path).glob(f"{kind}-*"):
        size = folder.name.removeprefix(f"{kind}-")
        if size.isdecimal() and int(size) > most:
            largest = folder
            most = int(size)
    return largest


def made_by_pyterrier(folder: Path) -> bool:
    """Tell whether a folder has an index of pyterrier_pisa."""
    if not any((folder / name).exists() for name in PYTERRIER_META):
        return False
    has_ours = any((folder / name).exists() for name in (DESCRIPTION, TEXTS_FILE))
    if has_ours or any(folder.glob(f"*-*/{DESCRIPTION}")):
        return False
    found = format_of(folder)
    return found is not None and found.name == PISA


def _named(folder: Path) -> str:
    """Name the format of an index that another package made there; empty for any other folder."""
    found = format_of(folder)
    return "" if found is None else f" as an index of {found.name}"


@with_fields
class PassageText(Operator):
    """Adds the column ``text`` by ``docno``, from the texts kept in an index.

    ``PassageIndex.text_loader()`` makes it. Rows, their order and all other columns are unchanged.
    Rows of the same passage share one string.

    Args:
        index: the index with the texts.

    Raises:
        DataError: when passages aren't in the index; it names them.
    """

    schematic = {"label": "Passage text"}

    index: Any  # an index with `texts`

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Add ``text`` to a frame with ``docno``."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        texts = self.index.texts(inp["docno"].tolist()) if len(inp) else []
        return inp.assign(text=pd.Series(texts, index=inp.index, dtype=object))

    def __repr__(self) -> str:
        return f"{self.index!r}.text_loader()"


def write_json(path: Path, content: Any) -> None:
    """Write JSON into a file."""
    with atomic_write(path) as file:
        json.dump(content, file, indent=1)
