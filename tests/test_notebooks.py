"""The saved notebooks are the executed sources: same cells, same outputs, nothing of the machine or of the data. So is the README."""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_code_cell, new_notebook

import pyterrier_ikat as ikat
from pyterrier_ikat.papers.published import PAPERS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
_spec = importlib.util.spec_from_file_location("make", FOLDER / "make.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)

NUMBER = r"-?\d+\.\d+(?:e[-+]?\d+)?"
WARM = f"""import contextlib, gc, sys, matplotlib.pyplot, sentence_transformers
with contextlib.suppress(ImportError):
    import pyterrier_pisa
sys.path.append({str(ROOT / "tests")!r})
import remembering_encoder
remembering_encoder.install()
gc.freeze()"""
"""Each notebook begins with a collection of garbage: not in the packages. MiniLM encodes each passage of the sample once for all
notebooks."""
OF_A_MACHINE = r"(?<![\w.:/])/(?:home|root|tmp|work|Users|usr|opt|var|mnt)/|[A-Z]:\\|127\.0\.0\.1:\d|\bsk-\w{6}"
"""A path, the port of a running server, a key."""


def saved(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cell):
    """What the cell prints and shows, as plain text."""
    outputs = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "\n".join(outputs)


def words(text):
    """The text without its figures, which differ in the last digits between processors, and without the size of an HTML page."""
    return re.sub(NUMBER, "#", text).replace("-", "").split()


def figures(text):
    return [float(number) for number in re.findall(NUMBER, text)]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    # Set up before the fixtures of each test are, so it can't take its folders from them.
    with make.started(IKAT_HOME=str(tmp_path_factory.mktemp("home")), IKAT_DATA=str(ROOT.parent / "shared" / "ikat")) as client:
        make.execute(new_notebook(cells=[new_code_cell(WARM)]), client)
        yield client


OF_REAL_DATA = ("evidence", "real_data")
NOTEBOOKS = [pytest.param(name, marks=pytest.mark.real_data) if name in OF_REAL_DATA else name for name in make.NAMES]


@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_and_shows_what_is_saved(name, kernel):
    expected, got = saved(name), make.execute(make.build(name), kernel)
    for then, now in zip(code(expected), code(got), strict=True):
        assert words(texts(now)) == words(texts(then)), f"run `python notebooks/make.py {name}`"
        assert figures(texts(now)) == pytest.approx(figures(texts(then)), abs=2e-3)
    first = code(got)[0].execution_count  # 2 with the kernel of Python 3.10
    assert [cell.execution_count - first + 1 for cell in code(got)] == [cell.execution_count for cell in code(expected)]


def test_the_python_block_of_the_readme_runs_in_ten_lines_and_prints_a_table_of_both_systems(kernel):
    [block] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip() and not line.startswith(("import", "from"))]) <= 10
    [cell] = make.execute(new_notebook(cells=[new_code_cell(block)]), kernel).cells
    rows = "".join(output.text for output in cell.outputs if output.get("name") == "stdout").splitlines()
    assert rows[0].split() == ["name", "nDCG@5", "R(rel=2)@20", "turns"]
    assert [row.split()[1] for row in rows[1:]] == ["QR", "AQD"]
    assert all(0 < float(row.split()[2]) < 1 and row.split()[4] == "24" for row in rows[1:])


@pytest.mark.parametrize("name", make.NAMES)
def test_the_saved_cells_are_those_of_the_source(name):
    assert [cell.source for cell in saved(name).cells] == [cell.source for cell in make.build(name).cells], "run `python notebooks/make.py`"


@pytest.mark.parametrize("name", make.NAMES)
def test_it_asks_a_question_installs_with_its_first_cell_and_says_what_to_try(name):
    cells = saved(name).cells
    assert re.match(r"# .+\n\*\*Question: .+\?\*\*\n", cells[0].source)
    assert cells[1].source == make.INSTALL
    assert not cells[1].outputs
    assert "## Try next\n- " in cells[-1].source


@pytest.mark.skipif(not (ROOT / "pyterrier_ikat").is_dir(), reason="no checkout of the package to build a wheel of")
def test_the_first_cell_installs_an_uploaded_wheel(tmp_path, monkeypatch):
    """In a folder with the wheel and without the package; pip gets no network and no dependencies."""
    copy, uploaded = tmp_path / "copy", tmp_path / "uploaded"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "docs", "tests", "notebooks", "build", "*.egg-info", "__pycache__"))
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(uploaded), str(copy)]
    subprocess.run(build, check=True)
    shell, installed = InteractiveShell(), []
    shell.register_magic_function(installed.append, magic_name="pip")
    monkeypatch.chdir(uploaded)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    shell.run_cell(make.INSTALL).raise_error()
    [command] = installed
    quiet, what = shlex.split(command.removeprefix("install "))
    wheel, extra = what.removesuffix("]").split("[")
    assert (quiet, extra) == ("-q", "notebooks")
    target = tmp_path / "installed"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target), wheel], check=True)
    try_it = "import pyterrier_ikat as ikat; print(ikat.__file__, len(ikat.dataset('ikat:sample').get_topics()))"
    found = subprocess.run([sys.executable, "-c", try_it], cwd=target, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(target / "pyterrier_ikat" / "__init__.py"), "24"]


@pytest.mark.parametrize("name", make.NAMES)
def test_cells_are_numbered_from_one_and_the_last_one_shows_something(name):
    cells = code(saved(name))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert cells[-1].outputs


@pytest.mark.parametrize("name", make.NAMES)
def test_outputs_tell_nothing_of_the_machine(name):
    for cell in code(saved(name)):
        assert not re.search(OF_A_MACHINE, str(cell.outputs)), cell.source
        assert all(output.output_type != "error" and output.get("name") != "stderr" for output in cell.outputs)


@pytest.mark.parametrize("name", OF_REAL_DATA)
def test_no_text_of_the_real_data_is_saved(name, ikat_data):
    shown = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8") + "".join(map(texts, code(saved(name))))
    data = ikat.dataset("ikat:2023-mini")
    topics = data.get_topics("manual")
    said = {*topics["qutterance"], *topics["qresolved"], *(text for ptkb in topics["qptkb"] for text in ptkb.values())}
    said |= {passage["text"].strip()[:40] for passage in data.get_corpus_iter(verbose=False)}
    assert not [text for text in said if len(text) > 20 and text in shown]


def test_every_saved_notebook_has_a_source():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == make.NAMES


def test_every_paper_has_a_notebook():
    assert set(PAPERS) <= set(make.NAMES)
    for name, paper in PAPERS.items():
        assert paper.title.split(",")[0].split(" and ")[0] in saved(name).cells[0].source
