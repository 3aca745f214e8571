"""Holes in judgements: unjudged passages at the top of runs get the labels of a model, whose agreement with people is measured first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..conversations import IkatDataset, check_qrels, merge_qrels
from ..conversations.frame import with_columns
from ..errors import UsageError, counted
from ..operator import with_fields
from ..tables import format_score
from .judgements import Agreement, Judge, agreement, pool_runs, with_gold

Runs: TypeAlias = Mapping[str, pd.DataFrame]
SHOTS = 2
"""How many judged passages the model is shown."""
CHECKED = 200
"""How many labels of people the model's are compared with, at most."""


@with_fields
class FillingJudge(Judge):
    """Like :class:`Judge`, with passages of the turn that people have judged as examples, in place of the canonical response.

    Reads ``qid``, ``docno``, ``text``, ``qresolved``, ``qptkb``, ``qgoldptkb`` and ``qexamples``: for each row a list of (text, label).
    Returns qrels. :func:`fill_holes` makes its frame.

    Args:
        llm: the model to ask.
        prompts: a folder of your own prompt templates (``judge_fill.jinja``).
        on_error: as for :class:`Judge`.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> from pyterrier_ikat.evaluation import FillingJudge
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["3: it names a tea without caffeine" for chat in chats]
        >>> pool = pd.DataFrame({"qid": ["1_1"], "docno": ["d"], "qresolved": ["Which tea?"], "text": ["Rooibos."], "score": [1.0]})
        >>> pool = pool.assign(qptkb=[{}], qgoldptkb=[[]], qexamples=[[("Green tea.", 1)]])
        >>> FillingJudge(ikat.llm(Model()))(pool)["label"].tolist()
        [3]
    """

    schematic = {"label": "Filling judge"}
    template_name = "judge_fill"
    gold = ("qresolved", "qptkb", "qgoldptkb", "qexamples")

    def shown(self, row: dict[str, Any]) -> dict[str, Any]:
        """What the prompt shows of a passage and its turn."""
        return {**super().shown(row), "judged": row["qexamples"]}


@dataclass(frozen=True, eq=False)
class Filled:
    """Judgements whose holes a model has filled.

    Attributes:
        qrels: the labels of people, and those of the model.
        labels: those of the model alone, with ``reason`` and ``raw``.
        agreement: people's labels and the model's, on passages that people have judged.
        pool: the number of passages at the top of the runs, in judged turns.
        model: the model.
    """

    qrels: pd.DataFrame
    labels: pd.DataFrame
    agreement: Agreement
    pool: int
    model: str

    def __str__(self) -> str:
        """The share of the model's labels, and its agreement with people: what belongs beside every score with them."""
        share = f"{len(self.labels)} of the {counted(self.pool, 'passage')} at the top of the runs ({len(self.labels) / self.pool:.1%})"
        kappas = f"{format_score(self.agreement.kappa)} ({format_score(self.agreement.binary_kappa)} for relevant or not)"
        return f"{self.model} filled the labels of {share}; its kappa with people is {kappas} on {self.agreement.pairs} left-out labels"


def fill_holes(
    runs: Runs, dataset: IkatDataset, llm: Any, qrels: pd.DataFrame | None = None, depth: int = 10, texts: Any = None, tell: Any = print
) -> Filled:
    """Label the unjudged passages at the top of runs with a model that is shown judged passages of the same turn.

    The model first labels passages that people have judged (200 of these turns, chosen with a fixed seed), each without its own label, so
    its agreement is known before the holes are paid for. Turns without judgements are left alone.

    Source: Abbasiantaeb, Meng, Azzopardi and Aliannejadi, arXiv 2503.09899, of which we could read the abstract, and their code for GPT
    (two-shot). It reads its examples from a file that isn't in the repository. Ours are the turn's passages with the highest and the lowest
    label, then the next of both; ties by docno. In the paper, a fine-tuned Llama 3.1 agrees with people, and prompting GPT-3.5 does not. We
    fine-tune nothing.

    Args:
        runs: name -> result frame.
        dataset: the dataset of the turns.
        llm: the model to ask.
        qrels: the labels of people, from 0 to 4; by default the dataset's.
        depth: how many passages of each turn and run are to be judged.
        texts: as for :func:`with_gold`.
        tell: gets the agreement before the holes are labelled.

    Raises:
        UsageError: when the runs have no hole, or labels are not on the scale of 0 to 4.
        DataError: when a passage has no text, or the model gave no label to any checked passage.

    Example:
        >>> import pandas as pd, pyterrier as pt, pyterrier_ikat as ikat
        >>> class Model:
        ...     def generate(self, chats):
        ...         return ["1" for chat in chats]
        >>> run = pd.DataFrame({"qid": ["1-1_1"], "docno": ["sample-walk-005:1"], "score": [1.0], "rank": [0]})
        >>> found = fill_holes({"mine": run}, pt.get_dataset("ikat:sample"), ikat.llm(Model()), tell=lambda agreement: None)
        >>> str(found)[:84]
        'Model filled the labels of 1 of the 1 passage at the top of the runs (100.0%); its k'
    """
    known = check_qrels(dataset.get_qrels() if qrels is None else qrels)
    if known["label"].max() < 2 or not known["label"].between(0, 4).all():
        raise UsageError("holes are filled with labels from 0 to 4, and these judgements have others: give a dataset such as ikat:2023")
    pool = pool_runs(runs, depth)
    pool = pool[pool["qid"].isin(known["qid"])]
    holes = pool[pool.merge(known, on=["qid", "docno"], how="left")["label"].isna().to_numpy()]
    if holes.empty:
        raise UsageError(f"{counted(len(pool), 'passage')} of judged turns are down to rank {depth}, all judged: nothing is to fill")
    judged, judge = known[known["qid"].isin(holes["qid"])], FillingJudge(llm)
    shown = with_gold(pd.concat([judged, holes])[["qid", "docno"]], dataset, texts)
    shown = with_columns(shown, qexamples=list(_examples(shown, judged)))
    again = judge(shown.iloc[np.random.default_rng(0).permutation(len(judged))[:CHECKED]])
    tell(found := agreement(judged, again))
    labels = judge(shown.iloc[len(judged) :])
    return Filled(merge_qrels(known, labels), labels, found, len(pool), judge.llm.model)


def _examples(shown: pd.DataFrame, judged: pd.DataFrame) -> Iterator[list[tuple[str, int]]]:
    """For each passage the judged ones of its turn with the highest and the lowest label, without the passage itself."""
    texts = {(row.qid, row.docno): row.text for row in shown.itertuples()}
    ordered = judged.sort_values(["label", "docno"], ascending=[False, True])
    ranked = {qid: list(zip(rows["docno"], rows["label"].tolist(), strict=True)) for qid, rows in ordered.groupby("qid")}
    for qid, docno in zip(shown["qid"], shown["docno"], strict=True):
        others = [(texts[qid, other], label) for other, label in ranked[qid] if other != docno]
        ends = [others[-(place + 1) // 2 if place % 2 else place // 2] for place in range(len(others))]
        yield ends[:SHOTS]
