"""The table of measured times."""

import json
from pathlib import Path
from typing import Any

from .text import table

BENCH = Path(__file__).parents[1] / "bench.json"


def performance_table(_: str) -> str:
    """The figures of ``docs/bench.json``, which ``make bench`` writes, and the machine that they were measured on."""
    if not BENCH.exists():
        return "No measurement is kept here; `make bench` measures on your machine."
    found = json.loads(BENCH.read_text(encoding="utf-8"))
    machine, versions = found["machine"], found["machine"]["versions"]
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    rows = [_row(row) for row in found["rows"]]
    head = ["task", "ours (s)", "today (s)", "written as", "limit (s)", "the limit is"]
    return f"{table(head, rows)}\n\nMeasured on {machine['cores']} cores ({machine['cpu']}), Python {machine['python']}, {shown}."


def _row(row: dict[str, Any]) -> list[str]:
    today, limit = (
        f"{row[name]:.3g} ({row[name] / row['ours']:.2f} x ours)" if row[name] is not None else "" for name in ("today", "limit")
    )
    return [row["task"], f"{row['ours']:.3g}", today, row["instead"], limit, row["why"]]
