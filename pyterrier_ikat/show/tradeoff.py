"""The scores that finished runs would have at lower cost: with fewer passages to re-rank, or fewer queries."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ir_measures
import pandas as pd
from ir_measures import nDCG

from ..conversations.qrels import check_qrels
from ..errors import DataError, UsageError, advice, counted, option
from ..evaluation import as_measures, label, per_turn
from ..evaluation.evaluator import check_common_turns, experiment_rows
from ..evaluation.experiment_table import TEST
from ..methods import Method
from ..runs import RunFolder
from ..study.replay import Point, Replay
from ..tables import LOWER, UNKNOWN_NOTE, Cell, Column, Table, format_score, of_frame
from .ledgers import read_ledger
from .plots import Width, add_legend, axes_for, escape_math, is_narrow, line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEPTHS = (10, 20, 50, 100, 200, 500, 1000, 2000)
AMOUNTS = {
    "pairs": "pairs of query and passage scored",
    "calls": "LLM calls",
    "tokens": "tokens to and from the LLM",
    "cost": "cost (USD)",
}
NOT_THE_SAME = "The first n queries of a turn are not the same as asking for n."


def tradeoff(
    runs: Sequence[str | Path | RunFolder],
    qrels: pd.DataFrame,
    measure: ir_measures.Measure | str = nDCG @ 5,
    *,
    depths: Sequence[int] | None = None,
    queries: Sequence[int] = (),
    methods: Mapping[str, Method] | None = None,
) -> pd.DataFrame:
    """Scores of finished runs at smaller re-ranking depths and with fewer queries, and what these would cost.

    Nothing is retrieved or re-ranked again, and no LLM is asked. The run contains all smaller depths, and the ranking at such a depth is
    exactly that of a run made at that depth. The first n queries of a turn are not the same as asking the model for n.

    Args:
        runs: folders made by ``ikat run``.
        qrels: ``qid``, ``docno``, ``label``; only they define the turns.
        measure: an ir_measures measure or its name.
        depths: numbers of passages per query. By default 10, 20, 50, ... and the run's own.
        queries: numbers of queries, in addition to all queries of a turn.
        methods: the methods in your own file, by name.

    Returns:
        One row per run, depth and number of queries: ``system``, ``depth``, ``queries`` (``all`` or ``first n``), the measure, ``p``
        against the best row (two-sided paired t-test over the turns, times the number of comparisons: Bonferroni), ``worse`` (lower than
        the best and p < .05), and the costs of all turns of the run: ``pairs`` that are scored, ``calls``, ``tokens``, ``cost`` (of all
        distinct requests, without cache). A cost is missing if it is unknown, like the tokens of cached answers. ``cheapest`` names the
        costs for which this row is the cheapest of those that are not worse.

    Raises:
        UsageError: when a run can't be reduced to smaller depths, or a depth is larger than the run's.
        DataError: when a folder can't be read, or shares no turn with the qrels.

    Example:
        >>> import pyterrier as pt, pyterrier_ikat as ikat
        >>> qrels = pt.get_dataset("ikat:sample").get_qrels()
        >>> ikat.show.tradeoff(["runs/aqd_a"], qrels, depths=[10, 100], queries=[1, 3])  # doctest: +SKIP
    """
    judged, wanted = check_qrels(qrels), as_measures(measure)[0]
    if not runs or min((*(depths or (1,)), *queries), default=1) < 1:
        raise UsageError(f"give at least one run, and depths and queries from 1 on ({option('depths')}, {option('queries')})")
    folders = [run if isinstance(run, RunFolder) else RunFolder(run) for run in runs]
    if len({folder.path.name for folder in folders}) < len(folders):
        raise UsageError("two runs have the same name: rename a folder")
    rows: list[dict[str, Any]] = []
    scores: dict[str, dict[str, list[float]]] = {}
    for folder in folders:
        replayed = Replay(folder, methods)
        for point, (of_turns, pairs) in _scored(replayed, _points(replayed.depth, depths, queries), judged, wanted).items():
            scores[str(len(rows))] = {label(wanted): of_turns}
            rows.append(_about(folder, point, pairs))
    if not rows:
        raise UsageError(f"no depth lies inside these runs: give smaller {option('depths')}")
    return _marked(pd.DataFrame(rows), scores, wanted)


def _points(depth: int, depths: Sequence[int] | None, queries: Sequence[int]) -> list[Point]:
    chosen = sorted({*(one for one in DEPTHS if one < depth), depth} if depths is None else {*depths})
    return [Point(one, number) for number in (*sorted(set(queries)), None) for one in chosen]


def _scored(
    replayed: Replay, points: Sequence[Point], qrels: pd.DataFrame, measure: ir_measures.Measure
) -> dict[Point, tuple[list[float], int]]:
    """The scores of the judged turns (0 without results) and the pairs, at each point with all queries or fewer than some turn has."""
    turns = qrels["qid"].drop_duplicates().tolist()
    known: dict[Point, dict[str, float]] = {point: {} for point in points}
    pairs, most, seen = dict.fromkeys(points, 0), 0, list[str]()
    for chunk in replayed.chunks(points):
        most, here = max(most, chunk.queries), qrels[qrels["qid"].isin(chunk.qids)]
        seen += chunk.qids
        for point in points:
            pairs[point] += chunk.pairs[point]
            if chunk.rankings[point]["qid"].isin(here["qid"]).any():
                found = per_turn(chunk.rankings[point], here, [measure])
                known[point] |= dict(zip(found["qid"], found[label(measure)], strict=True))
    check_common_turns(f"run {replayed.folder.path.name}", seen, turns)
    told = [point for point in points if point.queries is None or point.queries < most]
    return {point: ([known[point].get(qid, 0.0) for qid in turns], pairs[point]) for point in told}


def _about(folder: RunFolder, point: Point, pairs: int) -> dict[str, Any]:
    ledger = read_ledger(folder)
    tokens = ledger[["prompt_tokens", "completion_tokens"]].sum(skipna=False).sum(skipna=False)
    return {
        "system": folder.path.name,
        "depth": point.depth,
        "queries": "all" if point.queries is None else f"first {point.queries}",
        "pairs": pairs,
        "calls": int(ledger["calls"].sum() + ledger["known"].sum()),
        "tokens": pd.NA if ledger["known"].sum() else tokens,
        "cost": (ledger["cost"] + ledger["worth"]).sum(skipna=False),
    }


def _marked(table: pd.DataFrame, scores: Mapping[str, Any], measure: ir_measures.Measure) -> pd.DataFrame:
    name = label(measure)
    means = {number: sum(one[name]) / len(one[name]) for number, one in scores.items()}
    best = max(means, key=lambda number: (means[number], -table["pairs"][int(number)]))
    compared = experiment_rows(scores, [measure], best if len(scores) > 1 else None)
    table = table.astype({"pairs": "Int64", "calls": "Int64", "tokens": "Int64", "cost": "Float64"})
    table.insert(3, name, [row[name] for row in compared])
    table.insert(4, "p", [row.get(f"{name} p-value corrected", float("nan")) for row in compared])
    table.insert(5, "worse", [bool(row.get(f"{name} reject")) and row[name] < compared[int(best)][name] for row in compared])
    table["cheapest"] = ""
    for amount in AMOUNTS:
        good = table[~table["worse"] & table[amount].notna()]
        if len(good) and table[amount].nunique() > 1:
            place = good.sort_values([amount, *AMOUNTS, name], ascending=[True] * 5 + [False], kind="stable").index[0]
            table.loc[place, "cheapest"] = ", ".join(filter(None, [str(table.loc[place, "cheapest"]), amount]))
    return table.rename_axis(columns=name)


def tradeoff_table(table: pd.DataFrame, turns: int) -> Table:
    """The result of :func:`tradeoff` as a table to print, with the meaning of its columns.

    Args:
        table: the rows.
        turns: over how many judged turns the means are.
    """
    measure = str(table.columns.name)
    p = ["" if one != one else format_score(one, 3) for one in table["p"]]
    columns = of_frame(table.drop(columns="worse").assign(p=p), decimals={"cost": 4}).columns
    marked = [Cell(format_score(score), mark=LOWER if worse else "") for score, worse in zip(table[measure], table["worse"], strict=True)]
    notes = [
        f"Mean over {counted(turns, 'judged turn')}; pairs, calls, tokens and cost are of all turns of the run.",
        f"{LOWER} significantly lower than the best: {TEST}.",
        f"cheapest: the least of that amount, among the rows without {LOWER}.",
        *([UNKNOWN_NOTE] if table[[*AMOUNTS]].isna().any(axis=None) else []),
        *([NOT_THE_SAME] if (table["queries"] != "all").any() else []),
    ]
    return Table(table, [Column(measure, marked, numeric=True) if one.title == measure else one for one in columns], notes)


def check_amount(against: str) -> None:
    """Check that this is an amount.

    Raises:
        UsageError: when it isn't.
    """
    if against not in AMOUNTS:
        raise UsageError(f"{advice(f'against={against!r}', f'--against {against}')} is unknown: choose one of {', '.join(AMOUNTS)}")


def plot_tradeoff(table: pd.DataFrame, against: str = "pairs", ax: "Axes | None" = None, *, width: Width = "page") -> "Axes":
    """Draw the result of :func:`tradeoff`: the measure against an amount, with a line per run and number of queries.

    Args:
        table: the rows.
        against: ``"pairs"``, ``"calls"``, ``"tokens"`` or ``"cost"``.
        ax: the matplotlib Axes to draw on. New ones when None.
        width: ``"page"``, or ``"column"``: see :func:`~pyterrier_ikat.show.plot_breakdown`.

    Returns:
        The Axes. Open marks are significantly worse than the best one. A ring marks the cheapest one that is not.

    Raises:
        UsageError: when ``against`` is unknown, or matplotlib is not installed.
        DataError: when the amount is not known.

    Example:
        >>> table = pd.DataFrame({"system": ["AQD"] * 2, "depth": [5, 10], "queries": "all", "nDCG@5": [0.25, 0.5], "p": [0.5, 1.0],
        ...     "worse": False, "pairs": [50, 100], "cheapest": ["pairs", ""]}).rename_axis(columns="nDCG@5")
        >>> plot_tradeoff(table).get_ylabel()
        'mean nDCG@5'
    """
    check_amount(against)
    known = table[table[against].notna()]
    if known.empty:
        raise DataError(f"the {against} of these runs are not known: draw against another of {', '.join(AMOUNTS)}")
    measure = str(table.columns.name)
    with axes_for(ax, (8, 4.8), width) as axes:
        drawn, names, labels = [], [], []
        groups = known.groupby(["system", "queries"], sort=False)
        for ((system, queries), rows), (colour, marker, line) in zip(groups, line_styles(), strict=False):
            drawn += axes.plot(rows[against].astype(float), rows[measure], color=colour, marker=marker, linestyle=line)
            names.append(system if queries == "all" else f"{system}, {queries}")
            worse = rows[rows["worse"]]
            axes.plot(worse[against].astype(float), worse[measure], color=colour, marker=marker, linestyle="", markerfacecolor="white")
            labels += [(*point, colour) for point in _labels(rows, against, measure)]
        best = known[[against in cell.split(", ") for cell in known["cheapest"]]]
        if len(best):
            size = 9 if is_narrow(axes) else 16
            drawn += axes.plot(best[against].astype(float), best[measure], "o", markersize=size, markerfacecolor="none", color="black")
            names.append("cheapest that is not significantly worse")
        beside = ("\n" if is_narrow(axes) else " ") + "(beside the marks: depth)"
        axes.set(xlabel=AMOUNTS[against] + beside, ylabel=f"mean {escape_math(measure)}")
        axes.margins(x=0.12, y=0.12)  # room for the labels
        axes.set_ylim(0, None)
        _plain_ticks(axes, logarithmic=against == "pairs" and float(known[against].min()) > 0)
        axes.grid(alpha=0.3)
        add_legend(axes, _LEGEND + _FIRST * bool((known["queries"] != "all").any()), drawn, names)
        _write_labels(axes, labels)
    return axes


_LEGEND, _FIRST = "system (open: significantly worse)", "\nfirst n: not the same as asking for n"


def _labels(rows: pd.DataFrame, against: str, measure: str) -> list[tuple[float, float, str]]:
    """The places of a line's points, and their depths. Points in the same place share a label such as ``100-1000``."""
    places: dict[tuple[float, float], list[int]] = {}
    for amount, score, depth in zip(rows[against], rows[measure], rows["depth"], strict=True):
        places.setdefault((float(amount), round(float(score), 3)), []).append(int(depth))
    return [
        (amount, score, str(depths[0]) if len(depths) == 1 else f"{min(depths)}\u2013{max(depths)}")
        for (amount, score), depths in places.items()
    ]


def _plain_ticks(ax: "Axes", *, logarithmic: bool) -> None:
    """Numbers such as 2,000 instead of powers of ten. A logarithmic axis has 1, 2 and 5 of each power, or with many powers only these."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if logarithmic:
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < _FEW_POWERS and not is_narrow(ax) else (1,)))
        ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


_FEW_POWERS = 200
"""The ratio of the largest and the smallest amount above which only powers of ten are named."""


def _write_labels(ax: "Axes", labels: Sequence[tuple[float, float, str, str]]) -> None:
    """Write each label in the colour of its line, in the first place around its point without another label or mark."""
    figure: Any = ax.get_figure(root=True)
    figure.draw_without_rendering()  # this determines the position of the axes
    points = figure.dpi / 72
    size = 6 if is_narrow(ax) else 7
    marks = [ax.transData.transform(label[:2]) / points for label in labels]
    edges = ax.bbox
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in marks]
    for (amount, score, text, colour), (x, y) in zip(labels, marks, strict=True):
        width = 0.65 * size * len(text)
        boxes = {side: (x + dx * width + ex, y + dy * size + ey) for side, (dx, dy, ex, ey) in _SIDES.items()}
        inside = [side for side, (left, low) in boxes.items() if _within(edges, left * points, low * points, (left + width) * points)]
        free = [side for side in inside if not _covers((*boxes[side], boxes[side][0] + width, boxes[side][1] + size), taken)]
        left, low = boxes[free[0] if free else "above"]
        taken.append((left, low, left + width, low + size))
        ax.annotate(text, (amount, score), (left - x, low - y), textcoords="offset points", fontsize=size, color=colour)


_SIDES = {
    "above": (-0.5, 0, 0, 5),
    "below": (-0.5, -1, 0, -5),
    "right": (0, -0.5, 5, 0),
    "left": (-1, -0.5, -5, 0),
    "above right": (0, 0, 4, 4),
    "below right": (0, -1, 4, -4),
    "above left": (-1, 0, -4, 4),
    "below left": (-1, -1, -4, -4),
    "further above": (-0.5, 0, 0, 13),
    "further below": (-0.5, -1, 0, -13),
}
"""The possible places of a label, in order of preference: shares of its width and height, and points, from its point to its lower left
corner."""


def _within(edges: Any, left: float, low: float, right: float) -> bool:
    return bool(edges.x0 <= left and right <= edges.x1 and edges.y0 <= low <= edges.y1 - 0.03 * edges.height)


def _covers(box: tuple[float, ...], others: Sequence[tuple[float, ...]]) -> bool:
    return any(box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in others)
