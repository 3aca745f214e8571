"""One folder per system and topic set: everything that you need to inspect a run, evaluate it or continue it.

========================  ==========================================================================================
``run.trec``              the ranking, scores strictly decreasing
``turns.jsonl``           one line per turn: utterance, rewrite, answer, sub-queries, persona, number of passages; if the
                          system ran Respond also ``response`` and ``used``, the passages that the response is based on
``measures.csv``          one line per turn of the qrels, one column per measure: the track's and those that were requested
``stages.jsonl.gz``       the work of each stage for each turn, with its LLM calls: see :mod:`pyterrier_ikat.runs.stages`; a frame
                          written with ``RunFolder.write`` has none
``ledger.csv``            LLM calls, cache hits, failures, tokens, seconds and cost of this system, per stage
``ir_metadata.yml``       platform, software, method and data in the format of https://www.ir-metadata.org, to publish with a run
``run.json``              method, expression, dataset, parameters, versions, and a checksum of each file above except ``ir_metadata.yml``;
                          written last: its presence says "complete"
========================  ==========================================================================================

Reading a file that differs from its checksum is an error. In ``turns.jsonl`` you may add or edit each ``response``.
"""

import hashlib
import json
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pandas as pd

from ..conversations.frame import column
from ..errors import DataError, UsageError, advice, counted, list_first, option
from ..store.files import atomic_write, temporary_name
from . import stages as stages_file
from .log import Log
from .origin import OtherVersionsWarning, describe_difference, versions, write_metadata
from .run_files import Part, read_run

CHECKED = ("run.trec", "turns.jsonl", "measures.csv", "ledger.csv", stages_file.NAME)
"""The files that ``run.json`` has checksums of."""


class RunFolder:
    """The folder of one system's run.

    Args:
        path: the folder; its name is the run's name.

    Example:
        >>> from pyterrier_ikat.runs import RunFolder
        >>> RunFolder("runs/aqd_a").complete
        False
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def complete(self) -> bool:
        """Whether the folder holds a finished run."""
        return (self.path / "run.json").is_file()

    def check_finished(self) -> None:
        """Check that the folder holds a finished run.

        Raises:
            DataError: when it doesn't.
        """
        if self.complete:
            return
        if Log.is_in(self.path):
            shown = advice("ikat.show.report", "`ikat report`")
            raise DataError(
                f"{self.path} holds {Log(self.path).kind}, not the run of a dataset's topics: {shown} shows it with its measures"
            )
        if self.path.name.endswith(".partial"):
            raise DataError(f"{self.path} is not a finished run. It was stopped: start it again with the same command, or omit it")
        raise self.no_run()

    def no_run(self) -> DataError:
        """The error for a folder that is neither a run nor a log of conversations. It names the runs inside."""
        held = sorted(found.name for found in self.path.glob("*") if RunFolder(found).complete or Log.is_in(found))
        if held:
            repair = advice("give these folders", f"give {self.path / '*'}")
            return DataError(f"{self.path} is not a finished run, but holds {list_first(held)}: {repair}")
        return DataError(f"{self.path} is not a finished run: give a folder made by `ikat run`")

    def parameters(self) -> dict[str, Any]:
        """The parameters of the finished run.

        Raises:
            DataError: when ``run.json`` cannot be read.
        """
        self.check_finished()
        try:
            found = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{self.path} is not a finished run: {error}") from None
        if not isinstance(found, dict):
            raise DataError(f"{self.path} is not a finished run: its run.json holds no object")
        return found

    def write_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Replace ``run.json``."""
        with atomic_write(self.path / "run.json") as file:
            json.dump(parameters, file, indent=1)

    def results(self) -> pd.DataFrame:
        """The ranking: ``qid``, ``docno``, ``score``, ``rank``. It has no rows if the system found nothing.

        Raises:
            DataError: when ``run.trec`` can't be read, or doesn't have the passages that were written.
        """
        path = self.path / "run.trec"
        if not path.is_file():
            self.check_finished()
        found = pd.DataFrame({"qid": column([]), "docno": column([]), "score": pd.Series(dtype=float), "rank": pd.Series(dtype=int)})
        if not (self.complete and path.is_file() and path.stat().st_size == 0):
            found = read_run(path)
        if self.complete or (self.path / "turns.jsonl").is_file():
            self._check_passages(found)
        self.check_file(path.name)
        return found

    def _check_passages(self, results: pd.DataFrame) -> None:
        """Check that the ranking has as many passages of each turn as ``turns.jsonl`` says."""
        counts = Counter(results["qid"].tolist())
        for turn in self._each_turn():
            there, written = counts[turn["qid"]], turn.get("passages", counts[turn["qid"]])
            if there != written:
                path = self.path / "run.trec"
                raise DataError(
                    f"{path} has {counted(there, 'passage')} of turn {turn['qid']}, the run has {written}: the "
                    f"file was cut or changed, make the run "
                    f"again; to evaluate what is left, give a copy of the file outside of the folder"
                )

    def bound(self) -> dict[str, dict[str, Any]]:
        """The checksum of each of the other files, from ``run.json``."""
        return {"sha256": {name: self._checksum(name) for name in CHECKED if (self.path / name).is_file()}}

    def _checksum(self, name: str) -> str:
        """The checksum of a file. For ``turns.jsonl`` it covers the turns without their responses."""
        found = hashlib.sha256()
        with (self.path / name).open("rb") as file:
            if name != "turns.jsonl":
                while block := file.read(1 << 20):
                    found.update(block)
                return found.hexdigest()
        for turn in self._turns_in():
            found.update(json.dumps({key: value for key, value in turn.items() if key != "response"}, sort_keys=True).encode() + b"\n")
        return found.hexdigest()

    def check_file(self, name: str) -> None:
        """Check that a file of a finished run is unchanged.

        Raises:
            DataError: when it was changed.
        """
        written = self.parameters().get("sha256", {}).get(name) if self.complete else None
        if written is not None and (self.path / name).is_file() and self._checksum(name) != written:  # the reader reports a missing file
            raise DataError(
                f"{self.path / name} is not the file that this run wrote, or its run.json is that of another run (the file was cut or "
                "changed): put the right one back, or repeat the run"
            )

    def turns(self) -> list[dict[str, Any]]:
        """The line of ``turns.jsonl`` for each turn.

        Raises:
            DataError: when the file is missing or cut short, or a line is not a turn.
        """
        return list(self._each_turn())

    def turns_with_passages(self) -> set[str]:
        """The turns with passages.

        Raises:
            DataError: as for :meth:`turns`.
        """
        return {turn["qid"] for turn in self._each_turn() if turn.get("passages")}

    def stages(self) -> Iterator[dict[str, Any]]:
        """The work of each stage: a dict per turn and stage. See :mod:`pyterrier_ikat.runs.stages`.

        Raises:
            DataError: when ``stages.jsonl.gz`` is missing, or is not the file that was written.
        """
        path = self.path / stages_file.NAME
        yield from stages_file.read_stages(path)
        self.check_file(path.name)

    def measures(self) -> pd.DataFrame:
        """The scores of each turn: index ``qid``, a column per measure.

        Raises:
            DataError: when ``measures.csv`` can't be read.
        """
        path = self.path / "measures.csv"
        self.check_file(path.name)
        try:
            return pd.read_csv(path, dtype=str).set_index("qid").astype(float)  # converting texts gives exactly the written numbers
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{path} can't be read ({error}): repeat the run") from None

    def _each_turn(self) -> Iterator[dict[str, Any]]:
        yield from self._turns_in()
        self.check_file("turns.jsonl")

    def _turns_in(self) -> Iterator[dict[str, Any]]:
        path = self.path / "turns.jsonl"
        if not path.is_file():
            self.check_finished()
        try:
            with path.open(encoding="utf-8", newline="\n") as lines:
                yield from (_turn(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path} can't be read ({error}): repeat the run") from None

    def reusable(self, parameters: dict[str, Any]) -> bool:
        """Whether the folder already holds the run with exactly these parameters. Other versions cause a warning.

        Raises:
            UsageError: when the folder holds another run, or anything else.
            DataError: when a file was changed.
        """
        elsewhere = f"choose another {option('out')}, or remove it"
        if not self.complete:
            if self.path.is_symlink():
                raise UsageError(f"{self.path} is a link, but not to a finished run, so no run can replace it: {elsewhere}")
            if self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
                raise UsageError(f"{self.path} is not empty and holds no finished run: {elsewhere}")
            return False
        found = self.parameters()
        if "prompts" not in found and "prompts" in parameters:
            raise UsageError(
                f"{self.path} was made by an earlier version of this package, which didn't keep what its prompts say: {elsewhere}"
            )
        if differs := describe_difference(found, parameters):
            raise UsageError(f"{self.path} holds a run with {differs}: {elsewhere}")
        if not (self.path / "run.trec").is_file():
            raise DataError(f"{self.path} has no run.trec: remove the folder to repeat the run")
        for name in CHECKED:
            self.check_file(name)
        if differs := describe_difference(found, {"versions": versions()}):
            warnings.warn(f"{self.path} is reused. It is a run with {differs}: remove it to repeat the run", OtherVersionsWarning, 2)
        return True

    def write(
        self, topics: pd.DataFrame, results: pd.DataFrame, measures: pd.DataFrame, ledger: pd.DataFrame, parameters: dict[str, Any]
    ) -> None:
        """Write all files into a temporary folder next to this one and rename it, so that the folder is complete or absent.

        Raises:
            DataError: when the results have turns that the topics don't have, a turn occurs twice in the topics, the ranking is not
                clean, or a column of the turns can't be stored.
        """
        part = Part.of(topics, results, parameters.get("method") or self.path.name)
        self.write_parts([part], lambda: (measures, parameters), ledger)

    def write_parts(
        self,
        parts: Iterable[Part],
        about: Callable[[], tuple[pd.DataFrame, dict[str, Any]]],
        ledger: pd.DataFrame,
        stages: Sequence[Path] = (),
    ) -> None:
        """As :meth:`write`, for a run that comes in parts. At most one part is in memory.

        Args:
            parts: the parts, in the order of the run.
            about: returns the measures and the parameters after all parts are written.
            ledger: the whole ledger.
            stages: the files of the stages' work, in the order of the run.

        Raises:
            DataError: when one of these files is missing.
        """
        partial = temporary_name(self.path)
        partial.mkdir(parents=True)
        try:
            with atomic_write(partial / "run.trec") as ranking, atomic_write(partial / "turns.jsonl") as turns:
                for part in parts:
                    ranking.write(part.ranking)
                    turns.write(part.turns)
            if stages:
                with atomic_write(partial / stages_file.NAME, "wb") as whole:
                    for path in stages:
                        _append(path, whole)
            measures, parameters = about()
            for name, table in (("measures.csv", measures), ("ledger.csv", ledger)):
                with atomic_write(partial / name) as file:
                    table.to_csv(file, index=False)
            columns = [name for name in measures.columns if name != "qid"]
            write_metadata(partial, self.path.name, parameters, columns, versions())
            made = RunFolder(partial)
            made.write_parameters(parameters | made.bound() | {"versions": versions()})
            partial.rename(self.path)  # replaces an empty folder
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _append(part: Path, whole: IO[bytes]) -> None:
    try:
        with part.open("rb") as file:
            shutil.copyfileobj(file, whole)
    except FileNotFoundError:
        raise DataError(f"{part} is missing: remove {part.parent}, which restarts the run") from None


def _turn(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not JSON ({error}): repeat the run") from None
    if not isinstance(found, dict) or not isinstance(found.get("qid"), str):
        raise DataError(f"{path}, line {number}: no turn, an object with a qid: repeat the run")
    if not isinstance(found.get("response", ""), str):
        raise DataError(f"{path}, line {number}: the response of turn {found['qid']} is {found['response']!r}: give a text")
    return found
