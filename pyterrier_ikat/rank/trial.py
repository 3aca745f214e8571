"""Which backend of a cross-encoder is the fastest here whose rankings are those of single precision."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..errors import UsageError
from .scoring import Floats

PAIRS = 96
"""Pairs of a trial; with fewer nothing is decided."""
FIRST = 8
"""Pairs that each backend gets before its time is taken."""
TOP = 10
LEAST_OVERLAP = 0.99
DRAWS = 200

logger = logging.getLogger(__name__)
Score = Callable[[Sequence[tuple[str, str]]], Floats]


def fastest(backends: Mapping[str, Score], pairs: Sequence[tuple[str, str]], model: str) -> str:
    """The backend that scores ``pairs`` in the least time, of those that agree with the first; says so in the log.

    Args:
        backends: scorers by name, ``"fp32"`` first, which the others must agree with.
        pairs: what they are tried on.
        model: its name, for the log.
    """
    exact, seconds = None, {}
    figures = []
    for name, score in backends.items():
        try:
            score(pairs[:FIRST])
            started = time.perf_counter()
            scores = score(pairs)
            taken = time.perf_counter() - started
        except UsageError as error:
            if exact is None:
                raise
            figures.append(f"{name} can't run it: {error}")
            continue
        exact = scores if exact is None else exact
        overlap = top_overlap(exact, scores)
        figures.append(f"{name} {len(pairs) / taken:.3g} pairs/s, top-{TOP} overlap {overlap:.3f}")
        if overlap >= LEAST_OVERLAP:
            seconds[name] = taken
    chosen = min(seconds, key=lambda name: seconds[name])
    logger.info("%s runs with %s: %s", model, chosen, "; ".join(figures))
    return chosen


def some(queries: Sequence[str], texts: Sequence[str]) -> list[tuple[str, str]]:
    """Distinct (query, text) pairs from all over the rows, ``PAIRS`` of them, or fewer where there aren't as many."""
    step = max(1, len(queries) // (2 * PAIRS))  # twice as many as needed, since the same pair may be there twice
    drawn = list(dict.fromkeys(zip(queries[::step], texts[::step], strict=True)))
    return drawn[:: max(1, len(drawn) // PAIRS)][:PAIRS]


def top_overlap(exact: Floats, other: Floats) -> float:
    """The share of the ten best by one score that are among the ten best by the other, from 0 to 1.

    It is the mean over random halves of the pairs, as one list of ten could tell apart tenths only; always the same halves. A score that
    isn't finite counts as the worst.
    """
    random = np.random.default_rng(0)
    usable = np.where(np.isfinite(other), other, -np.inf)
    shares = []
    for _ in range(DRAWS):
        drawn = random.permutation(len(exact))[: max(len(exact) // 2, 1)]
        best = [set(drawn[np.argsort(-scores[drawn], kind="stable")[:TOP]]) for scores in (exact, usable)]
        shares.append(len(best[0] & best[1]) / len(best[0]))
    return float(np.mean(shares))
