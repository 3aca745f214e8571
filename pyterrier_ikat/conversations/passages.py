"""Passages of a collection: their files, and their texts by docno."""

import bz2
import gzip
import io
import json
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

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.bz2")
PASSAGES = tuple(f"passages{suffix}" for suffix in SUFFIXES)
"""The passages of a folder that has topics and qrels as well."""
FIELDS = ("text", "url")
Fields = str | Sequence[str]
"""What PyTerrier's ``text_loader`` takes: ``"*"`` for all fields, the name of one, or a list of names."""
LINE = (
    'a line is {"docno": ..., "text": ...}, {"id": ..., "contents": ..., "url": ...} '
    'or {"doc_id": ..., "passage_id": ..., "passage_text": ...}'
)


def read_passages(path: str | Path) -> Iterator[dict[str, str]]:
    """Stream the passages of one JSON lines file.

    Args:
        path: a ``.jsonl`` file, or one packed as ``.gz``, ``.bz2`` or, alone, as ``.zip``.

    Yields:
        ``{"docno", "text", "url"}``; white space around the text is removed, and ``url`` is empty if the file has none.

    Raises:
        DataError: when there is no such file, it is truncated or not JSON, or a field is missing. The message names file and line.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "passages.jsonl"
        >>> _ = path.write_text('{"doc_id": "clueweb22-en0000-32-08101", "passage_id": "4", "passage_text": "Email works. "}')
        >>> list(read_passages(path))
        [{'docno': 'clueweb22-en0000-32-08101:4', 'text': 'Email works.', 'url': ''}]
    """
    path, number = Path(path), 0
    try:
        opened: Any = {".gz": gzip.open, ".bz2": bz2.open, ".zip": _open_zipped}.get(path.suffix, open)
        with opened(path, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):  # noqa: B007 - the errors below name the line
                if not line.strip():
                    continue
                item = load_json(line)
                fields = item if isinstance(item, dict) else {}
                in_parts = f"{fields.get('doc_id', '')}:{fields.get('passage_id', '')}"
                docno = next((fields[name] for name in ("id", "docno", "_id") if name in fields), in_parts)
                text, url = fields.get("contents", fields.get("text", fields.get("passage_text"))), fields.get("url") or ""
                if not isinstance(docno, str) or len(docno.split()) != 1 or docno[0] == ":" or docno[-1] == ":":
                    raise ValueError(f"no passage id in the fields {', '.join(fields) or 'none'}")
                if not isinstance(text, str) or not isinstance(url, str):
                    raise ValueError(f"passage {docno} has no text")
                yield {"docno": docno, "text": text.strip(), "url": url}
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise DataError(f"{path}, after line {number}: can't be read ({error}); if the file is cut short, fetch it again") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not a passage ({error}); {LINE}, or the file is cut short: fetch it again") from None


def load_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: when it is not JSON, or has half of a character (a lone surrogate), which no file can contain.
    """
    found = json.loads(text)
    if "\\ud" in text.lower():
        json.dumps(found, ensure_ascii=False).encode()
    return found


def collection_files(folder: str | Path) -> list[Path]:
    """The passage files of ``folder``, by name; empty if there are none or the folder doesn't exist.

    A folder with ``passages.jsonl`` (or ``.gz``, ``.bz2``) is a collection with topics and qrels, and only this file has passages.

    Raises:
        DataError: when it has several files of this name.
    """
    folder = Path(folder)
    found = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIXES)) if folder.is_dir() else []
    of_collection = [path for path in found if path.name in PASSAGES]
    if len(of_collection) > 1:
        raise DataError(f"{folder} has {' and '.join(path.name for path in of_collection)}: keep one of them")
    return of_collection or [path for path in found if path.name != "topics.jsonl"]


class TextLoader(Operator):
    """Adds the text of each passage by its ``docno``, from a passage file that fits in memory.

    Args:
        path: the JSON lines file of the passages (``ikat:sample``, ``ikat:2023-mini``, or your own), read at first use.
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
                raise DataError(f"{self.path}: the passage {passage['docno']} occurs twice; keep one of the two")
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
        return with_columns(inp, **{name: [passages[docno][name] for docno in inp["docno"]] for name in self.fields})


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
    asked = tuple(known) if fields == "*" else (fields,) if isinstance(fields, str) else tuple(fields)
    if unknown := [name for name in asked if name not in known]:
        raise UsageError(f"passages have no field {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, known))}")
    return asked


def _open_zipped(path: Path, mode: str, encoding: str) -> IO[str]:
    with zipfile.ZipFile(path) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".jsonl") and not name.startswith("__MACOSX/"))
        return io.TextIOWrapper(packed.open(name), encoding)  # stays open behind the block


class PassageFiles:
    """The passages of JSON lines files (``.jsonl``, ``.jsonl.gz``, ``.jsonl.bz2``), which can be streamed any number of times.

    Args:
        source: a folder (its passage files are read in the order of their names), a file, or a list of files in the order of reading.

    Raises:
        DataError: when there is no passage file; while iterating, when one is truncated or malformed (the message names file and line).

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
    if isinstance(source, str | Path):
        source = collection_files(source) if Path(source).is_dir() else [source]
    if not source or (missing := [str(file) for file in source if not Path(file).is_file()]):
        what = f"{missing[0]}: no such file" if source else f"no passages ({', '.join('*' + suffix for suffix in SUFFIXES)}) there"
        raise DataError(f"{what}; give the folder with the collection's files, or the files")
    return [Path(file) for file in source]
