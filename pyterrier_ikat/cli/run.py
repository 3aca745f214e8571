"""Commands that build indexes and run systems."""

from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from .main import dataset_named, main, quiet, resources

DEMO_METHODS = (
    *("raw", "all_utterances", "human_qr", "qr", "ad", "qd", "aqd", "aqd_a", "llama10"),
    *("mq4cs_qr_deberta", "wghtdrerank_1", "short_long_2", "rtg", "gtr"),
)


@main.command()
@click.argument("source")
@click.argument("path", type=click.Path())
@click.option("--splade", metavar="MODEL", help="an index of this SPLADE model's vectors, in place of one for BM25")
@click.option("--stemmer", help="porter2 or none; porter2 by default")
@click.option("--stops", help="the words left out of queries: lucene (33 words), terrier (733) or none; lucene by default")
@click.option("--threads", type=int, help="threads that compress texts and invert; 2 by default")
@click.option("--expected", type=int, help="the number of passages that SOURCE has; another number is an error")
@quiet
def index(source: str, path: str, splade: str | None, **options: Any) -> None:
    """Build a passage index of SOURCE in the folder PATH.

    SOURCE is a dataset such as ikat:2023-mini, or a folder or file of passages (.jsonl, .jsonl.gz, .jsonl.bz2). Stopped in the middle, the
    same command goes on where it was; an index of the same passages that is there already is kept.
    """
    from ..conversations.passages import PassageFiles
    from ..retrieve import PassageIndex, Splade, SpladeIndex

    corpus = PassageFiles(source) if Path(source).exists() else _dataset_not_file(source).get_corpus_iter(verbose=False)
    built: PassageIndex | SpladeIndex
    given = {name: value for name, value in options.items() if value is not None}
    if splade is None:
        built = PassageIndex(path).index(corpus, **given)
    elif given:
        raise UsageError("--stemmer, --stops, --threads and --expected are for an index for BM25: leave them out with --splade")
    else:
        built = Splade(splade).index(path, corpus)
    click.echo(f"{path}: {len(built)} passages")


def _dataset_not_file(name: str) -> Any:
    try:
        return dataset_named(name)
    except UsageError as error:
        raise UsageError(f"there is no file or folder {name}, and {error}") from None


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="METHOD...")
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2023-mini")
@resources
@click.option("--out", required=True, type=click.Path(), help="folder; each method gets one inside")
@click.option("--turns", help="only these turns, separated by commas")
@click.option("--qrels", "variant", help="another variant of the dataset's qrels")
@click.option(
    "--batch",
    type=int,
    help="turns to retrieve for and re-rank at a time, 128 by default; a finished batch is never repeated; more take more memory, and keep "
    "an LLM that reads passages busier",
)
@click.option("--cache", type=click.Path(dir_okay=False), help="file for searches and scores: no later run with it repeats them")
@click.option("--plan", "only_plan", is_flag=True, help="only show the LLM calls and tokens that would be needed")
@click.option("--profile", "with_profile", is_flag=True, help="show the seconds and the share of each stage")
@quiet
def run(
    names: tuple[str, ...],
    dataset_name: str,
    variant: str | None,
    cache: str | None,
    only_plan: bool,
    with_profile: bool,
    **options: Any,
) -> None:
    """Run METHODs on a dataset; each leaves a folder with its run, turns, scores and ledger.

    A METHOD is one of `ikat methods`, or of a Python file of yours: FILE.py:NAME, or FILE.py for all of them.
    """
    from ..profiling import profile
    from ..runs.session import Session
    from ..runs.systems import methods_in
    from ..store.results import keep_in

    if cache is not None:
        keep_in(cache)
    given = {name: value for name, value in options.items() if value is not None}
    session = Session.open(methods_in(names), dataset_named(dataset_name), qrels=variant, only_plan=only_plan, **given)
    if only_plan:
        click.echo(str(session.plan()))
        return
    with profile() as stages:
        session.run()
    session.show(click.echo)
    session.report(click.echo)
    for entry in session.methods:
        for line in session.resources.deviations(entry):
            click.echo(f"note: {entry.name}: {line}")
    if with_profile:
        click.echo(f"\n{stages.frame().to_string(index=False, formatters={'seconds': '{:.2f}'.format, 'share': '{:.1%}'.format})}")
    session.check_judged()


@main.command()
@click.option("--out", default="demo-out", show_default=True, type=click.Path(), help="folder for the index and the runs")
@click.option("--all", "everything", is_flag=True, help="every method of the catalogue")
@quiet
def demo(out: str, everything: bool) -> None:
    """Compare the systems on the bundled sample, offline, with recorded completions."""
    from ..demo import run_demo
    from ..methods import METHODS

    run_demo(Path(out), tuple(METHODS) if everything else DEMO_METHODS, click.echo)
