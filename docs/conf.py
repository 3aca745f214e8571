"""Sphinx's settings: `make docs` is `sphinx-build -W docs docs/_build/html`."""

import inspect
import sys
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes

import pyterrier_ikat

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
(HERE / "notebooks").mkdir(exist_ok=True)
for notebook in (HERE.parent / "notebooks").glob(
    "*.ipynb"
):  # Sphinx reads what lies below its folder; links lead there
    (HERE / "notebooks" / notebook.name).write_text(
        notebook.read_text(encoding="utf-8").replace("](../docs/", "](../"), encoding="utf-8"
    )

project = "pyterrier_ikat"
version = release = pyterrier_ikat.__version__
copyright = "the pyterrier_ikat developers"  # noqa: A001 - Sphinx's name
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_nb",
    "sphinx_click",
    "sphinx_copybutton",
    "tables",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["attrs_block"]
myst_heading_anchors = 3
highlight_language = "none"
nb_execution_mode = "off"  # the tests run the notebooks; their outputs are in the files
nb_merge_streams = True

autosummary_generate = True
autosummary_ignore_module_all = False  # a room's page has what the room exports
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = "pyterrier_ikat"
html_favicon = "_static/mark.svg"
html_theme_options = {"light_logo": "mark.svg", "dark_logo": "mark-dark.svg"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def class_signature(
    app: Any,
    what: str,
    name: str,
    value: Any,
    options: Any,
    signature: str | None,
    returned: str | None,
) -> Any:
    """Show the arguments of a class's ``__init__``, which PyTerrier's ``__new__`` hides."""
    if what != "class" or not isinstance(value, type) or issubclass(value, Exception):
        return None
    # Some Pythons (3.11.2) give that of `__new__` for the class itself.
    parameters = (
        []
        if value.__init__ is object.__init__
        else list(inspect.signature(value.__init__).parameters.values())[1:]
    )
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare)), None


def unlink_addresses(_: Any, page: nodes.document) -> None:
    """No link to mail: these pages have no address, but docutils takes ``NII@TREC`` for one."""
    for link in list(page.findall(nodes.reference)):
        if link.get("refuri", "").startswith("mailto:"):
            link.parent.replace(link, link.children)


WIDE_TABLE = 3
"""Columns from which on a phone shows each row of a table as a card."""


def label_cells(
    _app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any
) -> None:
    """Give the cells of wide tables the titles of their columns, which cards on a phone show."""
    if "<table" not in context.get("body", ""):
        return
    page = BeautifulSoup(context["body"], "html.parser")
    for table in page.select("table.docutils"):
        titles = [cell.get_text(" ", strip=True) for cell in table.select("thead th")]
        if len(titles) < WIDE_TABLE:
            continue
        table["class"] = [*table["class"], "cards-on-phone"]
        for row in table.select("tbody tr"):
            for cell, title in zip(row.find_all("td"), titles, strict=False):
                cell["data-title"] = title
    context["body"] = str(page)


def setup(app: Any) -> None:
    """Register the signatures, the titles of cells, and what must not become a link."""
    app.connect("autodoc-process-signature", class_signature)
    app.connect("html-page-context", label_cells)
    app.connect("doctree-read", unlink_addresses)
