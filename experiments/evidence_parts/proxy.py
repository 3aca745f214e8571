"""Whether the mini collection orders systems like the full one: 18 prompts of one model with published scores on the full collection."""

import json
from pathlib import Path

import pandas as pd
from ir_measures import RR, R, nDCG
from scipy.stats import kendalltau, spearmanr

from pyterrier_ikat.conversations.public_outputs import OUTPUTS, output_file

from .common import MINI, PCIR_PROMPTS, Collection, measured, open_collection, samples_of, table

MEASURES = {str(measure): measure for measure in (nDCG @ 5, nDCG @ 10, R @ 20, RR)}
RUNS = 5
PAIRS = (
    ("nDCG@5", "NDCG@5"),
    ("nDCG@5", "Recall@1000"),
    ("nDCG@10", "NDCG@1000"),
    ("R@20", "Recall@20"),
    ("RR", "MRR"),
)
"""The compared measures: ours on the mini collection, and the published one on the full collection."""
GROUPS = {"all 18": "", "7 of prompt1": "prompt1", "7 of prompt2": "prompt2", "4 of SAR": "sar"}


def name_of(prompt: str) -> str:
    """The name of a prompt's output."""
    return f"personalizedcir-{prompt.replace('_', '-').lower()}"


def published(prompt: str) -> dict[str, float]:
    """The means of a prompt's five runs with BM25 on the full collection, over all 176 turns."""
    found = json.loads(
        output_file("personalized-cir", f"aggregated_bm25_batch_{prompt}.json").read_text(
            encoding="utf-8"
        )
    )
    return {
        measure: spread["mean"] / 100
        for measure, spread in found[f"bm25_batch_{prompt}"]["full_set"].items()
    }


def of_runs(collection: Collection, prompt: str, answers: bool) -> pd.DataFrame:
    """The measures of each run and turn with BM25 on the mini collection: ``run``, ``qid`` and a column for each measure."""
    drawn = samples_of(name_of(prompt), answers)
    turns = [qid for qid in drawn if qid in set(collection.qrels["qid"])]
    judged = collection.qrels[collection.qrels["qid"].isin(turns)]
    frames = []
    for run in range(RUNS):
        ranking = collection.bm25(
            pd.DataFrame({"qid": turns, "query": [drawn[qid][run] for qid in turns]})
        )
        of_turns = measured(ranking, judged, MEASURES.values()).reindex(turns).fillna(0.0)
        frames.append(of_turns.rename_axis("qid").reset_index().assign(run=run))
    return pd.concat(frames, ignore_index=True)


def of_prompts(folder: str | Path, answers: bool) -> pd.DataFrame:
    """The measures of each prompt, run and turn."""
    collection = open_collection(MINI, folder)
    return pd.concat(
        [of_runs(collection, prompt, answers).assign(prompt=prompt) for prompt in PCIR_PROMPTS],
        ignore_index=True,
    )


def agreements(ours: pd.DataFrame, theirs: pd.DataFrame) -> list[list[str]]:
    """Kendall's and Spearman's correlation for each pair of measures, over all prompts and within groups of similar ones."""
    rows = []
    for one, other in PAIRS:
        cells = [f"{one} and {other}"]
        for part in GROUPS.values():
            names = [prompt for prompt in ours.index if part in prompt.lower()]
            pair = ours.loc[names, one], theirs.loc[names, other]
            cells.append(f"{kendalltau(*pair).statistic:.2f} / {spearmanr(*pair).statistic:.2f}")
        rows.append(cells)
    return rows


def proxy(folder: str | Path) -> str:
    """Both kinds of queries against the published scores, and the means behind it."""
    assert len(PCIR_PROMPTS) == sum(name.startswith("personalizedcir") for name in OUTPUTS)
    theirs = pd.DataFrame({prompt: published(prompt) for prompt in PCIR_PROMPTS}).T
    parts, means = [], {}
    for kind, answers in (("rewrite and response", True), ("rewrite", False)):
        of_turns = of_prompts(folder, answers)
        means[kind] = of_turns.groupby("prompt")[list(MEASURES)].mean().loc[theirs.index]
        head = [
            f"query: {kind}; here and published",
            *(f"{name} (Kendall / Spearman)" for name in GROUPS),
        ]
        parts.append(table(head, agreements(means[kind], theirs)))
    columns = [
        *(of_kind["nDCG@5"] for of_kind in means.values()),
        theirs["NDCG@5"],
        theirs["Recall@1000"],
    ]
    rows = [
        [
            name_of(prompt).removeprefix("personalizedcir-"),
            *(f"{one[prompt]:.4f}" for one in columns),
        ]
        for prompt in theirs.index
    ]
    head = [
        "prompt",
        "mini, rewrite and response: nDCG@5",
        "mini, rewrite: nDCG@5",
        "published: NDCG@5",
        "published: Recall@1000",
    ]
    return "\n\n".join([*parts, table(head, sorted(rows, key=lambda row: row[1], reverse=True))])
