"""Files that PISA needs for one scorer and that are derived from an index in use: whole and of just this index, or built again.

They are built in a temporary folder and renamed into place, so that readers never see half a file. A record beside them has the size and a
checksum of each, and of the files that they were derived from. It is put into place last: files that a killed process or a partial copy
left have no record, or another one.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ..errors import DataError
from ..store.files import sample_checksum

SOURCES = ("inv.docs", "inv.freqs", "inv.sizes", "fwd.termlex", "fwd.doclex")
"""What they are derived from."""


def record_of(files: Sequence[Path]) -> Path:
    """Where the sizes and checksums of derived files are kept."""
    return files[0].with_name(f"{files[0].name}.json")


def is_whole(files: Sequence[Path], described: Collection[str] = ()) -> bool:
    """Whether derived files are there, as they were written, and of the index beside them.

    Args:
        files: of one scorer, in the folder of the index.
        described: the names of files that the index's description has, which was checked before.
    """
    if not all(file.exists() for file in files):
        return False
    if all(file.name in described for file in files):
        return True
    try:
        recorded = json.loads(record_of(files).read_text(encoding="utf-8"))
        derived = all(file.name in recorded for file in files)
        there = ((files[0].with_name(name), about) for name, about in recorded.items())
        return derived and all(_about(path) == about for path, about in there if path.exists())
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False


def add(files: Sequence[Path], build: Callable[[Path], None], use: str) -> None:
    """Build derived files and put them in their place, whatever is there.

    Args:
        files: of one scorer, in the folder of the index.
        build: writes files of these names into a folder with links to all other files of the index.
        use: what they are needed for, for the error.

    Raises:
        DataError: when the index's folder can't be written to.
    """
    folder, record = files[0].parent, record_of(files)
    try:
        workplace = Path(tempfile.mkdtemp(dir=folder, prefix=".ikat.", suffix=".tmp"))
    except OSError as error:
        raise DataError(
            f"the index {folder} isn't ready for {use} and can't be written to ({error.strerror}): "
            "search it once where it can be, or use the parameters it was built for"
        ) from None
    try:
        built = {record.name, *(file.name for file in files)}  # no link to these: it would be moved onto the file that it leads to
        for path in folder.iterdir():
            if path.is_file() and path.name not in built:
                (workplace / path.name).symlink_to(path.absolute())
        # Taken before: what is derived from files that are replaced meanwhile fits neither them nor the new ones.
        recorded = {name: _about(folder / name) for name in SOURCES if (folder / name).exists()}
        build(workplace)
        recorded |= {file.name: _about(workplace / file.name) for file in files}
        (workplace / record.name).write_text(json.dumps(recorded), encoding="utf-8")
        # Two processes may do this at the same time: each puts whole files of the same content into place.
        for path in (*files, record):
            os.replace(workplace / path.name, path)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _about(path: Path) -> list[int]:
    return [path.stat().st_size, sample_checksum(path)]
