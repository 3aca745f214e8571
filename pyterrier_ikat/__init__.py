"""PyTerrier operators for conversational search with a personal knowledge base (TREC iKAT).

>>> import pyterrier as pt, pyterrier_ikat as ikat
>>> llm = ikat.llm("recorded:sample")
>>> ikat.Answer(llm) >> ikat.MultiQuery(llm, given="answer")
(ikat.Answer(ikat.llm('recorded:sample')) >> ikat.Queries(ikat.llm('recorded:sample'), given='answer') >> ikat.ExplodeQueries())
"""

import ast
from pathlib import Path

import lazy_loader

__version__ = "0.1.0"


def _exports() -> tuple[set[str], dict[str, list[str]]]:
    """The packages and names that the stub next to this file exports. Nothing is imported until it is used."""
    rooms, names = set[str](), dict[str, list[str]]()
    for line in _read(Path(__file__).with_suffix(".pyi")):
        if isinstance(line, ast.ImportFrom):
            found = [one.name for one in line.names]
            if line.module is None:
                rooms.update(found)
            else:
                names.setdefault(line.module, []).extend(_listed(line.module) if found == ["*"] else found)
    return rooms, names


def _listed(room: str) -> list[str]:
    lines = _read(Path(__file__).with_name(room) / "__init__.py")
    (names,) = [line.value for line in lines if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__"]
    return list(ast.literal_eval(names))


def _read(path: Path) -> list[ast.stmt]:
    return ast.parse(path.read_text(encoding="utf-8")).body


_load, __dir__, __all__ = lazy_loader.attach(__name__, *_exports())


def __getattr__(name: str) -> object:
    if name in __all__:
        return _load(name)
    from .errors import did_you_mean

    raise AttributeError(f"pyterrier_ikat has no {name}: {did_you_mean(name, __all__) or 'dir(pyterrier_ikat) lists what it has'}")
