"""Every table and figure of every paper, with one command each: `python experiments/papers.py --resources sample --out papers-out`."""

import click

from pyterrier_ikat.cli import main as ikat
from pyterrier_ikat.papers.published import PAPERS, Listing


@click.command(help=__doc__)
@click.option("--resources", default="sample", show_default=True)
@click.option("--out", required=True, type=click.Path())
@click.option("--paper", "only", help="only this one")
def main(resources: str, out: str, only: str | None) -> None:
    """Run each table and figure."""
    for name, paper in PAPERS.items():
        tables = [number for number, what in paper.tables.items() if not isinstance(what, Listing)]
        for number in [*tables, *paper.figures] if only in (None, name) else []:
            click.echo(f"\n== ikat paper {name} {number}\n")
            ikat(["paper", name, number, "--resources", resources, "--out", out], standalone_mode=False)


if __name__ == "__main__":
    main()
