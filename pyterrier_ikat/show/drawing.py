"""A system as a drawing, an SVG made from PyTerrier's schematic: in a notebook, in its own page or in a file. It never uses the network."""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import TOPIC_COLUMNS, object_frame, with_columns, with_query
from ..conversations.topics import MANUAL_COLUMNS
from ..errors import UsageError
from ..methods import Method, find
from ..store.files import atomic_write
from .drawing_svg import NARROW, render_svg

FOUND = ("docno", "text", "score", "rank")
BOTH = """<style>
.ikat-narrow {{ display: none; }}
@media (max-width: 760px) {{ .ikat-wide {{ display: none; }} .ikat-narrow {{ display: block; }} }}
</style>
<div class="ikat-wide">{wide}</div>
<div class="ikat-narrow">{narrow}</div>
"""
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; font: 14px Arial, Helvetica, sans-serif; background: Canvas; color: CanvasText; }}
main {{ overflow-x: auto; }}
h1 {{ font-size: 18px; margin: 16px; }}
</style>
<h1>{name}</h1>
<main tabindex="0">
{svg}</main>
</html>
"""


class Drawing:
    """A drawing of a system. It displays itself in a notebook.

    Attributes:
        schematic: the structure that is drawn, as ``pt.schematic`` defines it.
        name: the name of the system.
    """

    def __init__(self, schematic: dict[str, Any], name: str) -> None:
        self.schematic = schematic
        self.name = name

    @property
    def html(self) -> str:
        """The drawing in its own page."""
        return PAGE.format(name=escape(self.name), svg=self.fitting)

    @property
    def fitting(self) -> str:
        """The drawing for a page, as wide as the page allows. On a phone its stages are below each other."""
        wide, narrow = self.svg, render_svg(self.schematic, self.name, NARROW)
        return wide if wide == narrow else BOTH.format(wide=wide, narrow=narrow)

    @property
    def svg(self) -> str:
        """Boxes and arrows as SVG. The same system always gives the same text. Settings and columns are shown on hovering."""
        return render_svg(self.schematic, self.name)

    def save(self, path: str | Path) -> Path:
        """Write the drawing into a file, completely or not at all.

        Args:
            path: ``.svg`` or ``.html``.

        Returns:
            The file.

        Raises:
            UsageError: when the name has another ending, or the file can't be written.
        """
        path = Path(path)
        kinds = {".svg": "svg", ".html": "html"}
        if path.suffix.lower() not in kinds:
            raise UsageError(f"{path}: a drawing is saved as .svg or .html: give a name that ends so")
        try:
            with atomic_write(path) as file:
                file.write(getattr(self, kinds[path.suffix.lower()]))
        except OSError as error:
            raise UsageError(f"{path} can't be written ({error.strerror}): give another file") from None
        return path

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.fitting}</div>'

    def __repr__(self) -> str:
        return f"<drawing of {self.name}: .save('FILE.svg') or .save('FILE.html') writes it>"


def draw(system: pt.Transformer | str) -> Drawing:
    """Draw a system.

    Args:
        system: a pipeline, or the name of a method. The resources of a method are drawn with their purpose and the paper's models.

    Returns:
        The drawing. As the last line of a notebook's cell, it is displayed. ``.save(path)`` writes it as SVG or HTML. It has the settings
        of each stage, but no keys, passwords or queries of addresses.

    Raises:
        UsageError: for an unknown method.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> ikat.show.draw("aqd").save("aqd.svg").name
        'aqd.svg'
        >>> ikat.show.draw(ikat.ExplodeQueries() >> ikat.Interleave())
        <drawing of (ikat.ExplodeQueries() >> ikat.Interleave()): .save('FILE.svg') or .save('FILE.html') writes it>
    """
    if not isinstance(system, str):
        return _drawing(system, repr(system), pt.inspect.transformer_inputs(system, strict=False))
    entry = find(system)
    return _drawing(_build(entry), entry.name, [[*TOPIC_COLUMNS, *MANUAL_COLUMNS * entry.manual]])


def _drawing(pipeline: pt.Transformer, name: str, inputs: list[list[str]] | None) -> Drawing:
    with _offline():
        return Drawing(pt.schematic.transformer_schematic(pipeline, input_columns=inputs[0] if inputs else None), name)


@contextmanager
def _offline() -> Iterator[None]:
    """Inside the block, PyTerrier doesn't use the network. Otherwise it looks up the documentation of operators that don't name theirs."""
    look_up = pt.documentation.url_for_class
    pt.documentation.url_for_class = lambda cls: None
    try:
        yield
    finally:
        pt.documentation.url_for_class = look_up


class _Model:
    """A placeholder for a language model, which is not a stage. Papers name it."""

    def __init__(self, paper: str) -> None:
        self.paper = paper

    def ask(self, requests: object) -> None:
        raise UsageError(f"{self.paper} only stands for a language model: build the method with a real one")

    def __repr__(self) -> str:
        return self.paper


class _Resource(pt.Transformer):
    """A placeholder for a retriever, re-ranker, rewriter or expander, with the columns of a real one."""

    def __init__(self, role: str, paper: str = "") -> None:
        super().__init__()
        self.role, self.paper = role, paper

    def schematic(self, *, input_columns: list[str] | None) -> dict[str, Any]:
        label, settings = self.role.capitalize(), {"in the paper": self.paper} if self.paper else {}
        return {"label": label, "class_name": self.role, "name": f"your {self.role}", "settings": settings, "help_url": ""}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        if len(inp):
            raise UsageError(f"{self.role} only stands for a resource: build the method with a real one")
        if self.role == "reranker":
            pt.validate.result_frame(inp, extra_columns=["query", "text"], context=self)
            return inp.assign(score=[], rank=[])
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        if self.role in ("retriever", "dense"):
            return inp.join(object_frame({name: [] for name in FOUND if name not in inp.columns}))
        return with_query(with_columns(inp, qrewrite=[]) if self.role == "rewriter" else inp, [])

    def __repr__(self) -> str:
        return self.role


def _build(entry: Method) -> pt.Transformer:
    """The method with resources that are only drawn."""
    resources: dict[str, Any] = {}
    for role in entry.resources.values():
        papers = entry.models.get(role, "")
        if role.endswith("llm"):
            resources[role] = _Model(papers or "not named")
        else:
            several = ",bi:" in papers
            resources[role] = [_Resource(role, paper) for paper in papers.split(",")] if several else _Resource(role, papers)
    return entry.build(**resources)
