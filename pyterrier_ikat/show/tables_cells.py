"""What a table consists of, before it is written in some form."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One place of a table.

    Attributes:
        text: what is in it.
        best: whether no other figure of the column is greater.
        second: whether only the best are greater.
        significant: whether the figure differs significantly from the baseline's.
    """

    text: str
    best: bool = False
    second: bool = False
    significant: bool = False

    def written(self, text: str, best: tuple[str, str], second: tuple[str, str], star: str) -> str:
        """The cell in some form: its ``text``, escaped for it, between the marks that it has earned.

        Example:
            >>> Cell("1_", best=True, significant=True).written("1-", ("<b>", "</b>"), ("<u>", "</u>"), "*")
            '<b>1-</b>*'
        """
        before, after = best if self.best else second if self.second else ("", "")
        return f"{before}{text}{after}{star * self.significant}"


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its title.
        cells: its places, from above.
        numeric: whether they are figures, which are set to the right.
    """

    title: str
    cells: Sequence[Cell]
    numeric: bool = False

    @property
    def starred(self) -> bool:
        """Whether some figures have a star after them, so that set to the right they would not stand below each other."""
        return any(cell.significant for cell in self.cells)


def marked(figures: Sequence[str], significant: Sequence[bool]) -> list[Cell]:
    """The cells of one measure, the best and second best of them marked.

    Figures that read the same are the same: both are best, or both second best. Nothing is best when there is only one figure.

    Args:
        figures: the figures as they are shown; what is no number is never the best.
        significant: whether each differs from the baseline's.

    Example:
        >>> [(cell.best, cell.second) for cell in marked([".5000", ".4000", ".5000", ".3000"], [False] * 4)]
        [(True, False), (False, True), (True, False), (False, False)]
    """
    values = [_number(text) for text in figures]
    ranked = sorted({value for value in values if value is not None}, reverse=True)
    best, second = [*ranked, None, None][:2] if len(figures) > 1 else (None, None)
    return [
        Cell(text, value is not None and value == best, value is not None and value == second, star)
        for text, value, star in zip(figures, values, significant, strict=True)
    ]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
