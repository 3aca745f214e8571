"""What the papers publish: each table of scores, read from ``data/PAPER.toml``, and the catalogue that sets it beside the methods.

A paper's file has its title, the search engine of its first stage, what differs here and why, and its tables and figures as printed. The
room ``papers`` runs them; here are the tables of scores alone.
"""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import UsageError
from .catalogue import METHODS, age, calls_per_turn
from .definition import Method

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NIST = "NIST"
_CELL = re.compile(r"^(-|[\d.]+)([a-z;]*)$")


@dataclass(frozen=True)
class PublishedTable:
    """A published table of scores, or a part of one with its own judgements.

    Attributes:
        key: its name here, such as ``"generate_then_retrieve_1"``.
        paper: the paper and the table's number.
        year: the year of the track.
        qrels: the judgements, in words.
        measures: the columns.
        scores: one line per system: our name for it, then its scores, each followed by the letters of the systems from which the paper
            says that it differs significantly. A row without a method here has a name of its own.
        judgements: who judged: ``NIST``, a model's name, or a kind of judgement of :mod:`pyterrier_ikat.papers.published`.
        about: what is ranked or judged: passages, statements or responses.
        turns: how many turns the scores average over; ``None`` when it is unknown.
        blocks: the groups of systems that the paper tests against each other; empty: all systems.
        listed: the name of the list of these turns, if it is public; see `ikat datasets`.
    """

    key: str
    paper: str
    year: int
    qrels: str
    measures: list[str]
    scores: str
    judgements: str = NIST
    about: str = "passages"
    turns: int | None = None
    blocks: tuple[list[str], ...] = ()
    listed: str = ""

    @property
    def systems(self) -> list[str]:
        """The names of its rows that have a method here."""
        return [name for name in self._rows() if name in METHODS]

    @property
    def only_published(self) -> list[str]:
        """The names of its other rows."""
        return [name for name in self._rows() if name not in METHODS]

    def frame(self) -> pd.DataFrame:
        """One row per system (index: its name here), one column per measure. A score that the paper omits is missing."""
        rows = self._rows()
        values = [[float("nan") if score == "-" else float(score) for score, _ in row] for row in rows.values()]
        return pd.DataFrame(values, index=list(rows), columns=self.measures)

    def letters(self) -> pd.DataFrame:
        """The published marks of significance, with the shape of :meth:`frame`; empty where there is none."""
        rows = self._rows()
        return pd.DataFrame([[marks for _, marks in row] for row in rows.values()], index=list(rows), columns=self.measures)

    def _rows(self) -> dict[str, list[tuple[str, str]]]:
        cells = [line.split() for line in self.scores.splitlines() if line.strip()]
        return {name: [_CELL.findall(one)[0] for one in scores] for name, *scores in cells}


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


PUBLISHED = {path.stem: _read(path) for path in sorted((Path(__file__).parent / "data").glob("*.toml"), key=lambda path: age(path.stem))}
"""Paper -> its file."""
TABLES = {part["key"]: PublishedTable(**part) for paper in PUBLISHED.values() for parts in paper["tables"].values() for part in parts}
"""Key -> table of scores."""


COLUMNS = ["name", "paper", "tables", "expression", "llm_calls", "queries", "depth", "manual", "models", "published", "turns"]


def catalogue(methods: Iterable[Method] = METHODS.values()) -> pd.DataFrame:
    """A table of methods: those of the papers, or the given ones.

    Returns:
        One row per method: ``name``, ``paper``, ``tables`` (the tables that report it), ``expression``, ``llm_calls`` and ``queries`` per
        turn (see :func:`pyterrier_ikat.methods.catalogue.calls_per_turn`), ``depth`` (passages per query), ``manual``, ``models`` (the
        paper's), ``published`` (table -> measure -> score) and ``turns`` (table -> how many turns its scores average over).

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.catalogue().set_index("name").loc["ad", "expression"]
        'ikat.Answer(llm) >> retriever % 1000 >> reranker'
    """
    rows = []
    for entry in methods:
        calls, queries = calls_per_turn(entry)
        about = {name: getattr(entry, name) for name in ("name", "paper", "expression", "depth", "manual", "models")}
        reported = published_scores(entry)
        turns = {table: TABLES[table].turns for table in reported}
        rows.append({**about, "llm_calls": calls, "queries": queries, "tables": ", ".join(reported), "published": reported, "turns": turns})
    return pd.DataFrame(rows, columns=COLUMNS)


def published_scores(entry: Method) -> dict[str, dict[str, float]]:
    """The published scores of a method: table -> measure -> score, as printed."""
    return {name: table.frame().loc[entry.name].to_dict() for name, table in TABLES.items() if entry.name in table.systems}


def published(table: str) -> pd.DataFrame:
    """The scores of a paper's table.

    Args:
        table: a key of ``ikat.methods.TABLES``, such as ``"generate_then_retrieve_1"``.

    Returns:
        One row per system (index: its name here), one column per measure, as the paper names it.

    Raises:
        UsageError: when there is no such table.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> float(ikat.methods.published("generate_then_retrieve_1").loc["aqd_a", "nDCG@5"])
        0.6826
    """
    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}: choose one of {', '.join(TABLES)}")
    return TABLES[table].frame()
