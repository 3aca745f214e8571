"""The command that serves systems at an address."""

from typing import Any

import click

from .main import main, print_ledger, quiet, resources


@main.command(
    section="Live",
    example="""\
ikat serve --method gtr --index mini.index --llm openai:gpt-4o \\
    --second-llm openai:gpt-4o --port 8000
ikat serve --method ad --method my_systems.py:gate --index mini.index \\
    --llm openai:gpt-4o --mcp""",
)
@click.option("--method", "names", required=True, multiple=True, help="a method of `ikat methods`, or FILE.py:NAME; repeat it for several")
@resources
@click.option("--host", default="127.0.0.1", show_default=True, help="the address to listen on; others than loopback need IKAT_TOKEN")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="the port; 0 for a free one")
@click.option("--origin", "origins", multiple=True, metavar="URL", help="a page of another site that may use it from a browser")
@click.option("--mcp", is_flag=True, help="also offer the tools ask and search by the Model Context Protocol, at /mcp")
@click.option("--workers", type=click.IntRange(1), default=16, show_default=True, help="requests that systems work on at a time")
@click.option("--waiting", type=click.IntRange(0), default=64, show_default=True, help="requests that may wait; more are refused with 503")
@click.option("--dataset", help="with recorded completions, the dataset whose conversations they answer")
@quiet
def serve(names: tuple[str, ...], workers: int, waiting: int, **options: Any) -> None:
    """Serve METHODs by OpenAI's chat protocol, with a search endpoint and a chat page.

    Each method is a model. Requests hold the whole conversation, so nothing is stored. With the environment variable IKAT_TOKEN set,
    every request needs this token as its API key. Ctrl-C or SIGTERM stops the server once the requests under way are finished.
    """
    from ..llms import Ledger
    from ..serving import Limits, serve

    ledger = Ledger()
    try:
        serve(names, limits=Limits(workers=workers, waiting=waiting), ledger=ledger, echo=click.echo, **options)
    except KeyboardInterrupt:
        click.echo("stopped at once: requests under way got no answer", err=True)
        raise click.exceptions.Exit(2) from None
    finally:
        print_ledger(ledger)
