"""The page of a report: one HTML file with its style and its script inside, which loads nothing.

Its head and a line for each turn are HTML, in which jinja escapes all texts. The turns themselves
are JSON, which the script draws by ``textContent`` when they are opened. Should a text slip
through, the page's content security policy names the hash of the page's only script and style. The
browser runs nothing else.
"""

import base64
import hashlib
from functools import lru_cache
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ...errors import counted
from ...store.files import atomic_write
from . import data
from .content import Content

FOLDER = Path(__file__).parent / "files"


class Report:
    """A page that shows runs. It displays itself in a notebook.

    Attributes:
        html: the whole page, which loads nothing from anywhere.
        name: what it shows, for screen readers.
    """

    def __init__(self, html: str, name: str) -> None:
        self.html = html
        self.name = name

    @classmethod
    def of(cls, content: Content) -> "Report":
        """Draw the page. Characters that HTML can't have (zeros, half characters) are replaced."""
        css = (FOLDER / "report.css").read_text(encoding="utf-8")
        script = (FOLDER / "report.js").read_text(encoding="utf-8")
        policy = (
            f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
            "base-uri 'none'; form-action 'none'"
        )
        overview = data.writable(data.overview(content))
        turns = data.packed(data.turns(content))
        page = _environment().get_template("report.html.jinja")
        html = page.render(
            page=content,
            css=Markup(css),
            script=Markup(script),
            policy=policy,
            overview=Markup(data.in_script(overview)),
            turns=Markup(data.in_script(turns)),
        )
        return cls(data.writable(html), ", ".join(content.names))

    def save(self, path: str | Path) -> Path:
        """Write the page into a file, completely or not at all.

        Returns:
            The file.
        """
        with atomic_write(path) as file:
            file.write(self.html)
        return Path(path)

    def _repr_html_(self) -> str:
        """The page in its own frame, so that its script can't reach the notebook."""
        return (
            f'<iframe title="{escape(self.name)}" srcdoc="{escape(self.html)}" '
            'sandbox="allow-scripts" width="100%" height="720" style="border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        megabytes = len(self.html.encode()) / 1e6
        return f"<report of {self.name}, {megabytes:.1f} MB: .save(path) writes it>"


def _hash(text: str) -> str:
    """The hash of a script or style, as a content security policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@lru_cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    return environment
