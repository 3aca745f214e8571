"""Formats of indexes that other packages make, recognised by their files."""

import json
import os
from pathlib import Path
from typing import NamedTuple

from ..errors import list_first

LUCENE = "Lucene"
PISA = "PISA"


class Format(NamedTuple):
    """A format of an index folder.

    Attributes:
        name: as its makers call it.
        files: patterns of file names, one of which such a folder has.
        opens: what opens it, with ``{path}`` for the folder; empty if this package does.
    """

    name: str
    files: tuple[str, ...]
    opens: str = ""


_TERRIER = (
    'retriever=pt.terrier.Retriever({path!r}, wmodel="BM25", metadata=["docno", "text"]) for '
    "passages, or for SPLADE's weights a query encoder of pyterrier_splade >> "
    'pt.terrier.Retriever({path!r}, wmodel="Tf", metadata=["docno", "text"])'
)
FORMATS = (
    # apache/lucene, IndexFileNames.java: segments_N, and for each segment .si; the last that is
    # copied may be segments_N
    Format(LUCENE, ("segments_*", "_*.si", "_*.cfs", "_*.fdt")),
    # terrier-org/terrier-core, IndexOnDisk.java: the prefix is "data"
    Format("Terrier", ("data.properties",), _TERRIER),
    # terrierteam/pyterrier_pisa, __init__.py: the older file of its description, and PISA's own
    Format(PISA, ("pt_pisa_config.json", "inv.docs")),
    # terrierteam/pyterrier_dr, flex/core.py
    Format(
        "pyterrier_dr's FlexIndex",
        ("vecs.f4",),
        "retriever=an encoder of pyterrier_dr >> pyterrier_dr.FlexIndex({path!r}).retriever()",
    ),
    # naver/splade, splade/indexing/inverted_index.py
    Format(
        "naver's SPLADE",
        ("array_index.h5py",),
        "its own program, naver/splade's splade.retrieve, whose run ikat.GivenRanking reads",
    ),
)
"""Formats that are told apart, most specific files first."""
FORMATS_NAMED = {"pisa": PISA}
"""The format in pt_meta.json -> our name. Source: terrierteam/pyterrier_pisa, ARTIFACT_FORMAT."""


def format_of(folder: str | Path) -> Format | None:
    """Return the format of the index that another package made in a folder; None for no known one.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "segments_1").write_bytes(b"")
        >>> format_of(folder).name
        'Lucene'
    """
    for entry in FORMATS:
        for pattern in entry.files:
            if any(path.is_file() for path in Path(folder).glob(pattern)):
                return entry
    named = _format_named(Path(folder))
    return next((entry for entry in FORMATS if entry.name == named), None)


def _format_named(folder: Path) -> str | None:
    """Return the format that PyTerrier's description names."""
    try:
        about = json.loads((folder / "pt_meta.json").read_text(encoding="utf-8"))
        return FORMATS_NAMED.get(about.get("format"))
    except (OSError, ValueError, AttributeError):
        return None


def is_lucene(folder: str | Path) -> bool:
    """Return whether a folder holds an index of Lucene, whole or not."""
    found = format_of(folder)
    return found is not None and found.name == LUCENE


def how_to_open(path: str | Path) -> str:
    """Describe a folder that holds no index of this package, and what to do, in one line.

    Empty where there is nothing, so that an index can be made there.
    """
    if os.path.isfile(path):
        return f"{path} is a file: give the folder of an index"
    if not os.path.isdir(path):
        return ""
    files = [name for name in sorted(os.listdir(path)) if not name.startswith(".")]
    if not files:
        return ""
    found = format_of(path)
    if found is None:
        names = list_first(files, most=3)
        return f"{path} holds no index that is known here, but {names}: give the folder of an index"
    if found.name == LUCENE:
        return f"{path} is an index of Lucene: open it with ikat.LuceneIndex({str(path)!r})"
    if found.opens:
        opens = found.opens.format(path=str(path))
        return f"{path} is an index of {found.name}: open it with {opens}"
    return (
        f"{path} is an index of {found.name}: open it with ikat.SpladeIndex({str(path)!r}, model)"
    )
