"""Commands that write and check submissions."""

import sys

import click

from .group import dataset_named, main, quiet


@main.command()
@click.argument("folder", metavar="RUN", type=click.Path())
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2025")
@click.option("--run-id", required=True, help="the run's name, without white space")
@click.option("--run-type", required=True, help="automatic or manual; 2024 also only_response; 2025 generation-only")
@click.option("--team", help="the team's id, 2025 only")
@click.option("--out", required=True, type=click.Path(), help="the file to write")
@quiet
def submit(folder: str, dataset_name: str, run_id: str, run_type: str, team: str | None, out: str) -> None:
    """Write the submission of RUN, a folder made by `ikat run`; nothing is written that `ikat validate` refuses."""
    from ..runs import RunFolder
    from ..submit import write_submission
    from ..submit.problem import lines_of

    problems = write_submission(RunFolder(folder), dataset_named(dataset_name), out, run_id=run_id, run_type=run_type, team=team)
    for line in lines_of(problems):
        click.echo(line, err=True)
    click.echo(out)


@main.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--dataset", "dataset_name", required=True, help="such as ikat:2025")
@quiet
def validate(path: str, dataset_name: str) -> None:
    """Check a submission, ours or not; exit code 1 when it has errors."""
    from ..submit import validate as check
    from ..submit.problem import errors, lines_of

    problems = check(path, dataset_named(dataset_name))
    lines, wrong = lines_of(problems), len(errors(problems))
    for line in lines:
        click.echo(line)
    click.echo(f"{path}: {wrong} errors, {len(lines) - wrong} warnings")
    if wrong:
        sys.exit(1)
