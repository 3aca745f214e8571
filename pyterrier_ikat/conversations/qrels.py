"""Qrels files: ``qid 0 docno label`` a line, checked line by line."""

from pathlib import Path

import pandas as pd

from ..store.trec import read_judgements
from .topics import qrels_frame


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
    return qrels_frame(read_judgements(path))
