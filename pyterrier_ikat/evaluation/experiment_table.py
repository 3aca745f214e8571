"""The experiment table, with marks for the best and for significant differences, and the intervals of the differences below it."""

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import ir_measures
import numpy as np

from ..errors import DataError, counted
from ..tables import HIGHER, LOWER, MARKS, UNKNOWN, Cell, Column, Table, format_score, mark_best
from .evaluator import ORACLE, Rows, aggregated, bonferroni, experiment_rows, label
from .inference import NO_VALUE, compare
from .scored_turns import TURNS
from .units import UNIT_COLUMNS, Clusters, notes_on_unit, said_of_test

if TYPE_CHECKING:
    import pandas as pd


DEVIATIONS = "deviations"
"""The attribute of a frame of scores with sentences on how its systems differ from those of their papers."""


def experiment_table(rows: Rows, about_turns: Sequence[str] = ()) -> Table:
    """The table of the rows of :func:`~pyterrier_ikat.evaluation.evaluator.experiment_rows` or :func:`repeated_rows`.

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
        >>> scores = {"QR": {"nDCG@5": [0.2, 0.3, 0.4, 0.3, 0.4]}, "AD": {"nDCG@5": [0.7, 0.81, 0.9, 0.7, 0.8]}}
        >>> print(experiment_table(experiment_rows(scores, [nDCG @ 5], "QR", Clusters("conversation", list("abcde")))))
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
    base = next(
        (
            row
            for row in rows
            if f"{measures[0]} reject" in row and _unknown(row[f"{measures[0]} +"])
        ),
        None,
    )
    columns = [Column("system", [Cell(str(row["name"])) for row in rows])]
    for name in measures:
        columns.append(_column(rows, name, base))
    notes = list(about_turns) or [f"Mean over {counted(rows[0]['turns'], 'judged turn')}."]
    if len(rows) > 1:
        notes.append(MARKS)
    if base is not None:
        notes += _notes_on_test(rows, measures, base)
    if rows[-1]["name"] == ORACLE:
        notes.append(
            f"{ORACLE}: of each turn the run that is best there by {measures[0]}, which no system knows."
        )
    if "repeats" in rows[0]:
        notes += _notes_on_repeats(rows, None if base is None else base["name"])
    return Table(rows, columns, notes, below=None if base is None else difference_table(rows, base))


def _notes_on_test(rows: Rows, measures: Sequence[str], base: Mapping[str, Any]) -> list[str]:
    """What the marks mean, what their unit is, and which systems have no test."""
    unit, number = base["unit"], int(base["clusters"])
    source = "" if _unknown(base["unit_from"]) else base["unit_from"]
    test = said_of_test(unit, number, int(base["turns"]))
    notes = [
        f"{HIGHER} significantly higher, {LOWER} significantly lower than {base['name']}: {test}."
    ]
    notes += notes_on_unit(unit, number, source)
    untested = []
    for row in rows:
        for name in measures:
            differs = not _unknown(row.get(f"{name} +")) and row[f"{name} +"] + row[f"{name} -"] > 0
            if differs and _unknown(row[f"{name} p-value"]):
                untested.append(f"{row['name']} by {name}")
    if untested and number > 1:
        notes.append(
            f"Not tested: {', '.join(untested)}. A system that found nothing isn't tested, and differences that are equal in each {unit} "
            "don't show how much they vary."
        )
    return notes


def difference_table(rows: Rows, base: Mapping[str, Any]) -> Table:
    """The differences of each system from the baseline, with their intervals: a column per measure, or a row if there are over two.

    Args:
        rows: the rows of :func:`~pyterrier_ikat.evaluation.evaluator.experiment_rows`.
        base: that of the baseline.
    """
    measures = measures_of(base)
    others = [row for row in rows if row["name"] not in (base["name"], ORACLE)]
    notes = [
        f"Differences from {base['name']}, with 95 % intervals of the same test, not corrected."
    ]
    if len(measures) <= WIDE:
        columns = [Column("system", [Cell(str(row["name"])) for row in others])]
        for name in measures:
            columns.append(Column(name, [Cell(_difference(row, base, name)) for row in others]))
        return Table(others, columns, notes)
    names, titles, differences = list[Cell](), list[Cell](), list[Cell]()
    for row in others:
        for name in measures:
            names.append(Cell(str(row["name"])))
            titles.append(Cell(name))
            differences.append(Cell(_difference(row, base, name)))
    return Table(
        others,
        [Column("system", names), Column("measure", titles), Column("difference", differences)],
        notes,
    )


def _difference(row: Mapping[str, Any], base: Mapping[str, Any], measure: str) -> str:
    """A difference with its interval, such as ``+.0312 [-.0100, +.0724]``; the sign for an unknown number if there is none."""
    difference, low, high = (
        row[measure] - base[measure],
        row[f"{measure} low"],
        row[f"{measure} high"],
    )
    if _unknown(difference):
        return UNKNOWN
    interval = (
        UNKNOWN
        if _unknown(low)
        else f"{format_score(low, signed=True)}, {format_score(high, signed=True)}"
    )
    return f"{format_score(difference, signed=True)} [{interval}]"


def table(evaluated: "pd.DataFrame") -> Table:
    """The experiment table for a paper: the best of each measure bold, the second best underlined, significant differences marked.

    Source: IRLab@iKAT24, Table 1, which marks best and second best in this way.

    Scores that read the same with four decimals share their mark. An arrow up means that a score is
    significantly higher than the baseline's, and an arrow down that it is significantly lower. A
    second table has the differences with their intervals.

    Args:
        evaluated: the result of ``ikat.experiment``, ``ikat.evaluation.evaluate`` or
            ``ikat.evaluation.evaluate_ptkb``.

    Raises:
        DataError: when it is not such a table, lacks columns of a comparison, or its rows are means
            over different numbers of turns.

    Example:
        >>> import pandas as pd
        >>> found = pd.DataFrame({"name": ["QR", "AQD"], "nDCG@5": [0.25, 0.5], "turns": [24, 24]})
        >>> print(table(found).markdown())
        | system | nDCG@5 |
        | :--- | ---: |
        | QR | <ins>.2500</ins> |
        | AQD | **.5000** |
        <BLANKLINE>
        Mean over 24 judged turns. Best bold, second best underlined.
        <BLANKLINE>
    """
    if (
        not {"name", "turns"} <= set(evaluated.columns)
        or evaluated.empty
        or not measures_of(dict(evaluated.iloc[0]))
    ):
        found = ", ".join(map(str, evaluated.columns)) or "no column"
        raise DataError(
            f"this is not an experiment table (it has {found}): give what ikat.experiment returned"
        )
    turns = evaluated["turns"].unique()
    if len(turns) > 1:
        raise DataError(
            f"the rows are means over different turns ({', '.join(map(str, turns))} of them): make a table of each"
        )
    _check_compared(list(evaluated.columns))
    shown = experiment_table(evaluated.to_dict("records"), evaluated.attrs.get(TURNS, ()))
    return replace(shown, rows=evaluated, notes=[*shown.notes, *notes_of(evaluated)])


def _check_compared(columns: Sequence[str]) -> None:
    """Check that a table with significance columns has all that its marks and intervals are shown with.

    Raises:
        DataError: with the columns that it lacks.
    """
    tested = [
        name.removesuffix(" reject") for name in map(str, columns) if name.endswith(" reject")
    ]
    wanted = [
        f"{name}{end}" for name in tested for end in ("", " +", " -", " p-value", " low", " high")
    ]
    lacking = [name for name in (*wanted, *UNIT_COLUMNS) if name not in columns]
    if tested and lacking:
        raise DataError(
            f"the table of comparisons lacks {', '.join(lacking)}: give what ikat.experiment returned, as a whole"
        )


def notes_of(scores: "pd.DataFrame") -> list[str]:
    """The notes on how the systems of a frame of scores differ from those of their papers."""
    return [f"note: {line}" for line in scores.attrs.get(DEVIATIONS, ())]


def measures_of(row: Mapping[str, Any]) -> list[str]:
    """The measures of a row of an experiment table, without the columns that compare with the baseline or describe repeats."""
    derived = (
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
    others = ("name", "turns", "relevant_turns", "repeats", "unit", "clusters", "unit_from")
    return [name for name in row if name not in others and not name.endswith(derived)]


def _column(rows: Rows, measure: str, base: Mapping[str, Any] | None) -> Column:
    scores = ["n/a" if _unknown(row[measure]) else format_score(row[measure]) for row in rows]
    differs = [base is not None and _is_marked(row, measure) for row in rows]
    arrows = [HIGHER if base and row[measure] > base[measure] else LOWER for row in rows]
    cells = mark_best(
        scores, [arrow * bool(differ) for arrow, differ in zip(arrows, differs, strict=True)]
    )
    for place, row in enumerate(rows):
        if not math.isnan(deviation := row.get(f"{measure} std", NO_VALUE)):
            cells[place] = replace(
                cells[place], text=f"{cells[place].text}±{format_score(deviation)}"
            )
    return Column(measure, cells, numeric=True)


WIDE = 2
"""The number of measures up to which the table of differences has a column for each."""


def _is_marked(row: Mapping[str, Any], measure: str) -> bool:
    """Whether a row differs significantly. The oracle's is not tested."""
    differs = row.get(f"{measure} reject")
    return not _unknown(differs) and bool(differs)


def _unknown(value: Any) -> bool:
    return value is None or value != value


Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Measure -> a score for each turn."""


def averaged(repeats: Sequence[Scores]) -> dict[str, list[float]]:
    """The mean of each turn over the repeats.

    Example:
        >>> averaged([{"nDCG": [0.0, 0.5]}, {"nDCG": [1.0, 0.5]}])
        {'nDCG': [0.5, 0.5]}
    """
    return {
        measure: np.mean([np.asarray(one[measure]) for one in repeats], axis=0).tolist()
        for measure in repeats[0]
    }


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

    table = np.asarray(scores, dtype=np.float64)
    repeats, turns = table.shape
    if repeats < 2 or turns < 2:
        return NO_VALUE, NO_VALUE
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # without variance within turns the ratio is infinite, without any it is NaN
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
    """The rows of :func:`~pyterrier_ikat.evaluation.evaluator.experiment_rows` for systems that were run several times.

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
        >>> rows = repeated_rows({"AD": [{"nDCG@5": [0.5, 0.0]}, {"nDCG@5": [0.5, 1.0]}]}, [nDCG @ 5], None)
        >>> [(row["nDCG@5"], row["repeats"], row["turns"]) for row in rows]
        [(0.5, 2, 2)]
    """
    means = {name: averaged(repeats) for name, repeats in systems.items()}
    rows = experiment_rows(means, measures, baseline, clusters, silent=silent)
    return [row | _of_repeats(systems[row["name"]], measures) for row in rows]


def _of_repeats(
    repeats: Sequence[Scores], measures: Sequence[ir_measures.Measure]
) -> dict[str, Any]:
    found: dict[str, Any] = {"repeats": len(repeats)}
    for measure in measures:
        column = label(measure)
        each = [aggregated(measure, one[column]) for one in repeats]
        found[f"{column} std"] = float(np.std(each, ddof=1)) if len(each) > 1 else NO_VALUE
        found[f"{column} LLM share"] = variance_shares([one[column] for one in repeats])[1]
    return found


def _notes_on_repeats(rows: Rows, baseline: str | None = None) -> list[str]:
    """Notes for a reader of the table, one sentence each; none if no system was run several times."""
    several = [row for row in rows if row["repeats"] > 1]
    if not several:
        return []
    counts = sorted({row["repeats"] for row in several})
    found = [
        f"\u00b1: standard deviation over {' or '.join(map(str, counts))} repeats (runs of the same system)."
    ]
    if baseline is not None and len(rows) > 1:
        found.append("Before the test, each turn's scores are averaged over the repeats.")
    for row in several:
        shares = {name: row[f"{name} LLM share"] for name in measures_of(row)}
        told = ", ".join(
            f"{name} {'n/a' if _unknown(share) else f'{share:.0%}'}"
            for name, share in shares.items()
        )
        found.append(
            f"{row['name']}: share of the variance of turns' scores that comes from the LLM: {told} (the rest: from the turns)."
        )
    return found


def pairs_that_differ(
    scores: Mapping[str, Sequence[float]], clusters: Clusters
) -> list[tuple[str, str]]:
    """The pairs of runs whose scores differ significantly, with Bonferroni's correction over all pairs.

    Args:
        scores: run -> a score for each turn, in one order.
        clusters: the clusters of these turns.

    Example:
        >>> scores = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.6, 0.7, 0.81, 0.9], "c": [0.1, 0.21, 0.3, 0.4]}
        >>> pairs_that_differ(scores, Clusters("turn", ["1", "2", "3", "4"]))
        [('a', 'b'), ('b', 'c')]
    """
    pairs = list(combinations(scores, 2))
    tests = [compare(scores[one], scores[other], clusters.names).p_value for one, other in pairs]
    rejected, _ = bonferroni(tests)
    return [
        pair for pair, differs in zip(pairs, rejected, strict=True) if differs and clusters.enough
    ]
