"""Labels by the user's model: for the official pairs, shown next to the published counts, and for the pool of a table's runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..conversations.qrels import read_qrels, write_qrels
from ..errors import DataError, UsageError, counted
from ..evaluation import Agreement, Judge, agreement, pool_runs, with_gold
from ..llms import LLM, llm
from ..methods.differences import model_key
from ..planning import PlanTable
from ..store.files import atomic_write
from ..study import plan
from ..tables import Table, format_score, of_frame
from .paper_resources import EVIDENCE, texts_of
from .paper_scores import MINI, Judgements
from .published import Matrix

if TYPE_CHECKING:
    from .reproduction import Reproduction

THRESHOLD = 2
"""Labels below this one count as not relevant (Generate then Retrieve, section 4)."""
POOL_DEPTH = 10
"""How many passages of each run and turn a pool has (Generate then Retrieve, section 4)."""


@dataclass(frozen=True)
class Relabelled:
    """The pairs of a dataset's qrels, which the user's model judges again.

    Attributes:
        matrix: what was published.
        dataset: the dataset of the pairs.
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
    prompts: str | None = None

    @classmethod
    def of(cls, matrix: Matrix, made: "Reproduction") -> "Relabelled":
        """The pairs with the user's model in place of the published judge.

        Raises:
            UsageError: when the resources don't have it.
        """
        key, data = model_key(matrix.judge), made.of_year(matrix.year)
        if key not in made.resources:
            raise UsageError(f'the resources lack {key!r}, the judge of this table: add "{key}" = "openai:..."')
        spec = "recorded:sample" if made.resources[key] == "sample" else made.resources[key]
        texts = texts_of(made.index_of("bm25"))
        return cls(matrix, data, spec, made.root / data.name.replace(":", "-"), texts, made.prompts)

    @property
    def labels(self) -> Path:
        """The file of the new labels."""
        return self.out / f"labels-{model_key(self.spec)}.txt"

    def judge(self) -> Judge:
        """The model with the paper's one-shot prompt."""
        return Judge(llm(self.spec), prompts=self.prompts)

    @property
    def pairs(self) -> pd.DataFrame:
        """The pairs with the columns that the judge reads."""
        return with_gold(self.dataset.get_qrels()[["qid", "docno"]], self.dataset, self.texts)

    def plan(self) -> PlanTable:
        """The calls that the judge will make."""
        return plan({"judge": self.judge()}, self.pairs)

    def run(self) -> None:
        """Judge the pairs and write the labels. Completions of an earlier call come from the cache.

        Existing labels are not used, because they may come from another snapshot, decoding or prompt.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        write_qrels(self.judge().transform(self.pairs), str(self.labels))

    def found(self) -> Agreement:
        """The agreement of the new labels with the official ones."""
        return agreement(read_qrels(self.labels), self.dataset.get_qrels(), THRESHOLD)

    @property
    def beside(self) -> bool:
        """Whether the published counts are about the same official judgements: those of NIST for the same year."""
        return str(self.dataset.name) == f"ikat:{self.matrix.year}"

    def shown(self) -> Table:
        """Our matrix, and the published one if it is about the same pairs. Rows are the model's labels, columns the official ones."""
        found = self.found()
        ours = self.matrix.frame(found.confusion if self.matrix.threshold is None else found.binary_confusion)
        tables = {f"ours, by {self.spec.split()[0]}": ours}
        if self.beside:
            tables[f"published, by {self.matrix.judge}"] = self.matrix.frame()
        rows = pd.concat(tables, names=["counts", ""]).reset_index("counts").reset_index(drop=True)
        notes, title = self._notes(found), "The model's labels (rows) against the official ones (columns)"
        return Table(rows.assign(notes=" ".join(notes)), of_frame(rows, texts=2).columns, notes, title)

    def _notes(self, found: Agreement) -> list[str]:
        official, published, judge = len(self.dataset.get_qrels()), sum(map(sum, self.matrix.counts)), self.matrix.judge
        agreed = f"binary agreement {found.binary:.2%}, kappa {format_score(found.binary_kappa)}"
        notes = [EVIDENCE] * (self.dataset.name == "ikat:sample")
        notes.append(f"Ours: {found.pairs} of {counted(official, 'pair')}, {agreed}.")
        if not self.beside:
            return [*notes, f"No published count stands beside ours: the paper's are about the pairs of ikat:{self.matrix.year}."]
        if published != found.pairs:
            notes.append(f"The published counts are about {counted(published, 'pair')}, a part of the official ones that isn't published.")
        return [*notes, self.matrix.said, *[f"The paper's judge is {judge}."] * (model_key(self.spec) != model_key(judge))]


def judge_pool(model: LLM, runs: Mapping[str, pd.DataFrame], turns: Iterable[str], labels: Path, judged: "Reproduction", data: Any) -> None:
    """Have a model judge the top 10 of every run of a table. Source: Generate then Retrieve, section 4.

    Completions of an earlier call come from the cache.

    Args:
        model: the judge.
        runs: name -> result frame.
        turns: the turns to judge.
        labels: the file to write; a note stands beside it.
        judged: the systems' reproduction.
        data: the dataset of the runs.

    Raises:
        DataError: when no passage gets a usable label.
    """
    pool = pool_runs(runs, POOL_DEPTH)
    pool = pool[pool["qid"].isin(set(turns))].reset_index(drop=True)
    shown = with_gold(pool, data, texts_of(judged.index_of("bm25")))
    found, passages = Judge(model, prompts=judged.prompts).transform(shown), counted(len(pool), "passage")
    if found.empty:
        raise DataError(f"{model.model} gave none of {passages} a usable label: the table has no judgement")
    said = f"Judged by {model.model}: the top {POOL_DEPTH} of {counted(len(runs), 'run')}, {passages} of"
    with atomic_write(labels.with_suffix(".note")) as file:
        file.write(f"{said} {counted(pool['qid'].nunique(), 'turn')}; {len(pool) - len(found)} got no usable label.")
    write_qrels(found, str(labels))  # behind the note: where labels are, it is read


def pooled(official: Judgements, labels: Path, model: LLM, data: Any) -> Judgements:
    """The labels of a pool, if they exist, instead of the official judgements."""
    if not labels.exists():
        return official
    said = labels.with_suffix(".note").read_text(encoding="utf-8")
    of_some = official.of_some or f"the passages of {MINI}" * (data.name == MINI)
    return replace(official, qrels=read_qrels(labels), kind=model.model, of_some=of_some, pooled=said)
