"""Where a system is good: figures by conversation, by depth, and turn by turn against a baseline."""

import re
from collections.abc import Mapping
from typing import Any

import ir_measures
import pandas as pd
from ir_measures import nDCG

from ..arguments import checked
from ..errors import DataError, UsageError
from .checks import check_runs, check_shared, with_text_ids
from .measures import as_measures, label
from .scores import Scorer

GROUPS = ("conversation", "depth")
SAME = 1e-9
"""Figures of a turn that differ by less are a tie."""

Measure = ir_measures.Measure | str


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sorting key by which ``9-1_3`` comes before ``9-1_12`` and ``10-1_1``.

    Example:
        >>> sorted(["10-1_1", "9-1_12", "9-1_3"], key=natural)
        ['9-1_3', '9-1_12', '10-1_1']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in parts)


@checked
def breakdown(
    runs: Mapping[str, pd.DataFrame],
    qrels: pd.DataFrame | None = None,
    measure: Measure = nDCG @ 5,
    by: str = "conversation",
) -> pd.DataFrame:
    """The mean of each conversation, or of each depth (turn number), for every system.

    Source: Abbasiantaeb and Aliannejadi, Generate then Retrieve, Figures 3 and 4.

    Args:
        runs: name -> result frame (``qid``, ``docno``, ``score``, ``rank``), or the figures of a run turn by turn:
            ``qid`` and a column named like the measure, as :func:`per_turn` and the ``measures.csv`` of a run folder
            have.
        qrels: ``qid``, ``docno``, ``label``; needed for result frames.
        measure: an ir_measures measure or its name.
        by: ``"conversation"`` or ``"depth"``.

    Returns:
        One row per conversation or depth, in their natural order: that column, one column per system, and ``turns``,
        how many turns each mean is over. A judged turn that a run lacks counts 0. The columns' name is the measure.

    Raises:
        UsageError: for another ``by``, a run named like a column of the table, or a result frame without qrels.
        DataError: when a qid is not ``<conversation>_<turn>``, or the runs' figures are not about the same turns.

    Example:
        >>> import pandas as pd
        >>> figures = pd.DataFrame({"qid": ["9-1_1", "9-1_2", "10-1_1"], "nDCG@5": [1.0, 0.5, 0.25]})
        >>> breakdown({"AD": figures}, by="depth").values.tolist()
        [[1.0, 0.625, 2.0], [2.0, 0.5, 1.0]]
    """
    if by not in GROUPS:
        raise UsageError(f"by={by!r} is unknown: choose one of {', '.join(GROUPS)}")
    check_runs(runs)
    taken = [name for name in runs if name in (by, "turns")]
    if taken:
        raise UsageError(f"a run is named {taken[0]!r}, as a column of the breakdown: rename it")
    figures = figures_by_run(runs, qrels, measure)
    keys = [_place(qid)[GROUPS.index(by)] for qid in figures.index]
    grouped = figures.groupby(pd.Series(keys, index=figures.index, name=by), sort=False)
    table = grouped.mean().assign(turns=grouped.size())
    table = table.loc[sorted(table.index, key=lambda key: natural(str(key)))]
    return table.reset_index().rename_axis(columns=label(as_measures(measure)[0]))


def win_tie_loss(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame | None, measure: Measure, baseline: str) -> pd.DataFrame:
    """On how many turns each run is better than, equal to and worse than the baseline.

    Args:
        runs: as for :func:`breakdown`.
        qrels: as for :func:`breakdown`.
        measure: an ir_measures measure or its name.
        baseline: one of the runs.

    Returns:
        One row per run but the baseline: ``name``, ``wins``, ``ties`` (figures that differ by less than 1e-9),
        ``losses``, ``turns``.

    Raises:
        UsageError: when the baseline is none of the runs, or a result frame comes without qrels.
        DataError: when the runs' figures are not about the same turns.

    Example:
        >>> import pandas as pd
        >>> base = pd.DataFrame({"qid": ["1_1", "1_2", "1_3"], "nDCG@5": [0.5, 0.5, 0.0]})
        >>> other = base.assign(**{"nDCG@5": [0.75, 0.5, 0.0]})
        >>> win_tie_loss({"QR": base, "AD": other}, None, "nDCG@5", "QR").values.tolist()
        [['AD', 1, 2, 0, 3]]
    """
    check_runs(runs)
    if baseline not in runs:
        raise UsageError(f"the baseline {baseline!r} is none of the runs: {', '.join(runs)}")
    figures = figures_by_run(runs, qrels, measure)
    rows = []
    for name in (name for name in runs if name != baseline):
        change = figures[name] - figures[baseline]
        wins, losses = int((change >= SAME).sum()), int((change <= -SAME).sum())
        rows.append((name, wins, len(change) - wins - losses, losses, len(change)))
    return pd.DataFrame(rows, columns=["name", "wins", "ties", "losses", "turns"])


def figures_by_run(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame | None, measure: Measure) -> pd.DataFrame:
    """The figures of several runs side by side.

    Args:
        runs: as for :func:`breakdown`.
        qrels: as for :func:`breakdown`.
        measure: an ir_measures measure or its name.

    Returns:
        One row per turn (index: qid), one column per run.

    Raises:
        UsageError: when there is no run, or a result frame comes without qrels.
        DataError: when the runs' figures are not about the same turns.

    Example:
        >>> figures = pd.DataFrame({"qid": ["1_1"], "nDCG@5": [0.5]})
        >>> figures_by_run({"QR": figures, "AD": figures}, None, "nDCG@5").to_dict("index")
        {'1_1': {'QR': 0.5, 'AD': 0.5}}
    """
    check_runs(runs)
    columns = {name: _of_run(name, frame, qrels, measure) for name, frame in runs.items()}
    first, turns = next(iter(columns.items()))
    for name, figures in columns.items():
        apart = sorted(set(figures.index) ^ set(turns.index), key=natural)
        if apart:
            raise DataError(f"{name} and {first} have figures of different turns ({', '.join(apart[:3])}): use the same qrels for both")
    return pd.DataFrame(columns)


def _of_run(name: str, frame: pd.DataFrame, qrels: pd.DataFrame | None, measure: Measure) -> "pd.Series[Any]":
    wanted = as_measures(measure)
    column = label(wanted[0])
    if "docno" in frame.columns:
        if qrels is None:
            raise UsageError(f"{name} is a ranking: give the qrels to judge it by")
        scorer = Scorer(qrels, wanted)
        ranking = scorer.ranking(name, frame)
        check_shared(f"run {name}", ranking["qid"].unique(), scorer.turns)
        frame = scorer.per_turn(ranking).reset_index()
    if column not in frame.columns or "qid" not in frame.columns:
        raise DataError(f"{name} has no figures {column} by qid, only the columns {', '.join(map(str, frame.columns))}")
    frame = with_text_ids(name, frame, ["qid"])
    twice = frame["qid"].duplicated()
    if twice.any():
        raise DataError(f"{name} has two figures {column} of turn {frame['qid'][twice].iloc[0]}: keep one")
    return frame.set_index("qid")[column].astype(float)


def _place(qid: str) -> tuple[str, int]:
    conversation, _, turn = qid.rpartition("_")
    if not conversation or not turn.isdecimal():
        raise DataError(
            f"turn {qid!r} is not <conversation>_<turn>, such as 9-1_3: convert hyphens by "
            r"""frame["qid"].str.replace(r"-(\d+)$", r"_\1", regex=True)"""
        )
    return conversation, int(turn)
