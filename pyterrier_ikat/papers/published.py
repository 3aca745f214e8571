"""What the papers publish, from their files in ``methods/data``: tables of scores, of labels, of systems and of prompts, and figures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..errors import UsageError
from ..methods.catalogue import NIST, PUBLISHED, TABLES, PublishedTable

GPT_35 = "gpt-3.5-turbo"
STATEMENTS_NIST, STATEMENTS_ORGANISERS = "NIST's PTKB judgements", "the organisers' PTKB judgements"
RESPONSES = "judges of responses"

PASSAGES, PTKB, ANSWERS = "passages", "statements", "responses"

MISSING = {
    NIST: "the NIST judgements of this year: put them into the folder that IKAT_DATA names, or give --qrels FILE --judged-by NIST",
    GPT_35: "GPT-3.5's judgements, which are not published: `ikat judge` with that model makes such labels, --qrels FILE takes them",
    STATEMENTS_NIST: "NIST's PTKB judgements of this year, which are published for 2023 only",
    STATEMENTS_ORGANISERS: "the organisers' PTKB judgements, which come with the topics of each year",
    RESPONSES: "the judges that the resources file names",
}
"""Kind of judgement -> what is missing without it, and how to get it."""


@dataclass(frozen=True)
class Matrix:
    """A published table of two judges' labels for the same pairs.

    Attributes:
        year: the year of the track.
        judge: the model whose labels are the rows.
        counts: the published counts, rows: the model's labels, columns: NIST's.
        said: what a reader must know about the published counts.
        threshold: the lowest relevant label, if labels are binary; None for the labels themselves.
    """

    year: int
    judge: str
    counts: list[list[int]]
    said: str
    threshold: int | None = None

    def frame(self, counts: pd.DataFrame | None = None) -> pd.DataFrame:
        """The published counts, or others: a row per label of the model, a column per label of NIST."""
        table = pd.DataFrame(self.counts) if counts is None else counts
        if self.threshold is None:
            labels = sorted({*range(5), *table.index})
            table = table.reindex(index=labels, columns=labels, fill_value=0)
        names = list(map(str, table.index)) if self.threshold is None else [f"< {self.threshold}", f">= {self.threshold}"]
        return pd.DataFrame({"label": names} | dict(zip(names, table.to_numpy().T, strict=True)))


@dataclass(frozen=True)
class Listing:
    """A published table without scores, which describes systems.

    Attributes:
        columns: the titles of its columns.
        rows: a line per system, its cells separated by semicolons; the first is our name of the system.
    """

    columns: list[str]
    rows: list[str]

    @property
    def systems(self) -> list[str]:
        """The names of its rows."""
        return [row.split("; ")[0] for row in self.rows]


@dataclass(frozen=True)
class Prompts:
    """A published table of a prompt, and our templates that correspond to it.

    Attributes:
        what: the purpose of the prompt.
        templates: the names of our templates.
    """

    what: str
    templates: list[str]


@dataclass(frozen=True)
class Figure:
    """A published figure.

    Attributes:
        kind: ``"judged"`` (Judged@10 of each system), ``"depth"`` or ``"conversation"`` (means by turn number or by conversation).
        part: the table whose turns and judgements it shares.
        systems: the systems that it draws. Our copies lack the legends, because they are pictures. If the text doesn't name the systems,
            these are the ones that the paper proposes.
        measure: the measure that it draws, with the paper's name for it.
    """

    kind: str
    part: PublishedTable
    systems: list[str]
    measure: str

    @property
    def points(self) -> dict[str, float]:
        """System -> published score, if the paper also prints it as a number."""
        scores = self.part.frame()
        return {} if self.kind != "judged" or self.measure not in scores else scores.loc[list(self.systems), self.measure].to_dict()


Found = tuple[PublishedTable, ...] | Matrix | Listing | Prompts
"""A numbered table."""


@dataclass(frozen=True)
class Paper:
    """A paper with systems of this package.

    Attributes:
        title: authors and title.
        link: DOI or arXiv; empty if unknown.
        engine: the search engine of its first stage.
        tables: number -> the parts of a table of scores, or another kind of table.
        figures: number -> figure.
        deviations: what differs from the paper, or what we decided because it doesn't say, and why.
    """

    title: str
    link: str
    engine: str
    tables: Mapping[str, Found]
    figures: Mapping[str, Figure]
    deviations: list[tuple[str, str]]

    @property
    def parts(self) -> list[PublishedTable]:
        """All tables of scores."""
        return [part for table in self.tables.values() if isinstance(table, tuple) for part in table]


def _paper(said: Mapping[str, Any]) -> Paper:
    """A paper as its file has it."""
    tables: dict[str, Found] = {number: tuple(TABLES[part["key"]] for part in parts) for number, parts in said["tables"].items()}
    tables |= {number: Matrix(**one) for number, one in said.get("matrices", {}).items()}
    tables |= {number: Listing(one["columns"], one["rows"].splitlines()) for number, one in said.get("listings", {}).items()}
    tables |= {number: Prompts(**one) for number, one in said.get("prompts", {}).items()}
    ordered = sorted(tables, key=lambda number: int(number) if number.isdecimal() else 9999)
    figures = {}
    for number, one in said.get("figures", {}).items():
        part = TABLES[one["table"]]
        figures[number] = Figure(one["kind"], part, one.get("systems", part.systems), one["measure"])
    return Paper(said["title"], said["link"], said["engine"], {number: tables[number] for number in ordered}, figures, said["deviations"])


PAPERS = {name: _paper(said) for name, said in PUBLISHED.items()}
"""Name -> paper."""
ROMAN = {"1": "I", "2": "II", "3": "III", "4": "IV"}


def find_paper(name: str) -> Paper:
    """The paper with this name.

    Raises:
        UsageError: when there is none.

    Example:
        >>> list(find_paper("nii_2024").tables)
        ['I', 'II', 'III', 'IV']
    """
    if name not in PAPERS:
        raise UsageError(f"there is no paper {name!r}: choose one of {', '.join(PAPERS)}")
    return PAPERS[name]


def find_table(name: str, number: str) -> Found | Figure:
    """A paper's table or figure. ``4`` means ``IV`` if the paper uses Roman numbers.

    Raises:
        UsageError: when there is no such paper, or it has no such table.

    Example:
        >>> find_table("nii_2024", "I")[0].year, find_table("nii_2024", "4")[0].year
        (2023, 2024)
    """
    paper = find_paper(name)
    known: dict[str, Found | Figure] = {**paper.tables, **paper.figures}
    number = number if number in known else ROMAN.get(number, number)
    if number not in known:
        raise UsageError(f"{name} has no table {number!r}: choose one of {', '.join(known)}")
    return known[number]
