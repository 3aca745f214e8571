"""The tables of measured times."""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from .text import table

BENCH = Path(__file__).parents[1] / "bench.json"
Row = Mapping[str, Any]


def performance_table(_: str) -> str:
    """The figures of ``docs/bench.json``, which the benchmarks write: a table for each command that made some, and the machine."""
    if not BENCH.exists():
        return "No measurement is kept here; `make bench` measures on your machine."
    runs = json.loads(BENCH.read_text(encoding="utf-8"))["runs"]
    parts = [_measured_on(runs)]
    for benchmark, commands in groupby(runs, key=lambda run: run["benchmark"]):
        parts += [f"## {benchmark}", *(f"`{run['command']}`\n\n{_table(run['rows'])}" for run in commands)]
    return "\n\n".join(parts)


def _measured_on(runs: Iterable[Row]) -> str:
    """The machine; each one with its benchmarks, if there are several."""
    machines: dict[str, dict[str, None]] = {}
    for run in runs:
        machines.setdefault(_machine(run["machine"]), {})[run["benchmark"]] = None
    if len(machines) == 1:
        return f"Measured on {next(iter(machines))}."
    return "\n".join(f"- {', '.join(benchmarks)}: measured on {machine}." for machine, benchmarks in machines.items())


def _machine(machine: Row) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['cores']} cores ({machine['cpu']}), Python {machine['python']}, {versions}"


def _table(rows: list[Row]) -> str:
    """The rows, without the columns in which all of them are empty."""
    columns = {head: [cell(row) for row in rows] for head, cell in COLUMNS.items()}
    shown = {head: cells for head, cells in columns.items() if any(cells)}
    return table(list(shown), zip(*shown.values(), strict=True))


def _today(row: Row) -> str:
    return "" if row["today"] is None else f"{_number(row['today'])} ({_number(row['today'] / row['ours'])} x ours)"


def _limit(row: Row) -> str:
    return "" if row["limit"] is None else f"{_number(row['limit'])} (ours is {_number(row['ours'] / row['limit'])} x the limit)"


def _more(row: Row) -> str:
    return "; ".join(f"{name}: {_number(value)}" for name, value in row["more"].items())


def _number(value: object) -> str:
    """A figure with three significant digits; counts and words as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        rounded = float(f"{value:.3g}")
        return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:#.3g}".rstrip(".")
    return f"{value:,}" if isinstance(value, int) else str(value)


COLUMNS: dict[str, Callable[[Row], str]] = {
    "task": lambda row: str(row["task"]),
    "ours (s)": lambda row: _number(row["ours"]),
    "today (s)": _today,
    "written as": lambda row: str(row["instead"]),
    "limit (s)": _limit,
    "the limit is": lambda row: str(row["why"]),
    "more": _more,
}
