"""One of several samples of a turn, chosen by `BestQuery`, and the fusion of all samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyterrier as pt

import pyterrier_ikat as ikat
from pyterrier_ikat.evaluation.inference import Difference

from .common import (
    DEPTH,
    FIVE_RUNS,
    MINI,
    PCIR_PROMPTS,
    Values,
    conversation_of,
    difference,
    ndcg,
    open_collection,
    over,
    samples_of,
    shown_p,
    table,
)
from .proxy import name_of

RULES = ("score", "agreement", "spread")
RERANKED = 100
ALL = "all turns"
NIST = "turns that NIST judged"
SAMPLES = {
    "LLM4CS, rewrite": ("cfda-llm4cs", False),
    "LLM4CS, rewrite and answer": ("cfda-llm4cs", True),
    "CHIQ, rewrite": ("cfda-chiq", False),
    "SAR, rewrite": (FIVE_RUNS, False),
    "SAR, rewrite and answer": (FIVE_RUNS, True),
}
"""Name -> the public output, and whether the queries include the answers."""


def search(retriever: pt.Transformer, texts: list[str]) -> pd.DataFrame:
    """The passages that each text finds: ``query``, ``docno``, ``rank``, ``score``."""
    queries = pd.DataFrame({"qid": [str(number) for number in range(len(texts))], "query": texts})
    return retriever(queries)[["query", "docno", "rank", "score"]]


def rerank(found: pd.DataFrame, scored: pd.DataFrame) -> pd.DataFrame:
    """The best passages of ``found``, ordered by the scores of ``scored``."""
    best = found.loc[found["rank"] < RERANKED, ["query", "docno"]]
    best = best.merge(scored[["query", "docno", "score"]], on=["query", "docno"])
    best = best.sort_values(["query", "score"], ascending=[True, False], kind="stable")
    return best.assign(rank=best.groupby("query").cumcount())


def replay(found: pd.DataFrame) -> pt.Transformer:
    """A retriever that returns known results."""
    return pt.apply.generic(lambda queries: queries.merge(found, on="query"))


def value_queries(turns: pd.DataFrame, found: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Each sample of each turn with its nDCG@10: ``qid``, ``query``, ``value``."""
    rows = turns[["qid", "qsubqueries"]].explode("qsubqueries")
    rows = rows.rename(columns={"qsubqueries": "query"})
    rows = rows.assign(number=[str(number) for number in range(len(rows))])
    # Each sample counts as a turn of its own.
    ranking = rows.merge(found[found["rank"] < DEPTH], on="query")
    judged = rows[["qid", "number"]].merge(qrels, on="qid")
    scores = ndcg(ranking.assign(qid=ranking["number"]), judged.assign(qid=judged["number"]))
    return rows.assign(value=rows["number"].map(scores))


def cross_validate(of_rules: Mapping[str, Values]) -> Values:
    """The values of each conversation's turns with the rule that is best on all others."""
    of_turns = pd.DataFrame(dict(of_rules))
    conversation = conversation_of(of_turns.index)
    held_out = []
    for name in conversation.unique():
        rule = of_turns[conversation != name].mean().idxmax()
        held_out.append(of_turns.loc[conversation == name, rule])
    return pd.concat(held_out).loc[of_turns.index]


def measure(
    turns: pd.DataFrame, by: pd.DataFrame, found: pd.DataFrame, qrels: pd.DataFrame
) -> dict[str, Values]:
    """The nDCG@10 of each turn for each way to choose.

    The rules without a re-ranker read the lists ``by``.
    """
    samples = value_queries(turns, found, qrels)
    of_turns = samples.groupby("qid", sort=False)["value"]
    of_query = samples.drop_duplicates(["qid", "query"]).set_index(["qid", "query"])["value"]
    values = {"mean": of_turns.mean(), "first": of_turns.first()}
    for rule in RULES:
        lists = replay(found if rule == "score" else by)
        chosen = ikat.generate.BestQuery(lists, rule=rule)(turns)
        of_chosen = of_query.loc[pd.MultiIndex.from_frame(chosen[["qid", "query"]])]
        values[rule] = pd.Series(of_chosen.to_numpy(), index=chosen["qid"])
    values["cross-validated"] = cross_validate({rule: values[rule] for rule in RULES})
    values["fusion"] = ndcg((ikat.ExplodeQueries() >> replay(found) >> ikat.RRF())(turns), qrels)
    values["oracle"] = of_turns.max()
    return values


class Scored(NamedTuple):
    """The ways to choose on one set of samples, ranked in one way.

    Attributes:
        samples: the name of the set.
        ranked_by: how passages are ranked.
        scope: ``ALL`` turns of the set, or those that ``NIST`` judged.
        values: the nDCG@10 of each turn for each way.
    """

    samples: str
    ranked_by: str
    scope: str
    values: Mapping[str, Values]

    def gain(self, way: str) -> Difference:
        """The difference of a way from the mean of the samples."""
        return difference(self.values[way], self.values["mean"])


def on_turns(values: Mapping[str, Values], turns: pd.Index) -> dict[str, Values]:
    """The values on these turns; 0 where nothing was found."""
    return {way: found.reindex(turns).fillna(0.0) for way, found in values.items()}


def row_of(scored: Scored) -> list[str]:
    """The mean of each way, with p of its difference from the mean of the samples."""
    row = [scored.samples, scored.ranked_by, str(len(scored.values["mean"]))]
    for way, found in scored.values.items():
        p = "" if way in ("mean", "oracle") else f" ({shown_p(scored.gain(way).p_value)})"
        row.append(f"{found.mean():.4f}{p}")
    return row


def summary(every: Sequence[Scored]) -> str:
    """How each ranking and way compares with the mean of the samples, over all sets of samples."""
    rows = []
    for ranked_by in dict.fromkeys(scored.ranked_by for scored in every):
        for way in (*RULES, "fusion", "oracle"):
            row = [ranked_by, way]
            for scope in (ALL, NIST):
                gains = {}
                for scored in every:
                    if scored.ranked_by == ranked_by and scored.scope == scope:
                        gains[scored.samples] = scored.gain(way)
                row += gain_cells(gains, way)
            rows.append(row)
    head = ["ranked by", "choice"]
    for scope in (ALL, NIST):
        head += [f"{scope}: above the mean sample", "difference", "p < .05"]
    return table(head, rows)


def gain_cells(gains: Mapping[str, Difference], way: str) -> list[str]:
    """On how many sets a way is above the mean of the samples, by how much, and significantly."""
    means = [gain.mean for gain in gains.values()]
    below = [name for name, gain in gains.items() if gain.mean <= 0]
    above = f"{len(gains) - len(below)} of {len(gains)}"
    if below:
        above += f" (not {'; '.join(below)})"
    significant = ""
    if way != "oracle":
        significant = str(sum(gain.p_value < 0.05 for gain in gains.values()))
    return [above, f"{min(means):+.4f} to {max(means):+.4f}", significant]


def turns_of(drawn: Mapping[str, list[str]], qrels: pd.DataFrame) -> pd.DataFrame:
    """The judged turns with their samples."""
    turns = pd.DataFrame({"qid": list(drawn), "query": "", "qsubqueries": list(drawn.values())})
    return turns[turns["qid"].isin(qrels["qid"])].reset_index(drop=True)


def other_prompts(folder: str | Path) -> str:
    """The rules on the five samples of each of 17 other prompts, with BM25's first 100 passages.

    They are compared with the mean of the samples.
    """
    collection = open_collection(MINI, folder)
    others = [name_of(prompt) for prompt in PCIR_PROMPTS if name_of(prompt) != FIVE_RUNS]
    rows = []
    for kind, answers in (("rewrite", False), ("rewrite and answer", True)):
        gains: dict[str, list[Values]] = {}
        for prompt in others:
            turns = turns_of(samples_of(prompt, answers), collection.qrels)
            texts = {text for samples in turns["qsubqueries"] for text in samples}
            found = search(collection.bm25 % RERANKED, sorted(texts))
            judged = collection.qrels[collection.qrels["qid"].isin(turns["qid"])]
            values = measure(turns, found, found, judged)
            values = on_turns(values, pd.Index(turns["qid"]))
            for way in ("first", *RULES, "fusion", "oracle"):
                gains.setdefault(way, []).append(values[way] - values["mean"])
        for way, of_prompts in gains.items():
            means = [values.mean() for values in of_prompts]
            of_turns = sum(of_prompts) / len(of_prompts)
            above = f"{sum(mean > 0 for mean in means)} of {len(means)}"
            p = "" if way == "oracle" else shown_p(difference(of_turns, of_turns * 0).p_value)
            numbers = [f"{mean:+.4f}" for mean in (of_turns.mean(), min(means), max(means))]
            rows.append([kind, way, *numbers, above, p])
    head = ["samples", "choice", "mean gain", "least", "most", "prompts above", "p, uncorrected"]
    return f"{table(head, rows)}\n\np is over {over(of_turns.index)}."


def best_query(folder: str | Path) -> str:
    """nDCG@10 on the mini collection of 2023 for each set of samples and way to rank."""
    collection = open_collection(MINI, folder, dense=True)
    nist = set(samples_of(FIVE_RUNS, False))
    every = []
    rows = []
    for name, (output, answers) in SAMPLES.items():
        turns = turns_of(samples_of(output, answers), collection.qrels)
        judged = collection.qrels[collection.qrels["qid"].isin(turns["qid"])]
        samples = {text for texts_of_turn in turns["qsubqueries"] for text in texts_of_turn}
        # In one order whatever the order of the set: batches of texts decide about float noise.
        texts = sorted(samples, key=lambda text: (len(text), text))
        found = search(collection.bm25, texts)
        scored = search(collection.dense, texts)
        ranked = {
            "BM25": (found, found),
            "MiniLM": (scored, scored),
            f"BM25, first {RERANKED} by MiniLM": (found, rerank(found, scored)),
        }
        qids = pd.Index(turns["qid"])
        of_nist = qids[qids.isin(nist)]
        for stage, (by, lists) in ranked.items():
            values = measure(turns, by, lists, judged)
            of_all = Scored(name, stage, ALL, on_turns(values, qids))
            of_part = Scored(name, stage, NIST, on_turns(values, of_nist))
            every += [of_all, of_part]
            rows.append(row_of(of_all))
            if len(of_nist) < len(qids):
                rows.append(row_of(of_part))
    head = [
        "samples",
        "ranked by",
        "turns",
        "mean of the samples",
        "first",
        *RULES,
        "rule cross-validated",
        "fusion by RRF",
        "oracle",
    ]
    scopes = dict.fromkeys(over(scored.values["mean"].index) for scored in every)
    return f"{summary(every)}\n\n{table(head, rows)}\n\nTests are over {' or '.join(scopes)}."
