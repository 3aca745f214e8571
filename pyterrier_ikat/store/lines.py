"""Files to which a line of JSON is appended for each event, and which a kill can cut only at their end."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError


def append_line(path: Path, line: str) -> None:
    """Append a line; it is on the disk when this returns. Half a surrogate pair becomes ``?``.

    Example:
        >>> from pathlib import Path
        >>> append_line(Path("events.jsonl"), '{"event": "start"}')
        >>> list(read_lines(Path("events.jsonl")))
        [(1, {'event': 'start'})]
    """
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "replace") + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and content of each line; a missing file has none, and a last line without its end is omitted.

    Raises:
        DataError: naming the first line that is not a JSON object.
    """
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number}, is not JSON ({error}): restore the file from a copy") from None
        if not isinstance(found, dict):
            raise DataError(f"{path}, line {number}, is not a JSON object: restore the file from a copy")
        yield number, found


def drop_cut_line(path: Path) -> None:
    """Remove a last line that a kill cut, so that the next one begins at its place."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
