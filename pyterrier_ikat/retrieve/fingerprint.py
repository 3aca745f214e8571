"""What tells one file of hundreds of gigabytes from another, without reading it whole."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

ENDS = 1 << 20


def fingerprint(folder: Path, names: Iterable[str]) -> str:
    """A checksum over each file's name, size, first and last mebibyte."""
    digest = hashlib.sha256()
    for name in sorted(names):
        with (folder / name).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            digest.update(f"{name} {size}\n".encode() + file.read(ENDS))
            file.seek(max(size - ENDS, 0))
            digest.update(file.read(ENDS))
    return digest.hexdigest()
