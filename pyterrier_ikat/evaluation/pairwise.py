"""Every run compared with every other one: which differ, and the table with letters."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..tables import Cell, Column, Table
from .evaluator import ALPHA, format_score, p_value


def differing_pairs(scores: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pairs of runs whose scores differ: two-sided paired t-test over the turns, Bonferroni over all pairs, p < .05.

    Args:
        scores: run -> a score for each turn, in one order.

    Example:
        >>> differing_pairs({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.6, 0.7, 0.81, 0.9], "c": [0.1, 0.2, 0.31, 0.4]})
        [('a', 'b'), ('b', 'c')]
    """
    pairs = list(combinations(scores, 2))
    return [(one, other) for one, other in pairs if p_value(np.asarray(scores[one]), np.asarray(scores[other])) * len(pairs) < ALPHA]


def pairwise_table(scores: Mapping[str, Mapping[str, Sequence[float]]], notes: Sequence[str] = ()) -> Table:
    """The means of runs, with a letter for each run and the letters of those that it differs from, as papers print them.

    Args:
        scores: run -> measure -> a score for each turn, in one order.
        notes: more that a reader has to know.

    Example:
        >>> one, other = {"nDCG": [0.1, 0.2, 0.3, 0.4]}, {"nDCG": [0.6, 0.7, 0.81, 0.9]}
        >>> print(pairwise_table({"low": one, "high": other}).text().splitlines()[1])
        a       low     .2500 b
    """
    letters = {name: _letter(place) for place, name in enumerate(scores)}
    measures = list(next(iter(scores.values())))
    columns = [Column(title, [Cell(text) for text in found]) for title, found in (("letter", letters.values()), ("system", scores))]
    rows: dict[str, dict[str, Any]] = {name: {"letter": letters[name], "system": name} for name in scores}
    for measure in measures:
        differs: dict[str, list[str]] = {name: [] for name in scores}
        for one, other in differing_pairs({name: of_run[measure] for name, of_run in scores.items()}):
            differs[one].append(letters[other])
            differs[other].append(letters[one])
        for name, found in differs.items():
            rows[name] |= {measure: float(np.mean(scores[name][measure])), f"{measure} differs": "".join(sorted(found))}
        cells = [Cell(f"{format_score(row[measure])} {row[f'{measure} differs']}".rstrip()) for row in rows.values()]
        columns.append(Column(measure, cells))
    turns, pairs = len(scores[next(iter(scores))][measures[0]]), len(scores) * (len(scores) - 1) // 2
    said = f"Letters: the runs that differ significantly (two-sided paired t-tests, Bonferroni over {pairs} pairs, p < .05)."
    return Table(list(rows.values()), columns, [f"Mean over {turns} judged turns; a turn without results counts 0.", said, *notes])


def _letter(place: int) -> str:
    return chr(ord("a") + place) if place < 26 else f"({place + 1})"
