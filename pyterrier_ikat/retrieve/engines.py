"""Which engine answers a query: the eager one, on every platform, or PISA, for large collections."""

from collections.abc import Collection
from importlib.util import find_spec

from ..errors import UsageError, advice

ENGINES = ("eager", "pisa")
"""The engines of an index; ``"both"`` builds it for both of them."""
BUILDS = (*ENGINES, "both")
EAGER_UP_TO = 500_000
"""Passages up to which an index gets the files of the eager engine when it is built without naming one."""
LARGE, SHORT = 1_000_000, 20
"""Where an index of more passages has both, queries of fewer distinct words go to PISA, and all others to the eager engine. Beside each
other they were measured over 100,000 passages, with 5 and with 200 words: the eager engine was faster with both. Over 1,000,000 it was
measured alone, on the postings of 100,000 passages ten times. Where the two cross was not measured (``docs/scale.md``)."""


def has_pisa() -> bool:
    """Whether PISA is installed."""
    return find_spec("pyterrier_pisa") is not None


def require_pisa(path: str) -> None:
    """Make sure that an index's PISA can be used.

    Raises:
        UsageError: where PISA isn't installed.
    """
    if not has_pisa():
        again = advice("ikat.PassageIndex(path).index(corpus, engine='eager')", "`ikat index SOURCE PATH --engine eager`")
        raise UsageError(
            f"{path} is searched by PISA, and pyterrier-pisa isn't installed: it has files for Linux on x86_64 only. "
            f"There, pip install pyterrier-pisa; elsewhere index the passages anew, {again}"
        )


def choose_engine(asked: str | None, there: Collection[str], path: str, size: int = 0, words: int = 0) -> str:
    """The engine that answers a query.

    Args:
        asked: the one that is asked for; None takes the faster one.
        there: those that the index has files of.
        path: the index, for the error.
        size: how many passages it has.
        words: how many distinct words the query has.

    Raises:
        UsageError: when the index hasn't the one that is asked for.
    """
    if asked is None:
        by_pisa = size > LARGE and words < SHORT and has_pisa()
        asked = next(iter(there)) if len(there) == 1 else "pisa" if by_pisa else "eager"
    if asked not in there:
        again = advice(f"engine={asked!r} at PassageIndex.index", f"`ikat index SOURCE PATH --engine {asked}`")
        raise UsageError(
            f"the index {path} has no files for engine={asked!r}, only for {', '.join(there)}: index the passages with {again}"
        )
    if asked == "pisa":
        require_pisa(path)
    return asked
