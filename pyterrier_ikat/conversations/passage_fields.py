"""The fields of a passage: docno, text and address.

One table serves files, dicts and frames. The text is the title, the headings and the body, in this
order, as in ``default_text()`` of ir_datasets. A field that isn't in the table causes a warning, so
that no part of a text gets lost unnoticed.
"""

import warnings
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

from ..arguments import is_missing

DOCNO_FIELDS = (
    "docno",  # PyTerrier, and this package
    "_id",  # BEIR: corpus.jsonl, github.com/beir-cellar/beir
    "id",  # Anserini: JsonCollection.java and NeuClirCollection.java; the passages of TREC iKAT
    # MS MARCO v2, passages, where docid is the document: Anserini: MsMarcoV2PassageCollection.java
    "pid",
    # MS MARCO v2 and v2.1, documents and segments: Anserini: MsMarcoV2DocCollection.java; Tevatron
    "docid",
    "doc_id",  # ir_datasets
)
"""The fields that may hold the docno; the first existing one counts."""
DOCNO_PARTS = ("doc_id", "passage_id")
"""The fields of TREC iKAT 2023 that hold the docno in two parts, joined by a colon."""
BODY_WITH_PARTS = "passage_text"
"""The body of a passage whose docno is in parts."""
BODY_FIELDS = (
    "contents",  # Anserini: JsonCollection.java; the passages of TREC iKAT
    "text",  # BEIR; ir_datasets; PyTerrier
    BODY_WITH_PARTS,  # TREC iKAT 2023
    "passage",  # MS MARCO v2, passages
    "segment",  # MS MARCO v2.1, segments
    "body",  # MS MARCO v1 and v2, documents; ir_datasets
)
"""The fields that may hold the body; the first existing one counts."""
FIELDS_BEFORE_BODY = (
    # BEIR: castorini/pyserini#1751, "title are prepended to the text body"; Anserini:
    # BeirFlatCollection.java
    "title",
    "headings",  # MS MARCO v2: default_text() of ir_datasets
)
"""The fields that come before the body, in this order."""
URL_FIELD = "url"
FIELDS_WITHOUT_TEXT = (
    "metadata",  # BEIR, mostly empty
    "spans",  # MS MARCO v2: places in the document
    "start_char",  # MS MARCO v2.1: likewise
    "end_char",
    "docid",  # the passage's document, where another field has the docno
    "doc_id",
    "passage_id",
)
"""Known fields that need not be read."""
PASSAGE_FORMS = (
    'a passage is {"docno": ..., "text": ...}, {"id": ..., "contents": ..., "url": ...}, '
    '{"_id": ..., "title": ..., "text": ...} '
    'or {"doc_id": ..., "passage_id": ..., "passage_text": ...}'
)


class CollectionWarning(UserWarning):
    """Something in a collection is doubtful. The message names file and line."""


def read_fields(item: Any, *, may_be_empty: bool = False) -> tuple[dict[str, str], list[str]]:
    """Read the docno, the text and the address of a passage.

    A number as docno becomes a text. A title that the body has as its first line is not repeated.

    Args:
        item: a mapping with the fields of a passage.
        may_be_empty: whether None and NaN are an empty text, as in frames.

    Returns:
        ``{"docno", "text", "url"}``, and the names of the fields that hold something and are
        neither read nor in ``FIELDS_WITHOUT_TEXT``.

    Raises:
        ValueError: when it has no usable docno, or no text.

    Example:
        >>> read_fields({"_id": 7, "title": "Tea", "text": "A drink.", "year": 2024})
        ({'docno': '7', 'text': 'Tea A drink.', 'url': ''}, ['year'])
    """
    if not isinstance(item, Mapping):
        raise ValueError("no passage id in the fields none")
    roles = _roles_of(tuple(item))
    docno = _docno(item, roles)
    body = _body(item, roles, docno, may_be_empty)
    url = item.get(URL_FIELD, "")
    if is_missing(url):
        url = ""
    if not isinstance(url, str):
        raise ValueError(f"the {URL_FIELD} of passage {docno} is no text")
    before = [item[name] for name in roles.before if isinstance(item[name], str)]
    text = joined(before, body) if before else body
    passage = {"docno": docno, "text": text, "url": url}
    if not roles.perhaps_lost:
        return passage, []
    read = {docno, body, url, *before}
    return passage, [str(name) for name in roles.perhaps_lost if _is_lost(item[name], read)]


class _Roles(NamedTuple):
    """The possible roles of the fields of items with the same names, in the order of the tables."""

    docnos: tuple[str, ...]
    bodies: tuple[str, ...]
    before: tuple[str, ...]
    perhaps_lost: tuple[str, ...]


@lru_cache(maxsize=1024)
def _roles_of(names: tuple[str, ...]) -> _Roles:
    docnos = [name for name in DOCNO_FIELDS if name in names and name not in DOCNO_PARTS]
    bodies = [name for name in BODY_FIELDS if name in names]
    before = [name for name in FIELDS_BEFORE_BODY if name in names]
    surely_read = {URL_FIELD, *FIELDS_WITHOUT_TEXT, *docnos[:1], *bodies[:1]}
    perhaps_lost = [name for name in names if name not in surely_read]
    return _Roles(tuple(docnos), tuple(bodies), tuple(before), tuple(perhaps_lost))


def _docno(item: Mapping[str, Any], roles: _Roles) -> str:
    """Return the docno of an item: of one field, or of two parts."""
    docnos = [item[name] for name in roles.docnos if not is_missing(item[name])]
    docno = docnos[0] if docnos else _docno_of_parts(item)
    if isinstance(docno, Integral) and not isinstance(docno, bool):
        docno = str(docno)
    if isinstance(docno, str) and _is_docno(docno):
        return docno
    fields = ", ".join(map(str, item)) or "none"
    problem = "" if docno is None else f": {docno!r} is no text without white space"
    raise ValueError(f"no passage id in the fields {fields}{problem}")


def _docno_of_parts(item: Mapping[str, Any]) -> Any:
    parts = []
    for name in DOCNO_PARTS:
        part = item.get(name)
        if not is_missing(part) and part != "":
            parts.append(str(part))
    if len(parts) == len(DOCNO_PARTS):
        return ":".join(parts)
    if BODY_WITH_PARTS in item:
        return None
    return item.get("doc_id")  # alone, it is the docno of ir_datasets


def _is_docno(name: str) -> bool:
    is_one_word = name.split() == [name] and "\0" not in name
    return is_one_word and name == name.encode("utf-8", "replace").decode()


def _body(item: Mapping[str, Any], roles: _Roles, docno: str, may_be_empty: bool) -> str:
    bodies = [item[name] for name in roles.bodies if not is_missing(item[name])]
    if may_be_empty and roles.bodies and not bodies:
        return ""
    if not bodies or not isinstance(bodies[0], str):
        raise ValueError(f"passage {docno} has no text in the fields {', '.join(map(str, item))}")
    return bodies[0]


def joined(before: Iterable[str], body: str) -> str:
    r"""Join a passage's text: the parts before the body, and the body.

    If these parts are the body's first lines, the text is the body alone. The passages of MTRAG
    begin with a line that is their title.

    Example:
        >>> joined(["Mint"], "A herb."), joined(["Mint"], "Mint\nA herb."), joined([""], " A herb.")
        ('Mint A herb.', 'Mint\nA herb.', ' A herb.')
    """
    rest = [part.strip() for part in before if part.strip()]
    lines = [line.strip() for line in body.lstrip().split("\n", len(rest))]
    if lines[: len(rest)] == rest:
        return body
    return " ".join([*rest, body.strip()]).strip()


def _is_lost(value: Any, read: Collection[str]) -> bool:
    """Tell whether the content of an unread field is missing from the passage."""
    is_empty = isinstance(value, str | list | dict) and not value
    if is_missing(value) or is_empty:
        return False
    is_repeated = isinstance(value, str | Integral) and str(value) in read
    return not is_repeated


class Unread:
    """Warns of each unread field of a corpus, once.

    Args:
        source: the corpus in words, such as the path of its file.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._warned: set[str] = set()

    def tell(self, position: str, names: Iterable[str]) -> None:
        """Warn of the new ones among the fields.

        Warns:
            CollectionWarning: with their names and the place.
        """
        new = [name for name in names if name not in self._warned]
        if not new:
            return
        self._warned.update(new)
        fields = "the field" if len(new) == 1 else "the fields"
        before = ", ".join(FIELDS_BEFORE_BODY)
        bodies = ", ".join(BODY_FIELDS)
        warnings.warn(
            f"{self.source}, {position}: nothing reads {fields} {', '.join(new)}; "
            f"a passage's text is {before} and one of {bodies}",
            CollectionWarning,
            stacklevel=4,
        )
