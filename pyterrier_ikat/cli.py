"""The command line: parses, calls, prints. Every error of the user's making is one line and exit code 2."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from .errors import IkatError, UsageError

DEMO_METHODS = (
    *("raw", "all_utterances", "human_qr", "qr", "ad", "qd", "aqd", "aqd_a", "llama10"),
    *("mq4cs_qr_deberta", "wghtdrerank_1", "short_long_2", "rtg", "gtr"),
)


class _Group(click.Group):
    """Prints our errors as one line; anything else is a defect and keeps its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except IkatError as error:
            click.echo(f"ikat: {error}", err=True)
            sys.exit(2)


@click.group(cls=_Group)
@click.version_option(package_name="pyterrier_ikat", prog_name="ikat")
def main() -> None:
    """Conversational search systems of the TREC iKAT papers, on your index and your LLM."""


def _dataset(name: str) -> Any:
    from .conversations import find_dataset

    return find_dataset(name)


def _quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Show warnings as one line each, without the source line that raised them."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        import warnings

        warnings.showwarning = lambda message, *_, **__: click.echo(f"ikat: warning: {message}", err=True)
        command(*args, **kwargs)

    return run


@main.command()
def datasets() -> None:
    """List the datasets and what each offers."""
    from .conversations.datasets import DATASETS

    for name in DATASETS:
        click.echo(f"{f'ikat:{name}':<15} {_dataset(name).summary}")


@main.command()
@click.argument("name", required=False)
def methods(name: str | None) -> None:
    """List the methods; with NAME, show one whole."""
    from .methods import METHODS, catalogue, method
    from .methods.published import TABLES

    if name is None:
        table = catalogue()
        shown = table[["name", "llm_calls", "queries", "depth", "manual", "tables"]]
        click.echo(shown.to_string(index=False, na_rep=""))
        click.echo(f"\n{len(METHODS)} methods. `ikat methods NAME` shows one whole.")
        return
    entry = method(name)
    click.echo(f"{entry.name}: {entry.paper}\n\n{entry.expression}\n")
    takes = f", takes {', '.join(entry.takes)}" if entry.takes else ""
    click.echo(f"needs {', '.join(entry.needs)}{takes}; per turn at most {entry.llm_calls} LLM calls and {entry.queries} queries")
    for resource, models in entry.models.items():
        click.echo(f"the paper's {resource}: {models}")
    for table_name, figures in entry.published.items():
        row = ", ".join(f"{measure} {value:.4f}" for measure, value in figures.items())
        table = TABLES[table_name]
        click.echo(f"{table.paper} ({table.turns or 'an unknown number of'} turns, {table.qrels}): {row}")


@main.command()
@click.argument("dataset")
@click.argument("path", type=click.Path())
@click.option("--splade", metavar="MODEL", help="an index of this SPLADE model's vectors, in place of one for BM25")
@_quiet
def index(dataset: str, path: str, splade: str | None) -> None:
    """Build a passage index of DATASET's collection in the folder PATH."""
    from .retrieve import PassageIndex, Splade

    corpus = _dataset(dataset).get_corpus_iter(verbose=False)
    built = PassageIndex(path).index(corpus) if splade is None else Splade(splade).index(path, corpus)
    click.echo(f"{path}: {len(built)} passages")


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="METHOD...")
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2023-mini")
@click.option("--index", "index_path", required=True, help="folder made by `ikat index`, or a PISA index of SPLADE vectors")
@click.option("--splade-model", help="the model that encoded the passages of an index that does not say it")
@click.option("--texts", metavar="PASSAGE_INDEX", help="folder of a passage index that has the texts of a SPLADE index without any")
@click.option("--llm", "llm_spec", help='such as "openai:gpt-4o temperature=0" or recorded:FILE')
@click.option("--second-llm", "second_spec", help="the LLM that writes the answer in ..._given, the second one of gtr")
@click.option(
    "--reranker", "reranker_spec", help="a cross-encoder's name, bi:NAME for a bi-encoder, monot5:NAME, ensemble, or several with commas"
)
@click.option("--rewriter", "rewriter_spec", help="a T5 or BART rewriter's name, such as castorini/t5-base-canard")
@click.option("--expander", "expander_spec", help="ConvGQR's T5 expansion model")
@click.option("--out", required=True, type=click.Path(), help="folder; each method gets one inside")
@click.option("--turns", help="only these turns, separated by commas")
@click.option("--qrels", "variant", help="another variant of the dataset's qrels")
@click.option("--plan", "only_plan", is_flag=True, help="only show the LLM calls and tokens that would be needed")
@click.option("--profile", "with_profile", is_flag=True, help="show the seconds and the share of each stage")
@_quiet
def run(names: tuple[str, ...], dataset_name: str, variant: str | None, only_plan: bool, with_profile: bool, **options: Any) -> None:
    """Run METHODs on a dataset; each leaves a folder with its run, turns, figures and ledger."""
    from .profiling import profile
    from .session import Session, show_runs

    session = Session.open(_dataset(dataset_name), dataset_name, names, variant=variant, only_plan=only_plan, **options)
    if only_plan:
        click.echo(session.plan().to_string(index=False, na_rep="unknown"))
        return
    with profile() as stages:
        found = session.run()
    show_runs(found, session.qrels, None, click.echo)
    session.report(click.echo)
    for entry in session.methods:
        for line in session.deviations(entry):
            click.echo(f"note: {entry.name}: {line}")
    if with_profile:
        click.echo(f"\n{stages.frame().to_string(index=False, formatters={'seconds': '{:.2f}'.format, 'share': '{:.1%}'.format})}")


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", help="evaluate against this dataset's qrels")
@click.option(
    "--qrels", "qrels_path", type=click.Path(), help="evaluate against this TREC qrels file; with --dataset, a variant of its qrels"
)
@click.option("--measures", help="separated by commas; the track's by default")
@click.option("--baseline", help="the run that the others are compared with")
@_quiet
def evaluate(paths: tuple[str, ...], dataset_name: str | None, qrels_path: str | None, measures: str | None, baseline: str | None) -> None:
    """Evaluate RUNs: run files, or folders made by `ikat run`."""
    from .conversations.qrels import read_qrels
    from .evaluate import TRACK_2023, parse_measures
    from .evaluate.measures import split_measures
    from .resources import open_qrels, refuse_statements
    from .session import load_runs, show_runs

    wanted = TRACK_2023 if measures is None else parse_measures(split_measures(measures))
    if dataset_name is None and qrels_path is None:
        raise UsageError("nothing to evaluate against: give --dataset NAME or --qrels FILE")
    qrels = read_qrels(Path(str(qrels_path))) if dataset_name is None else open_qrels(_dataset(dataset_name), dataset_name, qrels_path)
    runs = load_runs(paths)
    if dataset_name is not None and not any(run["docno"].isin(qrels["docno"]).any() for run in runs.values()):
        refuse_statements(dataset_name, qrels_path)
    show_runs(runs, qrels, baseline, click.echo, wanted)


@main.command("evaluate-ptkb")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", required=True)
@click.option("--qrels", "variant", default="ptkb", show_default=True, help="for 2023: ptkb_nist or ptkb_org")
@_quiet
def evaluate_ptkb(paths: tuple[str, ...], dataset_name: str, variant: str) -> None:
    """Evaluate the PTKB statements chosen in RUNs, folders made by `ikat run`."""
    from .evaluate.ptkb import evaluate_ptkb as table
    from .resources import open_qrels

    figures = table({Path(path).name: path for path in paths}, open_qrels(_dataset(dataset_name), dataset_name, variant))
    click.echo(figures.to_string(index=False, float_format=lambda value: f"{value:.4f}"))


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="RUN...")
@click.option("--dataset", "dataset_name", required=True)
@click.option("--llm", "llm_spec", required=True)
@click.option("--index", "index_path", help="the passage index that the texts come from")
@click.option("--depth", default=10, show_default=True, help="passages of each run and turn")
@click.option("--out", required=True, type=click.Path(), help="file for the new qrels")
@_quiet
def judge(paths: tuple[str, ...], dataset_name: str, llm_spec: str, index_path: str | None, depth: int, out: str) -> None:
    """Judge the pooled top passages of RUNs with an LLM; leaves a qrels file."""
    from .evaluate import Judge, pool, with_gold, write_qrels
    from .llm import llm
    from .retrieve import PassageIndex
    from .session import load_runs

    pooled = pool(load_runs(paths), depth)
    texts = None if index_path is None else PassageIndex(index_path).text_loader()
    judged = Judge(llm(llm_spec)).transform(with_gold(pooled, _dataset(dataset_name), texts))
    write_qrels(judged, out)
    click.echo(f"{out}: {len(judged)} of {len(pooled)} passages judged, {len(pooled) - len(judged)} without a usable label")


@main.command()
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
@click.option("--threshold", default=2, show_default=True, help="the least label that counts as relevant")
@_quiet
def agree(first: str, second: str, threshold: int) -> None:
    """Compare two qrels files: confusion matrix, agreement, Cohen's kappa."""
    from .conversations.qrels import read_qrels
    from .evaluate import agreement

    click.echo(str(agreement(read_qrels(Path(first)), read_qrels(Path(second)), threshold)))


@main.command()
@click.argument("folder", metavar="RUN", type=click.Path())
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2025")
@click.option("--run-id", required=True, help="the run's name, without white space")
@click.option("--run-type", required=True, help="automatic or manual; 2024 also only_response; 2025 generation-only")
@click.option("--team", help="the team's id, 2025 only")
@click.option("--out", required=True, type=click.Path(), help="the file to write")
@_quiet
def submit(folder: str, dataset_name: str, run_id: str, run_type: str, team: str | None, out: str) -> None:
    """Write the submission of RUN, a folder made by `ikat run`; nothing is written that `ikat validate` refuses."""
    from .runs import RunFolder
    from .submit import write_submission

    for problem in write_submission(RunFolder(folder), _dataset(dataset_name), out, run_id=run_id, run_type=run_type, team=team):
        click.echo(problem, err=True)
    click.echo(out)


@main.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2025")
@_quiet
def validate(path: str, dataset_name: str) -> None:
    """Check a submission, ours or not; exit code 1 when it has errors."""
    from .submit import validate as check

    problems = check(path, _dataset(dataset_name))
    for problem in problems:
        click.echo(problem)
    wrong = sum(problem.severity == "error" for problem in problems)
    click.echo(f"{path}: {wrong} errors, {len(problems) - wrong} warnings")
    if wrong:
        sys.exit(1)


@main.command()
@click.option("--out", default="demo-out", show_default=True, type=click.Path(), help="folder for the index and the runs")
@click.option("--all", "everything", is_flag=True, help="every method of the catalogue")
@_quiet
def demo(out: str, everything: bool) -> None:
    """Compare the systems on the bundled sample, offline, with recorded completions."""
    from .demo import run_demo
    from .methods import METHODS

    run_demo(Path(out), tuple(METHODS) if everything else DEMO_METHODS, click.echo)
