"""Show what happened: runs as conversations to read, plots, and tables for papers."""

from ..evaluation.experiment_table import table
from ..tables import Table
from .drawing import Drawing, draw
from .ledgers import ledger, ledger_frame, plot_cost, refusals
from .plots import plot_agreement, plot_breakdown, plot_differences, plot_labels, save_plot
from .report import Report, report

__all__ = [
    "Drawing",
    "Report",
    "Table",
    "draw",
    "ledger",
    "ledger_frame",
    "plot_agreement",
    "plot_breakdown",
    "plot_cost",
    "plot_differences",
    "plot_labels",
    "refusals",
    "report",
    "save_plot",
    "table",
]
