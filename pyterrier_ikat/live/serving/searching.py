"""The first stage of a served system: what it searches, and BM25 with a client's parameters."""

import json
from typing import Any

import pyterrier as pt

from ...errors import UsageError
from ...operator import Operator, label_of, unidentified_stages
from ...store.cache import digest
from ...study.systems import System


def search_facts(system: System) -> dict[str, Any]:
    """Describe what a system searches; :class:`~pyterrier_ikat.Remote` reads it.

    Returns:
        ``stage``, the name of its first stage that searches, or None without one; ``fingerprint``,
        which changes with the stage, its settings and its index, or None if a change can't be
        noticed; ``bm25``, whether the stage takes k1 and b.
    """
    retriever = system.retriever
    if retriever is None:
        return {"stage": None, "fingerprint": None, "bm25": False}
    fingerprint = None
    if not unidentified_stages(retriever):
        # the depth is the client's
        identity = System.of((retriever % 1).compile()).parameters()
        fingerprint = digest(json.dumps(identity, sort_keys=True)).hex()
    return {
        "stage": label_of(retriever),
        "fingerprint": fingerprint,
        "bm25": _takes_bm25(retriever),
    }


def _takes_bm25(retriever: pt.Transformer) -> bool:
    return isinstance(retriever, Operator) and {"k1", "b"} <= retriever.arguments().keys()


def with_bm25(system: System, k1: float | None, b: float | None) -> pt.Transformer:
    """Return the first stage of a system with these parameters; None stands for the stage's own.

    Raises:
        UsageError: when the stage has no BM25, or a parameter is out of range.
    """
    retriever = system.retriever
    assert retriever is not None
    if k1 is None and b is None:
        return retriever
    if not isinstance(retriever, Operator) or not _takes_bm25(retriever):
        raise UsageError(
            f"model {system.name} searches with {label_of(retriever)}, which takes no k1 and b: "
            "omit them"
        )
    arguments = retriever.arguments()
    if k1 is not None:
        arguments["k1"] = k1
    if b is not None:
        arguments["b"] = b
    return type(retriever)(**arguments)
