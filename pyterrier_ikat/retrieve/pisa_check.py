"""Whether PISA could write what it meant to: on a full disk it goes on without a word, and leaves files that end in the middle."""

from pathlib import Path

import numpy as np

from ..errors import DataError


def check_written(folder: Path, count: int) -> None:
    """Check that the lists of a PISA index are all there, and of ``count`` passages.

    Raises:
        DataError: when a file ends in the middle.
    """
    docs = np.memmap(folder / "inv.docs", dtype="<u4", mode="r")
    place, terms = 2, 0
    while place < len(docs):
        place += 1 + int(docs[place])
        terms += 1
    wanted = {
        "inv.docs": ((folder / "inv.docs").stat().st_size, 4 * place),
        "inv.freqs": ((folder / "inv.freqs").stat().st_size, 4 * (place - 2)),
        "inv.sizes": ((folder / "inv.sizes").stat().st_size, 4 * (count + 1)),
        "fwd.terms": (_lines(folder / "fwd.terms"), terms),
        "fwd.documents": (_lines(folder / "fwd.documents"), count),
    }
    for name, (found, expected) in wanted.items():
        if found != expected:
            raise DataError(
                f"PISA left {folder / name} cut short ({found} of {expected}): "
                "the disk was full; make room there, and the same call goes on"
            )


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))
