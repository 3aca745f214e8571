"""How tables are written: as text, LaTeX, Markdown, CSV or HTML, each with its notes."""

import textwrap
from collections.abc import Sequence
from html import escape

import pandas as pd

from ..errors import UsageError

FORMS = ("text", "latex", "markdown", "csv")
WIDTH = 100


def written(form: str, title: str, cells: pd.DataFrame, notes: Sequence[str], texts: int = 1) -> str:
    r"""A table with its title and notes; notes are comments in LaTeX and a column in CSV.

    Args:
        form: ``text``, ``latex``, ``markdown`` or ``csv``.
        title: what it is.
        cells: what is written.
        notes: what a reader has to know.
        texts: how many columns, from the left, are texts; the others are numbers.

    Raises:
        UsageError: for another form.

    Example:
        >>> cells = pd.DataFrame({"system": ["qr"], "nDCG": [".5"]})
        >>> print(written("latex", "Mine", cells, ["Two turns."]))
        % Mine
        \begin{tabular}{lr}
        \toprule
        system & nDCG \\
        \midrule
        qr & .5 \\
        \bottomrule
        \end{tabular}
        % Two turns.
        <BLANKLINE>
        >>> print(written("csv", "Mine", cells, ["Two turns."]))
        system,nDCG,notes
        qr,.5,Two turns.
        <BLANKLINE>
    """
    if form == "csv":
        return str((cells if "notes" in cells.columns else cells.assign(notes=" ".join(notes))).to_csv(index=False))
    if form == "latex":
        body = str(cells.to_latex(index=False, escape=True, column_format="l" * texts + "r" * (len(cells.columns) - texts)))
        return "\n".join([f"% {title}", body.rstrip("\n"), *(f"% {note}" for note in notes)]) + "\n"
    if form == "markdown":
        lines = [list(cells.columns), ["---"] * texts + ["---:"] * (len(cells.columns) - texts), *cells.values.tolist()]
        rows = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
        return "\n\n".join([f"**{title}**", rows, *(note.replace("*", r"\*", 1) for note in notes)]) + "\n"
    if form != "text":
        raise UsageError(f"the format {form!r} is unknown: choose {', '.join(FORMS)}")
    return "\n".join([wrapped(title), "", cells.to_string(index=False), *([""] if notes else []), *map(wrapped, notes)]) + "\n"


def html(title: str, cells: pd.DataFrame, notes: Sequence[str]) -> str:
    """A table for a notebook."""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<p><b>{escape(title)}</b></p>{cells.to_html(index=False)}<ul>{items}</ul>"


def wrapped(text: str, indent: str = "") -> str:
    """A text in lines of at most 100 characters.

    Example:
        >>> [len(line) <= 100 for line in wrapped("word " * 30).splitlines()]
        [True, True]
    """
    lines = textwrap.TextWrapper(WIDTH, indent, indent + "  ", break_long_words=False, break_on_hyphens=False)
    return lines.fill(text)
