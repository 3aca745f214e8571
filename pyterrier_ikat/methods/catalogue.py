"""All systems by name, from the papers and from a user's file, with their costs and the scores that the papers publish.

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

_OWN = ("catalogue", "definition")


def age(name: str) -> tuple[bool, str, str]:
    """The position of a file in the catalogue: files without a year first, then by year, and our own methods last."""
    year = name.rpartition("_")[2]
    return name == "ours", year if year.isdecimal() else "", name


_FILES = sorted(
    (found.name for found in iter_modules([str(Path(__file__).parent)]) if found.name not in _OWN),
    key=age,
)
_PAPERS = [import_module(f"{__package__}.{name}") for name in _FILES]


def _in(module: ModuleType) -> list[Method]:
    """The decorated functions of a module, in the order of its lines. An expression is a method without resources."""
    systems = [
        one
        for one in vars(module).values()
        if hasattr(one, "methods") and getattr(one, "__module__", "") == module.__name__
    ]
    return [entry for system in systems for entry in methods_of(system)]


METHODS: dict[str, Method] = {entry.name: entry for paper in _PAPERS for entry in _in(paper)}


def find(name: str) -> Method:
    """The method with this name, from the papers or as ``FILE.py:NAME``; with arguments of its function as ``NAME:argument=value,...``.

    In a user's file, ``NAME`` is a method, a function whose arguments name resources, or a
    pipeline. The name of a method with arguments has them in alphabetical order, and can be a
    folder's.

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
    [found] = find_all(name)
    return found


def find_all(name: str) -> list[Method]:
    """Like :func:`find`, but for a name that ends in ``.py``, all methods of the file."""
    name, *given = re.split(r":(?=\w+=)", name, maxsplit=1)
    path, _, wanted = name.rpartition(":")
    if name.endswith(".py"):
        found = _in(load_python(name, "a method"))
    else:
        found = [
            _in_file(path, wanted) if path else _named(name, METHODS, "`ikat methods` lists them")
        ]
    arguments = dict(one.split("=", 1) for text in given for one in re.split(r",(?=\w+=)", text))
    if not arguments:
        return found
    written = ",".join(f"{one}={arguments[one]}" for one in sorted(arguments))
    return [
        entry.having(arguments, re.sub(r"[^\w.=,+-]+", "-", f"{entry.name}-{written}"))
        for entry in found
    ]


def _in_file(path: str, wanted: str) -> Method:
    if not path.endswith(".py") and path in METHODS:
        raise UsageError(f"{path}:{wanted}: an argument of a method is written {path}:NAME=VALUE")
    module = load_python(path, "a method")
    known = {entry.name: entry for entry in _in(module)}
    value = vars(module).get(wanted)
    if wanted not in known and callable(value) and not isinstance(value, pt.Transformer):
        return methods_of(value)[0]
    if wanted not in known and isinstance(value, pt.Transformer):
        pipeline: pt.Transformer = value
        return Method(wanted, lambda: pipeline)
    own = [
        name
        for name, one in vars(module).items()
        if inspect.isfunction(one) and one.__module__ == module.__name__ and name[0] != "_"
    ]
    return _named(wanted, known, f"{path} has {', '.join(known or own) or 'no method'}")


def _named(name: str, known: dict[str, Method], otherwise: str) -> Method:
    if name not in known:
        near = " or ".join(difflib.get_close_matches(name, known, n=3))
        if re.match(r"\w+=", name):  # of a model whose words a shell has parted
            otherwise = f"what belongs to a model stands with it in quotes, --llm 'MODEL {name}'"
        raise UsageError(
            f"there is no method {name!r}: {f'did you mean {near}?' if near else otherwise}"
        )
    return known[name]


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
    plan, retriever = _Counting(), StandIn("retriever")
    model, other = llm("recorded:sample"), StandIn("other")
    resources: dict[str, Any] = {
        "llm": model,
        "second_llm": model,
        "rewriter": other,
        "expander": other,
        "reranker": other,
    }
    plan.follow(entry.build(retriever=retriever, dense=retriever, **resources), _turns())

    def as_text(counted: Counter[str]) -> str:
        return _as_text(
            *(
                sum(count for qid, count in counted.items() if qid.startswith(turn))
                for turn in TURNS
            )
        )

    return as_text(plan.calls), f"{'at least ' * plan.open_ended}{as_text(retriever.rows)}"


TURNS = {"1_": 1, "2_": 2}
"""Prefix of the qids of a counted conversation -> the number of chosen statements of its turn."""


class _Counting(Plan):
    """A plan that counts the calls of each turn, and nothing else."""

    def __init__(self) -> None:
        super().__init__("", set())
        self.calls, self.open_ended = Counter[str](), False

    def ask(self, stage: Asks, frame: pd.DataFrame) -> list[Any]:
        """Count the requests of a stage; return typical outcomes."""
        self.calls.update(request.qid for request in stage.requests(frame))
        self.open_ended = self.open_ended or stage.open_ended
        return stage.typical(frame)


@cache
def _turns() -> pd.DataFrame:
    """The counted turns, planned together, because a plan's time hardly depends on their number."""
    personas = [
        {str(one): f"statement {one}" for one in range(1, count + 1)} for count in TURNS.values()
    ]
    said = [
        (f"{len(persona)} teas?", f"{len(persona)} long " * 40, "green?", "Yes.", "Which?")
        for persona in personas
    ]
    roles = ("user", "assistant", "user", "assistant", "user")
    chats = [
        [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
        for texts in said
    ]
    each = [
        conversation(chat, persona, number=str(len(persona)))
        for chat, persona in zip(chats, personas, strict=True)
    ]
    turns = pd.concat(each, ignore_index=True)
    return turns.assign(qresolved=turns["query"], qgoldptkb=[list(persona) for persona in personas])


def _as_text(with_one: int, with_two: int) -> str:
    each = with_two - with_one
    if each == 0:
        return str(with_one)
    fixed = f"{with_one - each} + " if with_one > each else ""
    return f"{fixed}{'' if each == 1 else each}s"


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
        """One row per system (index: its name here), one column per measure. A score that the paper omits is missing."""
        rows = self._rows()
        values = [
            [float("nan") if score == "-" else float(score) for score, _ in row]
            for row in rows.values()
        ]
        return pd.DataFrame(values, index=list(rows), columns=self.measures)

    def letters(self) -> pd.DataFrame:
        """The published marks of significance, with the shape of :meth:`frame`; empty where there is none."""
        rows = self._rows()
        return pd.DataFrame(
            [[marks for _, marks in row] for row in rows.values()],
            index=list(rows),
            columns=self.measures,
        )

    def _rows(self) -> dict[str, list[tuple[str, str]]]:
        cells = [line.split() for line in self.scores.splitlines() if line.strip()]
        return {name: [_CELL.findall(one)[0] for one in scores] for name, *scores in cells}


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    with path.open("rb") as file:
        return tomllib.load(file)


PUBLISHED = {
    path.stem: read_toml(path)
    for path in sorted(
        (Path(__file__).parent / "data").glob("*.toml"), key=lambda path: age(path.stem)
    )
}
"""Paper -> its file."""
TABLES = {
    part["key"]: PublishedTable(**part)
    for paper in PUBLISHED.values()
    for parts in paper["tables"].values()
    for part in parts
}
"""Key -> table of scores."""


def origin(entry: Method) -> str:
    """Whose method of the package it is: ``"papers"``, ``"organisers"`` (their baselines) or ``"ours"``.

    Example:
        >>> origin(find("aqd")), origin(find("organizers_2023_auto")), origin(find("raw"))
        ('papers', 'organisers', 'ours')
    """
    if entry.paper.startswith("organisers'"):
        return "organisers"
    return "ours" if entry.paper.startswith(("ours", "baseline without an LLM")) else "papers"


COLUMNS = [
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
        about = {
            name: getattr(entry, name)
            for name in ("name", "paper", "expression", "depth", "manual", "models")
        }
        reported = published_scores(entry)
        turns = {table: TABLES[table].turns for table in reported}
        rows.append(
            {
                **about,
                "llm_calls": calls,
                "queries": queries,
                "tables": ", ".join(reported),
                "published": reported,
                "turns": turns,
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def published_scores(entry: Method) -> dict[str, dict[str, float]]:
    """The published scores of a method: table -> measure -> score, as printed."""
    return {
        name: table.frame().loc[entry.name].to_dict()
        for name, table in TABLES.items()
        if entry.name in table.systems
    }


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
