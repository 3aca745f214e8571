"""Whether runs are the same, or samples of one system: their versions and parameters, with the differences in words, and their names."""

import platform
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from .folder import RunFolder

SAMPLE = re.compile(r"(.+)\.sample-([1-9]\d*)")
IDENTITY = ("method", "topics_sha256", "prompts", "stages", "parts")
"""The entries of ``run.json`` that samples of one system share."""
_PACKAGES = (
    *("pyterrier_ikat", "pyterrier", "pyterrier-pisa", "pyterrier-t5", "pandas", "numpy", "torch", "transformers"),
    *("tokenizers", "sentence-transformers", "openvino", "ir-measures", "openai"),
)


OURS = "pyterrier_ikat"


class OtherVersionsWarning(UserWarning):
    """A run is reused or continued that was made with other versions of what it depends on."""


@cache
def versions() -> dict[str, str]:
    """The versions that a run depends on, of what is installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def with_package(known: Iterable[str], what: Any) -> list[str]:
    """All versions of this package that made a run, in their order: those of before and this one, whose change is a warning.

    Args:
        known: the versions of before.
        what: the run, as the warning names it.
    """
    before, now = list(known), versions()[OURS]
    if before and before[-1] != now:
        warnings.warn(
            f"{what} was begun by version {before[-1]} of {OURS} and goes on with {now}: its run names both; remove it to begin anew",
            OtherVersionsWarning,
            stacklevel=2,
        )
    return [*before, now] if now not in before[-1:] else before


def describe_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The differences of ``found`` from ``wanted``, in words; empty when there are none.

    Example:
        >>> describe_difference({"depth": 10, "llms": {"llm": "a", "second": "c"}}, {"depth": 10, "llms": {"llm": "b", "second": "c"}})
        "different llms ({'llm': 'a'}, now {'llm': 'b'})"
        >>> describe_difference({"turns": 280, "batch": 128}, {"turns": 24, "batch": 64})
        'different turns, batch (turns: 280, now 24)'
    """
    changed = [name for name, value in wanted.items() if not _agrees(name, found.get(name), value)]
    if not changed:
        return ""
    before, now = found.get(changed[0]), wanted[changed[0]]
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in (*now, *before) if before.get(name) != now.get(name)]
        before, now = ({name: one[name] for name in dict.fromkeys(names) if name in one} for one in (before, now))
    which = f"{changed[0]}: " if len(changed) > 1 else ""
    return f"different {', '.join(changed)} ({which}{before!r}, now {now!r})"


def _agrees(name: str, found: Any, wanted: Any) -> bool:
    """Whether both are the same; a run that no failure ended has the same results with ``on_error=raise`` and ``fallback``."""
    if name == "on_error" and isinstance(found, dict):
        return all(found.get(model) in ("raise", rule) for model, rule in wanted.items())
    return bool(found == wanted)


def sample_name(name: str, number: int) -> str:
    """The name of a system's run of that number, from 1; the first one has the system's.

    Example:
        >>> sample_name("aqd", 1), sample_name("aqd", 2)
        ('aqd', 'aqd.sample-2')
    """
    return name if number == 1 else f"{name}.sample-{number}"


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """The samples of each system, by their names.

    Example:
        >>> grouped(["raw", "aqd", "aqd.sample-2", "raw.sample-2"])
        {'raw': ['raw', 'raw.sample-2'], 'aqd': ['aqd', 'aqd.sample-2']}
    """
    found: dict[str, list[str]] = {}
    for name in names:
        sample = SAMPLE.fullmatch(name)
        found.setdefault(sample[1] if sample else name, []).append(name)
    return found


def check_samples(folders: Sequence["RunFolder"]) -> None:
    """Whether run folders are samples of one system.

    Raises:
        UsageError: when two were made by other stages, models, prompts, or on other topics.
        DataError: when one is no finished run.
    """
    for other in folders[1:]:
        if differs := describe_difference(_identity(other), _identity(folders[0])):
            raise UsageError(
                f"{folders[0].path} and {other.path} are no samples of one system, the second has {differs}: evaluate them alone"
            )


def _identity(folder: "RunFolder") -> dict[str, Any]:
    known = folder.parameters()
    return {name: known.get(name) for name in IDENTITY}
