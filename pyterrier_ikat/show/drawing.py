"""A system as PyTerrier draws it, without the network: in a notebook, or in a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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
        self.html = f'<div style="overflow-x: auto"><div style="width: max-content; min-width: 100%">{html}</div></div>'

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
    """Draw a system. It is PyTerrier's own drawing; that of a pipeline with operators of PyTerrier would look their documentation up.

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
        entry = find(system)
        return Drawing(
            pt.schematic.draw(
                _built(entry), input_columns=[*TOPIC_COLUMNS, *MANUAL_COLUMNS * entry.manual]
            )
        )


@contextmanager
def _offline() -> Iterator[None]:
    """Inside the block, PyTerrier doesn't look up the documentation of operators that don't name theirs."""
    look_up = pt.documentation.url_for_class
    pt.documentation.url_for_class = lambda cls: None
    try:
        yield
    finally:
        pt.documentation.url_for_class = look_up


class _Model:
    """A language model, which is not a stage of its own."""

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
        added = ["qrewrite"] if self.name in ("rewriter", "expander") else ["score", "rank"]
        if self.name in ("retriever", "dense"):
            added = ["docno", "text", "score", "rank"]
        return inp.join(object_frame({name: [] for name in added if name not in inp.columns})).iloc[
            :0
        ]


def _built(entry: Method) -> pt.Transformer:
    resources: dict[str, Any] = {
        role: _Model() if role.endswith("llm") else _Resource(role)
        for role in entry.resources.values()
    }
    return entry.build(**resources)
