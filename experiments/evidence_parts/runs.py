"""Runs that a team published, scored by this package and by the team."""

import json
from typing import Any

import pandas as pd

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.public_outputs import output_file

from .common import table

RUNS = {
    "2023": "adarewriter10_llm4csnpr_cand10_splade_rerank_deberta-2023",
    "2024": "gpt4o_splade_rerank_deberta-2024",
}
"""The year -> the files of the run and of its scores, in CFDA's repository."""
OURS = {"mrr": "RR(rel=2)", "recall": "R(rel=2)", "ndcg": "nDCG"}
"""Their names of measures -> ours. They count passages with labels of at least 2 as relevant."""


def scored(year: str) -> pd.DataFrame:
    """The measures of a year's run, as published by its authors and as computed here.

    Returns:
        ``measure``, ``published``, ``ours``.
    """
    run = read_output(f"{RUNS[year]}-run.json")
    published = read_output(f"{RUNS[year]}-perf.json")
    rows = [(qid, docno, score) for qid, scores in run.items() for docno, score in scores.items()]
    ranking = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    ranking = ranking.sort_values(["qid", "score", "docno"], ascending=[True, False, False])
    ranking = ranking.assign(rank=ranking.groupby("qid").cumcount())
    measures = []
    for name in published:
        kind = name.partition("_")[0]
        cutoff = name.rpartition("_")[2]
        measures.append(f"{OURS[kind]}@{cutoff}")
    qrels = ikat.dataset(f"ikat:{year}").get_qrels()
    [ours] = ikat.evaluate({"run": ranking}, qrels, measures).to_dict("records")
    our_scores = [ours[measure] for measure in measures]
    return pd.DataFrame(
        {"measure": measures, "published": list(published.values()), "ours": our_scores}
    )


def read_output(name: str) -> Any:
    """A file of CFDA's repository."""
    return json.loads(output_file("cfda-2025", name).read_text(encoding="utf-8"))


def published_runs() -> str:
    """The scores of both runs side by side."""
    head = ["measure"]
    columns = []
    same = 0
    for year in RUNS:
        scores = scored(year)
        turns = ikat.dataset(f"ikat:{year}").get_qrels()["qid"].nunique()
        for whose in ("published", "ours"):
            head.append(f"{year}, {turns} turns: {whose}")
            columns.append([f"{score:.6f}" for score in scores[whose]])
        same += int((abs(scores["ours"] - scores["published"]) < 1e-9).sum())
    rows = [list(row) for row in zip(scores["measure"], *columns, strict=True)]
    total = len(RUNS) * len(rows)
    sentence = f"{same} of {total} scores are equal to the last of nine decimals."
    return f"{table(head, rows)}\n\n{sentence}"
