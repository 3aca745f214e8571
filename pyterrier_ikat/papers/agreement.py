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
from ..running import plan
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
    """

    matrix: Matrix
    dataset: Any
    spec: str
    out: Path
    texts: Any = None

    @property
    def labels(self) -> Path:
        """The file of the new labels."""
        return self.out / f"labels-{model_key(self.spec)}.txt"

    def frame(self) -> pd.DataFrame:
        """The pairs with what the judge reads."""
        pairs = self.dataset.get_qrels()[["qid", "docno"]]
        return with_gold(pairs, self.dataset, self.texts)

    def plan(self) -> PlanTable:
        """What the judge will be asked."""
        return plan({"judge": Judge(llm(self.spec))}, self.frame())

    def run(self) -> None:
        """Judge the pairs that no label was kept for; completions come from the cache where it has them."""
        if not self.labels.exists():
            judged = Judge(llm(self.spec)).transform(self.frame())
            self.out.mkdir(parents=True, exist_ok=True)
            write_qrels(judged, str(self.labels))

    def found(self) -> Agreement:
        """The agreement of the new labels with the official ones."""
        return agreement(read_qrels(self.labels), self.dataset.get_qrels(), THRESHOLD)

    def written(self, form: str = "text") -> str:
        """Both matrices, rows: the model's labels, columns: NIST's."""
        ours, official = self.found(), self.dataset.get_qrels()
        counts = ours.confusion if self.matrix.threshold is None else ours.binary_confusion
        tables = {f"ours, {self.spec.split()[0]}": counts}
        if self.matrix.counts:
            tables[f"published, {self.matrix.judge}"] = pd.DataFrame(self.matrix.counts)
        if form == "csv":
            return str(pd.concat(tables, names=["which", "label"]).to_csv())
        parts = [f"{title} (rows) and the official labels (columns)\n{_in(form, table)}" for title, table in tables.items()]
        return "\n\n".join([*parts, self._sentence(ours, len(official))])

    def _sentence(self, ours: Agreement, official: int) -> str:
        said = f"ours: {ours.pairs} of {official} pairs, binary agreement {ours.binary:.2%}, kappa {ours.binary_kappa:.4f}."
        if self.matrix.agreement is not None:
            said += f" Published: binary agreement {self.matrix.agreement:.2%}."
        if getattr(self.dataset, "year", None) != self.matrix.year:
            said += f" The published counts are about iKAT {self.matrix.year}, ours are not: don't compare them."
        elif model_key(self.spec) != model_key(self.matrix.judge):
            said += f" The paper's judge is {self.matrix.judge}."
        return said


def _in(form: str, table: pd.DataFrame) -> str:
    if form == "latex":
        return str(table.to_latex())
    if form == "markdown":
        lines = [
            ["", *table.columns],
            ["---", *["---:"] * len(table.columns)],
            *([index, *row] for index, row in zip(table.index, table.values.tolist(), strict=True)),
        ]
        return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    return str(table.to_string())


def judge_of(resources: Mapping[str, str], matrix: Matrix) -> str:
    """The user's model for the published judge.

    Raises:
        UsageError: when the resources lack it.
    """
    key = model_key(matrix.judge)
    if key not in resources:
        raise UsageError(f'the resources lack {key!r}, the judge of this table: add "{key}" = "openai:..."')
    return "recorded:sample" if resources[key] == "sample" else resources[key]
