"""The rooms that are a descent.

No two of their modules import each other, imports for types alone included.
"""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pyterrier_ikat

PACKAGE = Path(pyterrier_ikat.__file__).parent


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports anywhere, by their dotted names.

    A name of a package's face counts as its face.
    """
    here = ["pyterrier_ikat", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*here[: len(here) - node.level], *(node.module or "").split(".")]
            module = ".".join(part for part in base if part)
            yield module
            yield from (f"{module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [one.name for one in node.names]
            )
            yield from (name for name in names if name.startswith("pyterrier_ikat."))


def file_of(name: str) -> Path | None:
    place = PACKAGE.joinpath(*name.split(".")[1:])
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            return file
    return None


def below(room: str) -> dict[Path, set[Path]]:
    """Every file of a room, and every file that these import, with what it imports."""
    graph: dict[Path, set[Path]] = {}
    left = list((PACKAGE / room).rglob("*.py"))
    while left:
        path = left.pop()
        if path not in graph:
            files = {file_of(name) for name in imported(path)}
            graph[path] = files - {None, PACKAGE / "__init__.py"}
            left += graph[path]
    return graph


@pytest.mark.parametrize("room", ["llms"])
def test_a_room_reads_from_top_to_bottom(room):
    order = list(TopologicalSorter(below(room)).static_order())  # a CycleError names the circle
    assert {path.name for path in order if path.parent.name == room} == {
        path.name for path in (PACKAGE / room).glob("*.py")
    }
