"""Several PISA indexes of consecutive passages, written as the one index that PISA would have made of all the passages.

PISA keeps, per term in the order of the bytes, the list of its passages and the list of its counts: a length and that many numbers, all
32 bits wide. So all shards can be read from end to end side by side, with no more in memory than one term's list of one shard.
"""

import resource
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from shutil import copyfile, copyfileobj
from typing import IO

import numpy as np
from tqdm.auto import tqdm

WIDTH = 4
BUFFERS = 1 << 26
"""Bytes for the buffers of all files together: shards may be hundreds."""


def merge_shards(shards: Sequence[Path], folder: Path) -> None:
    """Merge PISA indexes.

    Args:
        shards: their folders, in the order of the passages.
        folder: the folder to make; PISA's lexicons and what it needs for BM25 are still to be added.
    """
    folder.mkdir()
    sizes = [_number_of_passages(shard) for shard in shards]
    starts = [0, *accumulate(sizes)]
    copyfile(shards[0] / "pt_meta.json", folder / "pt_meta.json")
    with (folder / "fwd.documents").open("wb") as documents, (folder / "inv.sizes").open("wb") as lengths:
        lengths.write(_word(starts[-1]))
        for shard in shards:
            _append(shard / "fwd.documents", documents)
            _append(shard / "inv.sizes", lengths, skip=WIDTH)
    _merge_postings(shards, starts, folder)


def _merge_postings(shards: Sequence[Path], starts: Sequence[int], folder: Path) -> None:
    buffer = max(BUFFERS // (3 * len(shards) + 3), 1 << 15)
    _allow_open_files(3 * len(shards) + 100)
    with ExitStack() as opened:

        def each(name: str) -> list[IO[bytes]]:
            return [opened.enter_context((shard / name).open("rb", buffer)) for shard in shards]

        docs, freqs = each("inv.docs"), each("inv.freqs")
        terms, all_docs, all_freqs = (
            opened.enter_context((folder / name).open("wb", buffer)) for name in ("fwd.terms", "inv.docs", "inv.freqs")
        )
        all_docs.write(_word(1) + _word(starts[-1]))
        for file in docs:
            file.seek(2 * WIDTH)
        streams = [_lines(file, shard) for shard, file in enumerate(each("fwd.terms"))]
        for term, found in groupby(tqdm(merge(*streams), desc="merging terms", delay=2), key=itemgetter(0)):
            having = [shard for _, shard in found]
            terms.write(term)
            _copy_term(having, docs, all_docs, starts)
            _copy_term(having, freqs, all_freqs, [0] * len(starts))


def _allow_open_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count and soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard))


def _copy_term(having: Sequence[int], files: Sequence[IO[bytes]], out: IO[bytes], offsets: Sequence[int]) -> None:
    lengths = [int.from_bytes(files[shard].read(WIDTH), "little") for shard in having]
    out.write(_word(sum(lengths)))
    for shard, length in zip(having, lengths, strict=True):
        numbers = files[shard].read(length * WIDTH)
        offset = offsets[shard]
        out.write((np.frombuffer(numbers, dtype="<u4") + np.uint32(offset)).tobytes() if offset else numbers)


def _number_of_passages(shard: Path) -> int:
    with (shard / "inv.sizes").open("rb") as file:
        return int.from_bytes(file.read(WIDTH), "little")


def _lines(file: IO[bytes], shard: int) -> Iterator[tuple[bytes, int]]:
    return ((line, shard) for line in file)


def _append(path: Path, out: IO[bytes], skip: int = 0) -> None:
    with path.open("rb") as file:
        file.seek(skip)
        copyfileobj(file, out, 1 << 20)


def _word(number: int) -> bytes:
    return number.to_bytes(WIDTH, "little")
