"""Writing PISA's indexes: by a child process, as PISA prints to C's stdout while it writes, and on trouble ends its process.

What PISA would write into the index folder at the first use of a scorer is made in a temporary folder and renamed into place, so that
readers never see half a file and a read-only index is never written to.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...store.files import link

UNCOMPRESSED = ("inv.docs", "inv.freqs")
"""Postings that are only read to add a scorer: eight tenths of PISA's index."""
WRITER = Path(__file__).with_name("writer.py")
IMPACT_FILES = ("quantized.q0.bmw.64", "quantized.q0.bmw.64.block_simdbp")
"""The two files that PISA needs for the dot product of impacts, beside the index proper."""


def count(folder: Path) -> int:
    """The number of documents of an index."""
    from pyterrier_pisa import PisaIndex

    return int(PisaIndex(str(folder)).num_docs())


def bm25_files(folder: Path, k1: float, b: float) -> list[Path]:
    """The two files that PISA needs for BM25 with these parameters, beside the index proper."""
    stem = f"bm25.k1-{k1:g}.b-{b:g}.q0.bmw.64"
    return [folder / stem, folder / f"{stem}.block_simdbp"]


def build_text(
    folder: Path, passages: Iterable[tuple[str, str]], *, stemmer: str, threads: int, k1: float, b: float, whole: Callable[[], bool]
) -> int:
    """Build an index of words in the new folder ``folder``.

    Args:
        folder: where to build it.
        passages: (docno, text); docno without white space, text of :func:`ascii_text`.
        stemmer: one of ``STEMMERS``.
        threads: how many threads invert.
        k1: of the BM25 that a whole index is made ready for.
        b: likewise.
        whole: asked after the last passage: whether these are all passages of the index, or those of a shard.

    Returns:
        The number of passages that PISA has.

    Raises:
        DataError: with PISA's last words, when it fails.
    """

    def lines() -> Iterator[str]:
        yield from (f"{docno} {text}\n" for docno, text in passages)
        yield " whole\n" if whole() else " shard\n"

    _write(folder, lines(), kind="text", build=True, k1=k1, b=b, stemmer=stemmer, threads=threads)
    return count(folder)


def build_impacts(folder: Path, files: Sequence[Path]) -> int:
    """Build an index of impacts in the new folder ``folder``, ready for retrieval.

    Args:
        folder: where to build it.
        files: encoded passages, as :func:`encode_passages` gives them; the name of a term is its number.

    Returns:
        The number of passages that PISA has.

    Raises:
        DataError: with PISA's last words, when it fails.
    """
    _write(folder, [*(f"{file}\n" for file in files), " whole\n"], kind="impacts", build=True)
    return count(folder)


def make_bm25_ready(folder: Path, k1: float, b: float) -> None:
    """Write what PISA needs for BM25 with these parameters into its index ``folder``.

    Raises:
        DataError: with PISA's last words, when it fails.
    """
    _write(folder, kind="text", build=False, k1=k1, b=b)


def add_bm25(folder: Path, k1: float, b: float) -> None:
    """Add what PISA needs for BM25 with these parameters to an index in use, when it is missing.

    Raises:
        DataError: when it can't be made, or the folder can't be written to.
    """
    files = bm25_files(folder, k1, b)
    if all(path.exists() for path in files):
        return
    unready = f"the index {folder.parent} isn't ready for BM25 with k1={k1:g}, b={b:g}"
    if lacking := [name for name in UNCOMPRESSED if not (folder / name).exists()]:
        ready = ", ".join(path.name.removesuffix(".q0.bmw.64") for path in sorted(folder.glob("bm25.*.64")))
        raise DataError(
            f"{unready}, only for {ready}, and {lacking[0]} was removed: put inv.docs and inv.freqs back, or use the parameters it is "
            "ready for"
        )

    def make(workplace: Path) -> None:
        _reuse_postings(folder, workplace, k1, b)
        make_bm25_ready(workplace, k1, b)

    otherwise = ", or use the parameters it was built for"
    _add(folder, folder.parent, [path.name for path in files], make, unready, otherwise)


def add_impacts(folder: Path) -> None:
    """Add what PISA needs for the dot product to an index in use, when it is missing.

    Raises:
        DataError: when it can't be made, or the folder can't be written to.
    """
    if not all((folder / name).exists() for name in IMPACT_FILES):
        unready = f"the index {folder} isn't ready for retrieval by impacts"
        _add(folder, folder, IMPACT_FILES, lambda workplace: _write(workplace, kind="impacts", build=False), unready)


def _add(folder: Path, beside: Path, names: Sequence[str], make: Callable[[Path], None], unready: str, otherwise: str = "") -> None:
    try:
        workplace = Path(tempfile.mkdtemp(dir=beside, prefix=".ikat.", suffix=".tmp"))
    except OSError as error:
        raise DataError(f"{unready} and can't be written to ({error.strerror}): search it once where it can be{otherwise}") from error
    try:
        for path in folder.iterdir():
            if path.is_file():
                (workplace / path.name).symlink_to(path.absolute())
        make(workplace)
        # Two processes may do this at the same time: each puts a whole file of the same content into place.
        for name in names:
            os.replace(workplace / name, folder / name)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _reuse_postings(folder: Path, workplace: Path, k1: float, b: float) -> None:
    """Link the compressed postings of other parameters: unquantised, they don't depend on them."""
    _, postings = bm25_files(workplace, k1, b)
    there = next(folder.glob(f"bm25.*{postings.suffix}"), None)
    if there is not None and not postings.exists():
        link(there, postings)


def _write(folder: Path, lines: Iterable[str] = (), **job: Any) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONUTF8": "1"}
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, str(WRITER), str(folder), json.dumps(job)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment) as child:
            try:
                _feed(child, lines)
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            log.seek(0)
            last = log.read().decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise DataError(
                f"PISA failed to write its index (exit code {child.returncode}): {last[0]}; check the disk's free space and try again"
            )


def _feed(child: "subprocess.Popen[bytes]", lines: Iterable[str]) -> None:
    assert child.stdin is not None
    try:
        with child.stdin as pipe:
            for line in lines:
                pipe.write(line.encode())
    except BrokenPipeError:
        child.wait()  # its exit code and its log say why
