"""The page of a report: one HTML file that loads nothing, with its style and its script inside.

Texts of users, passages and models are escaped by jinja. Should one slip through, the page's content security policy names the hash of the
page's only script and style: the browser runs no other.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ...store.files import atomic_write

FOLDER = Path(__file__).parent / "files"
OF_RANKINGS = ("turns.js", "compare.js", "rankings.js", "calls.js", "search.js", "moving.js")
OF_SESSIONS = ("turns.js", "compare.js", "sessions.js", "search.js", "moving.js")
SHOWN = 4
"""So many systems are shown side by side from the start; of more, the baseline and the one compared with it."""


class Report:
    """A page that shows runs; it displays itself in a notebook.

    Attributes:
        html: the whole page, which loads nothing from anywhere.
        name: what it shows, for screen readers.
    """

    def __init__(self, html: str, name: str) -> None:
        self.html = html
        self.name = name

    def save(self, path: str | Path) -> Path:
        """Write the page into a file, whole or not at all.

        Returns:
            The file.
        """
        with atomic_write(path) as file:
            file.write(self.html)
        return Path(path)

    def _repr_html_(self) -> str:
        """The page in a frame of its own: its script can't reach the notebook."""
        page, name = escape(self.html), escape(self.name)
        return f'<iframe title="{name}" srcdoc="{page}" sandbox="allow-scripts" width="100%" height="720" style="border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"<report of {self.name}, {len(self.html.encode()) / 1e6:.1f} MB: .save(path) writes it>"


def render(template: str, scripts: Sequence[str], **values: Any) -> str:
    """The page; what no HTML file can hold (zeros, half characters) is replaced.

    Args:
        template: the name of a template.
        scripts: the files of its script.
        values: what the template shows.
    """
    css, script = (FOLDER / "report.css").read_text(encoding="utf-8"), read_script(scripts)
    policy = f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    page = _environment().get_template(template).render(css=Markup(css), script=Markup(script), policy=policy, **values)
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", page)


def read_script(scripts: Sequence[str]) -> str:
    """A page's script: its files share one scope, in this order."""
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in scripts)


def shown_first(systems: int, compared: int) -> Sequence[int]:
    """The numbers of the systems that are shown from the start.

    Example:
        >>> list(shown_first(3, 1)), list(shown_first(9, 7))
        ([0, 1, 2], [0, 7])
    """
    return range(systems) if systems <= SHOWN else (0, compared)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@lru_cache
def _environment() -> Environment:
    return Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
