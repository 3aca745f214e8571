"""Qrels files: ``qid 0 docno label`` a line, checked line by line."""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from ..errors import DataError
from .topics import qrels_frame

LABEL = re.compile(r"[+-]?[0-9]{1,4}")
"""Of larger ones trec_eval makes tables that no memory holds."""
REPAIR = "a line is: qid 0 docno label"


def read_qrels(path: str | Path) -> pd.DataFrame:
    """Read a TREC qrels file; unlike PyTerrier's reader it stops at a line that is cut short, not numeric or repeated.

    Args:
        path: a text file with ``qid 0 docno label`` a line; for PTKB qrels ``docno`` is the statement id.

    Returns:
        A frame ``qid``, ``docno``, ``label`` (int64) in the file's order.

    Raises:
        DataError: naming file and line.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "qrels.txt"
        >>> _ = path.write_text("9-1_3 0 clueweb22-en0000-06-17856:4 2")
        >>> read_qrels(path).values.tolist()
        [['9-1_3', 'clueweb22-en0000-06-17856:4', 2]]
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; give the path of a qrels file ({REPAIR})") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable text file ({error}); give a qrels file ({REPAIR})") from error
    frame = qrels_frame(_rows(path, lines))
    if frame.empty:
        raise DataError(f"{path}: no judgement in it; fetch the file again ({REPAIR})")
    return frame


def _label(text: str) -> int:
    if not LABEL.fullmatch(text):
        raise ValueError
    return int(text)


def _rows(path: Path, lines: list[str]) -> Iterator[tuple[str, str, int]]:
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        fields = line.split()
        try:
            qid, _, docno, label = fields
            grade = _label(label)
        except ValueError as error:
            raise DataError(
                f"{path}, line {number}: {line.strip()[:80]!r} is no judgement; {REPAIR}, with a whole number of at most 4 digits as label"
            ) from error
        first = seen.setdefault((qid, docno), number)
        if first != number:
            raise DataError(f"{path}, line {number}: {qid} and {docno} were judged in line {first} already; keep one of the two")
        yield qid, docno, grade
