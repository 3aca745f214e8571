"""A frame of scores that shows below it what its reader has to know: the turns of its means, and how its systems differ from the papers."""

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd

from ..tables import wrapped
from .experiment_table import notes_of
from .scored_turns import OF_ALL, TURNS


class ScoreFrame(pd.DataFrame):
    """A frame of scores with sentences below it, from its attributes."""

    @property
    def _constructor(self) -> Any:
        return type(self)  # a part of its columns, or its rounded values, have the same sentences

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *map(wrapped, sentences_below(self))])

    def _repr_html_(self) -> str | None:
        shown: str | None = super()._repr_html_()
        return shown and shown + "".join(f"<p>{escape(line)}</p>" for line in sentences_below(self))


def sentences_below(scores: pd.DataFrame) -> list[str]:
    """What stands below a frame of scores."""
    return [*notes_on_turns(scores), *notes_of(scores)]


def notes_on_turns(scores: pd.DataFrame) -> list[str]:
    """The sentences about the turns of a frame of scores, without one that its column ``turns`` says, too."""
    return [line for line in scores.attrs.get(TURNS, ()) if not OF_ALL.fullmatch(line)]


def about_turns(scores: pd.DataFrame, sentences: Sequence[str]) -> pd.DataFrame:
    """The scores with sentences about their turns, which stand below the frame where they say more than its column ``turns``."""
    if not isinstance(scores, ScoreFrame) and not all(OF_ALL.fullmatch(line) for line in sentences):
        known = scores.attrs
        scores = ScoreFrame(scores)
        scores.attrs.update(known)
    if sentences:
        scores.attrs[TURNS] = list(sentences)
    return scores
