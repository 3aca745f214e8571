"""One folder per system and topic set, with all that inspecting, evaluating or resuming it needs.

``run.trec``
    the ranking, scores strictly decreasing
``turns.jsonl``
    one line per turn: utterance, rewrite, answer, sub-queries, persona, number of passages; if the
    system ran Respond also ``response`` and ``used``, the passages that the response is based on; a
    turn without passages has the response that stands for no answer
``measures.csv``
    one line per turn of the qrels, one column per measure: the track's and those that were
    requested
``stages.jsonl.gz``
    the work of each stage for each turn, with its LLM calls, see below; a frame written with
    ``RunFolder.write`` has none
``ledger.csv``
    LLM calls, cache hits, failures, tokens, seconds and cost of this system, per stage
``run.json``
    method, expression, dataset, parameters, versions, notes, the checksums of ``run.trec`` and
    ``measures.csv``, and the number of rows of ``ledger.csv``; with it, a run is complete

While a run is made, its batches are in ``NAME.partial``, where ``run.json`` has only the
parameters, and each finished batch of turns has ``N.run.trec``, ``N.stages.jsonl.gz``,
``N.ledger.json`` and ``N.turns.jsonl``. The last one means that the batch is done. ``costs.jsonl``
there has the costs, call by call, also of batches that were not finished. At the end the batches
are joined in a hidden folder, which then gets the run's name. A ``run.trec`` or ``measures.csv``
with another checksum, and a ``ledger.csv`` with fewer rows, is an error where it is read. Each
``response`` in ``turns.jsonl`` may be edited.

``stages.jsonl.gz`` has one JSON line per turn and stage, in the order of the turns, then of the
stages. A line has ``qid`` (the turn), ``stage`` and one or more of these:

``wrote``
    column -> what the stage wrote there: rewrites, answers, statements, suggestions, summaries,
    queries
``found``
    what a retriever found: for each query ``qid``, ``query``, ``docnos`` (best first), ``scores``;
    for sub-queries also ``qsub`` and ``qweight``, and beside ``found`` the turn's own ``query``
``asked``
    the LLM calls, cached ones too: for each ``messages`` and ``completion``, or ``failure``, which
    says why there is none; ``prompt`` and ``item``, if present, name the template and the part of
    the turn that it was about
``scored``
    the output of a re-ranker: for each query ``qid``, ``query``, ``docnos`` (in the order of its
    input) and ``scores``

Scores have six decimals. Each turn is a separate member of the gzip file, so the file doesn't
depend on the size of the batches.
"""

import gzip
import hashlib
import json
import platform
import re
import shutil
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError, UsageError, advice, option
from ..order import strictly_decreasing
from ..store.files import PARTIAL_ENDING, atomic_write, read_lines
from ..store.trec import read_rankings
from .log import Log
from .run_file import ranking_frame, run_lines
from .turn_lines import turn_lines

COSTS_FILE = "costs.jsonl"
"""The costs of an unfinished run, call by call."""
RANKING_FILE = "run.trec"
TURNS_FILE = "turns.jsonl"
STAGES_FILE = "stages.jsonl.gz"
MEASURES_FILE = "measures.csv"
LEDGER_FILE = "ledger.csv"
SYSTEM_IDENTITY = ("method", "topics_sha256", "prompts", "stages", "parts")
"""The entries of ``run.json`` that are equal for all repeats of one system."""
THIS_PACKAGE = "pyterrier_ikat"
VERSIONED_PACKAGES = f"""
    {THIS_PACKAGE} pyterrier pyterrier-pisa pyterrier-t5 pandas numpy torch transformers tokenizers
    sentence-transformers openvino ir-measures openai
""".split()
_DIGEST = re.compile(r"\b[0-9a-f]{16,}\b")


class OtherVersionsWarning(UserWarning):
    """A run that is reused was made with other versions of its dependencies."""


class RunFolder:
    """The folder of one system's run.

    Args:
        path: the folder; its name is the run's name.

    Attributes:
        partial: where the run is while it is made.

    Example:
        >>> from pyterrier_ikat.runs import RunFolder
        >>> RunFolder("runs/aqd_a").complete
        False
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.partial = self.path.parent / (
            self.path.name.removesuffix(PARTIAL_ENDING) + PARTIAL_ENDING
        )

    @property
    def complete(self) -> bool:
        """Whether the folder holds a finished run."""
        return self.path.suffix != PARTIAL_ENDING and (self.path / "run.json").is_file()

    @property
    def begun(self) -> bool:
        """Whether the folder holds finished batches of a run that is not finished."""
        return self.path.suffix == PARTIAL_ENDING and bool(self.pieces(TURNS_FILE))

    def pieces(self, kind: str) -> list[Path]:
        """The files of one kind of an unfinished run: one per finished batch, in turn order."""
        batches = sorted(self.partial.glob(f"[0-9]*.{TURNS_FILE}"))
        return [path.with_name(path.name.replace(TURNS_FILE, kind)) for path in batches]

    def check_finished(self) -> None:
        """Check that the folder holds a finished run.

        Raises:
            DataError: when it doesn't.
        """
        if not self.complete:
            raise self.not_finished_error()

    def not_finished_error(self) -> DataError:
        """The error for a folder that isn't a finished run."""
        if Log.is_in(self.path):
            report = advice("ikat.show.report", "`ikat report`")
            return DataError(
                f"{self.path} holds {Log(self.path).kind}, not the run of a dataset's topics: "
                f"{report} shows it"
            )
        repair = ": give a folder made by `ikat run`"
        if self.path.suffix == PARTIAL_ENDING:
            repair = ". It was stopped: start it again with the same command, or omit it"
        return DataError(f"{self.path} is not a finished run{repair}")

    def parameters(self) -> dict[str, Any]:
        """The parameters of the run, which is finished or has finished batches.

        Raises:
            DataError: when ``run.json`` cannot be read.
        """
        if not self.begun:
            self.check_finished()
        return read_parameters(self.path)

    def turns_so_far(self) -> list[str]:
        """The turns that the run, or its finished batches, were asked."""
        if not self.begun:
            return [turn["qid"] for turn in self.turns()]
        qids = []
        for path in self.pieces(TURNS_FILE):
            qids += [turn["qid"] for _, turn in read_lines(path)]
        return qids

    def results_so_far(self) -> pd.DataFrame:
        """The ranking of the run, or of its finished batches, as a frame."""
        if not self.begun:
            return self.results()
        rankings: dict[str, dict[str, float]] = {}
        for path in self.pieces(RANKING_FILE):
            if path.stat().st_size:
                rankings.update(read_rankings(path))
        return ranking_frame(rankings)

    def ranking(self) -> dict[str, dict[str, float]]:
        """The scores: turn -> passage -> score, best first, without turns that have no passage.

        Raises:
            DataError: when the run is not finished, or ``run.trec`` can't be read or isn't the file
                that was written.
        """
        self.check_finished()
        path = self.path / RANKING_FILE
        written = self.parameters().get("sha256")
        if not path.is_file() or written != checksum(path):
            raise DataError(
                f"{path} is not the file that this run wrote, or its run.json is that of another "
                "run (it was cut, changed or removed): put the right one back, or remove the "
                "folder to repeat the run"
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
        path = self.path / TURNS_FILE
        turns: list[dict[str, Any]] = []
        try:
            for line in path.read_text(encoding="utf-8").split("\n"):
                if line.strip():
                    turns.append(json.loads(line))
        except ValueError as error:
            raise DataError(
                f"{path}, line {len(turns) + 1}: not JSON ({error}): repeat the run"
            ) from None
        except OSError as error:
            raise DataError(f"{path} can't be read ({error}): repeat the run") from None
        for number, turn in enumerate(turns, 1):
            if not _is_turn(turn):
                raise DataError(
                    f"{path}, turn {number}: no object with a qid and, if it has a response, a "
                    "text: repair it"
                )
        return turns

    def stages(self) -> Iterator[dict[str, Any]]:
        """The work of each stage: a dict per turn and stage. See the module.

        Raises:
            DataError: when ``stages.jsonl.gz`` can't be read.
        """
        return read_stages(self.path / STAGES_FILE)

    def measures(self) -> pd.DataFrame:
        """The scores of each turn: index ``qid``, a column per measure.

        Raises:
            DataError: when the run is not finished, or ``measures.csv`` can't be read or isn't the
                file that was written.
        """
        self.check_finished()
        path = self.path / MEASURES_FILE
        try:
            if self.parameters().get("measures_sha256") != checksum(path):
                raise ValueError("it is not the file that this run wrote: it was cut or changed")
            scores = pd.read_csv(path, dtype=str)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path} can't be read ({error}): the same `ikat run` writes it again, and repeats "
                "nothing else"
            ) from None
        # Converting texts gives exactly the written numbers.
        return scores.set_index("qid").astype(float)

    def reusable(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the folder holds the run of these parameters. Other versions cause a warning.

        Raises:
            UsageError: when the folder holds another run, or anything else.
            DataError: when its ranking was changed.
        """
        if not self.complete:
            if self._is_occupied():
                raise UsageError(
                    f"{self.path} is not empty and holds no finished run: choose another "
                    f"{option('out')}, or remove it"
                )
            return False
        check_same(self.path, "a run", parameters)
        self.ranking()
        differences = describe_difference(self.parameters(), {"versions": versions()})
        if differences:
            warnings.warn(
                f"{self.path} is reused. It is a run with {differences}: remove it to repeat the "
                "run",
                OtherVersionsWarning,
                2,
            )
        return True

    def _is_occupied(self) -> bool:
        """Whether the path is a link, a file, or a folder that isn't empty."""
        if self.path.is_symlink() or self.path.is_file():
            return True
        return self.path.is_dir() and any(self.path.iterdir())

    def write(
        self,
        topics: pd.DataFrame,
        results: pd.DataFrame,
        measures: pd.DataFrame,
        ledger: pd.DataFrame,
        parameters: dict[str, Any],
    ) -> None:
        """Write a run that was made elsewhere. The folder is complete or absent.

        Raises:
            DataError: when the results have turns that the topics don't have, a turn occurs twice
                in the topics, the ranking is not clean, or chosen statements are no list of (id,
                score).
        """
        name = parameters.get("method") or self.path.name
        ranking = "".join(run_lines(strictly_decreasing(results), name))
        turns = "".join(turn_lines(topics, results))
        files = {RANKING_FILE: [ranking.encode()], TURNS_FILE: [turns.encode()]}
        self.finish(files, measures, ledger, parameters | {"versions": versions()})

    def finish(
        self,
        files: Mapping[str, Iterable[bytes]],
        measures: pd.DataFrame,
        ledger: pd.DataFrame,
        parameters: Mapping[str, Any],
    ) -> None:
        """Make the finished run of the contents of its files, its scores, costs and parameters."""
        hidden = self.path.with_name(f".{self.path.name}.tmp")
        shutil.rmtree(hidden, ignore_errors=True)  # of a killed process
        contents = {**files, LEDGER_FILE: [ledger.to_csv(index=False).encode()]}
        for name, pieces in contents.items():
            with atomic_write(hidden / name, "wb") as file:
                file.writelines(pieces)
        sha256 = checksum(hidden / RANKING_FILE)
        about = {**parameters, "ledger_rows": len(ledger), "sha256": sha256}
        RunFolder(hidden).describe(measures, about)
        hidden.rename(self.path)  # replaces an empty folder

    def describe(self, measures: pd.DataFrame, parameters: Mapping[str, Any]) -> None:
        """Write scores and parameters."""
        path = self.path / MEASURES_FILE
        with atomic_write(path) as file:
            file.write(measures.to_csv(index=False))
        write_parameters(self.path, {**parameters, "measures_sha256": checksum(path)})


def _is_turn(turn: Any) -> bool:
    """Whether a line of ``turns.jsonl`` has a qid and, if it has a response, a text."""
    if not isinstance(turn, dict):
        return False
    return isinstance(turn.get("qid"), str) and isinstance(turn.get("response", ""), str)


def read_stages(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of stages, one at a time.

    Raises:
        DataError: when it can't be read.
    """
    try:
        with gzip.open(path) as file:
            yield from map(json.loads, file)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"{path} can't be read ({error}): repeat the run") from None


def check_same(folder: Path, content: str, wanted: Mapping[str, Any]) -> None:
    """Check that the content of a folder was made with the wanted parameters.

    Raises:
        UsageError: when it wasn't. The error names the differences.
        DataError: when the folder doesn't say what it was made with.
    """
    differences = describe_difference(read_parameters(folder), wanted)
    if differences:
        raise UsageError(
            f"{folder} holds {content} with {differences}: choose another {option('out')}, or "
            "remove it"
        )


def read_parameters(folder: Path) -> dict[str, Any]:
    """The content of ``run.json`` in a folder.

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


def checksum_of(frame: pd.DataFrame) -> str:
    """A checksum of a frame's rows."""
    digest = hashlib.sha256()
    columns = frame.columns.tolist()
    for values in frame.itertuples(index=False, name=None):  # one at a time: histories are long
        row = dict(zip(columns, values, strict=True))
        digest.update(json.dumps(row, sort_keys=True, default=str).encode())
    return digest.hexdigest()


@cache
def versions() -> dict[str, str]:
    """The installed versions of the packages that a run depends on."""
    installed = {"python": platform.python_version()}
    for package in VERSIONED_PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


def describe_difference(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The wanted entries that were others before, in words; empty if there are none.

    Of checksums only the names are shown. A run without failures has the same results with
    ``on_error=raise`` and ``fallback``.

    Example:
        >>> before = {"depth": 10, "llms": {"llm": "a", "second": "c"}}
        >>> describe_difference(before, {"depth": 10, "llms": {"llm": "b", "second": "c"}})
        "different llms ({'llm': 'a'}, now {'llm': 'b'})"
        >>> describe_difference({"turns": 280, "batch": 128}, {"turns": 24, "batch": 64})
        'different turns, batch (turns: 280, now 24)'
        >>> before = {"prompts": {"1 answer": "0123456789abcdef"}}
        >>> describe_difference(before, {"prompts": {"1 answer": "fedcba9876543210"}})
        'different prompts (1 answer)'
    """
    changed = [name for name, value in wanted.items() if before.get(name) != value]
    if "on_error" in changed and _same_rules(before.get("on_error"), wanted["on_error"]):
        changed.remove("on_error")
    if not changed:
        return ""
    first = changed[0]
    values = _changed_values(before.get(first), wanted[first])
    if values and len(changed) > 1:
        values = f"{first}: {values}"
    names = ", ".join(changed)
    return f"different {names} ({values})" if values else f"different {names}"


def _same_rules(before: Any, wanted: Mapping[str, str]) -> bool:
    """Whether a finished run's rules for errors are the wanted ones, or raise, which it did not."""
    if not isinstance(before, dict):
        return False
    return all(before.get(model) in ("raise", rule) for model, rule in wanted.items())


def _changed_values(before: Any, now: Any) -> str:
    """Two values of an entry in words; of two dicts, only the parts that differ."""
    parts: list[str] = []
    if isinstance(before, dict) and isinstance(now, dict):
        names = dict.fromkeys([*now, *before])
        parts = [name for name in names if before.get(name) != now.get(name)]
        before = {name: before[name] for name in parts if name in before}
        now = {name: now[name] for name in parts if name in now}
    if _DIGEST.search(f"{before} {now}"):
        return ", ".join(parts)
    return f"{before!r}, now {now!r}"


def check_repeats(folders: Sequence[RunFolder]) -> None:
    """Check that run folders, if there are any, are repeats of one system.

    Raises:
        UsageError: when two of them differ in stages, models, prompts or topics.
        DataError: when one is not a finished run.
    """
    if not folders:
        return
    first = folders[0].parameters()
    identity = {name: first.get(name) for name in SYSTEM_IDENTITY}
    for folder in folders[1:]:
        differences = describe_difference(folder.parameters(), identity)
        if differences:
            raise UsageError(
                f"{folders[0].path} and {folder.path} are not repeats of one system: the second "
                f"has {differences}; evaluate them alone"
            )
