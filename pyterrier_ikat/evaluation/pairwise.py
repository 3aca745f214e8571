"""Every run compared with every other one: which differ, and the table with letters."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

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


def pairwise_table(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """The means of runs, with a letter for each run and the letters of those that it differs from, as papers print them.

    Args:
        scores: run -> measure -> a score for each turn, in one order.

    Example:
        >>> one, other = {"nDCG": [0.1, 0.2, 0.3, 0.4]}, {"nDCG": [0.6, 0.7, 0.81, 0.9]}
        >>> print(pairwise_table({"low": one, "high": other}).splitlines()[1])
        a    low .2500 b
    """
    letters = {name: _letter(place) for place, name in enumerate(scores)}
    measures = list(next(iter(scores.values())))
    columns = [["", *letters.values()], ["system", *scores]]
    for measure in measures:
        differs: dict[str, list[str]] = {name: [] for name in scores}
        for one, other in differing_pairs({name: of_run[measure] for name, of_run in scores.items()}):
            differs[one].append(letters[other])
            differs[other].append(letters[one])
        cells = [f"{format_score(float(np.mean(scores[name][measure])))} {''.join(sorted(found))}" for name, found in differs.items()]
        columns.append([measure, *cells])
    widths = [max(map(len, column)) for column in columns]
    lines = [
        " ".join([cells[0].ljust(widths[0]), cells[1].rjust(widths[1]), *map(str.ljust, cells[2:], widths[2:])]).rstrip()
        for cells in zip(*columns, strict=True)
    ]
    turns, pairs = len(scores[next(iter(scores))][measures[0]]), len(scores) * (len(scores) - 1) // 2
    lines += ["", f"Mean over {turns} judged turns; a turn without results counts 0."]
    lines.append(f"Letters: the runs that differ; two-sided paired t-tests, Bonferroni over {pairs} pairs, p < .05.")
    return "\n".join(lines)


def _letter(place: int) -> str:
    return chr(ord("a") + place) if place < 26 else f"({place + 1})"
