"""The user's Python files as modules, with the modules beside them that they import.

A file is run once for each of its contents.
"""

import importlib
import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import NamedTuple

from ..errors import UsageError
from .cache import digest

THIS_PACKAGE = __name__.partition(".")[0]
"""A file in this package's checkout has the package beside it."""


class _Loaded(NamedTuple):
    """The module of a file.

    Attributes:
        files: the file, and the modules beside it that were imported.
        state: their contents then.
        module: the module.
    """

    files: list[Path]
    state: str
    module: ModuleType


_file_modules: dict[str, _Loaded] = {}
"""The module of each file, by name."""
_states_beside: dict[str, str] = {}
"""The content of each module beside a file when it was imported, by name."""


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
    name = f"ikat_methods_{digest(str(file.resolve())).hex()[:12]}"
    loaded = _file_modules.pop(name, None)
    if loaded is None or loaded.state != _state(loaded.files):
        loaded = _load(file, name, path)
    _file_modules[name] = loaded
    return loaded.module


def _load(file: Path, name: str, path: str) -> _Loaded:
    folder = file.resolve().parent
    source = file.read_bytes()
    before = _files_beside(folder)
    if any(_states_beside.get(module) != _state([before[module]]) for module in before):
        for module_name in before:
            del sys.modules[module_name]
    with _importing_from(folder):
        module = _run(file, source, name, path)
    beside = _files_beside(folder)
    for module_name, module_file in beside.items():
        _states_beside[module_name] = _state([module_file])
    files = [file, *beside.values()]
    return _Loaded(files, _state(files), module)


def _run(file: Path, source: bytes, name: str, path: str) -> ModuleType:
    """The module of a file's source.

    It isn't read from compiled files, which a change within a second leaves as they are.
    """
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
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
    if isinstance(error, SyntaxError) and error.filename == str(file) and error.lineno:
        return error.lineno
    line: int | str | None = None
    for frame in extract_tb(error.__traceback__):
        if frame.filename == str(file):
            line = frame.lineno
    return line or "?"


def _files_beside(folder: Path) -> dict[str, Path]:
    """The files of the imported modules that lie in a folder, by the modules' names.

    Those of installed packages, such as one that is developed in the folder, are omitted.
    """
    files = {}
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        path = getattr(module, "__file__", None) or ""
        if path == str(folder / f"{top}.py") or path.startswith(str(folder / top) + os.sep):
            files[name] = Path(path)
    if not files:
        return {}
    installed = {*packages_distributions(), THIS_PACKAGE}
    return {name: file for name, file in files.items() if name.partition(".")[0] not in installed}


def _state(files: Iterable[Path]) -> str:
    contents = [file.read_bytes() if file.is_file() else b"" for file in files]
    return digest(*contents).hex()


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Find modules in a folder, too, if they are nowhere else."""
    prefix = sys.pycache_prefix
    # Compiled files don't tell a change within a second, so none is read or written.
    sys.pycache_prefix = os.devnull
    sys.path.append(str(folder))
    importlib.invalidate_caches()
    linecache.checkcache()
    try:
        yield
    finally:
        sys.pycache_prefix = prefix
        sys.path.remove(str(folder))
