"""The user's Python files as modules: run once for each of their contents, together with what they import from beside them."""

import ast
import importlib
import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from importlib.metadata import packages_distributions
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType

from ..errors import UsageError
from .cache import digest

OURS = __name__.partition(".")[0]
"""This package, which a file in its own checkout has beside it."""


@dataclass
class _Known:
    """The modules of these files that are loaded now."""

    files: dict[str, tuple[str, ModuleType]] = field(default_factory=dict)
    """Name of a file's module -> the state of the file and of what it imports from beside it, and the module."""
    beside: dict[str, tuple[str, ModuleType]] = field(default_factory=dict)
    """Name of a module beside a file -> the state of its own files, and the module."""


_known = _Known()


def load_python(path: str, what: str) -> ModuleType:
    """A user's file as a module. It is run at first use, and again when it has changed.

    Modules that lie beside the file and that it imports, directly or by one another, belong to it:
    a changed one is imported again, and then the file is run again. Installed packages and Python's
    own modules stay as they are, whatever lies beside the file.

    Args:
        path: the file.
        what: the thing to find in it, such as "a method".

    Raises:
        UsageError: when there is no such file, or it can't be run. The message names the line.
    """
    file = Path(path).expanduser()
    example = f"give the path of a Python file with {what}, as mine.py:NAME"
    if file.suffix != ".py":
        raise UsageError(
            f"{path} is not a Python file: give {what}'s name, or {example.removeprefix('give ')}"
        )
    if not file.is_file():
        raise UsageError(f"there is no file {path}: {example}")
    source = file.read_bytes()
    beside = _imported_beside(source, file.resolve().parent)
    states = {name: _state(files) for name, files in beside.items()}
    state = digest(source, *(f"{name} {one}" for name, one in sorted(states.items()))).hex()
    module_name = f"ikat_methods_{digest(str(file.resolve())).hex()[:12]}"
    known = _known.files.get(module_name)
    if known is not None and known[0] == state:
        return known[1]
    _known.files.pop(module_name, None)
    _forget_changed(states)
    with _importing_from(file.resolve().parent, list(beside)):
        module = _run(file, source, module_name, path)
    for name, own in states.items():
        if name in sys.modules:
            _known.beside[name] = (own, sys.modules[name])
    _known.files[module_name] = (state, module)
    return module


def _run(file: Path, source: bytes, name: str, path: str) -> ModuleType:
    """The module that a file's source makes. It isn't read from compiled files, which a change within a second leaves as they are."""
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    linecache.checkcache(str(file))
    try:
        exec(compile(source, str(file), "exec"), module.__dict__)
    except BaseException as error:
        del sys.modules[name]  # a module that failed halfway has no methods
        if isinstance(error, UsageError) or not isinstance(error, Exception):
            raise
        lines = [
            frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(file)
        ]
        line = getattr(error, "lineno", None) or next(reversed(lines), "?")
        raise UsageError(
            f"{path} can't be run: {type(error).__name__}: {error} (line {line})"
        ) from error
    return module


def _imported_beside(source: bytes, folder: Path) -> dict[str, list[Path]]:
    """The modules beside a file that its source imports, directly or by one another: top name -> the files of the module."""
    found: dict[str, list[Path]] = {}
    left = list(_imports(source))
    while left:
        name = left.pop()
        files = _files_of(name, folder)
        if name in found or not files:
            continue
        found[name] = files
        for one in files:
            left += _imports(one.read_bytes())
    if found:
        elsewhere = {*packages_distributions(), *sys.stdlib_module_names, OURS}
        found = {name: files for name, files in found.items() if name not in elsewhere}
    return found


def _imports(source: bytes) -> Iterator[str]:
    """The top names of all modules that a source imports, also inside its functions; nothing if it isn't Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # told when the file is run
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _files_of(name: str, folder: Path) -> list[Path]:
    """The Python files of a module or package beside a file; none if there is no such module."""
    package = folder / name
    if package.is_dir():
        return sorted(package.rglob("*.py"))
    module = folder / f"{name}.py"
    return [module] if module.is_file() else []


def _state(files: Sequence[Path]) -> str:
    return digest(*(part for path in files for part in (str(path), path.read_bytes()))).hex()


def _forget_changed(states: dict[str, str]) -> None:
    """Forget modules that weren't loaded from the present files, so that they are imported again.

    If one of them changed, all are forgotten, because the others may hold what it defined.
    """
    for name, state in states.items():
        known = _known.beside.get(name)
        if known is None or known[0] != state or sys.modules.get(name) is not known[1]:
            break
    else:
        return
    for name in states:
        _known.beside.pop(name, None)
        for loaded in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
            del sys.modules[loaded]
    importlib.invalidate_caches()


class _FromSource(SourceFileLoader):
    """Imports a module from its source alone."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        linecache.checkcache(path)
        return self.source_to_code(self.get_data(path), path)


class _Beside(MetaPathFinder):
    """Finds the modules with these names in a folder, and what belongs to them."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.names = folder, names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.names:
            return None
        for place in [str(self.folder)] if path is None else path:
            found = FileFinder(place, (_FromSource, [".py"])).find_spec(fullname)
            if found is not None:
                return found
        return None


@contextmanager
def _importing_from(folder: Path, names: Sequence[str]) -> Iterator[None]:
    finder = _Beside(folder, names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
