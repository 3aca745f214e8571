"""One folder per system and topic set: everything that you need to inspect a run, evaluate it or continue it.

========================  ==========================================================================================
``run.trec``              the ranking, scores strictly decreasing
``turns.jsonl``           one line per turn: utterance, rewrite, answer, sub-queries, persona, number of passages; if the
                          system ran Respond also ``response`` and ``used``, the passages that the response is based on
``measures.csv``          one line per turn of the qrels, one column per measure: the track's and those that were requested
``stages.jsonl.gz``       the work of each stage for each turn, with its LLM calls: see :mod:`pyterrier_ikat.runs.run_files`; a frame
                          written with ``RunFolder.write`` has none
``ledger.csv``            LLM calls, cache hits, failures, tokens, seconds and cost of this system, per stage
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
import platform
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError, UsageError, advice, option
from ..store.files import atomic_write
from ..store.trec import read_rankings
from .log import Log
from .run_files import ranking_frame, read_stages, run_lines, strictly_decreasing, turn_lines

ENDING = ".partial"
"""How the name of an unfinished run's folder ends."""
COSTS = "costs.jsonl"
"""The costs of an unfinished run, call by call."""
RANKING, TURNS, STAGES = "run.trec", "turns.jsonl", "stages.jsonl.gz"
IDENTITY = ("method", "topics_sha256", "prompts", "stages", "parts")
"""The entries of ``run.json`` that are equal for all repeats of one system."""
OURS = "pyterrier_ikat"
PACKAGES = f"""
    {OURS} pyterrier pyterrier-pisa pyterrier-t5 pandas numpy torch transformers tokenizers
    sentence-transformers openvino ir-measures openai
""".split()
_DIGEST = re.compile(r"\b[0-9a-f]{16,}\b")


class OtherVersionsWarning(UserWarning):
    """A run that is reused was made with other versions of its dependencies."""


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
        if not self.complete:
            raise self.no_run()

    def no_run(self) -> DataError:
        """The error for a folder that isn't a finished run."""
        if Log.is_in(self.path):
            shown = advice("ikat.show.report", "`ikat report`")
            return DataError(f"{self.path} holds {Log(self.path).kind}, not the run of a dataset's topics: {shown} shows it")
        stopped = ". It was stopped: start it again with the same command, or omit it"
        return DataError(
            f"{self.path} is not a finished run{stopped if self.path.suffix == ENDING else ': give a folder made by `ikat run`'}"
        )

    def parameters(self) -> dict[str, Any]:
        """The parameters of the finished run.

        Raises:
            DataError: when ``run.json`` cannot be read.
        """
        self.check_finished()
        return read_parameters(self.path)

    def ranking(self) -> dict[str, dict[str, float]]:
        """The scores: turn -> passage -> score, best first. It has no turn if the system found nothing.

        Raises:
            DataError: when ``run.trec`` can't be read, or isn't the file that was written.
        """
        path, known = self.path / RANKING, self.parameters()
        if not path.is_file() or known.get("sha256") != checksum(path):
            raise DataError(
                f"{path} is not the file that this run wrote, or its run.json is that of another run (it was cut, changed or removed): "
                "put the right one back, or remove the folder to repeat the run"
            )
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
        path, found = self.path / TURNS, []
        try:
            for line in filter(str.strip, path.read_text(encoding="utf-8").split("\n")):
                found.append(json.loads(line))
        except ValueError as error:
            raise DataError(f"{path}, line {len(found) + 1}: not JSON ({error}): repeat the run") from None
        except OSError as error:
            raise DataError(f"{path} can't be read ({error}): repeat the run") from None
        for place, turn in enumerate(found, 1):
            if not isinstance(turn, dict) or not isinstance(turn.get("qid"), str) or not isinstance(turn.get("response", ""), str):
                raise DataError(f"{path}, turn {place}: no object with a qid and, if it has a response, a text: repair it")
        return found

    def stages(self) -> Iterator[dict[str, Any]]:
        """The work of each stage: a dict per turn and stage. See :mod:`pyterrier_ikat.runs.run_files`.

        Raises:
            DataError: when ``stages.jsonl.gz`` can't be read.
        """
        return read_stages(self.path / STAGES)

    def measures(self) -> pd.DataFrame:
        """The scores of each turn: index ``qid``, a column per measure."""
        scores = pd.read_csv(self.path / "measures.csv", dtype=str)
        return scores.set_index("qid").astype(float)  # converting texts gives exactly the written numbers

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
        self.ranking()
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
        for name, pieces in {**files, "ledger.csv": [ledger.to_csv(index=False).encode()]}.items():
            with atomic_write(made / name, "wb") as file:
                file.writelines(pieces)
        RunFolder(made).describe(measures, {**parameters, "sha256": checksum(made / RANKING)})
        made.rename(self.path)  # replaces an empty folder

    def describe(self, measures: pd.DataFrame, parameters: Mapping[str, Any]) -> None:
        """Write scores and parameters."""
        with atomic_write(self.path / "measures.csv") as file:
            file.write(measures.to_csv(index=False))
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
        return dict(json.loads((folder / "run.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{folder} is not a finished run: {error}") from None


def write_parameters(folder: Path, parameters: Mapping[str, Any]) -> None:
    """Replace ``run.json`` in a folder."""
    with atomic_write(folder / "run.json") as file:
        json.dump(parameters, file, indent=1)


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def versions() -> dict[str, str]:
    """The installed versions of the packages that a run depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def describe_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The differences between ``found`` and ``wanted``, in words; empty if there are none. Of checksums only the names are shown.

    A run without failures has the same results with ``on_error=raise`` and ``fallback``.

    Example:
        >>> describe_difference({"depth": 10, "llms": {"llm": "a", "second": "c"}}, {"depth": 10, "llms": {"llm": "b", "second": "c"}})
        "different llms ({'llm': 'a'}, now {'llm': 'b'})"
        >>> describe_difference({"turns": 280, "batch": 128}, {"turns": 24, "batch": 64})
        'different turns, batch (turns: 280, now 24)'
        >>> describe_difference({"prompts": {"1 answer": "0123456789abcdef"}}, {"prompts": {"1 answer": "fedcba9876543210"}})
        'different prompts (1 answer)'
    """
    changed = [name for name, value in wanted.items() if not _agrees(name, found.get(name), value)]
    if not changed:
        return ""
    names, before, now = [], found.get(changed[0]), wanted[changed[0]]
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in dict.fromkeys([*now, *before]) if before.get(name) != now.get(name)]
        before, now = ({name: one[name] for name in names if name in one} for one in (before, now))
    values = ", ".join(names) if _DIGEST.search(f"{before} {now}") else f"{before!r}, now {now!r}"
    which = f"{changed[0]}: " if len(changed) > 1 else ""
    return f"different {', '.join(changed)}" + f" ({which}{values})" * bool(values)


def _agrees(name: str, found: Any, wanted: Any) -> bool:
    if name == "on_error" and isinstance(found, dict):
        return all(found.get(model) in ("raise", rule) for model, rule in wanted.items())
    return bool(found == wanted)


def check_repeats(folders: Sequence[RunFolder]) -> None:
    """Check that run folders are repeats of one system.

    Raises:
        UsageError: when two of them differ in stages, models, prompts or topics.
        DataError: when one is not a finished run.
    """
    first = folders[0].parameters()
    for folder in folders[1:]:
        if differs := describe_difference(folder.parameters(), {name: first.get(name) for name in IDENTITY}):
            paths = f"{folders[0].path} and {folder.path}"
            raise UsageError(f"{paths} are not repeats of one system: the second has {differs}; evaluate them alone")
