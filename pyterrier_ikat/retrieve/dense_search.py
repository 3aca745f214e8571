"""Exact search of vectors: a matrix product by blocks finds the candidates for the top, and 64-bit products decide their order.

The matrix product uses 32 bits. Its rounding depends on how many queries and passages are multiplied together. So each query keeps every
passage whose score is within that rounding error of its k-th best score. Only these are multiplied again, in 64 bits. Scores and order then
depend only on the query and the passages, not on the blocks, the other queries and the device.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

BLOCK = 8192
"""Vectors in a block of the CPU: its scores stay in the processor's cache."""
DEVICE_BLOCK = 1 << 16
CROWD = 4
"""When a query keeps more than this many times ``depth`` candidates, 64-bit products decide among them."""


class Found(NamedTuple):
    """The best rows of one query, best first, and their scores."""

    rows: Rows
    scores: Scores


def search_vectors(
    vectors: Vectors, queries: Vectors, depth: int, *, longest: float, device: str = "cpu", loaded: Any = None
) -> list[Found]:
    """The rows with the highest dot product with each query.

    Args:
        vectors: one row each; a mapped file is read once, in blocks.
        queries: one row each, at most 65,536.
        depth: the maximum number of rows per query.
        longest: the length of the longest vector.
        device: ``"cpu"``, or a device of torch, which gives the same result.
        loaded: the result of :func:`load_on` for the vectors and the device.

    Returns:
        For each query its rows by score (ties by row, the greatest first), and their dot products, computed in 64 bits, rounded to 32.

    Example:
        >>> vectors = np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32)
        >>> search_vectors(vectors, vectors[:1], 2, longest=1.0)[0].rows.tolist()
        [2, 0]
    """
    vectors = np.asarray(vectors)  # a memmap gives parts slowly
    candidates = Candidates(vectors, queries, min(depth, len(vectors)), longest)
    if device == "cpu":
        blocks = _hits_on_cpu(vectors, queries, candidates.floors)
    else:
        blocks = _hits_on_device(vectors if loaded is None else loaded, queries, candidates.floors, device)
    for start, size, places, scores in blocks:
        candidates.add(start, size, places, scores)
    return candidates.best()


def find_device(wanted: str) -> str:
    """The device that ``wanted`` names. ``"auto"`` is a GPU if torch has one, else the CPU."""
    if wanted != "auto":
        return wanted
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def load_on(vectors: Vectors, device: str) -> Any:
    """The vectors on a GPU if they take at most half of its free memory; else None, and they are copied there block by block."""
    if device == "cpu":
        return None
    import torch

    free = torch.cuda.mem_get_info(device)[0] if device.startswith("cuda") else 0
    return copy_to(vectors, device) if 2 * vectors.nbytes <= free else None


def copy_to(vectors: Vectors, device: str) -> Any:
    """The vectors as a tensor on a device. Apart from the mapped file, at most one block of them is in memory."""
    import torch

    held = torch.empty(vectors.shape, dtype=torch.float32, device=device)
    for start in range(0, len(vectors), DEVICE_BLOCK):
        held[start : start + DEVICE_BLOCK] = torch.from_numpy(np.array(vectors[start : start + DEVICE_BLOCK]))
    return held


Block = tuple[int, int, Rows, Scores]
"""The first row of a block, its size, and the scores that reach their query's floor: their positions, query by query, and values."""


def _hits_on_cpu(vectors: Vectors, queries: Vectors, floors: Scores) -> Iterator[Block]:
    """One block per thread at a time, each multiplied by one thread: threads that share a product wait for each other at its end."""
    from threadpoolctl import threadpool_limits

    threads = min(os.cpu_count() or 1, 16)
    rooms = [(np.empty(len(queries) * BLOCK, np.float32), np.empty(len(queries) * BLOCK, np.bool_)) for _ in range(threads)]

    def look(start: int) -> Block:
        block, room = vectors[start : start + BLOCK], rooms.pop()
        area = len(queries) * len(block)
        scores, above = room[0][:area].reshape(len(queries), -1), room[1][:area].reshape(len(queries), -1)
        np.matmul(queries, block.T, out=scores)
        np.greater_equal(scores, floors[:, None], out=above)
        places = np.flatnonzero(above)
        found = scores.ravel()[places]
        rooms.append(room)
        return start, len(block), places, found

    pending: deque[Future[Block]] = deque()
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(vectors), BLOCK):
            pending.append(pool.submit(look, start))
            if start == 0 or len(pending) > 2 * threads:  # the first one gives floors to all others
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _hits_on_device(vectors: Any, queries: Vectors, floors: Scores, device: str) -> Iterator[Block]:
    import torch

    asked, start, size = torch.from_numpy(queries).to(device), 0, BLOCK
    while start < len(vectors):
        block = vectors[start : start + size]
        block = (block if torch.is_tensor(block) else torch.from_numpy(np.array(block))).to(device)
        with _whole_products():
            scores = asked @ block.T
        places = torch.nonzero((scores >= torch.from_numpy(floors).to(device)[:, None]).flatten()).flatten()
        yield start, len(block), places.cpu().numpy(), scores.flatten()[places].cpu().numpy()
        start, size = start + size, min(2 * size, DEVICE_BLOCK)


@contextmanager
def _whole_products() -> Iterator[None]:
    """Products in full 32 bits, even if a user allows torch fewer."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class Candidates:
    """The rows that may be among the best of each query, of the blocks read so far.

    Args:
        vectors: one row each.
        queries: one row each.
        depth: rows wanted per query.
        longest: the length of the longest vector, which bounds the rounding of a product.
    """

    def __init__(self, vectors: Vectors, queries: Vectors, depth: int, longest: float) -> None:
        self.vectors, self.queries, self.depth = vectors, queries, depth
        lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
        # In any order of summing, each of two products is off by less than (dimensions + 2) * 2**-24 * |query| * |vector|.
        self.margins = 2.5 * (vectors.shape[1] + 2) * 2.0**-24 * lengths * longest
        self.floors = np.full(len(queries), -np.inf, dtype=np.float32)
        """The threshold for a score."""
        self._kept = [Found(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        self._waiting: list[tuple[Rows, Rows, Scores]] = []
        self._count = 0

    def add(self, start: int, size: int, places: Rows, scores: Scores) -> None:
        """Add the rows of a block that reach the floors; see ``Block``."""
        query, row = np.divmod(places, size)
        self._waiting.append((query, row + start, scores))
        self._count += len(places)
        if self._count > self.depth * len(self.queries):
            self._settle()

    def best(self) -> list[Found]:
        """The best rows of each query by score, ties by row, the greatest first."""
        self._settle()
        with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as threads:
            return list(threads.map(self._exact, range(len(self._kept)), [found.rows for found in self._kept]))

    def _settle(self) -> None:
        if not self._waiting:
            return
        query, row, score = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        order = np.argsort(query.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(query, minlength=len(self.queries)))
        for number, part in enumerate(np.split(order, ends[:-1])):
            if len(part):
                self._keep(number, row[part], score[part])
        self._waiting, self._count = [], 0

    def _keep(self, number: int, rows: Rows, scores: Scores) -> None:
        kept = self._kept[number]
        rows, scores = np.concatenate([kept.rows, rows]), np.concatenate([kept.scores, scores])
        if len(rows) > self.depth:
            floor = self._floor(number, scores)
            near = scores >= floor
            rows, scores = rows[near], scores[near]
            if len(rows) > CROWD * self.depth:
                rows, scores = self._exact(number, rows)
                floor = self._floor(number, scores)
            self.floors[number] = floor
        self._kept[number] = Found(rows, scores)

    def _floor(self, number: int, scores: Scores) -> np.float32:
        worst = np.partition(scores, len(scores) - self.depth)[len(scores) - self.depth]
        return np.float32(float(worst) - self.margins[number])

    def _exact(self, number: int, rows: Rows) -> Found:
        rows = np.sort(rows)
        vectors = self.vectors[rows].astype(np.float64)
        # Not @, whose rounding depends on the number of rows.
        scores = np.einsum("ij,j->i", vectors, self.queries[number].astype(np.float64)).astype(np.float32)
        best = np.lexsort((-rows, -scores))[: self.depth]
        return Found(rows[best], scores[best])
