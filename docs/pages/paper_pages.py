"""The pages of the papers, and the table of docs/prompts.md: every row with what makes it, every deviation, every prompt template."""

import re
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment, meta, nodes

import pyterrier_ikat.prompts as prompts
from pyterrier_ikat.methods import METHODS
from pyterrier_ikat.papers.paper_resources import keys_of
from pyterrier_ikat.papers.paper_scores import TIMES
from pyterrier_ikat.papers.published import PAPERS, Listing, Matrix, Prompts, PublishedTable
from pyterrier_ikat.tables import format_score

from .text import table

TEMPLATES = Path(prompts.__file__).parent


def paper_list(_: str) -> str:
    """Each paper with its tables and figures, linked to its page."""
    rows = [
        [f"[{name}](papers/{name}.md)", paper.title, ", ".join(paper.tables), ", ".join(paper.figures)] for name, paper in PAPERS.items()
    ]
    return table(["paper", "title", "tables", "figures"], rows)


def paper_page(name: str) -> str:
    """The page of a paper: a block to copy for every row of its tables, its figures, and what differs."""
    paper = PAPERS[name]
    title = f"[{paper.title}]({paper.link})" if paper.link else paper.title
    parts = [f"# {name}", f"{title}. Its first stage ran on {paper.engine}."]
    for number, what in paper.tables.items():
        parts.append(f"## Table {number}")
        if isinstance(what, Matrix):
            parts.append(f"Labels by {what.judge} and by NIST's assessors.")
            parts.append(f"```\nikat paper {name} {number} --resources mine.toml\n```")
        elif isinstance(what, Listing):
            shown = f"`ikat paper {name} {number}` prints it, `ikat methods NAME` shows each"
            parts.append(f"The parts of the runs. {shown}: {', '.join(dict.fromkeys(what.systems))}.")
        elif isinstance(what, Prompts):
            templates = ", ".join(f"`{template}.jinja`" for template in what.templates)
            parts.append(f"{what.what}: {templates}, worded by us; `ikat paper {name} {number}` prints them.")
        else:
            parts += [text for part in what for text in _rows(name, number, part)]
    if paper.figures:
        commands = "\n".join(f"ikat paper {name} {number} --resources mine.toml" for number in paper.figures)
        parts.append(f"## Figures\n\n```\n{commands}\n```")
    parts.append("## Differences and decisions\n\n" + table(["difference or decision", "why"], [list(row) for row in paper.deviations]))
    return "\n\n".join(parts)


def _rows(name: str, number: str, part: PublishedTable) -> Iterator[str]:
    """What the scores of a part are, and for each row what to copy."""
    turns = part.turns or "an unknown number of"
    whole = f"`ikat paper {name} {number} --resources mine.toml` makes all rows"
    yield f"iKAT {part.year}, {part.judgements}, {turns} turns. Open a row for the commands that make it; {whole}."
    published = part.frame()
    for system in part.systems:
        scores = {measure: score for measure, score in published.loc[system].items() if score == score}
        expected = ", ".join(
            f"{measure} {score:.2f}" if measure in TIMES else f"{measure} {format_score(score)}" for measure, score in scores.items()
        )
        first = expected.partition(", ")[0]
        commands = f"ikat paper {name} {number} --systems {system} --resources {system}.toml"
        block = f"```bash\ncat > {system}.toml <<'END'\n{resources_of(system)}\nEND\n{commands}\n```"
        yield f"<details><summary><code>{system}</code> {first}</summary>\n\n{block}\n\nPublished: {expected}.\n\n</details>"


def resources_of(system: str) -> str:
    """The lines of a resources file for one system: the paper's models where their names say which, else a word in capitals to replace."""
    entry = METHODS[system]
    lines = {}
    for resource, keys in keys_of(entry).items():
        named = re.split(r",(?! )", entry.models.get(resource, ""))
        for place, key in enumerate(keys):
            lines[key] = _model(resource, key, named[min(place, len(named) - 1)])
    return "\n".join(f'"{key}" = "{value}"' for key, value in lines.items())


def _model(resource: str, key: str, paper: str) -> str:
    if resource == "retriever":
        return "splade.index" if key == "splade" else "full.index"
    if resource in ("llm", "second_llm"):
        name, _, options = paper.partition(" ")
        if paper.startswith("openai:"):
            return paper
        if name.startswith("gpt"):
            return f"openai:{paper}"
        return f"openai:MODEL {options} base_url=ADDRESS" if "=" in options else "openai:MODEL base_url=ADDRESS"
    return paper if "/" in paper or paper == "ensemble" else "MODEL_OR_FOLDER"


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
