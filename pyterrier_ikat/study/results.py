"""The results of a study that was run into folders: the scores of the runs, and their table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import ir_measures
import pandas as pd

from ..conversations.frame import column
from ..errors import DataError, UsageError, counted, list_first
from ..evaluation import TRACK_2023, as_measures, label, per_turn
from ..evaluation.evaluator import Evaluator, experiment_rows, judgements_by_turn
from ..evaluation.experiment_table import DEVIATIONS, experiment_table, notes_of, repeated_rows
from ..evaluation.finished_runs import ranking_of
from ..evaluation.measures import computable, is_own
from ..llms import Ledger
from ..runs import RunFolder
from ..runs.origin import write_metadata
from ..runs.run_files import Part, checksum_of
from ..store.files import atomic_write
from ..tables import Table, of_frame, wrapped
from .account import Spending
from .systems import System, distinct_models

if TYPE_CHECKING:
    from .study import Study


@dataclass(frozen=True, repr=False, eq=False)
class Results:
    """The results of a study. They are displayed as a table of scores.

    Attributes:
        study: the systems, and the data and resources that they ran on.
        out: the folder of the runs.
        folders: the folder of each run, by name.
        table: the scores, as from :func:`pyterrier_ikat.experiment`, or with several repeats as from
            :func:`~pyterrier_ikat.evaluation.repeated_rows`; only the names if no turn is judged.
        baseline: the system that the others are compared with.
    """

    study: "Study"
    out: Path
    folders: Mapping[str, RunFolder]
    table: pd.DataFrame
    baseline: str | None = None

    @classmethod
    def of(
        cls,
        study: "Study",
        out: Path,
        folders: Mapping[str, RunFolder],
        measures: Sequence[ir_measures.Measure] = TRACK_2023,
        baseline: str | None = None,
    ) -> "Results":
        """The results of finished runs. Scores are read now, because another study may score the same folders with other judgements."""
        table = scores_of_folders(folders, study.qrels, measures, baseline, study.groups())
        return cls(study, out, folders, ScoreTable.of(table, study.systems), baseline)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the LLM calls of this call. Each folder has the ledger of its run, over all its starts."""
        return self.study.ledger

    def report(self, **options: Any) -> Any:
        """The runs as conversations to read and compare, the baseline first: see :func:`pyterrier_ikat.report`."""
        from .. import report  # from a room below

        first = sorted(self.folders, key=lambda name: name != self.baseline)
        return report([self.folders[name] for name in first], **options)

    def shown(self) -> Table:
        """The table of scores, to print. Its last notes say how the systems differ from those of the papers."""
        shown = of_frame(self.table) if self.study.qrels.empty else experiment_table(self.table.to_dict("records"))
        return Table(self.table, shown.columns, [*shown.notes, *notes_of(self.table)], shown.title)

    def gaps(self) -> list[str]:
        """Sentences on the turns that have no results."""
        judged, systems = set(self.study.qrels["qid"]), {one.name: one for one in self.study.systems}
        lacking, empty = [], []
        for name, folder in self.folders.items():
            found = folder.turns_with_passages()
            if lost := sorted(judged - found):
                lacking.append(f"{name} lacks {counted(len(lost), 'judged turn')}: {list_first(lost)}")
            if name in systems and (lost := sorted({*self.study.turns_of(systems[name])["qid"]} - found)):
                empty.append(f"{name}: {counted(len(lost), 'turn')} without any passage, counted 0: {list_first(lost)}")
        return lacking + empty

    def budgets(self) -> list[str]:
        """A sentence on the budget of each language model that has one."""
        said = []
        for model in distinct_models(self.study.systems):
            if (limit := model.budget.limit) is not None:
                with model.budget.counting(Spending(self.out)):
                    used = model.budget.used
                left = f"{max(0.0, limit - used):.4f} USD are left"
                said.append(f"Budget of {model.model}: {self.out} has cost {used:.4f} of {limit:g} USD, {left}")
        return said

    def deviations(self) -> list[str]:
        """How models and retrievers differ from those of the papers, a sentence each."""
        return deviations_of(self.study.systems)

    def require_judged(self) -> None:
        """Check that a passage of each run is judged.

        Raises:
            DataError: when none of a run's passages is judged, so all its scores are 0.
        """
        without = [name for name, folder in self.folders.items() if not folder.parameters()["judged_passages"]]
        if without and len(self.study.qrels):
            raise DataError(
                f"none of the passages that {', '.join(without)} found is judged, so every score is 0; the runs are kept in {self.out}: "
                f"check that the index has the passages judged in {self.study.dataset}, and look at the queries in turns.jsonl"
            )

    def __getitem__(self, name: str) -> NoReturn:
        raise UsageError(f"the results of ikat.run are not a frame: .table has the scores, .table[{name!r}] this column")

    def __repr__(self) -> str:
        return self.shown().text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()


class ScoreTable(pd.DataFrame):
    """A frame of scores. Below it stand the sentences of ``attrs["deviations"]``: how its systems differ from those of the papers."""

    @classmethod
    def of(cls, scores: pd.DataFrame, systems: Iterable[System]) -> pd.DataFrame:
        """The scores with the deviations of these systems, or as they are if there are none."""
        if not (found := deviations_of(systems)):
            return scores
        made = cls(scores)
        made.attrs[DEVIATIONS] = found
        return made

    @property
    def _constructor(self) -> Any:
        return ScoreTable  # a part of its columns, or its rounded values, have the same notes

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *map(wrapped, notes_of(self))])

    def _repr_html_(self) -> str | None:
        shown: str | None = super()._repr_html_()
        return shown and shown + "".join(f"<p>{escape(line)}</p>" for line in notes_of(self))


def deviations_of(systems: Iterable[System]) -> list[str]:
    """How models and retrievers differ from those of the papers. Differences common to several systems come first, and only once."""
    lines = {one.name: one.deviations for one in systems if one.repeat == 1}
    of_all = [line for line in next(iter(lines.values()), []) if len(lines) > 1 and all(line in held for held in lines.values())]
    others = [f"{name}: {line}" for name, held in lines.items() for line in held if line not in of_all]
    return [*(f"all systems: {line}" for line in of_all), *others]


def scores_of_folders(
    folders: Mapping[str, RunFolder],
    qrels: pd.DataFrame,
    measures: Sequence[ir_measures.Measure] = TRACK_2023,
    baseline: str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """The table of scores of finished runs, with a row for each run or each group. It has only the names if nothing is judged."""
    if qrels.empty:
        return pd.DataFrame({"name": list(groups or folders)})
    scores = {name: _scores_of(folder, qrels, measures) for name, folder in folders.items()}
    if groups:
        of_systems = {name: [_by_measure(scores[one]) for one in group] for name, group in groups.items()}
        return pd.DataFrame(repeated_rows(of_systems, measures, baseline))
    return pd.DataFrame(experiment_rows(scores, measures, baseline))


def _scores_of(folder: RunFolder, qrels: pd.DataFrame, measures: Sequence[ir_measures.Measure]) -> pd.DataFrame:
    """The scores of a finished run, computed from its ranking if a measure is missing in its folder."""
    kept = folder.measures()
    if all(label(measure) in kept.columns and not is_own(measure) for measure in measures):
        return kept
    return per_turn(folder.results(), qrels, measures).set_index("qid")


def _by_measure(scores: pd.DataFrame) -> dict[str, list[float]]:
    return {str(name): scores[name].tolist() for name in scores.columns}


class TurnScores:
    """The scores of a run that comes in parts, and the number of its judged passages.

    Args:
        qrels: the judgements.
        measures: the measures in addition to the track's. A user's own measure is omitted, because it may change under the same
            name before the next run.
    """

    def __init__(self, qrels: pd.DataFrame, measures: Iterable[ir_measures.Measure] = ()) -> None:
        self.qrels, self.judged = qrels, 0
        self._labels = judgements_by_turn(qrels[["qid", "docno", "label"]].itertuples(index=False, name=None))
        self.measures = as_measures([*TRACK_2023, *(measure for measure in measures if not is_own(measure))])
        self.columns = list(map(label, self.measures))
        self._scores: dict[str, list[float]] = {}

    def add_all(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Add the parts and pass them on."""
        for part in parts:
            self.add(part.qids, part.scores())
            yield part

    def add(self, qids: Iterable[str], ranking: Mapping[str, Mapping[str, float]]) -> None:
        """Add the scores of the passages of these turns."""
        labels = {qid: self._labels[qid] for qid in qids if qid in self._labels}
        if labels:
            scores = Evaluator(labels, self.measures).per_turn("to evaluate", ranking)
            self._scores |= dict(zip(labels, map(list, zip(*scores.values(), strict=True)), strict=True))
            self.judged += sum(len(labels[qid].keys() & ranking.get(qid, {}).keys()) for qid in labels)

    def frame(self) -> pd.DataFrame:
        """A row for each turn of the qrels, in their order, with zeros for turns that were not added."""
        rows = [self._scores.get(qid, [0.0] * len(self.columns)) for qid in self._labels]
        return pd.DataFrame(rows, columns=self.columns).assign(qid=column(self._labels))[["qid", *self.columns]]

    def about(self) -> dict[str, Any]:
        """The content of the run folder's scores file."""
        return {"qrels_sha256": checksum_of(self.qrels), "judged_passages": self.judged}


def score_again(folder: RunFolder, qrels: pd.DataFrame, measures: Sequence[ir_measures.Measure]) -> None:
    """Score a finished run, unless it has the scores with these qrels and measures. Its other measures are updated too."""
    known = folder.parameters()
    there = list(folder.measures().columns) if (folder.path / "measures.csv").is_file() else []
    scores = TurnScores(qrels, [*computable(there), *measures])
    if known.get("qrels_sha256") == checksum_of(qrels) and "judged_passages" in known and set(scores.columns) <= set(there):
        return
    ranking = ranking_of("to evaluate", folder.results())
    scores.add(ranking, ranking)
    # If killed in between, the run doesn't name any qrels for its scores.
    checksums = {name: one for name, one in known.get("sha256", {}).items() if name != "measures.csv"}
    folder.write_parameters(known | {"sha256": checksums, "qrels_sha256": None})
    with atomic_write(folder.path / "measures.csv") as file:
        scores.frame().to_csv(file, index=False)
    write_metadata(folder.path, folder.path.name, known, scores.columns, known.get("versions", {}))
    folder.write_parameters(known | scores.about() | folder.bound())
