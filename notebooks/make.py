"""Write the notebooks from their sources and execute them: `python notebooks/make.py [NAME ...]`.

A source is `source/NAME.py` in cells, `# %%` (code) and `# %% [markdown]` (text), which editors know, too. The cell that
installs is added here. `real_data` and `evidence` read the folder that `IKAT_DATA` names, or download.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in (FOLDER / "source").glob("*.py"))
INSTALL = """import importlib.util
from pathlib import Path

if importlib.util.find_spec("pyterrier_ikat") is None:  # upload the wheel that `python -m build` wrote into the folder of this notebook
    wheel = max(Path().glob("pyterrier_ikat-*.whl"), key=lambda path: path.stat().st_mtime)
    %pip install -q "{wheel.resolve()}[notebooks]\""""


def build(name: str) -> nbformat.NotebookNode:
    """The notebook of that name, not executed."""
    first, *others = _cells((FOLDER / "source" / f"{name}.py").read_text(encoding="utf-8"))
    cells = [first, new_code_cell(INSTALL), *others]
    for number, cell in enumerate(cells):
        cell["id"] = f"{name}-{number}".replace("_", "-")
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})


def _cells(source: str) -> Iterator[nbformat.NotebookNode]:
    for part in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:
        kind, _, body = part.partition("\n")
        if kind.strip() == "[markdown]":
            yield new_markdown_cell(re.sub("^# ?", "", body, flags=re.MULTILINE).strip())
        else:
            yield new_code_cell(body.strip())


@contextmanager
def started(**environment: str) -> Iterator[NotebookClient]:
    """A kernel for any number of notebooks, so that the heavy packages are imported once; with further environment variables."""
    client = NotebookClient(new_notebook(), timeout=300, kernel_name="python3")
    with client.setup_kernel(env={**os.environ, "TQDM_DISABLE": "1", **environment}):
        yield client


def execute(notebook: nbformat.NotebookNode, kernel: NotebookClient) -> nbformat.NotebookNode:
    """The notebook with its outputs, run without any name or display option of the one before, in an empty folder; an error is raised.

    What is under way is not shown: it would stay as an empty output.
    """
    with tempfile.TemporaryDirectory() as folder:
        empty = f"__import__('os').chdir({folder!r})\n__import__('pandas').reset_option('^display')\n%reset -f"
        start = new_code_cell(f"{empty}\nget_ipython().execution_count = 1")
        kernel.nb = new_notebook(cells=[start, *notebook.cells], metadata=notebook.metadata)
        kernel.reset_execution_trackers()
        for index, cell in enumerate(kernel.nb.cells):
            kernel.execute_cell(cell, index)
    executed = new_notebook(cells=kernel.nb.cells[1:], metadata=notebook.metadata)
    for cell in executed.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.metadata = {}
    return executed


if __name__ == "__main__":
    with started() as kernel:
        for name in sys.argv[1:] or NAMES:
            nbformat.write(execute(build(name), kernel), FOLDER / f"{name}.ipynb")
