"""The table of means: the mean of each system, its difference from the baseline's, the interval."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...evaluation.evaluator import compare_with_baseline
from ...evaluation.units import Clusters, describe_test, notes_on_unit
from ...tables import HIGHER, LOWER, UNKNOWN, format_score

ScoreRows = list[list[float]]
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
        if math.isnan(value):
            return UNKNOWN
        if self.share:
            text = format_score(abs(value), self.digits)
        else:
            text = f"{abs(value):,.{self.digits}f}"
        if not any(digit in text for digit in "123456789"):
            return text  # zero has no sign
        if value < 0:
            return f"−{text}"
        return f"+{text}" if signed else text


@dataclass(frozen=True)
class Mean:
    """A system's mean by a measure.

    Attributes:
        value: the mean.
        text: the mean as it is shown.
        best: whether it is the best of all systems.
        change: the difference from the baseline's mean; empty for the baseline itself.
        side: ``win`` or ``loss`` if the difference is significant, otherwise empty.
        mark: ``HIGHER`` or ``LOWER`` if the difference is significant, otherwise empty.
        interval: the interval of the difference; empty if there is none.
    """

    value: float
    text: str
    best: bool = False
    change: str = ""
    side: str = ""
    mark: str = ""
    interval: str = ""


def compare_means(
    means: ScoreRows,
    values: Mapping[str, ScoreRows],
    columns: Sequence[ShownMeasure],
    clusters: Clusters,
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
        >>> clusters = Clusters("turn", list(values))
        >>> [[raw], [qr]] = compare_means([[0.0], [0.535]], values, [ShownMeasure("P@1")], clusters)
        >>> raw.text, qr.text, qr.change, qr.side, qr.mark, qr.interval
        ('.0000', '.5350', '+.5350', 'win', '↑', '[+.5154, +.5546]')
    """
    # turns or sessions x systems x measures
    table = np.array(list(values.values()), dtype=float).reshape(-1, len(means), len(columns))
    rows = []
    for system in range(len(means)):
        row = []
        for position, measure in enumerate(columns):
            of_systems = [of_system[position] for of_system in means]
            row.append(_compare(system, of_systems, table[:, :, position], measure, clusters))
        rows.append(row)
    return rows


def _compare(
    system: int,
    means: Sequence[float],
    values: "np.ndarray",
    measure: ShownMeasure,
    clusters: Clusters,
) -> Mean:
    """A system's mean by a measure.

    Args:
        system: the number of the system.
        means: the means of all systems, the baseline first.
        values: turns or sessions x systems.
        measure: the measure.
        clusters: those of the turns or sessions.
    """
    value = means[system]
    baseline = means[0]
    text = measure.text(value)
    best = _is_best(value, means, measure)
    if system == 0 or math.isnan(value) or math.isnan(baseline) or not measure.better:
        return Mean(value, text, best)
    difference = value - baseline
    change = measure.text(difference, signed=True)
    side = ""
    mark = ""
    interval = ""
    if measure.tested and not np.isnan(values).any():
        ours = values[:, system].tolist()
        theirs = values[:, 0].tolist()
        test = compare_with_baseline(ours, theirs, clusters, len(means) - 1)
        if not math.isnan(test["low"]):
            low = measure.text(test["low"], signed=True)
            high = measure.text(test["high"], signed=True)
            interval = f"[{low}, {high}]"
        if test["reject"]:
            side = "win" if difference * measure.better >= 0 else "loss"
            mark = HIGHER if difference > 0 else LOWER
    return Mean(value, text, best, change, side, mark, interval)


def _is_best(value: float, means: Sequence[float], measure: ShownMeasure) -> bool:
    """Whether a mean is the best of several. Means that look alike are alike."""
    if not measure.better or math.isnan(value):
        return False
    by_text = {}
    for mean in means:
        if not math.isnan(mean):
            by_text[measure.text(mean)] = mean * measure.better
    if len(by_text) < 2:
        return False
    return by_text[measure.text(value)] == max(by_text.values())


def comparison_note(clusters: Clusters, baseline: str) -> str:
    """Explain the differences, arrows and intervals of the table.

    Args:
        clusters: those of the turns or sessions.
        baseline: the name of the baseline.

    Example:
        >>> comparison_note(Clusters("conversation", ["9-1", "9-2"]), "raw")[:57]
        'Differences are from raw. ↑ significantly higher, ↓ signi'
    """
    test = describe_test(clusters.unit, clusters.number, len(clusters.names), clusters.of)
    sentences = [
        f"Differences are from {baseline}.",
        f"{HIGHER} significantly higher, {LOWER} significantly lower: {test}.",
        "The intervals of 95 % are of the same test, not corrected.",
    ]
    sentences += notes_on_unit(clusters.unit, clusters.number, clusters.source, clusters.of)
    return " ".join(sentences)
