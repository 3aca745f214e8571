"""All systems by name, from the papers and from a user's file, with their costs."""

import difflib
import inspect
import re
from collections import Counter
from collections.abc import Mapping
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
from ..store.models import load_python
from .definition import Method, StandIn, methods_of

_OWN = ("catalogue", "definition", "differences", "tables")


def age(name: str) -> tuple[bool, str, str]:
    """The position of a file in the catalogue: files without a year first, then by year, and our own methods last."""
    year = name.rpartition("_")[2]
    return name == "ours", year if year.isdecimal() else "", name


_FILES = sorted((found.name for found in iter_modules([str(Path(__file__).parent)]) if found.name not in _OWN), key=age)
_PAPERS = [import_module(f"{__package__}.{name}") for name in _FILES]


def _in(module: ModuleType) -> list[Method]:
    """The decorated functions of a module, in the order of its lines. An expression is a method without resources."""
    systems = [one for one in vars(module).values() if hasattr(one, "methods") and getattr(one, "__module__", "") == module.__name__]
    return [entry for system in systems for entry in methods_of(system)]


METHODS: dict[str, Method] = {entry.name: entry for paper in _PAPERS for entry in _in(paper)}


def find(name: str) -> Method:
    """The method with this name, from the papers or as ``FILE.py:NAME``; with arguments of its function as ``NAME:argument=value,...``.

    In a user's file, ``NAME`` is a method, a function whose arguments name resources, or a pipeline. The name of a method with arguments
    has them in alphabetical order, and can be a folder's.

    Raises:
        UsageError: when there is no such method, argument or value. The message names the nearest one.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.methods.find("aqd_a").needs
        ['llm', 'retriever', 'reranker']
        >>> ikat.methods.find("mq4cs:n=3").name
        'mq4cs-n=3'
    """
    name, arguments = _arguments_of(name)
    path, _, wanted = name.rpartition(":")
    found = _in_file(path, wanted) if path else _named(name, METHODS, "`ikat methods` lists them")
    return _with(found, arguments)


def find_all(name: str) -> list[Method]:
    """Like :func:`find`, but for a name that ends in ``.py``, all methods of the file."""
    path, arguments = _arguments_of(name)
    return [_with(entry, arguments) for entry in _in(load_python(path, "a method"))] if path.endswith(".py") else [find(name)]


def _arguments_of(name: str) -> tuple[str, dict[str, str]]:
    """A METHOD without its arguments, and the arguments.

    Example:
        >>> _arguments_of("aqd:second_llm=openai:gpt-4 temperature=0,n=3")
        ('aqd', {'second_llm': 'openai:gpt-4 temperature=0', 'n': '3'})
    """
    method, *given = re.split(r":(?=\w+=)", name, maxsplit=1)
    return method, dict(one.split("=", 1) for text in given for one in re.split(r",(?=\w+=)", text))


def _with(entry: Method, arguments: Mapping[str, str]) -> Method:
    if not arguments:
        return entry
    written = ",".join(f"{name}={arguments[name]}" for name in sorted(arguments))
    return entry.having(arguments, re.sub(r"[^\w.=,+-]+", "-", f"{entry.name}-{written}"))


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
    own = [name for name, one in vars(module).items() if inspect.isfunction(one) and one.__module__ == module.__name__ and name[0] != "_"]
    return _named(wanted, known, f"{path} has {', '.join(known or own) or 'no method'}")


def _named(name: str, known: dict[str, Method], otherwise: str) -> Method:
    if name not in known:
        near = " or ".join(difflib.get_close_matches(name, known, n=3))
        raise UsageError(f"there is no method {name!r}: {f'did you mean {near}?' if near else otherwise}")
    return known[name]


@cache
def calls_per_turn(entry: Method) -> tuple[str, str]:
    """The LLM calls of one turn and its queries to the retriever, as the system's plan counts them.

    ``s`` is the number of chosen statements, if the counts depend on it. If the model decides how many queries it writes, at least one per
    call is counted. The counted turn follows two responses, and the earlier one is long enough to be summarised.

    Example:
        >>> calls_per_turn(find("aqd")), calls_per_turn(find("rtg"))
        (('2', '5'), ('4 + s', 'at least s'))
    """
    plan, retriever = _Counting(), StandIn("retriever")
    model, other = llm("recorded:sample"), StandIn("other")
    resources: dict[str, Any] = {"llm": model, "second_llm": model, "rewriter": other, "expander": other, "reranker": other}
    plan.follow(entry.build(retriever=retriever, dense=retriever, **resources), _turns())
    each = [
        [sum(count for qid, count in counted.items() if qid.startswith(turn)) for turn in TURNS] for counted in (plan.calls, retriever.rows)
    ]
    calls, queries = (_as_text(*counts) for counts in each)
    return calls, f"{'at least ' * plan.open_ended}{queries}"


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
        self.open_ended = self.open_ended or bool(getattr(stage, "open_ended", False))
        return stage.typical(frame)


@cache
def _turns() -> pd.DataFrame:
    """The counted turns, planned together, because a plan's time hardly depends on their number."""
    personas = [{str(one): f"statement {one}" for one in range(1, count + 1)} for count in TURNS.values()]
    said = [(f"{len(persona)} teas?", f"{len(persona)} long " * 40, "green?", "Yes.", "Which?") for persona in personas]
    roles = ("user", "assistant", "user", "assistant", "user")
    chats = [[{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)] for texts in said]
    each = [conversation(chat, persona, number=str(len(persona))) for chat, persona in zip(chats, personas, strict=True)]
    turns = pd.concat(each, ignore_index=True)
    return turns.assign(qresolved=turns["query"], qgoldptkb=[list(persona) for persona in personas])


def _as_text(with_one: int, with_two: int) -> str:
    each = with_two - with_one
    if each == 0:
        return str(with_one)
    fixed = f"{with_one - each} + " if with_one > each else ""
    return f"{fixed}{'' if each == 1 else each}s"
