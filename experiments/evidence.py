"""Evidence on real turns with real outputs of language models: the tables of docs/evidence.md.

    IKAT_DATA=... python experiments/evidence.py systems

Without a name, all tables are made. `--write` puts them into the page. The outputs are those of
`ikat datasets`, which are fetched from their authors: cite them if you use their outputs. `--keep
FOLDER` keeps indexes and searches, so each text is encoded only once.
"""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from evidence_parts.best_query import best_query, other_prompts
from evidence_parts.common import table
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
SHORT = (
    "raw utterance",
    "manual rewrite (a person's)",
    "rewrite",
    "answer",
    "rewrite and answer, one query",
    "10 samples, lists fused",
)
"""The rows of the short table at the top of the page, from those of `systems`."""
SHORT_COLUMNS = {
    "what is searched for": "what is searched for",
    "LLM calls": "LLM calls",
    "BM25": "BM25",
    "dense": "MiniLM",
    "both": "weighted sum of both",
}
"""Column of the short table -> column of `systems`."""


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(list(TABLES)))
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="a folder for indexes and searches",
)
@click.option("--write", is_flag=True, help="into docs/evidence.md")
def main(names: tuple[str, ...], keep: Path | None, write: bool) -> None:
    """Make the tables."""
    with TemporaryDirectory() as folder:
        for name in names or TABLES:
            made = TABLES[name](keep or Path(folder))
            click.echo(f"{name}\n\n{made}\n")
            if write:
                put(DOCS / "evidence.md", f"evidence-{name}", made)
            if write and name == "systems":
                put(DOCS / "evidence.md", "main-result", short(made))


def put(page: Path, name: str, made: str) -> None:
    """Replace a table on the page."""
    text = page.read_text(encoding="utf-8")
    start = f"<!-- generated: {name} -->\n"
    before, mark, rest = text.partition(start)
    _old, end, after = rest.partition("\n<!-- end -->")
    if mark and end:
        page.write_text(f"{before}{start}{made}{end}{after}", encoding="utf-8")


def short(made: str) -> str:
    """The short table at the top of the page: rows and columns of `systems`, without arrows."""
    lines = made.split("\n\n")[0].splitlines()
    head, _, *rows = [line.strip("| ").split(" | ") for line in lines]
    columns = [head.index(column) for column in SHORT_COLUMNS.values()]
    shown = []
    for row in rows:
        if row[0] in SHORT:
            shown.append([row[column].removesuffix(" ↑").removesuffix(" ↓") for column in columns])
    calls = [int(row[head.index("LLM calls")]) for row in rows]
    sentence = r"on all other conversations, conversation by conversation: (\.\d+)"
    picked = float(re.findall(sentence, made)[0])
    best = "whichever system is best on the other conversations"
    last = [best, f"1 to {max(calls)}", "", "", f"{picked:.3f}"]
    return table(list(SHORT_COLUMNS), [*shown, last])


if __name__ == "__main__":
    main()
