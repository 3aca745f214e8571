"""Exact search among vectors: a product of matrices finds the passages that may be the best, and each of these is scored alone.

How a product of matrices rounds depends on its size, so the score of a passage would depend on the
queries that are searched at the same time, and passages with equal vectors could have different
scores.
"""

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .rankings import Ranking, sort_ties
from .texts import read_names

VECTORS, DOCNOS = "vecs.f4", "docnos.txt"
QUERIES_AT_ONCE = 256
SCORES_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Scores that are computed before the high ones are picked: so many that they stay in a processor's cache."""
SAMPLE = 4096
"""Vectors whose scores tell how high the best ones are."""
ROWS_AT_ONCE = 256
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[Any]


class Vectors:
    """The vectors of a folder, mapped into memory.

    Args:
        folder: has the vectors and a file of docnos.
        size: the number of dimensions of a vector.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.vectors: Floats = np.memmap(folder / VECTORS, dtype="<f4", mode="c").reshape(-1, size)
        self.docnos = np.array(read_names(folder / DOCNOS), dtype=object)
        self._held: dict[str, Any] = {}

    def rankings(self, queries: Floats, depth: int, device: str = "auto") -> list[Ranking]:
        """The passages with the highest dot product with each query. Equal products are ordered by docno, the greatest first."""
        import torch

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device not in self._held:
            self._held = {device: torch.from_numpy(self.vectors).to(device)}
        found: list[Ranking] = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            some = queries[start : start + QUERIES_AT_ONCE]
            on_device = torch.from_numpy(some).to(device)
            noise = self._noise * np.linalg.norm(some, axis=1)
            nearest = _Nearest(self._held[device], on_device, noise, min(depth, len(self.vectors)))
            for query, rows in zip(some, nearest.rows(), strict=True):
                found.append(self._ranked(query, rows, depth))
        return found

    @cached_property
    def _noise(self) -> float:
        """The greatest error of a product in 32 bits with a query of length 1: n u |x| |y| for n dimensions.

        Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1.
        """
        longest = 0.0
        for start in range(0, len(self.vectors), SAMPLE):
            part = self.vectors[start : start + SAMPLE]
            longest = max(longest, float(np.einsum("ij,ij->i", part, part, dtype=np.float64).max()))
        dimensions: int = self.vectors.shape[1]
        return (dimensions + 2) * float(np.finfo(np.float32).eps) * math.sqrt(longest)

    def _ranked(self, query: Floats, rows: Numbers, depth: int) -> Ranking:
        """The first passages of some rows, by their products in 64 bits, rounded to 32 bits."""
        scores = self._products(query, rows).astype(np.float32)
        order = np.argsort(-scores)
        docnos = self.docnos.take(rows.take(order)).tolist()
        return sort_ties(Ranking(docnos, scores.take(order)), depth)

    def _products(self, query: Floats, rows: Numbers) -> npt.NDArray[np.float64]:
        """The products of some rows with a query, row by row: each is the same whichever other rows are there."""
        wide, products = query.astype(np.float64), np.empty(len(rows))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            part = self.vectors.take(rows[some], axis=0)
            np.einsum("ij,j->i", part, wide, dtype=np.float64, out=products[some])
        return products


class _Nearest:
    """The vectors that may be among the best of some queries.

    Args:
        vectors: all vectors, a tensor.
        queries: a tensor on the same device.
        noise: the greatest error of a score, by query.
        depth: the number of best vectors, at most that of all.
    """

    def __init__(self, vectors: Any, queries: Any, noise: Numbers, depth: int) -> None:
        self.vectors, self.queries, self.noise, self.depth = vectors, queries, noise, depth

    def rows(self) -> list[Numbers]:
        """The numbers of the vectors, by query: those of highest score, and all that may be as high as the last of them.

        What reaches a score that a sample suggests is picked. The queries of which too little was
        picked are searched again.
        """
        found: dict[int, Numbers] = {}
        least = self._suggested()
        left = list(range(len(self.queries)))
        while left:
            for query, (rows, scores) in zip(left, self._picked(left, least[left]), strict=True):
                needed = self._needed(query, scores)
                if needed >= least[query] or least[query] == -np.inf:
                    found[query] = rows[~(scores < needed)]
                else:
                    least[query] = needed
            left = [query for query in left if query not in found]
        return [found[query] for query in range(len(self.queries))]

    def _needed(self, query: int, scores: Floats) -> np.float32:
        """The lowest score that a vector among the best can have, after what was picked."""
        if len(scores) < self.depth:
            return np.float32(-np.inf)
        place = len(scores) - self.depth
        return np.float32(np.partition(scores, place)[place] - 2 * self.noise[query])

    def _suggested(self) -> Floats:
        """A score for each query that more than ``depth`` vectors reach, to judge by a sample."""
        sample = self.vectors[:: max(len(self.vectors) // SAMPLE, 1)]
        expected = self.depth * len(sample) / len(self.vectors)
        place = int(expected + 4 * math.sqrt(expected)) + 4  # four standard deviations, and some
        if 8 * place > len(sample):
            return np.full(len(self.queries), -np.inf, dtype=np.float32)
        scores = (self.queries @ sample.T).cpu().numpy()
        return np.array(
            np.partition(scores, scores.shape[1] - place, axis=1)[:, scores.shape[1] - place]
        )

    def _picked(self, places: list[int], least: Floats) -> list[tuple[Numbers, Floats]]:
        """For each of some queries the vectors with at least a score, and their scores."""
        import torch

        asked, floor = self.queries[places], least[:, None]
        step = max(SCORES_AT_ONCE.get(asked.device.type, 1 << 20) // len(places), 1)
        room = torch.empty(len(places) * min(step, len(self.vectors)), device=asked.device)
        parts = []
        for start in range(0, len(self.vectors), step):
            block = self.vectors[start : start + step]
            scores = room[: len(places) * len(block)].view(len(places), len(block))
            torch.mm(asked, block.T, out=scores)
            flat, high = _at_least(scores, floor)
            query = flat // len(block)
            parts.append((query, flat - query * len(block) + start, high))
        query, rows, scores = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(query.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(query, minlength=len(places)))[:-1]
        return list(zip(np.split(rows[order], ends), np.split(scores[order], ends), strict=True))


def _at_least(scores: Any, floor: Floats) -> tuple[Numbers, Floats]:
    """The places in a flat matrix whose scores reach those of their row, and these scores."""
    import torch

    if scores.device.type != "cpu":
        high = scores >= torch.from_numpy(floor).to(scores.device)
        places = high.view(-1).nonzero().view(-1)
        return places.cpu().numpy().astype(np.int32), scores.view(-1)[places].cpu().numpy()
    held = scores.numpy()  # torch's own search for what is true takes three times as long
    flat = np.flatnonzero(held >= floor).astype(np.int32)
    return flat, held.ravel().take(flat)
