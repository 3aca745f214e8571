"""A page per operator, and per other name that the package exports."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyterrier as pt

import pyterrier_ikat as ikat
from pyterrier_ikat.llm_operator import LLMOperator
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.operator import Operator
from pyterrier_ikat.show.drawing import draw

from .stand_ins import example
from .text import first_sentence, formatted, table

ROOMS = ("generate", "retrieve", "rank", "fuse")
"""Rooms whose operators are shown first."""
REFERENCE = {
    "Run and compare": "run plan experiment evaluate breakdown report Report study runs show",
    "Conversations and passages": "dataset conversation PassageFiles",
    "Indexes": "Index PassageIndex DenseIndex Splade SpladeIndex",
    "Models": "llm load_reranker",
    "Methods": "method methods",
    "Evaluate and judge": "measures evaluation pool_runs merge_qrels agreement",
    "Submit, talk, serve, distribute": "submit live Chat UserMemory serve interact simulate simulation on_ray",
    "Write an operator": "Operator LLMOperator",
    "Errors": "IkatError DataError UsageError",
}
"""What they do -> the names in the order in which they are shown; a name that stands in no group comes last."""
BASES = {"Operator": Operator, "LLMOperator": LLMOperator}
"""Classes to derive from, which the package's front doesn't export."""


def operators() -> dict[str, Any]:
    """The exported classes that are PyTerrier transformers, and the functions that return one they make themselves."""
    return {name: value for name in ikat.__all__ if _is_operator(value := getattr(ikat, name))}


def operator_groups() -> dict[str, list[str]]:
    """The operators of each room under the beginning of its docstring, module by module."""
    rooms: dict[str, list[tuple[str, int, str]]] = {room: [] for room in ROOMS}
    for name, value in operators().items():
        place = (value.__module__, inspect.getsourcelines(value)[1], name)
        rooms.setdefault(value.__module__.split(".")[1], []).append(place)
    titles = {room: first_sentence(import_module(f"pyterrier_ikat.{room}").__doc__).partition(":")[0].rstrip(".") for room in rooms}
    return {titles[room]: [name for *_, name in sorted(found)] for room, found in rooms.items()}


def operator_directives(_: str) -> str:
    """The operators' part of the page for PyTerrier's site."""
    parts = []
    for title, names in operator_groups().items():
        lines = [f".. auto{'class' if isinstance(getattr(ikat, name), type) else 'function'}:: pyterrier_ikat.{name}" for name in names]
        parts.append(f"{title}\n{'-' * max(55, len(title))}\n\n" + "\n".join(lines))
    return "\n" + "\n\n".join(parts) + "\n"


def write_operator_pages(folder: Path) -> None:
    """Write ``operators/`` and ``reference/``, with an index each, under ``folder``."""
    found = operators()
    _write(folder / "operators", "Operators", operator_groups(), {name: (value, _operator_page) for name, value in found.items()})
    others = {name: (getattr(ikat, name), _reference_page) for name in ikat.__all__ if name not in found}
    bases = {name: (value, _reference_page) for name, value in BASES.items()}
    listed = {what: names.split() for what, names in REFERENCE.items()}
    _write(folder / "reference", "Python", listed, others | bases)


def _is_operator(value: Any) -> bool:
    if isinstance(value, type):
        return issubclass(value, pt.Transformer)
    return inspect.isfunction(value) and value.__name__[0].isupper()  # MultiQuery: a function that puts operators together


def grouped(groups: dict[str, list[str]], names: Iterable[str]) -> dict[str, list[str]]:
    """The names by what they do; those that no group has come under "Other"."""
    names = set(names)
    found = {what: [name for name in listed if name in names] for what, listed in groups.items()}
    found["Other"] = sorted(names - {name for listed in found.values() for name in listed})
    return {what: listed for what, listed in found.items() if listed}


def _write(folder: Path, title: str, groups: dict[str, list[str]], members: dict[str, tuple[Any, Callable[[str, Any, Path], str]]]) -> None:
    folder.mkdir()
    for name, (value, page) in members.items():
        (folder / f"{name}.md").write_text(page(name, value, folder), encoding="utf-8")
    parts = [f"# {title}"]
    for what, names in grouped(groups, members).items():
        rows = [(f"[{name}]({name}.md)", first_sentence(inspect.getdoc(members[name][0]))) for name in names]
        parts.append(f"## {what}\n\n" + table(["name", "what it does"], rows))
    listed = "\n".join(sorted(members))
    (folder / "index.md").write_text("\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"]), encoding="utf-8")


def _operator_page(name: str, value: Any, folder: Path) -> str:
    made = example(value)
    (folder / f"{name}.html").write_text(draw(made).html, encoding="utf-8")
    used = [
        f"[{method}](../methods/{entry.system.__name__}.md)" for method, entry in METHODS.items() if f"ikat.{name}(" in entry.expression
    ]
    parts = [f"# {name}", f"```{{drawing}} {name}.html\n```", f"```python\n{formatted(repr(made))}\n```", _documented(name, value)]
    if columns := list(_columns(made)):
        parts.append("## Columns\n\n" + table(["reads at least", "gives"], columns))
    if used:
        parts.append(f"## Methods that use it\n\n{', '.join(used)}")
    return "\n\n".join(parts) + "\n"


def _columns(made: pt.Transformer) -> Iterator[tuple[str, str]]:
    for inputs in pt.inspect.transformer_inputs(made, strict=False) or []:
        outputs = pt.inspect.transformer_outputs(made, inputs, strict=False)
        if outputs:
            yield ", ".join(f"`{column}`" for column in inputs), ", ".join(f"`{column}`" for column in outputs)


def _reference_page(name: str, value: Any, _: Path) -> str:
    return f"# {name}\n\n{_documented(name, value)}\n"


def _documented(name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        return _module(value)
    return _directives([(f"{value.__module__}.{name}" if name in BASES else f"pyterrier_ikat.{name}", value)])


def _module(module: ModuleType) -> str:
    """What a module exports; what the package exports too has its own page."""
    public = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__ and name[0] != "_"
    ]
    elsewhere = [name for name in public if getattr(ikat, name, None) is getattr(module, name)]
    here = [(f"{module.__name__}.{name}", getattr(module, name)) for name in public if name not in elsewhere]
    pages = {name: "operators" if name in operators() else "reference" for name in elsewhere}
    also = "Also: " + ", ".join(f"[{name}](../{folder}/{name}.md)" for name, folder in pages.items()) + ".\n\n" if pages else ""
    return f"{inspect.getdoc(module)}\n\n{also}{_directives(here)}"


def _directives(members: list[tuple[str, Any]]) -> str:
    lines = []
    for path, value in members:
        if isinstance(value, type):
            lines.append(
                f".. autoclass:: {path}"
                + "\n   :members:" * (value in BASES.values() or not issubclass(value, (pt.Transformer, Exception)))
            )
        else:
            lines.append(f".. autofunction:: {path}" if callable(value) else f".. py:data:: {path}")
    return "```{eval-rst}\n" + "\n\n".join(lines) + "\n```"
