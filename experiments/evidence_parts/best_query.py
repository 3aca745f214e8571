"""One of several samples of a turn, chosen by a rule: `BestQuery` on real samples, and the fusion of all samples."""

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
ALL, NIST = "all turns", "turns that NIST judged"
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
    """The best passages of ``found``, ordered by ``scored``, which has a score for each passage of the collection."""
    best = found.loc[found["rank"] < RERANKED, ["query", "docno"]].merge(
        scored[["query", "docno", "score"]], on=["query", "docno"]
    )
    best = best.sort_values(["query", "score"], ascending=[True, False], kind="stable")
    return best.assign(rank=best.groupby("query").cumcount())


def replay(found: pd.DataFrame) -> pt.Transformer:
    """A retriever that returns known results."""
    return pt.apply.generic(lambda queries: queries.merge(found, on="query"))


def value_queries(turns: pd.DataFrame, found: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Each sample of each turn with its nDCG@10: ``qid``, ``query``, ``value``."""
    rows = (
        turns[["qid", "qsubqueries"]]
        .explode("qsubqueries")
        .rename(columns={"qsubqueries": "query"})
    )
    rows = rows.assign(number=[str(number) for number in range(len(rows))])
    ranking = rows.merge(found[found["rank"] < DEPTH], on="query").assign(
        qid=lambda frame: frame["number"]
    )
    of_rows = ndcg(
        ranking,
        rows[["qid", "number"]].merge(qrels, on="qid").assign(qid=lambda frame: frame["number"]),
    )
    return rows.assign(value=rows["number"].map(of_rows))


def cross_validate(of_rules: Mapping[str, Values]) -> Values:
    """The values of each conversation's turns with the rule that is best on all other conversations."""
    of_turns = pd.DataFrame(dict(of_rules))
    conversation = conversation_of(of_turns.index)
    held_out = [
        (of_turns[conversation == one], of_turns[conversation != one].mean().idxmax())
        for one in conversation.unique()
    ]
    return pd.concat([turns[rule] for turns, rule in held_out]).loc[of_turns.index]


def measure(
    turns: pd.DataFrame, by: pd.DataFrame, found: pd.DataFrame, qrels: pd.DataFrame
) -> dict[str, Values]:
    """The nDCG@10 of each turn for each way to choose. The rules without a re-ranker read the lists ``by``."""
    samples = value_queries(turns, found, qrels)
    of_turns = samples.groupby("qid", sort=False)["value"]
    of_query = samples.drop_duplicates(["qid", "query"]).set_index(["qid", "query"])["value"]
    values = {"mean": of_turns.mean(), "first": of_turns.first()}
    for rule in RULES:
        chosen = ikat.generate.BestQuery(replay(found if rule == "score" else by), rule=rule)(turns)
        values[rule] = pd.Series(
            of_query.loc[pd.MultiIndex.from_frame(chosen[["qid", "query"]])].to_numpy(),
            index=chosen["qid"],
        )
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
    """For each ranking and way: on how many sets it is above the mean of the samples, by how much, and how often significantly."""
    rows = []
    for ranked_by in dict.fromkeys(scored.ranked_by for scored in every):
        for way in (*RULES, "fusion", "oracle"):
            cells = []
            for scope in (ALL, NIST):
                gains = {
                    scored.samples: scored.gain(way)
                    for scored in every
                    if (scored.ranked_by, scored.scope) == (ranked_by, scope)
                }
                below = [name for name, gain in gains.items() if gain.mean <= 0]
                means = [gain.mean for gain in gains.values()]
                significant = sum(gain.p_value < 0.05 for gain in gains.values())
                cells += [
                    f"{len(gains) - len(below)} of {len(gains)}"
                    + (f" (not {'; '.join(below)})" if below else ""),
                    f"{min(means):+.4f} to {max(means):+.4f}",
                    "" if way == "oracle" else str(significant),
                ]
            rows.append([ranked_by, way, *cells])
    head = ["ranked by", "choice"]
    for scope in (ALL, NIST):
        head += [f"{scope}: above the mean sample", "difference", "p < .05"]
    return table(head, rows)


def turns_of(drawn: Mapping[str, list[str]], qrels: pd.DataFrame) -> pd.DataFrame:
    """The judged turns with their samples."""
    turns = pd.DataFrame({"qid": list(drawn), "query": "", "qsubqueries": list(drawn.values())})
    return turns[turns["qid"].isin(qrels["qid"])].reset_index(drop=True)


def other_prompts(folder: str | Path) -> str:
    """The rules on the five samples of each of 17 other prompts, against the mean of the samples, with BM25's first 100 passages."""
    collection = open_collection(MINI, folder)
    others = [name_of(prompt) for prompt in PCIR_PROMPTS if name_of(prompt) != FIVE_RUNS]
    rows = []
    for kind, answers in (("rewrite", False), ("rewrite and answer", True)):
        gains = dict[str, list[Values]]()
        for prompt in others:
            turns = turns_of(samples_of(prompt, answers), collection.qrels)
            found = search(
                collection.bm25 % RERANKED,
                sorted({text for samples in turns["qsubqueries"] for text in samples}),
            )
            values = measure(
                turns, found, found, collection.qrels[collection.qrels["qid"].isin(turns["qid"])]
            )
            values = on_turns(values, pd.Index(turns["qid"]))
            for way in ("first", *RULES, "fusion", "oracle"):
                gains.setdefault(way, []).append(values[way] - values["mean"])
        for way, of_prompts in gains.items():
            means = [one.mean() for one in of_prompts]
            of_turns = sum(of_prompts) / len(of_prompts)
            above = f"{sum(mean > 0 for mean in means)} of {len(means)}"
            p = "" if way == "oracle" else shown_p(difference(of_turns, of_turns * 0).p_value)
            rows.append(
                [
                    kind,
                    way,
                    f"{of_turns.mean():+.4f}",
                    f"{min(means):+.4f}",
                    f"{max(means):+.4f}",
                    above,
                    p,
                ]
            )
    tested = table(
        ["samples", "choice", "mean gain", "least", "most", "prompts above", "p, uncorrected"], rows
    )
    return f"{tested}\n\np is over {over(of_turns.index)}."


def best_query(folder: str | Path) -> str:
    """nDCG@10 on the mini collection of 2023, for each set of samples and each way to rank, and what the sets have in common."""
    collection = open_collection(MINI, folder, dense=True)
    nist = set(samples_of(FIVE_RUNS, False))
    every, rows = [], []
    for name, (output, answers) in SAMPLES.items():
        turns = turns_of(samples_of(output, answers), collection.qrels)
        judged = collection.qrels[collection.qrels["qid"].isin(turns["qid"])]
        texts = sorted({text for samples in turns["qsubqueries"] for text in samples}, key=len)
        found, scored = search(collection.bm25, texts), search(collection.dense, texts)
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
            rows += (
                [row_of(of_all)] if len(of_nist) == len(qids) else [row_of(of_all), row_of(of_part)]
            )
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
