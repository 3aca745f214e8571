"""The finished batches of turns of a run that isn't complete yet, so that a killed run repeats none of them.

They are in ``<run folder>.partial``: one JSON file for each batch, written atomically, ``run.json`` with the parameters of their run, and
``costs.jsonl`` with all costs, also of unfinished turns. A batch has the content of the run folder's files for its turns: the lines of the
ranking and of the turns, and the ledger. Another file, written before it, has the outputs of the stages
(:mod:`pyterrier_ikat.runs.stages`). Passages' texts are not kept. At most one batch is in memory, also while the run folder is written.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError, option
from ..events import observed_by
from ..llms import Ledger
from ..llms.failures import UnderWay
from ..operator import stages, without_unread_texts
from ..progress import bar
from ..runs import RunFolder
from ..runs import stages as stages_file
from ..runs.origin import OURS, describe_difference, versions, with_package
from ..runs.run_files import Part
from ..runs.stages import TurnStages
from ..store.files import atomic_write
from .account import COSTS, Account
from .identity import Parts, kept_as_they_are
from .recorder import Recorder, Shown
from .systems import check_ranking

PARAMETERS = "run.json"
STAGES = f".{stages_file.NAME}"
"""The ending of the file with the outputs of a batch's stages."""


class Batches:
    """The finished batches of one run.

    Args:
        folder: the folder of the complete run.
        parameters: the run's identity, with the versions of its dependencies, so that a run doesn't mix two versions. It may mix
            versions of this package, and then names all of them.

    Example:
        >>> from pyterrier_ikat.runs import RunFolder
        >>> from pyterrier_ikat.study.batches import Batches
        >>> Batches(RunFolder("runs/aqd_a"), {"method": "aqd_a"}).finished()
        set()
    """

    def __init__(self, folder: RunFolder, parameters: dict[str, Any]) -> None:
        self.name, self.path = folder.path.name, folder.path.with_name(f"{folder.path.name}.partial")
        self.parameters = parameters | {"versions": versions(), "packages": with_package([], self.path)}

    def check(self) -> bool:
        """Whether there are finished batches of this run.

        Raises:
            UsageError: when they were made with other parameters or other versions. Another version of this package is only a warning.
            DataError: when they don't say what they were made with.
        """
        if not ((self.path / PARAMETERS).exists() or self._paths()):
            return False
        found = _read(self.path / PARAMETERS)
        versions_but_ours = {**found.get("versions", {}), OURS: versions()[OURS]}
        wanted = {name: value for name, value in self.parameters.items() if name != "packages"}
        if differs := describe_difference(found | {"versions": versions_but_ours}, wanted):
            raise UsageError(f"{self.path} holds finished batches of a run with {differs}: choose another {option('out')}, or remove it")
        self.parameters["packages"] = with_package(found.get("packages", []), self.path)
        return True

    def run(self, pipeline: pt.Transformer, topics: pd.DataFrame, counting: Iterable[Ledger], size: int) -> None:
        """Run a pipeline on the turns that aren't finished.

        Args:
            pipeline: from turns to passages.
            topics: all turns of the run.
            counting: the ledgers that the pipeline's LLMs count in.
            size: the number of turns per batch.

        Raises:
            BatchUnderWay: when turns wait for an LLM's batches. All others are finished and kept.
            DataError: when an index, a model's folder or the prompts were replaced. The current batch is not kept.
        """
        if (self.path / PARAMETERS).exists():  # batches made with on_error=raise are joined by some that may hold fallbacks
            RunFolder(self.path).write_parameters(self.parameters)
        account = Account(self.path / COSTS)
        with ExitStack() as following:
            following.callback(account.close)
            for ledger in counting:
                following.enter_context(ledger.followed_by(account))
            check_parts = following.enter_context(kept_as_they_are([pipeline], self.parameters.get("parts", {})))
            self._run(pipeline, topics, account.rest, size, check_parts)

    def _run(self, pipeline: pt.Transformer, topics: pd.DataFrame, counting: Ledger, size: int, check_parts: Callable[[], None]) -> None:
        before, behind = _divided(without_unread_texts(pipeline))
        left = topics[~topics["qid"].isin(self.finished())]
        recorder = Recorder(left["qid"].tolist(), Parts([pipeline]).written)
        under_way, done = UnderWay(), len(topics) - len(left)
        with bar(total=len(topics), initial=done, unit="turn") as count, observed_by(recorder, Shown()):
            written = _through(before, left.reset_index(drop=True))
            for places in _cut(left.index.tolist(), size):
                turns = written.iloc[places].reset_index(drop=True)
                with under_way.noted():
                    results = _through(behind, turns)
                    check_parts()
                    self.keep(int(left.index[places.start]), turns, results, counting.take(), recorder.take(turns["qid"].tolist()))
                    count.update(len(turns))
        under_way.tell()

    def finished(self) -> set[str]:
        """The qids of the turns that are done."""
        return {qid for batch in self._each() for qid in batch["qids"]}

    def keep(self, number: int, turns: pd.DataFrame, results: pd.DataFrame, ledger: Ledger, done: Iterable[TurnStages] = ()) -> None:
        """Keep a finished batch.

        Args:
            number: the position of its first turn among the turns of the run. Batches are joined in this order.
            turns: its turns, one row each, with the columns written before retrieval.
            results: the ranking, with the columns of the turns.
            ledger: the counts since the previous batch.
            done: the work of the stages for each turn.

        Raises:
            UsageError: when the results are not a ranking.
            DataError: as for :meth:`~pyterrier_ikat.runs.run_files.Part.of`.
        """
        check_ranking(self.name, results.columns)
        batch = Part.of(turns, results, self.name)._asdict() | {"ledger": ledger.rows()}
        if not (self.path / PARAMETERS).exists():
            RunFolder(self.path).write_parameters(self.parameters)
        with atomic_write(self.path / f"{number:06d}{STAGES}", "wb") as file:
            file.writelines(turn.packed() for turn in done)
        with atomic_write(self.path / f"{number:06d}.json") as file:
            file.write(json.dumps(batch))  # ten times faster than dump

    def parts(self) -> Iterator[Part]:
        """The run, batch by batch, so that at most one is in memory."""
        for batch in self._each():
            yield Part(*(batch[name] for name in Part._fields))

    def stages(self) -> list[Path]:
        """The files of the stages' work, in the order of the turns."""
        return [path.with_name(path.stem + STAGES) for path in self._paths()]

    def ledger(self) -> Ledger:
        """The counts so far, over all starts of the run."""
        found = Ledger()
        found.add(Account(self.path / COSTS))
        for row in chain.from_iterable(batch["ledger"] for batch in self._each()):
            found.count(**row)
        return found

    def remove(self) -> None:
        """Remove all batches: the run is complete."""
        for path in self._paths():  # the parameters last, so that remaining batches always have them
            path.unlink()
        shutil.rmtree(self.path, ignore_errors=True)

    def _each(self) -> Iterator[dict[str, Any]]:
        for path in self._paths():
            batch = _read(path)
            if "qids" not in batch:
                told = f"{path} is of an earlier version of this package"
                raise DataError(f"{told}: remove {self.path} and run again; completions in the cache are not paid again")
            yield batch

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.path.glob("*.json") if path.name != PARAMETERS)


def _cut(numbers: Sequence[int], size: int) -> Iterator[slice]:
    """Groups of up to ``size`` consecutive numbers. Turns that wait for an LLM's batch leave gaps."""
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or end - start == size or numbers[end] != numbers[end - 1] + 1:
            yield slice(start, end)
            start = end


def _read(path: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} can't be read ({error}): remove {path.parent}, which starts the run again") from None


def _divided(pipeline: pt.Transformer) -> tuple[list[pt.Transformer], list[pt.Transformer]]:
    """The stages before the first retrieval, which need little memory, and the later stages, which run batch by batch."""
    found = list(stages(pipeline))
    for place, stage in enumerate(found):
        if not getattr(stage, "one_row_per_turn", False):
            return found[:place], found[place:]
    return found, []


def _through(these: Iterable[pt.Transformer], frame: pd.DataFrame) -> pd.DataFrame:
    """The frame after these stages."""
    for stage in these:
        frame = stage.transform(frame)
    return frame
