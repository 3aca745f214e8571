"""Python files of the user's own, which name systems or measures."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ..errors import UsageError
from ..portable import digest


def load_python(path: str, what: str) -> ModuleType:
    """A user's file as a module; it is run once.

    Args:
        path: the file.
        what: what is looked for in it, such as "a method".

    Raises:
        UsageError: when there is no such file, or it can't be run; the message names the line.
    """
    file = Path(path).expanduser()
    example = f"give the path of a Python file with {what}, as mine.py:NAME"
    if file.suffix != ".py":
        raise UsageError(f"{path} is no Python file: give {what}'s name, or {example.removeprefix('give ')}")
    if not file.is_file():
        raise UsageError(f"there is no file {path}: {example}")
    name = f"ikat_methods_{digest(str(file.resolve())).hex()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]  # what was half run has no methods
        if isinstance(error, UsageError) or not isinstance(error, Exception):
            raise
        raise UsageError(f"{path} can't be run: {type(error).__name__}: {error}{_line(error, file)}") from error
    return module


def _line(error: Exception, file: Path) -> str:
    trace, line = error.__traceback__, getattr(error, "lineno", None)
    while trace is not None:
        line = trace.tb_lineno if Path(trace.tb_frame.f_code.co_filename) == file else line
        trace = trace.tb_next
    return "" if line is None else f" (line {line})"
