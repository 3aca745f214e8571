"""The mean share of rubrics that were met over the turns of conversations, drawn as a curve per system."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...runs.log import Dialogue

WIDTH, HEIGHT = 400, 110
"""The size of the drawing, without the space for the axes."""


@dataclass(frozen=True)
class Curves:
    """The curves of a page.

    Attributes:
        turns: the number of turns of the longest conversation.
        values: for each system, the mean share of rubrics met after each turn, beginning with 0 turns.
        points: for each system, the points of its curve in SVG's format.
        ticks: the turns that the axis names, with their positions.
        width: the width of the drawing.
        height: the height of the drawing.
    """

    turns: int
    values: Sequence[Sequence[float]]
    points: Sequence[str]
    ticks: Sequence[tuple[int, float]]
    width: int = WIDTH
    height: int = HEIGHT


def rubric_curve(dialogues: Sequence[Dialogue], turns: int) -> list[float]:
    """The mean share of rubrics that were met after 0, 1, ... turns, over the sessions that have rubrics.

    A session that has ended keeps its share.

    Returns:
        ``turns + 1`` values; none if no session has rubrics.

    Example:
        >>> from pyterrier_ikat.runs import Turn
        >>> one = Dialogue("u1", "u1", {"r1": "Which tea?", "r2": "How hot?"}, [Turn(1, "Tea?", "Rooibos.", met=("r1",))])
        >>> rubric_curve([one, Dialogue("u2", "u2", {"r1": "Which cup?"})], 2)
        [0.0, 0.25, 0.25]
    """
    judged = [one for one in dialogues if one.rubrics]
    if not judged:
        return []
    reached = [[sum(turn <= limit for turn in one.met.values()) / len(one.rubrics) for limit in range(turns + 1)] for one in judged]
    means: list[float] = np.mean(reached, axis=0).tolist()
    return means


def rubric_curves(systems: Mapping[str, Sequence[Dialogue]]) -> Curves | None:
    """The curves of all systems; None if no session has both rubrics and turns."""
    turns = max((turn.number for found in systems.values() for one in found if one.rubrics for turn in one.turns), default=0)
    values = [rubric_curve(found, turns) for found in systems.values()]
    if not turns or not any(values):
        return None
    points = [" ".join(f"{_place(turn, turns):.1f},{HEIGHT * (1 - value):.1f}" for turn, value in enumerate(curve)) for curve in values]
    step = max(1, -(-turns // 10))
    return Curves(turns, values, points, [(turn, _place(turn, turns)) for turn in range(0, turns + 1, step)])


def _place(turn: int, turns: int) -> float:
    return WIDTH * turn / turns
