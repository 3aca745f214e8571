"""Run any pipeline over turns on a Ray cluster: the frame is cut into parts, and the results are joined."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt

from ..errors import DataError, IkatError, UsageError
from ..events import carried
from ..llms import LLM, BatchUnderWay, StageError
from ..llms.failures import UnderWay
from ..operator import Operator
from ..progress import bar as bar_of
from .worker import Answers, Outcome, Question, pack, thaw_error
from .workers import Workers, death_errors, find_workers


def cut(frame: pd.DataFrame, partitions: int) -> list[pd.DataFrame]:
    """Cut a frame into at most ``partitions`` parts with about equally many turns. A turn's sub-queries and passages stay together.

    Example:
        >>> turns = pd.DataFrame({"qid": ["a::1", "a::2", "b::1", "c::1"], "qid_0": ["a", "a", "b", "c"]})
        >>> [part["qid"].tolist() for part in cut(turns, 2)]
        [['a::1', 'a::2', 'b::1'], ['c::1']]
    """
    turns, names = pd.factorize(frame["qid_0" if "qid_0" in frame.columns else "qid"])
    count = min(partitions, len(names))
    part_of_row = turns.astype(np.int64) * count // len(names)
    return [frame[part_of_row == part].reset_index(drop=True) for part in range(count)]


def concat_parts(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The concatenated parts, in their order. Parts without rows don't determine columns and their types.

    Example:
        >>> concat_parts([pd.DataFrame({"rank": [0]}), pd.DataFrame({"rank": []}, dtype=object)])["rank"].dtype
        dtype('int64')
    """
    found = [frame for frame in frames if len(frame)] or list(frames[:1])
    return pd.concat(found, ignore_index=True).copy()  # concat of one part makes a view, and frames from Ray are read-only


TRIES = 3
log = logging.getLogger("pyterrier_ikat")


class Running:
    """Runs a packed pipeline on parts.

    Args:
        workers: the processes that run the parts.
        packed: the pipeline, from `pack`.
        models: its language models, which are asked in this process.
    """

    def __init__(self, workers: Workers, packed: bytes, models: Sequence[LLM]) -> None:
        self.workers, self.packed, self.models = workers, packed, models
        self.over = Event()

    def run(self, parts: Sequence[pd.DataFrame]) -> list[Outcome]:
        """The outcome of each part, in their order. An error that isn't one of this package ends all parts.

        Raises:
            IkatError: raised by a language model. The first such error ends all parts, and finished calls are in the caches.
            UsageError: when a part killed the process that ran it ``TRIES`` times.
            BatchUnderWay: when parts wait for an LLM's batches, after all others have ended.
        """
        with (
            ThreadPoolExecutor(self.workers.prepare(len(parts)), thread_name_prefix="ikat-ray") as pool,
            bar_of(total=len(parts), desc="Ray", unit="part") as bar,
        ):
            try:
                futures = [pool.submit(carried(self._run_one), part) for part in parts]
                under_way = UnderWay()
                for future in as_completed(futures):
                    with under_way.noted():
                        future.result()
                    bar.update()
                under_way.tell()
            except BaseException:
                self.over.set()
                self.workers.drop_all()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [future.result() for future in futures]

    def _run_one(self, part: pd.DataFrame) -> Outcome:
        said: list[tuple[Question, Answers]] = []
        for tried in range(1, TRIES + 1):
            worker = self.workers.take(self.over.is_set)
            if worker is None:
                break
            try:
                outcome = self._dialogue(worker, part, said)
            except BatchUnderWay:
                self.workers.drop(worker)  # it waits for answers that won't come today
                raise
            except death_errors() as error:
                self.workers.drop(worker)
                if self.over.is_set():
                    break
                if tried == TRIES:
                    qids = part["qid"].tolist()
                    raise UsageError(
                        f"the process on the Ray cluster died {TRIES} times at the turns {qids[0]} to {qids[-1]} ({_line(error)}): give it "
                        "more memory, or cut the turns into more parts, partitions=..."
                    ) from error
                log.warning("a process on the Ray cluster died (%s): its turns run again", _line(error))
            else:
                self.workers.give(worker)
                return outcome
        return Outcome()  # the run is over, so nothing waits for this

    def _dialogue(self, worker: Any, part: pd.DataFrame, said: list[tuple[Question, Answers]]) -> Outcome:
        import ray

        event: Question | Outcome = ray.get(worker.begin.remote(self.packed, part))
        place = 0
        while isinstance(event, Question):
            # Requests of a dead worker's part are not sent, paid for and counted again.
            if place == len(said) or said[place][0] != event:
                said[place:] = [(event, self.models[event.llm].ask(event.requests))]
            event = ray.get(worker.answer.remote(said[place][1]))
            place += 1
        return event


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


class OnRay(Operator):
    """Runs a pipeline on the processes of a Ray cluster, turn by turn. :func:`on_ray` makes one."""

    schematic = {"label": "on Ray"}

    def __init__(self, pipeline: pt.Transformer, partitions: int, resources: Mapping[str, float] | None = None) -> None:
        super().__init__()
        if partitions < 1:
            raise UsageError(f"partitions={partitions!r}: cut the turns into at least one part")
        if resources is not None and not any(resources.values()):
            raise UsageError(f"resources={resources!r}: give the resources of a process, such as {{'CPU': 1, 'GPU': 1}}")
        self.pipeline = pipeline
        self.partitions = partitions
        self.resources = None if resources is None else dict(resources)
        self._workers: Workers | None = None

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Run the pipeline on a frame with ``qid``."""
        pt.validate.columns(inp, includes=["qid"], context=self)
        if len(inp) == 0:
            return self.pipeline.transform(inp)
        self._workers = find_workers(self.resources or {"CPU": 1})
        packed, models = pack(self.pipeline)
        with self._workers.busy:
            outcomes = Running(self._workers, packed, models).run(cut(inp, self.partitions))
        for outcome in outcomes:
            for number, counted in outcome.counted.items():
                models[number].ledger.add(counted)
        for category, message in dict.fromkeys(warned for outcome in outcomes for warned in outcome.warned):
            warnings.warn(message, category, stacklevel=2)
        if errors := [thaw_error(*outcome.error) for outcome in outcomes if outcome.error]:
            raise _merge_errors(errors)
        return merge_outcomes(outcomes)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_workers": None}  # the workers belong to the process that started them

    def __repr__(self) -> str:
        return super().__repr__().replace("ikat.OnRay(", "ikat.on_ray(", 1)


def on_ray(pipeline: pt.Transformer, partitions: int, resources: Mapping[str, float] | None = None) -> OnRay:
    """Run a pipeline over turns on the Ray cluster to which this process is connected.

    The frame is cut into parts of whole turns (a turn's sub-queries and passages stay together), which go to processes all over the
    cluster. The result equals that of one process, row for row (turn by turn, if a frame mixes turns). Only a neural model's scores vary by
    float noise, depending on the texts in a batch. Each process opens the indexes once, at first use and from the same path on every node,
    and loads each model once. The processes are shared by all pipelines that use them, and end with the last one. Rankings and scores are
    cached per process, so another process may compute the same ones again.

    Only the calling process asks language models: the processes on the cluster send it their requests. So keys, cache, budget and the limit
    on concurrent calls stay in the calling process, and the ledger counts as in a run on one machine. A local model (``hf:``) would also
    run in the calling process: serve it with vLLM instead, and give the server's address as ``base_url``. When a process dies, its part
    runs again elsewhere, up to 3 times in all, and its finished requests are not sent again.

    Needs ``pip install 'pyterrier_ikat[ray]'`` on every node, and ``ray.init(...)`` before the first use.

    Args:
        pipeline: any PyTerrier expression whose stages treat each turn independently; its input has ``qid``, or ``qid_0`` for sub-queries.
        partitions: the maximum number of parts. A part is the unit of repetition; 2 to 4 parts per process balance long and short turns.
        resources: the resources of each process, in Ray's terms; None: ``{"CPU": 1}``. With ``{"CPU": 4, "GPU": 1}`` each has 4 cores and a
            GPU; ``{"part-1": 1}`` means a node started with ``ray start --resources='{"part-1": 1}'``. There are as many processes as the
            parts need and the nodes have room for.

    Raises:
        UsageError: when an argument is out of range; at use, when Ray isn't installed or connected, no node has the resources, a stage
            can't be sent, or a part kills its process 3 times.
        DataError: when nodes have different indexes at the same path.
        IkatError: raised by the pipeline, as in one process. A ``StageError`` names the failed turns of all parts.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> ikat.on_ray(ikat.Answer(ikat.llm("recorded:sample")), 8)
        ikat.on_ray(ikat.Answer(ikat.llm('recorded:sample')), 8)
        >>> import ray  # doctest: +SKIP
        >>> ray.init(address="auto")  # doctest: +SKIP
        >>> system = ikat.methods.aqd(llm, bm25, cross_encoder)  # doctest: +SKIP
        >>> ikat.on_ray(system, 64, {"CPU": 4, "GPU": 1})(topics)  # doctest: +SKIP
    """
    return OnRay(pipeline, partitions, resources)


def merge_outcomes(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """The concatenated frames of all parts.

    Raises:
        DataError: when nodes have different indexes at the same path.
    """
    known: dict[str, str] = {}
    for path, found in (pair for outcome in outcomes for pair in outcome.indexes.items()):
        copied = found.partition(" ")[0]  # the rest is about the files of one machine, such as when they were changed
        if known.setdefault(path, copied) != copied:
            raise DataError(f"the index {path} isn't the same on all nodes of the Ray cluster: copy one of them to every node")
    return concat_parts([outcome.frame for outcome in outcomes if outcome.frame is not None])


def _merge_errors(errors: Sequence[IkatError]) -> IkatError:
    """The first error, or a ``StageError`` with the failed turns of all parts."""
    first = errors[0]
    if not isinstance(first, StageError):
        return first
    same = [error for error in errors if isinstance(error, StageError) and error.stage == first.stage]
    return StageError(first.stage, [failure for error in same for failure in error.failures], first.kept_in)
