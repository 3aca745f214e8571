"""The measured times: one table of all stages for users, and the long tables for contributors."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from .text import table

BENCH = Path(__file__).parents[1] / "bench.json"
Row = Mapping[str, Any]
NOTHING = "No measurement is kept here; `make bench` measures on your machine."


class Line(NamedTuple):
    """A line of the short table.

    Attributes:
        stage: what is measured, on how much.
        benchmark: that measures it.
        task: a pattern of its rows' tasks; the rows have other engines beside ours.
        unit: of all figures of the line.
        factor: by which seconds become that unit.
        figure: of ``more``, where what counts isn't a time: ours and, if there is one, the limit.
    """

    stage: str
    benchmark: str
    task: str
    unit: str = "s"
    factor: float = 1.0
    figure: tuple[str, str | None] | None = None


CPU_MS = "ms of CPU, 1 thread"
LINES = (
    Line("an index of 100,000 passages, with texts", "search", r"^an index of 100,000 .*real", "s of CPU, 1 thread"),
    Line("BM25, a query of 5 words, 100,000 passages", "search", r"^5 words, 100,000 .*real", CPU_MS, 1e3),
    Line("BM25, an answer of 200 words, 100,000 passages", "search", r"^200 words, 100,000 .*real", CPU_MS, 1e3),
    Line("BM25, 5 words by Zipf's law, 100,000 passages", "search", r"^5 words, 100,000 .*Zipf", CPU_MS, 1e3),
    Line("BM25, 200 words by Zipf's law, 100,000 passages", "search", r"^200 words, 100,000 .*Zipf", CPU_MS, 1e3),
    Line("SPLADE, a query of 30 terms, 100,000 passages", "search", r"^30 terms of SPLADE, 100,000", CPU_MS, 1e3),
    Line("memory: what is known of a user, 10,000 statements", "user_memory", r"^known for a new conversation", CPU_MS, 1e3),
    Line("memory: BM25 over 10,000 statements of a user, right after a change", "user_memory", r"^BM25 right after a change", CPU_MS, 1e3),
    Line("memory: BM25, 1,982 questions, each over 588 statements", "statements", r"questions", "s of CPU, 1 thread"),
    Line("texts of 1000 passages", "search", r"^1000 texts", CPU_MS, 1e3),
    Line("dense search, 64 queries, 200,000 vectors of 384", "search", r"^64 queries, 200,000", "s of CPU, 1 thread"),
    Line("dense search, 1660 queries, 200,000 vectors of 384", "search", r"^1660 queries, 200,000", "s of CPU, 1 thread"),
    Line("re-ranking, 32 pairs, MiniLM-L6", "reranking", r"^cross-encoder .* float32$", "s of CPU, 1 thread"),
    Line("re-ranking, 32 pairs, MiniLM-L6, bfloat16", "reranking", r"^cross-encoder .* bfloat16$", "s of CPU, 1 thread"),
    Line("LLM stage, 332 calls, 32 at a time, the first of a process", "llm_stage", r"^332 calls, first stage of a process$"),
    Line("LLM client, one call", "llm_client", r"^a call", "ms of CPU", 1e3),
    Line("fusion (RRF) of 5 rankings, 332 turns", "fusion", r"^RRF"),
    Line("evaluation, 5 runs, 332 turns, 7 measures", "evaluation", r"^evaluate"),
    Line("serving, 50 people, 20 turns each", "serve", r"^50 people"),
    Line("report of 332 turns, 3 systems", "report_size", r"most passages shared: made"),
    Line(
        "memory of a run, 332 turns in batches",
        "memory",
        r"batches of 128 turns, as ikat run does$",
        "MB",
        1.0,
        ("peak (MB)", "least (MB)"),
    ),
    Line("`import pyterrier_ikat`", "startup", r"^python -c"),
)
"""The short table; a line without a measurement is left out."""


def performance_summary(_: str) -> str:
    """One line for each stage: ours, the best other that was measured beside it, and the limit."""
    runs = _runs()
    lines = [line for about in LINES if (line := _summary(about, runs))]
    return table(["stage", "unit", "ours", "best other", "limit", "measured"], lines) if lines else NOTHING


def _summary(about: Line, runs: Iterable[Row]) -> list[str]:
    found = [(run, row) for run in runs if run["benchmark"] == about.benchmark for row in run["rows"] if re.search(about.task, row["task"])]
    if not found:
        return []
    run, row = found[0]
    others = [(other["today"] * about.factor, other["instead"]) for _, other in found if other["today"] is not None]
    seconds, name = min(others, default=(None, ""))
    ours, limit = row["ours"] * about.factor, None if row["limit"] is None else row["limit"] * about.factor
    if about.figure:
        ours, limit = row["more"][about.figure[0]], row["more"].get(about.figure[1])
    other = "–" if seconds is None else f"{_number(seconds)} ({name})"
    measured = f"{run['machine'].get('date', '')} {run['machine'].get('commit', '')}".strip()
    return [about.stage, about.unit, _number(ours), other, "–" if limit is None else _number(limit), measured]


def performance_table(_: str) -> str:
    """The figures of ``docs/bench.json``, which the benchmarks write: a table for each command that made some, and the machine."""
    runs = _runs()
    if not runs:
        return NOTHING
    parts = [_measured_on(runs)]
    for benchmark, commands in groupby(runs, key=lambda run: run["benchmark"]):
        parts += [f"## {benchmark}", *(f"`{run['command']}`{_when(run)}\n\n{_table(run['rows'])}" for run in commands)]
    return "\n\n".join(parts)


def _runs() -> list[Row]:
    found: list[Row] = json.loads(BENCH.read_text(encoding="utf-8"))["runs"] if BENCH.exists() else []
    return found


def _when(run: Row) -> str:
    machine = run["machine"]
    return f", {machine['date']}, at commit {machine['commit']}, load {machine['load']:.2g}" if "date" in machine else ""


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
