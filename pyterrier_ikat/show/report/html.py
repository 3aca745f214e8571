"""The report as one HTML page that loads nothing, runs no script but its own, and can be read without any.

Texts of users, passages and models are escaped by jinja. Should one slip through, the page's content security policy names the hash of the
page's only script and style: the browser runs no other.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from .figures import Figure, Figures
from .passages import Passage, Place
from .runs import RunData
from .turns import TurnView

FOLDER = Path(__file__).parent / "files"
LEVELS = 5
"""Steps of the colour scale from 0 to 1."""
GRADES = 4
"""The greatest relevance label with a colour of its own."""


def render(**values: Any) -> str:
    """The page; what no HTML file can hold (zeros, half characters) is replaced."""
    css, script = _own("report.css"), _own("report.js")
    policy = f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    page = _environment().get_template("report.html.jinja").render(css=Markup(css), script=Markup(script), policy=policy, **values)
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", page)


def calls(ledger: pd.DataFrame | None) -> str:
    """What a run's LLM calls came to, in a sentence; an unknown amount is called unknown."""
    if ledger is None or ledger.empty:
        return "No LLM calls."
    tokens, cost = ledger[["prompt_tokens", "completion_tokens"]].sum(axis=1, skipna=False), ledger["cost"]
    told = "unknown tokens" if tokens.isna().any() else f"{int(tokens.sum()):,} tokens"
    paid = "unknown cost" if cost.isna().any() else f"{cost.sum():.2f} US dollars"
    counts = ", ".join(f"{int(ledger[name].sum())} {name.replace('_', ' ')}" for name in ("failures", "fallbacks"))
    return f"{int(ledger['calls'].sum())} LLM calls, {int(ledger['cache_hits'].sum())} from the cache; {told}, {paid}; {counts}."


def _own(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@lru_cache
def _environment() -> Environment:
    built = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    filters = {
        "figure": _figure,
        "level": _level,
        "packed": _packed,
        "told": _told,
        "summed": _summed,
        "only": _only,
        "score": _score,
        "grade": _grade,
    }
    built.filters.update(filters)
    return built


def _figure(figure: Figure, digits: int) -> Markup:
    shown = f"{figure.value:.{digits}f}"
    text = Markup("<b>{}</b>" if figure.best else "{}").format(shown)
    if figure.side == "tie" or figure.change is None:
        return text
    sign = "+" if figure.change > 0 else "−"
    return text + Markup(' <span class="{}">{}{}</span>').format(figure.side, sign, f"{abs(figure.change):.{digits}f}")


def _level(value: float) -> int:
    return min(int(value * LEVELS), LEVELS - 1)


def _packed(figures: Figures) -> str:
    return "|".join(" ".join(f"{figure.value:.4f}" for figure in row) for row in figures)


def _told(turn: TurnView, runs: Sequence[RunData], measures: Sequence[str]) -> str:
    if not turn.figures:
        return turn.qid
    rows = ", ".join(f"{run.name} {row[0].value:.3f}" for run, row in zip(runs, turn.figures, strict=True))
    return f"{turn.qid}, {measures[0]}: {rows}"


def _summed(passages: Sequence[Passage], labelled: bool) -> str:
    relevant, unjudged = (sum(fits) for fits in ([(p.label or 0) > 0 for p in passages], [p.label is None for p in passages]))
    told = f"{len(passages)} passages"
    return f"{told}, {relevant} relevant, {unjudged} not judged" if labelled else told


def _only(places: Sequence[Place | None]) -> bool:
    return len(places) > 1 and sum(place is not None for place in places) == 1


def _grade(label: int) -> int:
    return min(max(label, 0), GRADES)


def _score(score: float) -> str:
    return f"{score:.4g}"


def calls_by_run(runs: Sequence[RunData]) -> Mapping[str, str]:
    """For each run what :func:`calls` tells."""
    return {run.name: calls(run.ledger) for run in runs}
