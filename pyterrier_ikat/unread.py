"""Texts that nobody reads: where no later stage looks at the column ``text``, a run's retrievers don't look the texts up.

To look up 1000 texts takes several times as long as a search. A run keeps none of them, so it asks its stages from the last one backwards
whether they read texts. A stage that doesn't answer reads them, and so does every stage of another package but a rank cutoff.
"""

from collections.abc import Mapping
from typing import Any

import pyterrier as pt

from .operator import stages, subpipelines

Stages = list[pt.Transformer]


def without_unread_texts(pipeline: pt.Transformer) -> pt.Transformer:
    """A pipeline for somebody who doesn't read the texts of its passages: it may omit the column ``text``. All else is the same.

    Example:
        >>> import tempfile, pandas as pd, pyterrier_ikat as ikat
        >>> bm25 = ikat.PassageIndex(tempfile.mkdtemp()).index([{"docno": "d1", "text": "green tea"}]).bm25()
        >>> turns = pd.DataFrame({"qid": ["1_1"], "query": ["tea"]})
        >>> list(without_unread_texts(bm25 % 5)(turns).columns)
        ['qid', 'query', 'docno', 'score', 'rank']
    """
    before, behind = _divided(pipeline)
    return pt.Compose(*before, *map(_without, behind)) if behind else pipeline


def without_texts_unread_by_all(systems: Mapping[str, pt.Transformer]) -> dict[str, pt.Transformer]:
    """The same for systems that run a stage once where they share it: a stage whose texts one of them reads keeps them in all."""
    divided = {name: _divided(pipeline) for name, pipeline in systems.items()}
    kept = [stage for before, _ in divided.values() for stage in before]
    return {
        name: pt.Compose(*before, *(stage if stage in kept else _without(stage) for stage in behind)) if behind else systems[name]
        for name, (before, behind) in divided.items()
    }


def _divided(pipeline: pt.Transformer) -> tuple[Stages, Stages]:
    """The stages up to the last one that may read texts, and those behind it."""
    before: Stages = list(stages(pipeline))
    behind: Stages = []
    while before and not getattr(before[-1], "reads_texts", not isinstance(before[-1], pt.RankCutoff)):
        behind.insert(0, before.pop())
        if subpipelines(behind[0]):  # which may read those of its input
            break
    return before, behind


def _without(stage: Any) -> pt.Transformer:
    left_out: pt.Transformer = stage.without_texts() if hasattr(stage, "without_texts") else stage
    return left_out
