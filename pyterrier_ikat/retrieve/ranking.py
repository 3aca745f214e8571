"""What a retriever finds for one query: searched once over all systems and turns, and kept as arrays."""

import struct
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from ..result_cache import ResultCache

AT_ONCE = 256
HEADER = struct.Struct("<II")


class Ranking(NamedTuple):
    """The passages of one query, best first, and their scores."""

    docnos: list[str]
    scores: npt.NDArray[np.floating[Any]]

    def best(self, depth: int) -> "Ranking":
        """The first ``depth`` of them."""
        return Ranking(self.docnos[:depth], self.scores[:depth])


NOTHING = Ranking([], np.empty(0, dtype=np.float32))


def packed(ranking: Ranking, depth: int) -> bytes:
    """A ranking of PISA, searched to ``depth``, as bytes: depth, number of passages, scores in PISA's 32 bits, docnos by line."""
    scores = ranking.scores.astype("<f4").tobytes()
    return HEADER.pack(depth, len(ranking.docnos)) + scores + "\n".join(ranking.docnos).encode()


def unpacked(value: bytes, depth: int) -> Ranking | None:
    """The first ``depth`` passages of a packed ranking; None when it was searched less deep and may have missed some."""
    searched, count = HEADER.unpack_from(value)
    if searched < depth and count == searched:
        return None
    scores = np.frombuffer(value, "<f4", count, HEADER.size)
    docnos = value[HEADER.size + scores.nbytes :].decode().split("\n") if count else []
    return Ranking(docnos, scores).best(depth)


def each_once(
    queries: Mapping[bytes, Any], depth: int, cache: ResultCache, search: Callable[[list[Any]], list[Ranking]], label: str
) -> dict[bytes, Ranking]:
    """The ranking of each query; only those that ``cache`` doesn't have are searched.

    Args:
        queries: by a key that stands for everything that decides the ranking but the depth.
        depth: passages per query at most.
        cache: where rankings are kept, empty ones too. A deeper ranking serves: its beginning is the shallower one.
        search: gives the rankings of up to 256 queries, ``depth`` deep.
        label: the progress bar's.
    """
    known = ((key, unpacked(value, depth)) for key, value in cache.get(list(queries)).items())
    found = {key: ranking for key, ranking in known if ranking is not None}
    missing = iter([key for key in queries if key not in found])
    with tqdm(total=len(queries), initial=len(found), desc=label, unit="query", delay=2, leave=False) as bar:
        while batch := list(islice(missing, AT_ONCE)):
            new = dict(zip(batch, search([queries[key] for key in batch]), strict=True))
            cache.put({key: packed(ranking, depth) for key, ranking in new.items()})
            found |= new
            bar.update(len(batch))
    return found
