"""The interface to PISA: a child process writes indexes, and rankings depend on neither threads nor indexing order.

PISA prints to C's stdout while it writes, and ends its process on trouble: so ``pisa_writer.py`` runs it. What PISA would write into the
index folder at the first use of a scorer is built in a temporary folder and renamed into place, so that readers never see half a file and
a read-only index is never written to. A record beside these files has the size and a checksum of each, and of the files that they were
derived from. It is put into place last: files that a killed process or a partial copy left have no record, or another one.
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
"""Postings that are only read to add a scorer: eight tenths of PISA's index."""
IMPACT_FILES = ("quantized.q0.bmw.64", "quantized.q0.bmw.64.block_simdbp")
"""The two files that PISA needs for the dot product of impacts, beside the index proper."""
WRITER = Path(__file__).with_name("pisa_writer.py")
DOCNOS_AT_ONCE = 100_000


SOURCES = ("inv.docs", "inv.freqs", "inv.sizes", "fwd.termlex", "fwd.doclex")
"""What they are derived from."""


@cache
def version() -> str:
    """PISA's version, on which rankings depend."""
    return metadata.version("pyterrier-pisa")


# Writing


def bm25_files(folder: Path, k1: float, b: float) -> list[Path]:
    """The two files that PISA needs for BM25 with these parameters, beside the index proper."""
    stem = f"bm25.k1-{k1:g}.b-{b:g}.q0.bmw.64"
    return [folder / stem, folder / f"{stem}.block_simdbp"]


def build_text(
    folder: Path, passages: Iterable[tuple[str, str]], *, stemmer: str, threads: int, k1: float, b: float, whole: Callable[[], bool]
) -> int:
    """Build an index of words in the new folder ``folder``; gives the number of passages that PISA has.

    Args:
        folder: where to build it.
        passages: (docno, text); docno without white space, text of :func:`ascii_text`, at least one with a word.
        stemmer: one of ``STEMMERS``.
        threads: how many threads invert.
        k1: of the BM25 that a whole index is made ready for.
        b: of the same BM25.
        whole: asked after the last passage: whether these are all passages of the index, or those of a shard.

    Raises:
        DataError: with PISA's last words, when it fails.
    """

    def lines() -> Iterator[str]:
        yield from (f"{docno} {text}\n" for docno, text in passages)
        yield " whole\n" if whole() else " shard\n"

    _write(folder, lines(), kind="text", build=True, k1=k1, b=b, stemmer=stemmer, threads=threads)
    return count_passages(folder)


def build_impacts(folder: Path, files: Sequence[Path]) -> int:
    """Build an index of the impacts that :func:`encode_passages` wrote, in the new folder ``folder``; gives PISA's number of passages."""
    _write(folder, [*(f"{file}\n" for file in files), " whole\n"], kind="impacts", build=True)
    return count_passages(folder)


def check_count(indexed: int, count: int) -> None:
    """Check that PISA has all passages.

    Raises:
        DataError: when it hasn't.
    """
    if indexed != count:
        raise DataError(f"PISA has {indexed} of {count} passages: index again, and report it if it happens twice")


def make_bm25_ready(folder: Path, k1: float, b: float) -> None:
    """Write what PISA needs for BM25 with these parameters into its index ``folder``."""
    _write(folder, kind="text", build=False, k1=k1, b=b)


def add_bm25(folder: Path, k1: float, b: float, described: Collection[str] = ()) -> None:
    """Add what PISA needs for BM25 with these parameters to an index in use, unless it is there and whole.

    Args:
        folder: PISA's files.
        k1: of BM25.
        b: of BM25.
        described: the names of files that the index's description has, which was checked before.
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
    """Add what PISA needs for the dot product to an index in use, unless it is there and whole; see :func:`add_bm25`.

    PyTerrier keeps no record of the files that it adds itself: they are taken as they are.
    """
    files = [folder / name for name in IMPACT_FILES]
    of_pyterrier = all(file.exists() for file in files) and not record_of(files).exists()
    if not (of_pyterrier or is_whole(files, described)):
        add_derived(files, lambda workplace: _write(workplace, kind="impacts", build=False), "retrieval by impacts")


def _ready_for(folder: Path) -> list[list[Path]]:
    """The files of each pair of parameters of BM25 that something is there for."""
    return [[first, first.with_name(f"{first.name}.block_simdbp")] for first in sorted(folder.glob("bm25.*.64"))]


def _reuse_postings(there: Path, postings: Path) -> None:
    """Link the compressed postings of other parameters: unquantised, they don't depend on them."""
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
    with (folder / "fwd.doclex").open("rb") as file:  # their number, where each one begins, where the last one ends, and the docnos
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
    """PISA's BM25 over the index in ``folder``; it adds what is missing for these parameters first.

    ``described`` is that of :func:`add_bm25`, and ``held`` another name of the folder, which leads to no other one meanwhile.

    The dynamic pruning is ``maxscore``: on queries of hundreds of words it is several times as fast as PISA's default, with the same
    ranking. Repeated query terms count, as in Lucene. With ``terms`` it looks up ``query_toks`` as they are: else PISA would stem terms
    of the index once more.
    """
    from pyterrier_pisa import PisaIndex, PisaStemmer

    add_bm25(folder, k1, b, described)
    index = PisaIndex(_opened_at(held or folder, bm25_files(folder, k1, b)), stops="none" if terms else stops)
    if terms:
        index.stemmer = PisaStemmer.none
    return index.bm25(k1=k1, b=b, query_algorithm="maxscore", query_weighted=True, toks_scale=1, threads=threads)


def _opened_at(folder: Path, files: Sequence[Path]) -> str:
    """The folder's name for PISA, which would write what it lacks in the reader's process, and end that one on trouble."""
    if not all((folder / file.name).exists() for file in files):
        raise Replaced(f"the index {files[0].parent} was replaced while it was opened: search again")
    return str(folder)


def open_impacts(folder: Path, *, threads: int, described: Collection[str] = (), held: Path | None = None) -> Any:
    """PISA's dot product over the index in ``folder``; it adds what is missing for it first. See :func:`open_bm25`.

    Its input has ``query_toks``, dicts of impacts by term; its score is the sum of their products with the passage's. Terms that no
    passage has, and those with a capital of ASCII, count nothing.
    """
    from pyterrier_pisa import PisaIndex

    add_impacts(folder, described)
    return PisaIndex(_opened_at(held or folder, [folder / name for name in IMPACT_FILES]), stops="none").quantized(
        query_algorithm="maxscore", toks_scale=1, threads=threads
    )


def search(retriever: Any, name: str, queries: Sequence[Any], depth: int) -> list[Ranking]:
    """The rankings of ``queries`` by PISA, equal scores by docno, the greatest first, as in trec_eval.

    PISA keeps random passages of those that tie at the cut, so an eighth more are retrieved, repeatedly until the tie ends.

    Args:
        retriever: PISA's; its number of results is changed.
        name: the column of ``queries``: ``"query"`` or ``"query_toks"``.
        queries: a frame with that column.
        depth: passages per query at most.
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
    # PISA's threads hand over queries as they end, each query's passages in order.
    rows, docnos, scores = found["qid"].to_numpy(), found["docno"].to_numpy(), found["score"].to_numpy()
    bounds = [*np.flatnonzero(np.diff(rows, prepend=-1)).tolist(), len(rows)]
    rankings = {rows[start]: Ranking(docnos[start:end].tolist(), scores[start:end]) for start, end in pairwise(bounds)}
    return [rankings.get(number, NOTHING) for number in range(len(queries))]


# Files that PISA needs for one scorer, derived from an index in use


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


def add_derived(files: Sequence[Path], build: Callable[[Path], None], use: str) -> None:
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
