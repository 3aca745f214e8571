"""The installed size of each extra of the package: `python experiments/quality/weights.py`, in an environment that has them all.

The size of an extra is that of the files of all distributions that it needs, directly or indirectly, without those that the package needs
anyway.
"""

from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "pyterrier_ikat"


def needed(requirements: Iterable[tuple[str, frozenset[str]]]) -> set[str]:
    """The names of the needed distributions, given by name and extras, and of those that they need."""
    done: set[tuple[str, frozenset[str]]] = set()
    left = list(requirements)
    while left:
        one = left.pop()
        if one not in done:
            done.add(one)
            left += of_distribution(*one)
    return {name for name, _ in done}


def of_distribution(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """What a distribution needs with these extras; nothing if it isn't installed."""
    try:
        found = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, found):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def size_of(names: Iterable[str]) -> int:
    """The bytes of the files of installed distributions."""
    total = 0
    for name in names:
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        total += sum(path.stat().st_size for path in (Path(str(file.locate())) for file in files) if path.is_file())
    return total


def main() -> None:
    """Print the size of the package without extras, and what each extra adds, in MB."""
    base = needed([(ROOT, frozenset())])
    print(f"{'(none)':<12}{size_of(base) / 1e6:>8.0f}")
    for extra in metadata.metadata(ROOT).get_all("Provides-Extra") or []:
        print(f"{extra:<12}{size_of(needed([(ROOT, frozenset({extra}))]) - base) / 1e6:>8.0f}")


if __name__ == "__main__":
    main()
