"""One folder per system and topic set: everything that is needed to look at a run, evaluate it or continue it.

========================  ==========================================================================================
``run.trec``              the ranking, scores strictly decreasing
``turns.jsonl``           one line per turn: utterance, rewrite, answer, sub-queries, persona, number of passages; where the
                          system ran Respond also ``response`` and ``used``, the passages that it was based on
``measures.csv``          one line per turn of the qrels, one column per measure
``ledger.csv``            LLM calls, cache hits, failures, tokens, seconds and cost of this system, per stage
``run.json``              method, expression, dataset, parameters and versions; written last: its presence says "complete"
========================  ==========================================================================================
"""

import json
import platform
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from ..conversations.frame import column, values
from ..errors import DataError, UsageError
from ..files import atomic_write
from .trec import read_run, write_run

_PACKAGES = ("pyterrier_ikat", "pyterrier", "pyterrier-pisa", "pandas", "sentence-transformers", "torch", "ir-measures", "openai")
PER_TURN = (
    *("qid", "qutterance", "qresolved", "qrewrite", "qanswer", "qdraft"),
    *("qsubqueries", "qfound", "qweights", "qstatements", "qptkb"),
)


def versions() -> dict[str, str]:
    """The versions that a run depends on, of what is installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


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
        """Whether a finished run lies here."""
        return (self.path / "run.json").is_file()

    def parameters(self) -> dict[str, Any]:
        """The parameters of the finished run.

        Raises:
            DataError: when ``run.json`` cannot be read.
        """
        try:
            found = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path} is no finished run: {error}") from error
        if not isinstance(found, dict):
            raise DataError(f"{self.path} is no finished run: its run.json holds no object")
        return found

    def results(self) -> pd.DataFrame:
        """The ranking: ``qid``, ``docno``, ``score``, ``rank``; no row when the system found nothing at all."""
        path = self.path / "run.trec"
        if self.complete and path.is_file() and path.stat().st_size == 0:
            return pd.DataFrame({"qid": column([]), "docno": column([]), "score": pd.Series(dtype=float), "rank": pd.Series(dtype=int)})
        return read_run(path)

    def turns(self) -> list[dict[str, Any]]:
        """What ``turns.jsonl`` has for each turn.

        Raises:
            DataError: when the file is missing or cut short, or a line is no turn.
        """
        path = self.path / "turns.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError) as error:
            raise DataError(f"{path} can't be read ({error}): make the run again") from error
        return [_turn(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]

    def reusable(self, parameters: dict[str, Any]) -> bool:
        """Whether the run made with just these parameters is here already.

        Raises:
            UsageError: when another run is here.
        """
        if not self.complete:
            if self.path.exists() and any(self.path.iterdir()):
                raise UsageError(f"{self.path} is not empty and holds no finished run: choose another --out, or remove it")
            return False
        found = self.parameters()
        changed = [name for name, value in parameters.items() if found.get(name) != value]
        if changed:
            raise UsageError(
                f"{self.path} holds a run with another {', '.join(changed)} "
                f"({found.get(changed[0])!r}, now {parameters[changed[0]]!r}): choose another --out, or remove it"
            )
        return True

    def write(
        self, topics: pd.DataFrame, results: pd.DataFrame, measures: pd.DataFrame, ledger: pd.DataFrame, parameters: dict[str, Any]
    ) -> None:
        """Write all files into a temporary neighbour and rename it: the folder is complete or absent."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=self.path.parent, prefix=f".{self.path.name}."))
        try:
            write_run(results, partial / "run.trec", self.path.name)
            _write_turns(topics, results, partial / "turns.jsonl")
            measures.to_csv(partial / "measures.csv", index=False)
            ledger.to_csv(partial / "ledger.csv", index=False)
            with atomic_write(partial / "run.json") as file:
                json.dump(parameters | {"versions": versions()}, file, indent=1)
            partial.chmod(0o755)
            if self.path.exists():
                self.path.rmdir()
            partial.rename(self.path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _turn(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise DataError(f"{path}, line {number}: not JSON ({error}): make the run again") from error
    if not isinstance(found, dict) or not isinstance(found.get("qid"), str):
        raise DataError(f"{path}, line {number}: no turn, an object with a qid: make the run again")
    return found


def _write_turns(topics: pd.DataFrame, results: pd.DataFrame, path: Path) -> None:
    counts = results["qid"].value_counts()
    found = results.drop_duplicates("qid")
    turns = pd.concat([found, topics[~topics["qid"].isin(found["qid"])]])
    turns = turns.set_index(turns["qid"]).reindex(topics["qid"].tolist())
    columns = [name for name in turns.columns if name in PER_TURN]
    used = _used(results)
    with atomic_write(path) as file:
        for row in zip(*(values(turns, name) for name in columns), strict=True):
            shown = {name: value for name, value in zip(columns, row, strict=True) if isinstance(value, str | list | dict)}
            if shown["qid"] in used:
                shown |= {"response": shown.pop("qanswer", ""), "used": used[shown["qid"]]}
            if "qdraft" in shown:
                shown["qanswer"] = shown.pop("qdraft")
            file.write(json.dumps(shown | {"passages": int(counts.get(shown["qid"], 0))}) + "\n")


def _used(results: pd.DataFrame) -> dict[str, list[str]]:
    """For each turn that was responded to, the passages that the response is based on, best first."""
    if "used" not in results:
        return {}
    found: dict[str, list[str]] = {qid: [] for qid in results["qid"].unique()}
    shown = results[results["used"].astype(bool)].sort_values("rank", kind="stable")
    for qid, docno in zip(shown["qid"], shown["docno"], strict=True):
        found[qid].append(docno)
    return found
