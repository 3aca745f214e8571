"""The notebooks and the README's Python run, and show what is saved. `IKAT_SAVE_NOTEBOOKS=1` saves what they show now."""

import os
import re
import shlex
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import pyterrier_ikat as ikat

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
SAVES = bool(os.environ.get("IKAT_SAVE_NOTEBOOKS"))
VECTORS = ROOT / "tests" / "minilm.npz"
NUMBER = r"-?\d+\.\d+(?:e[-+]?\d+)?"
KERNEL = "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"
START = """__import__("os").chdir({folder!r})
__import__("pandas").reset_option("^display")
__import__("pandas").set_option("display.max_columns", 20)  # as where a kernel imports pandas, not its parent
%reset -f
get_ipython().execution_count = 1"""
FIRST = """import gc, sys
gc.disable()
sys.path.append({folder!r})
import remembering_encoder
remembering_encoder.install()
gc.freeze()
gc.enable()"""
"""Looking for garbage takes a fifth of the imports, and a second of each `%reset`, with all that is imported."""
ENCODES = """import numpy as np
import pyterrier_ikat as ikat
from pyterrier_ikat.store.models import BUNDLED, load_bi_encoder
texts = [passage["text"] for passage in ikat.dataset("ikat:sample").get_corpus_iter(verbose=False)][::50]
encoded = load_bi_encoder(BUNDLED).encode(texts, convert_to_tensor=True).numpy()
bool((abs((encoded @ np.load({file!r})["vectors"].T).max(axis=1) - 1) < 1e-3).all())"""
OF_A_MACHINE = r"(?<![\w.:/])/(?:home|root|tmp|work|Users|usr|opt|var|mnt)/|[A-Z]:\\|127\.0\.0\.1:\d|\bsk-\w{6}"
"""A path, the port of a running server, a key."""


def saved(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cell):
    """What the cell prints and shows, as plain text."""
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


def words(text):
    """The text without its figures, which differ in the last digits between processors."""
    return re.sub(NUMBER, "#", text).replace("-", "").split()


def figures(text):
    return [float(number) for number in re.findall(NUMBER, text)]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory, sample_vectors):
    """The kernel's folder of vectors, see remembering_encoder.py."""
    return tmp_path_factory.mktemp("vectors") if SAVES else sample_vectors


@pytest.fixture(scope="module")
def execute(tmp_path_factory, vectors):
    """Run a notebook in a new folder, and return it. All share a kernel, which imports the heavy packages and encodes each text once."""
    home, data = tmp_path_factory.mktemp("home"), ROOT.parent / "shared" / "ikat"
    environment = {**os.environ, "TQDM_DISABLE": "1", "IKAT_HOME": str(home), "IKAT_DATA": str(data), "IKAT_TEST_VECTORS": str(vectors)}
    client = NotebookClient(new_notebook(), timeout=300, kernel_name="python3")

    def executed(notebook):
        start = new_code_cell(START.format(folder=str(tmp_path_factory.mktemp("notebook"))))
        client.nb = new_notebook(cells=[start, *notebook.cells], metadata=notebook.metadata)
        client.reset_execution_trackers()
        for number, cell in enumerate(client.nb.cells):
            client.execute_cell(cell, number)
        for cell in code(notebook):
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.metadata = {}
        return notebook

    if python := os.environ.get("IKAT_TEST_PYTHON"):
        client.km = client.create_kernel_manager()
        client.km.kernel_spec.argv = [*shlex.split(python), "-c", KERNEL, "-f", "{connection_file}"]
    with client.setup_kernel(env=environment):
        executed(new_notebook(cells=[new_code_cell(FIRST.format(folder=str(ROOT / "tests")))]))
        yield executed


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.real_data if name == "evidence" else ()) for name in NAMES])
def test_the_notebook_runs_and_shows_what_is_saved(name, execute, vectors):
    got = execute(saved(name))
    if SAVES and name == "compare":
        files = sorted(vectors.iterdir())
        encoded = [np.frombuffer(file.read_bytes(), np.float32) for file in files]
        np.savez_compressed(VECTORS, names=[file.name for file in files], vectors=np.array(encoded, np.float16))
    if SAVES:
        first = code(got)[0].execution_count  # 2 with the kernel of Python 3.10
        for cell in code(got):
            cell.execution_count -= first - 1
        nbformat.write(got, FOLDER / f"{name}.ipynb")
    for then, now in zip(code(saved(name)), code(got), strict=True):
        assert words(texts(now)) == words(texts(then)), "run this test with IKAT_SAVE_NOTEBOOKS=1"
        assert figures(texts(now)) == pytest.approx(figures(texts(then)), abs=2e-3)


def test_the_vectors_that_the_notebooks_need_are_those_of_the_model(execute):
    (cell,) = code(execute(new_notebook(cells=[new_code_cell(ENCODES.format(file=str(VECTORS)))])))
    assert texts(cell) == "True"


def test_the_notebook_of_a_paper_runs_for_another_paper(execute):
    paper, system = "organizers_2025", "baseline_2025_bm25"
    notebook = saved("paper")
    cell = next(cell for cell in code(notebook) if "PAPER =" in cell.source)
    cell.source, changed = re.subn(r'PAPER = ".*"\nSYSTEMS = \[.*\]', f'PAPER = "{paper}"\nSYSTEMS = ["{system}"]', cell.source)
    assert changed == 1
    shown = "\n".join(map(texts, code(execute(notebook))))
    assert re.search(rf"^{system} +ours .* 24$", shown, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_asks_a_question_installs_the_package_and_tells_nothing_of_the_machine(name):
    notebook = saved(name)
    assert re.match(r"# .+\n\*\*Question: .+\?\*\*\n", notebook.cells[0].source)
    assert notebook.cells[1].source == saved("quickstart").cells[1].source
    assert '%pip install -q --find-links . "pyterrier_ikat[notebooks]"' in notebook.cells[1].source
    assert "## Try next\n- " in notebook.cells[-1].source
    cells = code(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert not re.search(OF_A_MACHINE, str(cell.outputs)), cell.source
        assert all(output.output_type != "error" and output.get("name") != "stderr" for output in cell.outputs)


def test_no_text_of_the_real_data_is_saved(ikat_data):
    shown = (FOLDER / "evidence.ipynb").read_text(encoding="utf-8") + "".join(map(texts, code(saved("evidence"))))
    data = ikat.dataset("ikat:2023-mini")
    topics = data.get_topics("manual")
    said = {*topics["qutterance"], *topics["qresolved"], *(text for ptkb in topics["qptkb"] for text in ptkb.values())}
    said |= {passage["text"].strip()[:40] for passage in data.get_corpus_iter(verbose=False)}
    assert not [text for text in said if len(text) > 20 and text in shown]
