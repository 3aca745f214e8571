"""What no module does.

Write a file beside files.py without a reason, unpack an archive, read a pickle, run what was read.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import pyterrier_ikat as ikat

PACKAGE = Path(ikat.__file__).parent
WORKPLACE = "part of an index, whose folder gets its name when everything is in it"
ELSEWHERE = {
    "retrieve/dense.py": WORKPLACE,
    "retrieve/eager.py": WORKPLACE,
    "retrieve/lucene_child.py": "its own output, a pipe to the process that started it",
    "retrieve/texts.py": "SQLite, which writes in transactions",
    "runs/log.py": "an empty file that only its owner reads, before its first line",
    "study/recorder.py": "a line at a time at its end; one that was cut is passed over",
    "store/cache.py": "SQLite, which writes in transactions",
}
TO_A_PATH = ("write_text", "write_bytes", "touch", "copyfile", "copytree", "sqlite3.connect")
TO_A_PATH_OR_FILE = (
    "to_csv",
    "to_json",
    "to_parquet",
    "to_pickle",
    "tofile",
    "savez",
    "savez_compressed",
    "savefig",
)


@cache
def modules():
    """The code of every module, by the module's path."""
    trees = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        trees[path.relative_to(PACKAGE).as_posix()] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


class Found(NamedTuple):
    """What a module does: calls with the names of what is called, imports, ``with`` statements."""

    calls: list
    imports: list
    withs: list


@cache
def found_in(tree):
    found = Found([], [], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found.calls.append((node, dotted(node.func)))
        elif isinstance(node, ast.Import):
            found.imports.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.imports.extend(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.With):
            found.withs.append(node)
    return found


def dotted(node):
    """The code of a name, or of an attribute of something.

    The same as from ``ast.unparse``, which takes a second for all modules.
    """
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def writing_calls(tree):
    """The calls that write to a path, but for those that get a file of ``atomic_write``."""
    found = found_in(tree)
    ours = set()
    for node in found.withs:
        for item in node.items:
            is_ours = ast.unparse(item.context_expr).startswith("atomic_write(")
            if is_ours and item.optional_vars:
                ours.add(ast.unparse(item.optional_vars))
    return [ast.unparse(call) for call, name in found.calls if _writes(call, name, ours)]


def _writes(call, name, ours):
    last = name.rpartition(".")[2]
    if last in ("open", "fdopen"):
        arguments = [*call.args, *(option.value for option in call.keywords)]
        return any(map(_is_writing_mode, arguments))
    if last in TO_A_PATH_OR_FILE:
        return bool(call.args) and ast.unparse(call.args[0]) not in ours
    return last in TO_A_PATH or name in TO_A_PATH


def _is_writing_mode(argument):
    for node in ast.walk(argument):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and re.fullmatch(r"r?[bt]?[wax+][bt+]*", node.value):
            return True
    return False


def test_only_files_py_writes_files_but_for_those_with_a_reason():
    found = {}
    for name, tree in modules().items():
        writing = writing_calls(tree)
        if writing:
            found[name] = writing
    # atomic_write makes a private file; a lock names its holder; a line is added at a file's end
    assert len(found.pop("store/files.py")) == 3
    assert set(found) == set(ELSEWHERE), found


def calls(tree):
    """The dotted names of everything that is called or imported."""
    found = found_in(tree)
    return [*(name for _, name in found.calls), *found.imports]


FORBIDDEN = {
    "eval",
    "exec",
    "compile",
    "os.system",
    "os.popen",
    "os.umask",  # of the whole process: other threads would write files that anybody may write
    "pickle.load",
    "pd.read_pickle",
    "torch.load",
    "yaml.load",
    "joblib.load",
}
FORBIDDEN |= {
    "tarfile",
    "packed.extract",
    "packed.extractall",
    "shutil.unpack_archive",
    "shelve",
    "marshal",
    "dill",
    "cloudpickle.load",
}


def test_no_archive_is_unpacked_no_pickle_read_and_no_data_run():
    refused = {
        ("shell", "True"),
        ("allow_pickle", "True"),
        ("trust_remote_code", "True"),
        ("weights_only", "False"),
    }
    for name, tree in modules().items():
        allowed = set()
        if name == "store/python_files.py":  # a user's own file of methods, by its path
            allowed = {"compile", "exec"}
        assert (FORBIDDEN - allowed).isdisjoint(calls(tree)), name
        for call, called in found_in(tree).calls:
            for option in call.keywords:
                if isinstance(option.value, ast.Constant):
                    assert (option.arg, str(option.value.value)) not in refused, name
            if called in ("np.load", "numpy.load"):
                assert "allow_pickle=False" in ast.unparse(call), name


OF_LINUX = {
    "fcntl",
    "resource",
    "termios",
    "pwd",
    "os.fork",
    "os.register_at_fork",
    "os.pread",
    "os.preadv",
    "os.pwrite",
    "os.sysconf",
}
OF_LINUX |= {
    "os.getuid",
    "os.geteuid",
    "os.killpg",
    "os.setsid",
    "os.mkfifo",
    "os.uname",
    "os.sched_getaffinity",
    "os.chown",
    "os.fdatasync",
}


def test_nothing_is_called_that_only_linux_has():
    found = []
    for name, tree in modules().items():
        found += [(name, call) for call in calls(tree) if call in OF_LINUX]
    modules_at_fork = ["progress.py", "retrieve/lucene_process.py", "store/cache.py"]
    # each asks first whether there is one
    assert sorted(found) == [(name, "os.register_at_fork") for name in modules_at_fork]


def users(*called):
    """The modules that call or import one of these."""
    names = []
    for name, tree in modules().items():
        if any(call.startswith(called) for call in calls(tree)):
            names.append(name)
    return names


def test_packed_files_open_in_one_place_and_pickles_stay_ours():
    assert users("zipfile.ZipFile") == ["conversations/passages.py"]
    assert users("pickle") == ["distribute/on_ray.py"]


FOUND = [
    "open(path, mode='x')",
    "path.open('ab')",
    "gzip.open(path, 'wt')",
    "path.open(mode.replace('w', 'x'))",
    "path.write_text(text)",
    "frame.to_csv(path)",
    "with path.open() as file:\n    frame.to_csv(file)",
    "sqlite3.connect(path)",
]
NOT_FOUND = [
    "open(path)",
    "path.open('rb')",
    "frame.to_csv(index=False)",
    "with atomic_write(path) as file:\n    frame.to_csv(file)",
]


@pytest.mark.parametrize("code", [*FOUND, *NOT_FOUND])
def test_just_the_calls_that_write_to_a_path_are_found(code):
    assert len(writing_calls(ast.parse(code))) == (code in FOUND)
