"""What the command line does: run systems by name on a dataset, keep what they leave, show them side by side."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..errors import DataError, UsageError
from ..evaluation import TRACK_2023, format_table, label, per_turn
from ..evaluation.scores import experiment_table
from ..llms import LLM, Ledger
from ..llms.spec import deciding
from ..methods import Method, find_all
from ..planning import plan
from ..retrieve import PassageIndex
from ..store.files import alone, atomic_write
from . import RunFolder, strictly_decreasing
from .account import Spending
from .batches import PARAMETERS, Batches
from .folder import Part
from .identity import of_frame, parameters_of
from .loading import some_of
from .resources import (
    check_collection,
    check_out,
    check_texts,
    load_models,
    named_resources,
    named_turns,
    open_qrels,
    refuse_statements,
    shown,
    system_of,
    without_none,
)

Echo = Callable[[str], None]


SPECS = {
    "llm": "llm_spec",
    "second_llm": "second_spec",
    "reranker": "reranker_spec",
    "rewriter": "rewriter_spec",
    "expander": "expander_spec",
}
"""Resource -> the option that names its model."""


TURNS_AT_ONCE = 128
"""Turns that are retrieved for and re-ranked at a time: 5 queries of 1000 passages each are 640,000 rows."""


class NotJudgedWarning(UserWarning):
    """None of the turns has a judgement, so that there are no figures."""


@dataclass
class Session:
    """A comparison: methods, their resources, the topics and qrels, and the folder of their runs."""

    methods: list[Method]
    resources: dict[str, Any]
    dataset: Any
    dataset_name: str
    turns: list[str] | None
    qrels: pd.DataFrame
    out: Path
    ledger: Ledger
    specs: dict[str, str | None] = field(default_factory=dict)
    batch: int = TURNS_AT_ONCE

    @classmethod
    def open(cls, dataset: Any, dataset_name: str, names: Sequence[str], *, index_path: str, out: str, **options: Any) -> "Session":
        """Check every name and resource, and load every model, before anything is run.

        With the option ``only_plan`` no model is loaded, and the folder of the runs is not looked at.

        Raises:
            UsageError: for an unknown method, turn or variant, a resource that a method lacks, a model that can't be
                loaded, or a folder that can't be written to.
            DataError: for an index or recorded file that cannot be used.
        """
        methods, options = _methods(names), without_none(options)
        dataset_name = getattr(dataset, "name", dataset_name)  # one dataset has several names: sample, ikat:sample
        ledger, variant = options.get("ledger") or Ledger(), options.get("variant")
        resources = named_resources(index_path, ledger, options)
        qrels = open_qrels(dataset, dataset_name, variant)
        refuse_statements(dataset_name, variant)
        session = cls(methods, resources, dataset, dataset_name, named_turns(options.get("turns")), qrels, Path(out), ledger)
        session.batch = _batch_size(options.get("batch"))
        session.specs = {resource: shown(option, options.get(option)) for resource, option in SPECS.items()}
        judged: set[str] = set()
        for entry in methods:
            session.check(entry)
            judged |= set(session.topics(entry)["qid"]) & set(qrels["qid"])
        if session.turns is not None or not judged:
            session.qrels = qrels[qrels["qid"].isin(judged)].reset_index(drop=True)
        check_collection(resources["index"], dataset, dataset_name, session.qrels if judged else qrels)
        if not options.get("only_plan"):
            check_out(session.out)
            load_models(resources)
            if not judged:
                warnings.warn(f"none of the turns is judged in the qrels of {dataset_name}: there will be no figures", NotJudgedWarning, 2)
        return session

    def check(self, entry: Method) -> None:
        """Whether a method can be built, and finds the texts that it needs.

        Raises:
            UsageError: when it can't.
        """
        check_texts(entry, self.resources, self.topics(entry))

    def topics(self, entry: Method) -> pd.DataFrame:
        """The topics of a method: with the manual rewrites only for a manual run."""
        topics = self.dataset.get_topics("manual" if entry.manual else None)
        if self.turns is None:
            return topics
        unknown = sorted(set(self.turns) - set(topics["qid"]))
        if unknown:
            raise UsageError(f"{self.dataset_name} has no turn {', '.join(unknown)}: its turns are like {topics['qid'].iloc[0]}")
        return topics[topics["qid"].isin(self.turns)].reset_index(drop=True)

    def build(self, entry: Method) -> pt.Transformer:
        """The method's expression, over a retriever with its depth and its paper's BM25 parameters."""
        return system_of(entry, self.resources)

    def systems(self) -> dict[str, pt.Transformer]:
        """Name -> expression."""
        return {entry.name: self.build(entry) for entry in self.methods}

    def deviations(self, entry: Method) -> list[str]:
        """How this run's models and retriever differ from those of the method's paper, one line each."""
        index = self.resources["index"]
        retriever = " ".join(["BM25", *(f"{name}={value}" for name, value in entry.bm25.items())])
        return entry.deviations(self.specs | {"retriever": retriever if isinstance(index, PassageIndex) else "SPLADE"})

    def plan(self) -> pd.DataFrame:
        """The LLM calls and tokens that the methods need, see :func:`pyterrier_ikat.plan`."""
        manual = self.topics(next((entry for entry in self.methods if entry.manual), self.methods[0]))
        return plan(self.systems(), manual)

    def run(self) -> "Rankings":
        """Run every method that has no finished run in its folder yet; return name -> ranking, read when it is asked for.

        What comes before retrieval is done for all turns at once, so that an LLM has as many requests as it takes at a
        time; the rest for ``batch`` turns after the other, so that memory is bounded. A finished batch is kept until the
        run is complete, and not done again when the run was killed. Figures of a finished run that were made with other
        qrels are made anew.

        Raises:
            UsageError: before anything is run, when a folder holds another run, or finished batches of another one, or another
                process is making one of the runs.
        """
        folders = {entry.name: RunFolder(self.out / entry.name) for entry in self.methods}
        with alone(*(folder.path for folder in folders.values())), ExitStack() as budgets:
            for one in self._llms():
                budgets.enter_context(one.budget.counting(Spending(self.out)))
            return self._run(folders)

    def _llms(self) -> list[LLM]:
        return [one for name in ("llm", "second_llm") if (one := self.resources.get(name)) is not None]

    def _run(self, folders: dict[str, RunFolder]) -> "Rankings":
        parameters = {entry.name: self.parameters(entry) for entry in self.methods}
        finished = {name for name, folder in folders.items() if folder.reusable(_as_strict(parameters[name], folder.path))}
        batches = {name: Batches(folder, parameters[name]) for name, folder in folders.items()}
        for name, one in batches.items():
            Batches(folders[name], _as_strict(parameters[name], one.path)).check()
        for name in finished:
            batches[name].remove()  # a run that was killed after its last step left them
        for entry in pt.tqdm(self.methods, desc="systems", unit="system"):
            folder = folders[entry.name]
            if entry.name in finished:
                self._figures_anew(folder)
            else:
                self._run_one(entry, folder, batches[entry.name])
        return Rankings(folders)

    def _run_one(self, entry: Method, folder: RunFolder, batches: Batches) -> None:
        if (batches.path / PARAMETERS).exists():  # made under on_error=raise, they get company that may hold fallbacks
            _write_parameters(batches.path, batches.parameters)
        topics, figures = self.topics(entry), Figures(self.qrels)
        batches.run(self.build(entry), topics, self.ledger, self.batch)
        about = batches.parameters | {"deviations": self.deviations(entry)}
        parts = figures.counting(batches.parts(topics))
        ledger = batches.ledger()
        about["served"] = ledger.served()
        folder.write_parts(parts, lambda: (figures.frame(), about | figures.about()), ledger.frame())
        batches.remove()

    def _figures_anew(self, folder: RunFolder) -> None:
        known, figures = folder.parameters(), Figures(self.qrels)
        if known.get("qrels_sha256") == of_frame(self.qrels) and "judged_passages" in known:
            return
        results = folder.results()
        figures.add(results["qid"].unique(), results)
        # Killed in between, the run says of no qrels that its figures were made with them.
        _write_parameters(folder.path, known | {"qrels_sha256": None})
        with atomic_write(folder.path / "measures.csv") as file:
            figures.frame().to_csv(file, index=False)
        _write_parameters(folder.path, known | figures.about() | {"lines": folder.lines()})

    def parameters(self, entry: Method) -> dict[str, Any]:
        """What makes this run this run: it is reused only when all of it is the same, or only ``on_error`` more lenient than it was."""
        topics, needs = self.topics(entry), set(entry.resources.values())
        return {
            "method": entry.name,
            "dataset": self.dataset_name,
            "turns": len(topics),
            "topics_sha256": of_frame(topics),
            "models": {name: self._decisive(name) for name in sorted(needs) if self.resources.get(name) is not None},
            "passages": len(self.resources["index"]),
            **parameters_of(self.resources, needs),
            "expression": self._expression(entry),  # last: a refusal shows the values of the first that differs
        }

    def _decisive(self, resource: str) -> str:
        """A resource's repr, of an LLM only what its results depend on: a run goes on with another budget or time-out."""
        spec = self.specs.get(resource) if resource in ("llm", "second_llm") else None
        return repr(self.resources[resource]) if spec is None else f"ikat.llm({deciding(spec)!r})"

    def _expression(self, entry: Method) -> str:
        """The system's repr without what its results don't depend on, such as the index's path, which has a fingerprint."""
        found = repr(self.build(entry)).replace(repr(self.resources["index"]), "index")
        for resource in ("llm", "second_llm"):
            if self.resources.get(resource) is not None:
                found = found.replace(repr(self.resources[resource]), self._decisive(resource))
        return found

    def show(self, echo: Echo) -> None:
        """Print the table of the finished runs, from their figures turn by turn, and which judged turns one lacks."""
        if self.qrels.empty:
            return
        folders = {entry.name: RunFolder(self.out / entry.name) for entry in self.methods}
        echo(format_table(experiment_table({name: folder.measures() for name, folder in folders.items()}, TRACK_2023, None)))
        for name, folder in folders.items():
            if lost := sorted(set(self.qrels["qid"]) - folder.found()):
                echo(f"{name} lacks {len(lost)} judged turns: {some_of(lost)}")

    def check_judged(self) -> None:
        """Whether each run found a passage that is judged for its turn.

        Raises:
            DataError: when one did not, so that all its figures are 0; it is kept.
        """
        names = [entry.name for entry in self.methods]
        without = [name for name in names if not RunFolder(self.out / name).parameters()["judged_passages"]]
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
        for one in self._llms():
            if one.budget.limit is not None:
                with one.budget.counting(Spending(self.out)):
                    used, limit = one.budget.used, one.budget.limit
                echo(f"\nBudget of {one.model}: {self.out} has cost {used:.4f} of {limit:g} USD, {max(0.0, limit - used):.4f} USD are left")
        echo(f"\nRuns: one folder for each system in {self.out}")


class Rankings(Mapping[str, pd.DataFrame]):
    """Name -> ranking of finished runs, each read when it is asked for."""

    def __init__(self, folders: dict[str, RunFolder]) -> None:
        self._folders = folders

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self._folders[name].results()

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)


class Figures:
    """The figures of a run that comes in parts, and how many of its passages are judged."""

    def __init__(self, qrels: pd.DataFrame) -> None:
        self.qrels, self.judged = qrels, 0
        self._parts = [pd.DataFrame(columns=["qid", *map(label, TRACK_2023)])]

    def counting(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The parts, added while they go by."""
        for topics, results in parts:
            self.add(topics["qid"], results)
            yield topics, results

    def add(self, qids: Iterable[str], results: pd.DataFrame) -> None:
        """Add the ranking of these turns."""
        qrels = self.qrels[self.qrels["qid"].isin(qids)]
        if len(qrels):
            self._parts.append(per_turn(strictly_decreasing(results), qrels))
            self.judged += len(results[["qid", "docno"]].merge(qrels[["qid", "docno"]]))

    def frame(self) -> pd.DataFrame:
        """A row for each turn of the qrels, in their order: zeros for those that were not added."""
        found = pd.concat(self._parts[len(self._parts) > 1 :]).set_index("qid")
        return found.reindex(pd.Index(self.qrels["qid"].unique(), name="qid"), fill_value=0.0).reset_index()

    def about(self) -> dict[str, Any]:
        """What the run folder says of them."""
        return {"qrels_sha256": of_frame(self.qrels), "judged_passages": self.judged}


def _as_strict(parameters: dict[str, Any], path: Path) -> dict[str, Any]:
    """The parameters, with ``on_error=raise`` for LLMs of which ``path`` says so: what no failure ended is what fallback gives, too."""
    try:
        made = RunFolder(path).parameters().get("on_error", {})
    except DataError:  # nothing is there, or the folder's own check refuses it
        return parameters
    wanted = parameters["on_error"]
    return parameters | {"on_error": {name: "raise" if made.get(name) == "raise" else wanted[name] for name in wanted}}


def _write_parameters(folder: Path, parameters: Mapping[str, Any]) -> None:
    with atomic_write(folder / PARAMETERS) as file:
        json.dump(parameters, file, indent=1)


def _methods(names: Sequence[str]) -> list[Method]:
    found: dict[str, Method] = {}
    for entry in (entry for name in dict.fromkeys(names) for entry in find_all(name)):
        if found.setdefault(entry.name, entry) is not entry:
            raise UsageError(
                f"two methods are named {entry.name}, and each leaves a folder of its name: rename one, or run them in two calls"
            )
    return list(found.values())


def _batch_size(given: int | None) -> int:
    if given is not None and given < 1:
        raise UsageError(f"--batch {given}: do at least one turn at a time, or leave it away for {TURNS_AT_ONCE}")
    return TURNS_AT_ONCE if given is None else given
