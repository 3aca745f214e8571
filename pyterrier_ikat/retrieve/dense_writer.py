"""Passages as dense vectors on disk: they are encoded in order into one file, in steps, and a killed build resumes after the last step.

The folder is a ``FlexIndex`` of pyterrier_dr: ``vecs.f4`` (32-bit floats, a row per passage), ``docnos.npids`` and ``pt_meta.json``. The
docnos are also stored as text, together with the ends of the lines. There the docno of a row is found without reading the others, and any
docno can be stored. Rows are in the order of docno, so among equal scores the greater row has the greater docno.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, UsageError
from ..progress import bar
from ..store.files import atomic_write
from .dense_search import Rows, Vectors

AT_ONCE = 4096
"""Passages that are encoded before they are written. A killed build repeats no more than these."""
VECTORS, DOCNOS, ENDS, NPIDS, META = "vecs.f4", "docnos.txt", "docnos.ends", "docnos.npids", "pt_meta.json"


class Encoded(NamedTuple):
    """The part that is encoded so far."""

    rows: int
    size: int
    """Dimensions of a vector."""
    longest: float
    """The length of the longest vector."""


def encode_passages(
    folder: Path, progress: Path, passages: Iterable[tuple[str, str]], encode: Callable[[list[str]], Vectors], *, made_by: str, total: int
) -> Encoded:
    """Encode the passages that ``folder`` doesn't have yet. Blank passages have no vector.

    Args:
        folder: where the vectors are written; created if missing.
        progress: a file that says how far an earlier call came.
        passages: (docno, text), in the order of docno.
        encode: returns the vectors of some texts, one row each.
        made_by: the settings that determine the vectors, apart from the texts.
        total: the number of passages, for the progress bar.

    Raises:
        DataError: when the existing part was encoded with other settings, or no passage has a text.
        UsageError: when a vector isn't finite.
    """
    if find_spec("npids") is None:  # checked first, because it is used only after all passages are encoded
        raise UsageError("dense indexes need npids: pip install 'pyterrier_ikat[dense]'; in a checkout: pip install '.[dense]'")
    folder.mkdir(exist_ok=True)
    done = _read_progress(progress, made_by)
    if not _holds(folder, done):  # the finished index was moved to its place, and only the folder of the progress stayed
        done = Encoded(0, 0, 0.0)
    worded = ((docno, text) for docno, text in bar(passages, total=total, desc="encoding passages", unit="passage") if text.strip())
    for _ in islice(worded, done.rows):
        pass
    with (folder / VECTORS).open("ab") as vectors, (folder / DOCNOS).open("ab") as docnos, (folder / ENDS).open("ab") as ends:
        vectors.truncate(4 * done.rows * done.size)
        ends.truncate(8 * done.rows)
        docnos.truncate(_last_end(folder / ENDS))
        while batch := list(islice(worded, AT_ONCE)):
            found = _checked(encode([text for _, text in batch]))
            lines = [f"{docno}\n".encode() for docno, _ in batch]
            last = _last_end(folder / ENDS)
            ends.write((last + np.cumsum([len(line) for line in lines])).astype("<u8").tobytes())
            docnos.write(b"".join(lines))
            vectors.write(found.tobytes())
            for written in (vectors, docnos, ends):
                written.flush()
                os.fsync(written.fileno())
            longest = max(done.longest, float(np.linalg.norm(found.astype(np.float64), axis=1).max()))
            done = Encoded(done.rows + len(batch), found.shape[1], longest)
            with atomic_write(progress) as file:
                json.dump({"made_by": made_by, **done._asdict()}, file)
    if not done.rows:
        raise DataError("no passage of the corpus has a text: nothing can be found by its vector")
    return done


def finish_flex(folder: Path, encoded: Encoded) -> None:
    """Write the files that, with the vectors, make the folder a ``FlexIndex``."""
    _write_npids(folder, encoded.rows)
    meta = {"type": "dense_index", "format": "flex", "package_hint": "pyterrier-dr", "vec_size": encoded.size, "doc_count": encoded.rows}
    with atomic_write(folder / META) as file:
        json.dump(meta, file)


class VectorFiles:
    """The vectors of a folder and the docnos of their rows, mapped into memory.

    Args:
        folder: made by :func:`encode_passages`.
        size: the number of dimensions of a vector.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.vectors: Vectors = np.memmap(folder / VECTORS, dtype="<f4", mode="r").reshape(-1, size)
        self._docnos = np.memmap(folder / DOCNOS, dtype=np.uint8, mode="r")
        self._ends = np.memmap(folder / ENDS, dtype="<u8", mode="r")

    def docnos(self, rows: Rows) -> list[str]:
        """The docnos of rows."""
        ends = self._ends[rows].tolist()
        starts = np.where(rows > 0, self._ends[rows - 1], 0).tolist()
        held = memoryview(self._docnos)  # type: ignore[arg-type]
        return [str(held[start : end - 1], "utf-8") for start, end in zip(starts, ends, strict=True)]


def read_docnos(folder: Path) -> Iterator[str]:
    """The docnos, in the order of the rows."""
    with (folder / DOCNOS).open(encoding="utf-8", newline="\n") as file:
        yield from (line.rstrip("\n") for line in file)


def _read_progress(path: Path, made_by: str) -> Encoded:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        done = Encoded(found["rows"], found["size"], found["longest"])
    except FileNotFoundError:
        return Encoded(0, 0, 0.0)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} can't be read ({error}): remove {path.parent} to start over") from None
    if found["made_by"] != made_by:
        raise DataError(
            f"{path.parent} holds an interrupted build with another model or prefix: "
            "give the same ones to continue, or remove it to start over"
        )
    return done


def _holds(folder: Path, done: Encoded) -> bool:
    """Whether all that was encoded is there. A file that is cut short would be filled with zeros."""
    least = {VECTORS: 4 * done.rows * done.size, ENDS: 8 * done.rows, DOCNOS: 2 * done.rows}
    return all((folder / name).exists() and (folder / name).stat().st_size >= size for name, size in least.items())


def _last_end(path: Path) -> int:
    content = path.stat().st_size
    return int(np.memmap(path, dtype="<u8", mode="r")[-1]) if content else 0


def _checked(found: Any) -> Vectors:
    vectors: Vectors = np.ascontiguousarray(found, dtype="<f4")
    if not np.isfinite(vectors).all():
        raise UsageError("the bi-encoder gave a vector with a number that isn't finite: its weights are damaged, use another model")
    return vectors


def _write_npids(folder: Path, rows: int) -> None:
    """Write FlexIndex's own lookup of docnos, unless npids can't hold these (0.1.3: a docno alone in the last block of 256)."""
    from npids import Lookup

    for block in (256, 255, 254, 253):
        (folder / NPIDS).unlink(missing_ok=True)
        try:
            with Lookup.builder(folder / NPIDS, min_block=block) as builder:
                for docno in read_docnos(folder):
                    builder.add(docno)
            with Lookup(folder / NPIDS) as written:
                if len(written) == rows and all(one == other for one, other in zip(written, read_docnos(folder), strict=True)):
                    return
        except (ArithmeticError, ValueError, TypeError):
            continue
    (folder / NPIDS).unlink(missing_ok=True)
