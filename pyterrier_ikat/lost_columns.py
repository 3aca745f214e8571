"""Columns of turns that a stage of another package drops, told where an operator would read them.

An operator reads ``qhistory`` and its like only where the frame has them, so that it works on plain
queries, too. In a run over turns that have a conversation, a stage in front may have dropped them.
Nothing then looks wrong, and a model is paid for prompts without the conversation.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pandas as pd
import pyterrier as pt

from .arguments import is_missing
from .foreign import ADDRESS, Foreign
from .operator import every_stage, face, stages

ALWAYS_READ = ("qid", "query")
"""Columns that every stage gets. Without them it stops by itself."""


class LostColumnsWarning(UserWarning):
    """A stage of another package drops columns of the turns that an operator reads."""


class LostColumns:
    """The columns that the stages of other packages in a pipeline drop.

    They are known from the output columns of each stage. A stage that can't name them may drop any,
    and a run also shows what a stage really drops.

    Args:
        system: the name of the system, for the warning.
        pipeline: its pipeline.
        turns: the turns that it is run on. A column without any content can't be lost.
        warned: the stages, by identity, that a warning was given for, to give one for each.

    Example:
        >>> turns = pd.DataFrame({"qid": ["1_2"], "query": ["it"], "qutterance": ["it"]})
        >>> cut = pt.apply.generic(lambda frame: frame[["qid", "query"]])
        >>> lost = LostColumns("mine", cut, turns, set())
        >>> list(lost.dropped)
        ['qutterance']
    """

    def __init__(
        self, system: str, pipeline: pt.Transformer, turns: pd.DataFrame, warned: set[int]
    ) -> None:
        self.system = system
        self.dropped: dict[str, list[pt.Transformer]] = {}
        self._warned = warned
        self._empty = {name for name in turns.columns if not _has_content(turns[name])}
        if any(_may_drop(stage) for stage in every_stage(pipeline)):
            self._follow(pipeline, list(turns.columns))

    def _follow(self, pipeline: pt.Transformer, columns: list[str]) -> None:
        """Note what the stages of a pipeline drop of its input, inner pipelines first."""
        for stage in stages(pipeline):
            for inner in face(stage).subpipelines():
                self._follow(inner, columns)
            outputs = pt.inspect.transformer_outputs(stage, columns, strict=False)
            if outputs is not None:
                self.note(stage, columns, outputs)
                columns = outputs
            else:
                self.note(stage, columns, ALWAYS_READ)

    def note(self, stage: pt.Transformer, before: Iterable[str], after: Iterable[str]) -> None:
        """Note the columns of turns that a stage of another package has dropped."""
        if not _may_drop(stage):
            return
        is_compound = bool(face(stage).subpipelines())
        kept = {*after, *ALWAYS_READ, *self._empty}
        for name in before:
            if name in kept or not str(name).startswith("q"):
                continue
            if is_compound and name in self.dropped:  # by a stage inside
                continue
            droppers = self.dropped.setdefault(name, [])
            if not _is_among(stage, droppers):
                droppers.append(stage)

    def transform(self, stage: pt.Transformer, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame after a stage, with a warning if it lacks a lost column."""
        with self.watching():
            out = face(stage).transform(frame)
        if isinstance(out, pd.DataFrame):
            self.note(stage, frame.columns, out.columns)
        return out

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Give the warnings of this pipeline inside the block."""
        token = _LOST.set(self)
        try:
            yield
        finally:
            _LOST.reset(token)

    def warn(self, name: str) -> None:
        """Warn of each stage that has dropped a column which is read now."""
        for stage in self.dropped.get(name, ()):
            if id(stage) in self._warned:
                continue
            self._warned.add(id(stage))
            names = self._dropped_by(stage)
            shown = ADDRESS.sub("", repr(stage))
            message = (
                f"system {self.system}: the stage {shown} drops {', '.join(names)}, and an "
                f"operator would read {name}: let the stage return all columns of its input, as "
                "inp.assign(query=...) does"
            )
            warnings.warn(message, LostColumnsWarning, stacklevel=2)

    def _dropped_by(self, stage: pt.Transformer) -> list[str]:
        names = []
        for name, droppers in self.dropped.items():
            if _is_among(stage, droppers):
                names.append(name)
        return names


_LOST: ContextVar[LostColumns | None] = ContextVar("lost", default=None)


def has_column(frame: pd.DataFrame, name: str) -> bool:
    """Return whether a frame has a column that is read only if it is there.

    In a run, a column that a stage of another package has dropped causes a warning.

    Example:
        >>> has_column(pd.DataFrame({"qid": ["1_1"]}), "qhistory")
        False
    """
    if name in frame.columns:
        return True
    lost = _LOST.get()
    if lost is not None:
        lost.warn(name)
    return False


def note_dropped(stage: pt.Transformer, before: pd.DataFrame, after: pd.DataFrame) -> None:
    """Note what a stage of another package has dropped of its frame, in a plan."""
    lost = _LOST.get()
    if lost is not None:
        lost.note(stage, before.columns, after.columns)


def _is_among(stage: pt.Transformer, others: Iterable[pt.Transformer]) -> bool:
    return any(other is stage for other in others)


def _may_drop(stage: pt.Transformer) -> bool:
    """Whether it is a stage of another package, and no cutoff, which keeps all columns."""
    seen = face(stage)
    return isinstance(seen, Foreign) and seen.cutoff is None


def _has_content(cells: pd.Series) -> bool:
    """Whether a cell has a value that is not empty."""
    for cell in cells.tolist():
        if is_missing(cell) or (hasattr(cell, "__len__") and len(cell) == 0):
            continue
        return True
    return False
