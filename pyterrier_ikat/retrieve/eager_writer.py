"""Writing the files of the eager engine that :class:`.eager.EagerFiles` maps, for words or for impacts."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from . import eager
from .words import list_places

AT_ONCE = 1 << 22
"""Postings in memory while they are written. The number is even, because two counts share a byte."""
MANY = 15
MANY_TYPE = np.dtype([("place", "<i8"), ("count", "<u4")])
LINE_FEED = 10


class _Array:
    """A file of one array, written part by part. Writing through a memory map would end the process when the disk is full."""

    def __init__(self, folder: Path, name: str, dtype: Any, size: int) -> None:
        self._file = (folder / f"{name}.npy").open("wb")
        self.dtype = np.dtype(dtype)
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (size,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, part: npt.NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(part, dtype=self.dtype).tobytes())

    def __enter__(self) -> "_Array":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def _write_array(folder: Path, name: str, values: npt.NDArray[Any]) -> None:
    with _Array(folder, name, values.dtype, len(values)) as file:
        file.append(values)


def write_words(folder: Path, lists: Path, k1: float, b: float) -> None:
    """Write the files of an index of words into a new folder.

    Args:
        folder: the folder to create.
        lists: the folder of its lists; see :mod:`.words`.
        k1: BM25's parameter that the impacts are computed for.
        b: the same for BM25's other parameter.
    """
    folder.mkdir()
    lengths = np.fromfile(lists / "inv.sizes", "<u4")[1:]
    starts = list_places(lists)
    starts -= np.arange(3, 3 + len(starts))
    holders = np.diff(starts)
    weights, norms = eager.weigh_term(holders, len(lengths), k1), eager.norms(lengths, k1, b)
    _write_names(folder, (lists / "fwd.terms").read_bytes(), (lists / "fwd.documents").read_bytes())
    _write_array(folder, "lengths", lengths)
    _write_array(folder, "starts", _small(starts))
    many: list[npt.NDArray[Any]] = []
    size = int(starts[-1])
    with ExitStack() as opened:
        docs, impacts, counts = (
            opened.enter_context(_Array(folder, *about))
            for about in (("docs", "<i4", size), ("impacts", "<f4", size), ("counts", "<u1", (size + 1) // 2))
        )
        for start, terms, numbers, times in _parts(lists, starts):
            docs.append(numbers)
            impacts.append(eager.impacts_of(times, norms[numbers], weights[terms]))
            counts.append(_packed(times))
            places = np.flatnonzero(times >= MANY)
            many.append(np.array(list(zip(places + start, times[places], strict=True)), dtype=MANY_TYPE))
    _write_array(folder, "many", np.concatenate(many))


def _parts(lists: Path, starts: npt.NDArray[np.int64]) -> Iterator[tuple[int, Any, Any, Any]]:
    """The postings in PISA's format without the lengths of the lists: where a part begins, its terms, passages and counts."""
    docs, counts = (np.memmap(lists / name, dtype="<u4", mode="r").view(np.ndarray) for name in ("inv.docs", "inv.freqs"))
    for start in range(0, int(starts[-1]), AT_ONCE):
        end = min(start + AT_ONCE, int(starts[-1]))
        first, last = (int(np.searchsorted(starts, place, "right")) - 1 for place in (start, end - 1))
        lengths = starts[first + 1 : last + 1] - start + np.arange(last - first)  # the lengths of lists lie in between
        bounds = slice(first + 1 + start, last + 1 + end)
        sizes = np.diff(np.concatenate([[start], starts[first + 1 : last + 1], [end]]))
        numbers = np.delete(docs[bounds.start + 2 : bounds.stop + 2], lengths)
        yield start, np.repeat(np.arange(first, last + 1), sizes), numbers, np.delete(counts[bounds], lengths)


def _packed(times: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    small = np.minimum(times, MANY).astype(np.uint8)
    if len(small) % 2:
        small = np.append(small, np.uint8(0))
    return np.asarray(small[::2] | small[1::2] << 4, dtype=np.uint8)


def _write_names(folder: Path, terms: bytes, docnos: bytes) -> None:
    for name, lines in (("terms", terms), ("docnos", docnos)):
        found = np.frombuffer(lines, dtype=np.uint8)
        _write_array(folder, name, found)
        _write_array(folder, f"{name}_ends", _small(np.flatnonzero(found == LINE_FEED)))
    _write_array(folder, "prefixes", eager.as_prefixes(terms.split(b"\n")[:-1]))


def _small(places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Ascending positions, in 32 bits if they fit."""
    return places.astype("<u4" if not len(places) or places[-1] < 1 << 32 else "<i8")


def write_impacts(folder: Path, files: Sequence[Path]) -> int:
    """Write an index of impacts into a new folder, and return the number of passages.

    Args:
        folder: the folder to create.
        files: the files written by :func:`encode_passages`, in the order of the passages. They are read twice, so that at most one of them
            and the index's own arrays are in memory.
    """
    folder.mkdir()
    holders = np.zeros(0, dtype=np.int64)
    for batch in _batches(files):
        more = np.bincount(batch["terms"])
        holders = np.pad(holders, (0, max(len(more) - len(holders), 0)))
        holders[: len(more)] += more
    numbers = np.flatnonzero(holders)
    order = sorted(range(len(numbers)), key=lambda place: str(numbers[place]))
    place = np.zeros(len(holders), dtype=np.int64)
    place[numbers[order]] = np.arange(len(numbers))
    starts = np.concatenate([[0], np.cumsum(holders[numbers[order]])]).astype(np.int64)
    docs, impacts = np.empty(starts[-1], dtype="<i4"), np.empty(starts[-1], dtype="<f4")
    docnos, free = array("B"), starts[:-1].copy()
    count = 0
    for batch in _batches(files):
        terms, of_term = np.unique(place[batch["terms"]], return_inverse=True)
        sorted_by_term = np.argsort(of_term, kind="stable")
        many = np.bincount(of_term, minlength=len(terms))
        at = np.repeat(free[terms] - np.cumsum(many) + many, many) + np.arange(len(of_term))
        passages = np.repeat(np.arange(count, count + len(batch["ends"])), np.diff(batch["ends"], prepend=0))
        docs[at], impacts[at] = passages[sorted_by_term], batch["weights"][sorted_by_term]
        free[terms] += many
        count += len(batch["ends"])
        docnos.frombytes("".join(f"{docno}\n" for docno in batch["docnos"].tolist()).encode())
    _write_names(folder, "".join(f"{numbers[at]}\n" for at in order).encode(), docnos.tobytes())
    for name, values in (("docs", docs), ("impacts", impacts), ("starts", _small(starts))):
        _write_array(folder, name, values)
    return count


def _batches(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for name in files:
        with np.load(name, allow_pickle=False) as batch:
            yield {field: batch[field] for field in ("docnos", "ends", "terms", "weights")}
