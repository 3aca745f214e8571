"""All methods by name, from the papers and from a user's file, with costs and published scores.

What a paper publishes is in ``data/PAPER.toml``: its title, the search engine of its first stage,
what differs here and why, and its tables and figures as printed. The room ``papers`` runs them;
here are the tables of scores alone.
"""

import difflib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations import conversation
from ..errors import UsageError
from ..llms import llm
from ..planning import Asks, Plan
from ..store.python_files import load_python
from .definition import Method, StandIn, methods_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NO_PAPERS = ("catalogue", "definition")
"""The files of this folder without methods."""


def catalogue_position(name: str) -> tuple[bool, str, str]:
    """The position of a file in the catalogue: without a year first, then by year, ours last."""
    year = name.rpartition("_")[2]
    if not year.isdecimal():
        year = ""
    return name == "ours", year, name


def _papers() -> list[ModuleType]:
    """Import the files of this folder that have methods, in the order of the catalogue."""
    names = [module.name for module in iter_modules([str(Path(__file__).parent)])]
    papers = []
    for name in sorted(names, key=catalogue_position):
        if name not in _NO_PAPERS:
            papers.append(import_module(f"{__package__}.{name}"))
    return papers


def _methods_in(module: ModuleType) -> dict[str, Method]:
    """The methods of a module by name, in the order of its lines."""
    methods = {}
    for value in vars(module).values():
        is_own = getattr(value, "__module__", "") == module.__name__
        if is_own and hasattr(value, "methods"):
            for entry in methods_of(value):
                methods[entry.name] = entry
    return methods


METHODS: dict[str, Method] = {}
for _paper in _papers():
    METHODS.update(_methods_in(_paper))


def find(name: str) -> Method:
    """Return the method with this name, from the papers or from a user's file.

    Args:
        name: ``NAME``, or ``FILE.py:NAME`` for a method, a function whose arguments name resources,
            or a pipeline of a file. Arguments of the function follow:
            ``NAME:argument=value,...``. The name of a method with arguments has them in
            alphabetical order, and can be a folder's.

    Raises:
        UsageError: when there is no such method, argument or value. The message names the nearest
            one.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.find("aqd_a").needs
        ['llm', 'retriever', 'reranker']
        >>> ikat.methods.find("mq4cs:n=3").name
        'mq4cs-n=3'
    """
    [entry] = find_all(name)
    return entry


def find_all(name: str) -> list[Method]:
    """Like :func:`find`, but for a name that ends in ``.py``, all methods of the file."""
    name, *settings = re.split(r":(?=\w+=)", name, maxsplit=1)
    path, _, method_name = name.rpartition(":")
    if name.endswith(".py"):
        entries = list(_methods_in(load_python(name, "a method")).values())
    elif path:
        entries = [_in_file(path, method_name)]
    else:
        entries = [_named(name, METHODS, "`ikat methods` lists them")]
    if not settings:
        return entries
    arguments: dict[str, str] = {}
    for assignment in re.split(r",(?=\w+=)", settings[0]):
        argument, _, value = assignment.partition("=")
        if argument in arguments:
            raise UsageError(f"{name}: the argument {argument} is given twice: omit one")
        arguments[argument] = value
    written = ",".join(f"{argument}={value}" for argument, value in sorted(arguments.items()))
    entries_with_arguments = []
    for entry in entries:
        folder = re.sub(r"[^\w.=,+-]+", "-", f"{entry.name}-{written}")
        entries_with_arguments.append(entry.with_arguments(arguments, folder))
    return entries_with_arguments


def _in_file(path: str, name: str) -> Method:
    """Return a method, function or pipeline of a user's file as a method."""
    if not path.endswith(".py") and path in METHODS:
        raise UsageError(f"{path}:{name}: an argument of a method is written {path}:NAME=VALUE")
    module = load_python(path, "a method")
    methods = _methods_in(module)
    if name in methods:
        return methods[name]
    value = vars(module).get(name)
    if isinstance(value, pt.Transformer):
        pipeline: pt.Transformer = value
        return Method(name, lambda: pipeline)
    if callable(value):
        return methods_of(value)[0]
    functions = []
    for function_name, function in vars(module).items():
        is_own = inspect.isfunction(function) and function.__module__ == module.__name__
        if is_own and not function_name.startswith("_"):
            functions.append(function_name)
    has = ", ".join(methods or functions) or "no method"
    return _named(name, methods, f"{path} has {has}")


def _named(name: str, methods: dict[str, Method], otherwise: str) -> Method:
    """Return the method of this name.

    Raises:
        UsageError: with similar names, or with ``otherwise`` if there are none.
    """
    if name in methods:
        return methods[name]
    similar = difflib.get_close_matches(name, methods, n=3)
    if similar:
        repair = f"did you mean {' or '.join(similar)}?"
    elif re.match(r"\w+=", name):  # a shell has split the words of a model
        repair = f"what belongs to a model stands with it in quotes, --llm 'MODEL {name}'"
    else:
        repair = otherwise
    raise UsageError(f"there is no method {name!r}: {repair}")


@cache
def calls_per_turn(entry: Method) -> tuple[str, str]:
    """The LLM calls of one turn and its queries to the retriever, as the system's plan counts them.

    ``s`` is the number of chosen statements, if the counts depend on it. If the model decides how
    many queries it writes, at least one per call is counted. The counted turn follows two
    responses, and the earlier one is long enough to be summarised.

    Example:
        >>> calls_per_turn(find("aqd")), calls_per_turn(find("rtg"))
        (('2', '5'), ('4 + s', 'at least s'))
    """
    plan = _CountingPlan()
    retriever = StandIn("retriever")
    other = StandIn("other")
    model = llm("recorded:sample")
    pipeline = entry.build(
        llm=model,
        second_llm=model,
        rewriter=other,
        expander=other,
        retriever=retriever,
        dense=retriever,
        reranker=other,
    )
    plan.follow(pipeline, _counted_turns())
    calls = _as_text(plan.calls)
    queries = _as_text(retriever.rows)
    return calls, f"at least {queries}" if plan.open_ended else queries


STATEMENTS_OF_COUNTED_TURNS = {"1_": 1, "2_": 2}
"""Prefix of a counted turn's qids -> how many statements it has, which are all chosen."""


class _CountingPlan(Plan):
    """A plan that counts the calls of each turn, and nothing else."""

    def __init__(self) -> None:
        super().__init__("", set())
        self.calls = Counter[str]()
        self.open_ended = False

    def ask(self, stage: Asks, frame: pd.DataFrame) -> list[Any]:
        """Count the requests of a stage; return typical outcomes."""
        self.calls.update(request.qid for request in stage.requests(frame))
        self.open_ended = self.open_ended or stage.open_ended
        return stage.typical(frame)


@cache
def _counted_turns() -> pd.DataFrame:
    """The counted turns, planned together, because a plan's time hardly depends on their number."""
    turns = []
    for count in STATEMENTS_OF_COUNTED_TURNS.values():
        persona = {str(number): f"statement {number}" for number in range(1, count + 1)}
        chat = [
            {"role": "user", "content": f"{count} teas?"},
            {"role": "assistant", "content": f"{count} long " * 40},
            {"role": "user", "content": "green?"},
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "Which?"},
        ]
        turn = conversation(chat, persona, number=str(count))
        turns.append(turn.assign(qresolved=turn["query"], qgoldptkb=[list(persona)]))
    return pd.concat(turns, ignore_index=True)


def _as_text(counts: Mapping[str, int]) -> str:
    """The counts by qid as a text such as ``4 + s``, where ``s`` is the number of statements."""
    totals = []
    for turn in STATEMENTS_OF_COUNTED_TURNS:
        totals.append(sum(count for qid, count in counts.items() if qid.startswith(turn)))
    with_one, with_two = totals
    per_statement = with_two - with_one
    fixed = with_one - per_statement
    if per_statement == 0:
        return str(fixed)
    variable = "s" if per_statement == 1 else f"{per_statement}s"
    return f"{fixed} + {variable}" if fixed > 0 else variable


# The scores that the papers publish

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
        scores: one line per system: our name for it, which may have arguments
            (``ptkb_str:shots=1``), then its scores, each followed by the letters of the systems
            from which the paper says that it differs significantly. A row without a method here has
            a name of its own.
        judgements: who judged: ``NIST``, a model's name, or a kind of judgement of
            :mod:`pyterrier_ikat.papers.published`.
        about: what is ranked or judged: passages, statements or responses.
        turns: how many turns the scores average over; ``None`` when it is unknown.
        blocks: the groups of systems that the paper tests against each other; empty: all systems.
        listed: the name of the list of these turns, if it is public; see `ikat datasets`.
        recorded: key of a resources file -> the model that replays the paper's own completions of
            these turns, if they are public.
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
    recorded: Mapping[str, str] = field(default_factory=dict)

    @property
    def systems(self) -> list[str]:
        """The names of its rows that have a method here, as :func:`find` takes them."""
        return [name for name in self._rows() if name.partition(":")[0] in METHODS]

    @property
    def only_published(self) -> list[str]:
        """The names of its other rows."""
        return [name for name in self._rows() if name.partition(":")[0] not in METHODS]

    def frame(self) -> pd.DataFrame:
        """One row per system, one column per measure. A score that the paper omits is missing."""
        rows = self._rows()
        scores = []
        for cells in rows.values():
            scores.append([float("nan") if score == "-" else float(score) for score, _ in cells])
        return pd.DataFrame(scores, index=list(rows), columns=self.measures)

    def letters(self) -> pd.DataFrame:
        """The published marks of significance, in the shape of :meth:`frame`, empty without one."""
        rows = self._rows()
        letters = [[marks for _, marks in cells] for cells in rows.values()]
        return pd.DataFrame(letters, index=list(rows), columns=self.measures)

    def _rows(self) -> dict[str, list[tuple[str, str]]]:
        """System -> its scores as printed, each with its letters."""
        rows = {}
        for line in self.scores.splitlines():
            if line.strip():
                name, *cells = line.split()
                rows[name] = [_CELL.findall(cell)[0] for cell in cells]
        return rows


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    with path.open("rb") as file:
        return tomllib.load(file)


def _read_published() -> dict[str, dict[str, Any]]:
    """Read the files of the papers, in the order of the catalogue."""
    paths = (Path(__file__).parent / "data").glob("*.toml")
    return {
        path.stem: read_toml(path)
        for path in sorted(paths, key=lambda path: catalogue_position(path.stem))
    }


PUBLISHED = _read_published()
"""Paper -> its file."""


def _published_tables() -> dict[str, PublishedTable]:
    tables = {}
    for paper in PUBLISHED.values():
        for parts in paper["tables"].values():
            for part in parts:
                tables[part["key"]] = PublishedTable(**part)
    return tables


TABLES = _published_tables()
"""Key -> table of scores."""


def origin(entry: Method) -> str:
    """Whose method it is: ``"papers"``, ``"organisers"`` (their baselines) or ``"ours"``.

    Example:
        >>> origin(find("aqd")), origin(find("organizers_2023_auto")), origin(find("raw"))
        ('papers', 'organisers', 'ours')
    """
    if entry.paper.startswith("organisers'"):
        return "organisers"
    return "ours" if entry.paper.startswith(("ours", "baseline without an LLM")) else "papers"


CATALOGUE_COLUMNS = [
    "name",
    "paper",
    "tables",
    "expression",
    "llm_calls",
    "queries",
    "depth",
    "manual",
    "models",
    "published",
    "turns",
]


def catalogue(methods: Iterable[Method] = METHODS.values()) -> pd.DataFrame:
    """A table of methods: those of the papers, or the given ones.

    Returns:
        One row per method: ``name``, ``paper``, ``tables`` (the tables that report it),
        ``expression``, ``llm_calls`` and ``queries`` per turn (see
        :func:`pyterrier_ikat.methods.catalogue.calls_per_turn`), ``depth`` (passages per query),
        ``manual``, ``models`` (the paper's), ``published`` (table -> measure -> score) and
        ``turns`` (table -> how many turns its scores average over).

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.catalogue().set_index("name").loc["ad", "expression"]
        'ikat.Answer(llm) >> retriever % 1000 >> reranker'
    """
    rows = []
    for entry in methods:
        calls, queries = calls_per_turn(entry)
        scores = published_scores(entry)
        row = {
            "name": entry.name,
            "paper": entry.paper,
            "tables": ", ".join(scores),
            "expression": entry.expression,
            "llm_calls": calls,
            "queries": queries,
            "depth": entry.depth,
            "manual": entry.manual,
            "models": entry.models,
            "published": scores,
            "turns": {table: TABLES[table].turns for table in scores},
        }
        rows.append(row)
    return pd.DataFrame(rows, columns=CATALOGUE_COLUMNS)


def published_scores(entry: Method) -> dict[str, dict[str, float]]:
    """The published scores of a method: table -> measure -> score, as printed."""
    scores = {}
    for key, table in TABLES.items():
        if entry.name in table.systems:
            scores[key] = table.frame().loc[entry.name].to_dict()
    return scores


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
