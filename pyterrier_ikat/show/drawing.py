"""A system as PyTerrier draws it, without the network: in a notebook, or in a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyterrier as pt

from ..conversations.frame import TOPIC_COLUMNS, object_frame
from ..conversations.topics import MANUAL_COLUMNS
from ..methods import Method, find
from ..methods.definition import StandIn
from ..store.files import atomic_write


class Drawing:
    """A drawing of a system, which displays itself in a notebook.

    Attributes:
        html: boxes and arrows; settings and columns are shown on hovering.
    """

    def __init__(self, html: str) -> None:
        inner = f'<div style="width: max-content; min-width: 100%">{html}</div>'
        self.html = f'<div style="overflow-x: auto">{inner}</div>'

    def save(self, path: str | Path) -> Path:
        """Write the drawing into an HTML file."""
        with atomic_write(Path(path)) as file:
            file.write(f'<!doctype html><meta charset="utf-8">{self.html}')
        return Path(path)

    def __repr__(self) -> str:
        return "<drawing>"

    def _repr_html_(self) -> str:
        return self.html


def draw(system: pt.Transformer | str) -> Drawing:
    """Draw a system with PyTerrier, offline: without its look-ups of help pages.

    Args:
        system: a pipeline, or the name of a method, whose resources are drawn under their names.

    Raises:
        UsageError: for an unknown method.

    Example:
        >>> import pyterrier_ikat as ikat
        >>> "Interleave" in ikat.show.draw("aqd").html
        True
        >>> ikat.show.draw("aqd").save("aqd.html").name
        'aqd.html'
    """
    with _offline():
        if not isinstance(system, str):
            return Drawing(pt.schematic.draw(system))
        method = find(system)
        columns = list(TOPIC_COLUMNS)
        if method.manual:
            columns += MANUAL_COLUMNS
        return Drawing(pt.schematic.draw(_built(method), input_columns=columns))


@contextmanager
def _offline() -> Iterator[None]:
    """Inside the block, PyTerrier looks up no help page for operators that name none."""
    look_up = pt.documentation.url_for_class
    pt.documentation.url_for_class = lambda cls: None
    try:
        yield
    finally:
        pt.documentation.url_for_class = look_up


class _Model:
    """A language model, which is not a stage of its own."""

    structured = False
    backend = SimpleNamespace(replays=False)

    def ask(self, requests: object) -> None:
        """Never called: nothing is run."""

    def __repr__(self) -> str:
        return "llm"


class _Resource(StandIn):
    """A retriever, re-ranker, rewriter or expander of the user, with the columns of a real one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.schematic = {"label": name.capitalize(), "help_url": ""}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """An empty frame with the columns that it adds."""
        if self.name in ("retriever", "dense"):
            columns = ["docno", "text", "score", "rank"]
        elif self.name in ("rewriter", "expander"):
            columns = ["qrewrite"]
        else:
            columns = ["score", "rank"]
        added = object_frame({name: [] for name in columns if name not in inp.columns})
        return inp.join(added).iloc[:0]


def _built(method: Method) -> pt.Transformer:
    """The pipeline of a method, with stand-ins for its resources."""
    resources: dict[str, Any] = {}
    for role in method.resources.values():
        resources[role] = _Model() if role.endswith("llm") else _Resource(role)
    return method.build(**resources)
