"""Methods run on a dataset, with a folder for each that resumes."""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations import dataset as dataset_named
from ..conversations.datasets import IkatDataset
from ..conversations.frame import each_turn_once
from ..conversations.qrels import check_qrels
from ..errors import DataError, UsageError, advice
from ..evaluation import TRACK_2023, format_table
from ..evaluation.evaluator import experiment_rows
from ..llms import LLM, Ledger
from ..methods import Method
from ..operator import alike
from ..planning import PlanTable, estimate
from ..store.files import alone, atomic_write
from .account import Spending
from .batches import PARAMETERS, Batches
from .folder import RunFolder
from .identity import parameters_of, parts
from .loading import Figures, Rankings, some_of
from .resources import (
    Resources,
    check_collection,
    check_out,
    check_system,
    load_models,
    named_turns,
    open_qrels,
    refuse_statements,
)
from .turns import of_frame

Echo = Callable[[str], None]
TURNS_AT_ONCE = 128
"""Turns that are retrieved for and re-ranked at a time: 5 queries of 1000 passages each are 640,000 rows."""


class NotJudgedWarning(UserWarning):
    """None of the turns has a judgement, so that there are no figures."""


class AlikeWarning(UserWarning):
    """What is kept of a run was made by a stage whose repr doesn't tell it apart from another one."""


@dataclass
class Session:
    """Systems, the turns and judgements, and the folder of their runs; everything was checked when it was opened."""

    methods: list[Method]
    resources: Resources
    dataset: Any
    frame: pd.DataFrame | None
    qrels: pd.DataFrame
    out: Path
    ledger: Ledger
    turns: list[str] | None = None
    batch: int = TURNS_AT_ONCE

    @classmethod
    def open(
        cls,
        methods: list[Method],
        dataset: IkatDataset | str | None = None,
        *,
        out: str | Path = ".",
        topics: pd.DataFrame | None = None,
        qrels: pd.DataFrame | str | None = None,
        turns: Any = None,
        batch: int | None = None,
        ledger: Ledger | None = None,
        only_plan: bool = False,
        **resources: Any,
    ) -> "Session":
        """Check every name and resource, and load every model, before anything is run.

        The arguments are those of :func:`pyterrier_ikat.run`. LLMs that are given as text count in ``ledger``. With ``only_plan`` no
        model is loaded, and the folder of the runs is not looked at.

        Raises:
            UsageError: for an unknown option, turn or variant, a resource that a method lacks, a model that can't be loaded, or a folder
                that can't be written to.
            DataError: for an index or recorded file that cannot be used.
        """
        counting = ledger or Ledger()
        data: Any = dataset_named(str(dataset)) if isinstance(dataset, str | Path) else dataset
        if data is None and topics is None:
            raise UsageError('there is nothing to run on: give a dataset such as "ikat:sample", or topics=...')
        judged = _judgements(data, qrels)
        found = cls(methods, Resources.of(resources).opened(counting), data, topics, judged, Path(out), counting)
        found.turns = named_turns(turns) if isinstance(turns, str) else None if turns is None else list(turns)
        found.batch = _batch_size(batch)
        found._check(only_plan)
        return found

    def _check(self, only_plan: bool) -> None:
        if self.frame is not None:
            pt.validate.columns(self.frame, includes=["qid"])
        judged: set[str] = set()
        for entry in self.methods:
            if self.frame is None or not only_plan:
                check_system(entry.name, self.systems[entry.name], self.topics(entry), self.resources.index)
            judged |= set(self.topics(entry)["qid"]) & set(self.qrels["qid"])
        known = self.qrels
        if self.turns is not None or self.frame is not None or not judged:
            self.qrels = known[known["qid"].isin(judged)].reset_index(drop=True)
        if self.dataset is not None:
            for index in self._indexes():
                check_collection(index, self.dataset, self.dataset_name, self.qrels if judged else known)
        if only_plan:
            return
        for entry in self.methods:
            each_turn_once(self.topics(entry))
        check_out(self.out)
        load_models(self.systems.values())
        if not judged:
            warnings.warn(f"none of the turns is judged in the qrels of {self.dataset_name}: there will be no figures", NotJudgedWarning, 4)

    @property
    def dataset_name(self) -> str | None:
        """The dataset's own name: one has several, sample and ikat:sample."""
        return None if self.dataset is None else getattr(self.dataset, "name", type(self.dataset).__name__)

    @cached_property
    def systems(self) -> dict[str, pt.Transformer]:
        """Name -> expression, over a retriever with its depth and its paper's BM25 parameters."""
        return {entry.name: self.resources.system(entry) for entry in self.methods}

    def topics(self, entry: Method) -> pd.DataFrame:
        """The topics of a method: with the manual rewrites only for a manual run."""
        topics = self.dataset.get_topics("manual" if entry.manual else None) if self.frame is None else self.frame
        if self.turns is None:
            return topics
        unknown = sorted(set(self.turns) - set(topics["qid"]))
        if unknown:
            where = self.dataset_name or "the topics frame"
            raise UsageError(f"{where} has no turn {', '.join(unknown)}: its turns are like {topics['qid'].iloc[0]}")
        return topics[topics["qid"].isin(self.turns)].reset_index(drop=True)

    def plan(self) -> PlanTable:
        """The LLM calls and tokens that the systems need, see :func:`pyterrier_ikat.plan`."""
        return estimate(self.systems, {entry.name: self.topics(entry) for entry in self.methods})

    def run(self) -> Rankings:
        """Run every system that has no finished run in its folder yet; return name -> ranking, read when it is asked for.

        Figures of a finished run that were made with other qrels are made anew.

        Raises:
            UsageError: before anything is run, when a folder holds another run, or finished batches of another one, or another
                process is making one of the runs.
        """
        folders = {entry.name: RunFolder(self.out / entry.name) for entry in self.methods}
        with alone(*(folder.path for folder in folders.values())), ExitStack() as counted:
            for one in self.llms():
                counted.enter_context(one.budget.counting(Spending(self.out)))
            for ledger in ledgers_of(self.llms()):
                if ledger is not self.ledger:
                    counted.enter_context(ledger.followed_by(self.ledger))
            return self._run(folders)

    def llms(self) -> list[LLM]:
        """The language models of all systems."""
        return _distinct(part for system in self.systems.values() for part in parts(system) if isinstance(part, LLM))

    def _indexes(self) -> list[Any]:
        found = _distinct(part for system in self.systems.values() for part in parts(system) if hasattr(part, "docnos"))
        texts = [getattr(getattr(index, "text", None), "index", None) for index in found]
        return [index for index in found if all(index is not one for one in texts)]

    def _run(self, folders: dict[str, RunFolder]) -> Rankings:
        parameters = {entry.name: self.parameters(entry) for entry in self.methods}
        finished = {name for name, folder in folders.items() if folder.reusable(folder.as_strict(parameters[name]))}
        batches = {name: Batches(folder, parameters[name]) for name, folder in folders.items()}
        for name, one in batches.items():
            Batches(folders[name], RunFolder(one.path).as_strict(parameters[name])).check()
            if name in finished or one.path.exists():
                self._warn_of_alike(name, folders[name].path if name in finished else one.path)
        for name in finished:
            batches[name].remove()  # a run that was killed after its last step left them
        for entry in pt.tqdm(self.methods, desc="systems", unit="system"):
            folder = folders[entry.name]
            if entry.name in finished:
                self._figures_anew(folder)
            else:
                self._run_one(entry, folder, batches[entry.name])
        return Rankings(folders)

    def _warn_of_alike(self, name: str, path: Path) -> None:
        if found := alike(self.systems[name]):
            warnings.warn(
                f"system {name} uses what is kept in {path}, and its stage {', '.join(found)} may be another one now: if it is, remove "
                "the folder; a class with a __repr__ that shows what it does is told apart",
                AlikeWarning,
                6,
            )

    def _run_one(self, entry: Method, folder: RunFolder, batches: Batches) -> None:
        if (batches.path / PARAMETERS).exists():  # made under on_error=raise, they get company that may hold fallbacks
            RunFolder(batches.path).write_parameters(batches.parameters)
        topics, figures = self.topics(entry), Figures(self.qrels)
        system = self.systems[entry.name]
        batches.run(system, topics, ledgers_of(parts(system)), self.batch)
        about = batches.parameters | {"deviations": self.resources.deviations(entry)}
        counted = figures.counting(batches.parts(topics))
        ledger = batches.ledger()
        about["served"] = ledger.served()
        folder.write_parts(counted, lambda: (figures.frame(), about | figures.about()), ledger.frame())
        batches.remove()

    def _figures_anew(self, folder: RunFolder) -> None:
        known, figures = folder.parameters(), Figures(self.qrels)
        if known.get("qrels_sha256") == of_frame(self.qrels) and "judged_passages" in known:
            return
        results = folder.results()
        figures.add(results["qid"].unique(), results)
        # Killed in between, the run says of no qrels that its figures were made with them.
        folder.write_parameters(known | {"qrels_sha256": None})
        with atomic_write(folder.path / "measures.csv") as file:
            figures.frame().to_csv(file, index=False)
        folder.write_parameters(known | figures.about() | {"lines": folder.lines()})

    def parameters(self, entry: Method) -> dict[str, Any]:
        """What makes this run this run: it is reused only when all of it is the same, or only ``on_error`` more lenient than it was."""
        topics = self.topics(entry)
        about = {"method": entry.name, "dataset": self.dataset_name, "turns": len(topics), "topics_sha256": of_frame(topics)}
        return about | parameters_of(self.systems[entry.name], self.resources.prompts)

    def table(self, baseline: str | None = None) -> pd.DataFrame:
        """The scores of the finished runs, from their figures turn by turn."""
        if self.qrels.empty:
            return pd.DataFrame({"name": list(self.systems)})
        return pd.DataFrame(experiment_rows({name: RunFolder(self.out / name).measures() for name in self.systems}, TRACK_2023, baseline))

    def show(self, echo: Echo) -> None:
        """Print the table of the finished runs, from their figures turn by turn, and which judged turns one lacks."""
        if self.qrels.empty:
            return
        echo(format_table(self.table()))
        for name in self.systems:
            if lost := sorted(set(self.qrels["qid"]) - RunFolder(self.out / name).found()):
                echo(f"{name} lacks {len(lost)} judged turns: {some_of(lost)}")

    def check_judged(self) -> None:
        """Whether each run found a passage that is judged for its turn.

        Raises:
            DataError: when one did not, so that all its figures are 0; it is kept.
        """
        without = [name for name in self.systems if not RunFolder(self.out / name).parameters()["judged_passages"]]
        if without and len(self.qrels):
            raise DataError(
                f"no passage that {', '.join(without)} found is judged, so that every figure is 0: the runs are kept in {self.out}; look "
                f"whether the index is of the passages that were judged in {self.dataset_name}, and what the queries are in turns.jsonl"
            )

    def report(self, echo: Echo) -> None:
        """Print the turns without results, the ledger, and where the runs lie."""
        for entry in self.methods:
            lost = sorted(set(self.topics(entry)["qid"]) - RunFolder(self.out / entry.name).found())
            if lost:
                echo(f"\n{entry.name}: {len(lost)} turns without any passage, counted 0: {some_of(lost)}")
        rows = self.ledger.frame()
        if len(rows):
            echo(f"\nLLM ledger (of this call; each run folder keeps its own):\n{rows.to_string(index=False, na_rep='unknown')}")
        for one in self.llms():
            if one.budget.limit is not None:
                with one.budget.counting(Spending(self.out)):
                    used, limit = one.budget.used, one.budget.limit
                echo(f"\nBudget of {one.model}: {self.out} has cost {used:.4f} of {limit:g} USD, {max(0.0, limit - used):.4f} USD are left")
        echo(f"\nRuns: one folder for each system in {self.out}")


def _judgements(dataset: Any, qrels: pd.DataFrame | str | None) -> pd.DataFrame:
    if isinstance(qrels, pd.DataFrame):
        return check_qrels(qrels)
    if dataset is None:
        return pd.DataFrame({"qid": [], "docno": [], "label": []}, dtype=object)
    refuse_statements(getattr(dataset, "name", ""), qrels)
    return open_qrels(dataset, getattr(dataset, "name", ""), qrels)


def ledgers_of(models: Any) -> list[Ledger]:
    """The accounts that models count in, each once."""
    return _distinct(model.ledger for model in models if isinstance(model, LLM))


def _distinct(found: Any) -> list[Any]:
    return list({id(one): one for one in found}.values())


def _batch_size(given: int | None) -> int:
    if given is not None and given < 1:
        raise UsageError(
            f"{advice(f'batch={given}', f'--batch {given}')}: do at least one turn at a time, or leave it out for {TURNS_AT_ONCE}"
        )
    return TURNS_AT_ONCE if given is None else given
