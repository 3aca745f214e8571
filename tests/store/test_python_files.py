"""A user's Python file is run again when it, or a module beside it that it imports, changed."""

import inspect
import sys

import pytest

import pyterrier_ikat as ikat
from pyterrier_ikat.store.python_files import load_python


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that isn't the session's, whose modules are forgotten in the end."""
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def load(folder, name="mine.py"):
    return load_python(str(folder / name), "a method")


def test_a_file_is_run_again_when_its_content_changed(folder):
    """Also within a second and with the same size, which compiled files don't tell apart."""
    for value in "1234":
        (folder / "mine.py").write_text(f"depth = {value}\n\ndef f():\n    return {value}\n")
        module = load(folder)
        assert (module.depth, module.f()) == (int(value), int(value))
        assert f"return {value}" in inspect.getsource(module.f)
        assert load(folder) is module


@pytest.mark.parametrize(
    "how",
    ["import beside_me", "def f():\n    import beside_me\n    return beside_me\nbeside_me = f()"],
)
def test_a_changed_module_beside_it_is_imported_again(folder, how):
    (folder / "mine.py").write_text(f"{how}\ndepth = beside_me.depth\n")
    for value in "1234":
        (folder / "beside_me.py").write_text(f"depth = {value}\n")
        assert load(folder).depth == int(value)
        assert load(folder) is load(folder)


def test_a_module_that_one_beside_it_imports_counts(folder):
    (folder / "mine.py").write_text("from beside_one import depth\n")
    (folder / "beside_one.py").write_text("from beside_package.inner import depth\n")
    (folder / "beside_package").mkdir()
    (folder / "beside_package" / "__init__.py").touch()
    for value in "1234":
        (folder / "beside_package" / "inner.py").write_text(f"depth = {value}\n")
        assert load(folder).depth == int(value)


def test_module_imported_earlier_in_session_is_not_taken_stale(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    (folder / "beside_me.py").write_text("depth = 1\n")
    import beside_me

    (folder / "beside_me.py").write_text("depth = 2\n")
    (folder / "mine.py").write_text("from beside_me import depth\n")
    assert beside_me.depth == 1
    assert load(folder).depth == 2


def test_two_files_share_what_they_import(folder):
    (folder / "beside_me.py").write_text("class Shared:\n    pass\n")
    for name in ("one.py", "two.py"):
        (folder / name).write_text("from beside_me import Shared\n")
    assert load(folder, "one.py").Shared is load(folder, "two.py").Shared
    (folder / "beside_me.py").write_text("class Shared:\n    depth = 2\n")
    assert load(folder, "one.py").Shared is load(folder, "two.py").Shared
    assert load(folder, "one.py").Shared.depth == 2


def test_installed_packages_and_pythons_modules_stay_as_they_are(folder):
    import statistics

    import click

    for name in ("click", "statistics", "pyterrier_ikat"):
        (folder / f"{name}.py").write_text("raise ZeroDivisionError\n")
    (folder / "mine.py").write_text("import click, statistics, pyterrier_ikat\n")
    assert load(folder).click is click
    assert load(folder).statistics is statistics is sys.modules["statistics"]
    assert load(folder).pyterrier_ikat is ikat


def test_file_that_cannot_run_names_the_line_and_is_retried(folder):
    (folder / "mine.py").write_text("import os\n1 / 0\n")
    with pytest.raises(
        ikat.UsageError,
        match=r"mine\.py can't be run: ZeroDivisionError: division by zero \(line 2\)",
    ):
        load(folder)
    (folder / "mine.py").write_text("depth = 1\n")
    assert load(folder).depth == 1
    (folder / "mine.py").write_text("depth = = 1\n")
    with pytest.raises(ikat.UsageError, match=r"SyntaxError.*\(line 1\)"):
        load(folder)
    (folder / "mine.py").write_text("depth = 1\n")
    assert load(folder).depth == 1


METHODS = '''
import pyterrier_ikat as ikat

@ikat.method(paper="ours")
def gate(retriever):
    """Mine."""
    return ikat.{operator}() >> retriever % {depth}
'''


def test_the_methods_of_an_edited_file_are_the_new_ones(folder):
    depths = []
    for depth in (5, 2):
        (folder / "mine.py").write_text(METHODS.format(operator="RawUtterance", depth=depth))
        depths.append(
            repr(ikat.methods.find(f"{folder}/mine.py:gate").build(retriever=ikat.BM25Rerank()))
        )
    assert "RankCutoff(5)" in depths[0]
    assert "RankCutoff(2)" in depths[1]


def test_the_measures_of_an_edited_file_are_the_new_ones(folder):
    from pyterrier_ikat.evaluation import as_measures

    source = "import ir_measures\nmine = ir_measures.{0}\n"
    found = []
    for measure in ("P @ 5", "P @ 3"):
        (folder / "mine.py").write_text(source.format(measure))
        found += as_measures([f"{folder}/mine.py:mine"])
    assert list(map(str, found)) == ["P@5", "P@3"]


@pytest.mark.parametrize("stops", ["KeyboardInterrupt()", "SystemExit(3)", "GeneratorExit()"])
def test_what_stops_the_process_is_no_fault_of_the_file(folder, stops):
    (folder / "mine.py").write_text(f"raise {stops}\n")
    with pytest.raises((KeyboardInterrupt, SystemExit, GeneratorExit)) as caught:
        load(folder)
    assert repr(caught.value).rstrip(",)") == stops.rstrip(")")
    (folder / "mine.py").write_text("depth = 5\n")
    assert load(folder).depth == 5


def test_a_users_advice_is_said_and_other_errors_have_a_line(folder):
    (folder / "mine.py").write_text(
        "from pyterrier_ikat import UsageError\nraise UsageError('give a depth')\n"
    )
    with pytest.raises(ikat.UsageError, match=r"\Agive a depth\Z"):
        load(folder)
    (folder / "mine.py").write_text("depth = 5\ndepth / 0\n")
    with pytest.raises(ikat.UsageError, match=r"can't be run: ZeroDivisionError: .*\(line 2\)"):
        load(folder)


def test_what_is_no_python_file_or_is_not_there_is_told(folder):
    (folder / "mine.txt").write_text("depth = 1")
    with pytest.raises(ikat.UsageError, match=r"mine\.txt is not a Python file: give a method's"):
        load(folder, "mine.txt")
    with pytest.raises(ikat.UsageError, match=r"there is no file .*none\.py: give the path of a P"):
        load(folder, "none.py")


def test_files_of_one_name_are_two_and_home_is_known(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    for number, name in enumerate(("a", "b")):
        (folder / name).mkdir()
        (folder / name / "mine.py").write_text(f"depth = {number}\n")
    first = load(folder / "a")
    second = load_python("~/b/mine.py", "a method")
    assert (first.depth, second.depth) == (0, 1)
    assert load(folder / "a") is first
    assert first.__file__ == str(folder / "a" / "mine.py")
    assert sys.modules[first.__name__] is first


def test_a_linked_file_has_the_modules_beside_itself(folder):
    (folder / "real").mkdir()
    (folder / "real" / "beside_real.py").write_text("depth = 5\n")
    (folder / "real" / "mine.py").write_text("from beside_real import depth\n")
    (folder / "mine.py").symlink_to(folder / "real" / "mine.py")
    assert load(folder).depth == 5


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def f():\n    1 / 0\n\nf()\n", 2),
        ("import beside_fails\n\nbeside_fails.f()\n", 3),
        ("def f():\n    import beside_fails\n    beside_fails.f()\n\nf()\n", 3),
    ],
)
def test_the_line_is_the_files_last_on_the_way_to_the_error(folder, source, line):
    (folder / "beside_fails.py").write_text("\n" * 8 + "def f():\n    1 / 0\n")
    (folder / "mine.py").write_text(source)
    settings = (sys.pycache_prefix, list(sys.path))
    modules = {*sys.modules, "beside_fails"}
    with pytest.raises(ikat.UsageError, match=rf"ZeroDivisionError.*\(line {line}\)$"):
        load(folder)
    assert (sys.pycache_prefix, sys.path) == settings
    assert modules.issuperset(sys.modules)  # none that failed halfway


def test_a_module_beside_it_that_was_removed_is_told(folder):
    (folder / "beside_me.py").write_text("depth = 1\n")
    (folder / "mine.py").write_text("from beside_me import depth\n")
    assert load(folder).depth == 1
    (folder / "beside_me.py").unlink()
    with pytest.raises(ikat.UsageError, match="ModuleNotFoundError: No module named 'beside_me'"):
        load(folder)


def test_modules_elsewhere_go_before_those_beside_a_file(folder, monkeypatch):
    for number, name in enumerate(("elsewhere", "here")):
        (folder / name).mkdir()
        (folder / name / "of_two_folders.py").write_text(f"depth = {number}\n")
    (folder / "here" / "mine.py").write_text("from of_two_folders import depth\n")
    monkeypatch.syspath_prepend(folder / "elsewhere")
    assert load(folder / "here").depth == 0


def test_the_line_of_a_module_beside_it_is_not_the_files(folder):
    (folder / "beside_wrong.py").write_text("\n" * 8 + "depth = = 1\n")
    (folder / "mine.py").write_text("depth = 1\nimport beside_wrong\n")
    with pytest.raises(
        ikat.UsageError, match=r"mine\.py can't be run: .*\(beside_wrong\.py, line 9\) \(line 2\)$"
    ):
        load(folder)
    (folder / "mine.py").write_text("import json\njson.loads('{')\n\nexec('1 +')\n")
    with pytest.raises(ikat.UsageError, match=r"JSONDecodeError.*\(line 2\)$"):
        load(folder)
    (folder / "mine.py").write_text("\n\nexec('1 +')\n")
    with pytest.raises(ikat.UsageError, match=r"SyntaxError.*\(line 3\)$"):
        load(folder)
