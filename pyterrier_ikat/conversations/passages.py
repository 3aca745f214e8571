"""Passages of a collection: their files, their texts by docno, and the splitting of raw documents as for the track's collection."""

import bz2
import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyterrier as pt

from ..arguments import checked
from ..errors import DataError, UsageError, list_first
from ..operator import Operator
from .frame import with_columns
from .json_files import half_character

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.bz2")
PASSAGES = tuple(f"passages{suffix}" for suffix in SUFFIXES)
"""The passages of a folder that has topics and qrels as well."""
FIELDS = ("text", "url")
CHARACTERS = 10_000
"""The number of a document's first characters that the track split into passages."""

Sentences = Callable[[str], Iterable[str]]


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
    path = Path(path)
    number = 0
    try:
        with open_lines(path) as lines:
            for number, line in enumerate(lines, 1):  # noqa: B007 - the error below names the line
                if line.strip():
                    yield _passage(path, number, line)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give a JSON lines file of passages") from None
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}, after line {number}: can't be read on ({error}); the file is damaged or cut short, fetch it again"
        ) from None


def load_passages(path: str | Path) -> dict[str, dict[str, str]]:
    """All passages of a file that fits in memory, by docno.

    Raises:
        DataError: like :func:`read_passages`, and when the file is empty or has a docno twice.
    """
    passages: dict[str, dict[str, str]] = {}
    for passage in read_passages(path):
        if passage["docno"] in passages:
            raise DataError(f"{path}: the passage {passage['docno']} occurs twice; keep one of the two")
        passages[passage["docno"]] = passage
    if not passages:
        raise DataError(f"{path}: no passage in it; fetch the file again")
    return passages


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
        fields: the columns to add: ``"text"``, ``"url"`` or both.

    Needs ``docno``; adds the fields as object columns and keeps everything else, row by row.

    Raises:
        UsageError: for an unknown field.
        DataError: when a docno isn't in the file, or the file can't be read.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "passages.jsonl"
        >>> _ = path.write_text('{"id": "d1:0", "contents": "Rooibos has no caffeine.", "url": "https://example.org"}')
        >>> TextLoader(path)(pd.DataFrame({"qid": ["1_1"], "docno": ["d1:0"]})).values.tolist()
        [['1_1', 'd1:0', 'Rooibos has no caffeine.']]
    """

    schematic = {"label": "Text loader", "help_url": ""}

    def __init__(self, path: str | Path, fields: Sequence[str] = ("text",)):
        if not isinstance(fields, list | tuple):
            raise UsageError(f"fields={repr(fields)[:80]}: give a list, as ['text']")
        unknown = [name for name in fields if name not in FIELDS]
        if unknown:
            raise UsageError(f"passages have no field {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, FIELDS))}")
        self.path = str(path)
        self.fields = tuple(fields)

    @cached_property
    def _passages(self) -> dict[str, dict[str, str]]:
        return load_passages(self.path)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Add the fields to ``inp``."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        passages = self._passages if len(inp) else {}
        missing = [docno for docno in dict.fromkeys(inp["docno"]) if docno not in passages]
        if missing:
            shown = list_first(missing)
            raise DataError(
                f"{self.path} lacks {len(missing)} of the passages to load ({shown}); load texts from the collection that was searched"
            )
        return with_columns(inp, **{name: [passages[docno][name] for docno in inp["docno"]] for name in self.fields})


def open_lines(path: Path) -> IO[str]:
    """Open a passage file, packed or not, to read its lines."""
    if path.suffix == ".zip":
        return _open_zipped(path)
    opened: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    return opened(path, "rt", encoding="utf-8")  # type: ignore[no-any-return]


def _open_zipped(path: Path) -> IO[str]:
    with zipfile.ZipFile(path) as packed:
        names = [name for name in packed.namelist() if name.endswith((".jsonl", ".json")) and not name.startswith("__MACOSX/")]
        if len(names) != 1:
            raise DataError(f"{path} holds {len(names)} JSON lines files ({list_first(names)}): pack one, or unpack it")
        return io.TextIOWrapper(packed.open(names[0]), encoding="utf-8")  # stays open behind the block


def _passage(path: Path, number: int, line: str) -> dict[str, str]:
    try:
        item: Any = json.loads(line.removeprefix("\ufeff") if number == 1 else line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not JSON ({error}); the file may be cut short, fetch it again") from None
    if half := half_character(line, item):
        raise DataError(f"{path}, line {number}: a text has half of a character ({half}); remove it, or save the file as UTF-8 again")
    fields = item if isinstance(item, dict) else {}
    in_parts = f"{fields.get('doc_id', '')}:{fields.get('passage_id', '')}"
    docno = next((fields[name] for name in ("id", "docno", "_id") if name in fields), in_parts)
    text, url = fields.get("contents", fields.get("text", fields.get("passage_text"))), fields.get("url") or ""
    if not isinstance(docno, str) or len(docno.split()) != 1 or docno[0] == ":" or docno[-1] == ":":
        raise DataError(f"{path}, line {number}: no passage id in the fields {', '.join(fields) or 'none'}; {_REPAIR}")
    if not isinstance(text, str) or not isinstance(url, str):
        raise DataError(f"{path}, line {number}: passage {docno} has no text; {_REPAIR}")
    return {"docno": docno, "text": text.strip(), "url": url}


_REPAIR = (
    'a line is {"docno": ..., "text": ...}, {"id": ..., "contents": ..., "url": ...} '
    'or {"doc_id": ..., "passage_id": ..., "passage_text": ...}'
)


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
        if not isinstance(source, str | Path | list | tuple):
            raise UsageError(f"source={repr(source)[:80]}: give a folder, a file, or a list of files")
        self.files = _files(source)
        self._before: list[int] = []

    def __iter__(self) -> Iterator[dict[str, str]]:
        """Stream ``{"docno", "text", "url"}``."""
        count = 0
        self._before = []
        for file in self.files:
            self._before.append(count)
            for passage in read_passages(file):
                count += 1
                yield passage

    def where(self, number: int) -> str:
        """The file and line of the passage with this number, counted from 1, among those that were read."""
        last = max(place for place, before in enumerate(self._before) if before < number)
        left = number - self._before[last]
        with open_lines(self.files[last]) as lines:
            for line, content in enumerate(lines, 1):
                left -= bool(content.strip())
                if not left:
                    return f"{self.files[last]}, line {line}"
        raise DataError(f"{self.files[last]} has changed since it was read: do not change files while they are indexed")

    def __repr__(self) -> str:
        return f"ikat.PassageFiles({[str(file) for file in self.files]!r})"


class Traced(Iterator[dict[str, str]]):
    """Passages that are iterated once and can still be traced to their places.

    Args:
        passages: the passages.
        where: gives the place of the passage with a number, counted from 1.
        total: the number of passages; 0 if it isn't known.
    """

    def __init__(self, passages: Iterable[dict[str, str]], where: Callable[[int], str] | None, total: int = 0) -> None:
        self._passages = iter(passages)
        self.where, self._total = where, total

    def __length_hint__(self) -> int:
        return self._total

    def __next__(self) -> dict[str, str]:
        return next(self._passages)


def _files(source: str | Path | Sequence[str | Path]) -> list[Path]:
    if not isinstance(source, str | Path):
        files = [Path(file) for file in source]
    else:
        files = collection_files(source) if Path(source).is_dir() else [Path(source)]
    missing = [file for file in files if not file.is_file()]
    if missing or not files:
        what = f"{missing[0]}: no such file" if missing else f"no passages ({', '.join('*' + suffix for suffix in SUFFIXES)}) in {source}"
        raise DataError(f"{what}; give the folder with the collection's files, or the files")
    return files


@checked
def chunk_documents(
    documents: Iterable[Mapping[str, Any]], sentences: Sentences | None = None, *, window: int = 10, stride: int = 5
) -> Iterator[dict[str, str]]:
    """Split documents into passages of overlapping runs of sentences.

    Only the first 10,000 characters of a document are used. A passage has ``window`` sentences, the next one begins ``stride`` sentences
    later, and the last one is the first that reaches the end. A blank document has no passages. Source: the collection in the iKAT 2023
    guidelines.

    Args:
        documents: dicts with ``docno`` and ``text``, and optionally ``url``.
        sentences: a function that splits a text into sentences. The default is the track's: spaCy's ``senter`` of ``en_core_web_sm``.
        window: the number of sentences in a passage.
        stride: the number of sentences from the beginning of one passage to that of the next, at most ``window``.

    Yields:
        ``{"docno", "text", "url"}``. A docno is ``<document>:<number from 0>``. Sentences are joined by a space.

    Raises:
        UsageError: when ``window`` or ``stride`` is out of range, or spaCy or its model isn't installed.
        DataError: when a document has no docno or text.

    Example:
        >>> document = {"docno": "d", "text": "One. Two. Three. Four."}
        >>> [passage["text"] for passage in chunk_documents([document], lambda text: text.split(), window=2, stride=1)]
        ['One. Two.', 'Two. Three.', 'Three. Four.']
    """
    if not 1 <= stride <= window:
        raise UsageError(f"window={window!r}, stride={stride!r}: give 1 <= stride <= window, or sentences are lost")
    return _chunked(documents, sentences or _spacy_sentences(), window, stride)


def _chunked(documents: Iterable[Mapping[str, Any]], sentences: Sentences, window: int, stride: int) -> Iterator[dict[str, str]]:
    for number, document in enumerate(documents, 1):
        docno, text, url = document.get("docno"), document.get("text"), document.get("url") or ""
        if not isinstance(docno, str) or docno.split() != [docno] or not isinstance(text, str):
            raise DataError(f"document {number} has the docno {docno!r} and {'a' if isinstance(text, str) else 'no'} text: give both")
        found = [sentence for sentence in map(str.strip, sentences(text[:CHARACTERS])) if sentence]
        # Once a passage has reached the end, the next one would only repeat a part of it.
        for place, start in enumerate(range(0, max(len(found) - window + stride, min(len(found), 1)), stride)):
            yield {"docno": f"{docno}:{place}", "text": " ".join(found[start : start + window]), "url": url}


@lru_cache(maxsize=1)
def _spacy_sentences() -> Sentences:
    try:
        import spacy

        nlp = spacy.load("en_core_web_sm", exclude=["tok2vec", "tagger", "parser", "attribute_ruler", "lemmatizer", "ner"])
    except (ImportError, OSError) as error:
        raise UsageError(
            f"the track's sentences need spaCy and its model ({error}): pip install 'pyterrier_ikat[chunk]' && "
            "python -m spacy download en_core_web_sm, or give sentences=, any function from a text to its sentences"
        ) from None
    nlp.enable_pipe("senter")
    return lambda text: (sentence.text for sentence in nlp(text).sents)
