"""An index folder: the passages' texts, and engines that are built from them. Each kind of index is a PyTerrier artifact.

The folder has ``texts.db`` (see :mod:`.texts`) and a folder for each engine, named after its kind
and its number of passages, such as ``bm25-700``. An engine is built in a hidden folder, which is
renamed at the end, and the one with the most passages is searched. So after a kill at any moment
the old engine or the new one is there.
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
from ..errors import DataError, IkatError, UsageError, advice
from ..operator import Operator, with_fields
from ..search_index import SearchIndex
from ..store.cache import digest
from ..store.files import atomic_write, flush, lock_folders
from ..store.models import checksum_model, is_copy
from .texts import NAME as TEXTS
from .texts import Corpus, Encode, TextStore, count_of, encode_steps, read_corpus, read_names

FORMAT = 4
DESCRIPTION, PT_META = "ikat.json", "pt_meta.json"
PYTERRIER_META = (PT_META, "pt_pisa_config.json")
DOCNOS = ("docnos.txt", "fwd.documents")
"""The docnos of an engine, ours and PISA's."""
NOT_COMPARED = ("files", "model")
"""Fields that the same passages and settings may have other values of."""
_opening = threading.RLock()
Made = TypeVar("Made", bound="IndexArtifact")


class Opened(NamedTuple):
    """An index that is open. Its engine, its texts and its fingerprint belong together, whatever happens to the folder.

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
    """The format of the engine's folder. An engine of another version is refused, and replaced by the call that builds the index."""
    OPTION: ClassVar[str] = ""
    """What the command that makes such an index has after the folder."""
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
        self._opened: Opened | None = None

    # Opening

    def opened(self) -> Opened:
        """The index, opened at the first call.

        Raises:
            DataError: when it is missing, incomplete or in another format.
        """
        with _opening:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> Opened:
        folder = self._folder()
        try:
            described = self._read(folder)
            engine = self._engine(folder, described)
            texts = TextStore(Path(self.path)) if (Path(self.path) / TEXTS).exists() else None
            found = Opened(folder, described, self._fingerprint(described), engine, texts)
        except IkatError:
            raise
        except (FileNotFoundError, ValueError, KeyError) as error:
            if self._folder() != folder:  # passages were added meanwhile
                return self._open()
            raise DataError(
                f"the index {folder} isn't whole ({error}): copy it again, or remove it and build it again"
            ) from None
        parts = described["parts"] if texts is None else texts.parts
        if parts[: len(described["parts"])] != described["parts"]:
            raise DataError(
                f"the index {self.path} has texts of other passages: copy it again, or remove it and build it again"
            )
        if lacking := count_of(parts) - count_of(described["parts"]):
            warnings.warn(
                f"{self.KIND} of {self.path} lacks the last {lacking} passages: call add(passages) again",
                stacklevel=4,
            )
        return found

    def _folder(self) -> Path:
        found = engine_folder(self.path, self.KIND)
        if found is None:
            there = (
                "the folder holds no such index"
                if Path(self.path).exists()
                else "there is no such folder"
            )
            raise DataError(f"no index at {self.path}: {there}; make it with {self._building()}")
        return found

    def _building(self) -> str:
        """The line that builds this index."""
        return advice(
            f"ikat.{type(self).__name__}({self.path!r}).index(corpus)",
            f"`ikat index SOURCE {self.path}{self.OPTION}`",
        )

    def _read(self, folder: Path) -> dict[str, Any]:
        """The description in an engine's folder, after checking that each file has the size it had when it was written."""
        described: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if described["format"] != self.VERSION:
            there = f"the index {self.path} has format {described['format']}, this version reads format {self.VERSION}"
            raise DataError(f"{there}: build it again with {self._building()}")
        for name, size in described["files"].items():
            if (folder / name).stat().st_size != size:
                raise ValueError(
                    f"{name} has {(folder / name).stat().st_size} bytes instead of {size}"
                )
        if "model" in described and not is_copy(
            self._model(described), described["model"], described["encoded_by"]
        ):
            given = f"{self._model(described)!r} as it is now: give that one, or index the passages again"
            raise UsageError(f"the index {self.path} was encoded with another model than {given}")
        return described

    def _model(self, described: Mapping[str, Any] | None = None) -> str:
        """The model that encodes passages and queries."""
        return self.model or str((described or self.describe())["model"])

    def _fingerprint(self, described: Mapping[str, Any]) -> str:
        compared = {name: value for name, value in described.items() if name not in NOT_COMPARED}
        of_queries = "" if self.query_model is None else checksum_model(self.query_model)
        return digest(json.dumps(compared, sort_keys=True), of_queries).hex()

    @abstractmethod
    def _engine(self, folder: Path, described: dict[str, Any]) -> Any:
        """The engine in a folder."""

    def fingerprint(self) -> str:
        """A checksum that changes with the passages and the settings of the index, as it is open.

        Raises:
            DataError: when it isn't the index that is in the folder now.
        """
        found = self.opened().fingerprint
        if self._fingerprint(self._read(self._folder())) != found:
            raise DataError(
                f"the index {self.path} was replaced since it was opened: open it again, and start again what used it"
            )
        return found

    def describe(self) -> dict[str, Any]:
        """The description of the engine."""
        return self.opened().described

    def warm_up(self) -> None:
        """Load in advance what the first search needs: the files, and the model that encodes queries."""
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
        """The passages' text as it was indexed, in the order of ``docnos``.

        Raises:
            DataError: when docnos aren't in the index (it names them), or the index has no texts.
        """
        if (store := self.opened().texts) is None:
            given = f"ikat.{type(self).__name__}(..., text=ikat.TextLoader(path))"
            raise DataError(
                f"the index {self.path} has no texts: give {advice(given, '--resources texts=PASSAGE_INDEX')}"
            )
        return store.read(docnos)

    def text_loader(self, fields: Fields = "text", *, verbose: bool = False) -> "PassageText":
        """An operator that adds ``text`` by ``docno``; see :class:`PassageText`. ``pt.text.get_text(index)`` makes it as well.

        Args:
            fields: ``"text"``, ``["text"]`` or ``"*"``: an index keeps only the text.
            verbose: has no effect; PyTerrier gives it to every loader.

        Raises:
            UsageError: for another field.
        """
        fields_named(fields, ["text"])
        return PassageText(self)

    def with_text(self, found: pd.DataFrame) -> pd.DataFrame:
        """``found`` with the column ``text``; unchanged if the index has neither texts nor a loader."""
        if self.text is not None:
            return self.text.transform(found)
        return found if self.opened().texts is None else PassageText(self).transform(found)

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Those of the docnos ``among`` that are in the index. They are looked up lazily."""
        if (store := self.opened().texts) is not None:
            return store.docnos(among, len(self))
        folder = self.opened().folder
        return filter(
            frozenset(among).__contains__,
            read_names(next(folder / name for name in DOCNOS if (folder / name).exists())),
        )

    # Building

    def _make(self: Made, corpus: Corpus, made_with: Mapping[str, Any], **given: Any) -> Made:
        """Build the engine, or compare an existing one with the passages and settings."""
        target = Path(self.path).absolute()
        file = next((place for place in (target, *target.parents) if place.is_file()), None)
        if file is not None:
            raise UsageError(
                f"{self.path}: {file} is a file, and an index is a folder: give another path"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock_folders(target):
            engine = engine_folder(target, self.KIND)
            if engine is not None and not self._outdated(engine):
                self._check_settings(made_with)
            if not (target / TEXTS).exists() and target.exists() and any(target.iterdir()):
                raise UsageError(f"{self.path} exists already: remove it, or give a new path")
            passages = read_corpus(corpus)
            target.mkdir(exist_ok=True)
            with closing(TextStore(target, create=True)) as store:
                (store.check_same if store.parts else store.write)(passages)
                self._bring_up(store, made_with, **given)
        return self

    def add(self: Made, corpus: Corpus) -> Made:
        """Add passages to the folder, for all indexes that it holds.

        Texts are stored first. BM25's index is then built again from all texts; SPLADE and dense
        vectors encode the new passages only. Searches that are open keep the passages that they
        began with. After a kill, the same call continues.

        Args:
            corpus: dicts with ``docno`` and ``text``, or a frame. Passages that are there with the
                same text are skipped.

        Returns:
            This index with the new passages.

        Raises:
            DataError: when the corpus is malformed, has a docno with another text than the one that
                is there, or the index has no texts.
            UsageError: when another process is building there, or a model isn't the one that
                encoded the passages.
        """
        target = Path(self.path).absolute()
        with lock_folders(target):
            held = [
                self if kind == self.KIND else cls(self.path)
                for kind, cls in self.kinds.items()
                if engine_folder(target, kind)
            ]
            made_with = [
                index.opened().described for index in held
            ]  # a wrong model shows before anything is stored
            if not held or not (target / TEXTS).exists():
                raise DataError(
                    f"the index {self.path} has no texts, so nothing can be added to it"
                )
            with closing(TextStore(target)) as store:
                store.add(read_corpus(corpus))
                for index, described in zip(held, made_with, strict=True):
                    index._bring_up(
                        store,
                        {
                            name: value
                            for name, value in described.items()
                            if name not in ("files", "parts")
                        },
                    )
        return self

    def _bring_up(self, store: TextStore, made_with: Mapping[str, Any], **given: Any) -> None:
        """Build the engine from the store, unless one of all its passages is there."""
        parts, target = store.parts, store.path.parent
        old = engine_folder(target, self.KIND)
        outdated = old is not None and self._outdated(old)
        if outdated:
            old = None
        if old is not None and self._read(old)["parts"] == parts:
            self._tidy(old)
            return
        made = target / f".{self.KIND}.partial"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        fields = self._build(made, store, old, dict(made_with), **given)
        sizes = {
            path.name: path.stat().st_size
            for path in sorted(made.iterdir())
            if path.name not in self.SPARE
        }
        write_json(
            made / DESCRIPTION,
            {"format": self.VERSION, "parts": parts, **made_with, **fields, "files": sizes},
        )
        for path in (*made.iterdir(), made):
            flush(path)
        new = target / f"{self.KIND}-{count_of(parts)}"
        if outdated:  # it may have the same name
            shutil.rmtree(new, ignore_errors=True)
        os.replace(made, new)
        self._tidy(new)
        self._opened = None

    def _outdated(self, engine: Path) -> bool:
        """Whether an engine was made by another version."""
        described = json.loads((engine / DESCRIPTION).read_text(encoding="utf-8"))
        return bool(described["format"] != self.VERSION)

    def _tidy(self, engine: Path) -> None:
        """Remove what a finished engine replaces, and what killed builds left, and write what PyTerrier reads of an artifact."""
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
        self, made: Path, store: TextStore, old: Path | None, made_with: dict[str, Any]
    ) -> dict[str, Any]:
        """Write the engine's files into ``made``, and return further fields of the description.

        Args:
            made: an empty folder.
            store: the passages.
            old: the folder of the same engine for the first passages, if there is one.
            made_with: the settings.
        """

    def _encode_new(
        self,
        store: TextStore,
        old: Path | None,
        made_with: Mapping[str, Any],
        step: int,
        encode: Encode,
    ) -> list[Path]:
        """Encode the passages that the old engine lacks, in steps: their files."""
        start = 0 if old is None else count_of(self._read(old)["parts"])
        settings = [made_with.get(name) for name in ("encoded_by", "passage_prefix", "similarity")]
        steps = (
            store.path.parent
            / f".{self.KIND}.steps"
            / digest(json.dumps([*settings, store.parts, start])).hex()
        )
        return encode_steps(steps, store, start, step, encode)

    def _check_settings(self, made_with: Mapping[str, Any]) -> None:
        described = self._read(self._folder())
        for name, value in made_with.items():
            if name not in NOT_COMPARED and described[name] != value:
                there = f"{self.path} holds an index with {name} {described[name]!r}, not {value!r}"
                raise UsageError(f"{there}: remove it, or give a new path")

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
            write_json(
                folder / PT_META, self._about()
            )  # the folder's own one may be of another index
            (folder / opened.folder.name).mkdir()
            packed = [
                opened.folder / file for file in (DESCRIPTION, *opened.described["files"])
            ] + [Path(self.path) / TEXTS] * texts
            for path in packed:
                (folder / path.relative_to(self.path)).symlink_to(path.absolute())
            return pt.Artifact(name).build_package(
                package_path or f"{self.path}.tar.lz4", **options
            )

    def _about(self) -> dict[str, str]:
        return {
            "type": self.ARTIFACT_TYPE,
            "format": self.ARTIFACT_FORMAT,
            "package_hint": self.ARTIFACT_PACKAGE_HINT,
        }

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}  # an open index can't be sent to another process

    def _arguments(self) -> dict[str, Any]:
        arguments = {
            "path": self.path,
            "model": self.model,
            "text": self.text,
            "query_model": self.query_model,
        }
        return {name: value for name, value in arguments.items() if value is not None}

    def __repr__(self) -> str:
        given = self._arguments()
        shown = [repr(given.pop(name)) for name in ("path", "model") if name in given]
        return f"ikat.{type(self).__name__}({', '.join(shown + [f'{name}={value!r}' for name, value in given.items()])})"

    def __eq__(self, other: object) -> bool:
        return (
            self._arguments() == other._arguments()
            if isinstance(other, type(self))
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash((type(self), *self._arguments().items()))


def engine_folder(path: str | Path, kind: str) -> Path | None:
    """The folder of the engine of a kind that has the most passages; None if there is none."""
    sizes = ((found, found.name.removeprefix(f"{kind}-")) for found in Path(path).glob(f"{kind}-*"))
    return max(
        ((int(size), found) for found, size in sizes if size.isdecimal()), default=(0, None)
    )[1]


def made_by_pyterrier(folder: Path) -> bool:
    """Whether the index in a folder was made by PyTerrier, not by this package."""
    of_ours = any((folder / name).exists() for name in (DESCRIPTION, TEXTS)) or any(
        folder.glob(f"*-*/{DESCRIPTION}")
    )
    return any((folder / name).exists() for name in PYTERRIER_META) and not of_ours


@with_fields
class PassageText(Operator):
    """Adds the column ``text`` by ``docno``, from the texts kept in an index; ``PassageIndex.text_loader()`` makes it.

    Rows, their order and all other columns are unchanged. Rows of the same passage share one
    string.

    Args:
        index: the index with the texts.

    Raises:
        DataError: when passages aren't in the index; it names them.
    """

    schematic = {"label": "Passage text"}

    index: IndexArtifact

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Add ``text`` to a frame with ``docno``."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        return inp.assign(
            text=pd.Series(
                self.index.texts(inp["docno"].tolist()) if len(inp) else [],
                index=inp.index,
                dtype=object,
            )
        )

    def __repr__(self) -> str:
        return f"{self.index!r}.text_loader()"


def write_json(path: Path, content: Any) -> None:
    """Write JSON into a file."""
    with atomic_write(path) as file:
        json.dump(content, file, indent=1)
