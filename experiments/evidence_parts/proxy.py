"""Whether the mini collection orders systems like the full one, for 18 prompts of one model.

Their scores on the full collection are published.
"""

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
"""The compared measures: ours on the mini collection, the published one on the full one."""
GROUPS = {"all 18": "", "7 of prompt1": "prompt1", "7 of prompt2": "prompt2", "4 of SAR": "sar"}


def name_of(prompt: str) -> str:
    """The name of a prompt's output."""
    return f"personalizedcir-{prompt.replace('_', '-').lower()}"


def published(prompt: str) -> dict[str, float]:
    """The means of a prompt's five runs with BM25 on the full collection, over all 176 turns."""
    path = output_file("personalized-cir", f"aggregated_bm25_batch_{prompt}.json")
    scores = json.loads(path.read_text(encoding="utf-8"))
    of_all_turns = scores[f"bm25_batch_{prompt}"]["full_set"]
    return {measure: spread["mean"] / 100 for measure, spread in of_all_turns.items()}


def of_runs(collection: Collection, prompt: str, answers: bool) -> pd.DataFrame:
    """The measures of each run and turn with BM25 on the mini collection.

    Returns:
        ``run``, ``qid`` and a column for each measure.
    """
    drawn = samples_of(name_of(prompt), answers)
    turns = [qid for qid in drawn if qid in set(collection.qrels["qid"])]
    judged = collection.qrels[collection.qrels["qid"].isin(turns)]
    frames = []
    for run in range(RUNS):
        queries = [drawn[qid][run] for qid in turns]
        ranking = collection.bm25(pd.DataFrame({"qid": turns, "query": queries}))
        of_turns = measured(ranking, judged, MEASURES.values()).reindex(turns).fillna(0.0)
        frames.append(of_turns.rename_axis("qid").reset_index().assign(run=run))
    return pd.concat(frames, ignore_index=True)


def of_prompts(folder: str | Path, answers: bool) -> pd.DataFrame:
    """The measures of each prompt, run and turn."""
    collection = open_collection(MINI, folder)
    frames = []
    for prompt in PCIR_PROMPTS:
        frames.append(of_runs(collection, prompt, answers).assign(prompt=prompt))
    return pd.concat(frames, ignore_index=True)


def agreements(ours: pd.DataFrame, theirs: pd.DataFrame) -> list[list[str]]:
    """Kendall's and Spearman's correlation for each pair of measures.

    They are over all prompts and within groups of similar ones.
    """
    rows = []
    for our_measure, their_measure in PAIRS:
        cells = [f"{our_measure} and {their_measure}"]
        for part in GROUPS.values():
            prompts = [prompt for prompt in ours.index if part in prompt.lower()]
            our_scores = ours.loc[prompts, our_measure]
            their_scores = theirs.loc[prompts, their_measure]
            tau = kendalltau(our_scores, their_scores).statistic
            rho = spearmanr(our_scores, their_scores).statistic
            cells.append(f"{tau:.2f} / {rho:.2f}")
        rows.append(cells)
    return rows


def proxy(folder: str | Path) -> str:
    """Both kinds of queries against the published scores, and the means behind it."""
    assert len(PCIR_PROMPTS) == sum(name.startswith("personalizedcir") for name in OUTPUTS)
    theirs = pd.DataFrame({prompt: published(prompt) for prompt in PCIR_PROMPTS}).T
    parts = []
    columns = []
    for kind, answers in (("rewrite and response", True), ("rewrite", False)):
        of_turns = of_prompts(folder, answers)
        means = of_turns.groupby("prompt")[list(MEASURES)].mean().loc[theirs.index]
        head = [f"query: {kind}; here and published"]
        head += [f"{name} (Kendall / Spearman)" for name in GROUPS]
        parts.append(table(head, agreements(means, theirs)))
        columns.append(means["nDCG@5"])
    columns += [theirs["NDCG@5"], theirs["Recall@1000"]]
    rows = []
    for prompt in theirs.index:
        scores = [f"{column[prompt]:.4f}" for column in columns]
        rows.append([name_of(prompt).removeprefix("personalizedcir-"), *scores])
    head = [
        "prompt",
        "mini, rewrite and response: nDCG@5",
        "mini, rewrite: nDCG@5",
        "published: NDCG@5",
        "published: Recall@1000",
    ]
    return "\n\n".join([*parts, table(head, sorted(rows, key=lambda row: row[1], reverse=True))])
