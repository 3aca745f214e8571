"""The scores of runs in folders: the track's measures and those that were asked for; what a folder lacks is computed from its ranking."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ir_measures
import pandas as pd

from ..evaluation import TRACK_2023, as_measures, label, per_turn
from ..evaluation.measures import computable, is_own
from ..runs import RunFolder, ir_metadata
from ..runs.turns_file import Part, checksum_of
from ..store.files import atomic_write


class TurnScores:
    """The scores of a run that comes in parts, and how many of its passages are judged.

    Args:
        qrels: the judgements.
        measures: what it is scored by beside the track's measures. A measure of the user's own is left out: by the next run it may have
            changed under the same name.
    """

    def __init__(self, qrels: pd.DataFrame, measures: Iterable[ir_measures.Measure] = ()) -> None:
        self.qrels, self.judged = qrels, 0
        self.measures = as_measures([*TRACK_2023, *(measure for measure in measures if not is_own(measure))])
        self.columns = list(map(label, self.measures))
        self._parts = [pd.DataFrame(columns=["qid", *self.columns])]

    def add_all(self, parts: Iterable[Part]) -> Iterator[Part]:
        """The parts, added while they go by."""
        for topics, results in parts:
            self.add(topics["qid"], results)
            yield topics, results

    def add(self, qids: Iterable[str], results: pd.DataFrame) -> None:
        """Add the ranking of these turns."""
        qrels = self.qrels[self.qrels["qid"].isin(qids)]
        if len(qrels):
            self._parts.append(per_turn(results, qrels, self.measures))
            self.judged += len(results[["qid", "docno"]].merge(qrels[["qid", "docno"]]))

    def frame(self) -> pd.DataFrame:
        """A row for each turn of the qrels, in their order: zeros for those that were not added."""
        found = pd.concat(self._parts[len(self._parts) > 1 :]).set_index("qid")
        return found.reindex(pd.Index(self.qrels["qid"].unique(), name="qid"), fill_value=0.0).reset_index()

    def about(self) -> dict[str, Any]:
        """The content of the run folder's scores file."""
        return {"qrels_sha256": checksum_of(self.qrels), "judged_passages": self.judged}


def score_again(folder: RunFolder, qrels: pd.DataFrame, measures: Sequence[ir_measures.Measure]) -> None:
    """Score a finished run, unless it has its scores by these qrels and measures. What else it was scored by is kept up, too."""
    known = folder.parameters()
    there = list(folder.measures().columns) if (folder.path / "measures.csv").is_file() else []
    scores = TurnScores(qrels, [*computable(there), *measures])
    if known.get("qrels_sha256") == checksum_of(qrels) and "judged_passages" in known and set(scores.columns) <= set(there):
        return
    results = folder.results()
    scores.add(results["qid"].unique(), results)
    # Killed in between, the run says of no qrels that its scores were made with them.
    bound = {name: {file: one for file, one in known.get(name, {}).items() if file != "measures.csv"} for name in ("lines", "sha256")}
    folder.write_parameters(known | bound | {"qrels_sha256": None})
    with atomic_write(folder.path / "measures.csv") as file:
        scores.frame().to_csv(file, index=False)
    with atomic_write(folder.path / ir_metadata.NAME) as file:
        about = ir_metadata.ir_metadata(folder.path.name, known, scores.columns, known.get("versions", {}))
        file.write(ir_metadata.as_yaml(about))
    folder.write_parameters(known | scores.about() | folder.bound())
