"""Evidence on real turns with real outputs of language models: the tables of docs/evidence.md, as Markdown.

    IKAT_DATA=... python experiments/evidence.py systems

Without a name, all tables are made. `--write` puts them into the page. The outputs are those of `ikat datasets`, which are fetched from
their authors: cite them if you use their outputs. `--keep FOLDER` keeps indexes and searches, so each text is encoded only once.
"""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from evidence_parts.best_query import best_query, other_prompts
from evidence_parts.labels import gpt4_and_nist, nuggets
from evidence_parts.proxy import proxy
from evidence_parts.runs import published_runs
from evidence_parts.systems import systems, tuning
from evidence_parts.variance import variance

DOCS = Path(__file__).parents[1] / "docs"
TABLES: dict[str, Callable[[Path], str]] = {
    "runs": lambda _: published_runs(),
    "proxy": proxy,
    "systems": systems,
    "tuning": tuning,
    "best-query": best_query,
    "other-prompts": other_prompts,
    "variance": variance,
    "gpt4": lambda _: gpt4_and_nist(),
    "nuggets": lambda _: nuggets(),
}
"""Name -> the function that makes the table, from the folder that keeps indexes and searches."""


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(list(TABLES)))
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="a folder for indexes and searches")
@click.option("--write", is_flag=True, help="into docs/evidence.md")
def main(names: tuple[str, ...], keep: Path | None, write: bool) -> None:
    """Make the tables."""
    with TemporaryDirectory() as folder:
        for name in names or TABLES:
            made = TABLES[name](keep or Path(folder))
            click.echo(f"{name}\n\n{made}\n")
            if write:
                put(DOCS / "evidence.md", name, made)


def put(page: Path, name: str, made: str) -> None:
    """Put a table into its place on the page. The short table at the top has some of the figures of `systems`: a test compares them."""
    place = re.compile(rf"(<!-- generated: evidence-{name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
    page.write_text(place.sub(lambda found: f"{found[1]}{made}{found[2]}", page.read_text(encoding="utf-8"), count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
