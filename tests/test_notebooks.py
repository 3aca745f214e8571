"""The notebooks and the README's Python run, and show what is saved.

`IKAT_SAVE_NOTEBOOKS=1` saves what they show now.
"""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import pyterrier_ikat as ikat

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
SAVES = bool(os.environ.get("IKAT_SAVE_NOTEBOOKS"))
NUMBER = r"-?\d+\.\d+(?:e[-+]?\d+)?"
OF_A_MACHINE = (
    r"(?<![\w.:/])/(?:home|root|tmp|work|Users|usr|opt|var|mnt)/"
    r"|[A-Z]:\\|127\.0\.0\.1:\d|\bsk-\w{6}"
)
"""A path, the port of a running server, a key."""


def saved(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cell):
    """What the cell prints and shows, as plain text."""
    found = []
    for output in cell.outputs:
        shown = output.get("data", {})
        found.append(output.get("text") or shown.get("text/plain", ""))
    return "\n".join(found)


def words(text):
    """The text without its figures, which differ in the last digits between processors."""
    return re.sub(NUMBER, "#", text).replace("-", "").split()


def figures(text):
    return [float(number) for number in re.findall(NUMBER, text)]


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """Run a notebook in a new folder, in a kernel of its own, and return it."""
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setenv("IKAT_DATA", str(ROOT.parent / "shared" / "ikat"))

    def executed(notebook):
        NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            resources={"metadata": {"path": str(tmp_path)}},
        ).execute()
        for number, cell in enumerate(code(notebook), 1):
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.execution_count = number
            cell.metadata = {}
        return notebook

    return executed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.real_data if name == "evidence" else ())
        for name in NAMES
    ],
)
def test_the_notebook_runs_and_shows_what_is_saved(name, execute):
    got = execute(saved(name))
    if SAVES:
        nbformat.write(got, FOLDER / f"{name}.ipynb")
    for then, now in zip(code(saved(name)), code(got), strict=True):
        assert words(texts(now)) == words(texts(then)), "run this test with IKAT_SAVE_NOTEBOOKS=1"
        assert figures(texts(now)) == pytest.approx(figures(texts(then)), abs=2e-3)


def test_the_notebook_of_a_paper_runs_for_another_paper(execute):
    paper, system = "organizers_2025", "baseline_2025_bm25"
    notebook = saved("paper")
    cell = next(cell for cell in code(notebook) if "PAPER =" in cell.source)
    cell.source, changed = re.subn(
        r'PAPER = ".*"\nSYSTEMS = \[.*\]', f'PAPER = "{paper}"\nSYSTEMS = ["{system}"]', cell.source
    )
    assert changed == 1
    shown = "\n".join(map(texts, code(execute(notebook))))
    assert re.search(rf"^{system} +ours .* 24$", shown, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_notebook_asks_installs_and_tells_nothing_of_the_machine(name):
    notebook = saved(name)
    assert re.match(r"# .+\n\*\*Question: .+\?\*\*\n", notebook.cells[0].source)
    assert notebook.cells[1].source == saved("quickstart").cells[1].source
    assert '%pip install -q --find-links . "pyterrier_ikat[notebooks]"' in notebook.cells[1].source
    assert "## Try next\n- " in notebook.cells[-1].source
    cells = code(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert not re.search(OF_A_MACHINE, str(cell.outputs)), cell.source
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr"


def test_no_text_of_the_real_data_is_saved(ikat_data):
    shown = (FOLDER / "evidence.ipynb").read_text(encoding="utf-8") + "".join(
        map(texts, code(saved("evidence")))
    )
    data = ikat.dataset("ikat:2023-mini")
    topics = data.get_topics("manual")
    said = {*topics["qutterance"], *topics["qresolved"]}
    for ptkb in topics["qptkb"]:
        said.update(ptkb.values())
    said |= {passage["text"].strip()[:40] for passage in data.get_corpus_iter(verbose=False)}
    assert not [text for text in said if len(text) > 20 and text in shown]
