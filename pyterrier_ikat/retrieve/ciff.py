"""An index of another engine, such as Lucene's, as a :class:`PassageIndex`: by the Common Index File Format."""

import hashlib
import importlib.util
from itertools import islice
from pathlib import Path

from ..errors import DataError, UsageError
from ..store.files import whole_folder, write_description
from . import pisa
from .passage_index import FORMAT, META, PISA, TEXTS, PassageIndex
from .text_store import AT_ONCE, Corpus, held, write_texts


def import_ciff(ciff: str | Path, path: str | Path, corpus: Corpus, *, stemmer: str = "none", stops: str = "none") -> PassageIndex:
    """Make a passage index of a CIFF file and the passages' texts.

    Postings and lengths are those of the file. PISA analyses the queries, so they have to be stemmed as the file's terms were. Anserini's
    default is the first Porter stemmer, which isn't ``"porter2"``: a few words are then not found. To have them all, leave
    ``stemmer="none"`` and give BM25 the stemmed terms in ``query_toks``, or index the texts anew with ``PassageIndex.index``.

    Args:
        ciff: the CIFF file.
        path: the folder of the index; nothing may be there.
        corpus: dicts with ``docno`` and ``text``, of the passages in the file, in any order; it may have more.
        stemmer: how the file's terms were stemmed: ``"porter2"`` or ``"none"``.
        stops: the words left out of queries: ``"lucene"``, ``"terrier"`` or ``"none"``.

    Raises:
        UsageError: when something is at the path already, an argument is unknown, or ``pyciff`` isn't installed.
        DataError: when the file can't be read, or a passage of it has no text in the corpus.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> import_ciff("lucene.ciff", "passage.index", ikat.PassageFiles("passages"), stemmer="porter2")  # doctest: +SKIP
        ikat.PassageIndex('passage.index')
    """
    for name, value, known in (("stemmer", stemmer, pisa.STEMMERS), ("stops", stops, pisa.STOPS)):
        if value not in known:
            raise UsageError(f"{name}={value!r} is unknown: give one of {', '.join(known)}")
    if importlib.util.find_spec("pyciff") is None:
        raise UsageError("reading CIFF needs the package pyciff: pip install 'pyterrier-pisa[ciff]' (it compiles with Rust)")
    if not Path(ciff).is_file():
        raise DataError(f"{ciff}: no such file; give a CIFF file, as Lucene's index is exported to by io.osirrc.ciff")
    with whole_folder(path) as folder:
        write_texts(folder / TEXTS, corpus)
        k1, b = 0.9, 0.4
        count = pisa.build_from_ciff(folder / PISA, Path(ciff).absolute(), stemmer=stemmer, k1=k1, b=b)
        _check_texts(folder, str(ciff))
        described = {"format": FORMAT, "count": count, "sha256": _sha256(Path(ciff)), "stemmer": stemmer, "stops": stops, "bm25": [k1, b]}
        write_description(folder / META, described)
    return PassageIndex(path)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _check_texts(folder: Path, ciff: str) -> None:
    with (folder / PISA / "fwd.documents").open(encoding="utf-8") as lines:
        docnos = (line.rstrip("\n") for line in lines)
        while batch := list(islice(docnos, AT_ONCE)):
            if lacking := set(batch).difference(held(folder / TEXTS, batch)):
                raise DataError(f"the corpus has no text of {min(lacking)!r}, which {ciff} has: give the collection that was indexed")
