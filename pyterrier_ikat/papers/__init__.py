"""The papers' tables and figures, reproduced and shown next to the published scores."""

from .published import PAPERS as PAPERS
from .published import find_table as find_table
from .reproduction import Reproduction as Reproduction
from .reproduction import draw_figure as draw_figure
from .table import PaperTable as PaperTable
