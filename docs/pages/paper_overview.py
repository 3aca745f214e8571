"""The README's table of papers: where each is, its systems, and its best published scores."""

import re
import sys
from collections import Counter
from collections.abc import Iterator

from pyterrier_ikat.methods import METHODS, TABLES, Method, PublishedTable
from pyterrier_ikat.papers.published import PAPERS
from pyterrier_ikat.tables import format_score

from .text import table

MEASURES = ("nDCG@5", "nDCG@3", "nDCG@10")
"""The measure of a row: the first of these that a table has."""
NOT_A_PAPER = re.compile(r"ours\b|baseline without|organisers' 202[34] ")
NONE = "-"


def paper_overview(_: str) -> str:
    """A row per paper: those whose tables can be reproduced come first."""
    papers: dict[str, list[Method]] = {}
    for entry in METHODS.values():
        if not NOT_A_PAPER.match(entry.paper):
            papers.setdefault(entry.paper, []).append(entry)
    known = list(PAPERS.values())
    order = {paper: next((at for at, one in enumerate(known) if one.title.startswith(paper)), len(known)) for paper in papers}
    rows = [[_linked(paper, entries[0]), _systems(entries), _best(paper, entries)] for paper, entries in papers.items()]
    places = dict(zip(map(tuple, rows), (order[paper] for paper in papers), strict=True))
    return table(["paper", "systems", "best published score"], sorted(rows, key=lambda row: places[tuple(row)]))


def _linked(paper: str, entry: Method) -> str:
    shown = paper[0].upper() + paper[1:]
    link = next((one.link for one in PAPERS.values() if one.title.startswith(paper)), "") or _arxiv(entry)
    return f"[{shown}]({link})" if link else shown


def _arxiv(entry: Method) -> str:
    """The address of the first paper that the docstring of the method's module names, where that has an arXiv number."""
    said = (sys.modules[entry.system.__module__].__doc__ or "").split("\n\n")[0]
    found = re.search(r"arXiv (\d{4}\.\d{5})", said)
    return f"https://arxiv.org/abs/{found[1]}" if found else ""


def _systems(entries: list[Method]) -> str:
    """The shortest name of each system, those of the paper's own file first, and the number of variants."""
    files = Counter(entry.system.__module__ for entry in entries)
    shortest: dict[object, Method] = {}
    for entry in sorted(entries, key=lambda entry: (-files[entry.system.__module__], len(entry.name))):
        shortest.setdefault(entry.system, entry)
    names = [f"`{entry.name}`" for entry in shortest.values()]
    more = len(entries) - len(names)
    return ", ".join(names) + (f" and {more} variant{'s' * (more > 1)}" if more else "")


def _best(paper: str, entries: list[Method]) -> str:
    return "; ".join(_scores(paper, entries)) or NONE


def _scores(paper: str, entries: list[Method]) -> Iterator[str]:
    """The best automatic system of the paper in each of its tables of passage rankings that NIST judged."""
    automatic = [entry.name for entry in entries if not entry.manual]
    for published in TABLES.values():
        measure = next((name for name in MEASURES if name in published.measures), None)
        frame = published.frame()
        named = [name for name in frame.index if name in automatic]
        if measure and named and "PTKB" not in published.qrels and "GPT" not in published.qrels:
            scores = frame.loc[named, measure]
            yield f"`{scores.idxmax()}` {format_score(scores.max())} {measure} ({_where(paper, published)})"


def _where(paper: str, published: PublishedTable) -> str:
    place = published.paper.removeprefix(paper).strip(" ,") if published.paper.startswith(paper) else published.paper
    place = re.sub(r"the description of the model [^,\s]+", "its model card", place).partition(",")[0]
    year = re.search(r"20\d\d", published.qrels)
    turns = f", {published.turns} turns" if published.turns else ""
    return f"{place}, iKAT {year[0] if year else ''}{turns}"
