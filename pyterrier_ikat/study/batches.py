"""A run in batches of turns, so that a killed run repeats at most one; see :mod:`pyterrier_ikat.runs.folder` for the files."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyterrier as pt

from ..events import observed_by
from ..llms import Ledger
from ..llms.failures import UnderWay
from ..operator import stages, without_unread_texts
from ..order import scores_by_turn, strictly_decreasing
from ..progress import bar
from ..runs import RunFolder
from ..runs.folder import COSTS, RANKING, TURNS, check_same, write_parameters
from ..runs.origin import versions
from ..runs.run_files import run_lines, turn_lines
from ..runs.stages import NAME as STAGES
from ..runs.stages import TurnStages
from ..store.files import atomic_write, read_lines
from ..store.trec import read_rankings
from .account import REST, Account
from .identity import Parts, check_unchanged
from .recorder import Recorder, Shown
from .systems import check_ranking

Ranking: TypeAlias = dict[str, dict[str, float]]
"""Turn -> passage -> score."""


class Batches:
    """The finished batches of one run.

    Args:
        folder: the folder of the run.
        parameters: the run's identity. The versions of its dependencies are added, so that a run doesn't mix two versions.

    Example:
        >>> from pyterrier_ikat.runs import RunFolder
        >>> from pyterrier_ikat.study.batches import Batches
        >>> Batches(RunFolder("runs/aqd_a"), {"method": "aqd_a"}).finished()
        set()
    """

    def __init__(self, folder: RunFolder, parameters: dict[str, Any]) -> None:
        self.folder, self.path = folder, folder.partial
        self.parameters = parameters | {"versions": versions()}

    def check(self) -> bool:
        """Whether there are finished batches of this run.

        Raises:
            UsageError: when they were made with other parameters or other versions.
            DataError: when they don't say what they were made with.
        """
        begun = bool(self._pieces(TURNS))
        if begun:
            check_same(self.path, "finished batches of a run", self.parameters)
        return begun

    def run(self, pipeline: pt.Transformer, topics: pd.DataFrame, counting: Iterable[Ledger], size: int) -> Ranking:
        """Run a pipeline on the turns that aren't finished.

        Args:
            pipeline: from turns to passages.
            topics: all turns of the run.
            counting: the ledgers that the pipeline's LLMs count in.
            size: the number of turns per batch.

        Returns:
            The ranking of all turns.

        Raises:
            BatchUnderWay: when turns wait for an LLM's batches. All others are finished and kept.
            DataError: when an index or a model's folder was replaced. The current batch is not kept.
        """
        write_parameters(self.path, self.parameters)
        before, behind = _divided(without_unread_texts(pipeline))
        left = topics[~topics["qid"].isin(self.finished())]
        ranking = {qid: found for path in self._pieces(RANKING) if path.stat().st_size for qid, found in read_rankings(path).items()}
        account, recorder = Account(self.path / COSTS), Recorder(left["qid"].tolist(), Parts([pipeline]).written)
        under_way, done = UnderWay(), len(topics) - len(left)
        with ExitStack() as following, bar(total=len(topics), initial=done, unit="turn") as count, observed_by(recorder, Shown()):
            following.callback(account.close)
            for ledger in counting:
                following.enter_context(ledger.followed_by(account))
            written = _through(before, left.reset_index(drop=True))
            for places in _cut(left.index.tolist(), size):
                turns = written.iloc[places].reset_index(drop=True)
                with under_way.noted():
                    results = _through(behind, turns)
                    check_unchanged(pipeline, self.parameters.get("parts", {}))
                    number, lines = int(left.index[places.start]), recorder.take(turns["qid"].tolist())
                    ranking |= self.keep(number, turns, results, account.rest.take(), lines)
                    count.update(len(turns))
        under_way.tell()
        return ranking

    def finished(self) -> set[str]:
        """The qids of the turns that are done."""
        return {turn["qid"] for path in self._pieces(TURNS) for _, turn in read_lines(path)}

    def keep(self, number: int, turns: pd.DataFrame, results: pd.DataFrame, rest: Ledger, done: Iterable[TurnStages] = ()) -> Ranking:
        """Keep a finished batch.

        Args:
            number: the position of its first turn among the turns of the run. Batches are joined in this order.
            turns: its turns, one row each, with the columns written before retrieval.
            results: the ranking, with the columns of the turns.
            rest: the counts since the previous batch that are not in ``costs.jsonl``.
            done: the work of the stages for each turn.

        Returns:
            The ranking of its turns.

        Raises:
            UsageError: when the results are not a ranking.
            DataError: when the ranking is not clean, or has turns that are not in the batch, or a column of the turns can't be stored.
        """
        name = self.folder.path.name
        check_ranking(name, results.columns)
        strict = strictly_decreasing(results)
        pieces = {
            RANKING: "".join(run_lines(strict, name)).encode(),
            STAGES: b"".join(turn.packed() for turn in done),
            REST: json.dumps(rest.rows()).encode(),
            TURNS: "".join(turn_lines(turns, results)).encode(),  # the last one: the batch is done
        }
        for kind, content in pieces.items():
            with atomic_write(self.path / f"{number:06d}.{kind}", "wb") as file:
                file.write(content)
        return scores_by_turn(strict)

    def joined(self) -> dict[str, Iterator[bytes]]:
        """The files of the whole run: name -> its pieces."""
        return {kind: (path.read_bytes() for path in self._pieces(kind)) for kind in (RANKING, STAGES, TURNS)}

    def _pieces(self, kind: str) -> list[Path]:
        """The files of one kind of the finished batches, in order."""
        return [path.with_name(path.name.replace(TURNS, kind)) for path in sorted(self.path.glob(f"[0-9]*.{TURNS}"))]


def _cut(numbers: Sequence[int], size: int) -> Iterator[slice]:
    """Groups of up to ``size`` consecutive numbers. Turns that wait for an LLM's batch leave gaps."""
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or end - start == size or numbers[end] != numbers[end - 1] + 1:
            yield slice(start, end)
            start = end


def _divided(pipeline: pt.Transformer) -> tuple[list[pt.Transformer], list[pt.Transformer]]:
    """The stages before the first retrieval, which need little memory, and the later stages, which run batch by batch."""
    found = list(stages(pipeline))
    place = next((place for place, stage in enumerate(found) if not getattr(stage, "one_row_per_turn", False)), len(found))
    return found[:place], found[place:]


def _through(these: Iterable[pt.Transformer], frame: pd.DataFrame) -> pd.DataFrame:
    """The frame after these stages."""
    for stage in these:
        frame = stage.transform(frame)
    return frame
