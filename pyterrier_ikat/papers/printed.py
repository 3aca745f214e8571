"""A paper's table as it was published, without anything of ours: no model, no index and no run is needed."""

import pandas as pd

from ..errors import UsageError
from ..evaluation.evaluator import format_score
from ..prompts import FOLDER
from ..tables import Table, of_frame
from .paper_scores import TIMES
from .published import Figure, Listing, Matrix, Part, Prompts, find_paper, find_table

NOTHING_OF_OURS = "Published figures alone; with --resources FILE ours are made, and stand beside those that may be compared."


def published_tables(name: str, number: str) -> list[Table]:
    """A table of a paper as published: one for each kind of judgements in it; ``.frame`` has the values.

    Of a table of prompts it is what stands for them here: the paper's sentences are its authors', ours are worded anew.

    Raises:
        UsageError: when there is no such paper or table, or the paper prints no numbers of a figure.

    Example:
        >>> [table] = published_tables("nii_2024", "4")
        >>> table.frame.columns.tolist()
        ['system', 'nDCG@5', 'P@5', 'Recall@5', 'notes']
    """
    what = find_table(name, number)
    if isinstance(what, Matrix):
        return [_matrix(what)]
    if isinstance(what, Listing):
        frame = pd.DataFrame([row.split("; ") for row in what.rows], columns=list(what.columns))
        return [of_frame(frame, ["As the paper's table has it; `ikat methods NAME` shows what each is made of here."])]
    if isinstance(what, Prompts):
        return [_prompts(what)]
    if isinstance(what, Figure):
        return [_points(name, number, what)]
    return [_scores(part, find_paper(name).engine) for part in what]


def _scores(part: Part, engine: str) -> Table:
    frame = part.table.frame().rename_axis("system").reset_index()
    shown = frame.astype(object)
    for measure in part.table.measures:
        shown[measure] = [
            "-" if value != value else f"{value:.2f}" if measure in TIMES else format_score(value) for value in frame[measure]
        ]
    turns = part.published_turns or "an unknown number of"
    notes = [
        NOTHING_OF_OURS,
        f"Means over {turns} turns of iKAT {part.year}, judged by {part.judgements}; the first stage ran on {engine}.",
    ]
    return Table(frame.assign(notes=" ".join(notes)), of_frame(shown, texts=1).columns, notes, part.table.paper)


def _matrix(matrix: Matrix) -> Table:
    frame, notes = matrix.frame(), [NOTHING_OF_OURS, matrix.said]
    title = f"Labels of {matrix.judge} (rows) against NIST's (columns), iKAT {matrix.year}"
    return Table(frame.assign(notes=" ".join(notes)), of_frame(frame, texts=1).columns, notes, title)


def _prompts(prompts: Prompts) -> Table:
    files = [f"{name}.jinja" for name in prompts.templates]
    texts = [(FOLDER / file).read_text(encoding="utf-8") for file in files]
    rows = [(file, line) for file, text in zip(files, texts, strict=True) for line in text.splitlines() if line.strip()]
    shown = pd.DataFrame([("" if place and rows[place - 1][0] == file else file, line) for place, (file, line) in enumerate(rows)])
    columns = ["template", "text"]
    note = "Our templates, which stand for the paper's prompts: same inputs, order, limits and form of answer, but worded by us."
    frame = pd.DataFrame({"template": files, "text": texts})
    return Table(frame, of_frame(shown.set_axis(columns, axis=1), texts=2).columns, [note, f"{prompts.what}."])


def _points(name: str, number: str, figure: Figure) -> Table:
    if not figure.points:
        raise UsageError(f"{name} prints no numbers of {number}: give --resources FILE, or --resources sample, to draw ours")
    frame = pd.DataFrame({"system": list(figure.points), figure.measure: list(figure.points.values())})
    return of_frame(frame, [NOTHING_OF_OURS, f"From {figure.part.table.paper}."], decimals=2)
