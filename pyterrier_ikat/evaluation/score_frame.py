"""A frame of scores with sentences below it.

They say which turns its means are over, and how its systems differ from those of the papers.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd

from ..tables import wrapped
from .experiment_table import notes_of
from .scored_turns import OF_ALL, TURNS_ATTRIBUTE


class ScoreFrame(pd.DataFrame):
    """A frame of scores with sentences below it, from its attributes."""

    @property
    def _constructor(self) -> Any:
        return type(self)  # a part of its columns, or its rounded values, have the same sentences

    def __repr__(self) -> str:
        lines = [super().__repr__()]
        for sentence in sentences_below(self):
            lines.append(wrapped(sentence))
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        table: str | None = super()._repr_html_()
        if not table:
            return table
        return table + "".join(f"<p>{escape(line)}</p>" for line in sentences_below(self))


def sentences_below(scores: pd.DataFrame) -> list[str]:
    """The sentences below a frame of scores."""
    return [*notes_on_turns(scores), *notes_of(scores)]


def notes_on_turns(scores: pd.DataFrame) -> list[str]:
    """The sentences about the turns of a frame of scores.

    The sentence that says no more than its column ``turns`` is omitted.
    """
    return [line for line in scores.attrs.get(TURNS_ATTRIBUTE, ()) if not OF_ALL.fullmatch(line)]


def about_turns(scores: pd.DataFrame, sentences: Sequence[str]) -> pd.DataFrame:
    """The scores with sentences about their turns.

    The sentences are shown below the frame if they say more than its column ``turns``.
    """
    says_more = not all(OF_ALL.fullmatch(line) for line in sentences)
    if says_more and not isinstance(scores, ScoreFrame):
        attributes = scores.attrs
        scores = ScoreFrame(scores)
        scores.attrs.update(attributes)
    if sentences:
        scores.attrs[TURNS_ATTRIBUTE] = list(sentences)
    return scores
