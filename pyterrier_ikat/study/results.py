"""The results of a study that was run into folders: the scores of the runs, and their table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures
import pandas as pd

from ..conversations.frame import column
from ..conversations.qrels import judgements_in
from ..errors import counted, list_first
from ..evaluation import TRACK_2023, as_measures, label
from ..evaluation.evaluator import Evaluator, Ranking, judgements_by_turn
from ..evaluation.experiment_table import DEVIATIONS, experiment_table, notes_of
from ..evaluation.measures import computable, is_own
from ..llms import Ledger
from ..runs import RunFolder
from ..tables import Table, of_frame, wrapped
from .systems import System

if TYPE_CHECKING:
    from .study import Study


@dataclass(frozen=True, repr=False, eq=False)
class Results:
    """The results of a study. They are displayed as a table of scores.

    Attributes:
        study: the systems, and the data and resources that they ran on.
        out: the folder of the runs.
        runs: the finished runs with their scores, by name.
        table: the scores, as from :func:`pyterrier_ikat.experiment`, or with several repeats as from
            :func:`~pyterrier_ikat.evaluation.repeated_rows`; only the names if no turn is judged.
        baseline: the system that the others are compared with.
    """

    study: "Study"
    out: Path
    runs: Mapping[str, "Scored"]
    table: pd.DataFrame
    baseline: str | None = None

    @property
    def folders(self) -> dict[str, RunFolder]:
        """The folder of each run, by name."""
        return {name: run.folder for name, run in self.runs.items()}

    @property
    def ledger(self) -> Ledger:
        """The ledger of the LLM calls of this call. Each folder has the ledger of its run, over all its starts."""
        return self.study.ledger

    def report(self, **options: Any) -> Any:
        """The runs as conversations to read and compare, the baseline first: see :func:`pyterrier_ikat.report`."""
        from .. import report  # from a room below

        return report(list(self.folders.values()), **{"baseline": self.baseline, **options})

    def shown(self) -> Table:
        """The table of scores, to print. Its last notes say how the systems differ from those of the papers."""
        shown = of_frame(self.table) if self.study.qrels.empty else experiment_table(self.table.to_dict("records"))
        return Table(self.table, shown.columns, [*shown.notes, *notes_of(self.table)], shown.title)

    def gaps(self) -> Iterator[str]:
        """Sentences on the turns without results, judged or not."""
        for one in self.study.systems:
            wanted = {*self.study.qrels["qid"], *self.study.turns_of(one)["qid"]}
            if lost := sorted(wanted - self.runs[one.name].found):
                yield f"{one.name}: {counted(len(lost), 'turn')} without any passage, counted 0: {list_first(lost)}"

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
    """How models and retrievers differ from the papers': each difference once, with the systems that have it, the most common first."""
    named = [one for one in systems if one.repeat == 1]
    having: dict[str, list[str]] = {}
    for one in named:
        for line in one.deviations:
            having.setdefault(line, []).append(one.name)
    common = sorted(having.items(), key=lambda item: -len(item[1]))
    return [f"{'all systems' if 1 < len(names) == len(named) else ', '.join(names)}: {line}" for line, names in common]


@dataclass(frozen=True)
class Scored:
    """A finished run with its scores.

    Attributes:
        folder: the run.
        scores: ``qid`` and a column per measure: a row for each turn of the qrels, in their order.
        found: the turns with passages.
        own: the user's own measures. The folder doesn't keep them, because they may change under the same name before the next run.
    """

    folder: RunFolder
    scores: pd.DataFrame
    found: frozenset[str]
    own: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: RunFolder, ranking: Ranking, qrels: pd.DataFrame, measures: Iterable[ir_measures.Measure]) -> "Scored":
        """Score a ranking with the track's measures, those in its folder and the given ones.

        Args:
            folder: the run's folder, finished or not.
            ranking: the scores of its passages.
            qrels: the judgements.
            measures: the given measures.
        """
        kept = computable(folder.measures().columns) if (folder.path / "measures.csv").is_file() else []
        wanted, labels = as_measures([*TRACK_2023, *kept, *measures]), judgements_by_turn(judgements_in(qrels)) if len(qrels) else {}
        columns = Evaluator(labels, wanted).per_turn("to evaluate", ranking) if labels else {label(measure): [] for measure in wanted}
        scores, own = pd.DataFrame({"qid": column(labels), **columns}), tuple(label(measure) for measure in wanted if is_own(measure))
        return cls(folder, scores, frozenset(ranking), own)

    def kept(self) -> pd.DataFrame:
        """The scores that the folder keeps."""
        return self.scores.drop(columns=list(self.own))
