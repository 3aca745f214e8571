"""The interface to PISA: a child process writes indexes, and rankings depend on neither threads nor indexing order.

While PISA writes, it prints to C's stdout, and it ends its process on an error. So ``pisa_writer.py`` runs it in a child process. At the
first use of a scorer, PISA would write files into the index folder. These are built in a temporary folder and renamed into place, so that
readers never see half a file and a read-only index is never written to. A record next to these files has the size and the checksum of each
one, and of the files that they were derived from. The record is put into place last: files left by a killed process or a partial copy have
no record, or a different one.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from ..store.files import link, sample_checksum
from .ranking import NOTHING, Ranking, sort_ties
from .state import Replaced

UNCOMPRESSED = ("inv.docs", "inv.freqs")
"""Postings that are read only to add a scorer. They are eight tenths of PISA's index."""
IMPACT_FILES = ("quantized.q0.bmw.64", "quantized.q0.bmw.64.block_simdbp")
"""The two files that PISA needs for the dot product of impacts, in addition to the index."""
WRITER = Path(__file__).with_name("pisa_writer.py")
DOCNOS_AT_ONCE = 100_000


SOURCES = ("inv.docs", "inv.freqs", "inv.sizes", "fwd.termlex", "fwd.doclex")
"""The files that they are derived from."""


@cache
def version() -> str:
    """PISA's version; rankings depend on it."""
    return metadata.version("pyterrier-pisa")


# Writing


def bm25_files(folder: Path, k1: float, b: float) -> list[Path]:
    """The two files that PISA needs for BM25 with these parameters, in addition to the index."""
    stem = f"bm25.k1-{k1:g}.b-{b:g}.q0.bmw.64"
    return [folder / stem, folder / f"{stem}.block_simdbp"]


def build_text(
    folder: Path, passages: Iterable[tuple[str, str]], *, stemmer: str, threads: int, k1: float, b: float, whole: Callable[[], bool]
) -> int:
    """Build an index of words in the new folder ``folder``, and return the number of passages that PISA has.

    Args:
        folder: the folder to create.
        passages: (docno, text) pairs. The docno has no white space, the text comes from :func:`ascii_text`, and at least one has a word.
        stemmer: one of ``STEMMERS``.
        threads: the number of threads that invert.
        k1: BM25's parameter that a whole index is made ready for.
        b: the same for BM25's other parameter.
        whole: called after the last passage. True if these were all passages of the index, False if they were those of a shard.

    Raises:
        DataError: with PISA's last words, when it fails.
    """

    def lines() -> Iterator[str]:
        yield from (f"{docno} {text}\n" for docno, text in passages)
        yield " whole\n" if whole() else " shard\n"

    _write(folder, lines(), kind="text", build=True, k1=k1, b=b, stemmer=stemmer, threads=threads)
    return count_passages(folder)


def build_impacts(folder: Path, files: Sequence[Path]) -> int:
    """Build an index of :func:`encode_passages`' impacts in the new folder ``folder``, and return PISA's number of passages."""
    _write(folder, [*(f"{file}\n" for file in files), " whole\n"], kind="impacts", build=True)
    return count_passages(folder)


def check_count(indexed: int, count: int) -> None:
    """Check that PISA has all passages.

    Raises:
        DataError: when some are missing.
    """
    if indexed != count:
        raise DataError(f"PISA has {indexed} of {count} passages: index again, and report it if it happens twice")


def make_bm25_ready(folder: Path, k1: float, b: float) -> None:
    """Write the files that PISA needs for BM25 with these parameters into its index ``folder``."""
    _write(folder, kind="text", build=False, k1=k1, b=b)


def add_bm25(folder: Path, k1: float, b: float, described: Collection[str] = ()) -> None:
    """Add the files that PISA needs for BM25 with these parameters to an index in use, unless they are there and complete.

    Args:
        folder: the folder of PISA's files.
        k1: BM25's parameter.
        b: BM25's parameter.
        described: the names of the files in the index's description, which was checked before.
    """
    files, use = bm25_files(folder, k1, b), f"BM25 with k1={k1:g}, b={b:g}"
    if is_whole(files, described):
        return
    ready = [known for known in _ready_for(folder) if is_whole(known, described)]
    if removed := [name for name in UNCOMPRESSED if not (folder / name).exists()]:
        there = ", ".join(first.name.removesuffix(".q0.bmw.64") for first, _ in ready)
        raise DataError(
            f"the index {folder.parent} isn't ready for {use}, only for {there}, and {removed[0]} was removed: "
            "put inv.docs and inv.freqs back, or use the parameters it is ready for"
        )

    def build(workplace: Path) -> None:
        if ready:
            _reuse_postings(ready[0][1], bm25_files(workplace, k1, b)[1])
        make_bm25_ready(workplace, k1, b)

    add_derived(files, build, use)


def add_impacts(folder: Path, described: Collection[str] = ()) -> None:
    """Add the files that PISA needs for the dot product to an index in use, unless they are there and complete; see :func:`add_bm25`.

    PyTerrier keeps no record of the files that it adds itself, so these are used as they are.
    """
    files = [folder / name for name in IMPACT_FILES]
    of_pyterrier = all(file.exists() for file in files) and not record_of(files).exists()
    if not (of_pyterrier or is_whole(files, described)):
        add_derived(files, lambda workplace: _write(workplace, kind="impacts", build=False), "retrieval by impacts")


def _ready_for(folder: Path) -> list[list[Path]]:
    """The files of each pair of BM25's parameters for which any file exists."""
    return [[first, first.with_name(f"{first.name}.block_simdbp")] for first in sorted(folder.glob("bm25.*.64"))]


def _reuse_postings(there: Path, postings: Path) -> None:
    """Link the compressed postings of other parameters. They aren't quantised, so they don't depend on the parameters."""
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


# Reading


def count_passages(folder: Path) -> int:
    """The number of passages of an index."""
    return int(np.fromfile(folder / "inv.sizes", "<u4", 1)[0])


def count_terms(folder: Path) -> int:
    """The number of distinct terms of an index."""
    return int(np.fromfile(folder / "fwd.termlex", "<u8", 1)[0])


def read_docnos(folder: Path) -> Iterator[str]:
    """The docnos of an index, in its order."""
    with (folder / "fwd.doclex").open("rb") as file:  # the number of docnos, where each one begins, where the last one ends, and the docnos
        size = int.from_bytes(file.read(8), "little")
        for first in range(0, size, DOCNOS_AT_ONCE):
            file.seek(8 + 8 * first)
            bounds = np.frombuffer(file.read(8 * (min(DOCNOS_AT_ONCE, size - first) + 1)), dtype="<u8").tolist()
            file.seek(8 + 8 * (size + 1) + bounds[0])
            text = file.read(bounds[-1] - bounds[0])
            yield from (text[start - bounds[0] : end - bounds[0]].decode("utf-8", "replace") for start, end in pairwise(bounds))


def open_bm25(
    folder: Path,
    *,
    stops: str,
    k1: float,
    b: float,
    threads: int,
    terms: bool = False,
    described: Collection[str] = (),
    held: Path | None = None,
) -> Any:
    """PISA's BM25 on the index in ``folder``. Files that are missing for these parameters are added first.

    ``described`` is that of :func:`add_bm25`, and ``held`` is another name of the folder that can't lead to a different folder meanwhile.

    The dynamic pruning is ``maxscore``. On queries of hundreds of words it is several times as fast as PISA's default, with the same
    ranking. Repeated query terms count, as in Lucene. With ``terms``, ``query_toks`` are looked up unchanged: otherwise PISA would stem
    terms of the index once more.
    """
    from pyterrier_pisa import PisaIndex, PisaStemmer

    add_bm25(folder, k1, b, described)
    index = PisaIndex(_opened_at(held or folder, bm25_files(folder, k1, b)), stops="none" if terms else stops)
    if terms:
        index.stemmer = PisaStemmer.none
    return index.bm25(k1=k1, b=b, query_algorithm="maxscore", query_weighted=True, toks_scale=1, threads=threads)


def _opened_at(folder: Path, files: Sequence[Path]) -> str:
    """The folder's name for PISA. PISA would write missing files in the reader's process, and end that process on an error."""
    if not all((folder / file.name).exists() for file in files):
        raise Replaced(f"the index {files[0].parent} was replaced while it was opened: search again")
    return str(folder)


def open_impacts(folder: Path, *, threads: int, described: Collection[str] = (), held: Path | None = None) -> Any:
    """PISA's dot product on the index in ``folder``. Missing files are added first. See :func:`open_bm25`.

    Its input has ``query_toks``, dicts from terms to impacts. The score is the sum of their products with the passage's impacts. Terms that
    no passage has, and terms with an ASCII capital letter, are ignored.
    """
    from pyterrier_pisa import PisaIndex

    add_impacts(folder, described)
    return PisaIndex(_opened_at(held or folder, [folder / name for name in IMPACT_FILES]), stops="none").quantized(
        query_algorithm="maxscore", toks_scale=1, threads=threads
    )


def search(retriever: Any, name: str, queries: Sequence[Any], depth: int) -> list[Ranking]:
    """PISA's rankings of ``queries``. Equal scores are ordered by docno, the greatest first, as in trec_eval.

    Of the passages that tie at the cutoff, PISA keeps random ones. So an eighth more are retrieved, repeatedly until the tie ends.

    Args:
        retriever: PISA's retriever; its number of results is changed.
        name: the column of ``queries``: ``"query"`` or ``"query_toks"``.
        queries: a frame with that column.
        depth: the maximum number of passages per query.
    """
    best: dict[int, Ranking] = {}
    left, retriever.num_results = list(range(len(queries))), depth + 1 + depth // 8
    while left:
        found = _search_once(retriever, name, [queries[place] for place in left])
        for place, ranking in zip(left, found, strict=True):
            if len(ranking.scores) < retriever.num_results or ranking.scores[-1] != ranking.scores[depth - 1]:
                best[place] = sort_ties(ranking).best(depth)
        left = [place for place in left if place not in best]
        retriever.num_results *= 2
    return [best[place] for place in range(len(queries))]


def _search_once(retriever: Any, name: str, queries: list[Any]) -> list[Ranking]:
    asking = {place: query for place, query in enumerate(queries) if query}
    found = retriever.transform(pd.DataFrame({"qid": [*asking], name: pd.Series([*asking.values()], dtype=object)}))
    # PISA's threads return queries as they finish, with each query's passages in order.
    rows, docnos, scores = found["qid"].to_numpy(), found["docno"].to_numpy(), found["score"].to_numpy()
    bounds = [*np.flatnonzero(np.diff(rows, prepend=-1)).tolist(), len(rows)]
    rankings = {rows[start]: Ranking(docnos[start:end].tolist(), scores[start:end]) for start, end in pairwise(bounds)}
    return [rankings.get(number, NOTHING) for number in range(len(queries))]


# Files that PISA needs for one scorer, derived from an index in use


def record_of(files: Sequence[Path]) -> Path:
    """The file of the sizes and checksums of derived files."""
    return files[0].with_name(f"{files[0].name}.json")


def is_whole(files: Sequence[Path], described: Collection[str] = ()) -> bool:
    """Whether derived files exist, are unchanged since they were written, and belong to the index next to them.

    Args:
        files: the files of one scorer, in the folder of the index.
        described: the names of the files in the index's description, which was checked before.
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


def add_derived(files: Sequence[Path], build: Callable[[Path], None], use: str) -> None:
    """Build derived files and put them in their place, whatever is there.

    Args:
        files: the files of one scorer, in the folder of the index.
        build: writes files of these names into a folder with links to all other files of the index.
        use: the purpose of the files, for the error message.

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
        built = {record.name, *(file.name for file in files)}  # no links to these: such a link would be moved onto its own target
        for path in folder.iterdir():
            if path.is_file() and path.name not in built:
                (workplace / path.name).symlink_to(path.absolute())
        # Taken before building: files derived while their sources are replaced fit neither the old nor the new sources.
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
