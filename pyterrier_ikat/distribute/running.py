"""The parts of one frame on their way through the workers: questions answered here, what died run again elsewhere."""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import UsageError
from ..llm import LLM
from .worker import Answers, Outcome, Question
from .workers import Workers, deaths

TRIES = 3
log = logging.getLogger("pyterrier_ikat")


class Running:
    """Runs a packed pipeline on parts.

    Args:
        workers: where.
        packed: the pipeline, from `shipping.pack`.
        models: its language models; they are asked in this process.
    """

    def __init__(self, workers: Workers, packed: bytes, models: Sequence[LLM]) -> None:
        self.workers, self.packed, self.models = workers, packed, models
        self.over = Event()

    def run(self, parts: Sequence[pd.DataFrame]) -> list[Outcome]:
        """How each part ended, in their order; an error that is none of ours ends them all.

        Raises:
            IkatError: what a language model raised; the first to come ends all parts, finished calls are in the caches.
            UsageError: when a part ended the process that ran it, ``TRIES`` times.
        """
        with (
            ThreadPoolExecutor(self.workers.prepare(len(parts)), thread_name_prefix="ikat-ray") as pool,
            pt.tqdm(total=len(parts), desc="Ray", unit="part") as bar,
        ):
            try:
                futures = [pool.submit(self._run_one, part) for part in parts]
                for future in as_completed(futures):
                    future.result()
                    bar.update()
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
            except deaths() as error:
                self.workers.drop(worker)
                if self.over.is_set():
                    break
                if tried == TRIES:
                    raise UsageError(_died(part, error)) from error
                log.warning("a process on the Ray cluster died (%s): its turns run again", _line(error))
            else:
                self.workers.give(worker)
                return outcome
        return Outcome()  # nobody waits for it: the run is over

    def _dialogue(self, worker: Any, part: pd.DataFrame, said: list[tuple[Question, Answers]]) -> Outcome:
        import ray

        event: Question | Outcome = ray.get(worker.begin.remote(self.packed, part))
        place = 0
        while isinstance(event, Question):
            # What a dead worker's part asked before is not asked, paid for and counted again.
            if place == len(said) or said[place][0] != event:
                said[place:] = [(event, self.models[event.llm].ask(event.requests))]
            event = ray.get(worker.answer.remote(said[place][1]))
            place += 1
        return event


def _died(part: pd.DataFrame, error: Exception) -> str:
    qids = part["qid"].tolist()
    return (
        f"the process on the Ray cluster died {TRIES} times at the turns {qids[0]} to {qids[-1]} ({_line(error)}): give it more memory, "
        "or cut the turns into more parts, partitions=..."
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
