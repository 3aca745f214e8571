"""Names of the runs of a system that is run several times: NAME, NAME.sample-2, NAME.sample-3, ..."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .folder import RunFolder
from .versions import describe_difference

SAMPLE = re.compile(r"(.+)\.sample-([1-9]\d*)")
IDENTITY = ("method", "topics_sha256", "prompts", "stages", "parts")
"""The entries of ``run.json`` that samples of one system share."""


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


def check_samples(paths: Mapping[str, Path], samples: Iterable[str]) -> None:
    """Whether run folders are samples of one system; what is no folder says nothing about itself.

    Raises:
        UsageError: when two were made by other stages, models, prompts, or on other topics.
        DataError: when one is no finished run.
    """
    folders = [RunFolder(paths[name]) for name in samples if paths[name].is_dir()]
    for other in folders[1:]:
        if differs := describe_difference(_identity(other), _identity(folders[0])):
            raise UsageError(
                f"{folders[0].path} and {other.path} are no samples of one system, the second has {differs}: evaluate them alone"
            )


def _identity(folder: RunFolder) -> dict[str, Any]:
    known = folder.parameters()
    return {name: known.get(name) for name in IDENTITY}
