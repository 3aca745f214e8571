"""Which system to use: ways to make a turn's query, each with several ways to search.

They are compared on real turns with real texts of a model.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyterrier as pt

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations.public_outputs import OUTPUTS
from pyterrier_ikat.llms import LLM
from pyterrier_ikat.methods.ours import DENSE_SHARE
from pyterrier_ikat.tables import format_score

from .common import (
    FIVE_RUNS,
    MINI,
    Collection,
    Values,
    conversation_of,
    difference,
    interval,
    ndcg,
    open_collection,
    over,
    shown_p,
    table,
)

LISTS = 100
"""How many passages each list has that is fused or re-ranked."""
TUNED_ON = ("ikat:2023-train", "mtrag:mini")
GRID = [round(step / 20, 2) for step in range(21)]
BASELINE = ("rewrite", "BM25")
WINNER = ("rewrite and answer, one query", "weighted sum of both")
AGAINST = (
    ("rewrite", "BM25"),
    ("rewrite", "weighted sum of both"),
    ("answer", "BM25"),
    ("answer", "weighted sum of both"),
    ("rewrite and answer, one query", "BM25"),
    ("rewrite and answer, one query", "MiniLM"),
    ("rewrite and answer, one query", "RRF of both"),
    ("rewrite and answer, one query", f"BM25, first {LISTS} by MiniLM"),
    ("rewrite and answer, a list each", "weighted sum of both"),
    ("LLM4CS, 5 samples as one query", "weighted sum of both"),
    ("5 samples, lists fused", "weighted sum of both"),
    ("10 samples, lists fused", "weighted sum of both"),
    ("best of 10 by agreement", "weighted sum of both"),
    ("best of 10 by spread", "weighted sum of both"),
    ("manual rewrite (a person's)", "weighted sum of both"),
)
"""The systems with which the method `rewrite_answer_hybrid` is compared."""
Question = Callable[..., pt.Transformer]
"""A function that makes a pipeline from a retriever."""


class Asking(NamedTuple):
    """A way to ask.

    Attributes:
        with_retriever: the pipeline without a re-ranker.
        with_reranker: the pipeline from BM25 and a re-ranker.
        calls: LLM calls per turn.
        searches: searches per turn, with one retriever.
        with_dense: the pipeline for a dense retriever, if it differs. A hybrid then fuses both at
            the end, and is not a retriever.
    """

    with_retriever: Question
    with_reranker: Callable[[pt.Transformer, pt.Transformer], pt.Transformer]
    calls: int
    searches: int
    with_dense: Question | None = None


def asking(llm: LLM) -> dict[str, Asking]:
    """The ways to ask, by name."""
    one_sample = ikat.Samples(ikat.RewriteAndAnswer(llm), 1, ("qrewrite", "qanswer"))
    joined = one_sample >> ikat.generate.Aggregate("first")
    llm4cs = partial(of_samples, llm, ikat.methods.llm4cs, {})
    agreed = partial(of_samples, llm, ikat.methods.chosen_of_n, {"rule": "agreement"})
    spread = partial(of_samples, llm, ikat.methods.chosen_of_n, {"rule": "spread"})
    fused_5 = partial(of_samples, llm, ikat.methods.llm4cs, {"aggregate": "fusion"})
    fused_10 = partial(of_samples, llm, ikat.methods.llm4cs, {"aggregate": "fusion", "n": 10})
    lists = partial(two_lists, llm)
    return {
        "raw utterance": simple(ikat.generate.QueryColumn("qutterance"), 0),
        "manual rewrite (a person's)": simple(ikat.ManualRewrite(), 0),
        "rewrite": simple(ikat.Rewrite(llm), 1),
        "answer": simple(ikat.Answer(llm), 1),
        "rewrite and answer, one query": simple(joined, 1),
        "rewrite and answer, a list each": Asking(
            lists,
            lambda search, reranker: (
                lists(search) >> ikat.RerankAgainst(reranker, "qanswer", LISTS)
            ),
            1,
            2,
        ),
        "LLM4CS, 5 samples as one query": Asking(llm4cs, llm4cs, 5, 1, partial(mean_vector, llm)),
        "5 samples, lists fused": Asking(fused_5, fused_5, 5, 5),
        "10 samples, lists fused": Asking(fused_10, fused_10, 10, 10),
        "best of 10 by agreement": Asking(agreed, agreed, 10, 11),
        "best of 10 by spread": Asking(spread, spread, 10, 11),
    }


def simple(question: pt.Transformer, calls: int) -> Asking:
    """One query, which a re-ranker also reads."""
    return Asking(
        lambda search: question >> search,
        lambda search, reranker: question >> search >> reranker,
        calls,
        1,
    )


def two_lists(llm: LLM, search: pt.Transformer) -> pt.Transformer:
    """A search for the rewrite and one for the answer, with the sum of their scaled scores."""
    lists = [ikat.generate.QueryColumn(column) >> search for column in ("qrewrite", "qanswer")]
    return ikat.RewriteAndAnswer(llm) >> ikat.WeightedSum(*lists, num_results=LISTS)


def of_samples(
    llm: LLM,
    maker: Question,
    options: Mapping[str, object],
    search: pt.Transformer,
    reranker: pt.Transformer | None = None,
) -> pt.Transformer:
    """A method that samples."""
    return maker(llm, search, reranker, depth=LISTS, **options)


def mean_vector(llm: LLM, search: pt.Transformer) -> pt.Transformer:
    """LLM4CS's dense ranking.

    The cosine with the mean vector is proportional to the mean of the texts' cosines.
    """
    samples = ikat.Samples(ikat.RewriteAndAnswer(llm), 5, ("qrewrite", "qanswer"))
    each = samples >> pt.apply.generic(each_text) >> ikat.ExplodeQueries()
    return each >> search >> ikat.WeightedSum(normalise="none", num_results=LISTS)


def each_text(drawn: pd.DataFrame) -> pd.DataFrame:
    """The turns with each text of each sample as a separate query."""
    queries = []
    for samples in drawn["qsamples"]:
        queries.append([text for sample in samples for text in sample])
    return drawn.assign(qsubqueries=queries)


def weighted(bm25: pt.Transformer, dense: pt.Transformer, share: float) -> pt.Transformer:
    """Both lists, scaled to 0 to 1 and summed; ``share`` is the weight of the dense one, of 1."""
    return ikat.WeightedSum(bm25, dense, weights=(1 - share, share), num_results=LISTS)


def scored_by(dense: pt.Transformer) -> pt.Transformer:
    """A re-ranker with the scores of a dense search of all passages.

    They are those of MiniLM as a bi-encoder, without encoding a text twice.
    """

    def score(found: pd.DataFrame) -> pd.DataFrame:
        queries = found[["query"]].drop_duplicates()
        queries = queries.assign(qid=[str(number) for number in range(len(queries))])
        scores = dense(queries)[["query", "docno", "score"]]
        passages = found.drop(columns=["score", "rank"])
        scored = passages.merge(scores, on=["query", "docno"])
        return pt.model.add_ranks(scored, single_query=False)

    return pt.apply.generic(score)


def searching(ask: Asking, collection: Collection, share: float) -> dict[str, pt.Transformer]:
    """The pipelines of one way to ask, by their ways to search."""
    bm25 = collection.bm25 % LISTS
    dense = collection.dense % LISTS
    sparse_pipeline = ask.with_retriever(bm25)
    if ask.with_dense:
        dense_pipeline = ask.with_dense(collection.dense)
        fused = ikat.RRF(sparse_pipeline, dense_pipeline, num_results=LISTS)
        summed = weighted(sparse_pipeline, dense_pipeline, share)
    else:
        dense_pipeline = ask.with_retriever(dense)
        fused = ask.with_retriever(ikat.RRF(bm25, dense, num_results=LISTS))
        summed = ask.with_retriever(weighted(bm25, dense, share))
    return {
        "BM25": sparse_pipeline,
        "MiniLM": dense_pipeline,
        "RRF of both": fused,
        "weighted sum of both": summed,
        f"BM25, first {LISTS} by MiniLM": ask.with_reranker(bm25, scored_by(collection.dense)),
    }


def on_turns(pipeline: pt.Transformer, turns: pd.DataFrame, qrels: pd.DataFrame) -> Values:
    """nDCG@10 of each turn; 0 if nothing was found."""
    return ndcg(pipeline(turns), qrels).reindex(turns["qid"]).fillna(0.0)


def judged_turns(collection: Collection) -> pd.DataFrame:
    """The turns with judgements, and what people wrote for them."""
    turns = collection.data.get_topics("manual")
    return turns[turns["qid"].isin(collection.qrels["qid"])].reset_index(drop=True)


def tune(folder: str | Path) -> dict[str, Values]:
    """The mean nDCG@10 of people's rewrites for each share of the dense list.

    It is measured on the collections that are not used in the tests.
    """
    of_collections = {}
    for name in TUNED_ON:
        collection = open_collection(name, folder, dense=True)
        turns = judged_turns(collection)
        bm25 = replayed((ikat.ManualRewrite() >> collection.bm25 % LISTS)(turns))
        dense = replayed((ikat.ManualRewrite() >> collection.dense % LISTS)(turns))
        means = {}
        for share in GRID:
            values = on_turns(weighted(bm25, dense, share), turns, collection.qrels)
            means[share] = values.mean()
        of_collections[name] = pd.Series(means)
    return of_collections


def replayed(found: pd.DataFrame) -> pt.Transformer:
    """A retriever whose result for each turn is known."""
    return pt.apply.generic(lambda turns: found[found["qid"].isin(turns["qid"])])


def pick(of_systems: Mapping[tuple[str, str], Values]) -> Values:
    """The values of each conversation's turns with the system that is best on all others."""
    turns = pd.DataFrame(dict(of_systems))
    conversation = conversation_of(turns.index)
    held_out = []
    for name in conversation.unique():
        best = turns[conversation != name].mean().idxmax()
        held_out.append(turns.loc[conversation == name, best])
    return pd.concat(held_out).loc[turns.index]


def run_systems(
    folder: str | Path, output: str, share: float
) -> tuple[dict[str, Asking], dict[tuple[str, str], Values]]:
    """nDCG@10 of each turn for each way to ask and to search."""
    collection = open_collection(MINI, folder, dense=True)
    recorded = {qid for qid, _, _ in OUTPUTS[output].completions()}
    turns = judged_turns(collection)
    turns = turns[turns["qid"].isin(recorded)].reset_index(drop=True)
    qrels = collection.qrels[collection.qrels["qid"].isin(turns["qid"])]
    samples = int(OUTPUTS[output].about.split()[0])
    ways = {}
    values = {}
    for name, ask in asking(ikat.llm(f"recorded:{output}")).items():
        if ask.calls > samples:
            continue
        ways[name] = ask
        for by, pipeline in searching(ask, collection, share).items():
            values[name, by] = on_turns(pipeline, turns, qrels)
    return ways, values


def compared(ways: Mapping[str, Asking], found: Mapping[tuple[str, str], Values]) -> str:
    """The means of all systems, with marks for significant differences from the baseline."""
    base = found[BASELINE]
    tests = len(found) - 1
    columns = list(dict.fromkeys(by for _, by in found))
    rows = []
    for name, ask in ways.items():
        cells = []
        for by in columns:
            values = found[name, by]
            cells.append(f"{values.mean():.3f}{mark(values, base, tests)}")
        rows.append([name, str(ask.calls), str(ask.searches), *cells])
    return table(["what is searched for", "LLM calls", "searches", *columns], rows)


def mark(ours: Values, base: Values, tests: int) -> str:
    """An arrow if the values of turns differ significantly.

    Bonferroni's correction is for this number of tests.
    """
    if ours is base or not difference(ours, base).p_value * tests < 0.05:
        return ""
    return " ↑" if ours.mean() > base.mean() else " ↓"


def against(
    found: Mapping[tuple[str, str], Values],
    ours: tuple[str, str],
    others: Sequence[tuple[str, str]],
) -> str:
    """One system against others, with 95 % intervals and p, corrected (Bonferroni) or not."""
    rows = []
    for other in others:
        apart = difference(found[ours], found[other])
        corrected = shown_p(min(1.0, apart.p_value * len(others)))
        cells = [f"{apart.mean:+.3f}", interval(apart), corrected, shown_p(apart.p_value)]
        rows.append([", ".join(other), *cells])
    head = [f"{', '.join(ours)}, against", "difference", "95 %"]
    head += [f"corrected for {len(others)}", "uncorrected"]
    return table(head, rows)


def tests_and_highest(found: Mapping[tuple[str, str], Values]) -> str:
    """What the arrows rest on, and the three highest systems."""
    means = {system: values.mean() for system, values in found.items()}
    best = sorted(means, key=lambda system: means[system], reverse=True)[:3]
    highest = "; ".join(f"{', '.join(system)} ({format_score(means[system])})" for system in best)
    return (
        f"Arrows: {over(found[BASELINE].index)}, {len(found) - 1} comparisons. Highest: {highest}."
    )


def of_weights(folder: str | Path, output: str, share: float) -> str:
    """A list for the rewrite and one for the answer, with several weights.

    The last row has the weight that is best on all other conversations.
    """
    collection = open_collection(MINI, folder, dense=True)
    llm = ikat.llm(f"recorded:{output}")
    hybrid = weighted(collection.bm25 % LISTS, collection.dense % LISTS, share)
    turns = judged_turns(collection)
    of_rewrite = replayed((ikat.Rewrite(llm) >> hybrid)(turns))
    of_answer = replayed((ikat.Answer(llm) >> hybrid)(turns))
    found = {}
    rows = []
    for weight in (0.0, 0.25, 0.5, 0.75, 1.0):
        both = ikat.WeightedSum(
            of_rewrite, of_answer, weights=(1 - weight, weight), num_results=LISTS
        )
        found[weight] = on_turns(both, turns, collection.qrels)
        rows.append([f"{weight:.2f}", f"{found[weight].mean():.4f}"])
    rows.append(["best on the other conversations", f"{pick(found).mean():.4f}"])
    return table(["weight of the answer's list, of 1", "nDCG@10"], rows)


def without_rewrite(turns: pd.Index) -> str:
    """The turns whose manual rewrite is empty in the organisers' file, as a sentence."""
    empty = []
    for conversation in ikat.dataset(MINI).conversations:
        for turn in conversation.turns:
            if not turn.resolved.strip() and conversation.qid(turn) in turns:
                empty.append(conversation.qid(turn))
    return (
        "Manual rewrites that are empty, so that the utterance is searched for: "
        f"{len(empty)} of {len(turns)} ({', '.join(empty)})."
    )


def systems(folder: str | Path) -> str:
    """All systems on LLM4CS's and SAR's texts, and what `rewrite_answer_hybrid` beats."""
    ways, found = run_systems(folder, "cfda-llm4cs", DENSE_SHARE)
    automatic = {system: values for system, values in found.items() if "manual" not in system[0]}
    chosen = (
        f"The one of {len(automatic)} automatic systems that is best on all other conversations, "
        f"conversation by conversation: {format_score(pick(automatic).mean())}."
    )
    sar, of_sar = run_systems(folder, FIVE_RUNS, DENSE_SHARE)
    against_of_sar = [other for other in AGAINST if other in of_sar]
    parts = [
        compared(ways, found),
        f"{tests_and_highest(found)} {chosen} {without_rewrite(found[BASELINE].index)}",
        against(found, WINNER, AGAINST),
        of_weights(folder, "cfda-llm4cs", DENSE_SHARE),
        compared(sar, of_sar),
        tests_and_highest(of_sar),
        against(of_sar, WINNER, against_of_sar),
    ]
    return "\n\n".join(parts)


def tuning(folder: str | Path) -> str:
    """The weight of the dense list on the collections that are not used in the tests."""
    found = tune(folder)
    mean = sum(means / len(found) for means in found.values())
    rows = []
    for share in GRID:
        if share % 0.25 == 0:
            scores = [f"{means[share]:.4f}" for means in [*found.values(), mean]]
            rows.append([f"{share:.2f}", *scores])
    best = f"Of {len(GRID)} weights, {format_score(mean.idxmax(), 2)} has the highest mean."
    return f"{table(['weight of the dense list, of 1', *found, 'mean'], rows)}\n\n{best}"
