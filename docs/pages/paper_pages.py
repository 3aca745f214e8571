"""The tables of docs/reproduce.md and docs/own_prompts.md: every row with its command, every deviation, every prompt template."""

import re
from pathlib import Path

from jinja2 import Environment, meta, nodes

import pyterrier_ikat.prompts as prompts
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.papers.paper_resources import keys_of
from pyterrier_ikat.papers.published import PAPERS, Listing, Matrix, Paper, Prompts

from .text import table

TEMPLATES = Path(prompts.__file__).parent


def paper_tables(_: str) -> str:
    """Each paper: its tables with a row per system, its figures, and what differs."""
    return "\n\n".join(_paper(name, paper) for name, paper in PAPERS.items())


def _paper(name: str, paper: Paper) -> str:
    title = f"[{paper.title}]({paper.link})" if paper.link else paper.title
    parts = [f"## {name}", f"{title}. Its first stage ran on {paper.engine}; ours runs on PISA."]
    for number, what in paper.tables.items():
        if isinstance(what, Matrix):
            parts.append(
                f"**Table {number}**: labels of {what.judge} and of NIST's assessors. `ikat paper {name} {number} --resources FILE`"
            )
        elif isinstance(what, Listing):
            shown = f"`ikat paper {name} {number}` prints it, `ikat methods NAME` shows each"
            parts.append(f"**Table {number}**: what the runs are made of; {shown}: {', '.join(what.systems)}.")
        elif isinstance(what, Prompts):
            templates = ", ".join(f"`{template}.jinja`" for template in what.templates)
            parts.append(f"**{what.what}**: {templates}, worded by us; `ikat paper {name} {number}` prints them.")
        else:
            for part in what:
                turns = part.published_turns or "an unknown number of"
                parts.append(f"**Table {number}**: iKAT {part.year}, {part.judgements}, {turns} turns.")
                rows = [
                    [
                        f"`{system}`",
                        ", ".join(f"`{key}`" for keys in keys_of(METHODS[system]).values() for key in keys),
                        _command(name, number, system),
                    ]
                    for system in part.systems
                ]
                parts.append(table(["row", "needs", "command"], rows))
    if paper.figures:
        commands = ", ".join(f"`ikat paper {name} {number} --resources FILE`" for number in paper.figures)
        parts.append(f"Figures: {commands}.")
    parts.append(table(["difference or decision", "why"], [list(row) for row in paper.deviations]))
    return "\n\n".join(parts)


def _command(name: str, number: str, system: str) -> str:
    return f"`ikat paper {name} {number} --systems {system} --resources FILE`"


def prompt_table(_: str) -> str:
    """Each template: which prompt it stands for, and its inputs in their order."""
    rows = []
    for path in sorted(TEMPLATES.glob("*.jinja")):
        text = path.read_text(encoding="utf-8")
        stands_for = re.match(r"\{#(.*?)-?#\}", text)
        if stands_for:
            rows.append([f"`{path.name}`", stands_for[1].strip(), ", ".join(f"`{name}`" for name in _inputs(text))])
    return table(["template", "stands for", "inputs, in order"], rows)


def _inputs(text: str) -> list[str]:
    tree = Environment().parse(re.sub(r"\|\s*\w+", "", text))
    known = meta.find_undeclared_variables(tree)
    return list(dict.fromkeys(node.name for node in tree.find_all(nodes.Name) if node.name in known))
