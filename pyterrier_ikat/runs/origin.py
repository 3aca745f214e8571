"""The origin of a run: its versions and parameters, their differences in words, the names of its repeats, and metadata to publish.

``ir_metadata.yml`` says how a run was made, in the ir_metadata format, which other tools read. It has no user or machine name, no folder
and no server address. Source: Breuer, Keller and Schaer, ir_metadata: An Extensible Metadata Schema for IR Experiments, SIGIR 2022
(https://www.ir-metadata.org).
"""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from .folder import RunFolder

REPEAT = re.compile(r"(.+)\.repeat-([1-9]\d*)")
IDENTITY = ("method", "topics_sha256", "prompts", "stages", "parts")
"""The entries of ``run.json`` that are equal for all repeats of one system."""
OURS = "pyterrier_ikat"
_PACKAGES = (
    *(OURS, "pyterrier", "pyterrier-pisa", "pyterrier-t5", "pandas", "numpy", "torch", "transformers"),
    *("tokenizers", "sentence-transformers", "openvino", "ir-measures", "openai"),
)

METADATA = "ir_metadata.yml"
SCHEMA = "0.1"
_FOLDER = re.compile(r"(?<![\w./\\~-])(?:~|[A-Za-z]:(?=\\))?[/\\](?:[^\s'\"/\\]+[/\\])*(?=[^\s'\"/\\])")
_ADDRESS = re.compile(r"(\w+://)[^\s'\")]+")
_DIGEST = re.compile(r"\b[0-9a-f]{16,}\b")


class OtherVersionsWarning(UserWarning):
    """A run that is reused was made with other versions of its dependencies."""


@cache
def versions() -> dict[str, str]:
    """The installed versions of the packages that a run depends on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The differences between ``found`` and ``wanted``, in words; empty if there are none. Of checksums only the names are shown.

    Example:
        >>> describe_difference({"depth": 10, "llms": {"llm": "a", "second": "c"}}, {"depth": 10, "llms": {"llm": "b", "second": "c"}})
        "different llms ({'llm': 'a'}, now {'llm': 'b'})"
        >>> describe_difference({"turns": 280, "batch": 128}, {"turns": 24, "batch": 64})
        'different turns, batch (turns: 280, now 24)'
        >>> describe_difference({"prompts": {"1 answer": "0123456789abcdef"}}, {"prompts": {"1 answer": "fedcba9876543210"}})
        'different prompts (1 answer)'
    """
    changed = [name for name, value in wanted.items() if not _agrees(name, found.get(name), value)]
    if not changed:
        return ""
    names, before, now = [], found.get(changed[0]), wanted[changed[0]]
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in dict.fromkeys([*now, *before]) if before.get(name) != now.get(name)]
        before, now = ({name: one[name] for name in names if name in one} for one in (before, now))
    values = ", ".join(names) if _DIGEST.search(f"{before} {now}") else f"{before!r}, now {now!r}"
    which = f"{changed[0]}: " if len(changed) > 1 else ""
    return f"different {', '.join(changed)}" + f" ({which}{values})" * bool(values)


def _agrees(name: str, found: Any, wanted: Any) -> bool:
    """Whether both are the same. A run without failures has the same results with ``on_error=raise`` and ``fallback``."""
    if name == "on_error" and isinstance(found, dict):
        return all(found.get(model) in ("raise", rule) for model, rule in wanted.items())
    return bool(found == wanted)


def repeat_name(name: str, number: int) -> str:
    """The name of a system's run with this number, from 1. The first run has the name of the system.

    Example:
        >>> repeat_name("aqd", 1), repeat_name("aqd", 2)
        ('aqd', 'aqd.repeat-2')
    """
    return name if number == 1 else f"{name}.repeat-{number}"


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """The repeats of each system, found by their names.

    Example:
        >>> grouped(["raw", "aqd", "aqd.repeat-2", "raw.repeat-2"])
        {'raw': ['raw', 'raw.repeat-2'], 'aqd': ['aqd', 'aqd.repeat-2']}
    """
    found: dict[str, list[str]] = {}
    for name in names:
        repeat = REPEAT.fullmatch(name)
        found.setdefault(repeat[1] if repeat else name, []).append(name)
    return found


def check_repeats(folders: Sequence["RunFolder"]) -> None:
    """Check that run folders are repeats of one system.

    Raises:
        UsageError: when two of them differ in stages, models, prompts or topics.
        DataError: when one is not a finished run.
    """
    first, *others = [{name: folder.parameters().get(name) for name in IDENTITY} for folder in folders]
    for folder, other in zip(folders[1:], others, strict=True):
        if differs := describe_difference(other, first):
            paths = f"{folders[0].path} and {folder.path}"
            raise UsageError(f"{paths} are not repeats of one system: the second has {differs}; evaluate them alone")


def ir_metadata(tag: str, parameters: Mapping[str, Any], measures: Sequence[str]) -> dict[str, Any]:
    """The metadata of a run. An entry that is not known is omitted.

    Args:
        tag: the name of the run.
        parameters: the contents of ``run.json``.
        measures: the names of the measures in the run folder.

    Example:
        >>> found = ir_metadata("mine", {"expression": "ikat.RawUtterance() >> index.bm25()", "turns": 24}, ["nDCG@5"])
        >>> found["method"]["expression"], found["research goal"]
        ('ikat.RawUtterance() >> index.bm25()', {'evaluation': {'reported measures': ['nDCG@5']}})
    """
    known = parameters.get
    libraries = [f"{package}=={version}" for package, version in known("versions", {}).items() if package != "python"]
    found = {
        "schema version": SCHEMA,
        "tag": tag,
        "research goal": {"evaluation": {"reported measures": list(measures)}},
        "implementation": {"source": {"lang": "Python", "libraries": libraries}},
        "method": {
            "name": known("method"),
            "expression": known("expression"),
            "retrieval": [{"name": stage} for stage in known("stages", {}).values()],
            "models that answered": known("served"),
            "differences from the paper": known("deviations"),
            "score ties": "none: the scores of a turn strictly decrease",
        },
        "data": {"test collection": {"name": known("dataset"), "topics": {"turns": known("turns"), "sha256": known("topics_sha256")}}},
    }
    cleaned: dict[str, Any] = _without_places(found)
    return cleaned


def _without_places(value: Any) -> Any:
    """The metadata without empty entries, server addresses, and all but the last part of absolute paths.

    Example:
        >>> _without_places(["ikat.CrossEncoder('/srv/models/mine'), openai:m base_url=http://machine:8000/v1"])
        ["ikat.CrossEncoder('mine'), openai:m base_url=http://***"]
    """
    if isinstance(value, Mapping):
        cleaned = {_without_places(name): _without_places(one) for name, one in value.items()}
        return {name: one for name, one in cleaned.items() if one not in (None, "", {}, [])}
    if isinstance(value, list):
        return [_without_places(one) for one in value]
    if not isinstance(value, str):
        return value
    parts = _ADDRESS.split(value)  # text, scheme, text, scheme, ...
    return "".join(f"{part}***" if place % 2 else _FOLDER.sub("", part) for place, part in enumerate(parts))
