"""``ir_metadata.yml`` of a run folder: where and how a run was made, in the form of ir_metadata, which other tools read.

Source: Breuer, Keller and Schaer, ir_metadata: An Extensible Metadata Schema for IR Experiments, SIGIR 2022 (https://www.ir-metadata.org).
The file can be published with the run: it has no name of a user or machine, no folder and no address of a server.
"""

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

NAME = "ir_metadata.yml"
SCHEMA = "0.1"

_FOLDER = re.compile(r"(?<![\w./\\~-])(?:~|[A-Za-z]:(?=\\))?[/\\](?:[^\s'\"/\\]+[/\\])*(?=[^\s'\"/\\])")
_ADDRESS = re.compile(r"(\w+://)[^\s'\")]+")


def ir_metadata(tag: str, parameters: Mapping[str, Any], measures: Sequence[str], versions: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of a run by the parts of the PRIMAD model; a part that is not known is omitted.

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


def as_yaml(value: Mapping[str, Any]) -> str:
    """The metadata as YAML; each text is quoted, so that no reader takes one for a number, a date or a truth value.

    Example:
        >>> print(as_yaml({"tag": "1e3", "data": {"turns": 24, "names": ["a: b", {"name": "c"}]}}), end="")
        "tag": "1e3"
        "data":
          "turns": 24
          "names":
          - "a: b"
          - "name": "c"
    """
    import yaml  # only where a run is written

    class Quoting(yaml.SafeDumper):
        """Quotes texts."""

    Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
    return str(yaml.dump(value, Dumper=Quoting, sort_keys=False, allow_unicode=True))


def _published(found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Without what is empty, and with texts that name no folder or server."""
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
    """The text with the last part of each absolute path, and no address.

    Example:
        >>> _without_places("ikat.CrossEncoder('/home/me/models/mine'), openai:m base_url=http://machine:8000/v1")
        "ikat.CrossEncoder('mine'), openai:m base_url=http://***"
    """
    home = str(Path.home())
    if len(home) > 1:  # its name may have spaces
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
    """The first GPU, when this process has torch; importing it just to look would cost seconds."""
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
