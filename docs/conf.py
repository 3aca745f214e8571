"""Sphinx's settings; `python docs/make.py` lays the pages out and builds them."""

import inspect
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

import pyterrier_ikat

project = "pyterrier_ikat"
version = release = pyterrier_ikat.__version__
copyright = "the pyterrier_ikat developers"  # noqa: A001 - Sphinx's name
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "myst_nb", "sphinx_copybutton"]
exclude_patterns = ["readme.md", "sample.index"]
suppress_warnings = ["config.cache"]

myst_heading_anchors = 3
highlight_language = "none"
nb_execution_mode = "off"  # the tests run the notebooks; their outputs are in the files
nb_merge_streams = True

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
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_copy_source = False
html_show_sphinx = False


class DrawingDirective(Directive):
    """``{drawing} FILE``: a drawing inside the page, so that its tooltips work, as wide as there is room for."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The drawing as HTML."""
        environment = self.state.document.settings.env
        path = Path(environment.doc2path(environment.docname)).parent / self.arguments[0]
        environment.note_dependency(str(path))
        drawn = path.read_text(encoding="utf-8")
        return [nodes.raw("", f'<div class="drawing" tabindex="0" role="group" aria-label="drawing">{drawn}</div>', format="html")]


def class_signature(app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None) -> Any:
    """The arguments of a class as its ``__init__`` takes them; PyTerrier's own ``__new__`` would hide them."""
    if what != "class" or not isinstance(value, type) or issubclass(value, Exception):
        return None
    # Some Pythons (3.11.2) give that of `__new__` for the class itself.
    parameters = [] if value.__init__ is object.__init__ else list(inspect.signature(value.__init__).parameters.values())[1:]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare)), None


def unlink_addresses(_: Any, page: nodes.document) -> None:
    """No link to mail: these pages have no address, but docutils takes ``NII@TREC`` for one."""
    for link in list(page.findall(nodes.reference)):
        if link.get("refuri", "").startswith("mailto:"):
            link.parent.replace(link, link.children)


def setup(app: Any) -> None:
    """Register the directive, the signatures and what must not become a link."""
    app.add_directive("drawing", DrawingDirective)
    app.connect("autodoc-process-signature", class_signature)
    app.connect("doctree-read", unlink_addresses)
