"""One folder per system and topic set: everything that you need to inspect a run, evaluate it or continue it.

========================  ==========================================================================================
``run.trec``              the ranking, scores strictly decreasing
``turns.jsonl``           one line per turn: utterance, rewrite, answer, sub-queries, persona, number of passages; if the
                          system ran Respond also ``response`` and ``used``, the passages that the response is based on
``measures.csv``          one line per turn of the qrels, one column per measure: the track's and those that were requested
``stages.jsonl.gz``       the work of each stage for each turn, with its LLM calls: see :mod:`pyterrier_ikat.runs.stages`; a frame
                          written with ``RunFolder.write`` has none
``ledger.csv``            LLM calls, cache hits, failures, tokens, seconds and cost of this system, per stage
``ir_metadata.yml``       software, method and data in the format of https://www.ir-metadata.org, to publish with a run
``run.json``              method, expression, dataset, parameters, versions, and the checksum of ``run.trec``; with it, a run is complete
========================  ==========================================================================================

While a run is made, its batches are in ``NAME.partial``, where ``run.json`` has only the parameters, and each finished batch of turns has
``N.run.trec``, ``N.stages.jsonl.gz``, ``N.ledger.json`` and ``N.turns.jsonl``. The last one means that the batch is done.
``costs.jsonl`` there has the costs, call by call, also of batches that were not finished. At the end the batches are joined in a hidden
folder, which then gets the run's name.
A ``run.trec`` with another checksum is an error. Each ``response`` in ``turns.jsonl`` may be edited.
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ..errors import DataError, UsageError, advice, list_first, option
from ..store.files import atomic_write
from ..store.trec import read_rankings
from . import stages as stages_file
from .log import Log
from .origin import METADATA, OtherVersionsWarning, describe_difference, ir_metadata, versions
from .run_files import ranking_frame, run_lines, strictly_decreasing, turn_lines

ENDING = ".partial"
"""How the name of an unfinished run's folder ends."""
COSTS = "costs.jsonl"
"""The costs of an unfinished run, call by call."""
RANKING, TURNS = "run.trec", "turns.jsonl"


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
        return self.path.suffix != ENDING and (self.path / "run.json").is_file()

    @property
    def partial(self) -> Path:
        """Where the run is while it is made."""
        return self.path.with_name(self.path.name.removesuffix(ENDING) + ENDING)

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
        if self.path.suffix == ENDING:
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
        return read_parameters(self.path)

    def check_ranking(self) -> None:
        """Check that the ranking of a finished run is the one that was written.

        Raises:
            DataError: when it isn't.
        """
        path, known = self.path / RANKING, self.parameters()
        if not path.is_file():
            raise DataError(f"{self.path} has no {RANKING}: remove the folder to repeat the run")
        if known.get("sha256") != checksum(path):
            raise DataError(
                f"{path} is not the file that this run wrote, or its run.json is that of another run (the file was cut or changed): "
                "put the right one back, or repeat the run"
            )

    def ranking(self) -> dict[str, dict[str, float]]:
        """The scores: turn -> passage -> score, best first. It has no turn if the system found nothing.

        Raises:
            DataError: when ``run.trec`` can't be read, or isn't the file that was written.
        """
        self.check_ranking()
        path = self.path / RANKING
        return read_rankings(path) if path.stat().st_size else {}

    def results(self) -> pd.DataFrame:
        """The ranking as a frame: ``qid``, ``docno``, ``score``, ``rank``.

        Raises:
            DataError: as for :meth:`ranking`.
        """
        return ranking_frame(self.ranking())

    def turns(self) -> list[dict[str, Any]]:
        """The line of ``turns.jsonl`` for each turn.

        Raises:
            DataError: when the file is missing, or a line is not a turn.
        """
        self.check_finished()
        path = self.path / TURNS
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path} can't be read ({error}): repeat the run") from None
        return [_turn(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]

    def stages(self) -> Iterator[dict[str, Any]]:
        """The work of each stage: a dict per turn and stage. See :mod:`pyterrier_ikat.runs.stages`.

        Raises:
            DataError: when ``stages.jsonl.gz`` can't be read.
        """
        return stages_file.read_stages(self.path / stages_file.NAME)

    def measures(self) -> pd.DataFrame:
        """The scores of each turn: index ``qid``, a column per measure.

        Raises:
            DataError: when ``measures.csv`` can't be read.
        """
        path = self.path / "measures.csv"
        try:
            return pd.read_csv(path, dtype=str).set_index("qid").astype(float)  # converting texts gives exactly the written numbers
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{path} can't be read ({error}): repeat the run") from None

    def reusable(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the folder already holds the run with exactly these parameters. Other versions cause a warning.

        Raises:
            UsageError: when the folder holds another run, or anything else.
            DataError: when its ranking was changed.
        """
        if not self.complete:
            if self.path.is_symlink() or self.path.is_file() or (self.path.is_dir() and any(self.path.iterdir())):
                raise UsageError(f"{self.path} is not empty and holds no finished run: choose another {option('out')}, or remove it")
            return False
        check_same(self.path, "a run", parameters)
        self.check_ranking()
        if differs := describe_difference(self.parameters(), {"versions": versions()}):
            warnings.warn(f"{self.path} is reused. It is a run with {differs}: remove it to repeat the run", OtherVersionsWarning, 2)
        return True

    def write(
        self, topics: pd.DataFrame, results: pd.DataFrame, measures: pd.DataFrame, ledger: pd.DataFrame, parameters: dict[str, Any]
    ) -> None:
        """Write a run that was made elsewhere. The folder is complete or absent.

        Raises:
            DataError: when the results have turns that the topics don't have, a turn occurs twice in the topics, the ranking is not
                clean, or a column of the turns can't be stored.
        """
        ranking = run_lines(strictly_decreasing(results), parameters.get("method") or self.path.name)
        files = {name: ["".join(lines).encode()] for name, lines in ((RANKING, ranking), (TURNS, turn_lines(topics, results)))}
        self.finish(files, measures, ledger, parameters | {"versions": versions()})

    def finish(
        self, files: Mapping[str, Iterable[bytes]], measures: pd.DataFrame, ledger: pd.DataFrame, parameters: Mapping[str, Any]
    ) -> None:
        """Make the finished run of the contents of its files, its scores, costs and parameters."""
        made = self.path.with_name(f".{self.path.name}.tmp")
        shutil.rmtree(made, ignore_errors=True)  # of a killed process
        for name, pieces in files.items():
            with atomic_write(made / name, "wb") as file:
                file.writelines(pieces)
        _write(made / "ledger.csv", ledger.to_csv(index=False))
        RunFolder(made).describe(measures, {**parameters, "sha256": checksum(made / RANKING)}, self.path.name)
        made.rename(self.path)  # replaces an empty folder

    def describe(self, measures: pd.DataFrame, parameters: Mapping[str, Any], name: str) -> None:
        """Write scores and parameters of the run with this name."""
        _write(self.path / "measures.csv", measures.to_csv(index=False))
        described = ir_metadata(name, parameters, [column for column in measures.columns if column != "qid"])
        _write(self.path / METADATA, yaml.safe_dump(described, sort_keys=False, allow_unicode=True))
        write_parameters(self.path, parameters)


def check_same(folder: Path, held: str, wanted: Mapping[str, Any]) -> None:
    """Check that what a folder holds was made with the wanted parameters.

    Raises:
        UsageError: when it wasn't. The error names the differences.
        DataError: when the folder doesn't say what it was made with.
    """
    if differs := describe_difference(read_parameters(folder), wanted):
        raise UsageError(f"{folder} holds {held} with {differs}: choose another {option('out')}, or remove it")


def read_parameters(folder: Path) -> dict[str, Any]:
    """What ``run.json`` in a folder says.

    Raises:
        DataError: when it can't be read.
    """
    try:
        found = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} is not a finished run: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{folder} is not a finished run: its run.json holds no object")
    return found


def write_parameters(folder: Path, parameters: Mapping[str, Any]) -> None:
    """Replace ``run.json`` in a folder."""
    _write(folder / "run.json", json.dumps(parameters, indent=1))


def _write(path: Path, text: str) -> None:
    """Write a file, unless it has this text."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        with atomic_write(path) as file:
            file.write(text)


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _turn(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise DataError(f"{path}, line {number}: not JSON ({error}): repeat the run") from None
    if not isinstance(found, dict) or not isinstance(found.get("qid"), str) or not isinstance(found.get("response", ""), str):
        raise DataError(f"{path}, line {number}: no turn, an object with a qid and, if it has a response, a text: repair it")
    return found
