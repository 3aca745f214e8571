r"""The judging tables of Generate then Retrieve (Figure 2, Tables 1 to 4): pool, judge, compare with the official qrels.

    python experiments/judging.py runs --dataset ikat:2023 --index passages.index \
        --llm openai:gpt-3.5-turbo-0125 --out judged.qrels

RUNS is a folder of run folders, as `ikat run --out RUNS` leaves it, or of *.trec files. Prints the size of the pool,
how many passages got no label, Judged@10 and the other figures of every system by the official, the new and the merged
qrels, confusion matrix, agreement and Cohen's kappa with the official qrels, and Kendall's tau of the systems' orders;
writes the new qrels.

Stopped and called again, it repeats no call that is in the cache. Offline it replays recorded labels, a line for each
pair of the pool (the bundled sample comes without them):

    {"qid": "1-1_1", "stage": "judge", "item": "sample-walk-001:0", "completion": "3", "model": "recorded"}

    python experiments/judging.py runs --dataset ikat:sample --llm recorded:labels.jsonl --out judged.qrels
"""

from pathlib import Path

import click
import pandas as pd
import pyterrier as pt
from ir_measures import Judged

import pyterrier_ikat as ikat
from pyterrier_ikat.conversations import write_qrels
from pyterrier_ikat.errors import UsageError
from pyterrier_ikat.evaluation import TRACK_2023, Judge, agreement, evaluate, pool_runs, with_gold
from pyterrier_ikat.runs import RunFolder, read_run


def runs_of(folder: Path) -> dict[str, pd.DataFrame]:
    """The runs of a folder: its finished run folders and its *.trec files, by name."""
    found = {path.name: RunFolder(path).results() for path in sorted(folder.iterdir()) if RunFolder(path).complete}
    found |= {path.stem: read_run(path) for path in sorted(folder.glob("*.trec"))}
    if not found:
        raise UsageError(f"{folder} holds neither a finished run folder nor a *.trec file")
    return found


def judge(runs: dict[str, pd.DataFrame], dataset: str, llm: str, depth: int, index: str | None) -> pd.DataFrame:
    """The LLM's qrels of the pool of ``runs``; the passages without a label are counted on the terminal."""
    texts = None if index is None else ikat.PassageIndex(index).text_loader()
    pooled = pool_runs(runs, depth)
    model = ikat.llm(llm)
    judged = Judge(model)(with_gold(pooled, pt.get_dataset(dataset), texts))
    turns = pooled["qid"].nunique()
    click.echo(f"Pool: top {depth} of {len(runs)} runs, {len(pooled)} passages of {turns} turns; {len(pooled) - len(judged)} got no label.")
    click.echo(f"{model.ledger}\n")
    return judged


def show(runs: dict[str, pd.DataFrame], official: pd.DataFrame, judged: pd.DataFrame, depth: int) -> None:
    """Print everything that compares the two sets of qrels."""
    for name, qrels in (("official", official), ("LLM", judged), ("merged, official first", ikat.merge_qrels(official, judged))):
        click.echo(f"By the qrels: {name}\n{ikat.show.table(evaluate(runs, qrels, [*TRACK_2023, Judged @ depth]))}\n")
    click.echo(f"Judged@{depth} is a share of the passages retrieved; the paper gives it times 10.\n")
    found = agreement(judged, official, runs=runs if len(runs) > 1 else None)
    click.echo(f"Labels of the LLM (a, rows) and of the official qrels (b, columns)\n{found}")


@click.command(help=__doc__)
@click.argument("folder", metavar="RUNS", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--dataset", default="ikat:sample", show_default=True)
@click.option("--qrels", "variant", help="another variant of the dataset's qrels")
@click.option("--llm", required=True, help="such as openai:gpt-4o or recorded:FILE")
@click.option("--index", help="the passage index that the texts come from; the dataset's own passages without it")
@click.option("--depth", default=10, show_default=True)
@click.option("--out", required=True, type=click.Path(), help="file for the new qrels")
def main(folder: Path, dataset: str, variant: str | None, llm: str, index: str | None, depth: int, out: str) -> None:
    """Pool, judge, compare, write."""
    runs = runs_of(folder)
    judged = judge(runs, dataset, llm, depth, index)
    write_qrels(judged, out)
    show(runs, pt.get_dataset(dataset).get_qrels(variant), judged, depth)


if __name__ == "__main__":
    main()
