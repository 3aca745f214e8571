"""The command that plays an interactive run of the track."""

from typing import Any

import click

from .main import FORMAT, main, print_ledger, quiet, resources
from .output import show


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
    from ..interactive import interact as play
    from ..llms import Ledger

    ledger, given = Ledger(), {key: value for key, value in options.items() if value is not None}
    run = play(address, name, run_id=run_id, out=out, ledger=ledger, tell=lambda step: click.echo(step, err=True), **given)
    show(run.latency(), form)
    print_ledger(ledger, " (of this command)", err=form != "text")
    some = options.get("sessions")
    rest = f"stopped after {some} conversations: the same command without --sessions continues" if some else ""
    state = "every conversation has ended" if run.finished else rest or "not finished: the same command continues"
    click.echo(f"\n{out}: {state}", err=form != "text")
