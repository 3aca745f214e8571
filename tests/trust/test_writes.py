"""files.py writes every file, whole or not at all; who else opens one for writing is named here, with the reason."""

import ast
import re
from pathlib import Path

import pytest

import pyterrier_ikat as ikat

PACKAGE = Path(ikat.__file__).parent
WORKPLACE = "part of an index, whose folder gets its name when everything is in it"
ELSEWHERE = {
    "retrieve/dense.py": WORKPLACE,
    "retrieve/eager.py": WORKPLACE,
    "retrieve/texts.py": "SQLite, which writes in transactions",
    "runs/log.py": "an empty file that only its owner reads, before its first line",
    "study/account.py": "a line at a time at its end; one that was cut is passed over",
    "store/cache.py": "SQLite, which writes in transactions",
}
TO_A_PATH = ("write_text", "write_bytes", "touch", "copyfile", "copytree", "sqlite3.connect")
TO_A_PATH_OR_FILE = ("to_csv", "to_json", "to_parquet", "to_pickle", "tofile", "savez", "savez_compressed", "savefig")


def writing_calls(tree):
    """The calls that write to a path, but for those that get a file of ``atomic_write``."""
    ours = {
        ast.unparse(item.optional_vars)
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if item.optional_vars and ast.unparse(item.context_expr).startswith("atomic_write(")
    }
    return [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call) and _writes(node, ours)]


def _writes(call, ours):
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if last in ("open", "fdopen"):
        return any(map(_is_writing_mode, [*call.args, *(option.value for option in call.keywords)]))
    if last in TO_A_PATH_OR_FILE:
        return bool(call.args) and ast.unparse(call.args[0]) not in ours
    return last in TO_A_PATH or name in TO_A_PATH


def _is_writing_mode(argument):
    texts = [node.value for node in ast.walk(argument) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return any(re.fullmatch(r"r?[bt]?[wax+][bt+]*", text) for text in texts)


def test_only_files_py_opens_files_for_writing_but_for_those_with_a_reason():
    modules = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    found = {name: calls for name, tree in modules.items() if (calls := writing_calls(tree))}
    # atomic_write, which makes a private file first; and the name of a lock's holder
    assert len(found.pop("store/files.py")) == 3  # one of them adds a line at a time at the end of a file
    assert len(found.pop("store/locks.py")) == 1
    assert set(found) == set(ELSEWHERE), found


@pytest.mark.parametrize(
    "code",
    [
        "open(path, 'w')",
        "open(path, mode='x')",
        "path.open('ab')",
        "path.open('r+b')",
        "gzip.open(path, 'wt')",
        "path.open(mode.replace('w', 'x'))",
        "path.write_text(text)",
        "Path('a').write_bytes(b'')",
        "frame.to_csv(path)",
        "with path.open() as file:\n    frame.to_csv(file)",
        "sqlite3.connect(path)",
    ],
)
def test_such_a_call_would_be_found(code):
    assert len(writing_calls(ast.parse(code))) == 1


@pytest.mark.parametrize(
    "code", ["open(path)", "path.open('rb')", "frame.to_csv(index=False)", "with atomic_write(path) as file:\n    frame.to_csv(file)"]
)
def test_reading_and_atomic_writing_would_not(code):
    assert writing_calls(ast.parse(code)) == []
