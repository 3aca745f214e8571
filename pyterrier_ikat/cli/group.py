"""The command line's frame: every error of the user's making is one line and exit code 2, every warning one line."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ..errors import IkatError, commands_advised


class _Group(click.Group):
    """Prints our errors as one line; anything else is a defect and keeps its traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_at_home(word) for word in args])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with commands_advised():
                return super().invoke(ctx)
        except IkatError as error:
            click.echo(f"ikat: {error}", err=True)
            sys.exit(2)


def _at_home(word: str) -> str:
    """The argument with the home folder for ``~/``, which shells leave in ``--out=~/runs``."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (os.path.expanduser(value) if value.startswith("~/") else value)


@click.group(cls=_Group)
@click.version_option(package_name="pyterrier_ikat", prog_name="ikat")
def main() -> None:
    """Conversational search systems of the TREC iKAT papers, on your index and your LLM."""


def dataset_named(name: str) -> Any:
    """The dataset of that name."""
    from ..conversations import find_dataset

    return find_dataset(name)


def quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Show warnings as one line each, without the source line that raised them."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        import warnings

        warnings.showwarning = lambda message, *_, **__: click.echo(f"ikat: warning: {message}", err=True)
        command(*args, **kwargs)

    return run
