"""The user's Python files as modules, with the modules beside them that they import.

A file is run once for each of its contents.
"""

import ast
import importlib
import linecache
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from importlib.metadata import packages_distributions
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType
from typing import NamedTuple

from ..errors import UsageError
from .cache import digest

THIS_PACKAGE = __name__.partition(".")[0]
"""A file in this package's checkout has the package beside it."""


class _Loaded(NamedTuple):
    """A module, and the state of the files that it was loaded from."""

    state: str
    module: ModuleType


_file_modules: dict[str, _Loaded] = {}
"""The module of each file, by name. Its state includes the modules beside it."""
_modules_beside: dict[str, _Loaded] = {}
"""The modules beside files, by name."""


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
    example = f"the path of a Python file with {what}, as mine.py:NAME"
    if file.suffix != ".py":
        raise UsageError(f"{path} is not a Python file: give {what}'s name, or {example}")
    if not file.is_file():
        raise UsageError(f"there is no file {path}: give {example}")
    source = file.read_bytes()
    beside = _imported_beside(source, file.resolve().parent)
    states = {name: _state(files) for name, files in beside.items()}
    of_beside = [f"{name} {state}" for name, state in sorted(states.items())]
    state = digest(source, *of_beside).hex()
    module_name = f"ikat_methods_{digest(str(file.resolve())).hex()[:12]}"
    loaded = _file_modules.get(module_name)
    if loaded is not None and loaded.state == state:
        return loaded.module
    _file_modules.pop(module_name, None)
    _forget_changed(states)
    with _importing_from(file.resolve().parent, list(beside)):
        module = _run(file, source, module_name, path)
    for name, state_beside in states.items():
        if name in sys.modules:
            _modules_beside[name] = _Loaded(state_beside, sys.modules[name])
    _file_modules[module_name] = _Loaded(state, module)
    return module


def _run(file: Path, source: bytes, name: str, path: str) -> ModuleType:
    """The module of a file's source.

    It isn't read from compiled files, which a change within a second leaves as they are.
    """
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
        raise UsageError(
            f"{path} can't be run: {type(error).__name__}: {error} (line {_line_of(error, file)})"
        ) from error
    return module


def _line_of(error: Exception, file: Path) -> int | str:
    """The line of a file where an error arose."""
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    line: int | str | None = None
    for frame in extract_tb(error.__traceback__):
        if frame.filename == str(file):
            line = frame.lineno
    return line or "?"


def _imported_beside(source: bytes, folder: Path) -> dict[str, list[Path]]:
    """The files of the modules beside a file that its source imports, by top name.

    They include modules that these modules import.
    """
    files_of: dict[str, list[Path]] = {}
    names = list(_imports(source))
    while names:
        name = names.pop()
        files = _files_of(name, folder)
        if name in files_of or not files:
            continue
        files_of[name] = files
        for file in files:
            names += _imports(file.read_bytes())
    if not files_of:
        return {}
    elsewhere = {*packages_distributions(), *sys.stdlib_module_names, THIS_PACKAGE}
    return {name: files for name, files in files_of.items() if name not in elsewhere}


def _imports(source: bytes) -> Iterator[str]:
    """The top names of all modules that a source imports, also inside its functions.

    A source that isn't Python has none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # reported when the file is run
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
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
    parts: list[str | bytes] = []
    for path in files:
        parts += [str(path), path.read_bytes()]
    return digest(*parts).hex()


def _forget_changed(states: dict[str, str]) -> None:
    """Forget modules that weren't loaded from the present files, so that they are imported again.

    If one of them changed, all are forgotten, because the others may hold what it defined.
    """
    if all(_is_current(name, state) for name, state in states.items()):
        return
    for name in states:
        _modules_beside.pop(name, None)
        for module in list(sys.modules):
            if module == name or module.startswith(f"{name}."):
                del sys.modules[module]
    importlib.invalidate_caches()


def _is_current(name: str, state: str) -> bool:
    """Whether a module beside a file was loaded from files in this state, and is still in use."""
    loaded = _modules_beside.get(name)
    if loaded is None:
        return False
    return loaded.state == state and sys.modules.get(name) is loaded.module


class _FromSource(SourceFileLoader):
    """Imports a module from its source alone."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        linecache.checkcache(path)
        return self.source_to_code(self.get_data(path), path)


class _Beside(MetaPathFinder):
    """Finds the modules with these names in a folder, and what belongs to them."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.names:
            return None
        for folder in [str(self.folder)] if path is None else path:
            spec = FileFinder(folder, (_FromSource, [".py"])).find_spec(fullname)
            if spec is not None:
                return spec
        return None


@contextmanager
def _importing_from(folder: Path, names: Sequence[str]) -> Iterator[None]:
    finder = _Beside(folder, names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
