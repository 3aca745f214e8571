"""Exact search among vectors.

A product of matrices finds the passages that may be the best, and each of these is scored alone:
how a product of matrices rounds depends on its size, so the score of a passage would depend on the
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

VECTORS = "vecs.f4"
DOCNOS = "docnos.txt"
QUERIES_AT_ONCE = 256
SCORES_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Scores that are computed before the high ones are picked, so few that they stay in a cache."""
SAMPLED_VECTORS = 4096
"""Vectors whose scores suggest how high the best ones are."""
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
        """Rank the passages by their dot product with each query.

        Equal products are ordered by docno, the greatest first.
        """
        import torch

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device not in self._held:
            self._held = {device: torch.from_numpy(self.vectors).to(device)}
        rankings: list[Ranking] = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            batch = queries[start : start + QUERIES_AT_ONCE]
            on_device = torch.from_numpy(batch).to(device)
            noise = self._noise * np.linalg.norm(batch, axis=1)
            nearest = _Nearest(self._held[device], on_device, noise, min(depth, len(self.vectors)))
            for query, rows in zip(batch, nearest.rows(), strict=True):
                rankings.append(self._ranked(query, rows, depth))
        return rankings

    @cached_property
    def _noise(self) -> float:
        """The greatest error of a product in 32 bits with a query of length 1.

        It is n u |x| |y| for n dimensions. Source: Higham, Accuracy and Stability of Numerical
        Algorithms, 2002, section 3.1.
        """
        longest = 0.0  # the square of the greatest length of a vector
        for start in range(0, len(self.vectors), SAMPLED_VECTORS):
            part = self.vectors[start : start + SAMPLED_VECTORS]
            squares = np.einsum("ij,ij->i", part, part, dtype=np.float64)
            longest = max(longest, float(squares.max()))
        dimensions: int = self.vectors.shape[1]
        return (dimensions + 2) * float(np.finfo(np.float32).eps) * math.sqrt(longest)

    def _ranked(self, query: Floats, rows: Numbers, depth: int) -> Ranking:
        """Rank some rows by their products in 64 bits, rounded to 32 bits."""
        scores = self._products(query, rows).astype(np.float32)
        order = np.argsort(-scores)
        docnos = self.docnos.take(rows.take(order)).tolist()
        return sort_ties(Ranking(docnos, scores.take(order)), depth)

    def _products(self, query: Floats, rows: Numbers) -> npt.NDArray[np.float64]:
        """Return the products of some rows with a query.

        They are made row by row, so that each is the same whichever other rows there are.
        """
        wide = query.astype(np.float64)
        products = np.empty(len(rows))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            part = self.vectors.take(rows[some], axis=0)
            np.einsum("ij,j->i", part, wide, dtype=np.float64, out=products[some])
        return products


class _Nearest:
    """The candidates for the best vectors of some queries.

    Args:
        vectors: all vectors, a tensor.
        queries: a tensor on the same device.
        noise: the greatest error of a score, by query.
        depth: the number of best vectors, at most that of all.
    """

    def __init__(self, vectors: Any, queries: Any, noise: Numbers, depth: int) -> None:
        self.vectors = vectors
        self.queries = queries
        self.noise = noise
        self.depth = depth

    def rows(self) -> list[Numbers]:
        """Return for each query the vectors of possibly highest score.

        A sample suggests a threshold for each query, and all vectors that reach it are picked. The
        picked scores show which score a vector among the best needs at least. If this is not below
        the threshold, every vector that has it was picked, and the search ends. If it is below,
        vectors between the two may be missing: it becomes the threshold of the next search.
        """
        rows_of: dict[int, Numbers] = {}
        thresholds = self._suggested()
        unfinished = list(range(len(self.queries)))
        while unfinished:
            picked = self._picked(unfinished, thresholds[unfinished])
            for query, (rows, scores) in zip(unfinished, picked, strict=True):
                threshold = thresholds[query]
                needed = self._needed(query, scores)
                all_picked = threshold == -np.inf
                if needed >= threshold or all_picked:
                    rows_of[query] = rows[~(scores < needed)]
                else:
                    thresholds[query] = needed
            unfinished = [query for query in unfinished if query not in rows_of]
        return [rows_of[query] for query in range(len(self.queries))]

    def _needed(self, query: int, scores: Floats) -> np.float32:
        """Return the least score of a vector among the best, by the picked scores.

        It is the score of the last of the best, minus the errors of this score and of the vector's
        own. -inf if fewer were picked than are wanted.
        """
        if len(scores) < self.depth:
            return np.float32(-np.inf)
        last = len(scores) - self.depth
        return np.float32(np.partition(scores, last)[last] - 2 * self.noise[query])

    def _suggested(self) -> Floats:
        """Suggest a score for each query by a sample; more than ``depth`` vectors reach it."""
        sample = self.vectors[:: max(len(self.vectors) // SAMPLED_VECTORS, 1)]
        expected = self.depth * len(sample) / len(self.vectors)
        reached = int(expected + 4 * math.sqrt(expected)) + 4  # four standard deviations, and some
        if 8 * reached > len(sample):
            return np.full(len(self.queries), -np.inf, dtype=np.float32)
        scores = (self.queries @ sample.T).cpu().numpy()
        position = scores.shape[1] - reached
        return np.array(np.partition(scores, position, axis=1)[:, position])

    def _picked(self, queries: list[int], thresholds: Floats) -> list[tuple[Numbers, Floats]]:
        """Return for some queries the vectors with scores from the thresholds up, and the scores.

        Scores are computed for a block of vectors at a time, a matrix of queries and vectors.
        """
        import torch

        chosen = self.queries[queries]
        per_block = SCORES_AT_ONCE.get(chosen.device.type, 1 << 20)
        step = max(per_block // len(queries), 1)
        memory = torch.empty(len(queries) * min(step, len(self.vectors)), device=chosen.device)
        parts = []
        for start in range(0, len(self.vectors), step):
            block = self.vectors[start : start + step]
            scores = memory[: len(queries) * len(block)].view(len(queries), len(block))
            torch.mm(chosen, block.T, out=scores)
            flat, high = _at_least(scores, thresholds[:, None])
            query = flat // len(block)
            parts.append((query, flat - query * len(block) + start, high))
        query, rows, scores = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(query.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(query, minlength=len(queries)))[:-1]
        return list(zip(np.split(rows[order], ends), np.split(scores[order], ends), strict=True))


def _at_least(scores: Any, floor: Floats) -> tuple[Numbers, Floats]:
    """Return the flat positions of scores from the floor of their row up, and the scores."""
    import torch

    if scores.device.type != "cpu":
        high = scores >= torch.from_numpy(floor).to(scores.device)
        positions = high.view(-1).nonzero().view(-1)
        return positions.cpu().numpy().astype(np.int32), scores.view(-1)[positions].cpu().numpy()
    array = scores.numpy()  # torch's own search for what is true takes three times as long
    flat = np.flatnonzero(array >= floor).astype(np.int32)
    return flat, array.ravel().take(flat)
