"""The systems of the papers: a decorated function per system makes its operator expression.

There is one file per paper, or for papers that belong together. Every file of this folder is read,
so a new one doesn't need an entry anywhere. The functions are available here under their names,
such as ``ikat.methods.aqd(llm, bm25, minilm)``.
"""

from typing import Any

from ..names import unknown_name
from .catalogue import METHODS, TABLES, PublishedTable, catalogue, find, find_all, published
from .definition import Method, method, methods_of

__all__ = [
    "METHODS",
    "TABLES",
    "Method",
    "PublishedTable",
    "catalogue",
    "find",
    "find_all",
    "method",
    "methods_of",
    "published",
]

_SYSTEMS = {entry.system.__name__: entry.system for entry in METHODS.values()}


def __getattr__(name: str) -> Any:
    if name not in _SYSTEMS:
        raise unknown_name(__name__, name, __dir__())
    return _SYSTEMS[name]


def __dir__() -> list[str]:
    return sorted([*__all__, *_SYSTEMS])
