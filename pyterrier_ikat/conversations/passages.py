"""Passages of a collection: their files, and their texts by docno."""

import bz2
import gzip
import io
import json
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, list_first
from ..operator import Operator
from .frame import with_columns
from .passage_fields import PASSAGE_FORMS, CollectionWarning, Unread, read_fields

LINES_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.bz2")
JSON_SUFFIXES = (".json", ".json.gz", ".json.bz2")
"""Of files with one passage, an array of them, or one on each line, as Anserini's
JsonCollection.java reads them."""
PASSAGES_FILES = tuple(f"passages{suffix}" for suffix in LINES_SUFFIXES)
"""The passages of a folder that has topics and qrels as well."""
BEIR_PASSAGES = tuple(f"corpus{suffix}" for suffix in LINES_SUFFIXES)
"""The passages of a folder of BEIR, which has queries.jsonl as well."""
TOPICS_FILES = ("topics.jsonl", "topics.json")
TABLE_READERS = {
    ".tsv": "pd.read_csv(FILE, sep='\\t', names=['docno', 'text'])",
    ".csv": "pd.read_csv(FILE)",
    ".parquet": "pd.read_parquet(FILE)",
}
"""Suffix of a file of another kind -> how to read it as a frame, which every index takes."""
PASSAGE_FIELDS = ("text", "url")
Fields = str | Sequence[str]
"""What PyTerrier's ``text_loader`` takes: ``"*"`` for all fields, the name of one, or a list of
names."""


def read_passages(path: str | Path) -> Iterator[dict[str, str]]:
    """Stream the passages of one JSON file.

    The text of a passage is its title, if it has one, and its body;
    :mod:`pyterrier_ikat.conversations.passage_fields` lists the fields.

    Args:
        path: a ``.jsonl`` file with a passage on each line, or a ``.json`` file with one passage or
            an array of them; also packed as ``.gz``, ``.bz2`` or, alone, as ``.zip``.

    Yields:
        ``{"docno", "text", "url"}``; white space around the text is removed, and ``url`` is empty
        if the file has none.

    Warns:
        CollectionWarning: once for each field that nothing reads.

    Raises:
        DataError: when there is no such file, it is truncated or not JSON, or a field is missing.
            The message names file and line.

    Example:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "passages.jsonl"
        >>> passage = {"doc_id": "en0000", "passage_id": "4", "passage_text": "Email works. "}
        >>> _ = path.write_text(json.dumps(passage))
        >>> list(read_passages(path))
        [{'docno': 'en0000:4', 'text': 'Email works.', 'url': ''}]
    """
    path = Path(path)
    number = 0
    is_array = path.name.endswith(JSON_SUFFIXES)
    unit = "passage" if is_array else "line"
    unread = Unread(str(path))
    try:
        with _open_text(path) as file:
            items = _items_of_json(file.read()) if is_array else file
            for number, item in enumerate(items, 1):
                if isinstance(item, str):
                    if not item.strip():
                        continue
                    item = load_json(item)
                passage, names = read_fields(item)
                unread.tell(f"{unit} {number}", names)
                passage["text"] = passage["text"].strip()
                yield passage
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, UnicodeDecodeError) as error:
        repair = "if the file is cut short, fetch it again"
        raise DataError(
            f"{path}, after {unit} {number}: can't be read ({error}); {repair}"
        ) from None
    except (ValueError, RecursionError) as error:
        repair = f"{PASSAGE_FORMS}, or the file is cut short: fetch it again"
        raise DataError(f"{path}, {unit} {number}: not a passage ({error}); {repair}") from None


def _open_text(path: Path) -> IO[str]:
    if path.suffix == ".zip":
        return _open_zipped(path)
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    if path.suffix == ".bz2":
        return bz2.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _open_zipped(path: Path) -> IO[str]:
    with zipfile.ZipFile(path) as packed:
        names = []
        for name in packed.namelist():
            if name.endswith(".jsonl") and not name.startswith("__MACOSX/"):
                names.append(name)
        if len(names) != 1:
            content = list_first(names) or "none"
            raise DataError(
                f"{path} needs one file of passages (.jsonl) in it, and has {content}: "
                "unpack it, and give the file or the folder"
            )
        return io.TextIOWrapper(packed.open(names[0]), "utf-8-sig")  # stays open behind the block


def _items_of_json(text: str) -> Sequence[Any]:
    """Return the items of a JSON text: those of its array, or its only one.

    A text that is no JSON as a whole has an item on each line.
    """
    try:
        value = load_json(text)
    except ValueError:
        return text.split("\n")
    return value if isinstance(value, list) else [value]


def load_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: when it is not JSON, or has half of a character (a lone surrogate), which no
            file can contain.
    """
    value = json.loads(text)
    if "\\ud" in text.lower():
        json.dumps(value, ensure_ascii=False).encode()
    return value


def collection_files(folder: str | Path) -> list[Path]:
    """Return the passage files of ``folder``, by name.

    There are none if the folder doesn't exist. A folder with ``passages.jsonl`` (or ``.gz``,
    ``.bz2``) is a collection with topics and qrels, and only this file has passages. So is a folder
    of BEIR with ``corpus.jsonl``. Files ``.json`` are read where there are no others.

    Warns:
        CollectionWarning: when files ``.json`` are left out because of others.

    Raises:
        DataError: when it has several files of this name.
    """
    folder = Path(folder)
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    of_collection = [path for path in paths if path.name in PASSAGES_FILES + BEIR_PASSAGES]
    if len(of_collection) > 1:
        names = " and ".join(path.name for path in of_collection)
        raise DataError(f"{folder} has {names}: keep one of them")
    if of_collection:
        return of_collection
    paths = [path for path in paths if path.name not in TOPICS_FILES]
    lines = [path for path in paths if path.name.endswith(LINES_SUFFIXES)]
    arrays = [path for path in paths if path.name.endswith(JSON_SUFFIXES)]
    if lines and arrays:
        left_out = list_first([path.name for path in arrays])
        message = f"{folder}: {left_out} not read, beside {lines[0].name}"
        warnings.warn(f"{message}: name the files to read them", CollectionWarning, stacklevel=3)
    return lines or arrays


class TextLoader(Operator):
    """Adds the text of each passage by its ``docno``, from a passage file held in memory.

    Args:
        path: the JSON lines file of the passages (``ikat:sample``, ``ikat:2023-mini``, or your
            own), read at first use.
        fields: the columns to add: ``"text"``, ``"url"``, a list of both, or ``"*"`` for all.

    Needs ``docno``; adds the fields as object columns and keeps everything else, row by row.

    Raises:
        UsageError: for an unknown field.
        DataError: when a docno isn't in the file or is in it twice, or the file can't be read.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "passages.jsonl"
        >>> _ = path.write_text('{"id": "d1:0", "contents": "Rooibos has no caffeine."}')
        >>> TextLoader(path)(pd.DataFrame({"qid": ["1_1"], "docno": ["d1:0"]})).values.tolist()
        [['1_1', 'd1:0', 'Rooibos has no caffeine.']]
    """

    schematic = {"label": "Text loader", "help_url": ""}

    def __init__(self, path: str | Path, fields: Fields = ("text",)):
        self.path = str(path)
        self.fields = fields_named(fields, PASSAGE_FIELDS)

    @cached_property
    def all(self) -> Mapping[str, Mapping[str, str]]:
        """The fields of all passages, by docno."""
        passages: dict[str, dict[str, str]] = {}
        for passage in read_passages(self.path):
            docno = passage["docno"]
            if docno in passages:
                raise DataError(
                    f"{self.path}: the passage {docno} occurs twice; keep one of the two"
                )
            passages[docno] = passage
        return passages

    def passages(self, docnos: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the fields of the existing ones of these passages, by docno."""
        return self.all

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Add the fields to ``inp``."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        passages = self.passages(set(inp["docno"])) if len(inp) else {}
        missing = [docno for docno in dict.fromkeys(inp["docno"]) if docno not in passages]
        if missing:
            lacks = f"lacks {len(missing)} of the passages to load ({list_first(missing)})"
            repair = "load texts from the collection that was searched"
            raise DataError(f"{self.path} {lacks}; {repair}")
        columns = {}
        for name in self.fields:
            columns[name] = [passages[docno][name] for docno in inp["docno"]]
        return with_columns(inp, **columns)


def fields_named(fields: Fields, known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the fields to load, each one of ``known``.

    Args:
        fields: ``"*"`` for all of them, the name of one, or a list of names.
        known: the existing fields.

    Raises:
        UsageError: for an unknown field.

    Example:
        >>> fields_named("*", ["text", "url"]), fields_named("text", ["text", "url"])
        (('text', 'url'), ('text',))
    """
    if fields == "*":
        return tuple(known)
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    unknown = [repr(name) for name in names if name not in known]
    if unknown:
        existing = ", ".join(map(repr, known))
        raise UsageError(f"passages have no field {', '.join(unknown)}; there are {existing}")
    return names


class PassageFiles:
    """The passages of JSON files, streamed any number of times.

    Files are ``.jsonl`` or ``.json``, also with ``.gz`` or ``.bz2``. The text of a passage is its
    title, if it has one, and its body; see :func:`read_passages`.

    Args:
        source: a folder (its passage files are read in the order of their names), a file, or a list
            of files in the order of reading.

    Raises:
        DataError: when there is no passage file; while iterating, when one is truncated or
            malformed (the message names file and line).

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> passage = '{"id": "d1:0", "contents": "Rooibos has no caffeine.", "url": ""}'
        >>> _ = (folder / "a.jsonl").write_text(passage)
        >>> list(PassageFiles(folder))
        [{'docno': 'd1:0', 'text': 'Rooibos has no caffeine.', 'url': ''}]
    """

    def __init__(self, source: str | Path | Sequence[str | Path]) -> None:
        self.files = _passage_files(source)

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Stream ``{"docno", "text", "url"}``."""
        for file in self.files:
            yield from read_passages(file)


def _passage_files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    repair = "give the folder with the collection's files, or the files"
    if not isinstance(source, str | Path):
        files = [Path(file) for file in source]
        if not files:
            raise DataError(f"the list of passage files is empty; {repair}")
    elif Path(source).is_dir():
        files = collection_files(source)
        if not files:
            suffixes = ", ".join(f"*{suffix}" for suffix in LINES_SUFFIXES)
            table = _advice_for_folder(Path(source))
            raise DataError(f"{source}: no passages ({suffixes}) there{table}; {repair}")
    else:
        files = [Path(source)]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: no such file; {repair}")
        advised = _advice_for_table(file)
        if advised is not None:
            raise DataError(f"{file}: passages are read from JSON; {advised}")
    return files


def _advice_for_folder(folder: Path) -> str:
    for path in sorted(folder.iterdir()):
        advised = _advice_for_table(path)
        if advised is not None:
            return f" ({advised})"
    return ""


def _advice_for_table(path: Path) -> str | None:
    """Tell how to index a file with a table; None for another file."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in TABLE_READERS:
        return None
    reader = TABLE_READERS[suffix].replace("FILE", repr(path.name))
    return f"in Python, index a frame with docno and text, such as {reader}"
