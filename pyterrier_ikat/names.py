"""Errors for names that a module doesn't have: they say which name is meant, and where it is."""

import importlib
from collections.abc import Callable, Iterable

from .errors import did_you_mean

ROOMS = (
    "generate",
    "retrieve",
    "evaluation",
    "show",
    "runs",
    "study",
    "submit",
    "live",
    "live.simulation",
    "methods",
    "conversations",
    "llms",
)
"""The modules where a name of the front is looked for, the likely ones first."""


def unknown_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module doesn't have.

    Args:
        module: the module, such as ``"pyterrier_ikat.show"``.
        name: the name that was asked for.
        known: the module's names.

    Example:
        >>> unknown_name("pyterrier_ikat.show", "tabl", ["draw", "table"])
        AttributeError('pyterrier_ikat.show has no tabl: did you mean table?')
        >>> unknown_name("pyterrier_ikat", "StatementQueries", [])
        AttributeError('pyterrier_ikat has no StatementQueries: it is in ikat.generate')
    """
    if name.startswith("_"):  # asked by programs, often
        return AttributeError(name)
    home = _home_of(name, besides=module)
    where = f"it is in ikat{home}" if home is not None else did_you_mean(name, known)
    return AttributeError(f"{module} has no {name}: {where or f'dir({module}) lists what it has'}")


def _home_of(name: str, besides: str) -> str | None:
    """The room that has a name, such as ``".generate"``; empty for the front, None for no room."""
    for room in ("", *ROOMS):
        suffix = f".{room}" if room else ""
        module = f"{__package__}{suffix}"
        if module != besides and name in _public_names(module):
            return suffix
    return None


def _public_names(module: str) -> Iterable[str]:
    names: Iterable[str] = getattr(importlib.import_module(module), "__all__", ())
    return names


def module_getattr(
    module: str, known: Iterable[str], load: Callable[[str], object] | None = None
) -> Callable[[str], object]:
    """Return a module's ``__getattr__``, whose errors say which name may be meant.

    Args:
        module: the module's ``__name__``.
        known: its names.
        load: gives those that are loaded at first use.
    """
    names = list(known)

    def get(name: str) -> object:
        if load is not None and name in names:
            return load(name)
        raise unknown_name(module, name, names)

    return get
