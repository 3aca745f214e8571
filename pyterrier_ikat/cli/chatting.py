"""The command that talks to a system."""

from typing import Any

import click

from .group import main, quiet


@main.command()
@click.option("--method", "name", required=True, help="a method of `ikat methods`")
@click.option("--index", "index_path", required=True, help="folder made by `ikat index`, or a PISA index of SPLADE vectors")
@click.option("--splade-model", help="the model that encoded the passages of an index that does not say it")
@click.option("--texts", metavar="PASSAGE_INDEX", help="folder of a passage index that has the texts of a SPLADE index without any")
@click.option("--llm", "llm_spec", help='such as "openai:gpt-4o temperature=0" or recorded:sample')
@click.option("--second-llm", "second_spec", help="the second LLM of gtr and of ..._given")
@click.option("--reranker", "reranker_spec", help="as for `ikat run`")
@click.option("--rewriter", "rewriter_spec", help="a T5 or BART rewriter's name, such as castorini/t5-base-canard")
@click.option("--expander", "expander_spec", help="ConvGQR's T5 expansion model")
@click.option("--persona", metavar="FILE", help="statements one per line, a JSON list of them, a topics file, or a dataset")
@click.option("--conversation", "number", help="the chat's name; of a topics file or dataset, the conversation whose persona is taken")
@click.option("--save", "save_to", type=click.Path(), help="a new topics file; written after each turn")
@quiet
def chat(**options: Any) -> None:
    """Talk to a METHOD over your own index; its answers become the history.

    Ctrl-C or Ctrl-D ends the chat. With `--llm recorded:sample --persona ikat:sample --conversation 1-1` the sample's conversation replays.
    """
    from ..chat import open_chat, talk
    from ..llm import Ledger

    ledger = Ledger()
    talk(open_chat(ledger=ledger, **options), echo=click.echo)
    rows = ledger.frame()
    if len(rows):
        click.echo(f"\nLLM ledger:\n{rows.to_string(index=False, na_rep='unknown')}")
