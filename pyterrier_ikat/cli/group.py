"""The command line's frame: every error of the user's making is one line and exit code 2, every warning one line."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ..errors import IkatError


class _Group(click.Group):
    """Prints our errors as one line; anything else is a defect and keeps its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except IkatError as error:
            click.echo(f"ikat: {error}", err=True)
            sys.exit(2)


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
