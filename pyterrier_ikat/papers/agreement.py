"""The tables of two judges' labels: the official pairs judged again by the user's model, beside the published counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..conversations.qrels import read_qrels, write_qrels
from ..errors import UsageError
from ..evaluation import Agreement, Judge, agreement, with_gold
from ..llms import llm
from ..methods.definition import model_key
from ..planning import PlanTable
from ..study import plan
from ..tables import Table, of_frame
from .paper_resources import EVIDENCE
from .published import Matrix

THRESHOLD = 2
"""Labels below it count as not relevant (Generate then Retrieve, section 4)."""


@dataclass(frozen=True)
class Relabelled:
    """The pairs of a dataset's qrels, to be judged again.

    Attributes:
        matrix: what was published.
        dataset: whose pairs they are.
        spec: the model that judges.
        out: the folder that keeps the labels.
        texts: adds the passages' texts by docno.
        prompts: a folder of prompt templates.
    """

    matrix: Matrix
    dataset: Any
    spec: str
    out: Path
    texts: Any = None
    prompts: str | Path | None = None

    @property
    def labels(self) -> Path:
        """The file of the new labels."""
        return self.out / f"labels-{model_key(self.spec)}.txt"

    def frame(self) -> pd.DataFrame:
        """The pairs with what the judge reads."""
        pairs = self.dataset.get_qrels()[["qid", "docno"]]
        return with_gold(pairs, self.dataset, self.texts)

    def judge(self) -> Judge:
        """The model with the paper's one-shot prompt."""
        return Judge(llm(self.spec), prompts=None if self.prompts is None else str(self.prompts))

    def plan(self) -> PlanTable:
        """What the judge will be asked."""
        return plan({"judge": self.judge()}, self.frame())

    def run(self) -> None:
        """Judge the pairs and write the labels; the cache has the completions of an earlier call.

        Labels that lie there are not taken: another snapshot, decoding or prompt may have made them.
        """
        judged = self.judge().transform(self.frame())
        self.out.mkdir(parents=True, exist_ok=True)
        write_qrels(judged, str(self.labels))

    def found(self) -> Agreement:
        """The agreement of the new labels with the official ones."""
        return agreement(read_qrels(self.labels), self.dataset.get_qrels(), THRESHOLD)

    @property
    def beside(self) -> bool:
        """Whether the published counts are about pairs of the same official judgements: those of NIST, of the same year."""
        return str(self.dataset.name) == f"ikat:{self.matrix.year}"

    def shown(self) -> Table:
        """Our matrix, and the published one where it is about the same pairs; rows: the model's labels, columns: the official ones."""
        found = self.found()
        counts = found.confusion if self.matrix.threshold is None else found.binary_confusion
        tables = {f"ours, by {self.spec.split()[0]}": counts}
        if self.beside:
            tables[f"published, by {self.matrix.judge}"] = pd.DataFrame(self.matrix.counts)
        rows = pd.concat([_labelled(which, table, self.matrix.threshold) for which, table in tables.items()], ignore_index=True)
        notes, title = self._notes(found), "The model's labels (rows) against the official ones (columns)"
        return Table(rows.assign(notes=" ".join(notes)), of_frame(rows, texts=2).columns, notes, title)

    def _notes(self, found: Agreement) -> list[str]:
        official = len(self.dataset.get_qrels())
        notes = [EVIDENCE] if self.dataset.name == "ikat:sample" else []
        notes.append(f"Ours: {found.pairs} of {official} pairs, binary agreement {found.binary:.2%}, kappa {found.binary_kappa:.4f}.")
        if not self.beside:
            return [*notes, f"No published count stands beside ours: the paper's are about the pairs of ikat:{self.matrix.year}."]
        published = sum(map(sum, self.matrix.counts))
        if published not in (0, found.pairs):
            notes.append(f"The published counts are about {published} pairs, a part of the official ones that isn't published.")
        notes.append(self.matrix.said)
        if model_key(self.spec) != model_key(self.matrix.judge):
            notes.append(f"The paper's judge is {self.matrix.judge}.")
        return notes


def _labelled(which: str, table: pd.DataFrame, threshold: int | None) -> pd.DataFrame:
    if threshold is None:
        labels = sorted({*range(5), *table.index})
        table = table.reindex(index=labels, columns=labels, fill_value=0)
    names = list(map(str, table.index)) if threshold is None else [f"< {threshold}", f">= {threshold}"]
    cells = pd.DataFrame(table.to_numpy(), columns=names)
    cells.insert(0, "label", names)
    cells.insert(0, "counts", which)
    return cells


def judge_spec(resources: Mapping[str, str], matrix: Matrix) -> str:
    """The user's model for the published judge.

    Raises:
        UsageError: when the resources lack it.
    """
    key = model_key(matrix.judge)
    if key not in resources:
        raise UsageError(f'the resources lack {key!r}, the judge of this table: add "{key}" = "openai:..."')
    return "recorded:sample" if resources[key] == "sample" else resources[key]
