"""PISA, kept at arm's length: it writes its index in a process of its own and is only read in ours.

While it writes, PISA prints to C's stdout, and on trouble it ends its process: so ``pisa_writer.py`` runs it as a child. What PISA would
write into the index folder
at the first use of BM25 parameters is made in a temporary folder and renamed into place, so that readers never see half a file and a
read-only index is never written to.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, UsageError
from ..store.files import link
from .plain import plain

# PISA has krovetz too, but loads its dictionary per query word: 280 queries took 19 to 160 s in place of 0.2 s.
STEMMERS = ("porter2", "none")
STOPS = ("lucene", "terrier", "none")
UNCOMPRESSED = ("inv.docs", "inv.freqs")
"""Postings that only :func:`make_ready` reads: eight tenths of PISA's index."""
DOCNOS_AT_ONCE = 100_000
WRITER = Path(__file__).with_name("pisa_writer.py")
CIFF_WRITER = Path(__file__).with_name("ciff_writer.py")


@cache
def version() -> str:
    """PISA's version, on which rankings depend."""
    return metadata.version("pyterrier-pisa")


def check_bm25(k1: float, b: float) -> None:
    """Check the parameters of BM25.

    Raises:
        UsageError: when they are out of range, or PISA can't tell them from their neighbours.
    """
    if not (k1 >= 0 and 0 <= b <= 1):
        raise UsageError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, not k1={k1!r}, b={b!r}; the usual values here are k1=0.9, b=0.4")
    for name, value in (("k1", k1), ("b", b)):
        if float(f"{value:g}") != value:
            raise UsageError(f"{name}={value!r} has more than the 6 digits that PISA keeps: round it to {value:g}")


def scorer_files(folder: Path, k1: float, b: float) -> list[Path]:
    """The two files that PISA needs for BM25 with these parameters, beside the index proper."""
    stem = f"bm25.k1-{k1:g}.b-{b:g}.q0.bmw.64"
    return [folder / stem, folder / f"{stem}.block_simdbp"]


def build(
    folder: Path, passages: Iterable[tuple[str, str]], *, stemmer: str, threads: int, k1: float, b: float, whole: Callable[[], bool]
) -> int:
    """Build a PISA index in the new folder ``folder``.

    Args:
        folder: where to build it.
        passages: (docno, text); docno without white space.
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
        yield from (f"{docno} {plain(text)}\n" for docno, text in passages)
        yield " whole\n" if whole() else " shard\n"

    _write(folder, [f"{k1:g}", f"{b:g}", stemmer, str(threads)], lines())
    return count(folder)


def build_from_ciff(folder: Path, ciff: Path, *, stemmer: str, k1: float, b: float) -> int:
    """Build a PISA index in the new folder ``folder`` of a CIFF file, ready for BM25; needs ``pyciff``.

    Returns:
        The number of passages that PISA has.

    Raises:
        DataError: with the last words of PISA or pyciff, when one fails.
    """
    _write(folder, [str(ciff), stemmer, f"{k1:g}", f"{b:g}"], writer=CIFF_WRITER)
    return count(folder)


def make_ready(folder: Path, k1: float, b: float) -> None:
    """Write what PISA needs for BM25 with these parameters into its index ``folder``.

    Raises:
        DataError: with PISA's last words, when it fails.
    """
    _write(folder, [f"{k1:g}", f"{b:g}"])


def count(folder: Path) -> int:
    """The number of documents of a PISA index."""
    from pyterrier_pisa import PisaIndex

    return int(PisaIndex(str(folder)).num_docs())


def docnos(folder: Path) -> Iterator[str]:
    """The docnos of a PISA index, in its order."""
    with (folder / "fwd.doclex").open("rb") as file:  # their number, where each one begins, where the last one ends, and the docnos
        size = int.from_bytes(file.read(8), "little")
        for first in range(0, size, DOCNOS_AT_ONCE):
            file.seek(8 + 8 * first)
            bounds = np.frombuffer(file.read(8 * (min(DOCNOS_AT_ONCE, size - first) + 1)), dtype="<u8").tolist()
            file.seek(8 + 8 * (size + 1) + bounds[0])
            text = file.read(bounds[-1] - bounds[0])
            yield from (text[start - bounds[0] : end - bounds[0]].decode("utf-8", "replace") for start, end in pairwise(bounds))


def retriever(folder: Path, *, stops: str, k1: float, b: float, num_results: int, threads: int, terms: bool = False) -> Any:
    """PISA's BM25 over the index in ``folder``; it makes what is missing for these parameters first.

    The dynamic pruning is ``maxscore``: on queries of hundreds of words it is several times as fast as PISA's default, with the same
    ranking. Repeated query terms count,
    as in Lucene. With ``terms`` it looks up ``query_toks`` as they are: else PISA would stem terms of the index once more.

    Raises:
        DataError: when something is missing and the folder can't be written to.
    """
    from pyterrier_pisa import PisaIndex, PisaStemmer

    if not all(path.exists() for path in scorer_files(folder, k1, b)):
        _add_scorer(folder, k1, b)
    index = PisaIndex(str(folder), stops="none" if terms else stops)
    if terms:
        index.stemmer = PisaStemmer.none
    return index.bm25(k1=k1, b=b, num_results=num_results, query_algorithm="maxscore", query_weighted=True, toks_scale=1, threads=threads)


def _add_scorer(folder: Path, k1: float, b: float) -> None:
    if lacking := [name for name in UNCOMPRESSED if not (folder / name).exists()]:
        ready = ", ".join(path.name.removesuffix(".q0.bmw.64") for path in sorted(folder.glob("bm25.*.64")))
        raise DataError(
            f"the index {folder.parent} isn't ready for BM25 with k1={k1:g}, b={b:g}, only for {ready}, and {lacking[0]} was removed: "
            "put inv.docs and inv.freqs back, or use the parameters it is ready for"
        )
    try:
        workplace = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp"))
    except OSError as error:
        raise DataError(
            f"the index {folder.parent} isn't ready for BM25 with k1={k1:g}, b={b:g} and can't be written to ({error.strerror}): "
            "search it once where it can be, or use the parameters it was built for"
        ) from error
    try:
        for path in folder.iterdir():
            (workplace / path.name).symlink_to(path.absolute())
        _reuse_postings(folder, workplace, k1, b)
        make_ready(workplace, k1, b)
        # Two processes may do this at the same time: each puts a whole file of the same content into place.
        for path in scorer_files(workplace, k1, b):
            os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _reuse_postings(folder: Path, workplace: Path, k1: float, b: float) -> None:
    """Link the compressed postings of other parameters: unquantised, they don't depend on them."""
    _, postings = scorer_files(workplace, k1, b)
    there = next(folder.glob(f"bm25.*{postings.suffix}"), None)
    if there is not None and not postings.exists():
        link(there, postings)


def _write(folder: Path, arguments: list[str], lines: Iterable[str] = (), writer: Path | None = None) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, str(writer or WRITER), str(folder), *arguments]
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
                f"PISA failed to write its index (exit code {child.returncode}): {last[0]}; "
                "check the disk's free space, and the CIFF file if there is one, and try again"
            )


def _feed(child: "subprocess.Popen[bytes]", lines: Iterable[str]) -> None:
    assert child.stdin is not None
    try:
        with child.stdin as pipe:
            for line in lines:
                pipe.write(line.encode())
    except BrokenPipeError:
        child.wait()  # its exit code and its log say why
