"""Commands that evaluate runs and judge passages."""

from pathlib import Path

import click

from ..errors import UsageError
from .group import dataset_named, main, quiet


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", help="evaluate against this dataset's qrels")
@click.option(
    "--qrels", "qrels_path", type=click.Path(), help="evaluate against this TREC qrels file; with --dataset, a variant of its qrels"
)
@click.option("--measures", help="separated by commas; the track's by default")
@click.option("--baseline", help="the run that the others are compared with")
@click.option("--format", "form", type=click.Choice(["text", "latex", "markdown", "csv"]), default="text", show_default=True)
@quiet
def evaluate(
    paths: tuple[str, ...], dataset_name: str | None, qrels_path: str | None, measures: str | None, baseline: str | None, form: str
) -> None:
    """Evaluate RUNs: folders made by `ikat run`, TREC run files, or submissions."""
    from ..conversations.qrels import read_qrels
    from ..evaluate import TRACK_2023, parse_measures
    from ..evaluate import evaluate as compare
    from ..evaluate.measures import split_measures
    from ..finished import load_runs, show_runs, warn_of_lost_turns
    from ..resources import open_qrels, refuse_statements
    from ..show import table

    wanted = TRACK_2023 if measures is None else parse_measures(split_measures(measures))
    if dataset_name is None and qrels_path is None:
        raise UsageError("nothing to evaluate against: give --dataset NAME or --qrels FILE")
    qrels = read_qrels(Path(str(qrels_path))) if dataset_name is None else open_qrels(dataset_named(dataset_name), dataset_name, qrels_path)
    runs = load_runs(paths)
    if dataset_name is not None and not any(run["docno"].isin(qrels["docno"]).any() for run in runs.values()):
        refuse_statements(dataset_name, qrels_path)
    if form == "text":
        show_runs(runs, qrels, baseline, click.echo, wanted)
        return
    click.echo(getattr(table(compare(runs, qrels, wanted, baseline)), form)(), nl=False)
    warn_of_lost_turns(runs, qrels, lambda line: click.echo(line, err=True))


@main.command("evaluate-ptkb")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", required=True)
@click.option("--qrels", "variant", default="ptkb", show_default=True, help="for 2023: ptkb_nist or ptkb_org")
@quiet
def evaluate_ptkb(paths: tuple[str, ...], dataset_name: str, variant: str) -> None:
    """Evaluate the PTKB statements chosen in RUNs: folders made by `ikat run`, or submissions."""
    from ..evaluate.ptkb import evaluate_ptkb as table
    from ..finished import named
    from ..resources import open_qrels
    from ..submit import read_submission

    dataset = dataset_named(dataset_name)
    systems = {name: read_submission(path, dataset).turns if path.is_file() else path for name, path in named(paths).items()}
    figures = table(systems, open_qrels(dataset, dataset_name, variant))
    click.echo(figures.to_string(index=False, float_format=lambda value: f"{value:.4f}"))


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", required=True)
@click.option("--llm", "llm_spec", required=True)
@click.option("--index", "index_path", help="the passage index that the texts come from")
@click.option("--depth", default=10, show_default=True, help="passages of each run and turn")
@click.option("--out", required=True, type=click.Path(), help="file for the new qrels")
@quiet
def judge(paths: tuple[str, ...], dataset_name: str, llm_spec: str, index_path: str | None, depth: int, out: str) -> None:
    """Judge the pooled top passages of RUNs with an LLM; leaves a qrels file."""
    if Path(out).exists():
        raise UsageError(f"{out} is there already, and labels are paid for: choose another --out, or remove it")
    from ..evaluate import Judge, pool, with_gold, write_qrels
    from ..finished import load_runs
    from ..llm import llm
    from ..retrieve import PassageIndex

    pooled = pool(load_runs(paths), depth)
    texts = None if index_path is None else PassageIndex(index_path).text_loader()
    judged = Judge(llm(llm_spec)).transform(with_gold(pooled, dataset_named(dataset_name), texts))
    write_qrels(judged, out)
    click.echo(f"{out}: {len(judged)} of {len(pooled)} passages judged, {len(pooled) - len(judged)} without a usable label")


@main.command()
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
@click.option("--threshold", default=2, show_default=True, help="the least label that counts as relevant")
@click.option("--run", "paths", multiple=True, metavar="RUN", help="several: how alike both order these runs (Kendall's tau)")
@quiet
def agree(first: str, second: str, threshold: int, paths: tuple[str, ...]) -> None:
    """Compare two qrels files: confusion matrix, agreement, Cohen's kappa."""
    from ..conversations.qrels import read_qrels
    from ..evaluate import agreement
    from ..finished import load_runs

    runs = load_runs(paths) if paths else None
    click.echo(str(agreement(read_qrels(Path(first)), read_qrels(Path(second)), threshold, runs=runs)))
