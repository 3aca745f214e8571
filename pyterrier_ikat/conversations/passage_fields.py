"""The fields of a passage: which of them are its docno, its text and its address. One table for files, dicts and frames.

The text is the title, the headings and the body, in this order, as ``default_text()`` of
ir_datasets has them. What isn't in the table is told, so that no part of a text gets lost
unnoticed.
"""

import warnings
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

from ..arguments import is_missing

DOCNOS = (
    "docno",  # PyTerrier, and this package
    "_id",  # BEIR: corpus.jsonl, github.com/beir-cellar/beir
    "id",  # Anserini: JsonCollection.java and NeuClirCollection.java; the passages of TREC iKAT
    # MS MARCO v2, passages, where docid is the document: Anserini: MsMarcoV2PassageCollection.java
    "pid",
    # MS MARCO v2 and v2.1, documents and segments: Anserini: MsMarcoV2DocCollection.java; Tevatron
    "docid",
    "doc_id",  # ir_datasets
)
"""The fields that may hold the docno, the first that is there."""
IN_PARTS = ("doc_id", "passage_id")
"""The fields of TREC iKAT 2023 that hold it in two parts, joined by a colon."""
OF_PARTS = "passage_text"
"""The body of a passage whose docno is in parts."""
BODIES = (
    "contents",  # Anserini: JsonCollection.java; the passages of TREC iKAT
    "text",  # BEIR; ir_datasets; PyTerrier
    OF_PARTS,  # TREC iKAT 2023
    "passage",  # MS MARCO v2, passages
    "segment",  # MS MARCO v2.1, segments
    "body",  # MS MARCO v1 and v2, documents; ir_datasets
)
"""The fields that may hold the body, the first that is there."""
BEFORE = (
    # BEIR: castorini/pyserini#1751, "title are prepended to the text body"; Anserini:
    # BeirFlatCollection.java
    "title",
    "headings",  # MS MARCO v2: default_text() of ir_datasets
)
"""The fields that stand before the body."""
URL = "url"
NOT_TEXT = (
    "metadata",  # BEIR, mostly empty
    "spans",  # MS MARCO v2: places in the document
    "start_char",  # MS MARCO v2.1: likewise
    "end_char",
    "docid",  # the passage's document, where another field has the docno
    "doc_id",
    "passage_id",
)
"""Known fields that need not be read."""
LINE = (
    'a passage is {"docno": ..., "text": ...}, {"id": ..., "contents": ..., "url": ...}, {"_id": ..., "title": ..., "text": ...} '
    'or {"doc_id": ..., "passage_id": ..., "passage_text": ...}'
)


class CollectionWarning(UserWarning):
    """Something in a collection is doubtful. The message names file and line."""


def read_fields(item: Any, *, may_be_empty: bool = False) -> tuple[dict[str, str], list[str]]:
    """The docno, the text and the address in an item, and the names of the fields that were not read.

    A number as docno becomes a text. A title that the body has as its first line is not repeated.

    Args:
        item: a mapping with the fields of a passage.
        may_be_empty: whether None and NaN are an empty text, as in frames.

    Returns:
        ``{"docno", "text", "url"}``, and the fields that hold something and are neither read nor in
        ``NOT_TEXT``.

    Raises:
        ValueError: when it has no usable docno, or no text.

    Example:
        >>> read_fields({"_id": 7, "title": "Rooibos tea", "text": "A red herbal drink.", "year": 2024})
        ({'docno': '7', 'text': 'Rooibos tea A red herbal drink.', 'url': ''}, ['year'])
    """
    if not isinstance(item, Mapping):
        raise ValueError("no passage id in the fields none")
    roles = _roles_of(tuple(item))
    docno = _docno(item, roles)
    body = _body(item, roles, docno, may_be_empty)
    url = item.get(URL, "")
    if is_missing(url):
        url = ""
    if not isinstance(url, str):
        raise ValueError(f"the {URL} of passage {docno} is no text")
    before = [item[name] for name in roles.before if isinstance(item[name], str)]
    passage = {"docno": docno, "text": joined(before, body) if before else body, "url": url}
    if not roles.perhaps_lost:
        return passage, []
    known = {docno, body, url, *before}
    return passage, [str(name) for name in roles.perhaps_lost if _is_lost(item[name], known)]


class _Roles(NamedTuple):
    """What the fields of items with these names may be, each in the order of its table."""

    docnos: tuple[str, ...]
    bodies: tuple[str, ...]
    before: tuple[str, ...]
    perhaps_lost: tuple[str, ...]


@lru_cache(maxsize=1024)
def _roles_of(names: tuple[str, ...]) -> _Roles:
    docnos = [name for name in DOCNOS if name in names and name not in IN_PARTS]
    bodies = [name for name in BODIES if name in names]
    before = [name for name in BEFORE if name in names]
    surely_read = {URL, *NOT_TEXT, *docnos[:1], *bodies[:1]}
    return _Roles(
        tuple(docnos),
        tuple(bodies),
        tuple(before),
        tuple(name for name in names if name not in surely_read),
    )


def _docno(item: Mapping[str, Any], roles: _Roles) -> str:
    named = [item[name] for name in roles.docnos if not is_missing(item[name])]
    if named and isinstance(named[0], str) and _is_docno(named[0]):
        return named[0]
    parts = [
        str(item[part]) for part in IN_PARTS if not is_missing(item.get(part)) and item[part] != ""
    ]
    if named:
        found = named[0]
    elif len(parts) == len(IN_PARTS):
        found = ":".join(parts)
    elif OF_PARTS not in item:
        found = item.get("doc_id")
    else:
        found = None
    if isinstance(found, Integral) and not isinstance(found, bool):
        found = str(found)
    if not isinstance(found, str) or not _is_docno(found):
        fields = ", ".join(map(str, item)) or "none"
        what = "" if found is None else f": {found!r} is no text without white space"
        raise ValueError(f"no passage id in the fields {fields}{what}")
    return found


def _is_docno(name: str) -> bool:
    return (
        name.split() == [name]
        and "\0" not in name
        and name == name.encode("utf-8", "replace").decode()
    )


def _body(item: Mapping[str, Any], roles: _Roles, docno: str, may_be_empty: bool) -> str:
    filled = [item[name] for name in roles.bodies if not is_missing(item[name])]
    if may_be_empty and roles.bodies and not filled:
        return ""
    if not filled or not isinstance(filled[0], str):
        raise ValueError(f"passage {docno} has no text in the fields {', '.join(map(str, item))}")
    return filled[0]


def joined(before: Iterable[str], body: str) -> str:
    r"""A passage's text: the parts before the body, and the body. If these parts are the body's first lines, it is the body alone.

    The passages of MTRAG begin with a line that is their title.

    Example:
        >>> joined(["Mint"], "A herb."), joined(["Mint"], "Mint\nA herb."), joined([""], " A herb.")
        ('Mint A herb.', 'Mint\nA herb.', ' A herb.')
    """
    rest = [part.strip() for part in before if part.strip()]
    lines = [line.strip() for line in body.lstrip().split("\n", len(rest))]
    if lines[: len(rest)] == rest:
        return body
    return " ".join([*rest, body.strip()]).strip()


def _is_lost(value: Any, known: Collection[str]) -> bool:
    is_empty = is_missing(value) or value in ("", [], {})
    return not is_empty and not (isinstance(value, str | Integral) and str(value) in known)


class Unread:
    """Tells of each field of a corpus that nothing reads, once.

    Args:
        source: the corpus in words, such as the path of its file.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._told: set[str] = set()

    def tell(self, place: str, names: Iterable[str]) -> None:
        """Warn of those of the fields that are new.

        Warns:
            CollectionWarning: with their names and the place.
        """
        new = [name for name in names if name not in self._told]
        if not new:
            return
        self._told.update(new)
        read = f"a passage's text is {', '.join(BEFORE)} and one of {', '.join(BODIES)}"
        fields = "the field" if len(new) == 1 else "the fields"
        warnings.warn(
            f"{self.source}, {place}: nothing reads {fields} {', '.join(new)}; {read}",
            CollectionWarning,
            stacklevel=4,
        )
