"""The experiment table: scores with marks, and below it the differences with their intervals."""

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import ir_measures
import numpy as np

from ..errors import DataError, counted
from ..tables import (
    HIGHER,
    LOWER,
    MARKS_NOTE,
    UNKNOWN,
    Cell,
    Column,
    Table,
    format_score,
    mark_best,
)
from .evaluator import ORACLE, Rows, aggregated, bonferroni, experiment_rows, label
from .inference import NO_VALUE, compare
from .scored_turns import TURNS_ATTRIBUTE
from .units import Clusters, describe_test, notes_on_unit

if TYPE_CHECKING:
    import pandas as pd


DEVIATIONS_ATTRIBUTE = "deviations"
"""The attribute of a frame of scores with sentences on its systems' deviations from papers."""


def experiment_table(rows: Rows, about_turns: Sequence[str] = ()) -> Table:
    """The table of the rows of :func:`experiment_rows` or :func:`repeated_rows`.

    Scores that read the same with four decimals share their mark. With a baseline, the differences
    and their intervals are a table below.

    Args:
        rows: a row per system, at least one, with means over the same turns.
        about_turns: the sentences about these turns, of
            :class:`~pyterrier_ikat.evaluation.scored_turns.ScoredTurns`.

    Example:
        >>> from ir_measures import nDCG
        >>> from pyterrier_ikat.evaluation.evaluator import experiment_rows
        >>> from pyterrier_ikat.evaluation.units import Clusters
        >>> ours = {"nDCG@5": [0.7, 0.81, 0.9, 0.7, 0.8]}
        >>> theirs = {"nDCG@5": [0.2, 0.3, 0.4, 0.3, 0.4]}
        >>> clusters = Clusters("conversation", list("abcde"))
        >>> rows = experiment_rows({"QR": theirs, "AD": ours}, [nDCG @ 5], "QR", clusters)
        >>> print(experiment_table(rows))
        system  nDCG@5
        QR       .3200
        AD       .7820↑
        <BLANKLINE>
        Mean over 5 judged turns.
        ↑ significantly higher, ↓ significantly lower than QR: two-sided paired t-test
        robust to clusters, over 5 turns of 5 conversations, Bonferroni, p < .05.
        <BLANKLINE>
        system  nDCG@5
        AD      +.4620 [+.3915, +.5325]
        <BLANKLINE>
        Differences from QR, with 95 % intervals of the same test, not corrected.
        <BLANKLINE>
    """
    measures = measures_of(rows[0])
    baseline = _baseline_row(rows, measures[0])
    columns = [Column("system", [Cell(str(row["name"])) for row in rows])]
    for measure in measures:
        columns.append(_column(rows, measure, baseline))
    notes = list(about_turns) or [f"Mean over {counted(rows[0]['turns'], 'judged turn')}."]
    if len(rows) > 1:
        notes.append(MARKS_NOTE)
    if baseline is not None:
        notes += _notes_on_test(rows, measures, baseline)
    if rows[-1]["name"] == ORACLE:
        notes.append(
            f"{ORACLE}: of each turn the run that is best there by {measures[0]}, which no system "
            "knows."
        )
    if "repeats" in rows[0]:
        notes += _notes_on_repeats(rows, None if baseline is None else baseline["name"])
    below = None if baseline is None else difference_table(rows, baseline)
    return Table(rows, columns, notes, below=below, caption=", ".join(measures))


def _baseline_row(rows: Rows, measure: str) -> dict[str, Any] | None:
    """The row of the baseline, which alone has no counts of turns with a difference; or None."""
    for row in rows:
        if f"{measure} reject" in row and _unknown(row[f"{measure} +"]):
            return row
    return None


def _notes_on_test(rows: Rows, measures: Sequence[str], base: Mapping[str, Any]) -> list[str]:
    """Notes on the meaning of the marks, their unit, and systems without a test."""
    unit = base["unit"]
    number = int(base["clusters"])
    source = "" if _unknown(base["unit_from"]) else base["unit_from"]
    test = describe_test(unit, number, int(base["turns"]))
    notes = [
        f"{HIGHER} significantly higher, {LOWER} significantly lower than {base['name']}: {test}."
    ]
    notes += notes_on_unit(unit, number, source)
    untested = []
    for row in rows:
        for measure in measures:
            better = row.get(f"{measure} +")
            if _unknown(better) or better + row[f"{measure} -"] == 0:
                continue
            if _unknown(row[f"{measure} p-value"]):
                untested.append(f"{row['name']} by {measure}")
    if untested and number > 1:
        notes.append(
            f"Not tested: {', '.join(untested)}. A system that found nothing isn't tested, and "
            f"differences that are equal in each {unit} don't show how much they vary."
        )
    return notes


def difference_table(rows: Rows, base: Mapping[str, Any]) -> Table:
    """The differences of each system from the baseline, with their intervals.

    Up to two measures have a column each; more have a row each.

    Args:
        rows: the rows of :func:`~pyterrier_ikat.evaluation.evaluator.experiment_rows`.
        base: that of the baseline.
    """
    measures = measures_of(base)
    others = [row for row in rows if row["name"] not in (base["name"], ORACLE)]
    notes = [
        f"Differences from {base['name']}, with 95 % intervals of the same test, not corrected."
    ]
    caption = ", ".join(measures)
    side_by_side = [Column("system", [Cell(str(row["name"])) for row in others])]
    on_screen = list(side_by_side)
    for measure in measures:
        cells = [Cell(_difference(row, base, measure)) for row in others]
        side_by_side.append(Column(measure, cells))
        on_screen.append(Column(measure, cells, numeric=True))
    if len(measures) <= MEASURES_SIDE_BY_SIDE:
        return Table(others, side_by_side, notes, on_screen=on_screen, caption=caption)
    names = []
    titles = []
    differences = []
    for row in others:
        for measure in measures:
            names.append(Cell(str(row["name"])))
            titles.append(Cell(measure))
            differences.append(Cell(_difference(row, base, measure)))
    columns = [
        Column("system", names),
        Column("measure", titles),
        Column("difference", differences),
    ]
    return Table(others, columns, notes, on_screen=on_screen, caption=caption)


def _difference(row: Mapping[str, Any], base: Mapping[str, Any], measure: str) -> str:
    """A difference with its interval, such as ``+.0312 [-.0100, +.0724]``.

    An unknown number is the sign for it.
    """
    difference = row[measure] - base[measure]
    if _unknown(difference):
        return UNKNOWN
    low = row[f"{measure} low"]
    high = row[f"{measure} high"]
    interval = UNKNOWN
    if not _unknown(low):
        interval = f"{format_score(low, signed=True)}, {format_score(high, signed=True)}"
    return f"{format_score(difference, signed=True)} [{interval}]"


@overload
def table(evaluated: "pd.DataFrame", format: None = None) -> Table:  # noqa: D418 (editors show it)
    """Return the table itself without a format."""


@overload
def table(evaluated: "pd.DataFrame", format: str) -> str:  # noqa: D418 (editors show it)
    """Return the table as a text in a format."""


def table(evaluated: "pd.DataFrame", format: str | None = None) -> Table | str:
    """The experiment table for a paper.

    The best score of each measure is bold, the second best underlined, and significant
    differences are marked.

    Source: IRLab@iKAT24, Table 1, which marks best and second best in this way.

    Scores that read the same with four decimals share their mark. An arrow up means that a score is
    significantly higher than the baseline's, and an arrow down that it is significantly lower. A
    second table has the differences with their intervals.

    Args:
        evaluated: the result of ``ikat.experiment``, ``ikat.evaluation.evaluate`` or
            ``ikat.evaluation.evaluate_ptkb``.
        format: ``"latex"``, ``"markdown"``, ``"csv"`` or ``"text"``, for the table as a text.

    Returns:
        The table, which shows itself in a notebook; a text if there is a format.

    Raises:
        UsageError: for another format.
        DataError: when it is not such a table, has no row, lacks columns of a comparison, or its
            rows are means over different numbers of turns.

    Example:
        >>> import pandas as pd
        >>> scores = pd.DataFrame({"name": ["QR", "AQD"], "nDCG@5": [0.25, 0.5], "turns": [24, 24]})
        >>> print(table(scores).markdown())
        | system | nDCG@5 |
        | :--- | ---: |
        | QR | <ins>.2500</ins> |
        | AQD | **.5000** |
        <BLANKLINE>
        Mean over 24 judged turns. Best bold, second best underlined.
        <BLANKLINE>
    """
    check_experiment_table(evaluated)
    shown = experiment_table(evaluated.to_dict("records"), evaluated.attrs.get(TURNS_ATTRIBUTE, ()))
    shown = replace(shown, rows=evaluated, notes=[*shown.notes, *notes_of(evaluated)])
    return shown if format is None else shown.written(format)


def check_experiment_table(evaluated: "pd.DataFrame") -> None:
    """Check that a frame has scores of systems on the same turns.

    Raises:
        DataError: when it isn't an experiment table, has no row, or its rows are means over
            different numbers of turns.
    """
    names = [str(name) for name in evaluated.columns]
    if not {"name", "turns"} <= set(names) or not measures_of(dict.fromkeys(names)):
        columns = ", ".join(names) or "no column"
        raise DataError(
            f"this is not an experiment table (it has {columns}): "
            "give what ikat.experiment returned"
        )
    if evaluated.empty:
        raise DataError("the experiment table has no system: look at what it was selected by")
    turns = evaluated["turns"].unique()
    if len(turns) > 1:
        numbers = ", ".join(map(str, turns))
        raise DataError(
            f"the rows are means over different turns ({numbers} of them): make a table of each"
        )


def notes_of(scores: "pd.DataFrame") -> list[str]:
    """The notes on how the systems of a frame of scores differ from those of their papers."""
    return [f"note: {line}" for line in scores.attrs.get(DEVIATIONS_ATTRIBUTE, ())]


DERIVED_SUFFIXES = (
    " +",
    " -",
    " p-value",
    " reject",
    " p-value corrected",
    " std",
    " LLM share",
    " low",
    " high",
)
"""The ends of columns that are derived from a measure."""
OTHER_COLUMNS = ("name", "turns", "relevant_turns", "repeats", "unit", "clusters", "unit_from")


def measures_of(row: Mapping[str, Any]) -> list[str]:
    """The measures of a row of an experiment table.

    Columns that compare with the baseline or describe repeats are omitted.
    """
    return [
        name for name in row if name not in OTHER_COLUMNS and not name.endswith(DERIVED_SUFFIXES)
    ]


def _column(rows: Rows, measure: str, base: Mapping[str, Any] | None) -> Column:
    scores = []
    arrows = []
    for row in rows:
        score = row[measure]
        scores.append("n/a" if _unknown(score) else format_score(score))
        arrow = ""
        if base is not None and _is_significant(row, measure):
            arrow = HIGHER if score > base[measure] else LOWER
        arrows.append(arrow)
    cells = mark_best(scores, arrows)
    for number, row in enumerate(rows):
        deviation = row.get(f"{measure} std", NO_VALUE)
        if not math.isnan(deviation):
            text = f"{cells[number].text}±{format_score(deviation)}"
            cells[number] = replace(cells[number], text=text)
    return Column(measure, cells, numeric=True)


MEASURES_SIDE_BY_SIDE = 2
"""The number of measures up to which the table of differences has a column for each."""


def _is_significant(row: Mapping[str, Any], measure: str) -> bool:
    """Whether a row differs significantly from the baseline. The oracle's is not tested."""
    rejected = row.get(f"{measure} reject")
    return not _unknown(rejected) and bool(rejected)


def _unknown(value: Any) -> bool:
    return value is None or value != value  # NaN differs from itself


Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Measure -> a score for each turn."""


def averaged(repeats: Sequence[Scores]) -> dict[str, list[float]]:
    """The mean of each turn over the repeats.

    Example:
        >>> averaged([{"nDCG": [0.0, 0.5]}, {"nDCG": [1.0, 0.5]}])
        {'nDCG': [0.5, 0.5]}
    """
    means = {}
    for measure in repeats[0]:
        by_repeat = np.array([repeat[measure] for repeat in repeats])  # shape: repeats, turns
        means[measure] = by_repeat.mean(axis=0).tolist()
    return means


def variance_shares(scores: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The shares of the variance of scores that come from the turns and from the LLM.

    This is a one-way random-effects analysis of variance. The turns are the groups, and the repeats
    are the replicates. With k repeats, the variance of the LLM is the mean square within turns. The
    variance of the turns is (mean square between turns - mean square within)/k, at least 0. Their
    ratio is F of :func:`scipy.stats.f_oneway`.

    Source of the estimator: Searle, Casella and McCulloch, Variance Components (Wiley, 1992), the
    balanced one-way classification. Source of the question: Lupart et al., Investigating LLM
    Variability in Personalized Conversational Information Retrieval (SIGIR-AP 2025, arXiv
    2510.03795).

    Args:
        scores: for each repeat, a score for each turn, in the same order.

    Returns:
        The share of the turns and the share of the LLM, which sum to 1; NaN with fewer than two
        repeats or turns, or without variance.

    Example:
        >>> variance_shares([[0.0, 1.0], [0.0, 1.0]])
        (1.0, 0.0)
    """
    from scipy.stats import f_oneway

    if len(scores) < 2 or len(scores[0]) < 2:
        return NO_VALUE, NO_VALUE
    table = np.asarray(scores, dtype=np.float64)  # shape: repeats, turns
    repeats = len(table)
    with warnings.catch_warnings():
        # Without variance within turns the ratio is infinite, without any it is NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        ratio = float(f_oneway(*table.T).statistic)
    llm = repeats / (repeats + max(ratio - 1, 0))
    return 1 - llm, llm


def repeated_rows(
    systems: Mapping[str, Sequence[Scores]],
    measures: Sequence[ir_measures.Measure],
    baseline: str | None,
    clusters: Clusters | None = None,
    *,
    silent: Collection[str] = (),
) -> Rows:
    """The rows of :func:`experiment_rows` for systems that were run several times.

    Each turn's score is its mean over the repeats, so the paired test is still one over turns.

    Source of the test: Smucker, Allan and Carterette, A Comparison of Statistical Significance
    Tests for Information Retrieval Evaluation (CIKM 2007): the repeats of a topic, here of a turn,
    are no further topics.

    Args:
        systems: name -> its repeats, at least one.
        measures: the measures.
        baseline: the system with which the others are compared.
        clusters: the clusters of the turns; by default each turn is independent.
        silent: systems that found nothing for any of the turns.

    Returns:
        The rows with ``repeats``, and per measure `` std`` (over the repeats, n - 1) and `` LLM
        share`` from :func:`variance_shares`.

    Example:
        >>> from ir_measures import nDCG
        >>> repeats = [{"nDCG@5": [0.5, 0.0]}, {"nDCG@5": [0.5, 1.0]}]
        >>> rows = repeated_rows({"AD": repeats}, [nDCG @ 5], None)
        >>> [(row["nDCG@5"], row["repeats"], row["turns"]) for row in rows]
        [(0.5, 2, 2)]
    """
    means = {name: averaged(repeats) for name, repeats in systems.items()}
    rows = experiment_rows(means, measures, baseline, clusters, silent=silent)
    for row in rows:
        row.update(_of_repeats(systems[row["name"]], measures))
    return rows


def _of_repeats(
    repeats: Sequence[Scores], measures: Sequence[ir_measures.Measure]
) -> dict[str, Any]:
    columns: dict[str, Any] = {"repeats": len(repeats)}
    for measure in measures:
        column = label(measure)
        of_turns = [repeat[column] for repeat in repeats]
        means = [aggregated(measure, scores) for scores in of_turns]
        deviation = float(np.std(means, ddof=1)) if len(means) > 1 else NO_VALUE
        _of_the_turns, of_the_llm = variance_shares(of_turns)
        columns[f"{column} std"] = deviation
        columns[f"{column} LLM share"] = of_the_llm
    return columns


def _notes_on_repeats(rows: Rows, baseline: str | None = None) -> list[str]:
    """Notes on repeats, one sentence each; none if no system was run several times."""
    several = [row for row in rows if row["repeats"] > 1]
    if not several:
        return []
    counts = " or ".join(str(count) for count in sorted({row["repeats"] for row in several}))
    notes = [f"\u00b1: standard deviation over {counts} repeats (runs of the same system)."]
    if baseline is not None and len(rows) > 1:
        notes.append("Before the test, each turn's scores are averaged over the repeats.")
    for row in several:
        shares = []
        for measure in measures_of(row):
            share = row[f"{measure} LLM share"]
            shares.append(f"{measure} n/a" if _unknown(share) else f"{measure} {share:.0%}")
        notes.append(
            f"{row['name']}: share of the variance of turns' scores that comes from the LLM: "
            f"{', '.join(shares)} (the rest: from the turns)."
        )
    return notes


def pairs_that_differ(
    scores: Mapping[str, Sequence[float]], clusters: Clusters
) -> list[tuple[str, str]]:
    """The pairs of runs that differ significantly, with Bonferroni's correction over all pairs.

    Args:
        scores: run -> a score for each turn, in one order.
        clusters: the clusters of these turns.

    Example:
        >>> scores = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.6, 0.7, 0.81, 0.9]}
        >>> scores["c"] = [0.1, 0.21, 0.3, 0.4]
        >>> pairs_that_differ(scores, Clusters("turn", ["1", "2", "3", "4"]))
        [('a', 'b'), ('b', 'c')]
    """
    if not clusters.enough:
        return []
    pairs = list(combinations(scores, 2))
    p_values = []
    for first, second in pairs:
        p_values.append(compare(scores[first], scores[second], clusters.names).p_value)
    rejected, _corrected = bonferroni(p_values)
    return [pair for pair, differs in zip(pairs, rejected, strict=True) if differs]
