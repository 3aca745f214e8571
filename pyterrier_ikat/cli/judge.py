"""Commands that judge passages with an LLM and compare judgements."""

from pathlib import Path

import click

from ..errors import UsageError
from .evaluate import load_runs, turns_of, unjudged_turns
from .main import FORMAT, JUDGED_TURNS, TEXTS, TURNS, dataset_named, main, quiet, text_loader_of
from .output import show


@main.command(
    section="Evaluate",
    example="ikat judge runs/* --dataset ikat:2023-mini --index mini.index \\\n    --llm openai:gpt-4o --out judged.qrels",
)
@click.argument("paths", nargs=-1, metavar="RUN...")
@click.option("--pairs", type=click.Path(), help="judge the pairs of this qrels file again, instead of RUNs")
@click.option(
    "--style",
    type=click.Choice(["one-shot", "umbrela"]),
    default="one-shot",
    show_default=True,
    help="the prompt with one example, or UMBRELA's",
)
@click.option("--dataset", "dataset_name", required=True, help="has the utterances of the turns, such as ikat:2023-mini")
@click.option("--llm", "llm_spec", required=True, help="the language model that judges, such as openai:gpt-4o")
@TEXTS
@JUDGED_TURNS
@TURNS
@click.option("--depth", default=10, show_default=True, help="passages judged of each run and turn")
@click.option("--out", required=True, type=click.Path(), help="file for the new qrels")
@quiet
def judge(
    paths: tuple[str, ...],
    pairs: str | None,
    style: str,
    dataset_name: str,
    llm_spec: str,
    index_path: str | None,
    qrels: str | None,
    turns: str | None,
    depth: int,
    out: str,
) -> None:
    """Judge the pooled top passages of RUNs, or given pairs, with an LLM.

    Writes a qrels file and, beside it, FILE.json, which names the judge for `ikat paper`. Where the dataset has qrels, only their turns are
    judged; --turns and --qrels choose others.
    """
    if Path(out).exists():
        raise UsageError(f"{out} exists, and its labels may have cost money: choose another --out, or remove it")
    if bool(paths) == (pairs is not None):
        raise UsageError("give RUNs to judge their top passages, or --pairs FILE to judge the pairs of a qrels file")
    from ..conversations import write_qrels
    from ..conversations.qrels import read_qrels, write_judge
    from ..evaluation import Judge, UmbrelaJudge, pool_runs, with_gold
    from ..llms import llm

    pooled = pool_runs(load_runs(paths), depth) if pairs is None else read_qrels(Path(pairs))[["qid", "docno"]]
    if (wanted := turns_of(dataset_name, qrels, turns)) is not None:
        pooled = pooled[pooled["qid"].isin(wanted)].reset_index(drop=True)
    elif pairs is None:
        pooled = pooled[~pooled["qid"].isin(unjudged_turns(dataset_name))].reset_index(drop=True)
    if pooled.empty:
        raise UsageError("the runs have none of the turns to judge: give --turns, or other RUNs")
    model = llm(llm_spec)
    made = UmbrelaJudge(model) if style == "umbrela" else Judge(model)
    judged = made.transform(with_gold(pooled, dataset_named(dataset_name), text_loader_of(index_path)))
    write_qrels(judged, out)
    write_judge(out, model.model, style)
    click.echo(f"{out}: {len(judged)} of {len(pooled)} passages judged, {len(pooled) - len(judged)} without a usable label")


@main.command(
    section="Evaluate",
    example="ikat agree judged.qrels official.qrels --run runs/raw --run runs/human_qr",
)
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
@click.option("--threshold", default=2, show_default=True, help="the lowest label that counts as relevant")
@click.option("--run", "paths", multiple=True, metavar="RUN", help="may be repeated: do both order these runs alike (Kendall's tau)?")
@FORMAT
@quiet
def agree(first: str, second: str, threshold: int, paths: tuple[str, ...], form: str) -> None:
    """Compare two qrels files: confusion matrix, agreement, Cohen's kappa.

    In csv only the matrix of all labels is printed.
    """
    from ..conversations.qrels import read_qrels
    from ..evaluation import agreement

    runs = load_runs(paths) if paths else None
    graded, binary = agreement(read_qrels(Path(first)), read_qrels(Path(second)), threshold, runs=runs).tables()
    show(graded, form)
    if form != "csv":
        click.echo()
        show(binary, form)
