"""The help texts of the command line."""

import click
from click.testing import CliRunner

from pyterrier_ikat.cli import main

WIDTH = 80


def help_texts(_: str) -> str:
    """``ikat --help``, then a section for each command, in the order of their names."""
    return "\n\n".join([_block("ikat", []), *(f"## ikat {name}\n\n{_block(f'ikat {name}', [name])}" for name in sorted(main.commands))])


def _block(shown: str, arguments: list[str]) -> str:
    done = CliRunner().invoke(main, [*arguments, "--help"], prog_name="ikat", terminal_width=WIDTH)
    if done.exit_code:
        raise click.ClickException(f"{shown} --help fails: {done.output}")
    return f"```text\n$ {shown} --help\n{done.output.rstrip()}\n```"
