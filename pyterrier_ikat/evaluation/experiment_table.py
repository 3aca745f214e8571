"""The experiment table, with marks for the best and for significant differences: of runs, repeats, all pairs, and with intervals."""

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import ir_measures
import numpy as np

from ..errors import DataError, counted
from ..tables import HIGHER, LOWER, MARKS, Cell, Column, Table, format_score, mark_best
from .evaluator import ALPHA, ORACLE, Rows, aggregated, experiment_rows, label, p_value

if TYPE_CHECKING:
    import pandas as pd


DEVIATIONS = "deviations"
"""The attribute of a frame of scores with sentences on how its systems differ from those of their papers."""


def experiment_table(rows: Rows) -> Table:
    """The table of the rows of :func:`~pyterrier_ikat.evaluation.evaluator.experiment_rows` or :func:`repeated_rows`.

    Scores that read the same with four decimals share their mark.

    Args:
        rows: a row per system, at least one, with means over the same turns.

    Example:
        >>> from ir_measures import nDCG
        >>> from pyterrier_ikat.evaluation.evaluator import experiment_rows
        >>> scores = {"QR": {"nDCG@5": [0.2, 0.3, 0.4]}, "AD": {"nDCG@5": [0.7, 0.81, 0.9]}}
        >>> print(experiment_table(experiment_rows(scores, [nDCG @ 5], "QR")))
        system  nDCG@5
        QR       .3000
        AD       .8033↑
        <BLANKLINE>
        Mean over 3 judged turns; a turn without results counts 0.
        ↑ significantly higher, ↓ significantly lower than QR: two-sided paired t-test,
        Bonferroni, p < .05. The test treats all turns as independent, also those of one
        conversation or topic.
        <BLANKLINE>
    """
    measures = measures_of(rows[0])
    base = next((row for row in rows if f"{measures[0]} reject" in row and _unknown(row[f"{measures[0]} +"])), None)
    columns = [Column("system", [Cell(str(row["name"])) for row in rows]), *(_column(rows, name, base) for name in measures)]
    notes = [f"Mean over {counted(rows[0]['turns'], 'judged turn')}; a turn without results counts 0."]
    if len(rows) > 1:
        notes.append(MARKS)
    if base is not None:
        notes.append(f"{HIGHER} significantly higher, {LOWER} significantly lower than {base['name']}: {TEST}. {INDEPENDENT}")
    if rows[-1]["name"] == ORACLE:
        notes.append(f"{ORACLE}: of each turn the run that is best there by {measures[0]}, which no system knows.")
    if "repeats" in rows[0]:
        notes += _notes_on_repeats(rows, None if base is None else base["name"])
    return Table(rows, columns, notes)


def table(evaluated: "pd.DataFrame") -> Table:
    """The experiment table for a paper: the best of each measure bold, the second best underlined, significant differences marked.

    Source: IRLab@iKAT24, Table 1, which marks best and second best in this way.

    Scores that read the same with four decimals share their mark. An arrow up means that a score is significantly higher than the
    baseline's, and an arrow down that it is significantly lower.

    Args:
        evaluated: the result of ``ikat.experiment``, ``ikat.evaluation.evaluate`` or ``ikat.evaluation.evaluate_ptkb``.

    Raises:
        DataError: when it is not such a table, or its rows are means over different numbers of turns.

    Example:
        >>> import pandas as pd
        >>> found = pd.DataFrame({"name": ["QR", "AQD"], "nDCG@5": [0.25, 0.5], "turns": [24, 24]})
        >>> print(table(found).markdown())
        | system | nDCG@5 |
        | :--- | ---: |
        | QR | <ins>.2500</ins> |
        | AQD | **.5000** |
        <BLANKLINE>
        Mean over 24 judged turns; a turn without results counts 0. Best bold, second best underlined.
        <BLANKLINE>
    """
    if not {"name", "turns"} <= set(evaluated.columns) or evaluated.empty or not measures_of(dict(evaluated.iloc[0])):
        found = ", ".join(map(str, evaluated.columns)) or "no column"
        raise DataError(f"this is not an experiment table (it has {found}): give what ikat.experiment returned")
    turns = evaluated["turns"].unique()
    if len(turns) > 1:
        raise DataError(f"the rows are means over different turns ({', '.join(map(str, turns))} of them): make a table of each")
    shown = experiment_table(evaluated.to_dict("records"))
    return Table(evaluated, shown.columns, [*shown.notes, *notes_of(evaluated)])


def notes_of(scores: "pd.DataFrame") -> list[str]:
    """The notes on how the systems of a frame of scores differ from those of their papers."""
    return [f"note: {line}" for line in scores.attrs.get(DEVIATIONS, ())]


def measures_of(row: Mapping[str, Any]) -> list[str]:
    """The measures of a row of an experiment table, without the columns that compare with the baseline or describe repeats."""
    derived = (" +", " -", " p-value", " reject", " p-value corrected", " std", " LLM share", " low", " high")
    return [name for name in row if name not in ("name", "turns", "relevant_turns", "repeats") and not name.endswith(derived)]


def _column(rows: Rows, measure: str, base: Mapping[str, Any] | None) -> Column:
    scores = ["n/a" if _unknown(row[measure]) else format_score(row[measure]) for row in rows]
    differs = [base is not None and row.get(f"{measure} reject") for row in rows]
    arrows = [HIGHER if base and row[measure] > base[measure] else LOWER for row in rows]
    cells = mark_best(scores, [arrow * bool(differ) for arrow, differ in zip(arrows, differs, strict=True)])
    for place, row in enumerate(rows):
        if not math.isnan(deviation := row.get(f"{measure} std", NO_VALUE)):
            cells[place] = replace(cells[place], text=f"{cells[place].text}±{format_score(deviation)}")
    return Column(measure, cells, numeric=True)


TEST = "two-sided paired t-test, Bonferroni, p < .05"
INDEPENDENT = "The test treats all turns as independent, also those of one conversation or topic."


def _unknown(value: Any) -> bool:
    return value is None or value != value


Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Measure -> a score for each turn."""
NO_VALUE = float("nan")


def averaged(repeats: Sequence[Scores]) -> dict[str, list[float]]:
    """The mean of each turn over the repeats.

    Example:
        >>> averaged([{"nDCG": [0.0, 0.5]}, {"nDCG": [1.0, 0.5]}])
        {'nDCG': [0.5, 0.5]}
    """
    return {measure: np.mean([np.asarray(one[measure]) for one in repeats], axis=0).tolist() for measure in repeats[0]}


def variance_shares(scores: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The shares of the variance of scores that come from the turns and from the LLM.

    This is a one-way random-effects analysis of variance. The turns are the groups, and the repeats are the replicates. With k repeats, the
    variance of the LLM is the mean square within turns. The variance of the turns is (mean square between turns - mean square within)/k, at
    least 0. Their ratio is F of :func:`scipy.stats.f_oneway`.

    Source of the estimator: Searle, Casella and McCulloch, Variance Components (Wiley, 1992), the balanced one-way classification. Source
    of the question: Lupart et al., Investigating LLM Variability in Personalized Conversational Information Retrieval (SIGIR-AP 2025,
    arXiv 2510.03795).

    Args:
        scores: for each repeat, a score for each turn, in the same order.

    Returns:
        The share of the turns and the share of the LLM, which sum to 1; NaN with fewer than two repeats or turns, or without variance.

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
        warnings.simplefilter("ignore", RuntimeWarning)  # without variance within turns the ratio is infinite, without any it is NaN
        ratio = float(f_oneway(*table.T).statistic)
    llm = repeats / (repeats + max(ratio - 1, 0))
    return 1 - llm, llm


def repeated_rows(systems: Mapping[str, Sequence[Scores]], measures: Sequence[ir_measures.Measure], baseline: str | None) -> Rows:
    """The rows of :func:`~pyterrier_ikat.evaluation.evaluator.experiment_rows` for systems that were run several times.

    Each turn's score is its mean over the repeats, so the paired t-test is still one over turns.

    Source of the test: Smucker, Allan and Carterette, A Comparison of Statistical Significance Tests for Information Retrieval Evaluation
    (CIKM 2007): the topic, here the turn, is the unit.

    Args:
        systems: name -> its repeats, at least one.
        measures: the measures.
        baseline: the system with which the others are compared.

    Returns:
        The rows with ``repeats``, and per measure `` std`` (over the repeats, n - 1) and `` LLM share`` from :func:`variance_shares`.

    Example:
        >>> from ir_measures import nDCG
        >>> rows = repeated_rows({"AD": [{"nDCG@5": [0.5, 0.0]}, {"nDCG@5": [0.5, 1.0]}]}, [nDCG @ 5], None)
        >>> [(row["nDCG@5"], row["repeats"], row["turns"]) for row in rows]
        [(0.5, 2, 2)]
    """
    rows = experiment_rows({name: averaged(repeats) for name, repeats in systems.items()}, measures, baseline)
    return [row | _of_repeats(systems[row["name"]], measures) for row in rows]


def _of_repeats(repeats: Sequence[Scores], measures: Sequence[ir_measures.Measure]) -> dict[str, Any]:
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
    found = [f"\u00b1: standard deviation over {' or '.join(map(str, counts))} repeats (runs of the same system)."]
    if baseline is not None and len(rows) > 1:
        found.append("Before the test, each turn's scores are averaged over the repeats.")
    for row in several:
        shares = {name: row[f"{name} LLM share"] for name in measures_of(row)}
        told = ", ".join(f"{name} {'n/a' if _unknown(share) else f'{share:.0%}'}" for name, share in shares.items())
        found.append(f"{row['name']}: share of the variance of turns' scores that comes from the LLM: {told} (the rest: from the turns).")
    return found


def differing_pairs(scores: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pairs of runs whose scores differ significantly: two-sided paired t-test over the turns, Bonferroni over all pairs, p < .05.

    Args:
        scores: run -> a score for each turn, in one order.

    Example:
        >>> differing_pairs({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.6, 0.7, 0.81, 0.9], "c": [0.1, 0.2, 0.31, 0.4]})
        [('a', 'b'), ('b', 'c')]
    """
    from statsmodels.stats.multitest import multipletests

    pairs = list(combinations(scores, 2))
    tests = [p_value(np.asarray(scores[one]), np.asarray(scores[other])) for one, other in pairs]
    return [pair for pair, differs in zip(pairs, multipletests(tests, ALPHA, "bonferroni")[0] if pairs else (), strict=True) if differs]


UNITS = ("turn", "conversation", "topic")
RESAMPLES = 9999
SEED = 0
_QID = re.compile(r"(?P<topic>[^-_]+)(?:-[^_]*)?_\d+")
"""``9-1_3``: turn 3 of conversation 9-1, which is on topic 9."""


def units_of(turns: Iterable[str], by: str = "conversation") -> list[str]:
    """The unit of each turn: the turn itself, its conversation, or the topic of its conversation.

    Raises:
        UsageError: when ``by`` is unknown.
        DataError: when a turn is not named ``<topic>-<persona>_<turn>`` or ``<conversation>_<turn>``.

    Example:
        >>> units_of(["9-1_1", "9-1_2", "9-2_1"]), units_of(["9-1_1", "9-2_1"], "topic")
        (['9-1', '9-1', '9-2'], ['9', '9'])
    """
    from ..arguments import one_of  # imports pandas, which scores of runs do without

    one_of(UNITS, by=by)
    names = list(turns)
    if by == "turn":
        return names
    found = [_QID.fullmatch(qid) for qid in names]
    if None in found:
        raise DataError(f"turn {names[found.index(None)]!r} is not <conversation>_<turn>, such as 9-1_3: give by='turn'")
    return [match["topic"] if by == "topic" else match[0].rpartition("_")[0] for match in found if match]


def default_unit(turns: Iterable[str]) -> str:
    """The conversation, where all turns are named ``<conversation>_<turn>``, else the turn."""
    return "conversation" if all(map(_QID.fullmatch, turns)) else "turn"


def difference_interval(
    ours: Sequence[float], theirs: Sequence[float], units: Sequence[str], *, level: float = 0.95, seed: int = SEED
) -> tuple[float, float]:
    """The interval of the difference of two runs' means over turns, by a paired percentile bootstrap.

    The units are drawn with replacement, each with all its turns, because the turns of a conversation depend on each other. Source: Efron
    and Tibshirani, An Introduction to the Bootstrap (1993), by :func:`scipy.stats.bootstrap`; for retrieval: Sakai, Evaluating Evaluation
    Metrics based on the Bootstrap (SIGIR 2006).

    Args:
        ours: a score for each turn.
        theirs: the baseline's scores for the same turns.
        units: the unit of each turn, see :func:`units_of`.
        level: the confidence level.
        seed: of the random numbers. The same seed gives the same interval.

    Returns:
        The lower and the upper bound; NaN with fewer than two units.

    Example:
        >>> low, high = difference_interval([0.5, 0.7, 0.4, 0.9], [0.4, 0.4, 0.4, 0.5], ["1-1", "1-1", "2-1", "3-1"])
        >>> round(low, 3), round(high, 3)
        (0.0, 0.4)
    """
    from scipy.stats import bootstrap

    names, numbers = np.unique(np.asarray(units, dtype=str), return_inverse=True)
    if len(names) < 2:
        return float("nan"), float("nan")
    sums = np.bincount(numbers, np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float))
    sizes = np.bincount(numbers).astype(float)
    found = bootstrap(
        (sums, sizes),
        lambda differences, turns, axis: differences.sum(axis=axis) / turns.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=1000,
        confidence_level=level,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def difference_table(scores: Mapping[str, Mapping[str, Sequence[float]]], turns: Sequence[str], baseline: str, by: str) -> Table:
    """The difference of each run's means from the baseline's, with their intervals.

    Args:
        scores: run -> measure -> a score for each turn.
        turns: the turns, in the order of the scores.
        baseline: one of the runs.
        by: the unit, see :data:`UNITS`.

    Example:
        >>> runs = {"QR": {"nDCG": [0.4, 0.4, 0.4, 0.5]}, "AD": {"nDCG": [0.5, 0.7, 0.4, 0.9]}}
        >>> print(difference_table(runs, ["1-1_1", "1-1_2", "2-1_1", "3-1_1"], "QR", "conversation").text().splitlines()[1])
        AD      +.2000 [+.0000, +.4000]
    """
    units, measures = units_of(turns, by), list(scores[baseline])
    rows: list[dict[str, Any]] = []
    for name in [name for name in scores if name != baseline]:
        rows.append({"system": name})
        for measure in measures:
            ours, theirs = scores[name][measure], scores[baseline][measure]
            low, high = difference_interval(ours, theirs, units)
            rows[-1] |= {measure: float(np.mean(ours) - np.mean(theirs)), f"{measure} low": low, f"{measure} high": high}
    columns = [Column("system", [Cell(row["system"]) for row in rows])]
    columns += [Column(measure, [Cell(_told(row, measure)) for row in rows]) for measure in measures]
    notes = [
        f"Differences from {baseline}, with intervals of 95 %: paired bootstrap over {counted(len(set(units)), by)} "
        f"({RESAMPLES:,} resamples, seed {SEED}). --by chooses the unit: {', '.join(UNITS)}."
    ]
    return Table(rows, columns, notes)


def _told(row: Mapping[str, Any], measure: str) -> str:
    low, high = (format_score(row[f"{measure} {end}"], signed=True) for end in ("low", "high"))
    return f"{format_score(row[measure], signed=True)} [{low}, {high}]"
