"""The first stage of a served system: what it searches, and with a client's depth and BM25."""

import json
from typing import Any

import pyterrier as pt

from ...errors import UsageError
from ...operator import Operator, face, label_of, unidentified_stages
from ...store.cache import digest
from ...study.systems import System


def search_facts(system: System) -> dict[str, Any]:
    """Describe what a system searches; :class:`~pyterrier_ikat.Remote` reads it.

    Returns:
        ``stage``, the name of its first stage that searches, or None without one; ``fingerprint``,
        which changes with the stage, its settings and its index, or None if a change can't be
        noticed; ``bm25``, whether the stage takes k1 and b; ``depth``, the most passages per query
        that it returns, or None if it takes a client's depth or has no known limit.
    """
    retriever = system.retriever
    if retriever is None:
        return {"stage": None, "fingerprint": None, "bm25": False, "depth": None}
    fingerprint = None
    if not unidentified_stages(retriever):
        # the depth is the client's
        identity = System.of((retriever % 1).compile()).parameters()
        fingerprint = digest(json.dumps(identity, sort_keys=True)).hex()
    return {
        "stage": label_of(retriever),
        "fingerprint": fingerprint,
        "bm25": {"k1", "b"} <= _arguments(retriever).keys(),
        "depth": None if _takes_depth(retriever) else face(retriever).passages_at_most(),
    }


def _arguments(retriever: pt.Transformer) -> dict[str, Any]:
    """The arguments that a client may change: those of an operator of this package."""
    return retriever.arguments() if isinstance(retriever, Operator) else {}


def _takes_depth(retriever: pt.Transformer) -> bool:
    return "num_results" in _arguments(retriever)


def stage_for_client(
    system: System, depth: int, k1: float | None = None, b: float | None = None
) -> pt.Transformer:
    """Return the first stage of a system, with a client's depth and parameters of BM25.

    None stands for the stage's own parameter.

    Raises:
        UsageError: when the stage has no BM25, or a parameter is out of range.
    """
    retriever = system.retriever
    assert retriever is not None
    arguments = _arguments(retriever)
    changed: dict[str, float] = {}
    if k1 is not None:
        changed["k1"] = k1
    if b is not None:
        changed["b"] = b
    if not changed.keys() <= arguments.keys():
        raise UsageError(
            f"model {system.name} searches with {label_of(retriever)}, which takes no k1 and b: "
            "omit them"
        )
    if _takes_depth(retriever):
        changed["num_results"] = depth
    if changed:
        retriever = type(retriever)(**{**arguments, **changed})
    return retriever % depth
