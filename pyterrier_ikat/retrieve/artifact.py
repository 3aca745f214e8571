"""An index on disk: a PyTerrier artifact with a description that is checked, and the texts of its passages by docno."""

import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyterrier as pt

from ..errors import DataError, advice
from ..operator import Operator
from ..store.files import atomic_write, point_to, write_description
from .eager import read_docnos as read_eager_docnos
from .pisa import read_docnos
from .state import WatchedFolder
from .texts import TextStore

FORMAT = 2
"""Of the descriptions."""
PISA, EAGER, TEXTS, PT_META = "pisa", "eager", "texts.lz4", "pt_meta.json"
SPLADE_META, PYTERRIER_META = "ikat_splade.json", (PT_META, "pt_pisa_config.json")
BM25_META, DENSE_META = "ikat_index.json", "ikat_dense.json"
OURS = (BM25_META, SPLADE_META, DENSE_META)
"""The descriptions of indexes; a folder may have several."""


class IndexArtifact(WatchedFolder, pt.Artifact):
    """Base of every index: a folder, its description, and the texts of its passages.

    A subclass names its description file (``META``), reads it in :meth:`_read_description`, and gives a retriever.

    Args:
        path: the folder.
        text: an operator that adds ``text`` by ``docno``, instead of the texts in the index.
    """

    ARTIFACT_TYPE = "sparse_index"
    ARTIFACT_FORMAT: ClassVar[str]
    ARTIFACT_PACKAGE_HINT = "pyterrier_ikat"
    path: str  # type: ignore[assignment]  # as it was given
    META: ClassVar[str]

    def __init__(self, path: str | Path, text: pt.Transformer | None) -> None:
        super().__init__(str(path))
        self.path = str(path)
        self.text = text

    @property
    def pisa(self) -> Path:
        """The folder of PISA's files."""
        return Path(self.path) / PISA

    @property
    def eager(self) -> Path:
        """The folder of the eager engine's files."""
        return Path(self.path) / EAGER

    @property
    def engines(self) -> list[str]:
        """The engines that the index has files of: ``"eager"``, ``"pisa"`` or both."""
        return self.look().engines

    def _engines_in(self, files: Collection[str]) -> list[str]:
        there = {"eager": self.eager / "impacts.npy", "pisa": self.pisa / "inv.docs"}
        return [engine for engine, file in there.items() if file.relative_to(self.path).as_posix() in files]

    def warm_up(self) -> None:
        """Load in advance what the first search needs; by default nothing."""

    @property
    def has_text(self) -> bool:
        """Whether its retrievers return the passages' text."""
        return self.text is not None or self._text_store() is not None

    def _text_store(self) -> TextStore | None:
        """The texts in the index, if it has any."""
        state = self.look().states.get(TEXTS)
        return None if state is None else TextStore(Path(self.path) / TEXTS, state)

    def texts(self, docnos: Sequence[str]) -> list[str]:
        """The passages' text as it was indexed, in the order of ``docnos``.

        Raises:
            DataError: when docnos aren't in the index (it names them), or the index has no texts.
        """
        if (store := self._text_store()) is None:
            opened = f"ikat.{type(self).__name__}(..., text=ikat.TextLoader(path))"
            raise DataError(f"the index {self.path} has no texts: give {advice(opened, '--resources texts=PASSAGE_INDEX')}")
        return store.read(docnos)

    def text_loader(self) -> "PassageText":
        """An operator that adds ``text`` by ``docno``; see :class:`PassageText`."""
        return PassageText(self)

    def with_text(self, found: pd.DataFrame) -> pd.DataFrame:
        """``found`` with the column ``text``; unchanged if the index has neither texts nor a loader."""
        if self.text is not None:
            return self.text.transform(found)
        store = self._text_store()
        return found if store is None else add_texts(found, store.read)

    def docnos(self, among: Sequence[str]) -> Iterator[str]:
        """Those of the docnos ``among`` that are in the index. They are looked up lazily."""
        if (store := self._text_store()) is not None:
            return store.docnos(among)
        there = read_eager_docnos(self.eager) if "eager" in self.engines else read_docnos(self.pisa)
        return filter(frozenset(among).__contains__, there)

    def build_package(
        self,
        package_path: str | None = None,
        *,
        texts: bool = False,
        max_file_size: float | None = None,
        metadata_out: dict[str, Any] | None = None,
        verbose: bool = True,
    ) -> str:
        """Build a package of the index: one file that ``pt.Artifact.from_url`` opens anywhere.

        Args:
            package_path: the file to make; by default the folder's name with ``.tar.lz4``.
            texts: also pack the passages' texts. The license of a collection such as ClueWeb22 forbids sharing them. An index without texts
                gets them from ``text=...``, or from ``--resources texts=...`` on the command line.
            max_file_size: the number of bytes above which the package is cut into several files.
            metadata_out: a dict to which the package's metadata are added.
            verbose: print the packed files.

        Returns:
            The file.

        Raises:
            DataError: when the index is incomplete, or ``texts`` is true and it has none.
        """
        if texts and self._text_store() is None:
            raise DataError(f"the index {self.path} has no texts to pack: omit texts=True")
        with tempfile.TemporaryDirectory() as folder:
            self._stage(Path(folder), [name for name in self.describe()["files"] if texts or name != TEXTS])
            return pt.Artifact(folder).build_package(
                package_path or f"{self.path}.tar.lz4", max_file_size=max_file_size, metadata_out=metadata_out, verbose=verbose
            )

    def _stage(self, folder: Path, names: Sequence[str]) -> None:
        """Lay out the content of a package: links to files of the index, and a description of these files only."""
        there = Path(self.path).absolute()
        _write_json(folder / PT_META, self._kind())  # the folder's own one may be of another index
        for name in names:
            if name == PT_META:
                continue
            (folder / name).parent.mkdir(exist_ok=True)
            if (there / name).exists():
                point_to(there / name, folder / name)
        if (there / self.META).exists():
            described = json.loads((there / self.META).read_text(encoding="utf-8"))
            parts = {part: {name: described[part][name] for name in names if name in described[part]} for part in ("files", "checks")}
            _write_json(folder / self.META, described | parts)

    def write_meta(self, folder: Path, fields: dict[str, Any], texts: Path | None = None) -> None:
        """Write the description of an index that is complete in ``folder``, and the metadata that PyTerrier reads of an artifact.

        Args:
            folder: the folder in which it is built.
            fields: the description.
            texts: the texts of the folder, when the index is added to one that is already an artifact.
        """
        if texts is None:
            _write_json(folder / PT_META, self._kind())
        write_description(folder / self.META, fields, [] if texts is None else [texts])

    def _kind(self) -> dict[str, str]:
        return {"type": self.ARTIFACT_TYPE, "format": self.ARTIFACT_FORMAT, "package_hint": self.ARTIFACT_PACKAGE_HINT}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_seen": None, "promised": None}  # another machine reads the state itself

    def __len__(self) -> int:
        return int(self.describe()["count"])

    def _identity(self) -> tuple[Any, ...]:
        """The arguments in their order; ``text`` is the last one."""
        return (self.path, self.text)

    def __repr__(self) -> str:
        *given, text = self._identity()
        shown = [repr(value) for value in given if value is not None] + ([] if text is None else [f"text={text!r}"])
        return f"ikat.{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self._identity()))


class PassageText(Operator):
    """Adds the column ``text`` by ``docno``, from the texts kept in an index; ``PassageIndex.text_loader()`` makes it.

    Rows, their order and all other columns are unchanged. Rows of the same passage share one string.

    Args:
        index: the index with the texts.

    Raises:
        DataError: when passages aren't in the index; it names them.
    """

    schematic = {"label": "Passage text"}

    def __init__(self, index: IndexArtifact) -> None:
        super().__init__()
        self.index = index

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Add ``text`` to a frame with ``docno``."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        return self.index.of_one_state(lambda _: add_texts(inp, self.index.texts))

    def __repr__(self) -> str:
        return f"{self.index!r}.text_loader()"


def add_texts(frame: pd.DataFrame, texts: Callable[[list[str]], list[str]]) -> pd.DataFrame:
    """``frame`` with the column ``text`` by ``docno``, taken from ``texts``."""
    found = texts(frame["docno"].tolist()) if len(frame) else []
    return frame.assign(text=pd.Series(found, index=frame.index, dtype=object))


def _write_json(path: Path, content: Any) -> None:
    with atomic_write(path) as file:
        json.dump(content, file, indent=1)


def made_by_pyterrier(folder: Path) -> bool:
    """Whether the index in a folder was made by PyTerrier, not by this package."""
    return any((folder / name).exists() for name in PYTERRIER_META) and not any((folder / name).exists() for name in OURS)
