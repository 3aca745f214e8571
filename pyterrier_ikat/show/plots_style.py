"""How the plots look: colours that the colour-blind can tell apart, never colour alone, and files in which text stays text."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, Color Universal Design (2008), without its yellow, which is too pale for lines on white."""

BETTER, WORSE = "#0072B2", "#E69F00"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":")
HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "++", "--")

_TEXT_AS_TEXT: dict[Any, Any] = {"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "pyterrier_ikat"}
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
_DOTS_PER_INCH = 200


def looks() -> Iterator[tuple[str, str, str]]:
    """Colour, marker and line of each system; all three together repeat after 168 systems."""
    return zip(cycle(COLOURS), cycle(MARKERS), cycle(LINES), strict=False)


def new_axes(width: float = 6.4, height: float = 4.8) -> "Axes":
    """Axes of their own; width and height in inches.

    Raises:
        UsageError: when matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise UsageError("drawing needs matplotlib: pip install pyterrier_ikat[plots]") from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def plain(text: str) -> str:
    """A name as it is: matplotlib takes what stands between two dollar signs as a formula."""
    return text.replace("$", r"\$")


def legend_beside(ax: "Axes", title: str, handles: list[Any], names: list[str]) -> None:
    """A legend that hides nothing, and takes names that begin with an underscore too."""
    if handles:
        ax.legend(handles, [plain(name) for name in names], title=title, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def save_plot(ax: "Axes", path: str | Path) -> Path:
    """Write a plot for a paper: text stays text that can be searched and edited, the same plot gives the same bytes.

    Args:
        ax: what a plot returned.
        path: a file that ends with ``.svg``, ``.pdf`` or ``.png`` (200 dots per inch).

    Returns:
        The file.

    Raises:
        UsageError: for another ending.

    Example:
        >>> import pandas as pd, pyterrier_ikat as ikat
        >>> from pyterrier_ikat.show.plots_judgements import plot_labels
        >>> qrels = pd.DataFrame({"qid": ["1_1", "1_1"], "docno": ["a", "b"], "label": [0, 2]})
        >>> save_plot(plot_labels({"NIST": qrels}), "labels.svg").name
        'labels.svg'
    """
    from matplotlib import rc_context

    file_format = Path(path).suffix.lower()
    if file_format not in _UNDATED:
        raise UsageError(f"{path}: a plot is saved as {', '.join(_UNDATED)}: end the name with one of them")
    figure: Any = ax.get_figure(root=True)
    with rc_context(_TEXT_AS_TEXT), atomic_write(path, "wb") as file:
        figure.savefig(file, format=file_format[1:], bbox_inches="tight", dpi=_DOTS_PER_INCH, metadata=_UNDATED[file_format])
    return Path(path)
