"""The table of means: for each system and measure the mean, its difference from the baseline's, and the interval of the difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...evaluation.evaluator import compared
from ...evaluation.units import Clusters, notes_on_unit, said_of_test
from ...tables import HIGHER, LOWER, UNKNOWN, format_score

Scores = list[list[float]]
"""One list per run, with one score per measure."""


@dataclass(frozen=True)
class ShownMeasure:
    """A measure as the page shows it.

    Attributes:
        name: its name.
        digits: its decimals.
        better: 1 if a higher value is better, -1 if a lower one is, 0 if neither.
        share: whether it is a score from 0 to 1, which is written without the zero before the
            point.
        tested: whether differences are tested.
    """

    name: str
    digits: int = 4
    better: int = 1
    share: bool = True
    tested: bool = True

    def text(self, value: float, *, signed: bool = False) -> str:
        """The value as in all tables; an unknown one is a dash."""
        if value != value:
            return UNKNOWN
        text = (
            format_score(abs(value), self.digits)
            if self.share
            else f"{abs(value):,.{self.digits}f}"
        )
        sign = (
            ""
            if not any(digit in text for digit in "123456789")
            else "−"
            if value < 0
            else "+"
            if signed
            else ""
        )
        return sign + text


@dataclass(frozen=True)
class Mean:
    """A system's mean by a measure.

    Attributes:
        value: the mean.
        text: the mean as it is shown.
        best: whether it is the best of all systems.
        change: the difference from the baseline's mean; empty for the baseline itself.
        side: ``win`` or ``loss`` if the difference is significant, otherwise empty.
        interval: the interval of the difference; empty if there is none.
    """

    value: float
    text: str
    best: bool = False
    change: str = ""
    side: str = ""
    interval: str = ""


def compare_means(
    means: Scores, values: Mapping[str, Scores], columns: Sequence[ShownMeasure], clusters: Clusters
) -> list[list[Mean]]:
    """The means of all systems, with their differences from the baseline.

    The test is that of ``ikat evaluate``. A measure is neither tested nor has an interval if a
    system lacks a value.

    Args:
        means: for each system its means, the baseline first.
        values: turn or session -> for each system its values, in the order of the columns.
        columns: the measures.
        clusters: those of the turns or sessions.

    Example:
        >>> values = {f"9-{turn}_1": [[0.0], [0.5 + turn / 100]] for turn in range(1, 7)}
        >>> found = compare_means([[0.0], [0.535]], values, [ShownMeasure("P@1")], Clusters("turn", list(values)))
        >>> [(one.text, one.change, one.side, one.interval) for (one,) in found]
        [('.0000', '', '', ''), ('.5350', '↑+.5350', 'win', '[+.5154, +.5546]')]
    """
    table = np.array(list(values.values()), dtype=float).reshape(-1, len(means), len(columns))
    return [
        [
            _compare(means, table[:, :, place], columns[place], (run, place), clusters)
            for place in range(len(columns))
        ]
        for run in range(len(means))
    ]


def _compare(
    means: Scores,
    values: "np.ndarray",
    measure: ShownMeasure,
    of: tuple[int, int],
    clusters: Clusters,
) -> Mean:
    run, place = of
    value, column = means[run][place], [row[place] for row in means]
    known = {measure.text(one): one * measure.better for one in column if one == one}
    best = (
        bool(measure.better)
        and len(known) > 1
        and value == value
        and known[measure.text(value)] == max(known.values())
    )
    if run == 0 or value != value or column[0] != column[0] or not measure.better:
        return Mean(value, measure.text(value), best)
    change, side, interval = value - column[0], "", ""
    ours, theirs = values[:, run], values[:, 0]
    if measure.tested and not np.isnan(values).any():
        found = compared("", ours.tolist(), theirs.tolist(), clusters, len(means) - 1)
        low, high = found[" low"], found[" high"]
        interval = (
            ""
            if low != low
            else f"[{measure.text(low, signed=True)}, {measure.text(high, signed=True)}]"
        )
        if found[" reject"]:
            side = "win" if change * measure.better >= 0 else "loss"
    arrow = "" if not side else HIGHER if change > 0 else LOWER
    return Mean(
        value, measure.text(value), best, arrow + measure.text(change, signed=True), side, interval
    )


def comparison_note(clusters: Clusters, baseline: str) -> str:
    """What the differences, arrows and intervals of the table are, and what they take to be independent.

    Args:
        clusters: those of the turns or sessions.
        baseline: the name of the baseline.

    Example:
        >>> comparison_note(Clusters("conversation", ["9-1", "9-2"]), "raw")[:57]
        'Differences are from raw. ↑ significantly higher, ↓ signi'
    """
    test = said_of_test(clusters.unit, clusters.number, len(clusters.names), clusters.of)
    said = [
        f"Differences are from {baseline}. {HIGHER} significantly higher, {LOWER} significantly lower: {test}."
    ]
    said.append("The intervals of 95 % are of the same test, not corrected.")
    return " ".join(
        [*said, *notes_on_unit(clusters.unit, clusters.number, clusters.source, clusters.of)]
    )
