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
from .passage_fields import LINE, CollectionWarning, Unread, read_fields

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.bz2")
JSON_SUFFIXES = (".json", ".json.gz", ".json.bz2")
"""Of files with one passage, an array of them, or one on each line, as Anserini's JsonCollection.java reads them."""
PASSAGES = tuple(f"passages{suffix}" for suffix in SUFFIXES)
"""The passages of a folder that has topics and qrels as well."""
OF_BEIR = tuple(f"corpus{suffix}" for suffix in SUFFIXES)
"""The passages of a folder of BEIR, which has queries.jsonl as well."""
NO_PASSAGES = ("topics.jsonl", "topics.json")
TABLES = {
    ".tsv": "pd.read_csv(FILE, sep='\\t', names=['docno', 'text'])",
    ".csv": "pd.read_csv(FILE)",
    ".parquet": "pd.read_parquet(FILE)",
}
"""Suffix of a file of another kind -> how to read it as a frame, which every index takes."""
FIELDS = ("text", "url")
Fields = str | Sequence[str]
"""What PyTerrier's ``text_loader`` takes: ``"*"`` for all fields, the name of one, or a list of names."""


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
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "passages.jsonl"
        >>> _ = path.write_text('{"doc_id": "clueweb22-en0000-32-08101", "passage_id": "4", "passage_text": "Email works. "}')
        >>> list(read_passages(path))
        [{'docno': 'clueweb22-en0000-32-08101:4', 'text': 'Email works.', 'url': ''}]
    """
    path, number = Path(path), 0
    is_array = path.name.endswith(JSON_SUFFIXES)
    unit = "passage" if is_array else "line"
    unread = Unread(str(path))
    try:
        opened: Any = {".gz": gzip.open, ".bz2": bz2.open, ".zip": _open_zipped}.get(
            path.suffix, open
        )
        with opened(path, "rt", encoding="utf-8-sig") as file:
            items = _of_array(file.read()) if is_array else file
            for number, item in enumerate(items, 1):
                if isinstance(item, str) and not item.strip():
                    continue
                passage, names = read_fields(load_json(item) if isinstance(item, str) else item)
                unread.tell(f"{unit} {number}", names)
                yield {**passage, "text": passage["text"].strip()}
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}, after {unit} {number}: can't be read ({error}); if the file is cut short, fetch it again"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}, {unit} {number}: not a passage ({error}); {LINE}, or the file is cut short: fetch it again"
        ) from None


def _of_array(text: str) -> Sequence[Any]:
    """The items of a JSON text: those of its array, or its only one; its lines where it is no JSON as a whole."""
    try:
        found = load_json(text)
    except ValueError:
        return text.split("\n")
    return found if isinstance(found, list) else [found]


def load_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: when it is not JSON, or has half of a character (a lone surrogate), which no
            file can contain.
    """
    found = json.loads(text)
    if "\\ud" in text.lower():
        json.dumps(found, ensure_ascii=False).encode()
    return found


def collection_files(folder: str | Path) -> list[Path]:
    """The passage files of ``folder``, by name; empty if there are none or the folder doesn't exist.

    A folder with ``passages.jsonl`` (or ``.gz``, ``.bz2``) is a collection with topics and qrels,
    and only this file has passages. So is a folder of BEIR with ``corpus.jsonl``. Files ``.json``
    are read where there are no others.

    Warns:
        CollectionWarning: when files ``.json`` are left out because of others.

    Raises:
        DataError: when it has several files of this name.
    """
    folder = Path(folder)
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    of_collection = [path for path in there if path.name in PASSAGES + OF_BEIR]
    if len(of_collection) > 1:
        raise DataError(
            f"{folder} has {' and '.join(path.name for path in of_collection)}: keep one of them"
        )
    if of_collection:
        return of_collection
    lines = [
        path for path in there if path.name.endswith(SUFFIXES) and path.name not in NO_PASSAGES
    ]
    arrays = [
        path for path in there if path.name.endswith(JSON_SUFFIXES) and path.name not in NO_PASSAGES
    ]
    if lines and arrays:
        message = f"{folder}: {list_first([path.name for path in arrays])} not read, beside {lines[0].name}: name the files to read them"
        warnings.warn(message, CollectionWarning, stacklevel=3)
    return lines or arrays


class TextLoader(Operator):
    """Adds the text of each passage by its ``docno``, from a passage file that fits in memory.

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
        >>> _ = path.write_text('{"id": "d1:0", "contents": "Rooibos has no caffeine.", "url": "https://example.org"}')
        >>> TextLoader(path)(pd.DataFrame({"qid": ["1_1"], "docno": ["d1:0"]})).values.tolist()
        [['1_1', 'd1:0', 'Rooibos has no caffeine.']]
    """

    schematic = {"label": "Text loader", "help_url": ""}

    def __init__(self, path: str | Path, fields: Fields = ("text",)):
        self.path = str(path)
        self.fields = fields_named(fields, FIELDS)

    @cached_property
    def all(self) -> Mapping[str, Mapping[str, str]]:
        """The fields of all passages, by docno."""
        passages: dict[str, dict[str, str]] = {}
        for passage in read_passages(self.path):
            if passage["docno"] in passages:
                raise DataError(
                    f"{self.path}: the passage {passage['docno']} occurs twice; keep one of the two"
                )
            passages[passage["docno"]] = passage
        return passages

    def passages(self, docnos: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """The fields of these passages, by docno, without those that aren't there."""
        return self.all

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Add the fields to ``inp``."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        passages = self.passages(set(inp["docno"])) if len(inp) else {}
        missing = [docno for docno in dict.fromkeys(inp["docno"]) if docno not in passages]
        if missing:
            what = f"lacks {len(missing)} of the passages to load ({list_first(missing)})"
            raise DataError(f"{self.path} {what}; load texts from the collection that was searched")
        return with_columns(
            inp, **{name: [passages[docno][name] for docno in inp["docno"]] for name in self.fields}
        )


def fields_named(fields: Fields, known: Sequence[str]) -> tuple[str, ...]:
    """The names of the fields to load, one of ``known`` each.

    Args:
        fields: ``"*"`` for all of them, the name of one, or a list of names.
        known: the fields that there are.

    Raises:
        UsageError: for an unknown field.

    Example:
        >>> fields_named("*", ["text", "url"]), fields_named("text", ["text", "url"])
        (('text', 'url'), ('text',))
    """
    asked = (
        tuple(known) if fields == "*" else (fields,) if isinstance(fields, str) else tuple(fields)
    )
    if unknown := [name for name in asked if name not in known]:
        raise UsageError(
            f"passages have no field {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, known))}"
        )
    return asked


def _open_zipped(path: Path, mode: str, encoding: str) -> IO[str]:
    with zipfile.ZipFile(path) as packed:
        (name,) = (
            name
            for name in packed.namelist()
            if name.endswith(".jsonl") and not name.startswith("__MACOSX/")
        )
        return io.TextIOWrapper(packed.open(name), encoding)  # stays open behind the block


class PassageFiles:
    """The passages of JSON files (``.jsonl`` or ``.json``, also with ``.gz`` or ``.bz2``), which can be streamed any number of times.

    The text of a passage is its title, if it has one, and its body; see :func:`read_passages`.

    Args:
        source: a folder (its passage files are read in the order of their names), a file, or a list
            of files in the order of reading.

    Raises:
        DataError: when there is no passage file; while iterating, when one is truncated or
            malformed (the message names file and line).

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "a.jsonl").write_text('{"id": "d1:0", "contents": "Rooibos has no caffeine.", "url": ""}')
        >>> list(PassageFiles(folder))
        [{'docno': 'd1:0', 'text': 'Rooibos has no caffeine.', 'url': ''}]
    """

    def __init__(self, source: str | Path | Sequence[str | Path]) -> None:
        self.files = _files(source)

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Stream ``{"docno", "text", "url"}``."""
        for file in self.files:
            yield from read_passages(file)


def _files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    give = "give the folder with the collection's files, or the files"
    if isinstance(source, str | Path):
        folder = Path(source)
        source = collection_files(folder) if folder.is_dir() else [folder]
        if not source:
            raise DataError(
                f"{folder}: no passages ({', '.join('*' + suffix for suffix in SUFFIXES)}) there{_tables_in(folder)}; {give}"
            )
    if not source:
        raise DataError(f"the list of passage files is empty; {give}")
    files = [Path(file) for file in source]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: no such file; {give}")
        if (advised := _as_frame(file)) is not None:
            raise DataError(f"{file}: passages are read from JSON; {advised}")
    return files


def _tables_in(folder: Path) -> str:
    for path in sorted(folder.iterdir()):
        if (advised := _as_frame(path)) is not None:
            return f" ({advised})"
    return ""


def _as_frame(path: Path) -> str | None:
    """How to index a file with a table; None for another file."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in TABLES:
        return None
    return f"in Python, index a frame with docno and text, such as {TABLES[suffix].replace('FILE', repr(path.name))}"
