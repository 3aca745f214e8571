"""The experiment table as text."""

import re

import pandas as pd


def format_table(table: pd.DataFrame, baseline: str | None = None) -> str:
    """An experiment table for the terminal, with significance marks.

    Args:
        table: what :func:`evaluate` returned.
        baseline: the run it was compared with.

    Returns:
        The table: figures to four decimals, ``*`` where a run differs from the baseline (two-sided paired t-test,
        Bonferroni, p < .05), and a line that says what the means are over.
    """
    measures = [name for name in table.columns if name not in ("name", "turns") and not is_derived(name)]
    shown = pd.DataFrame({"system": table["name"]})
    for name in measures:
        marks = _marks(table, name)
        shown[name] = [f"{shown_figure(value)}{mark}" for value, mark in zip(table[name], marks, strict=True)]
    lines = [shown.to_string(index=False), "", f"Mean over {table['turns'].iloc[0]} judged turns; a turn without results counts 0."]
    if baseline is not None and len(table) > 1:
        lines.append(f"* differs from {baseline}: two-sided paired t-test, Bonferroni, p < .05.")
    return "\n".join(lines)


def shown_figure(value: float) -> str:
    """A figure to four decimals, without the zero before the point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.4f}")


def is_derived(name: str) -> bool:
    """Whether a column of an experiment table compares with the baseline, and is no measure."""
    return name.endswith((" +", " -", " p-value", " reject", " p-value corrected"))


def _marks(table: pd.DataFrame, name: str) -> list[str]:
    rejected = f"{name} reject"
    return [" " if rejected not in table or not value else "*" for value in table.get(rejected, [False] * len(table))]
