"""Runs that a team published, scored by this package and by the team."""

import json

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
    """The measures of a year's run, as published by its authors and as computed here: ``measure``, ``published``, ``ours``."""
    run, published = (
        json.loads(
            output_file("cfda-2025", f"{RUNS[year]}-{kind}.json").read_text(encoding="utf-8")
        )
        for kind in ("run", "perf")
    )
    rows = [(qid, docno, score) for qid, found in run.items() for docno, score in found.items()]
    ranking = pd.DataFrame(rows, columns=["qid", "docno", "score"]).sort_values(
        ["qid", "score", "docno"], ascending=[True, False, False]
    )
    ranking = ranking.assign(rank=ranking.groupby("qid").cumcount())
    measures = [f"{OURS[name.partition('_')[0]]}@{name.rpartition('_')[2]}" for name in published]
    [ours] = ikat.evaluate(
        {"run": ranking}, ikat.dataset(f"ikat:{year}").get_qrels(), measures
    ).to_dict("records")
    return pd.DataFrame(
        {
            "measure": measures,
            "published": list(published.values()),
            "ours": [ours[measure] for measure in measures],
        }
    )


def published_runs() -> str:
    """The scores of both runs side by side."""
    of_years = {year: scored(year) for year in RUNS}
    same = sum(int((abs(one["ours"] - one["published"]) < 1e-9).sum()) for one in of_years.values())
    turns = {year: ikat.dataset(f"ikat:{year}").get_qrels()["qid"].nunique() for year in RUNS}
    head = [
        "measure",
        *(
            f"{year}, {turns[year]} turns: {whose}"
            for year in RUNS
            for whose in ("published", "ours")
        ),
    ]
    rows = [
        [
            name,
            *(
                f"{one[whose].iloc[row]:.6f}"
                for one in of_years.values()
                for whose in ("published", "ours")
            ),
        ]
        for row, name in enumerate(of_years["2023"]["measure"])
    ]
    total = sum(map(len, of_years.values()))
    return (
        f"{table(head, rows)}\n\n{same} of {total} scores are equal to the last of nine decimals."
    )
