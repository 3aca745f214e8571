"""``{catalogue} NAME``: a table of what the package knows, made when the site is built.

The names are those of ``TABLES``: methods, papers, decisions, datasets, prompts, llm-options,
turn-frame, measures.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from jinja2 import Environment, meta
from jinja2.nodes import Name
from sphinx.util.docutils import SphinxDirective

import pyterrier_ikat as ikat
from pyterrier_ikat import evaluation, prompts
from pyterrier_ikat.conversations import frame
from pyterrier_ikat.conversations.datasets import full_names
from pyterrier_ikat.llms.spec import OPTIONS
from pyterrier_ikat.methods import METHODS, Method
from pyterrier_ikat.methods.catalogue import calls_per_turn
from pyterrier_ikat.papers.published import PAPERS


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; bars in the cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", r"\|") for cell in line) + " |" for line in lines
    )


def first_sentence(docstring: str | None) -> str:
    """The first sentence of a docstring, as Markdown."""
    paragraph = " ".join((docstring or "").strip().split("\n\n")[0].split())
    return as_markdown(re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0])


def as_markdown(text: str) -> str:
    """A docstring's roles and double backticks as Markdown's backticks."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")


def methods() -> Iterator[str]:
    """All methods by paper, those of the same system in one row."""
    papers: dict[str, dict[Callable[..., object], list[Method]]] = {}
    for entry in METHODS.values():
        papers.setdefault(entry.paper, {}).setdefault(entry.system, []).append(entry)
    for paper, systems in papers.items():
        heading = paper or "no paper named"
        yield f"**{heading[0].upper() + heading[1:]}**"
        yield table(["methods", "system", "LLM calls", "queries"], map(_system, systems.values()))


def _system(entries: list[Method]) -> list[str]:
    calls, queries = (
        ", ".join(dict.fromkeys(column))
        for column in zip(*map(calls_per_turn, entries), strict=True)
    )
    return [
        ", ".join(f"`{entry.name}`" for entry in entries),
        first_sentence(entries[0].system.__doc__),
        calls,
        queries,
    ]


def papers() -> str:
    """Each paper with its tables and figures."""
    rows = [
        [f"`{name}`", _title(name), ", ".join(paper.tables), ", ".join(paper.figures)]
        for name, paper in PAPERS.items()
    ]
    return table(["name", "paper", "tables", "figures"], rows)


def _title(name: str) -> str:
    paper = PAPERS[name]
    return f"[{paper.title}]({paper.link})" if paper.link else paper.title


def decisions() -> Iterator[str]:
    """What differs from each paper, and what it leaves open."""
    for name, paper in PAPERS.items():
        yield f"**{name}**: {_title(name)}. Its first stage ran on {paper.engine}."
        yield table(["difference or decision", "why"], paper.deviations)


def datasets() -> str:
    """The datasets, what each offers, and the variants of its judgements."""
    found = [(name, ikat.dataset(name)) for name in full_names()]
    rows = [
        [
            f"`{name}`",
            data.summary,
            ", ".join(f"`{kind}`" if kind else "the default" for kind in data._qrels()),
        ]
        for name, data in found
    ]
    return table(["name", "content", "qrels"], rows)


def prompt_templates() -> str:
    """Each template: which prompt it stands for, and its inputs in their order."""
    rows = []
    for path in sorted(Path(prompts.__file__).parent.glob("*.jinja")):
        text = path.read_text(encoding="utf-8")
        if stands_for := re.match(r"\{#(.*?)-?#\}", text):
            tree = Environment().parse(re.sub(r"\|\s*\w+", "", text))
            known = meta.find_undeclared_variables(tree)
            inputs = dict.fromkeys(node.name for node in tree.find_all(Name) if node.name in known)
            rows.append(
                [f"`{path.name}`", stands_for[1].strip(), ", ".join(f"`{name}`" for name in inputs)]
            )
    return table(["template", "stands for", "inputs"], rows)


def llm_options() -> str:
    """Every key of a line that names a model, its values, and the providers that take it."""
    takers: dict[str, list[str]] = {}
    kinds = {key: kind.words for options in OPTIONS.values() for key, kind in options.items()}
    for provider, options in OPTIONS.items():
        for key in options:
            takers.setdefault(key, []).append(f"`{provider}`")
    return table(
        ["key", "value", "taken by"],
        [[f"`{key}`", kinds[key], ", ".join(takers[key])] for key in takers],
    )


def turn_frame() -> str:
    """List the columns of a turn frame, from the docstring of its module."""
    listed = re.split(r"^=+ +=+$", frame.__doc__ or "", flags=re.MULTILINE)[1]
    rows = [re.split(r"  +", line, maxsplit=1) for line in listed.strip().splitlines()]
    return table(["columns", "content"], [[as_markdown(cell) for cell in row] for row in rows])


def measures() -> str:
    """The track's default measures, and the judges of responses."""
    judges = [
        getattr(evaluation, name)
        for name in evaluation.__all__
        if hasattr(getattr(evaluation, name), "judge")
    ]
    defaults = {
        "passages, 2023 and 2024": evaluation.TRACK_2023,
        "statements": evaluation.TRACK_PTKB,
    }
    rows = [
        [", ".join(f"`{one}`" for one in found), f"default for {what}"]
        for what, found in defaults.items()
    ]
    return table(
        ["measure", "what it is"],
        [*rows, *([f"`{judge.__name__}`", first_sentence(judge.__doc__)] for judge in judges)],
    )


TABLES: dict[str, Callable[[], str | Iterator[str]]] = {
    "methods": methods,
    "papers": papers,
    "decisions": decisions,
    "datasets": datasets,
    "prompts": prompt_templates,
    "llm-options": llm_options,
    "turn-frame": turn_frame,
    "measures": measures,
}


class Catalogue(SphinxDirective):
    """``{catalogue} NAME``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table."""
        made = TABLES[self.arguments[0]]()
        return self.parse_text_to_nodes(made if isinstance(made, str) else "\n\n".join(made))


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("catalogue", Catalogue)
    return {"parallel_read_safe": True}
