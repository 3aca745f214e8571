"""The origin of a run: its versions and parameters, their differences in words, the names of its repeats, and metadata to publish.

``ir_metadata.yml`` says where and how a run was made, in the ir_metadata format, which other tools read. It has no user or machine name,
no folder and no server address. Source: Breuer, Keller and Schaer, ir_metadata: An Extensible Metadata Schema for IR Experiments, SIGIR
2022 (https://www.ir-metadata.org).
"""

import os
import platform
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..store.files import atomic_write

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


class OtherVersionsWarning(UserWarning):
    """A run that is reused or continued was made with other versions of its dependencies."""


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


def with_package(known: Iterable[str], what: Any) -> list[str]:
    """All versions of this package that made a run, in their order: the earlier ones and this one. A new version causes a warning.

    Args:
        known: the earlier versions.
        what: the name of the run in the warning.
    """
    before, now = list(known), versions()[OURS]
    if before and before[-1] != now:
        warnings.warn(
            f"{what} was begun by version {before[-1]} of {OURS} and goes on with {now}: its run names both; remove it to start over",
            OtherVersionsWarning,
            stacklevel=2,
        )
    return [*before, now] if now not in before[-1:] else before


def describe_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The differences between ``found`` and ``wanted``, in words; empty if there are none.

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
    for other in folders[1:]:
        if differs := describe_difference(_identity(other), _identity(folders[0])):
            raise UsageError(
                f"{folders[0].path} and {other.path} are not repeats of one system: the second has {differs}; evaluate them alone"
            )


def _identity(folder: "RunFolder") -> dict[str, Any]:
    known = folder.parameters()
    return {name: known.get(name) for name in IDENTITY}


def ir_metadata(tag: str, parameters: Mapping[str, Any], measures: Sequence[str], versions: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a run in the parts of the PRIMAD model. A part that is not known is omitted.

    Args:
        tag: the name of the run.
        parameters: the contents of ``run.json``.
        measures: the names of the measures in the run folder.
        versions: package -> version.

    Example:
        >>> found = ir_metadata("mine", {"expression": "ikat.RawUtterance() >> index.bm25()", "turns": 24}, ["nDCG@5"], {"pandas": "3.1"})
        >>> found["method"]["expression"], found["platform"]["software"]
        ('ikat.RawUtterance() >> index.bm25()', {'libraries': {'python': ['pandas==3.1']}})
    """
    libraries = [f"{package}=={version}" for package, version in versions.items() if package != "python"]
    stages = [{"name": stage} for stage in parameters.get("stages", {}).values()]
    found = {
        "schema version": SCHEMA,
        "tag": tag,
        "platform": _machine() | {"software": {"libraries": {"python": libraries}}},
        "research goal": {"evaluation": {"reported measures": list(measures)}},
        "implementation": {"source": {"lang": f"Python {versions.get('python', '')}".strip()}},
        "method": {
            "name": parameters.get("method"),
            "expression": parameters.get("expression"),
            "retrieval": stages,
            "models that answered": parameters.get("served"),
            "differences from the paper": parameters.get("deviations"),
            "score ties": "none: the scores of a turn strictly decrease",
        },
        "data": {
            "test collection": {
                "name": parameters.get("dataset"),
                "topics": {"turns": parameters.get("turns"), "sha256": parameters.get("topics_sha256")},
            }
        },
    }
    return dict(_published(found))


def write_metadata(folder: Path, tag: str, parameters: Mapping[str, Any], measures: Sequence[str], versions: Mapping[str, str]) -> None:
    """Write :func:`ir_metadata` into a run folder."""
    with atomic_write(folder / METADATA) as file:
        file.write(as_yaml(ir_metadata(tag, parameters, measures, versions)))


def as_yaml(value: Mapping[str, Any]) -> str:
    """The metadata as YAML. Each text is quoted, so that no reader takes it for a number, a date or a truth value.

    Example:
        >>> print(as_yaml({"tag": "1e3", "data": {"turns": 24, "names": ["a: b", {"name": "c"}]}}), end="")
        "tag": "1e3"
        "data":
          "turns": 24
          "names":
          - "a: b"
          - "name": "c"
    """
    import yaml  # imported only when a run is written

    class Quoting(yaml.SafeDumper):
        """Quotes texts."""

    Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
    return str(yaml.dump(value, Dumper=Quoting, sort_keys=False, allow_unicode=True))


def _published(found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The entries that aren't empty, with texts that don't name a folder or server."""
    for key, value in found.items():
        if (kept := _cleaned(value)) not in (None, "", {}, []):
            yield _without_places(str(key)), kept


def _cleaned(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(_published(value))
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    return _without_places(value) if isinstance(value, str) else value


def _without_places(text: str) -> str:
    """The text with only the last part of each absolute path, and without addresses.

    Example:
        >>> _without_places("ikat.CrossEncoder('/home/me/models/mine'), openai:m base_url=http://machine:8000/v1")
        "ikat.CrossEncoder('mine'), openai:m base_url=http://***"
    """
    home = str(Path.home())
    if len(home) > 1:  # the home folder's name may have spaces
        text = text.replace(home + os.sep, os.sep)
    parts = _ADDRESS.split(text)  # text, scheme, text, scheme, ...
    return "".join(f"{part}***" if place % 2 else _FOLDER.sub("", part) for place, part in enumerate(parts))


@cache
def _machine() -> dict[str, Any]:
    cpu = {"model": _cpu_model(), "architecture": platform.machine(), "number of cores": os.cpu_count()}
    hardware = {"cpu": cpu, "gpu": {"model": _gpu_model()}, "ram": _ram()}
    return {"hardware": hardware, "operating system": {"kernel": platform.release(), "distribution": _distribution()}}


def _cpu_model() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:  # not Linux
        return platform.processor()
    return found[1] if found else platform.processor()


def _gpu_model() -> str:
    """The first GPU, if this process has imported torch. Importing it only to look would cost seconds."""
    torch = sys.modules.get("torch")
    return str(torch.cuda.get_device_name(0)) if torch is not None and torch.cuda.is_available() else ""


def _ram() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    except (AttributeError, OSError, ValueError):  # Windows
        return ""


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return f"{platform.system()} {platform.release()}"
