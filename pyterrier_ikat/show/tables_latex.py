"""A table in LaTeX, with the package booktabs."""

from collections.abc import Sequence

from .tables_cells import Cell, Column

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",  # after the end of a row it would begin an option, and a star a command of its own
    "*": "{*}",
}


def latex(columns: Sequence[Column], notes: Sequence[str]) -> str:
    """A ``table`` environment, with the notes as its caption."""
    alignment = "".join("r" if column.numeric else "l" for column in columns)
    titles = [escaped(column.title) for column in columns]
    rows = zip(*(map(_cell, column.cells) for column in columns), strict=True)
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{' '.join(map(escaped, notes))}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        rf"{' & '.join(titles)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is, on one line.

    Example:
        >>> escaped("50% of R&D_1 -- {x}")
        '50\\% of R\\&D\\_1 -{}- \\{x\\}'
    """
    on_a_line = " ".join(text.split())
    return "".join(_ESCAPED.get(character, character) for character in on_a_line).replace("--", "-{}-").replace("--", "-{}-")


def _cell(cell: Cell) -> str:
    # the star takes no room, so that the figures stay below each other
    return cell.written(escaped(cell.text), (r"\textbf{", "}"), (r"\underline{", "}"), r"\rlap{$^{*}$}")
