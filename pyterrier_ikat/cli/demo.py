"""The demo: systems on the bundled sample, what each one does, and the winner."""

from pathlib import Path
from typing import Any

import click

from ..tables import format_score, wrapped
from .main import main
from .options import dataset_named
from .run import print_results

SYSTEMS = (
    *("raw", "all_utterances", "human_qr", "qr", "ad", "qd", "aqd", "aqd_a", "llama10"),
    *("mq4cs_qr_deberta", "wghtdrerank_1", "short_long_2", "rtg", "gtr"),
)
MEASURE = "nDCG@5"
ABOUT_THE_DEMO = (
    "The bundled sample has 4 conversations, 24 turns and 230 passages. It was written for this package, with recorded completions (model "
    "`recorded`, no live LLM). It shows how the systems work; its scores do not show that one is better than another. MiniLM stands in for "
    "every re-ranker, BM25 for SPLADE, recorded rewrites for T5."
)
REPORTED = 10
"""How many passages of each run and turn the report of the demo has."""


@main.command(section="Run", example="ikat demo\nikat report demo-out/raw demo-out/gtr --out two.html")
@click.option("--out", default="demo-out", show_default=True, type=click.Path(), help="folder for the index, the runs and the report")
def demo(out: str) -> None:
    """Compare systems on the bundled sample, offline, with recorded completions.

    At the end, the command says what each system does. It also writes a report: one HTML file that shows each conversation with the
    queries and passages of every system, and says why one wins.
    """
    from ..methods import METHODS
    from ..papers.paper_resources import OF_THE_SAMPLE
    from ..retrieve import PassageIndex
    from ..study import run
    from ..study.in_folders import check_places

    folder, dataset = Path(out), dataset_named("ikat:sample")
    check_places(SYSTEMS, folder)
    click.echo(f"{wrapped(ABOUT_THE_DEMO)}\n")
    index = PassageIndex(folder / "sample.index").index(dataset.get_corpus_iter(verbose=False))
    resources: dict[str, Any] = {"index": index, **OF_THE_SAMPLE}
    results = run(list(SYSTEMS), dataset, out=folder, baseline="human_qr", **resources)
    print_results(results)
    click.echo("\nWhat the systems do:\n")
    for name in SYSTEMS:
        click.echo(wrapped(f"{name.ljust(16)}  {METHODS[name].summary.replace('``', '')}", "  ", " " * 18))
    score, best = max(zip(results.table[MEASURE], results.table["name"], strict=True))
    click.echo(f"\n{best} has the highest {MEASURE}: {format_score(score)}.")
    report = results.report(dataset=dataset, passages=REPORTED).save(folder / "report.html")
    click.echo(f"\nReport, to open in a browser: {Path(report).resolve().as_uri()}")
