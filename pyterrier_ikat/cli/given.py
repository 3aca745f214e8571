"""The resources that ``--resources`` names: in files, and one by one."""

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError, did_you_mean
from ..papers.resources import OF_THE_SAMPLE, SAMPLE, read_resources
from ..study.resources import taken_by
from ..study.systems import ALL, methods_in


def resources_in(given: Sequence[str], methods: Sequence[str] | None) -> dict[str, str]:
    """Name -> resource, of what the user gave.

    Args:
        given: files, and texts as ``NAME=VALUE``.
        methods: of a file only what one of these takes; None for all of it.

    Raises:
        UsageError: for a name that no resource has, one that is given twice, or an empty value.
        DataError: for a file that can't be read.
    """
    found: dict[str, str] = {}
    for one in given:
        new = _alone(one) if "=" in one and not Path(one).exists() else _in_file(one, methods)
        if twice := found.keys() & new.keys():
            raise UsageError(f"--resources gives {min(twice)} twice: give it once")
        found |= new
    return found


def _alone(text: str) -> dict[str, str]:
    name, _, value = (part.strip() for part in text.partition("="))
    if name not in ALL:
        known = did_you_mean(name, ALL) or f"give a file, or one of {', '.join(ALL)}"
        raise UsageError(f"--resources {text}: there is no resource {name!r}: {known}")
    if not value:
        raise UsageError(f"--resources {name} is empty: give a value, or omit it")
    return {name: os.path.expanduser(value) if value.startswith("~/") else value}


def _in_file(path: str, methods: Sequence[str] | None) -> dict[str, str]:
    lines = OF_THE_SAMPLE if path == SAMPLE else read_resources(path)
    taken = set(ALL) if methods is None else taken_by(methods_in(list(methods)))
    if taken & {"llm", "second_llm"}:
        taken.add("prompts")
    return {name: text for name, text in lines.items() if name in taken}
