"""Show what happened: runs as conversations to read, plots, and tables for papers."""

from ..evaluation.experiment_table import table
from ..names import module_getattr
from ..tables import Table
from .drawing import Drawing, draw
from .ledgers import ledger, ledger_frame, refusals
from .plots import plot_breakdown, plot_cost, save_plot
from .report import Report, report

__all__ = [
    "Drawing",
    "Report",
    "Table",
    "draw",
    "ledger",
    "ledger_frame",
    "plot_breakdown",
    "plot_cost",
    "refusals",
    "report",
    "save_plot",
    "table",
]

__getattr__ = module_getattr(__name__, __all__)
