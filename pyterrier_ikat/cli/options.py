"""Options that several commands share."""

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

RESOURCES = (
    click.option("--index", "index_path", required=True, help="folder made by `ikat index`, or a PISA index of SPLADE vectors"),
    click.option("--splade-model", help="the model that encoded the passages of an index that does not say it"),
    click.option("--texts", metavar="PASSAGE_INDEX", help="folder of a passage index that has the texts of a SPLADE index without any"),
    click.option("--llm", "llm_spec", help='such as "openai:gpt-4o temperature=0", recorded:FILE or recorded:sample'),
    click.option("--second-llm", "second_spec", help="the LLM that writes the answer in ..._given, the second one of gtr"),
    click.option(
        "--reranker",
        "reranker_spec",
        help="a cross-encoder's name, bi:NAME for a bi-encoder, monot5:NAME, ensemble, or several with commas",
    ),
    click.option("--rewriter", "rewriter_spec", help="a T5 or BART rewriter's name, such as castorini/t5-base-canard"),
    click.option("--expander", "expander_spec", help="ConvGQR's T5 expansion model"),
)


def resources(command: Command) -> Command:
    """The options that name what a method runs on: index, LLMs, models."""
    return reduce(lambda decorated, option: option(decorated), reversed(RESOURCES), command)
